//! EXTRACTVALUE and UPDATEXML.

use std::cmp::Ordering;

use keel_base::{SqlError, SqlResult, errors};
use keel_context::stack::with_room;
use keel_value::{CollationId, SqlType, Value, collation, convert};

use super::string::too_long;
use super::{Function, function, given, text_value, unify};
use crate::typing::string_type;
use crate::{Env, EvalContext, Expr, Node};
use keel_document::xml::document::{self, Document};
use keel_document::xml::eval::{self, Evaluator, Surroundings};
use keel_document::xml::path;

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!(volatile "extractvalue", 2, 2, xml_type, extract_value),
    function!(volatile "updatexml", 3, 3, xml_type, update_xml),
];

/// Octets that MariaDB announces.
const OCTETS: u64 = 16 << 20;
/// Bytes of a path that an error shows.
const SHOWN_BYTES: usize = 128;

fn xml_type(cx: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    if !args[1].is_constant() {
        return Err(errors::unknown_error("Only constant XPATH queries are supported"));
    }
    let count = args.len();
    let collation = unify(cx, args, 0..count, "extractvalue")?;
    if let Node::Constant(Value::Bytes(text)) = &args[1].node {
        path_of(text)?;
    }
    Ok((string_type(OCTETS / u64::from(collation.charset().max_bytes()), collation), true))
}

/// Reads a path; a bad one is an error, not a warning.
fn path_of(text: &[u8]) -> SqlResult<path::Expr> {
    with_room(path::STACK_BYTES, || Ok(path::parse(text)))?.map_err(|fault| {
        let (what, from) = match fault {
            path::Fault::Syntax(from) => ("XPATH syntax error", from),
            path::Fault::TwoNodesets(from) => {
                ("XPATH error: comparison of two nodesets is not supported", from)
            }
            path::Fault::Variable(from) => ("Unknown XPATH variable at", from),
        };
        let rest = &text[from..text.len().min(from + SHOWN_BYTES)];
        errors::unknown_error(format!("{what}: '{}'", String::from_utf8_lossy(rest)))
    })
}

/// Reads a document; a bad one is a warning.
fn document_of<'t>(text: &'t [u8], cx: &mut EvalContext<'_, '_>) -> SqlResult<Option<Document<'t>>> {
    match Document::parse(text) {
        Ok(document) => Ok(Some(document)),
        Err(fault) => {
            cx.warn(wrong_value(text, &fault))?;
            Ok(None)
        }
    }
}

fn wrong_value(text: &[u8], fault: &document::Fault) -> SqlError {
    let before = &text[..text.len().min(fault.offset - 1)];
    let line = before.iter().filter(|b| **b == b'\n').count() + 1;
    // A line begins with the end of the one before.
    let column = fault.offset - before.iter().rposition(|b| *b == b'\n').unwrap_or(0);
    errors::wrong_value("XML", format!("parse error at line {line} pos {column}: {}", fault.what))
}

/// What a path finds its texts and variables in.
struct Around<'c, 's, 'f> {
    cx: &'c mut EvalContext<'s, 'f>,
    collation: CollationId,
}

impl Surroundings for Around<'_, '_, '_> {
    type Stop = SqlError;

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        collation::compare(self.collation, a, b)
    }

    fn contains(&self, a: &[u8], b: &[u8]) -> bool {
        super::search::has(self.collation, a, b)
    }

    fn variable(&self, name: &str) -> eval::Value {
        let Some(variable) = self.cx.env().user_variables.get(name) else { return eval::Value::Null };
        match &variable.value {
            Value::Null => eval::Value::Null,
            Value::Int(n) => eval::Value::Number(*n as f64),
            Value::UInt(n) => eval::Value::Number(*n as f64),
            Value::Double(n) => eval::Value::Number(*n),
            other => {
                let mut text = Vec::new();
                convert::to_text(other.as_ref(), &variable.ty, &mut text);
                eval::Value::Text(text)
            }
        }
    }

    fn number(&mut self, text: &[u8], kind: Option<&'static str>) -> SqlResult<f64> {
        let number = convert::read_number(text);
        let is_one = !number.text.is_empty() && number.rest.trim_ascii().is_empty();
        if let Some(kind) = kind.filter(|_| !is_one) {
            self.cx.warn(errors::truncated_wrong_value(kind, String::from_utf8_lossy(text)))?;
        }
        Ok(std::str::from_utf8(number.text).ok().and_then(|text| text.parse().ok()).unwrap_or(0.0))
    }

    fn divided_by_zero(&mut self) -> SqlResult<()> {
        self.cx.warn(errors::division_by_zero())
    }

    fn breathe(&mut self) -> SqlResult<()> {
        self.cx.env().check_interrupt()
    }
}

/// The text that a path finds.
fn extract_value<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let path = path_of(&given!(args[1].text(cx)?))?;
    let text = given!(args[0].text(cx)?);
    let document = given!(document_of(&text, cx)?);
    let mut evaluator = Evaluator::new(&document, Around { cx, collation: ty.collation });
    let value = evaluator.value(&path)?;
    Ok(evaluator.text(value).map_or(Value::Null, text_value))
}

/// The text with another in the place of the only node that a path finds.
fn update_xml<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let path = path_of(&given!(args[1].text(cx)?))?;
    let text = given!(args[0].text(cx)?);
    let new = given!(args[2].text(cx)?);
    let document = given!(document_of(&text, cx)?);
    let value = Evaluator::new(&document, Around { cx: &mut *cx, collation: ty.collation }).value(&path)?;
    let eval::Value::Nodes(items) = value else { return Ok(Value::Null) };
    let [node] = *eval::numbers(&items) else { return Ok(text_value(&*text)) };
    let whole = document.nodes[node].whole.clone();
    if too_long("updatexml", (text.len() - whole.len() + new.len()) as u64, cx)? {
        return Ok(Value::Null);
    }
    Ok(text_value([&text[..whole.start], &new[..], &text[whole.end..]].concat()))
}
