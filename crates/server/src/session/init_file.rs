//! `--init-file`: statements that run at the start, before connections are accepted.
//!
//! A statement ends with a line whose last character is a semicolon. Blank lines and lines that begin with `#` or `--` are
//! passed over. Results are discarded. The first error is logged and ends the file; the server starts all the same.

use std::io;
use std::path::Path;
use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::account::Access;
use keel_exec::{ResultColumns, RowSink, RowView};
use keel_logs::Severity;
use keel_runtime::fiber;
use keel_runtime::fs::{File, OpenOptions};
use keel_sql::ast::Statement;
use keel_value::Value;

use super::execute::{NESTING_MAX, execute};
use crate::core::Core;
use crate::prepared::Source;
use crate::service::SqlService;
use crate::statement::{self, Outcome};

/// Bytes of a statement.
const STATEMENT_BYTES_MAX: usize = 60_000;

/// Bytes of a statement that an error about the file shows.
const SHOWN_BYTES_MAX: usize = 200;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// The user and host of the session, which belong to no account.
const USER: (&str, &str) = ("boot", "connecting host");

/// Runs a file's statements with all privileges. Fails where the file cannot be opened.
pub(crate) fn run(service: &SqlService, path: &Path) -> io::Result<()> {
    let mut texts = Texts::open(path)?;
    let mut core = service.core_of_server(USER);
    core.sql.access = Access::unlimited("", "");
    let result = run_texts(&mut core, &mut texts);
    if let Err(error) = result {
        let text = format!("{}: ERROR {}: {}", path.display(), error.code, error.message);
        core.state.logs.error(Severity::Error, 0, &keel_logs::one_line(&text));
    }
    core.close();
    Ok(())
}

fn run_texts(core: &mut Core, texts: &mut Texts) -> SqlResult<()> {
    while let Some(text) = texts.next()? {
        fiber::begin_statement();
        core.sql.diagnostics.stale = true;
        let result = run_text(core, &text);
        core.end_rooms();
        core.client.activity.lock().end();
        result?;
    }
    Ok(())
}

fn run_text(core: &mut Core, text: &[u8]) -> SqlResult<()> {
    let options = statement::parse_options(core, false);
    core.admit_text(text, false)?;
    let parsed = keel_sql::parse(text, &options)?;
    let source = statement::source_of(core, Arc::new(parsed.statement), 0)?;
    run_source(core, &source, &[], 0)
}

fn run_source(core: &mut Core, source: &Source, params: &[Value], depth: usize) -> SqlResult<()> {
    if depth > NESTING_MAX {
        return Err(errors::unsupported_ps());
    }
    match source {
        Source::Plan(plan) => {
            if !statement::truncate_log(core, &plan.statement)? {
                execute(core, plan, params, &mut Discard)?;
            }
            if plan.kind == keel_database::StatementKind::DropDatabase {
                statement::forget_dropped_database(core);
            }
            Ok(())
        }
        Source::Server(of_server) if !statement::is_servers(of_server) => {
            run_tree(core, of_server.clone(), params, depth)
        }
        Source::Server(of_server) => match statement::run(core, of_server, params)? {
            Outcome::Ok(_) | Outcome::Affected(_) | Outcome::Rows(_) => Ok(()),
            Outcome::Run { source, params } => {
                let outer = std::mem::replace(&mut core.sql.by_execute, true);
                let result = run_source(core, &source, &params, depth + 1);
                core.sql.by_execute = outer;
                result
            }
            Outcome::RunWith { items, statement } => {
                let before = statement::begin_with(core, &items, params)?;
                let result = run_tree(core, statement, params, depth + 1);
                statement::end_with(core, before);
                result
            }
        },
    }
}

fn run_tree(core: &mut Core, tree: Arc<Statement>, params: &[Value], depth: usize) -> SqlResult<()> {
    let source = statement::source_of(core, tree, params.len())?;
    run_source(core, &source, params, depth)
}

/// Takes results that nobody reads.
struct Discard;

impl RowSink for Discard {
    fn columns(&mut self, _: &Arc<ResultColumns>) -> SqlResult<()> {
        Ok(())
    }

    fn row(&mut self, _: RowView<'_>) -> SqlResult<()> {
        Ok(())
    }
}

/// The statements of a file.
struct Texts {
    file: File,
    offset: u64,
    /// What was read and belongs to no line yet.
    read: Vec<u8>,
}

impl Texts {
    fn open(path: &Path) -> io::Result<Texts> {
        Ok(Texts { file: File::open(path, &OpenOptions::reading())?, offset: 0, read: Vec::new() })
    }

    /// The next statement with its semicolon.
    fn next(&mut self) -> SqlResult<Option<Vec<u8>>> {
        let mut text = Vec::new();
        loop {
            let Some(line) = self.line().map_err(|error| unreadable(&error, &text))? else {
                return if text.is_empty() { Ok(None) } else { Err(unfinished(&text)) };
            };
            let line = line.trim_ascii_end();
            if line.is_empty() || line.starts_with(b"#") || line.starts_with(b"--") {
                continue;
            }
            if text.len() + line.len() >= STATEMENT_BYTES_MAX {
                return Err(too_long(line));
            }
            if !text.is_empty() {
                text.push(b'\n');
            }
            text.extend_from_slice(line);
            if line.ends_with(b";") {
                return Ok(Some(text));
            }
        }
    }

    /// The next line, cut where it is longer than a statement may be.
    fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let end = self.read.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
            let end = end.or_else(|| (self.read.len() > STATEMENT_BYTES_MAX).then_some(self.read.len()));
            if let Some(end) = end {
                return Ok(Some(self.read.drain(..end).collect()));
            }
            let start = self.read.len();
            self.read.resize(start + READ_BYTES, 0);
            let result = self.file.read_some_at(&mut self.read[start..], self.offset);
            self.read.truncate(start + result.as_ref().map_or(0, |count| *count));
            let count = result?;
            self.offset += count as u64;
            if count == 0 {
                let rest = std::mem::take(&mut self.read);
                return Ok(Some(rest).filter(|rest| !rest.is_empty()));
            }
        }
    }
}

fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(SHOWN_BYTES_MAX)]).into_owned()
}

fn unreadable(error: &io::Error, text: &[u8]) -> keel_base::SqlError {
    errors::unknown_error(format!("Bootstrap file error: {error}. Nearest query: '{}'", shown(text)))
}

fn unfinished(text: &[u8]) -> keel_base::SqlError {
    errors::unknown_error(format!("Bootstrap file error, return code (0). Nearest query: '{}'", shown(text)))
}

fn too_long(line: &[u8]) -> keel_base::SqlError {
    errors::unknown_error(format!(
        "Bootstrap file error. Query size exceeded {STATEMENT_BYTES_MAX} bytes near '{}'",
        shown(line)
    ))
}
