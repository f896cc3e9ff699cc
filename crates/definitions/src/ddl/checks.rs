//! CHECK constraints of CREATE and ALTER TABLE: names, and what a condition may say.

use keel_base::{SqlError, SqlResult, code, errors};
use keel_catalog::check::{self, CheckConstraint, rename_columns};
use keel_catalog::{Catalog, ColumnDef, ColumnDefault, TableRecord, names};
use keel_exec::session::Session;
use keel_expr::{Expr, Node, func, walk};
use keel_planner::bind::{BindContext, Binder, Clause, ParamSource, display};
use keel_sql::ast::{self, IntervalUnit};

use super::columns::scope_of;
use super::generated;
use super::kept::{self, Refusal};

/// Adds a table's constraint; one without a name gets its name from [`name_all`].
pub(super) fn add(session: &mut Session, record: &mut TableRecord, def: &ast::CheckDef) -> SqlResult<bool> {
    let name = def.name.as_deref().unwrap_or_default();
    if !name.is_empty() {
        names::check_length(name)?;
        if check::position(&record.checks, name).is_some() {
            let error = errors::dup_constraint_name("CHECK", name);
            if !def.if_not_exists {
                return Err(error);
            }
            session.note(error);
            return Ok(false);
        }
    }
    if let Some(foreign) = kept::foreign_name(&def.expr, &record.schema, &record.name) {
        let unnamed = record.checks.iter().filter(|check| check.name.is_empty()).count();
        let own = if name.is_empty() { format!("CONSTRAINT_{}", unnamed + 1) } else { name.to_string() };
        return Err(not_allowed(display(foreign), &own));
    }
    let condition = generated::text(session, &def.expr);
    record.checks.push(CheckConstraint { name: name.into(), condition });
    Ok(true)
}

/// Names what has no name yet: `CONSTRAINT_1` and so on.
pub(super) fn name_all(record: &mut TableRecord) {
    let mut number = 0;
    for place in 0..record.checks.len() {
        if !record.checks[place].name.is_empty() {
            continue;
        }
        let name = loop {
            number += 1;
            let name = format!("CONSTRAINT_{number}");
            let is_of_column =
                record.columns.iter().any(|c| c.check.is_some() && names::same(&c.name, &name));
            if check::position(&record.checks, &name).is_none() && !is_of_column {
                break name;
            }
        };
        record.checks[place].name = name.as_str().into();
    }
}

/// Writes a column by its new name wherever a condition, a generated column or a default names it.
pub(super) fn rename_column(record: &mut TableRecord, old: &str, new: &str) {
    let rename = |name: &str| names::same(name, old).then(|| new.to_string());
    rewrite(record, rename);
    for column in &mut record.columns {
        // What stands behind a database is a sequence, which needs it.
        if let ColumnDefault::Expression(text) = &mut column.default
            && !text.contains("`.`")
        {
            *text = rename_columns(text, rename);
        }
    }
}

fn rewrite(record: &mut TableRecord, rename: impl Fn(&str) -> Option<String>) {
    for column in &mut record.columns {
        if let Some(condition) = &mut column.check {
            *condition = rename_columns(condition, &rename);
        }
        if let Some(generated) = &mut column.generated {
            generated.expression = rename_columns(&generated.expression, &rename);
        }
        column.settle_format();
    }
    for check in &mut record.checks {
        check.condition = rename_columns(&check.condition, &rename);
    }
}

/// Writes columns as they are called wherever a condition or a generated column names them.
pub(super) fn settle_names(record: &mut TableRecord) {
    let known: Vec<_> = record.columns.iter().map(|column| column.name.clone()).collect();
    rewrite(record, |name| known.iter().find(|known| names::same(known, name)).map(|k| k.to_string()));
}

/// Names all constraints, and binds them over the columns of their table to refuse what cannot be tested for each row. A column
/// and a constraint of one name that the table had `before` are left alone: there are tables from before that was refused.
pub(super) fn settle(
    session: &mut Session,
    catalog: &Catalog,
    record: &mut TableRecord,
    before: Option<&TableRecord>,
) -> SqlResult<()> {
    settle_all(session, catalog, record, before).map_err(|refusal| refusal.told(session))
}

