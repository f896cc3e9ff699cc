//! Types of columns as definitions write them, and what follows from a type alone.

use keel_base::{SqlResult, errors};
use keel_sql::ast::{self, DataTypeKind};
use keel_value::collation::{self, Charset};
use keel_value::types::NOT_FIXED;
use keel_value::{CollationId, Fixed, FixedKind, SqlType, TypeKind, Value, ValueRef};

/// Bytes of a VARCHAR's or VARBINARY's longest value.
pub const VARIABLE_BYTES_MAX: u64 = 65_532;

/// The type of a column whose text has the given collation where it says none.
pub fn column_type(default: CollationId, column: &ast::ColumnDef) -> SqlResult<SqlType> {
    use DataTypeKind as D;
    use TypeKind as T;
    let data = &column.data_type;
    let is_too_long = data.length.is_some_and(|length| length > u64::from(u32::MAX));
    let mut ty = match data.kind {
        D::Text | D::Blob if is_too_long => {
            return Err(errors::too_big_displaywidth(&column.name, u32::MAX));
        }
        D::TinyInt => integer(T::TinyInt, column)?,
        D::SmallInt => integer(T::SmallInt, column)?,
        D::MediumInt => integer(T::MediumInt, column)?,
        D::Int => integer(T::Int, column)?,
        D::BigInt => integer(T::BigInt, column)?,
        D::Decimal => decimal(column)?,
        D::Float | D::Double => real(column)?,
        D::Bit => match data.length.unwrap_or(1) {
            0 => SqlType::new(T::Bit),
            n @ 1..=64 => SqlType::new(T::Bit).with_length(n as u32),
            _ => return Err(errors::too_big_displaywidth(&column.name, 64)),
        },
        D::Year => SqlType::new(T::Year),
        D::Date => SqlType::new(T::Date),
        D::Time => temporal(T::Time, column)?,
        D::DateTime => temporal(T::DateTime, column)?,
        D::Timestamp => temporal(T::Timestamp, column)?,
        D::Enum => members(T::Enum, default, column)?,
        D::Set => members(T::Set, default, column)?,
        D::Char | D::VarChar | D::Binary | D::VarBinary => characters(default, column)?,
        D::TinyText | D::Text | D::MediumText | D::LongText => long_text(default, column)?,
        D::Json => {
            let says_nothing = column.collation.is_none() && data.collation.is_none();
            let collation = if says_nothing { None } else { text_collation(default, column)? };
            SqlType::new(T::LongText).with_collation(collation.unwrap_or(CollationId::UTF8MB4_BIN))
        }
        D::TinyBlob => SqlType::new(T::TinyBlob),
        D::Blob => by_bytes(data.length, [T::TinyBlob, T::Blob, T::MediumBlob, T::LongBlob]),
        D::MediumBlob => SqlType::new(T::MediumBlob),
        D::LongBlob => SqlType::new(T::LongBlob),
        D::Inet4 => SqlType::new(T::Inet4),
        D::Inet6 => SqlType::new(T::Inet6),
        D::Uuid => SqlType::new(T::Uuid),
        other => return Err(errors::not_supported_yet(format!("{other:?} columns"))),
    };
    if ty.is_numeric() && !matches!(ty.kind, T::Bit | T::Year) {
        if data.zerofill {
            ty = SqlType { zerofill: true, unsigned: true, ..widened(ty, column) };
        } else if data.unsigned {
            ty = SqlType { unsigned: true, ..widened(ty, column) };
        }
    }
    Ok(ty)
}

/// Default display widths differ for unsigned integers.
fn widened(ty: SqlType, column: &ast::ColumnDef) -> SqlType {
    match column.data_type.length {
        Some(n) if n > 0 => ty,
        _ if ty.is_integer() => ty.with_unsigned(),
        _ => ty,
    }
}

fn integer(kind: TypeKind, column: &ast::ColumnDef) -> SqlResult<SqlType> {
    match column.data_type.length {
        None | Some(0) => Ok(SqlType::new(kind)),
        Some(n @ 1..=255) => Ok(SqlType::new(kind).with_length(n as u32)),
        Some(_) => Err(errors::too_big_displaywidth(&column.name, 255)),
    }
}

fn decimal(column: &ast::ColumnDef) -> SqlResult<SqlType> {
    let data = &column.data_type;
    let scale = data.decimals.unwrap_or(0);
    if scale > 38 {
        return Err(errors::too_big_scale(&column.name, 38));
    }
    let precision = match data.length {
        Some(0) if scale > 0 => return Err(errors::m_bigger_than_d(&column.name)),
        None | Some(0) => 10,
        Some(n) if n > 65 => return Err(errors::too_big_precision(&column.name, 65)),
        Some(n) => n as u32,
    };
    if scale > precision {
        return Err(errors::m_bigger_than_d(&column.name));
    }
    Ok(SqlType::decimal(precision, scale as u8))
}

