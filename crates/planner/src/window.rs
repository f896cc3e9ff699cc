//! Binding of window functions: calls where they stand, windows once all items and orders are known.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_exec::aggregate::AggregateKind;
use keel_exec::select::{Carry, local_type, result_layout, sort_part};
use keel_exec::window::plan::{ComputedSlot, WindowCarry, WindowPlan};
use keel_exec::window::{Bound, Frame, FrameGroup, Stage, WindowCall, WindowKind};
use keel_expr::{ArithOp, ColumnRef, Derivation, Expr, Node, typing, walk};
use keel_sql::ast::{
    self, FrameBound, FrameExclude, FunctionCall, Literal, LiteralValue, OrderItem, WindowFrame, WindowSpec,
};
use keel_value::row::Layout;
use keel_value::types::Class;
use keel_value::{Decimal, SqlType, Value};

use crate::aggregate::min_max_type;
use crate::bind::{Binder, Clause, place};

/// A call whose window is not bound yet.
#[derive(Clone)]
pub(crate) struct Pending {
    call: WindowCall,
    /// As messages name it.
    name: String,
    over: WindowSpec,
    /// Where the window stands in the tree.
    place: usize,
    /// Of percentiles: whether what is ordered descends.
    descending: Option<bool>,
}

/// A call with its window.
pub(crate) struct BoundWindow {
    pub call: WindowCall,
    pub partition: Vec<Expr>,
    pub order: Vec<(Expr, bool)>,
    pub frame: Frame,
}

/// PARTITION BY, and ORDER BY with whether each key descends.
type Keys = (Vec<Expr>, Vec<(Expr, bool)>);

/// A window whose references to others are resolved.
#[derive(Clone)]
struct Resolved {
    name: Option<String>,
    partition: Vec<ast::Expr>,
    order: Vec<OrderItem>,
    frame: Option<WindowFrame>,
}

/// Digits behind the point of ranks as fractions, and the length that MariaDB describes.
const FRACTION_DIGITS: u8 = 10;
const FRACTION_LENGTH: u32 = 17;

