//! Keeps passwords out of what others see of statements.

use std::borrow::Cow;

/// Words of statements whose literals may be passwords.
const WORDS: &[&[u8]] = &[b"password", b"identified"];

/// What stands for a literal.
const HIDDEN: &[u8] = b"<secret>";

/// A statement's text as others may see it: without its literals where it is about passwords.
pub fn hidden(text: &[u8]) -> Cow<'_, [u8]> {
    let says = |word: &[u8]| text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    if !WORDS.iter().any(|word| says(word)) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        out.push(byte);
        if matches!(byte, b'\'' | b'"') {
            at = end_of_literal(text, at, byte);
            out.extend_from_slice(HIDDEN);
            out.push(byte);
        }
    }
    Cow::Owned(out)
}

/// Where a literal ends that begins at `at`, its quote included.
fn end_of_literal(text: &[u8], mut at: usize, quote: u8) -> usize {
    while let Some(&byte) = text.get(at) {
        at += 1;
        if byte == b'\\' {
            at += 1;
        } else if byte == quote {
            if text.get(at) != Some(&quote) {
                break;
            }
            at += 1;
        }
    }
    at.min(text.len())
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
}
