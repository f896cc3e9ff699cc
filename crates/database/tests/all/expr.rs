//! Expressions give MariaDB 10.11's values, types, lengths and errors: `data/expressions.txt` holds what it answered to
//! `SELECT expression` under `timestamp=1700000000.123456`, `time_zone='+00:00'` and utf8mb4.

use std::sync::Arc;

use keel_catalog::Catalog;
use keel_catalog::TableDef;
use keel_exec::Executor;
use keel_exec::Host;
use keel_exec::Server;
use keel_exec::Session;
use keel_exec::SqlResult;
use keel_exec::WorkMemory;
use keel_expr::EvalContext;
use keel_expr::Frame;
use keel_expr::frame::once_cells;
use keel_planner::bind::BindContext;
use keel_planner::bind::Binder;
use keel_planner::bind::Clause;
use keel_planner::bind::ParamSource;
use keel_sql::ast::{QueryBody, SelectItem, Statement, VarScope};
use keel_sql::{ParseOptions, parse};
use keel_value::{CollationId, Value, text};

#[derive(Default)]
struct Alone(WorkMemory);

impl keel_exec::Place for Alone {
    fn work_memory(&self) -> &WorkMemory {
        &self.0
    }
}

impl Server for Alone {
    fn system_variable(&self, executor: &dyn Executor, _: VarScope, name: &str) -> SqlResult<Value> {
        match name {
            "autocommit" => Ok(Value::Int(i64::from(executor.env().vars.autocommit))),
            "max_connections" => Ok(Value::UInt(151)),
            _ => Err(keel_base::errors::unknown_system_variable(name)),
        }
    }

    fn user_locks(&self) -> Arc<keel_context::user_locks::UserLocks> {
        Arc::default()
    }

    fn version(&self) -> String {
        "10.11.19-Keel".into()
    }
}

impl Host for Alone {
    fn virtual_table(&self, _: &str, _: &str) -> Option<Arc<TableDef>> {
        None
    }

    fn virtual_rows(
        &self,
        _: &Session,
        _: &TableDef,
        _: &[(usize, Value)],
        _: Option<&[bool]>,
    ) -> SqlResult<Vec<Vec<Value>>> {
        Ok(Vec::new())
    }

    fn virtual_names(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}

/// What one expression gives, in the form of the golden file.
fn answer(session: &mut Session, expression: &str) -> SqlResult<String> {
    session.start_statement();
    session.diagnostics.clear();
    let sql = format!("SELECT {expression}");
    let parsed = parse(sql.as_bytes(), &ParseOptions::default())?;
    let Statement::Query(query) = parsed.statement else { panic!("{sql} is no query") };
    let QueryBody::Select(select) = &query.body else { panic!("{sql} is no SELECT") };
    let SelectItem::Expr { expr: tree, .. } = &select.items[0] else { panic!("{sql} has no expression") };
    let catalog = Catalog::default();
    let cx = BindContext {
        catalog: &catalog,
        session,
        params: ParamSource::default(),
        assigned: &[],
        counting: None,
    };
    let mut binder = Binder::new(cx);
    let bound = binder.bind(tree, Clause::Fields)?;
    let once = once_cells(binder.once_count());
    let mut context = EvalContext::new(session, Frame { once: &once, ..Frame::EMPTY });
    let value = bound.eval(&mut context)?.into_value();
    let mut shown = Vec::new();
    if value.is_null() {
        shown.extend_from_slice(b"NULL");
    } else {
        text::append(&mut shown, &bound.ty, value.as_ref());
    }
    let shown = match String::from_utf8(shown) {
        Ok(text) => {
            text.replace('\\', "\\\\").replace('\n', "\\n").replace('\0', "\\0").replace('\x1a', "\\Z")
        }
        Err(bytes) => format!("x{}", bytes.as_bytes().iter().map(|b| format!("{b:02x}")).collect::<String>()),
    };
    let ty = &bound.ty;
    let warnings = match session.diagnostics.warning_count {
        0 => String::new(),
        n => format!(" w{n}"),
    };
    Ok(format!(
        "{shown}\t{}({}){}{warnings}",
        type_name(ty.wire_type()),
        ty.wire_length(CollationId::UTF8MB4_GENERAL_CI),
        if bound.nullable { "" } else { " NN" },
    ))
}

fn type_name(code: u8) -> &'static str {
    match code {
        1 => "TINY",
        2 => "SHORT",
        3 => "LONG",
        4 => "FLOAT",
        5 => "DOUBLE",
        6 => "NULL",
        7 => "TIMESTAMP",
        8 => "LONGLONG",
        9 => "INT24",
        10 => "DATE",
        11 => "TIME",
        12 => "DATETIME",
        13 => "YEAR",
        246 => "NEWDECIMAL",
        252 => "BLOB",
        253 => "VAR_STRING",
        254 => "STRING",
        _ => "?",
    }
}

#[test]
fn expressions_answer_as_mariadb_does() {
    let mut session = Session::new(1, "root", "localhost", Arc::new(Alone::default()));
    session.vars.timestamp = Some(1_700_000_000_123_456);
    let golden = include_str!("../data/expressions.txt");
    let mut wrong = Vec::new();
    for line in golden.lines().filter(|l| !l.starts_with('#') && !l.is_empty()) {
        let (expression, expected) = line.split_once('\t').expect("expression, tab, answer");
        let given = match answer(&mut session, expression) {
            Ok(given) => given,
            Err(error) => format!("ERROR {} {}", error.code, error.message),
        };
        if given != expected.trim_end() {
            wrong.push(format!("{expression}\n   MariaDB {expected}\n   Keel    {given}"));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
