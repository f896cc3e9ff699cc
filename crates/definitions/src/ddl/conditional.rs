//! IF EXISTS and IF NOT EXISTS of ALTER TABLE: settled for all actions against the table as it was.

use keel_base::{SqlError, errors};
use keel_catalog::{IndexKind, TableRecord, check, names};
use keel_exec::session::Session;
use keel_sql::ast::{AlterAction, KeyDef, KeyKind};

/// The actions that are carried out; a note is made of each of the others.
pub(super) fn strike<'a>(
    session: &mut Session,
    table: &TableRecord,
    actions: &'a [AlterAction],
) -> Vec<&'a AlterAction> {
    let mut kept = Vec::with_capacity(actions.len());
    for action in actions {
        match struck(table, action) {
            Some(note) => session.note(note),
            None => kept.push(action),
        }
    }
    kept
}

/// Why an action with a condition is not carried out.
fn struck(table: &TableRecord, action: &AlterAction) -> Option<SqlError> {
    let has_column = |name: &str| table.columns.iter().any(|column| names::same(&column.name, name));
    let unknown = |name: &str| (!has_column(name)).then(|| errors::bad_field(name, &*table.name));
    let no_key =
        |name: &str| (!has_index(table, name)).then(|| errors::key_does_not_exist(name, &*table.name));
    let not_there =
        |is_there: bool, kind, name: &str| (!is_there).then(|| errors::cant_drop_field_or_key(kind, name));
    match action {
        AlterAction::AddColumn { if_not_exists: true, column, .. } => {
            has_column(&column.name).then(|| errors::dup_fieldname(&column.name))
        }
        AlterAction::DropColumn { if_exists: true, name } => not_there(has_column(name), "COLUMN", name),
        AlterAction::ChangeColumn { if_exists: true, old, .. }
        | AlterAction::RenameColumn { if_exists: true, old, .. } => unknown(old),
        AlterAction::SetDefault { if_exists: true, name, .. } => unknown(name),
        AlterAction::AddKey(key) if key.if_not_exists => taken(table, key),
        AlterAction::DropKey { if_exists: true, name } => not_there(has_index(table, name), "INDEX", name),
        AlterAction::RenameKey { if_exists: true, old, .. } => no_key(old),
        AlterAction::IgnoreKey { if_exists: true, name, .. } => no_key(name),
        AlterAction::AddCheck(added) if added.if_not_exists => {
            let name = added.name.as_deref()?;
            check::position(&table.checks, name).map(|_| errors::dup_constraint_name("CHECK", name))
        }
        AlterAction::DropForeignKey { if_exists: true, name } => {
            not_there(has_foreign_key(table, name), "FOREIGN KEY", name)
        }
        AlterAction::DropConstraint { if_exists: true, name } => {
            let is_unique = table
                .indexes
                .iter()
                .any(|index| index.kind != IndexKind::Plain && names::same(&index.name, name));
            let is_there =
                is_unique || has_foreign_key(table, name) || check::position(&table.checks, name).is_some();
            not_there(is_there, "CONSTRAINT", name)
        }
        _ => None,
    }
}

fn has_index(table: &TableRecord, name: &str) -> bool {
    table.indexes.iter().any(|index| names::same(&index.name, name))
}

fn has_foreign_key(table: &TableRecord, name: &str) -> bool {
    table.foreign_keys.iter().any(|key| names::same(&key.name, name))
}

/// Whether a key's name is taken; of one without a name that of its first column.
fn taken(table: &TableRecord, key: &KeyDef) -> Option<SqlError> {
    if key.kind == KeyKind::Primary {
        let message = errors::multiple_pri_key().message;
        return has_index(table, "PRIMARY").then(|| SqlError { message, ..errors::dup_keyname("PRIMARY") });
    }
    let is_foreign = key.kind == KeyKind::Foreign;
    let own = if is_foreign { key.constraint.as_ref().or(key.name.as_ref()) } else { key.name.as_ref() };
    let name = own.or(key.constraint.as_ref()).or_else(|| key.columns.first().map(|part| &part.column))?;
    let is_taken = if is_foreign { has_foreign_key(table, name) } else { has_index(table, name) };
    is_taken.then(|| errors::dup_keyname(name))
}