impl Binder<'_> {
    /// A call with OVER; it becomes a column of the results' slot.
    pub(crate) fn window_call(&mut self, call: &FunctionCall, over: &WindowSpec) -> SqlResult<Expr> {
        if self.in_aggregate || self.in_window {
            return Err(errors::sum_func_with_window_func_as_arg());
        }
        if !matches!(self.clause, Clause::Fields | Clause::Order) || !self.scope().takes_aggregates {
            return Err(errors::wrong_placement_of_window_function());
        }
        let clause = self.clause;
        if clause == Clause::Order {
            self.clause = Clause::Window;
        }
        self.in_window = true;
        let bound = self.bind_window_call(call);
        (self.clause, self.in_window) = (clause, false);
        let bound = bound?;
        let derivation = match bound.args.first() {
            _ if !bound.ty.is_string() => Derivation::Numeric,
            Some(value) => value.derivation,
            None => Derivation::Implicit,
        };
        let (ty, nullable) = (bound.ty.clone(), bound.nullable);
        let descending = call.order_by.first().map(|item| item.desc);
        let descending = descending.or((call.name == "median").then_some(false));
        let windows = &mut self.scope_mut().windows;
        let node = Node::Window(windows.len() as u32);
        windows.push(Pending {
            call: bound,
            name: call.name.clone(),
            over: over.clone(),
            place: place(over),
            descending,
        });
        Ok(Expr { node, ty, nullable, derivation })
    }

    fn bind_window_call(&mut self, call: &FunctionCall) -> SqlResult<WindowCall> {
        if let Some(mut aggregate) = self.window_aggregate(call)? {
            aggregate.args.iter_mut().for_each(round);
            if matches!(aggregate.kind, AggregateKind::Min | AggregateKind::Max) {
                aggregate.ty = value_type(&aggregate.args[0]);
            }
            let (ty, nullable) = (aggregate.ty.clone(), aggregate.nullable);
            let kind = WindowKind::Aggregate(Box::new(aggregate));
            return Ok(WindowCall { kind, args: Vec::new(), ty, nullable });
        }
        let mut args = call.args.iter().map(|arg| self.scalar(arg)).collect::<SqlResult<Vec<_>>>()?;
        let counted = || SqlType::bigint().with_length(21);
        let fraction =
            |more| SqlType::double().with_length(FRACTION_LENGTH + more).with_decimals(FRACTION_DIGITS);
        let (kind, ty, nullable) = match call.name.as_str() {
            "row_number" => (WindowKind::RowNumber, counted(), false),
            "rank" => (WindowKind::Rank, counted(), false),
            "dense_rank" => (WindowKind::DenseRank, counted(), false),
            "percent_rank" => (WindowKind::PercentRank, fraction(0), true),
            "cume_dist" => (WindowKind::CumeDist, fraction(0), true),
            "ntile" => (WindowKind::Ntile, counted(), false),
            "lag" => (WindowKind::Shift { ahead: false }, value_type(&args[0]), true),
            "lead" => (WindowKind::Shift { ahead: true }, value_type(&args[0]), true),
            "first_value" => (WindowKind::FirstValue, value_type(&args[0]), true),
            "last_value" => (WindowKind::LastValue, value_type(&args[0]), true),
            "nth_value" => (WindowKind::NthValue, value_type(&args[0]), true),
            "median" => {
                let half = Value::Decimal(Decimal::from_parts(false, 5, 1));
                args.insert(0, Expr::constant(half, SqlType::decimal(2, 1)));
                (WindowKind::PercentileCont, fraction(1), true)
            }
            "percentile_cont" => {
                args.push(self.ordered(call)?);
                (WindowKind::PercentileCont, fraction(typing::scale(&args[0])), true)
            }
            "percentile_disc" => {
                args.push(self.ordered(call)?);
                let ty = match args[1].class() {
                    Class::Int | Class::Real => args[1].ty.clone(),
                    _ => value_type(&args[1]),
                };
                (WindowKind::PercentileDisc, ty, true)
            }
            name => {
                let name = name.to_uppercase();
                return Err(errors::not_supported_yet(format!("{name}() aggregate as window function")));
            }
        };
        check_percentile(&kind, &args)?;
        args.iter_mut().for_each(round);
        args.iter_mut().for_each(|arg| self.hoist(arg));
        Ok(WindowCall { kind, args, ty, nullable })
    }

    /// WITHIN GROUP (ORDER BY ...).
    fn ordered(&mut self, call: &FunctionCall) -> SqlResult<Expr> {
        let item = call.order_by.first().ok_or_else(errors::syntax_error)?;
        self.scalar(&item.expr)
    }

    /// Binds the windows of all calls met in the innermost scope, and those that WINDOW names. `key_slot` takes the keys
    /// that bounds by value are computed from.
    pub(crate) fn bind_windows(
        &mut self,
        named: &[(String, WindowSpec)],
        key_slot: u16,
    ) -> SqlResult<Vec<BoundWindow>> {
        let mut known: Vec<Resolved> = Vec::with_capacity(named.len());
        for (name, spec) in named {
            if find(&known, name).is_some() {
                return Err(errors::dup_window_name(name));
            }
            let resolved = resolve(spec, &known)?;
            known.push(Resolved { name: Some(name.clone()), ..resolved });
        }
        for (window, (_, spec)) in known.iter().zip(named) {
            self.note_window(Some(place(spec)));
            let (_, order) = self.bind_window(window)?;
            self.bind_frame(window.frame.as_ref(), &order, key_slot)?;
        }
        let mut windows = Vec::new();
        for pending in std::mem::take(&mut self.scope_mut().windows) {
            let window = resolve(&pending.over, &known)?;
            self.note_window(Some(pending.place));
            let (partition, mut order) = self.bind_window(&window)?;
            let frame = self.bind_frame(window.frame.as_ref(), &order, key_slot)?;
            check_window(&pending, &window)?;
            if let Some(descending) = pending.descending {
                order = vec![(pending.call.args[1].clone(), descending)];
            }
            windows.push(BoundWindow { call: pending.call, partition, order, frame });
        }
        self.note_window(None);
        Ok(windows)
    }

    fn bind_window(&mut self, window: &Resolved) -> SqlResult<Keys> {
        let mut partition = Vec::with_capacity(window.partition.len());
        for tree in &window.partition {
            partition.push(match self.grouped_item(tree, Clause::Partition)? {
                Some(item) if walk::facts(&item).windows => {
                    return Err(errors::window_function_in_window_spec());
                }
                Some(item) => item,
                None => self.window_key(tree, Clause::Partition)?,
            });
        }
        let mut order = Vec::with_capacity(window.order.len());
        for item in &window.order {
            // A name alone is an item of the select list first, as in ORDER BY.
            let alias = match &item.expr {
                ast::Expr::Column(name) => {
                    let meant = self.scope().alias(name).cloned();
                    if let Some(key) = &meant {
                        self.note_name(self.scopes.len() - 1, name, key);
                    }
                    meant
                }
                _ => None,
            };
            let key = match alias {
                Some(key) if walk::facts(&key).windows => {
                    return Err(errors::window_function_in_window_spec());
                }
                Some(key) => key,
                None => self.window_key(&item.expr, Clause::Window)?,
            };
            order.push((key, item.desc));
        }
        Ok((partition, order))
    }

    fn window_key(&mut self, tree: &ast::Expr, clause: Clause) -> SqlResult<Expr> {
        let mut key = self.bind(tree, clause)?;
        if walk::facts(&key).windows {
            return Err(errors::window_function_in_window_spec());
        }
        self.hoist(&mut key);
        Ok(key)
    }

    fn bind_frame(
        &mut self,
        frame: Option<&WindowFrame>,
        order: &[(Expr, bool)],
        key_slot: u16,
    ) -> SqlResult<Frame> {
        let Some(frame) = frame else {
            return Ok(Frame { range: true, start: Bound::Unbounded, end: Bound::Current });
        };
        let end = frame.end.as_ref().unwrap_or(&FrameBound::CurrentRow);
        use FrameBound as B;
        let backwards = matches!(
            (&frame.start, end),
            (B::UnboundedFollowing, _)
                | (_, B::UnboundedPreceding)
                | (B::CurrentRow, B::Preceding(_))
                | (B::Following(_), B::CurrentRow)
        );
        if backwards {
            return Err(errors::bad_combination_of_window_frame_bound_specs());
        }
        if frame.exclude.is_some_and(|exclude| exclude != FrameExclude::NoOthers) {
            return Err(errors::frame_exclusion_not_supported());
        }
        let mut bound = |bound: &FrameBound| -> SqlResult<Bound> {
            let (offset, forward) = match bound {
                B::UnboundedPreceding | B::UnboundedFollowing => return Ok(Bound::Unbounded),
                B::CurrentRow => return Ok(Bound::Current),
                B::Preceding(offset) => (offset, false),
                B::Following(offset) => (offset, true),
            };
            if frame.range {
                return self.value_bound(offset, forward, order, key_slot);
            }
            let ast::Expr::Literal(literal @ Literal { value: LiteralValue::Int(rows), .. }) = &**offset
            else {
                return Err(errors::wrong_type_for_rows_frame());
            };
            self.pin(literal);
            let rows = i64::try_from(*rows).unwrap_or(i64::MAX);
            Ok(Bound::Rows(if forward { rows } else { -rows }))
        };
        Ok(Frame { range: frame.range, start: bound(&frame.start)?, end: bound(end)? })
    }

    /// `n PRECEDING` or `n FOLLOWING` of RANGE.
    fn value_bound(
        &mut self,
        offset: &ast::Expr,
        forward: bool,
        order: &[(Expr, bool)],
        key_slot: u16,
    ) -> SqlResult<Bound> {
        let [(key, descending)] = order else { return Err(errors::range_frame_needs_simple_orderby()) };
        let offset = self.bind(offset, Clause::Window)?;
        if !is_number(key) || !is_number(&offset) {
            return Err(errors::wrong_type_for_range_frame());
        }
        let name = key.as_column().map_or_else(|| "`tmp_field`".into(), |column| column.name.clone());
        let node = Node::Column(ColumnRef { slot: key_slot, column: 0, name });
        let own = Expr { node, ty: local_type(&key.ty), nullable: true, derivation: key.derivation };
        let op = if forward == *descending { ArithOp::Sub } else { ArithOp::Add };
        Ok(Bound::Value(Box::new(self.arithmetic_of(op, own, offset))))
    }
}

