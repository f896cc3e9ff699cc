//! Keys of CREATE TABLE, CREATE INDEX and ALTER TABLE: names, parts, lengths, order.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, TreeId, errors};
use keel_catalog::{ColumnDef, IndexKind, IndexOptions, IndexRecord, KeyPart, TableRecord, names};
use keel_exec::session::Session;
use keel_sql::ast::{self, ByteStr, IndexAlgorithm, KeyKind};
use keel_value::{SqlType, TypeKind};

use super::columns::{COMMENT_CHARS_MAX, fitting_comment};

/// Bytes of a key.
const KEY_OCTETS_MAX: u32 = 3072;
/// Bytes of a part of a key in the row formats COMPACT and REDUNDANT.
const COMPACT_PART_BYTES_MAX: u64 = 767;
/// Parts of a key.
const PARTS_MAX: usize = 32;
/// Keys of a table.
const KEYS_MAX: usize = 64;

/// Adds a key to those that a table has; its columns become NOT NULL if it is the primary key. Its tree is not made yet.
/// Indexes that foreign keys made go where this one serves too, also from the names in `kept`.
pub(super) fn add(
    session: &mut Session,
    columns: &mut [ColumnDef],
    indexes: &mut Vec<IndexRecord>,
    kept: &mut Vec<Arc<str>>,
    key: &ast::KeyDef,
) -> SqlResult<()> {
    let kind = kind_of(indexes, key)?;
    let (parts, hashed) = parts(session, columns, kind, key)?;
    if !hashed {
        make_way(indexes, kept, &parts);
    }
    let index = record(session, indexes, columns, kind, key, parts)?;
    let index = IndexRecord { hashed, ..index };
    if hashed || kind == IndexKind::Unique && key.options.algorithm == Some(IndexAlgorithm::Hash) {
        refuse_counted(columns, &index)?;
    }
    if kind == IndexKind::Primary {
        if index.parts.iter().any(|p| columns[p.column].generated.is_some()) {
            return Err(errors::primary_key_based_on_generated_column());
        }
        index.parts.iter().for_each(|p| make_not_null(&mut columns[p.column]));
    }
    let is_double = |i: &IndexRecord| i.kind == kind && i.parts == index.parts && i.using == index.using;
    if indexes.iter().any(is_double) {
        session.note(errors::dup_index(&index.name));
    }
    indexes.push(index);
    Ok(())
}

/// Adds the index of a foreign key, where none begins with its columns. Of those that foreign keys made the longest stays, of
/// equal ones the last.
pub(super) fn add_made(
    session: &mut Session,
    columns: &mut [ColumnDef],
    indexes: &mut Vec<IndexRecord>,
    kept: &mut Vec<Arc<str>>,
    key: &ast::KeyDef,
) -> SqlResult<()> {
    let kind = kind_of(indexes, key)?;
    let (parts, _) = parts(session, columns, kind, key)?;
    let serves = |other: &IndexRecord| {
        let longer = other.parts.len() > parts.len() || !other.options.made;
        longer && !other.hashed && begins_with(&other.parts, &parts)
    };
    if indexes.iter().any(serves) {
        return Ok(());
    }
    make_way(indexes, kept, &parts);
    let mut index = record(session, indexes, columns, kind, key, parts)?;
    index.options.made = true;
    indexes.push(index);
    Ok(())
}

/// Takes away the indexes that foreign keys made and that one of these parts replaces.
fn make_way(indexes: &mut Vec<IndexRecord>, kept: &mut Vec<Arc<str>>, parts: &[KeyPart]) {
    indexes.retain(|other| {
        let goes = other.options.made && begins_with(parts, &other.parts);
        if goes {
            kept.retain(|name| !names::same(name, &other.name));
        }
        !goes
    });
}

/// Whether parts begin with those of another index, in either direction.
fn begins_with(parts: &[KeyPart], other: &[KeyPart]) -> bool {
    let same = |(a, b): (&KeyPart, &KeyPart)| (a.column, a.prefix) == (b.column, b.prefix);
    parts.len() >= other.len() && parts.iter().zip(other).all(same)
}

