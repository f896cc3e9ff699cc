//! XPath over a document.

use std::cmp::Ordering;

use super::document::{Document, Kind};
use super::path::{Axis, Expr, Operator};

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nodes, with their place among those that came with them.
    Nodes(Vec<Item>),
    /// A number.
    Number(f64),
    /// A text.
    Text(Vec<u8>),
    /// Nothing.
    Null,
}

/// A node of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// The node.
    pub node: usize,
    /// Its place, from 1.
    place: usize,
    /// How many there are.
    count: usize,
}

/// What surrounds an evaluation.
pub trait Surroundings {
    /// Why it ends before its time.
    type Stop;
    /// Compares two texts.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;
    /// Whether the first text has the second within.
    fn contains(&self, a: &[u8], b: &[u8]) -> bool;
    /// The value of a variable.
    fn variable(&self, name: &str) -> Value;
    /// The number that a text begins with; warns of what is none, where it should be of a kind: a DOUBLE or an INTEGER.
    fn number(&mut self, text: &[u8], kind: Option<&'static str>) -> Result<f64, Self::Stop>;
    /// Warns of a division by zero.
    fn divided_by_zero(&mut self) -> Result<(), Self::Stop>;
    /// Called now and then.
    fn breathe(&mut self) -> Result<(), Self::Stop>;
}

/// Nodes looked at between two breaths.
const NODES_PER_BREATH: usize = 4096;

/// Evaluates paths over one document.
pub struct Evaluator<'d, 't, S> {
    /// The document.
    pub document: &'d Document<'t>,
    /// What is around.
    pub around: S,
    looked_at: usize,
}

type Outcome<T, S> = Result<T, <S as Surroundings>::Stop>;

impl<'d, 't, S: Surroundings> Evaluator<'d, 't, S> {
    /// Over a document.
    pub fn new(document: &'d Document<'t>, around: S) -> Self {
        Evaluator { document, around, looked_at: 0 }
    }

    /// The value of a path for the whole document.
    pub fn value(&mut self, expr: &Expr) -> Outcome<Value, S> {
        self.eval(expr, Item { node: 0, place: 1, count: 1 })
    }

    /// A value as text: of nodes, what stands directly within them.
    pub fn text(&self, value: Value) -> Option<Vec<u8>> {
        match value {
            Value::Nodes(items) => Some(self.document.text_of(&numbers(&items))),
            Value::Number(number) => Some(shown(number).into_bytes()),
            Value::Text(text) => Some(text),
            Value::Null => None,
        }
    }

    fn eval(&mut self, expr: &Expr, context: Item) -> Outcome<Value, S> {
        Ok(match expr {
            Expr::Number(number, _) => Value::Number(*number),
            Expr::Text(text) => Value::Text(text.clone()),
            Expr::Variable(name) => self.around.variable(name),
            Expr::Negative(value) => match self.number(value, context)? {
                Some(number) => Value::Number(-number),
                None => Value::Null,
            },
            Expr::Binary(operator, left, right) => self.binary(*operator, left, right, context)?,
            Expr::Call(name, args) => self.call(name, args, context)?,
            nodes => Value::Nodes(self.nodes(nodes, context)?),
        })
    }

    fn nodes(&mut self, expr: &Expr, context: Item) -> Outcome<Vec<Item>, S> {
        Ok(match expr {
            Expr::Root => vec![Item { node: 0, place: 1, count: 1 }],
            Expr::Context => vec![context],
            Expr::Step(from, axis, name) => {
                let from = self.nodes(from, context)?;
                self.step(&from, *axis, name.as_deref())?
            }
            Expr::Filter(nodes, condition) => {
                let nodes = self.nodes(nodes, context)?;
                self.filter(nodes, condition)?
            }
            Expr::Union(left, right) => {
                let mut all = self.nodes(left, context)?;
                all.extend(self.nodes(right, context)?);
                all.sort_by_key(|item| item.node);
                all.dedup_by_key(|item| item.node);
                numbered(all)
            }
            _ => Vec::new(),
        })
    }

