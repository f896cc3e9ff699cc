//! ALTER TABLE, CREATE INDEX and DROP INDEX: what a table becomes, and the cheapest way there.
//!
//! An [`Alteration`] edits the table's record and remembers where each new column and index comes from. If rows keep their
//! bytes and their order, only new indexes are built: columns come, go and move without a row being touched, since old rows
//! show the defaults of new columns and keep places for dropped ones. Otherwise the table is copied into new trees. Others go on using the table meanwhile ([`super::online`]).

use keel_base::{Level, SqlResult, Warning, errors};
use keel_catalog::column_type::choose_collation;
use keel_catalog::{
    Catalog, ColumnDefault, ForeignKey, Generated, IndexKind, IndexRecord, TableDef, TableRecord, check,
    names,
};
use keel_context::result::Completion;
use keel_exec::session::Session;
use keel_expr::env::schema_of;
use keel_sql::ast::{self, AlterAction, ColumnPosition, KeyDef, KeyKind, LockWait, TableOption};
use keel_value::row::Slot;
use keel_value::{CollationId, SqlType, TypeKind, Value};

use super::columns::{self, ColumnContext};
use super::copy::Copied;
use super::lost::{LostPart, NOWHERE};
use super::renames::{self, Renames};
use super::{algorithm, checks, conditional, create, engine_options, foreign, generated, keys};
use crate::ddl::Definer;

/// A table's definition on its way to the next.
pub(super) struct Alteration {
    /// What it becomes. Trees of new indexes are not made yet.
    pub record: TableRecord,
    /// For each column of `record` its place in the old table; none for new ones.
    pub column_origin: Vec<Option<usize>>,
    /// Names of the old indexes whose trees stay, by their name in `record`.
    pub kept_indexes: Vec<std::sync::Arc<str>>,
    /// Rows change their bytes or their order.
    pub copies: bool,
    /// Columns come elsewhere than at the end, go, or move: where MariaDB copies the rows for that, so are they here.
    pub rearranges: bool,
    /// Copied rows are held against conditions: MariaDB does not where its engine makes the table again.
    pub tests_rows: bool,
    /// A column's values change: then MariaDB copies too, and counts the rows.
    pub converts: bool,
    /// Some generated column gets other values.
    pub new_expressions: bool,
    /// AUTO_INCREMENT=n.
    pub next_auto: Option<u64>,
    /// The foreign keys that the table had.
    foreign_keys_before: Vec<ForeignKey>,
    /// Names of new foreign keys.
    pub new_foreign_keys: Vec<std::sync::Arc<str>>,
    /// Columns to which SET DEFAULT NULL applies.
    null_defaults: Vec<std::sync::Arc<str>>,
    /// What indexes have lost with dropped columns.
    pub(super) lost_parts: Vec<LostPart>,
    /// Indexes that have lost all.
    pub(super) lost_indexes: Vec<IndexRecord>,
    /// What the statement says of the way.
    pub words: Words,
}

/// ALGORITHM, LOCK and what they are said of.
#[derive(Default)]
pub(super) struct Words {
    /// The statement's actions.
    pub actions: Vec<AlterAction>,
    /// ALTER ONLINE TABLE.
    pub online: bool,
    /// IGNORE.
    pub ignore: bool,
    /// They say that the rows are to be copied.
    pub told_to_copy: bool,
    /// How long others are waited for.
    pub wait: Option<LockWait>,
}

impl Words {
    /// Whether nothing changes but the table's name, or what does nothing.
    pub fn is_simple(&self) -> bool {
        let is_words =
            |action: &AlterAction| matches!(action, AlterAction::Algorithm(_) | AlterAction::Lock(_));
        let mut actions = self.actions.iter().filter(|action| !is_words(action)).peekable();
        let simple =
            |action: &AlterAction| matches!(action, AlterAction::Rename(_) | AlterAction::EnableKeys(_));
        actions.peek().is_some() && actions.all(simple)
    }
}

