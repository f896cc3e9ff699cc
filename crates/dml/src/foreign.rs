//! Foreign keys at work: a child's row needs its parent's, a parent's row goes or changes with its children's.
//!
//! As in InnoDB each foreign key is looked at together with an index. Before an entry goes into the index of the child that
//! the key uses, the parent's row is looked for and locked shared; after an entry has left the index of the parent, the
//! children's entries are looked for, and either keep the statement from going on or change with it, at once and row by
//! row. Nothing is deferred to the end of the statement. The child's entry is also written again where another part of the
//! index or the clustered key changes; the parent is looked for then too.
//!
//! 1. A plan holds the [`Family`] of the table that it changes: all tables which its changes may reach. It depends on them,
//!    so a definition that changes a foreign key makes it again.
//! 2. A key with a NULL refers to nothing (MATCH SIMPLE).
//! 3. What a cascade changes is not checked against the key along which it came: the parent is only half changed then.

use std::cell::RefCell;
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;

use keel_base::{SqlError, SqlResult, code, errors};
use keel_catalog::column_type::have_equal_keys;
use keel_catalog::row_entries::clustered_key;
use keel_catalog::{Catalog, ForeignAction, ForeignKey, TableDef};
use keel_context::engine_error;
use keel_exec::scratch::RowBuffers;
use keel_exec::session::Session;
use keel_storage::runtime::fiber;
use keel_storage::{RangeEnd, Read, Scan, ScanRange, Txn};
use keel_value::row::RowRef;
use keel_value::temporal::{Utc, Zone};
use keel_value::{SqlType, Value, key};

use super::assign::write_row;
use super::convert::Strictness;
use super::generated::Generated;
use super::rows::{self, Touched, Written};

/// How many changes may follow from each other, the statement's own included.
const DEPTH_MAX: usize = 15;

/// The tables that foreign keys tie to one that a statement changes; that one is the first.
pub struct Family {
    members: Vec<Member>,
}

/// A table whose rows change.
struct Member {
    table: Arc<TableDef>,
    parents: Vec<Parent>,
    children: Vec<Child>,
}

/// A foreign key of a member.
struct Parent {
    name: Arc<str>,
    /// What an error says.
    failure: String,
    /// Columns of the member.
    columns: Vec<usize>,
    /// The member's index whose entries are checked; none for rows with hidden numbers.
    index: Option<usize>,
    /// The parent and its index; none where there is no such table or it has none.
    target: Option<(Arc<TableDef>, usize)>,
    /// A parent without such an index: the plan depends on it, too.
    useless: Option<Arc<TableDef>>,
}

/// A foreign key that refers to a member.
struct Child {
    key: ForeignKey,
    failure: String,
    table: Arc<TableDef>,
    /// The child among the members, where its rows may change.
    member: Option<usize>,
    /// Columns of the child.
    columns: Vec<usize>,
    /// The child's index that begins with them; none where it was dropped without `foreign_key_checks`.
    index: Option<usize>,
    /// Columns of the member, and its index whose entries are watched.
    parent_columns: Vec<usize>,
    parent_index: usize,
    /// What a change of the child's columns touches.
    touched: Touched,
    generated: Generated,
    /// The child's generated columns that change with the key's.
    following: Vec<usize>,
}

/// What a statement does with the rows of its table.
#[derive(Clone, Copy)]
pub(crate) struct Doing<'c> {
    pub inserts: bool,
    pub deletes: bool,
    /// Columns that it changes.
    pub changes: &'c dyn Fn(usize) -> bool,
}

impl Doing<'_> {
    /// Anything.
    const ALL: Doing<'static> = Doing { inserts: true, deletes: true, changes: &|_| true };
}