    fn step(&mut self, from: &[Item], axis: Axis, name: Option<&[u8]>) -> Outcome<Vec<Item>, S> {
        let mut found: Vec<Item> = Vec::new();
        let mut seen = vec![false; self.document.nodes.len()];
        for item in from {
            let group: Vec<usize> = self.along(item.node, axis, name)?;
            let count = group.len();
            for (place, node) in group.into_iter().enumerate() {
                if !std::mem::replace(&mut seen[node], true) {
                    found.push(Item { node, place: place + 1, count });
                }
            }
        }
        Ok(found)
    }

    /// The nodes along an axis from one node.
    fn along(&mut self, from: usize, axis: Axis, name: Option<&[u8]>) -> Outcome<Vec<usize>, S> {
        let document = self.document;
        let nodes = &document.nodes;
        let within = || (from + 1..nodes.len()).take_while(|n| nodes[*n].level > nodes[from].level);
        let around = || {
            let up = |node: &usize| (nodes[*node].level > 0).then(|| nodes[*node].parent);
            std::iter::successors(up(&from), move |node| up(node))
        };
        let kind = if axis == Axis::Attribute { Kind::Attribute } else { Kind::Element };
        let candidates: Vec<usize> = match axis {
            Axis::Child | Axis::Attribute => within().filter(|n| nodes[*n].parent == from).collect(),
            Axis::Descendant => within().collect(),
            Axis::DescendantOrSelf => std::iter::once(from).chain(within()).collect(),
            Axis::Parent => around().take(1).collect(),
            Axis::Ancestor => around().filter(|node| *node > 0).collect(),
            Axis::AncestorOrSelf => std::iter::once(from).chain(around().filter(|node| *node > 0)).collect(),
            Axis::Itself => vec![from],
            Axis::Nothing => Vec::new(),
        };
        self.looked_at += candidates.len() + 1;
        if self.looked_at >= NODES_PER_BREATH {
            self.looked_at = 0;
            self.around.breathe()?;
        }
        let fits = |n: &usize| nodes[*n].kind == kind && name.is_none_or(|name| document.name(*n) == name);
        Ok(candidates.into_iter().filter(fits).collect())
    }

    fn filter(&mut self, nodes: Vec<Item>, condition: &Expr) -> Outcome<Vec<Item>, S> {
        let mut kept = Vec::new();
        for item in nodes {
            let holds = match condition {
                nodes if nodes.is_nodes() => !self.nodes(nodes, item)?.is_empty(),
                test if is_test(test) => self.holds(test, item)?,
                place => match self.eval(place, item)? {
                    Value::Text(text) => {
                        self.around.number(&text, Some("INTEGER"))?.round() == item.place as f64
                    }
                    Value::Number(number) => number.round() == item.place as f64,
                    _ => false,
                },
            };
            if holds {
                kept.push(item);
            }
        }
        Ok(numbered(kept))
    }

    fn holds(&mut self, expr: &Expr, context: Item) -> Outcome<bool, S> {
        Ok(match self.eval(expr, context)? {
            Value::Nodes(items) => !items.is_empty(),
            Value::Number(number) => number != 0.0,
            Value::Text(text) => self.around.number(&text, Some("DOUBLE"))? != 0.0,
            Value::Null => false,
        })
    }

    fn number(&mut self, expr: &Expr, context: Item) -> Outcome<Option<f64>, S> {
        let value = self.eval(expr, context)?;
        match value {
            Value::Number(number) => Ok(Some(number)),
            other => match self.text(other) {
                Some(text) => self.around.number(&text, Some("DOUBLE")).map(Some),
                None => Ok(None),
            },
        }
    }

