//! The statement that a session runs, for SHOW EXPLAIN by others.
//!
//! A session notes its plan while its tables are locked and its rows are worked on, and forgets it then. Statements that
//! find one row by its key are not noted: they end at once, and MariaDB has read such rows before there is a plan to show.

use std::sync::Arc;

use keel_value::Value;
use parking_lot::Mutex;

use crate::plan::{Body, Plan, StatementKind};

/// What a session runs at the moment; nothing between its statements.
#[derive(Default)]
pub struct Running(Mutex<Option<Execution>>);

/// A running plan.
#[derive(Clone)]
pub struct Execution {
    pub(crate) plan: Arc<Plan>,
    pub(crate) params: Vec<Value>,
}

impl Running {
    /// Notes a plan that begins to run; says whether it is one that others may see.
    pub(crate) fn begin(&self, plan: &Arc<Plan>, params: &[Value]) -> bool {
        let shows = match &plan.body {
            Body::Insert(_) => plan.kind != StatementKind::Load,
            Body::Select(_) | Body::Multi(_) => true,
            Body::Update(update) => !update.is_direct(),
            Body::Delete(delete) => !delete.is_direct(),
            Body::Explain(explain) => explain.analyzed().is_some(),
            Body::Do(_) => !plan.dependencies.is_empty(),
            Body::PointSelect(_) | Body::PassedOver(_) | Body::Direct => false,
        };
        if shows {
            let rows_alone = matches!(&plan.body, Body::Insert(insert) if insert.query().is_none());
            let params = if rows_alone { Vec::new() } else { params.to_vec() };
            *self.0.lock() = Some(Execution { plan: plan.clone(), params });
        }
        shows
    }

    /// Forgets the noted plan.
    pub(crate) fn end(&self) {
        // The plan is let go of behind the lock.
        let _ended = self.0.lock().take();
    }

    /// The noted plan.
    pub(crate) fn plan(&self) -> Option<Arc<Plan>> {
        self.0.lock().as_ref().map(|execution| execution.plan.clone())
    }

    /// What runs now.
    pub fn now(&self) -> Option<Execution> {
        self.0.lock().clone()
    }
}
