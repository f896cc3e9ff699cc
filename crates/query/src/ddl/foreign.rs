//! Foreign keys of CREATE TABLE and ALTER TABLE: what is asked for, what is refused, what else changes with them.
//!
//! A foreign key needs an index on either side that begins with its columns; on the child's side one is made where there is
//! none. A definition that adds a key has the exclusive locks of the child and of its parents, one that renames a parent
//! those of its children, so no statement runs on an older family ([`crate::dml`]).

use std::sync::Arc;

use keel_base::{Level, SqlError, SqlResult, Warning, errors};
use keel_sql::ast::{self, AlterAction, KeyDef, KeyKind, KeyOptions, ReferenceAction};
use keel_value::{SqlType, TypeKind};

use super::Definition;
use crate::catalog::names::push_quoted;
use crate::catalog::{Catalog, ColumnDef, ForeignAction, ForeignKey, TableDef, TableRecord, names};
use crate::mdl::TableLock;
use crate::session::Session;

/// REFERENCES of a column definition as a key of its own.
pub(super) fn of_column(column: &ast::ColumnDef) -> Option<KeyDef> {
    Some(KeyDef {
        kind: KeyKind::Foreign,
        constraint: None,
        name: None,
        if_not_exists: false,
        columns: vec![ast::KeyPart { column: column.name.clone(), length: None, desc: false }],
        options: KeyOptions::default(),
        references: Some(column.references.clone()?),
    })
}

/// 1005 for a table that does not get its foreign keys; the session hears why in a warning before it.
fn refusal(session: &mut Session, schema: &str, table: &str, why: Option<String>) -> SqlError {
    let error = errors::cant_create_table(
        schema,
        table,
        "errno: 150 \"Foreign key constraint is incorrectly formed\"",
    );
    refused(session, why.map(|text| (150, text)), error, errors::cannot_add_foreign(table))
}

/// The same for a temporary table, which cannot have any.
pub(super) fn refuse_temporary(session: &mut Session, schema: &str, table: &str, verb: &str) -> SqlError {
    let mut text = format!("{verb}  table ");
    push_table(&mut text, schema, table);
    text.push_str(
        " with foreign key constraint failed. Temporary tables can't have foreign key constraints.",
    );
    refusal(session, schema, table, Some(text))
}

/// The same for a name that another foreign key of the database has.
fn double_name(session: &mut Session, record: &TableRecord, key: &ForeignKey) -> SqlError {
    let mut text = String::from("CREATE or ALTER TABLE ");
    push_table(&mut text, &record.schema, &record.name);
    text.push_str(" failed: duplicate name, ");
    key.push_definition(&record.schema, &mut text);
    let reason = "errno: 121 \"Duplicate key on write or update\"";
    let error = errors::cant_create_table(&record.schema, &record.name, reason);
    refused(session, Some((121, text)), error, errors::dup_key(&record.name))
}

/// 1005 for options that the engine has not.
pub(super) fn wrong_options(session: &mut Session, schema: &str, table: &str) -> SqlError {
    let reason = "Wrong create options";
    let error = errors::cant_create_table(schema, table, format!("errno: 140 \"{reason}\""));
    refused(session, None, error, errors::get_errno(140, reason, "InnoDB"))
}

/// 1166 for a column that has the name of one of InnoDB's own, in a table that is built.
pub(super) fn refuse_own_names(session: &mut Session, columns: &[ColumnDef]) -> SqlResult<()> {
    match columns.iter().find(|column| names::own_column(&column.name).is_some()) {
        Some(column) => {
            let reason = errors::get_errno(168, "Unknown (generic) error from engine", "InnoDB");
            Err(refused(session, None, errors::wrong_column_name(&column.name), reason))
        }
        None => Ok(()),
    }
}

fn refused(
    session: &mut Session,
    before: Option<(u16, String)>,
    error: SqlError,
    behind: SqlError,
) -> SqlError {
    if let Some((code, text)) = before {
        session.push_warning(Warning { level: Level::Warning, code, message: text.into() });
    }
    session.push_error(&error);
    session.warn(behind);
    error
}

/// 1451 for a table that others refer to; MariaDB does not say which.
#[cold]
pub(super) fn is_referenced() -> SqlError {
    let message = "Cannot delete or update a parent row: a foreign key constraint fails".into();
    SqlError { message, ..errors::row_is_referenced("") }
}