impl Family {
    /// The family of a table for a statement; none where no foreign key concerns it.
    pub(crate) fn of(
        catalog: &Catalog,
        session: &Session,
        table: &Arc<TableDef>,
        doing: Doing<'_>,
    ) -> SqlResult<Option<Arc<Family>>> {
        let mut family = Family { members: Vec::new() };
        family.add(table);
        family.tie(catalog, session, 0, doing)?;
        if family.members[0].parents.is_empty() && family.members[0].children.is_empty() {
            return Ok(None);
        }
        let mut next = 1;
        while next < family.members.len() {
            family.tie(catalog, session, next, Doing::ALL)?;
            next += 1;
        }
        Ok(Some(Arc::new(family)))
    }

    fn add(&mut self, table: &Arc<TableDef>) -> usize {
        let known = self.members.iter().position(|member| Arc::ptr_eq(&member.table, table));
        known.unwrap_or_else(|| {
            let member = Member { table: table.clone(), parents: Vec::new(), children: Vec::new() };
            self.members.push(member);
            self.members.len() - 1
        })
    }

    /// Finds the foreign keys that concern a member.
    fn tie(
        &mut self,
        catalog: &Catalog,
        session: &Session,
        member: usize,
        doing: Doing<'_>,
    ) -> SqlResult<()> {
        let table = self.members[member].table.clone();
        // None where every entry is written.
        let touched =
            (!doing.inserts && !table.foreign_keys.is_empty()).then(|| Touched::of(&table, doing.changes));
        for key in &table.foreign_keys {
            let Some(columns) = table.column_places(&key.columns) else { continue };
            // Without an index InnoDB looks for the parent of new rows alone.
            let index = table.index_beginning_with(&columns).or(table.clustered);
            let is_written = |touched: &Touched| index.is_some_and(|index| touched.has(&table, index));
            if touched.as_ref().is_some_and(|touched| !is_written(touched)) {
                continue;
            }
            // One that takes another's place is not in the catalog while it is filled.
            let parent = match key.refers_to(&table.schema, &table.name) {
                true => Some(&table),
                false => catalog.lasting_table(&key.ref_schema, &key.ref_table),
            };
            let target = parent.and_then(|parent| {
                let places = parent.column_places(&key.ref_columns)?;
                let index = parent.index_beginning_with(&places)?;
                same_keys(&table, &columns, parent, &places).then(|| (parent.clone(), index))
            });
            let useless = parent.filter(|_| target.is_none()).cloned();
            let (name, failure) = (key.name.clone(), key.failure(&table));
            self.members[member].parents.push(Parent { name, failure, columns, index, target, useless });
        }
        let children = match table.is_temporary() {
            true => Vec::new(),
            false => catalog.references_to(&table.schema, &table.name),
        };
        for (child, key) in children {
            let Some(columns) = child.column_places(&key.columns) else { continue };
            let index = child.index_beginning_with(&columns);
            let Some(parent_columns) = table.column_places(&key.ref_columns) else { continue };
            let Some(parent_index) = table.index_beginning_with(&parent_columns) else { continue };
            if !same_keys(child, &columns, &table, &parent_columns) {
                continue;
            }
            if !doing.deletes && !parent_columns.iter().any(|column| (doing.changes)(*column)) {
                continue;
            }
            let changes = key.on_delete.changes_child() || key.on_update.changes_child();
            let to = changes.then(|| self.add(child));
            let generated = Generated::bind(catalog, session, child)?;
            let following = generated.follow(|column| columns.contains(&column));
            let touched = |column: usize| columns.contains(&column) || following.contains(&column);
            self.members[member].children.push(Child {
                key: key.clone(),
                failure: key.failure(child),
                table: child.clone(),
                member: to,
                touched: Touched::of(child, touched),
                generated,
                following,
                columns,
                index,
                parent_columns,
                parent_index,
            });
        }
        Ok(())
    }

