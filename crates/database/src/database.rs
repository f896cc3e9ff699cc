//! The face to the server: statements become plans here, and plans run.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use keel_base::{SqlResult, errors};
use keel_catalog::account::Privileges;
use keel_catalog::{Catalog, TableDef, View};
use keel_context::counts::Counting;
use keel_context::memory::Allowance;
use keel_context::result::Completion;
use keel_context::waits::RingLock;
use keel_definitions::ddl::{Definer, Statements};
use keel_dml::{Family, delete, insert, is_join, load, multi, single_table, update};
use keel_exec::home::Home;
use keel_exec::host::Host;
use keel_exec::session::Session;
use keel_planner::bind::{BindContext, Binder, Clause, Dependency, Notes, ParamSource, Shape, TableUse};
use keel_planner::check::{self, Asked, ColumnNeed, Need};
use keel_sql::Literal;
use keel_sql::ast::{self, Statement};
use keel_storage::Engine;
use keel_storage::runtime::{fiber, heap, time};
use keel_value::{SqlType, Value};

use crate::cache::{self, PlanCache, Scan};
use crate::execute::before_names;
use crate::plan::{Body, Plan, Settings, StatementKind};
use crate::point::PointSelect;
use crate::xa::Branches;

/// A plan that a statement gets in any case; `max_prepared_stmt_count` bounds their number.
const SMALL_PLAN_BYTES: usize = 16 << 10;

/// All databases of a server.
pub struct Database {
    home: Home,
    branches: Branches,
    plans: PlanCache,
}

impl Deref for Database {
    type Target = Home;

    #[inline]
    fn deref(&self) -> &Home {
        &self.home
    }
}

/// What a lock beside those of rows is on.
pub enum LockedThing {
    /// A table.
    Table(Arc<TableDef>),
    /// A name of GET_LOCK().
    Name(Box<[u8]>),
    /// FLUSH TABLES WITH READ LOCK.
    ReadLock,
}

/// The parameters of one execution.
#[derive(Default)]
pub struct Params {
    /// In order.
    pub values: Vec<Value>,
    /// What the last scan of a text found.
    scan: Scan,
    /// The heap of the fiber before the text was parsed.
    heap_start: i64,
}

/// What a statement is bound for.
struct Inputs<'a> {
    /// The literals of a text, which are its parameters.
    literals: Option<&'a [Literal]>,
    /// Kinds of the parameters.
    shapes: Vec<Shape>,
    /// Values of the first execution.
    values: &'a [Value],
}

impl Statements for Database {
    fn run_within(
        &self,
        session: &mut Session,
        statement: Arc<Statement>,
        params: &[Value],
    ) -> SqlResult<Completion> {
        let plan = self.prepare(session, statement, params.len() as u32)?;
        self.run_plan_within(session, &plan, params)
    }

    fn forget_stale_plans(&self) {
        self.plans.forget_stale(&self.catalog_now());
    }
}

