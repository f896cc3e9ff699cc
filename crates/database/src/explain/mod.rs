//! EXPLAIN and ANALYZE: a plan as MariaDB's table, one line per table in the order of reading, or as its JSON.
//!
//! Queries are numbered from 1 in the order in which they stand; in the table their lines follow those of the query that
//! holds them. UPDATE and DELETE show the SELECT that finds their rows. What Keel does otherwise than MariaDB is shown in
//! MariaDB's nearest words: a hash join as a join buffer (in JSON with `hash_keys`), an IN subquery kept as a set as
//! MATERIALIZED. EXTENDED adds `filtered` and notes the statement as it was understood, PARTITIONS a column that is empty.
//!
//! ANALYZE runs the statement by a plan whose operators count ([`keel_context::counts`]), and tells what they counted.

mod found;
mod json;
mod lines;
mod numbers;
mod query;
mod running;
mod tree;

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, errors};
use keel_context::counts::{Counting, Counts, Figures};
use keel_context::result::{ColumnMeta, ResultColumns, RowSink, RowView};
use keel_dml::multi::locking_select;
use keel_exec::access::AccessKind;
use keel_exec::join::Source;
use keel_exec::select::{self, SelectPlan};
use keel_exec::session::Session;
use keel_expr::typing::string_type;
use keel_planner::bind::{BindContext, Binder, Notes};
use keel_sql::ast::{self, ExplainTarget, Query, QueryBody, Select, SelectItem, SelectOptions, Statement};
use keel_sql::printer;
use keel_storage::runtime::time;
use keel_value::types::{NOT_SPECIFIED, flags};
use keel_value::{CollationId, SqlType, Value};

use crate::plan::Body;
use tree::Times;

pub use running::Question;

/// Room that MariaDB announces for the names of all partitions that a table may have.
const PARTITIONS_CHARS: u64 = 1_579_008;
/// Characters that it announces for a plan in JSON.
const JSON_CHARS: u32 = 78;

/// An explained statement.
pub(crate) struct ExplainPlan {
    /// The columns.
    pub columns: Arc<ResultColumns>,
    explain: ast::Explain,
    subject: Subject,
    /// What ANALYZE runs.
    analyzed: Option<Box<Analyzed>>,
    /// EXTENDED: names that belong to enclosing queries.
    resolved: Vec<SqlError>,
    /// EXTENDED: the statement.
    text: Option<String>,
}

/// The statement that ANALYZE runs.
pub(crate) struct Analyzed {
    /// Its plan, whose operators count.
    pub body: Body,
    counts: Vec<Arc<Counts>>,
    planning_nanos: u64,
}

/// What is explained.
enum Subject {
    /// A query.
    Query(Box<SelectPlan>),
    /// What ANALYZE runs: its own plan says all.
    Analyzed,
    /// UPDATE (true) or DELETE, and the query that finds its rows.
    Change(bool, Box<SelectPlan>),
    /// INSERT or REPLACE into a table, and its query.
    Insert { table: String, query: Option<Box<SelectPlan>> },
}

/// What is explained, as the form that shows it wants it.
enum Shown<'p> {
    Query(&'p SelectPlan),
    Change { updates: bool, finder: &'p SelectPlan, counted: Option<Figures> },
    Insert { table: &'p str, query: Option<&'p SelectPlan> },
}

impl ExplainPlan {
    /// What ANALYZE runs.
    pub fn analyzed(&self) -> Option<&Analyzed> {
        self.analyzed.as_deref()
    }

    /// Notes what became of the statement's names and SELECTs.
    pub fn note_names(&self, session: &mut Session) {
        self.resolved.iter().for_each(|note| session.note(note.clone()));
    }

    /// Sends what is to be told; gives the number of rows. `nanos` is the time that a statement took which was run.
    pub fn run(
        &self,
        session: &mut Session,
        params: &[Value],
        nanos: u64,
        sink: &mut dyn RowSink,
    ) -> SqlResult<u64> {
        let found = found::findings(&self.shown(), session, params, self.analyzed.is_some())?;
        if let Some(text) = &self.text {
            session.note(errors::yes(text));
        }
        let rows = match self.explain.json {
            true => {
                let analyzed = self.analyzed.as_deref();
                let times = analyzed.map(|a| Times {
                    planning: a.planning_nanos,
                    running: nanos,
                    in_progress: false,
                });
                let text = tree::text((&self.shown(), &found), params, times, session.vars.join_buffer_bytes);
                vec![vec![Value::bytes(text.as_bytes())]]
            }
            false => lines::rows(&self.shown(), &found, &self.explain),
        };
        sink.columns(&self.columns)?;
        for row in &rows {
            sink.row(RowView::Values(row))?;
            sink.breathe()?;
        }
        Ok(rows.len() as u64)
    }

    fn shown(&self) -> Shown<'_> {
        let body = self.analyzed.as_ref().map(|analyzed| &analyzed.body);
        match &self.subject {
            Subject::Query(plan) => Shown::Query(plan),
            Subject::Change(updates, finder) => {
                let counts = match body {
                    Some(Body::Update(plan)) => plan.targets.counts.as_ref(),
                    Some(Body::Delete(plan)) => plan.targets.counts.as_ref(),
                    _ => None,
                };
                Shown::Change { updates: *updates, finder, counted: counts.map(|counts| counts.figures()) }
            }
            Subject::Insert { table, query } => {
                let counted = match body {
                    Some(Body::Insert(plan)) => plan.query(),
                    _ => None,
                };
                Shown::Insert { table, query: counted.or(query.as_deref()) }
            }
            Subject::Analyzed => match body {
                Some(Body::Select(plan)) => Shown::Query(plan),
                Some(Body::PointSelect(point)) => Shown::Query(&point.general),
                Some(Body::Multi(plan)) => Shown::Query(plan.query()),
                _ => Shown::Insert { table: "", query: None },
            },
        }
    }
}

