//! Values of literal tokens.

use std::borrow::Cow;

use super::{LiteralKind, Parser, Token};
use crate::ast::{ByteStr, Expr, Literal, LiteralValue};
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::{SqlResult, errors};

/// The digits' value, or the largest there is.
pub(super) fn saturating_u64(digits: &[u8]) -> u64 {
    digits.iter().fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
}

/// Whether the digits are below 2^64.
pub(super) fn fits_u64(digits: &[u8]) -> bool {
    matches!(integer(digits), LiteralValue::Int(_))
}

/// Resolves escapes and doubled quotes of the string `token`, its quotes included.
pub fn unquote(token: &[u8], backslash_escapes: bool) -> Vec<u8> {
    unquoted(token, backslash_escapes).into_owned()
}

/// The same, borrowed where there is nothing to resolve.
pub(crate) fn unquoted(token: &[u8], backslash_escapes: bool) -> Cow<'_, [u8]> {
    let quote = token[0];
    let body = &token[1..token.len() - 1];
    if memchr::memchr2(b'\\', quote, body).is_none() {
        return Cow::Borrowed(body);
    }
    let mut out = Vec::with_capacity(body.len());
    let mut bytes = body.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte == b'\\' && backslash_escapes {
            match bytes.next() {
                Some(b'n') => out.push(b'\n'),
                Some(b't') => out.push(b'\t'),
                Some(b'r') => out.push(b'\r'),
                Some(b'b') => out.push(8),
                Some(b'0') => out.push(0),
                Some(b'Z') => out.push(26),
                // Kept for LIKE, which reads its own escapes.
                Some(other @ (b'_' | b'%')) => out.extend([b'\\', other]),
                Some(other) => out.push(other),
                None => out.push(b'\\'),
            }
        } else {
            out.push(byte);
            if byte == quote {
                bytes.next();
            }
        }
    }
    Cow::Owned(out)
}

/// Bytes of hexadecimal digits; an odd one at the front stands alone.
pub fn hex_bytes(digits: &[u8]) -> Vec<u8> {
    let nibble = |digit: u8| match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    };
    let (first, pairs) = digits.split_at(digits.len() % 2);
    let head = first.iter().map(|&digit| nibble(digit));
    head.chain(pairs.chunks_exact(2).map(|pair| nibble(pair[0]) << 4 | nibble(pair[1]))).collect()
}

/// Bytes of binary digits, padded on the left.
pub fn bit_bytes(digits: &[u8]) -> Vec<u8> {
    digits.rchunks(8).rev().map(|byte| byte.iter().fold(0, |sum, digit| sum << 1 | (digit - b'0'))).collect()
}

