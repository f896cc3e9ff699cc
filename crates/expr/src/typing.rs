//! Types of operations, and how types and collations of several operands become one, after MariaDB's
//! `fix_length_and_dec`, `Type_handler::aggregate_for_result` and `DTCollation::aggregate`.

use keel_base::{SqlResult, errors};
use keel_value::collation::{self, Charset};
use keel_value::types::{Class, Format, NOT_FIXED, NOT_SPECIFIED};
use keel_value::{CollationId, SqlMode, SqlType, TypeKind, Value, convert};

use super::{ArithOp, Derivation, Expr, Node};

/// Most digits after the point of a computed DECIMAL.
pub const SCALE_MAX: u32 = 38;
/// Most digits of a DECIMAL.
pub const PRECISION_MAX: u32 = 65;
/// `decimals` of strings whose value may have any number of digits after the point.
pub const STRING_DECIMALS: u8 = 39;
/// From this display length on, computed integers are BIGINT to the client.
const BIGINT_LENGTH_MIN: u32 = 10;

/// An integer type as MariaDB describes computed integers of a display length.
pub fn int_type(length: u32, unsigned: bool) -> SqlType {
    let kind = if length >= BIGINT_LENGTH_MIN { TypeKind::BigInt } else { TypeKind::Int };
    SqlType { unsigned, ..SqlType::new(kind).with_length(length) }
}

/// BIGINT UNSIGNED(21), as bit operators have.
pub fn bits_type() -> SqlType {
    SqlType { unsigned: true, ..SqlType::bigint().with_length(21) }
}

/// A computed DOUBLE with so many fixed decimals, or not fixed.
pub fn real_type(decimals: u8) -> SqlType {
    if decimals >= NOT_FIXED {
        SqlType::double().with_length(23)
    } else {
        SqlType::double().with_length(17 + u32::from(decimals)).with_decimals(decimals)
    }
}

/// A computed DECIMAL, cut to what DECIMAL can hold.
pub fn decimal_type(precision: u32, scale: u32, unsigned: bool) -> SqlType {
    let scale = scale.min(SCALE_MAX);
    SqlType { unsigned, ..SqlType::decimal(precision.clamp(1, PRECISION_MAX).max(scale), scale as u8) }
}

/// Digits of a numeric operand.
pub fn precision(expr: &Expr) -> u32 {
    match expr.ty.class() {
        Class::Decimal => expr.ty.length + unshown_digits(expr),
        Class::Date => 8,
        Class::Time => 7 + u32::from(expr.ty.decimals),
        Class::DateTime => 14 + u32::from(expr.ty.decimals),
        Class::Int if is_literal(expr) => expr.ty.length.max(1),
        Class::String if expr.ty.has_members() => expr.ty.display_length().clamp(1, PRECISION_MAX),
        _ => {
            let sign = u32::from(!is_unsigned(&expr.ty));
            display_length(expr).saturating_sub(sign).clamp(1, PRECISION_MAX)
        }
    }
}

/// Digits before the point of an exact numeric operand.
pub fn whole_digits(expr: &Expr) -> u32 {
    precision(expr).saturating_sub(scale(expr) + unshown_digits(expr))
}

/// Digits of a literal behind those that its type has. MariaDB counts them as digits of an operand.
fn unshown_digits(expr: &Expr) -> u32 {
    match &expr.node {
        Node::Constant(Value::Decimal(value)) if u32::from(expr.ty.decimals) == SCALE_MAX => {
            u32::from(value.scale().saturating_sub(expr.ty.decimals))
        }
        _ => 0,
    }
}

fn is_literal(expr: &Expr) -> bool {
    match &expr.node {
        Node::Constant(keel_value::Value::Int(v)) => *v >= 0,
        Node::Constant(_) | Node::Param(_) => true,
        _ => false,
    }
}

/// Digits after the point of an exact numeric operand.
pub fn scale(expr: &Expr) -> u32 {
    match expr.ty.class() {
        Class::Decimal | Class::Time | Class::DateTime => u32::from(expr.ty.decimals),
        _ => 0,
    }
}

/// Digits after the point that an operand gives a real result.
pub fn float_decimals(expr: &Expr) -> u8 {
    match expr.ty.class() {
        Class::Int | Class::Null | Class::Date => 0,
        Class::String if expr.ty.has_members() => 0,
        Class::String => NOT_FIXED,
        _ => expr.ty.decimals.min(NOT_FIXED),
    }
}

