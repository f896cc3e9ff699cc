//! An XML text as a list of nodes in the order of the text, each with its place there.
//!
//! MariaDB's parser is lenient: text may stand outside the root, values need no quotes, entities stay as they are.

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An element, or the whole document.
    Element,
    /// An attribute.
    Attribute,
    /// Text within an element, or the value of an attribute.
    Text,
}

/// A node.
#[derive(Debug, Clone)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// The node around it.
    pub parent: usize,
    /// How many nodes are around it.
    pub level: usize,
    /// Its name, or the text.
    pub name: std::ops::Range<usize>,
    /// Where it begins and ends in the text, for its replacement.
    pub whole: std::ops::Range<usize>,
}

/// A text and its nodes; the first one is the document.
pub struct Document<'t> {
    text: &'t [u8],
    /// The nodes.
    pub nodes: Vec<Node>,
}

/// What is wrong with a text, and at which octet, from 1.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// The octet.
    pub offset: usize,
    /// What was found, and what was wanted.
    pub what: String,
}

/// How deeply elements may nest.
const LEVELS_MAX: usize = 254;

impl<'t> Document<'t> {
    /// Reads a text.
    pub fn parse(text: &'t [u8]) -> Result<Document<'t>, Fault> {
        let whole = 0..text.len();
        let root = Node { kind: Kind::Element, parent: 0, level: 0, name: 0..0, whole };
        let mut reader = Reader { text, at: 0, open: vec![0], nodes: vec![root] };
        while reader.at < text.len() {
            match text[reader.at] {
                b'<' => reader.markup()?,
                _ => reader.text(),
            }
        }
        match reader.open.len() {
            1 => Ok(Document { text, nodes: reader.nodes }),
            _ => Err(reader.fault("unexpected END-OF-INPUT".into())),
        }
    }

    /// The name of a node, or its text.
    pub fn name(&self, node: usize) -> &'t [u8] {
        &self.text[self.nodes[node].name.clone()]
    }

    /// The texts directly within nodes, with a blank between.
    pub fn text_of(&self, nodes: &[usize]) -> Vec<u8> {
        let mut out = Vec::new();
        for (place, node) in self.nodes.iter().enumerate() {
            if node.kind == Kind::Text && place > 0 && nodes.binary_search(&node.parent).is_ok() {
                if !out.is_empty() {
                    out.push(b' ');
                }
                out.extend_from_slice(self.name(place));
            }
        }
        out
    }
}

/// A token within a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Ident(std::ops::Range<usize>),
    Text(std::ops::Range<usize>),
    Eq,
    Gt,
    Slash,
    Question,
    Exclamation,
    Bracket,
    End,
    Unknown,
}

impl Token {
    fn word(&self) -> &'static str {
        match self {
            Token::Ident(_) => "IDENT",
            Token::Text(_) => "STRING",
            Token::Eq => "'='",
            Token::Gt => "'>'",
            Token::Slash => "'/'",
            Token::Question => "'?'",
            Token::Exclamation => "'!'",
            Token::End => "END-OF-INPUT",
            Token::Bracket | Token::Unknown => "unknown token",
        }
    }
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    /// The elements that are open.
    open: Vec<usize>,
    nodes: Vec<Node>,
}

/// What a tag is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tag {
    Element,
    Instruction,
    Declaration,
}

