//! Row events, and the images of rows in them.
//!
//! ```text
//! table id u48 | flags u16 | [length of extra data u16, counting itself | extra data]  v2 only | columns packed
//! | columns of the image | [columns of the after-image: updates] | rows, compressed or not
//! image: NULL bits of the columns that it has, unused ones set | values that are not NULL
//! ```
//! An update has a before-image and an after-image per row. An event whose images have no columns has one
//! row.

use std::borrow::Cow;

use keel_value::ValueRef;

use crate::bytes::{Input, Output, bit, bitmap_bytes};
use crate::columns::Column;
use crate::compress;
use crate::error::{Error, Result};
use crate::header::kind;
use crate::image;
use crate::table_map::{TABLE_ID_MAX, check_width};

/// Bits of [`Rows::flags`].
pub mod flags {
    /// The last event of a statement.
    pub const STMT_END: u16 = 0x1;
    /// `foreign_key_checks=0`.
    pub const NO_FOREIGN_KEY_CHECKS: u16 = 0x2;
    /// `unique_checks=0`.
    pub const RELAXED_UNIQUE_CHECKS: u16 = 0x4;
    /// The images have all columns.
    pub const COMPLETE_ROWS: u16 = 0x8;
    /// `check_constraint_checks=0`.
    pub const NO_CHECK_CONSTRAINT_CHECKS: u16 = 0x80;
}

/// The change that a row event describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// Rows were inserted.
    Write,
    /// Rows were updated.
    Update,
    /// Rows were deleted.
    Delete,
}

/// One of the twelve kinds of row events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The change.
    pub change: Change,
    /// Version 2, which only MySQL writes.
    pub version2: bool,
    /// Whether the rows are compressed.
    pub compressed: bool,
}

impl Shape {
    /// The shape that 10.11 writes without compression.
    pub const fn plain(change: Change) -> Shape {
        Shape { change, version2: false, compressed: false }
    }

    /// The number of the kind.
    pub const fn kind(self) -> u8 {
        let first = match (self.version2, self.compressed) {
            (false, false) => kind::WRITE_ROWS_V1,
            (true, false) => kind::WRITE_ROWS,
            (false, true) => kind::WRITE_ROWS_COMPRESSED_V1,
            (true, true) => kind::WRITE_ROWS_COMPRESSED,
        };
        first + self.change as u8
    }
}

/// A row event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows<'a> {
    /// Which kind.
    pub shape: Shape,
    /// The table, as its Table_map event names it.
    pub table_id: u64,
    /// Bits of [`flags`].
    pub flags: u16,
    /// Extra data of version 2; empty in version 1.
    pub extra: &'a [u8],
    /// Number of columns of the table.
    pub width: u32,
    /// A bit for each column of the image; of the before-image in updates.
    pub columns: &'a [u8],
    /// A bit for each column of the after-image; empty unless the change is an update.
    pub after: &'a [u8],
    /// The images, compressed if the shape says so.
    pub body: &'a [u8],
}

impl<'a> Rows<'a> {
    pub(crate) fn shape_of(number: u8) -> Option<Shape> {
        let (first, version2, compressed) = match number {
            kind::WRITE_ROWS_V1..=kind::DELETE_ROWS_V1 => (kind::WRITE_ROWS_V1, false, false),
            kind::WRITE_ROWS..=kind::DELETE_ROWS => (kind::WRITE_ROWS, true, false),
            kind::WRITE_ROWS_COMPRESSED_V1..=kind::DELETE_ROWS_COMPRESSED_V1 => {
                (kind::WRITE_ROWS_COMPRESSED_V1, false, true)
            }
            kind::WRITE_ROWS_COMPRESSED..=kind::DELETE_ROWS_COMPRESSED => {
                (kind::WRITE_ROWS_COMPRESSED, true, true)
            }
            _ => return None,
        };
        let change = [Change::Write, Change::Update, Change::Delete][usize::from(number - first)];
        Some(Shape { change, version2, compressed })
    }

