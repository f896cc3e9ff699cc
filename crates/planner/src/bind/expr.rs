//! Operators: trees of the statement to typed expressions.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, errors};
use keel_catalog::ColumnDefault;
use keel_context::stack::with_room;
use keel_expr::func::numeric::is_extreme_of_texts;
use keel_expr::func::{self, json, pattern};
use keel_expr::typing::{self, STRING_DECIMALS};
use keel_expr::{ArithOp, BitOp, CompareOp, Comparison, Derivation, Expr, Node, TruthTest, compare};
use keel_sql::ast::{self, BinaryOp, CastType, IsTest, LiteralValue, UnaryOp};
use keel_storage::runtime::fiber;
use keel_value::collation::{self, Charset};
use keel_value::types::Class;
use keel_value::{CollationId, Decimal, FixedKind, SqlType, TypeKind, Value, convert};

use super::Binder;

/// CASE's operand before it is compared: what JSON_EXTRACT found keeps its quotes there.
fn case_operand(value: &Expr, when: &Expr) -> Expr {
    let plain = value.clone();
    if !json::is_extracted(value) || when.class() != Class::String {
        return plain;
    }
    let (ty, nullable, derivation) = (plain.ty.clone(), plain.nullable, plain.derivation);
    Expr { node: Node::Collate(Box::new(plain)), ty, nullable, derivation }
}

/// A text of a wide character set in UTF-8.
fn narrowed(bound: Expr) -> Expr {
    if bound.ty.collation.charset().is_wide() && bound.ty.is_text() {
        return typing::to_charset(bound, CollationId::UTF8MB4_GENERAL_CI);
    }
    bound
}

/// Stack that is left to what runs on a bound expression, and to binding one operand without operands of its own.
const STACK_MIN: usize = 20 << 10;
/// Width of rows that are put in order by a chain of comparisons, one within the other.
const ORDERED_CHAIN_MAX: usize = 16;

fn arithmetic_op(op: BinaryOp) -> Option<ArithOp> {
    Some(match op {
        BinaryOp::Add => ArithOp::Add,
        BinaryOp::Sub => ArithOp::Sub,
        BinaryOp::Mul => ArithOp::Mul,
        BinaryOp::Div => ArithOp::Div,
        BinaryOp::IntDiv => ArithOp::IntDiv,
        BinaryOp::Mod => ArithOp::Mod,
        _ => return None,
    })
}

