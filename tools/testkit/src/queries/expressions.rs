//! Random expressions and conditions over what is in sight.

use super::selects::Shape;
use super::tree::{Kind, Node, Part};
use super::world::{TYPES, Type, World, literal, pick};
use crate::Random;

/// Something that an expression may be made of: a column, a key of the group, an aggregate.
#[derive(Debug, Clone)]
pub struct Atom {
    /// Its type.
    pub kind: Type,
    /// Its text.
    pub node: Node,
}

/// What an expression may be made of.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Of this query.
    pub inner: Vec<Atom>,
    /// Of those around it: columns only.
    pub outer: Vec<Atom>,
    /// Columns that tell the rows apart; empty if there are none.
    pub keys: Vec<String>,
}

/// Makes the queries of a seed.
pub struct Generator<'a> {
    pub(super) random: Random,
    pub(super) world: &'a World,
    /// Common table expressions: name and types of the columns `c1`, `c2`, ...
    pub(super) named: Vec<(String, Vec<Type>)>,
    pub(super) aliases: u32,
    pub(super) lists: u32,
    /// How many subqueries this statement may still get.
    pub(super) subqueries: u32,
    /// Whether this is a query within another.
    pub(super) within: bool,
    /// Whether only Keel is asked: then also what MariaDB answers wrongly.
    pub(super) alone: bool,
}

/// Templates of functions: the result's type, the text, the types of its arguments.
type Template = (Type, &'static str, &'static [Type]);

use Type::{Date, Decimal, Double, Int, Text};