/// How an operand takes part in arithmetic.
fn arithmetic_class(expr: &Expr) -> Class {
    match expr.ty.class() {
        Class::Date => Class::Int,
        Class::Time | Class::DateTime if expr.ty.decimals == 0 => Class::Int,
        Class::Time | Class::DateTime => Class::Decimal,
        Class::String if is_hex(expr) || expr.ty.has_members() => Class::Int,
        Class::String | Class::Null => Class::Real,
        other => other,
    }
}

/// `0x..` and `b'..'`: numbers where a number is wanted.
pub fn is_hex(expr: &Expr) -> bool {
    is_hex_type(&expr.ty)
}

/// Whether a type is that of `0x..` and `b'..'`.
pub fn is_hex_type(ty: &SqlType) -> bool {
    ty.kind == TypeKind::VarBinary && ty.unsigned
}

/// The type of a constant that is compared as a date or time: unlike others of its kind it is the least of them where the
/// constant is no date. A length of 0 tells them apart.
pub fn comparand_type(kind: TypeKind) -> SqlType {
    SqlType::temporal(kind, 6).with_length(0)
}

/// The type of a constant text that is compared as a number with integers: it keeps the digits that it has.
pub fn decimal_comparand_type() -> SqlType {
    SqlType::decimal(PRECISION_MAX, SCALE_MAX as u8).with_length(0)
}

/// Whether a type was made by [`comparand_type`] or [`decimal_comparand_type`].
pub fn is_comparand(ty: &SqlType) -> bool {
    ty.length == 0
}

/// Most digits of the result of DIV.
const INT64_DIGITS: u32 = 21;

/// The type of `left op right`, and whether it may be NULL.
pub fn arithmetic(op: ArithOp, left: &Expr, right: &Expr, mode: SqlMode, increment: u8) -> (SqlType, bool) {
    let nullable = left.nullable || right.nullable;
    let (a, b) = (arithmetic_class(left), arithmetic_class(right));
    // A date or a time as a number has a sign.
    let is_temporal = |e: &Expr| matches!(e.class(), Class::Date | Class::Time | Class::DateTime);
    let has_no_sign = |e: &Expr| is_unsigned(&e.ty) && e.class() != Class::Real;
    let unsigned = (has_no_sign(left) || has_no_sign(right)) && !is_temporal(left) && !is_temporal(right);
    let (p, q) = (precision(left), precision(right));
    let (s, t) = (scale(left), scale(right));
    let (whole_left, whole_right) = (p.saturating_sub(s), q.saturating_sub(t));
    if op == ArithOp::IntDiv {
        let digits = match left.class() {
            Class::Null => 1,
            Class::Real | Class::String if !is_hex(left) => {
                let length = display_length(left);
                match float_decimals(left) {
                    NOT_FIXED.. => length.max(1),
                    decimals => length.saturating_sub(u32::from(decimals)).max(1),
                }
            }
            _ => whole_left.max(1),
        };
        return (int_type(digits.min(INT64_DIGITS), is_unsigned(&left.ty) || is_unsigned(&right.ty)), true);
    }
    let real = a == Class::Real || b == Class::Real;
    let decimals = float_decimals(left).max(float_decimals(right));
    match op {
        ArithOp::Add | ArithOp::Sub | ArithOp::Mod | ArithOp::Mul if real => {
            (real_type(decimals), nullable || op == ArithOp::Mod)
        }
        ArithOp::Div if real => {
            let decimals = if decimals >= NOT_FIXED {
                NOT_FIXED
            } else {
                (decimals.saturating_add(increment)).min(NOT_FIXED)
            };
            (real_type(decimals), true)
        }
        ArithOp::Add | ArithOp::Sub => {
            let scale = s.max(t);
            let digits = whole_left.max(whole_right) + 1 + scale;
            let unsigned = unsigned && !(op == ArithOp::Sub && mode.has(SqlMode::NO_UNSIGNED_SUBTRACTION));
            let unsigned_sum = if a == Class::Int && b == Class::Int {
                unsigned
            } else {
                left.ty.unsigned && right.ty.unsigned && op == ArithOp::Add
            };
            (exact(a, b, digits, scale, unsigned_sum), nullable)
        }
        ArithOp::Mul => (
            exact(
                a,
                b,
                p + q,
                s + t,
                if a == Class::Int && b == Class::Int {
                    unsigned
                } else {
                    left.ty.unsigned && right.ty.unsigned
                },
            ),
            nullable,
        ),
        ArithOp::Mod => (exact(a, b, p.max(q), s.max(t), is_unsigned(&left.ty)), true),
        ArithOp::Div | ArithOp::IntDiv => {
            let increment = u32::from(increment);
            let unsigned = left.ty.unsigned && right.ty.unsigned;
            (decimal_type(p + t + increment, s + increment, unsigned), true)
        }
    }
}

