//! Runs SHOW: the rows come from [`keel_views::show`]; LIKE, WHERE and SHOW EXPLAIN are applied here.
//!
//! For WHERE the rows are put up as a virtual table, which the executor filters.

pub mod explain;

use std::sync::Arc;

use keel_base::SqlResult;
use keel_catalog::TableDef;
use keel_exec::Collect;
use keel_sql::ast::{Expr, QueryBody, Show, ShowFilter, ShowKind, Statement};
use keel_value::Value;
use keel_views::show::{self, Rows, tables};

use crate::core::Core;

/// Runs SHOW.
pub fn run(core: &mut Core, show: &Show, params: &[Value]) -> SqlResult<Rows> {
    if let Some(counter) = show::counter(&show.what) {
        core.count(counter, 1);
    }
    let rows = match &show.what {
        ShowKind::Explain { analyze, json, connection } => {
            explain::run(core, connection, explain::Asked { analyze: *analyze, json: *json }, params)?
        }
        what => show::rows(&mut core.caller(), what)?,
    };
    let shown = match &show.filter {
        None => rows,
        Some(ShowFilter::Like(pattern)) => show::like(rows, &show.what, pattern),
        Some(ShowFilter::Where(condition)) => filter(core, rows, condition, params)?,
    };
    if matches!(show.what, ShowKind::TableStatus { .. }) {
        tables::warn_of_broken_views(&mut core.caller(), &shown);
    }
    Ok(shown)
}

/// Checks a SHOW that is prepared: SHOW CREATE of a table, view or sequence opens it.
pub fn check(core: &mut Core, show: &Show) -> SqlResult<()> {
    match &show.what {
        what @ (ShowKind::CreateTable(_) | ShowKind::CreateView(_) | ShowKind::CreateSequence(_)) => {
            show::rows(&mut core.caller(), what).map(|_| ())
        }
        _ => Ok(()),
    }
}

/// The name under which a session's rows are put up for the executor.
pub const STAGE_PREFIX: &str = "#show ";

/// Keeps rows that meet a condition.
fn filter(core: &mut Core, rows: Rows, condition: &Expr, params: &[Value]) -> SqlResult<Rows> {
    let name = format!("{STAGE_PREFIX}{}", core.client.id);
    let columns = rows.columns.columns.iter().map(|c| (&*c.name, c.ty.clone(), true)).collect();
    let table = Arc::new(TableDef::virtual_table("information_schema", &name, columns));
    core.state.stage.lock().insert(name.clone(), (table, rows.rows));
    let kept = run_filter(core, &name, condition, params);
    core.state.stage.lock().remove(&name);
    Ok(Rows { columns: rows.columns, rows: kept? })
}

fn run_filter(core: &mut Core, name: &str, condition: &Expr, params: &[Value]) -> SqlResult<Vec<Vec<Value>>> {
    let text = format!("SELECT * FROM `information_schema`.`{name}` WHERE 1");
    let mut parsed = keel_sql::parse(text.as_bytes(), &keel_sql::ParseOptions::default())?;
    if let Statement::Query(query) = &mut parsed.statement
        && let QueryBody::Select(select) = &mut query.body
    {
        select.filter = Some(condition.clone());
    }
    let database = core.state.database().clone();
    let plan = database.prepare(&mut core.sql, Arc::new(parsed.statement), params.len() as u32)?;
    let mut kept = Collect::default();
    database.execute(&mut core.sql, &plan, params, &mut kept)?;
    Ok(kept.rows)
}
