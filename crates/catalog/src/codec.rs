//! The catalog's records as bytes.
//!
//! ```text
//! schema: [format u8][collation u16][comment str]
//! view:   [format u8][id u64][created i64][text str][columns][algorithm u8][user str][host str][invoker u8][check u8]
//!         [client u16][connection u16]
//! table:  [format u8][id u64][version u64][created i64][tree u32][options][columns][indexes][foreign keys][checks]
//!         [generated][index options]
//! ```
//! Integers are little-endian; a string is a u32 length and its bytes; a list a u32 count and its items. A reader refuses
//! formats that it does not know. Tables of format 1 end with their indexes; indexes of
//! formats 1 and 2 do not say whether they are lean, and are not. CHECK constraints are a list of those of columns, each with the
//! column's place, and one of the others. Generated columns are a list with each one's place, since format 4,
//! and so are the indexes that have options, since format 5. The first byte of these says whether the index is IGNORED (1), since
//! format 7 also whether a foreign key made it (2).

use std::sync::Arc;

use keel_base::TreeId;
use keel_value::row::Slot;
use keel_value::types::Format;
use keel_value::{CollationId, Date, DateTime, Decimal, Fixed, FixedKind, SqlType, Time, TypeKind, Value};

use super::check::CheckConstraint;
use super::record::{IndexRecord, TableRecord};
use super::view::{CheckOption, ViewAlgorithm, ViewRecord};
use super::{
    ColumnDef, ColumnDefault, ForeignAction, ForeignKey, Generated, IndexKind, IndexOptions, KeyPart,
    TableOptions,
};

const SCHEMA_FORMAT: u8 = 1;
const TABLE_FORMAT: u8 = 7;
const VIEW_FORMAT: u8 = 1;

/// The kind of a unique index that is hashed; others have the number of their kind.
const HASHED_KIND: u8 = 3;

/// Numbers of type kinds on disk: the position in this list, which only grows.
const KINDS: [TypeKind; 32] = {
    use TypeKind::*;
    [
        Null, TinyInt, SmallInt, MediumInt, Int, BigInt, Decimal, Float, Double, Bit, Year, Date, Time,
        DateTime, Timestamp, Char, VarChar, Binary, VarBinary, TinyText, Text, MediumText, LongText,
        TinyBlob, Blob, MediumBlob, LongBlob, Enum, Set, Inet4, Inet6, Uuid,
    ]
};

/// A database's record.
pub fn encode_schema(collation: CollationId, comment: &str) -> Vec<u8> {
    let mut out = Writer(vec![SCHEMA_FORMAT]);
    out.u16(collation.0);
    out.text(comment);
    out.0
}

/// Reads a database's record; none if it is damaged or of a newer format.
pub fn decode_schema(bytes: &[u8]) -> Option<(CollationId, String)> {
    let mut input = Reader(bytes);
    if input.u8()? != SCHEMA_FORMAT {
        return None;
    }
    Some((CollationId(input.u16()?), input.text()?))
}

/// A table's record, less its names, which are the key.
pub fn encode_table(table: &TableRecord) -> Vec<u8> {
    let of_columns: Vec<(usize, &String)> =
        table.columns.iter().enumerate().filter_map(|(place, c)| Some((place, c.check.as_ref()?))).collect();
    let mut out = Writer(vec![TABLE_FORMAT]);
    out.u64(table.id);
    out.u64(table.version);
    out.u64(table.created as u64);
    out.u32(table.tree_id.0);
    out.options(&table.options);
    out.list(&table.columns, Writer::column);
    out.list(&table.indexes, Writer::index);
    out.list(&table.foreign_keys, Writer::foreign_key);
    out.list(&of_columns, |out, (place, condition)| {
        out.u32(*place as u32);
        out.text(condition);
    });
    out.list(&table.checks, |out, check| {
        out.text(&check.name);
        out.text(&check.condition);
    });
    let generated = table.columns.iter().enumerate();
    let generated: Vec<(usize, &Generated)> =
        generated.filter_map(|(place, column)| Some((place, column.generated.as_ref()?))).collect();
    out.list(&generated, |out, (place, generated)| {
        out.u32(*place as u32);
        out.text(&generated.expression);
        out.flag(generated.stored);
    });
    let special = table.indexes.iter().enumerate().filter(|(_, i)| i.options != IndexOptions::default());
    out.list(&special.collect::<Vec<_>>(), |out, (place, index)| {
        out.u32(*place as u32);
        out.u8(u8::from(index.options.ignored) | u8::from(index.options.made) << 1);
        out.u32(index.options.block_size);
    });
    out.list(&table.slots, |out, slot| match slot {
        Slot::Column(number) => {
            out.flag(true);
            out.u32(*number as u32);
        }
        Slot::Gone(ty, nullable) => {
            out.flag(false);
            out.sql_type(ty);
            out.flag(*nullable);
        }
    });
    out.0
}