fn is_number(expr: &Expr) -> bool {
    matches!(expr.class(), Class::Int | Class::Decimal | Class::Real)
}

/// The type of a value taken from another row; MariaDB makes whole literals BIGINT.
fn value_type(arg: &Expr) -> SqlType {
    match &arg.node {
        Node::Constant(Value::Int(_)) => SqlType::bigint().with_length(arg.ty.length),
        _ if arg.class() == Class::Null => min_max_type(arg),
        _ if arg.class() == Class::Real => {
            SqlType { kind: arg.ty.kind, ..typing::real_type(arg.ty.decimals) }
        }
        _ if arg.ty.is_integer() && arg.as_any_column().is_some() => typing::operand_type(arg),
        _ => typing::value_type(min_max_type(arg)),
    }
}

fn check_percentile(kind: &WindowKind, args: &[Expr]) -> SqlResult<()> {
    let name = match kind {
        WindowKind::PercentileCont => "percentile_cont",
        WindowKind::PercentileDisc => "percentile_disc",
        _ => return Ok(()),
    };
    if !is_number(&args[0]) {
        return Err(errors::wrong_type_of_argument(name));
    }
    if matches!(kind, WindowKind::PercentileCont) && matches!(args[1].class(), Class::String | Class::Null) {
        return Err(errors::wrong_type_for_percentile_func(name));
    }
    Ok(())
}