impl Analyzed {
    /// Forgets what was counted before.
    pub fn clear(&self) {
        self.counts.iter().for_each(|counts| counts.clear());
    }
}

/// Plans the statement within EXPLAIN and describes how it would run.
pub(crate) fn plan(cx: BindContext<'_>, explain: &ast::Explain, notes: &mut Notes) -> SqlResult<ExplainPlan> {
    let statement = statement_of(explain)?;
    let mut resolved = Vec::new();
    let subject = subject(cx, statement, Some(notes), Some((&mut resolved, explain.extended)))?;
    let text = if explain.extended { printer::statement(statement) } else { None };
    Ok(ExplainPlan { text, resolved, ..ExplainPlan::of(cx, explain, subject, None) })
}

/// The statement within EXPLAIN or ANALYZE.
pub(crate) fn statement_of(explain: &ast::Explain) -> SqlResult<&Statement> {
    match &explain.what {
        ExplainTarget::Statement(statement) => Ok(statement),
        ExplainTarget::Connection(_) => Err(errors::not_supported_yet("EXPLAIN FOR CONNECTION")),
    }
}

/// Describes a statement that ANALYZE runs, planned with counts since `began`.
pub(crate) fn analyze(
    cx: BindContext<'_>,
    explain: &ast::Explain,
    body: Body,
    counting: Counting,
    began: time::Instant,
) -> SqlResult<ExplainPlan> {
    let planning_nanos = time::now().since(began).as_nanos() as u64;
    let subject = match &body {
        Body::Select(_) | Body::PointSelect(_) | Body::Multi(_) => Subject::Analyzed,
        Body::Update(_) | Body::Delete(_) | Body::Insert(_) => {
            subject(cx, statement_of(explain)?, None, None)?
        }
        _ => return Err(errors::not_supported_yet("ANALYZE of this statement")),
    };
    let analyzed = Analyzed { body, counts: counting.into_all(), planning_nanos };
    Ok(ExplainPlan::of(cx, explain, subject, Some(Box::new(analyzed))))
}

impl ExplainPlan {
    fn of(
        cx: BindContext<'_>,
        explain: &ast::Explain,
        subject: Subject,
        analyzed: Option<Box<Analyzed>>,
    ) -> ExplainPlan {
        let columns = columns(cx.session.vars.connection_collation, explain);
        let explain = ast::Explain { what: ExplainTarget::nothing(), ..*explain };
        ExplainPlan { columns, explain, subject, analyzed, resolved: Vec::new(), text: None }
    }
}

