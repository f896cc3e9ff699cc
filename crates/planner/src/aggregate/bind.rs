//! Binding of aggregate calls: which function, arguments, type.

use std::sync::OnceLock;

use keel_base::{SqlResult, errors};
use keel_exec::aggregate::{AggregateCall, AggregateKind};
use keel_exec::select::stored_type;
use keel_expr::{Derivation, Expr, Node, typing, walk};
use keel_sql::ast::walk::Part;
use keel_sql::ast::{self, ByteStr, FunctionCall, LiteralValue};
use keel_value::key::KeyPart;
use keel_value::types::{Class, Format, NOT_FIXED};
use keel_value::{CollationId, SqlType, TypeKind};

use crate::bind::Binder;

/// Whether a call is one of an aggregate.
pub fn is_aggregate(call: &FunctionCall) -> bool {
    kind_of(call).is_some()
}

/// Whether an expression calls an aggregate outside the queries within it.
pub fn has_aggregate(tree: &ast::Expr) -> bool {
    let mut found = matches!(tree, ast::Expr::Function(call) if call.over.is_none() && is_aggregate(call));
    tree.each_part(&mut |part| {
        found = found || matches!(part, Part::Expr(expr) if has_aggregate(expr));
    });
    found
}

/// The aggregate of a function's name.
fn kind_of(call: &FunctionCall) -> Option<AggregateKind> {
    Some(match call.name.as_str() {
        "count" if call.star => AggregateKind::CountStar,
        "count" => AggregateKind::Count,
        "sum" => AggregateKind::Sum,
        "avg" => AggregateKind::Avg,
        "min" => AggregateKind::Min,
        "max" => AggregateKind::Max,
        "group_concat" => AggregateKind::GroupConcat,
        "json_arrayagg" => AggregateKind::JsonArray,
        "json_objectagg" => AggregateKind::JsonObject,
        "bit_and" => AggregateKind::BitAnd,
        "bit_or" => AggregateKind::BitOr,
        "bit_xor" => AggregateKind::BitXor,
        "std" => AggregateKind::StdPop,
        "stddev_samp" => AggregateKind::StdSamp,
        "variance" => AggregateKind::VarPop,
        "var_samp" => AggregateKind::VarSamp,
        _ => return None,
    })
}

/// GROUP_CONCAT of more characters is described as a BLOB.
const VARCHAR_CHARS_MAX: u64 = 512;

/// Digits that a sum has more than what is summed.
const SUM_DIGITS: u32 = 22;

