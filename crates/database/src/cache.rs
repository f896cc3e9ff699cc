//! Plans of text statements, found by the digest of the text.
//!
//! The digest leaves literals out, so under one digest there may be several plans: for other literals that the tree
//! depends on (`fixed`: ordinals, unaliased select items) and for other kinds of parameters. Both are compared before a
//! plan is used. The cache holds so many digests and so many plans each, and of plans about so many bytes; what was used
//! least recently of a full shard goes. Plans that no longer fit the catalog are bound again by their next execution, and
//! forgotten when trees are dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;
use keel_catalog::Catalog;
use keel_exec::session::Session;
use keel_planner::bind::{literal_value, temporal_check};
use keel_sql::digest::{self, Digest};
use keel_sql::{Literal, ParseOptions, TypeFamily};
use keel_storage::runtime::fiber;
use keel_value::{SqlMode, Value};
use parking_lot::Mutex;

use crate::plan::Plan;

const SHARDS: usize = 16;
/// Bytes that the plans over temporary tables may take, about, in one session.
const SESSION_BYTES_MAX: usize = 512 << 10;

/// Digests in a shard.
const ENTRIES_MAX: usize = 512;
/// Octets that the plans in a shard may take, about, unless it is said otherwise.
const SHARD_BYTES_MAX: usize = 2 << 20;
/// Plans under one digest.
const VARIANTS_MAX: usize = 8;
/// Bytes of a text whose plan is kept.
const TEXT_BYTES_MAX: usize = 32 << 10;
/// Literals of such a text.
const LITERALS_MAX: usize = 512;

/// Bytes of a literal that take as long to read as a row of a loop.
const LITERAL_BYTES_PER_TICK: usize = 1 << 10;

/// What a plan depends on beside its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    digest: Digest,
    context: u64,
}

/// The literals of one text, and the key of its plan.
#[derive(Default)]
pub(crate) struct Scan {
    scratch: digest::Scratch,
    pub key: Option<Key>,
}

impl Scan {
    /// The literals of the text, in order.
    pub fn literals(&self) -> &[Literal] {
        &self.scratch.literals
    }
}

/// What a plan takes, about, by its text: for programs without a counting allocator.
fn estimate(sql: &[u8]) -> usize {
    2048 + 16 * sql.len()
}

/// Bytes that a plan of that text takes, its successor included, and the text as the key of the plan.
pub(crate) fn plan_bytes(sql: &[u8], plan: &Plan) -> usize {
    match plan.heap_bytes() {
        0 => estimate(sql),
        counted => counted + sql.len() + size_of::<Plan>(),
    }
}

struct Variant {
    bytes: usize,
    /// Literals that must be the same, by index and text.
    fixed: Box<[(u32, Box<[u8]>)]>,
    plan: Arc<Plan>,
}

#[derive(Default)]
struct Entry {
    variants: Vec<Variant>,
    used: u64,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<Key, Entry, foldhash::fast::RandomState>,
    clock: u64,
}

impl Shard {
    /// Forgets what was used least recently until the rest fits.
    fn shrink(&mut self, bytes_max: usize) {
        let size = |entry: &Entry| entry.variants.iter().map(|variant| variant.bytes).sum::<usize>();
        let mut bytes: usize = self.entries.values().map(size).sum();
        while bytes > bytes_max {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| *key);
            let Some(gone) = oldest.and_then(|key| self.entries.remove(&key)) else { break };
            bytes -= size(&gone);
        }
    }
}

/// A statement that was prepared: its text and what binding depends on beside it.
type PreparedKey = (Box<[u8]>, u64);

#[derive(Default)]
struct PreparedShard {
    /// Plans with when they were last asked for.
    plans: HashMap<PreparedKey, (Arc<Plan>, u64), foldhash::fast::RandomState>,
    clock: u64,
}

/// The plan cache.
pub(crate) struct PlanCache {
    shards: [Mutex<Shard>; SHARDS],
    /// Plans of prepared statements, by their whole text: a thousand sessions that prepare the same share one plan.
    prepared: [Mutex<PreparedShard>; SHARDS],
    hasher: foldhash::fast::RandomState,
    shard_bytes_max: AtomicUsize,
}

impl PlanCache {
    /// A cache for the plans over one session's temporary tables.
    pub fn of_session() -> PlanCache {
        let plans = PlanCache::new();
        plans.set_bytes_max(SESSION_BYTES_MAX);
        plans
    }

    /// Changes how many bytes all plans may take, about.
    pub fn set_bytes_max(&self, bytes: usize) {
        self.shard_bytes_max.store(bytes / (2 * SHARDS), Ordering::Relaxed);
    }

