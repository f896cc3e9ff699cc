//! Looking at tokens and taking them; names.

use super::function::is_function_word;
use super::literal::unquote;
use super::{Parser, Token};
use crate::ast::{ByteStr, ColumnName, Expr, Literal, LiteralValue, ObjectName, SourceText};
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::{SqlError, SqlResult, errors};

/// Tokens taken between two pauses.
const TOKENS_PER_PAUSE: usize = 1024;

impl Parser<'_> {
    /// The next token, not taken.
    #[inline]
    pub(super) fn peek(&self) -> Token {
        self.tokens[self.pos]
    }

    /// The token `ahead` places after the next.
    #[inline]
    pub(super) fn peek_at(&self, ahead: usize) -> Token {
        self.tokens[(self.pos + ahead).min(self.tokens.len() - 1)]
    }

    /// Takes the next token; the last one, the end, stays.
    #[inline]
    pub(super) fn advance(&mut self) -> Token {
        let token = self.peek();
        if self.pos + 1 < self.tokens.len() {
            self.pos += 1;
            if self.pos.is_multiple_of(TOKENS_PER_PAUSE) {
                crate::pause::pause();
            }
        }
        token
    }

    /// Error 1064 at the next token.
    #[cold]
    pub(super) fn unexpected(&self) -> SqlError {
        let token = self.peek();
        // MariaDB's scanner takes a comma as passed before the grammar sees it.
        self.error_at(if token.tok == Tok::Comma { token.end } else { token.start })
    }

    #[inline]
    pub(super) fn at(&self, tok: Tok) -> bool {
        self.peek().tok == tok
    }

    #[inline]
    pub(super) fn at_kw(&self, kw: Kw) -> bool {
        self.peek().kw == Some(kw)
    }

    pub(super) fn at_any(&self, kws: &[Kw]) -> bool {
        self.peek().kw.is_some_and(|kw| kws.contains(&kw))
    }

    /// Whether the words `kws` come next.
    pub(super) fn at_kws(&self, kws: &[Kw]) -> bool {
        kws.iter().enumerate().all(|(ahead, &kw)| self.peek_at(ahead).kw == Some(kw))
    }

    /// Takes the token if it comes next.
    #[inline]
    pub(super) fn accept(&mut self, tok: Tok) -> bool {
        let found = self.at(tok);
        if found {
            self.advance();
        }
        found
    }

    #[inline]
    pub(super) fn accept_kw(&mut self, kw: Kw) -> bool {
        let found = self.at_kw(kw);
        if found {
            self.advance();
        }
        found
    }

    /// Takes the words if all of them come next.
    pub(super) fn accept_kws(&mut self, kws: &[Kw]) -> bool {
        let found = self.at_kws(kws);
        if found {
            self.pos += kws.len();
        }
        found
    }

    /// Takes one of the words.
    pub(super) fn accept_any(&mut self, kws: &[Kw]) -> Option<Kw> {
        let kw = self.peek().kw.filter(|kw| kws.contains(kw))?;
        self.advance();
        Some(kw)
    }

    /// The first word decides; the others must follow.
    pub(super) fn accept_then(&mut self, first: Kw, rest: &[Kw]) -> SqlResult<bool> {
        if !self.accept_kw(first) {
            return Ok(false);
        }
        for &kw in rest {
            self.expect_kw(kw)?;
        }
        Ok(true)
    }

    pub(super) fn expect(&mut self, tok: Tok) -> SqlResult<Token> {
        if self.at(tok) { Ok(self.advance()) } else { Err(self.unexpected()) }
    }

    pub(super) fn expect_kw(&mut self, kw: Kw) -> SqlResult<()> {
        if self.accept_kw(kw) { Ok(()) } else { Err(self.unexpected()) }
    }

    pub(super) fn expect_any(&mut self, kws: &[Kw]) -> SqlResult<Kw> {
        self.accept_any(kws).ok_or_else(|| self.unexpected())
    }

    /// `item, item, ...`, at least one.
    pub(super) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> SqlResult<T>) -> SqlResult<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept(Tok::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// `(item, item, ...)`, at least one.
    pub(super) fn parens<T>(&mut self, item: impl FnMut(&mut Self) -> SqlResult<T>) -> SqlResult<Vec<T>> {
        self.expect(Tok::LParen)?;
        let items = self.list(item)?;
        self.expect(Tok::RParen)?;
        Ok(items)
    }

    /// Runs `body` one level deeper; error 1436 beyond the bound.
    pub(super) fn nested<T>(&mut self, body: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        if self.depth >= self.options.depth_max {
            return Err(self.too_deep());
        }
        self.depth += 1;
        let before = std::mem::take(&mut self.links);
        let result = body(self);
        self.depth -= 1;
        self.links = self.links.max(before);
        result
    }

    /// Error 1436 where a chain of operators grows longer than trees may be deep.
    pub(super) fn chain(&mut self, length: &mut u32) -> SqlResult<()> {
        *length += 1;
        if *length > super::CHAIN_MAX { Err(self.too_deep()) } else { self.link(1) }
    }

    /// Adds links on top of the tree of the current scope; error 1436 where its longest path has too many.
    pub(super) fn link(&mut self, links: u32) -> SqlResult<()> {
        self.links += links;
        if self.links > super::LINKS_MAX { Err(self.too_deep()) } else { Ok(()) }
    }

    /// The same for set operations; `flat` for a UNION behind a UNION, which who runs it takes in a loop.
    pub(super) fn chain_of_queries(&self, length: &mut u32, flat: bool) -> SqlResult<()> {
        *length += if flat { 1 } else { super::SET_OPERATIONS_MAX / super::NESTED_OPERATIONS_MAX };
        if *length > super::SET_OPERATIONS_MAX { Err(self.too_deep()) } else { Ok(()) }
    }

    #[cold]
    fn too_deep(&self) -> SqlError {
        const STACK_BYTES: usize = 256 << 10;
        errors::stack_overrun_need_more(STACK_BYTES, STACK_BYTES, 16 << 10)
    }

    pub(super) fn text_of(&self, token: Token) -> &[u8] {
        &self.text[token.start..token.end]
    }

    /// Whether `token` may be an identifier.
    pub(super) fn is_ident(token: Token) -> bool {
        match token.tok {
            Tok::Quoted | Tok::PlainWord => true,
            Tok::Word => !token.kw.is_some_and(Kw::is_reserved),
            _ => false,
        }
    }

    /// Whether nothing stands between the next token and the one after it.
    pub(super) fn at_adjacent(&self) -> bool {
        self.peek().end == self.peek_at(1).start
    }

    /// Whether a name comes next that is no keyword at all, as the options of engines are.
    pub(super) fn at_unknown_word(&self) -> bool {
        let token = self.peek();
        token.tok == Tok::Quoted
            || (token.tok == Tok::Word && token.kw.is_none() && !self.is_introducer_token(token))
    }

    pub(super) fn at_ident(&self) -> bool {
        let token = self.peek();
        Self::is_ident(token) && !self.is_introducer_token(token)
    }

    pub(super) fn is_introducer_token(&self, token: Token) -> bool {
        token.tok == Tok::Word && crate::keyword::is_introducer(self.text_of(token))
    }

    /// The name that `token` spells.
    pub(super) fn name_of(&self, token: Token) -> SqlResult<String> {
        let bytes = self.text_of(token);
        // Names have no characters beyond U+FFFF, which take four octets.
        let text = match std::str::from_utf8(bytes) {
            Ok(text) if bytes.iter().all(|octet| *octet < 0xF0) => text,
            _ => {
                let name = if token.tok == Tok::Quoted { unquote(bytes, false) } else { bytes.to_vec() };
                let shown = shown_octets(&name);
                return Err(errors::invalid_character_string(self.options.client_charset, shown));
            }
        };
        if token.tok != Tok::Quoted {
            return Ok(text.to_owned());
        }
        // Names that begin with it are the server's own.
        if text.contains('\0') {
            return Err(self.unexpected());
        }
        let quote = char::from(bytes[0]);
        let doubled: String = [quote, quote].iter().collect();
        Ok(text[1..text.len() - 1].replace(&doubled, quote.encode_utf8(&mut [0; 4])))
    }

    /// An identifier.
    pub(super) fn ident(&mut self) -> SqlResult<String> {
        if !self.at_ident() {
            return Err(self.unexpected());
        }
        if self.begins_function() {
            return Err(self.unexpected());
        }
        let token = self.advance();
        self.name_of(token)
    }

    /// Whether the next token names a function of the grammar and its parenthesis follows: a name only behind a dot.
    fn begins_function(&self) -> bool {
        let token = self.peek();
        let next = self.peek_at(1);
        next.tok == Tok::LParen
            && token.tok == Tok::Word
            && (next.start == token.end || self.options.ignore_space)
            && (self.pos == 0 || self.tokens[self.pos - 1].tok != Tok::Dot)
            && is_function_word(self.text_of(token))
    }

    /// An identifier or a string.
    pub(super) fn ident_or_text(&mut self) -> SqlResult<String> {
        if self.at(Tok::String) { Ok(self.string()?.to_text()) } else { self.ident() }
    }

    /// The name of an account, a collation and their like: the string ends at its first NUL.
    pub(super) fn name_or_text(&mut self) -> SqlResult<String> {
        let mut name = self.ident_or_text()?;
        name.truncate(name.find('\0').unwrap_or(name.len()));
        Ok(name)
    }

    /// `db.name` or `name` of a table, view or sequence: 1102 and 1103 where no such thing can have the name.
    pub(super) fn object_name(&mut self) -> SqlResult<ObjectName> {
        let name = self.qualified_name()?;
        match is_name_of_object(&name.name) {
            true => Ok(name),
            false => Err(errors::wrong_table_name(&name.name)),
        }
    }

    /// `db.name` or `name` of a routine, trigger or event: 1102 and 1458 where no such thing can have the name.
    pub(super) fn program_name(&mut self) -> SqlResult<ObjectName> {
        let name = self.qualified_name()?;
        match is_name_of_object(&name.name) {
            true => Ok(name),
            false => Err(errors::sp_wrong_name(&name.name)),
        }
    }

    /// A database's name; 1102 where none can have it.
    pub(super) fn database_name(&mut self) -> SqlResult<String> {
        let name = self.ident()?;
        if is_name_of_object(&name) { Ok(name) } else { Err(errors::wrong_db_name(&name)) }
    }

    /// `db.name` or `name`, of which the second is not checked.
    pub(super) fn qualified_name(&mut self) -> SqlResult<ObjectName> {
        if self.accept(Tok::Dot) {
            return Ok(ObjectName { db: None, name: self.ident()? });
        }
        let first = self.ident()?;
        if self.accept(Tok::Dot) {
            let name = self.ident()?;
            if !is_name_of_object(&first) {
                return Err(errors::wrong_db_name(&first));
            }
            return Ok(ObjectName { db: Some(first), name });
        }
        Ok(ObjectName { db: None, name: first })
    }

    /// `a`, `t.a`, `db.t.a`.
    pub(super) fn column_name(&mut self) -> SqlResult<ColumnName> {
        let first = self.ident()?;
        if !self.accept(Tok::Dot) {
            return Ok(ColumnName { db: None, table: None, column: first });
        }
        let second = self.ident()?;
        if !self.accept(Tok::Dot) {
            return Ok(ColumnName { db: None, table: Some(first), column: second });
        }
        Ok(ColumnName { db: Some(first), table: Some(second), column: self.ident()? })
    }

    /// A plain integer, as in LIMIT of SHOW, type lengths and table options; its literal stays fixed.
    pub(super) fn integer(&mut self) -> SqlResult<u64> {
        let token = self.expect(Tok::Int)?;
        Ok(super::literal::saturating_u64(self.text_of(token)))
    }

    /// A number that counts something, as in WAIT and XA: of others than integers only the digits before the point or
    /// exponent count. Its literal stays fixed.
    pub(super) fn ulong(&mut self) -> SqlResult<u64> {
        if !matches!(self.peek().tok, Tok::Int | Tok::Hex | Tok::Decimal | Tok::Float) {
            return Err(self.unexpected());
        }
        let token = self.advance();
        let text = self.text_of(token);
        if token.tok == Tok::Hex {
            let digits =
                text.get(2..).and_then(|digits| std::str::from_utf8(digits).ok()).unwrap_or_default();
            return Ok(u64::from_str_radix(digits, 16).unwrap_or(u64::MAX));
        }
        let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
        Ok(super::literal::saturating_u64(&text[..end]))
    }

    /// A string literal without introducer, escapes resolved; adjacent strings are not joined.
    pub(super) fn string(&mut self) -> SqlResult<ByteStr> {
        let token = self.expect(Tok::String)?;
        Ok(ByteStr(self.unquote(token).into()))
    }

    /// A string, or octets in hexadecimal or binary digits.
    pub(super) fn string_or_bytes(&mut self) -> SqlResult<ByteStr> {
        if !matches!(self.peek().tok, Tok::Hex | Tok::QuotedHex | Tok::Bit | Tok::QuotedBit) {
            return self.string();
        }
        let first = self.pos;
        let literal = self.literal()?;
        self.fix_literals(first);
        match literal {
            Expr::Literal(Literal {
                value: LiteralValue::Hex { bytes, .. } | LiteralValue::Bit { bytes, .. },
                ..
            }) => Ok(bytes),
            _ => Err(self.unexpected()),
        }
    }

    /// The words from `first` to before the next token, as written; of a long text the beginning, of which names are made.
    pub(super) fn source(&self, first: usize) -> SourceText {
        let start = self.tokens[first].start;
        let end = if self.pos > first { self.tokens[self.pos - 1].end } else { start };
        let text = String::from_utf8_lossy(&self.text[start..end.min(start + NAME_SOURCE_MAX)]);
        SourceText(if text.contains("/*") { without_version_marks(&text) } else { text.into_owned() })
    }

    /// The literals among the tokens from `first` to before the next shape the tree.
    pub(super) fn fix_literals(&mut self, first: usize) {
        self.fix_literals_in(first..self.pos);
    }

    /// The literals among these tokens shape the tree.
    pub(super) fn fix_literals_in(&mut self, tokens: std::ops::Range<usize>) {
        for index in tokens {
            let token = self.tokens[index];
            if token.tok.is_literal() {
                self.literals[token.index as usize].fixed = true;
            }
        }
    }

    /// Literal `index` may be a parameter of the plan.
    pub(super) fn free_literal(&mut self, index: u32) {
        self.literals[index as usize].fixed = false;
    }

    /// IF EXISTS.
    pub(super) fn if_exists(&mut self) -> SqlResult<bool> {
        self.accept_then(Kw::IF, &[Kw::EXISTS])
    }

    /// IF NOT EXISTS.
    pub(super) fn if_not_exists(&mut self) -> SqlResult<bool> {
        self.accept_then(Kw::IF, &[Kw::NOT, Kw::EXISTS])
    }

    /// A column without table, for words that stand as values.
    pub(super) fn bare_word(name: String) -> Expr {
        Expr::Column(ColumnName { db: None, table: None, column: name })
    }

    /// A literal that is no parameter.
    pub(super) fn constant(value: LiteralValue) -> Expr {
        Expr::Literal(Literal { value, index: None })
    }
}