/// Reads a table's record; none if it is damaged or of a newer format.
pub fn decode_table(schema: &str, name: &str, bytes: &[u8]) -> Option<TableRecord> {
    let mut input = Reader(bytes);
    let format = input.u8()?;
    if !(1..=TABLE_FORMAT).contains(&format) {
        return None;
    }
    let mut table = TableRecord {
        schema: schema.into(),
        name: name.into(),
        id: input.u64()?,
        version: input.u64()?,
        created: input.u64()? as i64,
        tree_id: TreeId(input.u32()?),
        options: input.options()?,
        columns: input.list(Reader::column)?,
        indexes: input.list(|input| input.index(format))?,
        foreign_keys: Vec::new(),
        checks: Vec::new(),
        slots: Vec::new(),
    };
    if format == 1 {
        return Some(table);
    }
    table.foreign_keys = input.list(Reader::foreign_key)?;
    for (place, condition) in input.list(|input| Some((input.u32()?, input.text()?)))? {
        let column = table.columns.get_mut(place as usize)?;
        column.check = Some(condition);
        column.settle_format();
    }
    let check = |input: &mut Reader<'_>| {
        Some(CheckConstraint { name: input.text()?.into(), condition: input.text()? })
    };
    table.checks = input.list(check)?;
    if format < 4 {
        return Some(table);
    }
    let generated = |input: &mut Reader<'_>| {
        let place = input.u32()?;
        Some((place, Generated { expression: input.text()?, stored: input.flag()? }))
    };
    for (place, generated) in input.list(generated)? {
        table.columns.get_mut(place as usize)?.generated = Some(generated);
    }
    if format < 5 {
        return Some(table);
    }
    let options = |input: &mut Reader<'_>| {
        let place = input.u32()?;
        let flags = input.u8().filter(|flags| *flags <= if format < 7 { 1 } else { 3 })?;
        let (ignored, made) = (flags & 1 != 0, flags & 2 != 0);
        Some((place, IndexOptions { ignored, block_size: input.u32()?, made }))
    };
    for (place, options) in input.list(options)? {
        table.indexes.get_mut(place as usize)?.options = options;
    }
    if format < 6 {
        return Some(table);
    }
    let slot = |input: &mut Reader<'_>| {
        Some(match input.flag()? {
            true => Slot::Column(input.u32()? as usize),
            false => Slot::Gone(input.sql_type()?, input.flag()?),
        })
    };
    table.slots = input.list(slot)?;
    has_each_column(&table).then_some(table)
}

/// Whether each column has one place in rows.
fn has_each_column(table: &TableRecord) -> bool {
    let mut found: Vec<usize> = table
        .all_slots()
        .iter()
        .filter_map(|slot| match slot {
            Slot::Column(number) => Some(*number),
            Slot::Gone(..) => None,
        })
        .collect();
    found.sort_unstable();
    found.into_iter().eq(0..table.columns.len())
}

