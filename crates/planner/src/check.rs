//! Whether a session may do what a statement asks for: the only place where that is decided for tables.
//!
//! A plan carries a [`Need`] for each table that it reads or changes. They are checked when it is bound, and once more where
//! another account runs it or the accounts have changed. Definitions are checked by their tree before they begin.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, errors};
use keel_catalog::account::{Access, Accounts, Privileges};
use keel_catalog::{Catalog, View};
use keel_exec::session::Session;
use keel_expr::env::schema_of;
use keel_expr::rights::{database_denied, denied_command, expired, require_global, require_on_database};
use keel_sql::ast::{Account, AlterAction, CreateView, MaintainOp, ObjectName, References, Statement};

/// What a statement wants of a table or a view.
#[derive(Clone)]
pub struct Need {
    /// Its database.
    pub schema: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Wanted on the table; of what can be granted on columns, on one of them at least.
    pub whole: Privileges,
    /// Columns are not told: what is granted on single ones does not help.
    pub entire: bool,
    /// Wanted on columns.
    pub columns: Vec<ColumnNeed>,
    /// Who must have it.
    pub asked: Asked,
    /// A statement changes it through a view: what is wanted of it as a whole is what the statement does.
    pub changed: bool,
}

/// Whose privileges count: the session's, or those of a view's definer.
#[derive(Clone, Default)]
pub struct Asked {
    /// The view whose definer is asked; none for the session.
    pub definer: Option<Arc<View>>,
    /// The view that the statement names and that hides all this.
    pub within: Option<Arc<View>>,
}

impl Asked {
    /// What a view that a statement changes needs of its table.
    pub fn through(view: &Arc<View>) -> Asked {
        Asked { definer: Some(view.clone()).filter(|view| !view.invoker), within: Some(view.clone()) }
    }

    fn same(&self, other: &Asked) -> bool {
        let same = |a: &Option<Arc<View>>, b: &Option<Arc<View>>| {
            a.as_ref().map(Arc::as_ptr) == b.as_ref().map(Arc::as_ptr)
        };
        same(&self.definer, &other.definer) && same(&self.within, &other.within)
    }
}

/// What a statement wants of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnNeed {
    /// Its name.
    pub column: Arc<str>,
    /// The privileges.
    pub wanted: Privileges,
    /// It is one of all columns, which nobody has named: the error names the table.
    pub unnamed: bool,
}

impl Need {
    /// The table alone, by the session.
    pub fn of(schema: &Arc<str>, name: &Arc<str>, whole: Privileges) -> Need {
        Need {
            schema: schema.clone(),
            name: name.clone(),
            whole,
            entire: false,
            columns: Vec::new(),
            asked: Asked::default(),
            changed: false,
        }
    }

    /// All that is wanted of it.
    fn all(&self) -> Privileges {
        self.columns.iter().fold(self.whole, |all, c| all.and(c.wanted))
    }
}

/// Adds a need to others.
pub(crate) fn add(needs: &mut Vec<Need>, need: Need) {
    let same = |known: &&mut Need| {
        let is_same = known.schema == need.schema && known.name == need.name;
        is_same && known.changed == need.changed && known.asked.same(&need.asked)
    };
    let Some(known) = needs.iter_mut().find(same) else {
        needs.push(need);
        return;
    };
    known.whole = known.whole.and(need.whole);
    known.entire |= need.entire;
    for column in need.columns {
        if !known.columns.contains(&column) {
            known.columns.push(column);
        }
    }
}

/// All that some needs want.
pub fn union(needs: &[Need]) -> Privileges {
    let wanted = |need: &Need| match need.asked.definer {
        Some(_) => Privileges::NOBODYS,
        None => need.all(),
    };
    needs
        .iter()
        .filter(|need| !is_open(&need.schema))
        .fold(Privileges::NONE, |all, need| all.and(wanted(need)))
}

/// Whether everybody may read the tables of a database.
fn is_open(schema: &str) -> bool {
    schema.eq_ignore_ascii_case("information_schema")
}

/// Whether the session has all that is needed.
pub fn needs(session: &Session, accounts: &Accounts, needs: &[Need]) -> SqlResult<()> {
    needs.iter().try_for_each(|need| one(session, accounts, need))
}

/// What EXPLAIN needs beside what the statement needs: SHOW VIEW on its views, and SELECT on what those read. 1345 where the
/// session lacks that, for it would be told what the views hide.
pub fn explained(session: &Session, catalog: &Catalog, mut needs: Vec<Need>) -> SqlResult<Vec<Need>> {
    let mut named = needs.iter().filter(|need| need.asked.within.is_none());
    named.try_for_each(|need| one(session, &catalog.accounts, need))?;
    for place in 0..needs.len() {
        let need = &needs[place];
        let wanted = match (catalog.view(&need.schema, &need.name), &need.asked.within) {
            (Some(_), _) => Privileges::SELECT.and(Privileges::SHOW_VIEW),
            (None, Some(_)) => Privileges::SELECT,
            (None, None) => continue,
        };
        let own = Need::of(&need.schema, &need.name, wanted);
        one(session, &catalog.accounts, &own).map_err(|_| errors::view_no_explain())?;
        add(&mut needs, own);
    }
    Ok(needs)
}

