//! The size of rows as InnoDB counts it: a table whose rows may be too long for half a page is refused (1118), or made with a
//! warning without `innodb_strict_mode`. Keel stores such rows; a schema that it takes is to be one that MariaDB takes.

use keel_base::{Level, SqlError, SqlResult, Warning, errors};
use keel_catalog::{ColumnDef, TableRecord};
use keel_exec::session::Session;
use keel_value::{SqlType, TypeKind};

use super::columns::COLUMNS_MAX;
use super::foreign;

/// Bytes of the transaction's number, the roll pointer and the hidden row number.
const TRANSACTION: u64 = 6;
const ROLL_POINTER: u64 = 7;
const ROW_NUMBER: u64 = 6;

/// What a row format says of rows.
struct RowFormat {
    /// Bytes of a row at most.
    max: u64,
    /// Bytes of a long value that stay in the row, and of those its beginning.
    local: u64,
    prefix: u64,
    redundant: bool,
}

impl RowFormat {
    /// That of a table; none where pages are compressed, whose rows have another limit.
    fn of(record: &TableRecord) -> Option<RowFormat> {
        match record.options.row_format.as_deref() {
            Some("COMPRESSED") => None,
            Some("REDUNDANT") => Some(RowFormat { max: 8123, local: 788, prefix: 768, redundant: true }),
            Some("COMPACT") => Some(RowFormat { max: 8126, local: 788, prefix: 768, redundant: false }),
            _ => Some(RowFormat { max: 8126, local: 20, prefix: 0, redundant: false }),
        }
    }

    /// Bytes of a value at most, with those of its length.
    fn value(&self, ty: &SqlType) -> u64 {
        let size = match fixed_size(ty, self.redundant) {
            Some(size) => return size,
            None if ty.is_blob() => self.local,
            // Short values stay in the row.
            None if ty.max_octets() <= 255 => ty.max_octets(),
            None => ty.max_octets().min(self.local),
        };
        size + if self.redundant { 0 } else { 1 + u64::from(size > 255) }
    }

    /// Bytes of a row at most.
    fn row(&self, record: &TableRecord) -> u64 {
        let is_stored = |c: &&ColumnDef| c.generated.as_ref().is_none_or(|generated| generated.stored);
        let columns: Vec<&ColumnDef> = record.columns.iter().filter(is_stored).collect();
        let hidden = if record.clustered().is_none() { ROW_NUMBER } else { 0 };
        let fields = columns.len() as u64 + 2 + u64::from(hidden > 0);
        let nullable = columns.iter().filter(|column| column.nullable).count() as u64;
        let head = if self.redundant { 6 + 2 * fields } else { 5 + nullable.div_ceil(8) };
        let values: u64 = columns.iter().map(|column| self.value(&column.ty)).sum();
        head + hidden + TRANSACTION + ROLL_POINTER + values
    }

    fn text(&self) -> String {
        let or = if self.prefix > 0 { " or using ROW_FORMAT=DYNAMIC or ROW_FORMAT=COMPRESSED" } else { "" };
        format!(
            "Row size too large (> {}). Changing some columns to TEXT or BLOB{or} may help. In current row format, BLOB \
             prefix of {} bytes is stored inline.",
            self.max, self.prefix
        )
    }
}

/// Bytes of a value of a type whose values have one length; none of others.
fn fixed_size(ty: &SqlType, redundant: bool) -> Option<u64> {
    use TypeKind::*;
    let fraction = u64::from(ty.decimals).div_ceil(2);
    Some(match ty.kind {
        Float => 4,
        Double => 8,
        Decimal => {
            let digits = |count: u32| {
                let rest = [0, 1, 1, 2, 2, 3, 3, 4, 4][count as usize % 9];
                u64::from(count / 9) * 4 + rest
            };
            digits(decimal_digits(ty) - u32::from(ty.decimals)) + digits(u32::from(ty.decimals))
        }
        Bit => u64::from(ty.length).div_ceil(8),
        Year => 1,
        Date => 3,
        Time => 3 + fraction,
        DateTime => 5 + fraction,
        Timestamp => 4 + fraction,
        Enum => 1 + u64::from(ty.members().len() > 255),
        Set => match ty.members().len().div_ceil(8) as u64 {
            few @ 0..=4 => few.max(1),
            _ => 8,
        },
        Inet4 => 4,
        Inet6 | Uuid => 16,
        Binary => ty.max_octets(),
        Char if redundant || ty.collation.charset().max_bytes() == 1 => ty.max_octets(),
        _ if ty.is_integer() => ty.integer_bytes() as u64,
        _ => return None,
    })
}

/// The digits of a DECIMAL, of whose length the point and the sign are a part.
fn decimal_digits(ty: &SqlType) -> u32 {
    let point = u32::from(ty.decimals > 0);
    let sign = u32::from(!ty.unsigned);
    ty.length.saturating_sub(point + sign).max(u32::from(ty.decimals))
}

/// Refuses a table of too many columns.
pub(super) fn check_columns(session: &mut Session, record: &TableRecord) -> SqlResult<()> {
    if record.columns.len() > COLUMNS_MAX {
        let reason = "Too many columns";
        let text = format!("errno: 185 \"{reason}\"");
        let error = errors::cant_create_table(&record.schema, &record.name, text);
        return Err(foreign::refused(session, None, error, errors::get_errno(185, reason, "InnoDB")));
    }
    Ok(())
}

/// Refuses a table whose rows may be too long. `old` is what is altered and copied: what was too long before is left alone, since
/// an engine may have been named for it that Keel's replaces.
pub(super) fn check(session: &mut Session, record: &TableRecord, old: Option<&TableRecord>) -> SqlResult<()> {
    let is_long = |record: &TableRecord| RowFormat::of(record).filter(|f| f.row(record) >= f.max);
    let is_same = |old: &TableRecord| {
        old.columns == record.columns && old.options.row_format == record.options.row_format
    };
    if old.is_some_and(|old| is_same(old) || is_long(old).is_some()) {
        return Ok(());
    }
    let Some(format) = is_long(record) else { return Ok(()) };
    if !session.vars.innodb_strict {
        let message = format.text().into();
        session.push_warning(Warning { level: Level::Warning, code: 139, message });
        return Ok(());
    }
    let error = SqlError { message: format.text().into(), ..errors::too_big_rowsize(format.max) };
    Err(foreign::refused(session, None, error, errors::get_errno(139, "Too big row", "InnoDB")))
}