/// Whether the function takes such a window.
fn check_window(pending: &Pending, window: &Resolved) -> SqlResult<()> {
    use WindowKind as K;
    let ranks = matches!(pending.call.kind, K::Rank | K::DenseRank | K::PercentRank | K::CumeDist);
    let numbers = matches!(pending.call.kind, K::RowNumber | K::Ntile);
    if (ranks || matches!(pending.call.kind, K::Shift { .. })) && window.order.is_empty() {
        return Err(errors::no_order_list_in_win_spec(&pending.name));
    }
    if (ranks || numbers) && window.frame.is_some() {
        return Err(errors::not_allowed_window_frame(&pending.name));
    }
    Ok(())
}

fn find<'w>(known: &'w [Resolved], name: &str) -> Option<&'w Resolved> {
    known.iter().find(|window| window.name.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(name)))
}

/// The window behind OVER or a name, with what it takes from the one that it refers to.
fn resolve(spec: &WindowSpec, known: &[Resolved]) -> SqlResult<Resolved> {
    let own = Resolved {
        name: None,
        partition: spec.partition_by.clone(),
        order: spec.order_by.clone(),
        frame: spec.frame.clone(),
    };
    let Some(name) = &spec.name else { return Ok(own) };
    let other = find(known, name).ok_or_else(|| errors::wrong_window_spec_name(name))?;
    if spec.is_name {
        return Ok(other.clone());
    }
    if !own.partition.is_empty() {
        return Err(errors::partition_list_in_referencing_window_spec(name));
    }
    if !own.order.is_empty() && !other.order.is_empty() {
        return Err(errors::order_list_in_referencing_window_spec(name));
    }
    if other.frame.is_some() {
        return Err(errors::window_frame_in_referenced_window_spec(name));
    }
    let order = if own.order.is_empty() { other.order.clone() } else { own.order };
    Ok(Resolved { name: None, partition: other.partition.clone(), order, frame: own.frame })
}

/// Rounds what a window function is given to the digits that it shows, as the rows are set aside with.
fn round(arg: &mut Expr) {
    if arg.class() == Class::Decimal && !matches!(arg.node, Node::Column(_) | Node::Constant(_)) {
        let plain = std::mem::replace(arg, Expr::null());
        let (ty, nullable, derivation) = (plain.ty.clone(), plain.nullable, plain.derivation);
        *arg = Expr { node: Node::Convert(Box::new(plain)), ty, nullable, derivation };
    }
}