fn push_table(out: &mut String, schema: &str, table: &str) {
    push_quoted(out, schema);
    out.push('.');
    push_quoted(out, table);
}

/// Makes of what is asked for a foreign key of the table, with a name.
pub(super) fn make(record: &TableRecord, key: &KeyDef) -> SqlResult<ForeignKey> {
    let name = key.constraint.as_ref().or(key.name.as_ref());
    let Some(references) = &key.references else {
        return Err(errors::not_supported_yet("FOREIGN KEY without REFERENCES"));
    };
    if references.columns.len() != key.columns.len() {
        let shown = name.map_or("foreign key without name", |name| name.as_str());
        return Err(errors::wrong_fk_def(shown, "Key reference and table reference don't match"));
    }
    let mut columns: Vec<Arc<str>> = Vec::with_capacity(key.columns.len());
    for part in &key.columns {
        let column = record.columns.iter().find(|column| names::same(&column.name, &part.column));
        let column = column.ok_or_else(|| errors::key_column_does_not_exist(&part.column))?;
        columns.push(column.name.clone());
    }
    let name: Arc<str> = match name {
        Some(name) => {
            names::check_length(name)?;
            name.as_str().into()
        }
        None => {
            let numbers = record.foreign_keys.iter().filter_map(|key| key.generated_number(&record.name));
            format!("{}_ibfk_{}", record.name, numbers.max().unwrap_or(0) + 1).into()
        }
    };
    let schema = references.table.db.as_deref().unwrap_or(&record.schema);
    Ok(ForeignKey {
        name,
        columns,
        ref_schema: schema.into(),
        ref_table: references.table.name.as_str().into(),
        ref_columns: references.columns.iter().map(|part| part.column.as_str().into()).collect(),
        on_delete: action(references.on_delete),
        on_update: action(references.on_update),
    })
}

/// SET DEFAULT is taken for RESTRICT, as InnoDB does.
fn action(written: Option<ReferenceAction>) -> ForeignAction {
    match written {
        None | Some(ReferenceAction::Restrict | ReferenceAction::SetDefault) => ForeignAction::Restrict,
        Some(ReferenceAction::Cascade) => ForeignAction::Cascade,
        Some(ReferenceAction::SetNull) => ForeignAction::SetNull,
        Some(ReferenceAction::NoAction) => ForeignAction::NoAction,
    }
}

/// A table's columns and indexes, of a definition that is there or of one in the making.
#[derive(Clone, Copy)]
enum Side<'t> {
    Made(&'t TableDef),
    InMaking(&'t TableRecord),
}

impl Side<'_> {
    fn columns(&self) -> &[ColumnDef] {
        match self {
            Side::Made(table) => &table.columns,
            Side::InMaking(record) => &record.columns,
        }
    }

    fn places(&self, columns: &[Arc<str>]) -> Option<Vec<usize>> {
        match self {
            Side::Made(table) => table.column_places(columns),
            Side::InMaking(record) => record.column_places(columns),
        }
    }

    fn has_index(&self, places: &[usize]) -> bool {
        match self {
            Side::Made(table) => table.index_beginning_with(places).is_some(),
            Side::InMaking(record) => record.index_beginning_with(places).is_some(),
        }
    }
}

