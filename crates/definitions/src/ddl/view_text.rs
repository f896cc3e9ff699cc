//! The text that a view is kept as: its query with whole names, and written as MariaDB writes it. What has several ways
//! to be said has one here: joins, negations, synonyms of functions.

use keel_planner::bind::WholeNames;
use keel_planner::select::item_name;
use keel_sql::ast::{
    BinaryOp, ColumnDef, ColumnName, CommonTable, DataType, DataTypeKind, Expr, FunctionCall, JoinCondition,
    JoinKind, JsonColumn, JsonTable, Limit, ObjectName, OrderItem, Query, QueryBody, Select, SelectItem,
    SetOperand, Statement, TableRef, WindowSpec, With,
};
use keel_value::CollationId;

use super::view_expr::binary;

/// Rewrites the queries of one statement.
pub(super) struct Rewriter<'n> {
    pub names: &'n WholeNames,
    /// The character set of the connection, which a CAST to CHAR has.
    pub connection_charset: &'n str,
    /// The collation of columns of JSON_TABLE that say none.
    pub collation: CollationId,
    /// The place of the window that is rewritten.
    pub window: Option<usize>,
}

/// What stands around an expression.
#[derive(Clone, Copy, Default)]
pub(super) struct Around<'q> {
    /// The select list whose aliases may be used.
    pub items: &'q [SelectItem],
    /// What WINDOW names.
    pub windows: &'q [(String, WindowSpec)],
}

