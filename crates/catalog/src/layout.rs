//! How SHOW CREATE prints under `sql_mode` and `sql_quote_show_create`: which quotes names stand in, and what is left out.

use std::borrow::Cow;

use keel_context::SessionVars;
use keel_sql::keyword::Kw;
use keel_value::SqlMode;

/// What a session wants of SHOW CREATE.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The quote around names.
    quote: char,
    /// Names that need no quotes have some too.
    always: bool,
    /// Engine, character set and what else stands behind the parenthesis.
    pub table_options: bool,
    /// The word for the engine.
    pub engine: &'static str,
    /// Character sets and collations; where there are none, a binary collation is a word behind the type.
    pub charsets: bool,
    /// ON UPDATE of columns.
    pub column_options: bool,
    /// AUTO_INCREMENT of columns.
    pub auto_increment: bool,
    /// DATE and BLOB mean other types unless they are said to be the server's own.
    pub oracle: bool,
    /// So does TIMESTAMP.
    pub maxdb: bool,
    /// USING, COMMENT and their like of keys.
    pub key_options: bool,
    /// ALGORITHM, DEFINER and SQL SECURITY of views.
    pub view_options: bool,
    /// Options that the engine does not know are no comments.
    pub unknown_options: bool,
}

impl Layout {
    /// Everything, in backticks.
    pub const FULL: Layout = Layout {
        quote: '`',
        always: true,
        table_options: true,
        engine: "ENGINE",
        charsets: true,
        column_options: true,
        auto_increment: true,
        oracle: false,
        maxdb: false,
        key_options: true,
        view_options: true,
        unknown_options: true,
    };

    /// That of a session.
    pub fn of(vars: &SessionVars) -> Layout {
        let has = |modes: &[SqlMode]| modes.iter().any(|mode| vars.sql_mode.has(*mode));
        let foreign = has(&[
            SqlMode::POSTGRESQL,
            SqlMode::ORACLE,
            SqlMode::MSSQL,
            SqlMode::DB2,
            SqlMode::MAXDB,
            SqlMode::ANSI,
        ]);
        let old = has(&[SqlMode::MYSQL323, SqlMode::MYSQL40]);
        let limited = old || has(&[SqlMode::NO_FIELD_OPTIONS]);
        Layout {
            quote: if has(&[SqlMode::ANSI_QUOTES]) { '"' } else { '`' },
            always: vars.quote_show_create,
            table_options: !foreign && !has(&[SqlMode::NO_TABLE_OPTIONS]),
            engine: if old { "TYPE" } else { "ENGINE" },
            charsets: !old,
            column_options: !limited,
            auto_increment: !has(&[SqlMode::NO_FIELD_OPTIONS]),
            oracle: has(&[SqlMode::ORACLE]),
            maxdb: has(&[SqlMode::MAXDB]),
            key_options: !foreign && !limited && !has(&[SqlMode::NO_KEY_OPTIONS]),
            view_options: !foreign,
            unknown_options: has(&[SqlMode::IGNORE_BAD_TABLE_OPTIONS]),
        }
    }

    /// A text whose names stand in backticks, with the quotes that are wanted. Strings stay as they are.
    pub fn quoted(self, sql: &str) -> Cow<'_, str> {
        if self.quote == '`' && self.always {
            return Cow::Borrowed(sql);
        }
        let mut out = String::with_capacity(sql.len());
        let mut chars = sql.chars();
        while let Some(c) = chars.next() {
            match c {
                '`' => self.push_name(&mut out, &mut chars),
                '\'' => push_string(&mut out, &mut chars),
                c => out.push(c),
            }
        }
        Cow::Owned(out)
    }

    /// The name behind a backtick that was read.
    fn push_name(self, out: &mut String, chars: &mut std::str::Chars<'_>) {
        let mut name = String::new();
        while let Some(c) = chars.next() {
            if c == '`' {
                let mut ahead = chars.clone();
                if ahead.next() != Some('`') {
                    break;
                }
                *chars = ahead;
            }
            name.push(c);
        }
        if !self.always && is_plain(&name) {
            out.push_str(&name);
            return;
        }
        out.push(self.quote);
        for c in name.chars() {
            if c == self.quote {
                out.push(c);
            }
            out.push(c);
        }
        out.push(self.quote);
    }
}

/// The string behind a quote that was read.
fn push_string(out: &mut String, chars: &mut std::str::Chars<'_>) {
    out.push('\'');
    while let Some(c) = chars.next() {
        out.push(c);
        match c {
            '\'' => return,
            '\\' => out.extend(chars.next()),
            _ => {}
        }
    }
}

/// Whether a name is read as one without quotes.
fn is_plain(name: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii();
    !name.is_empty()
        && name.chars().all(part)
        && !name.chars().all(|c| c.is_ascii_digit())
        && Kw::lookup(name.as_bytes()).is_none_or(|kw| kw == Kw::N)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_quotes_that_are_wanted() {
        let sql = "`a``b` `c` `select` `1` `d\"e` '`x`\\'`y`' 'it''s `z`'";
        let ansi = Layout { quote: '"', ..Layout::FULL };
        assert_eq!(ansi.quoted(sql), "\"a`b\" \"c\" \"select\" \"1\" \"d\"\"e\" '`x`\\'`y`' 'it''s `z`'");
        let bare = Layout { always: false, ..Layout::FULL };
        assert_eq!(bare.quoted(sql), "`a``b` c `select` `1` `d\"e` '`x`\\'`y`' 'it''s `z`'");
        assert!(matches!(Layout::FULL.quoted(sql), Cow::Borrowed(_)));
    }
}