    /// The tables that a plan with this family depends on, and whether it changes them.
    pub fn dependencies(&self) -> impl Iterator<Item = (&Arc<TableDef>, bool)> + '_ {
        let written = self.members.iter().map(|member| (&member.table, true));
        let parents = self.members.iter().flat_map(|member| &member.parents);
        let parents = parents.filter_map(|parent| {
            let target = parent.target.as_ref().map(|(table, _)| table);
            target.or(parent.useless.as_ref()).map(|table| (table, false))
        });
        let children = self.members.iter().flat_map(|member| &member.children);
        let children = children.map(|child| (&child.table, false));
        written.chain(parents).chain(children)
    }

    /// The ties of the statement's own table; none while `foreign_key_checks` is off.
    pub fn ties<'f>(family: &'f Option<Arc<Family>>, session: &Session) -> Option<Ties<'f>> {
        let family = family.as_deref().filter(|_| session.vars.foreign_key_checks)?;
        let mut children = family.members.iter().flat_map(|member| &member.children);
        let works_out = children.any(|child| !child.following.is_empty());
        let evaluator = works_out.then(|| Rc::new(RefCell::new(session.aside())));
        Some(Ties { family, member: 0, along: None, above: None, is_update: false, depth: 0, evaluator })
    }
}

/// Whether equal rows of both have equal keys. Without `foreign_key_checks` a parent may come to be whose columns are of other types: it
/// is none, then.
fn same_keys(child: &TableDef, columns: &[usize], parent: &TableDef, parent_columns: &[usize]) -> bool {
    let pairs = columns.iter().zip(parent_columns);
    pairs.into_iter().all(|(a, b)| have_equal_keys(&child.columns[*a].ty, &parent.columns[*b].ty))
}

/// What watches over one row that changes.
#[derive(Clone)]
pub struct Ties<'f> {
    family: &'f Family,
    member: usize,
    /// The key along which a cascade came here.
    along: Option<&'f Arc<str>>,
    /// The change from which this one follows.
    above: Option<&'f Ties<'f>>,
    /// The row stays and changes.
    is_update: bool,
    depth: usize,
    /// Works out generated columns of children; none where there are none.
    evaluator: Option<Rc<RefCell<Session>>>,
}

/// What becomes of a parent's row.
#[derive(Clone, Copy)]
enum Fate<'r> {
    Goes,
    Becomes(RowRef<'r>),
}

impl<'f> Ties<'f> {
    /// Whether foreign keys of other rows may name the table's.
    pub fn is_named(&self) -> bool {
        !self.member().children.is_empty()
    }

