//! Keys of unique indexes whose columns are too long for a key: a digest of the columns' own keys.
//!
//! What is equal by the columns' collations has equal keys and so equal digests; that different ones share a digest of SHA-256 is
//! not to be expected in this world. A row with NULL in one of the columns has NULL for a digest, which is never a duplicate.

use keel_value::key::KeyPart;
use keel_value::{SqlType, TypeKind, ValueRef};
use sha2::{Digest, Sha256};

use super::IndexDef;

const DIGEST_BYTES: u32 = 32;

/// How a digest stands in a key. As a prefix it gives no column back.
pub(super) fn encoder() -> KeyPart {
    let ty = SqlType::new(TypeKind::Binary).with_length(DIGEST_BYTES);
    KeyPart { prefix: Some(DIGEST_BYTES), ..KeyPart::new(ty, true) }
}

/// Appends the key of a row in a hashed index; `value` gives the row's columns.
pub(super) fn encode<'v>(index: &IndexDef, value: impl Fn(usize) -> ValueRef<'v>, key: &mut Vec<u8>) {
    let start = key.len();
    for (encoder, part) in index.digested.iter().zip(&index.parts) {
        let value = value(part.column);
        if value.is_null() {
            key.truncate(start);
            index.encoders[0].encode(ValueRef::Null, key);
            return;
        }
        encoder.encode(value, key);
    }
    let digest = Sha256::digest(&key[start..]);
    key.truncate(start);
    index.encoders[0].encode(ValueRef::Bytes(&digest), key);
}
