//! Limits of memory that control groups set: versions 1 and 2, this process's group and all above it that it can see.

use std::path::{Path, PathBuf};

/// Files of a group that hold a limit: `memory.high` throttles long before `memory.max` kills.
const LIMITS_V2: [&str; 2] = ["memory.max", "memory.high"];
const LIMITS_V1: [&str; 1] = ["memory.limit_in_bytes"];

/// The least limit on the way from this process's group to the root; the files of `/proc` and those that it names are looked
/// for below `prefix`. Unlimited groups of version 1 give a number beyond all memory.
pub(crate) fn memory_limit(prefix: &Path) -> Option<u64> {
    let mounts = read(&below(prefix, "/proc/self/mountinfo"))?;
    let groups = read(&below(prefix, "/proc/self/cgroup"))?;
    mounts.lines().filter_map(Mount::read).filter_map(|mount| mount.limit(prefix, &groups)).min()
}

/// A mounted hierarchy of groups that knows of memory.
struct Mount<'a> {
    /// The group that is mounted.
    root: &'a str,
    point: &'a str,
    v2: bool,
}

impl<'a> Mount<'a> {
    /// Reads a line of `mountinfo`; none for other file systems.
    fn read(line: &'a str) -> Option<Mount<'a>> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, point) = (place.next()?, place.next()?);
        let mut kind = kind.split(' ');
        let v2 = match kind.next()? {
            "cgroup2" => true,
            "cgroup" if kind.nth(1)?.split(',').any(|option| option == "memory") => false,
            _ => return None,
        };
        Some(Mount { root, point, v2 })
    }

    /// This process's group in the hierarchy.
    fn group<'g>(&self, groups: &'g str) -> Option<&'g str> {
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let ours = match self.v2 {
                true => controllers.is_empty(),
                false => controllers.split(',').any(|controller| controller == "memory"),
            };
            ours.then_some(path)
        })
    }

    fn limit(&self, prefix: &Path, groups: &str) -> Option<u64> {
        let point = below(prefix, self.point);
        let group = self.group(groups)?;
        // A group outside of what is mounted is that of the container's host: its mount is all that can be seen.
        let within = group.strip_prefix(self.root.trim_end_matches('/')).unwrap_or("");
        let own = point.join(within.trim_start_matches('/'));
        let files: &[&str] = if self.v2 { &LIMITS_V2 } else { &LIMITS_V1 };
        own.ancestors()
            .take_while(|folder| folder.starts_with(&point))
            .flat_map(|folder| files.iter().map(|file| folder.join(file)))
            .filter_map(|file| read(&file)?.trim().parse().ok())
            .chain(read(&own.join("memory.stat")).as_deref().and_then(hierarchical_limit))
            .min()
    }
}

/// The least limit of a group and of all above it, those that a container cannot see too; version 1 alone says it.
fn hierarchical_limit(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("hierarchical_memory_limit ")?.trim().parse().ok())
}

fn below(prefix: &Path, path: &str) -> PathBuf {
    prefix.join(path.trim_start_matches('/'))
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folders as `/` of a container; removed when dropped.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, files: &[(&str, &str)]) -> Root {
            let root = std::env::temp_dir().join(format!("keel-cgroup-{name}-{}", std::process::id()));
            for (path, text) in files {
                let file = root.join(path);
                std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
                std::fs::write(file, text).expect("written");
            }
            Root(root)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const V2: &str = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_least_limit_on_the_way_up_counts() {
        let root = Root::new(
            "nested",
            &[
                ("proc/self/mountinfo", V2),
                ("proc/self/cgroup", "0::/a/b/c\n"),
                ("sys/fs/cgroup/a/memory.max", "1000000\n"),
                ("sys/fs/cgroup/a/memory.high", "max\n"),
                ("sys/fs/cgroup/a/b/memory.max", "2000000\n"),
                ("sys/fs/cgroup/a/b/c/memory.max", "max\n"),
            ],
        );
        assert_eq!(memory_limit(&root.0), Some(1_000_000));
    }

    #[test]
    fn a_throttled_group_counts_as_limited() {
        let root = Root::new(
            "high",
            &[
                ("proc/self/mountinfo", V2),
                ("proc/self/cgroup", "0::/\n"),
                ("sys/fs/cgroup/memory.max", "2000000\n"),
                ("sys/fs/cgroup/memory.high", "1500000\n"),
            ],
        );
        assert_eq!(memory_limit(&root.0), Some(1_500_000));
    }

    #[test]
    fn version_1_is_found_where_it_is_mounted() {
        let mounts = "40 30 0:35 /docker/12 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
                      41 30 0:36 /docker/12 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n";
        let root = Root::new(
            "v1",
            &[
                ("proc/self/mountinfo", mounts),
                ("proc/self/cgroup", "4:memory:/docker/12/inner\n3:cpu:/docker/12\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
                ("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "9223372036854771712\n"),
                ("sys/fs/cgroup/cpu/memory.limit_in_bytes", "1\n"),
            ],
        );
        assert_eq!(memory_limit(&root.0), Some(512 << 20));
    }

    #[test]
    fn a_limit_above_what_is_mounted_counts() {
        let mounts = "40 30 0:35 /pod/12 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let root = Root::new(
            "above",
            &[
                ("proc/self/mountinfo", mounts),
                ("proc/self/cgroup", "4:memory:/pod/12\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
                (
                    "sys/fs/cgroup/memory/memory.stat",
                    "cache 1\nhierarchical_memory_limit 268435456\ntotal_cache 1\n",
                ),
            ],
        );
        assert_eq!(memory_limit(&root.0), Some(256 << 20));
    }

    #[test]
    fn without_groups_there_is_no_limit() {
        let root = Root::new("none", &[("proc/self/mountinfo", "1 1 8:1 / / rw - ext4 /dev/a rw\n")]);
        assert_eq!(memory_limit(&root.0), None);
        assert_eq!(memory_limit(Path::new("/nowhere")), None);
    }
}
