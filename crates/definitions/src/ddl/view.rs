//! CREATE, ALTER and DROP VIEW.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, code, errors};
use keel_catalog::account::Accounts;
use keel_catalog::column_type::implicit_default;
use keel_catalog::layout::Layout;
use keel_catalog::{
    Catalog, CheckOption, ColumnDefault, TableDef, View, ViewAlgorithm, ViewRecord, names, show_create,
};
use keel_context::mdl::TableLock;
use keel_context::result::Completion;
use keel_exec::select;
use keel_exec::session::Session;
use keel_expr::env::schema_of;
use keel_planner::bind::{BindContext, Binder, ParamSource, WholeNames};
use keel_planner::check;
use keel_sql::ast::{self, Account, ObjectName, QueryBody};
use keel_value::Value;

use super::Definition;
use super::create::{storable, storable_result};
use super::view_text::{Rewriter, is_unfit};
use crate::ddl::Definer;

/// Views that describe each other.
const DESCRIBED_MAX: usize = 16;

impl Definer<'_> {
    /// CREATE and ALTER VIEW.
    pub(super) fn create_view(
        &self,
        session: &mut Session,
        create: &ast::CreateView,
    ) -> SqlResult<Completion> {
        let schema = schema_of(session, &create.name)?.to_string();
        self.refuse_virtual(session, &schema)?;
        names::check_table(&create.name.name)?;
        loop {
            let before = self.catalog().view(&schema, &create.name.name).cloned();
            let locks: Vec<Arc<TableLock>> = before.iter().map(|view| view.lock.clone()).collect();
            let _owned = self.own_locks(session, &locks, None)?;
            let mut definition = self.definition(session)?;
            let now = definition.catalog.view(&schema, &create.name.name);
            if now.map(Arc::as_ptr) != before.as_ref().map(Arc::as_ptr) {
                continue;
            }
            if create.alter && before.is_none() {
                return Err(match definition.catalog.table(&schema, &create.name.name) {
                    Some(table) => errors::wrong_object(&table.schema, &table.name, "VIEW"),
                    None => errors::no_such_table(&schema, &create.name.name),
                });
            }
            let record =
                self.view_record(session, &definition.catalog, &schema, create, before.as_deref())?;
            let home = definition.catalog.require_schema(&schema)?;
            let replaces = create.alter || create.or_replace;
            if home.table(&create.name.name).is_some() && replaces && !create.if_not_exists {
                return Err(errors::wrong_object(&schema, &create.name.name, "VIEW"));
            }
            let is_series =
                !home.has(&create.name.name) && keel_catalog::series::parse(&create.name.name).is_some();
            if is_series || home.has(&create.name.name) && !replaces {
                let error = errors::table_exists(&create.name.name);
                if !create.if_not_exists {
                    return Err(error);
                }
                session.note(error);
                return Ok(Completion::default());
            }
            let lock = before.map_or_else(Arc::default, |view| view.lock.clone());
            definition.put_view(
                ViewRecord { id: self.catalog_tree().next_table_id(self.engine())?, ..record },
                lock,
            )?;
            definition.commit()?;
            return Ok(Completion::default());
        }
    }

    /// What is to be kept of a view, but for its id.
    fn view_record(
        &self,
        session: &mut Session,
        catalog: &Catalog,
        schema: &str,
        create: &ast::CreateView,
        before: Option<&View>,
    ) -> SqlResult<ViewRecord> {
        refuse_clauses(&create.query)?;
        let Defined { text, columns, warnings } = text_of(session, catalog, create)?;
        warnings.into_iter().for_each(|warning| session.warn(warning));
        for name in &columns {
            names::check_column(name)?;
        }
        for (place, name) in columns.iter().enumerate() {
            if columns[..place].iter().any(|other| names::same(other, name)) {
                return Err(errors::dup_fieldname(name));
            }
        }
        let inherited = before.filter(|_| create.alter);
        let algorithm = match create.algorithm.as_deref() {
            Some(word) => ViewAlgorithm::ALL.into_iter().find(|a| a.word() == word),
            None => inherited.map(|view| view.algorithm),
        };
        let definer = definer_of(session, &catalog.accounts, create.definer.as_ref(), inherited);
        if create.definer.is_some()
            && !catalog.accounts.unchecked
            && catalog.accounts.definer(&definer).is_none()
        {
            session.note(errors::no_such_user(&definer.0, &definer.1));
        }
        let created = session.now_micros() / 1_000_000;
        let vars = &session.vars;
        let mut record = ViewRecord {
            schema: schema.into(),
            name: create.name.name.as_str().into(),
            id: 0,
            created,
            text,
            columns,
            algorithm: algorithm.unwrap_or(ViewAlgorithm::Undefined),
            definer,
            invoker: create.invoker.unwrap_or_else(|| inherited.is_some_and(|view| view.invoker)),
            check_option: match create.check_option {
                None => CheckOption::None,
                Some(true) => CheckOption::Local,
                Some(false) => CheckOption::Cascaded,
            },
            client_collation: vars.client_collation,
            connection_collation: vars.connection_collation,
        };
        let facts = facts(session, catalog, &record)?;
        if record.algorithm == ViewAlgorithm::Merge && !facts.merges {
            session.warn(errors::warn_view_merge());
            record.algorithm = ViewAlgorithm::Undefined;
        }
        if record.check_option != CheckOption::None && !facts.updatable {
            return Err(errors::view_nonupd_check(schema, &create.name.name));
        }
        Ok(record)
    }

    /// Plans a view's own query.
    pub(crate) fn plan_view(&self, session: &Session, view: &Arc<View>) -> SqlResult<select::SelectPlan> {
        let catalog = self.catalog();
        let params = ParamSource::default();
        let mut binder =
            Binder::new(BindContext { catalog: &catalog, session, params, assigned: &[], counting: None });
        keel_planner::select::view::plan(&mut binder, view)
    }

    /// A view as a table without rows: its columns; 1356 where it names what is not there.
    pub fn describe_view(&self, session: &Session, view: &Arc<View>) -> SqlResult<TableDef> {
        let described = self.describe_within(session, view, &mut Vec::new());
        // SHOW COLUMNS does not show what is missing.
        described.map_err(|error| keel_base::SqlError { cause: None, ..error })
    }

    /// The same for one that is named by those being described: an alias may be any view's name.
    fn describe_within(
        &self,
        session: &Session,
        view: &Arc<View>,
        outer: &mut Vec<u64>,
    ) -> SqlResult<TableDef> {
        outer.push(view.id);
        let catalog = self.catalog();
        let params = ParamSource::default();
        let mut binder =
            Binder::new(BindContext { catalog: &catalog, session, params, assigned: &[], counting: None });
        let target = keel_planner::select::view::target(&mut binder, view, None)?;
        let tables = target.map_or_else(Vec::new, |target| target.tables);
        let plain = keel_planner::select::view::plain_columns(&binder);
        let plan = self.plan_view(session, view).map_err(|_| view.broken())?;
        let described = plan.columns().columns.iter().zip(plan.types()).zip(&view.columns);
        let columns = described.clone().enumerate().map(|(place, ((_, (ty, nullable)), name))| {
            (&**name, storable_result(ty, plan.origin(place)), *nullable)
        });
        let mut table = TableDef::virtual_table(&view.schema, &view.name, columns.collect());
        // Each table below once: a view's columns are mostly those of one.
        let mut models: Vec<Arc<TableDef>> = Vec::new();
        for (place, (column, ((meta, (ty, nullable)), _))) in
            table.columns.iter_mut().zip(described).enumerate()
        {
            if !nullable {
                column.default = ColumnDefault::Value(implicit_default(&storable(ty)));
            } else {
                column.default = ColumnDefault::Value(Value::Null);
            }
            let known = models.iter().find(|t| t.schema == meta.schema && t.name == meta.org_table).cloned();
            let below = match (known, catalog.view(&meta.schema, &meta.org_table)) {
                (Some(known), _) => Some(known),
                (None, Some(other)) if outer.len() >= DESCRIBED_MAX || outer.contains(&other.id) => None,
                (None, Some(other)) => Some(Arc::new(self.describe_within(session, other, outer)?)),
                (None, None) => catalog.table(&meta.schema, &meta.org_table).cloned(),
            };
            models.extend(below.clone().filter(|b| !models.iter().any(|known| Arc::ptr_eq(known, b))));
            let model = below.as_ref().and_then(|t| Some(&t.columns[t.column_index(&meta.org_name)?]));
            let own = plain.get(place).copied().flatten();
            let own = own.and_then(|(slot, column)| {
                Some(&tables.get(slot as usize)?.as_ref()?.columns[column as usize])
            });
            let Some(model) = own.or(model) else { continue };
            column.comment = model.comment.clone();
            if !model.auto_increment {
                column.default = model.default.clone();
            }
        }
        outer.pop();
        Ok(table)
    }

    /// What a view allows: whether rows can be changed through it. None where it names what is not there.
    pub fn is_updatable_view(&self, session: &Session, view: &View) -> Option<bool> {
        let facts = facts(session, &self.catalog(), &view.record).ok()?;
        Some(facts.updatable && facts.has_plain_column)
    }

    /// SHOW CREATE VIEW's text: names without their database where it is the current one and the view names no other; and
    /// why it cannot be read, where it cannot.
    pub fn show_create_view(
        &self,
        session: &Session,
        view: &Arc<View>,
    ) -> SqlResult<(String, Option<SqlError>)> {
        let catalog = self.catalog();
        let params = ParamSource::default();
        let mut binder =
            Binder::new(BindContext { catalog: &catalog, session, params, assigned: &[], counting: None });
        let bound = keel_planner::select::view::target(&mut binder, view, None);
        if let Err(error) = &bound
            && error.code == code::VIEW_RECURSIVE
        {
            return Err(error.clone());
        }
        let broken = match &bound {
            Err(_) => Some(errors::view_invalid(&view.schema, &view.name)),
            Ok(_) => {
                let views = binder.views.iter().map(|named| &named.view);
                check::have_definers(session, &catalog.accounts, views).err()
            }
        };
        let here = session.database.as_deref() == Some(&*view.schema)
            && !binder.met_function
            && binder.tables.iter().all(|table| table.schema == view.schema)
            && binder.views.iter().all(|named| named.view.schema == view.schema);
        let omit = Some(&*view.schema).filter(|_| here);
        let query = keel_sql::printer::view_query(&*view.query()?, omit, broken.is_none());
        let elsewhere = session.database.as_deref() != Some(&*view.schema);
        let layout = Layout::of(&session.vars);
        let out = show_create::view(view, &query, elsewhere, layout);
        Ok((layout.quoted(&out).into_owned(), broken))
    }

    /// DROP VIEW: drops those that there are; then 4092 names the others, unless IF EXISTS makes a note of it.
    pub(super) fn drop_views(
        &self,
        session: &mut Session,
        wanted: &[ObjectName],
        if_exists: bool,
    ) -> SqlResult<Completion> {
        loop {
            let catalog = self.catalog();
            let mut missing = Vec::new();
            let mut views: Vec<Arc<View>> = Vec::new();
            for name in wanted {
                names::check_table(&name.name)?;
                let schema = schema_of(session, name)?.to_string();
                let schema = schema.as_str();
                self.refuse_virtual(session, schema)?;
                match catalog.view(schema, &name.name) {
                    Some(view) => views.push(view.clone()),
                    None if catalog.table(schema, &name.name).is_some() => {
                        session.warn(errors::wrong_object(schema, &name.name, "VIEW"));
                        missing.push(format!("{schema}.{}", name.name));
                    }
                    None => missing.push(format!("{schema}.{}", name.name)),
                }
            }
            let locks: Vec<_> = views.iter().map(|view| view.lock.clone()).collect();
            let _owned = self.own_locks(session, &locks, None)?;
            let mut definition = self.definition(session)?;
            let stays = |view: &Arc<View>| {
                let now = definition.catalog.view(&view.schema, &view.name);
                now.is_some_and(|now| Arc::ptr_eq(now, view))
            };
            if !views.iter().all(stays) {
                continue;
            }
            if !views.is_empty() {
                views.iter().try_for_each(|view| definition.remove_view(view))?;
                definition.commit()?;
            }
            if missing.is_empty() {
                return Ok(Completion::default());
            }
            let error = errors::unknown_view(missing.join(","));
            if !if_exists {
                return Err(error);
            }
            session.note(error);
            return Ok(Completion::default());
        }
    }
}

