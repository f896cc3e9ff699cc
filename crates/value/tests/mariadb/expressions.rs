//! Arithmetic, conversions, calendars and collations.

use crate::support::literal;
use keel_value::convert::{
    Problem, StoreContext, Target, compare, store, to_bool, to_decimal, to_f64, to_i64,
};
use keel_value::temporal::{Date, DateRules, DateTime, FixedOffset, Interval, parse_datetime};
use keel_value::{CollationId, Decimal, SqlMode, SqlType, Value, collation, text};

/// Collects what differs, so that one run shows all of it.
struct Differences(Vec<String>, usize);

impl Differences {
    fn new() -> Differences {
        Differences(Vec::new(), 0)
    }

    fn check(&mut self, line: &str, got: &str, expected: &str) {
        self.1 += 1;
        if got != expected {
            self.0.push(format!("{line}\n    got {got}"));
        }
    }

    fn none(self, at_least: usize) {
        assert!(self.1 >= at_least, "only {} cases", self.1);
        assert!(self.0.is_empty(), "{} of {}:\n{}", self.0.len(), self.1, self.0.join("\n"));
    }
}

/// `dec`, operand, operator, operand, result; an `E` and a number for an error.
#[test]
fn decimals_compute_as_in_mariadb() {
    let mut differences = Differences::new();
    for line in include_str!("../data/decimal.txt").lines() {
        let [_, a, op, b, expected] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("five fields: {line}")
        };
        let (x, y) = (Decimal::parse(a.as_bytes()).unwrap(), Decimal::parse(b.as_bytes()).unwrap());
        let (sum_scale, product_scale) = (x.scale().max(y.scale()), (x.scale() + y.scale()).min(38));
        let rounded = |v: Decimal, scale: u8| v.round(i32::from(scale)).to_string();
        let got = match op {
            "+" => x.add(&y).map(|v| rounded(v, sum_scale)),
            "-" => x.sub(&y).map(|v| rounded(v, sum_scale)),
            "*" => x.mul(&y).map(|v| rounded(v, product_scale)),
            "/" => x.div(&y, 4).map(|v| v.map_or("NULL".into(), |v| rounded(v, (x.scale() + 4).min(38)))),
            "%" => Ok(x.rem(&y).map_or("NULL".into(), |v| rounded(v, sum_scale))),
            _ => Ok(x
                .div_integer(&y)
                .map_or("NULL".into(), |v| v.to_i64().map_or("E1690".into(), |v| v.to_string()))),
        };
        let got = got.unwrap_or("E1690".into());
        differences.check(line, &got, expected);
    }
    differences.none(500);
}

/// The bits of a double, its text, the text of its float, and what CHARs of 4, 7, 10 and 15 take of it.
#[test]
fn doubles_print_as_in_mariadb() {
    let mut differences = Differences::new();
    for line in include_str!("../data/double.txt").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let v = f64::from_bits(u64::from_str_radix(fields[0], 16).unwrap());
        let shown = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            String::from_utf8(out).unwrap()
        };
        differences.check(line, &shown(&|out| text::append_f64(out, v)), fields[1]);
        let float = v.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32;
        differences.check(line, &shown(&|out| text::append_f32(out, float)), fields[2]);
        for (i, width) in [4, 7, 10, 15].into_iter().enumerate() {
            let mut got = shown(&|out| {
                text::append_f64_within(out, v, width);
            });
            got.truncate(width);
            differences.check(line, &got, fields[3 + i]);
        }
    }
    differences.none(1000);
}

/// `day`: a date, its number, weekday, day of year, YEARWEEK and WEEK of modes 0-7. `add`: an instant, a number, a unit and
/// the sum.
#[test]
fn calendars_agree() {
    let mut differences = Differences::new();
    for line in include_str!("../data/calendar.txt").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let parsed = parse_datetime(fields[1].as_bytes(), DateRules::default()).unwrap().value;
        if fields[0] == "add" {
            let sum = parsed.add_interval(interval(fields[2].parse().unwrap(), fields[3]));
            let mut out = Vec::new();
            match sum {
                Some(v) => text::append_datetime(&mut out, v, 6),
                None => out.extend_from_slice(b"NULL"),
            }
            differences.check(line, &String::from_utf8(out).unwrap(), fields[4]);
            continue;
        }
        let date = parsed.date;
        let mut got = vec![date.day_number().unwrap().to_string(), date.weekday().unwrap().to_string()];
        got.push(date.day_of_year().unwrap().to_string());
        for mode in 0..8 {
            let (year, week) = date.week(mode | 2).unwrap();
            got.push((u32::from(year) * 100 + u32::from(week)).to_string());
        }
        got.extend((0..8).map(|mode| date.week(mode).unwrap().1.to_string()));
        differences.check(line, &got.join("\t"), &fields[2..].join("\t"));
    }
    differences.none(300);
}

fn interval(n: i64, unit: &str) -> Interval {
    let none = Interval::default();
    match unit {
        "microsecond" => Interval { micros: n, ..none },
        "second" => Interval { seconds: n, ..none },
        "minute" => Interval { seconds: n * 60, ..none },
        "hour" => Interval { seconds: n * 3600, ..none },
        "day" => Interval { days: n, ..none },
        "week" => Interval { days: n * 7, ..none },
        "month" => Interval { months: n, ..none },
        "quarter" => Interval { months: n * 3, ..none },
        _ => Interval { months: n * 12, ..none },
    }
}

