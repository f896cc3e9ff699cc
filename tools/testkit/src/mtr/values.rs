//! Variables, conditions and what commands take as arguments.
//!
//! A variable has a value for each server: `let $id= `SELECT CONNECTION_ID()`` must give each its own, or a later KILL
//! would hit nobody. Which way a script takes is decided by MariaDB's values alone, so that both get the same statements.

use std::collections::HashMap;

/// A text for each server: MariaDB's at [`MARIA`], Keel's at [`KEEL`].
pub type Both = [String; 2];

/// Place of MariaDB in a pair.
pub const MARIA: usize = 0;
/// Place of Keel in a pair.
pub const KEEL: usize = 1;

/// The same text for both.
pub fn both(text: &str) -> Both {
    [text.to_string(), text.to_string()]
}

/// Who answers the queries inside of expressions.
pub trait Asker {
    /// The first row, its cells with a tab between them; empty where there is none.
    fn first_row(&mut self, sql: &Both) -> Both;
    /// A column of a row, from 1; "No such row" where there is none.
    fn cell(&mut self, sql: &Both, column: &str, row: usize) -> Both;
}

/// The variables of a script.
#[derive(Debug, Clone, Default)]
pub struct Variables {
    values: HashMap<String, Both>,
}

impl Variables {
    /// Sets both values of a variable, named without its `$`.
    pub fn set(&mut self, name: &str, value: Both) {
        self.values.insert(name.to_string(), value);
    }

    /// Both values; empty where nobody has set any.
    pub fn get(&self, name: &str) -> Both {
        self.values.get(name).cloned().unwrap_or_default()
    }

    /// Adds to a number.
    pub fn add(&mut self, name: &str, amount: i64) {
        let value = self.get(name).map(|text| leading_number(&text).wrapping_add(amount).to_string());
        self.set(name, value);
    }

    /// Replaces `$name` by its values; a backslash keeps the `$`.
    pub fn expand(&self, text: &str) -> Both {
        let mut out = Both::default();
        let mut rest = text;
        while let Some(at) = rest.find(['$', '\\']) {
            let (before, found) = rest.split_at(at);
            push(&mut out, before);
            let name = found.strip_prefix('$').map_or("", name_at);
            rest = match found.as_bytes() {
                [b'\\', b'$' | b'\\' | b'"', ..] if found.as_bytes()[1] != b'$' => {
                    push(&mut out, &found[..2]);
                    &found[2..]
                }
                [b'\\', b'$', ..] => {
                    push(&mut out, "$");
                    &found[2..]
                }
                [b'$', ..] if !name.is_empty() => {
                    let value = self.get(name);
                    (0..2).for_each(|server| out[server].push_str(&value[server]));
                    &found[1 + name.len()..]
                }
                _ => {
                    push(&mut out, &found[..1]);
                    &found[1..]
                }
            };
        }
        push(&mut out, rest);
        out
    }

    /// `let NAME = VALUE`, with or without `$`; `Err` names what is not understood.
    pub fn assign(&mut self, text: &str, asker: &mut dyn Asker) -> Result<(), String> {
        let (name, value) = text.split_once('=').ok_or("let without =")?;
        let name = name.trim().trim_start_matches('$').to_string();
        let value = self.evaluate(value.trim(), asker)?;
        self.set(&name, value);
        Ok(())
    }

    /// A value: a query in backticks, `query_get_value()`, or text with variables.
    pub fn evaluate(&self, text: &str, asker: &mut dyn Asker) -> Result<Both, String> {
        if let Some(query) = text.strip_prefix('`') {
            let query = query.trim_end().strip_suffix('`').ok_or("a query without its second backtick")?;
            return Ok(asker.first_row(&self.expand(query)));
        }
        if let Some(arguments) = text.strip_prefix("query_get_value") {
            let inner = arguments.trim().strip_prefix('(').and_then(|text| text.strip_suffix(')'));
            let mut parts = inner.ok_or("query_get_value without parentheses")?.rsplitn(3, ',');
            let mut next = || parts.next().map(|part| self.expand(part.trim())[MARIA].clone());
            let row =
                next().and_then(|row| row.parse::<usize>().ok()).ok_or("query_get_value without a row")?;
            let column = next().ok_or("query_get_value without a column")?;
            let query = parts.next().ok_or("query_get_value without a query")?.trim();
            let query = query.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(query);
            return Ok(asker.cell(&self.expand(query), column.trim_matches('"'), row));
        }
        match text.starts_with("$(") || text.starts_with("convert_error") {
            true => Err("an expression of later versions".into()),
            false => Ok(self.expand(text)),
        }
    }

    /// The condition of `if` and `while`, in its parentheses.
    pub fn holds(&self, condition: &str, asker: &mut dyn Asker) -> Result<bool, String> {
        let inner = condition.trim().strip_prefix('(').and_then(|text| text.strip_suffix(')'));
        let inner = inner.ok_or("a condition without parentheses")?.trim();
        if let Some(rest) = inner.strip_prefix('!') {
            return Ok(!truth(&self.evaluate(rest.trim(), asker)?[MARIA]));
        }
        let name = inner.strip_prefix('$').map(name_at).unwrap_or("");
        let rest = if name.is_empty() { "" } else { inner[1 + name.len()..].trim() };
        let Some((operator, operand)) = operator_of(rest) else {
            return Ok(truth(&self.evaluate(inner, asker)?[MARIA]));
        };
        let left = self.get(name)[MARIA].clone();
        let unquoted = operand.trim_matches(|char| char == '\'' || char == '"');
        let right = self.evaluate(unquoted, asker)?[MARIA].clone();
        let order = match (left.trim().parse::<i64>(), right.trim().parse::<i64>()) {
            (Ok(a), Ok(b)) => a.cmp(&b),
            _ => left.to_ascii_lowercase().cmp(&right.to_ascii_lowercase()),
        };
        Ok(match operator {
            "==" => order.is_eq(),
            "!=" => order.is_ne(),
            "<=" => order.is_le(),
            ">=" => order.is_ge(),
            "<" => order.is_lt(),
            _ => order.is_gt(),
        })
    }
}

