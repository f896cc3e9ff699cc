//! A statement as text with holes, so that it can be made smaller by somebody who knows no SQL.
//!
//! What must stay together for the answer to be determined (the keys of a group, the order of a window) is plain text. What a
//! reduction breaks all the same is refused by both servers alike, and so no longer differs.

use std::collections::HashMap;

/// What may stand in a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An expression of any type.
    Value,
    /// A condition.
    Condition,
    /// A query without parentheses.
    Query,
    /// A value that an aggregate takes, which may not stand in the aggregate's place: a group has no such value.
    Argument,
}

/// A piece of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Stays as it is.
    Text(String),
    /// May be replaced by a smaller piece of the same kind, or by a constant.
    Hole(Kind, Node),
    /// Stays, though it has holes inside.
    Fixed(Node),
    /// May go.
    Optional(Node),
    /// Items with commas; one may go, and with it the one at the same place of each list with the same number, if that is not 0.
    List(u32, Vec<Node>),
    /// `1, 2, ...`: as many as the list with that number has items.
    Positions(u32),
    /// The WHERE by which a query is parted.
    Predicate(Node),
}

/// A piece of a statement with its pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// In the order of their text.
    pub parts: Vec<Part>,
}

/// Which rows the [`Part::Predicate`] keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// All: there is no WHERE.
    All,
    /// Those for which it is true.
    True,
    /// Those for which it is false.
    False,
    /// Those for which it is NULL.
    Null,
}

impl Node {
    /// Text without holes.
    pub fn text(text: impl Into<String>) -> Node {
        Node { parts: vec![Part::Text(text.into())] }
    }

    /// Puts `holes` where `template` has a `#`.
    pub fn fill(template: &str, holes: Vec<(Kind, Node)>) -> Node {
        let mut node = Node::default();
        let mut texts = template.split('#');
        node.push(texts.next().unwrap_or_default());
        for (text, (kind, hole)) in texts.zip(holes) {
            node.parts.push(Part::Hole(kind, hole));
            node.push(text);
        }
        node
    }

    /// Adds text at the end.
    pub fn push(&mut self, text: &str) {
        if !text.is_empty() {
            self.parts.push(Part::Text(text.to_string()));
        }
    }

    /// The statement.
    pub fn sql(&self) -> String {
        self.part_sql(Keep::True)
    }

    /// The statement with the rows of one partition.
    pub fn part_sql(&self, keep: Keep) -> String {
        let mut counts = HashMap::new();
        self.count_lists(&mut counts);
        let mut out = String::new();
        self.render(keep, &counts, &mut out);
        out
    }

    /// Whether the rows of the whole statement come in an order.
    pub fn is_ordered(&self) -> bool {
        let orders = |part: &Part| matches!(part, Part::Positions(_));
        self.parts.iter().any(|part| match part {
            Part::Optional(node) => node.parts.iter().any(orders),
            part => orders(part),
        })
    }

    fn count_lists(&self, counts: &mut HashMap<u32, usize>) {
        for part in &self.parts {
            if let Part::List(group, items) = part {
                counts.entry(*group).or_insert(items.len());
            }
            part.children().for_each(|node| node.count_lists(counts));
        }
    }

