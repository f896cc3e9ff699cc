//! Foreign keys of CREATE TABLE and ALTER TABLE: what is asked for, what is refused, what else changes with them.
//!
//! A foreign key needs an index on either side that begins with its columns; on the child's side one is made where there is
//! none. A definition that adds a key has the exclusive locks of the child and of its parents, one that renames a parent
//! those of its children, so no statement runs on an older family ([`keel_dml`]).

use std::sync::Arc;

use keel_base::{Level, SqlError, SqlResult, Warning, code, errors};
use keel_catalog::column_type::have_equal_keys;
use keel_catalog::names::{self, push_quoted};
use keel_catalog::{Catalog, ColumnDef, ForeignAction, ForeignKey, KeyPart, TableDef, TableRecord};
use keel_context::mdl::TableLock;
use keel_exec::session::Session;
use keel_sql::ast::{self, AlterAction, KeyDef, KeyKind, KeyOptions, ReferenceAction};
use keel_value::{SqlType, TypeKind};

use super::Definition;
use super::index::copy_name;

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

/// How the engine says that a foreign key does not fit.
const MALFORMED: &str = "errno: 150 \"Foreign key constraint is incorrectly formed\"";

/// 1005 for a table that does not get its foreign keys; the session hears why in a warning before it.
fn refusal(session: &mut Session, schema: &str, table: &str, why: Option<String>) -> SqlError {
    let error = errors::cant_create_table(schema, table, MALFORMED);
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
fn double_name(session: &mut Session, record: &TableRecord, key: &ForeignKey, verb: Verb) -> SqlError {
    let mut text = String::from("CREATE or ALTER TABLE ");
    let name = if verb == Verb::Alter { copy_name(session) } else { record.name.to_string() };
    push_table(&mut text, &record.schema, &name);
    text.push_str(" failed: duplicate name, ");
    key.push_definition(&record.schema, &mut text);
    if verb == Verb::AlterInPlace {
        session.push_warning(Warning { level: Level::Warning, code: 121, message: text.into() });
        return errors::fk_fail_add_system(of_schema(&record.schema, key));
    }
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
    let reason = || errors::get_errno(168, "Unknown (generic) error from engine", "InnoDB");
    if let Some(column) = columns.iter().find(|column| names::own_column(&column.name).is_some()) {
        return Err(refused(session, None, errors::wrong_column_name(&column.name), reason()));
    }
    match columns.iter().find(|column| is_wrong_document(column)) {
        Some(column) => {
            let text = "InnoDB: FTS_DOC_ID column must be of BIGINT NOT NULL type, and named in all capitalized characters";
            let before = Some((code::ILLEGAL_HA_CREATE_OPTION, text.to_string()));
            Err(refused(session, before, errors::wrong_column_name(&column.name), reason()))
        }
        None => Ok(()),
    }
}

/// Whether a column has the name of the one by which InnoDB's full-text indexes number rows, but is not like it.
pub(super) fn is_wrong_document(column: &ColumnDef) -> bool {
    let fits = &*column.name == DOCUMENT && column.ty.kind == TypeKind::BigInt && !column.nullable;
    names::same(&column.name, DOCUMENT) && !fits
}

const DOCUMENT: &str = "FTS_DOC_ID";

/// 1280 for an index that has the name of InnoDB's own over hidden row numbers.
pub(super) fn refuse_own_index(session: &mut Session, name: &str, builds: bool) -> SqlResult<()> {
    if !names::same(name, "GEN_CLUST_INDEX") {
        return Ok(());
    }
    let text = "Cannot Create Index with name 'GEN_CLUST_INDEX'. The name is reserved for the system default primary \
                index.";
    let error = errors::wrong_name_for_index("GEN_CLUST_INDEX");
    session.warn(SqlError { message: text.into(), ..error.clone() });
    session.push_error(&error);
    if builds {
        session.warn(errors::get_errno(124, "Wrong index given to a function", "InnoDB"));
    }
    Err(error)
}

/// An error of the engine with what comes before it and behind it.
pub(super) fn refused(
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

/// Makes of what is asked for a foreign key of the table, with a name: a number behind those that the table has, and had
/// `before` the statement.
pub(super) fn make(record: &TableRecord, before: &[ForeignKey], key: &KeyDef) -> SqlResult<ForeignKey> {
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
            let numbers = record.foreign_keys.iter().chain(before);
            let numbers = numbers.filter_map(|key| key.generated_number(&record.name));
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

/// The name of a foreign key, unless it was made of its table's.
fn written_name<'k>(record: &TableRecord, key: &'k ForeignKey) -> Option<&'k str> {
    key.generated_number(&record.name).is_none().then_some(&*key.name)
}

/// Whether InnoDB blames a prefix where no index begins with the columns at `places`: an index has one at a place up to which
/// its parts are these columns.
fn has_prefix_before_difference(parts: &[KeyPart], places: &[usize]) -> bool {
    let mut pairs = parts.iter().zip(places);
    let first = pairs.find(|(part, place)| part.prefix.is_some() || part.column != **place);
    parts.len() >= places.len() && first.is_some_and(|(part, _)| part.prefix.is_some())
}

impl Side<'_> {
    fn has_only_prefixes(&self, places: &[usize]) -> bool {
        match self {
            Side::Made(table) => {
                table.indexes.iter().any(|index| has_prefix_before_difference(&index.parts, places))
            }
            Side::InMaking(record) => {
                record.indexes.iter().any(|index| has_prefix_before_difference(&index.parts, places))
            }
        }
    }

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

/// The statement that makes foreign keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    /// CREATE TABLE.
    Create,
    /// ALTER TABLE.
    Alter,
    /// ALTER TABLE without `foreign_key_checks` where InnoDB does not copy the rows.
    AlterInPlace,
}

