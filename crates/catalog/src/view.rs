//! Views: queries that have a name. The catalog keeps a view's query as text in which every name is whole
//! (`` `db`.`table`.`column` ``), so that it means the same whoever reads it; the tree is made when it is first asked for.

use std::sync::{Arc, OnceLock};

use keel_base::{SqlResult, errors};
use keel_sql::ast::{Query, Statement};
use keel_value::CollationId;

use keel_context::mdl::TableLock;

/// ALGORITHM: how a view is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewAlgorithm {
    /// Merged into the query that names it where that can be.
    Undefined,
    /// The same, said.
    Merge,
    /// Its rows are gathered first.
    TempTable,
}

impl ViewAlgorithm {
    /// All, by their numbers on disk.
    pub const ALL: [ViewAlgorithm; 3] =
        [ViewAlgorithm::Undefined, ViewAlgorithm::Merge, ViewAlgorithm::TempTable];

    /// The word in SQL.
    pub fn word(self) -> &'static str {
        match self {
            ViewAlgorithm::Undefined => "UNDEFINED",
            ViewAlgorithm::Merge => "MERGE",
            ViewAlgorithm::TempTable => "TEMPTABLE",
        }
    }
}

/// WITH CHECK OPTION: which conditions new rows must meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckOption {
    /// None.
    None,
    /// The view's own.
    Local,
    /// Its own and those of all views below.
    Cascaded,
}

impl CheckOption {
    /// All, by their numbers on disk.
    pub const ALL: [CheckOption; 3] = [CheckOption::None, CheckOption::Local, CheckOption::Cascaded];

    /// The word in SQL.
    pub fn word(self) -> &'static str {
        match self {
            CheckOption::None => "NONE",
            CheckOption::Local => "LOCAL",
            CheckOption::Cascaded => "CASCADED",
        }
    }
}

/// What of a view is kept on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewRecord {
    /// Its database.
    pub schema: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Never used again; numbers tables too.
    pub id: u64,
    /// Seconds since 1970 when it was defined.
    pub created: i64,
    /// The query, names whole.
    pub text: String,
    /// Names of its columns.
    pub columns: Vec<String>,
    /// ALGORITHM.
    pub algorithm: ViewAlgorithm,
    /// User and host of DEFINER.
    pub definer: (String, String),
    /// SQL SECURITY INVOKER.
    pub invoker: bool,
    /// WITH CHECK OPTION.
    pub check_option: CheckOption,
    /// The default collation of `character_set_client` when it was defined.
    pub client_collation: CollationId,
    /// `collation_connection` when it was defined: that of its literals.
    pub connection_collation: CollationId,
}

/// A view. Immutable; a definition makes a new one.
pub struct View {
    /// What is kept of it.
    pub record: ViewRecord,
    /// Guards it against definitions while statements use it; stays when its definition changes.
    pub lock: Arc<TableLock>,
    query: OnceLock<SqlResult<Arc<Query>>>,
}

impl std::ops::Deref for View {
    type Target = ViewRecord;
    fn deref(&self) -> &ViewRecord {
        &self.record
    }
}

impl View {
    /// A view of a record; `lock` is that of its name.
    pub fn new(record: ViewRecord, lock: Arc<TableLock>) -> View {
        View { record, lock, query: OnceLock::new() }
    }

    /// A view as it lies in a folder that no server has open.
    pub fn offline(record: ViewRecord) -> View {
        View::new(record, Arc::default())
    }

    /// Its query.
    pub fn query(&self) -> SqlResult<Arc<Query>> {
        self.query.get_or_init(|| parse(&self.text)).clone()
    }

    /// 1356: something that it names is not there, or not as it was.
    pub fn broken(&self) -> keel_base::SqlError {
        errors::view_invalid(&self.schema, &self.name)
    }
}

fn parse(text: &str) -> SqlResult<Arc<Query>> {
    let parsed = keel_sql::parse(text.as_bytes(), &keel_sql::ParseOptions::default())?;
    match parsed.statement {
        Statement::Query(query) => Ok(Arc::from(query)),
        _ => Err(errors::syntax_error()),
    }
}