impl Parser<'_> {
    pub(super) fn unquote(&self, token: Token) -> Vec<u8> {
        unquote(self.text_of(token), !self.options.no_backslash_escapes)
    }

    /// A number or string token, with what belongs to it.
    pub(super) fn literal(&mut self) -> SqlResult<Expr> {
        self.literal_with(None)
    }

    /// The literal after an introducer.
    #[inline(never)]
    fn literal_with(&mut self, charset: Option<String>) -> SqlResult<Expr> {
        let token = self.peek();
        let text = self.text_of(token);
        let value = match token.tok {
            Tok::Int => integer(text),
            Tok::Decimal => LiteralValue::Decimal(ascii(text)),
            Tok::Float => LiteralValue::Float(float(text)?),
            Tok::String | Tok::National => return Ok(self.strings(charset)),
            Tok::QuotedHex => LiteralValue::Hex {
                bytes: ByteStr(hex_bytes(&text[2..text.len() - 1]).into()),
                quoted: true,
                charset,
            },
            Tok::Hex => {
                LiteralValue::Hex { bytes: ByteStr(hex_bytes(&text[2..]).into()), quoted: false, charset }
            }
            Tok::QuotedBit => {
                LiteralValue::Bit { bytes: ByteStr(bit_bytes(&text[2..text.len() - 1]).into()), charset }
            }
            Tok::Bit => LiteralValue::Bit { bytes: ByteStr(bit_bytes(&text[2..]).into()), charset },
            _ => return Err(self.unexpected()),
        };
        let introduced = matches!(
            &value,
            LiteralValue::Hex { charset: Some(_), .. } | LiteralValue::Bit { charset: Some(_), .. }
        );
        self.advance();
        if !introduced {
            self.free_literal(token.index);
        }
        Ok(Expr::Literal(Literal { value, index: Some(token.index) }))
    }

    /// One or more adjacent strings.
    #[inline(never)]
    fn strings(&mut self, charset: Option<String>) -> Expr {
        let first = self.advance();
        let national = first.tok == Tok::National;
        let skip = usize::from(national);
        let mut bytes =
            unquote(&self.text[first.start + skip..first.end], !self.options.no_backslash_escapes);
        while self.at(Tok::String) {
            let next = self.advance();
            bytes.extend(self.unquote(next));
        }
        if self.options.empty_string_is_null && bytes.is_empty() {
            return Self::constant(LiteralValue::Null);
        }
        // An introducer is no part of the literal's own text, which a plan would read it from.
        if charset.is_none() {
            self.free_literal(first.index);
        }
        let charset = if national { Some("utf8mb3".to_owned()) } else { charset };
        if let (Some(as_sent), Some(_)) = (self.options.as_sent, &charset) {
            bytes = (as_sent.convert)(&bytes, as_sent.collation);
        }
        let value = LiteralValue::String { bytes: ByteStr(bytes.into()), charset };
        Expr::Literal(Literal { value, index: Some(first.index) })
    }

    /// `_latin1'..'`, `_binary 0x..`: at the introducer.
    #[inline(never)]
    pub(super) fn introduced(&mut self) -> SqlResult<Expr> {
        let token = self.advance();
        let mut charset = String::from_utf8_lossy(&self.text_of(token)[1..]).to_ascii_lowercase();
        if charset == "utf8" {
            // The old name means the same.
            charset.push_str("mb3");
        }
        if !matches!(self.peek().tok, Tok::String | Tok::QuotedHex | Tok::Hex | Tok::QuotedBit | Tok::Bit) {
            return Err(self.unexpected());
        }
        self.literal_with(Some(charset))
    }

    /// `DATE '..'`, `TIME '..'`, `TIMESTAMP '..'`: at the string.
    #[inline(never)]
    pub(super) fn temporal(&mut self, kind: Kw) -> SqlResult<Expr> {
        let token = self.expect(Tok::String)?;
        let bytes = ByteStr(self.unquote(token).into());
        let value = match kind {
            Kw::DATE => LiteralValue::Date(bytes),
            Kw::TIME => LiteralValue::Time(bytes),
            _ => LiteralValue::Timestamp(bytes),
        };
        Ok(Expr::Literal(Literal { value, index: Some(token.index) }))
    }
}

fn ascii(text: &[u8]) -> String {
    text.iter().copied().map(char::from).collect()
}

fn integer(text: &[u8]) -> LiteralValue {
    let digits = ascii(text);
    match digits.parse() {
        Ok(value) => LiteralValue::Int(value),
        Err(_) => LiteralValue::Decimal(digits),
    }
}

fn float(text: &[u8]) -> SqlResult<f64> {
    let digits = ascii(text);
    match digits.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(errors::illegal_value_for_type("double", digits)),
    }
}

/// What the text of a literal says, for plans that take it as a parameter: the same value that the parser puts into the tree.
/// `text` is the literal's span; `backslash_escapes` is false under NO_BACKSLASH_ESCAPES.
pub fn value_of(kind: LiteralKind, text: &[u8], options: &super::ParseOptions) -> SqlResult<LiteralValue> {
    let escapes = !options.no_backslash_escapes;
    Ok(match kind {
        LiteralKind::Int => integer(text),
        LiteralKind::Decimal => LiteralValue::Decimal(ascii(text)),
        LiteralKind::Float => LiteralValue::Float(float(text)?),
        LiteralKind::String if is_one_string(text, escapes) => {
            LiteralValue::String { bytes: ByteStr(unquote(text, escapes).into()), charset: None }
        }
        LiteralKind::National if is_one_string(&text[1..], escapes) => LiteralValue::String {
            bytes: ByteStr(unquote(&text[1..], escapes).into()),
            charset: Some("utf8mb3".to_owned()),
        },
        LiteralKind::Hex => {
            LiteralValue::Hex { bytes: ByteStr(hex_bytes(&text[2..]).into()), quoted: false, charset: None }
        }
        LiteralKind::String | LiteralKind::National | LiteralKind::QuotedHex | LiteralKind::Bit => {
            let (mut parser, ..) = Parser::tokenize(text, options, None);
            match parser.literal()? {
                Expr::Literal(literal) => literal.value,
                _ => return Err(parser.unexpected()),
            }
        }
    })
}

/// Whether no second string follows the first.
fn is_one_string(text: &[u8], escapes: bool) -> bool {
    let quote = text[0];
    let mut pos = 1;
    while let Some(&byte) = text.get(pos) {
        if byte == b'\\' && escapes {
            pos += 1;
        } else if byte == quote {
            if text.get(pos + 1) != Some(&quote) {
                return pos + 1 == text.len();
            }
            pos += 1;
        }
        pos += 1;
    }
    false
}
