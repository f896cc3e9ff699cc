//! Facts of the machine, and the hour.

use std::fs;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::limits;
use crate::record::Machine;

/// Cores that this process may use.
pub fn cores() -> u32 {
    available_parallelism().map_or(1, |cores| cores.get() as u32)
}

/// Cores of servers and of the client, where there are enough to part: a quarter, at least one of four, is the client's.
pub fn parted() -> Option<(String, String)> {
    part(cores())
}

fn part(cores: u32) -> Option<(String, String)> {
    let client = (cores / 4).max(1);
    let servers = cores.checked_sub(client).filter(|_| cores >= 4)?;
    Some((format!("0-{}", servers - 1), format!("{servers}-{}", cores - 1)))
}

/// The machine, with its data in `folder`.
pub fn facts(folder: &Path) -> Machine {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let field = |text: &str, name: &str| -> String {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map_or("", |(_, value)| value).trim().to_string()
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let kib: u64 = memory.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    Machine {
        processor: field(&read("/proc/cpuinfo"), "model name"),
        cores: cores(),
        memory: kib << 10,
        kernel: read("/proc/sys/kernel/osrelease").trim().to_string(),
        file_system: file_system(folder, &read("/proc/self/mounts")),
        scheduler: limits::scheduler(folder),
        client_cores: parted().map(|(_, client)| client),
    }
}

/// The file system of a folder: of the mount whose path is the longest beginning of its own.
fn file_system(folder: &Path, mounts: &str) -> String {
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        Some((words.next()?, words.next()?))
    });
    let above = mounts.filter(|(path, _)| folder.starts_with(path));
    above.max_by_key(|(path, _)| path.len()).map_or(String::new(), |(_, kind)| kind.to_string())
}

/// The present hour in UTC, RFC 3339.
pub fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    rfc3339(seconds)
}

fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days of a year that begins in March: then the leap day is its last one.
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year_of_era + era * 400 + carry;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hour_is_written_as_everybody_writes_it() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_700_000_000), "2023-11-14T22:13:20Z");
    }

    #[test]
    fn cores_are_parted_where_there_are_enough() {
        assert_eq!(part(2), None);
        assert_eq!(part(4), Some(("0-2".into(), "3-3".into())));
        assert_eq!(part(16), Some(("0-11".into(), "12-15".into())));
    }

    #[test]
    fn the_longest_mount_counts() {
        let mounts = "/dev/a / ext4 rw 0 0\nnone /tmp tmpfs rw 0 0\n";
        assert_eq!(file_system(Path::new("/tmp/no/such"), mounts), "tmpfs");
        assert_eq!(file_system(Path::new("/var"), mounts), "ext4");
    }
}