const FUNCTIONS: &[Template] = &[
    (Int, "(# + #)", &[Int, Int]),
    (Int, "(# - #)", &[Int, Int]),
    (Int, "(# * #)", &[Int, Int]),
    (Int, "(# DIV #)", &[Int, Int]),
    (Int, "(# % #)", &[Int, Int]),
    (Int, "(-#)", &[Int]),
    (Int, "ABS(#)", &[Int]),
    (Int, "SIGN(#)", &[Double]),
    (Int, "LENGTH(#)", &[Text]),
    (Int, "CHAR_LENGTH(#)", &[Text]),
    (Int, "ASCII(#)", &[Text]),
    (Int, "LOCATE(#, #)", &[Text, Text]),
    (Int, "STRCMP(#, #)", &[Text, Text]),
    // Of NULL in these MariaDB makes inner joins of outer ones.
    (Int, "FIELD(COALESCE(#, 'x'), COALESCE(#, 'y'), COALESCE(#, 'z'))", &[Text, Text, Text]),
    (Int, "JSON_LENGTH(JSON_ARRAY(#, #))", &[Int, Text]),
    (Int, "JSON_CONTAINS(JSON_ARRAY(#, #), JSON_QUOTE(#))", &[Text, Text, Text]),
    (Int, "JSON_VALID(#)", &[Text]),
    (Int, "TO_DAYS(#)", &[Date]),
    (Int, "DAYOFYEAR(#)", &[Date]),
    (Int, "WEEK(#, 3)", &[Date]),
    (Int, "TIMESTAMPDIFF(MONTH, #, #)", &[Date, Date]),
    (Int, "EXTRACT(YEAR_MONTH FROM #)", &[Date]),
    (Int, "YEAR(#)", &[Date]),
    (Int, "MONTH(#)", &[Date]),
    (Int, "DAYOFWEEK(#)", &[Date]),
    (Int, "DATEDIFF(#, #)", &[Date, Date]),
    (Int, "CAST(# AS SIGNED)", &[Decimal]),
    (Int, "FLOOR(#)", &[Int]),
    (Int, "ROUND(#)", &[Int]),
    (Int, "INTERVAL(COALESCE(#, 1), COALESCE(#, 2), COALESCE(#, 3))", &[Int, Int, Int]),
    (Decimal, "(# + #)", &[Decimal, Int]),
    (Decimal, "(# - #)", &[Decimal, Decimal]),
    (Decimal, "(# * #)", &[Decimal, Int]),
    (Decimal, "(# / #)", &[Int, Int]),
    (Decimal, "(# / #)", &[Decimal, Int]),
    (Decimal, "ROUND(#, 1)", &[Decimal]),
    (Decimal, "TRUNCATE(#, 1)", &[Decimal]),
    (Decimal, "CEIL(#)", &[Decimal]),
    (Decimal, "CAST(# AS DECIMAL(10,3))", &[Double]),
    (Decimal, "CAST(# AS DECIMAL(10,2))", &[Int]),
    (Double, "(# + #)", &[Double, Double]),
    (Double, "(# - #)", &[Double, Int]),
    (Double, "(# * #)", &[Double, Double]),
    (Double, "FLOOR(#)", &[Double]),
    (Double, "ABS(#)", &[Double]),
    (Double, "(# + 0e0)", &[Decimal]),
    (Text, "CONCAT(#, #)", &[Text, Text]),
    (Text, "CONCAT_WS('-', #, #)", &[Text, Text]),
    (Text, "UPPER(#)", &[Text]),
    (Text, "LOWER(#)", &[Text]),
    (Text, "SUBSTR(#, #)", &[Text, Int]),
    (Text, "LEFT(#, #)", &[Text, Int]),
    (Text, "REPLACE(#, #, 'z')", &[Text, Text]),
    (Text, "TRIM(#)", &[Text]),
    (Text, "REVERSE(#)", &[Text]),
    (Text, "REPEAT(#, 2)", &[Text]),
    (Text, "LPAD(#, 3, 'y')", &[Text]),
    (Text, "CAST(# AS CHAR)", &[Int]),
    (Text, "HEX(#)", &[Text]),
    (Text, "ELT(#, #, #)", &[Int, Text, Text]),
    (Text, "DATE_FORMAT(#, '%m/%d')", &[Date]),
    (Text, "DATE_FORMAT(#, '%W %e %b %y, %j')", &[Date]),
    (Text, "JSON_VALUE(JSON_OBJECT('k', #), '$.k')", &[Text]),
    (Text, "JSON_UNQUOTE(JSON_EXTRACT(JSON_ARRAY(#, #), '$[1]'))", &[Int, Text]),
    (Text, "JSON_TYPE(JSON_EXTRACT(JSON_ARRAY(#), '$[0]'))", &[Decimal]),
    (Date, "DATE_ADD(#, INTERVAL 1 MONTH)", &[Date]),
    (Date, "(# - INTERVAL 40 DAY)", &[Date]),
    (Date, "LAST_DAY(#)", &[Date]),
    (Date, "DATE_ADD(#, INTERVAL # DAY)", &[Date, Int]),
    (Date, "MAKEDATE(2023, ABS(#) + 1)", &[Int]),
    (Date, "CAST(# AS DATE)", &[Date]),
];

const COMPARISONS: [&str; 8] = ["=", "=", "<", "<=", ">", ">=", "<>", "<=>"];
const PATTERNS: [&str; 7] = ["'a%'", "'%b%'", "'_'", "'A_'", "'%'", "'a\\_%'", "'д'"];