fn settle_all(
    session: &Session,
    catalog: &Catalog,
    record: &mut TableRecord,
    before: Option<&TableRecord>,
) -> Result<(), Refusal> {
    if record.checks.is_empty() && record.columns.iter().all(|column| column.check.is_none()) {
        return Ok(());
    }
    name_all(record);
    let has_both = |record: &TableRecord, name: &str| {
        let has_column = record.columns.iter().any(|c| c.check.is_some() && names::same(&c.name, name));
        has_column && check::position(&record.checks, name).is_some()
    };
    let is_taken =
        |name: &str| has_both(record, name) && !before.is_some_and(|before| has_both(before, name));
    if let Some(column) = record.columns.iter().find(|c| c.check.is_some() && is_taken(&c.name)) {
        return Err(errors::dup_constraint_name("CHECK", &column.name).into());
    }
    let of_columns = record.columns.iter().filter_map(|c| Some((&*c.name, c.check.as_deref()?)));
    let of_table = record.checks.iter().map(|check| (&*check.name, check.condition.as_str()));
    for (name, condition) in of_columns.chain(of_table) {
        validate(session, catalog, &record.columns, name, condition)?;
    }
    Ok(())
}

fn validate(
    session: &Session,
    catalog: &Catalog,
    columns: &[ColumnDef],
    name: &str,
    condition: &str,
) -> Result<(), Refusal> {
    let text = format!("DO {condition}");
    let parsed = keel_sql::parse(text.as_bytes(), &keel_sql::ParseOptions::default())?;
    let ast::Statement::Do(list) = &parsed.statement else { return Ok(()) };
    let params = ParamSource::default();
    let mut binder = Binder::new(BindContext { catalog, session, params, assigned: &[], counting: None });
    binder.scope_mut().add_table(scope_of(columns))?;
    let refuses = |name: &str, _| name == "version" || func::lookup(name).is_some_and(kept::varies);
    for tree in list {
        if tree.has_query() {
            return Err(errors::subqueries_not_supported("CHECK").into());
        }
        if let Some(what) = kept::refused(tree, &refuses) {
            return Err(not_allowed(what, name).into());
        }
        let bound = binder.bind(tree, Clause::Fields).map_err(|error| match error.code {
            code::SP_DOES_NOT_EXIST => not_allowed(kept::unknown_function(&error), name).into(),
            code::NOT_SUPPORTED_YET => error.into(),
            code::OPERAND_COLUMNS if matches!(tree, ast::Expr::Row(_)) => error.into(),
            _ => Refusal::unbound(in_check(error), condition),
        })?;
        if !binder.sequences.is_empty() {
            return Err(errors::subqueries_not_supported("CHECK").into());
        }
        let mut refused = None;
        walk::visit(&bound, &mut |expr| {
            let found = match &expr.node {
                Node::Call(function, args)
                    if kept::varies(function)
                        || is_of_statement(function.name) && !is_of_arguments(function.name, args)
                        || is_of_session(function.name, args) =>
                {
                    Some(not_allowed(kept::shown(function.name), name))
                }
                Node::UserVar(variable, _) | Node::AssignUserVar(variable, _) => {
                    Some(not_allowed(format!("@{variable}"), name))
                }
                Node::SysVar(_, variable) => Some(not_allowed(format!("@@{variable}"), name)),
                // It is the column that the error names.
                Node::Column(column) if columns[column.column as usize].auto_increment => {
                    let column = &columns[column.column as usize].name;
                    Some(not_allowed("AUTO_INCREMENT".to_string(), column))
                }
                _ => None,
            };
            refused = refused.take().or(found);
        });
        if let Some(error) = refused {
            return Err(error.into());
        }
    }
    Ok(())
}

fn not_allowed(what: String, name: &str) -> SqlError {
    errors::generated_column_function_is_not_allowed(what, "CHECK", name)
}

/// Whether UNIX_TIMESTAMP() has an argument, whose time it gives.
fn is_of_arguments(name: &str, args: &[Expr]) -> bool {
    name == "unix_timestamp" && !args.is_empty()
}

/// Whether a function looks at variables of the session: its zone, its language or how it counts weeks.
fn is_of_session(name: &str, args: &[Expr]) -> bool {
    match name {
        "dayname" | "monthname" | "from_unixtime" | "to_char" | "natural_sort_key" => true,
        "date_format" => args.len() < 3,
        "week" => args.len() < 2,
        "extract" => func::datetime::unit_of(&args[0]) == IntervalUnit::Week,
        _ => false,
    }
}

/// Functions whose value belongs to the statement or the session, not to the row.
pub(super) fn is_of_statement(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "now",
        "curdate",
        "curtime",
        "utc_date",
        "utc_time",
        "utc_timestamp",
        "unix_timestamp",
        "user",
        "current_user",
        "current_role",
        "database",
        "connection_id",
        "last_insert_id",
        "found_rows",
        "row_count",
    ];
    NAMES.contains(&name)
}

fn in_check(error: SqlError) -> SqlError {
    let message = error.message.replace("'SELECT'", "'CHECK'");
    SqlError { message: message.into(), ..error }
}
