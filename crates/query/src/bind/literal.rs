//! Literals.
use keel_sql::ast::LiteralValue;
use keel_value::{CollationId, SqlType, Value};

/// A literal's value and type under the connection's collation.
pub fn literal_value(_literal: &LiteralValue, _connection: CollationId) -> (Value, SqlType) {
    unimplemented!()
}