impl<'a> Generator<'a> {
    /// The generator of query `number` in the world of a seed.
    pub fn new(world: &'a World, seed: u64, number: u64) -> Generator<'a> {
        let random = Random::of_neighbours(seed.wrapping_mul(1_000_003).wrapping_add(number));
        Generator {
            random,
            world,
            named: Vec::new(),
            aliases: 0,
            lists: 0,
            subqueries: 3,
            within: false,
            alone: false,
        }
    }

    /// True in so many of a hundred cases.
    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    pub(super) fn any_type(&mut self) -> Type {
        pick(&mut self.random, &TYPES)
    }

    /// An expression of a type.
    pub(super) fn value(&mut self, kind: Type, scope: &Scope, depth: u32) -> Node {
        if depth == 0 || self.chance(30) {
            return self.leaf(kind, scope);
        }
        let depth = depth - 1;
        let one = |this: &mut Self, kind| (Kind::Value, this.value(kind, scope, depth));
        match self.random.below(14) {
            0 => {
                let condition = (Kind::Condition, self.condition(scope, depth));
                let holes = vec![condition, one(self, kind), one(self, kind)];
                Node::fill(pick(&mut self.random, &["IF(#, #, #)", "CASE WHEN # THEN # ELSE # END"]), holes)
            }
            1 => {
                let other = self.any_type();
                let holes = vec![one(self, other), one(self, other), one(self, kind), one(self, kind)];
                Node::fill("CASE # WHEN # THEN # ELSE # END", holes)
            }
            2 => {
                let texts =
                    ["COALESCE(#, #)", "IFNULL(#, #)", "NULLIF(#, #)", "GREATEST(#, #)", "LEAST(#, #)"];
                let text = pick(&mut self.random, &texts);
                Node::fill(text, vec![one(self, kind), one(self, kind)])
            }
            3 if kind == Int => Node::fill("(#)", vec![(Kind::Condition, self.condition(scope, depth))]),
            4 if self.subqueries > 0 => self.scalar_subquery(kind, scope),
            _ => {
                let fitting: Vec<&Template> =
                    FUNCTIONS.iter().filter(|function| function.0 == kind).collect();
                let (_, text, types) = pick(&mut self.random, &fitting);
                // Implicit conversions are worth a few; the result has the function's type all the same.
                // A number that is no date equals numbers in MariaDB, though it is NULL.
                let mixes = *text != "CAST(# AS DATE)";
                let holes = types.iter().map(|kind| {
                    let other = if mixes && self.chance(5) { self.any_type() } else { *kind };
                    one(self, other)
                });
                let holes = holes.collect();
                Node::fill(text, holes)
            }
        }
    }

    fn scalar_subquery(&mut self, kind: Type, scope: &Scope) -> Node {
        let query = self.subquery(&[kind], scope, Shape::Single);
        Node::fill("(#)", vec![(Kind::Query, query)])
    }

    /// A column or a constant.
    pub(super) fn leaf(&mut self, kind: Type, scope: &Scope) -> Node {
        let fitting = |atoms: &[Atom]| -> Vec<Node> {
            atoms.iter().filter(|atom| atom.kind == kind).map(|atom| atom.node.clone()).collect()
        };
        let inner = fitting(&scope.inner);
        let outer = fitting(&scope.outer);
        let atoms = if inner.is_empty() || (!outer.is_empty() && self.chance(30)) { outer } else { inner };
        if atoms.is_empty() || self.chance(20) {
            return match self.chance(6) {
                true => Node::text("NULL"),
                false => Node::text(literal(kind, &mut self.random)),
            };
        }
        let index = self.random.below(atoms.len() as u64) as usize;
        atoms[index].clone()
    }

    /// A condition.
    pub(super) fn condition(&mut self, scope: &Scope, depth: u32) -> Node {
        if depth > 0 && self.chance(35) {
            let text =
                pick(&mut self.random, &["(# AND #)", "(# AND #)", "(# OR #)", "(# OR #)", "(# XOR #)"]);
            let holes = (0..2).map(|_| (Kind::Condition, self.condition(scope, depth - 1))).collect();
            return Node::fill(text, holes);
        }
        if depth > 0 && self.chance(10) {
            let texts = ["NOT (#)", "(#) IS TRUE", "(#) IS NOT FALSE", "(#) IS UNKNOWN", "(#) IS NOT NULL"];
            let text = pick(&mut self.random, &texts);
            return Node::fill(text, vec![(Kind::Condition, self.condition(scope, depth - 1))]);
        }
        if depth > 0 && self.subqueries > 0 && self.chance(20) {
            return self.subquery_condition(scope, depth);
        }
        self.comparison(scope, depth.saturating_sub(1))
    }

    fn comparison(&mut self, scope: &Scope, depth: u32) -> Node {
        let kind = self.any_type();
        let other = if self.chance(8) { self.any_type() } else { kind };
        let first = (Kind::Value, self.value(kind, scope, depth));
        let second = |this: &mut Self| (Kind::Value, this.value(other, scope, depth));
        match self.random.below(12) {
            0 => Node::fill("(# IS NULL)", vec![first]),
            1 => Node::fill("(# IS NOT NULL)", vec![first]),
            2 | 3 => {
                let text = pick(&mut self.random, &["(# BETWEEN # AND #)", "(# NOT BETWEEN # AND #)"]);
                Node::fill(text, vec![first, second(self), second(self)])
            }
            4 | 5 => {
                let mut node = Node::fill(pick(&mut self.random, &["(# IN (", "(# NOT IN ("]), vec![first]);
                // MariaDB takes NULL NOT IN (one) for true now and then.
                let count = if self.alone { 1 } else { 2 } + self.random.below(3);
                let items = (0..count).map(|_| Node::fill("#", vec![second(self)])).collect();
                node.parts.push(Part::List(0, items));
                node.push("))");
                node
            }
            6 => {
                let pattern = pick(&mut self.random, &PATTERNS);
                let text = format!("(# {} {pattern})", pick(&mut self.random, &["LIKE", "LIKE", "NOT LIKE"]));
                let value = self.value(Text, scope, depth);
                Node::fill(&text, vec![(Kind::Value, value)])
            }
            7 if self.alone => {
                let (left, right) = (self.any_type(), second(self));
                let sides: Vec<_> =
                    (0..2).map(|_| (Kind::Value, self.value(left, scope, depth.min(1)))).collect();
                let [a, b] = sides.try_into().expect("two sides");
                // MariaDB makes an inner join of the outer one below < and <>, and takes = with a NULL for false.
                let text =
                    pick(&mut self.random, &["((#, #) = (#, #))", "((#, #) < (#, #))", "((#, #) <> (#, #))"]);
                Node::fill(text, vec![a, first, b, right])
            }
            _ => {
                let text = format!("(# {} #)", pick(&mut self.random, &COMPARISONS));
                Node::fill(&text, vec![first, second(self)])
            }
        }
    }

    fn subquery_condition(&mut self, scope: &Scope, depth: u32) -> Node {
        let kind = self.any_type();
        let second = self.any_type();
        match self.random.below(10) {
            0..=2 => {
                let query = self.subquery(&[kind], scope, Shape::Any);
                let text = pick(&mut self.random, &["EXISTS (#)", "NOT EXISTS (#)"]);
                Node::fill(text, vec![(Kind::Query, query)])
            }
            3..=6 => {
                let value = self.value(kind, scope, depth.min(1));
                let query = self.subquery(&[kind], scope, Shape::Any);
                let text = pick(&mut self.random, &["(# IN (#))", "(# IN (#))", "(# NOT IN (#))"]);
                Node::fill(text, vec![(Kind::Value, value), (Kind::Query, query)])
            }
            7 => {
                let (a, b) = (self.leaf(kind, scope), self.leaf(second, scope));
                let query = self.subquery(&[kind, second], scope, Shape::Any);
                let text = pick(&mut self.random, &["((#, #) IN (#))", "((#, #) NOT IN (#))"]);
                Node::fill(text, vec![(Kind::Value, a), (Kind::Value, b), (Kind::Query, query)])
            }
            _ => {
                let value = self.value(kind, scope, depth.min(1));
                let query = self.subquery(&[kind], scope, Shape::Any);
                let comparison = pick(&mut self.random, &COMPARISONS[..7]);
                let text = format!("(# {comparison} {} (#))", pick(&mut self.random, &["ANY", "ALL"]));
                Node::fill(&text, vec![(Kind::Value, value), (Kind::Query, query)])
            }
        }
    }
}