fn push(out: &mut Both, text: &str) {
    out.iter_mut().for_each(|side| side.push_str(text));
}

fn name_at(text: &str) -> &str {
    let end = text.find(|char: char| !char.is_ascii_alphanumeric() && char != '_');
    &text[..end.unwrap_or(text.len())]
}

fn operator_of(text: &str) -> Option<(&'static str, &str)> {
    let operators = ["==", "!=", "<=", ">=", "<", ">"];
    operators.iter().find_map(|operator| Some((*operator, text.strip_prefix(operator)?.trim())))
}

/// A number that is not zero, or any other text that is not empty.
fn truth(text: &str) -> bool {
    let digits = text.trim_start().trim_start_matches(['-', '+']);
    match digits.starts_with(|char: char| char.is_ascii_digit()) {
        true => leading_number(text) != 0,
        false => !text.trim().is_empty(),
    }
}

fn leading_number(text: &str) -> i64 {
    let text = text.trim_start();
    let sign = text.starts_with(['-', '+']) as usize;
    let end = text[sign..].find(|char: char| !char.is_ascii_digit()).map_or(text.len(), |end| sign + end);
    text[..end].parse().unwrap_or(0)
}

/// Splits arguments at spaces; quotes hold a word together, a doubled one stands for itself.
pub fn words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut chars = text.trim().chars().peekable();
    while chars.peek().is_some() {
        let mut word = String::new();
        let quote = chars.next_if(|char| matches!(char, '\'' | '"' | '`'));
        while let Some(char) = chars.next() {
            match quote {
                Some(open) if char == open && chars.next_if_eq(&open).is_none() => break,
                None if char.is_whitespace() => break,
                _ => word.push(char),
            }
        }
        found.push(word);
        while chars.next_if(|char| char.is_whitespace()).is_some() {}
    }
    found
}

/// Splits arguments at commas; spaces and quotes around them go.
pub fn fields(text: &str) -> Vec<String> {
    text.split(',').map(|field| field.trim().trim_matches(['\'', '"']).to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Rows;

    impl Asker for Rows {
        fn first_row(&mut self, sql: &Both) -> Both {
            match sql[MARIA].as_str() {
                "select connection_id()" => ["7".into(), "8".into()],
                text => both(text.trim_start_matches("select ")),
            }
        }

        fn cell(&mut self, sql: &Both, column: &str, row: usize) -> Both {
            both(&format!("{}|{column}|{row}", sql[MARIA]))
        }
    }

    #[test]
    fn variables_expand_to_what_each_server_said() {
        let mut variables = Variables::default();
        variables.assign("$id= `select connection_id()`", &mut Rows).unwrap();
        variables.assign("plain= kill", &mut Rows).unwrap();
        assert_eq!(variables.expand("$plain $id; \\$id $ $none."), ["kill 7; $id $ .", "kill 8; $id $ ."]);
        variables.add("id", -2);
        assert_eq!(variables.get("id"), ["5", "6"]);
        assert_eq!(variables.expand(r"'a\n' \\"), both(r"'a\n' \\"));
    }

    #[test]
    fn query_get_value_takes_the_last_commas() {
        let mut variables = Variables::default();
        variables.set("n", both("2"));
        variables.assign("$v= query_get_value(select a, b from t, b, $n)", &mut Rows).unwrap();
        assert_eq!(variables.get("v"), both("select a, b from t|b|2"));
        assert!(variables.assign("$v= query_get_value(select 1)", &mut Rows).is_err());
        assert!(variables.assign("$v= `select", &mut Rows).is_err());
    }

    #[test]
    fn conditions() {
        let mut variables = Variables::default();
        variables.set("n", both("10"));
        variables.set("word", both("Two"));
        let cases = [
            ("($n)", true),
            ("(!$n)", false),
            ("($n == 10)", true),
            ("($n < 9)", false),
            ("($n>=9)", true),
            ("($word == 'two')", true),
            ("($word != two)", false),
            ("($none)", false),
            ("(`select 0`)", false),
            ("(!`select 0`)", true),
            ("($n == `select 10`)", true),
            ("(1)", true),
            ("(0)", false),
        ];
        for (text, expected) in cases {
            assert_eq!(variables.holds(text, &mut Rows), Ok(expected), "{text}");
        }
        assert!(variables.holds("1", &mut Rows).is_err());
    }

    #[test]
    fn arguments_split_at_spaces_and_quotes() {
        assert_eq!(words("a 'b c'  \"\" d"), ["a", "b c", "", "d"]);
        assert_eq!(words("'it''s' x"), ["it's", "x"]);
        assert_eq!(fields("con1, localhost,root,,'test'"), ["con1", "localhost", "root", "", "test"]);
    }
}
