//! Column definitions of CREATE and ALTER TABLE: types, defaults, attributes, and what MariaDB refuses.

use std::borrow::Cow;

use keel_base::{SqlError, SqlResult, code, errors};
use keel_catalog::column_type::{VARIABLE_BYTES_MAX, column_type, implicit_default, padded, text_collation};
use keel_catalog::{Catalog, ColumnDef, ColumnDefault, Generated, check, names};
use keel_exec::session::Session;
use keel_expr::{EvalContext, Frame, Node};
use keel_planner::bind::{
    BindContext, Binder, Clause, ParamSource, ScopeColumn, ScopeTable, bytes_as_number,
};
use keel_planner::check as rights;
use keel_sql::ast::{self, ByteStr, DataTypeKind, Expr};
use keel_value::collation::{self, Charset};
use keel_value::convert::{self, Target, timestamp_to_local};
use keel_value::text::{append_date, append_datetime};
use keel_value::{CollationId, SqlType, TypeKind, Value, ValueRef};

use super::checks::is_of_statement;
use super::generated;
use super::kept::{self, Refusal};

/// Most columns of a table, and those that a definition may name.
pub(super) const COLUMNS_MAX: usize = 1017;
const NAMED_COLUMNS_MAX: usize = 4096;
/// Bytes of a row, BLOBs not counted.
const ROW_OCTETS_MAX: u64 = 65_535;
pub(super) const COMMENT_CHARS_MAX: usize = 1024;

/// What column definitions depend on.
pub(super) struct ColumnContext<'a> {
    pub session: &'a mut Session,
    pub catalog: &'a Catalog,
    /// The table's default collation.
    pub collation: CollationId,
}

/// Makes columns of their definitions; primary keys make theirs NOT NULL later.
pub(super) fn define(cx: &mut ColumnContext<'_>, columns: &[ast::ColumnDef]) -> SqlResult<Vec<ColumnDef>> {
    if columns.is_empty() {
        return Err(errors::table_must_have_columns());
    }
    let mut defined: Vec<ColumnDef> = Vec::with_capacity(columns.len());
    for column in columns {
        if defined.iter().any(|c| names::same(&c.name, &column.name)) {
            return Err(errors::dup_fieldname(&column.name));
        }
        let mut made = define_one(cx, column)?;
        settle_timestamp(cx.session, &defined, &mut made)?;
        defined.push(made);
    }
    check_all(&defined)?;
    Ok(defined)
}

/// Checks that hold for all columns together.
pub(super) fn check_all(columns: &[ColumnDef]) -> SqlResult<()> {
    if columns.len() > NAMED_COLUMNS_MAX {
        return Err(errors::too_many_fields());
    }
    let octets: u64 = columns.iter().map(row_octets).sum();
    if octets > ROW_OCTETS_MAX {
        return Err(errors::too_big_rowsize(ROW_OCTETS_MAX));
    }
    Ok(())
}

/// Bytes of a column in MariaDB's row format, by which it limits rows.
fn row_octets(column: &ColumnDef) -> u64 {
    let ty = &column.ty;
    match ty.kind {
        _ if ty.is_blob() => 12,
        TypeKind::VarChar | TypeKind::VarBinary => {
            let octets = ty.max_octets();
            octets + if octets > 255 { 2 } else { 1 }
        }
        TypeKind::Char | TypeKind::Binary => ty.max_octets(),
        _ if ty.is_integer() => ty.integer_bytes() as u64,
        TypeKind::Decimal => u64::from(ty.length).div_ceil(2),
        TypeKind::Inet4 => 4,
        TypeKind::Inet6 | TypeKind::Uuid => 16,
        _ => 8,
    }
}

/// A comment within its bound: what is longer is refused where the session is strict, and cut elsewhere.
pub(super) fn fitting_comment(
    session: &mut Session,
    mut comment: String,
    chars_max: usize,
    too_long: impl FnOnce(usize) -> SqlError,
) -> SqlResult<String> {
    let Some((end, _)) = comment.char_indices().nth(chars_max) else { return Ok(comment) };
    let error = too_long(chars_max);
    if session.is_strict() {
        return Err(error);
    }
    session.warn(error);
    comment.truncate(end);
    Ok(comment)
}

