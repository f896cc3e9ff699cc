//! Generated columns of CREATE and ALTER TABLE: what they may be worked out from.
//!
//! A column whose values are kept (STORED, or VIRTUAL within an index) must give the same for the same row at any time to
//! anyone; one that is worked out by who reads it may ask for the time or the user, but may have no effects.

use keel_base::{SqlError, SqlResult, code, errors};
use keel_catalog::{Catalog, ColumnDef, ForeignAction, ForeignKey, Generated, IndexKind, TableRecord, names};
use keel_exec::session::Session;
use keel_expr::{Expr, Node, func, walk};
use keel_planner::bind::generated::parse;
use keel_planner::bind::{BindContext, Binder, Clause, ParamSource, WholeNames, display};
use keel_sql::ast;

use super::checks::is_of_statement;
use super::columns::scope_of;
use super::kept::{self, Refusal};
use super::modes;
use super::view_text::{Around, Rewriter};

/// How messages name the clause.
const CLAUSE: &str = "GENERATED ALWAYS AS";

/// Operators, and levels of them, of what stands for a VIRTUAL column: each naming of it has them all.
const NODES_MAX: usize = 1000;
const LEVELS_MAX: usize = 60;

/// Functions whose values depend on the session or change, beyond those that say so themselves.
const OF_SESSION: &[&str] =
    &["sysdate", "from_unixtime", "version", "dayname", "monthname", "natural_sort_key"];

/// The text that an expression of a column or of a condition is kept as: [`rewritten`].
pub(super) fn text(session: &Session, tree: &ast::Expr) -> String {
    printed(session, &rewritten(session, tree))
}

/// The expression with one spelling for each construct that has several, as in views.
pub(super) fn rewritten(session: &Session, tree: &ast::Expr) -> ast::Expr {
    let connection_charset = session.vars.connection_collation.charset().name();
    let names = WholeNames::default();
    let collation = session.vars.database_collation;
    let rewriter = Rewriter { names: &names, connection_charset, collation, window: None };
    rewriter.expr(tree, Around::default())
}

/// The text of what [`rewritten`] gave. Sequences without a database are those of the session's.
pub(super) fn printed(session: &Session, tree: &ast::Expr) -> String {
    keel_sql::printer::view_expr_in(tree, session.database.as_deref())
}

/// Refuses columns of other tables in what a column says: 1901.
pub(super) fn check_names(schema: &str, table: &str, column: &ast::ColumnDef) -> SqlResult<()> {
    let refuse = |tree: &ast::Expr, clause: &str| match kept::foreign_name(tree, schema, table) {
        Some(name) => {
            Err(errors::generated_column_function_is_not_allowed(display(name), clause, &column.name))
        }
        None => Ok(()),
    };
    column.generated.iter().try_for_each(|generated| refuse(&generated.expr, CLAUSE))?;
    column.default.iter().try_for_each(|default| refuse(default, "DEFAULT"))?;
    column.check.iter().try_for_each(|check| refuse(check, "CHECK"))
}

/// What is known of a table's columns, by place.
struct TableColumns<'r> {
    columns: &'r [ColumnDef],
    /// VIRTUAL columns whose value another reader may find different.
    varies: Vec<bool>,
    /// Columns that foreign keys change, and VIRTUAL ones that follow them.
    changed: Vec<bool>,
    /// Operators and levels of what stands for a column that rows do not hold; nothing of others.
    sizes: Vec<Size>,
}

/// How large an expression is where other columns' expressions stand in it.
#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    levels: usize,
}

/// Binds the generated columns of a table over its columns: 1054, 1901, 4029.
pub(super) fn settle(session: &mut Session, catalog: &Catalog, record: &TableRecord) -> SqlResult<()> {
    settle_all(session, catalog, record).map_err(|refusal| refusal.told(session))
}