impl Binder<'_> {
    /// Any expression, rows included. What goes deep goes through here, so its frame is kept small, and the stack is looked at.
    pub(super) fn expr(&mut self, tree: &ast::Expr) -> SqlResult<Expr> {
        with_room(STACK_MIN, || self.expr_here(tree))
    }

    fn expr_here(&mut self, tree: &ast::Expr) -> SqlResult<Expr> {
        fiber::tick();
        match tree {
            ast::Expr::Binary { op, left, right } => match arithmetic_op(*op) {
                Some(op) => self.arithmetic(op, left, right),
                None => self.binary(*op, left, right),
            },
            tree => self.other(tree).map(narrowed),
        }
    }

    /// An argument of what looks at the bytes of texts: those of wide character sets stay as they are. Everything else
    /// gets such texts in UTF-8.
    pub(super) fn octets_argument(&mut self, tree: &ast::Expr) -> SqlResult<Expr> {
        match tree {
            ast::Expr::ConvertUsing { .. } | ast::Expr::Cast { .. } | ast::Expr::Literal(_) => {
                self.other(tree)
            }
            ast::Expr::Function(_) | ast::Expr::Char { .. } => self.other(tree),
            _ => self.scalar(tree),
        }
    }

    /// What is no binary operator.
    #[inline(never)]
    fn other(&mut self, tree: &ast::Expr) -> SqlResult<Expr> {
        use ast::Expr as T;
        match tree {
            T::Literal(literal) => self.literal(literal),
            T::Param(index) => Ok(self.parameter(*index)),
            T::Column(name) => self.column(name),
            T::UserVar(_) | T::AssignUserVar { .. } | T::SysVar(_) if self.whole_names.is_some() => {
                Err(errors::view_select_variable())
            }
            T::UserVar(name) => Ok(self.user_variable(name)),
            T::AssignUserVar { name, value } => {
                let value = self.scalar(value)?;
                let (ty, nullable, derivation) =
                    (typing::assigned_type(&value), value.nullable, value.derivation);
                let name: Arc<str> = name.to_lowercase().into();
                self.saw_volatile = true;
                self.assigned.push(name.clone());
                let node = Node::AssignUserVar(name, Box::new(value));
                Ok(Expr { node, ty, nullable, derivation })
            }
            T::SysVar(variable) => self.system_variable(variable),
            T::Sequence(call) => self.sequence(call),
            T::Unary { op, expr } => self.unary(*op, expr),
            T::Binary { .. } => unreachable!("taken by the caller"),
            T::Is { test, negated, expr } => {
                let value = Box::new(self.scalar(expr)?);
                let negated = *negated;
                Ok(Expr::boolean(
                    match test {
                        IsTest::Null => Node::IsNull { negated, value },
                        IsTest::True => Node::IsTruth { negated, test: TruthTest::True, value },
                        IsTest::False => Node::IsTruth { negated, test: TruthTest::False, value },
                        IsTest::Unknown => Node::IsTruth { negated, test: TruthTest::Unknown, value },
                    },
                    false,
                ))
            }
            T::Between { negated, expr, low, high } => self.between(*negated, expr, low, high),
            T::InList { negated, expr, list } => self.in_list(*negated, expr, list),
            T::InSubquery { negated, expr, query } => self.in_subquery(*negated, expr, query),
            T::Quantified { op, all, left, query } => self.quantified(*op, *all, left, query),
            T::Exists(query) => self.exists(query),
            T::Subquery(query) => self.scalar_subquery(query),
            T::Like { negated, expr, pattern, escape } => {
                self.like(*negated, expr, pattern, escape.as_deref())
            }
            T::Regexp { negated, expr, pattern } => {
                let args = vec![self.scalar(expr)?, self.scalar(pattern)?];
                let call = self.named_call("regexp", args)?;
                Ok(if *negated { not(call) } else { call })
            }
            T::Case { operand, whens, otherwise } => {
                self.case(operand.as_deref(), whens, otherwise.as_deref())
            }
            T::Cast { expr, to } => {
                let value = match to {
                    CastType::Binary(_) => self.octets_argument(expr)?,
                    _ => self.scalar(expr)?,
                };
                self.cast(value, to)
            }
            T::ConvertUsing { expr, charset } => {
                let to =
                    Charset::in_expressions(charset).ok_or_else(|| errors::unknown_character_set(charset))?;
                let value = match to {
                    Charset::Binary => self.octets_argument(expr)?,
                    _ => self.scalar(expr)?,
                };
                let ty = typing::string_type(u64::from(typing::text_chars(&value)), to.default_collation());
                let nullable = value.nullable || self.cx.session.is_strict();
                Ok(Expr {
                    node: Node::Convert(Box::new(value)),
                    ty,
                    nullable,
                    derivation: Derivation::Implicit,
                })
            }
            T::Collate { expr, collation } => self.collate(expr, collation),
            T::DateArithmetic { expr, amount, unit, subtract } => {
                let (date, amount) = (self.scalar(expr)?, self.scalar(amount)?);
                self.date_arithmetic(date, amount, *unit, *subtract)
            }
            T::TimestampAdd { unit, amount, expr } => {
                let (date, amount) = (self.scalar(expr)?, self.scalar(amount)?);
                self.date_arithmetic(date, amount, *unit, false)
            }
            T::Function(call) => self.call(call),
            T::Extract { unit, expr } => self.extract(*unit, expr),
            T::TimestampDiff { unit, from, to } => self.timestamp_diff(*unit, from, to),
            T::Trim { side, what, expr, oracle } => self.trim((*side, *oracle), what.as_deref(), expr),
            T::Char { args, charset } => self.char_function(args, charset.as_deref()),
            T::Match { .. } => Err(errors::not_supported_yet("MATCH ... AGAINST")),
            T::Row(parts) => {
                let parts = parts.iter().map(|p| self.expr(p)).collect::<SqlResult<Vec<_>>>()?;
                Ok(Expr::new(Node::Row(parts), SqlType::null(), true))
            }
            T::Default(Some(name)) => self.default_of(name),
            T::Default(None) | T::Ignore => {
                Err(errors::not_supported_yet("DEFAULT or IGNORE within an expression"))
            }
            T::Values(name) => self.values_of(name),
        }
    }

    /// An expression that must be one value.
    pub(crate) fn scalar(&mut self, tree: &ast::Expr) -> SqlResult<Expr> {
        let bound = self.expr(tree)?;
        match bound.node {
            Node::Row(_) => Err(errors::operand_columns(1)),
            _ => Ok(bound),
        }
    }

    fn parameter(&mut self, index: u32) -> Expr {
        let ty = self.cx.params.types.get(index as usize).cloned().unwrap_or_else(SqlType::null);
        let derivation = if ty.is_string() { Derivation::Coercible } else { Derivation::Numeric };
        Expr { node: Node::Param(index), ty, nullable: true, derivation }
    }

    /// The value of a parameter, NULL before it has one. The plan is made for this value.
    pub(crate) fn held_parameter(&mut self, index: u32) -> Value {
        self.cacheable = false;
        let Some(value) = self.cx.params.values.get(index as usize) else { return Value::Null };
        self.held.push((index, value.clone()));
        value.clone()
    }

    fn user_variable(&mut self, name: &str) -> Expr {
        self.cacheable = false;
        let name = name.to_lowercase();
        let connection = self.cx.session.vars.connection_collation;
        let long = |kind| SqlType::new(kind).with_length(USER_VARIABLE_OCTETS).with_decimals(STRING_DECIMALS);
        if let Some((loaded, collation)) = &self.loaded
            && loaded.iter().any(|loaded| **loaded == *name)
        {
            let ty = long(TypeKind::LongText).with_collation(*collation);
            self.saw_volatile = true;
            let node = Node::UserVar(name.into(), true);
            return Expr { node, ty, nullable: true, derivation: Derivation::Implicit };
        }
        let ty = match self.cx.session.user_variables.get(&name) {
            Some(variable) => match variable.ty.class() {
                Class::Int => {
                    let unsigned = variable.ty.unsigned || variable.ty.kind == TypeKind::Bit;
                    SqlType { unsigned, ..SqlType::bigint() }
                }
                Class::Decimal => SqlType::decimal(65, variable.ty.decimals),
                Class::Real => SqlType::double().with_length(23),
                Class::String if variable.ty.collation == CollationId::BINARY => long(TypeKind::LongBlob),
                Class::String if variable.ty.is_string() => {
                    long(TypeKind::LongText).with_collation(variable.ty.collation)
                }
                Class::Null => long(TypeKind::LongBlob),
                _ => long(TypeKind::LongText).with_collation(connection),
            },
            None => long(TypeKind::LongBlob).with_length(USER_VARIABLE_OCTETS + 1),
        };
        let derivation = if ty.is_string() { Derivation::Implicit } else { Derivation::Numeric };
        let varies = self.cx.assigned.iter().any(|assigned| **assigned == *name);
        self.saw_volatile |= varies;
        Expr { node: Node::UserVar(name.into(), varies), ty, nullable: true, derivation }
    }

    fn system_variable(&mut self, variable: &ast::SysVar) -> SqlResult<Expr> {
        let mut name = variable.name.to_lowercase();
        if let Some(instance) = &variable.instance {
            name = format!("{instance}.{name}");
        }
        let value = self.cx.session.host.system_variable(self.cx.session, variable.scope, &name)?;
        let ty = match &value {
            Value::Int(v) if (0..=1).contains(v) => SqlType::bigint().with_length(1),
            Value::Int(_) => SqlType::bigint().with_length(21),
            Value::UInt(_) => typing::bits_type(),
            Value::Double(_) => SqlType::double().with_length(21).with_decimals(6),
            Value::Decimal(d) => SqlType::decimal(d.precision(), d.scale()),
            Value::Bytes(text) => {
                let collation = CollationId::UTF8MB3_GENERAL_CI;
                SqlType::varchar(text.len() as u32, collation).with_decimals(STRING_DECIMALS)
            }
            _ => SqlType::varchar(0, CollationId::UTF8MB3_GENERAL_CI).with_decimals(STRING_DECIMALS),
        };
        let derivation = if ty.is_string() { Derivation::System } else { Derivation::Numeric };
        Ok(Expr { node: Node::SysVar(variable.scope, name.into()), ty, nullable: true, derivation })
    }

    fn unary(&mut self, op: UnaryOp, tree: &ast::Expr) -> SqlResult<Expr> {
        if let (UnaryOp::Minus, ast::Expr::Literal(literal)) = (op, tree)
            && let LiteralValue::Int(digits) = literal.value
            && digits > i64::MIN.unsigned_abs()
        {
            // No integer goes so low.
            self.pin(literal);
            let value = Decimal::from_parts(true, u128::from(digits), 0);
            let precision = digits.ilog10() + 1;
            return Ok(Expr::constant(Value::Decimal(value), SqlType::decimal(precision, 0)));
        }
        let value = match op {
            UnaryOp::BitNot => self.expr(tree)?,
            _ => self.scalar(tree)?,
        };
        refuse_row(&value, "~")?;
        match op {
            UnaryOp::Not => {
                typing::refuse_condition(&value, "int", "=")?;
                Ok(not(value))
            }
            UnaryOp::BitNot => {
                typing::refuse_fixed(&value, "~")?;
                let nullable = value.nullable;
                let value = as_number(value);
                Ok(Expr::new(Node::BitNot(Box::new(value)), typing::bits_type(), nullable))
            }
            UnaryOp::Minus => {
                typing::refuse_fixed(&value, "-")?;
                Ok(negate(as_number(value)))
            }
        }
    }

    #[inline(never)]
    fn binary(&mut self, op: BinaryOp, left: &ast::Expr, right: &ast::Expr) -> SqlResult<Expr> {
        if let Some(op) = CompareOp::of(op) {
            if let Some(test) = self.row_subquery(op, left, right)? {
                return Ok(test);
            }
            if let (ast::Expr::Row(l), ast::Expr::Row(r)) = (left, right)
                && let Some(test) = self.rows_with_queries(op, l, r)?
            {
                return Ok(test);
            }
            let (l, r) = (self.expr(left)?, self.expr(right)?);
            return self.compare(op, l, r);
        }
        match op {
            BinaryOp::And | BinaryOp::Or => self.logical(op, left, right),
            BinaryOp::Xor => {
                let (l, r) = (self.scalar(left)?, self.scalar(right)?);
                let nullable = l.nullable || r.nullable;
                Ok(Expr::boolean(Node::Xor(Box::new(l), Box::new(r)), nullable))
            }
            BinaryOp::Concat => {
                let args = vec![self.scalar(left)?, self.scalar(right)?];
                self.named_call("concat", args)
            }
            BinaryOp::SoundsLike => {
                let l = self.scalar(left)?;
                let r = self.scalar(right)?;
                let (l, r) = (self.named_call("soundex", vec![l])?, self.named_call("soundex", vec![r])?);
                self.compare(CompareOp::Eq, l, r)
            }
            BinaryOp::BitOr => self.bit_operation(BitOp::Or, left, right),
            BinaryOp::BitAnd => self.bit_operation(BitOp::And, left, right),
            BinaryOp::BitXor => self.bit_operation(BitOp::Xor, left, right),
            BinaryOp::ShiftLeft => self.bit_operation(BitOp::ShiftLeft, left, right),
            BinaryOp::ShiftRight => self.bit_operation(BitOp::ShiftRight, left, right),
            _ => unreachable!("comparisons were taken above, arithmetic by the caller"),
        }
    }

    fn logical(&mut self, op: BinaryOp, left: &ast::Expr, right: &ast::Expr) -> SqlResult<Expr> {
        let mut parts = Vec::new();
        let mut nullable = false;
        for side in [left, right] {
            let bound = self.scalar(side)?;
            typing::refuse_condition(&bound, "int", "<>")?;
            nullable |= bound.nullable;
            match (op, bound) {
                (BinaryOp::And, Expr { node: Node::And(inner), .. })
                | (BinaryOp::Or, Expr { node: Node::Or(inner), .. }) => parts.extend(inner),
                (_, other) => parts.push(other),
            }
        }
        let node = if op == BinaryOp::And { Node::And(parts) } else { Node::Or(parts) };
        Ok(Expr::boolean(node, nullable))
    }

    fn bit_operation(&mut self, op: BitOp, left: &ast::Expr, right: &ast::Expr) -> SqlResult<Expr> {
        let (l, r) = (self.expr(left)?, self.expr(right)?);
        for operand in [&l, &r] {
            refuse_row(operand, op.symbol())?;
        }
        let (l, r) = (as_number(l), as_number(r));
        for operand in [&l, &r] {
            typing::refuse_fixed(operand, op.symbol())?;
        }
        let nullable = l.nullable || r.nullable;
        Ok(Expr::new(Node::Bits(op, Box::new(l), Box::new(r)), typing::bits_type(), nullable))
    }

    #[inline(never)]
    fn arithmetic(&mut self, op: ArithOp, left: &ast::Expr, right: &ast::Expr) -> SqlResult<Expr> {
        let before = std::mem::replace(&mut self.pins_decimals, true);
        let operands = self.expr(left).and_then(|l| Ok((l, self.expr(right)?)));
        self.pins_decimals = before;
        let (l, r) = operands?;
        if matches!(l.node, Node::Row(_)) || matches!(r.node, Node::Row(_)) {
            return Err(row_in_arithmetic(&l, op, &r));
        }
        if l.ty.is_fixed() || r.ty.is_fixed() {
            let (l, r) = (convert::type_name(&l.ty), convert::type_name(&r.ty));
            return Err(illegal_types(l, r, op.symbol()));
        }
        Ok(self.arithmetic_of(op, l, r))
    }

    /// `left op right` over bound operands.
    #[inline(never)]
    pub(crate) fn arithmetic_of(&self, op: ArithOp, left: Expr, right: Expr) -> Expr {
        let (l, r) = (as_number(left), as_number(right));
        let vars = &self.cx.session.vars;
        let (ty, nullable) = typing::arithmetic(op, &l, &r, vars.sql_mode, vars.div_precision_increment);
        Expr {
            node: Node::Arith(op, Box::new(l), Box::new(r)),
            ty,
            nullable,
            derivation: Derivation::Numeric,
        }
    }

    /// A comparison of two scalars or two rows.
    pub(crate) fn compare(&mut self, op: CompareOp, left: Expr, right: Expr) -> SqlResult<Expr> {
        match (left.node, right.node) {
            (Node::Row(l), Node::Row(r)) => self.compare_rows(op, l, r),
            (Node::Row(_), _) => Err(illegal_types("row".into(), type_word(&right.ty), op.symbol())),
            (_, Node::Row(_)) => Err(illegal_types(type_word(&left.ty), "row".into(), op.symbol())),
            (l, r) => {
                let left = Expr { node: l, ..left };
                let right = Expr { node: r, ..right };
                self.compare_scalars(op, left, right)
            }
        }
    }

    fn compare_scalars(&mut self, op: CompareOp, left: Expr, right: Expr) -> SqlResult<Expr> {
        let nullable = op != CompareOp::NullSafeEq && (left.nullable || right.nullable);
        let mut sides = vec![left, right];
        if sides.iter().all(|side| side.class() == Class::String)
            && let Some(side) = sides.iter_mut().find(|side| json::is_extracted(side))
        {
            let taken = std::mem::replace(side, Expr::null());
            *side = json::unquoted(taken);
        }
        let by = self.common_domain(&mut sides, op.symbol())?;
        let right = sides.pop().expect("two sides");
        let left = sides.pop().expect("two sides");
        // Constants stand on the right, so that later stages look there only.
        let swap = matches!(left.node, Node::Constant(_) | Node::Param(_)) && !right.is_constant();
        let (op, left, right) = if swap { (op.swapped(), right, left) } else { (op, left, right) };
        Ok(Expr::boolean(Node::Compare { op, by, left: Box::new(left), right: Box::new(right) }, nullable))
    }

    fn compare_rows(&mut self, op: CompareOp, left: Vec<Expr>, right: Vec<Expr>) -> SqlResult<Expr> {
        if left.len() != right.len() {
            return Err(errors::operand_columns(left.len()));
        }
        let pairs: Vec<(Expr, Expr)> = left.into_iter().zip(right).collect();
        match op {
            CompareOp::Eq | CompareOp::NullSafeEq | CompareOp::Ne => {
                let parts = pairs
                    .into_iter()
                    .map(|(l, r)| self.compare_parts(op, l, r))
                    .collect::<SqlResult<Vec<_>>>()?;
                let nullable = parts.iter().any(|p| p.nullable);
                let node = if op == CompareOp::Ne { Node::Or(parts) } else { Node::And(parts) };
                Ok(Expr::boolean(node, nullable))
            }
            _ => self.order_rows(op, pairs),
        }
    }

    /// A comparison of two parts of rows, which may be rows.
    fn compare_parts(&mut self, op: CompareOp, left: Expr, right: Expr) -> SqlResult<Expr> {
        match (&left.node, &right.node) {
            (Node::Row(_), Node::Row(_)) => self.compare(op, left, right),
            (Node::Row(parts), _) => Err(errors::operand_columns(parts.len())),
            (_, Node::Row(_)) => Err(errors::operand_columns(1)),
            _ => self.compare_scalars(op, left, right),
        }
    }

    /// `(a, (b, c)) = (d, (SELECT e, f))`: rows of which some part is a row beside a query. None for others, and for the
    /// operators that order.
    fn rows_with_queries(
        &mut self,
        op: CompareOp,
        left: &[ast::Expr],
        right: &[ast::Expr],
    ) -> SqlResult<Option<Expr>> {
        use ast::Expr::{Row, Subquery};
        let is_mixed = |(l, r): (&ast::Expr, &ast::Expr)| {
            matches!((l, r), (Row(_), Subquery(_)) | (Subquery(_), Row(_)))
        };
        let same = matches!(op, CompareOp::Eq | CompareOp::NullSafeEq | CompareOp::Ne);
        if !same || left.len() != right.len() || !left.iter().zip(right).any(is_mixed) {
            return Ok(None);
        }
        let mut parts = Vec::with_capacity(left.len());
        for (l, r) in left.iter().zip(right) {
            parts.push(match self.row_subquery(op, l, r)? {
                Some(test) => test,
                None => {
                    let (l, r) = (self.expr(l)?, self.expr(r)?);
                    self.compare_parts(op, l, r)?
                }
            });
        }
        let nullable = parts.iter().any(|part| part.nullable);
        let node = if op == CompareOp::Ne { Node::Or(parts) } else { Node::And(parts) };
        Ok(Some(Expr::boolean(node, nullable)))
    }

    /// `(a, b) < (c, d)` as `a < c OR (a = c AND b < d)`. Wide rows are halved first, so that what comes of it is not as deep as
    /// they are wide.
    fn order_rows(&mut self, op: CompareOp, mut pairs: Vec<(Expr, Expr)>) -> SqlResult<Expr> {
        let strict = match op {
            CompareOp::Le => CompareOp::Lt,
            CompareOp::Ge => CompareOp::Gt,
            other => other,
        };
        if pairs.len() > ORDERED_CHAIN_MAX {
            let rest = pairs.split_off(pairs.len() / 2);
            let equal = pairs.iter().cloned().map(|(l, r)| self.compare_parts(CompareOp::Eq, l, r));
            let mut both = equal.collect::<SqlResult<Vec<_>>>()?;
            let less = self.order_rows(strict, pairs)?;
            both.push(self.order_rows(op, rest)?);
            let nullable = less.nullable || both.iter().any(|part| part.nullable);
            let both = Expr::boolean(Node::And(both), nullable);
            return Ok(Expr::boolean(Node::Or(vec![less, both]), nullable));
        }
        let last = pairs.len() - 1;
        let mut result: Option<Expr> = None;
        for (index, (l, r)) in pairs.into_iter().enumerate().rev() {
            let here = if index == last { op } else { strict };
            let less = self.compare_parts(here, l.clone(), r.clone())?;
            result = Some(match result {
                None => less,
                Some(rest) => {
                    let equal = self.compare_parts(CompareOp::Eq, l, r)?;
                    let nullable = less.nullable || rest.nullable;
                    let both = Expr::boolean(Node::And(vec![equal, rest]), nullable);
                    Expr::boolean(Node::Or(vec![less, both]), nullable)
                }
            });
        }
        Ok(result.expect("rows have at least one column"))
    }

    /// The domain in which all operands compare, the operands converted to it where that can be done once: constants to
    /// dates, text to a common character set.
    pub(crate) fn common_domain(&mut self, sides: &mut [Expr], op: &str) -> SqlResult<Comparison> {
        super::year::complete(sides);
        let connection = self.cx.session.vars.connection_collation;
        let any_number = sides.iter().any(|e| matches!(e.class(), Class::Int | Class::Decimal | Class::Real));
        if any_number {
            for side in sides.iter_mut().filter(|e| typing::is_hex(e)) {
                *side = as_number(std::mem::replace(side, Expr::null()));
            }
            for side in sides.iter_mut().filter(|e| json::is_extracted(e)) {
                *side = json::numbered(std::mem::replace(side, Expr::null()));
            }
        }
        let all: Vec<&Expr> = sides.iter().collect();
        typing::check_fixed(&all, op)?;
        let (text, _) = if all.iter().all(|e| matches!(e.class(), Class::String | Class::Null)) {
            let found = typing::compared_collation(&all, connection, op)?;
            self.refuse_lost(&all, found.0, op)?;
            found
        } else {
            (connection, Derivation::Coercible)
        };
        // A date among them makes all of them dates.
        let first = sides.iter().position(|e| e.ty.is_temporal()).unwrap_or(0);
        let mut others = (0..sides.len()).filter(|i| *i != first).map(|i| &sides[i]);
        let mut by =
            others.next().map_or(Comparison::Int, |other| compare::domain(&sides[first], other, text));
        for other in others {
            fiber::tick();
            let next = compare::domain(&sides[first], other, text);
            if next != by && other.class() != Class::Null {
                by = merge_domains(by, next);
            }
        }
        for side in sides.iter_mut() {
            fiber::tick();
            let taken = std::mem::replace(side, Expr::null());
            *side = to_domain(taken, by);
        }
        Ok(by)
    }

    /// Whether two texts can be compared, in the name of what compares them.
    pub(crate) fn check_compared(&self, a: &Expr, b: &Expr, op: &str) -> SqlResult<()> {
        if a.class() == Class::String && b.class() == Class::String {
            typing::compared_collation(&[a, b], self.cx.session.vars.connection_collation, op)?;
        }
        Ok(())
    }

    fn between(
        &mut self,
        negated: bool,
        value: &ast::Expr,
        low: &ast::Expr,
        high: &ast::Expr,
    ) -> SqlResult<Expr> {
        let mut sides = vec![self.scalar(value)?, self.scalar(low)?, self.scalar(high)?];
        let nullable = sides.iter().any(|s| s.nullable);
        let by = self.common_domain(&mut sides, "between")?;
        let high = Box::new(sides.pop().expect("three sides"));
        let low = Box::new(sides.pop().expect("three sides"));
        let value = Box::new(sides.pop().expect("three sides"));
        Ok(Expr::boolean(Node::Between { negated, by, value, low, high }, nullable))
    }

    fn like(
        &mut self,
        negated: bool,
        value: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
    ) -> SqlResult<Expr> {
        let (value, pattern) = (self.scalar(value)?, self.scalar(pattern)?);
        let connection = self.cx.session.vars.connection_collation;
        let (collation, _) = typing::compared_collation(&[&value, &pattern], connection, "like")?;
        self.refuse_lost(&[&value, &pattern], collation, "like")?;
        let escape = match escape {
            None => Escape::Character(Some('\\')),
            Some(tree) => self.escape_character(tree)?,
        };
        let nullable = value.nullable || pattern.nullable;
        let value = Box::new(typing::to_charset(value, collation));
        let pattern = Box::new(typing::to_charset(pattern, collation));
        let escape = match escape {
            Escape::Character(escape) => escape,
            Escape::Value(escape) => {
                let ty = SqlType { collation, ..value.ty.clone() };
                let derivation = value.derivation;
                let value = Expr { node: Node::Collate(value), ty, nullable, derivation };
                let args = Box::new([value, *pattern, escape]);
                let like = Expr::boolean(Node::Call(&pattern::LIKE_ESCAPE, args), nullable);
                return Ok(if negated { not(like) } else { like });
            }
        };
        Ok(Expr::boolean(Node::Like { negated, collation, value, pattern, escape }, nullable))
    }

    /// 1267 for a constant that the character set lacks in which it is compared.
    pub(crate) fn refuse_lost(&mut self, parts: &[&Expr], by: CollationId, op: &str) -> SqlResult<()> {
        for part in parts.iter().filter(|part| typing::may_lose(part, by)) {
            let text = match &part.node {
                Node::Constant(value) => Some(value),
                Node::Param(index) => {
                    self.narrow.push(*index);
                    self.cx.params.values.get(*index as usize)
                }
                _ => None,
            };
            let Some(Value::Bytes(text)) = text else { continue };
            if typing::loses(part, text, by) {
                return Err(typing::illegal_mixes(parts, op));
            }
        }
        Ok(())
    }

    /// The escape character of LIKE: of a value that is known now, or an expression that each execution evaluates once.
    fn escape_character(&mut self, tree: &ast::Expr) -> SqlResult<Escape> {
        let before = std::mem::replace(&mut self.pins_literals, true);
        let bound = self.scalar(tree);
        self.pins_literals = before;
        let bound = bound?;
        let value = match &bound.node {
            Node::Constant(value) => Some(value.clone()),
            Node::Param(index) => Some(self.held_parameter(*index)),
            Node::UserVar(name, false) => {
                let known = self.cx.session.user_variables.get(name);
                Some(known.map_or(Value::Null, |variable| variable.value.clone()))
            }
            _ => func::datetime::constant_value(self.cx.session, &bound),
        };
        let Some(value) = value else {
            return match bound.is_constant() {
                true => Ok(Escape::Value(bound)),
                false => Err(errors::wrong_arguments("ESCAPE")),
            };
        };
        if value.is_null() {
            return Ok(Escape::Character(Some('\\')));
        }
        let mut bytes = Vec::new();
        convert::to_text(value.as_ref(), &bound.ty, &mut bytes);
        let utf8 = match bound.ty.is_text() {
            true => collation::convert(bound.ty.collation.charset(), Charset::Utf8mb4, &bytes).0,
            false => bytes.into(),
        };
        pattern::escape_of(&utf8, self.cx.session.vars.sql_mode).map(Escape::Character)
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        whens: &[(ast::Expr, ast::Expr)],
        otherwise: Option<&ast::Expr>,
    ) -> SqlResult<Expr> {
        let operand = operand.map(|o| self.expr(o)).transpose()?;
        let mut bound = Vec::with_capacity(whens.len());
        for (when, then) in whens {
            let when = self.expr(when)?;
            let condition = match &operand {
                Some(value) => {
                    self.check_compared(value, &when, "case")?;
                    typing::check_fixed(&[value, &when], "case..when")?;
                    self.compare(CompareOp::Eq, case_operand(value, &when), when)?
                }
                None => when,
            };
            bound.push((condition, self.scalar(then)?));
        }
        let otherwise = otherwise.map(|o| self.scalar(o)).transpose()?;
        self.conditional(bound, otherwise, "case")
    }

    /// CASE over bound parts: the type is what all values can be.
    pub(crate) fn conditional(
        &mut self,
        whens: Vec<(Expr, Expr)>,
        otherwise: Option<Expr>,
        op: &str,
    ) -> SqlResult<Expr> {
        let values: Vec<&Expr> = whens.iter().map(|(_, v)| v).chain(&otherwise).collect();
        let (ty, derivation) = typing::aggregate(&values, self.cx.session.vars.connection_collation, op)?;
        let nullable = otherwise.is_none()
            || values.iter().any(|v| v.nullable)
            || (op == "case" && whens.iter().any(|(when, _)| when.nullable))
            || whens.iter().any(|(when, _)| when.class() == Class::Null);
        let node = Node::Case { whens, otherwise: otherwise.map(Box::new) };
        Ok(Expr { node, ty, nullable, derivation })
    }

    pub(crate) fn cast(&mut self, value: Expr, to: &CastType) -> SqlResult<Expr> {
        let connection = self.cx.session.vars.connection_collation;
        let chars = typing::text_chars(&value);
        let maybe_null = value.nullable;
        let text_maybe_null = maybe_null || self.cx.session.is_strict();
        let temporal = |kind, digits: u32| -> SqlResult<(SqlType, bool)> {
            if digits > 6 {
                return Err(errors::too_big_precision("CAST", 6));
            }
            Ok((SqlType::temporal(kind, digits as u8), true))
        };
        if let Some(name) = foreign_cast(to) {
            typing::refuse_fixed(&value, name)?;
        }
        let (ty, nullable) = match to {
            CastType::Signed => (integer_cast_type(&value, false), maybe_null),
            CastType::Unsigned => (integer_cast_type(&value, true), maybe_null),
            CastType::Decimal { precision, scale } => {
                if *precision > 65 {
                    return Err(errors::too_big_precision(keel_expr::print::text(&value), 65));
                }
                if *scale > 38 {
                    return Err(errors::too_big_scale(keel_expr::print::text(&value), 38));
                }
                if scale > precision {
                    return Err(errors::m_bigger_than_d(""));
                }
                (SqlType::decimal(*precision, *scale as u8), maybe_null)
            }
            CastType::Double(None) => (SqlType::double(), true),
            CastType::Double(Some((digits, scale))) => {
                if scale > digits {
                    return Err(errors::m_bigger_than_d(""));
                }
                if *digits > 65 {
                    return Err(errors::too_big_precision(keel_expr::print::text(&value), 65));
                }
                if *scale > 30 {
                    return Err(errors::too_big_scale(keel_expr::print::text(&value), 30));
                }
                (SqlType { length: *digits, ..SqlType::double() }.with_decimals(*scale as u8), true)
            }
            CastType::Float => (SqlType::new(TypeKind::Float), true),
            CastType::Date => temporal(TypeKind::Date, 0)?,
            CastType::Time(digits) => temporal(TypeKind::Time, *digits)?,
            CastType::DateTime(digits) => temporal(TypeKind::DateTime, *digits)?,
            CastType::Char { length, charset, collation } => {
                let collation = cast_collation(charset.as_deref(), collation.as_deref(), connection)?;
                let length = length.unwrap_or(u64::from(chars));
                (typing::string_type(length, collation).with_decimals(0), text_maybe_null)
            }
            CastType::Binary(None) if value.ty.is_fixed() => {
                let length = FixedKind::of(value.ty.kind).map_or(0, FixedKind::octets) as u32;
                (SqlType { length, ..SqlType::new(TypeKind::Binary) }, true)
            }
            CastType::Binary(None) => {
                let octets = typing::text_octets(&value);
                (typing::string_type(octets, CollationId::BINARY).with_decimals(0), text_maybe_null)
            }
            CastType::Binary(Some(length)) => {
                let length = u32::try_from(*length).unwrap_or(u32::MAX);
                (SqlType { length, ..SqlType::new(TypeKind::Binary) }, true)
            }
            CastType::Other(name) if cast_fixed(name).is_some() => {
                let kind = cast_fixed(name).expect("looked at");
                let stays = value.ty.kind == kind || value.ty.is_string() && value.is_constant();
                (SqlType::new(kind), maybe_null || !stays)
            }
            CastType::IntervalDaySecond(_) => return Err(errors::not_supported_yet("CAST AS INTERVAL")),
            CastType::Other(name) => return Err(errors::not_supported_yet(format!("CAST AS {name}"))),
        };
        let value = if ty.is_numeric() { as_number(value) } else { value };
        let derivation = if ty.is_string() { Derivation::Implicit } else { Derivation::Numeric };
        Ok(Expr { node: Node::Cast(Box::new(value)), ty, nullable, derivation })
    }

    fn collate(&mut self, tree: &ast::Expr, name: &str) -> SqlResult<Expr> {
        collation::named(name, Charset::Utf8mb4)?;
        let value = self.scalar(tree)?;
        let text = if value.ty.is_string() || value.ty.is_text() {
            value
        } else {
            self.cast(value, &CastType::Char { length: None, charset: None, collation: None })?
        };
        let wanted = collation::named_of(name, text.ty.collation.charset())?;
        let ty = SqlType { collation: wanted, ..typing::value_type(text.ty.clone()) };
        let nullable = text.nullable || self.cx.session.is_strict();
        Ok(Expr { node: Node::Collate(Box::new(text)), ty, nullable, derivation: Derivation::Explicit })
    }

    fn default_of(&mut self, name: &ast::ColumnName) -> SqlResult<Expr> {
        let column = self.column(name)?;
        let Some(place) = column.as_any_column() else {
            return Err(errors::bad_field(&name.column, "field list"));
        };
        let table = self.scope().tables.iter().find(|t| t.slot == place.slot);
        let Some(def) = table.and_then(|t| t.def.clone()) else {
            return Err(errors::no_default_for_field(&name.column));
        };
        let value = match &def.columns[place.column as usize].default {
            ColumnDefault::Value(Value::DateTime(utc)) if column.ty.kind == TypeKind::Timestamp => {
                // Another session may have another time zone.
                self.cacheable = false;
                let local = convert::timestamp_to_local(*utc, &*self.cx.session.vars.time_zone);
                Expr::constant(Value::DateTime(local), column.ty.clone())
            }
            ColumnDefault::Value(value) => Expr::constant(value.clone(), column.ty.clone()),
            ColumnDefault::None if def.columns[place.column as usize].auto_increment => {
                Expr::constant(keel_catalog::column_type::implicit_default(&column.ty), column.ty.clone())
            }
            ColumnDefault::None => return Err(errors::no_default_for_field(&name.column)),
            default @ (ColumnDefault::Now | ColumnDefault::Expression(_)) => {
                let text = match default {
                    ColumnDefault::Expression(text) => text,
                    _ => "now(6)",
                };
                let table = self.scope_table(place.slot, def.clone(), None)?;
                self.own_value(&table, text)?
            }
        };
        Ok(Expr { node: Node::Default(Box::new(value), name.column.as_str().into()), ..column })
    }

    /// VALUES(column): the row that INSERT could not insert; NULL outside ON DUPLICATE KEY UPDATE.
    fn values_of(&mut self, name: &ast::ColumnName) -> SqlResult<Expr> {
        let mut column = self.among_targets(|binder| binder.column(name))?;
        match (self.values_slot, &column.node) {
            (Some(slot), Node::Column(_) | Node::Generated(..)) => {
                keel_expr::walk::visit_mut(&mut column, &mut |e| {
                    if let Node::Column(place) | Node::Generated(_, place) = &mut e.node {
                        place.slot = slot;
                    }
                });
                Ok(column)
            }
            (None, _) => Ok(Expr { ty: column.ty, ..Expr::null() }),
            _ => Err(errors::bad_field(&name.column, "field list")),
        }
    }
}

