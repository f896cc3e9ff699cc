//! What commands such as `--replace_column` take out of the next result before it is compared.

use super::script::widen;
use super::values::{Both, words};
use crate::client::Cell;
use regex::{Regex, RegexBuilder};

/// How the rows of one statement are changed before they are compared.
#[derive(Debug, Default)]
pub struct Masks {
    /// Columns from 1, and what is shown instead.
    columns: Vec<(usize, String)>,
    /// For each server: what is replaced, and by what.
    results: [Vec<(String, String)>; 2],
    patterns: [Vec<(Regex, String)>; 2],
    /// Rows are a set, even behind ORDER BY.
    pub sorted: bool,
    lowercase: bool,
}

impl Masks {
    /// Takes a command; false if it is none of a mask.
    pub fn add(&mut self, word: &str, arguments: &Both) -> bool {
        match word {
            "replace_column" => {
                let found = words(&arguments[0]);
                let pairs =
                    found.chunks_exact(2).filter_map(|pair| Some((pair[0].parse().ok()?, pair[1].clone())));
                self.columns.extend(pairs);
            }
            "replace_result" => {
                for (pairs, text) in self.results.iter_mut().zip(arguments) {
                    let found = words(text);
                    let whole = found.chunks_exact(2).filter(|pair| !pair[0].is_empty());
                    pairs.extend(whole.map(|pair| (pair[0].clone(), pair[1].clone())));
                }
            }
            "replace_regex" => {
                for (found, text) in self.patterns.iter_mut().zip(arguments) {
                    found.extend(patterns(text));
                }
            }
            "sorted_result" | "partially_sorted_result" => self.sorted = true,
            "lowercase_result" => self.lowercase = true,
            "replace_numeric_round" | "horizontal_results" | "vertical_results" => {}
            _ => return false,
        }
        true
    }

    /// A row of a server as a line.
    pub fn line(&self, server: usize, row: &[Cell]) -> String {
        let shown = |(index, cell): (usize, &Cell)| {
            let column = self.columns.iter().find(|(column, _)| *column == index + 1);
            match (column, cell) {
                (Some((_, text)), _) => text.clone(),
                (None, None) => "NULL".to_string(),
                (None, Some(bytes)) => widen(bytes),
            }
        };
        let mut line = row.iter().enumerate().map(shown).collect::<Vec<_>>().join("\t");
        for (from, to) in &self.results[server] {
            line = line.replace(from, to);
        }
        for (pattern, to) in &self.patterns[server] {
            line = pattern.replace_all(&line, to).into_owned();
        }
        if self.lowercase { line.to_lowercase() } else { line }
    }
}

/// `/pattern/replacement/i` any number of times; another character may stand for the slash. A pattern that the library does
/// not know is left out.
fn patterns(text: &str) -> Vec<(Regex, String)> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(open) = rest.chars().next() {
        let mut parts = [String::new(), String::new()];
        let mut chars = rest.char_indices().skip(1);
        let (mut part, mut end) = (0, rest.len());
        while let Some((at, char)) = chars.next() {
            if char == '\\' {
                match chars.next() {
                    Some((_, next)) if next == open => parts[part].push(next),
                    Some((_, next)) => parts[part].extend(['\\', next]),
                    None => {}
                }
            } else if char == open && part == 1 {
                end = at + char.len_utf8();
                break;
            } else if char == open {
                part = 1;
            } else {
                parts[part].push(char);
            }
        }
        rest = &rest[end..];
        let insensitive = rest.starts_with('i');
        rest = rest.trim_start_matches('i').trim_start();
        let replacement = replacement(&parts[1]);
        let built = RegexBuilder::new(&parts[0]).case_insensitive(insensitive).size_limit(1 << 20).build();
        found.extend(built.ok().map(|pattern| (pattern, replacement)));
    }
    found
}

/// `\1` as the library writes it.
fn replacement(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '$' => out.push_str("$$"),
            '\\' => match chars.next() {
                Some(digit) if digit.is_ascii_digit() => out.push_str(&format!("${{{digit}}}")),
                Some(other) => out.push(other),
                None => {}
            },
            _ => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::values::both;
    use super::*;

    fn line(commands: &[(&str, &str)], row: &[&str]) -> String {
        let mut masks = Masks::default();
        commands.iter().for_each(|(word, text)| assert!(masks.add(word, &both(text)), "{word}"));
        masks.line(0, &row.iter().map(|text| Some(text.as_bytes().to_vec())).collect::<Vec<_>>())
    }

    #[test]
    fn columns_words_and_patterns_are_replaced() {
        assert_eq!(line(&[("replace_column", "2 # 3 'a b'")], &["1", "2", "3"]), "1\t#\ta b");
        assert_eq!(line(&[("replace_result", "one 1 two ''")], &["one two three"]), "1  three");
        assert_eq!(line(&[("replace_regex", r"/(\d+)ms/<\1>/ /A\/B/$x/i")], &["12ms a/b"]), "<12> $x");
        assert_eq!(line(&[("replace_regex", "/(/x/ /b/c/")], &["(b"]), "(c");
        assert!(!Masks::default().add("echo", &both("")));
    }

    #[test]
    fn null_is_shown_as_its_word() {
        assert_eq!(Masks::default().line(1, &[None, Some(vec![0xe9])]), "NULL\t\u{e9}");
    }
}
