//! Text to tokens, by MariaDB's rules: a word directly after a point or an at sign is never a keyword, `1a` is an identifier,
//! `1.5e` is an error, `/*!101100 ... */` is read where the version allows.
//!
//! The scanner only finds where tokens begin and end; keywords and values are the parser's. The digest runs on the same
//! scanner, so that both see the same literals. It never fails: what cannot be read is [`Tok::Bad`], and the parser makes the
//! error of it when it gets there.

use memchr::{memchr, memchr2};

/// Kinds of tokens.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tok {
    /// After the last token.
    End,
    /// Cannot be read: an unclosed string or comment, a stray character.
    Bad,
    /// A word outside quotes, possibly a keyword.
    Word,
    /// A word that is no keyword because of what stands before it.
    PlainWord,
    /// An identifier in backticks, or in double quotes under ANSI_QUOTES.
    Quoted,
    /// What follows `@` without quotes; points belong to it.
    Hostname,
    Int,
    Decimal,
    Float,
    String,
    National,
    QuotedHex,
    Hex,
    QuotedBit,
    Bit,
    Param,
    /// `\N`
    NullEscape,
    At,
    AtAt,
    LParen,
    RParen,
    LBrace,
    RBrace,
    Comma,
    Semicolon,
    Dot,
    Star,
    Plus,
    Minus,
    Slash,
    Percent,
    Tilde,
    Caret,
    Amp,
    Pipe,
    Bang,
    Lt,
    Gt,
    Eq,
    Le,
    Ge,
    Ne,
    NullSafeEq,
    ShiftLeft,
    ShiftRight,
    AndAnd,
    OrOr,
    Assign,
    Colon,
    /// A VALUES list of plain literals, taken as a whole.
    Rows,
}

impl Tok {
    /// Numbers and strings: what counts as a literal.
    #[inline]
    pub fn is_literal(self) -> bool {
        self as u8 >= Tok::Int as u8 && self as u8 <= Tok::Bit as u8
    }
}

/// Bytes `start..end` and what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawToken {
    /// Kind.
    pub tok: Tok,
    /// First byte.
    pub start: usize,
    /// One past the last.
    pub end: usize,
}

const SPACE: u8 = 1;
const DIGIT: u8 = 2;
const IDENT: u8 = 4;
/// Symbols that neither begin a literal or comment nor change how the next token is read.
const PLAIN: u8 = 8;

/// What each byte may be.
static CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        class[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r' => SPACE,
            b'0'..=b'9' => DIGIT | IDENT,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | 0x80.. => IDENT,
            b'=' | b'(' | b')' | b',' | b'<' | b'>' | b'!' | b'+' | b'%' | b'|' | b'&' | b'^' | b'~'
            | b'?' => PLAIN,
            _ => 0,
        };
        byte += 1;
    }
    class
};

#[inline]
fn is(byte: u8, class: u8) -> bool {
    CLASS[byte as usize] & class != 0
}

/// Whether MariaDB takes the byte as white space.
#[inline]
pub fn is_space(byte: u8) -> bool {
    is(byte, SPACE)
}

/// Whether the byte may stand in an identifier without quotes.
#[inline]
pub fn is_ident_byte(byte: u8) -> bool {
    is(byte, IDENT)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Anything,
    Dot,
    At,
    AtAt,
}

/// The scanner.
#[derive(Debug, Clone)]
pub struct Lexer<'a> {
    text: &'a [u8],
    pos: usize,
    after: After,
    /// Where the last word ended.
    word_end: usize,
    ansi_quotes: bool,
    backslash_escapes: bool,
    version: u32,
    /// Inside the code of a `/*!` comment.
    in_version_comment: bool,
    /// A comment was passed.
    pub saw_comment: bool,
    /// Where others may run next (`pause`).
    pause_at: usize,
}

/// Bytes read between two pauses.
const PAUSE_BYTES: usize = 8 << 10;

impl<'a> Lexer<'a> {
    /// Scans `text` from its start.
    pub fn new(text: &'a [u8], options: &crate::ParseOptions) -> Self {
        Lexer {
            text,
            pos: 0,
            after: After::Anything,
            word_end: usize::MAX,
            ansi_quotes: options.ansi_quotes,
            backslash_escapes: !options.no_backslash_escapes,
            version: options.version,
            in_version_comment: false,
            saw_comment: false,
            pause_at: PAUSE_BYTES,
        }
    }

    /// Goes on at `pos`, behind what somebody else has read.
    pub(crate) fn skip_to(&mut self, pos: usize) {
        self.pos = pos;
        self.after = After::Anything;
    }