impl Database {
    /// Runs definitions, statements about accounts and maintenance.
    pub fn definer(&self) -> Definer<'_> {
        Definer { home: &self.home, statements: self }
    }

    /// Opens the catalog in `engine`, making it on the first start. Waits.
    pub fn open(engine: Arc<Engine>, host: Arc<dyn Host>) -> SqlResult<Arc<Database>> {
        keel_sql::pause::set_hook(fiber::offer);
        let home = Home::open(engine, host)?;
        let database = Arc::new(Database { home, branches: Branches::default(), plans: PlanCache::new() });
        database.recover_branches()?;
        Ok(database)
    }

    pub(crate) fn branches(&self) -> &Branches {
        &self.branches
    }

    /// What a lock of a ring is on: `` `schema`.`table` ``'s definition, a name of GET_LOCK(), or nothing for the global
    /// read lock.
    pub fn locked_thing(&self, ring: &RingLock) -> LockedThing {
        if let Some(name) = self.host().user_locks().name_of(&ring.lock) {
            return LockedThing::Name(name);
        }
        let catalog = self.catalog();
        let tables = catalog.schemas().flat_map(|schema| schema.tables().into_iter());
        let table = tables.into_iter().find(|table| Arc::ptr_eq(&table.shared.lock, &ring.lock)).cloned();
        table.map_or(LockedThing::ReadLock, LockedThing::Table)
    }

    /// The plan of a statement that was seen before under the same database and modes. `params` receives its literals.
    pub fn cached(&self, session: &mut Session, sql: &[u8], params: &mut Params) -> Option<Arc<Plan>> {
        params.values.clear();
        cache::scan(session, sql, &mut params.scan);
        params.heap_start = heap::of_fiber();
        if session.temporary.is_empty() {
            return self.plans.find(session, sql, &params.scan, &mut params.values);
        }
        let own = session.temporary.known_plans();
        let own =
            own.and_then(|plans: &PlanCache| plans.find(session, sql, &params.scan, &mut params.values));
        own.or_else(|| {
            // One that does not fit is made again rather than bound again at each execution.
            let plan = self.plans.find(session, sql, &params.scan, &mut params.values)?;
            self.with_catalog_of(session, |catalog| plan.is_current(catalog)).then_some(plan)
        })
    }

    /// The plan of a statement that some session prepared with the same text under the same database and modes.
    pub fn prepared(&self, session: &Session, sql: &[u8]) -> Option<Arc<Plan>> {
        let plan = self.plans.find_prepared(session, sql)?;
        self.with_catalog_of(session, |catalog| plan.is_current(catalog)).then_some(plan)
    }

    /// Takes what the plan of a prepared text takes of the memory that sessions share, until its last statement is gone; 1037
    /// where there is not enough.
    pub fn charge_prepared(&self, sql: &[u8], plan: &Plan, host: &Arc<dyn Host>) -> SqlResult<()> {
        if plan.memory.get().is_some() {
            return Ok(());
        }
        let bytes = cache::plan_bytes(sql, plan);
        let taken = Allowance::of_all(bytes as u64, host.clone()).or_else(|| {
            self.plans.forget_prepared();
            Allowance::of_all(bytes as u64, host.clone())
        });
        match taken {
            // Another session charged it at the same time.
            Some(taken) => _ = plan.memory.set(taken),
            // Those whose statements are ordinary do not suffer from what others hold.
            None if bytes <= SMALL_PLAN_BYTES => {}
            None => return Err(errors::outofmemory(bytes)),
        }
        Ok(())
    }

    /// Changes how many bytes the cached plans may take, about.
    pub fn set_plan_bytes_max(&self, bytes: usize) {
        self.plans.set_bytes_max(bytes);
    }

    /// Bytes that the cached plans take, about, without those that [`Database::charge_prepared`] counted.
    pub fn plan_bytes(&self) -> usize {
        self.plans.bytes()
    }

    /// Lets other sessions that prepare the same text share `plan`.
    pub fn share_prepared(&self, session: &Session, sql: &[u8], plan: &Arc<Plan>) {
        if plan.cacheable && !plan.uses_temporary() {
            self.plans.keep_prepared(session, sql, plan);
        }
    }

    /// Binds and optimises a parsed statement that is to be prepared: `?` are its parameters, literals are constants.
    pub fn prepare(
        &self,
        session: &mut Session,
        statement: Arc<Statement>,
        params: u32,
    ) -> SqlResult<Arc<Plan>> {
        let shapes = vec![Shape::Unknown; params as usize];
        let plan = self.bind(session, statement, Inputs { literals: None, shapes, values: &[] })?;
        Ok(Arc::new(plan))
    }

    /// Binds and optimises a statement that is to run once or again as text: literals become parameters where they can,
    /// and the plan goes to the cache. `params` receives this execution's values; it is the one that
    /// [`Database::cached`] filled for the same text.
    pub fn plan_text(
        &self,
        session: &mut Session,
        sql: &[u8],
        parsed: keel_sql::Parsed,
        params: &mut Params,
    ) -> SqlResult<Arc<Plan>> {
        self.refuse_by_names(session, &parsed.statement)?;
        let options = cache::parse_options(session);
        // Parsing the text again warns of its names again.
        let shares = parsed.trimmed.is_empty();
        let known =
            cache::literal_values(session, sql, &parsed.literals, &options, &mut params.values).is_some();
        let key =
            params.scan.key.take().filter(|_| known && params.scan.literals().len() == parsed.literals.len());
        if key.is_none() {
            params.values.clear();
            return self.prepare(session, Arc::new(parsed.statement), parsed.param_count);
        }
        let shapes = params.values.iter().map(Shape::of).collect();
        let inputs = Inputs { literals: Some(&parsed.literals), shapes, values: &params.values };
        let plan = Arc::new(self.bind(session, Arc::new(parsed.statement), inputs)?);
        plan.note_heap(params.heap_start);
        if plan.cacheable
            && shares
            && let Some(key) = key
        {
            let plans = if plan.uses_temporary() {
                session.temporary.plans(PlanCache::of_session)
            } else {
                &self.plans
            };
            plans.keep(sql, key, &parsed.literals, &plan);
        }
        Ok(plan)
    }

    /// The plan itself if it fits the catalog and the parameters, else one bound again for them.
    pub(crate) fn current(
        &self,
        session: &mut Session,
        plan: &Arc<Plan>,
        params: &[Value],
    ) -> SqlResult<Arc<Plan>> {
        let settings = Settings::of(session);
        let known = self.with_catalog_of(session, |catalog| {
            let fits =
                |plan: &Arc<Plan>| plan.fits(params) && plan.settings == settings && plan.is_current(catalog);
            if fits(plan) { Some(plan.clone()) } else { plan.successor.load_full().filter(fits) }
        });
        if let Some(known) = known {
            return Ok(known);
        }
        if params.len() != plan.shapes.len() {
            return Err(errors::wrong_arguments("EXECUTE"));
        }
        let shapes = params.iter().map(Shape::of).collect();
        let inputs = Inputs { literals: plan.literals.as_deref(), shapes, values: params };
        let next = Arc::new(self.bind(session, plan.statement.clone(), inputs)?);
        // A plan that sessions may share must not lead to what is one session's alone.
        if !(next.uses_temporary() && plan.cacheable && !plan.uses_temporary()) {
            plan.successor.store(Some(next.clone()));
        }
        Ok(next)
    }

    fn bind(&self, session: &Session, statement: Arc<Statement>, inputs: Inputs<'_>) -> SqlResult<Plan> {
        let heap_start = heap::of_fiber();
        let catalog = self.catalog_of(session);
        let connection = session.vars.connection_collation;
        let types: Vec<SqlType> = match inputs.literals {
            Some(_) => Vec::new(),
            None => inputs.shapes.iter().map(|shape| shape.ty(connection)).collect(),
        };
        let params = ParamSource { literals: inputs.literals, types: &types, values: inputs.values };
        let cx = BindContext { catalog: &catalog, session, params, assigned: &[], counting: None };
        let mut notes = Notes::default();
        let body = self.body(cx, &statement, &mut notes);
        let (mut kind, mut body) = body.map_err(|error| before_names(session, &statement, error))?;
        if !notes.assigned.is_empty() {
            // A variable may be read before it is assigned; so the names come first.
            let assigned = std::mem::take(&mut notes).assigned;
            (kind, body) = self.body(BindContext { assigned: &assigned, ..cx }, &statement, &mut notes)?;
        }
        let dependencies = dependencies(&body, &notes, &catalog);
        let uses = uses(&statement, &body, notes.uses);
        if matches!(*statement, Statement::Explain(_)) {
            notes.needs = check::explained(session, &catalog, notes.needs)?;
        }
        check::needs(session, &catalog.accounts, &notes.needs)?;
        let wanted = check::union(&notes.needs);
        notes.pinned.sort_unstable();
        notes.pinned.dedup();
        let plan = Plan {
            kind,
            statement,
            literals: inputs.literals.map(Box::from),
            cacheable: !notes.unique && !matches!(body, Body::Direct),
            pinned: notes.pinned.into(),
            narrow: notes.narrow.into(),
            held: notes.held.into(),
            database: session.database.clone(),
            param_count: inputs.shapes.len() as u32,
            shapes: inputs.shapes.into(),
            settings: Settings::of(session),
            literal_collation: session.literal_collation(),
            dependencies,
            views: notes.views,
            locks_view: notes.locks_view,
            uses,
            body,
            rows_examined: notes.rows_examined,
            warnings: notes.warnings.into(),
            unusable: notes.unusable.into(),
            seen_version: AtomicU64::new(catalog.version),
            needs: notes.needs.into(),
            wanted,
            checked: AtomicU64::new(0),
            heap_bytes: AtomicUsize::new(0),
            memory: OnceLock::new(),
            successor: ArcSwapOption::empty(),
        };
        plan.note_heap(heap_start);
        Ok(plan)
    }

    fn body(
        &self,
        cx: BindContext<'_>,
        statement: &Statement,
        notes: &mut Notes,
    ) -> SqlResult<(StatementKind, Body)> {
        use StatementKind as K;
        let find = |name: &ast::ObjectName| self.table_of(cx, name);
        check_target(cx, statement)?;
        Ok(match statement {
            Statement::Query(query) => (K::Select, self.query(cx, query, notes)?),
            Statement::Insert(tree) if self.is_system_table(cx.session, &tree.table) => {
                if find(&tree.table)?.is_log() {
                    return Err(errors::cant_lock_log_table());
                }
                notes.unique = true;
                let warning = errors::unknown_error(format_args!(
                    "Rows of '{}' are the server's own; those given are passed over",
                    tree.table.name
                ));
                (K::Insert, Body::PassedOver(Some(warning)))
            }
            Statement::Update(tree) if changes_instruments(cx, tree) => {
                notes.unique = true;
                (K::Update, Body::PassedOver(None))
            }
            Statement::Insert(tree) => {
                let of_query = matches!(tree.source, ast::InsertSource::Query(_));
                let kind = match (tree.replace, of_query) {
                    (false, false) => K::Insert,
                    (false, true) => K::InsertSelect,
                    (true, false) => K::Replace,
                    (true, true) => K::ReplaceSelect,
                };
                let plan = insert::plan(cx, tree, &find, notes)?;
                insert_needs(notes, tree, &plan);
                (kind, Body::Insert(Box::new(plan)))
            }
            Statement::Load(tree) => {
                let plan = load::plan(cx, tree, &find, notes)?;
                load_needs(notes, tree, &plan);
                (K::Load, Body::Insert(Box::new(plan)))
            }
            Statement::Update(tree) if changes_several(cx, &tree.tables)? => {
                let plan = multi::plan_update(cx, tree, &find, notes)?;
                let needs = plan.changed().flat_map(|target| multi_needs(notes, target, Privileges::UPDATE));
                let needs: Vec<Need> = needs.collect();
                notes.needs.extend(needs);
                (K::UpdateMulti, Body::Multi(Box::new(plan)))
            }
            Statement::Delete(tree) if delete::only_table(tree).is_none() => {
                let plan = multi::plan_delete(cx, tree, &find, notes)?;
                let needs = plan.changed().flat_map(|target| multi_needs(notes, target, Privileges::DELETE));
                let needs: Vec<Need> = needs.collect();
                notes.needs.extend(needs);
                (K::DeleteMulti, Body::Multi(Box::new(plan)))
            }
            Statement::Update(tree) => {
                let plan = update::plan(cx, tree, &find, notes)?;
                let (table, wanted) = (&plan.targets.table, Privileges::UPDATE);
                let columns = written(table, plan.assigned(), wanted, false);
                let named = told(tree.assignments.iter().map(|a| &a.column), wanted);
                change_needs(notes, table, plan.through.as_ref(), wanted, columns, Some(named));
                (K::Update, Body::Update(Box::new(plan)))
            }
            Statement::Delete(tree) => {
                let plan = delete::plan(cx, tree, &find, notes)?;
                let mut wanted = Privileges::DELETE;
                if !tree.targets.is_empty() {
                    // The form for several tables reads its tables.
                    wanted = wanted.and(Privileges::SELECT);
                }
                let table = &plan.targets.table;
                change_needs(notes, table, plan.through.as_ref(), wanted, Vec::new(), Some(Vec::new()));
                (K::Delete, Body::Delete(Box::new(plan)))
            }
            Statement::Do(list) => {
                let mut binder = Binder::new(cx);
                let bound: SqlResult<Vec<_>> = list.iter().map(|e| binder.bind(e, Clause::Do)).collect();
                notes.take(&binder);
                (K::Do, Body::Do(bound?))
            }
            Statement::Explain(tree) if tree.analyze => {
                notes.unique = true;
                let (counting, began) = (Counting::default(), time::now());
                let counted = BindContext { counting: Some(&counting), ..cx };
                let (kind, body) = self.body(counted, crate::explain::statement_of(tree)?, notes)?;
                let plan = crate::explain::analyze(cx, tree, body, counting, began)?;
                (kind, Body::Explain(Box::new(plan)))
            }
            Statement::Explain(tree) => {
                notes.unique = true;
                let statement = crate::explain::statement_of(tree)?;
                let of_change = match statement {
                    Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => {
                        let mut own = Notes::default();
                        self.body(cx, statement, &mut own)?;
                        // What the views hide is asked for in the words of EXPLAIN.
                        let named: Vec<Need> =
                            own.needs.iter().filter(|need| need.asked.within.is_none()).cloned().collect();
                        check::needs(cx.session, &cx.catalog.accounts, &named)?;
                        Some(own.needs)
                    }
                    _ => None,
                };
                let plan = crate::explain::plan(cx, tree, notes)?;
                if let Some(needs) = of_change {
                    notes.needs = needs;
                }
                let within = crate::explain::statement_of(tree)?;
                if matches!(within, Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_)) {
                    // A change that is explained wants what it would want to run.
                    let mut changing = Notes::default();
                    let (_, body) = self.body(cx, within, &mut changing)?;
                    let wanted = dependencies(&body, &changing, cx.catalog);
                    let uses = uses(within, &body, std::mem::take(&mut changing.uses));
                    notes.take_explained(changing, &wanted, uses);
                }
                (K::Explain, Body::Explain(Box::new(plan)))
            }
            other => {
                if matches!(other, Statement::CreateView(_)) && !cx.params.types.is_empty() {
                    return Err(errors::view_select_variable());
                }
                keel_definitions::ddl::check_parsed(other)?;
                keel_definitions::ddl::check_types(cx.session, other)?;
                (direct_kind(other)?, Body::Direct)
            }
        })
    }

    fn query(&self, cx: BindContext<'_>, query: &ast::Query, notes: &mut Notes) -> SqlResult<Body> {
        let mut binder = Binder::new(cx);
        binder.locks_rows = query.lock.as_ref().is_some_and(|lock| lock.update);
        let general = keel_planner::select::plan_select(&mut binder, query)?;
        notes.take(&binder);
        let find = |name: &ast::ObjectName| self.table_of(cx, name);
        Ok(match PointSelect::recognise(cx, query, general, &find)? {
            Ok(point) => Body::PointSelect(Box::new(point)),
            Err(general) => Body::Select(Box::new(general)),
        })
    }

    /// A table by name, virtual ones included; 1146 where there is none.
    pub(crate) fn table_of(&self, cx: BindContext<'_>, name: &ast::ObjectName) -> SqlResult<Arc<TableDef>> {
        let schema = match &name.db {
            Some(db) => db.as_str(),
            None => cx.session.require_database()?,
        };
        if let Some(table) = cx.catalog.table(schema, &name.name) {
            return Ok(table.clone());
        }
        if let Some(series) = keel_catalog::series::table(schema, &name.name) {
            return Ok(Arc::new(series));
        }
        self.host().virtual_table(schema, &name.name).ok_or_else(|| {
            cx.session.named_locks.unknown(&name.name, keel_catalog::names::missing_table(schema, &name.name))
        })
    }
}