impl Verb {
    fn word(self) -> &'static str {
        match self {
            Verb::Create => "Create",
            Verb::Alter | Verb::AlterInPlace => "Alter",
        }
    }
}

/// Whether a foreign key of the table in the making can be.
pub(super) fn check(
    session: &mut Session,
    catalog: &Catalog,
    record: &TableRecord,
    key: &ForeignKey,
    verb: Verb,
) -> SqlResult<()> {
    let table = (&*record.schema, &*record.name);
    let checks = session.vars.foreign_key_checks;
    let mut fails = |with: &str, reason: String| {
        let mut text = format!("{}  table ", verb.word());
        push_table(&mut text, table.0, table.1);
        text.push_str(&format!(" {with}foreign key "));
        match written_name(record, key) {
            Some(name) => push_quoted(&mut text, name),
            None => text.push_str(&format!("({})", key.columns.join(", "))),
        }
        text.push_str(&format!(" constraint failed. {reason}"));
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
        let kind = if parent.has_only_prefixes(&parent_places) { "only prefix index" } else { "no index" };
        let reason = format!(
            "There is {kind} in the referenced table where the referenced columns appear as the first columns."
        );
        return fails("with ", reason);
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

/// The same for ALTER TABLE without `foreign_key_checks` where InnoDB does not copy the rows: it has errors of its own there.
pub(super) fn check_in_place(
    catalog: &Catalog,
    old: &TableDef,
    record: &TableRecord,
    added: &[ForeignKey],
) -> SqlResult<()> {
    let parent_of = |key: &ForeignKey| match key.refers_to(&record.schema, &record.name) {
        true => Some(Side::InMaking(record)),
        false => catalog.table(&key.ref_schema, &key.ref_table).map(|parent| Side::Made(parent)),
    };
    for key in added {
        if old.foreign_keys.iter().any(|other| names::same(&other.name, &key.name)) {
            return Err(errors::dup_constraint_name("FOREIGN KEY", of_schema(&old.schema, key)));
        }
        let Some(parent) = parent_of(key) else { continue };
        if !parent.places(&key.ref_columns).is_some_and(|places| parent.has_index(&places)) {
            let name = written_name(record, key).unwrap_or_default();
            return Err(errors::fk_no_index_parent(name, &key.ref_table));
        }
    }
    for key in added {
        let places = record.column_places(&key.columns).unwrap_or_default();
        let sets_null = [key.on_delete, key.on_update].contains(&ForeignAction::SetNull);
        let parent = parent_of(key);
        let others = parent.as_ref().and_then(|parent| parent.places(&key.ref_columns));
        let differs = |parent: &Side<'_>, others: &[usize]| {
            let mut pairs = places.iter().zip(others);
            pairs.any(|(a, b)| !have_equal_keys(&record.columns[*a].ty, &parent.columns()[*b].ty))
        };
        if sets_null && places.iter().any(|place| !record.columns[*place].nullable)
            || parent.is_some_and(|parent| differs(&parent, &others.unwrap_or_default()))
        {
            return Err(errors::fk_incorrect_option(&record.name, of_schema(&record.schema, key)));
        }
    }
    Ok(())
}

/// A foreign key as InnoDB's dictionary names it.
fn of_schema(schema: &str, key: &ForeignKey) -> String {
    format!("{schema}/{}", key.name)
}

impl Definition<'_> {
    /// Whether the keys in `added`, of a table in the making, can be; their names too, which those that it had `before` may not
    /// have.
    pub(super) fn check_foreign_keys(
        &self,
        session: &mut Session,
        record: &TableRecord,
        before: &[ForeignKey],
        added: &[ForeignKey],
        verb: Verb,
    ) -> SqlResult<()> {
        for (number, key) in added.iter().enumerate() {
            check(session, &self.catalog, record, key, verb)?;
            let home = self.catalog.require_schema(&record.schema)?.clone();
            let others = home.tables().into_iter().filter(|table| table.id != record.id);
            let mut taken =
                others.flat_map(|table| &table.foreign_keys).chain(before).chain(&added[..number]);
            if taken.any(|other| names::same(&other.name, &key.name)) {
                return Err(double_name(session, record, key, verb));
            }
        }
        Ok(())
    }

    /// Whether a new table can be the parent of those that refer to its name already.
    pub fn check_orphans(&self, session: &mut Session, record: &TableRecord) -> SqlResult<()> {
        match !session.vars.foreign_key_checks || self.fits_orphans(record) {
            true => Ok(()),
            false => Err(refusal(session, &record.schema, &record.name, None)),
        }
    }

    /// The same for a new name of the table `old`, also without `foreign_key_checks`: 1025.
    pub fn check_renamed(&self, old: &TableDef, record: &TableRecord) -> SqlResult<()> {
        if self.fits_orphans(record) {
            return Ok(());
        }
        let path = |schema: &str, name: &str| format!("./{schema}/{name}");
        let (from, to) = (path(&old.schema, &old.name), path(&record.schema, &record.name));
        Err(errors::error_on_rename(from, to, MALFORMED))
    }

    fn fits_orphans(&self, record: &TableRecord) -> bool {
        let fits = |(child, key): &(&Arc<TableDef>, &ForeignKey)| {
            let Some(places) = record.column_places(&key.ref_columns) else { return false };
            let own = child.column_places(&key.columns).unwrap_or_default();
            let mut types = own.iter().zip(&places);
            record.index_beginning_with(&places).is_some()
                && types.all(|(a, b)| have_equal_keys(&child.columns[*a].ty, &record.columns[*b].ty))
        };
        self.catalog.references_to(&record.schema, &record.name).iter().all(fits)
    }

    /// Has plans over the relatives of a table bound again: its parents, and those that refer to its name.
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

/// How an alteration is carried out in MariaDB.
pub(super) struct Way {
    /// It copies the rows.
    pub copies: bool,
    /// `foreign_key_checks`.
    pub checks: bool,
    /// The name of the table that it copies into.
    pub copy: String,
}

/// What an alteration makes of the columns of foreign keys.
struct Altered<'a> {
    old: &'a TableDef,
    new: &'a TableRecord,
    /// The new place of an old column.
    place: &'a dyn Fn(usize) -> Option<usize>,
    way: &'a Way,
}

