//! Indexes that lose columns to ALTER TABLE.
//!
//! An index over a dropped column goes on without it, and goes with its last one; but one that takes no key twice would take
//! fewer rows, and must be dropped by the statement itself (1072). A column that comes again under its name, in the same
//! statement, takes its place in the indexes again.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::{IndexKind, IndexRecord, KeyPart, names};

use super::alter::Alteration;

/// The column of a part whose column was just taken out.
pub(super) const NOWHERE: usize = usize::MAX;

/// What an index has lost.
pub(super) struct LostPart {
    /// The index.
    pub index: Arc<str>,
    /// The column's name.
    column: Arc<str>,
    /// The place among the index's parts, as they were before the statement.
    place: usize,
    part: KeyPart,
}

impl Alteration {
    /// Notes what indexes lose with the column of that name, which was taken out. Those that have nothing left go.
    pub(super) fn lose_parts(&mut self, column: &Arc<str>) {
        let Alteration { record, kept_indexes, lost_parts, lost_indexes, .. } = self;
        for index in &mut record.indexes {
            let Some(mut place) = index.parts.iter().position(|part| part.column == NOWHERE) else {
                continue;
            };
            let part = index.parts.remove(place);
            let lost = lost_parts.iter().filter(|lost| names::same(&lost.index, &index.name));
            let mut before: Vec<usize> = lost.map(|lost| lost.place).collect();
            before.sort_unstable();
            before.into_iter().for_each(|lost| place += usize::from(lost <= place));
            lost_parts.push(LostPart { index: index.name.clone(), column: column.clone(), place, part });
            kept_indexes.retain(|kept| !names::same(kept, &index.name));
        }
        lost_indexes.extend(record.indexes.extract_if(.., |index| index.parts.is_empty()));
    }

    /// Gives the indexes that have lost a column of this name the new one.
    pub(super) fn restore_parts(&mut self, column: usize) {
        let (name, ty) = (&self.record.columns[column].name, &self.record.columns[column].ty);
        let is_back = |lost: &mut LostPart| names::same(&lost.column, name);
        for back in self.lost_parts.extract_if(.., is_back).collect::<Vec<_>>() {
            let of_index = |lost: &&LostPart| names::same(&lost.index, &back.index);
            let missing =
                self.lost_parts.iter().filter(of_index).filter(|lost| lost.place < back.place).count();
            let is_it = |index: &IndexRecord| names::same(&index.name, &back.index);
            if let Some(gone) = self.lost_indexes.iter().position(is_it)
                && !self.record.indexes.iter().any(is_it)
            {
                self.record.indexes.push(self.lost_indexes.remove(gone));
            }
            let Some(index) = self.record.indexes.iter_mut().find(|index| is_it(index)) else { continue };
            let fits = |prefix: &u32| ty.is_blob() || ty.is_string() && *prefix < ty.length;
            let part = KeyPart { column, prefix: back.part.prefix.filter(fits), ..back.part };
            index.parts.insert((back.place - missing).min(index.parts.len()), part);
        }
    }

    /// Once all actions are carried out: refuses unique indexes that have lost a part of their columns.
    pub(super) fn settle_parts(&self) -> SqlResult<()> {
        // Another index may have the name of one that is gone.
        let is_gone =
            |index: &IndexRecord| self.lost_indexes.iter().any(|g| names::same(&g.name, &index.name));
        let unique = self.record.indexes.iter().filter(|index| index.kind != IndexKind::Plain);
        for index in unique.filter(|index| !is_gone(index)) {
            let lost = self.lost_parts.iter().filter(|lost| names::same(&lost.index, &index.name));
            if let Some(lost) = lost.max_by_key(|lost| lost.place) {
                return Err(errors::key_column_does_not_exist(&lost.column));
            }
        }
        Ok(())
    }
}
