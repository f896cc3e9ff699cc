//! Options of tables and indexes that MariaDB's engines name, `name=value`. InnoDB's are held against what InnoDB takes,
//! kept for SHOW CREATE TABLE and have no effect; tables cannot be encrypted, since there are no keys. Others are unknown
//! (1911), unless `sql_mode` says to ignore that: then those of tables are kept too.

use keel_base::{Level, SqlError, SqlResult, Warning, errors};
use keel_catalog::TableOptions;
use keel_exec::session::Session;
use keel_sql::ast::{self, ByteStr, TableOption};
use keel_value::SqlMode;

use super::foreign;

/// InnoDB's number for options that do not go together.
const WRONG_OPTIONS: u16 = 140;
/// The highest level of compression.
const LEVEL_MAX: u64 = 9;
/// InnoDB's values of KEY_BLOCK_SIZE.
const BLOCK_SIZES: [u32; 5] = [1, 2, 4, 8, 16];
const TRUTHS: [&str; 6] = ["ON", "OFF", "YES", "NO", "1", "0"];

/// Keeps the options of a table that an engine names.
pub(super) fn keep_all(
    session: &mut Session,
    options: &mut TableOptions,
    list: &[TableOption],
) -> SqlResult<()> {
    list.iter().try_for_each(|option| match option {
        TableOption::Named(name, value) => keep(session, options, name, value),
        _ => Ok(()),
    })
}

fn keep(session: &mut Session, options: &mut TableOptions, name: &str, value: &ByteStr) -> SqlResult<()> {
    let text = value.to_text();
    check(session, name, &text)?;
    let kept = TableOptions::of_engine(name);
    options.others.retain(|(other, _)| !other.eq_ignore_ascii_case(&kept));
    if text != "DEFAULT" {
        options.others.push((kept, text));
    }
    Ok(())
}

fn check(session: &mut Session, name: &str, value: &str) -> SqlResult<()> {
    let number = |least: u64, most: u64| value.parse().is_ok_and(|n: u64| (least..=most).contains(&n));
    let is_of = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(value));
    let upper = name.to_ascii_uppercase();
    let fits = match upper.as_str() {
        "PAGE_COMPRESSED" => is_of(&TRUTHS),
        "PAGE_COMPRESSION_LEVEL" => number(0, LEVEL_MAX),
        "ENCRYPTED" => is_of(&["DEFAULT", "YES", "NO"]),
        "ENCRYPTION_KEY_ID" => number(1, u64::from(u32::MAX)),
        _ => return bad(session, errors::unknown_option(name)),
    };
    if fits || value == "DEFAULT" { Ok(()) } else { bad(session, errors::bad_option_value(value, upper)) }
}

fn bad(session: &mut Session, error: SqlError) -> SqlResult<()> {
    if !session.vars.sql_mode.has(SqlMode::IGNORE_BAD_TABLE_OPTIONS) {
        return Err(error);
    }
    session.warn(error);
    Ok(())
}

/// Indexes have no such options.
pub(super) fn check_key(session: &mut Session, key: &ast::KeyDef) -> SqlResult<()> {
    key.options.other.iter().try_for_each(|(name, _)| bad(session, errors::unknown_option(name)))
}

/// What InnoDB says to options that do not go together, and which one is to blame.
fn fault(options: &TableOptions) -> Option<(String, &'static str)> {
    let value = |name: &str| {
        let mut all = options.engine_options();
        all.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    let is_on = |value: &str| ["ON", "YES", "1"].iter().any(|word| word.eq_ignore_ascii_case(value));
    if value("ENCRYPTED").is_some_and(|value| value.eq_ignore_ascii_case("YES")) {
        let key = value("ENCRYPTION_KEY_ID").unwrap_or("1");
        return Some((format!("ENCRYPTION_KEY_ID {key} not available"), "ENCRYPTION_KEY_ID"));
    }
    if !value("PAGE_COMPRESSED").is_some_and(is_on) {
        let level = value("PAGE_COMPRESSION_LEVEL").filter(|level| *level != "0");
        return level
            .map(|_| ("PAGE_COMPRESSION_LEVEL requires PAGE_COMPRESSED".into(), "PAGE_COMPRESSION_LEVEL"));
    }
    let with = match options.row_format.as_deref() {
        Some(format @ ("COMPRESSED" | "REDUNDANT")) => format!("ROW_TYPE={format}"),
        _ if options.key_block_size().is_some() => "key_block_size".to_string(),
        _ => return None,
    };
    Some((format!("PAGE_COMPRESSED table can't have {with}"), "PAGE_COMPRESSED"))
}

/// What InnoDB says to a KEY_BLOCK_SIZE that there is not, or that a row format has not; nothing where a session is not strict
/// about it, or `named` names another engine.
fn wrong_block_size(session: &Session, options: &TableOptions, named: &[TableOption]) -> Option<SqlError> {
    let other =
        |o: &TableOption| matches!(o, TableOption::Engine(name) if !name.eq_ignore_ascii_case("innodb"));
    let size = options.key_block_size()?;
    if !session.vars.innodb_strict || named.iter().any(other) {
        return None;
    }
    let text = match options.row_format.as_deref() {
        _ if !BLOCK_SIZES.contains(&size) => {
            format!("invalid KEY_BLOCK_SIZE = {size}. Valid values are [1, 2, 4, 8, 16]")
        }
        Some(format @ ("DYNAMIC" | "COMPACT" | "REDUNDANT")) => {
            format!("cannot specify ROW_FORMAT = {format} with KEY_BLOCK_SIZE.")
        }
        _ => return None,
    };
    let error = errors::illegal_ha_create_option("InnoDB", "KEY_BLOCK_SIZE");
    Some(SqlError { message: format!("InnoDB: {text}").into(), ..error })
}

fn warn(session: &mut Session, text: String) {
    let message = format!("InnoDB: {text}").into();
    session.push_warning(Warning { level: Level::Warning, code: WRONG_OPTIONS, message });
}

/// 1005 for a new table whose options do not go together.
pub(super) fn check_new(
    session: &mut Session,
    schema: &str,
    table: &str,
    options: &TableOptions,
    named: &[TableOption],
) -> SqlResult<()> {
    if let Some(warning) = wrong_block_size(session, options, named) {
        session.warn(warning);
        return Err(foreign::wrong_options(session, schema, table));
    }
    let Some((text, _)) = fault(options) else { return Ok(()) };
    warn(session, text);
    Err(foreign::wrong_options(session, schema, table))
}

/// 1478 for a table whose options do not go together any more.
pub(super) fn check_altered(
    session: &mut Session,
    before: &TableOptions,
    now: &TableOptions,
    named: &[TableOption],
) -> SqlResult<()> {
    let sizes = (before.key_block_size(), &before.row_format) != (now.key_block_size(), &now.row_format);
    if let Some(warning) = wrong_block_size(session, now, named).filter(|_| sizes) {
        session.warn(warning);
        return Err(errors::illegal_ha_create_option("InnoDB", "KEY_BLOCK_SIZE"));
    }
    let Some((text, name)) = fault(now).filter(|_| before != now) else { return Ok(()) };
    warn(session, text);
    Err(errors::illegal_ha_create_option("InnoDB", name))
}