/// Whether a foreign key of the table in the making can be.
pub(super) fn check(
    session: &mut Session,
    catalog: &Catalog,
    record: &TableRecord,
    key: &ForeignKey,
    verb: &str,
) -> SqlResult<()> {
    let table = (&*record.schema, &*record.name);
    let checks = session.vars.foreign_key_checks;
    let mut fails = |with: &str, reason: String| {
        let mut text = format!("{verb}  table ");
        push_table(&mut text, table.0, table.1);
        let columns = key.columns.join(", ");
        text.push_str(&format!(" {with}foreign key ({columns}) constraint failed. {reason}"));
        Err(refusal(session, table.0, table.1, Some(text)))
    };
    let own = Side::InMaking(record);
    let places = own.places(&key.columns).unwrap_or_default();
    if !own.has_index(&places) {
        let reason = "There is only prefix index in the referenced table where the referenced columns appear as \
                      the first columns.";
        return fails("with ", reason.into());
    }
    if [key.on_delete, key.on_update].contains(&ForeignAction::SetNull)
        && let Some(place) = places.iter().find(|place| !record.columns[**place].nullable)
    {
        let column = &record.columns[*place].name;
        let reason =
            format!("You have defined a SET NULL condition but column '{column}' is defined as NOT NULL.");
        return fails("with ", reason);
    }
    let parent = match key.refers_to(table.0, table.1) {
        true => own,
        false => match catalog.table(&key.ref_schema, &key.ref_table) {
            Some(parent) => Side::Made(parent),
            None if !checks => return Ok(()),
            None => {
                let mut text = String::from("Referenced table ");
                push_table(&mut text, &key.ref_schema, &key.ref_table);
                return fails("with ", text + " not found in the data dictionary.");
            }
        },
    };
    let Some(parent_places) = parent.places(&key.ref_columns) else {
        let is_missing = |column: &&Arc<str>| parent.places(std::slice::from_ref(*column)).is_none();
        let column = key.ref_columns.iter().find(is_missing).map_or("", |column| column);
        return fails("", format!("Column {column} was not found."));
    };
    if !parent.has_index(&parent_places) {
        let reason = "There is no index in the referenced table where the referenced columns appear as the first \
                      columns.";
        return fails("with ", reason.into());
    }
    for (place, parent_place) in places.iter().zip(&parent_places) {
        let (column, other) = (&record.columns[*place], &parent.columns()[*parent_place]);
        if !have_equal_keys(&column.ty, &other.ty) {
            let (column, other) = (&column.name, &other.name);
            let reason = format!(
                "Field type or character set for column '{column}' does not match referenced column '{other}'."
            );
            return fails("with ", reason);
        }
    }
    Ok(())
}

/// Whether equal values of two types have equal keys.
pub(crate) fn have_equal_keys(a: &SqlType, b: &SqlType) -> bool {
    use TypeKind::*;
    if a.is_string() || b.is_string() {
        return a.is_string() && b.is_string() && a.is_text() == b.is_text() && a.collation == b.collation;
    }
    let has_scale = matches!(a.kind, Time | DateTime | Timestamp | Decimal);
    let has_length = matches!(a.kind, Decimal | Bit);
    a.kind == b.kind
        && a.unsigned == b.unsigned
        && (!has_scale || a.decimals == b.decimals)
        && (!has_length || a.length == b.length)
}