fn exact(a: Class, b: Class, digits: u32, scale: u32, unsigned: bool) -> SqlType {
    if a == Class::Int && b == Class::Int {
        int_type(digits + u32::from(!unsigned), unsigned)
    } else {
        decimal_type(digits, scale, unsigned)
    }
}

/// Makes an expression whose value goes into a column: a quotient keeps all the digits that were computed, and NOW() is an
/// instant. Such a type says nothing of the digits before the point: values of it cannot be packed.
pub fn keep_digits(expr: &mut Expr) {
    keep_instant(expr);
    widen_quotient(expr, |_| SCALE_MAX);
}

/// Makes a quotient become text with the digits that were computed.
pub fn write_quotient_whole(expr: &mut Expr) {
    widen_quotient(expr, |_| u32::from(NOT_SPECIFIED));
}

/// The type of a decimal that becomes text with the digits that were computed.
pub fn unrounded(ty: &SqlType) -> SqlType {
    SqlType { unsigned: ty.unsigned, ..SqlType::decimal(PRECISION_MAX, NOT_SPECIFIED) }
}

/// Makes NOW() a TIMESTAMP, which does not depend on what the session's clock shows.
fn keep_instant(expr: &mut Expr) {
    match &mut expr.node {
        Node::Once(_, inner) => {
            keep_instant(inner);
            expr.ty = inner.ty.clone();
        }
        Node::Call(function, _) if function.name == "now" => expr.ty.kind = TypeKind::Timestamp,
        _ => {}
    }
}

/// Digits in one word of MariaDB's decimals: quotients have whole words behind the point.
pub const WORD_DIGITS: u32 = 9;

/// The same for a value that is packed before it goes there: as many digits behind the point as those before it leave.
pub fn keep_fitting_digits(expr: &mut Expr) {
    widen_quotient(expr, |ty| {
        let decimals = u32::from(ty.decimals);
        let computed = decimals.div_ceil(WORD_DIGITS) * WORD_DIGITS;
        computed.min(SCALE_MAX).min(PRECISION_MAX - (ty.length - decimals))
    });
}

fn widen_quotient(expr: &mut Expr, scale: impl Fn(&SqlType) -> u32) {
    match &mut expr.node {
        Node::Once(_, inner) => {
            widen_quotient(inner, scale);
            expr.ty = inner.ty.clone();
        }
        Node::Arith(ArithOp::Div, ..) if expr.ty.class() == Class::Decimal => {
            let decimals = scale(&expr.ty) as u8;
            expr.ty = SqlType { unsigned: expr.ty.unsigned, ..SqlType::decimal(PRECISION_MAX, decimals) };
        }
        _ => {}
    }
}

/// Characters of the longest number an operand gives. An integer column has all digits of its type, however narrow it is shown.
pub fn display_length(expr: &Expr) -> u32 {
    let ty = &expr.ty;
    let is_column = matches!(expr.node, Node::Column(_) | Node::Generated(..) | Node::Outer { .. });
    let digits = match ty.kind {
        _ if !is_column => 0,
        TypeKind::TinyInt => 4 - u32::from(ty.unsigned),
        TypeKind::SmallInt => 6 - u32::from(ty.unsigned),
        TypeKind::MediumInt => 8,
        TypeKind::Int => 11 - u32::from(ty.unsigned),
        TypeKind::BigInt => 20,
        _ => 0,
    };
    ty.display_length().max(digits)
}

/// The type of an operand that is computed with, no matter how it is shown: integers have all their digits and no leading zeros.
pub fn operand_type(expr: &Expr) -> SqlType {
    let ty = expr.ty.clone();
    match ty.is_integer() {
        true => SqlType { length: display_length(expr), zerofill: false, ..ty },
        false => ty,
    }
}

/// The type of a value that has left its column behind: no leading zeros, and a text as long as it may be.
pub fn value_type(ty: SqlType) -> SqlType {
    let mut ty = SqlType { zerofill: ty.zerofill && ty.kind == TypeKind::Year, ..ty };
    if is_column_text(&ty) {
        ty.length = u32::try_from(column_octets(&ty)).unwrap_or(u32::MAX);
    }
    if ty.is_string() { ty.with_decimals(STRING_DECIMALS) } else { ty }
}