impl Definition<'_> {
    /// Adds a view or puts it in the place of the one of the same name.
    pub(super) fn put_view(&mut self, record: ViewRecord, lock: Arc<TableLock>) -> SqlResult<()> {
        self.database.catalog_tree().put_view(&mut self.txn, &record)?;
        self.catalog.put_view(Arc::new(View::new(record, lock)));
        self.drops = true;
        Ok(())
    }

    /// Removes a view.
    pub(super) fn remove_view(&mut self, view: &View) -> SqlResult<()> {
        self.database.catalog_tree().remove_view(&mut self.txn, &view.schema, &view.name)?;
        self.catalog.remove_view(&view.schema, &view.name);
        self.drops = true;
        Ok(())
    }

    /// Gives a view another name.
    pub(super) fn rename_view(&mut self, view: &View, schema: Arc<str>, name: &str) -> SqlResult<()> {
        if schema != view.schema {
            return Err(errors::forbid_schema_change(&view.schema, schema));
        }
        self.remove_view(view)?;
        self.put_view(ViewRecord { schema, name: name.into(), ..view.record.clone() }, view.lock.clone())
    }
}

/// Whether a select list has columns as they are.
fn has_columns(body: &QueryBody) -> bool {
    let is_column =
        |item: &ast::SelectItem| matches!(item, ast::SelectItem::Expr { expr: ast::Expr::Column(_), .. });
    matches!(body, QueryBody::Select(select) if select.items.iter().any(is_column))
}