    fn binary(&mut self, operator: Operator, left: &Expr, right: &Expr, context: Item) -> Outcome<Value, S> {
        use Operator as O;
        match operator {
            O::Or => return Ok(truth(self.holds(left, context)? || self.holds(right, context)?)),
            O::And => return Ok(truth(self.holds(left, context)? && self.holds(right, context)?)),
            O::Eq | O::Ne | O::Lt | O::Le | O::Gt | O::Ge => {
                return self.comparison(operator, left, right, context);
            }
            _ => {}
        }
        let (Some(a), Some(b)) = (self.number(left, context)?, self.number(right, context)?) else {
            return Ok(Value::Null);
        };
        if matches!(operator, O::Divide | O::Modulo) && b == 0.0 {
            self.around.divided_by_zero()?;
            return Ok(Value::Null);
        }
        Ok(Value::Number(match operator {
            O::Add => a + b,
            O::Subtract => a - b,
            O::Multiply => a * b,
            O::Divide => (a / b).trunc(),
            _ => a % b,
        }))
    }

    fn comparison(
        &mut self,
        operator: Operator,
        left: &Expr,
        right: &Expr,
        context: Item,
    ) -> Outcome<Value, S> {
        let (a, b) = (self.eval(left, context)?, self.eval(right, context)?);
        // Nodes compare if a text directly within one of them does.
        let texts =
            |items: &[Item]| -> Vec<Value> {
                let found = numbers(items);
                let document = self.document;
                let texts =
                    document.nodes.iter().enumerate().skip(1).filter(|(_, node)| {
                        node.kind == Kind::Text && found.binary_search(&node.parent).is_ok()
                    });
                texts.map(|(place, _)| Value::Text(document.name(place).to_vec())).collect()
            };
        let (lefts, rights) = match (&a, &b) {
            (Value::Nodes(items), _) => (texts(items), vec![b]),
            (_, Value::Nodes(items)) => (vec![a.clone()], texts(items)),
            _ => (vec![a], vec![b]),
        };
        for a in &lefts {
            for b in &rights {
                let ordering = self.order(a, b)?;
                if ordering.is_some_and(|ordering| fits(operator, ordering)) {
                    return Ok(truth(true));
                }
            }
        }
        Ok(truth(false))
    }

    fn order(&mut self, a: &Value, b: &Value) -> Outcome<Option<Ordering>, S> {
        if let (Value::Text(a), Value::Text(b)) = (a, b) {
            return Ok(Some(self.around.compare(a, b)));
        }
        let mut number = |value: &Value| -> Outcome<Option<f64>, S> {
            match value {
                Value::Number(number) => Ok(Some(*number)),
                Value::Text(text) => self.around.number(text, Some("DOUBLE")).map(Some),
                _ => Ok(None),
            }
        };
        let (a, b) = (number(a)?, number(b)?);
        Ok(a.zip(b).and_then(|(a, b)| a.partial_cmp(&b)))
    }

    fn call(&mut self, name: &str, args: &[Expr], context: Item) -> Outcome<Value, S> {
        Ok(match name {
            "true" => truth(true),
            "false" => truth(false),
            "position" => Value::Number(context.place as f64),
            "last" => Value::Number(context.count as f64),
            "count" => Value::Number(self.nodes(&args[0], context)?.len() as f64),
            "sum" => self.sum(&args[0], context)?,
            "not" => truth(!self.holds(&args[0], context)?),
            "boolean" => truth(self.holds(&args[0], context)?),
            "contains" => {
                let (Some(a), Some(b)) = (self.string(&args[0], context)?, self.string(&args[1], context)?)
                else {
                    return Ok(Value::Null);
                };
                truth(self.around.contains(&a, &b))
            }
            "concat" => {
                let (Some(mut a), Some(b)) =
                    (self.string(&args[0], context)?, self.string(&args[1], context)?)
                else {
                    return Ok(Value::Null);
                };
                a.extend_from_slice(&b);
                Value::Text(a)
            }
            "substring" => self.substring(args, context)?,
            "string-length" => {
                let of = args.first().unwrap_or(&Expr::Context);
                let text = self.string(of, context)?;
                text.map_or(Value::Null, |text| {
                    Value::Number(String::from_utf8_lossy(&text).chars().count() as f64)
                })
            }
            _ => match self.number(&args[0], context)? {
                None => Value::Null,
                Some(number) => Value::Number(match name {
                    "floor" => number.floor(),
                    "ceiling" => number.ceil(),
                    "round" => number.round(),
                    _ => number,
                }),
            },
        })
    }

