//! Locales: names of months and days, and how numbers are written, in the languages that MariaDB knows.
//!
//! `locales.tsv` has a line for each, in the order of MariaDB's numbers, made of what MariaDB 10.11 answers: name, characters of
//! the longest names of months and of days, decimal point, separator of groups (`\0` is the byte 0), digits of the groups
//! (`32` is three at the point and then two), and the names: months, months in short, days from Monday, days in short.

use std::sync::LazyLock;

/// A locale.
#[derive(Debug)]
pub struct Locale {
    /// Its name: `de_DE`.
    pub name: &'static str,
    /// Characters of the longest name of a month.
    pub month_chars: usize,
    /// Characters of the longest name of a day.
    pub day_chars: usize,
    /// The decimal point.
    point: &'static str,
    /// What stands between groups of digits; nothing where there are none.
    separator: &'static str,
    /// Digits of the group at the point, and of the others.
    groups: (usize, usize),
    /// Names of months.
    pub months: Vec<&'static str>,
    /// The same in short.
    pub months_short: Vec<&'static str>,
    /// Names of days, Monday first.
    pub days: Vec<&'static str>,
    /// The same in short.
    pub days_short: Vec<&'static str>,
}

static LOCALES: LazyLock<Vec<Locale>> =
    LazyLock::new(|| include_str!("locales.tsv").lines().map(Locale::read).collect());

impl Locale {
    /// `en_US`.
    pub fn english() -> &'static Locale {
        &LOCALES[0]
    }

    /// The locale of that name, whatever its case.
    pub fn by_name(name: &str) -> Option<&'static Locale> {
        LOCALES.iter().find(|locale| locale.name.eq_ignore_ascii_case(name))
    }

    /// The locale of that number.
    pub fn by_number(number: u64) -> Option<&'static Locale> {
        LOCALES.get(usize::try_from(number).ok()?)
    }

    fn read(line: &'static str) -> Locale {
        let fields: Vec<&'static str> = line.split('\t').collect();
        let names = |field: usize| fields[field].split('|').collect::<Vec<_>>();
        let chars = |field: usize| fields[field].parse().unwrap_or(0);
        Locale {
            name: fields[0],
            month_chars: chars(1),
            day_chars: chars(2),
            point: fields[3],
            separator: if fields[4] == "\\0" { "\0" } else { fields[4] },
            groups: if fields[5] == "32" { (3, 2) } else { (3, 3) },
            months: names(6),
            months_short: names(7),
            days: names(8),
            days_short: names(9),
        }
    }

    /// A number's digits and its point written as this locale does: `digits` is plain, `-1234.5`.
    pub fn grouped(&self, digits: &[u8]) -> Vec<u8> {
        let (sign, rest) = digits.split_at(usize::from(digits.first() == Some(&b'-')));
        let whole = rest.iter().position(|b| *b == b'.').unwrap_or(rest.len());
        let mut out = sign.to_vec();
        let (first, others) = self.groups;
        for (index, digit) in rest[..whole].iter().enumerate() {
            let left = whole - index;
            if index > 0 && left >= first && (left - first) % others == 0 {
                out.extend_from_slice(self.separator.as_bytes());
            }
            out.push(*digit);
        }
        if let Some(fraction) = rest.get(whole + 1..) {
            out.extend_from_slice(self.point.as_bytes());
            out.extend_from_slice(fraction);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_locale_reads() {
        assert_eq!(LOCALES.len(), 112);
        for locale in LOCALES.iter() {
            let counts =
                [&locale.months, &locale.months_short, &locale.days, &locale.days_short].map(Vec::len);
            assert_eq!(counts, [12, 12, 7, 7], "{}", locale.name);
            assert!(!locale.point.is_empty(), "{}", locale.name);
        }
    }

    #[test]
    fn digits_stand_in_the_locales_groups() {
        let grouped = |name: &str, digits: &str| {
            let locale = Locale::by_name(name).expect("known");
            String::from_utf8(locale.grouped(digits.as_bytes())).expect("text")
        };
        assert_eq!(grouped("en_US", "-1234567.50"), "-1,234,567.50");
        assert_eq!(grouped("de_de", "1234567.5"), "1.234.567,5");
        assert_eq!(grouped("ta_IN", "1234567"), "12,34,567");
        assert_eq!(grouped("fr_FR", "123456.7"), "123456,7");
        assert_eq!(grouped("en_US", "123"), "123");
    }
}
