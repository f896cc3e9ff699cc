//! LIKE: `%` is any run of characters, `_` any one character, and the escape character takes the next one literally.
//!
//! Characters match if their weights are equal, one by one, so that 'ß' LIKE 'ss' is false even where the collation
//! calls the two equal, as in MariaDB. After a mismatch only the last `%` is retried, so that the work is at most the product
//! of both lengths.

use super::order::{Weigher, weigher};
use super::uca::Characters;
use super::{Charset, CollationId, Weighing};

/// What characters are compared by.
trait Weigh: Copy {
    /// The weight of the first character and its octets; `bytes` is not empty.
    fn first(self, bytes: &[u8]) -> (u64, usize);

    /// Where the first character of that weight stands.
    fn find(self, bytes: &[u8], wanted: u64) -> Option<usize>;
}

impl Weigh for Weigher {
    #[inline]
    fn first(self, bytes: &[u8]) -> (u64, usize) {
        let (weight, len) = self.next(bytes);
        (u64::from(weight), len)
    }

    fn find(self, bytes: &[u8], wanted: u64) -> Option<usize> {
        self.find_weight(bytes, u32::try_from(wanted).ok()?)
    }
}

impl Weigh for Characters {
    #[inline]
    fn first(self, bytes: &[u8]) -> (u64, usize) {
        self.identity(bytes)
    }

    fn find(self, bytes: &[u8], wanted: u64) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            let (weight, len) = self.identity(&bytes[at..]);
            if weight == wanted {
                return Some(at);
            }
            at += len;
        }
        None
    }
}

/// One element of a pattern.
enum Token {
    Any,
    One,
    Weight(u64),
}

struct Matcher<W> {
    weigher: W,
    charset: Charset,
    escape: Option<u32>,
}

/// Whether `text` matches `pattern`. Without `escape` every character but `%` and `_` stands for itself.
pub fn like_match(id: CollationId, text: &[u8], pattern: &[u8], escape: Option<char>) -> bool {
    let (charset, escape) = (id.charset(), escape.map(u32::from));
    match id.info().weighing {
        Weighing::Uca(uca) => {
            Matcher { weigher: Characters::new(uca, charset), charset, escape }.run(text, pattern)
        }
        _ => Matcher { weigher: weigher(id.info()), charset, escape }.run(text, pattern),
    }
}

impl<W: Weigh> Matcher<W> {
    fn run(&self, text: &[u8], pattern: &[u8]) -> bool {
        let (mut t, mut p) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        loop {
            let token = (p < pattern.len()).then(|| self.token(&pattern[p..]));
            match token {
                Some((Token::Any, len)) => {
                    p += len;
                    if p == pattern.len() {
                        return true;
                    }
                    retry = Some((t, p));
                    continue;
                }
                Some((token, len)) if t < text.len() => {
                    let (weight, step) = self.weigher.first(&text[t..]);
                    if matches!(token, Token::One) || matches!(token, Token::Weight(w) if w == weight) {
                        t += step;
                        p += len;
                        continue;
                    }
                }
                None if t == text.len() => return true,
                _ => {}
            }
            match retry {
                Some((from, after)) if from < text.len() => {
                    let from = from + self.weigher.first(&text[from..]).1;
                    // Where no match can begin is passed at once.
                    let Some(from) = self.next_start(text, from, &pattern[after..]) else { return false };
                    t = from;
                    p = after;
                    retry = Some((t, after));
                }
                _ => return false,
            }
        }
    }

    /// The first place from `from` on where `pattern`'s first character stands; `from` itself where it begins with a wildcard.
    fn next_start(&self, text: &[u8], from: usize, pattern: &[u8]) -> Option<usize> {
        let (Token::Weight(wanted), _) = self.token(pattern) else { return Some(from) };
        self.weigher.find(&text[from.min(text.len())..], wanted).map(|at| from + at)
    }

    fn token(&self, pattern: &[u8]) -> (Token, usize) {
        let (code, len) = self.charset.decode(pattern).unwrap_or((u32::MAX, 1));
        // A wildcard that is the escape character stays a wildcard; only Unicode takes `_` for the escape first.
        let is_wildcard = code == 0x25 || code == 0x5F && !self.charset.is_unicode();
        if Some(code) == self.escape && len < pattern.len() && !is_wildcard {
            let (weight, next) = self.weigher.first(&pattern[len..]);
            return (Token::Weight(weight), len + next);
        }
        match code {
            0x25 => (Token::Any, len),
            0x5F => (Token::One, len),
            _ => (Token::Weight(self.weigher.first(pattern).0), len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_mariadb() {
        let ci = CollationId::UTF8MB4_GENERAL_CI;
        let bin = CollationId::UTF8MB4_BIN;
        for (id, text, pattern, expected) in [
            (ci, "David!", "david_", true),
            (bin, "David!", "david_", false),
            (ci, "abc", "%", true),
            (ci, "", "%", true),
            (ci, "", "", true),
            (ci, "a", "", false),
            (ci, "abcabd", "%ab_", true),
            (ci, "abcabd", "%ac%", false),
            (ci, "a%b", "a\\%b", true),
            (ci, "axb", "a\\%b", false),
            (ci, "a\\", "a\\", true),
            (ci, "É", "e", true),
            (ci, "😀x", "_x", true),
            (ci, "a ", "a", false),
            (ci, "mississippi", "m%iss%ip%i", true),
            (ci, "mississippi", "m%iss%ip%x", false),
            (ci, "ÀÉxéyÈz", "%ey_z", true),
            (ci, "ÀÉxéyÈz", "%Ey%", true),
            (bin, "ÀÉxéyÈz", "%éy%z", true),
            (bin, "ÀÉxéyÈz", "%éz", false),
            (ci, "ÀÉxéyÈz", "%ex_z", false),
            (CollationId::LATIN1_SWEDISH_CI, "abcABD", "%bd", true),
            (CollationId::BINARY, "abcABD", "%BD", true),
            (CollationId::BINARY, "abcABD", "%bd", false),
            (ci, "abc", "%_c", true),
            (ci, "abc", "%c_", false),
        ] {
            assert_eq!(
                like_match(id, text.as_bytes(), pattern.as_bytes(), Some('\\')),
                expected,
                "{text} {pattern}"
            );
        }
        assert!(like_match(ci, b"a%c", b"a|%c", Some('|')));
        assert!(like_match(CollationId::BINARY, b"\xFFa", b"_a", Some('\\')));
    }
}