    fn string(&mut self, expr: &Expr, context: Item) -> Outcome<Option<Vec<u8>>, S> {
        let value = self.eval(expr, context)?;
        Ok(self.text(value))
    }

    fn sum(&mut self, nodes: &Expr, context: Item) -> Outcome<Value, S> {
        let found = numbers(&self.nodes(nodes, context)?);
        let document = self.document;
        let mut sum = 0.0;
        for (place, node) in document.nodes.iter().enumerate().skip(1) {
            if node.kind == Kind::Text && found.binary_search(&node.parent).is_ok() {
                sum += self.around.number(document.name(place), None)?;
            }
        }
        Ok(Value::Number(sum))
    }

    fn substring(&mut self, args: &[Expr], context: Item) -> Outcome<Value, S> {
        let Some(text) = self.string(&args[0], context)? else { return Ok(Value::Null) };
        let Some(from) = self.number(&args[1], context)? else { return Ok(Value::Null) };
        let count = match args.get(2) {
            None => f64::MAX,
            Some(count) => match self.number(count, context)? {
                Some(count) => count,
                None => return Ok(Value::Null),
            },
        };
        let text = String::from_utf8_lossy(&text);
        let length = text.chars().count() as f64;
        let from = from.round();
        let start = if from < 0.0 { length + from } else { from - 1.0 };
        if start < 0.0 || count < 1.0 {
            return Ok(Value::Text(Vec::new()));
        }
        let part: String = text.chars().skip(start as usize).take(count.round() as usize).collect();
        Ok(Value::Text(part.into_bytes()))
    }
}

/// The nodes of a set in the order of the text.
pub fn numbers(items: &[Item]) -> Vec<usize> {
    let mut nodes: Vec<usize> = items.iter().map(|item| item.node).collect();
    nodes.sort_unstable();
    nodes
}

fn numbered(mut items: Vec<Item>) -> Vec<Item> {
    let count = items.len();
    items.iter_mut().enumerate().for_each(|(place, item)| (item.place, item.count) = (place + 1, count));
    items
}

fn truth(holds: bool) -> Value {
    Value::Number(f64::from(u8::from(holds)))
}

fn fits(operator: Operator, ordering: Ordering) -> bool {
    match operator {
        Operator::Eq => ordering.is_eq(),
        Operator::Ne => ordering.is_ne(),
        Operator::Lt => ordering.is_lt(),
        Operator::Le => ordering.is_le(),
        Operator::Gt => ordering.is_gt(),
        _ => ordering.is_ge(),
    }
}

/// Whether an expression is true or false, not a place.
fn is_test(expr: &Expr) -> bool {
    use Operator as O;
    match expr {
        Expr::Binary(operator, ..) => {
            !matches!(operator, O::Add | O::Subtract | O::Multiply | O::Divide | O::Modulo)
        }
        Expr::Call(name, _) => matches!(*name, "not" | "true" | "false" | "boolean" | "contains"),
        _ => false,
    }
}

/// A number with fifteen digits at most.
fn shown(number: f64) -> String {
    if number == number.trunc() && number.abs() < 1e15 {
        return format!("{}", number as i64);
    }
    let rounded: f64 = format!("{number:.14e}").parse().unwrap_or(number);
    format!("{rounded}")
}
