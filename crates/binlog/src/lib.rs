//! Codec of MariaDB's binary log: events, row images, GTIDs, checksums and files. No I/O.
//!
//! 1. A file is four magic bytes and a sequence of events. [`FileReader`] splits pushed bytes into
//!    [`Frame`]s; [`FileWriter`] appends [`Event`]s. A [`Frame`] is a [`Header`], a body and an optional
//!    checksum. [`Frame::event`] decodes the body.
//! 2. An [`Event`] borrows text and rows from the decoded bytes. Lists inside an event stay encoded until a
//!    caller asks for them: [`Query::variables`], [`TableMap::columns`], [`TableMap::blocks`],
//!    [`Rows::reader`].
//! 3. Decoding and encoding an event of 10.11 gives equal bytes. Unknown events, status variables and
//!    metadata blocks are kept as bytes.
//! 4. Readers check every length against the input. Allocations are limited by the input's length, or by the
//!    caller's limit for uncompressed bytes. An [`Error`] has an offset and a reason. No input panics.
//! 5. The last Format_description event of a file declares its [`Format`]. Only log version 4 is supported,
//!    and the fixed parts of events must have the lengths of 10.11.
//! 6. [`RowReader`] decodes row images to `ValueRef`s of `keel-value` and [`append_image`] encodes them.
//!    Without optional metadata a Table_map event contains neither signedness nor charsets, so callers set
//!    [`Column::unsigned`] from their own table.
//! 7. INET4, INET6 and UUID values are strings of 4 and 16 bytes without trailing zero bytes. CHAR and BINARY
//!    values come without their padding and must be written without it: [`without_padding`]. JSON is text.
//!
//! Sources: MariaDB's documentation ("Replication protocol", "Binlog event header" and the pages about single
//! events) and its source files `sql/log_event.h`, `sql/log_event.cc`, `sql/rpl_gtid.cc` and
//! `sql/rpl_record.cc`, and files written by 10.11.19, which the tests in `tools/testkit/tests/binlog` use.
//! Each module's header shows its byte layout.
#![forbid(unsafe_code)]

mod bytes;
pub mod columns;
pub mod compress;
pub mod control;
mod error;
mod event;
mod file;
mod format;
pub mod gtid;
mod header;
mod image;
pub mod load;
pub mod metadata;
mod old_temporal;
pub mod query;
pub mod rows;
pub mod session;
pub mod table_map;

pub use bytes::bit;
pub use columns::{Column, ColumnBytes, ColumnKind};
pub use error::{Error, Problem, Result};
pub use event::Event;
pub use file::{CLOSED_MARK, FileReader, FileWriter, IN_USE_OFFSET, MAGIC};
pub use format::{Checksum, Format, FormatDescription, POST_HEADER_LENGTHS, VERSION_BYTES, server_version};
pub use gtid::{BinlogState, Gtid, SlavePosition};
pub use header::{CHECKSUM_BYTES, Frame, HEADER_BYTES, Header, append, checksum_of, flags, kind};
pub use image::without_padding;
pub use metadata::{DefaultCharset, OptionalBlock};
pub use query::{Query, StatusVar};
pub use rows::{Change, Image, RowReader, Rows, Shape, append_image};
pub use table_map::TableMap;
