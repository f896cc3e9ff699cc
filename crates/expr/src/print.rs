//! Text of bound expressions as MariaDB prints them in messages and in EXPLAIN EXTENDED: operators with blanks, function
//! names in lower case, columns as "`db`.`table`.`column`".

use keel_sql::ast::VarScope;
use keel_value::{Value, text};

use super::{BitOp, ColumnRef, Expr, Node, TruthTest};

/// The name of a column that is an aggregate of the grouped row.
pub const AGGREGATE_NAME: &str = "aggregate";

/// The text of an expression.
pub fn text(expr: &Expr) -> String {
    text_of_execution(expr, &[])
}

/// The text of an expression with the values that its parameters have now.
pub fn text_of_execution(expr: &Expr, params: &[Value]) -> String {
    let mut out = Text { text: String::new(), params, plan: None, short: false };
    write(expr, &mut out);
    out.text
}

/// What a plan calls that which an expression knows by number or place alone.
#[derive(Default)]
pub struct PlanNames {
    /// The aggregates of the query.
    pub aggregates: Vec<String>,
    /// Subqueries by the addresses of their plans, with their numbers.
    pub subqueries: Vec<(usize, u64)>,
}

/// The text as plans show it: columns without database, and without quotes where they need none.
pub fn text_in_plan(expr: &Expr, params: &[Value], names: &PlanNames) -> String {
    let mut out = Text { text: String::new(), params, plan: Some(names), short: false };
    write(expr, &mut out);
    out.text
}

/// The text of a value that notes about keys name: columns as "`table`.`column`".
pub fn text_of_lookup(expr: &Expr, params: &[Value]) -> String {
    let mut out = Text { text: String::new(), params, plan: None, short: true };
    write(expr, &mut out);
    out.text
}

/// The text that is being written.
pub struct Text<'p> {
    text: String,
    params: &'p [Value],
    /// It is shown in a plan.
    plan: Option<&'p PlanNames>,
    /// Columns are named without their database.
    short: bool,
}

impl Text<'_> {
    fn push(&mut self, c: char) {
        self.text.push(c);
    }

    /// Appends a text.
    pub fn push_str(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// The names of the plan that the text is shown in, if any.
    pub fn plan(&self) -> Option<&'_ PlanNames> {
        self.plan
    }

    /// Appends an expression as operand, or several as a row.
    pub fn operands(&mut self, operands: &[Expr]) {
        match operands {
            [] => {}
            [one] => operand(one, self),
            several => {
                self.push('(');
                joined(several, ",", self);
                self.push(')');
            }
        }
    }
}

/// The aggregate that a column of the grouped row is.
fn computed(column: &ColumnRef, out: &Text<'_>) -> Option<String> {
    let aggregates = &out.plan?.aggregates;
    aggregates.get(usize::from(column.column)).filter(|_| &*column.name == AGGREGATE_NAME).cloned()
}

/// "`db`.`table`.`column`" as table.column.
fn short_name(name: &str, out: &mut Text<'_>) {
    let parts: Vec<&str> = name.split("`.`").collect();
    for (place, part) in parts.iter().skip(parts.len().saturating_sub(2)).enumerate() {
        if place > 0 {
            out.push('.');
        }
        let bare = part.trim_matches('`');
        let plain = bare.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'$');
        if plain {
            out.push_str(bare);
        } else {
            out.push('`');
            out.push_str(bare);
            out.push('`');
        }
    }
}

/// "`db`.`table`.`column`" without the database.
fn without_database(name: &str, out: &mut Text<'_>) {
    let parts: Vec<&str> = name.split("`.`").collect();
    if parts.len() > 2 {
        out.push('`');
    }
    out.push_str(&parts[parts.len().saturating_sub(2)..].join("`.`"));
}

