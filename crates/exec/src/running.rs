//! The statement that a session runs, as other sessions may see it.
//!
//! A session notes its plan while its tables are locked and its rows are worked on, and forgets it then. Statements that
//! find one row by its key are not noted: they end at once, and MariaDB has read such rows before there is a plan to show.

use std::any::Any;
use std::sync::Arc;

use keel_value::Value;
use parking_lot::Mutex;

use crate::mdl::TableLock;

/// A plan that runs.
pub trait Planned: Any + Send + Sync {
    /// The metadata locks that it has, and whether each is a writer's.
    fn shared_locks(&self) -> Vec<(Arc<TableLock>, bool)>;
}

/// What a session runs at the moment; nothing between its statements.
#[derive(Default)]
pub struct Running(Mutex<Option<Execution>>);

/// A running plan.
#[derive(Clone)]
pub struct Execution {
    /// The plan.
    pub plan: Arc<dyn Planned>,
    /// Its parameters; none where only rows to insert come from them.
    pub params: Vec<Value>,
}

impl Running {
    /// Notes a plan that begins to run.
    pub fn begin(&self, execution: Execution) {
        *self.0.lock() = Some(execution);
    }

    /// Forgets the noted plan.
    pub fn end(&self) {
        // The plan is dropped behind the lock.
        let _ended = self.0.lock().take();
    }

    /// The noted plan.
    pub fn plan(&self) -> Option<Arc<dyn Planned>> {
        self.0.lock().as_ref().map(|execution| execution.plan.clone())
    }

    /// What runs now.
    pub fn now(&self) -> Option<Execution> {
        self.0.lock().clone()
    }
}