impl Binder<'_> {
    /// An aggregate call; None if the function is none.
    pub(crate) fn aggregate(&mut self, call: &FunctionCall) -> SqlResult<Option<Expr>> {
        let Some(kind) = kind_of(call) else { return Ok(None) };
        let reads = self.reads_so_far();
        let nested = std::mem::replace(&mut self.in_aggregate, true);
        let bound = self.bind_aggregate(kind, call);
        self.in_aggregate = nested;
        let bound = bound?;
        match self.home(&bound)? {
            0 => Ok(Some(self.keep_aggregate(bound))),
            level => {
                if self.resolved.is_some() {
                    let home = self.scopes.len() - 1 - level;
                    self.note_outer(std::ptr::from_ref(call) as usize, home, call.name.clone(), true);
                }
                self.forget_reads(reads);
                self.outwards(level, |binder| binder.bind_aggregate(kind, call)).map(Some)
            }
        }
    }

    /// An aggregate over a window; None if the function is none. Its arguments may be aggregates of groups.
    pub(crate) fn window_aggregate(&mut self, call: &FunctionCall) -> SqlResult<Option<AggregateCall>> {
        let Some(kind) = kind_of(call) else { return Ok(None) };
        let refused = match kind {
            AggregateKind::GroupConcat | AggregateKind::JsonArray | AggregateKind::JsonObject => "",
            AggregateKind::Count | AggregateKind::Sum | AggregateKind::Avg if call.distinct => "DISTINCT",
            _ => return self.bind_aggregate(kind, call).map(Some),
        };
        let name = call.name.to_uppercase();
        Err(errors::not_supported_yet(format!("{name}({refused}) aggregate as window function")))
    }

    fn bind_aggregate(&mut self, kind: AggregateKind, call: &FunctionCall) -> SqlResult<AggregateCall> {
        if kind == AggregateKind::JsonArray && call.args.len() != 1 {
            return Err(errors::wrong_paramcount_to_native_fct("JSON_ARRAYAGG"));
        }
        let args = call.args.iter().map(|a| self.scalar(a)).collect::<SqlResult<Vec<_>>>();
        let order = call
            .order_by
            .iter()
            .map(|item| Ok((self.aggregate_order(&item.expr, &call.args)?, item.desc)))
            .collect::<SqlResult<Vec<_>>>();
        let (mut args, order) = (args?, order?);
        for arg in &mut args {
            self.hoist(arg);
        }
        let limit = match &call.limit {
            Some(limit) => Some((
                constant(limit.offset.as_ref())?.unwrap_or(0),
                constant(limit.count.as_ref())?.unwrap_or(u64::MAX),
            )),
            None => None,
        };
        let (ty, nullable) = self.aggregate_type(kind, call.distinct, &mut args)?;
        if call.distinct || !order.is_empty() {
            // Such rows are numbers by the time that they are joined.
            let bits = args.iter_mut().filter(|arg| arg.ty.kind == TypeKind::Bit);
            bits.for_each(|arg| arg.ty.format = Format::Digits);
        }
        // A set knows nothing of duplicates where they change nothing.
        let distinct = call.distinct && !matches!(kind, AggregateKind::Min | AggregateKind::Max);
        let default = if kind == AggregateKind::JsonObject { ", " } else { "," };
        let separator = call.separator.clone().unwrap_or_else(|| ByteStr::from(default));
        let parts = args.iter().map(|a| KeyPart::new(stored_type(&a.ty), true)).collect();
        Ok(AggregateCall {
            kind,
            distinct,
            args,
            parts,
            order,
            separator,
            limit,
            ty,
            nullable,
            aside: OnceLock::new(),
        })
    }

    /// ORDER BY inside GROUP_CONCAT: an ordinal names an argument.
    fn aggregate_order(&mut self, tree: &ast::Expr, args: &[ast::Expr]) -> SqlResult<Expr> {
        if let ast::Expr::Literal(ast::Literal { value: LiteralValue::Int(n), .. }) = tree {
            let index = (*n as usize).checked_sub(1).filter(|i| *i < args.len());
            return match index {
                Some(i) => self.scalar(&args[i]),
                None => Err(errors::bad_field(n, "ORDER BY")),
            };
        }
        self.scalar(tree)
    }

    /// The expression of an aggregate: the one met before, if it is the same.
    pub(super) fn keep_aggregate(&mut self, call: AggregateCall) -> Expr {
        let derivation = match (call.kind, call.args.as_slice()) {
            _ if !call.ty.is_string() => Derivation::Numeric,
            (AggregateKind::Min | AggregateKind::Max | AggregateKind::AnyValue, [of])
                if of.ty.is_string() =>
            {
                of.derivation
            }
            (AggregateKind::GroupConcat | AggregateKind::JsonArray | AggregateKind::JsonObject, args) => {
                let connection = self.cx.session.vars.connection_collation;
                let all: Vec<&Expr> = args.iter().collect();
                typing::text_collation(&all, connection, "").map_or(Derivation::Implicit, |found| found.1)
            }
            _ => Derivation::Implicit,
        };
        let (ty, nullable) = (call.ty.clone(), call.nullable);
        // Each call warns of its own about texts that are no numbers.
        let known = match warns_of_texts(&call) {
            true => None,
            false => self.scope().aggregates.iter().position(|other| same_call(other, &call)),
        };
        let index = known.unwrap_or_else(|| {
            let scope = self.scope_mut();
            scope.aggregates.push(call);
            scope.aggregates.len() - 1
        });
        Expr { node: Node::Aggregate(index as u32), ty, nullable, derivation }
    }

    fn aggregate_type(
        &self,
        kind: AggregateKind,
        distinct: bool,
        args: &mut [Expr],
    ) -> SqlResult<(SqlType, bool)> {
        if let (Some(name), Some(arg)) = (numeric_name(kind, distinct), args.first()) {
            typing::refuse_fixed(arg, name)?;
        }
        let increment = u32::from(self.cx.session.vars.div_precision_increment);
        let connection = self.cx.session.vars.connection_collation;
        Ok(match kind {
            AggregateKind::CountStar | AggregateKind::Count => (SqlType::bigint().with_length(21), false),
            AggregateKind::BitAnd | AggregateKind::BitOr | AggregateKind::BitXor => {
                (typing::bits_type(), false)
            }
            AggregateKind::Sum => {
                let arg = &args[0];
                let ty = match arg.class() {
                    Class::Real | Class::String => typing::real_type(fixed_decimals(arg)),
                    Class::Null => typing::real_type(0),
                    _ => {
                        let scale = typing::scale(arg);
                        typing::decimal_type(typing::precision(arg) + SUM_DIGITS, scale, false)
                    }
                };
                (ty, true)
            }
            AggregateKind::Avg => {
                let arg = &args[0];
                let ty = match arg.class() {
                    Class::Real | Class::String | Class::Null => {
                        let decimals = fixed_decimals(arg);
                        let decimals = (decimals + increment as u8).min(NOT_FIXED);
                        let ty = typing::real_type(decimals);
                        // MariaDB counts the bytes of a text.
                        let shown = match arg.class() {
                            Class::String => u32::try_from(typing::text_octets(arg)).unwrap_or(u32::MAX),
                            _ => typing::display_length(arg),
                        };
                        let length = ty.length.min(shown.saturating_add(increment));
                        ty.with_length(length)
                    }
                    _ => {
                        let scale = typing::scale(arg) + increment;
                        typing::decimal_type(typing::precision(arg) + increment, scale, false)
                    }
                };
                (ty, true)
            }
            AggregateKind::Min | AggregateKind::Max | AggregateKind::AnyValue => {
                let (arg, name) = (&args[0], if kind == AggregateKind::Min { "min(" } else { "max(" });
                if arg.class() == Class::String && kind != AggregateKind::AnyValue {
                    let connection = self.cx.session.vars.connection_collation;
                    typing::compared_collation(&[arg, arg], connection, name)?;
                }
                (min_max_type(arg), true)
            }
            AggregateKind::StdPop
            | AggregateKind::StdSamp
            | AggregateKind::VarPop
            | AggregateKind::VarSamp => {
                let arg = &args[0];
                let ty = match arg.class() {
                    Class::Int | Class::Decimal | Class::Date | Class::Time | Class::DateTime => {
                        // The digits of a square, a sign and a point.
                        let scale = typing::scale(arg) + increment;
                        let length = typing::precision(arg) * 2 + increment + 1 + u32::from(scale > 0);
                        SqlType::double().with_length(length).with_decimals(scale.min(30) as u8)
                    }
                    _ => match fixed_decimals(arg) {
                        31.. => typing::real_type(31),
                        decimals => {
                            let more = (decimals + SPREAD_DECIMALS).min(NOT_FIXED);
                            typing::real_type(decimals).with_decimals(more)
                        }
                    },
                };
                (ty, true)
            }
            AggregateKind::JsonArray | AggregateKind::JsonObject => {
                let count = args.len();
                let collation = keel_expr::func::unify(self.cx.session, args, 0..count, "json_arrayagg")?;
                let brackets = if kind == AggregateKind::JsonArray { 2 } else { 0 };
                (self.joined_type(collation, brackets).with_format(Format::Json), true)
            }
            AggregateKind::GroupConcat => {
                let all: Vec<&Expr> = args.iter().collect();
                let (collation, _) = typing::text_collation(&all, connection, "group_concat")?;
                (self.joined_type(collation, 0), true)
            }
        })
    }

    /// Text of `group_concat_max_len` characters, and so many octets more.
    fn joined_type(&self, collation: CollationId, more: u64) -> SqlType {
        let chars = self.cx.session.vars.group_concat_max_len;
        let per_char = u64::from(collation.charset().max_bytes());
        let octets = chars.saturating_mul(per_char).saturating_add(more);
        if chars <= VARCHAR_CHARS_MAX {
            return typing::string_type(octets / per_char, collation).with_decimals(0);
        }
        let kind = if collation == CollationId::BINARY { TypeKind::Blob } else { TypeKind::Text };
        let ty = SqlType::new(kind).with_length(u32::try_from(octets).unwrap_or(u32::MAX));
        ty.with_collation(collation)
    }
}

