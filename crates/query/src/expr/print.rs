//! Text of bound expressions as MariaDB prints them in messages and in EXPLAIN EXTENDED: operators with blanks, function
//! names in lower case, columns as "`db`.`table`.`column`".

use keel_sql::ast::VarScope;
use keel_value::{Value, text};

use super::{BitOp, Expr, Node, TruthTest};

/// The text of an expression.
pub fn text(expr: &Expr) -> String {
    text_of_execution(expr, &[])
}

/// The text of an expression with the values that its parameters have now.
pub fn text_of_execution(expr: &Expr, params: &[Value]) -> String {
    let mut out = Text { text: String::new(), params };
    write(expr, &mut out);
    out.text
}

/// Text in the making.
struct Text<'p> {
    text: String,
    params: &'p [Value],
}

impl Text<'_> {
    fn push(&mut self, c: char) {
        self.text.push(c);
    }

    fn push_str(&mut self, text: &str) {
        self.text.push_str(text);
    }
}

fn write(expr: &Expr, out: &mut Text<'_>) {
    match &expr.node {
        Node::Constant(value) => constant(value, expr, out),
        Node::Param(index) => match out.params.get(*index as usize) {
            Some(value) => constant(value, expr, out),
            None => out.push('?'),
        },
        Node::Column(column) | Node::Generated(_, column) | Node::Outer { column, .. } => {
            out.push_str(&column.name)
        }
        Node::Once(_, inner) | Node::Convert(inner) => write(inner, out),
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
        Node::Call(function, args) => {
            out.push_str(function.name);
            out.push('(');
            joined(args, ",", out);
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
        Node::Subquery(_) => out.push_str("(subquery)"),
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
            out.push_str(&String::from_utf8_lossy(&bytes));
        }
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
        Node::And(_) | Node::Or(_) | Node::Xor(..) | Node::Compare { .. } | Node::Arith(..) | Node::Bits(..)
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
