//! What holds a server: a control group with so much memory, so much of the processors and so many operations of the device a second.
//!
//! A limit of memory keeps the kernel's page cache from helping a server whose pool is small, and is what Keel sizes itself by. Groups are
//! made by root only; elsewhere the limits are left out, and the record says so by their absence.

use std::fs;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a server may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory, page cache included.
    pub memory: Option<u64>,
    /// Reads, and writes, of the device each second.
    pub iops: Option<u32>,
    /// Processors.
    pub cores: Option<u32>,
}

/// Microseconds in which a group may use its share of the processors once.
const PERIOD_US: u32 = 100_000;

/// The groups of one server; removed when dropped, after its end.
#[derive(Debug, Default)]
pub struct Held {
    folders: Vec<PathBuf>,
    /// The limits that could be set, in words.
    pub said: Vec<String>,
}

impl Held {
    /// Groups with these limits for a server whose data lies in `data`.
    pub fn new(limits: &Limits, data: &Path, label: &str) -> Held {
        let mut held = Held::default();
        let name = format!("keel-lab-{}-{label}", std::process::id());
        if let Some(bytes) = limits.memory {
            let text = bytes.to_string();
            let files = [("memory/memory.limit_in_bytes", text.clone()), ("memory.max", text)];
            if held.group(&name, &files) {
                held.said.push(format!("memory {} MiB", bytes >> 20));
            }
        }
        if let Some(cores) = limits.cores {
            let quota = cores * PERIOD_US;
            let v1 = [
                ("cpu/cpu.cfs_period_us", PERIOD_US.to_string()),
                ("cpu/cpu.cfs_quota_us", quota.to_string()),
            ];
            let v2 = [("cpu.max", format!("{quota} {PERIOD_US}"))];
            if held.all(&name, &v1) || held.all(&name, &v2) {
                held.said.push(if cores == 1 { "1 core".into() } else { format!("{cores} cores") });
            }
        }
        if let (Some(iops), Some(device)) = (limits.iops, device(data)) {
            let one = format!("{device} {iops}");
            let v1 = [
                ("blkio/blkio.throttle.read_iops_device", one.clone()),
                ("blkio/blkio.throttle.write_iops_device", one),
            ];
            let v2 = [("io.max", format!("{device} riops={iops} wiops={iops}"))];
            if held.all(&name, &v1) || held.all(&name, &v2) {
                held.said.push(format!("{iops} reads/s and {iops} writes/s of the device"));
            }
        }
        held
    }

    /// The first of the files that there are gets its value.
    fn group(&mut self, name: &str, files: &[(&str, String)]) -> bool {
        files.iter().any(|file| self.all(name, std::slice::from_ref(file)))
    }

    fn all(&mut self, name: &str, files: &[(&str, String)]) -> bool {
        files.iter().all(|(file, value)| {
            let (controller, file) = file.split_once('/').unwrap_or(("", file));
            let folder = Path::new("/sys/fs/cgroup").join(controller).join(name);
            // Elsewhere than in the kernel's file system a write would make a file.
            let made = folder.exists()
                || (folder.parent().is_some_and(Path::exists) && fs::create_dir(&folder).is_ok());
            if made && !self.folders.contains(&folder) {
                self.folders.push(folder.clone());
            }
            made && folder.join(file).exists() && fs::write(folder.join(file), value).is_ok()
        })
    }

    /// The words of a command that runs the words behind it within the groups.
    pub fn wrapper(&self) -> Vec<String> {
        if self.folders.is_empty() {
            return Vec::new();
        }
        let enter = |folder: &PathBuf| format!("echo $$ > {}/cgroup.procs && ", folder.display());
        let enter: String = self.folders.iter().map(enter).collect();
        vec!["sh".into(), "-c".into(), format!("{enter}exec \"$0\" \"$@\"")]
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for folder in &self.folders {
            // A group can be removed once the kernel is through with what ended in it.
            for _ in 0..100 {
                if fs::remove_dir(folder).is_ok() || !folder.exists() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Major and minor number of the whole device below a folder.
pub fn device(folder: &Path) -> Option<String> {
    let number = fs::metadata(folder).ok()?.st_dev();
    let (major, minor) = ((number >> 8) & 0xfff, (number & 0xff) | ((number >> 12) & 0xfff00));
    let block = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    // Limits are of devices, not of their partitions.
    let whole = if block.join("partition").exists() { block.parent()?.to_path_buf() } else { block };
    Some(fs::read_to_string(whole.join("dev")).ok()?.trim().to_string())
}

/// The I/O scheduler of the device below a folder.
pub fn scheduler(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(format!("/sys/dev/block/{}/queue/scheduler", device(folder)?)).ok()?;
    let chosen = text.split('[').nth(1)?.split(']').next()?;
    Some(chosen.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limits_need_no_groups() {
        let held = Held::new(&Limits::default(), Path::new("/"), "none");
        assert!(held.wrapper().is_empty() && held.said.is_empty());
    }

    #[test]
    fn a_group_is_entered_by_what_it_holds_and_goes_with_it() {
        let limits = Limits { memory: Some(64 << 20), iops: None, cores: Some(1) };
        let held = Held::new(&limits, Path::new("/"), "test");
        // Others than root cannot make groups, and say so by their absence.
        let words = held.wrapper();
        if held.said.len() == 2 {
            assert_eq!(held.said, ["memory 64 MiB", "1 core"]);
            let output = std::process::Command::new(&words[0])
                .args(&words[1..])
                .args(["cat", "/proc/self/cgroup"])
                .output()
                .expect("runs");
            let groups = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(groups.contains(&format!("keel-lab-{}-test", std::process::id())), "{groups}");
        }
        let folders = held.folders.clone();
        drop(held);
        assert!(folders.iter().all(|folder| !folder.exists()), "{folders:?}");
    }
}