/// 1291 for each member of ENUM and SET that comes again: an error where the session is strict, else a note.
fn check_members(session: &mut Session, ty: &SqlType, column: &ast::ColumnDef) -> SqlResult<()> {
    if !ty.has_members() {
        return Ok(());
    }
    let kind = if ty.kind == TypeKind::Enum { "ENUM" } else { "SET" };
    let members = ty.members();
    // By the weights of their collation, so that many members cost no more than sorting them.
    let mut keyed: Vec<(Vec<u8>, usize)> = Vec::with_capacity(members.len());
    for (place, member) in members.iter().enumerate() {
        let mut key = Vec::new();
        let text = SqlType::varchar(u32::MAX, ty.collation);
        keel_value::key::encode(&mut key, &text, ValueRef::Bytes(member.as_bytes()), false);
        keyed.push((key, place));
    }
    keyed.sort();
    let mut twice: Vec<usize> = keyed.windows(2).filter(|w| w[0].0 == w[1].0).map(|w| w[0].1).collect();
    twice.sort_unstable();
    for place in twice {
        let error = errors::duplicated_value_in_type(&column.name, &members[place], kind);
        if session.is_strict() {
            return Err(error);
        }
        session.note(error);
    }
    Ok(())
}

/// What INVISIBLE asks of a table: a column that is seen (1113), and values for those that are not (4108). Columns that were so
/// `before` are left alone: there are tables from before this was asked.
pub(super) fn check_invisible(columns: &[ColumnDef], before: &[ColumnDef]) -> SqlResult<()> {
    let none_seen = |columns: &[ColumnDef]| columns.iter().all(|column| column.invisible);
    if none_seen(columns) && (before.is_empty() || !none_seen(before)) {
        return Err(errors::table_must_have_columns());
    }
    let lacks = |c: &&ColumnDef| {
        let has_value = c.auto_increment || c.generated.is_some() || c.default != ColumnDefault::None;
        c.invisible && !c.nullable && !has_value && !before.contains(c)
    };
    match columns.iter().find(lacks) {
        Some(column) => Err(errors::invisible_not_null_without_default(&column.name)),
        None => Ok(()),
    }
}

/// Makes one column.
pub(super) fn define_one(cx: &mut ColumnContext<'_>, column: &ast::ColumnDef) -> SqlResult<ColumnDef> {
    names::check_column(&column.name)?;
    check_unused_collation(column)?;
    let written = without_length(cx, column)?;
    let column = &*written;
    let ty = column_type(cx.collation, column)?;
    if let (DataTypeKind::Year, Some(digits)) = (column.data_type.kind, column.data_type.length)
        && digits != 4
    {
        let old = format!("YEAR({})", digits.min(u64::from(u32::MAX)));
        cx.session.note(errors::warn_deprecated(old, ". Please use YEAR(4) instead"));
    }
    if column.auto_increment && !(ty.is_integer() || matches!(ty.kind, TypeKind::Float | TypeKind::Double)) {
        return Err(errors::wrong_field_spec(&column.name));
    }
    let says_null = matches!(&column.default, Some(Expr::Literal(l)) if l.value == ast::LiteralValue::Null);
    if column.auto_increment && column.default.is_some() && !says_null {
        return Err(errors::invalid_default(&column.name));
    }
    let implicit = is_implicit(cx.session, &ty) && column.generated.is_none();
    let nullable = column.nullable.unwrap_or(!implicit && !column.auto_increment);
    check_members(cx.session, &ty, column)?;
    let comment = column.comment.as_ref().map(ByteStr::to_text).unwrap_or_default();
    let too_long = |max| errors::too_long_field_comment(&column.name, max);
    let comment = fitting_comment(cx.session, comment, COMMENT_CHARS_MAX, too_long)?;
    let check = match &column.check {
        Some(tree) => Some(generated::text(cx.session, tree)),
        None if column.data_type.kind == DataTypeKind::Json => Some(check::json_condition(&column.name)),
        None => None,
    };
    let is_primary = column.key == Some(ast::ColumnKey::Primary);
    let drops_null = column.auto_increment || implicit && column.nullable.is_none() && !is_primary;
    let default = match says_null && drops_null {
        true => ColumnDefault::None,
        // A PRIMARY KEY attribute makes the column NOT NULL before its DEFAULT is checked, a key of the table does so later.
        false => default_of(cx, column, &ty, nullable && !(is_primary && column.default.is_some()))?,
    };
    let too_coarse = |tree: &Expr| written_digits(tree).is_some_and(|digits| digits < u64::from(ty.decimals));
    let is_time = matches!(ty.kind, TypeKind::Timestamp | TypeKind::DateTime);
    if column.on_update.as_ref().is_some_and(|tree| !is_time || too_coarse(tree)) {
        return Err(errors::invalid_on_update(&column.name));
    }
    let mut defined = ColumnDef {
        name: column.name.as_str().into(),
        ty,
        nullable,
        default,
        on_update_now: column.on_update.is_some(),
        auto_increment: column.auto_increment,
        invisible: column.invisible,
        comment,
        check,
        generated: column.generated.as_ref().map(|generated| Generated {
            expression: generated::text(cx.session, &generated.expr),
            stored: generated.stored,
        }),
        added_with: Value::Null,
    };
    defined.settle_format();
    Ok(defined)
}