/// `cast`: a literal, what it is cast to, the result and the first warning. `cmp`: two literals and their order.
#[test]
fn values_convert_and_compare_as_in_mariadb() {
    let mut differences = Differences::new();
    for line in include_str!("../data/convert.txt").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let (ty, value) = literal(fields[1], fields[2]);
        if fields[0] == "cast" {
            let (got, problem) = cast(&ty, &value, fields[3]);
            differences.check(
                line,
                &format!("{got}\t{}", problem.map_or(String::new(), shown)),
                &fields[4..].join("\t"),
            );
            continue;
        }
        let (other_type, other) = literal(fields[3], fields[4]);
        let order = compare(value.as_ref(), &ty, other.as_ref(), &other_type, &mut |_| {});
        let got = order.map_or("NULL".to_string(), |order| (order as i8).to_string());
        differences.check(line, &got, fields[5]);
    }
    differences.none(1000);
}

fn cast(ty: &SqlType, value: &Value, target: &str) -> (String, Option<Problem>) {
    let mut first = None;
    let mut report = |problem: Problem| {
        first.get_or_insert(problem);
    };
    let v = value.as_ref();
    let got = match target {
        _ if value.is_null() && target != "bool" => "NULL".to_string(),
        "int" => to_i64(v, ty, &mut report).to_string(),
        "dbl" => {
            let mut out = Vec::new();
            text::append_f64(&mut out, to_f64(v, ty, &mut report));
            String::from_utf8(out).unwrap()
        }
        "dec" => to_decimal(v, ty, &mut report).fit(65, 10).0.to_string(),
        _ => i32::from(to_bool(v, ty, &mut report).unwrap_or(false)).to_string(),
    };
    (got, first)
}

fn shown(problem: Problem) -> String {
    let warning = problem.to_warning(Target { db: "value", table: "t", column: "c", row: 1 });
    format!("{}{} {}", &warning.level.name()[..1], warning.code, warning.message)
}

/// A collation, two strings and a pattern in hexadecimal UTF-8, their order, LIKE, UPPER, LOWER and CHAR_LENGTH of the first.
#[test]
fn collations_agree() {
    let mut differences = Differences::new();
    for line in include_str!("../data/collate.txt").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let id = collation::by_name(fields[0]).unwrap();
        let charset = id.charset();
        let own = |hex: &str| {
            let utf8: Vec<u8> =
                (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
            collation::convert(collation::Charset::Utf8mb4, charset, &utf8).0.into_owned()
        };
        let utf8 = |bytes: &[u8]| {
            let (utf8, _) = collation::convert(charset, collation::Charset::Utf8mb4, bytes);
            utf8.iter().map(|b| format!("{b:02X}")).collect::<String>()
        };
        let (a, b, pattern) = (own(fields[1]), own(fields[2]), own(fields[3]));
        let got = format!(
            "{}\t{}\t{}\t{}\t{}",
            collation::compare(id, &a, &b) as i8,
            i32::from(collation::like_match(id, &a, &pattern, Some('\\'))),
            utf8(&collation::upper(id, &a)),
            utf8(&collation::lower(id, &a)),
            collation::char_len(id, &a)
        );
        differences.check(line, &got, &fields[4..].join("\t"));
    }
    differences.none(1000);
}

#[test]
fn sql_mode_decides_which_dates_come_in() {
    let to = SqlType::new(keel_value::TypeKind::DateTime);
    let from = SqlType::varchar(30, CollationId::UTF8MB4_GENERAL_CI);
    let stored = |text: &str, mode: SqlMode| {
        let context = StoreContext { mode, strict: true, zone: &FixedOffset(0), today: Date::ZERO };
        let value = Value::bytes(text.as_bytes());
        store(&to, &from, value.as_ref(), &context).map(|(cell, _)| cell.into_value()).is_ok()
    };
    for (text, mode, allowed) in [
        ("0000-00-00", SqlMode::EMPTY, true),
        ("0000-00-00", SqlMode::NO_ZERO_DATE, false),
        ("2024-00-01", SqlMode::NO_ZERO_DATE, true),
        ("2024-00-01", SqlMode::NO_ZERO_IN_DATE, false),
        ("2024-02-31", SqlMode::EMPTY, false),
        ("2024-02-31", SqlMode::ALLOW_INVALID_DATES, true),
        ("2024-02-32", SqlMode::ALLOW_INVALID_DATES, false),
    ] {
        assert_eq!(stored(text, mode), allowed, "{text} {}", mode.to_text());
    }
}

#[test]
fn fractions_are_cut_unless_the_mode_rounds() {
    let to = SqlType::temporal(keel_value::TypeKind::DateTime, 1);
    let from = SqlType::varchar(30, CollationId::UTF8MB4_GENERAL_CI);
    let value = Value::bytes(b"2024-12-31 23:59:59.96");
    let stored = |mode: SqlMode| {
        let context = StoreContext { mode, strict: true, zone: &FixedOffset(0), today: Date::ZERO };
        store(&to, &from, value.as_ref(), &context).unwrap().0.into_value()
    };
    let last =
        DateTime { hour: 23, minute: 59, second: 59, micros: 900_000, ..Date::new(2024, 12, 31).midnight() };
    assert_eq!(stored(SqlMode::EMPTY), Value::DateTime(last));
    assert_eq!(stored(SqlMode::TIME_ROUND_FRACTIONAL), Value::DateTime(Date::new(2025, 1, 1).midnight()));
}
