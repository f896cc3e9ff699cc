//! How a sequence goes on: its row, and what of the reserved values memory has left.

use keel_sql::ast::SequenceOptions;
use keel_value::{Value, ValueRef};

/// CACHE where nothing is said.
const CACHE: i64 = 1000;
/// NO MINVALUE, whatever the sign of INCREMENT.
const NO_MINIMUM: i64 = 1;
/// NO MAXVALUE.
const NO_MAXIMUM: i64 = i64::MAX - 1;

/// The row of a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    /// `next_not_cached_value`: this one and those behind it were given to nobody.
    pub reserved_until: i64,
    /// MINVALUE.
    pub minimum: i64,
    /// MAXVALUE.
    pub maximum: i64,
    /// START, where RESTART goes back to.
    pub start: i64,
    /// INCREMENT; 0 takes the server's `auto_increment_increment` and its offset.
    pub increment: i64,
    /// How many values are reserved at once; 0 is one.
    pub cache: i64,
    /// CYCLE, as `cycle_option` has it.
    pub cycle: u64,
    /// `cycle_count`.
    pub round: i64,
}

/// Increment and offset of the server, for INCREMENT 0.
pub type ServerStep = (i64, i64);

impl Values {
    /// What CREATE SEQUENCE makes of its options.
    pub fn made(options: &SequenceOptions, step: ServerStep) -> Values {
        let increment = options.increment.unwrap_or(1);
        let falls = if increment == 0 { step.0 < 0 } else { increment < 0 };
        let minimum = options.minimum.map_or(least(falls), |said| said.unwrap_or(NO_MINIMUM));
        let maximum = options.maximum.map_or(greatest(falls), |said| said.unwrap_or(NO_MAXIMUM));
        let start = options.start.unwrap_or(if falls { maximum } else { minimum });
        Values {
            reserved_until: start,
            minimum,
            maximum,
            start,
            increment,
            cache: options.cache.unwrap_or(CACHE),
            cycle: u64::from(options.cycle.unwrap_or(false)),
            round: 0,
        }
    }

    /// What ALTER SEQUENCE makes of it.
    pub fn altered(&self, options: &SequenceOptions) -> Values {
        let mut new = self.clone();
        new.increment = options.increment.unwrap_or(self.increment);
        if let Some(minimum) = options.minimum {
            new.minimum = minimum.unwrap_or(NO_MINIMUM);
        }
        if let Some(maximum) = options.maximum {
            new.maximum = maximum.unwrap_or(NO_MAXIMUM);
        }
        new.start = options.start.unwrap_or(self.start);
        new.cache = options.cache.unwrap_or(self.cache);
        new.cycle = options.cycle.map_or(self.cycle, u64::from);
        if let Some(restart) = options.restart {
            new.reserved_until = restart.unwrap_or(new.start);
            new.round = 0;
        }
        new
    }

    /// Whether its parts fit together.
    pub fn are_sound(&self, step: ServerStep) -> bool {
        let increment = if self.increment == 0 { step.0 } else { self.increment };
        let stride = match increment.unsigned_abs() {
            0 => 65_535,
            stride => stride,
        };
        // So that CACHE times INCREMENT is a number.
        let cache_end = (i64::MAX as u64).saturating_sub(stride) / stride;
        let within = match increment > 0 {
            true => self.reserved_until >= self.minimum,
            false => self.reserved_until <= self.maximum,
        };
        self.maximum >= self.start
            && self.start >= self.minimum
            && self.maximum > self.minimum
            && self.maximum != i64::MAX
            && self.minimum != i64::MIN
            && u64::try_from(self.cache).is_ok_and(|cache| cache < cache_end)
            && within
    }

    /// The row's columns.
    pub fn row(&self) -> Vec<Value> {
        vec![
            Value::Int(self.reserved_until),
            Value::Int(self.minimum),
            Value::Int(self.maximum),
            Value::Int(self.start),
            Value::Int(self.increment),
            Value::UInt(self.cache as u64),
            Value::UInt(self.cycle),
            Value::Int(self.round),
        ]
    }