/// INTO has no place in a view, nor have names that no column can have.
fn refuse_clauses(query: &ast::Query) -> SqlResult<()> {
    fn of_body(body: &QueryBody) -> SqlResult<()> {
        match body {
            QueryBody::Nested(query) => refuse_clauses(query),
            QueryBody::SetOps { first, rest } => {
                of_body(first)?;
                rest.iter().try_for_each(|operand| of_body(&operand.body))
            }
            QueryBody::Select(select) => check_aliases(select),
            QueryBody::Values(..) => Ok(()),
        }
    }
    if query.into.is_some() {
        return Err(errors::view_select_clause("INTO"));
    }
    of_body(&query.body)
}

/// Refuses names that somebody chose and that no column can have.
fn check_aliases(select: &ast::Select) -> SqlResult<()> {
    select.items.iter().try_for_each(|item| match item {
        ast::SelectItem::Expr { alias: Some(alias), .. } => names::check_column(alias),
        _ => Ok(()),
    })
}

fn definer_of(
    session: &Session,
    accounts: &Accounts,
    said: Option<&Account>,
    before: Option<&View>,
) -> (String, String) {
    let is_role = |user: &str, host: &str| {
        host == "%" && accounts.user(user, host).is_none() && accounts.role(user).is_some()
    };
    match (said, before) {
        (Some(Account::User { user, host }), _) if is_role(user, host) => (user.clone(), String::new()),
        (Some(Account::User { user, host }), _) => (user.clone(), host.clone()),
        (None, Some(view)) => view.definer.clone(),
        _ => session.account(),
    }
}

