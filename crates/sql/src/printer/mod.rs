//! Tree to text: expressions, queries, changes of rows, table definitions.
//!
//! The text parses back to an equal tree under the default `sql_mode`. Names stand in backticks, keywords in lower case as in MariaDB's own
//! printing, parentheses only where precedence asks for them.

mod ddl;
mod dml;
mod expr;
mod json_table;
mod query;

use crate::ast::{ByteStr, ColumnDef, ColumnName, DataType, Expr, ObjectName, Query, Statement};

/// Text of an expression.
pub fn expr(expr: &Expr) -> String {
    let mut printer = Printer::default();
    printer.expr(expr, 0);
    printer.out
}

/// Text of a query.
pub fn query(query: &Query) -> String {
    let mut printer = Printer::default();
    printer.query(query);
    printer.out
}

/// Text of a view's query, in MariaDB's own manner; the database `omit` is left out in names of tables, and in those of
/// columns where `columns` says so.
pub fn view_query(query: &Query, omit: Option<&str>, columns: bool) -> String {
    let omit = omit.map(str::to_owned);
    let mut printer = Printer { view: true, omit, omits_in_columns: columns, ..Printer::default() };
    printer.query(query);
    printer.out
}

/// Text of an expression in the manner of views.
pub fn view_expr(expr: &Expr) -> String {
    let mut printer = Printer { view: true, ..Printer::default() };
    printer.expr(expr, 0);
    printer.out
}

/// Text of an expression, in MariaDB's own manner; sequences without a database are those of the one given.
pub fn view_expr_in(expr: &Expr, database: Option<&str>) -> String {
    let mut printer = Printer { view: true, home: database.map(str::to_string), ..Printer::default() };
    printer.expr(expr, 0);
    printer.out
}

/// Text of a type, as SHOW CREATE TABLE prints it.
pub fn data_type(data_type: &DataType) -> String {
    let mut printer = Printer::default();
    printer.data_type(data_type);
    printer.out
}

/// Text of a column's definition.
pub fn column_def(column: &ColumnDef) -> String {
    let mut printer = Printer::default();
    printer.column_def(column);
    printer.out
}

/// Text of a statement; none for those that are never printed.
pub fn statement(statement: &Statement) -> Option<String> {
    let mut printer = Printer::default();
    match statement {
        Statement::Query(query) => printer.query(query),
        Statement::Insert(insert) => printer.insert(insert),
        Statement::Update(update) => printer.update(update),
        Statement::Delete(delete) => printer.delete(delete),
        Statement::Load(load) => printer.load(load),
        Statement::Do(items) => {
            printer.word("do ");
            printer.exprs(items);
        }
        Statement::CreateTable(table) => printer.create_table(table),
        Statement::CreateIndex(index) => printer.create_index(index),
        _ => return None,
    }
    Some(printer.out)
}

/// Text of an expression in which sequences without a database are of that one.
pub fn expr_in(expr: &Expr, database: Option<&str>) -> String {
    let mut printer = Printer { home: database.map(str::to_string), ..Printer::default() };
    printer.expr(expr, 0);
    printer.out
}

/// `name` in backticks.
pub fn ident(name: &str) -> String {
    let mut printer = Printer::default();
    printer.ident(name);
    printer.out
}

/// `bytes` as a string literal in single quotes.
pub fn string(bytes: &[u8]) -> String {
    let mut printer = Printer::default();
    printer.string(bytes);
    printer.out
}

#[derive(Default)]
struct Printer {
    out: String,
    /// As SHOW CREATE VIEW prints.
    view: bool,
    /// The database that is left out in names.
    omit: Option<String>,
    /// In names of columns too.
    omits_in_columns: bool,
    /// The database of sequences that are named without one.
    home: Option<String>,
    /// The VALUES that come next stand in parentheses: behind INSERT they would be its rows.
    values_in_parens: bool,
    /// Numbers of the parameters printed so far.
    params: Vec<u32>,
}

impl Printer {
    fn word(&mut self, word: &str) {
        self.out.push_str(word);
    }

    fn ident(&mut self, name: &str) {
        self.out.push('`');
        for ch in name.chars() {
            if ch == '`' {
                self.out.push('`');
            }
            self.out.push(ch);
        }
        self.out.push('`');
    }

    fn string(&mut self, bytes: &[u8]) {
        self.out.push('\'');
        for ch in String::from_utf8_lossy(bytes).chars() {
            match ch {
                '\'' => self.word("\\'"),
                '\\' => self.word("\\\\"),
                '\0' => self.word("\\0"),
                '\n' => self.word("\\n"),
                '\r' => self.word("\\r"),
                '\u{1a}' => self.word("\\Z"),
                other => self.out.push(other),
            }
        }
        self.out.push('\'');
    }

    /// A text; octets that are none, which only come from `x'...'`, are printed as they came.
    fn text(&mut self, text: &ByteStr) {
        match std::str::from_utf8(text) {
            Ok(_) => self.string(text),
            Err(_) => self.octets(text, true, &None),
        }
    }

    fn object(&mut self, name: &ObjectName) {
        if let Some(db) = name.db.as_ref().filter(|db| self.omit.as_ref() != Some(db)) {
            self.ident(db);
            self.out.push('.');
        }
        self.ident(&name.name);
    }

    fn column(&mut self, column: &ColumnName) {
        let db = column.db.as_ref().filter(|db| !self.omits_in_columns || self.omit.as_ref() != Some(db));
        for part in db.into_iter().chain(&column.table) {
            self.ident(part);
            self.out.push('.');
        }
        self.ident(&column.column);
    }

    /// Items with commas between them.
    fn list<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Self, &T)) {
        for (index, each) in items.iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            item(self, each);
        }
    }

    fn idents(&mut self, names: &[String]) {
        self.list(names, |printer, name| printer.ident(name));
    }

    fn exprs(&mut self, items: &[Expr]) {
        self.list(items, |printer, item| printer.expr(item, 0));
    }

    fn parens(&mut self, body: impl FnOnce(&mut Self)) {
        self.out.push('(');
        body(self);
        self.out.push(')');
    }

    /// A name that needs no quotes.
    fn plain(&mut self, name: &str) {
        if self.view { self.word(name) } else { self.ident(name) }
    }

    /// The word where `on` holds.
    fn flag(&mut self, on: bool, word: &str) {
        if on {
            self.word(word);
        }
    }
}