    pub(crate) fn decode(input: &mut Input<'a>, shape: Shape) -> Result<Rows<'a>> {
        let table_id = input.uint(6)?;
        let flags = input.u16()?;
        let mut extra: &[u8] = &[];
        if shape.version2 {
            let at = input.offset();
            let Some(length) = input.u16()?.checked_sub(2) else {
                return Err(Error::invalid(at, "length of extra data"));
            };
            extra = input.take(length.into())?;
        }
        let width = input.packed_u32("number of columns")?;
        let columns = input.take(bitmap_bytes(width as usize))?;
        let after = if shape.change == Change::Update { input.take(columns.len())? } else { &[] };
        Ok(Rows { shape, table_id, flags, extra, width, columns, after, body: input.rest() })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        self.encode_head(out)?;
        out.put(self.body);
        Ok(())
    }

    /// Appends all fields before the images. Callers then append images with [`append_image`].
    pub fn encode_head(&self, out: &mut Vec<u8>) -> Result<()> {
        let bytes = bitmap_bytes(self.width as usize);
        let after_bytes = if self.shape.change == Change::Update { bytes } else { 0 };
        if self.columns.len() != bytes || self.after.len() != after_bytes {
            return Err(Error::invalid(out.len(), "number of columns"));
        }
        if self.table_id > TABLE_ID_MAX {
            return Err(Error::no_room(out.len(), "the id of a table"));
        }
        out.put_uint(self.table_id, 6);
        out.put_uint(self.flags.into(), 2);
        if self.shape.version2 {
            let Ok(length) = u16::try_from(self.extra.len() + 2) else {
                return Err(Error::no_room(out.len(), "extra data of a row event"));
            };
            out.put_uint(length.into(), 2);
            out.put(self.extra);
        } else if !self.extra.is_empty() {
            return Err(Error::no_room(out.len(), "extra data of a row event"));
        }
        out.put_packed(self.width.into());
        out.put(self.columns);
        out.put(self.after);
        Ok(())
    }

    /// Bytes from the start of the event to its images.
    fn body_offset(&self) -> usize {
        let width = match self.width {
            0..=250 => 1,
            251..=0xffff => 3,
            0x1_0000..=0xff_ffff => 4,
            _ => 9,
        };
        let extra = if self.shape.version2 { 2 + self.extra.len() } else { 0 };
        crate::header::HEADER_BYTES + 8 + extra + width + self.columns.len() + self.after.len()
    }

    /// The images. Fails if the uncompressed images are longer than `max`.
    pub fn images(&self, max: usize) -> Result<Cow<'a, [u8]>> {
        if !self.shape.compressed {
            return Ok(Cow::Borrowed(self.body));
        }
        let images =
            compress::unpack(self.body, max).map_err(|error| error.in_file(self.body_offset() as u64));
        images.map(Cow::Owned)
    }

    /// A reader of `images`, the result of [`Rows::images`], for a table with `columns`. Offsets of errors
    /// count from the start of the event, or from the start of the uncompressed images.
    pub fn reader<'r>(&self, images: &'r [u8], columns: &'r [Column]) -> Result<RowReader<'r>>
    where
        'a: 'r,
    {
        check_width(self.width, columns)?;
        let base = if self.shape.compressed { 0 } else { self.body_offset() };
        let after = (self.shape.change == Change::Update).then_some(self.after);
        let input = Input::new(images, base);
        let is_empty = |bitmap: &[u8]| !(0..columns.len()).any(|index| bit(bitmap, index));
        if is_empty(self.columns) && is_empty(self.after) {
            // Such a row has no bytes, so any bytes would make endless rows.
            input.end()?;
        }
        Ok(RowReader {
            input,
            columns,
            present: self.columns,
            after,
            is_insert: self.shape.change == Change::Write,
            next: Next::First,
        })
    }
}

/// The kind of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Image {
    /// The row as it was: deletes and updates.
    Before,
    /// The row as it is: inserts and updates.
    After,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The first image of the event.
    First,
    /// The first image of another row.
    Row,
    /// The after-image of an update.
    After,
    /// None: there was an error.
    Failed,
}

/// Reads one image after the other.
#[derive(Debug, Clone)]
pub struct RowReader<'r> {
    input: Input<'r>,
    columns: &'r [Column],
    present: &'r [u8],
    after: Option<&'r [u8]>,
    is_insert: bool,
    next: Next,
}

impl<'r> RowReader<'r> {
    /// Reads the next image into `values`: an item for each column of the table, `None` if the image does not
    /// have the column. Returns `None` at the end of the event.
    pub fn next_image(&mut self, values: &mut Vec<Option<ValueRef<'r>>>) -> Result<Option<Image>> {
        values.clear();
        let (present, image) = match (self.next, self.after) {
            (Next::After, Some(after)) => (after, Image::After),
            (Next::Failed, _) => return Ok(None),
            (Next::Row, _) if self.input.is_empty() => return Ok(None),
            _ => (self.present, if self.is_insert { Image::After } else { Image::Before }),
        };
        if let Err(error) = image::read(&mut self.input, self.columns, present, values) {
            self.next = Next::Failed;
            return Err(error);
        }
        let has_after = self.after.is_some() && self.next != Next::After;
        self.next = if has_after { Next::After } else { Next::Row };
        Ok(Some(image))
    }
}

/// Appends an image of the columns whose bit in `present` is set. `value` returns the value of a column by
/// its index. Allocates only when `out` grows.
pub fn append_image<'v>(
    out: &mut Vec<u8>,
    columns: &[Column],
    present: &[u8],
    value: impl FnMut(usize) -> ValueRef<'v>,
) -> Result<()> {
    image::append(out, columns, present, value)
}

/// A bitmap of `width` set bits.
pub fn all_columns(width: usize) -> Vec<u8> {
    let mut bitmap = vec![0xff; bitmap_bytes(width)];
    if let Some(last) = bitmap.last_mut().filter(|_| !width.is_multiple_of(8)) {
        *last = (1 << (width % 8)) - 1;
    }
    bitmap
}
