//! The option that a misspelt name most probably means.

use super::past::{self, Was};
use super::settable;
use crate::variables::table;

/// Prefixes that an option keeps while its name is compared.
const PREFIXES: &[&str] = &["skip_", "disable_", "enable_", "loose_", "maximum_"];

/// Changed letters up to which a name is taken for another one, for each so many letters of it.
const LETTERS_PER_CHANGE: usize = 5;
const CHANGES_MAX: usize = 3;

/// The known option whose name has the fewest changed letters, if these are few: as a whole, or behind a prefix.
pub fn option(name: &str) -> Option<String> {
    let bare = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix).map(|bare| (*prefix, bare)));
    let behind = || bare.and_then(|(prefix, bare)| Some(format!("{prefix}{}", nearest(bare)?)));
    nearest(name).map(str::to_string).or_else(behind)
}

fn nearest(name: &str) -> Option<&'static str> {
    let variables = table().iter().map(|(_, variable)| variable.name).filter(|name| settable(name).is_some());
    let is_meant = |past: &&past::Past| !matches!(past.was, Was::Misspelt);
    let past = past::iter().filter(is_meant).map(|past| past.name);
    let most = (name.len() / LETTERS_PER_CHANGE + 1).min(CHANGES_MAX);
    let near = variables
        .chain(past)
        .chain(super::OWN.iter().copied())
        .filter_map(|known| changes(name.as_bytes(), known.as_bytes(), most).map(|far| (far, known)));
    near.min().map(|(_, known)| known)
}

/// How many letters must be changed, added, removed or swapped with the next one to make `b` of `a`; None beyond `most`.
fn changes(a: &[u8], b: &[u8], most: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
    let mut rows = [Vec::new(), (0..=b.len()).collect::<Vec<usize>>(), vec![0; b.len() + 1]];
    for i in 1..=a.len() {
        let [before, above, row] = &mut rows;
        row[0] = i;
        for j in 1..=b.len() {
            let differs = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (above[j] + 1).min(row[j - 1] + 1).min(above[j - 1] + differs);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row[j] = best;
        }
        rows.rotate_left(1);
        rows[2] = vec![0; b.len() + 1];
    }
    Some(rows[1][b.len()]).filter(|far| *far <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_names_find_their_option() {
        let found = |name: &str| option(name).unwrap_or_default();
        assert_eq!(found("innodb_bufer_pool_size"), "innodb_buffer_pool_size");
        assert_eq!(found("max_conections"), "max_connections");
        assert_eq!(found("skip_nmae_resolve"), "skip_name_resolve");
        assert_eq!(found("skip_log_bni"), "skip_log_bin");
        assert_eq!(found("prot"), "port");
        assert_eq!(found("nothing_like_any_option_at_all"), "");
    }

    #[test]
    fn swapped_letters_are_one_change() {
        assert_eq!(changes(b"prot", b"port", 3), Some(1));
        assert_eq!(changes(b"port", b"port", 3), Some(0));
        assert_eq!(changes(b"port", b"sort_buffer", 3), None);
    }
}