/// CAST AS INET4, INET6 and UUID, which are no words of the grammar.
fn cast_fixed(name: &str) -> Option<TypeKind> {
    [TypeKind::Inet4, TypeKind::Inet6, TypeKind::Uuid]
        .into_iter()
        .find(|kind| FixedKind::of(*kind).is_some_and(|fixed| fixed.name().eq_ignore_ascii_case(name)))
}

/// What messages call a CAST to a type that addresses and UUIDs do not become.
fn foreign_cast(to: &CastType) -> Option<&'static str> {
    Some(match to {
        CastType::Signed => "cast_as_signed",
        CastType::Unsigned => "cast_as_unsigned",
        CastType::Decimal { .. } => "decimal_typecast",
        CastType::Double(_) => "double_typecast",
        CastType::Float => "float_typecast",
        CastType::Date => "cast_as_date",
        CastType::Time(_) => "cast_as_time",
        CastType::DateTime(_) => "cast_as_datetime",
        _ => return None,
    })
}

/// What escapes in a pattern of LIKE.
enum Escape {
    /// A character, or nothing.
    Character(Option<char>),
    /// What the statement works out.
    Value(Expr),
}

fn integer_cast_type(value: &Expr, unsigned: bool) -> SqlType {
    let length = match value.class() {
        Class::String if typing::is_hex(value) => (value.ty.length.min(8) * 8 * 3).div_ceil(10),
        Class::Null => 0,
        Class::Real => 20,
        _ => typing::text_chars(value),
    };
    if !unsigned {
        return typing::int_type(length.clamp(2, 21), false);
    }
    // A number below zero has all digits.
    let is_never_negative = match &value.node {
        Node::Constant(Value::Int(number)) => *number >= 0,
        Node::Constant(Value::Null) => true,
        _ => value.ty.unsigned || value.class() == Class::String && length <= 1,
    };
    match is_never_negative {
        true => typing::int_type(length.clamp(1, 20), true),
        false => SqlType::bigint_unsigned().with_length(20),
    }
}

