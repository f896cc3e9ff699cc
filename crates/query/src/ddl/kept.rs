//! What the expressions that a table keeps (DEFAULT, CHECK, generated columns) may not say, whatever it means: 1901 before
//! they are bound, and 4027 behind what binding has to say of them.

use keel_base::{SqlError, SqlResult, code, errors};
use keel_sql::ast::walk::Part;
use keel_sql::ast::{AlterAction, ColumnDef, ColumnName, Expr, FunctionCall, Statement};

use crate::aggregate;
use crate::func;
use crate::session::Session;

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

/// Refuses subqueries in the CHECKs of a definition (1970), whatever else is wrong with it.
pub(crate) fn check_conditions(statement: &Statement) -> SqlResult<()> {
    let refuse = |condition: &Expr| match condition.has_query() {
        true => Err(errors::subqueries_not_supported("CHECK")),
        false => Ok(()),
    };
    let of_column = |column: &ColumnDef| column.check.iter().try_for_each(|check| refuse(check));
    match statement {
        Statement::CreateTable(create) => {
            create.columns.iter().try_for_each(of_column)?;
            create.checks.iter().try_for_each(|check| refuse(&check.expr))
        }
        Statement::AlterTable(alter) => alter.actions.iter().try_for_each(|action| match action {
            AlterAction::AddColumn { column, .. } | AlterAction::ChangeColumn { column, .. } => {
                of_column(column)
            }
            AlterAction::AddCheck(check) => refuse(&check.expr),
            _ => Ok(()),
        }),
        _ => Ok(()),
    }
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
    if call.over.is_some() || aggregate::is_aggregate(call) {
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
}

impl From<SqlError> for Refusal {
    fn from(error: SqlError) -> Refusal {
        Refusal { error, unbound: None }
    }
}

impl Refusal {
    /// Of an expression that could not be bound.
    pub fn unbound(error: SqlError, expression: &str) -> Refusal {
        // The parser of MariaDB counts arguments.
        if error.code == code::WRONG_PARAMCOUNT_TO_NATIVE_FCT {
            return error.into();
        }
        Refusal { error, unbound: Some(expression.to_string()) }
    }

    /// The statement's error; SHOW WARNINGS shows 4027 behind it.
    pub fn told(self, session: &mut Session) -> SqlError {
        if let Some(expression) = self.unbound {
            session.push_error(&self.error);
            session.push_error(&errors::error_evaluating_expression(expression));
        }
        self.error
    }
}