/// What messages call an aggregate of numbers.
fn numeric_name(kind: AggregateKind, distinct: bool) -> Option<&'static str> {
    Some(match kind {
        AggregateKind::Sum if distinct => "sum(distinct ",
        AggregateKind::Avg if distinct => "avg(distinct ",
        AggregateKind::Sum => "sum(",
        AggregateKind::Avg => "avg(",
        AggregateKind::StdPop => "std(",
        AggregateKind::StdSamp => "stddev_samp(",
        AggregateKind::VarPop => "variance(",
        AggregateKind::VarSamp => "var_samp(",
        AggregateKind::BitAnd => "bit_and(",
        AggregateKind::BitOr => "bit_or(",
        AggregateKind::BitXor => "bit_xor(",
        _ => return None,
    })
}

/// Digits that a deviation of doubles has behind the point beyond those of its argument, whatever `div_precision_increment` is.
const SPREAD_DECIMALS: u8 = 4;

fn fixed_decimals(arg: &Expr) -> u8 {
    match arg.class() {
        Class::Null => 0,
        Class::Real => arg.ty.decimals.min(31),
        Class::String if arg.ty.has_members() => 0,
        _ => 31,
    }
}

/// The type of a value that is one of those of an expression. That of a column keeps the column's type.
pub fn min_max_type(arg: &Expr) -> SqlType {
    let is_column = arg.as_any_column().is_some() || matches!(arg.node, Node::Outer { .. });
    match arg.class() {
        Class::Null => SqlType::varbinary(0),
        Class::String if !arg.ty.has_members() && !is_column => typing::kept_text(arg),
        Class::String if !arg.ty.has_members() => arg.ty.clone().with_decimals(typing::STRING_DECIMALS),
        _ => arg.ty.clone(),
    }
}

