//! Comparing and checking names as MariaDB on Linux does: schemas and tables by case, columns and indexes without.

use keel_base::{SqlError, SqlResult, errors};

/// Most characters of a name.
pub const NAME_CHARS_MAX: usize = 64;

/// Whether two column or index names are the same.
pub fn same(a: &str, b: &str) -> bool {
    if a.is_ascii() && b.is_ascii() {
        a.eq_ignore_ascii_case(b)
    } else {
        a.chars().flat_map(char::to_lowercase).eq(b.chars().flat_map(char::to_lowercase))
    }
}

/// Refuses names that MariaDB refuses for databases.
pub fn check_schema(name: &str) -> SqlResult<()> {
    if is_bad(name) || is_long(name) { Err(errors::wrong_db_name(name)) } else { Ok(()) }
}

/// Refuses names that MariaDB refuses for tables.
pub fn check_table(name: &str) -> SqlResult<()> {
    if is_bad(name) || is_long(name) { Err(errors::wrong_table_name(name)) } else { Ok(()) }
}

/// Why there is no table: 1102 or 1103 where a name cannot be one, else 1146.
pub fn missing_table(schema: &str, name: &str) -> SqlError {
    match check_schema(schema).and_then(|()| check_table(name)) {
        Err(error) => error,
        Ok(()) => errors::no_such_table(schema, name),
    }
}

/// Refuses names that MariaDB refuses for columns.
pub fn check_column(name: &str) -> SqlResult<()> {
    check_length(name)?;
    if is_bad(name) { Err(errors::wrong_column_name(name)) } else { Ok(()) }
}

/// InnoDB's own column that a name is the name of.
pub fn own_column(name: &str) -> Option<&'static str> {
    const OWN: [&str; 3] = ["DB_ROW_ID", "DB_TRX_ID", "DB_ROLL_PTR"];
    OWN.into_iter().find(|own| own.eq_ignore_ascii_case(name))
}

/// Names of at most 64 characters.
pub fn check_length(name: &str) -> SqlResult<()> {
    if is_long(name) { Err(errors::too_long_ident(name)) } else { Ok(()) }
}

fn is_long(name: &str) -> bool {
    name.chars().count() > NAME_CHARS_MAX
}

fn is_bad(name: &str) -> bool {
    name.is_empty() || name.ends_with(' ') || name.contains('\0')
}

/// Writes `name` in backquotes.
pub fn push_quoted(out: &mut String, name: &str) {
    out.push('`');
    for c in name.chars() {
        if c == '`' {
            out.push('`');
        }
        out.push(c);
    }
    out.push('`');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_compare_without_case() {
        assert!(same("Id", "iD") && same("ÄB", "äb") && !same("a", "b"));
    }

    #[test]
    fn bad_names_are_refused() {
        assert_eq!(check_table("a ").unwrap_err().code, 1103);
        assert_eq!(check_schema("").unwrap_err().code, 1102);
        assert_eq!(check_column(&"x".repeat(65)).unwrap_err().code, 1059);
        assert_eq!(check_table(&"x".repeat(65)).unwrap_err().code, 1103);
        assert!(check_table(&"x".repeat(64)).is_ok());
    }
}