/// The kind of a key that a table may still get.
fn kind_of(indexes: &[IndexRecord], key: &ast::KeyDef) -> SqlResult<IndexKind> {
    let kind = match key.kind {
        KeyKind::Primary => IndexKind::Primary,
        KeyKind::Unique => IndexKind::Unique,
        KeyKind::Index | KeyKind::Foreign => IndexKind::Plain,
        KeyKind::FullText => return Err(errors::not_supported_yet("FULLTEXT")),
        KeyKind::Spatial => return Err(errors::not_supported_yet("SPATIAL")),
    };
    if kind == IndexKind::Primary && indexes.iter().any(|i| i.kind == IndexKind::Primary) {
        return Err(errors::multiple_pri_key());
    }
    if indexes.len() >= KEYS_MAX {
        return Err(errors::too_many_keys(KEYS_MAX));
    }
    if key.options.algorithm == Some(IndexAlgorithm::RTree) {
        return Err(errors::wrong_arguments("RTREE INDEX"));
    }
    if key.columns.len() > PARTS_MAX {
        return Err(errors::too_many_key_parts(PARTS_MAX));
    }
    Ok(kind)
}

/// The record of a key with its name.
fn record(
    session: &mut Session,
    indexes: &[IndexRecord],
    columns: &[ColumnDef],
    kind: IndexKind,
    key: &ast::KeyDef,
    parts: Vec<KeyPart>,
) -> SqlResult<IndexRecord> {
    let own = key.name.as_deref().or(key.constraint.as_deref());
    if let Some(own) = own.filter(|own| kind == IndexKind::Primary && !own.eq_ignore_ascii_case("PRIMARY")) {
        let message = format!("Name '{own}' ignored for PRIMARY key.").into();
        session.warn(SqlError { message, ..errors::wrong_name_for_index(own) });
    }
    let name = name(indexes, columns, kind, key, &parts)?;
    let using = key.options.algorithm.map(|a| match a {
        IndexAlgorithm::BTree => "BTREE".to_string(),
        IndexAlgorithm::Hash => "HASH".to_string(),
        IndexAlgorithm::RTree => "RTREE".to_string(),
    });
    let comment = key.options.comment.as_ref().map(ByteStr::to_text).unwrap_or_default();
    let too_long = |max| errors::too_long_index_comment(&name, max);
    let comment = fitting_comment(session, comment, COMMENT_CHARS_MAX, too_long)?;
    // Of larger numbers MariaDB keeps the low 16 bits.
    let block_size = u32::from(key.options.block_size.unwrap_or(0) as u16);
    let options = IndexOptions { ignored: key.options.ignored, block_size, made: false };
    Ok(IndexRecord {
        name,
        kind,
        parts,
        comment,
        using,
        options,
        tree_id: TreeId(0),
        lean: true,
        hashed: false,
    })
}

/// Gives new keys without a KEY_BLOCK_SIZE that of their table; they keep it when the table's changes.
pub(super) fn take_block_size(record: &mut TableRecord, is_new: impl Fn(&str) -> bool) {
    let Some(size) = record.options.key_block_size() else { return };
    for index in record.indexes.iter_mut().filter(|index| is_new(&index.name)) {
        if index.options.block_size == 0 {
            index.options.block_size = size;
        }
    }
}

pub(super) fn make_not_null(column: &mut ColumnDef) {
    use keel_catalog::ColumnDefault;
    column.nullable = false;
    if matches!(&column.default, ColumnDefault::Value(value) if value.is_null()) {
        column.default = ColumnDefault::None;
    }
}

fn name(
    indexes: &[IndexRecord],
    columns: &[ColumnDef],
    kind: IndexKind,
    key: &ast::KeyDef,
    parts: &[KeyPart],
) -> SqlResult<Arc<str>> {
    if kind == IndexKind::Primary {
        return Ok("PRIMARY".into());
    }
    let taken = |name: &str| indexes.iter().any(|i| names::same(&i.name, name));
    let (first, second) = match key.kind {
        KeyKind::Foreign => (&key.constraint, &key.name),
        _ => (&key.name, &key.constraint),
    };
    if let Some(name) = first.as_ref().or(second.as_ref()) {
        names::check_length(name)?;
        if name.is_empty() || name.ends_with(' ') || names::same(name, "PRIMARY") {
            return Err(errors::wrong_name_for_index(name));
        }
        if taken(name) {
            return Err(errors::dup_keyname(name));
        }
        return Ok(name.as_str().into());
    }
    let first = &columns[parts[0].column].name;
    if !taken(first) && !names::same(first, "PRIMARY") {
        return Ok(first.clone());
    }
    let mut number = 2;
    loop {
        let name = format!("{first}_{number}");
        if !taken(&name) {
            return Ok(name.into());
        }
        number += 1;
    }
}

