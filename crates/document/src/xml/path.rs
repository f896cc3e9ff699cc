//! XPath as MariaDB has it: location paths with abbreviations, the axes up and down, predicates, unions, numbers, texts,
//! comparisons, arithmetic and some functions, as a tree.

/// Which nodes a step leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Elements directly within.
    Child,
    /// Attributes.
    Attribute,
    /// The element around.
    Parent,
    /// All around.
    Ancestor,
    /// All around, and itself.
    AncestorOrSelf,
    /// Everything within.
    Descendant,
    /// Everything within, and itself.
    DescendantOrSelf,
    /// Itself.
    Itself,
    /// Known to XPath, and empty here.
    Nothing,
}

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// `/`
    Root,
    /// The node that a predicate is asked for; the document outside.
    Context,
    /// Nodes by an axis and a name, where not `*`.
    Step(Box<Expr>, Axis, Option<Vec<u8>>),
    /// Those nodes for which a condition holds, or whose place it is.
    Filter(Box<Expr>, Box<Expr>),
    /// `a | b`
    Union(Box<Expr>, Box<Expr>),
    /// A number; whether it is whole.
    Number(f64, bool),
    /// A text.
    Text(Vec<u8>),
    /// `$@name`
    Variable(String),
    /// An operator of two sides.
    Binary(Operator, Box<Expr>, Box<Expr>),
    /// `-a`
    Negative(Box<Expr>),
    /// A function.
    Call(&'static str, Vec<Expr>),
}

/// What two sides make.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Or,
    And,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Expr {
    /// Whether it gives nodes.
    pub fn is_nodes(&self) -> bool {
        matches!(self, Expr::Root | Expr::Context | Expr::Step(..) | Expr::Filter(..) | Expr::Union(..))
    }
}

/// Names of functions, and how many arguments they take.
const FUNCTIONS: &[(&str, usize, usize)] = &[
    ("sum", 1, 1),
    ("not", 1, 1),
    ("last", 0, 0),
    ("true", 0, 0),
    ("count", 1, 255),
    ("floor", 1, 1),
    ("round", 1, 1),
    ("false", 0, 0),
    ("concat", 2, 255),
    ("number", 1, 1),
    ("boolean", 1, 1),
    ("ceiling", 1, 1),
    ("position", 0, 0),
    ("contains", 2, 2),
    ("substring", 2, 3),
    ("string-length", 0, 1),
];

const AXES: &[(&str, Axis)] = &[
    ("child", Axis::Child),
    ("attribute", Axis::Attribute),
    ("parent", Axis::Parent),
    ("ancestor", Axis::Ancestor),
    ("ancestor-or-self", Axis::AncestorOrSelf),
    ("descendant", Axis::Descendant),
    ("descendant-or-self", Axis::DescendantOrSelf),
    ("self", Axis::Itself),
    ("following", Axis::Nothing),
    ("following-sibling", Axis::Nothing),
    ("preceding", Axis::Nothing),
    ("preceding-sibling", Axis::Nothing),
    ("namespace", Axis::Nothing),
];

/// Tests of a node's kind, which take every node.
const KINDS: &[&str] = &["text", "node", "comment", "processing-instruction"];

/// How deeply parentheses, predicates and arguments may nest.
const DEPTH_MAX: usize = 24;
/// Steps, predicates and operators of a path: they are as many calls within each other when it is evaluated.
const PARTS_MAX: usize = 200;
/// Stack that these may need.
pub const STACK_BYTES: usize = 160 << 10;

/// Where a path goes wrong, and why.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// What is left is no XPath.
    Syntax(usize),
    /// Nodes are compared with nodes.
    TwoNodesets(usize),
    /// `$name`
    Variable(usize),
}

/// Reads a path.
pub fn parse(text: &[u8]) -> Result<Expr, Fault> {
    let mut parser = Parser { text, at: 0, depth: 0, parts: 0, in_predicate: false };
    let expr = parser.or()?;
    parser.skip_blanks();
    if parser.at < text.len() { Err(parser.fault()) } else { Ok(expr) }
}

struct Parser<'t> {
    text: &'t [u8],
    at: usize,
    depth: usize,
    parts: usize,
    in_predicate: bool,
}

