//! Zones by name: `SYSTEM`, offsets such as `+05:30`, and the zones of the IANA database, which is built in.
//!
//! 1. Of a named zone those changes of its clock are kept that lie in the range of TIMESTAMP; before the first the clock is
//!    as it was when 1970 began.
//! 2. A wall clock that shows a time twice means the first, and one that skips a time means the end of the gap, as in MariaDB.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, OnceLock};

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::{DateTime, FixedOffset, TIMESTAMP_MAX, Utc, Zone};

/// A zone that sessions share.
pub type SharedZone = Arc<dyn Zone + Send + Sync>;

/// How a clock stands from a moment on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Standing {
    /// Seconds ahead of UTC.
    pub offset: i32,
    /// Whether it is summer time.
    pub is_summer: bool,
    /// What the zone is called then.
    pub abbreviation: String,
}

/// A zone of the database.
#[derive(Debug)]
pub struct NamedZone {
    /// Seconds of UTC at which the clock changes, ascending.
    starts: Vec<i64>,
    /// How it stands before the first of them, and from each of them on.
    standings: Vec<Standing>,
}

impl NamedZone {
    fn read(zone: &TimeZone) -> NamedZone {
        let info = zone.to_offset_info(Timestamp::UNIX_EPOCH);
        let first = Standing {
            offset: info.offset().seconds(),
            is_summer: info.dst().is_dst(),
            abbreviation: info.abbreviation().to_string(),
        };
        let mut read = NamedZone { starts: Vec::new(), standings: vec![first] };
        for change in zone.following(Timestamp::UNIX_EPOCH) {
            let start = change.timestamp().as_second();
            if start > TIMESTAMP_MAX {
                break;
            }
            read.starts.push(start);
            read.standings.push(Standing {
                offset: change.offset().seconds(),
                is_summer: change.dst().is_dst(),
                abbreviation: change.abbreviation().to_string(),
            });
        }
        read
    }

    /// When the clock changes and how it stands from then on; the first, without a moment, before all changes.
    pub fn changes(&self) -> impl Iterator<Item = (Option<i64>, &Standing)> {
        let starts = std::iter::once(None).chain(self.starts.iter().copied().map(Some));
        starts.zip(&self.standings)
    }

    fn offset(&self, segment: usize) -> i64 {
        i64::from(self.standings[segment].offset)
    }

    /// The second of UTC that a wall clock means, and whether the clock skips it.
    fn second_of(&self, local: i64) -> (i64, bool) {
        const DAY: i64 = 86_400;
        let mut segment = self.starts.partition_point(|start| *start <= local - DAY);
        loop {
            let second = local - self.offset(segment);
            match self.starts.get(segment) {
                Some(end) if second >= *end => {
                    if local < end + self.offset(segment + 1) {
                        return (*end, true);
                    }
                    segment += 1;
                }
                _ => return (second, false),
            }
        }
    }
}

impl NamedZone {
    /// The later second of UTC that a wall clock means where it means two, else the only one.
    fn later_second_of(&self, local: i64, first: i64) -> i64 {
        let segment = self.starts.partition_point(|start| *start <= first);
        match self.starts.get(segment) {
            Some(start) if local >= start + self.offset(segment + 1) => local - self.offset(segment + 1),
            _ => first,
        }
    }
}

impl Zone for NamedZone {
    fn to_local(&self, utc: DateTime) -> DateTime {
        let second = utc.to_unix();
        let segment = self.starts.partition_point(|start| *start <= second);
        let local = second + self.offset(segment);
        let repeated = segment > 0 && local < self.starts[segment - 1] + self.offset(segment - 1);
        DateTime { repeated, ..DateTime::from_unix(local, utc.micros) }
    }

    fn to_utc(&self, local: DateTime) -> (DateTime, bool) {
        let (mut second, is_skipped) = self.second_of(local.to_unix());
        if local.repeated {
            second = self.later_second_of(local.to_unix(), second);
        }
        (DateTime::from_unix(second, local.micros), is_skipped)
    }
}

/// A name of the database as it is spelt there, and its zone once somebody has asked for it.
struct KnownZone {
    name: String,
    zone: OnceLock<Arc<NamedZone>>,
}

static ZONES: LazyLock<BTreeMap<String, KnownZone>> = LazyLock::new(|| {
    let names = TimeZoneDatabase::bundled();
    names
        .available()
        .map(|name| {
            let name = name.to_string();
            (name.to_ascii_lowercase(), KnownZone { name, zone: OnceLock::new() })
        })
        .collect()
});