/// The parts of a key, and whether they are too long for one, so that a unique index digests them.
fn parts(
    session: &mut Session,
    columns: &[ColumnDef],
    kind: IndexKind,
    key: &ast::KeyDef,
) -> SqlResult<(Vec<KeyPart>, bool)> {
    let mut made: Vec<KeyPart> = Vec::with_capacity(key.columns.len());
    let mut total = 0;
    for part in &key.columns {
        let column = columns
            .iter()
            .position(|c| names::same(&c.name, &part.column))
            .ok_or_else(|| errors::key_column_does_not_exist(&part.column))?;
        if made.iter().any(|p| p.column == column) {
            return Err(errors::dup_fieldname(&part.column));
        }
        let (prefix, octets) = prefix(session, &columns[column], kind, part)?;
        total += octets;
        made.push(KeyPart { column, prefix, descending: part.desc });
    }
    if total <= u64::from(KEY_OCTETS_MAX) {
        return Ok((made, false));
    }
    if kind != IndexKind::Unique || key.options.algorithm == Some(IndexAlgorithm::BTree) {
        return Err(errors::too_long_key(KEY_OCTETS_MAX));
    }
    made.iter_mut().for_each(|part| part.descending = false);
    Ok((made, true))
}

/// The prefix of a part, none for the whole column, and its greatest bytes.
fn prefix(
    session: &mut Session,
    column: &ColumnDef,
    kind: IndexKind,
    part: &ast::KeyPart,
) -> SqlResult<(Option<u32>, u64)> {
    let ty = &column.ty;
    if !ty.is_string() {
        // As many bytes as it has are the whole of it.
        let whole = stored_octets(ty);
        if part.length.is_some_and(|length| Some(length) != whole) {
            return Err(errors::wrong_sub_key());
        }
        return Ok((None, 8));
    }
    let whole = if ty.is_blob() { u32::MAX } else { ty.length };
    if whole == 0 && (!column.nullable || kind == IndexKind::Primary) {
        return Err(errors::wrong_key_column("InnoDB", &column.name));
    }
    let asked = match part.length {
        Some(0) => return Err(errors::key_part_0(&column.name)),
        Some(n) if !ty.is_blob() && n > u64::from(whole) => return Err(errors::wrong_sub_key()),
        Some(n) => n.min(u64::from(u32::MAX)) as u32,
        None if ty.is_blob() && kind == IndexKind::Primary => {
            return Err(errors::blob_key_without_length(&column.name));
        }
        None => whole,
    };
    let octets = u64::from(asked) * per_char(column);
    if octets > u64::from(KEY_OCTETS_MAX) && kind == IndexKind::Plain {
        session.note(errors::too_long_key(KEY_OCTETS_MAX));
        let chars = KEY_OCTETS_MAX / per_char(column) as u32;
        return Ok((Some(chars), u64::from(chars) * per_char(column)));
    }
    let prefix = (asked < whole).then_some(asked);
    Ok((prefix, octets))
}

/// Octets that MariaDB stores an integer in; none of other types.
fn stored_octets(ty: &SqlType) -> Option<u64> {
    Some(match ty.kind {
        TypeKind::TinyInt => 1,
        TypeKind::SmallInt => 2,
        TypeKind::MediumInt => 3,
        TypeKind::Int => 4,
        TypeKind::BigInt => 8,
        _ => return None,
    })
}

/// Bytes of a character of a string column's keys at most.
fn per_char(column: &ColumnDef) -> u64 {
    if column.ty.is_text() { u64::from(column.ty.collation.charset().max_bytes()) } else { 1 }
}

/// Bytes of a part of an index at most.
fn part_bytes(column: &ColumnDef, part: &KeyPart) -> u64 {
    if !column.ty.is_string() {
        return 8;
    }
    let whole = if column.ty.is_blob() { u32::MAX } else { column.ty.length };
    u64::from(part.prefix.unwrap_or(whole)) * per_char(column)
}

/// 1709 for a part of an index that is longer than the table's row format allows. `is_new` says which indexes are looked at.
pub(super) fn check_row_format(record: &TableRecord, is_new: impl Fn(&str) -> bool) -> SqlResult<()> {
    if !matches!(record.options.row_format.as_deref(), Some("COMPACT" | "REDUNDANT")) {
        return Ok(());
    }
    let is_long = |part: &KeyPart| part_bytes(&record.columns[part.column], part) > COMPACT_PART_BYTES_MAX;
    let mut looked_at = record.indexes.iter().filter(|index| !index.hashed && is_new(&index.name));
    match looked_at.any(|index| index.parts.iter().any(is_long)) {
        true => Err(errors::index_column_too_long(COMPACT_PART_BYTES_MAX)),
        false => Ok(()),
    }
}