impl Definer<'_> {
    pub(super) fn alter_table(
        &self,
        session: &mut Session,
        alter: &ast::AlterTable,
    ) -> SqlResult<Completion> {
        algorithm::check_words(&alter.actions)?;
        if alter.if_exists && self.find_table(session, &alter.table).is_err() {
            let schema = schema_of(session, &alter.table)?.to_string();
            session.push_error(&errors::no_such_table(schema, &alter.table.name));
            return Ok(Completion::default());
        }
        let relatives = |catalog: &Catalog, table: &TableDef| match table.is_temporary() {
            true => Vec::new(),
            false => foreign::relatives(catalog, table, &alter.actions),
        };
        let (table, owned) = self.own_table_and(session, &alter.table, &relatives, alter.wait.as_ref())?;
        let mut alteration = Alteration::of(&table);
        let mut actions = conditional::strike(session, &alteration.record, &alter.actions);
        actions.sort_by_key(|action| rank(action));
        renames::check_once(&table, &actions)?;
        let home = table.options.collation;
        let collation = match create::declared(alter.actions.iter().filter_map(option_of))? {
            (None, None) => None,
            (charset, collate) => Some(choose_collation(charset, collate, home, home)?),
        };
        let (going, rest) = actions.split_at(actions.partition_point(|action| rank(action) < RANK_OF_REST));
        going.iter().try_for_each(|action| self.apply(session, &table, &mut alteration, action))?;
        alteration.drop_checks()?;
        let mut renames = Renames::default();
        for (place, action) in rest.iter().enumerate() {
            let action = renames.make_way(&table, &mut alteration.record, action, &rest[place + 1..])?;
            self.apply(session, &table, &mut alteration, &action)?;
        }
        if let Some(collation) = collation {
            alteration.record.options.collation = collation;
        }
        let named: Vec<TableOption> = alter.actions.iter().filter_map(option_of).cloned().collect();
        create::check_memory(session, &named, &alteration.record.columns)?;
        engine_options::check_altered(session, &table.options, &alteration.record.options, &named)?;
        alteration.settle_parts()?;
        if alteration.record.columns.is_empty() {
            return Err(errors::cant_remove_all_fields());
        }
        if alteration.record.options.is_sequence()
            && alter.actions.iter().any(|action| matches!(action, AlterAction::OrderBy(_)))
        {
            return Err(errors::sequence_invalid_table_structure(&table.schema, &table.name, "ORDER BY"));
        }
        alteration.words = Words {
            actions: alter.actions.clone(),
            online: alter.online,
            ignore: alter.ignore,
            wait: alter.wait.clone(),
            ..Words::default()
        };
        let useless = alteration.useless(&alter.actions);
        let simple =
            |action: &AlterAction| matches!(action, AlterAction::Rename(_) | AlterAction::EnableKeys(_));
        let words = |action: &AlterAction| matches!(action, AlterAction::Algorithm(_) | AlterAction::Lock(_));
        if table.is_temporary() && !alter.actions.iter().all(|action| simple(action) || words(action)) {
            alteration.copy_all();
        }
        let carried = self.carry_out(session, &table, &owned, alteration)?;
        drop(owned);
        for said in useless {
            if said.level != Level::Note || session.vars.takes_notes() {
                session.push_warning(said);
            }
        }
        let mut others = alter.actions.iter().filter(|action| !words(action));
        if others.clone().next().is_some() && others.all(simple) {
            return Ok(Completion::default());
        }
        Ok(done(session, &carried))
    }

    /// Makes a table again, without the room that dropped rows have left. What was open is committed already.
    pub(crate) fn rebuild(
        &self,
        session: &mut Session,
        table: &ast::ObjectName,
        wait: Option<&LockWait>,
    ) -> SqlResult<()> {
        let alter = ast::AlterTable {
            online: false,
            ignore: false,
            if_exists: false,
            table: table.clone(),
            wait: wait.cloned(),
            actions: vec![AlterAction::Force],
        };
        self.alter_table(session, &alter).map(drop)
    }

    pub(super) fn create_index(
        &self,
        session: &mut Session,
        create: &ast::CreateIndex,
    ) -> SqlResult<Completion> {
        algorithm::check_words(&create.options)?;
        let (table, owned) = self.own_table(session, &create.table, create.wait.as_ref())?;
        let mut alteration = Alteration::of(&table);
        let mut actions = create.options.clone();
        actions.push(AlterAction::AddKey(Box::new(create.key.clone())));
        alteration.words = Words { actions, wait: create.wait.clone(), ..Words::default() };
        if create.or_replace {
            let name = create.key.name.clone().unwrap_or_default();
            alteration.drop_key(session, &name, true, true)?;
        }
        alteration.add_key(session, &create.key)?;
        if table.is_temporary() {
            alteration.copy_all();
        }
        let carried = self.carry_out(session, &table, &owned, alteration)?;
        drop(owned);
        Ok(done(session, &carried))
    }

    pub(super) fn drop_index(&self, session: &mut Session, drop: &ast::DropIndex) -> SqlResult<Completion> {
        let (table, owned) = self.own_table(session, &drop.table, drop.wait.as_ref())?;
        let mut alteration = Alteration::of(&table);
        let actions = vec![AlterAction::DropKey { if_exists: drop.if_exists, name: drop.name.clone() }];
        alteration.words = Words { actions, wait: drop.wait.clone(), ..Words::default() };
        alteration.drop_key(session, &drop.name, drop.if_exists, false)?;
        if table.is_temporary() {
            alteration.copy_all();
        }
        let carried = self.carry_out(session, &table, &owned, alteration)?;
        Ok(done(session, &carried))
    }

    fn apply(
        &self,
        session: &mut Session,
        table: &TableDef,
        alteration: &mut Alteration,
        action: &AlterAction,
    ) -> SqlResult<()> {
        let catalog = self.catalog();
        let collation = alteration.record.options.collation;
        let mut cx = ColumnContext { session, catalog: &catalog, collation };
        match action {
            AlterAction::AddColumn { if_not_exists, column, position } => {
                generated::check_names(&table.schema, &table.name, column)?;
                alteration.add_column(&mut cx, column, position.as_ref(), *if_not_exists)
            }
            AlterAction::DropColumn { if_exists, name } => alteration.drop_column(session, name, *if_exists),
            AlterAction::ChangeColumn { if_exists, old, column, position } => {
                generated::check_names(&table.schema, &table.name, column)?;
                alteration.change_column(&mut cx, old, column, position.as_ref(), *if_exists)
            }
            AlterAction::RenameColumn { if_exists, old, new } => {
                alteration.rename_column(session, old, new, *if_exists)
            }
            AlterAction::SetDefault { if_exists, name, default } => {
                alteration.set_default(&mut cx, name, default.as_ref(), *if_exists)
            }
            AlterAction::AddKey(key) => alteration.add_key(session, key),
            AlterAction::DropKey { if_exists, name } => alteration.drop_key(session, name, *if_exists, false),
            AlterAction::DropPrimaryKey { if_exists } => {
                alteration.drop_key(session, "PRIMARY", *if_exists, false)
            }
            AlterAction::RenameKey { if_exists, old, new } => {
                alteration.rename_key(session, old, new, *if_exists)
            }
            AlterAction::Rename(name) => {
                let schema = schema_of(session, name)?;
                names::check_table(&name.name)?;
                if table.is_temporary() {
                    let taken = session.temporary.get(schema, &name.name);
                    if taken.is_some_and(|other| other.id != table.id) {
                        return Err(errors::table_exists(&name.name));
                    }
                    let schema = schema.into();
                    foreign::rename_table(&mut alteration.record, schema, name.name.as_str().into());
                    return Ok(());
                }
                let home = catalog.require_schema(schema)?;
                let own = (schema, name.name.as_str()) == (&table.schema, &table.name);
                if !own && (home.has(&name.name) || keel_catalog::series::parse(&name.name).is_some()) {
                    return Err(errors::table_exists(&name.name));
                }
                foreign::rename_table(&mut alteration.record, home.name.clone(), name.name.as_str().into());
                Ok(())
            }
            AlterAction::Option(option) => alteration.option(session, option),
            AlterAction::ConvertTo { charset, collation } => {
                let default = catalog.require_schema(&table.schema)?.collation;
                let to = choose_collation(Some(charset), collation.as_deref(), default, default)?;
                alteration.convert_to(to)
            }
            AlterAction::Force => {
                alteration.copies = true;
                Ok(())
            }
            AlterAction::OrderBy(columns) => {
                alteration.copies = true;
                // Rows that lie in the order of a key stay so, whatever is named.
                match table.record().clustered() {
                    Some(_) => Ok(()),
                    None => columns.iter().try_for_each(|column| has(table, column)),
                }
            }
            AlterAction::EnableKeys(_) | AlterAction::Algorithm(_) | AlterAction::Lock(_) => Ok(()),
            AlterAction::AddCheck(check) => {
                // Rows that are there are tested as they are copied.
                let added = checks::add(session, &mut alteration.record, check)?;
                alteration.copies |= added;
                alteration.converts |= added;
                Ok(())
            }
            AlterAction::DropForeignKey { if_exists, name } => {
                alteration.drop_foreign_key(session, name, *if_exists)
            }
            AlterAction::DropConstraint { if_exists, name } => {
                alteration.drop_constraint(session, name, *if_exists)
            }
            AlterAction::IgnoreKey { if_exists, name, ignored } => {
                alteration.ignore_key(session, name, *ignored, *if_exists)
            }
            AlterAction::Unsupported(what) => Err(errors::not_supported_yet(what)),
        }
    }
}