impl KnownZone {
    fn zone(&self) -> Arc<NamedZone> {
        let read = || {
            let zone = TimeZoneDatabase::bundled().get(&self.name).unwrap_or(TimeZone::UTC);
            Arc::new(NamedZone::read(&zone))
        };
        self.zone.get_or_init(read).clone()
    }
}

/// All zones of the database in the order of their names.
pub fn all() -> impl Iterator<Item = (&'static str, Arc<NamedZone>)> {
    let mut known: Vec<&'static KnownZone> = ZONES.values().collect();
    known.sort_by(|a, b| a.name.cmp(&b.name));
    known.into_iter().map(|known| (&*known.name, known.zone()))
}

/// The zone that a text names and how `@@time_zone` prints it; `None` where it names none.
pub fn find(text: &str) -> Option<(String, SharedZone)> {
    if text.eq_ignore_ascii_case("SYSTEM") {
        return Some(("SYSTEM".into(), Arc::new(Utc)));
    }
    if let Some(seconds) = offset_seconds(text) {
        let sign = if text.starts_with('-') { '-' } else { '+' };
        let name = format!("{sign}{:02}:{:02}", seconds.abs() / 3600, seconds.abs() / 60 % 60);
        return Some((name, if seconds == 0 { Arc::new(Utc) } else { Arc::new(FixedOffset(seconds)) }));
    }
    let known = ZONES.get(&text.to_ascii_lowercase())?;
    Some((known.name.clone(), known.zone()))
}

/// The seconds of an offset from -12:59 to +13:00.
fn offset_seconds(text: &str) -> Option<i32> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let (hours, minutes) = digits.split_once(':')?;
    let parse = |part: &str| {
        let fits = (1..=2).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        if fits { part.parse::<i32>().ok() } else { None }
    };
    let (hours, minutes) = (parse(hours)?, parse(minutes)?);
    let seconds = sign * (hours * 3600 + minutes * 60);
    (minutes < 60 && (-(12 * 3600 + 59 * 60)..=13 * 3600).contains(&seconds)).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime {
        super::super::parse_datetime(text.as_bytes(), super::super::DateRules::WHOLE).unwrap().value
    }

    #[test]
    fn offsets_are_read_as_mariadb_reads_them() {
        assert_eq!(offset_seconds("+5:30"), Some(19_800));
        assert_eq!(offset_seconds("-12:59"), Some(-46_740));
        assert_eq!(find("+5:30").unwrap().0, "+05:30");
        assert_eq!(find("system").unwrap().0, "SYSTEM");
        for bad in ["foo", "+13:01", "-13:00", "5:30", "+5", "+1:60", "", "+:", "+001:00", " UTC"] {
            assert!(find(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_named_zone_goes_back_and_forth() {
        let (name, zone) = find("europe/paris").unwrap();
        assert_eq!(name, "Europe/Paris");
        for (utc, local) in [
            ("1970-01-01 00:00:01", "1970-01-01 01:00:01"),
            ("2024-03-31 00:59:59", "2024-03-31 01:59:59"),
            ("2024-03-31 01:00:00", "2024-03-31 03:00:00"),
            ("2024-10-27 00:30:00", "2024-10-27 02:30:00"),
            ("2037-07-01 00:00:00", "2037-07-01 02:00:00"),
        ] {
            assert_eq!(zone.to_local(at(utc)), at(local));
            assert_eq!(zone.to_utc(at(local)), (at(utc), false));
        }
        let later = zone.to_local(at("2024-10-27 01:30:00"));
        assert_eq!(later, DateTime { repeated: true, ..at("2024-10-27 02:30:00") });
        assert_eq!(zone.to_utc(later), (at("2024-10-27 01:30:00"), false));
        assert!(!zone.to_local(at("2024-10-27 02:00:00")).repeated);
    }

    #[test]
    fn a_skipped_time_is_the_end_of_its_gap() {
        let (_, zone) = find("Europe/Paris").unwrap();
        assert_eq!(zone.to_utc(at("2024-03-31 02:30:00")), (at("2024-03-31 01:00:00"), true));
        let (_, zone) = find("Pacific/Apia").unwrap();
        assert_eq!(zone.to_utc(at("2011-12-30 12:00:00")), (at("2011-12-30 10:00:00"), true));
    }

    #[test]
    fn every_zone_can_be_read() {
        assert!(all().count() > 500);
        for (name, zone) in all() {
            for second in (0..TIMESTAMP_MAX).step_by(40_000_000) {
                let utc = DateTime::from_unix(second, 0);
                let (back, is_skipped) = zone.to_utc(zone.to_local(utc));
                assert!(!is_skipped && utc == back, "{name} {second}");
            }
        }
    }
}
