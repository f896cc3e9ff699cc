//! Writes lines of JSON.

use std::fmt::Write;

/// A JSON string.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c < ' ' => write!(out, "\\u{:04x}", c as u32).expect("a String takes all text"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A JSON object. The values are JSON already.
pub(super) fn object(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
    format!("{{{}}}", fields.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped() {
        let text = object(&[("a", quoted("x\"\\\n\u{1}")), ("n", "5".into())]);
        assert_eq!(text, "{\"a\":\"x\\\"\\\\\\n\\u0001\",\"n\":5}");
    }
}