/// What goes, goes first, wherever it is written: so the same name can come again. Keys and conditions come last: their columns
/// may be added by the same statement.
fn rank(action: &AlterAction) -> u8 {
    match action {
        AlterAction::DropKey { .. }
        | AlterAction::DropPrimaryKey { .. }
        | AlterAction::DropForeignKey { .. }
        | AlterAction::DropConstraint { .. } => 0,
        AlterAction::DropColumn { .. } | AlterAction::IgnoreKey { .. } => 1,
        AlterAction::AddKey(_) | AlterAction::AddCheck(_) => RANK_OF_REST + 1,
        _ => RANK_OF_REST,
    }
}

/// The rank of what takes nothing away and needs nothing.
const RANK_OF_REST: u8 = 2;

fn done(session: &Session, carried: &Copied) -> Completion {
    let warnings = session.diagnostics.warning_count;
    let Copied { rows, duplicates, .. } = *carried;
    let info = format!("Records: {rows}  Duplicates: {duplicates}  Warnings: {warnings}");
    Completion { affected_rows: rows, info: Some(info), ..Completion::default() }
}

/// 1091 for what is not there, or a note of it.
fn missing(session: &mut Session, kind: &str, name: &str, if_exists: bool) -> SqlResult<()> {
    let error = errors::cant_drop_field_or_key(kind, name);
    if !if_exists {
        return Err(error);
    }
    session.note(error);
    Ok(())
}

