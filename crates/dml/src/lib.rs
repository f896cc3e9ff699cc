//! Changing rows: INSERT, REPLACE, UPDATE, DELETE, LOAD DATA.
//!
//! A row is changed in the tree of the rows first, under its clustered key, and then in each index in order, as InnoDB
//! does; so the first duplicate found is the one that MariaDB reports. Statements that go on after a duplicate (IGNORE,
//! REPLACE, ON DUPLICATE KEY UPDATE) undo the row they were writing by a savepoint; others leave that to the statement's
//! rollback.

#![forbid(unsafe_code)]

mod assign;
mod auto;
mod check;
mod convert;
pub mod delete;
mod entries;
mod filter;
mod foreign;
mod generated;
pub mod insert;
pub mod load;
pub mod multi;
mod order;
mod returning;
mod rows;
mod through;
pub mod update;

use std::sync::Arc;

use keel_base::SqlResult;
use keel_catalog::TableDef;
use keel_sql::ast::ObjectName;

pub use check::{Checks, is_ignorable};
pub use convert::{Strictness, into_column};
pub use delete::DeletePlan;
pub use filter::single_table;
pub use foreign::{Family, check_rows, explain};
pub use generated::Generated;
pub use insert::InsertPlan;
pub use keel_catalog::row_entries::{EntryBuffers, write_entry};
pub use rows::{
    Written, delete as delete_row, duplicate_error, insert as insert_row, insert_at, insert_entry, lock_row,
};
pub use through::is_join;
pub use update::UpdatePlan;

pub use keel_exec::scratch::RowBuffers;
pub use keel_exec::scratch::WriteScratch;

/// Looks a table up by its name.
pub type Find<'a> = &'a dyn Fn(&ObjectName) -> SqlResult<Arc<TableDef>>;
