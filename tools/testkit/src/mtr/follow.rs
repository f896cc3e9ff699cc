//! What an earlier disagreement makes inevitable.
//!
//! Where CREATE TABLE t1 fails on one server only, all that uses `t1` will differ too, and says nothing new. So the objects that such
//! a statement would have made or changed are remembered with its cause, and later disagreements that name one of them are counted
//! under that cause, apart from those that stand on their own. A DROP or a CREATE that both agree on makes a name good again.

use std::borrow::Cow;
use std::collections::HashMap;

/// Words behind which a statement names what it makes or changes.
const OBJECTS: &[&str] = &[
    "table",
    "tables",
    "view",
    "into",
    "update",
    "procedure",
    "function",
    "sequence",
    "prepare",
    "database",
    "schema",
    "trigger",
    "user",
    "role",
    "from",
    "on",
    "event",
    "replace",
    "to",
];
/// Words that may stand between those and the name.
const FILLERS: &[&str] = &[
    "if",
    "not",
    "exists",
    "ignore",
    "low_priority",
    "high_priority",
    "delayed",
    "quick",
    "only",
    "temporary",
    "into",
    "table",
];
/// Statements that make, change or remove something.
const CHANGES: &[&str] = &[
    "create", "alter", "insert", "replace", "update", "delete", "load", "rename", "prepare", "truncate",
    "drop", "call", "execute",
];
/// Engines whose place InnoDB takes on both servers.
const ENGINES: &[&str] = &["myisam", "aria", "maria", "memory", "heap"];

/// Names with the cause that hurt them.
#[derive(Debug, Default)]
pub struct Hurt {
    names: HashMap<String, String>,
}

impl Hurt {
    /// The cause that a statement inherits, if it names something hurt.
    pub fn cause(&self, sql: &str) -> Option<&str> {
        identifiers(sql).iter().find_map(|word| self.names.get(word)).map(String::as_str)
    }

    /// Remembers what a statement that did not do the same on both would have changed.
    pub fn hurt(&mut self, sql: &str, cause: &str) {
        let words = identifiers(sql);
        if !words.first().is_some_and(|word| CHANGES.contains(&word.as_str())) {
            return;
        }
        for name in objects(&words) {
            self.names.entry(name.clone()).or_insert_with(|| cause.to_string());
        }
    }

    /// After a statement that did the same on both: what it made anew or removed is good again.
    pub fn heal(&mut self, sql: &str) {
        let words = identifiers(sql);
        match words.first().map(String::as_str) {
            Some("drop") => words.iter().for_each(|word| drop(self.names.remove(word))),
            Some("create" | "prepare") => {
                for name in objects(&words).into_iter().take(1) {
                    self.names.remove(name);
                }
            }
            _ => {}
        }
    }
}

/// Words outside of strings, small; of `a.b` and `` `b` `` the name `b`.
fn identifiers(sql: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    for char in sql.chars() {
        match quote {
            Some(open) if char == open => quote = None,
            Some('`') => word.extend(char.to_lowercase()),
            Some(_) => {}
            None if matches!(char, '\'' | '"' | '`') => quote = Some(char),
            None if char.is_alphanumeric() || char == '_' || char == '$' => word.extend(char.to_lowercase()),
            None => {
                words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
                if char == '.' {
                    // The name behind the dot takes the place of the one before it.
                    words.pop();
                }
            }
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

fn objects(words: &[String]) -> Vec<&String> {
    let mut found = Vec::new();
    for at in (0..words.len()).filter(|&at| OBJECTS.contains(&words[at].as_str())) {
        found.extend(words[at + 1..].iter().find(|word| !FILLERS.contains(&word.as_str())));
    }
    if words.first().is_some_and(|word| word == "drop") {
        found.extend(words.iter().skip(2));
    }
    found.retain(|word| *word != "select" && !word.starts_with(|char: char| char.is_ascii_digit()));
    found
}

/// The statement with InnoDB for engines that Keel is not meant to have; sent to both servers.
pub fn portable(sql: &str) -> Cow<'_, str> {
    let lower = sql.to_ascii_lowercase();
    let mut out = String::new();
    let (mut done, mut at) = (0, 0);
    while let Some(found) = lower[at..].find("engine") {
        at += found + "engine".len();
        let rest = &lower[at..];
        let gap = rest.len()
            - rest.trim_start_matches(|char: char| char.is_whitespace() || "='\"`".contains(char)).len();
        let name = ENGINES.iter().find(|name| {
            let end = rest[gap..].strip_prefix(**name);
            end.is_some_and(|end| !end.starts_with(|char: char| char.is_ascii_alphanumeric() || char == '_'))
        });
        if let (Some(name), true) = (name, gap > 0) {
            out.push_str(&sql[done..at + gap]);
            out.push_str("InnoDB");
            at += gap + name.len();
            done = at;
        }
    }
    match done {
        0 => Cow::Borrowed(sql),
        _ => Cow::Owned(out + &sql[done..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_failed_definition_is_told_apart() {
        let mut hurt = Hurt::default();
        hurt.hurt("CREATE TABLE IF NOT EXISTS test.`T1` (a JSON)", "1235: JSON");
        assert_eq!(hurt.cause("insert into t1 values ('t2')"), Some("1235: JSON"));
        assert_eq!(hurt.cause("select 't1' from t2"), None);
        hurt.hurt("select a into @b from t3", "no change");
        assert_eq!(hurt.cause("select * from t3"), None);
        hurt.hurt("insert into t4 select * from t1", "1235: JSON");
        hurt.heal("drop table t1, t4");
        assert_eq!(hurt.cause("select * from t1, t4"), None);
    }

    #[test]
    fn prepared_statements_and_views_are_names_too() {
        let mut hurt = Hurt::default();
        hurt.hurt("create or replace view v1 as select 1", "1235: CREATE VIEW");
        hurt.hurt("prepare s from 'x'", "1235: x");
        assert_eq!(hurt.cause("select * from v1"), Some("1235: CREATE VIEW"));
        assert_eq!(hurt.cause("execute s"), Some("1235: x"));
        hurt.heal("prepare s from 'y'");
        assert_eq!(hurt.cause("execute s"), None);
    }

    #[test]
    fn engines_become_innodb() {
        assert_eq!(
            portable("create table t (a int) ENGINE = MyISAM, x"),
            "create table t (a int) ENGINE = InnoDB, x"
        );
        assert_eq!(portable("set default_storage_engine=heap"), "set default_storage_engine=InnoDB");
        assert_eq!(portable("set @e='memory', engine='Memory'"), "set @e='memory', engine='InnoDB'");
        for same in ["engine=innodb", "engine=myisam_x", "enginemyisam", "show engines"] {
            assert_eq!(portable(same), same);
        }
    }
}