/// Plans windows whose functions and keys read their rows from the tables' slots and from `group`: its slot, and its
/// aggregates' types. `slot` takes the results, the slot behind it keys.
pub(crate) fn plan_windows(
    windows: Vec<BoundWindow>,
    tables: Carry,
    group: Option<(u16, Arc<Layout>)>,
    slot: u16,
) -> WindowPlan {
    let mut stages: Vec<Stage> = Vec::new();
    let mut calls = Vec::new();
    for window in windows {
        let number = calls.len();
        let BoundWindow { call, partition, order, frame } = window;
        calls.push(call);
        let stage = stage_for(&mut stages, partition, &order);
        let peer_parts = stage.partition_parts + order.len();
        let by_value = frame.start.is_value() || frame.end.is_value();
        let range_key = if by_value { order.into_iter().next() } else { None };
        let shared = |group: &&mut FrameGroup| group.peer_parts == peer_parts && alike(&group.frame, &frame);
        match stage.groups.iter_mut().find(shared) {
            Some(group) => group.calls.push(number),
            None => stage.groups.push(FrameGroup { peer_parts, range_key, frame, calls: vec![number] }),
        }
    }
    // A stage without keys takes rows as they come: first, it leaves their order to the others.
    stages.sort_by_key(|stage| !stage.keys.is_empty());
    let results = ComputedSlot { slot, layout: result_layout(calls.iter().map(|call| &call.ty)) };
    let group = group.map(|(slot, layout)| ComputedSlot { slot, layout });
    let computed = group.into_iter().chain([results]).collect();
    WindowPlan { stages, calls, carry: WindowCarry { tables, computed }, slot, key_slot: slot + 1 }
}

/// The stage that sorts by this partition and order, or by more; a new one where there is none.
fn stage_for<'s>(stages: &'s mut Vec<Stage>, partition: Vec<Expr>, order: &[(Expr, bool)]) -> &'s mut Stage {
    let serves = |stage: &Stage| {
        let (own, rest) = stage.keys.split_at(stage.partition_parts);
        let parts = &stage.parts[stage.partition_parts..];
        own.len() == partition.len()
            && own.iter().zip(&partition).all(|(a, b)| walk::same(a, b))
            && rest.iter().zip(parts).zip(order).all(|((key, part), (expr, descending))| {
                part.descending == *descending && walk::same(key, expr)
            })
    };
    let index = stages.iter().position(serves).unwrap_or_else(|| {
        let parts = partition.iter().map(|key| sort_part(key, false)).collect();
        let partition_parts = partition.len();
        stages.push(Stage { keys: partition, parts, partition_parts, groups: Vec::new() });
        stages.len() - 1
    });
    let stage = &mut stages[index];
    let known = stage.keys.len() - stage.partition_parts;
    for (expr, descending) in order.iter().skip(known) {
        stage.keys.push(expr.clone());
        stage.parts.push(sort_part(expr, *descending));
    }
    stage
}

/// Whether frames are the same, bounds by value excepted.
fn alike(a: &Frame, b: &Frame) -> bool {
    use keel_exec::window::Bound::Current;
    use keel_exec::window::Bound::Rows;
    use keel_exec::window::Bound::Unbounded;
    let bound = |a: &_, b: &_| match (a, b) {
        (Unbounded, Unbounded) | (Current, Current) => true,
        (Rows(a), Rows(b)) => a == b,
        _ => false,
    };
    a.range == b.range && bound(&a.start, &b.start) && bound(&a.end, &b.end)
}

impl BoundWindow {
    /// Every expression over rows.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let keys = self.partition.iter().chain(self.order.iter().map(|(key, _)| key));
        keys.chain(self.call.expressions())
    }

    /// The same, to change.
    pub fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let keys = self.partition.iter_mut().chain(self.order.iter_mut().map(|(key, _)| key));
        keys.chain(self.call.expressions_mut())
    }
}
