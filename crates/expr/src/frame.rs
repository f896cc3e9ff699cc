//! What an expression is evaluated over: the current row of each table, parameters, enclosing rows.
//!
//! A [`RowSlot`] is filled by a table's reader and reused from row to row; a [`Frame`] is a view of borrowed parts,
//! put together per evaluation, so that readers may fill slots between evaluations without interior mutability.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use keel_catalog::EntryShape;
use keel_value::decimal::Small;
use keel_value::{Value, ValueRef, row};

use super::env::{Env, Executor};
use super::one_of::ListRows;
use super::routine::Memory;

/// Marks a table column that a kept row does not hold.
pub const NOT_COVERED: u16 = u16::MAX;

/// The current row of one table.
#[derive(Debug, Clone)]
pub enum RowSlot {
    /// All columns are NULL: no row yet, or the empty side of an outer join.
    Null,
    /// Encoded bytes.
    Stored {
        /// How the bytes are read.
        layout: Arc<row::Layout>,
        /// For rows of some columns: place of each table column in the layout, [`NOT_COVERED`] where it has none.
        map: Option<Arc<[u16]>>,
        /// The row.
        bytes: Vec<u8>,
    },
    /// An entry of an index that covers what is read.
    Entry {
        /// How it is read.
        shape: Arc<EntryShape>,
        /// Its key.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
    },
    /// Encoded bytes of a whole row, and behind its columns its hidden number.
    Numbered {
        /// How the bytes are read.
        layout: Arc<row::Layout>,
        /// The row.
        bytes: Vec<u8>,
        /// Its number.
        number: u64,
    },
    /// Decoded values, one per column.
    Values(Vec<Value>),
}

impl RowSlot {
    /// A column's value.
    #[inline]
    pub fn get(&self, column: u16) -> ValueRef<'_> {
        match self {
            RowSlot::Stored { layout, map: None, bytes } => {
                row::RowRef::new(layout, bytes).get(column as usize)
            }
            RowSlot::Stored { layout, map: Some(map), bytes } => {
                let place = map[column as usize];
                assert_ne!(place, NOT_COVERED, "column {column} was not kept");
                row::RowRef::new(layout, bytes).get(place as usize)
            }
            RowSlot::Entry { shape, key, value } => shape.get(column as usize, key, value),
            RowSlot::Numbered { layout, number, .. } if column as usize == layout.columns().len() => {
                ValueRef::UInt(*number)
            }
            RowSlot::Numbered { layout, bytes, .. } => row::RowRef::new(layout, bytes).get(column as usize),
            RowSlot::Values(values) => values[column as usize].as_ref(),
            RowSlot::Null => ValueRef::Null,
        }
    }

    /// A column's value where it is an exact number of few digits; none also for NULL.
    #[inline]
    pub fn small(&self, column: u16) -> Option<Small> {
        match self {
            RowSlot::Stored { layout, map: None, bytes } => {
                row::RowRef::new(layout, bytes).small(column as usize)
            }
            RowSlot::Stored { layout, map: Some(map), bytes } if map[column as usize] != NOT_COVERED => {
                row::RowRef::new(layout, bytes).small(map[column as usize] as usize)
            }
            _ => Small::of(self.get(column)),
        }
    }

    /// Copies an entry into it, whose buffers are reused.
    pub fn set_entry(&mut self, shape: &Arc<EntryShape>, key: &[u8], value: &[u8]) {
        if let RowSlot::Entry { shape: before, key: old_key, value: old_value } = self
            && Arc::ptr_eq(before, shape)
        {
            old_key.clear();
            old_key.extend_from_slice(key);
            old_value.clear();
            old_value.extend_from_slice(value);
            return;
        }
        *self = RowSlot::Entry { shape: shape.clone(), key: key.to_vec(), value: value.to_vec() };
    }
}

/// The rows, parameters and enclosing frames that an expression sees.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'f> {
    /// One per table of the query.
    pub slots: &'f [RowSlot],
    /// The execution's parameters.
    pub params: &'f [Value],
    /// What is computed once per execution: values of [`super::Node::Once`], sorted IN lists, subquery results.
    pub once: &'f [OnceCell<Kept>],
    /// The enclosing query's frame.
    pub outer: Option<&'f Frame<'f>>,
}

impl Frame<'static> {
    /// Nothing: for constant expressions.
    pub const EMPTY: Frame<'static> = Frame { slots: &[], params: &[], once: &[], outer: None };
}

impl<'f> Frame<'f> {
    /// The frame `level` queries outwards; 0 is this one.
    #[inline]
    pub fn at(&self, level: u16) -> Frame<'f> {
        let mut frame = *self;
        for _ in 0..level {
            frame = *frame.outer.expect("the binder counts enclosing queries");
        }
        frame
    }
}

/// What evaluation needs beside the expression: the rows, and the code that runs the statement.
pub struct EvalContext<'s, 'f> {
    /// Lends its [`Env`] to expressions and itself to routines.
    pub executor: &'s mut dyn Executor,
    /// The rows seen.
    pub frame: Frame<'f>,
}

impl<'s, 'f> EvalContext<'s, 'f> {
    /// A context over a frame.
    pub fn new(executor: &'s mut dyn Executor, frame: Frame<'f>) -> Self {
        EvalContext { executor, frame }
    }

    /// What expressions see of the session.
    #[inline]
    pub fn env(&self) -> &Env {
        self.executor.env()
    }

    /// The same, to change it.
    #[inline]
    pub fn env_mut(&mut self) -> &mut Env {
        self.executor.env_mut()
    }
}

/// Something computed once per execution.
#[derive(Debug)]
pub enum Kept {
    /// A value.
    Value(Value),
    /// The elements of an IN list without NULL, sorted; and whether NULL was among them.
    Sorted(Vec<Value>, bool),
    /// A long list of rows.
    Rows(Box<ListRows>),
    /// What a routine keeps.
    Routine(Memory),
    /// A compiled regular expression; none where the pattern was NULL.
    Regex(Option<Box<pcre2::bytes::Regex>>),
    /// The state of a RAND(seed).
    Seeds(Cell<(u32, u32)>),
}

/// Empty cells for what a plan keeps per execution.
pub fn once_cells(count: u32) -> Vec<OnceCell<Kept>> {
    (0..count).map(|_| OnceCell::new()).collect()
}