/// Whether rows change where a column is generated otherwise than before: 1907 for what MariaDB cannot do.
fn generated_anew(before: Option<&Generated>, made: Option<&Generated>) -> SqlResult<bool> {
    match (before.map(|g| g.stored), made.map(|g| g.stored)) {
        (Some(false), Some(false)) => Ok(false),
        (Some(true) | None, Some(true) | None) => Ok(true),
        _ => Err(errors::unsupported_action_on_generated_column()),
    }
}

impl Alteration {
    fn of(table: &TableDef) -> Alteration {
        let mut record = table.record();
        record.slots = record.all_slots();
        Alteration {
            column_origin: (0..record.columns.len()).map(Some).collect(),
            kept_indexes: record.indexes.iter().map(|i| i.name.clone()).collect(),
            record,
            copies: false,
            rearranges: false,
            tests_rows: true,
            converts: false,
            new_expressions: false,
            next_auto: None,
            foreign_keys_before: table.foreign_keys.clone(),
            new_foreign_keys: Vec::new(),
            null_defaults: Vec::new(),
            lost_parts: Vec::new(),
            lost_indexes: Vec::new(),
            words: Words::default(),
        }
    }

    /// Has all rows copied, and counted, as MariaDB does in temporary tables.
    fn copy_all(&mut self) {
        self.copies = true;
        self.converts = true;
    }

    /// Whether AUTO_INCREMENT goes on where it was: the column that counted is still there, be it one that counts or not.
    pub fn keeps_auto_increment(&self, old: &TableDef) -> bool {
        old.auto_increment.is_none_or(|auto| self.place_of(auto.column).is_some())
    }

    /// Takes away the conditions of the table that name only columns which this statement dropped; 1054 for those that name
    /// others too. No action but those that take something away was carried out yet.
    fn drop_checks(&mut self) -> SqlResult<()> {
        let mut checks = std::mem::take(&mut self.record.checks);
        let mut refused = None;
        checks.retain(|check| {
            let named = check::columns_of(&check.condition);
            let gone = named.iter().find(|name| self.column(name).is_none());
            let is_all_gone = named.iter().all(|name| self.column(name).is_none());
            if let Some(gone) = gone.filter(|_| !is_all_gone) {
                refused.get_or_insert_with(|| errors::bad_field(gone, "CHECK"));
            }
            gone.is_none() || !is_all_gone
        });
        self.record.checks = checks;
        refused.map_or(Ok(()), Err)
    }

    /// Leaves the table as it is where the statement does nothing but make indexes again that it drops: InnoDB finds no change
    /// then, so that they keep their places.
    pub fn keep_same_indexes(&mut self, old: &TableRecord) {
        let (new, named) = (&self.record, |record: &TableRecord| {
            record.clustered().map(|key| record.indexes[key].name.clone())
        });
        let same = |a: &IndexRecord, b: &IndexRecord| {
            (a.kind, &a.name, &a.parts, &a.using) == (b.kind, &b.name, &b.parts, &b.using)
                && (&a.comment, a.options.block_size) == (&b.comment, b.options.block_size)
                && a.options.made == b.options.made
        };
        let has = |index: &IndexRecord| new.indexes.iter().any(|other| same(index, other));
        let is_same = self.next_auto.is_none()
            && (&new.schema, &new.name) == (&old.schema, &old.name)
            && new.indexes.len() == old.indexes.len()
            && old.indexes.iter().all(has)
            && named(new) == named(old)
            && new.columns == old.columns
            && (&new.options, &new.foreign_keys, &new.checks)
                == (&old.options, &old.foreign_keys, &old.checks);
        if is_same && self.kept_indexes.len() < old.indexes.len() {
            self.record.indexes = old.indexes.clone();
            self.kept_indexes = old.indexes.iter().map(|index| index.name.clone()).collect();
        }
    }

    /// What holds for the table as a whole: its primary key is NOT NULL, rows whose columns changed are copied, foreign keys
    /// name columns as they are called now.
    pub fn settle(&mut self, old: &TableDef) -> SqlResult<()> {
        let own = (self.record.schema.clone(), self.record.name.clone());
        let mut keys = std::mem::take(&mut self.record.foreign_keys);
        for key in keys.iter_mut().filter(|key| !self.new_foreign_keys.contains(&key.name)) {
            let is_own = key.refers_to(&own.0, &own.1);
            let others = if is_own { &mut key.ref_columns[..] } else { &mut [] };
            for column in key.columns.iter_mut().chain(others) {
                *column = self.renamed(old, column).unwrap_or_else(|| column.clone());
            }
        }
        self.record.foreign_keys = keys;
        foreign::sort(&mut self.record);
        let primary = self.record.indexes.iter().find(|i| i.kind == IndexKind::Primary);
        for part in primary.map(|i| i.parts.clone()).unwrap_or_default() {
            let column = &mut self.record.columns[part.column];
            if self.null_defaults.contains(&column.name) {
                return Err(errors::invalid_default(&column.name));
            }
            keys::make_not_null(column);
        }
        // What is generated from numbers may depend on how they are shown.
        let generates = self.record.columns.iter().any(|column| column.generated.is_some());
        let stays = |before: &SqlType, now: &SqlType| {
            before == now || algorithm::keeps_octets(before, now) && !(generates && before.is_numeric())
        };
        for (column, origin) in self.record.columns.iter().zip(&self.column_origin) {
            let Some(before) = origin.map(|o| &old.columns[o]) else { continue };
            self.copies |= !stays(&before.ty, &column.ty)
                || before.nullable != column.nullable
                || before.auto_increment != column.auto_increment;
        }
        self.copies |= self.keeps_more(old);
        let slots = std::mem::take(&mut self.record.slots);
        self.copies |= !self.record.set_slots(slots);
        Ok(())
    }

