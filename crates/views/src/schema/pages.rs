//! INNODB_SYS_COLUMNS, INNODB_BUFFER_PAGE and INNODB_BUFFER_PAGE_LRU: columns as InnoDB's dictionary has them, and the pages
//! in the buffer pool.

use hashbrown::HashMap;
use keel_base::TreeId;
use keel_catalog::{ColumnDef, TableDef};
use keel_storage::{PageKind, PoolPage};
use keel_value::{SqlType, TypeKind, decimal};

use super::{RowMaker, View, flag, maybe, number, text};
use crate::monitor::names::quoted;

/// Pages that are shown: what the rows take is bounded, whatever the pool's size.
const PAGES_MAX: usize = 16 << 10;

/// A row for each column of a table.
pub fn column_rows(table: &TableDef, rows: &mut RowMaker<'_>) {
    for (position, column) in table.columns.iter().enumerate() {
        rows.row([
            ("TABLE_ID", number(table.id)),
            ("NAME", text(&column.name)),
            ("POS", number(position as u64)),
            ("MTYPE", number(main_type(&column.ty))),
            ("PRTYPE", number(precise_type(column))),
            ("LEN", number(stored_len(&column.ty))),
        ]);
    }
}

/// InnoDB's main types (`data0type.h`).
fn main_type(ty: &SqlType) -> u64 {
    use TypeKind::*;
    let is_swedish = ty.collation.name() == "latin1_swedish_ci";
    match ty.kind {
        VarChar if is_swedish => 1,
        Char if is_swedish => 2,
        Decimal | Time | DateTime | Timestamp | Bit | Binary => 3,
        VarBinary => 4,
        TinyText | Text | MediumText | LongText | TinyBlob | Blob | MediumBlob | LongBlob => 5,
        Float => 9,
        Double => 10,
        VarChar => 12,
        Char => 13,
        _ => 6,
    }
}

/// MariaDB's type, the flags of InnoDB, and the collation where there is one.
fn precise_type(column: &ColumnDef) -> u64 {
    use TypeKind::*;
    const NOT_NULL: u64 = 256;
    const UNSIGNED: u64 = 512;
    const BINARY: u64 = 1024;
    const LONG_VARCHAR: u64 = 4096;
    /// latin1_swedish_ci, which numbers and times have in MariaDB.
    const NUMERIC: u64 = 8;
    const BINARY_COLLATION: u64 = 63;
    let ty = &column.ty;
    let (kind, collation) = match ty.kind {
        TinyInt => (1, 0),
        SmallInt => (2, 0),
        MediumInt => (9, 0),
        Int => (3, 0),
        BigInt => (8, 0),
        Float => (4, 0),
        Double => (5, 0),
        Year => (13, 0),
        Date => (10, 0),
        Enum | Set => (254, 0),
        Decimal => (246, NUMERIC),
        Time => (11, NUMERIC),
        DateTime => (12, NUMERIC),
        Timestamp => (7, NUMERIC),
        Bit => (16, BINARY_COLLATION),
        Char => (254, u64::from(ty.collation.0)),
        Binary => (254, BINARY_COLLATION),
        VarChar => (15, u64::from(ty.collation.0)),
        VarBinary => (15, BINARY_COLLATION),
        TinyBlob | Blob | MediumBlob | LongBlob => (252, BINARY_COLLATION),
        _ => (252, u64::from(ty.collation.0)),
    };
    let is_unsigned = ty.unsigned || matches!(ty.kind, Timestamp | Year | Bit | Enum | Set);
    let is_binary = !ty.is_text();
    let is_long = matches!(ty.kind, VarChar | VarBinary) && ty.max_octets() > 255;
    let flags =
        [(!column.nullable, NOT_NULL), (is_unsigned, UNSIGNED), (is_binary, BINARY), (is_long, LONG_VARCHAR)];
    let set: u64 = flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum();
    kind | set | collation << 16
}

/// Octets that InnoDB's rows have for it; of texts those of the length and the pointer.
fn stored_len(ty: &SqlType) -> u64 {
    use TypeKind::*;
    let fraction = u64::from(ty.decimals).div_ceil(2);
    match ty.kind {
        TinyInt | Year => 1,
        SmallInt => 2,
        MediumInt | Date => 3,
        Int | Float => 4,
        BigInt | Double => 8,
        Decimal => decimal::Decimal::stored_bytes(ty.length, ty.decimals) as u64,
        Time => 3 + fraction,
        DateTime => 5 + fraction,
        Timestamp => 4 + fraction,
        Bit => u64::from(ty.length).div_ceil(8),
        Enum => 1 + u64::from(ty.members().len() > 255),
        Set => match ty.members().len().div_ceil(8) {
            short @ 0..=4 => short as u64,
            _ => 8,
        },
        TinyText | TinyBlob => 9,
        Text | Blob => 10,
        MediumText | MediumBlob => 11,
        LongText | LongBlob => 12,
        _ => ty.max_octets(),
    }
}

/// Table and index of a tree.
type Names = HashMap<TreeId, (String, String)>;

/// A row for each page in the pool, the first `PAGES_MAX`.
pub fn page_rows(view: &View<'_>, rows: &mut RowMaker<'_>) {
    let names = names(view);
    let in_order = rows.table() == "INNODB_BUFFER_PAGE_LRU";
    for (position, page) in view.served.engine.pool_pages(PAGES_MAX).iter().enumerate() {
        let named = names.get(&page.tree);
        rows.row([
            ("SPACE", number(u64::from(page.tree.0))),
            ("PAGE_NUMBER", number(u64::from(page.page))),
            ("PAGE_TYPE", text(kind_word(page))),
            ("FIX_COUNT", number(u64::from(page.pins))),
            ("NEWEST_MODIFICATION", number(page.newest)),
            ("OLDEST_MODIFICATION", number(page.oldest)),
            ("TABLE_NAME", maybe(named.map(|(table, _)| table))),
            ("INDEX_NAME", maybe(named.map(|(_, index)| index))),
            ("NUMBER_RECORDS", number(page.records)),
            ("DATA_SIZE", number(page.data_bytes)),
            ("IO_FIX", text("IO_NONE")),
            ("IS_OLD", flag(page.is_old)),
        ]);
        match in_order {
            true => rows.also("LRU_POSITION", number(position as u64)),
            false => {
                rows.also("BLOCK_ID", number(u64::from(page.frame)));
                rows.also("PAGE_STATE", text("FILE_PAGE"));
            }
        }
    }
}

fn names(view: &View<'_>) -> Names {
    let catalog = view.served.database().catalog();
    let mut names = Names::new();
    for table in catalog.schemas().flat_map(|schema| schema.tables()) {
        if table.clustered.is_none() {
            names.insert(table.tree_id, (quoted(table), "GEN_CLUST_INDEX".into()));
        }
        for index in &table.indexes {
            names.insert(index.tree_id, (quoted(table), index.name.to_string()));
        }
    }
    names
}

/// What InnoDB calls such a page.
fn kind_word(page: &PoolPage) -> &'static str {
    match page.kind {
        PageKind::Node => "INDEX",
        PageKind::Overflow => "BLOB",
        PageKind::Undo => "UNDO_LOG",
        PageKind::Map => "FILE_SPACE_HEADER",
        PageKind::Free => "ALLOCATED",
    }
}
