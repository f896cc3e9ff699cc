//! How much memory there is to use: the container's limit, or the machine's memory.

use std::path::Path;

use keel_runtime::fs::{File, OpenOptions};

/// The least pool that a server takes by itself.
const POOL_BYTES_MIN: u64 = 128 << 20;

/// The pool of a server that was not told its size: half of the memory. Its pages take memory as they are used.
pub fn default_pool_bytes() -> u64 {
    memory_bytes().map_or(POOL_BYTES_MIN, |bytes| (bytes / 2).max(POOL_BYTES_MIN)) & !((1 << 20) - 1)
}

/// The machine's memory, whatever the container may use of it.
pub fn machine_bytes() -> u64 {
    read("/proc/meminfo").and_then(|text| total_of(&text)).unwrap_or(POOL_BYTES_MIN)
}

fn memory_bytes() -> Option<u64> {
    let machine = read("/proc/meminfo").and_then(|text| total_of(&text));
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let container = limits.into_iter().find_map(read).and_then(|text| text.trim().parse::<u64>().ok());
    match (machine, container) {
        (Some(machine), Some(container)) => Some(machine.min(container)),
        (machine, container) => machine.or(container),
    }
}

/// `MemTotal` of /proc/meminfo in octets.
fn total_of(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().split(' ').next()?.parse().ok()?;
    Some(kib << 10)
}

/// The first page of a file of the kernel's, whose length cannot be asked for.
pub fn read(path: &str) -> Option<String> {
    let file = File::open(Path::new(path), &OpenOptions::reading()).ok()?;
    let mut bytes = vec![0; 4096];
    let length = file.read_some_at(&mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_kernels_text() {
        assert_eq!(total_of("MemTotal:       24689764 kB\nMemFree: 1 kB\n"), Some(24_689_764 << 10));
        assert_eq!(total_of("nothing"), None);
    }
}
