//! libFuzzer around the targets of `tools/fuzz`; `KEEL_FUZZ_TARGET` names one. Built and run by `cargo x fuzz`.
//! With `KEEL_FUZZ_SAMPLES` it writes the target's samples to that folder instead.
#![no_main]

use std::sync::LazyLock;

use keel_fuzz::{TARGETS, Target};

static TARGET: LazyLock<&'static Target> = LazyLock::new(|| {
    let name = std::env::var("KEEL_FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("KEEL_FUZZ_TARGET names no target: {name:?}"))
});

fn write_samples() {
    let Some(folder) = std::env::var_os("KEEL_FUZZ_SAMPLES") else { return };
    for (index, sample) in (TARGET.samples)().iter().enumerate() {
        let path = std::path::Path::new(&folder).join(format!("sample-{index}"));
        std::fs::write(path, sample).expect("the folder takes samples");
    }
    std::process::exit(0);
}

libfuzzer_sys::fuzz_target!(init: write_samples(), |data: &[u8]| (TARGET.run)(data));
