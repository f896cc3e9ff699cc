//! What the machine, or the container, has to offer.

use std::path::Path;

/// Memory this process may use: the smallest of the machine's and the limits of its control groups.
pub fn memory_bytes() -> u64 {
    let limit = crate::cgroup::memory_limit(Path::new("/")).unwrap_or(u64::MAX);
    machine_memory_bytes().min(limit)
}

/// The machine's memory, whatever this process may use of it.
pub fn machine_memory_bytes() -> u64 {
    read("/proc/meminfo").and_then(|text| field(&text, "MemTotal:")).unwrap_or(1 << 30)
}

/// Memory that is this process's own now, as its control group counts it: without files that it maps, with page tables.
pub fn memory_used_bytes() -> u64 {
    let text = read("/proc/self/status").unwrap_or_default();
    ["RssAnon:", "VmPTE:"].iter().filter_map(|name| field(&text, name)).sum()
}

/// A field of one of the kernel's texts that counts kibibytes, in bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
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

/// The effective user of this process.
pub fn user_id() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// The user that a file or folder belongs to.
pub fn owner_of(path: &Path) -> Option<u32> {
    std::fs::metadata(path).ok().map(|found| std::os::unix::fs::MetadataExt::uid(&found))
}

/// The name of a user of this machine.
pub fn user_name(uid: u32) -> Option<String> {
    // SAFETY: all zeros is a valid passwd.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut buffer = [0u8; 4096];
    let mut found = std::ptr::null_mut();
    // SAFETY: entry, buffer with its length and result are ours and outlive the call.
    let result =
        unsafe { libc::getpwuid_r(uid, &mut entry, buffer.as_mut_ptr().cast(), buffer.len(), &mut found) };
    if result != 0 || found.is_null() || entry.pw_name.is_null() {
        return None;
    }
    // SAFETY: a found entry's name is a string that ends with zero, within the buffer.
    let name = unsafe { std::ffi::CStr::from_ptr(entry.pw_name) };
    name.to_str().ok().map(String::from)
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

/// Sets the umask of the process to 0006: new files keep the permissions of their group, and give none to others.
pub fn set_umask() {
    // SAFETY: plain system call that cannot fail.
    unsafe { libc::umask(0o006) };
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}
