//! Where the columns of an index entry stand: in its key or in its value.

use std::sync::Arc;

use keel_value::row::{Column, Layout, RowRef};
use keel_value::{ValueRef, key};

use super::ColumnDef;

/// How an entry of an index is read.
///
/// An entry is a key and a value. Of the columns that it holds, numbers and times can be had from the key; the value has
/// the others. The clustered key's entries are the rows: all columns are in the value.
#[derive(Debug)]
pub struct EntryShape {
    /// How a value is read. One without columns is empty.
    pub layout: Arc<Layout>,
    /// For each column of `layout` its column of the table.
    pub in_value: Vec<usize>,
    parts: Vec<Part>,
    /// For each column of the table.
    places: Vec<ColumnSource>,
}

/// A part of a key.
#[derive(Debug)]
struct Part {
    encoder: key::KeyPart,
    column: usize,
    whole: bool,
    /// Where it begins, if the parts before are always as long.
    offset: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
enum ColumnSource {
    Nowhere,
    Key(u16),
    Value(u16),
}

impl EntryShape {
    /// The shape of the clustered key's entries.
    pub(super) fn of_rows(layout: &Arc<Layout>) -> EntryShape {
        let count = layout.columns().len();
        EntryShape {
            layout: layout.clone(),
            in_value: (0..count).collect(),
            parts: Vec::new(),
            places: (0..count).map(|column| ColumnSource::Value(column as u16)).collect(),
        }
    }

    /// The shape of entries whose keys have these parts and columns: `own` ones, then the clustered key's. `lean` entries
    /// leave out of the value what the key gives back; others have all columns of the clustered key, also those of which
    /// it has a prefix.
    pub(super) fn new(
        parts: Vec<(key::KeyPart, usize)>,
        own: usize,
        columns: &[ColumnDef],
        lean: bool,
    ) -> EntryShape {
        let mut offset = Some(0);
        let place = |(number, (encoder, column)): (usize, (key::KeyPart, usize))| {
            let whole = encoder.prefix.is_none() || (!lean && number >= own);
            let part = Part { whole, column, offset, encoder };
            offset = offset.zip(part.encoder.width()).map(|(at, width)| at + width);
            part
        };
        let parts: Vec<Part> = parts.into_iter().enumerate().map(place).collect();
        let mut places = vec![ColumnSource::Nowhere; columns.len()];
        let mut in_value = Vec::new();
        for (number, part) in parts.iter().enumerate().filter(|(_, part)| part.whole) {
            if !matches!(places[part.column], ColumnSource::Nowhere) {
                continue;
            }
            places[part.column] = if lean && part.encoder.is_scalar() {
                ColumnSource::Key(number as u16)
            } else {
                in_value.push(part.column);
                ColumnSource::Value(in_value.len() as u16 - 1)
            };
        }
        let held = |column: &usize| {
            let column = &columns[*column];
            Column { ty: column.ty.clone(), nullable: column.nullable, default: column.added_with.clone() }
        };
        let layout = Arc::new(Layout::with_defaults(in_value.iter().map(held).collect()));
        EntryShape { layout, in_value, parts, places }
    }

    /// Whether a column of the table can be had from an entry.
    pub fn holds(&self, column: usize) -> bool {
        self.places.get(column).is_some_and(|place| !matches!(place, ColumnSource::Nowhere))
    }

    /// The columns of the table that an entry holds, in their order there.
    pub fn columns(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.places.len()).filter(|column| self.holds(*column))
    }

    /// A column of the table from an entry that holds it.
    #[inline]
    pub fn get<'e>(&'e self, column: usize, key: &[u8], value: &'e [u8]) -> ValueRef<'e> {
        match self.places[column] {
            ColumnSource::Value(place) => RowRef::new(&self.layout, value).get(usize::from(place)),
            ColumnSource::Key(number) => self.scalar(usize::from(number), key),
            ColumnSource::Nowhere => panic!("column {column} is not in the index"),
        }
    }

    #[inline]
    fn scalar(&self, number: usize, key: &[u8]) -> ValueRef<'static> {
        let part = &self.parts[number];
        let offset = part.offset.or_else(|| {
            self.parts[..number]
                .iter()
                .try_fold(0, |at, before| Some(at + before.encoder.skip(key.get(at..)?)?))
        });
        let rest = offset.and_then(|at| key.get(at..)).unwrap_or(&[]);
        part.encoder.scalar(rest)
    }

    /// What is wrong with the form of an entry's value, in words.
    pub fn problem(&self, value: &[u8]) -> Option<String> {
        if self.in_value.is_empty() {
            return (!value.is_empty()).then(|| format!("{} bytes beside the key", value.len()));
        }
        self.layout.problem(value)
    }
}