impl Rewriter<'_> {
    /// A query whose columns have the given names; its own where none are given.
    pub fn query(&self, query: &Query, columns: Option<&[String]>) -> Query {
        self.rewrite(query, true, columns)
    }

    pub(super) fn rewrite(&self, query: &Query, named: bool, columns: Option<&[String]>) -> Query {
        let around = match &query.body {
            QueryBody::Select(select) => Around { items: &select.items, windows: &select.windows },
            _ => Around::default(),
        };
        Query {
            with: query.with.as_ref().map(|with| self.with(with)),
            body: self.body(&query.body, named, columns),
            order_by: self.order(&query.order_by, around),
            limit: query.limit.as_ref().map(|limit| self.limit(limit, around)),
            into: None,
            late_into: keel_sql::ast::LateInto::default(),
            lock: query.lock.clone(),
        }
    }

    fn with(&self, with: &With) -> With {
        let table = |table: &CommonTable| CommonTable {
            name: table.name.clone(),
            columns: table.columns.clone(),
            query: Box::new(self.rewrite(
                &table.query,
                true,
                Some(&table.columns).filter(|c| !c.is_empty()).map(Vec::as_slice),
            )),
            cycle: table.cycle.clone(),
        };
        With { recursive: with.recursive, tables: with.tables.iter().map(table).collect() }
    }

    fn body(&self, body: &QueryBody, named: bool, columns: Option<&[String]>) -> QueryBody {
        match body {
            QueryBody::Select(select) => QueryBody::Select(Box::new(self.select(select, named, columns))),
            QueryBody::Values(rows, names) => QueryBody::Values(
                rows.iter()
                    .map(|row| row.iter().map(|e| self.expr(e, Around::default())).collect())
                    .collect(),
                names.clone(),
            ),
            QueryBody::SetOps { first, rest } => QueryBody::SetOps {
                first: Box::new(self.body(first, named, columns)),
                rest: rest
                    .iter()
                    .map(|operand| SetOperand { body: self.body(&operand.body, named, None), ..*operand })
                    .collect(),
            },
            QueryBody::Nested(query) => QueryBody::Nested(Box::new(self.rewrite(query, named, columns))),
        }
    }

    fn select(&self, select: &Select, named: bool, columns: Option<&[String]>) -> Select {
        let around = Around { items: &select.items, windows: &select.windows };
        let mut options = select.options;
        options.all = false;
        let condition = |e: &Option<Expr>| e.as_ref().map(|e| self.condition(e, around));
        Select {
            options,
            items: self.items(&select.items, around, named, columns),
            from: self.from(&select.from).into_iter().collect(),
            filter: condition(&select.filter),
            group_by: self.order(&select.group_by, around),
            rollup: select.rollup,
            having: condition(&select.having),
            windows: Vec::new(),
        }
    }

    /// The select list without `*`; each item with its name where `named` says so.
    fn items(
        &self,
        items: &[SelectItem],
        around: Around<'_>,
        named: bool,
        columns: Option<&[String]>,
    ) -> Vec<SelectItem> {
        let mut out: Vec<SelectItem> = Vec::with_capacity(items.len());
        let mut unchosen = Vec::new();
        for item in items {
            match item {
                SelectItem::Wildcard { .. } => {
                    for whole in self.names.wildcard(item) {
                        let name = named.then(|| whole.column.clone());
                        out.push(listed(Expr::Column(whole.clone()), name));
                    }
                }
                SelectItem::Expr { expr, alias, text } => {
                    let own = alias.clone().or_else(|| named.then(|| item_name(expr, text)));
                    if named && alias.is_none() && !matches!(expr, Expr::Column(_)) {
                        unchosen.push(out.len());
                    }
                    out.push(listed(self.expr(expr, around), own));
                }
            }
        }
        if !named {
            return out;
        }
        if columns.is_none() {
            unchosen.iter().for_each(|place| make_unique(&mut out, *place, &unchosen));
        }
        for (place, item) in out.iter_mut().enumerate() {
            let SelectItem::Expr { alias, .. } = item else { continue };
            let given = columns.and_then(|columns| columns.get(place));
            if let Some(given) = given {
                *alias = Some(given.clone());
            } else if alias.as_deref().is_some_and(is_unfit) {
                *alias = Some(format!("Name_exp_{}", place + 1));
            }
        }
        out
    }

    /// The names of a query's columns: those that nobody chose make way for others.
    pub fn column_names(query: &Query) -> Vec<String> {
        let mut body = &query.body;
        loop {
            body = match body {
                QueryBody::SetOps { first, .. } => first,
                QueryBody::Nested(query) => &query.body,
                QueryBody::Select(select) => {
                    let name = |item: &SelectItem| match item {
                        SelectItem::Expr { alias: Some(alias), .. } => alias.clone(),
                        _ => String::new(),
                    };
                    return select.items.iter().map(name).collect();
                }
                QueryBody::Values(..) => return Vec::new(),
            };
        }
    }

    /// FROM as one join.
    fn from(&self, tables: &[TableRef]) -> Option<TableRef> {
        let join = |left: TableRef, right: TableRef| TableRef::Join {
            kind: JoinKind::Inner,
            natural: false,
            left: Box::new(left),
            right: Box::new(right),
            on: JoinCondition::None,
        };
        tables.iter().map(|table| self.table(table)).reduce(join)
    }

    fn table(&self, table: &TableRef) -> TableRef {
        match table {
            TableRef::Table { name, alias, partitions, hints } => {
                let db = self.names.database(table).cloned().or_else(|| name.db.clone());
                TableRef::Table {
                    name: ObjectName { db, name: name.name.clone() },
                    alias: alias.clone(),
                    partitions: partitions.clone(),
                    hints: hints.clone(),
                }
            }
            TableRef::Derived { query, alias } => {
                TableRef::Derived { query: Box::new(self.rewrite(query, true, None)), alias: alias.clone() }
            }
            TableRef::JsonTable(table) => TableRef::JsonTable(Box::new(JsonTable {
                document: self.expr(&table.document, Around::default()),
                path: table.path.clone(),
                columns: self.json_columns(&table.columns),
                alias: table.alias.clone(),
            })),
            TableRef::Join { kind, left, right, on, .. } => {
                let pairs = self.names.join(table).iter().map(|(left, right)| {
                    binary(BinaryOp::Eq, Expr::Column(left.clone()), Expr::Column(right.clone()))
                });
                let condition = match on {
                    JoinCondition::On(condition) => Some(self.condition(condition, Around::default())),
                    _ => pairs.reduce(|all, next| binary(BinaryOp::And, all, next)),
                };
                let (mut left, mut right) = (self.table(left), self.table(right));
                let mut kind = *kind;
                if kind == JoinKind::Right {
                    std::mem::swap(&mut left, &mut right);
                    kind = JoinKind::Left;
                }
                TableRef::Join {
                    kind,
                    natural: false,
                    left: Box::new(left),
                    right: Box::new(right),
                    on: condition.map_or(JoinCondition::None, |c| JoinCondition::On(Box::new(c))),
                }
            }
        }
    }

    /// Columns of JSON_TABLE, their types in full.
    fn json_columns(&self, columns: &[JsonColumn]) -> Vec<JsonColumn> {
        let mut columns = columns.to_vec();
        for column in &mut columns {
            match column {
                JsonColumn::Ordinality(_) => {}
                JsonColumn::Nested { columns, .. } => *columns = self.json_columns(columns),
                JsonColumn::Value { column, .. } | JsonColumn::Exists { column, .. } => {
                    self.whole_type(&mut column.data_type, &column.name);
                }
            }
        }
        columns
    }

    /// A type with its length, and the collation where it says anything of it.
    fn whole_type(&self, data_type: &mut DataType, name: &str) {
        if data_type.kind == DataTypeKind::Json {
            return;
        }
        let column = ColumnDef::of(name.to_string(), data_type.clone());
        let Ok(ty) = keel_catalog::column_type::column_type(self.collation, &column) else { return };
        let says = data_type.binary || data_type.charset.is_some() || data_type.collation.is_some();
        // Its name means it.
        let text = format!("CREATE TABLE t (c {})", ty.sql_name());
        let parsed = keel_sql::parse(text.as_bytes(), &keel_sql::ParseOptions::default());
        if let Ok(Statement::CreateTable(table)) = parsed.map(|parsed| parsed.statement)
            && let Some(column) = table.columns.into_iter().next()
        {
            *data_type = column.data_type;
        }
        if says && ty.is_text() {
            data_type.charset = Some(ty.collation.charset().name().to_string());
            data_type.collation = Some(ty.collation.name().to_string());
        }
    }

    /// ORDER BY or GROUP BY: names of computed items are those items.
    pub(super) fn order(&self, items: &[OrderItem], around: Around<'_>) -> Vec<OrderItem> {
        let key = |item: &OrderItem| {
            if let Expr::Column(name) = &item.expr
                && self.names.column(name).is_none()
                && let Some(meant) = aliased(around.items, name)
            {
                return OrderItem { expr: self.expr(meant, around), desc: item.desc };
            }
            OrderItem { expr: self.expr(&item.expr, around), desc: item.desc }
        };
        items.iter().map(key).collect()
    }

    fn limit(&self, limit: &Limit, around: Around<'_>) -> Limit {
        let number = |e: &Option<Expr>| e.as_ref().map(|e| self.expr(e, around));
        Limit {
            count: number(&limit.count),
            offset: number(&limit.offset),
            rows_examined: number(&limit.rows_examined),
            with_ties: limit.with_ties,
        }
    }
}