fn settle_all(session: &Session, catalog: &Catalog, record: &TableRecord) -> Result<(), Refusal> {
    let columns = &record.columns;
    if columns.iter().all(|column| column.generated.is_none()) {
        return Ok(());
    }
    let primary = record.indexes.iter().filter(|index| index.kind == IndexKind::Primary);
    if primary.flat_map(|index| &index.parts).any(|part| columns[part.column].generated.is_some()) {
        return Err(errors::primary_key_based_on_generated_column().into());
    }
    let changed = columns.iter().map(|column| is_changed(column, &record.foreign_keys)).collect();
    let sizes = vec![Size::default(); columns.len()];
    let mut known = TableColumns { columns, varies: vec![false; columns.len()], changed, sizes };
    for (place, column) in columns.iter().enumerate() {
        let Some(generated) = &column.generated else { continue };
        let is_kept = generated.stored || is_indexed(record, place);
        let (tree, bound) = bind(session, catalog, columns, column, generated, is_kept)?;
        known.check(place, &bound, is_kept)?;
        if is_kept && let Some(mode) = modes::dependence(&tree, &bound, column, columns) {
            let error = not_allowed(generated.expression.clone(), &column.name);
            return Err(Refusal::by_mode(error, mode));
        }
        let follows = known.first_changed(&bound);
        if let Some(base) = follows.filter(|_| generated.stored) {
            return Err(not_allowed(base.to_string(), &column.name).into());
        }
        known.changed[place] = follows.is_some();
        if !is_kept {
            known.varies[place] = known.check(place, &bound, true).is_err();
            known.sizes[place] = known.size(&bound);
            let Size { nodes, levels } = known.sizes[place];
            if nodes > NODES_MAX || levels > LEVELS_MAX {
                return Err(errors::not_supported_yet("VIRTUAL columns of so many operators").into());
            }
        }
    }
    Ok(check_defaults(session, catalog, columns)?)
}

/// Whether a foreign key gives a column other values.
fn is_changed(column: &ColumnDef, keys: &[ForeignKey]) -> bool {
    keys.iter().any(|key| {
        let changes = key.on_update.changes_child() || key.on_delete == ForeignAction::SetNull;
        changes && key.columns.iter().any(|own| names::same(own, &column.name))
    })
}

fn is_indexed(record: &TableRecord, place: usize) -> bool {
    record.indexes.iter().any(|index| index.parts.iter().any(|part| part.column == place))
}

/// The expression of a generated column, as it is written and bound over the table's columns.
fn bind(
    session: &Session,
    catalog: &Catalog,
    columns: &[ColumnDef],
    column: &ColumnDef,
    generated: &Generated,
    is_kept: bool,
) -> Result<(ast::Expr, Expr), Refusal> {
    let tree = parse(&generated.expression)?;
    let refuses = |name: &str, arguments: usize| {
        let varies = func::lookup(name).is_some_and(kept::varies);
        is_refused(name, arguments, varies, is_kept)
    };
    if let Some(what) = kept::refused(&tree, &refuses) {
        return Err(not_allowed(what, &column.name).into());
    }
    let params = ParamSource::default();
    let mut binder = Binder::new(BindContext { catalog, session, params, assigned: &[], counting: None });
    binder.scope_mut().add_table(scope_of(columns))?;
    let bound = binder.bind(&tree, Clause::Fields).map_err(|error| match error.code {
        code::SP_DOES_NOT_EXIST => not_allowed(kept::unknown_function(&error), &column.name).into(),
        code::NO_DEFAULT_FOR_FIELD => errors::not_supported_yet("DEFAULT() in a generated column").into(),
        code::NOT_SUPPORTED_YET => error.into(),
        code::OPERAND_COLUMNS if matches!(tree, ast::Expr::Row(_)) => error.into(),
        _ => Refusal::unbound(in_clause(error), &generated.expression),
    })?;
    Ok((tree, bound))
}

