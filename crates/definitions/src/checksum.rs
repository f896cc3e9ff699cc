//! CHECKSUM TABLE: MariaDB's number for the same rows.
//!
//! It is the sum, modulo 2^32, of a CRC-32 of each row. A row is what MariaDB has in memory: the bits that say which columns
//! are NULL, then the columns that are not, text of variable length without its length. Behind the bits in use, and in
//! front of them unless the table has rows of variable length, stand ones. Generated columns count as NULL.

use std::sync::Arc;
use std::time::Duration;

use keel_base::{SqlResult, code, errors};
use keel_catalog::{ColumnDef, TableDef};
use keel_context::engine_error;
use keel_context::result::{ColumnMeta, Completion, ResultColumns, RowSink, RowView};
use keel_exec::access;
use keel_exec::session::Session;
use keel_sql::ast::{Maintain, MaintainOp};
use keel_storage::{Read, ScanRange, Txn};
use keel_value::row::RowRef;
use keel_value::types::{NOT_SPECIFIED, flags};
use keel_value::{CollationId, SqlType, TypeKind, Value, ValueRef};

use crate::ddl::Definer;
use crate::maintain;

/// Runs the statement: a row for each table, with NULL where there is none or QUICK asks for a sum that is kept.
pub(crate) fn run(
    database: Definer<'_>,
    session: &mut Session,
    what: &Maintain,
    sink: &mut dyn RowSink,
) -> SqlResult<Completion> {
    sink.columns(&columns())?;
    let quick = what.options.iter().any(|option| option == "QUICK");
    let mut rows = 0;
    for name in &what.tables {
        let schema = keel_expr::env::schema_of(session, name)?.to_string();
        let sum = match maintain::usable(database, session, (MaintainOp::Check, None), &schema, name) {
            Ok(_) if quick => Value::Null,
            // What the server makes up is nowhere the same.
            Ok((table, _)) if table.is_virtual() => Value::UInt(0),
            Ok((table, _share)) => match sum_within(database, session, &table) {
                Ok(sum) => Value::UInt(u64::from(sum)),
                // As in MariaDB without a word.
                Err(error) if error.code == code::LOCK_WAIT_TIMEOUT => Value::Null,
                Err(error) => return Err(database.undo(session, error)),
            },
            Err(error) => {
                session.check_interrupt()?;
                session.push_error(&error);
                Value::Null
            }
        };
        let text = format!("{schema}.{}", name.name);
        sink.row(RowView::Values(&[Value::bytes(text.as_bytes()), sum]))?;
        sink.breathe()?;
        rows += 1;
    }
    Ok(Completion { affected_rows: rows, had_rows: true, ..Completion::default() })
}

fn columns() -> Arc<ResultColumns> {
    let column = |name: &str, ty: SqlType, bits: u16| ColumnMeta {
        schema: "".into(),
        table: "".into(),
        org_table: "".into(),
        name: name.into(),
        org_name: "".into(),
        ty,
        nullable: true,
        flags: bits,
        length: None,
        is_plain: false,
    };
    let text = SqlType::varchar(384, CollationId::UTF8MB4_GENERAL_CI).with_decimals(NOT_SPECIFIED);
    ResultColumns::new(vec![
        column("Table", text, 0),
        column("Checksum", SqlType::bigint().with_length(21), flags::BINARY),
    ])
}

/// The sum as the session's transaction sees the rows, which it locks where a SELECT does.
fn sum_within(database: Definer<'_>, session: &mut Session, table: &TableDef) -> SqlResult<u32> {
    database.open_if_needed(session);
    let waits = Duration::from_secs(session.vars.row_lock_wait_timeout);
    let by_snapshot = session.vars.snapshot_isolation;
    let txn = database.ensure_txn(session);
    txn.set_waits(waits, by_snapshot);
    txn.start_statement();
    let read = access::plain_read(session);
    let mut txn = session.txn.take().expect("begun above");
    let sum = sum(session, &mut txn, table, read);
    session.txn = Some(txn);
    if !session.in_transaction() {
        database.commit_within(session)?;
    }
    sum
}

fn sum(session: &Session, txn: &mut Txn, table: &TableDef, read: Read) -> SqlResult<u32> {
    let shape = Shape::of(table);
    let mut sum = 0u32;
    let mut bytes = Vec::new();
    let mut scan = txn.scan(table.rows(), ScanRange::ALL, read).map_err(engine_error)?;
    while let Some((_, row)) = scan.next(txn).map_err(engine_error)? {
        session.check_interrupt()?;
        shape.write(table, &RowRef::new(&table.layout, row), &mut bytes)?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&bytes);
        sum = sum.wrapping_add(hasher.finalize());
    }
    Ok(sum)
}