impl Definition<'_> {
    /// Whether the keys in `added`, of a table in the making, can be; their names too.
    pub fn check_foreign_keys(
        &self,
        session: &mut Session,
        record: &TableRecord,
        added: &[ForeignKey],
        verb: &str,
    ) -> SqlResult<()> {
        for (number, key) in added.iter().enumerate() {
            check(session, &self.catalog, record, key, verb)?;
            let home = self.catalog.require_schema(&record.schema)?.clone();
            let others = home.tables().into_iter().filter(|table| table.id != record.id);
            let mut taken = others.flat_map(|table| &table.foreign_keys).chain(&added[..number]);
            if taken.any(|other| names::same(&other.name, &key.name)) {
                return Err(double_name(session, record, key));
            }
        }
        Ok(())
    }

    /// Whether a new table can be the parent of those that refer to its name already.
    pub fn check_orphans(&self, session: &mut Session, record: &TableRecord) -> SqlResult<()> {
        if !session.vars.foreign_key_checks {
            return Ok(());
        }
        let fits = |(child, key): &(&Arc<TableDef>, &ForeignKey)| {
            let Some(places) = record.column_places(&key.ref_columns) else { return false };
            let own = child.column_places(&key.columns).unwrap_or_default();
            let types = own.iter().zip(&places);
            record.index_beginning_with(&places).is_some()
                && types
                    .into_iter()
                    .all(|(a, b)| have_equal_keys(&child.columns[*a].ty, &record.columns[*b].ty))
        };
        match self.catalog.references_to(&record.schema, &record.name).iter().all(fits) {
            true => Ok(()),
            false => Err(refusal(session, &record.schema, &record.name, None)),
        }
    }

    /// Has plans over the relatives of a table bound anew: its parents, and those that refer to its name.
    pub fn tell_relatives(&mut self, table: &TableDef) -> SqlResult<()> {
        let parents = table.foreign_keys.iter();
        let parents = parents.filter_map(|key| self.catalog.table(&key.ref_schema, &key.ref_table));
        let children = self.catalog.references_to(&table.schema, &table.name);
        let all = parents.chain(children.into_iter().map(|(child, _)| child));
        let mut relatives: Vec<Arc<TableDef>> = all.filter(|other| other.id != table.id).cloned().collect();
        relatives.sort_by_key(|other| other.id);
        relatives.dedup_by_key(|other| other.id);
        for relative in relatives {
            let again = relative.record().open(self.database.engine(), relative.shared.clone())?;
            self.catalog.put_table(Arc::new(again));
        }
        Ok(())
    }

    /// Has the keys of other tables that refer to a table follow its new name, and `rename` the columns that they name.
    pub fn rename_references(
        &mut self,
        before: (&str, &str),
        record: &TableRecord,
        rename: &dyn Fn(&str) -> Option<Arc<str>>,
    ) -> SqlResult<()> {
        let children = self.catalog.references_to(before.0, before.1);
        let mut children: Vec<Arc<TableDef>> =
            children.into_iter().map(|(child, _)| child.clone()).filter(|c| c.id != record.id).collect();
        children.dedup_by_key(|child| child.id);
        for child in children {
            let mut changed = child.record();
            refer_anew(&mut changed, before, record, rename);
            if changed.foreign_keys != child.foreign_keys {
                self.rewrite_table(changed, child.shared.clone())?;
            }
        }
        Ok(())
    }

    /// The first table but itself that refers to a table and is not among `gone`.
    pub fn referrer(&self, table: &TableDef, gone: &[Arc<TableDef>]) -> Option<(Arc<TableDef>, ForeignKey)> {
        let references = self.catalog.references_to(&table.schema, &table.name);
        let stays =
            |child: &Arc<TableDef>| child.id != table.id && !gone.iter().any(|other| other.id == child.id);
        let found = references.into_iter().find(|(child, _)| stays(child));
        found.map(|(child, key)| (child.clone(), key.clone()))
    }
}

/// Has the keys of a table in the making that refer to the table `before` refer to `now`.
pub(super) fn refer_anew(
    changed: &mut TableRecord,
    before: (&str, &str),
    now: &TableRecord,
    rename: &dyn Fn(&str) -> Option<Arc<str>>,
) {
    for key in changed.foreign_keys.iter_mut().filter(|key| key.refers_to(before.0, before.1)) {
        key.ref_schema = now.schema.clone();
        key.ref_table = now.name.clone();
        for column in &mut key.ref_columns {
            *column = rename(column).unwrap_or_else(|| column.clone());
        }
    }
}

/// Gives a table in the making its new name, and its foreign keys the names that are made of it.
pub(super) fn rename_table(record: &mut TableRecord, schema: Arc<str>, name: Arc<str>) {
    let before = (record.schema.clone(), record.name.clone());
    for key in &mut record.foreign_keys {
        if let Some(number) = key.generated_number(&before.1) {
            key.name = format!("{name}_ibfk_{number}").into();
        }
        if key.refers_to(&before.0, &before.1) {
            (key.ref_schema, key.ref_table) = (schema.clone(), name.clone());
        }
    }
    (record.schema, record.name) = (schema, name);
    sort(record);
}

/// Puts the foreign keys into the order of their names.
pub(super) fn sort(record: &mut TableRecord) {
    record.foreign_keys.sort_by(|a, b| a.name.cmp(&b.name));
}