    fn render(&self, keep: Keep, counts: &HashMap<u32, usize>, out: &mut String) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Hole(_, node) | Part::Fixed(node) | Part::Optional(node) => {
                    node.render(keep, counts, out)
                }
                Part::List(_, items) => {
                    for (index, item) in items.iter().enumerate() {
                        out.push_str(if index == 0 { "" } else { ", " });
                        item.render(keep, counts, out);
                    }
                }
                Part::Positions(group) => {
                    let count = counts.get(group).copied().unwrap_or(1);
                    let numbers: Vec<String> = (1..=count).map(|number| number.to_string()).collect();
                    out.push_str(&numbers.join(", "));
                }
                Part::Predicate(_) if keep == Keep::All => {}
                Part::Predicate(node) => {
                    out.push_str(if keep == Keep::False { " WHERE NOT (" } else { " WHERE (" });
                    node.render(keep, counts, out);
                    out.push_str(if keep == Keep::Null { ") IS NULL" } else { ")" });
                }
            }
        }
    }

    /// All statements that are one step smaller, those that lose most first.
    pub fn smaller(&self) -> Vec<Node> {
        let mut found = Vec::new();
        for (index, part) in self.parts.iter().enumerate() {
            let mut put = |parts: Vec<Part>| {
                let mut node = self.clone();
                node.parts.splice(index..=index, parts);
                found.push(node);
            };
            match part {
                Part::Optional(_) => put(Vec::new()),
                Part::Hole(kind, node) => {
                    node.replacements(*kind).into_iter().for_each(|node| put(vec![Part::Hole(*kind, node)]));
                }
                Part::Predicate(node) => {
                    let smaller = node.replacements(Kind::Condition);
                    smaller.into_iter().for_each(|node| put(vec![Part::Predicate(node)]));
                }
                Part::List(group, items) if items.len() > 1 => {
                    for item in 0..items.len() {
                        let mut node = self.clone();
                        match group {
                            0 => node.drop_at(index, item),
                            group => node.drop_item(*group, item),
                        }
                        found.push(node);
                    }
                }
                _ => {}
            }
        }
        for (index, part) in self.parts.iter().enumerate() {
            for (place, child) in part.children().enumerate() {
                for smaller in child.smaller() {
                    let mut node = self.clone();
                    *node.parts[index].child_mut(place) = smaller;
                    found.push(node);
                }
            }
        }
        found
    }

    fn drop_at(&mut self, index: usize, item: usize) {
        if let Part::List(_, items) = &mut self.parts[index] {
            items.remove(item);
        }
    }

    /// Drops an item of all lists with that number.
    fn drop_item(&mut self, group: u32, item: usize) {
        for part in &mut self.parts {
            match part {
                Part::List(number, items) if *number == group && item < items.len() => {
                    items.remove(item);
                }
                _ => {}
            }
            let count = part.children().count();
            (0..count).for_each(|place| part.child_mut(place).drop_item(group, item));
        }
    }

    /// What may stand in the place of this node: what it holds of that kind, and constants.
    fn replacements(&self, kind: Kind) -> Vec<Node> {
        let mut found = Vec::new();
        self.collect(if kind == Kind::Argument { Kind::Value } else { kind }, &mut found);
        let length = self.sql().len();
        let constants: &[&str] = match kind {
            Kind::Value | Kind::Argument => &["NULL", "1", "'a'"],
            Kind::Condition => &["TRUE", "FALSE", "NULL"],
            Kind::Query => &[],
        };
        let shorter = constants.iter().filter(|text| text.len() < length);
        found.extend(shorter.map(|text| Node::text(*text)));
        found
    }

    fn collect(&self, kind: Kind, found: &mut Vec<Node>) {
        for part in &self.parts {
            match part {
                Part::Hole(other, node) if *other == kind => found.push(node.clone()),
                Part::Hole(Kind::Argument, _) => {}
                _ => part.children().for_each(|node| node.collect(kind, found)),
            }
        }
    }
}

impl Part {
    fn children(&self) -> impl Iterator<Item = &Node> {
        let nodes: &[Node] = match self {
            Part::Text(_) | Part::Positions(_) => &[],
            Part::Hole(_, node) | Part::Fixed(node) | Part::Optional(node) | Part::Predicate(node) => {
                std::slice::from_ref(node)
            }
            Part::List(_, items) => items,
        };
        nodes.iter()
    }

    fn child_mut(&mut self, place: usize) -> &mut Node {
        match self {
            Part::Hole(_, node) | Part::Fixed(node) | Part::Optional(node) | Part::Predicate(node) => node,
            Part::List(_, items) => &mut items[place],
            Part::Text(_) | Part::Positions(_) => unreachable!("it has no children"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_one_number_lose_the_same_item() {
        let list = |names: [&str; 2]| Part::List(1, names.map(Node::text).to_vec());
        let text = |text: &str| Part::Text(text.into());
        let parts = vec![
            text("SELECT "),
            list(["a", "b"]),
            text(" UNION SELECT "),
            list(["c", "d"]),
            Part::Optional(Node { parts: vec![text(" ORDER BY "), Part::Positions(1)] }),
        ];
        let node = Node { parts };
        assert!(node.is_ordered());
        assert_eq!(node.sql(), "SELECT a, b UNION SELECT c, d ORDER BY 1, 2");
        let smaller: Vec<String> = node.smaller().iter().map(Node::sql).collect();
        assert!(smaller.contains(&"SELECT b UNION SELECT d ORDER BY 1".to_string()));
        assert!(smaller.contains(&"SELECT a, b UNION SELECT c, d".to_string()));
    }

    #[test]
    fn predicates_part_and_shrink() {
        let condition = Node::fill(
            "# AND #",
            vec![(Kind::Condition, Node::text("a = 100")), (Kind::Condition, Node::text("b"))],
        );
        let node = Node { parts: vec![Part::Text("SELECT 1 FROM t".into()), Part::Predicate(condition)] };
        assert_eq!(node.part_sql(Keep::All), "SELECT 1 FROM t");
        assert_eq!(node.part_sql(Keep::False), "SELECT 1 FROM t WHERE NOT (a = 100 AND b)");
        assert_eq!(node.part_sql(Keep::Null), "SELECT 1 FROM t WHERE (a = 100 AND b) IS NULL");
        let smaller: Vec<String> = node.smaller().iter().map(|node| node.part_sql(Keep::True)).collect();
        assert_eq!(smaller[0], "SELECT 1 FROM t WHERE (a = 100)");
        assert!(smaller.contains(&"SELECT 1 FROM t WHERE (FALSE AND b)".to_string()));
    }
}