/// Characters of the longest text an expression gives.
pub fn text_chars(expr: &Expr) -> u32 {
    let ty = &expr.ty;
    match ty.class() {
        Class::String if ty.has_members() => ty.display_length(),
        Class::String if is_column_text(ty) => column_chars(ty),
        Class::String if ty.is_text() && ty.is_blob() => ty.length / ty.collation.charset().max_bytes(),
        Class::String => ty.length,
        _ => display_length(expr),
    }
}

/// Whether a TEXT type is as long as columns of its kind are; one that was computed has the bytes of its longest value.
fn is_column_text(ty: &SqlType) -> bool {
    ty.is_text() && ty.is_blob() && ty.length == SqlType::new(ty.kind).length
}

/// Characters that MariaDB takes a TEXT column for: as many as it has bytes.
fn column_chars(ty: &SqlType) -> u32 {
    match ty.kind {
        TypeKind::LongText => ty.length / ty.collation.charset().max_bytes(),
        _ => ty.length,
    }
}

fn column_octets(ty: &SqlType) -> u64 {
    u64::from(column_chars(ty)) * u64::from(ty.collation.charset().max_bytes())
}

/// Bytes of the longest text an expression gives.
pub fn text_octets(expr: &Expr) -> u64 {
    let ty = &expr.ty;
    match ty.is_string() || ty.has_members() {
        true if is_column_text(ty) => column_octets(ty),
        true => ty.max_octets(),
        false => u64::from(text_chars(expr)),
    }
}

/// The TEXT or BLOB type that has room for so many bytes.
pub fn blob_kind(octets: u64, binary: bool) -> TypeKind {
    match (octets, binary) {
        (..=255, false) => TypeKind::TinyText,
        (..=255, true) => TypeKind::TinyBlob,
        (..=65_535, false) => TypeKind::Text,
        (..=65_535, true) => TypeKind::Blob,
        (..=16_777_215, false) => TypeKind::MediumText,
        (..=16_777_215, true) => TypeKind::MediumBlob,
        (_, false) => TypeKind::LongText,
        (_, true) => TypeKind::LongBlob,
    }
}

/// Computed texts that may be longer than this become TEXT.
pub const COMPUTED_CHARS_MAX: u32 = 512;

/// The type of a computed text that is kept as an aggregate's result or in a user variable: VARCHAR, or TEXT and BLOB where it
/// may be longer than `COMPUTED_CHARS_MAX`.
pub fn kept_text(expr: &Expr) -> SqlType {
    let collation = expr.ty.collation;
    let chars = text_chars(expr);
    let bytes = u64::from(chars) * u64::from(collation.charset().max_bytes());
    let binary = collation == CollationId::BINARY;
    let ty = match (chars <= COMPUTED_CHARS_MAX, binary) {
        (true, true) => SqlType::varbinary(chars),
        (true, false) => SqlType::varchar(chars, collation),
        (false, _) => SqlType::new(blob_kind(bytes.max(u64::from(u16::MAX)), binary))
            .with_length(u32::try_from(bytes).unwrap_or(u32::MAX))
            .with_collation(collation),
    };
    let decimals = if matches!(expr.node, Node::Constant(_)) { expr.ty.decimals } else { STRING_DECIMALS };
    ty.with_decimals(decimals).with_format(expr.ty.format)
}

/// The type of what an assignment to a user variable gives: whole numbers are INT or BIGINT, by their digits, and texts as long as
/// they may be.
pub fn assigned_type(value: &Expr) -> SqlType {
    let ty = &value.ty;
    if ty.is_string() {
        return kept_text(value);
    }
    if ty.class() != Class::Int {
        return ty.clone();
    }
    int_type(display_length(value), ty.unsigned || matches!(ty.kind, TypeKind::Year | TypeKind::Bit))
}

/// From as many bytes on MariaDB describes a text as TEXT or BLOB.
const BLOB_OCTETS_MIN: u64 = 65_532;

/// A string type for results of up to so many characters: VARCHAR, or TEXT and BLOB where that is too short.
pub fn string_type(chars: u64, collation: CollationId) -> SqlType {
    let binary = collation == CollationId::BINARY;
    let octets = chars * u64::from(collation.charset().max_bytes());
    let kind = match binary {
        _ if octets >= BLOB_OCTETS_MIN => blob_kind(octets, binary),
        false => TypeKind::VarChar,
        true => TypeKind::VarBinary,
    };
    let length = if matches!(kind, TypeKind::VarChar) { chars } else { octets };
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    SqlType { length, collation, decimals: STRING_DECIMALS, ..SqlType::new(kind) }
}