fn cast_collation(
    charset: Option<&str>,
    collation_name: Option<&str>,
    connection: CollationId,
) -> SqlResult<CollationId> {
    let by_charset = |name: &str| {
        Charset::in_expressions(name)
            .map(Charset::default_collation)
            .ok_or_else(|| errors::unknown_character_set(name))
    };
    match (charset, collation_name) {
        // The attribute BINARY, which is no collation but that of the character set by code points.
        (charset, Some("binary")) => {
            let of = charset.map_or(Ok(connection), by_charset)?;
            Ok(of.charset().binary_collation())
        }
        (charset, Some(name)) => {
            let of = charset.map_or(Ok(connection), by_charset)?;
            if name.eq_ignore_ascii_case("default") {
                return Ok(of.charset().default_collation());
            }
            collation::named(name, of.charset())
        }
        (Some(name), None) => by_charset(name),
        (None, None) => Ok(connection),
    }
}

pub(super) fn is_exact(by: Comparison) -> bool {
    matches!(by, Comparison::Int | Comparison::Decimal)
}

fn merge_domains(a: Comparison, b: Comparison) -> Comparison {
    match (a, b) {
        _ if a == b => a,
        (Comparison::Int | Comparison::Decimal, Comparison::Int | Comparison::Decimal) => Comparison::Decimal,
        (Comparison::DateTime | Comparison::Date, Comparison::DateTime | Comparison::Date) => {
            Comparison::DateTime
        }
        (fixed @ Comparison::Fixed(_), _) | (_, fixed @ Comparison::Fixed(_)) => fixed,
        _ => Comparison::Real,
    }
}