    /// Whether rows get values of generated columns that they do not hold, or not these: an index wants them.
    fn keeps_more(&self, old: &TableDef) -> bool {
        let parts = self.record.indexes.iter().flat_map(|index| &index.parts);
        parts.map(|part| part.column).any(|place| {
            let is_kept = self.column_origin[place].is_some_and(|origin| old.is_kept(origin));
            self.record.columns[place].generated.is_some() && (!is_kept || self.new_expressions)
        })
    }

    /// The new name of an old column, where it has one.
    pub fn renamed(&self, old: &TableDef, name: &str) -> Option<std::sync::Arc<str>> {
        let now = self.place_of(old.column_index(name)?)?;
        let now = &self.record.columns[now].name;
        (!names::same(now, name)).then(|| now.clone())
    }

    /// The new place of an old column; none where it is gone.
    pub fn place_of(&self, old: usize) -> Option<usize> {
        self.column_origin.iter().position(|origin| *origin == Some(old))
    }

    fn column(&self, name: &str) -> Option<usize> {
        self.record.columns.iter().position(|c| names::same(&c.name, name))
    }

    fn require_column(&self, session: &mut Session, name: &str, if_exists: bool) -> SqlResult<Option<usize>> {
        let found = self.column(name);
        if found.is_none() {
            let error = errors::bad_field(name, &*self.record.name);
            if !if_exists {
                return Err(error);
            }
            session.note(error);
        }
        Ok(found)
    }

    /// What InnoDB says of actions that do nothing to it: ENABLE and DISABLE KEYS where some key is not unique, ORDER BY where
    /// rows lie in the order of a key.
    fn useless(&self, actions: &[AlterAction]) -> Vec<Warning> {
        let (schema, name) = (&self.record.schema, &self.record.name);
        let mut said = Vec::new();
        let has_keys = self.record.indexes.iter().any(|index| index.kind == IndexKind::Plain);
        if has_keys && actions.iter().any(|a| matches!(a, AlterAction::EnableKeys(_))) {
            let note = Warning::from(errors::illegal_ha("InnoDB", schema, name));
            said.push(Warning { level: Level::Note, ..note });
        }
        if actions.iter().any(|a| matches!(a, AlterAction::OrderBy(_))) && self.record.clustered().is_some() {
            let text =
                format!("ORDER BY ignored as there is a user-defined clustered index in the table '{name}'");
            said.push(Warning::from(errors::unknown_error(text)));
        }
        said
    }

    fn add_column(
        &mut self,
        cx: &mut ColumnContext<'_>,
        column: &ast::ColumnDef,
        position: Option<&ColumnPosition>,
        if_not_exists: bool,
    ) -> SqlResult<()> {
        if self.column(&column.name).is_some() {
            let error = errors::dup_fieldname(&column.name);
            if !if_not_exists {
                return Err(error);
            }
            cx.session.note(error);
            return Ok(());
        }
        let mut made = columns::define_one(cx, column)?;
        if names::own_column(&made.name).is_some() || foreign::is_wrong_document(&made) {
            return Err(errors::wrong_column_name(&made.name));
        }
        let place = self.place(position)?;
        columns::settle_timestamp(cx.session, &self.record.columns[..place], &mut made)?;
        self.rearranges |= place < self.record.columns.len();
        let stored = made.generated.as_ref().is_some_and(|generated| generated.stored);
        self.converts |= stored;
        if !stored
            && !made.auto_increment
            && !matches!(made.default, ColumnDefault::Expression(_))
            && (made.check.is_none() || made.default == ColumnDefault::Value(Value::Null))
        {
            made.added_with = columns::value_for_old_rows(cx.session, &made)?;
        } else {
            self.copies = true;
        }
        self.insert_column(place, made, None);
        self.restore_parts(place);
        columns::check_all(&self.record.columns)?;
        let keys = create::column_key(column).into_iter().chain(foreign::of_column(column));
        keys.into_iter().try_for_each(|key| self.add_key(cx.session, &key))
    }

    fn place(&self, position: Option<&ColumnPosition>) -> SqlResult<usize> {
        match position {
            None => Ok(self.record.columns.len()),
            Some(ColumnPosition::First) => Ok(0),
            Some(ColumnPosition::After(name)) => {
                let after = self.column(name).ok_or_else(|| errors::bad_field(name, &*self.record.name))?;
                Ok(after + 1)
            }
        }
    }