fn one(session: &Session, accounts: &Accounts, need: &Need) -> SqlResult<()> {
    if is_open(&need.schema) || accounts.unchecked {
        return Ok(());
    }
    let result = match &need.asked.definer {
        None => has(session, &session.access, session.database.as_deref(), accounts, need),
        Some(view) => {
            let account = accounts.definer(&view.definer).ok_or_else(|| no_definer(session, view))?;
            has(session, &Access::of(accounts, account), None, accounts, need)
        }
    };
    // What a view names is its own matter.
    result.map_err(|error| need.asked.within.as_ref().map_or(error, |view| view.broken()))
}

/// Refuses views that do what their definers may, where a definer is gone.
pub fn have_definers<'v>(
    session: &Session,
    accounts: &Accounts,
    views: impl IntoIterator<Item = &'v Arc<View>>,
) -> SqlResult<()> {
    let lacks = |view: &&Arc<View>| !view.invoker && accounts.definer(&view.definer).is_none();
    match views.into_iter().find(lacks) {
        Some(view) if !accounts.unchecked => Err(no_definer(session, view)),
        _ => Ok(()),
    }
}

/// 1449 to who may make views for others, 1045 to all else.
#[cold]
fn no_definer(session: &Session, view: &View) -> SqlError {
    let (user, host) = &view.definer;
    let access = &session.access;
    if access.global.has_any(Privileges::SUPER.and(Privileges::SET_USER)) {
        return errors::no_such_user(user, host);
    }
    errors::access_denied(&access.user, &access.host, if access.with_password { "YES" } else { "NO" })
}

fn has(
    session: &Session,
    access: &Access,
    default: Option<&str>,
    accounts: &Accounts,
    need: &Need,
) -> SqlResult<()> {
    let (schema, name) = (&*need.schema, &*need.name);
    let have = access.on_database(accounts, default, schema);
    if have.has(need.all()) {
        return Ok(());
    }
    let grants = access.on_table(accounts, schema, name);
    let granted = if need.entire { grants.table } else { grants.any() };
    let missing = need.whole.without(have.and(granted));
    if !missing.is_none() {
        return Err(denied(session, missing, schema, name));
    }
    for column in &need.columns {
        let missing = column.wanted.without(have.and(grants.on_column(&column.column)));
        if !missing.is_none() {
            return Err(match column.unnamed {
                true => denied(session, missing, schema, name),
                false => column_denied(session, missing, &column.column, name),
            });
        }
    }
    Ok(())
}

/// The same as [`lasting`]; a temporary table of that name is the session's own.
pub fn table(
    session: &Session,
    accounts: &Accounts,
    (schema, name): (&str, &str),
    wanted: Privileges,
) -> SqlResult<()> {
    match session.temporary.get(schema, name) {
        Some(_) => Ok(()),
        None => lasting(session, accounts, (schema, name), wanted),
    }
}

/// 1142 unless the session has all of `wanted` on a table, be it there or not, or on some column of it.
pub fn lasting(
    session: &Session,
    accounts: &Accounts,
    (schema, table): (&str, &str),
    wanted: Privileges,
) -> SqlResult<()> {
    if session.access.global.has(wanted) || accounts.unchecked {
        return Ok(());
    }
    if is_open(schema) {
        return match wanted == Privileges::SELECT {
            true => Ok(()),
            false => Err(database_denied(session, "information_schema")),
        };
    }
    let have = session.access.on_database(accounts, session.database.as_deref(), schema);
    if have.has(wanted) {
        return Ok(());
    }
    let missing = wanted.without(have.and(session.access.on_table(accounts, schema, table).any()));
    if missing.is_none() { Ok(()) } else { Err(denied(session, missing, schema, table)) }
}

/// 1142 with the statement's words unless the session has some privilege on a table or on a column of it.
pub fn any_on_table(
    session: &Session,
    accounts: &Accounts,
    (schema, table): (&str, &str),
    words: &str,
) -> SqlResult<()> {
    let any = keel_expr::rights::lists_table(session, accounts, schema, table);
    match any || session.temporary.get(schema, table).is_some() {
        true => Ok(()),
        false => Err(denied_command(session, words, schema, table)),
    }
}