/// An operand as a domain wants it: constant text becomes a date or number once instead of with every row.
fn to_domain(expr: Expr, by: Comparison) -> Expr {
    let constant = expr.is_constant();
    let ty = match (by, expr.class()) {
        (_, Class::Null) => return expr,
        (Comparison::DateTime, Class::Date | Class::DateTime)
        | (Comparison::Date, Class::Date)
        | (Comparison::Time, Class::Time) => return expr,
        (Comparison::DateTime | Comparison::Date, _) if constant => {
            typing::comparand_type(TypeKind::DateTime)
        }
        (Comparison::Time, _) if constant => typing::comparand_type(TypeKind::Time),
        (Comparison::Fixed(kind), Class::String) if constant => SqlType::new(kind.type_kind()),
        (Comparison::Real | Comparison::Decimal, Class::String) if is_extreme_of_texts(&expr) => {
            // It compares what it is given as numbers itself.
            return Expr { ty: SqlType::double(), derivation: Derivation::Numeric, ..expr };
        }
        (Comparison::Real, Class::String) if constant => SqlType::double(),
        (Comparison::Decimal, Class::String) if constant => typing::decimal_comparand_type(),
        (Comparison::Text(collation), Class::String) => return typing::to_charset(expr, collation),
        _ => return expr,
    };
    let nullable = true;
    Expr { node: Node::Convert(Box::new(expr)), ty, nullable, derivation: Derivation::Numeric }
}