/// 1273 for a collation that is not there, on a column that has none too.
pub(super) fn check_unused_collation(column: &ast::ColumnDef) -> SqlResult<()> {
    let named = column.collation.as_deref().or(column.data_type.collation.as_deref());
    match named.filter(|name| !name.eq_ignore_ascii_case("default")) {
        Some(name)
            if collation::by_name(name).is_none()
                && collation::by_name_for(Charset::Utf8mb4, name).is_none() =>
        {
            Err(errors::unknown_collation(name))
        }
        _ => Ok(()),
    }
}

/// VARCHAR and VARBINARY that are too long for a row become TEXT and BLOB, with a note, where the session is not strict.
fn without_length<'c>(
    cx: &mut ColumnContext<'_>,
    column: &'c ast::ColumnDef,
) -> SqlResult<Cow<'c, ast::ColumnDef>> {
    let (from, to, kind) = match column.data_type.kind {
        DataTypeKind::VarChar => ("VARCHAR", "TEXT", DataTypeKind::Text),
        DataTypeKind::VarBinary => ("VARBINARY", "BLOB", DataTypeKind::Blob),
        _ => return Ok(Cow::Borrowed(column)),
    };
    let Some(length) = column.data_type.length.filter(|_| !cx.session.is_strict()) else {
        return Ok(Cow::Borrowed(column));
    };
    let collation = if kind == DataTypeKind::Text { text_collation(cx.collation, column)? } else { None };
    let per_char = collation.map_or(1, |c| u64::from(c.charset().max_bytes()));
    if length <= VARIABLE_BYTES_MAX / per_char {
        return Ok(Cow::Borrowed(column));
    }
    cx.session.note(errors::auto_convert(&column.name, from, to));
    let mut column = column.clone();
    column.data_type.kind = kind;
    Ok(Cow::Owned(column))
}

/// Whether a column gets attributes that it does not say: TIMESTAMP without `explicit_defaults_for_timestamp`.
fn is_implicit(session: &Session, ty: &SqlType) -> bool {
    ty.kind == TypeKind::Timestamp && !session.vars.explicit_timestamps
}

/// Gives a TIMESTAMP that is NOT NULL and says no DEFAULT the one that MariaDB gives it without `explicit_defaults_for_timestamp`:
/// the time of the change for the first one of a table, which `before` it has none, zero for others.
pub(super) fn settle_timestamp(
    session: &Session,
    before: &[ColumnDef],
    column: &mut ColumnDef,
) -> SqlResult<()> {
    let says_nothing =
        column.default == ColumnDefault::None && column.generated.is_none() && !column.nullable;
    if !says_nothing || !is_implicit(session, &column.ty) {
        return Ok(());
    }
    if !column.on_update_now && before.iter().all(|c| c.ty.kind != TypeKind::Timestamp) {
        column.default = ColumnDefault::Now;
        column.on_update_now = true;
        return Ok(());
    }
    if session.vars.sql_mode.has(keel_value::SqlMode::NO_ZERO_DATE) {
        return Err(errors::invalid_default(&column.name));
    }
    column.default = ColumnDefault::Value(implicit_default(&column.ty));
    Ok(())
}

fn default_of(
    cx: &mut ColumnContext<'_>,
    column: &ast::ColumnDef,
    ty: &SqlType,
    nullable: bool,
) -> SqlResult<ColumnDefault> {
    let Some(tree) = &column.default else {
        return Ok(if nullable { ColumnDefault::Value(Value::Null) } else { ColumnDefault::None });
    };
    default_value(cx, &column.name, tree, ty, nullable)
}

