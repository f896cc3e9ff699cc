//! Changing rows: INSERT, REPLACE, UPDATE, DELETE, LOAD DATA.
//!
//! A row is changed in the tree of the rows first, under its clustered key, and then in each index in order, as InnoDB
//! does; so the first duplicate found is the one that MariaDB reports. Statements that go on after a duplicate (IGNORE,
//! REPLACE, ON DUPLICATE KEY UPDATE) undo the row they were writing by a savepoint; others leave that to the statement's
//! rollback.

mod assign;
mod auto;
mod check;
mod convert;
pub(crate) mod delete;
mod entries;
mod filter;
mod foreign;
mod generated;
pub(crate) mod insert;
pub(crate) mod load;
pub(crate) mod multi;
mod order;
mod returning;
mod rows;
mod through;
pub(crate) mod update;

use std::sync::Arc;

use keel_base::SqlResult;
use keel_sql::ast::ObjectName;

pub(crate) use check::{Checks, is_ignorable};
pub(crate) use convert::{Strictness, into_column};
pub(crate) use delete::DeletePlan;
pub(crate) use filter::single_table;
pub(crate) use foreign::{Family, check_rows, explain};
pub(crate) use generated::Generated;
pub(crate) use insert::InsertPlan;
pub(crate) use keel_catalog::row_entries::{EntryBuffers, write_entry};
pub(crate) use rows::{
    Written, delete as delete_row, duplicate_error, insert as insert_row, insert_at, insert_entry, lock_row,
};
pub(crate) use through::is_join;
pub(crate) use update::UpdatePlan;

use crate::catalog::TableDef;
pub(crate) use crate::scratch::{RowBuffers, WriteScratch};

/// Looks a table up by its name.
pub(crate) type Find<'a> = &'a dyn Fn(&ObjectName) -> SqlResult<Arc<TableDef>>;