/// Where the bits of NULL stand in a row.
struct Shape {
    /// The bits before the first column's.
    reserved: usize,
    null_bytes: usize,
}

impl Shape {
    fn of(table: &TableDef) -> Shape {
        let varies = |column: &ColumnDef| is_variable(column.ty.kind);
        let is_packed =
            table.options.row_format.as_deref() == Some("DYNAMIC") || table.columns.iter().any(varies);
        let reserved = usize::from(!is_packed);
        let nullable = table.columns.iter().filter(|column| column.nullable).count();
        Shape { reserved, null_bytes: (reserved + nullable).div_ceil(8) }
    }

    fn write(&self, table: &TableDef, row: &RowRef<'_>, out: &mut Vec<u8>) -> SqlResult<()> {
        out.clear();
        out.resize(self.null_bytes, 0xff);
        let mut bit = self.reserved;
        for (place, column) in table.columns.iter().enumerate() {
            let value = if column.generated.is_some() { ValueRef::Null } else { row.get(place) };
            let is_null = matches!(value, ValueRef::Null);
            if column.nullable {
                if !is_null {
                    out[bit / 8] &= !(1 << (bit % 8));
                }
                bit += 1;
            }
            if !is_null {
                write_value(&column.ty, value, out)
                    .ok_or_else(|| errors::unknown_error("CHECKSUM of a value"))?;
            }
        }
        Ok(())
    }
}

fn is_variable(kind: TypeKind) -> bool {
    use TypeKind::*;
    matches!(
        kind,
        VarChar
            | VarBinary
            | TinyText
            | Text
            | MediumText
            | LongText
            | TinyBlob
            | Blob
            | MediumBlob
            | LongBlob
    )
}

/// Appends a value as MariaDB has it in a row; none for one that the type cannot have.
fn write_value(ty: &SqlType, value: ValueRef<'_>, out: &mut Vec<u8>) -> Option<()> {
    let digits = ty.decimals;
    match (ty.kind, value) {
        (_, ValueRef::Int(v)) => out.extend_from_slice(&v.to_le_bytes()[..integer_bytes(ty)]),
        (TypeKind::Bit, ValueRef::UInt(v)) => {
            out.extend_from_slice(&v.to_be_bytes()[8 - integer_bytes(ty)..]);
        }
        (TypeKind::Year, ValueRef::UInt(v)) => out.push(v.saturating_sub(1900) as u8),
        (_, ValueRef::UInt(v)) => out.extend_from_slice(&v.to_le_bytes()[..integer_bytes(ty)]),
        (_, ValueRef::Float(v)) => out.extend_from_slice(&v.to_le_bytes()),
        (_, ValueRef::Double(v)) => out.extend_from_slice(&v.to_le_bytes()),
        (_, ValueRef::Decimal(v)) => v.store(ty.length, digits, out),
        (_, ValueRef::Date(v)) => out.extend_from_slice(&v.packed().to_le_bytes()[..3]),
        (_, ValueRef::Time(v)) => v.store(digits, out),
        (TypeKind::Timestamp, ValueRef::DateTime(v)) => v.store_timestamp(digits, out),
        (_, ValueRef::DateTime(v)) => v.store(digits, out),
        (kind, ValueRef::Bytes(bytes)) => {
            let end = out.len() + ty.max_octets() as usize;
            out.extend_from_slice(bytes);
            match kind {
                TypeKind::Char => out.resize(end.max(out.len()), b' '),
                TypeKind::Binary => out.resize(end.max(out.len()), 0),
                _ => {}
            }
        }
        (_, ValueRef::Fixed(v)) => v.append_ordered(out),
        (_, ValueRef::Null) => return None,
    }
    Some(())
}

/// Bytes of a number, or of what is kept as one.
fn integer_bytes(ty: &SqlType) -> usize {
    match ty.kind {
        TypeKind::TinyInt => 1,
        TypeKind::SmallInt => 2,
        TypeKind::MediumInt => 3,
        TypeKind::Int => 4,
        TypeKind::Bit => (ty.length as usize).div_ceil(8).min(8),
        TypeKind::Enum if ty.members().len() < 256 => 1,
        TypeKind::Enum => 2,
        TypeKind::Set => match ty.members().len().div_ceil(8) {
            few @ 0..=4 => few.max(1),
            _ => 8,
        },
        _ => 8,
    }
}