/// What a DEFAULT clause says for a column.
pub(super) fn default_value(
    cx: &mut ColumnContext<'_>,
    name: &str,
    tree: &Expr,
    ty: &SqlType,
    nullable: bool,
) -> SqlResult<ColumnDefault> {
    if is_now(tree) {
        // One with fewer digits than the column is an expression.
        return Ok(match written_digits(tree).filter(|digits| *digits > 0) {
            Some(digits) if digits < u64::from(ty.decimals) => {
                ColumnDefault::Expression(format!("current_timestamp({digits})"))
            }
            _ => ColumnDefault::Now,
        });
    }
    if let Some(what) = kept::refused(tree, &|_, _| false) {
        return Err(errors::generated_column_function_is_not_allowed(what, "DEFAULT", name));
    }
    if !is_constant(tree) {
        return Ok(default_expression(cx.session, tree));
    }
    let params = ParamSource::default();
    let mut binder = Binder::new(BindContext {
        catalog: cx.catalog,
        session: &*cx.session,
        params,
        assigned: &[],
        counting: None,
    });
    let bound = binder.bind(tree, Clause::Fields)?;
    drop(binder);
    if ty.has_members() && is_number(tree) {
        return Err(errors::invalid_default(name));
    }
    let value = bound.eval(&mut EvalContext::new(cx.session, Frame::EMPTY))?.into_value();
    if value.is_null() {
        return if nullable {
            Ok(ColumnDefault::Value(Value::Null))
        } else {
            Err(errors::invalid_default(name))
        };
    }
    let (value, from) = match as_number(tree).filter(|_| ty.is_numeric() && ty.kind != TypeKind::Bit) {
        Some(number) => (Value::UInt(number), SqlType::bigint().with_unsigned()),
        None => (value, bound.ty),
    };
    // MariaDB converts a text into the character set of CHAR and VARCHAR columns before it stores it, without a warning.
    let is_converted = |ty: &SqlType| ty.is_text() && !ty.is_blob();
    if is_converted(ty) && from.is_text() && lacks(ty, &from, &value) {
        return Err(errors::invalid_default(name));
    }
    let value = stored_default(cx.session, name, ty, &value, from)?;
    Ok(ColumnDefault::Value(padded(ty, value)))
}

/// Whether a column's character set lacks characters of a text.
fn lacks(ty: &SqlType, from: &SqlType, value: &Value) -> bool {
    let (from, to) = (from.collation.charset(), ty.collation.charset());
    matches!(value.as_ref(), ValueRef::Bytes(bytes) if collation::convert(from, to, bytes).1 > 0)
}

/// A value as the column holds it; 1067 where it must be bent for that.
fn stored_default(
    session: &mut Session,
    name: &str,
    ty: &SqlType,
    value: &Value,
    from: SqlType,
) -> SqlResult<Value> {
    // A number is no address either, but none that could not be cast.
    let from =
        if convert::is_foreign(ty, &from) { SqlType::varchar(0, CollationId::UTF8MB4_BIN) } else { from };
    let today = session.base_day();
    let context = session.store_context(false, today);
    let Ok((cell, problem)) = convert::store(ty, &from, value.as_ref(), &context) else {
        return Err(errors::invalid_default(name));
    };
    let value = cell.into_value();
    if let Some(problem) = problem {
        let is_note = problem.is_note();
        if !ty.has_members() && (session.vars.takes_notes() || !is_note) {
            // The table has no name yet, and no row.
            session.push_warning(problem.to_warning(Target { db: "", table: "", column: name, row: 0 }));
        }
        if !is_note {
            return Err(errors::invalid_default(name));
        }
    }
    Ok(value)
}

/// Whether a literal is a number, which names no member.
fn is_number(tree: &Expr) -> bool {
    use ast::LiteralValue::{Bool, Decimal, Float, Int};
    matches!(tree, Expr::Literal(l) if matches!(l.value, Bool(_) | Int(_) | Decimal(_) | Float(_)))
}

/// What `b'101'` and `0x10` are where a number is wanted; `x'10'` is a text there.
fn as_number(tree: &Expr) -> Option<u64> {
    use ast::LiteralValue::{Bit, Hex};
    let Expr::Literal(literal) = tree else { return None };
    match &literal.value {
        Bit { bytes, .. } | Hex { bytes, quoted: false, .. } => Some(bytes_as_number(&bytes.0)),
        _ => None,
    }
}