/// The type of CASE, COALESCE, UNION and their like, and its collation's derivation.
pub fn aggregate(parts: &[&Expr], connection: CollationId, op: &str) -> SqlResult<(SqlType, Derivation)> {
    let (mut ty, derivation) = aggregate_kinds(parts, connection, op)?;
    if ty.is_string() {
        // The result of a set operation is a column, that of a function is not.
        ty.decimals = if op == "UNION" { 0 } else { STRING_DECIMALS };
    }
    let mut formats = parts.iter().filter(|e| e.class() != Class::Null).map(|e| e.ty.format);
    let first = formats.next().unwrap_or_default();
    let format = match ty.kind {
        TypeKind::Bit if op != "UNION" => Format::Digits,
        TypeKind::Bit => Format::Plain,
        _ if formats.all(|format| format == first) => first,
        _ => Format::Plain,
    };
    Ok((ty.with_format(format), derivation))
}

fn aggregate_kinds(parts: &[&Expr], connection: CollationId, op: &str) -> SqlResult<(SqlType, Derivation)> {
    let present: Vec<&Expr> = parts.iter().copied().filter(|e| e.class() != Class::Null).collect();
    if present.is_empty() {
        return Ok((SqlType::null(), Derivation::Ignorable));
    }
    check_fixed(&present, op)?;
    let first = present[0].class();
    let mut class = present.iter().skip(1).fold(first, |class, e| merge(class, e.class()));
    // Bits that meet anything else are a number to functions and bytes to set operations.
    let bits = present.iter().filter(|e| e.ty.kind == TypeKind::Bit).count();
    if op == "UNION" && bits > 0 && bits < present.len() {
        class = Class::String;
    }
    let ty = match class {
        Class::String => {
            let (collation, derivation) = text_collation(&present, connection, op)?;
            if let ([only], "UNION") = (&present[..], op)
                && only.ty.has_members()
            {
                return Ok((only.ty.clone(), derivation));
            }
            let length = |e: &&Expr| match collation {
                CollationId::BINARY if is_column_text(&e.ty) => u64::from(e.ty.length),
                CollationId::BINARY => text_octets(e),
                _ => u64::from(text_chars(e)),
            };
            let length = present.iter().map(length).max().unwrap_or(0);
            return Ok((joined_text(&present, length, collation), derivation));
        }
        // MariaDB's IF leaves a NULL out, others take it for a signed number.
        Class::Int => integers(&present, present.len() < parts.len() && op != "if"),
        Class::Decimal => {
            let scale = present.iter().map(|e| scale(e)).max().unwrap_or(0);
            let whole = present.iter().map(|e| whole_digits(e)).max().unwrap_or(1);
            decimal_type(whole + scale, scale, present.iter().all(|e| e.ty.unsigned))
        }
        Class::Real => reals(&present),
        Class::Date => SqlType::new(TypeKind::Date),
        Class::Time | Class::DateTime => {
            let fraction = present.iter().map(|e| scale(e)).max().unwrap_or(0) as u8;
            let all_timestamps = present.iter().all(|e| e.ty.kind == TypeKind::Timestamp);
            let kind = match class {
                Class::Time => TypeKind::Time,
                _ if all_timestamps => TypeKind::Timestamp,
                _ => TypeKind::DateTime,
            };
            SqlType::temporal(kind, fraction)
        }
        Class::Fixed(kind) => SqlType::new(kind.type_kind()),
        Class::Null => SqlType::null(),
    };
    Ok((ty, Derivation::Numeric))
}

/// 4078 where an address or UUID meets what is neither such a one nor text.
pub fn check_fixed(parts: &[&Expr], op: &str) -> SqlResult<()> {
    let meets = |a: Class, b: Class| match (a, b) {
        (Class::Fixed(_), _) | (_, Class::Fixed(_)) => {
            a == b || matches!(a, Class::String | Class::Null) || matches!(b, Class::String | Class::Null)
        }
        _ => true,
    };
    // The first part of each class is enough: a list of IN may have many thousands.
    let mut firsts: Vec<&Expr> = Vec::new();
    for part in parts {
        let class = part.class();
        if firsts.iter().any(|before| before.class() == class) {
            continue;
        }
        if let Some(before) = firsts.iter().find(|before| !meets(before.class(), class)) {
            let (a, b) = (convert::type_name(&before.ty), convert::type_name(&part.ty));
            return Err(errors::illegal_parameter_data_types2_for_operation(a, b, op));
        }
        firsts.push(part);
    }
    Ok(())
}

