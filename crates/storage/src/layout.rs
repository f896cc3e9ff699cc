//! Where things are on a page. Every number of the page format stands here once; all integers are little-endian.
//!
//! ```text
//! 0        4        8              16     20   21    22      24      28     30
//! | crc u32 | page u32 | lsn u64     | tree | kind | level | count | right | heap | garbage |
//! 32        34        36         38         40       42      44         48         56          64
//! | low off | low len | high off | high len | prefix | flags | last | run | low head | high head |
//! 64                                                              16384
//! | slot 0 | slot 1 | ...      ->  free  <-        cells, fences      |
//!
//! slot: cell offset u16, key suffix length u16, head u32 (first four bytes of the suffix, big-endian, zero-padded)
//! cell: value length u16, key suffix, value
//! ```
//! Page 0 of a file, and every `GROUP_PAGES`th, is a map page: from `MAP_AT` one bit per page of its group, set when in
//! use. Page 0 also holds the file's header. Undo pages use `heap` as the end of their bytes, `right` as their next page.

/// Bytes of a page.
pub const PAGE: usize = 16 * 1024;
/// Bytes of the common page header.
pub const HEADER: usize = 64;
/// Bytes of a slot.
pub const SLOT: usize = 8;
/// Bytes before the key suffix in a cell.
pub const CELL_HEAD: usize = 2;

/// CRC32C over all bytes behind it.
pub const AT_CRC: usize = 0;
/// The page's own number.
pub const AT_PAGE: usize = 4;
/// End of the last mini-transaction that changed the page.
pub const AT_LSN: usize = 8;
/// The tree the page belongs to.
pub const AT_TREE: usize = 16;
/// One of `KIND_*`.
pub const AT_KIND: usize = 20;
/// 0 for leaves.
pub const AT_LEVEL: usize = 21;
/// Number of slots.
pub const AT_COUNT: usize = 22;
/// Right neighbour, or next page of a chain; 0 for none.
pub const AT_RIGHT: usize = 24;
/// Lowest byte of the cells.
pub const AT_HEAP: usize = 28;
/// Dead bytes among the cells.
pub const AT_GARBAGE: usize = 30;
/// Low fence: offset.
pub const AT_LOW_OFF: usize = 32;
/// Low fence: length.
pub const AT_LOW_LEN: usize = 34;
/// High fence: offset.
pub const AT_HIGH_OFF: usize = 36;
/// High fence: length.
pub const AT_HIGH_LEN: usize = 38;
/// Bytes that all keys share with the low fence.
pub const AT_PREFIX: usize = 40;
/// `FLAG_*`.
pub const AT_FLAGS: usize = 42;
/// The slot behind the newest entry, 0 for none: tells a split whether keys arrive in order.
pub const AT_LAST: usize = 44;
/// How many entries in a row came right behind the newest (positive) or right before it (negative), i16.
pub const AT_RUN: usize = 46;

/// First eight bytes of the low fence, zero-padded, big-endian read: most comparisons end here and touch no cell.
pub const AT_LOW_HEAD: usize = 48;
/// First eight bytes of the high fence likewise.
pub const AT_HIGH_HEAD: usize = 56;

/// The page has a high fence.
pub const FLAG_HIGH: u16 = 1;

/// A page in no use.
pub const KIND_FREE: u8 = 0;
/// A leaf of a tree.
pub const KIND_LEAF: u8 = 1;
/// An inner page of a tree.
pub const KIND_INNER: u8 = 2;
/// Part of a long value.
pub const KIND_OVERFLOW: u8 = 3;
/// Undo records.
pub const KIND_UNDO: u8 = 4;
/// A map page.
pub const KIND_MAP: u8 = 5;

/// Pages whose use one map page records.
pub const GROUP_PAGES: u32 = 65_536;
/// Where the map begins on a map page.
pub const MAP_AT: usize = PAGE / 2;
/// Page 0: magic number.
pub const AT_MAGIC: usize = HEADER;
/// Page 0: format version.
pub const AT_FORMAT: usize = HEADER + 8;
/// Page 0: number of groups whose map page exists.
pub const AT_GROUPS: usize = HEADER + 12;
/// Page 0: the bound of the tree's counter, u64.
pub const AT_COUNTER: usize = HEADER + 16;
/// Page 0: how far that is ahead of the last exact value, u64.
pub const AT_COUNTER_AHEAD: usize = AT_COUNTER + 8;
/// Page 0: the beginning of the greatest key that went from the end of a leaf, of a tree that counts.
pub const AT_GONE: usize = AT_COUNTER_AHEAD + 8;
/// Bytes of that: a whole number, and whether it is NULL, fit.
pub const GONE_BYTES: usize = 16;
/// Magic number of a tree file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"KeelTree");
/// Format version of tree files.
pub const FORMAT: u32 = 1;
/// The root of every tree, and the directory of the undo file.
pub const ROOT: u32 = 1;

/// Longest key.
pub const KEY_MAX: usize = 3072;
/// Longest value kept in a leaf.
pub const VALUE_MAX: usize = 4096;
/// Bytes for cells and slots.
pub const ROOM: usize = PAGE - HEADER;
/// Bytes of a chained page's data (undo, overflow).
pub const CHAIN_ROOM: usize = PAGE - HEADER;

const _: () = assert!(AT_RUN + 2 <= AT_LOW_HEAD && AT_HIGH_HEAD + 8 <= HEADER);
const _: () = assert!(HEADER.is_multiple_of(SLOT));
const _: () = assert!(MAP_AT + GROUP_PAGES as usize / 8 <= PAGE);
const _: () = assert!(AT_GONE + GONE_BYTES <= MAP_AT);
const _: () = assert!(PAGE <= u16::MAX as usize);
// Any split leaves room: two fences, and on either side one entry of the largest size.
const _: () = assert!(2 * KEY_MAX + CELL_HEAD + KEY_MAX + VALUE_MAX + SLOT <= ROOM);
