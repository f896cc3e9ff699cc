//! Prepared statements of a session: by number (COM_STMT_PREPARE) and by name (PREPARE).

use std::sync::Arc;

use hashbrown::HashMap;
use keel_base::{SqlError, SqlResult, errors};
use keel_database::Plan;
use keel_exec::{Allowance, Host, Place, ResultColumns, RowCursor};
use keel_sql::ast::Statement;
use keel_views::counters::Counter;
use keel_views::registry::shown_text;
use keel_wire::params::ParamType;

use crate::state::ServerState;

/// Error 1105 of a parameter that is longer than a packet may be.
const TOO_LONG: &str = "Parameter of prepared statement which is set through mysql_send_long_data() is longer than \
                        'max_allowed_packet' bytes";

/// What a prepared statement runs.
#[derive(Clone)]
pub enum Source {
    /// A plan of the executor.
    Plan(Arc<Plan>),
    /// A statement of the server itself.
    Server(Arc<Statement>),
}

impl Source {
    /// Whether it may change rows, and so take locks beyond those that its text asks for.
    pub fn changes_rows(&self) -> bool {
        matches!(self, Source::Plan(plan) if plan.kind.changes_rows())
    }
}

/// A prepared statement. A thousand clients have a hundred each, so what few of them ever need lies elsewhere.
pub struct Prepared {
    /// What it runs.
    pub source: Source,
    /// Its text as the process list shows it.
    pub text: Arc<[u8]>,
    /// How many parameters it takes.
    pub params: usize,
    /// The types of its parameters as last declared.
    pub types: Vec<ParamType>,
    /// Parameters that came in pieces; empty until the first piece.
    pub long: Vec<Option<Vec<u8>>>,
    /// Why the pieces cannot be used; told at each execution until the statement is reset.
    pub long_failed: Option<Box<SqlError>>,
    /// What the pieces take.
    pub long_memory: Option<Box<Allowance>>,
    /// The columns that the client has seen.
    pub sent: Option<Arc<ResultColumns>>,
    /// Rows of an execution with a cursor that COM_STMT_FETCH has not given yet, in binary form.
    pub cursor: Option<Box<RowCursor>>,
}

const _: () = assert!(size_of::<Prepared>() <= 128);

impl Prepared {
    /// A statement that has not been executed.
    pub fn new(source: Source, text: &[u8], params: usize) -> Prepared {
        Prepared {
            source,
            text: shown_text(text).into(),
            params,
            types: Vec::new(),
            long: Vec::new(),
            long_failed: None,
            long_memory: None,
            sent: None,
            cursor: None,
        }
    }

    /// Adds a piece of a parameter; `max` bounds the whole parameter, the memory of sessions all of them.
    pub fn add_long_data(&mut self, param: usize, data: &[u8], max: u64, host: &Arc<dyn Host>) {
        if self.long_failed.is_some() {
            return;
        }
        if let Err(error) = self.try_add_long_data(param, data, max, host) {
            self.reset();
            self.long_failed = Some(Box::new(error));
        }
    }

    fn try_add_long_data(
        &mut self,
        param: usize,
        data: &[u8],
        max: u64,
        host: &Arc<dyn Host>,
    ) -> SqlResult<()> {
        if param >= self.params {
            return Err(errors::wrong_arguments("mysqld_stmt_send_long_data"));
        }
        self.long.resize(self.params, None);
        let held: usize = self.long.iter().flatten().map(Vec::len).sum();
        let memory = self
            .long_memory
            .get_or_insert_with(|| Box::new(Allowance::new(u64::MAX, host.clone() as Arc<dyn Place>)));
        if !memory.allows(held + data.len()) {
            return Err(errors::outofmemory(held + data.len()));
        }
        let value = self.long[param].get_or_insert_default();
        if value.len() as u64 + data.len() as u64 > max {
            return Err(errors::unknown_error(TOO_LONG));
        }
        value.extend_from_slice(data);
        Ok(())
    }

    /// Forgets the pieces and closes the cursor.
    pub fn reset(&mut self) {
        self.cursor = None;
        self.long = Vec::new();
        self.long_failed = None;
        self.long_memory = None;
    }
}

/// All prepared statements of a session.
#[derive(Default)]
pub struct Statements {
    numbered: HashMap<u32, Box<Prepared>>,
    named: HashMap<String, Prepared>,
    last: u32,
    /// The last one could not be prepared, so that its execution, which may be on its way, finds nothing.
    last_failed: bool,
}

impl Statements {
    /// Keeps a statement under a new number, which is never 0.
    pub fn add(&mut self, state: &ServerState, statement: Prepared) -> SqlResult<u32> {
        self.check_room(state)?;
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && self.last != u32::MAX && !self.numbered.contains_key(&self.last) {
                break;
            }
        }
        self.last_failed = false;
        self.numbered.insert(self.last, Box::new(statement));
        state.counters.add(Counter::PreparedStatements, 1);
        Ok(self.last)
    }

    fn check_room(&self, state: &ServerState) -> SqlResult<()> {
        let max = state.globals.named("max_prepared_stmt_count").as_u64();
        if state.counters.sum(Counter::PreparedStatements) >= max {
            return Err(errors::max_prepared_stmt_count_reached(max));
        }
        Ok(())
    }

    /// The statement of that number; `u32::MAX` stands for the last one.
    #[inline]
    pub fn get(&mut self, number: u32) -> Option<&mut Prepared> {
        let number = match number {
            u32::MAX if self.last_failed => return None,
            u32::MAX => self.last,
            number => number,
        };
        self.numbered.get_mut(&number).map(|statement| &mut **statement)
    }

    /// A statement could not be prepared: `u32::MAX` stands for nothing until another one is.
    pub fn note_failure(&mut self) {
        self.last_failed = true;
    }

    /// Forgets the statement of that number.
    pub fn close(&mut self, state: &ServerState, number: u32) {
        if self.numbered.remove(&number).is_some() {
            state.counters.sub(Counter::PreparedStatements, 1);
        }
    }

    /// Keeps a statement under a name, in place of one that had it.
    pub fn add_named(&mut self, state: &ServerState, name: &str, statement: Prepared) -> SqlResult<()> {
        self.remove_named(state, name);
        self.check_room(state)?;
        self.named.insert(name.to_lowercase(), statement);
        state.counters.add(Counter::PreparedStatements, 1);
        Ok(())
    }

    /// The statement of that name.
    pub fn named(&self, name: &str) -> Option<&Prepared> {
        self.named.get(&name.to_lowercase())
    }

    /// Forgets the statement of that name; false where there is none.
    pub fn remove_named(&mut self, state: &ServerState, name: &str) -> bool {
        let found = self.named.remove(&name.to_lowercase()).is_some();
        if found {
            state.counters.sub(Counter::PreparedStatements, 1);
        }
        found
    }

    /// Forgets all.
    pub fn clear(&mut self, state: &ServerState) {
        let count = self.numbered.len() + self.named.len();
        state.counters.sub(Counter::PreparedStatements, count as u64);
        self.numbered.clear();
        self.named.clear();
    }
}
