//! SHOW EXPLAIN and SHOW ANALYZE: the plan of a statement that another session runs at the moment.
//!
//! A SELECT shows the plan that runs. UPDATE and DELETE of one table show the SELECT that would find their rows now, as
//! EXPLAIN of them does; what that cannot name, such as a temporary table of the other session, leaves nothing to show.

use std::any::Any;

use keel_base::{SqlResult, errors};
use keel_exec::running::Execution;
use keel_exec::session::Session;
use keel_planner::bind::{BindContext, ParamSource};
use keel_sql::ast::{self, ExplainTarget};
use keel_value::Value;

use super::found::Findings;
use super::tree::{self, Times};
use super::{Shown, Subject, lines, subject};
use crate::database::Database;
use crate::plan::{Body, Plan};

/// What is asked about a running statement.
#[derive(Debug, Clone, Copy)]
pub struct Question {
    /// What was counted so far, not only the plan.
    pub analyze: bool,
    /// As JSON.
    pub json: bool,
    /// How long it has run.
    pub nanos: u64,
}

impl Database {
    /// The rows that tell about a running statement, as EXPLAIN has them; 1933 where there is no plan to tell of.
    pub fn explain_running(
        &self,
        session: &mut Session,
        running: &Execution,
        asked: Question,
    ) -> SqlResult<Vec<Vec<Value>>> {
        let plan: &dyn Any = &*running.plan;
        let plan: &Plan = plan.downcast_ref().expect("plans of statements run");
        match &plan.body {
            Body::Explain(explained) => {
                let planning = explained.analyzed().map_or(0, |analyzed| analyzed.planning_nanos);
                Ok(told(&explained.shown(), running, asked, planning, session))
            }
            _ if asked.analyze => {
                Err(errors::not_supported_yet("SHOW ANALYZE of a statement that was not begun by ANALYZE"))
            }
            Body::Select(select) => Ok(told(&Shown::Query(select), running, asked, 0, session)),
            Body::Multi(multi) => Ok(told(&Shown::Query(multi.query()), running, asked, 0, session)),
            Body::Insert(insert) => {
                let shown = Shown::Insert { table: &insert.table.name, query: insert.query() };
                Ok(told(&shown, running, asked, 0, session))
            }
            Body::Update(_) | Body::Delete(_) => match self.finder_of(session, running) {
                Some(Subject::Change(updates, finder)) => {
                    let shown = Shown::Change { updates, finder: &finder, counted: None };
                    Ok(told(&shown, running, asked, 0, session))
                }
                _ => Err(errors::target_not_explainable()),
            },
            Body::PointSelect(_) | Body::Do(_) | Body::PassedOver(_) | Body::Direct => {
                Err(errors::target_not_explainable())
            }
        }
    }

    /// How the rows of a change would be found now, under the default database that it runs in.
    fn finder_of(&self, session: &mut Session, running: &Execution) -> Option<Subject> {
        let plan: &dyn Any = &*running.plan;
        let plan: &Plan = plan.downcast_ref().expect("plans of statements run");
        let own = std::mem::replace(&mut session.database, plan.database.clone());
        let found = planned(self, session, plan, &running.params);
        session.database = own;
        found.ok()
    }
}

fn planned(database: &Database, session: &Session, plan: &Plan, params: &[Value]) -> SqlResult<Subject> {
    let catalog = database.catalog_of(session);
    let connection = session.vars.connection_collation;
    let types: Vec<_> = match plan.literals {
        Some(_) => Vec::new(),
        None => plan.shapes.iter().map(|shape| shape.ty(connection)).collect(),
    };
    let params = ParamSource { literals: plan.literals.as_deref(), types: &types, values: params };
    let cx = BindContext { catalog: &catalog, session, params, assigned: &[], counting: None };
    subject(cx, &plan.statement, None, None)
}

fn told(
    shown: &Shown<'_>,
    running: &Execution,
    asked: Question,
    planning: u64,
    session: &Session,
) -> Vec<Vec<Value>> {
    if asked.json {
        let times = asked.analyze.then_some(Times { planning, running: asked.nanos, in_progress: true });
        let text =
            tree::text((shown, &Findings::default()), &running.params, times, session.vars.join_buffer_bytes);
        return vec![vec![Value::bytes(text.as_bytes())]];
    }
    let form = ast::Explain {
        analyze: asked.analyze,
        extended: false,
        partitions: false,
        json: false,
        what: ExplainTarget::nothing(),
    };
    lines::rows(shown, &Findings::default(), &form)
}
