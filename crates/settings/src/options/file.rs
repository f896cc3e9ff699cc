//! Option files as MariaDB reads them: groups in brackets, `name=value` lines, `!include` and `!includedir`.
//!
//! Groups that concern a server are taken: `[mysqld]`, `[mariadb]`, `[mariadbd]`, `[server]`, `[keel]`, each also with a
//! version behind it, and `[client-server]` and `[galera]`.

use std::path::{Path, PathBuf};

use super::{OptionError, normal};

/// Most levels of files that include files.
const DEPTH_MAX: usize = 8;

/// An option of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Its name, with underscores.
    pub name: String,
    /// Its value, if it has one.
    pub value: Option<String>,
    /// The file and the line.
    pub place: String,
}

/// Between a file and a line.
pub const LINE: &str = ", line ";

/// Options in their order.
pub type Pairs = Vec<Pair>;

/// Reads a file and what it includes.
pub fn read(path: &Path) -> Result<Pairs, OptionError> {
    let mut pairs = Vec::new();
    read_into(path, 0, &mut pairs)?;
    Ok(pairs)
}

fn read_into(path: &Path, depth: usize, pairs: &mut Pairs) -> Result<(), OptionError> {
    let shown = path.display();
    if depth > DEPTH_MAX {
        return Err(OptionError(format!("{shown}: files include each other too deeply")));
    }
    let bytes =
        keel_runtime::fs::read_to_end(path).map_err(|error| OptionError(format!("{shown}: {error}")))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines = parse(&text).map_err(|(line, what)| OptionError(format!("{shown}, line {line}: {what}")))?;
    for (number, line) in lines {
        match line {
            Line::Option(name, value) => {
                pairs.push(Pair { name, value, place: format!("{shown}{LINE}{number}") });
            }
            Line::Include(file) => read_into(&relative(path, &file), depth + 1, pairs)?,
            Line::IncludeDir(folder) => {
                for file in files_in(&relative(path, &folder))? {
                    read_into(&file, depth + 1, pairs)?;
                }
            }
        }
    }
    Ok(())
}

fn relative(from: &Path, to: &str) -> PathBuf {
    from.parent().unwrap_or(Path::new("")).join(to)
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>, OptionError> {
    let names = keel_runtime::fs::read_dir(folder)
        .map_err(|error| OptionError(format!("{}: {error}", folder.display())))?;
    let mut files: Vec<PathBuf> =
        names.into_iter().filter(|name| name.ends_with(".cnf")).map(|name| folder.join(name)).collect();
    files.sort();
    Ok(files)
}

/// What a line says.
#[derive(Debug, PartialEq)]
enum Line {
    Option(String, Option<String>),
    Include(String),
    IncludeDir(String),
}

/// The lines of a file that concern a server with their numbers, or the number of a bad line and what is wrong with it.
fn parse(text: &str) -> Result<Vec<(usize, Line)>, (usize, String)> {
    let mut lines = Vec::new();
    let mut taken = false;
    let mut in_group = false;
    for (number, line) in text.lines().enumerate().map(|(i, line)| (i + 1, line.trim())) {
        if line.is_empty() || line.starts_with('#') || line.starts_with(';') {
            continue;
        }
        if let Some(rest) = line.strip_prefix("!includedir") {
            lines.push((number, Line::IncludeDir(rest.trim().to_string())));
        } else if let Some(rest) = line.strip_prefix("!include") {
            lines.push((number, Line::Include(rest.trim().to_string())));
        } else if let Some(rest) = line.strip_prefix('[') {
            let name = rest.split(']').next().unwrap_or("");
            if !rest.contains(']') {
                return Err((number, "a group's name has no closing bracket".into()));
            }
            taken = is_server_group(name.trim());
            in_group = true;
        } else if !in_group {
            return Err((number, "an option stands before the first group".into()));
        } else if taken {
            lines.push((number, option(line)));
        }
    }
    Ok(lines)
}

fn is_server_group(name: &str) -> bool {
    if ["client-server", "galera"].contains(&name) {
        return true;
    }
    let base = name.split('-').next().unwrap_or(name);
    let version = name.len() == base.len() || name[base.len() + 1..].starts_with("10.11");
    version && ["mysqld", "mariadb", "mariadbd", "server", "keel"].contains(&base)
}

fn option(line: &str) -> Line {
    let Some((name, value)) = line.split_once('=') else {
        return Line::Option(normal(strip_comment(line)), None);
    };
    Line::Option(normal(name), Some(unquote(value.trim())))
}

/// Without quotes and escapes; without the comment behind an unquoted value.
fn unquote(value: &str) -> String {
    let quoted = ['"', '\''].into_iter().find_map(|quote| {
        let inner = value.strip_prefix(quote)?;
        inner.rfind(quote).map(|end| &inner[..end])
    });
    unescape(quoted.unwrap_or_else(|| strip_comment(value)))
}

fn strip_comment(text: &str) -> &str {
    text.split(" #").next().unwrap_or(text).trim_end()
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match characters.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('b') => out.push('\u{8}'),
            Some('s') => out.push(' '),
            Some('\\') => out.push('\\'),
            Some(other) => {
                out.push('\\');
                out.push(other);
            }
            None => out.push('\\'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Vec<(String, Option<String>)> {
        let lines = parse(text).unwrap();
        lines
            .into_iter()
            .filter_map(|(_, line)| match line {
                Line::Option(name, value) => Some((name, value)),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn groups_of_servers_are_taken() {
        let text = "# a comment\n[client]\nport=1\n[mysqld]\nport = 2 # two\nskip-name-resolve\n\
                    [keel-10.11]\nsql_mode=\"A # b\"\n[mariadb-11.4]\nport=3\n";
        assert_eq!(
            options(text),
            [
                ("port".into(), Some("2".into())),
                ("skip_name_resolve".into(), None),
                ("sql_mode".into(), Some("A # b".into())),
            ]
        );
    }

    #[test]
    fn escapes_and_quotes_are_resolved() {
        assert_eq!(unquote(r"'a\sb\\c'"), r"a b\c");
        assert_eq!(unquote(r"C:\dir"), r"C:\dir");
        assert_eq!(unquote(""), "");
    }

    #[test]
    fn bad_lines_are_counted() {
        assert_eq!(parse("\nport=1").unwrap_err().0, 2);
        assert_eq!(parse("[mysqld\n").unwrap_err().0, 1);
    }

    #[test]
    fn includes_are_seen_in_any_group() {
        let lines = parse("!includedir /etc/x/\n[mysql]\n!include y.cnf\n").unwrap();
        assert_eq!(lines, [(1, Line::IncludeDir("/etc/x/".into())), (3, Line::Include("y.cnf".into()))]);
    }
}
