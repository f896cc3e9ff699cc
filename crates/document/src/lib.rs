//! JSON and XML documents as MariaDB's functions read and write them. The crate knows texts and values, and no SQL.

#![forbid(unsafe_code)]

pub mod json;
pub mod xml;