/// 4079 where an operand is an address or UUID, which no number is.
pub fn refuse_fixed(operand: &Expr, op: &str) -> SqlResult<()> {
    match operand.ty.is_fixed() {
        true => Err(errors::illegal_parameter_data_type_for_operation(convert::type_name(&operand.ty), op)),
        false => Ok(()),
    }
}

/// Whether an operand is of a type that functions of dates refuse: addresses, UUIDs and JSON.
fn is_no_date(operand: &Expr) -> bool {
    operand.ty.is_fixed() || operand.ty.is_string() && operand.ty.format == Format::Json
}

/// 4079 where an operand can be no date.
pub fn refuse_no_date(operand: &Expr, op: &str) -> SqlResult<()> {
    match is_no_date(operand) {
        true => Err(errors::illegal_parameter_data_type_for_operation(convert::type_name(&operand.ty), op)),
        false => Ok(()),
    }
}

/// 4078 where one of two operands can be no date.
pub fn refuse_pair(a: &Expr, b: &Expr, op: &str) -> SqlResult<()> {
    if !is_no_date(a) && !is_no_date(b) {
        return Ok(());
    }
    let (a, b) = (convert::type_name(&a.ty), convert::type_name(&b.ty));
    Err(errors::illegal_parameter_data_types2_for_operation(a, b, op))
}

/// 4078 where an interval is added to what can be no date.
pub fn refuse_interval(date: &Expr) -> SqlResult<()> {
    match is_no_date(date) {
        true => {
            let ty = convert::type_name(&date.ty);
            Err(errors::illegal_parameter_data_types2_for_operation(ty, "interval", "date_add_interval"))
        }
        false => Ok(()),
    }
}

/// 4078 where a condition is an address or UUID, which is neither true nor false: asked as a comparison with a number.
pub fn refuse_condition(condition: &Expr, number: &str, op: &str) -> SqlResult<()> {
    match condition.ty.is_fixed() {
        true => {
            let ty = convert::type_name(&condition.ty);
            Err(errors::illegal_parameter_data_types2_for_operation(ty, number, op))
        }
        false => Ok(()),
    }
}

fn merge(a: Class, b: Class) -> Class {
    use Class::*;
    match (a, b) {
        _ if a == b => a,
        (Null, other) | (other, Null) => other,
        (Int, Decimal) | (Decimal, Int) => Decimal,
        (Int | Decimal, Real) | (Real, Int | Decimal) => Real,
        (Date | Time | DateTime, Date | Time | DateTime) => DateTime,
        (Fixed(kind), _) | (_, Fixed(kind)) => Fixed(kind),
        _ => String,
    }
}

/// FLOAT of FLOAT and integers that it holds exactly, else DOUBLE, as long as the longest of them.
fn reals(parts: &[&Expr]) -> SqlType {
    let is_short = |e: &&Expr| {
        matches!(e.ty.kind, TypeKind::TinyInt | TypeKind::SmallInt | TypeKind::MediumInt | TypeKind::Year)
    };
    let is_float = parts.iter().all(|e| e.ty.kind == TypeKind::Float || is_short(e));
    let kind = if is_float { TypeKind::Float } else { TypeKind::Double };
    let decimals = parts.iter().map(|e| float_decimals(e)).max().unwrap_or(NOT_FIXED);
    let length = |e: &&Expr| match decimals {
        NOT_FIXED.. => e.ty.display_length(),
        _ => e.ty.display_length().saturating_sub(u32::from(float_decimals(e))) + u32::from(decimals),
    };
    let length = parts.iter().map(length).max().unwrap_or(0);
    SqlType::new(kind).with_length(length.min(REAL_LENGTH_MAX)).with_decimals(decimals)
}

/// Most characters of a computed FLOAT or DOUBLE.
const REAL_LENGTH_MAX: u32 = 255;

/// Whether an integer has no sign: bits have none.
pub fn is_unsigned(ty: &SqlType) -> bool {
    ty.unsigned || ty.kind == TypeKind::Bit
}

