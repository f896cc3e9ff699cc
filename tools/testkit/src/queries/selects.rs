//! Random queries: joins, groups, windows, set operations, derived tables.
//!
//! Wherever it is nobody's promise which of several equal texts comes out (DISTINCT, groups, set operations, an order with
//! ties) texts are brought into one form, and LIMIT comes only behind an order by all columns.

use super::expressions::{Atom, Generator, Scope};
use super::tree::{Kind, Node, Part};
use super::world::{COLUMNS, Type, literal, pick};

/// What a query must keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Nothing.
    Any,
    /// At most one row.
    Single,
}

const JOINS: [&str; 7] =
    ["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "CROSS JOIN", "STRAIGHT_JOIN"];
/// MariaDB's EXCEPT and INTERSECT go wrong over outer columns.
const SET_OPERATIONS_WITHIN: [&str; 2] = ["UNION", "UNION ALL"];
const SET_OPERATIONS: [&str; 7] =
    ["UNION", "UNION ALL", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"];

/// Texts that the collation takes for equal become the same octets.
fn canonical(kind: Type, node: Node) -> Node {
    if kind != Type::Text {
        return node;
    }
    let mut out = Node::text("UPPER(RTRIM(");
    out.parts.push(Part::Hole(Kind::Value, node));
    out.push("))");
    out
}

/// The columns of a table in sight.
fn bring_columns(alias: &str, scope: &mut Scope) {
    for (column, kind) in COLUMNS {
        scope.inner.push(Atom { kind, node: Node::text(format!("{alias}.{column}")) });
    }
}

impl Generator<'_> {
    /// A whole statement.
    pub fn statement(&mut self) -> Node {
        let mut node = Node::default();
        if self.chance(10) {
            let types = self.types(3);
            let query = self.query(&types, &Scope::default(), Shape::Any, true);
            node = Node::fill("WITH w AS (#) ", vec![(Kind::Query, query)]);
            self.named.push(("w".into(), types));
            self.subqueries = 2;
        }
        let types = self.types(4);
        let query = self.query(&types, &Scope::default(), Shape::Any, false);
        node.parts.extend(query.parts);
        node
    }

    /// `SELECT ... FROM ...` with a predicate that parts its rows.
    pub fn parted(&mut self) -> Node {
        self.alone = true;
        let types = self.types(3);
        let (from, scope) = self.from(&Scope::default());
        let columns = types.iter().map(|kind| self.hole(*kind, &scope, 2)).collect();
        self.lists += 1;
        let mut node = Node::text("SELECT ");
        node.parts.push(Part::List(self.lists, columns));
        node.parts.extend(from.parts);
        node.parts.push(Part::Predicate(self.condition(&scope, 4)));
        node
    }

    /// A statement that changes a table.
    pub fn change(&mut self) -> Node {
        let table = self.any_table();
        let mut scope = Scope::default();
        bring_columns("x0", &mut scope);
        // MariaDB refuses, or sees its own changes, where a subquery reads the table.
        self.subqueries = 0;
        let ignore = pick(&mut self.random, &["", "", "IGNORE "]);
        let condition = (Kind::Condition, self.condition(&scope, 3));
        match self.random.below(4) {
            0 => Node::fill(&format!("DELETE FROM x0 USING {table} AS x0 WHERE #"), vec![condition]),
            1 => {
                let value = |kind| (Kind::Value, self.value(kind, &scope, 1));
                let values: Vec<_> = COLUMNS[1..].iter().map(|(_, kind)| *kind).map(value).collect();
                let holes = vec!["#"; values.len()].join(", ");
                let text = format!(
                    "INSERT {ignore}INTO {table} SELECT x0.id + 100, {holes} FROM {table} AS x0 WHERE #"
                );
                Node::fill(&text, values.into_iter().chain([condition]).collect())
            }
            _ => {
                let (column, kind) = COLUMNS[1 + self.random.below(COLUMNS.len() as u64 - 1) as usize];
                let value = (Kind::Value, self.value(kind, &scope, 2));
                let text = format!("UPDATE {ignore}{table} AS x0 SET x0.{column} = # WHERE #");
                Node::fill(&text, vec![value, condition])
            }
        }
    }

    fn any_table(&mut self) -> String {
        self.world.tables[self.random.below(self.world.tables.len() as u64) as usize].clone()
    }

    fn types(&mut self, max: u64) -> Vec<Type> {
        let count = 1 + self.random.below(max);
        (0..count).map(|_| self.any_type()).collect()
    }

    /// A query inside of an expression.
    pub(super) fn subquery(&mut self, types: &[Type], scope: &Scope, shape: Shape) -> Node {
        self.subqueries = self.subqueries.saturating_sub(1);
        let columns = |atom: &&Atom| !atom.node.sql().contains('(');
        let outer = scope.inner.iter().chain(&scope.outer).filter(columns).cloned().collect();
        self.query(types, &Scope { outer, ..Scope::default() }, shape, true)
    }

    /// A query with columns of these types; `named` calls them c1, c2, ...
    fn query(&mut self, types: &[Type], outer: &Scope, shape: Shape, named: bool) -> Node {
        self.lists += 1;
        let list = self.lists;
        let inside = !outer.outer.is_empty();
        let combined = shape == Shape::Any && self.chance(if inside { 8 } else { 18 });
        let ordered = shape == Shape::Any && !named && self.chance(30);
        let unnamed = !named && self.chance(15);
        let within = std::mem::replace(&mut self.within, named);
        let one_form = combined || ordered || (shape == Shape::Single);
        let mut node = self.select(types, outer, shape, list, one_form, !unnamed);
        if combined {
            let operations = if inside { &SET_OPERATIONS_WITHIN[..] } else { &SET_OPERATIONS[..] };
            for _ in 0..1 + self.random.below(2) {
                let arm = self.select(types, outer, shape, list, true, !unnamed);
                let mut more = Node::text(format!(" {} ", pick(&mut self.random, operations)));
                more.parts.extend(arm.parts);
                node.parts.push(Part::Optional(more));
            }
        }
        self.within = within;
        if ordered {
            let mut order = Node::text(" ORDER BY ");
            order.parts.push(Part::Positions(list));
            if self.chance(50) {
                let limit = format!(" LIMIT {}", self.random.below(8));
                let offset = if self.chance(30) { " OFFSET 1" } else { "" };
                order.parts.push(Part::Optional(Node::text(limit + offset)));
            }
            node.parts.push(Part::Optional(order));
        }
        node
    }

    fn hole(&mut self, kind: Type, scope: &Scope, depth: u32) -> Node {
        let value = self.value(kind, scope, depth);
        Node::fill("#", vec![(Kind::Value, value)])
    }

    fn select(
        &mut self,
        types: &[Type],
        outer: &Scope,
        shape: Shape,
        list: u32,
        form: bool,
        named: bool,
    ) -> Node {
        let (from, scope) = self.from(outer);
        let condition = match self.chance(70) {
            true => Some(self.condition(&scope, 3)),
            false => None,
        };
        let single = shape == Shape::Single;
        // One row: an aggregate without GROUP BY.
        let grouped = single || self.chance(30);
        let keyed = grouped && !single && self.chance(85);
        let distinct = !grouped && self.chance(15);
        let (over, group) = match grouped {
            true => self.group(&scope, keyed),
            false => (scope.clone(), Node::default()),
        };
        // In subqueries MariaDB compares what a window function gives by other types.
        let windows = !self.within && !grouped && !scope.keys.is_empty() && self.chance(15);
        let mut columns = Vec::new();
        for (index, kind) in types.iter().enumerate() {
            let mut column = match windows && self.chance(60) {
                true => self.window(*kind, &scope),
                false => self.hole(*kind, &over, if grouped { 1 } else { 2 }),
            };
            if form || distinct || grouped {
                column = canonical(*kind, column);
            }
            if named {
                column.push(&format!(" AS c{}", index + 1));
            }
            columns.push(column);
        }
        let mut node = Node::text("SELECT ");
        if distinct {
            node.parts.push(Part::Optional(Node::text("DISTINCT ")));
        }
        node.parts.push(Part::List(list, columns));
        node.parts.extend(from.parts);
        if let Some(condition) = condition {
            node.parts.push(Part::Optional(Node::fill(" WHERE #", vec![(Kind::Condition, condition)])));
        }
        node.parts.extend(group.parts);
        if grouped && self.chance(30) {
            let condition = self.condition(&over, 2);
            node.parts.push(Part::Optional(Node::fill(" HAVING #", vec![(Kind::Condition, condition)])));
        }
        node
    }

    /// What is in sight behind grouping, and the clause.
    fn group(&mut self, scope: &Scope, keyed: bool) -> (Scope, Node) {
        let mut over = Scope { outer: scope.outer.clone(), ..Scope::default() };
        let mut clause = Node::default();
        if keyed {
            // Under ROLLUP MariaDB has its own ideas of keys that repeat and of expressions over keys that are some.
            let rollup = self.chance(8);
            let mut keys = Vec::new();
            for _ in 0..1 + self.random.below(2) {
                let kind = self.any_type();
                let column = self.column(kind, scope);
                // A key is plain text: it must stay the same here and in the columns.
                let key = match !rollup && self.chance(30) {
                    true => format!("COALESCE({column}, {})", literal(kind, &mut self.random)),
                    false => column,
                };
                if keys.contains(&key) {
                    continue;
                }
                over.inner
                    .push(Atom { kind, node: Node::text(canonical(kind, Node::text(key.clone())).sql()) });
                keys.push(key);
            }
            clause.push(&format!(" GROUP BY {}", keys.join(", ")));
            if rollup {
                clause.parts.push(Part::Optional(Node::text(" WITH ROLLUP")));
            }
        }
        for _ in 0..2 + self.random.below(2) {
            let atom = self.aggregate(scope);
            over.inner.push(atom);
        }
        (over, clause)
    }

    fn column(&mut self, kind: Type, scope: &Scope) -> String {
        let fitting: Vec<String> =
            scope.inner.iter().filter(|atom| atom.kind == kind).map(|atom| atom.node.sql()).collect();
        match fitting.len() {
            0 => format!("CONCAT('', {})", literal(Type::Text, &mut self.random)),
            count => fitting[self.random.below(count as u64) as usize].clone(),
        }
    }

    fn aggregate(&mut self, scope: &Scope) -> Atom {
        let kind = self.any_type();
        // Of its own columns: what only names those around is the aggregate of another query.
        let own = Scope { outer: Vec::new(), ..scope.clone() };
        let left = std::mem::replace(&mut self.subqueries, 0);
        let value = (Kind::Argument, self.value(kind, &own, 1));
        self.subqueries = left;
        let (kind, node) = match self.random.below(9) {
            0 => (Type::Int, Node::text("COUNT(*)")),
            1 => (Type::Int, Node::fill("COUNT(#)", vec![value])),
            2 => (Type::Int, Node::fill("COUNT(DISTINCT #)", vec![value])),
            3 => (Type::Decimal, {
                let number = self.value(Type::Int, &own, 0);
                Node::fill(
                    pick(&mut self.random, &["AVG(#)", "SUM(#)", "SUM(DISTINCT #)"]),
                    vec![(Kind::Argument, number)],
                )
            }),
            4 => (Type::Double, {
                let number = self.leaf(Type::Double, &own);
                Node::fill("SUM(#)", vec![(Kind::Argument, number)])
            }),
            5 => (Type::Text, {
                let column = canonical(Type::Text, Node::text(self.column(Type::Text, scope))).sql();
                Node::text(format!("GROUP_CONCAT(DISTINCT {column} ORDER BY {column})"))
            }),
            _ => {
                let text = pick(&mut self.random, &["MIN(#)", "MAX(#)"]);
                (kind, canonical(kind, Node::fill(text, vec![value])))
            }
        };
        Atom { kind, node }
    }

    /// A window function over rows that are told apart.
    fn window(&mut self, kind: Type, scope: &Scope) -> Node {
        let own = Scope { outer: Vec::new(), ..scope.clone() };
        let value = (Kind::Value, self.leaf(kind, &own));
        let (partition_kind, order_kind) = (self.any_type(), self.any_type());
        let order = self.column(order_kind, scope);
        let direction = pick(&mut self.random, &["", " DESC"]);
        let total = format!("ORDER BY {order}{direction}, {}", scope.keys.join(", "));
        let partition = match self.chance(60) {
            true => format!("PARTITION BY {} ", self.column(partition_kind, scope)),
            false => String::new(),
        };
        let frame = pick(
            &mut self.random,
            &[
                "",
                " ROWS 1 PRECEDING",
                " ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
                " ROWS BETWEEN 2 PRECEDING AND UNBOUNDED FOLLOWING",
                " ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING",
                " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
                " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            ],
        );
        let text = match (kind, self.random.below(8)) {
            (Type::Int, 0) => format!("ROW_NUMBER() OVER ({partition}{total})"),
            (Type::Int, 1) => format!("RANK() OVER ({partition}ORDER BY {order}{direction})"),
            (Type::Int, 2) => format!("DENSE_RANK() OVER ({partition}ORDER BY {order})"),
            (Type::Int, 3) => format!("NTILE(3) OVER ({partition}{total})"),
            (Type::Int, 4) => format!("COUNT(#) OVER ({partition}ORDER BY {order})"),
            (Type::Decimal | Type::Double | Type::Int, 5) => {
                format!("SUM(#) OVER ({partition}{total}{frame})")
            }
            (Type::Int | Type::Decimal | Type::Date, 6) => format!("MAX(#) OVER ({partition}{total}{frame})"),
            (_, 7) => format!("LAG(#, 2) OVER ({partition}{total})"),
            (_, 3 | 4) => format!("LAST_VALUE(#) OVER ({partition}{total}{frame})"),
            _ => format!("FIRST_VALUE(#) OVER ({partition}{total}{frame})"),
        };
        Node::fill(&text, vec![value])
    }

    /// ` FROM ...` and what it brings in sight.
    fn from(&mut self, outer: &Scope) -> (Node, Scope) {
        let mut scope = Scope { outer: outer.outer.clone(), ..Scope::default() };
        let mut node = Node::text(" FROM ");
        let (first, mut all_keyed) = self.table(&mut scope);
        node.parts.extend(first.parts);
        let most = if outer.outer.is_empty() { 3 } else { 2 };
        for _ in 0..self.random.below(most) {
            let join = pick(&mut self.random, &JOINS);
            let before = scope.inner.len();
            let mut more = Node::text(format!(" {join} "));
            let (table, keyed) = self.table(&mut scope);
            more.parts.extend(table.parts);
            all_keyed &= keyed;
            if join != "CROSS JOIN" {
                let condition = self.join_condition(&scope, before);
                more.push(" ON ");
                more.parts.push(Part::Hole(Kind::Condition, condition));
            }
            node.parts.push(Part::Optional(more));
        }
        if !all_keyed {
            scope.keys.clear();
        }
        (node, scope)
    }

    /// Mostly an equality of a column before with one of the table that joins.
    fn join_condition(&mut self, scope: &Scope, before: usize) -> Node {
        let left = std::mem::replace(&mut self.subqueries, 0);
        let local = Scope { outer: Vec::new(), ..scope.clone() };
        let (old, new) = local.inner.split_at(before);
        let atom = &new[self.random.below(new.len() as u64) as usize];
        let same: Vec<&Atom> = old.iter().filter(|other| other.kind == atom.kind).collect();
        let condition = match same.is_empty() || self.chance(20) {
            true => self.condition(&local, 1),
            false => {
                let other = same[self.random.below(same.len() as u64) as usize];
                let equal = Node::text(format!("({} = {})", other.node.sql(), atom.node.sql()));
                match self.chance(25) {
                    true => Node::fill(
                        "(# AND #)",
                        vec![(Kind::Condition, equal), (Kind::Condition, self.condition(&local, 1))],
                    ),
                    false => equal,
                }
            }
        };
        self.subqueries = left;
        condition
    }

    /// A table, derived table or common table expression; whether its rows can be told apart.
    fn table(&mut self, scope: &mut Scope) -> (Node, bool) {
        let alias = format!("x{}", self.aliases);
        self.aliases += 1;
        if !self.named.is_empty() && self.chance(40) {
            let (name, types) = self.named[0].clone();
            self.bring(&types, &alias, scope);
            return (Node::text(format!("{name} AS {alias}")), false);
        }
        if self.subqueries > 0 && self.chance(12) {
            self.subqueries = self.subqueries.saturating_sub(1);
            let types = self.types(3);
            let query = self.query(&types, &Scope::default(), Shape::Any, true);
            self.bring(&types, &alias, scope);
            let mut node = Node::fill("(#)", vec![(Kind::Query, query)]);
            node.push(&format!(" AS {alias}"));
            return (node, false);
        }
        let name = self.any_table();
        bring_columns(&alias, scope);
        scope.keys.push(format!("{alias}.id"));
        (Node::text(format!("{name} AS {alias}")), true)
    }

    fn bring(&mut self, types: &[Type], alias: &str, scope: &mut Scope) {
        for (index, kind) in types.iter().enumerate() {
            scope.inner.push(Atom { kind: *kind, node: Node::text(format!("{alias}.c{}", index + 1)) });
        }
    }
}