fn constant(tree: Option<&ast::Expr>) -> SqlResult<Option<u64>> {
    match tree {
        None => Ok(None),
        Some(ast::Expr::Literal(ast::Literal { value: LiteralValue::Int(n), .. })) => Ok(Some(*n)),
        Some(_) => Err(errors::not_supported_yet("parameters in LIMIT of GROUP_CONCAT")),
    }
}

/// Whether the aggregate reads texts as numbers.
fn warns_of_texts(call: &AggregateCall) -> bool {
    let reads_numbers = matches!(
        call.kind,
        AggregateKind::Sum
            | AggregateKind::Avg
            | AggregateKind::StdPop
            | AggregateKind::StdSamp
            | AggregateKind::VarPop
            | AggregateKind::VarSamp
            | AggregateKind::BitAnd
            | AggregateKind::BitOr
            | AggregateKind::BitXor
    );
    reads_numbers && call.args.iter().any(|arg| arg.ty.is_string())
}

fn same_call(a: &AggregateCall, b: &AggregateCall) -> bool {
    a.kind == b.kind
        && a.distinct == b.distinct
        && a.separator == b.separator
        && a.limit == b.limit
        && a.args.len() == b.args.len()
        && a.order.len() == b.order.len()
        && a.args.iter().zip(&b.args).all(|(x, y)| walk::same(x, y))
        && a.order.iter().zip(&b.order).all(|(x, y)| x.1 == y.1 && walk::same(&x.0, &y.0))
}