/// `NOT value`; a test that has a negated form is turned instead.
pub(crate) fn not(value: Expr) -> Expr {
    let nullable = value.nullable;
    let node = match value.node {
        Node::Between { negated, by, value, low, high } => {
            Node::Between { negated: !negated, by, value, low, high }
        }
        Node::In { negated, by, value, list, sorted } => {
            Node::In { negated: !negated, by, value, list, sorted }
        }
        Node::IsNull { negated, value } => Node::IsNull { negated: !negated, value },
        Node::IsTruth { negated, test, value } => Node::IsTruth { negated: !negated, test, value },
        Node::Like { negated, collation, value, pattern, escape } => {
            Node::Like { negated: !negated, collation, value, pattern, escape }
        }
        Node::Compare { op, by, left, right } if op.negated().is_some() => {
            Node::Compare { op: op.negated().expect("checked"), by, left, right }
        }
        node => Node::Not(Box::new(Expr { node, ..value })),
    };
    Expr::boolean(node, nullable)
}

/// `0x41` and `b'1'` as the numbers they stand for; anything else unchanged.
pub(crate) fn as_number(expr: Expr) -> Expr {
    if !typing::is_hex(&expr) {
        return expr;
    }
    match &expr.node {
        Node::Constant(Value::Bytes(bytes)) => {
            let number = typing::bytes_as_number(bytes);
            let digits = (bytes.len() as u32 * 8 * 3).div_ceil(10).clamp(1, 20);
            Expr::constant(Value::UInt(number), typing::int_type(digits, true))
        }
        _ => expr,
    }
}

