//! `sql_mode`: MariaDB's flags under MariaDB's bit numbers.

/// A set of `sql_mode` flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlMode(pub u64);

macro_rules! modes {
    ($($name:ident = $bit:literal,)*) => {
        #[allow(missing_docs)]
        impl SqlMode {
            $(pub const $name: SqlMode = SqlMode(1 << $bit);)*
        }

        const NAMES: &[(&str, u64)] = &[$((stringify!($name), 1 << $bit)),*];
    };
}

modes! {
    REAL_AS_FLOAT = 0,
    PIPES_AS_CONCAT = 1,
    ANSI_QUOTES = 2,
    IGNORE_SPACE = 3,
    IGNORE_BAD_TABLE_OPTIONS = 4,
    ONLY_FULL_GROUP_BY = 5,
    NO_UNSIGNED_SUBTRACTION = 6,
    NO_DIR_IN_CREATE = 7,
    POSTGRESQL = 8,
    ORACLE = 9,
    MSSQL = 10,
    DB2 = 11,
    MAXDB = 12,
    NO_KEY_OPTIONS = 13,
    NO_TABLE_OPTIONS = 14,
    NO_FIELD_OPTIONS = 15,
    MYSQL323 = 16,
    MYSQL40 = 17,
    ANSI = 18,
    NO_AUTO_VALUE_ON_ZERO = 19,
    NO_BACKSLASH_ESCAPES = 20,
    STRICT_TRANS_TABLES = 21,
    STRICT_ALL_TABLES = 22,
    NO_ZERO_IN_DATE = 23,
    NO_ZERO_DATE = 24,
    ALLOW_INVALID_DATES = 25,
    ERROR_FOR_DIVISION_BY_ZERO = 26,
    TRADITIONAL = 27,
    NO_AUTO_CREATE_USER = 28,
    HIGH_NOT_PRECEDENCE = 29,
    NO_ENGINE_SUBSTITUTION = 30,
    PAD_CHAR_TO_FULL_LENGTH = 31,
    EMPTY_STRING_IS_NULL = 32,
    SIMULTANEOUS_ASSIGNMENT = 33,
    TIME_ROUND_FRACTIONAL = 34,
}

impl SqlMode {
    /// No flag set.
    pub const EMPTY: SqlMode = SqlMode(0);

    /// What a new MariaDB 10.11 starts with.
    pub const DEFAULT: SqlMode = SqlMode(
        SqlMode::STRICT_TRANS_TABLES.0
            | SqlMode::ERROR_FOR_DIVISION_BY_ZERO.0
            | SqlMode::NO_AUTO_CREATE_USER.0
            | SqlMode::NO_ENGINE_SUBSTITUTION.0,
    );

    /// Whether all flags of `other` are set.
    #[inline]
    pub const fn has(self, other: SqlMode) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets together.
    pub const fn with(self, other: SqlMode) -> SqlMode {
        SqlMode(self.0 | other.0)
    }

    /// Whether bad data in a transactional table is an error.
    #[inline]
    pub const fn is_strict(self) -> bool {
        self.0 & (SqlMode::STRICT_TRANS_TABLES.0 | SqlMode::STRICT_ALL_TABLES.0) != 0
    }

    /// The comma-separated text of `@@sql_mode`, in bit order.
    pub fn to_text(self) -> String {
        let names: Vec<&str> = NAMES.iter().filter(|(_, bit)| self.0 & bit != 0).map(|(n, _)| *n).collect();
        names.join(",")
    }

    /// Reads `@@sql_mode` text; combinations (`TRADITIONAL`, `ANSI`, ...) set their members too. The error is the unknown
    /// word.
    pub fn parse(text: &str) -> Result<SqlMode, String> {
        let mut mode = SqlMode::EMPTY;
        for word in text.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            match NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) {
                Some((_, bit)) => mode.0 |= bit,
                None => return Err(word.to_string()),
            }
        }
        Ok(mode.expanded())
    }

    /// Adds what the combination flags stand for.
    pub fn expanded(self) -> SqlMode {
        const QUOTES: u64 = SqlMode::PIPES_AS_CONCAT.0 | SqlMode::ANSI_QUOTES.0 | SqlMode::IGNORE_SPACE.0;
        const FOREIGN: u64 =
            QUOTES | SqlMode::NO_KEY_OPTIONS.0 | SqlMode::NO_TABLE_OPTIONS.0 | SqlMode::NO_FIELD_OPTIONS.0;
        let combinations = [
            (SqlMode::ANSI, QUOTES | SqlMode::REAL_AS_FLOAT.0),
            (SqlMode::ORACLE, FOREIGN | SqlMode::NO_AUTO_CREATE_USER.0 | SqlMode::SIMULTANEOUS_ASSIGNMENT.0),
            (SqlMode::MSSQL, FOREIGN),
            (SqlMode::POSTGRESQL, FOREIGN),
            (SqlMode::DB2, FOREIGN),
            (SqlMode::MAXDB, FOREIGN | SqlMode::NO_AUTO_CREATE_USER.0),
            (SqlMode::MYSQL323, SqlMode::HIGH_NOT_PRECEDENCE.0),
            (SqlMode::MYSQL40, SqlMode::HIGH_NOT_PRECEDENCE.0),
            (
                SqlMode::TRADITIONAL,
                SqlMode::STRICT_TRANS_TABLES.0
                    | SqlMode::STRICT_ALL_TABLES.0
                    | SqlMode::NO_ZERO_IN_DATE.0
                    | SqlMode::NO_ZERO_DATE.0
                    | SqlMode::ERROR_FOR_DIVISION_BY_ZERO.0
                    | SqlMode::NO_AUTO_CREATE_USER.0
                    | SqlMode::NO_ENGINE_SUBSTITUTION.0,
            ),
        ];
        let mut bits = self.0;
        for (flag, members) in combinations {
            if self.has(flag) {
                bits |= members;
            }
        }
        SqlMode(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_prints_as_mariadb_does() {
        assert_eq!(
            SqlMode::DEFAULT.to_text(),
            "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION"
        );
        assert_eq!(SqlMode::parse(&SqlMode::DEFAULT.to_text()), Ok(SqlMode::DEFAULT));
    }

    #[test]
    fn combinations_set_their_members() {
        let mode = SqlMode::parse("traditional").unwrap();
        assert!(mode.has(SqlMode::NO_ZERO_DATE) && mode.is_strict());
        assert_eq!(SqlMode::parse("ANSI, nonsense"), Err("nonsense".to_string()));
    }
}
