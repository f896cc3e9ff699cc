//! What the expressions that a table keeps (DEFAULT, CHECK, generated columns) may not say, whatever it means: 1901 before
//! they are bound, and 4027 behind what binding has to say of them.

use keel_base::{SqlError, SqlResult, code, errors};
use keel_catalog::{ColumnDefault, TableRecord, names};
use keel_exec::session::Session;
use keel_expr::func;
use keel_planner::bind::generated::parse;
use keel_sql::ast::walk::Part;
use keel_sql::ast::{
    AlterAction, ColumnDef, ColumnName, Expr, FunctionCall, KeyDef, LiteralValue, ObjectName, Statement,
};
use keel_value::collation::{Charset, convert};

/// Functions that no such expression may call: they have effects, or tell of the statement.
const NEVER: &[&str] = &[
    "last_insert_id",
    "row_count",
    "found_rows",
    "sleep",
    "benchmark",
    "get_lock",
    "release_lock",
    "release_all_locks",
    "is_free_lock",
    "is_used_lock",
    "load_file",
    "name_const",
    "master_pos_wait",
    "master_gtid_wait",
    "rownum",
];

/// Functions that tell or do what they may not, though they are worked out at each call.
const SAME_FOR_ALL: &[&str] = &["encrypt", "extractvalue", "updatexml"];

/// Refuses what the parser of MariaDB refuses in a definition: subqueries in a CHECK (1970), calls of built-in functions with a
/// wrong number of arguments (1582), bad names of tables (1102, 1103).
pub fn check_parsed(statement: &Statement) -> SqlResult<()> {
    let of_condition = |condition: &Expr| match condition.has_query() {
        true => Err(errors::subqueries_not_supported("CHECK")),
        false => check_counts(condition),
    };
    let of_column = |column: &ColumnDef| {
        column.references.iter().try_for_each(|references| check_table_name(&references.table))?;
        column.default.iter().try_for_each(check_counts)?;
        column.generated.iter().try_for_each(|generated| check_counts(&generated.expr))?;
        column.check.iter().try_for_each(|check| of_condition(check))
    };
    let of_key =
        |key: &KeyDef| key.references.iter().try_for_each(|references| check_table_name(&references.table));
    match statement {
        Statement::RenameTable { renames, .. } => {
            renames.iter().try_for_each(|(old, _)| check_table_name(old))
        }
        Statement::CreateTable(create) => {
            create.keys.iter().try_for_each(of_key)?;
            create.columns.iter().try_for_each(of_column)?;
            create.checks.iter().try_for_each(|check| of_condition(&check.expr))
        }
        Statement::AlterTable(alter) => alter.actions.iter().try_for_each(|action| match action {
            AlterAction::AddColumn { column, .. } | AlterAction::ChangeColumn { column, .. } => {
                of_column(column)
            }
            AlterAction::AddKey(key) => of_key(key),
            AlterAction::SetDefault { default, .. } => default.iter().try_for_each(check_counts),
            AlterAction::AddCheck(check) => of_condition(&check.expr),
            _ => Ok(()),
        }),
        _ => Ok(()),
    }
}

fn check_table_name(name: &ObjectName) -> SqlResult<()> {
    name.db.as_deref().map_or(Ok(()), names::check_schema)?;
    names::check_table(&name.name)
}

/// 1582 names a function as it is written, which a kept text does not.
fn check_counts(tree: &Expr) -> SqlResult<()> {
    if let Expr::Function(call) = tree
        && call.db.is_none()
        && !call.spaced
        && let Some(function) = func::lookup(&call.name)
        && !(function.min..=function.max).contains(&call.args.len())
    {
        return Err(errors::wrong_paramcount_to_native_fct(&*call.written));
    }
    let mut checked = Ok(());
    tree.each_part(&mut |part| {
        if let (Part::Expr(part), Ok(())) = (part, &checked) {
            checked = check_counts(part);
        }
    });
    checked
}

/// 1918 for a text within an expression that the table's character set lacks. MariaDB reads expressions back in that character
/// set, and names the file. What the table had `before` is left alone.
pub(super) fn check_literals(
    session: &mut Session,
    record: &TableRecord,
    before: Option<&TableRecord>,
    file: &str,
) -> SqlResult<()> {
    let charset = record.options.collation.charset();
    let before = before.filter(|before| before.options.collation.charset() == charset);
    let is_old = |text: &str| before.is_some_and(|before| texts(before).any(|other| other == text));
    for text in texts(record).filter(|text| !text.is_ascii() && !is_old(text)) {
        let mut found = None;
        find_lacking(&parse(text)?, charset, &mut found);
        if let Some(lacking) = found {
            let error = errors::bad_data(lacking, charset.name());
            session.push_error(&error);
            session.push_error(&errors::not_form_file(format_args!("./{}/{file}.frm", record.schema)));
            return Err(error);
        }
    }
    Ok(())
}