/// What a view's definition says.
struct Defined {
    /// Its query as it is kept.
    text: String,
    /// The names of its columns.
    columns: Vec<String>,
    warnings: Vec<SqlError>,
}

fn text_of(session: &Session, catalog: &Catalog, create: &ast::CreateView) -> SqlResult<Defined> {
    let params = ParamSource::default();
    let mut binder = Binder::new(BindContext { catalog, session, params, assigned: &[], counting: None });
    binder.whole_names = Some(Box::new(WholeNames::default()));
    let plan = keel_planner::select::plan_select(&mut binder, &create.query)?;
    check::needs(session, &catalog.accounts, &binder.needs)?;
    if binder.rows_examined.is_some() {
        return Err(errors::not_supported_yet("LIMIT ROWS EXAMINED inside views"));
    }
    let schema = schema_of(session, &create.name)?;
    let is_itself = |view: &Arc<View>| *view.schema == *schema && *view.name == *create.name.name;
    if binder.views.iter().any(|named| is_itself(&named.view)) {
        return Err(errors::no_such_table(schema, &create.name.name));
    }
    let notes = binder.whole_names.take().unwrap_or_default();
    let count = plan.columns().columns.len();
    if !create.columns.is_empty() && create.columns.len() != count {
        return Err(errors::view_wrong_list());
    }
    let given = Some(&create.columns[..]).filter(|columns| !columns.is_empty());
    let connection_charset = session.vars.connection_collation.charset().name();
    let collation = session.vars.database_collation;
    let rewriter = Rewriter { names: &notes, connection_charset, collation, window: None };
    let query = rewriter.query(&create.query, given);
    let mut columns = Rewriter::column_names(&query);
    if columns.is_empty() {
        // VALUES names its columns by the first row.
        let own = plan.columns().columns.iter().enumerate().map(|(place, meta)| match is_unfit(&meta.name) {
            true => format!("Name_exp_{}", place + 1),
            false => meta.name.to_string(),
        });
        columns = given.map_or_else(|| own.collect(), <[String]>::to_vec);
    }
    let warnings = binder.hidden.into_iter().map(|(_, warning)| warning).collect();
    Ok(Defined { text: keel_sql::printer::view_query(&query, None, true), columns, warnings })
}

/// What a view's query allows.
pub(crate) struct ViewFacts {
    /// It can be merged into queries that name it.
    pub merges: bool,
    /// Rows of its tables can be changed through it.
    pub updatable: bool,
    /// One of its columns is one of a table.
    pub has_plain_column: bool,
}

/// Finds out what a view allows, in a catalog that need not have it.
pub(crate) fn facts(session: &Session, catalog: &Catalog, record: &ViewRecord) -> SqlResult<ViewFacts> {
    let params = ParamSource::default();
    let mut binder = Binder::new(BindContext { catalog, session, params, assigned: &[], counting: None });
    let view = Arc::new(View::offline(record.clone()));
    let target = keel_planner::select::view::target(&mut binder, &view, None)?;
    let merges = target.is_some();
    let real = target.is_some_and(|target| target.tables.iter().all(Option::is_some));
    let plain = has_columns(&view.query()?.body);
    Ok(ViewFacts { merges, updatable: merges && real, has_plain_column: plain })
}