/// The common type of integers, some of them perhaps beside NULL.
fn integers(parts: &[&Expr], beside_null: bool) -> SqlType {
    let bits = parts.iter().filter(|e| e.ty.kind == TypeKind::Bit).count();
    if bits == parts.len() {
        let length = parts.iter().map(|e| e.ty.length).max().unwrap_or(1);
        return SqlType::new(TypeKind::Bit).with_length(length);
    }
    let same = |e: &Expr| e.ty.clone().with_format(parts[0].ty.format) == parts[0].ty;
    let alike = parts.iter().all(|e| same(e) && !is_literal(e));
    if alike && parts[0].ty.kind == TypeKind::Year {
        return parts[0].ty.clone();
    }
    let unsigned = parts.iter().all(|e| is_unsigned(&e.ty));
    let digits = parts.iter().map(|e| precision(e)).max().unwrap_or(1);
    if unsigned && beside_null || !unsigned && parts.iter().any(|e| is_unsigned(&e.ty)) {
        return decimal_type(digits, 0, false);
    }
    if alike {
        return parts.iter().map(|e| operand_type(e)).max_by_key(|ty| ty.length).expect("not empty");
    }
    if bits > 0 {
        return SqlType::new(if digits <= 10 { TypeKind::Int } else { TypeKind::BigInt })
            .with_unsigned()
            .with_length(digits);
    }
    let literals_only = parts.iter().all(|e| is_literal(e));
    let length = digits + u32::from(!unsigned);
    if literals_only {
        return int_type(length, unsigned);
    }
    let kinds = parts.iter().map(|e| e.ty.kind).filter(|kind| *kind <= TypeKind::BigInt);
    let kind = kinds.max().unwrap_or(TypeKind::BigInt);
    SqlType { unsigned, length, ..SqlType::new(kind) }
}

/// The common type of texts of so many characters, octets where `collation` is binary.
fn joined_text(parts: &[&Expr], length: u64, collation: CollationId) -> SqlType {
    let octets = length * u64::from(collation.charset().max_bytes());
    if parts.iter().any(|e| e.ty.is_blob()) {
        let kind = blob_kind(octets, collation == CollationId::BINARY);
        let length = u32::try_from(octets).unwrap_or(u32::MAX);
        return SqlType::new(kind)
            .with_length(length)
            .with_collation(collation)
            .with_decimals(STRING_DECIMALS);
    }
    let same = parts.iter().all(|e| e.ty == parts[0].ty) && !parts[0].ty.has_members();
    if same && parts[0].ty.collation == collation {
        return match parts[0].ty.kind {
            TypeKind::Char => SqlType { kind: TypeKind::VarChar, ..parts[0].ty.clone() },
            TypeKind::Binary => SqlType { kind: TypeKind::VarBinary, ..parts[0].ty.clone() },
            _ => parts[0].ty.clone(),
        };
    }
    let decimals = parts.iter().map(|e| e.ty.decimals).max().unwrap_or(0);
    string_type(length, collation).with_decimals(decimals)
}

/// The collation of several operands together; 1267 where they do not agree. Numbers do not count beside text.
pub fn text_collation(
    parts: &[&Expr],
    connection: CollationId,
    op: &str,
) -> SqlResult<(CollationId, Derivation)> {
    let mut result: Option<(CollationId, Derivation)> = None;
    for part in parts.iter().filter(|e| is_text(e)) {
        let next = (part.ty.collation, text_derivation(part));
        result = Some(match result {
            None => next,
            Some(before) => agree(before, next).ok_or_else(|| illegal_mixes(parts, op))?,
        });
    }
    let (collation, derivation) = result.unwrap_or((connection, Derivation::Coercible));
    let is_lost = |part: &&Expr| match &part.node {
        Node::Constant(Value::Bytes(text)) => loses(part, text, collation),
        _ => false,
    };
    match derivation < Derivation::Coercible && parts.iter().any(is_lost) {
        true => Err(illegal_mixes(parts, op)),
        false => Ok((collation, derivation)),
    }
}

/// Whether a constant text has characters that the character set lacks in which it is needed.
pub fn loses(part: &Expr, text: &[u8], by: CollationId) -> bool {
    let (from, to) = (part.ty.collation.charset(), by.charset());
    may_lose(part, by) && !text.is_ascii() && collation::convert(from, to, text).1 > 0
}

/// Whether a text of an operand's type could have such characters.
pub fn may_lose(part: &Expr, by: CollationId) -> bool {
    let (from, to) = (part.ty.collation.charset(), by.charset());
    let is_superset = to == Charset::Utf8mb4 || to.is_wide() || by == CollationId::BINARY || from == to;
    part.ty.is_text() && part.derivation == Derivation::Coercible && from.is_utf8() && !is_superset
}

/// The same for operands that are compared: collations that agree on nothing but their character set cannot.
pub fn compared_collation(
    parts: &[&Expr],
    connection: CollationId,
    op: &str,
) -> SqlResult<(CollationId, Derivation)> {
    let found = text_collation(parts, connection, op)?;
    if found.1 != Derivation::None {
        return Ok(found);
    }
    Err(illegal_mixes(parts, op))
}