/// What MariaDB says is the length of text in a user variable.
const USER_VARIABLE_OCTETS: u32 = 16_777_215;

/// `-value`.
fn negate(value: Expr) -> Expr {
    let nullable = value.nullable;
    match &value.node {
        Node::Constant(Value::Int(v)) => {
            let length = value.ty.length + 1;
            return match v.checked_neg() {
                Some(negative) => Expr::constant(Value::Int(negative), typing::int_type(length, false)),
                None => {
                    let big = keel_value::Decimal::from_u64(v.unsigned_abs());
                    Expr::constant(Value::Decimal(big), SqlType::decimal(19, 0))
                }
            };
        }
        Node::Constant(Value::UInt(v)) if *v == i64::MIN.unsigned_abs() => {
            return Expr::constant(Value::Int(i64::MIN), typing::int_type(20, false));
        }
        Node::Constant(Value::Decimal(d)) => {
            return Expr::constant(Value::Decimal(d.neg()), value.ty.clone());
        }
        Node::Constant(Value::Double(d)) => {
            let ty = value.ty.clone().with_length(value.ty.length + 1);
            return Expr::constant(Value::Double(-d), ty);
        }
        _ => {}
    }
    let ty = match value.class() {
        Class::Int if value.ty.unsigned && value.ty.kind == TypeKind::BigInt => {
            typing::int_type(typing::display_length(&value) + 1, false)
        }
        Class::Int => typing::int_type(typing::display_length(&value) + 1, false),
        Class::Decimal => SqlType { unsigned: false, ..value.ty.clone() },
        Class::Null => typing::real_type(0).with_length(1),
        Class::String => {
            let octets = u32::try_from(value.ty.max_octets()).unwrap_or(u32::MAX);
            typing::real_type(31).with_length(octets.saturating_add(1))
        }
        Class::Date => typing::int_type(10, false),
        Class::Time | Class::DateTime if value.ty.decimals == 0 => typing::int_type(17, false),
        Class::Time | Class::DateTime => {
            typing::decimal_type(14 + u32::from(value.ty.decimals), u32::from(value.ty.decimals), false)
        }
        _ => typing::real_type(value.ty.decimals),
    };
    Expr { node: Node::Negate(Box::new(value)), ty, nullable, derivation: Derivation::Numeric }
}

pub(super) fn illegal_types(left: String, right: String, operation: &str) -> SqlError {
    errors::illegal_parameter_data_types2_for_operation(left, right, operation)
}

/// 4079 for a row where a number is asked for.
fn refuse_row(value: &Expr, operation: &str) -> SqlResult<()> {
    match value.node {
        Node::Row(_) => Err(errors::illegal_parameter_data_type_for_operation("row", operation)),
        _ => Ok(()),
    }
}

fn row_in_arithmetic(left: &Expr, op: ArithOp, right: &Expr) -> SqlError {
    let name = |e: &Expr| if matches!(e.node, Node::Row(_)) { "row".to_string() } else { type_word(&e.ty) };
    illegal_types(name(left), name(right), op.symbol())
}

pub(super) fn type_word(ty: &SqlType) -> String {
    let name = ty.sql_name();
    name.split('(').next().unwrap_or(&name).to_string()
}