/// Whether an UPDATE is one of the settings of instruments, of which there are none.
fn changes_instruments(cx: BindContext<'_>, tree: &ast::Update) -> bool {
    let Some((name, ..)) = single_table(&tree.tables) else { return false };
    let schema = name.db.as_deref().or(cx.session.database.as_deref()).unwrap_or_default();
    let found = cx.session.host.virtual_table(schema, &name.name);
    found.is_some_and(|table| *table.schema == *INSTRUMENTS)
}

/// The database of instruments, as messages name it.
const INSTRUMENTS: &str = "performance_schema";

/// Refuses to change what is made up: 1044 or 1142.
fn refuse_made_up(session: &Session, statement: &Statement, schema: &str, table: &str) -> SqlResult<()> {
    let (user, host) = (&session.access.user, &session.access.host);
    if schema.eq_ignore_ascii_case("information_schema") {
        return Err(errors::dbaccess_denied(user, host, "information_schema"));
    }
    let command = match statement {
        Statement::Insert(_) | Statement::Load(_) => "INSERT",
        Statement::Delete(_) => "DELETE",
        _ => return Ok(()),
    };
    match schema.eq_ignore_ascii_case(INSTRUMENTS) {
        true => Err(errors::tableaccess_denied(command, user, host, INSTRUMENTS, table)),
        false => Ok(()),
    }
}