impl Reader<'_> {
    fn fault(&self, what: String) -> Fault {
        Fault { offset: self.at + 1, what }
    }

    fn unexpected(&self, token: &Token, wanted: &str) -> Fault {
        self.fault(format!("{} unexpected ({wanted} wanted)", token.word()))
    }

    fn text(&mut self) {
        let rest = &self.text[self.at..];
        let end = self.at + rest.iter().position(|b| *b == b'<').unwrap_or(rest.len());
        self.add(Kind::Text, self.at..end);
        self.at = end;
    }

    fn add(&mut self, kind: Kind, name: std::ops::Range<usize>) -> usize {
        let parent = *self.open.last().expect("the document stays open");
        let level = self.nodes[parent].level + 1;
        let whole = name.clone();
        self.nodes.push(Node { kind, parent, level, name, whole });
        self.nodes.len() - 1
    }

    /// Goes behind a text that begins here, or to the end where it is not there.
    fn skip_to(&mut self, end: &[u8]) -> std::ops::Range<usize> {
        let from = self.at;
        let found = self.text[from..].windows(end.len()).position(|part| part == end);
        let within = from..found.map_or(self.text.len(), |place| from + place);
        self.at = (within.end + end.len()).min(self.text.len());
        within
    }

    /// A tag, a comment, or text within CDATA.
    fn markup(&mut self) -> Result<(), Fault> {
        if self.text[self.at..].starts_with(b"<!--") {
            self.skip_to(b"-->");
            return Ok(());
        }
        if self.text[self.at..].starts_with(b"<![CDATA[") {
            self.at += b"<![CDATA[".len();
            let within = self.skip_to(b"]]>");
            self.add(Kind::Text, within);
            return Ok(());
        }
        let begin = self.at;
        self.at += 1;
        let mut token = self.token();
        if token == Token::Slash {
            return self.end_tag();
        }
        let tag = match token {
            Token::Question => Tag::Instruction,
            Token::Exclamation if self.text[self.at..].starts_with(b"DOCTYPE") => Tag::Declaration,
            Token::Exclamation => {
                self.at -= 1;
                return Err(self.unexpected(&Token::Unknown, "ident or '/'"));
            }
            _ => Tag::Element,
        };
        if tag != Tag::Element {
            token = self.token();
        }
        let Token::Ident(name) = token else { return Err(self.unexpected(&token, "ident or '/'")) };
        if self.open.len() > LEVELS_MAX {
            return Err(self.fault(String::new()));
        }
        let element = self.add(Kind::Element, name);
        self.nodes[element].whole.start = begin;
        self.open.push(element);
        let mut token = self.attributes(tag)?;
        if token == Token::Slash {
            self.leave();
            token = self.token();
        }
        if tag == Tag::Instruction {
            if token != Token::Question {
                return Err(self.unexpected(&token, "'?'"));
            }
            self.leave();
            token = self.token();
        }
        if tag == Tag::Declaration {
            if token == Token::Bracket {
                token = self.internal_subset();
            }
            self.leave();
        }
        match token {
            Token::Gt => Ok(()),
            other => Err(self.unexpected(&other, "'>'")),
        }
    }

    /// What stands within brackets in a document type.
    fn internal_subset(&mut self) -> Token {
        self.skip_to(b"]");
        self.token()
    }

    /// The open element ends here, with the octet that follows: a bracket, most often.
    fn leave(&mut self) {
        if self.open.len() > 1
            && let Some(element) = self.open.pop()
        {
            self.nodes[element].whole.end = (self.at + 1).min(self.text.len());
        }
    }

    fn end_tag(&mut self) -> Result<(), Fault> {
        let token = self.token();
        let Token::Ident(name) = token else { return Err(self.unexpected(&token, "ident")) };
        let named = |range: std::ops::Range<usize>| String::from_utf8_lossy(&self.text[range]).into_owned();
        let open = *self.open.last().expect("the document stays open");
        if open == 0 {
            return Err(self.fault(format!("'</{}>' unexpected (END-OF-INPUT wanted)", named(name))));
        }
        let wanted = self.nodes[open].name.clone();
        if self.text[wanted.clone()] != self.text[name.clone()] {
            let what = format!("'</{}>' unexpected ('</{}>' wanted)", named(name), named(wanted));
            return Err(self.fault(what));
        }
        self.leave();
        match self.token() {
            Token::Gt => Ok(()),
            other => Err(self.unexpected(&other, "'>'")),
        }
    }

    /// Attributes up to what comes behind them.
    fn attributes(&mut self, tag: Tag) -> Result<Token, Fault> {
        let mut token = self.token();
        loop {
            let name = match token {
                Token::Ident(name) => name,
                Token::Text(_) if tag == Tag::Declaration => {
                    token = self.token();
                    continue;
                }
                other => return Ok(other),
            };
            token = self.token();
            match token {
                Token::Eq => {}
                // A name alone is an attribute where another one follows, which is not.
                Token::Ident(_) => {
                    self.add(Kind::Attribute, name);
                    token = self.token();
                    continue;
                }
                Token::Text(_) if tag == Tag::Declaration => continue,
                other => return Ok(other),
            }
            let attribute = self.add(Kind::Attribute, name.clone());
            let value = self.token();
            let (Token::Ident(text) | Token::Text(text)) = value else {
                return Err(self.unexpected(&value, "ident or string"));
            };
            self.nodes[attribute].whole = name.start..self.at;
            self.open.push(attribute);
            self.add(Kind::Text, text);
            self.open.pop();
            token = self.token();
        }
    }

    fn token(&mut self) -> Token {
        let rest = &self.text[self.at..];
        self.at += rest.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(rest.len());
        let from = self.at;
        let Some(first) = self.text.get(from) else { return Token::End };
        self.at += 1;
        match first {
            b'=' => Token::Eq,
            b'>' => Token::Gt,
            b'/' => Token::Slash,
            b'?' => Token::Question,
            b'!' => Token::Exclamation,
            b'"' | b'\'' => {
                let rest = &self.text[self.at..];
                let end = rest.iter().position(|b| b == first).unwrap_or(rest.len());
                let within = self.at..self.at + end;
                self.at = (within.end + 1).min(self.text.len());
                Token::Text(within)
            }
            first if is_name(*first) && !matches!(first, b'0'..=b'9' | b'-' | b'.') => {
                let rest = &self.text[from..];
                self.at = from + rest.iter().position(|b| !is_name(*b)).unwrap_or(rest.len());
                Token::Ident(from..self.at)
            }
            b'[' => Token::Bracket,
            _ => {
                self.at = from;
                Token::Unknown
            }
        }
    }
}

/// Whether an octet may stand in a name.
fn is_name(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || matches!(octet, b'_' | b':' | b'-' | b'.' | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_octets_are_read() {
        const OCTETS: &[u8] = b"<>/?!-[]a=\"' x\xC3&";
        let mut seed = 3u32;
        for _ in 0..20_000 {
            let text: Vec<u8> = (0..16)
                .map(|_| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    OCTETS[(seed >> 16) as usize % OCTETS.len()]
                })
                .collect();
            if let Ok(document) = Document::parse(&text) {
                assert!(document.nodes.iter().all(|node| node.whole.end <= text.len()));
            }
        }
    }

    #[test]
    fn nodes_know_where_they_stand() {
        let text = b"<a x='1'>t<b/>u</a>";
        let document = Document::parse(text).unwrap_or_else(|fault| panic!("{fault:?}"));
        let whole = |node: usize| &text[document.nodes[node].whole.clone()];
        let names: Vec<&[u8]> = (1..document.nodes.len()).map(|node| document.name(node)).collect();
        assert_eq!(names, [&b"a"[..], b"x", b"1", b"t", b"b", b"u"]);
        assert_eq!((whole(1), whole(2), whole(5)), (&text[..], &b"x='1'"[..], &b"<b/>"[..]));
        assert_eq!(document.text_of(&[1]), b"t u");
    }
}
