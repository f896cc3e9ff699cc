//! Disks of the lab's own: files as loop devices, with a file system and an I/O scheduler. Only root can make them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use keel_testkit::child::is_root;

use crate::engines::in_path;

/// What a disk is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DiskKind {
    /// `ext4`, `xfs`.
    pub file_system: &'static str,
    /// `none`, `mq-deadline`, `bfq`; the kernel's choice if not said.
    pub scheduler: Option<&'static str>,
    /// Its size.
    pub bytes: u64,
}

/// A mounted disk; taken apart when dropped.
pub struct Disk {
    device: String,
    /// Where it is mounted.
    pub mount: PathBuf,
    image: PathBuf,
}

/// Why such disks cannot be made here, if they cannot.
pub fn lacking(kind: &DiskKind) -> Option<String> {
    if !is_root() {
        return Some("a disk of its own needs root (losetup, mount)".into());
    }
    let make = format!("mkfs.{}", kind.file_system);
    let package = if kind.file_system == "xfs" { "xfsprogs" } else { "e2fsprogs" };
    if in_path(&make).is_none() {
        return Some(format!("{make} is not installed (Debian's package {package})"));
    }
    match in_path("losetup") {
        Some(_) => None,
        None => Some("losetup is not installed (Debian's package mount)".into()),
    }
}

impl Disk {
    /// Makes and mounts a disk in `folder`.
    pub fn new(folder: &Path, name: &str, kind: &DiskKind) -> Result<Disk, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let (image, mount) = (folder.join(format!("{name}.img")), folder.join(name));
        fs::remove_file(&image).ok();
        let path = |path: &Path| path.display().to_string();
        run("fallocate", &["-l", &kind.bytes.to_string(), &path(&image)])?;
        let device = run("losetup", &["-f", "--show", "--direct-io=on", &path(&image)])?;
        let disk = Disk { device: device.trim().to_string(), mount, image };
        if let Some(scheduler) = kind.scheduler {
            disk.schedule(scheduler)?;
        }
        let force = if kind.file_system == "xfs" { "-f" } else { "-F" };
        run(&format!("mkfs.{}", kind.file_system), &["-q", force, &disk.device])?;
        fs::create_dir_all(&disk.mount).map_err(|error| error.to_string())?;
        run("mount", &[&disk.device, &path(&disk.mount)])?;
        Ok(disk)
    }

    fn schedule(&self, scheduler: &str) -> Result<(), String> {
        let name = self.device.rsplit('/').next().unwrap_or_default();
        let file = format!("/sys/block/{name}/queue/scheduler");
        fs::write(&file, scheduler)
            .map_err(|error| format!("the kernel has no scheduler {scheduler} for {name}: {error}"))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run("umount", &[&self.mount.display().to_string()]).ok();
        run("losetup", &["-d", &self.device]).ok();
        fs::remove_file(&self.image).ok();
        fs::remove_dir(&self.mount).ok();
    }
}

/// Takes apart the disks in `folder` that a killed run has left.
pub fn clear(folder: &Path) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    for line in mounts.lines() {
        let mut words = line.split_whitespace();
        let (Some(device), Some(mount)) = (words.next(), words.next()) else { continue };
        if device.starts_with("/dev/loop") && Path::new(mount).starts_with(folder) {
            run("umount", &[mount]).ok();
            run("losetup", &["-d", device]).ok();
        }
    }
}

fn run(program: &str, args: &[&str]) -> Result<String, String> {
    let file = in_path(program).ok_or_else(|| format!("{program} is not installed"))?;
    let output = Command::new(file).args(args).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{program} {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}
