//! Privileges: what there are, their names, and on what each can be granted.

/// A set of privileges. The bits are MariaDB's, as in the column `Priv` of `mysql.global_priv`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Privileges(pub u64);

macro_rules! privileges {
    ($($name:ident $bit:literal $words:literal;)*) => {
        #[allow(missing_docs)]
        impl Privileges {
            $(pub const $name: Privileges = Privileges(1 << $bit);)*
        }

        /// Every privilege with its words, in the order in which SHOW GRANTS lists them.
        pub const NAMES: &[(Privileges, &str)] = &[$((Privileges::$name, $words)),*];
    };
}

privileges! {
    SELECT 0 "SELECT";
    INSERT 1 "INSERT";
    UPDATE 2 "UPDATE";
    DELETE 3 "DELETE";
    CREATE 4 "CREATE";
    DROP 5 "DROP";
    RELOAD 6 "RELOAD";
    SHUTDOWN 7 "SHUTDOWN";
    PROCESS 8 "PROCESS";
    FILE 9 "FILE";
    GRANT 10 "GRANT";
    REFERENCES 11 "REFERENCES";
    INDEX 12 "INDEX";
    ALTER 13 "ALTER";
    SHOW_DATABASES 14 "SHOW DATABASES";
    SUPER 15 "SUPER";
    CREATE_TEMPORARY 16 "CREATE TEMPORARY TABLES";
    LOCK_TABLES 17 "LOCK TABLES";
    EXECUTE 18 "EXECUTE";
    REPLICATION_SLAVE 19 "REPLICATION SLAVE";
    BINLOG_MONITOR 20 "BINLOG MONITOR";
    CREATE_VIEW 21 "CREATE VIEW";
    SHOW_VIEW 22 "SHOW VIEW";
    CREATE_ROUTINE 23 "CREATE ROUTINE";
    ALTER_ROUTINE 24 "ALTER ROUTINE";
    CREATE_USER 25 "CREATE USER";
    EVENT 26 "EVENT";
    TRIGGER 27 "TRIGGER";
    CREATE_TABLESPACE 28 "CREATE TABLESPACE";
    DELETE_HISTORY 29 "DELETE HISTORY";
    SET_USER 30 "SET USER";
    FEDERATED_ADMIN 31 "FEDERATED ADMIN";
    CONNECTION_ADMIN 32 "CONNECTION ADMIN";
    READ_ONLY_ADMIN 33 "READ_ONLY ADMIN";
    REPLICATION_SLAVE_ADMIN 34 "REPLICATION SLAVE ADMIN";
    REPLICATION_MASTER_ADMIN 35 "REPLICATION MASTER ADMIN";
    BINLOG_ADMIN 36 "BINLOG ADMIN";
    BINLOG_REPLAY 37 "BINLOG REPLAY";
    SLAVE_MONITOR 38 "SLAVE MONITOR";
}

/// Other words for a privilege.
const SYNONYMS: &[(&str, Privileges)] = &[
    ("GRANT OPTION", Privileges::GRANT),
    ("DELETE VERSIONING ROWS", Privileges::DELETE_HISTORY),
    ("REPLICATION CLIENT", Privileges::BINLOG_MONITOR),
    ("REPLICATION REPLICA", Privileges::REPLICATION_SLAVE),
    ("REPLICATION REPLICA ADMIN", Privileges::REPLICATION_SLAVE_ADMIN),
    ("REPLICA MONITOR", Privileges::SLAVE_MONITOR),
    ("READ ONLY ADMIN", Privileges::READ_ONLY_ADMIN),
    ("USAGE", Privileges::NONE),
];

impl Privileges {
    /// USAGE.
    pub const NONE: Privileges = Privileges(0);
    /// What ALL PRIVILEGES ON *.* gives, GRANT OPTION included.
    pub const ALL: Privileges = Privileges((1 << 39) - 1);
    /// What no account has: whoever wants it is asked in full.
    pub const NOBODYS: Privileges = Privileges(1 << 63);
    /// What can be granted on a column.
    pub const OF_COLUMN: Privileges =
        Privileges(Self::SELECT.0 | Self::INSERT.0 | Self::UPDATE.0 | Self::REFERENCES.0);
    /// What can be granted on a table.
    pub const OF_TABLE: Privileges = Privileges(
        Self::OF_COLUMN.0
            | Self::DELETE.0
            | Self::CREATE.0
            | Self::DROP.0
            | Self::GRANT.0
            | Self::INDEX.0
            | Self::ALTER.0
            | Self::CREATE_VIEW.0
            | Self::SHOW_VIEW.0
            | Self::DELETE_HISTORY.0
            | Self::TRIGGER.0,
    );
    /// What can be granted on a database.
    pub const OF_DATABASE: Privileges = Privileges(
        Self::OF_TABLE.0
            | Self::CREATE_TEMPORARY.0
            | Self::LOCK_TABLES.0
            | Self::EXECUTE.0
            | Self::CREATE_ROUTINE.0
            | Self::ALTER_ROUTINE.0
            | Self::EVENT.0,
    );
    /// Those of OF_TABLE and OF_DATABASE that let a table be seen: all but GRANT OPTION.
    pub const SEES_TABLE: Privileges = Privileges(Self::OF_TABLE.0 & !Self::GRANT.0);

    /// The privilege of these words in capitals.
    pub fn named(words: &str) -> Option<Privileges> {
        NAMES
            .iter()
            .map(|(p, name)| (*name, *p))
            .chain(SYNONYMS.iter().copied())
            .find(|(name, _)| *name == words)
            .map(|(_, p)| p)
    }

    /// Whether it has all of those.
    pub const fn has(self, others: Privileges) -> bool {
        self.0 & others.0 == others.0
    }

    /// Whether it has one of those.
    pub const fn has_any(self, others: Privileges) -> bool {
        self.0 & others.0 != 0
    }

    /// Whether it is USAGE.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Both.
    pub const fn and(self, others: Privileges) -> Privileges {
        Privileges(self.0 | others.0)
    }

    /// Those that are in both.
    pub const fn within(self, others: Privileges) -> Privileges {
        Privileges(self.0 & others.0)
    }

    /// Without those.
    pub const fn without(self, others: Privileges) -> Privileges {
        Privileges(self.0 & !others.0)
    }

    /// The names of those it has, in order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.iter().filter(move |(p, _)| self.has(*p)).map(|(_, name)| *name)
    }

    /// The names with commas between, as messages list them.
    pub fn list(self) -> String {
        self.names().collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_and_listed() {
        assert_eq!(Privileges::named("GRANT OPTION"), Some(Privileges::GRANT));
        assert_eq!(Privileges::named("CREATE TEMPORARY TABLES"), Some(Privileges::CREATE_TEMPORARY));
        assert_eq!(Privileges::named("USAGE"), Some(Privileges::NONE));
        assert_eq!(Privileges::SELECT.and(Privileges::INSERT).list(), "SELECT, INSERT");
        assert_eq!(Privileges::ALL.0, 549_755_813_887);
    }
}