    fn member(&self) -> &'f Member {
        &self.family.members[self.member]
    }

    /// Before the entry of a row goes into an index, or the row into a table with hidden numbers: 1452 where a foreign key that
    /// uses it has no parent.
    pub fn before_insert(&self, txn: &mut Txn, index: Option<usize>, row: &RowRef<'_>) -> SqlResult<()> {
        for parent in self.member().parents.iter().filter(|parent| parent.index == index) {
            if self.along.is_some_and(|name| *name == parent.name) {
                continue;
            }
            if !parent.is_there(txn, row)? {
                return Err(errors::no_referenced_row(&parent.failure));
            }
        }
        Ok(())
    }

    /// After the entry of a row that goes has left an index.
    pub fn after_delete(&self, txn: &mut Txn, index: usize, row: &RowRef<'_>) -> SqlResult<()> {
        self.children_follow(txn, index, row, Fate::Goes)
    }

    /// After the entry of a row that changes has left an index.
    pub fn after_change(
        &self,
        txn: &mut Txn,
        index: usize,
        old: &RowRef<'_>,
        new: &RowRef<'_>,
    ) -> SqlResult<()> {
        let ties = Ties { is_update: true, ..self.clone() };
        ties.children_follow(txn, index, old, Fate::Becomes(*new))
    }

    fn children_follow(
        &self,
        txn: &mut Txn,
        index: usize,
        row: &RowRef<'_>,
        fate: Fate<'_>,
    ) -> SqlResult<()> {
        for child in self.member().children.iter().filter(|child| child.parent_index == index) {
            let stays = |column: &usize| match &fate {
                Fate::Goes => false,
                Fate::Becomes(new) => new.get(*column) == row.get(*column),
            };
            if child.parent_columns.iter().all(stays) {
                continue;
            }
            let Some(index) = child.index else {
                // Nobody knows whether a row of the child refers to this one.
                let has_null = child.parent_columns.iter().any(|column| row.get(*column).is_null());
                if has_null {
                    continue;
                }
                return Err(errors::row_is_referenced(&child.failure));
            };
            let Some(key) = encode(&child.table, index, row, &child.parent_columns) else { continue };
            self.follow(txn, (child, index), &key, fate)?;
        }
        Ok(())
    }

    /// Has the rows of a child follow that refer to `key`.
    fn follow(
        &self,
        txn: &mut Txn,
        (child, index): (&Child, usize),
        key: &[u8],
        fate: Fate<'_>,
    ) -> SqlResult<()> {
        let action = match fate {
            Fate::Goes => child.key.on_delete,
            Fate::Becomes(_) => child.key.on_update,
        };
        let Some(member) = child.member.filter(|_| action.changes_child()) else {
            return match find_first(txn, &child.table, index, child.columns.len(), key)? {
                true => Err(errors::row_is_referenced(&child.failure)),
                false => Ok(()),
            };
        };
        let is_delete = matches!(fate, Fate::Goes) && action == ForeignAction::Cascade;
        let ties = Ties {
            family: self.family,
            member,
            along: Some(&child.key.name),
            above: Some(self),
            is_update: !is_delete,
            depth: self.depth + 1,
            evaluator: self.evaluator.clone(),
        };
        let own = child.table.clustered == Some(index);
        let mut scan = scan_of(txn, &child.table, index, key, Read::FOR_UPDATE)?;
        let (mut primary, mut old) = (Vec::new(), Vec::new());
        let mut work = Work { ties: &ties, child, index, buffers: RowBuffers::default(), new: Vec::new() };
        let entries = &child.table.indexes[index];
        while let Some((entry, _)) = scan.next(txn).map_err(engine_error)? {
            primary.clear();
            primary.extend_from_slice(if own { entry } else { clustered_key(entries, entry) });
            fiber::tick();
            // Only where a row is there is anything to follow.
            if ties.depth >= DEPTH_MAX {
                return Err(errors::get_errmsg(DEPTH_EXCEEDED, &child.failure, "InnoDB"));
            }
            if !rows::lock_row(&child.table, txn, &primary, &mut old)? {
                // The row that changes refers to itself: its old place is empty already.
                if matches!(fate, Fate::Becomes(_)) && member == self.member {
                    return Err(errors::row_is_referenced(&child.failure));
                }
                continue;
            }
            match is_delete {
                true => rows::delete(&child.table, txn, &primary, &old, &mut work.buffers, Some(&ties))?,
                false => work.update(txn, &primary, &old, fate)?,
            }
        }
        Ok(())
    }

    /// The session's time zone where it is known.
    fn zone(&self) -> Arc<dyn Zone + Send + Sync> {
        match &self.evaluator {
            Some(session) => session.borrow().vars.time_zone.clone(),
            None => Arc::new(Utc),
        }
    }

    /// Whether a change from which this one follows has changed a row of the same table.
    fn comes_back(&self) -> bool {
        let mut above = self.above;
        while let Some(ties) = above {
            if ties.is_update && ties.member == self.member {
                return true;
            }
            above = ties.above;
        }
        false
    }
}

/// Changing rows of a child.
struct Work<'w, 'f> {
    ties: &'w Ties<'f>,
    child: &'f Child,
    /// The child's index in which its rows were found.
    index: usize,
    buffers: RowBuffers,
    new: Vec<u8>,
}