impl TableColumns<'_> {
    /// What a column's expression says that it may not.
    fn check(&self, place: usize, bound: &Expr, is_kept: bool) -> SqlResult<()> {
        let name = &self.columns[place].name;
        let mut refused = None;
        walk::visit(bound, &mut |expr| {
            let found = match &expr.node {
                Node::Call(function, args)
                    if is_refused(function.name, args.len(), kept::varies(function), is_kept) =>
                {
                    Some(not_allowed(kept::shown(function.name), name))
                }
                Node::Routine(routine) => routine
                    .downcast_ref::<keel_exec::sequence::Call>()
                    .map(|call| not_allowed(format!("{}()", call.function()), name)),
                Node::UserVar(variable, _) | Node::AssignUserVar(variable, _) if is_kept => {
                    Some(not_allowed(format!("@{variable}"), name))
                }
                Node::SysVar(_, variable) if is_kept => Some(not_allowed(format!("@@{variable}"), name)),
                Node::Column(column) => self.of_column(place, column.column as usize, is_kept),
                _ => None,
            };
            refused = refused.take().or(found);
        });
        refused.map_or(Ok(()), Err)
    }

    /// Whether a column's expression may read another one.
    fn of_column(&self, place: usize, other: usize, is_kept: bool) -> Option<SqlError> {
        let read = &self.columns[other];
        if read.auto_increment && is_kept {
            return Some(not_allowed("AUTO_INCREMENT".into(), &read.name));
        }
        if self.varies[other] && is_kept {
            return Some(not_allowed(read.name.to_string(), &self.columns[place].name));
        }
        let is_later = read.generated.is_some() && other >= place;
        is_later.then(|| errors::expr_refers_to_uninit_field(&*self.columns[place].name, &*read.name))
    }

    /// The size of an expression with those that stand in it.
    fn size(&self, bound: &Expr) -> Size {
        if let Node::Column(column) = &bound.node {
            let inner = self.sizes[column.column as usize];
            return Size { nodes: inner.nodes + 1, levels: inner.levels + 1 };
        }
        let mut all = Size::default();
        walk::children(bound, &mut |part| {
            let Size { nodes, levels } = self.size(part);
            all = Size { nodes: all.nodes.saturating_add(nodes), levels: all.levels.max(levels) };
        });
        Size { nodes: all.nodes.saturating_add(1), levels: all.levels + 1 }
    }

    /// The first column that an expression reads and that foreign keys change.
    fn first_changed(&self, bound: &Expr) -> Option<&str> {
        let mut changed = None;
        walk::for_each_column(bound, &mut |_, column| {
            changed = changed.or(Some(column as usize).filter(|column| self.changed[*column]));
        });
        changed.map(|column| &*self.columns[column].name)
    }
}

fn is_refused(name: &str, arguments: usize, varies: bool, is_kept: bool) -> bool {
    if kept::is_never(name) || name == "random_bytes" {
        return true;
    }
    if !is_kept || name == "unix_timestamp" && arguments > 0 {
        return false;
    }
    // The language of names and the first day of a week are the session's.
    let by_session = name == "date_format" && arguments < 3 || name == "week" && arguments < 2;
    varies || is_of_statement(name) || OF_SESSION.contains(&name) || by_session
}

/// A DEFAULT reads no generated column.
fn check_defaults(session: &Session, catalog: &Catalog, columns: &[ColumnDef]) -> SqlResult<()> {
    use keel_catalog::ColumnDefault;
    for column in columns {
        let ColumnDefault::Expression(text) = &column.default else { continue };
        if columns.iter().all(|other| other.generated.is_none()) {
            continue;
        }
        let params = ParamSource::default();
        let mut binder = Binder::new(BindContext { catalog, session, params, assigned: &[], counting: None });
        binder.scope_mut().add_table(scope_of(columns))?;
        let bound = binder.bind(&parse(text)?, Clause::Fields)?;
        let mut read = None;
        walk::for_each_column(&bound, &mut |_, other| {
            let other = Some(&columns[other as usize]).filter(|other| other.generated.is_some());
            read = read.take().or(other);
        });
        if let Some(other) = read {
            return Err(errors::expr_refers_to_uninit_field(&*column.name, &*other.name));
        }
    }
    Ok(())
}

/// 1905 where a foreign key would give a generated column a value.
pub(super) fn check_key(columns: &[ColumnDef], key: &ForeignKey) -> SqlResult<()> {
    let is_own = |column: &ColumnDef| key.columns.iter().any(|own| names::same(own, &column.name));
    if !columns.iter().any(|column| column.generated.is_some() && is_own(column)) {
        return Ok(());
    }
    let clause = match (key.on_delete, key.on_update) {
        (_, ForeignAction::Cascade) => "ON UPDATE CASCADE",
        (_, ForeignAction::SetNull) => "ON UPDATE SET NULL",
        (ForeignAction::SetNull, _) => "ON DELETE SET NULL",
        _ => return Ok(()),
    };
    Err(errors::wrong_fk_option_for_generated_column(clause))
}

fn not_allowed(what: String, name: &str) -> SqlError {
    errors::generated_column_function_is_not_allowed(what, CLAUSE, name)
}

fn in_clause(error: SqlError) -> SqlError {
    let message = error.message.replace("'SELECT'", "'GENERATED ALWAYS AS'");
    SqlError { message: message.into(), ..error }
}