/// A DEFAULT that is worked out for each row: kept as text.
fn default_expression(session: &Session, tree: &Expr) -> ColumnDefault {
    let tree = generated::rewritten(session, tree);
    let text = generated::printed(session, &tree);
    ColumnDefault::Expression(if stands_alone(&tree) { text } else { format!("({text})") })
}

/// Whether MariaDB shows a DEFAULT without parentheses.
fn stands_alone(tree: &Expr) -> bool {
    use ast::CastType::{Date, DateTime, Other, Time};
    match tree {
        Expr::Cast { to, .. } => matches!(to, Date | Time(_) | DateTime(_) | Other(_)),
        Expr::Function(_)
        | Expr::Sequence(_)
        | Expr::ConvertUsing { .. }
        | Expr::Extract { .. }
        | Expr::Trim { .. }
        | Expr::TimestampDiff { .. }
        | Expr::Char { .. }
        | Expr::Column(_)
        | Expr::UserVar(_)
        | Expr::SysVar(_) => true,
        _ => false,
    }
}

/// 1067 for dates that columns have as defaults from before and that `sql_mode` refuses by now.
pub(super) fn check_kept_defaults<'c>(
    session: &mut Session,
    columns: impl IntoIterator<Item = &'c ColumnDef>,
) -> SqlResult<()> {
    for column in columns {
        let ColumnDefault::Value(value @ (Value::Date(_) | Value::DateTime(_))) = &column.default else {
            continue;
        };
        let mut text = Vec::new();
        match value {
            Value::Date(date) => append_date(&mut text, *date),
            Value::DateTime(moment) if column.ty.kind == TypeKind::Timestamp => {
                let moment = timestamp_to_local(*moment, &*session.vars.time_zone);
                append_datetime(&mut text, moment, column.ty.decimals);
            }
            Value::DateTime(moment) => append_datetime(&mut text, *moment, column.ty.decimals),
            _ => continue,
        }
        let from = SqlType::varchar(text.len() as u32, CollationId::UTF8MB4_BIN);
        stored_default(session, &column.name, &column.ty, &Value::Bytes(text.into()), from)?;
    }
    Ok(())
}

/// Binds the defaults that are expressions over all columns of their table, to refuse what could never be worked out.
pub(super) fn check_defaults(
    session: &mut Session,
    catalog: &Catalog,
    columns: &[ColumnDef],
) -> SqlResult<()> {
    for (place, column) in columns.iter().enumerate() {
        let ColumnDefault::Expression(text) = &column.default else { continue };
        let parsed = keel_sql::parse(format!("DO {text}").as_bytes(), &keel_sql::ParseOptions::default())?;
        let ast::Statement::Do(list) = &parsed.statement else { continue };
        let mut constants = Vec::new();
        let params = ParamSource::default();
        let session = &mut *session;
        let mut binder =
            Binder::new(BindContext { catalog, session: &*session, params, assigned: &[], counting: None });
        binder.of_default = true;
        binder.scope_mut().add_table(scope_of(columns))?;
        for tree in list {
            let bound = match binder.bind(tree, Clause::Fields) {
                Ok(bound) => bound,
                Err(error) if error.code == code::SP_DOES_NOT_EXIST => {
                    let what = kept::unknown_function(&error);
                    return Err(errors::generated_column_function_is_not_allowed(
                        what,
                        "DEFAULT",
                        &*column.name,
                    ));
                }
                // Rows are refused, and sequences opened, before it is worked out.
                Err(error)
                    if matches!(
                        error.code,
                        code::NOT_SUPPORTED_YET | code::OPERAND_COLUMNS | code::NO_SUCH_TABLE
                    ) =>
                {
                    return Err(error);
                }
                Err(error) if error.code == code::NO_DEFAULT_FOR_FIELD => {
                    return Err(errors::not_supported_yet("DEFAULT() in a default"));
                }
                Err(error) => {
                    drop(binder);
                    // What is no call is kept in parentheses.
                    let whole = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
                    return Err(Refusal::unbound(in_default(error), whole.unwrap_or(text)).told(session));
                }
            };
            let mut unset = None;
            keel_expr::walk::for_each_column(&bound, &mut |_, read| {
                let read = read as usize;
                unset = unset.or((read >= place && is_worked_out(&columns[read])).then_some(read));
            });
            if let Some(read) = unset {
                return Err(errors::expr_refers_to_uninit_field(&*column.name, &*columns[read].name));
            }
            if is_always_same(&bound) {
                constants.push(bound);
            }
        }
        let needs = std::mem::take(&mut binder.needs);
        drop(binder);
        rights::needs(session, &catalog.accounts, &needs)?;
        for bound in constants {
            let value = bound.eval(&mut EvalContext::new(session, Frame::EMPTY))?.into_value();
            if !value.is_null() {
                stored_default(session, &column.name, &column.ty, &value, bound.ty)?;
            } else if !column.nullable {
                return Err(errors::invalid_default(&column.name));
            }
        }
    }
    Ok(())
}