/// 1370 unless the session has `wanted` on the database of a routine, 1044 for `information_schema`.
pub fn routine(
    session: &Session,
    accounts: &Accounts,
    (schema, name): (&str, &str),
    wanted: Privileges,
) -> SqlResult<()> {
    let have = || session.access.on_database(accounts, session.database.as_deref(), schema);
    if accounts.unchecked || have().has(wanted) {
        return Ok(());
    }
    if is_open(schema) {
        return Err(database_denied(session, "information_schema"));
    }
    let (user, host) = (&session.access.user, &session.access.host);
    let command = wanted.list().to_ascii_lowercase();
    Err(errors::procaccess_denied(command, user, host, format_args!("{schema}.{name}")))
}

/// 1142.
#[cold]
pub fn denied(session: &Session, missing: Privileges, schema: &str, table: &str) -> SqlError {
    denied_command(session, &missing.list(), schema, table)
}

/// 1143.
#[cold]
pub fn column_denied(session: &Session, missing: Privileges, column: &str, table: &str) -> SqlError {
    errors::columnaccess_denied(missing.list(), &session.access.user, &session.client_host, column, table)
}

/// Whether the session may run a definition, or maintenance.
pub fn definition(session: &Session, catalog: &Catalog, statement: &Statement) -> SqlResult<()> {
    use Privileges as P;
    expired(session)?;
    if let Statement::CreateView(create) = statement {
        place_of_view(session, catalog, create)?;
        return definer_of_view(session, catalog, create);
    }
    if let Statement::Maintain(maintain) = statement
        && !matches!(maintain.op, MaintainOp::Check | MaintainOp::Checksum)
    {
        maintain.tables.iter().try_for_each(|name| maintains_virtual(session, name))?;
    }
    if session.access.global.has(P::OF_DATABASE) || catalog.accounts.unchecked {
        return Ok(());
    }
    let accounts = &*catalog.accounts;
    let on = |name: &ObjectName, wanted: P| -> SqlResult<()> {
        table(session, accounts, (schema_of(session, name)?, &name.name), wanted)
    };
    let new = |name: &ObjectName, wanted: P| -> SqlResult<()> {
        lasting(session, accounts, (schema_of(session, name)?, &name.name), wanted)
    };
    let of_database = |name: &str, wanted: P| require_on_database(session, accounts, name, wanted);
    match statement {
        Statement::CreateDatabase(create) => {
            of_database(&create.name, if create.or_replace { P::CREATE.and(P::DROP) } else { P::CREATE })
        }
        Statement::AlterDatabase { name, .. } => {
            let name = match name {
                Some(name) => name,
                None => session.require_database()?.as_ref(),
            };
            of_database(name, P::ALTER)
        }
        Statement::DropDatabase { name, .. } => of_database(name, P::DROP),
        Statement::CreateTable(create) => {
            let mut wanted = P::CREATE;
            if create.select.is_some() {
                wanted = wanted.and(P::INSERT);
            }
            if create.or_replace {
                wanted = wanted.and(P::DROP);
            }
            match create.temporary {
                true => of_database(schema_of(session, &create.name)?, P::CREATE_TEMPORARY)?,
                false => new(&create.name, wanted)?,
            }
            if let Some(like) = &create.like {
                on(like, P::SELECT)?;
            }
            let of_columns = create.columns.iter().filter_map(|c| c.references.as_deref());
            let of_keys = create.keys.iter().filter_map(|k| k.references.as_deref());
            of_columns.chain(of_keys).try_for_each(|r| parent(session, accounts, &create.name, r))
        }
        Statement::DropView { names, .. } => names.iter().try_for_each(|name| new(name, P::DROP)),
        Statement::AlterSequence(alter) => on(&alter.name, P::ALTER),
        Statement::DropTable(drop) if drop.temporary => Ok(()),
        Statement::DropTable(drop) => drop.tables.iter().try_for_each(|name| on(name, P::DROP)),
        Statement::AlterTable(alter) => {
            let rename = alter.actions.iter().find_map(|action| match action {
                AlterAction::Rename(name) => Some(name),
                _ => None,
            });
            on(&alter.table, if rename.is_some() { P::ALTER.and(P::DROP) } else { P::ALTER })?;
            rename.map_or(Ok(()), |name| new(name, P::INSERT.and(P::CREATE)))?;
            let added = alter.actions.iter().filter_map(references_of);
            added.into_iter().try_for_each(|r| parent(session, accounts, &alter.table, r))
        }
        Statement::CreateIndex(create) => on(&create.table, P::INDEX),
        Statement::DropIndex(drop) => on(&drop.table, P::INDEX),
        Statement::RenameTable { renames, .. } => {
            let mut moved = Vec::new();
            for (before, after) in renames {
                let from = (schema_of(session, before)?, before.name.as_str());
                let to = (schema_of(session, after)?, after.name.as_str());
                if renames_own(session, &mut moved, from, to) {
                    continue;
                }
                lasting(session, accounts, from, P::ALTER.and(P::DROP))?;
                lasting(session, accounts, to, P::INSERT.and(P::CREATE))?;
            }
            Ok(())
        }
        Statement::Truncate { table, .. } => on(table, P::DROP),
        Statement::Maintain(maintain) => {
            let wanted = match maintain.op {
                MaintainOp::Check => {
                    return maintain.tables.iter().try_for_each(|name| {
                        let place = (schema_of(session, name)?, name.name.as_str());
                        any_on_table(session, accounts, place, "CHECK TABLE")
                    });
                }
                MaintainOp::Checksum => P::SELECT,
                MaintainOp::Analyze | MaintainOp::Optimize | MaintainOp::Repair => P::SELECT.and(P::INSERT),
            };
            maintain.tables.iter().try_for_each(|name| on(name, wanted))
        }
        _ => Ok(()),
    }
}