    fn insert_column(&mut self, place: usize, column: keel_catalog::ColumnDef, origin: Option<usize>) {
        for part in self.record.indexes.iter_mut().flat_map(|i| &mut i.parts) {
            part.column += usize::from(part.column >= place);
        }
        self.record.columns.insert(place, column);
        self.column_origin.insert(place, origin);
        for slot in &mut self.record.slots {
            if let Slot::Column(number) = slot {
                *number += usize::from(*number >= place);
            }
        }
        self.record.slots.push(Slot::Column(place));
    }

    /// Takes a column out, and leaves its place in rows; parts of indexes over it become [`NOWHERE`].
    fn take_column(&mut self, place: usize) -> (keel_catalog::ColumnDef, Option<usize>) {
        for part in self.record.indexes.iter_mut().flat_map(|i| &mut i.parts) {
            if part.column == place {
                part.column = NOWHERE;
            } else if part.column != NOWHERE && part.column > place {
                part.column -= 1;
            }
        }
        let column = self.record.columns.remove(place);
        for slot in &mut self.record.slots {
            match slot {
                Slot::Column(number) if *number == place => {
                    *slot = Slot::Gone(column.ty.clone(), column.nullable);
                }
                Slot::Column(number) => *number -= usize::from(*number > place),
                Slot::Gone(..) => {}
            }
        }
        (column, self.column_origin.remove(place))
    }

    fn drop_column(&mut self, session: &mut Session, name: &str, if_exists: bool) -> SqlResult<()> {
        let Some(place) = self.column(name) else {
            let error = errors::cant_drop_field_or_key("COLUMN", name);
            if !if_exists {
                return Err(error);
            }
            session.note(error);
            return Ok(());
        };
        let (column, _) = self.take_column(place);
        self.rearranges = true;
        self.lose_parts(&column.name);
        Ok(())
    }

    fn change_column(
        &mut self,
        cx: &mut ColumnContext<'_>,
        old: &str,
        column: &ast::ColumnDef,
        position: Option<&ColumnPosition>,
        if_exists: bool,
    ) -> SqlResult<()> {
        let Some(place) = self.require_column(cx.session, old, if_exists)? else { return Ok(()) };
        if !names::same(old, &column.name) && self.column(&column.name).is_some() {
            return Err(errors::dup_fieldname(&column.name));
        }
        let mut made = columns::define_one(cx, column)?;
        columns::settle_timestamp(cx.session, &self.record.columns[..place], &mut made)?;
        let before = &self.record.columns[place];
        self.converts |= before.ty != made.ty || made.auto_increment && !before.auto_increment;
        if before.ty != made.ty {
            foreign::refuse_own_names(cx.session, std::slice::from_ref(&made))?;
        } else if let Some(own) = names::own_column(&made.name) {
            return Err(errors::wrong_column_name(own));
        }
        self.copies |= made.check.is_some() && before.check != made.check;
        if before.generated != made.generated {
            let copies = generated_anew(before.generated.as_ref(), made.generated.as_ref())?;
            self.converts |= copies;
            self.copies |= copies;
            self.new_expressions |= true;
        }
        made.added_with = before.added_with.clone();
        self.rename(place, &column.name);
        self.record.columns[place] = made;
        if let Some(position) = position {
            self.move_column(place, position)?;
        }
        columns::check_all(&self.record.columns)?;
        let keys = create::column_key(column).into_iter().chain(foreign::of_column(column));
        keys.into_iter().try_for_each(|key| self.add_key(cx.session, &key))
    }

    fn move_column(&mut self, place: usize, position: &ColumnPosition) -> SqlResult<()> {
        let name = self.record.columns[place].name.clone();
        if matches!(position, ColumnPosition::After(after) if names::same(after, &name)) {
            return Err(errors::bad_field(&*name, &*self.record.name));
        }
        self.rearranges = true;
        let own = self.record.slots.iter().position(|slot| *slot == Slot::Column(place));
        let (column, origin) = self.take_column(place);
        let to = self.place(Some(position))?;
        for part in self.record.indexes.iter_mut().flat_map(|i| &mut i.parts) {
            if part.column == NOWHERE {
                part.column = to;
            } else {
                part.column += usize::from(part.column >= to);
            }
        }
        self.record.columns.insert(to, column);
        self.column_origin.insert(to, origin);
        for (number, slot) in self.record.slots.iter_mut().enumerate() {
            match slot {
                _ if Some(number) == own => *slot = Slot::Column(to),
                Slot::Column(number) => *number += usize::from(*number >= to),
                Slot::Gone(..) => {}
            }
        }
        Ok(())
    }

    fn rename_column(
        &mut self,
        session: &mut Session,
        old: &str,
        new: &str,
        if_exists: bool,
    ) -> SqlResult<()> {
        let Some(place) = self.require_column(session, old, if_exists)? else { return Ok(()) };
        names::check_column(new)?;
        if let Some(own) = names::own_column(new) {
            return Err(errors::wrong_column_name(own));
        }
        if self.column(new).is_some_and(|other| other != place) {
            return Err(errors::dup_fieldname(new));
        }
        self.rename(place, new);
        Ok(())
    }