fn real(column: &ast::ColumnDef) -> SqlResult<SqlType> {
    let data = &column.data_type;
    let single = data.kind == DataTypeKind::Float;
    let kind = if single { TypeKind::Float } else { TypeKind::Double };
    let Some(length) = data.length else { return Ok(SqlType::new(kind)) };
    let Some(decimals) = data.decimals else {
        return match length {
            0..=24 if single => Ok(SqlType::new(TypeKind::Float)),
            25..=53 if single => Ok(SqlType::new(TypeKind::Double)),
            _ => Err(errors::wrong_field_spec(&column.name)),
        };
    };
    if u64::from(decimals) > length {
        return Err(errors::m_bigger_than_d(&column.name));
    }
    if decimals >= u32::from(NOT_FIXED) {
        return Err(errors::too_big_scale(&column.name, 30));
    }
    if length > 255 {
        return Err(errors::too_big_displaywidth(&column.name, 255));
    }
    Ok(SqlType::new(kind).with_length(length as u32).with_decimals(decimals as u8))
}

fn temporal(kind: TypeKind, column: &ast::ColumnDef) -> SqlResult<SqlType> {
    match column.data_type.length.unwrap_or(0) {
        n @ 0..=6 => Ok(SqlType::temporal(kind, n as u8)),
        _ => Err(errors::too_big_precision(&column.name, 6)),
    }
}

/// The collation of a text column; none where CHARACTER SET binary makes it a column of bytes.
pub fn text_collation(default: CollationId, column: &ast::ColumnDef) -> SqlResult<Option<CollationId>> {
    let data = &column.data_type;
    let collate = column.collation.as_deref().or(data.collation.as_deref());
    if let (Some(first), Some(second)) = (&data.collation, &column.collation)
        && !first.eq_ignore_ascii_case(second)
    {
        let [first, second] = [first, second].map(|name| format!("COLLATE {}", said_collation(name)));
        return Err(errors::conflicting_declarations(first, second));
    }
    let of_charset = default.charset().default_collation();
    let chosen = choose_collation(data.charset.as_deref(), collate, default, of_charset)?;
    if chosen.charset() == Charset::Binary {
        return Ok(None);
    }
    if !data.binary {
        return Ok(Some(chosen));
    }
    let binary = chosen.charset().binary_collation();
    match collate {
        Some(other) if chosen != binary => {
            let first = match data.charset {
                Some(_) => format!("COLLATE {}", binary.name()),
                None => "BINARY".to_string(),
            };
            Err(errors::conflicting_declarations(first, format_args!("COLLATE {other}")))
        }
        _ => Ok(Some(binary)),
    }
}

/// A collation's name as messages say it.
fn said_collation(name: &str) -> &str {
    if name.eq_ignore_ascii_case("default") { "DEFAULT" } else { name }
}

fn characters(default: CollationId, column: &ast::ColumnDef) -> SqlResult<SqlType> {
    use DataTypeKind as D;
    let data = &column.data_type;
    let fixed = matches!(data.kind, D::Char | D::Binary);
    let text = matches!(data.kind, D::Char | D::VarChar);
    let collation = if text { text_collation(default, column)? } else { None };
    let length = match data.length {
        Some(n) => n,
        None if fixed => 1,
        None => return Err(errors::wrong_field_spec(&column.name)),
    };
    let per_char = collation.map_or(1, |c| u64::from(c.charset().max_bytes()));
    if !fixed && length > u64::from(u32::MAX) {
        return Err(errors::too_big_displaywidth(&column.name, u32::MAX));
    }
    let max = if fixed { 255 } else { VARIABLE_BYTES_MAX / per_char };
    if length > max {
        return Err(errors::too_big_fieldlength(&column.name, max));
    }
    let length = length as u32;
    Ok(match (collation, fixed) {
        (Some(collation), true) => SqlType::char(length, collation),
        (Some(collation), false) => SqlType::varchar(length, collation),
        (None, true) => SqlType::new(TypeKind::Binary).with_length(length),
        (None, false) => SqlType::varbinary(length),
    })
}

fn long_text(default: CollationId, column: &ast::ColumnDef) -> SqlResult<SqlType> {
    use DataTypeKind as D;
    use TypeKind as T;
    let data = &column.data_type;
    let collation = text_collation(default, column)?;
    let per_char = collation.map_or(1, |c| u64::from(c.charset().max_bytes()));
    let kinds = match collation {
        Some(_) => [T::TinyText, T::Text, T::MediumText, T::LongText],
        None => [T::TinyBlob, T::Blob, T::MediumBlob, T::LongBlob],
    };
    let ty = match data.kind {
        D::TinyText => SqlType::new(kinds[0]),
        D::MediumText => SqlType::new(kinds[2]),
        D::LongText => SqlType::new(kinds[3]),
        _ => by_bytes(data.length.map(|n| n.saturating_mul(per_char)), kinds),
    };
    Ok(match collation {
        Some(collation) => ty.with_collation(collation),
        None => ty,
    })
}

