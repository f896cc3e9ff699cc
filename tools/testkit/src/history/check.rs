//! What a history must not show, by level.
//!
//! - All levels: writes of two transactions do not interleave (G0); what was acknowledged is there, whole; what was rolled
//!   back is not.
//! - READ COMMITTED and above: nobody reads what was rolled back (G1a) or was not yet all of a transaction's (G1b), and
//!   information does not flow in circles (G1c). Each plain SELECT reads one snapshot, which holds whatever was
//!   acknowledged before it was sent, and the snapshots of a transaction do not go backwards.
//! - REPEATABLE READ: all plain SELECTs of a transaction read one snapshot, its own writes excepted. Locking reads and writes see
//!   what is newest, so two transactions may read one version and both write: lost updates are InnoDB's rule here.
//! - The same with `innodb_snapshot_isolation`: what is written or locked once there is a snapshot is as in the snapshot.
//! - SERIALIZABLE: there is an order of the transactions that explains everything (no G-single, no G2), and it agrees with
//!   time: who was acknowledged before another began comes before it.
//!
//! A snapshot that holds a prefix of commits is a point in their order. So every plain SELECT (READ COMMITTED), or
//! all of a transaction together (REPEATABLE READ), is a point of the graph behind the commits it has seen and before those that
//! it has not; each commit is a point too; and the graph has no cycle exactly if all these points can be put in one order.

use super::graph::{Cycle, Graph, Why};
use super::{Element, End, History, Key, Level, Lists, Op, Transaction};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What a history shows and should not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly {
    /// Its name: `G0`, `G1a`, `G1b`, `G1c`, `G-single`, `G2`, with `-realtime` where only time is contradicted; `order`,
    /// `lost`, `torn`, `unwritten`.
    pub name: &'static str,
    /// The transactions and what they did.
    pub what: String,
}

fn anomaly(name: &'static str, what: String) -> Anomaly {
    Anomaly { name, what }
}

/// The first anomaly of the history; none is good.
pub fn check(history: &History) -> Result<(), Anomaly> {
    let facts = Facts::new(history)?;
    facts.check_atomicity()?;
    facts.check_reads()?;
    let mut builder = Builder::new(&facts);
    builder.build();
    builder.judge()
}

/// Who wrote what, and in which order.
struct Facts<'h> {
    history: &'h History,
    writers: HashMap<(Key, Element), usize>,
    /// Place of each element in its final list.
    places: HashMap<(Key, Element), usize>,
    /// Appends that counted, by transaction.
    appends: Vec<Vec<(Key, Element)>>,
    /// Whether it took place, as far as can be known.
    took_place: Vec<bool>,
}

impl<'h> Facts<'h> {
    fn new(history: &'h History) -> Result<Facts<'h>, Anomaly> {
        let mut facts = Facts {
            history,
            writers: HashMap::new(),
            places: HashMap::new(),
            appends: Vec::new(),
            took_place: Vec::new(),
        };
        for (number, transaction) in history.transactions.iter().enumerate() {
            for (key, element) in all_appends(transaction) {
                facts.writers.insert((key, element), number);
            }
            facts.appends.push(kept_appends(transaction));
        }
        for (key, list) in &history.last {
            for (place, element) in list.iter().enumerate() {
                if facts.places.insert((*key, *element), place).is_some() {
                    return Err(anomaly("order", format!("{element} is twice in list {key}: {list:?}")));
                }
                if !facts.writers.contains_key(&(*key, *element)) {
                    return Err(anomaly("unwritten", format!("{element} of list {key} was never appended")));
                }
            }
        }
        facts.took_place = history
            .transactions
            .iter()
            .zip(&facts.appends)
            .map(|(transaction, appends)| match transaction.end {
                End::Committed => true,
                End::Aborted => false,
                End::Unknown => appends.iter().any(|append| facts.places.contains_key(append)),
            })
            .collect();
        Ok(facts)
    }

    fn transaction(&self, number: usize) -> &'h Transaction {
        &self.history.transactions[number]
    }

    /// All of what took place is there, and nothing of what did not.
    fn check_atomicity(&self) -> Result<(), Anomaly> {
        for (number, appends) in self.appends.iter().enumerate() {
            let missing: Vec<_> = appends.iter().filter(|append| !self.places.contains_key(append)).collect();
            if self.took_place[number] && !missing.is_empty() {
                let name = if self.transaction(number).end == End::Committed { "lost" } else { "torn" };
                return Err(anomaly(name, format!("missing {missing:?} of {}", self.tell(number))));
            }
        }
        for (append, _) in self.places.iter() {
            let writer = self.writers[append];
            if !self.took_place[writer] || !self.appends[writer].contains(append) {
                return Err(anomaly("G1a", format!("{append:?} stayed of {}", self.tell(writer))));
            }
        }
        Ok(())
    }