impl Work<'_, '_> {
    /// Gives a row the parent's new key, or NULL.
    fn update(&mut self, txn: &mut Txn, primary: &[u8], old: &[u8], fate: Fate<'_>) -> SqlResult<()> {
        let child = self.child;
        let table = &child.table;
        let referenced = || errors::row_is_referenced(&child.failure);
        if self.ties.comes_back() {
            return Err(referenced());
        }
        let follows = matches!(fate, Fate::Becomes(_)) && child.key.on_update == ForeignAction::Cascade;
        let mut values: Vec<(usize, Value)> = Vec::with_capacity(child.columns.len());
        for (column, parent_column) in child.columns.iter().zip(&child.parent_columns) {
            let def = &table.columns[*column];
            let value = match &fate {
                Fate::Becomes(new) if follows => new.get(*parent_column).to_owned(),
                _ => Value::Null,
            };
            let fits = match &value {
                Value::Null => def.nullable,
                Value::Bytes(bytes) => def.ty.is_blob() || fits(&def.ty, bytes),
                _ => true,
            };
            if !fits {
                return Err(referenced());
            }
            values.push((*column, value));
        }
        let view = RowRef::new(&table.layout, old);
        if let Some(evaluator) = &self.ties.evaluator {
            let session = &mut evaluator.borrow_mut();
            let strictness = Strictness::of(session, false, false);
            child.generated.change(session, table, &view, &mut values, &child.following, strictness)?;
        }
        write_row(table, &view, &values, &mut self.new);
        if self.new == old {
            return Ok(());
        }
        let (new, buffers) = (&self.new, &mut self.buffers);
        match rows::update(table, &child.touched, txn, primary, old, new, buffers, Some(self.ties))? {
            Written::Done => Ok(()),
            Written::Duplicate(position) => Err(self.duplicate(position, old, follows)),
        }
    }

    /// 1761: the change would make a duplicate. It shows the parent's key, which the row has before it becomes NULL.
    #[cold]
    fn duplicate(&self, position: usize, old: &[u8], follows: bool) -> SqlError {
        let parent = self.ties.above.map(|ties| ties.member());
        let name = parent.map_or("", |parent| &*parent.table.name);
        let row = RowRef::new(&self.child.table.layout, if follows { &self.new } else { old });
        let entry = rows::printed_row_key(&self.child.table, self.index, &row, &*self.ties.zone());
        let index = self.child.table.indexes.get(position).map_or("PRIMARY", |index| &*index.name);
        errors::foreign_duplicate_key(name, entry, &*self.child.table.name, index)
    }
}

/// The number of the engine's error where cascades follow from each other too often.
const DEPTH_EXCEEDED: u16 = 193;

/// Says more about an error of a cascade: a warning, which is the error itself where warnings are errors.
pub fn explain(session: &mut Session, strict: bool, error: SqlError) -> SqlError {
    if error.code != code::GET_ERRMSG {
        return error;
    }
    let reason = errors::cascades_too_deep(DEPTH_MAX);
    if !strict {
        session.warn(reason);
        return error;
    }
    session.push_error(&reason);
    session.push_error(&error);
    reason
}

/// Warns of an error that keeps DELETE IGNORE from deleting a row; false if it is another one.
pub(super) fn passes_over(session: &mut Session, error: &SqlError) -> bool {
    let too_deep = error.code == code::GET_ERRMSG;
    if !too_deep && !is_of_foreign_key(error) {
        return false;
    }
    if too_deep {
        session.warn(errors::cascades_too_deep(DEPTH_MAX));
    }
    session.warn(error.clone());
    true
}

/// Whether it says that a foreign key keeps a row from what was to be done with it.
pub(super) fn is_of_foreign_key(error: &SqlError) -> bool {
    matches!(error.code, code::ROW_IS_REFERENCED | code::NO_REFERENCED_ROW)
}

/// Whether a text or binary value has room in a column.
fn fits(ty: &SqlType, bytes: &[u8]) -> bool {
    let length = match ty.is_text() {
        true => keel_value::collation::char_len(ty.collation, bytes),
        false => bytes.len(),
    };
    length <= ty.length as usize
}

impl Parent {
    /// Whether the row that a child's row refers to is there; locks it. A key with a NULL needs none.
    fn is_there(&self, txn: &mut Txn, row: &RowRef<'_>) -> SqlResult<bool> {
        if self.columns.iter().any(|column| row.get(*column).is_null()) {
            return Ok(true);
        }
        let Some((table, index)) = &self.target else { return Ok(false) };
        match encode(table, *index, row, &self.columns) {
            Some(key) => find_first(txn, table, *index, self.columns.len(), &key),
            None => Ok(false),
        }
    }
}

