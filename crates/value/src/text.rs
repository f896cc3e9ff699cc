//! The text protocol's form of values.
use crate::{SqlType, ValueRef};

/// Appends a value as the text protocol sends it, without length; NULL appends nothing.
pub fn append(_out: &mut Vec<u8>, _ty: &SqlType, _value: ValueRef<'_>) {
    unimplemented!()
}
/// Appends decimal digits.
pub fn append_i64(_out: &mut Vec<u8>, _v: i64) {
    unimplemented!()
}
/// Appends decimal digits.
pub fn append_u64(_out: &mut Vec<u8>, _v: u64) {
    unimplemented!()
}
/// Appends a double as MariaDB prints it.
pub fn append_f64(_out: &mut Vec<u8>, _v: f64) {
    unimplemented!()
}
/// Appends a float as MariaDB prints it.
pub fn append_f32(_out: &mut Vec<u8>, _v: f32) {
    unimplemented!()
}