    /// The list without what `number` itself has appended at its end.
    fn without_own<'l>(&self, number: usize, key: Key, list: &'l [Element]) -> &'l [Element] {
        let own = list.iter().rev().take_while(|e| self.writers.get(&(key, **e)) == Some(&number)).count();
        &list[..list.len() - own]
    }

    /// Whether a crash took a commit that was on its way. Who locks what it wrote sees it before it is durable, and then cannot
    /// be acknowledged either.
    fn is_lost(&self, key: Key, element: Element) -> bool {
        let writer = self.writers[&(key, element)];
        self.transaction(writer).end == End::Unknown && !self.took_place[writer]
    }

    fn is_locking(&self, op: &Op) -> bool {
        match op {
            Op::Lock { .. } => true,
            Op::Read(_) => self.history.level == Level::Serializable,
            _ => false,
        }
    }

    /// Every list that was read is a beginning of the final one, cut between transactions.
    fn check_reads(&self) -> Result<(), Anomaly> {
        for number in 0..self.history.transactions.len() {
            let mut own: BTreeSet<(Key, Element)> = BTreeSet::new();
            for step in &self.transaction(number).steps {
                match &step.op {
                    Op::Append(keys, element) => own.extend(keys.iter().map(|key| (*key, *element))),
                    Op::Undo(undone) => own.retain(|append| !undone.contains(append)),
                    Op::Read(lists) | Op::Lock { lists, .. } => {
                        let locking = self.is_locking(&step.op);
                        for (key, list) in lists {
                            self.check_read(number, *key, list, &own, locking)?;
                        }
                    }
                    Op::Snapshot => {}
                }
            }
        }
        Ok(())
    }

    fn check_read(
        &self,
        number: usize,
        key: Key,
        list: &[Element],
        own: &BTreeSet<(Key, Element)>,
        locking: bool,
    ) -> Result<(), Anomaly> {
        let told = |what: &str| format!("{what}: list {key} was {list:?} for {}", self.tell(number));
        if let Some(element) = list.iter().find(|e| !self.writers.contains_key(&(key, **e))) {
            return Err(anomaly("unwritten", told(&format!("{element} was never appended"))));
        }
        let others = self.without_own(number, key, list);
        let mine: BTreeSet<(Key, Element)> = list[others.len()..].iter().map(|e| (key, *e)).collect();
        let mine_before: BTreeSet<(Key, Element)> = own.iter().filter(|(k, _)| *k == key).copied().collect();
        if mine != mine_before {
            return Err(anomaly("order", told("not its own writes")));
        }
        if self.history.level == Level::ReadUncommitted {
            return Ok(());
        }
        if locking && !self.took_place[number] && others.iter().any(|e| self.is_lost(key, *e)) {
            return Ok(());
        }
        let undone = |e: &&Element| {
            let writer = self.writers[&(key, **e)];
            !self.took_place[writer] || !self.appends[writer].contains(&(key, **e))
        };
        if let Some(element) = others.iter().find(undone) {
            return Err(anomaly("G1a", told(&format!("{element} was rolled back"))));
        }
        let last = self.history.last.get(&key).map_or(&[][..], Vec::as_slice);
        if !last.starts_with(others) {
            return Err(anomaly("order", told(&format!("the last one is {last:?}"))));
        }
        let writer_at = |place: usize| Some(self.writers[&(key, *last.get(place)?)]);
        let cut = others.len();
        if cut > 0 && writer_at(cut - 1) == writer_at(cut) {
            return Err(anomaly("G1b", told("part of a transaction")));
        }
        // What was taken back later says nothing about its place.
        let stays = list.get(cut).is_some_and(|first| self.appends[number].contains(&(key, *first)));
        if stays && self.took_place[number] && writer_at(cut) != Some(number) {
            return Err(anomaly("order", told(&format!("the last one is {last:?}"))));
        }
        Ok(())
    }

    fn tell(&self, number: usize) -> String {
        let transaction = self.transaction(number);
        let steps: Vec<String> = transaction.steps.iter().map(|step| format!("{:?}", step.op)).collect();
        format!(
            "T{number} (session {}, {:?}, {}..{}): {}",
            transaction.session,
            transaction.end,
            transaction.began,
            transaction.ended,
            steps.join("; ")
        )
    }
}