/// Why an alteration of `old` cannot leave its foreign keys, and those that refer to it, without what they need. `place`
/// gives the new place of an old column.
pub(super) fn check_alteration(
    catalog: &Catalog,
    old: &TableDef,
    new: &TableRecord,
    place: &dyn Fn(usize) -> Option<usize>,
) -> SqlResult<()> {
    let lost_index = |places: &[usize]| {
        let index = old.index_beginning_with(places)?;
        let now: Option<Vec<usize>> = places.iter().map(|column| place(*column)).collect();
        let kept = now.is_some_and(|now| new.index_beginning_with(&now).is_some());
        (!kept).then(|| errors::drop_index_fk(&old.indexes[index].name))
    };
    let changes = |column: usize| {
        place(column).map_or(Fit::Same, |now| fit(&old.columns[column].ty, &new.columns[now].ty))
    };
    for key in old.foreign_keys.iter().filter(|key| new.foreign_keys.iter().any(|k| k.name == key.name)) {
        let Some(places) = old.column_places(&key.columns) else { continue };
        if let Some(error) = lost_index(&places) {
            return Err(error);
        }
        let sets_null = [key.on_delete, key.on_update].contains(&ForeignAction::SetNull);
        for column in places {
            let name = &old.columns[column].name;
            match changes(column) {
                Fit::Same => {}
                Fit::Wider => {
                    let key = format!("{}/{}", old.schema, key.name);
                    return Err(errors::fk_column_cannot_change(name, key));
                }
                Fit::Other => return Err(errors::fk_column_cannot_change(name, &key.name)),
            }
            if sets_null && place(column).is_some_and(|now| !new.columns[now].nullable) {
                return Err(errors::fk_column_not_null(name, &key.name));
            }
        }
    }
    for (child, key) in catalog.references_to(&old.schema, &old.name) {
        let is_dropped = child.id == old.id && !new.foreign_keys.iter().any(|k| k.name == key.name);
        let Some(places) = old.column_places(&key.ref_columns).filter(|_| !is_dropped) else { continue };
        for column in &places {
            let name = &old.columns[*column].name;
            if place(*column).is_none() {
                let mut text = String::new();
                push_table(&mut text, &child.schema, &child.name);
                return Err(errors::fk_column_cannot_drop_child(name, &key.name, text));
            }
            match changes(*column) {
                Fit::Same => {}
                Fit::Wider => {
                    let key = format!("{}/{}", child.schema, key.name);
                    let child = format!("{}/{}", child.schema, child.name);
                    return Err(errors::fk_column_cannot_change_child(name, key, child));
                }
                Fit::Other => {
                    let child = format!("{}.{}", child.schema, child.name);
                    return Err(errors::fk_column_cannot_change_child(name, &key.name, child));
                }
            }
        }
        if let Some(error) = lost_index(&places) {
            return Err(error);
        }
    }
    Ok(())
}

/// The locks that an alteration needs beside its table's: those of parents that it refers to, and of children that follow
/// a new name.
pub(super) fn relatives(catalog: &Catalog, table: &TableDef, actions: &[AlterAction]) -> Vec<Arc<TableLock>> {
    let mut locks: Vec<Arc<TableLock>> = Vec::new();
    for action in actions {
        let references = match action {
            AlterAction::AddKey(key) => key.references.as_deref(),
            AlterAction::AddColumn { column, .. } | AlterAction::ChangeColumn { column, .. } => {
                column.references.as_deref()
            }
            _ => None,
        };
        if let Some(references) = references {
            let schema = references.table.db.as_deref().unwrap_or(&table.schema);
            let parent = catalog.table(schema, &references.table.name);
            locks.extend(parent.map(|parent| parent.shared.lock.clone()));
        }
        let renames = matches!(
            action,
            AlterAction::Rename(_) | AlterAction::RenameColumn { .. } | AlterAction::ChangeColumn { .. }
        );
        if renames {
            let children = catalog.references_to(&table.schema, &table.name).into_iter();
            locks.extend(children.map(|(child, _)| child.shared.lock.clone()));
        }
    }
    locks.retain(|lock| !Arc::ptr_eq(lock, &table.shared.lock));
    locks.sort_by_key(Arc::as_ptr);
    locks.dedup_by(|a, b| Arc::ptr_eq(a, b));
    locks
}

/// What the new type of a column of a foreign key is to the old one.
enum Fit {
    Same,
    /// InnoDB refuses it, which names keys and tables in its own way: a longer text, or one of another collation.
    Wider,
    Other,
}

fn fit(old: &SqlType, new: &SqlType) -> Fit {
    if !old.is_string() || !new.is_string() {
        let same = have_equal_keys(old, new) && new.members().starts_with(old.members());
        return if same { Fit::Same } else { Fit::Other };
    }
    let is_alike = old.kind == new.kind
        && old.length <= new.length
        && old.collation.charset().name() == new.collation.charset().name();
    match is_alike {
        true if old.length == new.length && old.collation == new.collation => Fit::Same,
        true if matches!(old.kind, TypeKind::VarChar | TypeKind::VarBinary) || old.length == new.length => {
            Fit::Wider
        }
        _ => Fit::Other,
    }
}
