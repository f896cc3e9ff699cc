//! The rows of a JSON_TABLE, one by one.
//!
//! Each path to rows has a cursor over the places that it leads to, found when it is started: the first path's for the whole
//! document, a nested one's for each row above it. Places take eight bytes each, from the memory that statements share.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, errors};
use keel_document::json::find::{self, Search};
use keel_document::json::{Bound, Fault, Path, Scanner, Stop};
use keel_value::{Value, row};

use super::{Column, JsonTable, Kind, NAME};
use crate::expr::{EvalContext, RowSlot};
use crate::memory::Allowance;
use crate::select::FrameBuffer;
use crate::session::Session;

/// The argument that holds the document.
const DOCUMENT_ARGUMENT: usize = 1;
/// Places found between two looks at how much memory they take.
const PLACES_PER_CHECK: usize = 1024;

/// Where a value lies in the document.
type ValueSpan = (u32, u32);

/// A JSON_TABLE while it is read.
pub struct JsonRun<'p> {
    table: &'p JsonTable,
    /// Columns to be looked for, with their paths.
    wanted: Vec<Option<Path<'p>>>,
    cursors: Vec<Cursor<'p>>,
    document: Vec<u8>,
    values: Vec<Value>,
    memory: Option<Allowance>,
}

/// A path to rows while it is followed.
struct Cursor<'p> {
    path: Path<'p>,
    children: &'p [usize],
    places: Vec<ValueSpan>,
    /// Places taken; the row's own is the last of them.
    taken: usize,
    /// Which of the children gives rows now.
    child: Option<usize>,
    /// It has no row, so that its columns are NULL.
    is_null: bool,
    /// What ended the search for places.
    fault: Option<Fault>,
}

/// A path that was checked when it was bound.
pub(super) fn parsed(path: &[u8]) -> Path<'_> {
    Path::parse(path).unwrap_or_else(|_| Path { steps: Default::default() })
}

impl<'p> JsonRun<'p> {
    /// A run that is not open yet; `needed` says which columns anybody reads.
    pub fn new(table: &'p JsonTable, needed: &[bool]) -> JsonRun<'p> {
        let path = |(column, needed): (&'p Column, &bool)| match &column.kind {
            _ if !needed && !column.may_fail() => None,
            Kind::Ordinality => Some(Path { steps: Default::default() }),
            Kind::Exists(path) | Kind::Value { path, .. } => Some(parsed(path)),
        };
        let cursor = |nest: &'p super::Nest| Cursor {
            path: parsed(&nest.path),
            children: &nest.children,
            places: Vec::new(),
            taken: 0,
            child: None,
            is_null: true,
            fault: None,
        };
        JsonRun {
            table,
            wanted: table.columns.iter().zip(needed).map(path).collect(),
            cursors: table.nests.iter().map(cursor).collect(),
            document: Vec::new(),
            values: Vec::new(),
            memory: None,
        }
    }

    /// Begins with the document that the frame's rows give.
    pub fn open(&mut self, session: &mut Session, frame: &FrameBuffer<'_>) -> SqlResult<()> {
        for cursor in &mut self.cursors {
            cursor.reset();
        }
        session.current_row = 0;
        self.document.clear();
        let mut cx = EvalContext::new(session, frame.view());
        let Some(text) = self.table.document.text(&mut cx)? else { return Ok(()) };
        if u32::try_from(text.len()).is_err() {
            return Err(errors::outofmemory(text.len()));
        }
        self.document.extend_from_slice(&text);
        let whole = (0, self.document.len() as u32);
        self.start(0, whole, session)
    }

    /// The next row, into a slot; false at the end.
    pub fn next(&mut self, session: &mut Session, slot: &mut RowSlot) -> SqlResult<bool> {
        if !self.advance(0, session)? {
            return match self.cursors[0].fault.take() {
                Some(fault) => Err(fault.of_text(DOCUMENT_ARGUMENT, NAME)),
                None => Ok(false),
            };
        }
        session.current_row += 1;
        let mut values = std::mem::take(&mut self.values);
        values.clear();
        for (column, path) in self.table.columns.iter().zip(&self.wanted) {
            let cursor = &self.cursors[column.nest];
            values.push(match (path, &column.kind) {
                (Some(_), _) if cursor.is_null => Value::Null,
                (Some(_), Kind::Ordinality) => Value::Int(cursor.taken as i64),
                (Some(path), _) => self.table.value(column, path, cursor.part(&self.document), session)?,
                (None, _) => Value::Null,
            });
        }
        let layout = &self.table.layout;
        match slot {
            RowSlot::Stored { layout: before, map: None, bytes } if Arc::ptr_eq(before, layout) => {
                bytes.clear();
                row::encode_values(layout, &values, bytes);
            }
            _ => {
                let mut bytes = Vec::new();
                row::encode_values(layout, &values, &mut bytes);
                *slot = RowSlot::Stored { layout: layout.clone(), map: None, bytes };
            }
        }
        self.values = values;
        Ok(true)
    }