/// The texts of the expressions that a table keeps.
fn texts(record: &TableRecord) -> impl Iterator<Item = &str> {
    let of_columns = record.columns.iter().flat_map(|column| {
        let default = match &column.default {
            ColumnDefault::Expression(text) => Some(text.as_str()),
            _ => None,
        };
        let generated = column.generated.as_ref().map(|generated| generated.expression.as_str());
        [default, generated, column.check.as_deref()].into_iter().flatten()
    });
    of_columns.chain(record.checks.iter().map(|check| check.condition.as_str()))
}

/// The first text without an introducer that a character set lacks.
fn find_lacking(tree: &Expr, to: Charset, found: &mut Option<String>) {
    if let Expr::Literal(literal) = tree
        && let LiteralValue::String { bytes, charset: None } = &literal.value
        && convert(Charset::Utf8mb4, to, &bytes.0).1 > 0
    {
        found.get_or_insert_with(|| bytes.to_text());
    }
    tree.each_part(&mut |part| {
        if let Part::Expr(part) = part {
            find_lacking(part, to, found);
        }
    });
}

/// Whether no kept expression may call a function.
pub(super) fn is_never(name: &str) -> bool {
    NEVER.contains(&name)
}

/// Whether a function may give another value at each call.
pub(super) fn varies(function: &func::Function) -> bool {
    !function.pure && !SAME_FOR_ALL.contains(&function.name)
}

/// The first part of an expression that is refused, as 1901 shows it: operands come before what holds them. `refuses` tells
/// of functions by their names and how many arguments they have.
pub(super) fn refused(tree: &Expr, refuses: &dyn Fn(&str, usize) -> bool) -> Option<String> {
    let mut found = None;
    tree.each_part(&mut |part| {
        found = found.take().or_else(|| match part {
            Part::Expr(expr) => refused(expr, refuses),
            Part::Query(_) => Some("select ...".to_string()),
        });
    });
    found.or_else(|| match tree {
        Expr::Match { .. } => Some("match ... against()".to_string()),
        Expr::Values(_) => Some("value()".to_string()),
        Expr::Function(call) => refused_call(call, refuses),
        _ => None,
    })
}

fn refused_call(call: &FunctionCall, refuses: &dyn Fn(&str, usize) -> bool) -> Option<String> {
    if call.over.is_some() || keel_planner::aggregate::is_aggregate(call) {
        let distinct = if call.distinct { "distinct " } else { "" };
        return Some(format!("{}({distinct})", call.name));
    }
    match &call.db {
        Some(db) if db.eq_ignore_ascii_case("sys") => None,
        Some(db) => Some(format!("`{db}`.`{}`()", call.written.0)),
        None if is_never(&call.name) || refuses(&call.name, call.args.len()) => Some(shown(&call.name)),
        None => None,
    }
}

/// How 1901 shows a function.
pub(super) fn shown(name: &str) -> String {
    let name = if name == "now" { "current_timestamp" } else { name };
    format!("{name}()")
}

/// The first name of a column that is none of the table's own.
pub(super) fn foreign_name<'t>(tree: &'t Expr, schema: &str, table: &str) -> Option<&'t ColumnName> {
    if let Expr::Column(name) = tree {
        let other = name.table.as_deref().is_some_and(|t| t != table);
        return (other || name.db.as_deref().is_some_and(|db| db != schema)).then_some(name);
    }
    let mut found = None;
    tree.each_part(&mut |part| {
        if let (None, Part::Expr(expr)) = (found, part) {
            found = foreign_name(expr, schema, table);
        }
    });
    found
}

/// The name of a stored function that is not there (1305), as 1901 shows it.
pub(super) fn unknown_function(error: &SqlError) -> String {
    let name = error.message.split(' ').nth(1).unwrap_or_default();
    format!("`{}`()", name.rsplit('.').next().unwrap_or(name))
}

/// Why an expression is refused.
pub(super) struct Refusal {
    error: SqlError,
    /// The expression, where it could not be bound.
    unbound: Option<String>,
    /// The value of `sql_mode` that the expression depends on.
    mode: Option<&'static str>,
}

impl From<SqlError> for Refusal {
    fn from(error: SqlError) -> Refusal {
        Refusal { error, unbound: None, mode: None }
    }
}

impl Refusal {
    /// Of an expression that could not be bound.
    pub fn unbound(error: SqlError, expression: &str) -> Refusal {
        // The parser of MariaDB counts arguments.
        if error.code == code::WRONG_PARAMCOUNT_TO_NATIVE_FCT {
            return error.into();
        }
        Refusal { error, unbound: Some(expression.to_string()), mode: None }
    }

    /// Of an expression whose value follows `sql_mode`.
    pub fn by_mode(error: SqlError, mode: &'static str) -> Refusal {
        Refusal { error, unbound: None, mode: Some(mode) }
    }

    /// The statement's error; SHOW WARNINGS shows 4027 or the mode behind it.
    pub fn told(self, session: &mut Session) -> SqlError {
        if let Some(expression) = self.unbound {
            session.push_error(&self.error);
            session.push_error(&errors::error_evaluating_expression(expression));
        }
        if let Some(mode) = self.mode {
            session.push_error(&self.error);
            let text = format!("Expression depends on the @@sql_mode value {mode}");
            session.warn(errors::unknown_error(text));
        }
        self.error
    }
}
