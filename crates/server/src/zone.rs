//! Time zones of sessions: `SYSTEM` and offsets from UTC.
//!
//! Named zones need MariaDB's time zone tables, which a fresh MariaDB does not have loaded either: naming one is error 1298.

use std::sync::Arc;

use keel_value::DateTime;
use keel_value::temporal::{Utc, Zone};

/// A zone that sessions share.
pub type SharedZone = Arc<dyn Zone + Send + Sync>;

/// A fixed offset from UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Offset {
    seconds: i64,
}

impl Offset {
    fn moved(self, from: DateTime, seconds: i64) -> DateTime {
        DateTime::from_unix(from.to_unix() + seconds, from.micros)
    }
}

impl Zone for Offset {
    fn to_local(&self, utc: DateTime) -> DateTime {
        self.moved(utc, self.seconds)
    }

    fn to_utc(&self, local: DateTime) -> Option<DateTime> {
        Some(self.moved(local, -self.seconds))
    }
}

/// The server's own zone.
pub fn system() -> SharedZone {
    Arc::new(Utc)
}

/// The zone of a value of `time_zone`, or None where MariaDB answers 1298.
pub fn named(text: &str) -> Option<SharedZone> {
    if text.eq_ignore_ascii_case("SYSTEM") {
        return Some(system());
    }
    let seconds = offset_seconds(text)?;
    Some(if seconds == 0 { Arc::new(Utc) } else { Arc::new(Offset { seconds }) })
}

/// How `@@time_zone` prints an accepted value: offsets with two digits.
pub fn canonical(text: &str) -> Option<String> {
    if text.eq_ignore_ascii_case("SYSTEM") {
        return Some("SYSTEM".into());
    }
    let seconds = offset_seconds(text)?;
    let sign = if text.trim_start().starts_with('-') { '-' } else { '+' };
    Some(format!("{sign}{:02}:{:02}", seconds.abs() / 3600, seconds.abs() / 60 % 60))
}

/// Offsets from -12:59 to +14:00.
fn offset_seconds(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let (hours, minutes) = digits.split_once(':')?;
    let parse = |part: &str, most: usize| {
        let fits = (1..=most).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        if fits { part.parse::<i64>().ok() } else { None }
    };
    let (hours, minutes) = (parse(hours, 2)?, parse(minutes, 2)?);
    let seconds = sign * (hours * 3600 + minutes * 60);
    (minutes < 60 && (-(12 * 3600 + 59 * 60)..=14 * 3600).contains(&seconds)).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_as_mariadb_reads_them() {
        assert_eq!(offset_seconds("+5:30"), Some(19_800));
        assert_eq!(offset_seconds("-12:59"), Some(-46_740));
        assert_eq!(canonical("+5:30").as_deref(), Some("+05:30"));
        assert_eq!(canonical("system").as_deref(), Some("SYSTEM"));
        for bad in ["foo", "+14:01", "-13:00", "5:30", "+5", "+1:60", "", "+:", "+001:00"] {
            assert!(named(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn local_time_goes_back_and_forth() {
        let zone = named("+05:30").unwrap();
        let utc = DateTime::from_unix(0, 7);
        let local = zone.to_local(utc);
        assert_eq!((local.hour, local.minute, local.micros), (5, 30, 7));
        assert_eq!(zone.to_utc(local), Some(utc));
    }
}