/// Gives an item whose name nobody chose another one where the name is taken.
fn make_unique(items: &mut [SelectItem], place: usize, unchosen: &[usize]) {
    let name_of = |item: &SelectItem| match item {
        SelectItem::Expr { alias, .. } => alias.clone().unwrap_or_default(),
        SelectItem::Wildcard { .. } => String::new(),
    };
    let own = name_of(&items[place]);
    let is_taken = |name: &str| {
        let mut others = items.iter().enumerate().filter(|(other, _)| *other != place);
        others.any(|(_, item)| keel_catalog::names::same(&name_of(item), name))
    };
    // Of several that nobody chose the first keeps it.
    let mut others =
        items.iter().enumerate().filter(|(other, _)| *other < place || !unchosen.contains(other));
    if !others.any(|(other, item)| other != place && keel_catalog::names::same(&name_of(item), &own)) {
        return;
    }
    let numbered = (1..=items.len()).map(|number| format!("My_exp_{number}_{own}"));
    let free = std::iter::once(format!("My_exp_{own}")).chain(numbered).find(|name| !is_taken(name));
    if let (Some(free), SelectItem::Expr { alias, .. }) = (free, &mut items[place]) {
        *alias = Some(free);
    }
}

pub(super) fn listed(expr: Expr, alias: Option<String>) -> SelectItem {
    SelectItem::Expr { expr, alias, text: Default::default() }
}

/// The item that a name means as an alias.
pub(super) fn aliased<'q>(items: &'q [SelectItem], name: &ColumnName) -> Option<&'q Expr> {
    if name.table.is_some() {
        return None;
    }
    items.iter().find_map(|item| match item {
        SelectItem::Expr { expr, alias: Some(alias), .. } => {
            keel_catalog::names::same(alias, &name.column).then_some(expr)
        }
        _ => None,
    })
}

/// Whether an item is an aggregate.
pub(super) fn aggregates(item: &SelectItem) -> bool {
    const NAMES: &[&str] = &[
        "count",
        "sum",
        "avg",
        "min",
        "max",
        "std",
        "variance",
        "group_concat",
        "bit_and",
        "bit_or",
        "bit_xor",
    ];
    let is_aggregate = |call: &FunctionCall| {
        NAMES.contains(&call.name.as_str()) || call.name.ends_with("_samp") || call.name.ends_with("agg")
    };
    matches!(item, SelectItem::Expr { expr: Expr::Function(call), .. } if is_aggregate(call))
}

/// Whether a column of a view cannot be called so.
pub(super) fn is_unfit(name: &str) -> bool {
    name.is_empty() || name.ends_with(' ') || name.chars().count() > 64
}