    /// Bytes that all plans take, about, without those of prepared statements that the memory of sessions has.
    pub fn bytes(&self) -> usize {
        let texts = self.shards.iter().flat_map(|shard| {
            let shard = shard.lock();
            shard.entries.values().flat_map(|e| &e.variants).map(|v| v.bytes).collect::<Vec<_>>()
        });
        let prepared = self.prepared.iter().map(|shard| {
            let shard = shard.lock();
            let own = shard.plans.iter().filter(|(_, (plan, _))| plan.memory.get().is_none());
            own.map(|(key, (plan, _))| plan_bytes(&key.0, plan)).sum::<usize>()
        });
        texts.sum::<usize>() + prepared.sum::<usize>()
    }

    pub fn new() -> PlanCache {
        PlanCache {
            shards: std::array::from_fn(|_| Mutex::default()),
            prepared: std::array::from_fn(|_| Mutex::default()),
            hasher: foldhash::fast::RandomState::default(),
            shard_bytes_max: AtomicUsize::new(SHARD_BYTES_MAX),
        }
    }

    /// The plan of a statement that was prepared with the same text under the same modes.
    pub fn find_prepared(&self, session: &Session, sql: &[u8]) -> Option<Arc<Plan>> {
        if sql.len() > TEXT_BYTES_MAX {
            return None;
        }
        let key: PreparedKey = (sql.into(), context(session));
        let mut shard = self.prepared_shard(&key).lock();
        shard.clock += 1;
        let now = shard.clock;
        let (plan, used) = shard.plans.get_mut(&key)?;
        *used = now;
        Some(plan.clone())
    }

    /// Keeps the plan of a prepared statement.
    pub fn keep_prepared(&self, session: &Session, sql: &[u8], plan: &Arc<Plan>) {
        if sql.len() > TEXT_BYTES_MAX {
            return;
        }
        let key: PreparedKey = (sql.into(), context(session));
        let mut shard = self.prepared_shard(&key).lock();
        shard.clock += 1;
        let now = shard.clock;
        if shard.plans.len() >= ENTRIES_MAX && !shard.plans.contains_key(&key) {
            let oldest = shard.plans.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| shard.plans.remove(&oldest));
        }
        shard.plans.insert(key, (plan.clone(), now));
        let mut bytes: usize = shard.plans.iter().map(|((text, _), (plan, _))| plan_bytes(text, plan)).sum();
        while bytes > self.shard_bytes_max.load(Ordering::Relaxed) {
            let oldest = shard.plans.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            let Some((plan, _)) = shard.plans.remove(&oldest) else { break };
            bytes = bytes.saturating_sub(plan_bytes(&oldest.0, &plan));
        }
    }

    /// Forgets the plans of prepared statements; those that statements have live on.
    pub fn forget_prepared(&self) {
        self.prepared.iter().for_each(|shard| shard.lock().plans.clear());
    }

    fn prepared_shard(&self, key: &PreparedKey) -> &Mutex<PreparedShard> {
        use std::hash::BuildHasher;
        &self.prepared[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// The plan for a scanned text, if there is one; `values` receives its parameters.
    pub fn find(
        &self,
        session: &Session,
        sql: &[u8],
        scan: &Scan,
        values: &mut Vec<Value>,
    ) -> Option<Arc<Plan>> {
        let key = scan.key?;
        let mut shard = self.shard(&key).lock();
        shard.clock += 1;
        let now = shard.clock;
        let entry = shard.entries.get_mut(&key)?;
        entry.used = now;
        let options = parse_options(session);
        let mut known = false;
        for variant in &entry.variants {
            if !variant
                .fixed
                .iter()
                .all(|(index, text)| text_of(sql, scan.literals(), *index) == Some(&**text))
            {
                continue;
            }
            if !known {
                literal_values(session, sql, scan.literals(), &options, values)?;
                known = true;
            }
            if variant.plan.fits(values) {
                return Some(variant.plan.clone());
            }
        }
        None
    }

    /// Keeps a plan, unless its text is long: such texts hardly ever come again in the same shape.
    pub fn keep(&self, sql: &[u8], key: Key, literals: &[Literal], plan: &Arc<Plan>) {
        if sql.len() > TEXT_BYTES_MAX || literals.len() > LITERALS_MAX {
            return;
        }
        let fixed: Box<[_]> = literals
            .iter()
            .enumerate()
            .map(|(i, l)| (i as u32, l))
            .filter(|(i, l)| l.fixed || plan.pinned.binary_search(i).is_ok())
            .map(|(i, l)| (i, l.span.of(sql).into()))
            .collect();
        let mut shard = self.shard(&key).lock();
        shard.clock += 1;
        let now = shard.clock;
        if shard.entries.len() >= ENTRIES_MAX && !shard.entries.contains_key(&key) {
            let oldest = shard.entries.iter().min_by_key(|(_, e)| e.used).map(|(k, _)| *k);
            oldest.and_then(|oldest| shard.entries.remove(&oldest));
        }
        let entry = shard.entries.entry(key).or_default();
        entry.used = now;
        entry.variants.retain(|v| v.fixed != fixed || v.plan.shapes != plan.shapes);
        if entry.variants.len() >= VARIANTS_MAX {
            entry.variants.remove(0);
        }
        entry.variants.push(Variant { bytes: plan_bytes(sql, plan), fixed, plan: plan.clone() });
        shard.shrink(self.shard_bytes_max.load(Ordering::Relaxed));
    }

    /// Forgets the plans that no longer fit the catalog: they keep trees that were dropped, and their files, open.
    pub fn forget_stale(&self, catalog: &Catalog) {
        for shard in &self.shards {
            shard.lock().entries.retain(|_, entry| {
                entry.variants.retain(|variant| variant.plan.is_current(catalog));
                !entry.variants.is_empty()
            });
        }
        for shard in &self.prepared {
            shard.lock().plans.retain(|_, (plan, _)| plan.is_current(catalog));
        }
    }

    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        &self.shards[key.digest.0 as usize % SHARDS]
    }
}