type Parsed = Result<Expr, Fault>;

impl Parser<'_> {
    /// A syntax error at what comes next.
    fn fault(&mut self) -> Fault {
        self.skip_blanks();
        Fault::Syntax(self.at)
    }

    /// Counts one more step, predicate or operator.
    fn one_more(&mut self) -> Result<(), Fault> {
        self.parts += 1;
        if self.parts > PARTS_MAX { Err(self.fault()) } else { Ok(()) }
    }

    fn skip_blanks(&mut self) {
        // Blanks alone part tokens.
        let rest = &self.text[self.at..];
        self.at += rest.iter().position(|b| *b != b' ').unwrap_or(rest.len());
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip_blanks();
        self.text.get(self.at).copied()
    }

    fn accept(&mut self, word: &[u8]) -> bool {
        self.skip_blanks();
        let found = self.text[self.at..].starts_with(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn expect(&mut self, word: &[u8]) -> Result<(), Fault> {
        if self.accept(word) { Ok(()) } else { Err(self.fault()) }
    }

    /// The name that comes next, without taking it.
    fn name_ahead(&mut self) -> Option<std::ops::Range<usize>> {
        let first = self.peek()?;
        let begins = first.is_ascii_alphabetic() || first == b'_' || first >= 0x80;
        let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | 0x80..);
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|b| !is_part(b)).unwrap_or(rest.len());
        begins.then(|| self.at..self.at + length)
    }

    /// A word that is an operator.
    fn accept_name(&mut self, word: &str) -> bool {
        match self.name_ahead() {
            Some(name) if &self.text[name.clone()] == word.as_bytes() => {
                self.at = name.end;
                true
            }
            _ => false,
        }
    }

    fn or(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.fault());
        }
        let mut left = self.and()?;
        while self.accept_name("or") {
            left = binary(Operator::Or, left, self.and()?);
        }
        self.depth -= 1;
        Ok(left)
    }

    fn and(&mut self) -> Parsed {
        let mut left = self.equality()?;
        while self.accept_name("and") {
            left = binary(Operator::And, left, self.equality()?);
        }
        Ok(left)
    }

    fn equality(&mut self) -> Parsed {
        let mut left = self.relational()?;
        loop {
            self.skip_blanks();
            let at = self.at;
            let operator = match (self.accept(b"!="), self.text.get(at)) {
                (true, _) => Operator::Ne,
                (false, Some(b'=')) => {
                    self.at += 1;
                    Operator::Eq
                }
                _ => return Ok(left),
            };
            let right = self.relational()?;
            left = compared(operator, left, right, at)?;
        }
    }

    fn relational(&mut self) -> Parsed {
        self.one_more()?;
        let mut left = self.additive()?;
        loop {
            self.skip_blanks();
            let at = self.at;
            let operator = match self.peek() {
                Some(b'<') if self.accept(b"<=") => Operator::Le,
                Some(b'<') if self.accept(b"<") => Operator::Lt,
                Some(b'>') if self.accept(b">=") => Operator::Ge,
                Some(b'>') if self.accept(b">") => Operator::Gt,
                _ => return Ok(left),
            };
            let right = self.additive()?;
            left = compared(operator, left, right, at)?;
        }
    }

    fn additive(&mut self) -> Parsed {
        let mut left = self.multiplicative()?;
        loop {
            let operator = match self.peek() {
                Some(b'+') => Operator::Add,
                Some(b'-') => Operator::Subtract,
                _ => return Ok(left),
            };
            self.at += 1;
            left = binary(operator, left, self.multiplicative()?);
        }
    }

    fn multiplicative(&mut self) -> Parsed {
        let mut left = self.unary()?;
        loop {
            let operator = if self.accept(b"*") {
                Operator::Multiply
            } else if self.accept_name("div") {
                Operator::Divide
            } else if self.accept_name("mod") {
                Operator::Modulo
            } else {
                return Ok(left);
            };
            left = binary(operator, left, self.unary()?);
        }
    }

    fn unary(&mut self) -> Parsed {
        self.one_more()?;
        let mut negative = false;
        let mut signed = false;
        while self.accept(b"-") {
            negative = !negative;
            signed = true;
        }
        let value = self.union()?;
        Ok(match (signed, negative) {
            (true, true) => Expr::Negative(Box::new(value)),
            (true, false) => Expr::Negative(Box::new(Expr::Negative(Box::new(value)))),
            _ => value,
        })
    }

    fn union(&mut self) -> Parsed {
        let mut left = self.primary()?;
        while self.accept(b"|") {
            if !left.is_nodes() {
                return Err(self.fault());
            }
            let right = self.primary()?;
            if !right.is_nodes() {
                return Err(self.fault());
            }
            left = Expr::Union(Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    /// A number, a text, a variable, parentheses, a function, or a path.
    fn primary(&mut self) -> Parsed {
        self.one_more()?;
        match self.peek() {
            Some(b'0'..=b'9') => Ok(self.number()),
            Some(quote @ (b'"' | b'\'')) => self.quoted(quote),
            Some(b'$') => self.variable(),
            Some(b'(') => {
                self.at += 1;
                let within = self.or()?;
                self.expect(b")")?;
                Ok(within)
            }
            _ => match self.function()? {
                Some(call) => Ok(call),
                None => self.path(),
            },
        }
    }

    fn number(&mut self) -> Expr {
        let digits = |parser: &mut Self| {
            let rest = &parser.text[parser.at..];
            parser.at += rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
        };
        let from = self.at;
        digits(self);
        let whole = self.text.get(self.at) != Some(&b'.');
        if !whole {
            self.at += 1;
            digits(self);
        }
        let text = String::from_utf8_lossy(&self.text[from..self.at]);
        Expr::Number(text.trim_end_matches('.').parse().unwrap_or(f64::MAX), whole)
    }

    fn quoted(&mut self, quote: u8) -> Parsed {
        let within = &self.text[self.at + 1..];
        let Some(end) = within.iter().position(|b| *b == quote) else { return Err(self.fault()) };
        let text = within[..end].to_vec();
        self.at += end + 2;
        Ok(Expr::Text(text))
    }

    fn variable(&mut self) -> Parsed {
        let from = self.at;
        self.at += 1;
        if self.text.get(self.at) != Some(&b'@') {
            return Err(Fault::Variable(from));
        }
        self.at += 1;
        match self.name_ahead() {
            Some(name) => {
                self.at = name.end;
                Ok(Expr::Variable(String::from_utf8_lossy(&self.text[name]).to_lowercase()))
            }
            None => Err(self.fault()),
        }
    }

    fn function(&mut self) -> Result<Option<Expr>, Fault> {
        let Some(name) = self.name_ahead() else { return Ok(None) };
        let said = &self.text[name.clone()];
        let Some((word, min, max)) = FUNCTIONS.iter().find(|(word, ..)| word.as_bytes() == said) else {
            return Ok(None);
        };
        let before = std::mem::replace(&mut self.at, name.end);
        if self.text.get(self.at) != Some(&b'(') {
            self.at = before;
            return Ok(None);
        }
        self.at += 1;
        let mut args = Vec::new();
        while args.len() < *max {
            if args.len() >= *min && self.peek() == Some(b')') {
                break;
            }
            if !args.is_empty() {
                self.expect(b",")?;
            }
            args.push(self.or()?);
            // Further sets of nodes are wanted by nobody.
            if *word == "count" && self.accept(b",") {
                return Err(self.fault());
            }
        }
        self.expect(b")")?;
        let wants_nodes = matches!(*word, "sum" | "count");
        let wants_context = matches!(*word, "position" | "last");
        if wants_nodes && !args[0].is_nodes() || wants_context && !self.in_predicate {
            return Err(self.fault());
        }
        Ok(Some(Expr::Call(word, args)))
    }

    fn path(&mut self) -> Parsed {
        let mut nodes = Expr::Context;
        if self.accept(b"/") {
            nodes = Expr::Root;
            if self.text.get(self.at) == Some(&b'/') {
                self.at += 1;
                nodes = all_within(nodes);
            } else if !self.begins_step() {
                return Ok(nodes);
            }
        }
        nodes = self.step(nodes)?;
        while self.accept(b"/") {
            if self.text.get(self.at) == Some(&b'/') {
                self.at += 1;
                nodes = all_within(nodes);
            }
            nodes = self.step(nodes)?;
        }
        Ok(nodes)
    }

    /// Whether a step follows; `/` may stand alone before the end, and before what ends an expression.
    fn begins_step(&mut self) -> bool {
        !matches!(self.peek(), None | Some(b'|' | b')' | b']' | b',' | b'=' | b'<' | b'>' | b'+'))
    }

    fn step(&mut self, from: Expr) -> Parsed {
        self.one_more()?;
        if self.accept(b"..") {
            return Ok(Expr::Step(Box::new(from), Axis::Parent, None));
        }
        if self.accept(b".") {
            return Ok(from);
        }
        let axis = self.axis();
        let mut nodes = if self.accept(b"*") {
            Expr::Step(Box::new(from), axis, None)
        } else {
            let Some(name) = self.name_ahead() else { return Err(self.fault()) };
            self.at = name.end;
            let is_kind = KINDS.iter().any(|kind| kind.as_bytes() == &self.text[name.clone()]);
            if is_kind && self.text.get(self.at) == Some(&b'(') {
                self.at += 1;
                self.expect(b")")?;
                from
            } else {
                let name = self.whole_name(name)?;
                Expr::Step(Box::new(from), axis, Some(self.text[name].to_vec()))
            }
        };
        while self.accept(b"[") {
            self.one_more()?;
            let outside = std::mem::replace(&mut self.in_predicate, true);
            let condition = self.or()?;
            self.in_predicate = outside;
            self.expect(b"]")?;
            nodes = Expr::Filter(Box::new(nodes), Box::new(condition));
        }
        Ok(nodes)
    }

    /// A name with what stands behind its prefix.
    fn whole_name(&mut self, name: std::ops::Range<usize>) -> Result<std::ops::Range<usize>, Fault> {
        if self.text.get(self.at) != Some(&b':') {
            return Ok(name);
        }
        self.at += 1;
        match self.text.get(self.at) {
            None => Ok(name.start..self.at),
            Some(b'*') => {
                self.at += 1;
                Err(self.fault())
            }
            Some(_) => match self.name_ahead() {
                Some(local) => {
                    self.at = local.end;
                    Ok(name.start..local.end)
                }
                None => Err(self.fault()),
            },
        }
    }

    fn axis(&mut self) -> Axis {
        if self.accept(b"@") {
            return Axis::Attribute;
        }
        let Some(name) = self.name_ahead() else { return Axis::Child };
        let said = &self.text[name.clone()];
        match AXES.iter().find(|(word, _)| word.as_bytes() == said) {
            Some((_, axis)) if self.text[name.end..].starts_with(b"::") => {
                self.at = name.end + 2;
                *axis
            }
            _ => Axis::Child,
        }
    }
}

fn all_within(nodes: Expr) -> Expr {
    Expr::Step(Box::new(nodes), Axis::DescendantOrSelf, None)
}

fn binary(operator: Operator, left: Expr, right: Expr) -> Expr {
    Expr::Binary(operator, Box::new(left), Box::new(right))
}

fn compared(operator: Operator, left: Expr, right: Expr, at: usize) -> Parsed {
    match left.is_nodes() && right.is_nodes() {
        true => Err(Fault::TwoNodesets(at)),
        false => Ok(binary(operator, left, right)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_any_length_are_refused_or_small() {
        for part in ["/a", "(", "[", "a[", "-", "1+", "1=", "a|", "concat(", "$@", "..", "//", "'", ":", "a:"]
        {
            _ = parse(part.repeat(10_000).as_bytes());
        }
        assert!(parse("1+".repeat(300).as_bytes()).is_err());
        assert!(parse(b"/a/b[c = 'x' and position() < 3]/@d | //e").is_ok());
    }

    #[test]
    fn any_octets_are_read() {
        const OCTETS: &[u8] = b"/a*@.[]()|=!<>+-$'\"1:, \xC3";
        let mut seed = 7u32;
        for _ in 0..20_000 {
            let text: Vec<u8> = (0..12)
                .map(|_| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    OCTETS[(seed >> 16) as usize % OCTETS.len()]
                })
                .collect();
            _ = parse(&text);
        }
    }
}
