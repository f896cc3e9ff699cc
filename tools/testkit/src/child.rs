//! Processes that must not outlive their parent, signals that end a run in good order, and what the kernel knows of a process.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::SeqCst);
}

/// From now on Ctrl-C and SIGTERM only make [`interrupted`] true.
pub fn catch_interrupts() {
    let handler: extern "C" fn(libc::c_int) = note;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler stores to an atomic and does nothing else, which a handler may.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

/// Whether somebody asked for the end.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// A command whose process is killed when the calling thread ends, and which a terminal's Ctrl-C does not reach.
pub fn contained(command: &mut Command) -> &mut Command {
    command.process_group(0);
    // SAFETY: prctl is a plain system call; nothing is allocated between fork and exec.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        })
    }
}

/// SIGTERM, so long to end, then SIGKILL.
pub fn end(child: &mut Child, max: Duration) -> io::Result<ExitStatus> {
    if let Some(status) = child.try_wait()? {
        return Ok(status);
    }
    // SAFETY: a plain system call on the id of a child that has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    let deadline = Instant::now() + max;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill()?;
    child.wait()
}

/// SIGINT, as Ctrl-C sends it.
pub fn interrupt(child: &mut Child) {
    if let Ok(None) = child.try_wait() {
        // SAFETY: a plain system call on the id of a child that has not been waited for.
        unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    }
}

/// SIGKILL to a child that [`contained`] has started, and to all that it has started itself and that are of its group.
pub fn kill_group(child: &mut Child) {
    if let Ok(None) = child.try_wait() {
        // SAFETY: a plain system call. The group is named by the child, which has not been waited for.
        unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
        child.wait().ok();
    }
}

/// Whether this process is root.
pub fn is_root() -> bool {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// Lets this process open as many files as its hard limit says; how many that are.
pub fn raise_file_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls read or write only the struct given.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
    limit.rlim_cur
}

/// Processor time that a process used so far, user and system together, of threads that have ended too.
pub fn cpu_time(pid: u32) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
    let ticks: u64 = fields.iter().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    // SAFETY: sysconf has no preconditions.
    let hertz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as u64;
    Some(Duration::from_millis(ticks * 1000 / hertz.max(1)))
}