fn all_appends(transaction: &Transaction) -> Vec<(Key, Element)> {
    let mut all = Vec::new();
    for step in &transaction.steps {
        if let Op::Append(keys, element) = &step.op {
            all.extend(keys.iter().map(|key| (*key, *element)));
        }
    }
    all
}

fn kept_appends(transaction: &Transaction) -> Vec<(Key, Element)> {
    let mut kept = all_appends(transaction);
    for step in &transaction.steps {
        if let Op::Undo(undone) = &step.op {
            kept.retain(|append| !undone.contains(append));
        }
    }
    kept
}

/// Makes the graph of a history.
struct Builder<'f> {
    facts: &'f Facts<'f>,
    graph: Graph,
    /// Which transaction a point belongs to; none for moments of time.
    owners: Vec<Option<usize>>,
    /// The point of the commit, or of the whole transaction where it is serializable.
    commits: Vec<Option<usize>>,
    /// What happened when: a point that begins or one that is over.
    moments: BTreeMap<u64, Vec<Moment>>,
}

enum Moment {
    Begins(usize),
    Over(usize),
}

impl<'f> Builder<'f> {
    fn new(facts: &'f Facts<'f>) -> Builder<'f> {
        let count = facts.history.transactions.len();
        Builder {
            facts,
            graph: Graph::default(),
            owners: Vec::new(),
            commits: vec![None; count],
            moments: BTreeMap::new(),
        }
    }

    fn level(&self) -> Level {
        self.facts.history.level
    }

    fn point(&mut self, owner: Option<usize>) -> usize {
        self.owners.push(owner);
        self.graph.point()
    }

    /// A point that lies somewhere between two moments.
    fn point_between(&mut self, owner: usize, from: u64, to: Option<u64>) -> usize {
        let point = self.point(Some(owner));
        self.moments.entry(from).or_default().push(Moment::Begins(point));
        if let Some(to) = to {
            self.moments.entry(to).or_default().push(Moment::Over(point));
        }
        point
    }

    fn build(&mut self) {
        self.commit_points();
        self.write_order();
        for number in 0..self.commits.len() {
            self.reads_of(number);
        }
        self.time();
    }

    fn commit_points(&mut self) {
        let serializable = self.level() == Level::Serializable;
        for number in 0..self.commits.len() {
            let transaction = self.facts.transaction(number);
            if !self.facts.took_place[number] {
                continue;
            }
            let from = if serializable { transaction.began } else { transaction.ending };
            let to = (transaction.end == End::Committed).then_some(transaction.ended);
            self.commits[number] = Some(self.point_between(number, from, to));
        }
    }

    fn writer_at(&self, key: Key, place: usize) -> Option<usize> {
        let element = self.facts.history.last.get(&key)?.get(place)?;
        self.facts.writers.get(&(key, *element)).copied()
    }

    fn write_order(&mut self) {
        for (key, list) in &self.facts.history.last {
            for place in 1..list.len() {
                let (a, b) = (self.writer_at(*key, place - 1), self.writer_at(*key, place));
                self.edge(a, b, Why::WriteWrite);
            }
        }
    }

    fn edge(&mut self, from: Option<usize>, to: Option<usize>, why: Why) {
        let point = |number: Option<usize>| self.commits[number?];
        if let (Some(from), Some(to)) = (point(from), point(to)) {
            self.graph.edge(from, to, why);
        }
    }

    /// Points of the snapshots of a transaction, and what its reads say.
    fn reads_of(&mut self, number: usize) {
        if self.level() == Level::ReadUncommitted {
            return;
        }
        let transaction = self.facts.transaction(number);
        let mut snapshot: Option<usize> = None;
        let mut written: BTreeSet<Key> = BTreeSet::new();
        for step in &transaction.steps {
            match &step.op {
                // What was undone stays locked, so the row stays the newest one's.
                Op::Append(keys, element) => {
                    if let Some(point) = snapshot.filter(|_| self.level() == Level::Snapshot) {
                        keys.iter().for_each(|key| self.write_at(number, point, *key, *element));
                    }
                    written.extend(keys);
                }
                Op::Undo(_) => {}
                Op::Snapshot | Op::Read(_) if self.level() != Level::Serializable => {
                    let fresh = snapshot.is_none() || self.level() == Level::ReadCommitted;
                    if fresh {
                        let point = self.point_between(number, step.sent, Some(step.answered));
                        if let Some(before) = snapshot {
                            self.graph.edge(before, point, Why::Program);
                        }
                        snapshot = Some(point);
                    }
                    if let (Op::Read(lists), Some(point)) = (&step.op, snapshot) {
                        self.read_at(number, point, lists, &written, true);
                    }
                }
                Op::Read(lists) => self.read_at_end(number, lists, &written, true),
                Op::Lock { lists, gaps } => {
                    if let Some(point) = snapshot.filter(|_| self.level() == Level::Snapshot) {
                        self.read_at(number, point, lists, &written, true);
                    }
                    self.read_at_end(number, lists, &written, *gaps);
                }
                Op::Snapshot => {}
            }
        }
        if let (Some(snapshot), Some(commit)) = (snapshot, self.commits[number]) {
            self.graph.edge(snapshot, commit, Why::Program);
        }
    }

    fn read_at_end(&mut self, number: usize, lists: &Lists, written: &BTreeSet<Key>, gaps: bool) {
        if let Some(point) = self.commits[number] {
            self.read_at(number, point, lists, written, gaps);
        }
    }

    /// The point lies behind whoever wrote the list before the element.
    fn write_at(&mut self, number: usize, point: usize, key: Key, element: Element) {
        let Some(place) = self.facts.places.get(&(key, element)) else { return };
        let before = place.checked_sub(1).and_then(|place| self.writer_at(key, place));
        let before = before.filter(|writer| *writer != number).and_then(|writer| self.commits[writer]);
        if let Some(before) = before {
            self.graph.edge(before, point, Why::WriteWrite);
        }
    }

    /// The point lies behind the writers of what was read and before those of what comes next.
    fn read_at(&mut self, number: usize, point: usize, lists: &Lists, written: &BTreeSet<Key>, gaps: bool) {
        for (key, list) in lists {
            if written.contains(key) || list.is_empty() && !gaps {
                continue;
            }
            let seen = self.facts.without_own(number, *key, list).len();
            let writer = seen.checked_sub(1).and_then(|place| self.writer_at(*key, place));
            let next = self.writer_at(*key, seen);
            let point_of = |number: Option<usize>| self.commits[number?];
            if let Some(writer) = point_of(writer) {
                self.graph.edge(writer, point, Why::WriteRead);
            }
            if let Some(next) = point_of(next) {
                self.graph.edge(point, next, Why::ReadWrite);
            }
        }
    }

    /// What was over before another began comes before it. A row of moments says so with few edges.
    fn time(&mut self) {
        let mut before: Option<usize> = None;
        for moment in std::mem::take(&mut self.moments).into_values().flatten() {
            match moment {
                Moment::Over(point) => {
                    let now = self.point(None);
                    self.graph.edge(point, now, Why::Time);
                    if let Some(before) = before {
                        self.graph.edge(before, now, Why::Time);
                    }
                    before = Some(now);
                }
                Moment::Begins(point) => {
                    if let Some(before) = before {
                        self.graph.edge(before, point, Why::Time);
                    }
                }
            }
        }
    }

    fn judge(&self) -> Result<(), Anomaly> {
        let writes = |why: Why| why == Why::WriteWrite;
        let flow = |why: Why| matches!(why, Why::WriteWrite | Why::WriteRead | Why::Program);
        let all = |why: Why| flow(why) || why == Why::ReadWrite;
        let graph = &self.graph;
        let found = |name: &'static str, cycle: Option<Cycle>| match cycle {
            Some(cycle) => Err(anomaly(name, self.tell(&cycle))),
            None => Ok(()),
        };
        found("G0", graph.cycle(writes))?;
        found("G1c", graph.cycle(flow))?;
        found("G-single", graph.cycle_with_one(Why::ReadWrite, flow))?;
        found("G2", graph.cycle(all))?;
        let with_time = |why: Why| flow(why) || why == Why::Time;
        found("G1c-realtime", graph.cycle(with_time))?;
        found("G-single-realtime", graph.cycle_with_one(Why::ReadWrite, with_time))?;
        found("G2-realtime", graph.cycle(|_| true))
    }

    fn tell(&self, cycle: &Cycle) -> String {
        let mut out = String::new();
        let mut names: Vec<usize> = Vec::new();
        for (point, why) in cycle {
            match self.owners[*point] {
                Some(owner) => {
                    out += &format!("T{owner} {why} ");
                    names.push(owner);
                }
                None => out += "then ",
            }
        }
        names.sort_unstable();
        names.dedup();
        let all: Vec<String> = names.iter().map(|number| self.facts.tell(*number)).collect();
        format!("{out}the first\n{}", all.join("\n"))
    }
}