/// The beginning of the keys in an index whose first parts have the values of `columns` in a row; none where one is NULL.
fn encode(table: &TableDef, index: usize, row: &RowRef<'_>, columns: &[usize]) -> Option<Vec<u8>> {
    let mut key = Vec::new();
    for (encoder, column) in table.indexes[index].encoders.iter().zip(columns) {
        let value = row.get(*column);
        if value.is_null() {
            return None;
        }
        encoder.encode(value, &mut key);
    }
    Some(key)
}

/// Whether an index has a row whose first parts, so many, have that key; the first one is locked shared, or the gap where it
/// would be.
fn find_first(txn: &mut Txn, table: &TableDef, index: usize, parts: usize, key: &[u8]) -> SqlResult<bool> {
    if table.clustered == Some(index) && table.indexes[index].parts.len() == parts {
        return Ok(txn.get(table.rows(), key, Read::FOR_SHARE, |_| ()).map_err(engine_error)?.is_some());
    }
    let mut scan = scan_of(txn, table, index, key, Read::FOR_SHARE)?;
    Ok(scan.next(txn).map_err(engine_error)?.is_some())
}

/// All rows of an index whose key begins so.
fn scan_of(txn: &mut Txn, table: &TableDef, index: usize, prefix: &[u8], read: Read) -> SqlResult<Scan> {
    let index = &table.indexes[index];
    let mut end = prefix.to_vec();
    let upper = if key::successor(&mut end) { Bound::Excluded(end.as_slice()) } else { Bound::Unbounded };
    let range = ScanRange { lower: Bound::Included(prefix), upper, reverse: false };
    let mut scan = txn.scan(index.entries(), range, read).map_err(engine_error)?;
    // Others may insert beside what is found, as in InnoDB: the row itself answers.
    scan.set_end(RangeEnd::GapBehind);
    Ok(scan)
}

/// 1452 where a row of a table has no parent by one of its foreign keys; gives the number of rows. The table and the parents
/// stand still meanwhile; `parent_of` finds these.
pub fn check_rows(
    session: &Session,
    txn: &mut Txn,
    table: &TableDef,
    key: &ForeignKey,
    parent: Option<&TableDef>,
    failure: &str,
) -> SqlResult<u64> {
    let missing = || errors::no_referenced_row(failure);
    let places = |table: &TableDef, columns| table.column_places(columns).ok_or_else(missing);
    let columns = places(table, &key.columns)?;
    let index = table.index_beginning_with(&columns).ok_or_else(missing)?;
    let entries = &table.indexes[index];
    let target = parent.and_then(|parent| {
        let index = parent.index_beginning_with(&parent.column_places(&key.ref_columns)?)?;
        Some((parent, index))
    });
    let mut scan = txn.scan(entries.entries(), ScanRange::ALL, Read::Snapshot).map_err(engine_error)?;
    let (mut key, mut last) = (Vec::new(), Vec::new());
    let mut count = 0;
    while let Some((entry_key, entry)) = scan.next(txn).map_err(engine_error)? {
        count += 1;
        let value = |column: &usize| entries.entry.get(*column, entry_key, entry);
        if columns.iter().any(|column| value(column).is_null()) {
            continue;
        }
        let Some((parent, index)) = target else { return Err(missing()) };
        let parent_index = &parent.indexes[index];
        key.clear();
        let parts = parent_index.encoders.iter().zip(&columns);
        parts.for_each(|(encoder, column)| encoder.encode(value(column), &mut key));
        if key == last {
            continue;
        }
        session.check_interrupt()?;
        let mut found = scan_of(txn, parent, index, &key, Read::Snapshot)?;
        if found.next(txn).map_err(engine_error)?.is_none() {
            return Err(missing());
        }
        std::mem::swap(&mut key, &mut last);
    }
    Ok(count)
}
