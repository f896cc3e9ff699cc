//! Finds the ends of literals, quoted names and comments in statement texts that have not been parsed.

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Between `'` or `"`.
    Literal,
    /// Between backticks.
    Name,
    /// A comment that the server ignores.
    Comment,
    /// The opening of a comment whose text is part of the statement, `/*!` or `/*M!`.
    Opening,
    /// Any other byte.
    Other,
}

/// A part of the text.
#[derive(Debug, Clone, Copy)]
pub struct Token {
    /// Its kind.
    pub kind: Kind,
    /// The start of the next token.
    pub end: usize,
    /// Whether the end is the same in every `sql_mode`: the token is complete and has no backslash before a quote.
    pub is_sure: bool,
}

/// The token that starts at `at`, which must be within the text.
pub fn token(text: &[u8], at: usize) -> Token {
    let rest = &text[at..];
    let sure = |kind, len: usize| Token { kind, end: at + len.min(rest.len()), is_sure: true };
    match rest {
        [quote @ (b'\'' | b'"' | b'`'), ..] => quoted(text, at, *quote),
        [b'/', b'*', b'!', ..] => sure(Kind::Opening, 3),
        [b'/', b'*', b'M', b'!', ..] => sure(Kind::Opening, 4),
        [b'/', b'*', ..] => {
            let end = rest[2..].windows(2).position(|part| part == b"*/");
            sure(Kind::Comment, end.map_or(rest.len(), |end| end + 4))
        }
        [b'#', ..] => sure(Kind::Comment, line(rest)),
        [b'-', b'-'] => sure(Kind::Comment, 2),
        [b'-', b'-', next, ..] if next.is_ascii_whitespace() || next.is_ascii_control() => {
            sure(Kind::Comment, line(rest))
        }
        _ => sure(Kind::Other, 1),
    }
}

/// The length of a line with its end, in bytes.
fn line(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1)
}

fn quoted(text: &[u8], at: usize, quote: u8) -> Token {
    let kind = if quote == b'`' { Kind::Name } else { Kind::Literal };
    let (mut end, mut is_sure) = (at + 1, true);
    while let Some(&byte) = text.get(end) {
        end += 1;
        if byte == b'\\' && quote != b'`' {
            is_sure &= !matches!(text.get(end), Some(b'\'' | b'"'));
            end += 1;
        } else if byte == quote {
            if text.get(end) != Some(&quote) {
                return Token { kind, end, is_sure };
            }
            end += 1;
        }
    }
    Token { kind, end: text.len(), is_sure: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Vec<(Kind, &str)> {
        let (mut at, mut found) = (0, Vec::new());
        while at < text.len() {
            let token = token(text.as_bytes(), at);
            if token.kind != Kind::Other {
                found.push((token.kind, &text[at..token.end]));
            }
            at = token.end;
        }
        found
    }

    #[test]
    fn parts_end_where_the_parser_sees_it() {
        use Kind::{Comment, Literal, Name, Opening};
        assert_eq!(
            parts("a 'it''s\\\\' `o'b``` /* ' */"),
            [(Literal, "'it''s\\\\'"), (Name, "`o'b```"), (Comment, "/* ' */")]
        );
        assert_eq!(parts("--\t'\n--x '' #'"), [(Comment, "--\t'\n"), (Literal, "''"), (Comment, "#'")]);
        assert_eq!(parts("/*!50000 'x' */ \"y"), [(Opening, "/*!"), (Literal, "'x'"), (Literal, "\"y")]);
        assert_eq!(parts("/* x"), [(Comment, "/* x")]);
        assert!(!token(b"'a\\' b", 0).is_sure && !token(b"'a", 0).is_sure && token(b"'a\\n'", 0).is_sure);
    }
}