    /// Gives a column another name, in conditions too.
    fn rename(&mut self, place: usize, new: &str) {
        let old = self.record.columns[place].name.clone();
        self.record.columns[place].name = new.into();
        checks::rename_column(&mut self.record, &old, new);
    }

    fn set_default(
        &mut self,
        cx: &mut ColumnContext<'_>,
        name: &str,
        default: Option<&ast::Expr>,
        if_exists: bool,
    ) -> SqlResult<()> {
        let Some(place) = self.require_column(cx.session, name, if_exists)? else { return Ok(()) };
        let column = &mut self.record.columns[place];
        // One that counts goes on counting.
        if column.generated.is_some() || column.auto_increment {
            return Ok(());
        }
        // CURRENT_TIMESTAMP goes with ON UPDATE.
        column.on_update_now &= column.default != ColumnDefault::Now;
        column.default = match default {
            Some(tree) => columns::default_value(cx, &column.name, tree, &column.ty, column.nullable)?,
            None if column.nullable => ColumnDefault::Value(Value::Null),
            None => ColumnDefault::None,
        };
        if default.is_some() && column.default == ColumnDefault::Value(Value::Null) {
            self.null_defaults.push(column.name.clone());
        }
        Ok(())
    }

    fn add_key(&mut self, session: &mut Session, key: &KeyDef) -> SqlResult<()> {
        engine_options::check_key(session, key)?;
        if key.kind == KeyKind::Foreign {
            return self.add_foreign_key(session, key);
        }
        if let Some(name) = key.constraint.as_ref().filter(|name| names::same(name, "PRIMARY")) {
            return Err(errors::wrong_name_for_index(name));
        }
        let taken =
            key.name.as_ref().is_some_and(|n| self.record.indexes.iter().any(|i| names::same(&i.name, n)));
        if key.if_not_exists
            && taken
            && let Some(name) = &key.name
        {
            session.note(errors::dup_keyname(name));
            return Ok(());
        }
        if let Some(name) = key.name.as_ref().or(key.constraint.as_ref()) {
            foreign::refuse_own_index(session, name, false)?;
        }
        let (columns, indexes) = (&mut self.record.columns, &mut self.record.indexes);
        keys::add(session, columns, indexes, &mut self.kept_indexes, key)
    }

    fn add_foreign_key(&mut self, session: &mut Session, key: &KeyDef) -> SqlResult<()> {
        let name = key.constraint.as_ref().or(key.name.as_ref());
        if key.if_not_exists
            && let Some(name) = name
            && self.foreign_key(name).is_some()
        {
            session.note(errors::dup_keyname(name));
            return Ok(());
        }
        let (columns, indexes) = (&mut self.record.columns, &mut self.record.indexes);
        keys::add_made(session, columns, indexes, &mut self.kept_indexes, key)?;
        let made = foreign::make(&self.record, &self.foreign_keys_before, key)?;
        generated::check_key(&self.record.columns, &made)?;
        self.new_foreign_keys.push(made.name.clone());
        self.record.foreign_keys.push(made);
        Ok(())
    }

    fn foreign_key(&self, name: &str) -> Option<usize> {
        self.record.foreign_keys.iter().position(|key| names::same(&key.name, name))
    }

    fn drop_foreign_key(&mut self, session: &mut Session, name: &str, if_exists: bool) -> SqlResult<()> {
        match self.foreign_key(name) {
            Some(place) => {
                self.record.foreign_keys.remove(place);
                Ok(())
            }
            None => missing(session, "FOREIGN KEY", name, if_exists),
        }
    }

    fn drop_constraint(&mut self, session: &mut Session, name: &str, if_exists: bool) -> SqlResult<()> {
        if self.foreign_key(name).is_some() {
            return self.drop_foreign_key(session, name, if_exists);
        }
        if let Some(place) = check::position(&self.record.checks, name) {
            self.record.checks.remove(place);
            return Ok(());
        }
        let is_unique = |i: &IndexRecord| i.kind != IndexKind::Plain && names::same(&i.name, name);
        match self.record.indexes.iter().any(is_unique) {
            true => self.drop_key(session, name, if_exists, false),
            false => missing(session, "CONSTRAINT", name, if_exists),
        }
    }

    fn drop_key(&mut self, session: &mut Session, name: &str, if_exists: bool, quiet: bool) -> SqlResult<()> {
        let Some(place) = self.record.indexes.iter().position(|i| names::same(&i.name, name)) else {
            let error = errors::cant_drop_field_or_key("INDEX", name);
            if !if_exists {
                return Err(error);
            }
            if !quiet {
                session.note(error);
            }
            return Ok(());
        };
        self.record.indexes.remove(place);
        self.kept_indexes.retain(|kept| !names::same(kept, name));
        Ok(())
    }