/// Refuses to change a table of which the session has nothing of what that needs, before anything is said about it.
fn check_target(cx: BindContext<'_>, statement: &Statement) -> SqlResult<()> {
    use Privileges as P;
    let (name, wanted) = match statement {
        Statement::Query(query) => {
            return match &query.into {
                Some(ast::SelectInto::Outfile { .. } | ast::SelectInto::Dumpfile(_)) => {
                    keel_expr::files::require_to_write(cx.session)
                }
                _ => Ok(()),
            };
        }
        Statement::Insert(tree) if tree.replace => (&tree.table, P::INSERT.and(P::DELETE)),
        Statement::Insert(tree) if !tree.on_duplicate.is_empty() => (&tree.table, P::INSERT.and(P::UPDATE)),
        Statement::Insert(tree) => (&tree.table, P::INSERT),
        Statement::Load(tree) => {
            load::check(cx.session, tree.local)?;
            let replaces = tree.duplicates == Some(ast::OnDuplicateRow::Replace);
            (&tree.table, if replaces { P::INSERT.and(P::DELETE) } else { P::INSERT })
        }
        Statement::Update(tree) => match single_table(&tree.tables) {
            Some((name, ..)) => (name, P::UPDATE),
            None => return Ok(()),
        },
        Statement::Delete(tree) => match delete::only_table(tree) {
            Some((name, ..)) if tree.targets.is_empty() => (name, P::DELETE),
            Some((name, ..)) => (name, P::SELECT),
            None => return Ok(()),
        },
        _ => return Ok(()),
    };
    let schema = keel_expr::env::schema_of(cx.session, name)?;
    refuse_made_up(cx.session, statement, schema, &name.name)?;
    check::table(cx.session, &cx.catalog.accounts, (schema, &name.name), wanted)
}