/// Fits indexes to columns that have changed: a unique one whose columns are now too long for a key digests them, one whose
/// columns fit does no longer, a plain one has prefixes. Prefixes as long as their columns are none. Says whether some must
/// be made again.
pub(super) fn fit(
    session: &mut Session,
    columns: &[ColumnDef],
    indexes: &mut [IndexRecord],
) -> SqlResult<bool> {
    let mut anew = false;
    for index in indexes {
        for part in &mut index.parts {
            let ty = &columns[part.column].ty;
            let is_whole = |prefix: u32| !ty.is_string() || !ty.is_blob() && prefix >= ty.length;
            if part.prefix.is_some_and(is_whole) {
                part.prefix = None;
                anew = true;
            }
        }
        let octets = |part: &KeyPart| part_bytes(&columns[part.column], part);
        let most = u64::from(KEY_OCTETS_MAX);
        if index.kind == IndexKind::Plain {
            for part in index.parts.iter_mut().filter(|part| octets(part) > most) {
                session.note(errors::too_long_key(KEY_OCTETS_MAX));
                part.prefix = Some(KEY_OCTETS_MAX / per_char(&columns[part.column]) as u32);
                anew = true;
            }
        }
        let hashed = index.parts.iter().map(octets).sum::<u64>() > most;
        let as_tree = index.using.as_deref() == Some("BTREE");
        if hashed && (index.kind != IndexKind::Unique || as_tree) {
            return Err(errors::too_long_key(KEY_OCTETS_MAX));
        }
        if hashed && !index.hashed {
            refuse_counted(columns, index)?;
        }
        anew |= hashed != index.hashed;
        index.hashed = hashed;
    }
    Ok(anew)
}

/// 4169 for an index that digests an AUTO_INCREMENT column; MariaDB names its last column.
fn refuse_counted(columns: &[ColumnDef], index: &IndexRecord) -> SqlResult<()> {
    let counted = index.parts.iter().any(|part| columns[part.column].auto_increment);
    match index.parts.last().filter(|_| counted) {
        Some(last) if index.using.is_some() => {
            let name = &columns[last.column].name;
            Err(errors::generated_column_function_is_not_allowed("AUTO_INCREMENT", "USING HASH", name))
        }
        Some(last) => Err(errors::no_auto_increment_in_hash(&columns[last.column].name, &index.name)),
        None => Ok(()),
    }
}

/// Sorts keys in MariaDB's order: primary, unique without NULL, unique, others; unique keys over prefixes follow the
/// unique keys of the same rank, other keys keep the order of the statement.
pub(super) fn sort(columns: &[ColumnDef], indexes: &mut [IndexRecord]) {
    let has_prefix = |index: &IndexRecord| index.parts.iter().any(|part| part.prefix.is_some());
    indexes.sort_by_key(|index| match index.kind {
        IndexKind::Primary => (0, false),
        IndexKind::Unique if index.parts.iter().all(|p| !columns[p.column].nullable) => {
            (1, has_prefix(index))
        }
        IndexKind::Unique => (2, has_prefix(index)),
        IndexKind::Plain => (3, false),
    });
}

/// 4174 where the key that orders the rows is not to be used.
pub(super) fn check_ignored(record: &TableRecord) -> SqlResult<()> {
    match record.clustered().is_some_and(|key| record.indexes[key].options.ignored) {
        true => Err(errors::pk_index_cant_be_ignored()),
        false => Ok(()),
    }
}

/// 1173 where no key orders the rows although `innodb_force_primary_key` asks for one.
pub(super) fn check_primary(record: &TableRecord, forced: bool) -> SqlResult<()> {
    match forced && record.clustered().is_none() && !record.options.is_sequence() {
        true => Err(errors::requires_primary_key()),
        false => Ok(()),
    }
}

/// At most one AUTO_INCREMENT column, and a key that begins with it.
pub(super) fn check_auto(columns: &[ColumnDef], indexes: &[IndexRecord]) -> SqlResult<()> {
    let mut autos = columns.iter().enumerate().filter(|(_, c)| c.auto_increment).map(|(i, _)| i);
    let Some(auto) = autos.next() else { return Ok(()) };
    if autos.next().is_some() || !indexes.iter().any(|i| i.parts[0].column == auto) {
        return Err(errors::wrong_auto_key());
    }
    Ok(())
}
