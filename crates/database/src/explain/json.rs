//! JSON as MariaDB lays it out in EXPLAIN: members on lines of their own, lists of plain values on one.

use keel_document::json::text;

/// A value.
pub(super) enum Json {
    Null,
    True,
    Number(f64),
    Text(String),
    /// Plain values.
    Words(Vec<String>),
    /// Objects.
    List(Vec<Object>),
    Object(Object),
}

/// Members in order.
#[derive(Default)]
pub(super) struct Object(Vec<(&'static str, Json)>);

/// Spaces of a level.
const INDENT: usize = 2;
/// Digits of a number behind its point.
const DIGITS: usize = 9;

impl Object {
    /// Adds a member.
    pub fn set(&mut self, key: &'static str, value: Json) {
        self.0.push((key, value));
    }

    /// Adds a text.
    pub fn text(&mut self, key: &'static str, text: impl Into<String>) {
        self.set(key, Json::Text(text.into()));
    }

    /// Adds a number.
    pub fn number(&mut self, key: &'static str, number: f64) {
        self.set(key, Json::Number(number));
    }

    /// Adds a number, or null.
    pub fn maybe(&mut self, key: &'static str, number: Option<f64>) {
        self.set(key, number.map_or(Json::Null, Json::Number));
    }

    /// Adds an object.
    pub fn object(&mut self, key: &'static str, object: Object) {
        self.set(key, Json::Object(object));
    }

    /// Adds a text where there is one.
    pub fn some_text(&mut self, key: &'static str, text: Option<String>) {
        if let Some(text) = text {
            self.text(key, text);
        }
    }

    /// An object of one member.
    pub fn of(key: &'static str, value: Object) -> Object {
        Object(vec![(key, Json::Object(value))])
    }

    /// Its last member, where that is an object.
    pub fn last_object(&mut self) -> Option<&mut Object> {
        match self.0.last_mut() {
            Some((_, Json::Object(object))) => Some(object),
            _ => None,
        }
    }

    /// Takes all members of another one.
    pub fn extend(&mut self, other: Object) {
        self.0.extend(other.0);
    }

    /// The whole as text.
    pub fn into_text(self) -> String {
        let mut out = Vec::new();
        write_object(&self, 0, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }
}

fn new_line(level: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
    out.resize(out.len() + level * INDENT, b' ');
}

fn write_object(object: &Object, level: usize, out: &mut Vec<u8>) {
    out.push(b'{');
    for (place, (key, value)) in object.0.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        new_line(level + 1, out);
        text::quote(key.as_bytes(), out);
        out.extend_from_slice(b": ");
        write(value, level + 1, out);
    }
    new_line(level, out);
    out.push(b'}');
}

fn write(value: &Json, level: usize, out: &mut Vec<u8>) {
    match value {
        Json::Null => out.extend_from_slice(b"null"),
        Json::True => out.extend_from_slice(b"true"),
        Json::Number(number) => out.extend_from_slice(plain(*number).as_bytes()),
        Json::Text(text) => text::quote(text.as_bytes(), out),
        Json::Words(words) => {
            out.push(b'[');
            for (place, word) in words.iter().enumerate() {
                if place > 0 {
                    out.extend_from_slice(b", ");
                }
                text::quote(word.as_bytes(), out);
            }
            out.push(b']');
        }
        Json::List(objects) => {
            out.push(b'[');
            for (place, object) in objects.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                new_line(level + 1, out);
                write_object(object, level + 1, out);
            }
            new_line(level, out);
            out.push(b']');
        }
        Json::Object(object) => write_object(object, level, out),
    }
}

/// A number without zeros that say nothing.
fn plain(number: f64) -> String {
    let text = format!("{number:.DIGITS$}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short.is_empty() { "0".into() } else { short.into() }
}