/// What a change wants of a table, or of the view through which it is made and of the tables and views below it.
fn change_needs(
    notes: &mut Notes,
    table: &Arc<TableDef>,
    through: Option<&Arc<View>>,
    whole: Privileges,
    columns: Vec<ColumnNeed>,
    told: Option<Vec<ColumnNeed>>,
) {
    let Some(view) = through else {
        notes.needs.splice(0..0, needs_of(table, None, whole, columns, None));
        return;
    };
    for need in notes.needs.iter_mut().filter(|need| need.changed) {
        need.whole = whole;
        // DELETE does not ask for what the view's conditions read.
        if whole == Privileges::DELETE {
            need.columns.clear();
        }
        if need.schema == table.schema && need.name == table.name {
            need.columns.extend(columns.iter().cloned());
        }
    }
    let entire = told.is_none();
    let columns = told.unwrap_or_default();
    notes.needs.insert(0, Need { entire, columns, ..Need::of(&view.schema, &view.name, whole) });
}

/// What a change of one of several tables wants of it, or of the view through which it is made; that view's definer then
/// needs it of the table.
fn needs_of(
    table: &Arc<TableDef>,
    through: Option<&Arc<View>>,
    whole: Privileges,
    columns: Vec<ColumnNeed>,
    told: Option<Vec<ColumnNeed>>,
) -> Vec<Need> {
    let of_table = Need { columns, ..Need::of(&table.schema, &table.name, whole) };
    match through {
        None if table.is_temporary() => Vec::new(),
        None => vec![of_table],
        Some(view) => {
            let entire = told.is_none();
            let columns = told.unwrap_or_default();
            let of_view = Need { entire, columns, ..Need::of(&view.schema, &view.name, whole) };
            vec![of_view, Need { asked: Asked::through(view), ..of_table }]
        }
    }
}

