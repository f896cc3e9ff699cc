//! Which account a client gets: patterns of hosts and databases, and which of them comes first.

use std::cmp::Reverse;
use std::net::IpAddr;

/// Whether `text` matches a pattern with `%`, `_` and `\`; without regard to case where `fold`.
pub fn matches(pattern: &str, text: &str, fold: bool) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let same = |a: u8, b: u8| a == b || fold && a.eq_ignore_ascii_case(&b);
    let (mut p, mut t) = (0, 0);
    // Where to go on if what follows the last `%` does not match: one octet further.
    let mut again: Option<(usize, usize)> = None;
    loop {
        match pattern.get(p) {
            Some(b'%') => {
                p += 1;
                again = Some((p, t));
                continue;
            }
            Some(b'_') if t < text.len() => {
                p += 1;
                t += 1;
                while t < text.len() && text[t] & 0xc0 == 0x80 {
                    t += 1;
                }
                continue;
            }
            Some(b'\\') if p + 1 < pattern.len() && text.get(t).is_some_and(|c| same(*c, pattern[p + 1])) => {
                p += 2;
                t += 1;
                continue;
            }
            Some(c) if *c != b'_' && *c != b'\\' && text.get(t).is_some_and(|b| same(*b, *c)) => {
                p += 1;
                t += 1;
                continue;
            }
            None if t == text.len() => return true,
            _ => {}
        }
        match &mut again {
            Some((after, from)) if *from < text.len() => {
                *from += 1;
                (p, t) = (*after, *from);
            }
            _ => return false,
        }
    }
}

/// Whether whatever matches `narrow` is sure to match `wide` too. Of patterns with wildcards only those are sure that are
/// equal, or begin with all that `wide` has before a `%` at its end.
pub fn covers(wide: &str, narrow: &str) -> bool {
    let ((prefix, rest), (begins, more)) = (split(wide), split(narrow));
    match more {
        "" => matches(wide, &begins, false),
        _ => wide == narrow || (rest == "%" && begins.starts_with(&prefix)),
    }
}

/// What a pattern says before its first wildcard, without escapes, and what follows.
fn split(pattern: &str) -> (String, &str) {
    let mut plain = String::new();
    let mut rest = pattern.char_indices();
    while let Some((at, c)) = rest.next() {
        match c {
            '%' | '_' => return (plain, &pattern[at..]),
            '\\' => plain.push(rest.next().map_or(c, |(_, escaped)| escaped)),
            _ => plain.push(c),
        }
    }
    (plain, "")
}

/// Whether a client comes from a host: by its name, its address, or a network written `address/mask`.
pub fn host_matches(pattern: &str, host: &str, address: Option<IpAddr>) -> bool {
    if let Some((network, mask)) = pattern.split_once('/') {
        let (Ok(IpAddr::V4(network)), Ok(IpAddr::V4(mask)), Some(IpAddr::V4(address))) =
            (network.parse(), mask.parse(), address)
        else {
            return false;
        };
        return u32::from(address) & u32::from(mask) == u32::from(network);
    }
    matches(pattern, host, true) || address.is_some_and(|a| matches(pattern, &a.to_string(), true))
}

/// How exact a pattern is: those with a greater number are tried first. Names without wildcards come first, then those
/// of a known length, then those that ask for more characters; each the sooner the fewer wildcards it has.
pub fn exactness(pattern: &str) -> u32 {
    let (mut wildcards, mut characters, mut open) = (0u32, 0u32, false);
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => characters += 1 + u32::from(rest.next().is_some()),
            '%' => {
                wildcards += 1;
                open = true;
            }
            '_' => {
                wildcards += 1;
                characters += 1;
            }
            _ => characters += 1,
        }
    }
    let few = WILDCARDS_MAX - wildcards.min(WILDCARDS_MAX);
    match (wildcards, open) {
        (0, _) if pattern.is_empty() => 0,
        (0, _) => u32::MAX,
        (_, false) => KNOWN_LENGTH + few,
        (_, true) => 1 + (characters.min(CHARACTERS_MAX) << 8) + few,
    }
}

/// Wildcards that are told apart.
const WILDCARDS_MAX: u32 = 255;
/// Characters that are told apart.
const CHARACTERS_MAX: u32 = 1024;
/// Above all patterns of any length.
const KNOWN_LENGTH: u32 = 1 << 24;

/// The order in which accounts are tried: exact hosts first, and named users before the nameless.
pub fn order(user: &str, host: &str) -> (Reverse<u32>, bool) {
    (Reverse(exactness(host)), user.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_like_does() {
        assert!(matches("%.example.com", "a.Example.com", true));
        assert!(!matches("%.example.com", "example.com", true));
        assert!(matches("db\\_%", "db_1", false));
        assert!(!matches("db\\_%", "dbx1", false));
        assert!(matches("db_%", "dbx1", false));
        assert!(!matches("Db%", "db1", false));
        assert!(matches("%", "", false));
        assert!(!matches("a\\", "a", false));
        assert!(matches("a%b%c", "axxbyyc", false));
    }

    #[test]
    fn hosts_match_by_name_address_and_network() {
        let address = Some("192.168.7.9".parse().unwrap());
        assert!(host_matches("192.168.%", "192.168.7.9", address));
        assert!(host_matches("192.168.7.0/255.255.255.0", "h", address));
        assert!(!host_matches("192.168.8.0/255.255.255.0", "h", address));
        assert!(host_matches("LocalHost", "localhost", None));
    }

    #[test]
    fn a_wider_pattern_is_not_covered() {
        assert!(covers("my\\_%", "my\\_1"));
        assert!(covers("my\\_%", "my\\_1%"));
        assert!(covers("my\\_%", "my\\_%"));
        assert!(!covers("my\\_%", "my_%"));
        assert!(!covers("my\\_1", "my_1"));
        assert!(!covers("my\\_1", "my\\_1%"));
        assert!(!covers("a_", "a%") && !covers("a%b", "a%"));
        assert!(covers("%", "anything") && covers("%", "a%"));
    }

    #[test]
    fn exact_patterns_come_first() {
        let mut hosts = ["%", "10.%", "10.1.%", "h", "", "__", "a_", "a%b%", "a_%", "ab%"];
        hosts.sort_by_key(|h| order("u", h));
        assert_eq!(hosts, ["h", "a_", "__", "10.1.%", "10.%", "ab%", "a%b%", "a_%", "%", ""]);
        assert!(order("u", "%") < order("", "%"));
        assert!(order("", "h") < order("u", "%"));
    }
}
