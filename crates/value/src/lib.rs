//! SQL types and values with MariaDB 10.11's rules, and the bytes that stand for them in rows and keys.
//!
//! A [`Value`] is one SQL value; a [`ValueRef`] the same, borrowed from a row or a literal. A [`SqlType`] says how a value
//! is stored, compared and printed: a `Value` alone does not know whether its bytes are text of a collation, nor whether
//! a number is the index of an ENUM's member. Rooms above pass both.
//!
//! Nothing here does I/O, holds state between calls or knows tables. Bad input gives a [`convert::Problem`], never a panic.
#![forbid(unsafe_code)]

pub mod collation;
pub mod convert;
pub mod decimal;
pub mod fixed;
pub mod key;
pub mod mode;
pub mod row;
pub mod temporal;
pub mod text;
pub mod types;
pub mod value;

pub use collation::CollationId;
pub use decimal::Decimal;
pub use fixed::{Fixed, FixedKind};
pub use mode::SqlMode;
pub use temporal::{Date, DateTime, Time};
pub use types::{SqlType, TypeKind};
pub use value::{Cell, Value, ValueRef};
