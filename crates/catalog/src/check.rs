//! CHECK constraints as the catalog keeps them: conditions are SQL text, names of columns in backquotes.

use std::sync::Arc;

use super::names::{self, push_quoted};
use super::{ColumnDef, TableDef};
use keel_value::types::Format;

/// A CHECK constraint of a table; those of columns stand in [`ColumnDef::check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckConstraint {
    /// Its name.
    pub name: Arc<str>,
    /// What must not be false.
    pub condition: String,
}

/// What a column of type JSON checks: it is such a column by this condition alone.
pub fn json_condition(column: &str) -> String {
    let mut out = String::from("json_valid(");
    push_quoted(&mut out, column);
    out.push(')');
    out
}

/// The columns that a condition names.
pub fn columns_of(condition: &str) -> Vec<String> {
    let named = std::cell::RefCell::new(Vec::new());
    rename_columns(condition, |name| {
        named.borrow_mut().push(name.to_owned());
        None
    });
    named.into_inner()
}

/// A condition with names of columns changed: `rename` gives what stands for a name. Tables before columns go.
pub fn rename_columns(condition: &str, rename: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(condition.len());
    let mut rest = condition;
    while let Some(at) = rest.find(['`', '\'']) {
        out.push_str(&rest[..at]);
        let (quoted, behind) = take_quoted(&rest[at..]);
        rest = behind;
        if quoted.starts_with('\'') {
            out.push_str(quoted);
            continue;
        }
        if let Some(behind) = rest.strip_prefix(".`") {
            // A table or database: the column follows.
            rest = &rest[rest.len() - behind.len() - 1..];
            continue;
        }
        let name = quoted[1..quoted.len() - 1].replace("``", "`");
        match rename(&name) {
            Some(new) => push_quoted(&mut out, &new),
            None => out.push_str(quoted),
        }
    }
    out.push_str(rest);
    out
}

/// A quoted name or string at the start of a text, and what follows it.
fn take_quoted(text: &str) -> (&str, &str) {
    let quote = text.as_bytes()[0];
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quote == b'\'' => at += 1,
            byte if byte == quote && bytes.get(at + 1) == Some(&quote) => at += 1,
            byte if byte == quote => return text.split_at(at + 1),
            _ => {}
        }
        at += 1;
    }
    (text, "")
}

impl ColumnDef {
    /// Makes JSON of a text column that checks that it is.
    pub fn settle_format(&mut self) {
        let is_json = self.ty.is_text() && self.check.as_ref() == Some(&json_condition(&self.name));
        self.ty.format = if is_json { Format::Json } else { Format::Plain };
    }
}

impl TableDef {
    /// All CHECK constraints in the order in which they are tested: name, whether a column's, condition.
    pub fn all_checks(&self) -> impl Iterator<Item = (&str, bool, &str)> {
        let of_columns = self.columns.iter().filter_map(|c| Some((&*c.name, true, c.check.as_deref()?)));
        of_columns.chain(self.checks.iter().map(|check| (&*check.name, false, check.condition.as_str())))
    }
}

/// The position of a constraint of that name.
pub fn position(checks: &[CheckConstraint], name: &str) -> Option<usize> {
    checks.iter().position(|check| names::same(&check.name, name))
}