/// Plans what is to be described; `told` takes notes on reduced SELECTs, and if asked on names of enclosing queries.
fn subject(
    cx: BindContext<'_>,
    statement: &Statement,
    notes: Option<&mut Notes>,
    told: Option<(&mut Vec<SqlError>, bool)>,
) -> SqlResult<Subject> {
    let mut binder = Binder::new(cx);
    binder.resolved = told.as_ref().is_some_and(|(_, names)| *names).then(Vec::new);
    let mut numbers = numbers::Numbers::default();
    binder.asked_before = !matches!(statement, Statement::Query(_));
    let found = match statement {
        Statement::Query(query) => {
            numbers.count(query);
            Subject::Query(Box::new(keel_planner::select::plan_select(&mut binder, query)?))
        }
        Statement::Update(update) => {
            let query = finder(&update.tables, &update.filter, &update.order_by, &update.limit);
            numbers.count(&query);
            binder.changing = locking_select(&query);
            let finder = Box::new(keel_planner::select::plan_select(&mut binder, &query)?);
            if update.tables.len() > 1 || keel_dml::single_table(&update.tables).is_none() {
                Subject::Query(finder)
            } else {
                Subject::Change(true, by_range(finder))
            }
        }
        Statement::Delete(delete) => {
            let query = finder(&delete.from, &delete.filter, &delete.order_by, &delete.limit);
            numbers.count(&query);
            binder.changing = locking_select(&query);
            let finder = Box::new(keel_planner::select::plan_select(&mut binder, &query)?);
            match keel_dml::delete::only_table(delete) {
                Some(_) => Subject::Change(false, by_range(finder)),
                None => Subject::Query(finder),
            }
        }
        Statement::Insert(insert) => {
            let view = binder.find_view(insert.table.db.as_deref(), &insert.table.name);
            let table = match view {
                Some(view) => {
                    let target = keel_planner::select::view::target(&mut Binder::new(cx), &view, None)?;
                    let first = target.and_then(|target| target.tables.into_iter().next().flatten());
                    first.ok_or_else(|| errors::non_insertable_table(&view.name, "INSERT"))?
                }
                None => binder.table(insert.table.db.as_deref(), &insert.table.name, None)?,
            };
            let query = match &insert.source {
                ast::InsertSource::Query(query) => {
                    numbers.count(query);
                    Some(Box::new(keel_planner::select::plan_select(&mut binder, query)?))
                }
                _ => None,
            };
            Subject::Insert { table: table.name.to_string(), query }
        }
        _ => return Err(errors::not_supported_yet("EXPLAIN of this statement")),
    };
    if let Some(notes) = notes {
        notes.take(&binder);
    }
    if let Some((told, _)) = told {
        *told = numbers.notes(binder.resolved.as_deref().unwrap_or_default());
        told.extend(numbers.reduced(&binder.reduced));
    }
    Ok(found)
}

/// The same, where an UPDATE or DELETE of one table is shown: a key's value is a range to it.
fn by_range(mut finder: Box<SelectPlan>) -> Box<SelectPlan> {
    if let select::Body::Block(block) = &mut finder.body
        && let Source::Table(table) = &mut block.source
        && matches!(table.choice.kind, AccessKind::Const | AccessKind::EqRef | AccessKind::Ref)
    {
        table.choice.kind = AccessKind::Range;
    }
    finder
}

/// The SELECT that finds the rows of an UPDATE or DELETE.
fn finder(
    tables: &[ast::TableRef],
    filter: &Option<ast::Expr>,
    order_by: &[ast::OrderItem],
    limit: &Option<ast::Limit>,
) -> Query {
    let select = Select {
        options: SelectOptions::default(),
        items: vec![SelectItem::Wildcard { db: None, table: None }],
        from: tables.to_vec(),
        filter: filter.clone(),
        group_by: Vec::new(),
        rollup: false,
        having: None,
        windows: Vec::new(),
    };
    Query {
        with: None,
        body: QueryBody::Select(Box::new(select)),
        order_by: order_by.to_vec(),
        limit: limit.clone(),
        into: None,
        late_into: ast::LateInto::default(),
        lock: Some(ast::LockClause { update: true, wait: None }),
    }
}

fn columns(collation: CollationId, explain: &ast::Explain) -> Arc<ResultColumns> {
    let text = |chars| SqlType::varchar(chars, collation).with_decimals(NOT_SPECIFIED);
    if explain.json {
        let name = if explain.analyze { "ANALYZE" } else { "EXPLAIN" };
        return described_as(vec![(name, text(JSON_CHARS), false)]);
    }
    let mut described = vec![
        ("id", SqlType::bigint().with_length(3), true),
        ("select_type", text(19), false),
        ("table", text(64), true),
        ("type", text(10), true),
        ("possible_keys", text(4096), true),
        ("key", text(64), true),
        ("key_len", text(4096), true),
        ("ref", text(2048), true),
        ("rows", text(64), !(explain.extended || explain.analyze)),
        ("Extra", text(255), false),
    ];
    let share = || SqlType::double().with_length(4).with_decimals(2);
    if explain.extended || explain.analyze {
        described.insert(9, ("filtered", share(), true));
    }
    if explain.analyze {
        described.insert(9, ("r_rows", text(64), true));
        described.insert(11, ("r_filtered", share(), true));
    }
    if explain.partitions {
        described.insert(3, ("partitions", string_type(PARTITIONS_CHARS, collation), true));
    }
    described_as(described)
}

/// Columns by name, type and whether they may be NULL.
fn described_as(columns: Vec<(&'static str, SqlType, bool)>) -> Arc<ResultColumns> {
    ResultColumns::new(
        columns
            .into_iter()
            .map(|(name, ty, nullable)| ColumnMeta {
                schema: "".into(),
                table: "".into(),
                org_table: "".into(),
                name: name.into(),
                org_name: "".into(),
                ty,
                nullable,
                flags: match name {
                    "id" => flags::BINARY | flags::UNSIGNED,
                    "filtered" | "r_filtered" => flags::BINARY,
                    _ => 0,
                },
                length: None,
                is_plain: false,
            })
            .collect(),
    )
}
