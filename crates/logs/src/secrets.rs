//! Removes passwords from statement texts before logs and views show them.

use std::borrow::Cow;

use crate::tokens::{Kind, token};

/// Words of statements whose literals may be passwords.
const WORDS: &[&[u8]] = &[b"password", b"identified"];

/// The replacement of a literal.
const HIDDEN: &[u8] = b"<secret>";

/// The text of a statement without passwords: if it mentions passwords, all literals are replaced. After a token whose end
/// is uncertain (it depends on `sql_mode`, or the text is truncated) the rest of the text is omitted.
pub fn hidden(text: &[u8]) -> Cow<'_, [u8]> {
    if !is_about(text) {
        return Cow::Borrowed(text);
    }
    // In other encodings the bytes of quotes can be parts of characters.
    let is_utf8 = std::str::from_utf8(text).is_ok();
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let token = token(text, at);
        let part = &text[at..token.end];
        let is_sure = token.is_sure && is_utf8;
        match token.kind {
            Kind::Literal => {
                let quote = &part[..1];
                out.extend_from_slice(&[quote, HIDDEN, quote].concat());
            }
            Kind::Name if !is_sure => out.extend_from_slice(HIDDEN),
            Kind::Opening => {
                out.extend_from_slice(HIDDEN);
                break;
            }
            Kind::Name | Kind::Comment | Kind::Other => out.extend_from_slice(part),
        }
        if !is_sure && matches!(token.kind, Kind::Literal | Kind::Name) {
            break;
        }
        at = token.end;
    }
    Cow::Owned(out)
}

/// The values of a prepared statement's parameters, hidden if its text mentions passwords.
pub fn hidden_values<'v>(text: &[u8], values: &'v [u8]) -> &'v [u8] {
    if values.is_empty() || !is_about(text) { values } else { HIDDEN }
}

/// Whether a statement mentions passwords.
fn is_about(text: &[u8]) -> bool {
    WORDS.iter().any(|word| says(text, word))
}

/// Whether a text contains a word, in any case.
fn says(text: &[u8], word: &[u8]) -> bool {
    let begins =
        |place: &usize| text[*place..].get(..word.len()).is_some_and(|w| w.eq_ignore_ascii_case(word));
    let mut places =
        text.iter().enumerate().filter(|(_, byte)| **byte | 0x20 == word[0]).map(|(place, _)| place);
    places.any(|place| begins(&place))
}

#[cfg(test)]
mod tests {
    use super::hidden;

    #[test]
    fn passwords_are_not_shown() {
        let shown = |text: &str| String::from_utf8(hidden(text.as_bytes()).into_owned()).unwrap();
        assert_eq!(shown("select 'x'"), "select 'x'");
        assert_eq!(
            shown("CREATE USER a Identified BY 'it''s\\'x'"),
            "CREATE USER a Identified BY '<secret>'"
        );
        assert_eq!(
            shown("SET PASSWORD = PASSWORD(\"x\"), @a='y"),
            "SET PASSWORD = PASSWORD(\"<secret>\"), @a='<secret>'"
        );
    }

    #[test]
    fn quotes_that_open_nothing_hide_nothing_less() {
        for text in [
            "CREATE USER `o'brien` IDENTIFIED BY 'pw'",
            "/* it's me */ CREATE USER a IDENTIFIED BY 'pw'",
            "-- don't \n ALTER USER a IDENTIFIED BY 'pw'",
            "--\tdon't \n ALTER USER a IDENTIFIED BY 'pw'",
            "# don't \n ALTER USER a IDENTIFIED BY 'pw'",
            "CREATE USER 'a\\' IDENTIFIED BY 'pw'",
            "CREATE USER 'a\\'' IDENTIFIED BY 'pw'",
            "CREATE USER \"a\\\" IDENTIFIED BY 'pw'",
            "CREATE USER a /*! IDENTIFIED BY 'pw' */",
            "/*!99999 it's */ CREATE USER a IDENTIFIED BY 'pw'",
            "CREATE USER `a IDENTIFIED BY 'pw'",
            "CREATE USER 'a' IDENTIFIED BY 'pw",
            "CREATE USER a IDENTIFIED BY 'x''pw'",
        ] {
            let shown = hidden(text.as_bytes());
            assert!(!shown.windows(2).any(|part| part == b"pw"), "{}", String::from_utf8_lossy(&shown));
        }
        let odd = hidden(b"CREATE USER `\x81` IDENTIFIED BY `', 'pw'");
        assert!(!odd.windows(2).any(|part| part == b"pw"));
    }
}