/// Whether an expression gives the same at any time to anyone.
fn is_always_same(bound: &keel_expr::Expr) -> bool {
    let mut varies = !bound.is_constant();
    keel_expr::walk::visit(bound, &mut |expr| {
        varies |= match &expr.node {
            Node::Call(function, _) => !function.pure || is_of_statement(function.name),
            Node::UserVar(..) | Node::AssignUserVar(..) | Node::SysVar(..) | Node::Param(_) => true,
            _ => false,
        };
    });
    !varies
}

/// Whether a column's DEFAULT is an expression that needs more than itself.
fn is_worked_out(column: &ColumnDef) -> bool {
    let ColumnDefault::Expression(text) = &column.default else { return false };
    let calls = |pair: &[u8]| pair[0].is_ascii_alphanumeric() && pair[1] == b'(';
    text.contains('`') || text.as_bytes().windows(2).any(calls)
}

fn in_default(error: keel_base::SqlError) -> keel_base::SqlError {
    let message = error.message.replace("'SELECT'", "'DEFAULT'");
    keel_base::SqlError { message: message.into(), ..error }
}

pub(super) fn scope_of(columns: &[ColumnDef]) -> ScopeTable {
    let columns = columns
        .iter()
        .map(|c| ScopeColumn {
            name: c.name.clone(),
            ty: c.ty.clone(),
            nullable: c.nullable,
            invisible: c.invisible,
            derivation: keel_expr::Derivation::Implicit,
        })
        .collect();
    let none: std::sync::Arc<str> = "".into();
    ScopeTable {
        slot: 0,
        schema: none.clone(),
        name: none.clone(),
        alias: none,
        columns,
        def: None,
        outer_joined: false,
        view: keel_planner::bind::ViewPart::None,
        worked_out: Vec::new(),
    }
}

fn is_now(tree: &Expr) -> bool {
    match tree {
        Expr::Function(call) => call.db.is_none() && call.name == "now" && call.args.len() <= 1,
        _ => false,
    }
}

/// The digits that CURRENT_TIMESTAMP(digits) names.
fn written_digits(tree: &Expr) -> Option<u64> {
    match tree {
        Expr::Function(call) => match call.args.first() {
            Some(Expr::Literal(literal)) => match literal.value {
                ast::LiteralValue::Int(digits) => Some(digits),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

fn is_constant(tree: &Expr) -> bool {
    match tree {
        Expr::Literal(_) => true,
        Expr::Unary { op: ast::UnaryOp::Minus, expr } => matches!(**expr, Expr::Literal(_)),
        _ => false,
    }
}

/// What rows that exist already show in a column added to their table, where that is one value.
pub(super) fn value_for_old_rows(session: &mut Session, column: &ColumnDef) -> SqlResult<Value> {
    Ok(match &column.default {
        ColumnDefault::Value(value) => value.clone(),
        ColumnDefault::Now => {
            let now =
                if column.ty.kind == TypeKind::Timestamp { session.now_utc() } else { session.now_local() };
            let from = SqlType::temporal(TypeKind::DateTime, 6);
            let today = now.date;
            let utc = keel_value::temporal::Utc;
            let mut context = session.store_context(false, today);
            context.zone = &utc;
            match convert::store(&column.ty, &from, ValueRef::DateTime(now), &context) {
                Ok((cell, _)) => cell.into_value(),
                Err(_) => Value::Null,
            }
        }
        // Worked out for each row by the code that copies them.
        ColumnDefault::Expression(_) => Value::Null,
        ColumnDefault::None => implicit_default(&column.ty),
    })
}