/// The columns of a table that are written.
fn written(
    table: &TableDef,
    columns: impl Iterator<Item = u16>,
    wanted: Privileges,
    unnamed: bool,
) -> Vec<ColumnNeed> {
    let need =
        |place: u16| ColumnNeed { column: table.columns[place as usize].name.clone(), wanted, unnamed };
    columns.map(need).collect()
}

/// The same by the names that the statement uses.
fn told<'n>(names: impl Iterator<Item = &'n ast::ColumnName>, wanted: Privileges) -> Vec<ColumnNeed> {
    let need =
        |name: &ast::ColumnName| ColumnNeed { column: name.column.as_str().into(), wanted, unnamed: false };
    names.map(need).collect()
}

/// What an INSERT wants.
fn insert_needs(notes: &mut Notes, tree: &ast::Insert, plan: &insert::InsertPlan) {
    let mut wanted = Privileges::INSERT;
    if !tree.on_duplicate.is_empty() {
        wanted = wanted.and(Privileges::UPDATE);
    }
    let unnamed = tree.columns.is_empty();
    let mut columns = written(&plan.table, plan.given(), wanted, unnamed);
    columns.extend(written(&plan.table, plan.updated(), Privileges::UPDATE, false));
    let whole = if tree.replace { wanted.and(Privileges::DELETE) } else { wanted };
    let named = (!unnamed).then(|| {
        let updated = tree.on_duplicate.iter().map(|assignment| &assignment.column);
        let mut named = told(tree.columns.iter(), wanted);
        named.extend(told(updated, Privileges::UPDATE));
        named
    });
    change_needs(notes, &plan.table, plan.through.as_ref(), whole, columns, named);
}

