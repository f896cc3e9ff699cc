//! Memory-comparable keys.
use crate::{SqlType, Value, ValueRef};

/// One column of a key.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyPart {
    /// The column's type.
    pub ty: SqlType,
    /// Whether the column may be NULL: one more byte.
    pub nullable: bool,
    /// Whether the order is reversed.
    pub descending: bool,
    /// Only the first so many characters (octets for binary types) are part of the key.
    pub prefix: Option<u32>,
}
impl KeyPart {
    /// An ascending key part over the whole column.
    pub fn new(_ty: SqlType, _nullable: bool) -> KeyPart {
        unimplemented!()
    }
    /// Appends the encoded value.
    pub fn encode(&self, _value: ValueRef<'_>, _out: &mut Vec<u8>) {
        unimplemented!()
    }
    /// Octets of this part at the start of `key`; None if the key is cut short.
    pub fn skip(&self, _key: &[u8]) -> Option<usize> {
        unimplemented!()
    }
    /// The value and its octets at the start of `key`; None if cut short or not lossless.
    pub fn decode(&self, _key: &[u8]) -> Option<(Value, usize)> {
        unimplemented!()
    }
    /// Whether [`KeyPart::decode`] gives back what was stored.
    pub fn is_lossless(&self) -> bool {
        unimplemented!()
    }
}
/// Appends the encoding of an ascending, whole column.
pub fn encode(_out: &mut Vec<u8>, _ty: &SqlType, _value: ValueRef<'_>, _nullable: bool) {
    unimplemented!()
}
/// Whether keys of the type can be decoded.
pub fn is_lossless(_ty: &SqlType) -> bool {
    unimplemented!()
}
/// Makes of a key prefix the least key that is greater than every key with that prefix; false if there is none.
pub fn successor(_key: &mut Vec<u8>) -> bool {
    unimplemented!()
}