/// How strong the collation of texts together is.
pub fn joined_derivation<'a>(parts: impl Iterator<Item = &'a Expr>) -> Derivation {
    let both = |a: Option<_>, b: &Expr| {
        let b = (b.ty.collation, text_derivation(b));
        Some(a.map_or(b, |a| agree(a, b).unwrap_or(a)))
    };
    parts.fold(None, both).map_or(Derivation::Coercible, |found| found.1)
}

/// The error for several operands.
#[cold]
pub fn illegal_mixes(parts: &[&Expr], op: &str) -> keel_base::SqlError {
    let texts = parts.iter().filter(|e| is_text(e)).map(|e| (e.ty.collation, e.derivation));
    match *texts.collect::<Vec<_>>() {
        [a, b] => illegal_mix(a, b, op),
        [a, b, c] => errors::cant_aggregate_3collations(
            a.0.name(),
            derivation_name(a.1),
            b.0.name(),
            derivation_name(b.1),
            c.0.name(),
            derivation_name(c.1),
            op,
        ),
        _ => errors::cant_aggregate_ncollations(op),
    }
}

/// How strong an operand's collation is as text: bits are as good as a column of bytes.
fn text_derivation(expr: &Expr) -> Derivation {
    if expr.ty.is_octets_of_bits() { Derivation::Implicit } else { expr.derivation }
}

/// Whether an operand has a say in a common character set: bits are bytes there.
fn is_text(expr: &Expr) -> bool {
    expr.ty.is_string() || expr.ty.has_members() || expr.ty.is_octets_of_bits()
}

fn illegal_mix(a: (CollationId, Derivation), b: (CollationId, Derivation), op: &str) -> keel_base::SqlError {
    errors::cant_aggregate_2collations(a.0.name(), derivation_name(a.1), b.0.name(), derivation_name(b.1), op)
}

fn derivation_name(derivation: Derivation) -> &'static str {
    match derivation {
        Derivation::Explicit => "EXPLICIT",
        Derivation::None => "NONE",
        Derivation::Implicit => "IMPLICIT",
        Derivation::System => "SYSCONST",
        Derivation::Coercible => "COERCIBLE",
        Derivation::Numeric => "NUMERIC",
        Derivation::Ignorable => "IGNORABLE",
    }
}

/// What two collations become together; None where they cannot.
pub fn agree(
    a: (CollationId, Derivation),
    b: (CollationId, Derivation),
) -> Option<(CollationId, Derivation)> {
    if a.0 == b.0 {
        return Some((a.0, a.1.min(b.1)));
    }
    if a.0 == CollationId::BINARY || b.0 == CollationId::BINARY {
        let (binary, other) = if a.0 == CollationId::BINARY { (a, b) } else { (b, a) };
        return Some(if binary.1 <= other.1 { binary } else { other });
    }
    if a.1 != b.1 {
        return Some(if a.1 < b.1 { a } else { b });
    }
    let (x, y) = (a.0.charset(), b.0.charset());
    if x == y {
        return match (collation::is_binary(a.0), collation::is_binary(b.0)) {
            _ if a.1 == Derivation::Explicit => None,
            (true, _) => Some(a),
            (_, true) => Some(b),
            _ => Some((x.binary_collation(), Derivation::None)),
        };
    }
    match (is_unicode(x), is_unicode(y)) {
        (true, false) => Some(a),
        (false, true) => Some(b),
        (true, true) => Some(if x == Charset::Utf8mb4 { a } else { b }),
        (false, false) if x == Charset::Ascii => Some(b),
        (false, false) if y == Charset::Ascii => Some(a),
        _ => None,
    }
}

fn is_unicode(charset: Charset) -> bool {
    matches!(charset, Charset::Utf8mb3 | Charset::Utf8mb4)
}

/// Text in the character set of a collation.
pub fn to_charset(expr: Expr, wanted: CollationId) -> Expr {
    let same = expr.ty.collation.charset() == wanted.charset();
    if same || !expr.ty.is_text() || wanted == CollationId::BINARY {
        return expr;
    }
    let ty = string_type(u64::from(text_chars(&expr)), wanted).with_format(expr.ty.format);
    let (nullable, derivation) = (expr.nullable, expr.derivation);
    Expr { node: Node::Convert(Box::new(expr)), ty, nullable, derivation }
}

/// The number that bytes stand for: the last eight, most significant first.
pub fn bytes_as_number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().take(8).rev().fold(0, |n, b| n << 8 | u64::from(*b))
}