/// What a LOAD DATA wants.
fn load_needs(notes: &mut Notes, tree: &ast::LoadData, plan: &insert::InsertPlan) {
    let unnamed = tree.targets.is_empty();
    let columns = written(&plan.table, plan.given(), Privileges::INSERT, unnamed);
    let replaces = tree.duplicates == Some(ast::OnDuplicateRow::Replace);
    let whole = if replaces { Privileges::INSERT.and(Privileges::DELETE) } else { Privileges::INSERT };
    let named = tree.targets.iter().filter_map(|target| match target {
        ast::LoadTarget::Column(name) => Some(name),
        ast::LoadTarget::UserVar(_) => None,
    });
    let named = named.chain(tree.assignments.iter().map(|assignment| &assignment.column));
    let named = (!unnamed).then(|| told(named, Privileges::INSERT));
    change_needs(notes, &plan.table, plan.through.as_ref(), whole, columns, named);
}

/// What a change of several tables wants of one of them: where it is a table of a view, of every view that is named.
fn multi_needs(notes: &Notes, target: multi::Changed<'_>, wanted: Privileges) -> Vec<Need> {
    let columns = written(target.table, target.columns.iter().copied(), wanted, false);
    if !target.of_view {
        return needs_of(target.table, None, wanted, columns, None);
    }
    let is_named =
        |view: &&Arc<View>| notes.uses.iter().any(|used| used.is_view && Arc::ptr_eq(&used.lock, &view.lock));
    let through = notes.views.iter().filter(is_named);
    through.flat_map(|view| needs_of(target.table, Some(view), wanted, columns.clone(), None)).collect()
}

/// Whether an UPDATE is one of several tables, if only through a view.
fn changes_several(cx: BindContext<'_>, tables: &[ast::TableRef]) -> SqlResult<bool> {
    match single_table(tables) {
        None => Ok(true),
        Some((name, ..)) => is_join(cx, name),
    }
}

/// The tables that a body writes, and those that its queries name.
fn dependencies(body: &Body, notes: &Notes, catalog: &Catalog) -> Vec<Dependency> {
    if let Body::Explain(plan) = body
        && let Some(analyzed) = plan.analyzed()
    {
        return dependencies(&analyzed.body, notes, catalog);
    }
    let target = match body {
        Body::Insert(plan) => Some(&plan.table).filter(|_| plan.through.is_none()),
        Body::Update(plan) => Some(&plan.targets.table).filter(|_| plan.through.is_none()),
        Body::Delete(plan) => Some(&plan.targets.table).filter(|_| plan.through.is_none()),
        _ => None,
    };
    let is_named =
        |table: &Arc<TableDef>| target.into_iter().chain(&notes.named).any(|named| Arc::ptr_eq(named, table));
    let written: Vec<&Arc<TableDef>> = match body {
        Body::Insert(plan) => vec![&plan.table],
        Body::Update(plan) => vec![&plan.targets.table],
        Body::Delete(plan) => vec![&plan.targets.table],
        Body::Multi(plan) => plan.targets().collect(),
        Body::Direct
        | Body::PointSelect(_)
        | Body::Select(_)
        | Body::Do(_)
        | Body::PassedOver(_)
        | Body::Explain(_) => Vec::new(),
    };
    let families: Vec<&Arc<Family>> = match body {
        Body::Insert(plan) => plan.family.iter().collect(),
        Body::Update(plan) => plan.family.iter().collect(),
        Body::Delete(plan) => plan.family.iter().collect(),
        Body::Multi(plan) => plan.families().collect(),
        _ => Vec::new(),
    };
    let tied = families.into_iter().flat_map(|family| family.dependencies());
    let read = notes.tables.iter().map(|table| (table, false));
    let counted = notes.sequences.iter().map(|(table, writes)| (table, *writes));
    let written = written.into_iter().map(|table| (table, true));
    let dependency = |(table, written): (&Arc<TableDef>, bool)| Dependency {
        table: table.clone(),
        written,
        locked: written || notes.locked.iter().any(|locked| Arc::ptr_eq(locked, table)),
        named: is_named(table),
        made: catalog.makes(table),
    };
    let mut all: Vec<Dependency> = read.chain(counted).chain(written).chain(tied).map(dependency).collect();
    all.sort_by_key(|d| (d.table.id, !d.written));
    all.dedup_by_key(|d| (d.table.id, d.table.name.clone()));
    all
}

