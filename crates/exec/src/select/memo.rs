//! What a correlated subquery has answered, kept for the execution of the query around it.
//!
//! 1. Answers are kept by the values of what was asked: columns of enclosing queries, and the left side of IN, ANY and
//!    ALL. If few are asked again, nothing is kept any more.
//! 2. Where a query that tells whether there are rows, or their aggregate, is tied to its surroundings by equalities alone
//!    and would read whole tables each time, it is run once for all values at the third ([`Keyed`]): its rows grouped by
//!    their side of the equalities.

use std::cell::RefCell;
use std::collections::hash_map::RandomState;
use std::io::Write;

use hashbrown::HashMap;
use keel_base::SqlResult;
use keel_value::{SqlType, Value, ValueRef};

use super::subquery::Subquery;
use super::{RowOutput, SelectPlan, run};
use crate::expr::frame::Kept;
use crate::expr::routine::Memory;
use crate::expr::{Comparison, EvalContext, Expr, Frame};
use crate::join::encode_in_domain;
use crate::memory::Allowance;
use crate::result::RowView;
use crate::session::{OfSession, Session};

/// A subquery run once for all that it may be asked.
pub struct Keyed {
    /// Its rows: the answer, then the inner side of each equality.
    pub plan: SelectPlan,
    /// The outer sides, as seen from the subquery.
    pub outer: Vec<Expr>,
    /// How each pair is compared.
    pub by: Vec<Comparison>,
    /// Whether EXISTS is asked, so that the answer is whether there is a row.
    pub exists: bool,
}

/// Answers by what was asked.
pub struct Memo(RefCell<MemoState>);

struct MemoState {
    answers: HashMap<Box<[u8]>, Value, RandomState>,
    bytes: usize,
    memory: Allowance,
    asked: u32,
    found: u32,
    /// Answers are asked for again too seldom.
    off: bool,
    all: All,
    /// The answer of a keyed query where no row has the key, once it is known.
    none: Option<Value>,
}

/// What is known of a keyed query.
#[derive(PartialEq)]
enum All {
    /// It has not run.
    Unknown,
    /// `answers` are its rows.
    Known,
    /// It is of no use here: its rows take too much memory, or a key has two.
    Useless,
}

/// What an answer takes beside the bytes of its key and its value.
const ANSWER_BYTES: usize = 64;
/// Questions after which a keyed query is run.
const ASKED_ONE_BY_ONE: u32 = 2;
/// Questions after which it is looked whether keeping answers helps, and how many of them must have been asked before.
const TRIAL: u32 = 200;
/// Classes of errors that a row's values make, which nobody may have asked for: too many rows of a nested query, and what
/// cannot be computed or converted.
const UNASKED: [&str; 2] = ["21", "22"];
const FOUND_LEAST: u32 = TRIAL / 5;

impl std::fmt::Debug for Memo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memo").finish_non_exhaustive()
    }
}

impl Memo {
    fn new(session: &Session) -> Memo {
        Memo(RefCell::new(MemoState {
            answers: HashMap::default(),
            bytes: 0,
            memory: Allowance::new(session.vars.tmp_room(), session.work()),
            asked: 0,
            found: 0,
            off: false,
            all: All::Unknown,
            none: None,
        }))
    }
}

impl MemoState {
    fn forget(&mut self) {
        self.answers = HashMap::default();
        self.bytes = 0;
        self.memory.shrink();
    }

    /// Keeps an answer if there is room.
    fn keep(&mut self, key: &[u8], value: &Value) -> bool {
        let bytes = self.bytes + key.len() + ANSWER_BYTES + value.as_ref().as_bytes().map_or(0, <[u8]>::len);
        if !self.memory.allows(bytes) {
            return false;
        }
        self.bytes = bytes;
        self.answers.insert(key.into(), value.clone());
        true
    }

    /// A kept answer; whether it is asked too seldom for more to be kept.
    fn find(&mut self, key: &[u8]) -> Option<Value> {
        let found = self.answers.get(key).cloned();
        self.asked += 1;
        self.found += u32::from(found.is_some());
        if self.asked == TRIAL {
            if self.found < FOUND_LEAST {
                self.off = true;
                self.forget();
            }
            (self.asked, self.found) = (ASKED_ONE_BY_ONE, 0);
        }
        found
    }
}

/// Gathers the rows of a keyed query.
struct Gatherer<'a> {
    keyed: &'a Keyed,
    state: &'a mut MemoState,
    key: Vec<u8>,
    useless: bool,
}

impl RowOutput for Gatherer<'_> {
    fn row(&mut self, session: &mut Session, row: RowView<'_>) -> SqlResult<bool> {
        let Gatherer { keyed, key, .. } = self;
        key.clear();
        let mut answer = Value::Null;
        let mut whole = Ok(true);
        let mut cx = EvalContext::new(session, Frame::EMPTY);
        row.for_each(|index, value| match (index.checked_sub(1), &whole) {
            (None, _) => answer = value.to_owned(),
            (Some(pair), Ok(true)) => {
                let ty: &SqlType = &keyed.plan.types[index].0;
                whole = encode_in_domain(keyed.by[pair], value, ty, &mut cx, key);
            }
            _ => {}
        });
        // NULL equals nothing.
        if whole? {
            let twice = !keyed.exists && self.state.answers.contains_key(&key[..]);
            self.useless = twice || !self.state.keep(key, &answer);
        }
        Ok(!self.useless)
    }
}