    #[inline]
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.pos + ahead).copied().unwrap_or(0)
    }

    /// The next token; after the end, [`Tok::End`] for ever.
    #[inline]
    pub fn next_token(&mut self) -> RawToken {
        if self.pos >= self.pause_at {
            self.pause_at = self.pos + PAUSE_BYTES;
            crate::pause::pause();
        }
        let after = std::mem::replace(&mut self.after, After::Anything);
        if after != After::Anything && !is(self.peek(0), IDENT) {
            if after == After::AtAt && is(self.peek(0), SPACE) {
                let start = std::mem::replace(&mut self.pos, self.text.len());
                return RawToken { tok: Tok::Bad, start, end: self.pos };
            }
            return self.token_after(After::Anything);
        }
        self.token_after(after)
    }

    #[inline]
    fn token_after(&mut self, after: After) -> RawToken {
        if let Some(bad) = self.skip_blank() {
            return bad;
        }
        let start = self.pos;
        let Some(&byte) = self.text.get(start) else {
            let tok = if self.in_version_comment { Tok::Bad } else { Tok::End };
            return RawToken { tok, start, end: start };
        };
        let tok = if is(byte, IDENT) { self.word_or_number(byte, after) } else { self.symbol(byte) };
        RawToken { tok, start, end: self.pos }
    }

    /// Passes words, blanks and plain symbols in one go, for who looks for literals only; says where the last token among them
    /// ended, none where there was none.
    #[inline]
    pub fn skip_plain(&mut self) -> Option<usize> {
        if self.after != After::Anything {
            return None;
        }
        let mut end = None;
        let mut pos = self.pos;
        let stop = pos + PAUSE_BYTES;
        while let Some(&byte) = self.text.get(pos).filter(|_| pos < stop) {
            match CLASS[byte as usize] {
                SPACE => pos += 1,
                PLAIN => {
                    pos += 1;
                    end = Some(pos);
                }
                // A word, unless a quote makes it the prefix of a string.
                IDENT if self.text.get(pos + 1) != Some(&b'\'') => {
                    pos = self.ident_end(pos + 1);
                    self.word_end = pos;
                    end = Some(pos);
                }
                _ => break,
            }
        }
        self.pos = pos;
        end
    }

    /// Passes white space and comments; an unclosed comment is the next token.
    #[inline]
    fn skip_blank(&mut self) -> Option<RawToken> {
        loop {
            let byte = *self.text.get(self.pos)?;
            if is(byte, SPACE) {
                self.pos += 1;
            } else if matches!(byte, b'-' | b'#' | b'/' | b'*') {
                match self.skip_comment(byte) {
                    Comment::None => return None,
                    Comment::Passed => self.saw_comment = true,
                    Comment::Unclosed(start) => {
                        self.pos = self.text.len();
                        return Some(RawToken { tok: Tok::Bad, start, end: self.pos });
                    }
                }
            } else {
                return None;
            }
        }
    }

    fn skip_comment(&mut self, byte: u8) -> Comment {
        let start = self.pos;
        match byte {
            b'#' => self.skip_line(),
            b'-' => {
                let third = self.peek(2);
                if self.peek(1) != b'-' || !(is(third, SPACE) || third.is_ascii_control()) {
                    return Comment::None;
                }
                self.skip_line();
            }
            b'*' => {
                if !self.in_version_comment || self.peek(1) != b'/' {
                    return Comment::None;
                }
                self.in_version_comment = false;
                self.pos += 2;
            }
            _ => {
                if self.peek(1) != b'*' {
                    return Comment::None;
                }
                if !self.enter_version_comment() && !self.skip_block() {
                    return Comment::Unclosed(start);
                }
            }
        }
        Comment::Passed
    }

    fn skip_line(&mut self) {
        self.pos = memchr(b'\n', &self.text[self.pos..]).map_or(self.text.len(), |at| self.pos + at + 1);
    }

    /// At `/*`: where it is `/*!` or `/*M!` with a version that is to be read, passes the mark and says true.
    fn enter_version_comment(&mut self) -> bool {
        let mariadb_only = self.peek(2) == b'M' && self.peek(3) == b'!';
        if self.in_version_comment || !(mariadb_only || self.peek(2) == b'!') {
            return false;
        }
        let code = self.pos + if mariadb_only { 4 } else { 3 };
        let digits = self.text[code..].iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
        if digits >= 5 {
            let version = self.text[code..code + digits]
                .iter()
                .fold(0, |sum, &digit| sum * 10 + u32::from(digit - b'0'));
            // What MySQL 5.7 and later call their own, MariaDB does not read.
            let foreign = !mariadb_only && (50_700..=99_999).contains(&version);
            if version > self.version || foreign {
                return false;
            }
            self.pos = code + digits;
        } else {
            self.pos = code;
        }
        self.in_version_comment = true;
        true
    }

    /// At `/*`: passes the comment. One inside it is passed too, but only where the outer one is code for another version.
    fn skip_block(&mut self) -> bool {
        let nests = self.peek(2) == b'!' || (self.peek(2) == b'M' && self.peek(3) == b'!');
        let mut depth = 1;
        let mut pos = self.pos + 2;
        while pos + 1 < self.text.len() {
            match (self.text[pos], self.text[pos + 1]) {
                (b'*', b'/') => {
                    depth -= 1;
                    pos += 2;
                    if depth == 0 {
                        self.pos = pos;
                        return true;
                    }
                }
                (b'/', b'*') if nests && depth == 1 => {
                    depth += 1;
                    pos += 2;
                }
                _ => pos += 1,
            }
        }
        false
    }

    #[inline]
    fn ident_end(&self, mut pos: usize) -> usize {
        while pos < self.text.len() && is(self.text[pos], IDENT) {
            pos += 1;
        }
        pos
    }

    #[inline]
    fn word_or_number(&mut self, byte: u8, after: After) -> Tok {
        match after {
            After::Anything if byte.is_ascii_digit() => return self.number(byte),
            After::Anything if self.peek(1) == b'\'' => {
                if let Some(tok) = self.prefixed_string(byte) {
                    return tok;
                }
            }
            After::At => {
                let mut end = self.pos;
                while end < self.text.len() && (is(self.text[end], IDENT) || self.text[end] == b'.') {
                    end += 1;
                }
                self.pos = end;
                return Tok::Hostname;
            }
            _ => {}
        }
        self.end_word();
        // A word with a name behind its point is a name, be it a keyword or not.
        let qualifies = self.peek(0) == b'.' && is(self.peek(1), IDENT) && after == After::Anything;
        if after == After::Dot || qualifies { Tok::PlainWord } else { Tok::Word }
    }

    #[inline]
    fn end_word(&mut self) {
        self.pos = self.ident_end(self.pos);
        self.word_end = self.pos;
    }

    /// `N'..'`, `x'..'`, `b'..'`: at the letter, with a quote behind it.
    fn prefixed_string(&mut self, byte: u8) -> Option<Tok> {
        let body = self.pos + 2;
        match byte {
            b'n' | b'N' => {
                self.pos += 1;
                Some(if self.skip_quoted(b'\'') { Tok::National } else { Tok::Bad })
            }
            b'x' | b'X' | b'b' | b'B' => {
                let hex = byte | 0x20 == b'x';
                let accepted =
                    |byte: &u8| if hex { byte.is_ascii_hexdigit() } else { matches!(byte, b'0' | b'1') };
                let len = self.text[body..].iter().take_while(|byte| accepted(byte)).count();
                if self.text.get(body + len) != Some(&b'\'') || (hex && len % 2 != 0) {
                    self.pos = self.text.len();
                    return Some(Tok::Bad);
                }
                self.pos = body + len + 1;
                Some(if hex { Tok::QuotedHex } else { Tok::QuotedBit })
            }
            _ => None,
        }
    }

    fn digits_end(&self, mut pos: usize) -> usize {
        while pos < self.text.len() && self.text[pos].is_ascii_digit() {
            pos += 1;
        }
        pos
    }

    fn number(&mut self, first: u8) -> Tok {
        if first == b'0'
            && matches!(self.peek(1), b'x' | b'b')
            && let Some(tok) = self.prefixed_number()
        {
            return tok;
        }
        let end = self.digits_end(self.pos);
        let next = self.text.get(end).copied().unwrap_or(0);
        if next == b'.' {
            return self.fraction(end + 1);
        }
        if next | 0x20 == b'e' {
            let exponent = self.text.get(end + 1).copied().unwrap_or(0);
            let signed = matches!(exponent, b'+' | b'-');
            let digits = end + 1 + usize::from(signed);
            if self.text.get(digits).is_some_and(u8::is_ascii_digit) {
                self.pos = self.digits_end(digits);
                return Tok::Float;
            }
        }
        if is(next, IDENT) {
            self.end_word();
            return Tok::Word;
        }
        self.pos = end;
        Tok::Int
    }

    /// `0x..` and `0b..`: at the zero; None where it is a word or a plain zero.
    fn prefixed_number(&mut self) -> Option<Tok> {
        let hex = self.peek(1) == b'x';
        let accepted = |byte: &u8| if hex { byte.is_ascii_hexdigit() } else { matches!(byte, b'0' | b'1') };
        let len = self.text[self.pos + 2..].iter().take_while(|byte| accepted(byte)).count();
        let end = self.pos + 2 + len;
        if len == 0 || self.text.get(end).is_some_and(|&byte| is(byte, IDENT)) {
            return None;
        }
        self.pos = end;
        Some(if hex { Tok::Hex } else { Tok::Bit })
    }

    /// Behind a number's point.
    fn fraction(&mut self, from: usize) -> Tok {
        let end = self.digits_end(from);
        if self.text.get(end).is_none_or(|byte| byte | 0x20 != b'e') {
            self.pos = end;
            return Tok::Decimal;
        }
        let digits = end + 1 + usize::from(matches!(self.text.get(end + 1), Some(b'+' | b'-')));
        if !self.text.get(digits).is_some_and(u8::is_ascii_digit) {
            self.pos = self.text.len();
            return Tok::Bad;
        }
        self.pos = self.digits_end(digits);
        Tok::Float
    }

    /// At the opening quote (`'` or `"`): passes the string, false where it is not closed.
    fn skip_quoted(&mut self, quote: u8) -> bool {
        let mut pos = self.pos + 1;
        let escape = if self.backslash_escapes { b'\\' } else { quote };
        while let Some(found) = self.text.get(pos..).and_then(|rest| memchr2(quote, escape, rest)) {
            let at = pos + found;
            if self.text[at] == quote && self.text.get(at + 1) != Some(&quote) {
                self.pos = at + 1;
                return true;
            }
            // A doubled quote, or an escape and what it escapes.
            pos = at + 2;
        }
        self.pos = self.text.len();
        false
    }

    /// At the opening quote of an identifier, which has no zero octet within.
    fn skip_quoted_identifier(&mut self, quote: u8) -> bool {
        let mut pos = self.pos + 1;
        while let Some(found) = self.text.get(pos..).and_then(|rest| memchr2(quote, 0, rest)) {
            let at = pos + found;
            if self.text[at] == 0 {
                break;
            }
            if self.text.get(at + 1) != Some(&quote) {
                self.pos = at + 1;
                return true;
            }
            pos = at + 2;
        }
        self.pos = self.text.len();
        false
    }

    fn symbol(&mut self, byte: u8) -> Tok {
        use Tok::*;
        match byte {
            b'\'' => return if self.skip_quoted(b'\'') { String } else { Bad },
            b'"' if !self.ansi_quotes => return if self.skip_quoted(b'"') { String } else { Bad },
            b'"' | b'`' => return if self.skip_quoted_identifier(byte) { Quoted } else { Bad },
            // Directly behind a word, `.5` is a column named 5.
            b'.' if self.peek(1).is_ascii_digit() && self.word_end != self.pos => {
                return self.fraction(self.pos + 1);
            }
            _ => {}
        }
        let (tok, len) = match (byte, self.peek(1), self.peek(2)) {
            (b'<', b'=', b'>') => (NullSafeEq, 3),
            (b'<', b'=', _) => (Le, 2),
            (b'<', b'>', _) | (b'!', b'=', _) => (Ne, 2),
            (b'<', b'<', _) => (ShiftLeft, 2),
            (b'<', ..) => (Lt, 1),
            (b'>', b'=', _) => (Ge, 2),
            (b'>', b'>', _) => (ShiftRight, 2),
            (b'>', ..) => (Gt, 1),
            (b'=', ..) => (Eq, 1),
            (b'!', ..) => (Bang, 1),
            (b'&', b'&', _) => (AndAnd, 2),
            (b'&', ..) => (Amp, 1),
            (b'|', b'|', _) => (OrOr, 2),
            (b'|', ..) => (Pipe, 1),
            (b':', b'=', _) => (Assign, 2),
            (b':', ..) => (Colon, 1),
            (b'@', b'@', _) => (AtAt, 2),
            (b'@', ..) => (At, 1),
            (b'\\', b'N', _) => (NullEscape, 2),
            (b'(', ..) => (LParen, 1),
            (b')', ..) => (RParen, 1),
            (b'{', ..) => (LBrace, 1),
            (b'}', ..) => (RBrace, 1),
            (b',', ..) => (Comma, 1),
            (b';', ..) => (Semicolon, 1),
            (b'.', ..) => (Dot, 1),
            (b'*', ..) => (Star, 1),
            (b'+', ..) => (Plus, 1),
            (b'-', ..) => (Minus, 1),
            (b'/', ..) => (Slash, 1),
            (b'%', ..) => (Percent, 1),
            (b'~', ..) => (Tilde, 1),
            (b'^', ..) => (Caret, 1),
            (b'?', ..) => (Param, 1),
            _ => (Bad, 1),
        };
        self.pos += len;
        self.after = match tok {
            Dot => After::Dot,
            At => After::At,
            AtAt => After::AtAt,
            _ => After::Anything,
        };
        tok
    }
}

enum Comment {
    None,
    Passed,
    Unclosed(usize),
}