/// The tables of a statement by the names that it gives them; `queried` are those of its queries.
fn uses(statement: &Statement, body: &Body, mut queried: Vec<TableUse>) -> Vec<TableUse> {
    if let (Statement::Explain(tree), Body::Explain(plan)) = (statement, body)
        && let (Some(analyzed), Ok(statement)) = (plan.analyzed(), crate::explain::statement_of(tree))
    {
        return uses(statement, &analyzed.body, queried);
    }
    let through = match body {
        Body::Insert(plan) => plan.through.as_ref().map(|_| &plan.table),
        Body::Update(plan) => plan.through.as_ref().map(|_| &plan.targets.table),
        Body::Delete(plan) => plan.through.as_ref().map(|_| &plan.targets.table),
        _ => None,
    };
    if let Some(table) = through {
        queried.push(TableUse::through_view(table));
        return queried;
    }
    let (table, alias) = match (body, statement) {
        (Body::Insert(plan), _) => (&plan.table, None),
        (Body::Update(plan), Statement::Update(tree)) => {
            (&plan.targets.table, single_table(&tree.tables).and_then(|(_, alias, _)| alias))
        }
        (Body::Delete(plan), Statement::Delete(tree)) => {
            (&plan.targets.table, delete::only_table(tree).and_then(|(_, alias, _)| alias))
        }
        (Body::Multi(plan), _) => {
            for (table, alias) in plan.named_targets() {
                let is_target = |used: &&mut TableUse| {
                    *used.alias == *alias && Arc::ptr_eq(&used.lock, &table.shared.lock)
                };
                match queried.iter_mut().find(is_target) {
                    Some(used) => used.writes = true,
                    // The table of a view has no alias in the statement.
                    None if !table.is_temporary() => queried.push(TableUse::through_view(table)),
                    None => {}
                }
            }
            return queried;
        }
        _ => return queried,
    };
    if table.is_temporary() {
        return queried;
    }
    let own = TableUse::of(table, true);
    queried.insert(0, TableUse { alias: alias.map_or(own.alias, Arc::from), ..own });
    queried
}

/// The kind of a statement that needs no binding.
fn direct_kind(statement: &Statement) -> SqlResult<StatementKind> {
    use StatementKind as K;
    Ok(match statement {
        Statement::StartTransaction(_) => K::Begin,
        Statement::Commit(_) => K::Commit,
        Statement::Rollback(_) => K::Rollback,
        Statement::Savepoint(_) => K::Savepoint,
        Statement::RollbackTo(_) => K::RollbackToSavepoint,
        Statement::ReleaseSavepoint(_) => K::ReleaseSavepoint,
        Statement::CreateDatabase(_) => K::CreateDatabase,
        Statement::AlterDatabase { .. } => K::AlterDatabase,
        Statement::DropDatabase { .. } => K::DropDatabase,
        Statement::CreateTable(create) if create.temporary => K::CreateTemporaryTable,
        Statement::DropTable(drop) if drop.temporary => K::DropTemporaryTable,
        Statement::CreateTable(_) => K::CreateTable,
        Statement::DropTable(_) => K::DropTable,
        Statement::AlterTable(_) => K::AlterTable,
        Statement::AlterSequence(_) => K::AlterSequence,
        Statement::RenameTable { .. } => K::RenameTable,
        Statement::Truncate { .. } => K::Truncate,
        Statement::CreateIndex(_) => K::CreateIndex,
        Statement::DropIndex(_) => K::DropIndex,
        Statement::CreateView(create) if create.alter => K::AlterView,
        Statement::CreateView(_) => K::CreateView,
        Statement::DropView { .. } => K::DropView,
        Statement::Maintain(maintain) => match maintain.op {
            ast::MaintainOp::Check => K::Check,
            ast::MaintainOp::Analyze => K::Analyze,
            ast::MaintainOp::Optimize => K::Optimize,
            ast::MaintainOp::Repair => K::Repair,
            ast::MaintainOp::Checksum => K::Checksum,
        },
        Statement::Explain(_) => K::Explain,
        Statement::Unsupported { what, .. } => return Err(errors::not_supported_yet(what)),
        _ => return Err(errors::not_supported_yet("this statement")),
    })
}