impl Subquery {
    /// The answer, from those that are kept where that is possible; `ask` runs the query.
    pub(super) fn remembered<'f>(
        &'f self,
        cx: &mut EvalContext<'_, 'f>,
        ask: impl FnOnce(&mut EvalContext<'_, 'f>) -> SqlResult<Value>,
    ) -> SqlResult<Value> {
        let Some(kept) = self.memo.and_then(|cell| cx.frame.once.get(cell as usize)) else { return ask(cx) };
        if kept.get().is_none() {
            let _ = kept.set(Kept::Routine(Memory(Box::new(Memo::new(cx.session())))));
        }
        let Some(Kept::Routine(memory)) = kept.get() else { return ask(cx) };
        let Some(memo) = memory.0.downcast_ref::<Memo>() else { return ask(cx) };
        if let Some(keyed) = &self.keyed
            && self.is_all_known(keyed, memo, cx)?
        {
            return self.look_up_keyed(keyed, memo, cx, ask);
        }
        if memo.0.borrow().off {
            return ask(cx);
        }
        let mut key = Vec::new();
        for (level, slot, column) in &self.reads {
            let frame = cx.frame.at(level - 1);
            append(frame.slots[*slot as usize].get(*column), &mut key);
        }
        for operand in self.test.operands() {
            append(operand.eval(cx)?.as_ref(), &mut key);
        }
        if let Some(value) = memo.0.borrow_mut().find(&key) {
            return Ok(value);
        }
        let value = ask(cx)?;
        let mut state = memo.0.borrow_mut();
        if !state.off && !state.keep(&key, &value) {
            state.off = state.answers.is_empty();
        }
        Ok(value)
    }

    /// Whether the keyed query's rows are there; runs it when it is time.
    fn is_all_known(&self, keyed: &Keyed, memo: &Memo, cx: &mut EvalContext<'_, '_>) -> SqlResult<bool> {
        let mut state = memo.0.borrow_mut();
        if state.all != All::Unknown || state.asked < ASKED_ONE_BY_ONE {
            return Ok(state.all == All::Known);
        }
        state.forget();
        let mut gatherer = Gatherer { keyed, state: &mut state, key: Vec::new(), useless: false };
        let warned = cx.session().diagnostics.clone();
        let params = cx.frame.params;
        let ran = run::first_rows(&keyed.plan, cx.session(), params, None, u64::MAX, &mut gatherer);
        let useless = gatherer.useless;
        // What rows that nobody has asked for warn of concerns nobody, and what fails there is asked one by one.
        let is_unasked = match &ran {
            Ok(()) => cx.session().diagnostics.warning_count > warned.warning_count,
            Err(error) => UNASKED.iter().any(|class| error.sqlstate.starts_with(class)),
        };
        if is_unasked || ran.is_err() {
            state.forget();
            state.all = All::Useless;
        }
        if is_unasked {
            cx.session().diagnostics = warned;
            return Ok(false);
        }
        ran?;
        state.all = if useless { All::Useless } else { All::Known };
        if useless {
            state.forget();
        }
        Ok(!useless)
    }

    fn look_up_keyed<'f>(
        &'f self,
        keyed: &'f Keyed,
        memo: &Memo,
        cx: &mut EvalContext<'_, 'f>,
        ask: impl FnOnce(&mut EvalContext<'_, 'f>) -> SqlResult<Value>,
    ) -> SqlResult<Value> {
        let mut key = Vec::new();
        let mut whole = true;
        {
            let around = cx.frame;
            let frame = Frame { slots: &[], params: around.params, once: &[], outer: Some(&around) };
            let mut inner = EvalContext::new(cx.session(), frame);
            for (expr, by) in keyed.outer.iter().zip(&keyed.by) {
                let cell = expr.eval(&mut inner)?;
                whole = whole && {
                    let mut bare = EvalContext::new(inner.session(), Frame::EMPTY);
                    encode_in_domain(*by, cell.as_ref(), &expr.ty, &mut bare, &mut key)?
                };
            }
        }
        let found = if whole { memo.0.borrow().answers.get(&key[..]).cloned() } else { None };
        if keyed.exists {
            return Ok(Value::Int(i64::from(found.is_some())));
        }
        if let Some(value) = found.or_else(|| memo.0.borrow().none.clone()) {
            return Ok(value);
        }
        // What the query says of no rows at all is the same for every such key.
        let value = ask(cx)?;
        memo.0.borrow_mut().none = Some(value.clone());
        Ok(value)
    }
}

/// Appends a value so that different values give different bytes.
fn append(value: ValueRef<'_>, out: &mut Vec<u8>) {
    let number = |tag: u8, bits: u64, out: &mut Vec<u8>| {
        out.push(tag);
        out.extend_from_slice(&bits.to_le_bytes());
    };
    match value {
        ValueRef::Null => out.push(0),
        ValueRef::Int(v) => number(1, v as u64, out),
        ValueRef::UInt(v) => number(2, v, out),
        ValueRef::Double(v) => number(3, v.to_bits(), out),
        ValueRef::Float(v) => number(4, v.to_bits().into(), out),
        ValueRef::Bytes(bytes) => {
            number(5, bytes.len() as u64, out);
            out.extend_from_slice(bytes);
        }
        // Decimals and times: each part of them.
        other => {
            let start = out.len();
            number(6, 0, out);
            let text_at = out.len();
            write!(out, "{other:?}").expect("memory takes what is written");
            let len = (out.len() - text_at) as u64;
            out[start + 1..text_at].copy_from_slice(&len.to_le_bytes());
        }
    }
}
