//! Changing rows: INSERT, REPLACE, UPDATE, DELETE.
//!
//! A row is changed in the tree of the rows first, under its clustered key, and then in each index in order, as InnoDB
//! does; so the first duplicate found is the one that MariaDB reports. Statements that go on after a duplicate (IGNORE,
//! REPLACE, ON DUPLICATE KEY UPDATE) undo the row they were writing by a savepoint; others leave that to the statement's
//! rollback.

mod assign;
mod convert;
pub(crate) mod delete;
mod entries;
mod filter;
pub(crate) mod insert;
mod rows;
pub(crate) mod update;

use std::sync::Arc;

use keel_base::SqlResult;
use keel_sql::ast::ObjectName;

pub(crate) use convert::{Strictness, into_column};
pub(crate) use delete::DeletePlan;
pub(crate) use entries::{EntryBuffers, write_entry};
pub(crate) use insert::InsertPlan;
pub(crate) use rows::{RowBuffers, Written, duplicate_error, insert as insert_row};
pub(crate) use update::UpdatePlan;

use crate::catalog::TableDef;

/// Looks a table up by its name.
pub(crate) type Find<'a> = &'a dyn Fn(&ObjectName) -> SqlResult<Arc<TableDef>>;
