//! SHOW EXPLAIN, SHOW ANALYZE and EXPLAIN FOR CONNECTION: the plan of what another connection runs.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::account::Privileges;
use keel_database::Question;
use keel_exec::{ColumnMeta, ResultColumns};
use keel_expr::rights as see;
use keel_logs::secrets::hidden;
use keel_sql::ast::{Expr, UnaryOp};
use keel_value::types::flags;
use keel_value::{CollationId, Decimal, SqlType, TypeKind, Value};
use keel_views::show::{Rows, varchar};

use crate::core::Core;
use crate::kill::id_of;

/// In which form it is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// SHOW ANALYZE.
    pub analyze: bool,
    /// FORMAT=JSON.
    pub json: bool,
}

/// Octets that MariaDB announces for a plan in JSON.
const JSON_BYTES: u32 = 196_596;

/// Runs it, and notes the statement that it tells about.
pub fn run(core: &mut Core, connection: &Expr, asked: Asked, params: &[Value]) -> SqlResult<Rows> {
    if !is_constant(connection) {
        return Err(errors::set_constants_only());
    }
    let id = id_of(core, connection, params)? as u64;
    let client = core.state.registry.get(id).ok_or_else(|| errors::no_such_thread(id))?;
    if !client.is_own_of(&core.sql) {
        see::require_global(&core.sql, Privileges::PROCESS)?;
    }
    let running = client.running.now().ok_or_else(errors::target_not_explainable)?;
    let (text, nanos) = {
        let activity = client.activity.lock();
        let text = String::from_utf8_lossy(&hidden(&activity.text)).into_owned();
        (text, activity.since.elapsed().as_nanos() as u64)
    };
    let question = Question { analyze: asked.analyze, json: asked.json, nanos };
    let database = core.state.database().clone();
    let mut rows = database.explain_running(&mut core.sql, &running, question)?;
    if !asked.json {
        rows.iter_mut().for_each(|row| as_described(row, asked.analyze));
    }
    core.sql.diagnostics.clear();
    core.sql.note(errors::yes(text));
    Ok(Rows { columns: columns(asked), rows })
}

/// Whether it is a literal.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(_) | Expr::Param(_) => true,
        Expr::Unary { op: UnaryOp::Minus, expr } => matches!(**expr, Expr::Literal(_)),
        _ => false,
    }
}

/// Rows are a number here, and shares have two digits.
fn as_described(row: &mut [Value], analyze: bool) {
    let text = row[ROWS].as_ref().as_bytes().and_then(|text| std::str::from_utf8(text).ok());
    row[ROWS] = text.and_then(|text| text.parse().ok()).map_or(Value::Null, Value::Int);
    let shares = if analyze { ROWS + 2..ROWS + 4 } else { 0..0 };
    for share in &mut row[shares] {
        if let Value::Double(of_hundred) = share {
            let text = format!("{of_hundred:.2}");
            *share = Decimal::parse(text.as_bytes()).map_or(Value::Null, Value::Decimal);
        }
    }
}

/// Where `rows` stands.
const ROWS: usize = 8;

fn columns(asked: Asked) -> Arc<ResultColumns> {
    if asked.json {
        let name = if asked.analyze { "SHOW ANALYZE" } else { "SHOW EXPLAIN" };
        let ty = SqlType { collation: CollationId::UTF8MB3_GENERAL_CI, ..SqlType::new(TypeKind::MediumText) };
        let ty = ty.with_length(JSON_BYTES);
        let column = ColumnMeta { org_name: "EXPLAIN".into(), ..column(name, ty, false) };
        return ResultColumns::new(vec![column]);
    }
    let share = || SqlType::decimal(5, 2);
    let mut all = vec![
        column("id", SqlType::bigint().with_length(3), true),
        column("select_type", varchar(19), false),
        column("table", varchar(64), true),
        column("type", varchar(15), true),
        column("possible_keys", varchar(4096), true),
        column("key", varchar(4096), true),
        column("key_len", varchar(4096), true),
        column("ref", varchar(2048), true),
        column("rows", SqlType::bigint().with_length(10), true),
        column("Extra", varchar(255), false),
    ];
    if asked.analyze {
        all.insert(9, column("r_rows", varchar(64), true));
        all.insert(10, column("filtered", share(), true));
        all.insert(11, column("r_filtered", share(), true));
    }
    ResultColumns::new(all)
}

fn column(name: &str, ty: SqlType, nullable: bool) -> ColumnMeta {
    let none: Arc<str> = "".into();
    ColumnMeta {
        schema: none.clone(),
        table: none.clone(),
        org_table: none,
        name: name.into(),
        org_name: name.into(),
        ty,
        nullable,
        flags: flags::NO_DEFAULT_VALUE,
        length: None,
        is_plain: false,
    }
}
