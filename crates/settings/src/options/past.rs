//! Names that are no system variables of MariaDB 10.11 and yet stand in option files: of older versions, of MySQL, XtraDB and
//! TencentDB, options that never were variables, and misspelt ones that are in print.
//!
//! `past.tsv` lists them. A name is passed over only if nobody loses access control, data or replication by that. What asks for
//! more than the server does is refused with a reason. Options of plugins stand
//! with their full names: a misspelt one is an unknown variable, as in MariaDB.

use std::sync::LazyLock;

use hashbrown::HashMap;

/// What such a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Was {
    /// The family has removed it, or passes it over, since that version.
    Obsolete(&'static str),
    /// A name of another member of the family, from that version on.
    Foreign(&'static str),
    /// An option that was never a variable.
    Idle,
    /// That version's name of a variable, or MariaDB's name of it as an option where there is none.
    Renamed(&'static str),
    /// In print, but no version has it.
    Misspelt,
    /// It asks for what the server does not do. These values are taken; where none is listed, those that switch it off.
    Refused(&'static str),
}

/// A name of the table.
#[derive(Debug)]
pub struct Past {
    /// In lower case, with underscores.
    pub name: &'static str,
    /// What it is.
    pub was: Was,
    /// The variable that is meant; empty where there is none.
    pub means: &'static str,
    /// Why it has no effect; empty where a variable is meant.
    pub why: &'static str,
}

static TABLE: LazyLock<Vec<Past>> =
    LazyLock::new(|| include_str!("past.tsv").lines().map(read_line).collect());

static BY_NAME: LazyLock<HashMap<&'static str, &'static Past>> =
    LazyLock::new(|| TABLE.iter().map(|past| (past.name, past)).collect());

/// Fields of a line: name, what it is, version, the variable that is meant, why it has no effect.
fn read_line(line: &'static str) -> Past {
    let fields: Vec<&'static str> = line.split('\t').collect();
    let [name, was, version, means, why] = fields[..] else { panic!("past.tsv: {line}") };
    let was = match was {
        "obsolete" => Was::Obsolete(version),
        "foreign" => Was::Foreign(version),
        "renamed" => Was::Renamed(version),
        "misspelt" => Was::Misspelt,
        "refused" => Was::Refused(version),
        "idle" => Was::Idle,
        other => panic!("past.tsv: {other}"),
    };
    Past { name, was, means, why }
}

/// What is known of a name.
pub fn find(name: &str) -> Option<&'static Past> {
    BY_NAME.get(name).copied()
}

/// Values that switch an option off.
const OFF: &[&str] = &["", "0", "off", "false", "no", "none", "disabled"];

impl Past {
    /// Why a value is refused; a name without a value switches the option on.
    pub fn refusal(&self, value: Option<&str>) -> Option<&'static str> {
        let Was::Refused(taken) = self.was else { return None };
        let value = value.unwrap_or("on").trim().to_ascii_lowercase();
        let is_taken = match taken {
            "" => OFF.contains(&value.as_str()),
            taken => taken.split(',').any(|word| word == value),
        };
        (!is_taken).then_some(self.why)
    }
}

/// All of them, by name.
pub fn iter() -> impl Iterator<Item = &'static Past> {
    TABLE.iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::settable;

    #[test]
    fn the_table_is_sorted_and_says_one_thing_of_each_name() {
        let names: Vec<&str> = iter().map(|past| past.name).collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
        for past in iter() {
            assert!(settable(past.name).is_none(), "{} is a variable", past.name);
            assert_ne!(past.means.is_empty(), past.why.is_empty(), "{}", past.name);
            assert!(past.means.is_empty() || settable(past.means).is_some(), "{}", past.means);
            let named = matches!(past.was, Was::Renamed(_) | Was::Misspelt);
            assert_eq!(named, !past.means.is_empty(), "{}", past.name);
            if let Was::Obsolete(version) | Was::Foreign(version) = past.was {
                assert!(!version.is_empty(), "{}", past.name);
            }
        }
    }
}