/// Whether a database, a table or a routine can have the name.
fn is_name_of_object(name: &str) -> bool {
    !name.is_empty() && !name.ends_with(' ')
}

/// Bytes of a text of which a column's name is made: no name is as long.
pub(super) const NAME_SOURCE_MAX: usize = 4 << 10;

/// `1 /*!50000 + 1 */` reads `1  + 1 `: the marks of code for versions are no part of a column's name.
fn without_version_marks(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut open = false;
    while let Some(at) = rest.find(['/', '*']) {
        let (before, mark) = rest.split_at(at);
        out.push_str(before);
        let code = mark.strip_prefix("/*!").or_else(|| mark.strip_prefix("/*M!"));
        if let Some(code) = code {
            open = true;
            rest = code.trim_start_matches(|ch: char| ch.is_ascii_digit());
        } else if let Some(behind) = mark.strip_prefix("*/").filter(|_| open) {
            open = false;
            rest = behind;
        } else {
            out.push_str(&mark[..1]);
            rest = &mark[1..];
        }
    }
    out.push_str(rest);
    out.trim_end().to_owned()
}

/// What of a text a message has room for.
const SHOWN_CHARS_MAX: usize = 64;

/// A text whose octets beyond ASCII stand in hexadecimal digits, cut where it is long.
fn shown_octets(octets: &[u8]) -> String {
    let mut shown = String::new();
    let mut cut = 0;
    for octet in octets {
        let next = match octet {
            b' '..=0x7F => char::from(*octet).to_string(),
            _ => format!("\\x{octet:02X}"),
        };
        if shown.len() + next.len() > SHOWN_CHARS_MAX {
            shown.truncate(cut);
            return shown + "...";
        }
        shown.push_str(&next);
        if shown.len() + 3 <= SHOWN_CHARS_MAX {
            cut = shown.len();
        }
    }
    shown
}
