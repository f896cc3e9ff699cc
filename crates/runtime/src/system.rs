//! What the machine, or the container, has to offer.

use std::path::Path;

/// Memory this process may use: the smallest of the machine's and the limits of its control groups.
pub fn memory_bytes() -> u64 {
    let machine = read("/proc/meminfo").and_then(|text| {
        let line = text.lines().find(|l| l.starts_with("MemTotal:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib << 10)
    });
    machine.into_iter().chain(group_limits()).min().unwrap_or(1 << 30)
}

/// Limits of the process's control group and those above it, and of version 1's memory controller.
fn group_limits() -> Vec<u64> {
    let own = read("/proc/self/cgroup").unwrap_or_default();
    let path =
        own.lines().find_map(|l| l.strip_prefix("0::")).unwrap_or("/").trim_start_matches('/').to_string();
    let root = Path::new("/sys/fs/cgroup");
    let folder = root.join(path);
    let mut files: Vec<_> =
        folder.ancestors().take_while(|a| a.starts_with(root)).map(|a| a.join("memory.max")).collect();
    files.push(root.join("memory/memory.limit_in_bytes"));
    files.iter().filter_map(|f| std::fs::read_to_string(f).ok()?.trim().parse().ok()).collect()
}

/// Cores this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// CPU time the process has used so far, in microseconds, in user and system mode.
pub fn cpu_micros() -> (u64, u64) {
    // SAFETY: all zeros is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: writes one rusage, ours.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let micros = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
    (micros(usage.ru_utime), micros(usage.ru_stime))
}

/// Number of this process.
pub fn process_id() -> u32 {
    std::process::id()
}

/// The machine's name.
pub fn host_name() -> String {
    read("/proc/sys/kernel/hostname").map_or_else(|| "localhost".into(), |name| name.trim().into())
}

/// Files the process may have open.
pub fn descriptors_max() -> u64 {
    descriptor_limit().rlim_cur
}

fn descriptor_limit() -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes one rlimit, ours.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit
}

/// Raises the soft limit of open files to the hard one.
pub(crate) fn raise_descriptor_limit() {
    let mut limit = descriptor_limit();
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: reads one rlimit. A refusal leaves the limit as it was, which `descriptors_max` shows.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    }
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}