/// A view's record, less its names, which are the key.
pub fn encode_view(view: &ViewRecord) -> Vec<u8> {
    let number = |place: Option<usize>| place.expect("all are listed") as u8;
    let mut out = Writer(vec![VIEW_FORMAT]);
    out.u64(view.id);
    out.u64(view.created as u64);
    out.text(&view.text);
    out.list(&view.columns, |out, name| out.text(name));
    out.u8(number(ViewAlgorithm::ALL.iter().position(|a| *a == view.algorithm)));
    out.text(&view.definer.0);
    out.text(&view.definer.1);
    out.flag(view.invoker);
    out.u8(number(CheckOption::ALL.iter().position(|c| *c == view.check_option)));
    out.u16(view.client_collation.0);
    out.u16(view.connection_collation.0);
    out.0
}

/// Reads a view's record; none if it is damaged or of a newer format.
pub fn decode_view(schema: &str, name: &str, bytes: &[u8]) -> Option<ViewRecord> {
    let mut input = Reader(bytes);
    if input.u8()? != VIEW_FORMAT {
        return None;
    }
    Some(ViewRecord {
        schema: schema.into(),
        name: name.into(),
        id: input.u64()?,
        created: input.u64()? as i64,
        text: input.text()?,
        columns: input.list(Reader::text)?,
        algorithm: *ViewAlgorithm::ALL.get(input.u8()? as usize)?,
        definer: (input.text()?, input.text()?),
        invoker: input.flag()?,
        check_option: *CheckOption::ALL.get(input.u8()? as usize)?,
        client_collation: CollationId(input.u16()?),
        connection_collation: CollationId(input.u16()?),
    })
}

pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, v: u8) {
        self.0.push(v);
    }

    fn u16(&mut self, v: u16) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    fn bytes(&mut self, v: &[u8]) {
        self.u32(v.len() as u32);
        self.0.extend_from_slice(v);
    }

    pub(crate) fn text(&mut self, v: &str) {
        self.bytes(v.as_bytes());
    }

    pub(crate) fn flag(&mut self, v: bool) {
        self.u8(v as u8);
    }

    pub(crate) fn list<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Writer, &T)) {
        self.u32(items.len() as u32);
        items.iter().for_each(|i| item(self, i));
    }

    pub(crate) fn optional<T: ?Sized>(&mut self, v: Option<&T>, write: impl FnOnce(&mut Writer, &T)) {
        self.flag(v.is_some());
        if let Some(v) = v {
            write(self, v);
        }
    }

    fn options(&mut self, options: &TableOptions) {
        self.u16(options.collation.0);
        self.text(&options.comment);
        self.optional(options.row_format.as_deref(), Writer::text);
        self.list(&options.others, |out, (name, value)| {
            out.text(name);
            out.text(value);
        });
    }

    fn column(&mut self, column: &ColumnDef) {
        self.text(&column.name);
        self.sql_type(&column.ty);
        self.flag(column.nullable);
        match &column.default {
            ColumnDefault::None => self.u8(0),
            ColumnDefault::Value(value) => {
                self.u8(1);
                self.value(value);
            }
            ColumnDefault::Now => self.u8(2),
            ColumnDefault::Expression(text) => {
                self.u8(3);
                self.text(text);
            }
        }
        self.flag(column.on_update_now);
        self.flag(column.auto_increment);
        self.flag(column.invisible);
        self.text(&column.comment);
        self.value(&column.added_with);
    }

    fn sql_type(&mut self, ty: &SqlType) {
        let kind = KINDS.iter().position(|k| *k == ty.kind).expect("every kind has a number");
        self.u8(kind as u8);
        self.flag(ty.unsigned);
        self.flag(ty.zerofill);
        self.u32(ty.length);
        self.u8(ty.decimals);
        self.u16(ty.collation.0);
        self.list(ty.members(), |out, member| out.text(member));
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.u8(0),
            Value::Int(v) => {
                self.u8(1);
                self.u64(*v as u64);
            }
            Value::UInt(v) => {
                self.u8(2);
                self.u64(*v);
            }
            Value::Double(v) => {
                self.u8(3);
                self.u64(v.to_bits());
            }
            Value::Float(v) => {
                self.u8(4);
                self.u32(v.to_bits());
            }
            Value::Decimal(v) => {
                self.u8(5);
                let mut text = Vec::new();
                v.append_to(&mut text);
                self.bytes(&text);
            }
            Value::Bytes(v) => {
                self.u8(6);
                self.bytes(v);
            }
            Value::Date(v) => {
                self.u8(7);
                self.date(*v);
            }
            Value::Time(v) => {
                self.u8(8);
                self.u64(v.micros as u64);
            }
            Value::DateTime(v) => {
                self.u8(9);
                self.date(v.date);
                [v.hour, v.minute, v.second].into_iter().for_each(|n| self.u8(n));
                self.u32(v.micros);
            }
            Value::Fixed(v) => {
                self.u8(10);
                self.u8(KINDS.iter().position(|k| *k == v.kind().type_kind()).expect("all are listed") as u8);
                self.bytes(v.octets());
            }
        }
    }

    fn date(&mut self, date: Date) {
        self.u16(date.year);
        self.u8(date.month);
        self.u8(date.day);
    }

    fn index(&mut self, index: &IndexRecord) {
        self.text(&index.name);
        self.u8(if index.hashed { HASHED_KIND } else { index.kind as u8 });
        self.list(&index.parts, |out, part| {
            out.u32(part.column as u32);
            out.optional(part.prefix.as_ref(), |out, n| out.u32(*n));
            out.flag(part.descending);
        });
        self.text(&index.comment);
        self.optional(index.using.as_deref(), Writer::text);
        self.u32(index.tree_id.0);
        self.flag(index.lean);
    }

    fn foreign_key(&mut self, key: &ForeignKey) {
        let name = |out: &mut Writer, name: &Arc<str>| out.text(name);
        self.text(&key.name);
        self.list(&key.columns, name);
        self.text(&key.ref_schema);
        self.text(&key.ref_table);
        self.list(&key.ref_columns, name);
        for action in [key.on_delete, key.on_update] {
            self.u8(ForeignAction::ALL.iter().position(|a| *a == action).expect("all are listed") as u8);
        }
    }
}

pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    fn take(&mut self, len: usize) -> Option<&[u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let len = self.u32()? as usize;
        Some(self.take(len)?.to_vec())
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?).ok()
    }

    pub(crate) fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u32()?;
        (0..count).map(|_| item(self)).collect()
    }

    pub(crate) fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.flag()? { Some(Some(read(self)?)) } else { Some(None) }
    }

    fn options(&mut self) -> Option<TableOptions> {
        Some(TableOptions {
            collation: CollationId::from_number(self.u16()?)?,
            comment: self.text()?,
            row_format: self.optional(Self::text)?,
            others: self.list(|input| Some((input.text()?, input.text()?)))?,
        })
    }

    fn column(&mut self) -> Option<ColumnDef> {
        let name = self.text()?;
        let ty = self.sql_type()?;
        let nullable = self.flag()?;
        let default = match self.u8()? {
            0 => ColumnDefault::None,
            1 => ColumnDefault::Value(self.value()?),
            2 => ColumnDefault::Now,
            3 => ColumnDefault::Expression(self.text()?),
            _ => return None,
        };
        Some(ColumnDef {
            name: name.into(),
            ty,
            nullable,
            default,
            on_update_now: self.flag()?,
            auto_increment: self.flag()?,
            invisible: self.flag()?,
            comment: self.text()?,
            check: None,
            generated: None,
            added_with: self.value()?,
        })
    }

    fn sql_type(&mut self) -> Option<SqlType> {
        let kind = *KINDS.get(self.u8()? as usize)?;
        let ty = SqlType {
            kind,
            unsigned: self.flag()?,
            zerofill: self.flag()?,
            length: self.u32()?,
            decimals: self.u8()?,
            collation: CollationId::from_number(self.u16()?)?,
            members: None,
            format: Format::Plain,
        };
        let members = self.list(Self::text)?;
        Some(SqlType { members: (!members.is_empty()).then(|| members.into()), ..ty })
    }

    fn value(&mut self) -> Option<Value> {
        Some(match self.u8()? {
            0 => Value::Null,
            1 => Value::Int(self.u64()? as i64),
            2 => Value::UInt(self.u64()?),
            3 => Value::Double(f64::from_bits(self.u64()?)),
            4 => Value::Float(f32::from_bits(self.u32()?)),
            5 => Value::Decimal(Decimal::parse(self.text()?.as_bytes())?),
            6 => Value::Bytes(self.bytes()?.into()),
            7 => Value::Date(self.date()?),
            8 => Value::Time(Time { micros: self.u64()? as i64 }),
            9 => Value::DateTime(DateTime {
                date: self.date()?,
                hour: self.u8()?,
                minute: self.u8()?,
                second: self.u8()?,
                micros: self.u32()?,
                repeated: false,
            }),
            10 => {
                let kind = FixedKind::of(*KINDS.get(self.u8()? as usize)?)?;
                Value::Fixed(Fixed::from_octets(kind, &self.bytes()?)?)
            }
            _ => return None,
        })
    }

    fn date(&mut self) -> Option<Date> {
        Some(Date { year: self.u16()?, month: self.u8()?, day: self.u8()? })
    }

    fn index(&mut self, format: u8) -> Option<IndexRecord> {
        let name = self.text()?.into();
        let kind = self.u8()?;
        Some(IndexRecord {
            name,
            hashed: kind == HASHED_KIND,
            kind: match kind {
                0 => IndexKind::Primary,
                1 | HASHED_KIND => IndexKind::Unique,
                2 => IndexKind::Plain,
                _ => return None,
            },
            parts: self.list(|input| {
                Some(KeyPart {
                    column: input.u32()? as usize,
                    prefix: input.optional(Self::u32)?,
                    descending: input.flag()?,
                })
            })?,
            comment: self.text()?,
            using: self.optional(Self::text)?,
            options: IndexOptions::default(),
            tree_id: TreeId(self.u32()?),
            lean: format >= 3 && self.flag()?,
        })
    }

    fn foreign_key(&mut self) -> Option<ForeignKey> {
        let name = |input: &mut Self| input.text().map(Arc::from);
        Some(ForeignKey {
            name: self.text()?.into(),
            columns: self.list(name)?,
            ref_schema: self.text()?.into(),
            ref_table: self.text()?.into(),
            ref_columns: self.list(name)?,
            on_delete: self.foreign_action()?,
            on_update: self.foreign_action()?,
        })
    }

    fn foreign_action(&mut self) -> Option<ForeignAction> {
        ForeignAction::ALL.get(usize::from(self.u8()?)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> TableRecord {
        let mut name = ColumnDef::plain("name", SqlType::varchar(20, CollationId::LATIN1_SWEDISH_CI), true);
        name.default = ColumnDefault::Value(Value::bytes(b"x"));
        let mut at = ColumnDef::plain("at", SqlType::temporal(TypeKind::Timestamp, 3), false);
        at.default = ColumnDefault::Now;
        at.on_update_now = true;
        let color =
            SqlType::members_of(TypeKind::Enum, vec!["red".into(), "blue".into()], CollationId::UTF8MB4_BIN);
        TableRecord {
            schema: "test".into(),
            name: "t".into(),
            id: 7,
            version: 2,
            created: -5,
            tree_id: TreeId(11),
            options: TableOptions { row_format: Some("COMPACT".into()), ..TableOptions::default() },
            columns: vec![name, at, ColumnDef::plain("color", color, true)],
            indexes: vec![IndexRecord {
                name: "k".into(),
                kind: IndexKind::Unique,
                parts: vec![KeyPart { column: 0, prefix: Some(4), descending: true }],
                comment: "c".into(),
                using: Some("BTREE".into()),
                options: IndexOptions::default(),
                tree_id: TreeId(12),
                lean: true,
                hashed: false,
            }],
            foreign_keys: vec![ForeignKey {
                name: "f".into(),
                columns: vec!["name".into()],
                ref_schema: "other".into(),
                ref_table: "p".into(),
                ref_columns: vec!["id".into()],
                on_delete: ForeignAction::Cascade,
                on_update: ForeignAction::Restrict,
            }],
            checks: Vec::new(),
            slots: vec![
                Slot::Column(0),
                Slot::Gone(SqlType::new(TypeKind::BigInt), false),
                Slot::Column(2),
                Slot::Column(1),
            ],
        }
    }

    fn table_with(slots: Vec<Slot>) -> TableRecord {
        TableRecord { slots, ..sample() }
    }

    #[test]
    fn records_come_back_as_written() {
        let table = sample();
        assert_eq!(decode_table("test", "t", &encode_table(&table)), Some(table));
        let mut damaged = table_with(vec![Slot::Column(0), Slot::Column(0), Slot::Column(1)]);
        assert_eq!(decode_table("test", "t", &encode_table(&damaged)), None);
        damaged.slots.push(Slot::Column(9));
        assert_eq!(decode_table("test", "t", &encode_table(&damaged)), None);
        let mut older = TableRecord { foreign_keys: Vec::new(), ..table_with(Vec::new()) };
        let mut bytes = encode_table(&older);
        older.indexes[0].lean = false;
        // Behind the only index's flag six lists without items, of which older formats have three.
        bytes.truncate(bytes.len() - 12);
        bytes.remove(bytes.len() - 13);
        bytes[0] = 2;
        assert_eq!(decode_table("test", "t", &bytes), Some(older.clone()));
        bytes[0] = 1;
        assert_eq!(decode_table("test", "t", &bytes[..bytes.len() - 12]), Some(older));
        let mut checked = sample();
        checked.columns[2].generated = Some(Generated { expression: "`name` is null".into(), stored: true });
        checked.columns[0].check = Some("json_valid(`name`)".into());
        checked.columns[0].settle_format();
        checked.checks = vec![CheckConstraint { name: "c".into(), condition: "`color` <> 'x'".into() }];
        checked.indexes[0].options = IndexOptions { ignored: true, block_size: 4, made: true };
        checked.indexes[0].hashed = true;
        assert_eq!(decode_table("test", "t", &encode_table(&checked)), Some(checked.clone()));
        older_formats(checked);
        let schema = encode_schema(CollationId::UTF8MB4_BIN, "note");
        assert_eq!(decode_schema(&schema), Some((CollationId::UTF8MB4_BIN, "note".into())));
    }

    /// Formats 5, 4 and 3 end a list of no items earlier each, the latter's tables have no generated columns.
    fn older_formats(mut table: TableRecord) {
        table.slots.clear();
        table.indexes[0].options = IndexOptions::default();
        let older = |table: &TableRecord, format: u8, less: usize| {
            let mut bytes = encode_table(table);
            bytes.truncate(bytes.len() - less);
            bytes[0] = format;
            decode_table("test", "t", &bytes)
        };
        assert_eq!(older(&table, 6, 0), Some(table.clone()));
        assert_eq!(older(&table, 5, 4), Some(table.clone()));
        assert_eq!(older(&table, 5, 5), None);
        assert_eq!(older(&table, 4, 8), Some(table.clone()));
        assert_eq!(older(&table, 4, 9), None);
        table.columns[2].generated = None;
        assert_eq!(older(&table, 3, 12), Some(table.clone()));
        assert_eq!(older(&table, 3, 13), None);
    }

    #[test]
    fn damaged_records_are_refused() {
        let bytes = encode_table(&sample());
        for len in 0..bytes.len() {
            assert_eq!(decode_table("test", "t", &bytes[..len]), None);
        }
        assert_eq!(decode_table("test", "t", &[9]), None);
    }
}