    /// Reads a row; none where a column holds no number.
    pub fn of_row<'v>(column: impl Fn(usize) -> ValueRef<'v>) -> Option<Values> {
        let number = |place: usize| match column(place) {
            ValueRef::Int(v) => Some(v),
            // One that is too large for the others' type is no sound CACHE.
            ValueRef::UInt(v) => Some(i64::try_from(v).unwrap_or(-1)),
            _ => None,
        };
        Some(Values {
            reserved_until: number(0)?,
            minimum: number(1)?,
            maximum: number(2)?,
            start: number(3)?,
            increment: number(4)?,
            cache: number(5)?,
            cycle: number(6)? as u64,
            round: number(7)?,
        })
    }

    /// `value` moved on by `by`, or the first that lies beyond the bounds.
    fn beyond(&self, value: i64, by: i64) -> i64 {
        match by > 0 {
            true => value
                .checked_add(by)
                .filter(|next| *next <= self.maximum)
                .unwrap_or(self.maximum.saturating_add(1)),
            false => value
                .checked_add(by)
                .filter(|next| *next >= self.minimum)
                .unwrap_or(self.minimum.saturating_sub(1)),
        }
    }
}

fn least(falls: bool) -> i64 {
    if falls { i64::MIN + 1 } else { 1 }
}

fn greatest(falls: bool) -> i64 {
    if falls { -1 } else { i64::MAX - 1 }
}

/// A sequence in memory.
#[derive(Debug, Clone)]
pub struct SequenceState {
    /// The key of the row.
    pub key: Vec<u8>,
    /// The row as it is kept.
    pub values: Values,
    /// The value that is given next; reserved if it lies before `values.reserved_until`.
    next: i64,
    /// The distance of two values.
    step: i64,
    /// Somebody was refused a value: so are others until the sequence is set or altered.
    exhausted: bool,
}

/// What asking for a value came to.
#[derive(Debug, PartialEq, Eq)]
pub enum NextValue {
    /// A value; the row has changed.
    Value(i64),
    /// There are no more.
    RunOut,
}

impl SequenceState {
    /// A sequence of which nothing lies in memory.
    pub fn new(key: Vec<u8>, values: Values, server: ServerStep) -> SequenceState {
        let mut state = SequenceState { key, next: 0, step: 1, exhausted: false, values };
        state.go_to(state.values.reserved_until, server);
        state
    }

    /// Puts another row in the place of this one.
    pub fn replace(&mut self, values: Values, server: ServerStep) {
        *self = SequenceState::new(std::mem::take(&mut self.key), values, server);
    }

    /// Lets values go on at the first that may be given from `next` on.
    fn go_to(&mut self, next: i64, (increment, offset): ServerStep) {
        (self.next, self.step) = (next, self.values.increment);
        if self.step != 0 {
            return;
        }
        self.step = increment.max(1);
        let place = if self.step == 1 { 0 } else { offset % self.step };
        let ahead = (place - next.rem_euclid(self.step)).rem_euclid(self.step);
        self.next = match next.checked_add(ahead) {
            Some(next) if next <= self.values.maximum => next,
            _ => self.values.maximum.saturating_add(1),
        };
    }

    /// A value that is reserved already.
    pub fn take(&mut self) -> Option<i64> {
        let reserved = match self.step > 0 {
            true => self.next < self.values.reserved_until,
            false => self.next > self.values.reserved_until,
        };
        if !reserved {
            return None;
        }
        let value = self.next;
        self.next = self.values.beyond(value, self.step);
        Some(value)
    }

    /// Reserves as many values as CACHE says, or as are wanted, and gives the first. Nothing may be reserved already.
    pub fn reserve(&mut self, wanted: i64, server: ServerStep) -> NextValue {
        if self.exhausted {
            return NextValue::RunOut;
        }
        if self.is_beyond() {
            if self.values.cycle == 0 {
                self.exhausted = true;
                return NextValue::RunOut;
            }
            self.values.round = self.values.round.wrapping_add(1);
            let begin = if self.step > 0 { self.values.minimum } else { self.values.maximum };
            self.values.reserved_until = begin;
            self.go_to(begin, server);
            if self.is_beyond() {
                self.exhausted = true;
                return NextValue::RunOut;
            }
        }
        let count = self.values.cache.max(wanted).max(1);
        let value = self.next;
        self.values.reserved_until =
            self.values.beyond(self.values.reserved_until, self.step.saturating_mul(count));
        self.next = self.values.beyond(value, self.step);
        NextValue::Value(value)
    }

    fn is_beyond(&self) -> bool {
        match self.step > 0 {
            true => self.next > self.values.maximum,
            false => self.next < self.values.minimum,
        }
    }