/// The smallest of four kinds that holds so many bytes; the second where nothing is said.
fn by_bytes(bytes: Option<u64>, kinds: [TypeKind; 4]) -> SqlType {
    let kind = match bytes {
        None | Some(0) => kinds[1],
        Some(1..=255) => kinds[0],
        Some(256..=65_535) => kinds[1],
        Some(65_536..=16_777_215) => kinds[2],
        Some(_) => kinds[3],
    };
    SqlType::new(kind)
}

fn members(kind: TypeKind, default: CollationId, column: &ast::ColumnDef) -> SqlResult<SqlType> {
    let collation = text_collation(default, column)?.unwrap_or(CollationId::BINARY);
    let mut texts: Vec<String> = Vec::with_capacity(column.data_type.members.len());
    for member in &column.data_type.members {
        let text = member.to_text().trim_end_matches(' ').to_string();
        if kind == TypeKind::Set && text.contains(',') {
            return Err(errors::illegal_value_for_type("set", text));
        }
        texts.push(text);
    }
    let max = if kind == TypeKind::Set { 64 } else { 65_535 };
    if texts.len() > max {
        return Err(errors::too_big_set(&column.name));
    }
    Ok(SqlType::members_of(kind, texts, collation))
}

/// The collation that CHARACTER SET and COLLATE name together; `unsaid` where neither is given.
pub fn choose_collation(
    charset: Option<&str>,
    collate: Option<&str>,
    unsaid: CollationId,
    default: CollationId,
) -> SqlResult<CollationId> {
    let charset = match charset {
        None => None,
        Some(name) if name.eq_ignore_ascii_case("default") => Some((default.charset(), default)),
        Some(name) => {
            let charset = Charset::by_name(name).ok_or_else(|| errors::unknown_character_set(name))?;
            Some((charset, charset.default_collation()))
        }
    };
    match (charset, collate) {
        (None, None) => Ok(unsaid),
        (Some((_, collation)), None) => Ok(collation),
        (charset, Some(name)) => {
            if name.eq_ignore_ascii_case("default") {
                return Ok(charset.map_or(default, |(_, collation)| collation));
            }
            match charset {
                Some((charset, _)) => collation::named_of(name, charset),
                None => collation::named(name, unsaid.charset()),
            }
        }
    }
}

/// BINARY(n) defaults show their padding.
/// A value as a column of a fixed number of bytes holds it.
pub fn padded(ty: &SqlType, value: Value) -> Value {
    match value.as_ref() {
        ValueRef::Bytes(bytes) if ty.kind == TypeKind::Binary && bytes.len() < ty.length as usize => {
            let mut bytes = bytes.to_vec();
            bytes.resize(ty.length as usize, 0);
            Value::Bytes(bytes.into())
        }
        _ => value,
    }
}

/// What a NOT NULL column without DEFAULT holds where nothing is given and the mode is not strict.
pub fn implicit_default(ty: &SqlType) -> Value {
    use TypeKind::*;
    match ty.kind {
        Null => Value::Null,
        Bit | Year | Set => Value::UInt(0),
        Enum => Value::UInt(1),
        Decimal => Value::Decimal(keel_value::Decimal::from_i64(0).round(i32::from(ty.decimals))),
        Float => Value::Float(0.0),
        Double => Value::Double(0.0),
        Date => Value::Date(keel_value::Date::default()),
        Time => Value::Time(keel_value::Time::default()),
        DateTime | Timestamp => Value::DateTime(keel_value::DateTime::default()),
        Inet4 => Value::Fixed(Fixed::zero(FixedKind::Inet4)),
        Inet6 => Value::Fixed(Fixed::zero(FixedKind::Inet6)),
        Uuid => Value::Fixed(Fixed::zero(FixedKind::Uuid)),
        _ if ty.is_integer() && ty.unsigned => Value::UInt(0),
        _ if ty.is_integer() => Value::Int(0),
        Binary => Value::Bytes(vec![0; ty.length as usize].into()),
        _ => Value::bytes(b""),
    }
}

/// Whether equal values of two types have equal keys.
pub fn have_equal_keys(a: &SqlType, b: &SqlType) -> bool {
    use TypeKind::*;
    if a.is_string() || b.is_string() {
        return a.is_string() && b.is_string() && a.is_text() == b.is_text() && a.collation == b.collation;
    }
    let has_scale = matches!(a.kind, Time | DateTime | Timestamp | Decimal);
    let has_length = matches!(a.kind, Decimal | Bit);
    a.kind == b.kind
        && a.unsigned == b.unsigned
        && (!has_scale || a.decimals == b.decimals)
        && (!has_length || a.length == b.length)
}