    fn rename_key(&mut self, session: &mut Session, old: &str, new: &str, if_exists: bool) -> SqlResult<()> {
        let Some(place) = self.record.indexes.iter().position(|i| names::same(&i.name, old)) else {
            let error = errors::key_does_not_exist(old, &*self.record.name);
            if !if_exists {
                return Err(error);
            }
            session.note(error);
            return Ok(());
        };
        if names::same(old, "PRIMARY") || names::same(new, "PRIMARY") {
            return Err(errors::wrong_name_for_index("PRIMARY"));
        }
        let taken =
            self.record.indexes.iter().enumerate().any(|(i, x)| i != place && names::same(&x.name, new));
        if taken {
            return Err(errors::dup_keyname(new));
        }
        let lost = self.lost_parts.iter_mut().map(|lost| &mut lost.index);
        for index in self.kept_indexes.iter_mut().chain(lost).filter(|index| names::same(index, old)) {
            *index = new.into();
        }
        self.record.indexes[place].name = new.into();
        // The name makes it an index of the user's.
        self.record.indexes[place].options.made = false;
        Ok(())
    }

    fn ignore_key(
        &mut self,
        session: &mut Session,
        name: &str,
        ignored: bool,
        if_exists: bool,
    ) -> SqlResult<()> {
        let mut old = self.record.indexes.iter_mut().filter(|index| self.kept_indexes.contains(&index.name));
        match old.find(|index| names::same(&index.name, name)) {
            Some(index) if index.kind == IndexKind::Primary => Err(errors::pk_index_cant_be_ignored()),
            Some(index) => {
                index.options.ignored = ignored;
                Ok(())
            }
            None => {
                let error = errors::key_does_not_exist(name, &*self.record.name);
                if !if_exists {
                    return Err(error);
                }
                session.note(error);
                Ok(())
            }
        }
    }

    fn option(&mut self, session: &mut Session, option: &TableOption) -> SqlResult<()> {
        let table = self.record.name.clone();
        let before = self.record.options.clone();
        create::check_row_format(session, std::slice::from_ref(option))?;
        let (options, next) =
            create::options(session, before.collation, &table, std::slice::from_ref(option))?;
        match option {
            // The same engine, which makes the table again, without the room that dropped rows have left.
            TableOption::Engine(_) => self.copies = true,
            TableOption::AutoIncrement(_) => self.next_auto = Some(next),
            TableOption::Charset(_) | TableOption::Collate(_) => {
                self.record.options.collation = options.collation
            }
            TableOption::Comment(_) => self.record.options.comment = options.comment,
            TableOption::RowFormat(_) => self.record.options.row_format = options.row_format,
            TableOption::SystemVersioning => {}
            TableOption::Named(..) => {
                let list = std::slice::from_ref(option);
                engine_options::keep_all(session, &mut self.record.options, list)?;
            }
            TableOption::Other(name, _) => {
                self.record.options.others.retain(|(n, _)| n != name);
                self.record.options.others.extend(options.others);
            }
        }
        Ok(())
    }

    /// Gives all texts another character set; those of unknown length keep room for as many characters.
    fn convert_to(&mut self, to: CollationId) -> SqlResult<()> {
        self.record.options.collation = to;
        for column in self.record.columns.iter_mut().filter(|c| c.ty.is_text()) {
            if column.ty.collation != to {
                let octets = u64::from(to.charset().max_bytes());
                if column.ty.kind == TypeKind::VarChar && u64::from(column.ty.length) * octets > 65_535 {
                    return Err(errors::too_big_fieldlength(&column.name, 65_535 / octets));
                }
                let kind = widened(column.ty.kind, column.ty.collation, to);
                if kind != column.ty.kind {
                    column.ty = SqlType::new(kind);
                }
                column.ty.collation = to;
                self.copies = true;
                self.converts = true;
            }
        }
        Ok(())
    }
}

/// The kind of TEXT that has room for as many characters of the longest kind in another character set.
fn widened(kind: TypeKind, from: CollationId, to: CollationId) -> TypeKind {
    let (old, new) = (u64::from(from.charset().max_bytes()), u64::from(to.charset().max_bytes()));
    match kind {
        TypeKind::TinyText if new > old => TypeKind::Text,
        TypeKind::Text if new > old => TypeKind::MediumText,
        TypeKind::MediumText if new > old => TypeKind::LongText,
        kind => kind,
    }
}

pub(super) fn option_of(action: &AlterAction) -> Option<&TableOption> {
    match action {
        AlterAction::Option(option) => Some(option),
        _ => None,
    }
}

/// A column of ORDER BY must be there before the statement.
fn has(table: &TableDef, name: &ast::ColumnName) -> SqlResult<()> {
    let of_schema = name.db.as_deref().is_none_or(|db| db.eq_ignore_ascii_case(&table.schema));
    let of_table = name.table.as_deref().is_none_or(|own| own.eq_ignore_ascii_case(&table.name));
    if of_schema && of_table && table.column_index(&name.column).is_some() {
        return Ok(());
    }
    let parts = [name.db.as_deref(), name.table.as_deref(), Some(name.column.as_str())];
    Err(errors::bad_field(parts.into_iter().flatten().collect::<Vec<_>>().join("."), "ORDER BY"))
}