    /// SETVAL(): whether the sequence goes on from there, and whether its row changes; none where it has run out of rounds.
    pub fn set(&mut self, value: i64, used: bool, round: u64, server: ServerStep) -> Option<(bool, bool)> {
        let next = if used { self.values.beyond(value, self.step) } else { value };
        let now = self.values.round as u64;
        if now > round {
            return Some((false, false));
        }
        if now == round {
            let behind = if self.step > 0 { next < self.next } else { next > self.next };
            if behind || next == self.next {
                return Some((!behind, false));
            }
        } else if self.values.cycle == 0 {
            return None;
        }
        self.values.round = round as i64;
        self.exhausted = false;
        self.go_to(next, server);
        let past = match self.step > 0 {
            true => self.next > self.values.reserved_until,
            false => self.next < self.values.reserved_until,
        };
        let writes = past || now != round;
        if writes {
            self.values.reserved_until = self.next;
        }
        Some((true, writes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ServerStep = (1, 1);

    fn state(options: SequenceOptions) -> SequenceState {
        let values = Values::made(&options, ONE);
        assert!(values.are_sound(ONE), "{values:?}");
        SequenceState::new(Vec::new(), values, ONE)
    }

    fn next(state: &mut SequenceState) -> Option<i64> {
        state.take().or_else(|| match state.reserve(1, ONE) {
            NextValue::Value(value) => Some(value),
            NextValue::RunOut => None,
        })
    }

    #[test]
    fn values_go_on_in_both_directions_and_around() {
        let mut up = state(SequenceOptions {
            start: Some(5),
            increment: Some(2),
            minimum: Some(Some(1)),
            maximum: Some(Some(9)),
            cache: Some(3),
            cycle: Some(true),
            ..SequenceOptions::default()
        });
        let given: Vec<_> = (0..7).map(|_| next(&mut up)).collect();
        assert_eq!(given, [5, 7, 9, 1, 3, 5, 7].map(Some));
        assert_eq!((up.values.reserved_until, up.values.round), (10, 1));
        let mut down = state(SequenceOptions {
            increment: Some(-1),
            minimum: Some(Some(-3)),
            maximum: Some(Some(-1)),
            cache: Some(0),
            ..SequenceOptions::default()
        });
        let given: Vec<_> = (0..5).map(|_| next(&mut down)).collect();
        assert_eq!(given, [Some(-1), Some(-2), Some(-3), None, None]);
        assert_eq!(down.values.reserved_until, -4);
    }

    #[test]
    fn an_increment_of_zero_is_the_servers() {
        let server = (2, 2);
        let options = SequenceOptions {
            start: Some(-3),
            minimum: Some(Some(-1000)),
            increment: Some(0),
            ..Default::default()
        };
        let values = Values::made(&options, server);
        let mut state = SequenceState::new(Vec::new(), values, server);
        assert_eq!(state.reserve(1, server), NextValue::Value(-2));
        assert_eq!(state.take(), Some(0));
        let again = SequenceState::new(Vec::new(), state.values.clone(), server);
        assert_eq!((again.values.reserved_until, again.next), (1997, 1998));
    }

    #[test]
    fn setval_never_goes_back() {
        let mut state = state(SequenceOptions { cache: Some(10), ..SequenceOptions::default() });
        assert_eq!(state.set(10, true, 0, ONE), Some((true, true)));
        assert_eq!(state.values.reserved_until, 11);
        assert_eq!(next(&mut state), Some(11));
        assert_eq!(state.set(12, true, 0, ONE), Some((true, false)));
        assert_eq!(state.values.reserved_until, 21);
        assert_eq!(state.set(5, true, 0, ONE), Some((false, false)));
        assert_eq!(state.set(5, true, 1, ONE), None);
        assert_eq!(next(&mut state), Some(13));
    }

    #[test]
    fn bounds_are_kept_near_the_ends_of_numbers() {
        let options = SequenceOptions { start: Some(i64::MAX - 1), ..SequenceOptions::default() };
        let mut up = state(options);
        assert_eq!((next(&mut up), next(&mut up)), (Some(i64::MAX - 1), None));
        let least =
            SequenceOptions { start: Some(i64::MIN + 1), increment: Some(-5), ..SequenceOptions::default() };
        let mut down = state(least);
        assert_eq!((next(&mut down), next(&mut down)), (Some(i64::MIN + 1), None));
    }
}
