//! A limit of memory as containers have one: a control group in which a server runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A control group with a limit of memory; removed when dropped, after its processes have ended.
pub struct Container {
    folder: PathBuf,
    v2: bool,
}

impl Container {
    /// A group with `bytes` of memory; none where this process may not make one.
    pub fn new(bytes: u64) -> Option<Container> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("keel-test-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let places = [("/sys/fs/cgroup/memory", false), ("/sys/fs/cgroup", true)];
        places.into_iter().find_map(|(root, v2)| {
            let container = Container { folder: Path::new(root).join(&name), v2 };
            fs::create_dir(&container.folder).ok()?;
            let limit = if v2 { "memory.max" } else { "memory.limit_in_bytes" };
            // Elsewhere than in the kernel's file system this would make a file.
            let limit = container.folder.join(limit);
            (limit.exists() && fs::write(limit, bytes.to_string()).is_ok()).then_some(container)
        })
    }

    /// The words of a command that runs the words behind it within the group.
    pub fn wrapper(&self) -> Vec<String> {
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", self.folder.display());
        vec!["sh".into(), "-c".into(), enter]
    }

    /// How often the kernel killed for want of memory here.
    pub fn kills(&self) -> u64 {
        let file = if self.v2 { "memory.events" } else { "memory.oom_control" };
        let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // A group can be removed once the kernel is through with what ended in it.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() || !self.folder.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