/// The name of a table by its database and its own.
type Name<'n> = (&'n str, &'n str);

/// Whether a rename within RENAME TABLE moves a temporary table of the session; `moved` holds the earlier ones of the
/// statement.
fn renames_own<'n>(
    session: &Session,
    moved: &mut Vec<(Name<'n>, Name<'n>)>,
    from: Name<'n>,
    to: Name<'n>,
) -> bool {
    let last = moved.iter().rev().find(|(before, after)| *before == from || *after == from);
    let is_own = match last {
        Some((_, after)) => *after == from,
        None => session.temporary.get(from.0, from.1).is_some(),
    };
    if is_own {
        moved.push((from, to));
    }
    is_own
}

/// Nobody may maintain what the server makes up without an account having been granted anything.
fn maintains_virtual(session: &Session, name: &ObjectName) -> SqlResult<()> {
    let schema = schema_of(session, name)?;
    if schema.eq_ignore_ascii_case("information_schema") {
        return Err(database_denied(session, schema));
    }
    if schema.eq_ignore_ascii_case("performance_schema") {
        let wanted = Privileges::SELECT.and(Privileges::INSERT);
        return Err(denied_command(session, &wanted.list(), schema, &name.name));
    }
    Ok(())
}

fn references_of(action: &AlterAction) -> Option<&References> {
    match action {
        AlterAction::AddKey(key) => key.references.as_deref(),
        AlterAction::AddColumn { column, .. } | AlterAction::ChangeColumn { column, .. } => {
            column.references.as_deref()
        }
        _ => None,
    }
}

/// A foreign key needs REFERENCES on its parent.
fn parent(
    session: &Session,
    accounts: &Accounts,
    child: &ObjectName,
    references: &References,
) -> SqlResult<()> {
    let parent = &references.table;
    let schema = match &parent.db {
        Some(schema) => schema,
        None => schema_of(session, child)?,
    };
    lasting(session, accounts, (schema, &parent.name), Privileges::REFERENCES)
}

/// A view is made where the session may make one, and replaced where it may drop it too.
fn place_of_view(session: &Session, catalog: &Catalog, create: &CreateView) -> SqlResult<()> {
    let name = (schema_of(session, &create.name)?, create.name.name.as_str());
    lasting(session, &catalog.accounts, name, Privileges::CREATE_VIEW)?;
    match create.or_replace || create.alter {
        true => lasting(session, &catalog.accounts, name, Privileges::DROP),
        false => Ok(()),
    }
}

/// Who makes or alters a view for another account needs the right to act as any; ALTER VIEW keeps the definer that it had.
fn definer_of_view(session: &Session, catalog: &Catalog, create: &CreateView) -> SqlResult<()> {
    let is_own = |user: &str, host: &str| *user == *session.access.user && *host == *session.access.host;
    let own = match &create.definer {
        Some(Account::User { user, host }) => is_own(user, host),
        Some(_) => true,
        None if create.alter => {
            let view = catalog.view(schema_of(session, &create.name)?, &create.name.name);
            view.is_none_or(|view| is_own(&view.definer.0, &view.definer.1))
        }
        None => true,
    };
    if own || catalog.accounts.unchecked {
        return Ok(());
    }
    require_global(session, Privileges::SUPER.and(Privileges::SET_USER))
}

/// LOCK TABLES: LOCK TABLES on the databases, SELECT on the tables.
pub fn lock_tables(
    session: &Session,
    catalog: &Catalog,
    tables: &[keel_sql::ast::TableLock],
) -> SqlResult<()> {
    expired(session)?;
    for lock in tables {
        let schema = schema_of(session, &lock.table)?;
        if is_open(schema) {
            continue;
        }
        if session.temporary.get(schema, &lock.table.name).is_some() {
            continue;
        }
        require_on_database(session, &catalog.accounts, schema, Privileges::LOCK_TABLES)?;
        table(session, &catalog.accounts, (schema, &lock.table.name), Privileges::SELECT)?;
    }
    Ok(())
}
