//! Columns that ALTER TABLE renames: every action means the columns by the names that they had before all of them.
//!
//! `CHANGE a b ..., CHANGE b a ...` swaps two names. Actions are carried out one after the other; where a new name is
//! still that of a column which a later action renames, that column waits under a name that no statement can say.

use std::borrow::Cow;

use keel_base::{SqlResult, errors};
use keel_catalog::{TableDef, TableRecord, names};
use keel_sql::ast::AlterAction;

use super::checks;

/// Longer than any name of a column.
const WAITING_PREFIX: &str =
    "waits for its name, which another column has taken before it could give it away: ";

/// Columns that wait for their new names.
#[derive(Default)]
pub(super) struct Renames {
    /// What they were called, and what they are called meanwhile.
    waiting: Vec<(String, String)>,
}

/// The old and the new name of a column that an action renames.
fn of(action: &AlterAction) -> Option<(&str, &str)> {
    let (old, new) = match action {
        AlterAction::ChangeColumn { old, column, .. } => (old.as_str(), column.name.as_str()),
        AlterAction::RenameColumn { old, new, .. } => (old.as_str(), new.as_str()),
        _ => return None,
    };
    (!names::same(old, new)).then_some((old, new))
}

impl Renames {
    /// Prepares an action: its new name becomes free where one of the `later` actions gives it away, and its column is
    /// named as it is called now.
    pub fn make_way<'a>(
        &mut self,
        table: &TableDef,
        record: &mut TableRecord,
        action: &'a AlterAction,
        later: &[&AlterAction],
    ) -> SqlResult<Cow<'a, AlterAction>> {
        let Some((old, new)) = of(action) else { return Ok(Cow::Borrowed(action)) };
        let is_waiting = |name: &str| self.waiting.iter().position(|(was, _)| names::same(was, name));
        let (own, taken) = (is_waiting(old), is_waiting(new).is_some());
        if own.is_none() && table.column_index(old).is_none() && has(record, old) {
            return Err(errors::bad_field(old, &*record.name));
        }
        let moves_on = later.iter().copied().filter_map(of).any(|(next, _)| names::same(next, new));
        if moves_on && !taken && has(record, new) {
            let meanwhile = format!("{WAITING_PREFIX}{}", self.waiting.len());
            rename(record, new, &meanwhile);
            self.waiting.push((new.to_string(), meanwhile));
        }
        Ok(match own {
            Some(own) => Cow::Owned(renamed(action, &self.waiting[own].1)),
            None => Cow::Borrowed(action),
        })
    }
}

/// 1054 where an action names a column that another one changes, renames or gives a default: each is found once, by the name
/// that it had.
pub fn check_once(table: &TableDef, actions: &[&AlterAction]) -> SqlResult<()> {
    let is_added = |name: &str| {
        let adds = |action: &&AlterAction| matches!(action, AlterAction::AddColumn { column, .. } if names::same(&column.name, name));
        actions.iter().any(adds)
    };
    let becomes = |name: &str| {
        let mut renames = actions.iter().copied().filter_map(of);
        renames.any(|(old, new)| names::same(new, name) && !names::same(old, new))
    };
    let mut named: Vec<&str> = Vec::new();
    for action in actions {
        let name = match action {
            AlterAction::ChangeColumn { old, .. } | AlterAction::RenameColumn { old, .. } => old,
            AlterAction::SetDefault { name, .. } => name,
            _ => continue,
        };
        let is_there = table.column_index(name).is_some();
        let again = named.iter().any(|other| names::same(other, name));
        if again || !is_there && !is_added(name) && becomes(name) {
            return Err(errors::bad_field(name, &*table.name));
        }
        if is_there {
            named.push(name);
        }
    }
    Ok(())
}

fn has(record: &TableRecord, name: &str) -> bool {
    record.columns.iter().any(|column| names::same(&column.name, name))
}

fn rename(record: &mut TableRecord, old: &str, new: &str) {
    for column in record.columns.iter_mut().filter(|column| names::same(&column.name, old)) {
        column.name = new.into();
    }
    checks::rename_column(record, old, new);
}

/// The same action for a column that is called otherwise now.
fn renamed(action: &AlterAction, now: &str) -> AlterAction {
    let mut action = action.clone();
    if let AlterAction::ChangeColumn { old, .. } | AlterAction::RenameColumn { old, .. } = &mut action {
        *old = now.to_string();
    }
    action
}