/// Why an alteration of `old` cannot leave its foreign keys, and those that refer to it, without what they need. `place`
/// gives the new place of an old column.
pub(super) fn check_alteration(
    catalog: &Catalog,
    old: &TableDef,
    new: &TableRecord,
    place: &dyn Fn(usize) -> Option<usize>,
    way: &Way,
) -> SqlResult<()> {
    let altered = Altered { old, new, place, way };
    if way.copies {
        // A copy is checked at its end for indexes that are gone.
        altered.check_referring(catalog)?;
        altered.check_own()?;
        return altered.check_indexes(catalog);
    }
    altered.check_indexes(catalog)?;
    altered.check_own()?;
    altered.check_referring(catalog)
}

impl Altered<'_> {
    /// The table's foreign keys that stay.
    fn own(&self) -> impl Iterator<Item = &ForeignKey> {
        let stays = |key: &&ForeignKey| self.new.foreign_keys.iter().any(|k| k.name == key.name);
        self.old.foreign_keys.iter().filter(stays)
    }

    /// The foreign keys that refer to the table and stay.
    fn referring<'c>(&self, catalog: &'c Catalog) -> Vec<(&'c Arc<TableDef>, &'c ForeignKey)> {
        let mut all = catalog.references_to(&self.old.schema, &self.old.name);
        all.retain(|(child, key)| {
            child.id != self.old.id || self.new.foreign_keys.iter().any(|k| k.name == key.name)
        });
        all
    }

    /// Whether foreign keys lose an index.
    fn check_indexes(&self, catalog: &Catalog) -> SqlResult<()> {
        if !self.way.checks {
            return Ok(());
        }
        let own = self.own().filter_map(|key| self.old.column_places(&key.columns));
        let referring = self.referring(catalog).into_iter();
        let referring = referring.filter_map(|(_, key)| self.old.column_places(&key.ref_columns));
        match own.chain(referring).find_map(|places| self.lost_index(&places)) {
            Some(_) if self.way.copies => {
                let path = |name: &str| format!("./{}/{name}", self.old.schema);
                Err(errors::error_on_rename(path(&self.way.copy), path(&self.old.name), MALFORMED))
            }
            Some(index) => Err(errors::drop_index_fk(&self.old.indexes[index].name)),
            None => Ok(()),
        }
    }

    /// The index that begins with the columns at `places` and that no other replaces.
    fn lost_index(&self, places: &[usize]) -> Option<usize> {
        let index = self.old.index_beginning_with(places)?;
        let now: Option<Vec<usize>> = places.iter().map(|column| (self.place)(*column)).collect();
        let kept = now.is_some_and(|now| self.new.index_beginning_with(&now).is_some());
        (!kept).then_some(index)
    }

    fn check_own(&self) -> SqlResult<()> {
        for key in self.own() {
            let Some(places) = self.old.column_places(&key.columns) else { continue };
            let sets_null = [key.on_delete, key.on_update].contains(&ForeignAction::SetNull);
            for column in places {
                let name = &self.old.columns[column].name;
                let Some(now) = (self.place)(column).map(|place| &self.new.columns[place]) else {
                    let shown = self.shown_dropped(&self.old.schema, key);
                    return Err(errors::fk_column_cannot_drop(name, shown));
                };
                self.check_name(name, now)?;
                match fit(&self.old.columns[column].ty, &now.ty) {
                    Fit::Same => {}
                    Fit::Wider if !self.way.copies => {
                        return Err(errors::fk_column_cannot_change(name, of_schema(&self.old.schema, key)));
                    }
                    Fit::Wider | Fit::Other => return Err(errors::fk_column_cannot_change(name, &key.name)),
                }
                if sets_null && !now.nullable {
                    return Err(errors::fk_column_not_null(name, &key.name));
                }
            }
        }
        Ok(())
    }

    fn check_referring(&self, catalog: &Catalog) -> SqlResult<()> {
        for (child, key) in self.referring(catalog) {
            let Some(places) = self.old.column_places(&key.ref_columns) else { continue };
            for column in places {
                let name = &self.old.columns[column].name;
                let Some(now) = (self.place)(column).map(|place| &self.new.columns[place]) else {
                    let mut text = String::new();
                    push_table(&mut text, &child.schema, &child.name);
                    let shown = self.shown_dropped(&child.schema, key);
                    return Err(errors::fk_column_cannot_drop_child(name, shown, text));
                };
                self.check_name(name, now)?;
                match fit(&self.old.columns[column].ty, &now.ty) {
                    Fit::Same => {}
                    Fit::Wider if !self.way.copies => {
                        let key = of_schema(&child.schema, key);
                        let child = format!("{}/{}", child.schema, child.name);
                        return Err(errors::fk_column_cannot_change_child(name, key, child));
                    }
                    Fit::Wider | Fit::Other => {
                        let child = format!("{}.{}", child.schema, child.name);
                        return Err(errors::fk_column_cannot_change_child(name, &key.name, child));
                    }
                }
            }
        }
        Ok(())
    }

    /// How a message about a dropped column names a foreign key.
    fn shown_dropped(&self, schema: &str, key: &ForeignKey) -> String {
        match self.way.copies {
            true => key.name.to_string(),
            false => of_schema(schema, key),
        }
    }

    /// 1846 for a column that has another name in the copy.
    fn check_name(&self, before: &str, now: &ColumnDef) -> SqlResult<()> {
        if !self.way.copies || names::same(before, &now.name) {
            return Ok(());
        }
        let reason = "Columns participating in a foreign key are renamed";
        Err(errors::alter_operation_not_supported_reason("ALGORITHM=COPY", reason, "ALGORITHM=INPLACE"))
    }
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