fn write(expr: &Expr, out: &mut Text<'_>) {
    match &expr.node {
        Node::Constant(value) => constant(value, expr, out),
        Node::Param(index) => match out.params.get(*index as usize) {
            Some(value) => constant(value, expr, out),
            None => out.push('?'),
        },
        Node::Column(column) | Node::Outer { column, .. } if out.plan.is_some() => {
            match computed(column, out) {
                Some(aggregate) => out.push_str(&aggregate),
                None => short_name(&column.name, out),
            }
        }
        Node::Column(column) | Node::Generated(_, column) | Node::Outer { column, .. } if out.short => {
            without_database(&column.name, out);
        }
        Node::Generated(_, column) if out.plan.is_some() => short_name(&column.name, out),
        Node::Column(column) | Node::Generated(_, column) | Node::Outer { column, .. } => {
            out.push_str(&column.name)
        }
        Node::Default(_, column) => {
            out.push_str("default(");
            out.push_str(column);
            out.push(')');
        }
        Node::Once(_, inner)
        | Node::Convert(inner)
        | Node::OneOf(inner, _)
        | Node::Above { expr: inner, .. } => write(inner, out),
        Node::Compare { op, left, right, .. } => binary(left, op.symbol(), right, out),
        Node::And(parts) => joined(parts, " and ", out),
        Node::Or(parts) => joined(parts, " or ", out),
        Node::Xor(a, b) => binary(a, "xor", b, out),
        Node::Not(a) => {
            out.push('!');
            operand(a, out);
        }
        Node::Between { negated, value, low, high, .. } => {
            operand(value, out);
            out.push_str(if *negated { " not between " } else { " between " });
            operand(low, out);
            out.push_str(" and ");
            operand(high, out);
        }
        Node::In { negated, value, list, .. } => {
            operand(value, out);
            out.push_str(if *negated { " not in (" } else { " in (" });
            joined(list, ",", out);
            out.push(')');
        }
        Node::IsNull { negated, value } => {
            operand(value, out);
            out.push_str(if *negated { " is not null" } else { " is null" });
        }
        Node::IsTruth { negated, test, value } => {
            operand(value, out);
            out.push_str(if *negated { " is not " } else { " is " });
            out.push_str(match test {
                TruthTest::True => "true",
                TruthTest::False => "false",
                TruthTest::Unknown => "unknown",
            });
        }
        Node::Arith(op, a, b) => binary(a, op.symbol(), b, out),
        Node::Negate(a) => {
            out.push('-');
            operand(a, out);
        }
        Node::BitNot(a) => {
            out.push('~');
            operand(a, out);
        }
        Node::Bits(op, a, b) => {
            let symbol = match op {
                BitOp::Or => "|",
                BitOp::And => "&",
                BitOp::Xor => "^",
                BitOp::ShiftLeft => "<<",
                BitOp::ShiftRight => ">>",
            };
            binary(a, symbol, b, out);
        }
        Node::Case { whens, otherwise } => {
            out.push_str("case");
            for (condition, value) in whens {
                out.push_str(" when ");
                write(condition, out);
                out.push_str(" then ");
                write(value, out);
            }
            if let Some(value) = otherwise {
                out.push_str(" else ");
                write(value, out);
            }
            out.push_str(" end");
        }
        Node::Coalesce(args) => {
            out.push_str("coalesce(");
            joined(args, ",", out);
            out.push(')');
        }
        Node::Like { negated, value, pattern, .. } => {
            operand(value, out);
            out.push_str(if *negated { " not like " } else { " like " });
            operand(pattern, out);
        }
        // It stands for its argument.
        Node::Call(function, args) if matches!(function.name, "compared_year" | "converted_early") => {
            write(&args[0], out);
        }
        Node::Call(function, args) => {
            let name = if out.short && function.name == "now" { "current_timestamp" } else { function.name };
            out.push_str(name);
            out.push('(');
            joined(crate::func::written_args(function, args), ",", out);
            out.push(')');
        }
        Node::Cast(a) => {
            out.push_str("cast(");
            write(a, out);
            out.push_str(" as ");
            out.push_str(&cast_name(expr));
            out.push(')');
        }
        Node::Collate(a) => {
            write(a, out);
            out.push_str(" collate ");
            out.push_str(expr.ty.collation.name());
        }
        Node::DateArith { date, amount, unit, subtract } => {
            write(date, out);
            out.push_str(if *subtract { " - interval " } else { " + interval " });
            write(amount, out);
            out.push(' ');
            out.push_str(crate::func::datetime::unit_name(*unit));
        }
        Node::UserVar(name, _) => {
            out.push_str("@`");
            out.push_str(name);
            out.push('`');
        }
        Node::AssignUserVar(name, value) => {
            out.push_str("@`");
            out.push_str(name);
            out.push_str("`:=");
            write(value, out);
        }
        Node::SysVar(scope, name) => {
            out.push_str(if *scope == VarScope::Global { "@@global." } else { "@@" });
            out.push_str(name);
        }
        Node::Routine(routine) => routine.print(out),
        Node::Row(parts) => {
            out.push('(');
            joined(parts, ",", out);
            out.push(')');
        }
        Node::Aggregate(_) => out.push_str("aggregate()"),
        Node::Window(_) => out.push_str("window()"),
    }
}

fn cast_name(expr: &Expr) -> String {
    use keel_value::types::Class;
    match expr.ty.class() {
        Class::Int if expr.ty.unsigned => "unsigned".into(),
        Class::Int => "signed".into(),
        Class::String if expr.ty.is_text() => format!("char charset {}", expr.ty.collation.charset().name()),
        Class::String => "char charset binary".into(),
        _ => expr.ty.sql_name(),
    }
}

fn constant(value: &Value, expr: &Expr, out: &mut Text<'_>) {
    match value {
        Value::Null => out.push_str("NULL"),
        Value::Bytes(bytes) => {
            out.push('\'');
            out.push_str(&String::from_utf8_lossy(bytes).replace('\'', "\\'"));
            out.push('\'');
        }
        other => {
            let mut bytes = Vec::new();
            text::append(&mut bytes, &expr.ty, other.as_ref());
            let text = String::from_utf8_lossy(&bytes);
            match literal_word(other) {
                Some(word) => out.push_str(&format!("{word}'{text}'")),
                None => out.push_str(&text),
            }
        }
    }
}

/// What stands before the text of a temporal literal.
fn literal_word(value: &Value) -> Option<&'static str> {
    match value {
        Value::Date(_) => Some("DATE"),
        Value::Time(_) => Some("TIME"),
        Value::DateTime(_) => Some("TIMESTAMP"),
        _ => None,
    }
}

fn binary(a: &Expr, symbol: &str, b: &Expr, out: &mut Text<'_>) {
    operand(a, out);
    out.push(' ');
    out.push_str(symbol);
    out.push(' ');
    operand(b, out);
}

/// An operand, in parentheses where it is an operation itself.
fn operand(expr: &Expr, out: &mut Text<'_>) {
    let nested = matches!(
        &expr.node,
        Node::And(_)
            | Node::Or(_)
            | Node::OneOf(..)
            | Node::Xor(..)
            | Node::Compare { .. }
            | Node::Arith(..)
            | Node::Bits(..)
    );
    if nested {
        out.push('(');
    }
    write(expr, out);
    if nested {
        out.push(')');
    }
}

fn joined(parts: &[Expr], separator: &str, out: &mut Text<'_>) {
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            out.push_str(separator);
        }
        operand(part, out);
    }
}
