//! Lines on the standard output and the standard error, in the form of MariaDB's error log:
//! `2026-11-29  8:04:05 0 [Note] keel: ready`. Times are UTC. A closed pipe is not an error.

use std::fmt;
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

/// Writes a note to the standard output.
pub fn note(text: impl fmt::Display) {
    let _ = writeln!(io::stdout(), "{}", line(now(), "Note", text));
}

/// Writes a warning to the standard error.
pub fn warning(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{}", line(now(), "Warning", text));
}

/// Writes an error to the standard error.
pub fn error(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{}", line(now(), "ERROR", text));
}

/// Seconds since 1970. Lines carry the machine's time in a simulated world too: a person reads them.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

fn line(unix_seconds: i64, severity: &str, text: impl fmt::Display) -> String {
    // SAFETY: all zeros is a valid tm.
    let mut utc: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: reads one time_t and writes one tm, both ours.
    unsafe { libc::gmtime_r(&unix_seconds, &mut utc) };
    let (year, month) = (utc.tm_year + 1900, utc.tm_mon + 1);
    let (day, hour, minute, second) = (utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
    format!("{year:04}-{month:02}-{day:02} {hour:2}:{minute:02}:{second:02} 0 [{severity}] keel: {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_carry_the_time_in_utc() {
        assert_eq!(line(1_795_937_445, "Note", "ready"), "2026-11-29  7:30:45 0 [Note] keel: ready");
        assert_eq!(line(0, "ERROR", "x"), "1970-01-01  0:00:00 0 [ERROR] keel: x");
    }
}