    /// Takes the next row of a path and of those below it; false where there is none.
    fn advance(&mut self, number: usize, session: &Session) -> SqlResult<bool> {
        if let Some(child) = self.cursors[number].child
            && (self.advance(self.cursors[number].children[child], session)?
                || self.begin_children(number, child + 1, session)?)
        {
            return Ok(true);
        }
        let cursor = &mut self.cursors[number];
        if cursor.taken == cursor.places.len() {
            cursor.is_null = true;
            return Ok(false);
        }
        cursor.taken += 1;
        // A row without any below it is a row all the same.
        self.begin_children(number, 0, session)?;
        Ok(true)
    }

    /// Looks for a row below the one that is there, in the children from `first` on.
    fn begin_children(&mut self, number: usize, first: usize, session: &Session) -> SqlResult<bool> {
        let cursor = &self.cursors[number];
        let (children, place) = (cursor.children, cursor.place());
        for (child, nested) in children.iter().enumerate().skip(first) {
            self.start(*nested, place, session)?;
            if self.advance(*nested, session)? {
                self.cursors[number].child = Some(child);
                return Ok(true);
            }
        }
        self.cursors[number].child = None;
        Ok(false)
    }

    /// Finds all that a path leads to within a part of the document.
    fn start(&mut self, number: usize, (from, to): ValueSpan, session: &Session) -> SqlResult<()> {
        let others: usize = self.cursors.iter().map(|cursor| cursor.places.len()).sum();
        let cursor = &mut self.cursors[number];
        let others = others - cursor.places.len();
        cursor.reset();
        cursor.is_null = false;
        let text = &self.document[from as usize..to as usize];
        let memory = &mut self.memory;
        let places = &mut cursor.places;
        let mut scanner = Scanner::new(text);
        let mut go_on = || session.let_others_run();
        let visit = &mut |mut scanner: Scanner<'_>, value: keel_document::json::Value, _: &[_], _: usize| {
            let end = scanner.skip(&value)?;
            if places.len().is_multiple_of(PLACES_PER_CHECK) {
                allow(memory, others + places.len(), session).map_err(Stop::Caller)?;
            }
            places.push((from + value.start as u32, from + end as u32));
            Ok(Search::Continue(()))
        };
        let paths = std::slice::from_ref(&cursor.path);
        let walked = find::walk(&mut scanner, paths, false, &mut Bound::new(usize::MAX, &mut go_on), visit);
        match walked.and_then(|_| scanner.finish().map_err(Stop::Fault)) {
            Ok(()) => Ok(()),
            Err(Stop::Fault(fault)) => {
                cursor.fault = Some(fault);
                Ok(())
            }
            Err(Stop::Caller(error)) => Err(error),
        }
    }
}

/// Takes memory for more places; 1037 where there is none.
fn allow(memory: &mut Option<Allowance>, places: usize, session: &Session) -> Result<(), SqlError> {
    let bytes = (places + PLACES_PER_CHECK) * size_of::<ValueSpan>();
    let memory = memory.get_or_insert_with(|| Allowance::new(u64::MAX, session.work()));
    if memory.allows(bytes) { Ok(()) } else { Err(errors::outofmemory(bytes)) }
}

impl Cursor<'_> {
    fn reset(&mut self) {
        if self.places.capacity() > PLACES_PER_CHECK {
            self.places = Vec::new();
        }
        self.places.clear();
        (self.taken, self.child, self.is_null, self.fault) = (0, None, true, None);
    }

    fn place(&self) -> ValueSpan {
        self.places[self.taken - 1]
    }

    /// The part of the document that its row is.
    fn part<'d>(&self, document: &'d [u8]) -> &'d [u8] {
        let (from, to) = self.place();
        &document[from as usize..to as usize]
    }
}
