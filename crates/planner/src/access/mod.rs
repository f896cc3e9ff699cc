//! Which way to a table's rows is the cheapest: from its predicates to an [`AccessPath`](keel_exec::access::AccessPath).

mod choose;
mod split;
pub(crate) mod unusable;

pub use choose::{AccessRequest, choose, table_rows, union_key_len, whole_key_len};
pub use unusable::{UnusableKey, of_change as unusable_keys_of_change};