fn text_of<'s>(sql: &'s [u8], literals: &[Literal], index: u32) -> Option<&'s [u8]> {
    literals.get(index as usize).map(|l| l.span.of(sql))
}

/// Scans a text for its digest and literals.
pub(crate) fn scan(session: &Session, sql: &[u8], out: &mut Scan) {
    let options = parse_options(session);
    // A text that is `''` there is no parameter but NULL.
    if options.empty_string_is_null {
        out.key = None;
        return;
    }
    out.key = digest::digest(sql, &options, &mut out.scratch)
        .map(|digest| Key { digest, context: context(session) });
}

/// A number for what binding depends on beside text and catalog.
fn context(session: &Session) -> u64 {
    use std::hash::{BuildHasher, Hash, Hasher};
    let mut hasher = foldhash::fast::FixedState::with_seed(7).build_hasher();
    session.database.as_deref().hash(&mut hasher);
    session.vars.sql_mode.0.hash(&mut hasher);
    session.vars.connection_collation.0.hash(&mut hasher);
    session.vars.client_collation.0.hash(&mut hasher);
    session.vars.database_collation.0.hash(&mut hasher);
    session.vars.div_precision_increment.hash(&mut hasher);
    session.vars.group_concat_max_len.hash(&mut hasher);
    session.vars.optimizer_search_depth.hash(&mut hasher);
    session.vars.standard_compliant_cte.hash(&mut hasher);
    hasher.finish()
}

/// Whose types a mode means.
pub fn type_family(mode: SqlMode) -> TypeFamily {
    match (mode.has(SqlMode::ORACLE), mode.has(SqlMode::MAXDB)) {
        (true, _) => TypeFamily::Oracle,
        (false, true) => TypeFamily::MaxDb,
        _ => TypeFamily::MariaDb,
    }
}

/// How the session wants text to be read.
pub(crate) fn parse_options(session: &Session) -> ParseOptions {
    let mode = session.vars.sql_mode;
    ParseOptions {
        ansi_quotes: mode.has(SqlMode::ANSI_QUOTES),
        pipes_as_concat: mode.has(SqlMode::PIPES_AS_CONCAT),
        no_backslash_escapes: mode.has(SqlMode::NO_BACKSLASH_ESCAPES),
        ignore_space: mode.has(SqlMode::IGNORE_SPACE),
        high_not_precedence: mode.has(SqlMode::HIGH_NOT_PRECEDENCE),
        empty_string_is_null: mode.has(SqlMode::EMPTY_STRING_IS_NULL),
        real_as_float: mode.has(SqlMode::REAL_AS_FLOAT),
        types: type_family(mode),
        temporal: Some(temporal_check(mode)),
        ..ParseOptions::default()
    }
}

/// The values of all literals of a text; none where one cannot be read, which the parser then explains.
pub(crate) fn literal_values(
    session: &Session,
    sql: &[u8],
    literals: &[Literal],
    options: &ParseOptions,
    values: &mut Vec<Value>,
) -> Option<()> {
    values.clear();
    values.reserve(literals.len());
    for literal in literals {
        fiber::tick_by(1 + (literal.span.of(sql).len() / LITERAL_BYTES_PER_TICK) as u32);
        let tree = keel_sql::value_of(literal.kind, literal.span.of(sql), options).ok()?;
        values.push(literal_value(&tree, session.vars.connection_collation, session.vars.sql_mode).ok()?.0);
    }
    Some(())
}
