//! The error catalogue: MariaDB's numbers, SQLSTATEs and message texts, once.
//!
//! Each entry makes a constructor of that name (`errors::dup_entry("1", "PRIMARY")`) and a constant for comparing
//! (`code::DUP_ENTRY`). Numbers and texts follow MariaDB 10.11 (its knowledge base, "MariaDB Error Codes"); where MariaDB
//! formats an argument, the constructor takes it. Keep entries sorted by number.

use std::borrow::Cow;
use std::fmt;

/// What a statement reports to its client instead of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError {
    /// MariaDB's error number, one of [`code`].
    pub code: u16,
    /// Five characters.
    pub sqlstate: &'static str,
    /// Text without number and state.
    pub message: Cow<'static, str>,
    /// The error that this one hides; SHOW WARNINGS shows both.
    pub cause: Option<Box<SqlError>>,
}

/// The result of anything that answers a client.
pub type SqlResult<T> = Result<T, SqlError>;

impl SqlError {
    /// The same with what it hides: `error`, or what that hides itself.
    pub fn caused_by(self, mut error: SqlError) -> SqlError {
        let cause = error.cause.take().unwrap_or_else(|| Box::new(error));
        SqlError { cause: Some(cause), ..self }
    }

    /// An unknown column (1054) or table (1109) or an ambiguous column (1052) with the name of the clause replaced.
    pub fn in_clause(self, bound: &str, told: &str) -> SqlError {
        let message = match self.code {
            code::BAD_FIELD => self.message.replace(&format!("in '{bound}'"), &format!("in '{told}'")),
            code::UNKNOWN_TABLE => self.message.replace(&format!("' in {bound}"), &format!("' in {told}")),
            code::NON_UNIQ => {
                self.message.replace(&format!("in {bound} is ambiguous"), &format!("in {told} is ambiguous"))
            }
            _ => return self,
        };
        SqlError { message: message.into(), ..self }
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ERROR {} ({}): {}", self.code, self.sqlstate, self.message)
    }
}

impl std::error::Error for SqlError {}

/// How SHOW WARNINGS names an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something the user may want to know.
    Note,
    /// A value was changed or a clause had no effect.
    Warning,
    /// The statement failed.
    Error,
}

impl Level {
    /// The word in SHOW WARNINGS.
    pub fn name(self) -> &'static str {
        match self {
            Level::Note => "Note",
            Level::Warning => "Warning",
            Level::Error => "Error",
        }
    }
}

/// One row of SHOW WARNINGS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Note, Warning or Error.
    pub level: Level,
    /// MariaDB's error number.
    pub code: u16,
    /// Text without number.
    pub message: Cow<'static, str>,
}

impl From<SqlError> for Warning {
    /// As MariaDB does where `sql_mode` turns an error into a warning.
    fn from(error: SqlError) -> Self {
        Warning { level: Level::Warning, code: error.code, message: error.message }
    }
}

macro_rules! catalogue {
    ($($code:ident $name:ident($number:literal, $state:literal $(, $arg:ident)*) $text:literal;)*) => {
        /// Error numbers, for comparing.
        #[allow(missing_docs)]
        pub mod code {
            $(pub const $code: u16 = $number;)*
        }

        /// Constructors: one for each entry of the catalogue.
        #[allow(missing_docs)]
        pub mod errors {
            use super::*;
            $(
                #[cold]
                #[allow(unused_variables)] // MariaDB takes arguments that some of its texts do not show.
                pub fn $name($($arg: impl fmt::Display),*) -> SqlError {
                    SqlError { code: $number, sqlstate: $state, message: Cow::Owned(format!($text)), cause: None }
                }
            )*
        }

        #[cfg(test)]
        const NUMBERS: &[(u16, &str)] = &[$(($number, $state)),*];
    };
}

catalogue! {
    EE_CANTCREATEFILE ee_cantcreatefile(1, "HY000", file, errno, reason) "Can't create/write to file '{file}' (Errcode: {errno} \"{reason}\")";
    EE_READ ee_read(2, "HY000", file, errno, reason) "Error reading file '{file}' (Errcode: {errno} \"{reason}\")";
    EE_WRITE ee_write(3, "HY000", file, errno, reason) "Error writing file '{file}' (Errcode: {errno} \"{reason}\")";
    EE_STAT ee_stat(13, "HY000", file, errno, reason) "Can't get stat of '{file}' (Errcode: {errno} \"{reason}\")";
    EE_FILENOTFOUND ee_filenotfound(29, "HY000", file, errno, reason) "File '{file}' not found (Errcode: {errno} \"{reason}\")";
    EE_OUTOFMEMORY ee_outofmemory(5, "HY000", bytes) "Out of memory (Needed {bytes} bytes)";
    AUTOINC_OUT_OF_RANGE autoinc_out_of_range(167, "22003", column, row) "Out of range value for column '{column}' at row {row}";
    YES yes(1003, "HY000", text) "{text}";
    CANT_CREATE_TABLE cant_create_table(1005, "HY000", db, table, reason) "Can't create table `{db}`.`{table}` ({reason})";
    DB_CREATE_EXISTS db_create_exists(1007, "HY000", db) "Can't create database '{db}'; database exists";
    DB_DROP_EXISTS db_drop_exists(1008, "HY000", db) "Can't drop database '{db}'; database doesn't exist";
    CHECKREAD checkread(1020, "HY000", table) "Record has changed since last read in table '{table}'; try restarting transaction";
    DISK_FULL disk_full(1021, "HY000", file, reason) "Disk full ({file}); waiting for someone to free some space... (errno: 28 \"{reason}\")";
    DUP_KEY dup_key(1022, "23000", table) "Can't write; duplicate key in table '{table}'";
    ERROR_ON_READ error_on_read(1024, "HY000", file, errno, reason) "Error reading file '{file}' (errno: {errno} \"{reason}\")";
    ERROR_ON_RENAME error_on_rename(1025, "HY000", from, to, reason) "Error on rename of '{from}' to '{to}' ({reason})";
    ERROR_ON_WRITE error_on_write(1026, "HY000", file, errno, reason) "Error writing file '{file}' (errno: {errno} \"{reason}\")";
    FILSORT_ABORT filsort_abort(1028, "HY000", reason) "Sort aborted: {reason}";
    GET_ERRNO get_errno(1030, "HY000", errno, text, engine) "Got error {errno} \"{text}\" from storage engine {engine}";
    ILLEGAL_HA illegal_ha(1031, "HY000", engine, db, table) "Storage engine {engine} of the table `{db}`.`{table}` doesn't have this option";
    NOT_FORM_FILE not_form_file(1033, "HY000", file) "Incorrect information in file: '{file}'";
    NOT_KEYFILE not_keyfile(1034, "HY000", table) "Index for table '{table}' is corrupt; try to repair it";
    OUTOFMEMORY outofmemory(1037, "HY001", bytes) "Out of memory; restart server and try again (needed {bytes} bytes)";
    OUT_OF_SORTMEMORY out_of_sortmemory(1038, "HY001") "Out of sort memory, consider increasing server sort buffer size";
    CON_COUNT_ERROR con_count_error(1040, "08004") "Too many connections";
    TABLE_NOT_LOCKED_FOR_WRITE table_not_locked_for_write(1099, "HY000", table) "Table '{table}' was locked with a READ lock and can't be updated";
    TABLE_NOT_LOCKED table_not_locked(1100, "HY000", table) "Table '{table}' was not locked with LOCK TABLES";
    LOCK_OR_ACTIVE_TRANSACTION lock_or_active_transaction(1192, "HY000") "Can't execute the given command because you have active locked tables or an active transaction";
    TOO_BIG_SELECT too_big_select(1104, "42000") "The SELECT would examine more than MAX_JOIN_SIZE rows; check your WHERE and use SET SQL_BIG_SELECTS=1 or SET MAX_JOIN_SIZE=# if the SELECT is okay";
    OUT_OF_RESOURCES out_of_resources(1041, "HY000") "Out of memory.";
    HANDSHAKE_ERROR handshake_error(1043, "08S01") "Bad handshake";
    DBACCESS_DENIED dbaccess_denied(1044, "42000", user, host, db) "Access denied for user '{user}'@'{host}' to database '{db}'";
    ACCESS_DENIED access_denied(1045, "28000", user, host, using) "Access denied for user '{user}'@'{host}' (using password: {using})";
    NO_DB no_db(1046, "3D000") "No database selected";
    UNKNOWN_COM unknown_com(1047, "08S01") "Unknown command";
    BAD_NULL bad_null(1048, "23000", column) "Column '{column}' cannot be null";
    BAD_DB bad_db(1049, "42000", db) "Unknown database '{db}'";
    TABLE_EXISTS table_exists(1050, "42S01", table) "Table '{table}' already exists";
    BAD_TABLE bad_table(1051, "42S02", table) "Unknown table '{table}'";
    NON_UNIQ non_uniq(1052, "23000", column, clause) "Column '{column}' in {clause} is ambiguous";
    SERVER_SHUTDOWN server_shutdown(1053, "08S01") "Server shutdown in progress";
    BAD_FIELD bad_field(1054, "42S22", column, clause) "Unknown column '{column}' in '{clause}'";
    WRONG_FIELD_WITH_GROUP wrong_field_with_group(1055, "42000", column) "'{column}' isn't in GROUP BY";
    WRONG_GROUP_FIELD wrong_group_field(1056, "42000", column) "Can't group on '{column}'";
    TOO_LONG_IDENT too_long_ident(1059, "42000", name) "Identifier name '{name}' is too long";
    DUP_FIELDNAME dup_fieldname(1060, "42S21", column) "Duplicate column name '{column}'";
    DUP_KEYNAME dup_keyname(1061, "42000", key) "Duplicate key name '{key}'";
    DUP_ENTRY dup_entry(1062, "23000", value, key) "Duplicate entry '{value}' for key '{key}'";
    WRONG_FIELD_SPEC wrong_field_spec(1063, "42000", column) "Incorrect column specifier for column '{column}'";
    PARSE_ERROR parse_error(1064, "42000", message, near, line) "{message} near '{near}' at line {line}";
    EMPTY_QUERY empty_query(1065, "42000") "Query was empty";
    NONUNIQ_TABLE nonuniq_table(1066, "42000", table) "Not unique table/alias: '{table}'";
    INVALID_DEFAULT invalid_default(1067, "42000", column) "Invalid default value for '{column}'";
    MULTIPLE_PRI_KEY multiple_pri_key(1068, "42000") "Multiple primary key defined";
    TOO_MANY_KEYS too_many_keys(1069, "42000", max) "Too many keys specified; max {max} keys allowed";
    TOO_MANY_KEY_PARTS too_many_key_parts(1070, "42000", max) "Too many key parts specified; max {max} parts allowed";
    TOO_LONG_KEY too_long_key(1071, "42000", max) "Specified key was too long; max key length is {max} bytes";
    KEY_COLUMN_DOES_NOT_EXIST key_column_does_not_exist(1072, "42000", column) "Key column '{column}' doesn't exist in table";
    BLOB_USED_AS_KEY blob_used_as_key(1073, "42000", column, table) "BLOB column '{column}' can't be used in key specification in the {table} table";
    TOO_BIG_FIELDLENGTH too_big_fieldlength(1074, "42000", column, max) "Column length too big for column '{column}' (max = {max}); use BLOB or TEXT instead";
    WRONG_AUTO_KEY wrong_auto_key(1075, "42000") "Incorrect table definition; there can be only one auto column and it must be defined as a key";
    NO_SUCH_INDEX no_such_index(1082, "42S12", table) "Table '{table}' has no index like the one used in CREATE INDEX; recreate the table";
    WRONG_FIELD_TERMINATORS wrong_field_terminators(1083, "42000") "Field separator argument is not what is expected; check the manual";
    BLOBS_AND_NO_TERMINATED blobs_and_no_terminated(1084, "42000") "You can't use fixed rowlength with BLOBs; please use 'fields terminated by'";
    TEXTFILE_NOT_READABLE textfile_not_readable(1085, "HY000", file) "The file '{file}' must be in the database directory or be readable by all";
    FILE_EXISTS_ERROR file_exists_error(1086, "HY000", file) "File '{file}' already exists";
    WRONG_SUB_KEY wrong_sub_key(1089, "HY000") "Incorrect prefix key; the used key part isn't a string, the used length is longer than the key part, or the storage engine doesn't support unique prefix keys";
    CANT_REMOVE_ALL_FIELDS cant_remove_all_fields(1090, "42000") "You can't delete all columns with ALTER TABLE; use DROP TABLE instead";
    CANT_DROP_FIELD_OR_KEY cant_drop_field_or_key(1091, "42000", kind, name) "Can't DROP {kind} `{name}`; check that it exists";
    UPDATE_TABLE_USED update_table_used(1093, "HY000", table, statement) "Table '{table}' is specified twice, both as a target for '{statement}' and as a separate source for data";
    NO_SUCH_THREAD no_such_thread(1094, "HY000", id) "Unknown thread id: {id}";
    KILL_DENIED kill_denied(1095, "HY000", id) "You are not owner of thread {id}";
    NO_TABLES_USED no_tables_used(1096, "HY000") "No tables used";
    TOO_BIG_SET too_big_set(1097, "HY000", column) "Too many strings for column {column} and SET";
    BLOB_CANT_HAVE_DEFAULT blob_cant_have_default(1101, "42000", column) "BLOB, TEXT, GEOMETRY or JSON column '{column}' can't have a default value";
    WRONG_DB_NAME wrong_db_name(1102, "42000", db) "Incorrect database name '{db}'";
    WRONG_TABLE_NAME wrong_table_name(1103, "42000", table) "Incorrect table name '{table}'";
    UNKNOWN_ERROR unknown_error(1105, "HY000", text) "{text}";
    UNKNOWN_PROCEDURE unknown_procedure(1106, "42000", name) "Unknown procedure '{name}'";
    UNKNOWN_TABLE unknown_table(1109, "42S02", table, clause) "Unknown table '{table}' in {clause}";
    FIELD_SPECIFIED_TWICE field_specified_twice(1110, "42000", column) "Column '{column}' specified twice";
    INVALID_GROUP_FUNC_USE invalid_group_func_use(1111, "HY000") "Invalid use of group function";
    TABLE_MUST_HAVE_COLUMNS table_must_have_columns(1113, "42000") "A table must have at least 1 column";
    RECORD_FILE_FULL record_file_full(1114, "HY000", table) "The table '{table}' is full";
    UNKNOWN_CHARACTER_SET unknown_character_set(1115, "42000", name) "Unknown character set: '{name}'";
    TOO_MANY_TABLES too_many_tables(1116, "HY000", max) "Too many tables; MariaDB can only use {max} tables in a join";
    TOO_MANY_FIELDS too_many_fields(1117, "HY000") "Too many columns";
    TOO_BIG_ROWSIZE too_big_rowsize(1118, "42000", max) "Row size too large. The maximum row size for the used table type, not counting BLOBs, is {max}. This includes storage overhead, check the manual. You have to change some columns to TEXT or BLOBs";
    HOST_IS_BLOCKED host_is_blocked(1129, "HY000", host) "Host '{host}' is blocked because of many connection errors; unblock with 'mariadb-admin flush-hosts'";
    HOST_NOT_PRIVILEGED host_not_privileged(1130, "HY000", host) "Host '{host}' is not allowed to connect to this MariaDB server";
    PASSWORD_ANONYMOUS_USER password_anonymous_user(1131, "42000") "You are using MariaDB as an anonymous user and anonymous users are not allowed to modify user settings";
    PASSWORD_NO_MATCH password_no_match(1133, "28000") "Can't find any matching row in the user table";
    WRONG_VALUE_COUNT_ON_ROW wrong_value_count_on_row(1136, "21S01", row) "Column count doesn't match value count at row {row}";
    CANT_REOPEN_TABLE cant_reopen_table(1137, "HY000", table) "Can't reopen table: '{table}'";
    REGEXP_ERROR regexp_error(1139, "42000", reason) "Regex error '{reason}'";
    MIX_OF_GROUP_FUNC_AND_FIELDS mix_of_group_func_and_fields(1140, "42000") "Mixing of GROUP columns (MIN(),MAX(),COUNT(),...) with no GROUP columns is illegal if there is no GROUP BY clause";
    NONEXISTING_GRANT nonexisting_grant(1141, "42000", user, host) "There is no such grant defined for user '{user}' on host '{host}'";
    TABLEACCESS_DENIED tableaccess_denied(1142, "42000", command, user, host, db, table) "{command} command denied to user '{user}'@'{host}' for table `{db}`.`{table}`";
    COLUMNACCESS_DENIED columnaccess_denied(1143, "42000", command, user, host, column, table) "{command} command denied to user '{user}'@'{host}' for column '{column}' in table '{table}'";
    ILLEGAL_GRANT_FOR_TABLE illegal_grant_for_table(1144, "42000") "Illegal GRANT/REVOKE command; please consult the manual to see which privileges can be used";
    NO_SUCH_TABLE no_such_table(1146, "42S02", db, table) "Table '{db}.{table}' doesn't exist";
    NONEXISTING_TABLE_GRANT nonexisting_table_grant(1147, "42000", user, host, table) "There is no such grant defined for user '{user}' on host '{host}' on table '{table}'";
    SYNTAX_ERROR syntax_error(1149, "42000") "You have an error in your SQL syntax; check the manual that corresponds to your MariaDB server version for the right syntax to use";
    NET_PACKET_TOO_LARGE net_packet_too_large(1153, "08S01") "Got a packet bigger than 'max_allowed_packet' bytes";
    NET_PACKETS_OUT_OF_ORDER net_packets_out_of_order(1156, "08S01") "Got packets out of order";
    TABLE_CANT_HANDLE_BLOB table_cant_handle_blob(1163, "42000", engine) "Storage engine {engine} doesn't support BLOB/TEXT columns";
    UNSUPPORTED_ENGINE_FOR_GENERATED unsupported_engine_for_generated(1910, "HY000", engine) "{engine} storage engine does not support generated columns";
    TABLE_CANT_HANDLE_AUTO_INCREMENT table_cant_handle_auto_increment(1164, "42000", engine) "Storage engine {engine} doesn't support AUTO_INCREMENT columns";
    WARN_FIELD_RESOLVED warn_field_resolved(1276, "HY000", name, from, to) "Field or reference '{name}' of SELECT #{from} was resolved in SELECT #{to}";
    SELECT_REDUCED select_reduced(1249, "01000", number) "Select {number} was reduced during optimization";
    WARN_AGGFUNC_DEPENDENCE warn_aggfunc_dependence(1981, "HY000", name, from, to) "Aggregate function '{name}()' of SELECT #{from} belongs to SELECT #{to}";
    REMOVED_SPACES removed_spaces(1466, "HY000", name) "Leading spaces are removed from name '{name}'";
    NAME_BECOMES_EMPTY name_becomes_empty(1474, "HY000", name) "Name '{name}' has become ''";
    WRONG_COLUMN_NAME wrong_column_name(1166, "42000", column) "Incorrect column name '{column}'";
    WRONG_KEY_COLUMN wrong_key_column(1167, "42000", engine, column) "The storage engine {engine} can't index column `{column}`";
    DUP_UNIQUE dup_unique(1169, "23000") "Can't write, because of unique constraint, to table";
    BLOB_KEY_WITHOUT_LENGTH blob_key_without_length(1170, "42000", column) "BLOB/TEXT column '{column}' used in key specification without a key length";
    PRIMARY_CANT_HAVE_NULL primary_cant_have_null(1171, "42000") "All parts of a PRIMARY KEY must be NOT NULL; if you need NULL in a key, use UNIQUE instead";
    TOO_MANY_ROWS too_many_rows(1172, "42000") "Result consisted of more than one row";
    REQUIRES_PRIMARY_KEY requires_primary_key(1173, "42000") "This table type requires a primary key";
    UPDATE_WITHOUT_KEY_IN_SAFE_MODE update_without_key_in_safe_mode(1175, "HY000") "You are using safe update mode and you tried to update a table without a WHERE that uses a KEY column";
    KEY_DOES_NOT_EXIST key_does_not_exist(1176, "42000", key, table) "Key '{key}' doesn't exist in table '{table}'";
    ERROR_DURING_COMMIT error_during_commit(1180, "HY000", errno, text) "Got error {errno} \"{text}\" during COMMIT";
    NEW_ABORTING_CONNECTION new_aborting_connection(1184, "08S01", id, db, user, host, reason) "Aborted connection {id} to db: '{db}' user: '{user}' host: '{host}' ({reason})";
    FLUSH_MASTER_BINLOG_CLOSED flush_master_binlog_closed(1186, "HY000") "Binlog closed, cannot RESET MASTER";
    UNKNOWN_SYSTEM_VARIABLE unknown_system_variable(1193, "HY000", name) "Unknown system variable '{name}'";
    WARNING_NOT_COMPLETE_ROLLBACK warning_not_complete_rollback(1196, "HY000") "Some non-transactional changed tables couldn't be rolled back";
    TOO_MANY_USER_CONNECTIONS too_many_user_connections(1203, "42000", user) "User {user} already has more than 'max_user_connections' active connections";
    SET_CONSTANTS_ONLY set_constants_only(1204, "HY000") "You may only use constant expressions in this statement";
    LOCK_WAIT_TIMEOUT lock_wait_timeout(1205, "HY000") "Lock wait timeout exceeded; try restarting transaction";
    WRONG_ARGUMENTS wrong_arguments(1210, "HY000", name) "Incorrect arguments to {name}";
    LOCK_DEADLOCK lock_deadlock(1213, "40001") "Deadlock found when trying to get lock; try restarting transaction";
    CANNOT_ADD_FOREIGN cannot_add_foreign(1215, "HY000", table) "Cannot add foreign key constraint for `{table}`";
    WRONG_USAGE wrong_usage(1221, "HY000", a, b) "Incorrect usage of {a} and {b}";
    WRONG_NUMBER_OF_COLUMNS_IN_SELECT wrong_number_of_columns_in_select(1222, "21000") "The used SELECT statements have a different number of columns";
    CANT_UPDATE_WITH_READLOCK cant_update_with_readlock(1223, "HY000") "Can't execute the query because you have a conflicting read lock";
    DUP_ARGUMENT dup_argument(1225, "HY000", option) "Option '{option}' used twice in statement";
    USER_LIMIT_REACHED user_limit_reached(1226, "42000", user, resource, value) "User '{user}' has exceeded the '{resource}' resource (current value: {value})";
    SPECIFIC_ACCESS_DENIED specific_access_denied(1227, "42000", privilege) "Access denied; you need (at least one of) the {privilege} privilege(s) for this operation";
    LOCAL_VARIABLE local_variable(1228, "HY000", name) "Variable '{name}' is a SESSION variable and can't be used with SET GLOBAL";
    GLOBAL_VARIABLE global_variable(1229, "HY000", name) "Variable '{name}' is a GLOBAL variable and should be set with SET GLOBAL";
    NO_DEFAULT no_default(1230, "42000", name) "Variable '{name}' doesn't have a default value";
    WRONG_VALUE_FOR_VAR wrong_value_for_var(1231, "42000", name, value) "Variable '{name}' can't be set to the value of '{value}'";
    WRONG_TYPE_FOR_VAR wrong_type_for_var(1232, "42000", name) "Incorrect argument type to variable '{name}'";
    VAR_CANT_BE_READ var_cant_be_read(1233, "HY000", name) "Variable '{name}' can only be set, not read";
    CANT_USE_OPTION_HERE cant_use_option_here(1234, "42000", option) "Incorrect usage/placement of '{option}'";
    NOT_SUPPORTED_YET not_supported_yet(1235, "42000", what) "This version of MariaDB doesn't yet support '{what}'";
    MASTER_FATAL_ERROR_READING_BINLOG master_fatal_error_reading_binlog(1236, "HY000", reason) "{reason}";
    INCORRECT_GLOBAL_LOCAL_VAR incorrect_global_local_var(1238, "HY000", name, kind) "Variable '{name}' is a {kind} variable";
    WRONG_FK_DEF wrong_fk_def(1239, "42000", name, reason) "Incorrect foreign key definition for '{name}': {reason}";
    OPERAND_COLUMNS operand_columns(1241, "21000", count) "Operand should contain {count} column(s)";
    SUBQUERY_NO_1_ROW subquery_no_1_row(1242, "21000") "Subquery returns more than 1 row";
    UNKNOWN_STMT_HANDLER unknown_stmt_handler(1243, "HY000", id, place) "Unknown prepared statement handler ({id}) given to {place}";
    ILLEGAL_REFERENCE illegal_reference(1247, "42S22", name, reason) "Reference '{name}' not supported ({reason})";
    DERIVED_MUST_HAVE_ALIAS derived_must_have_alias(1248, "42000") "Every derived table must have its own alias";
    TABLENAME_NOT_ALLOWED_HERE tablename_not_allowed_here(1250, "42000", table, place) "Table '{table}' from one of the SELECTs cannot be used in {place}";
    NOT_SUPPORTED_AUTH_MODE not_supported_auth_mode(1251, "08004") "Client does not support authentication protocol requested by server; consider upgrading MariaDB client";
    COLLATION_CHARSET_MISMATCH collation_charset_mismatch(1253, "42000", collation, charset) "COLLATION '{collation}' is not valid for CHARACTER SET '{charset}'";
    TOO_BIG_FOR_UNCOMPRESS too_big_for_uncompress(1256, "HY000", max) "Uncompressed data size too large; the maximum size is {max} (probably, length of uncompressed data was corrupted)";
    ZLIB_BUFFER_ERROR zlib_buffer_error(1258, "HY000") "ZLIB: Not enough room in the output buffer (probably, length of uncompressed data was corrupted)";
    ZLIB_DATA_ERROR zlib_data_error(1259, "HY000") "ZLIB: Input data corrupted";
    CUT_VALUE_GROUP_CONCAT cut_value_group_concat(1260, "HY000", row, name) "Row {row} was cut by {name}()";
    WARN_TOO_FEW_RECORDS warn_too_few_records(1261, "01000", row) "Row {row} doesn't contain data for all columns";
    WARN_TOO_MANY_RECORDS warn_too_many_records(1262, "01000", row) "Row {row} was truncated; it contained more data than there were input columns";
    WARN_NULL_TO_NOTNULL warn_null_to_notnull(1263, "22004", column, row) "Column set to default value; NULL supplied to NOT NULL column '{column}' at row {row}";
    WARN_DATA_OUT_OF_RANGE warn_data_out_of_range(1264, "22003", column, row) "Out of range value for column '{column}' at row {row}";
    WARN_DATA_TRUNCATED warn_data_truncated(1265, "01000", column, row) "Data truncated for column '{column}' at row {row}";
    WARN_USING_OTHER_HANDLER warn_using_other_handler(1266, "HY000", engine, table) "Using storage engine {engine} for table '{table}'";
    CANT_AGGREGATE_3COLLATIONS cant_aggregate_3collations(1270, "HY000", a, ac, b, bc, c, cc, op) "Illegal mix of collations ({a},{ac}), ({b},{bc}), ({c},{cc}) for operation '{op}'";
    CANT_AGGREGATE_NCOLLATIONS cant_aggregate_ncollations(1271, "HY000", op) "Illegal mix of collations for operation '{op}'";
    CANT_AGGREGATE_2COLLATIONS cant_aggregate_2collations(1267, "HY000", a, ac, b, bc, op) "Illegal mix of collations ({a},{ac}) and ({b},{bc}) for operation '{op}'";
    REVOKE_GRANTS revoke_grants(1269, "HY000") "Can't revoke all privileges for one or more of the requested users";
    VARIABLE_IS_NOT_STRUCT variable_is_not_struct(1272, "HY000", name) "Variable '{name}' is not a variable component (can't be used as XXXX.variable_name)";
    UNKNOWN_COLLATION unknown_collation(1273, "HY000", name) "Unknown collation: '{name}'";
    WRONG_NAME_FOR_INDEX wrong_name_for_index(1280, "42000", name) "Incorrect index name '{name}'";
    UNKNOWN_STORAGE_ENGINE unknown_storage_engine(1286, "42000", name) "Unknown storage engine '{name}'";
    CONFLICTING_DECLARATIONS conflicting_declarations(1302, "HY000", first, second) "Conflicting declarations: '{first}' and '{second}'";
    AUTO_CONVERT auto_convert(1246, "HY000", column, from, to) "Converting column '{column}' from {from} to {to}";
    WARN_DEPRECATED warn_deprecated(1287, "HY000", old, instead) "'{old}' is deprecated and will be removed in a future release{instead}";
    NON_UPDATABLE_TABLE non_updatable_table(1288, "HY000", table, op) "The target table {table} of the {op} is not updatable";
    OPTION_PREVENTS_STATEMENT option_prevents_statement(1290, "HY000", option) "The MariaDB server is running with the {option} option so it cannot execute this statement";
    DUPLICATED_VALUE_IN_TYPE duplicated_value_in_type(1291, "HY000", column, value, kind) "Column '{column}' has duplicated value '{value}' in {kind}";
    TRUNCATED_WRONG_VALUE truncated_wrong_value(1292, "22007", kind, value) "Truncated incorrect {kind} value: '{value}'";
    INVALID_ON_UPDATE invalid_on_update(1294, "HY000", column) "Invalid ON UPDATE clause for '{column}' column";
    UNSUPPORTED_PS unsupported_ps(1295, "HY000") "This command is not supported in the prepared statement protocol yet";
    CASCADES_TOO_DEEP cascades_too_deep(152, "23000", most) "InnoDB: Cannot delete/update rows with cascading foreign key constraints that exceed max depth of {most}. Please drop extra constraints and try again";
    GET_ERRMSG get_errmsg(1296, "HY000", errno, text, engine) "Got error {errno} '{text}' from {engine}";
    UNKNOWN_TIME_ZONE unknown_time_zone(1298, "HY000", zone) "Unknown or incorrect time zone: '{zone}'";
    WARN_INVALID_TIMESTAMP warn_invalid_timestamp(1299, "HY000", column, row) "Invalid TIMESTAMP value in column '{column}' at row {row}";
    INVALID_CHARACTER_STRING invalid_character_string(1300, "HY000", charset, value) "Invalid {charset} character string: '{value}'";
    WARN_ALLOWED_PACKET_OVERFLOWED warn_allowed_packet_overflowed(1301, "HY000", function, max) "Result of {function}() was larger than max_allowed_packet ({max}) - truncated";
    SP_DOES_NOT_EXIST sp_does_not_exist(1305, "42000", kind, name) "{kind} {name} does not exist";
    QUERY_INTERRUPTED query_interrupted(1317, "70100") "Query execution was interrupted";
    SP_UNDECLARED_VAR sp_undeclared_var(1327, "42000", name) "Undeclared variable: {name}";
    SP_FETCH_NO_DATA sp_fetch_no_data(1329, "02000") "No data - zero rows fetched, selected, or processed";
    VIEW_NO_EXPLAIN view_no_explain(1345, "HY000") "ANALYZE/EXPLAIN/SHOW can not be issued; lacking privileges for underlying table";
    WRONG_OBJECT wrong_object(1347, "HY000", db, name, kind) "'{db}.{name}' is not of type '{kind}'";
    NONUPDATEABLE_COLUMN nonupdateable_column(1348, "HY000", column) "Column '{column}' is not updatable";
    VIEW_SELECT_CLAUSE view_select_clause(1350, "HY000", clause) "View's SELECT contains a '{clause}' clause";
    VIEW_SELECT_VARIABLE view_select_variable(1351, "HY000") "View's SELECT contains a variable or parameter";
    VIEW_SELECT_TMPTABLE view_select_tmptable(1352, "HY000", table) "View's SELECT refers to a temporary table '{table}'";
    VIEW_WRONG_LIST view_wrong_list(1353, "HY000") "View's SELECT and view's field list have different column counts";
    WARN_VIEW_MERGE warn_view_merge(1354, "HY000") "View merge algorithm can't be used here for now (assumed undefined algorithm)";
    VIEW_INVALID view_invalid(1356, "HY000", db, view) "View '{db}.{view}' references invalid table(s) or column(s) or function(s) or definer/invoker of view lack rights to use them";
    VIEW_NONUPD_CHECK view_nonupd_check(1368, "HY000", db, view) "CHECK OPTION on non-updatable view `{db}`.`{view}`";
    VIEW_CHECK_FAILED view_check_failed(1369, "44000", db, view) "CHECK OPTION failed `{db}`.`{view}`";
    PROCACCESS_DENIED procaccess_denied(1370, "42000", command, user, host, routine) "{command} command denied to user '{user}'@'{host}' for routine '{routine}'";
    VIEW_MULTIUPDATE view_multiupdate(1393, "HY000", db, view) "Can not modify more than one base table through a join view '{db}.{view}'";
    VIEW_NO_INSERT_FIELD_LIST view_no_insert_field_list(1394, "HY000", db, view) "Can not insert into join view '{db}.{view}' without fields list";
    VIEW_DELETE_MERGE_VIEW view_delete_merge_view(1395, "HY000", db, view) "Can not delete from join view '{db}.{view}'";
    NO_DEFAULT_FOR_VIEW_FIELD no_default_for_view_field(1423, "HY000", db, view) "Field of view '{db}.{view}' underlying table doesn't have a default value";
    MALFORMED_DEFINER malformed_definer(1446, "0L000") "Invalid definer";
    NO_SUCH_USER no_such_user(1449, "HY000", user, host) "The user specified as a definer ('{user}'@'{host}') does not exist";
    FORBID_SCHEMA_CHANGE forbid_schema_change(1450, "HY000", from, to) "Changing schema from '{from}' to '{to}' is not allowed";
    SP_WRONG_NAME sp_wrong_name(1458, "42000", name) "Incorrect routine name '{name}'";
    VIEW_RECURSIVE view_recursive(1462, "HY000", db, view) "`{db}`.`{view}` contains view recursion";
    SP_WRONG_NO_OF_ARGS sp_wrong_no_of_args(1318, "42000", kind, name, expected, got) "Incorrect number of arguments for {kind} {name}; expected {expected}, got {got}";
    NULL_NOT_ALLOWED null_not_allowed(1138, "02200", function, argument) "Function sys.{function}: {argument} input variable should not be NULL";
    NON_INSERTABLE_TABLE non_insertable_table(1471, "HY000", table, op) "The target table {table} of the {op} is not insertable-into";
    INDEX_COLUMN_TOO_LONG index_column_too_long(1709, "HY000", max) "Index column size too large. The maximum column size is {max} bytes";
    FK_NO_INDEX_PARENT fk_no_index_parent(1822, "HY000", key, table) "Failed to add the foreign key constraint. Missing index for constraint '{key}' in the referenced table '{table}'";
    FK_FAIL_ADD_SYSTEM fk_fail_add_system(1823, "HY000", key) "Failed to add the foreign key constraint '{key}' to system tables";
    FK_INCORRECT_OPTION fk_incorrect_option(1825, "HY000", table, key) "Failed to add the foreign key constraint on table '{table}'. Incorrect options in FOREIGN KEY constraint '{key}'";
    BAD_DATA bad_data(1918, "22007", value, charset) "Encountered illegal value '{value}' when converting to {charset}";
    IT_IS_A_VIEW it_is_a_view(1965, "42S02", name) "'{name}' is a view";
    SET_STATEMENT_NOT_SUPPORTED set_statement_not_supported(1971, "42000", name) "The system variable {name} cannot be set in SET STATEMENT.";
    NO_DEFAULT_FOR_FIELD no_default_for_field(1364, "HY000", column) "Field '{column}' doesn't have a default value";
    DIVISION_BY_ZERO division_by_zero(1365, "22012") "Division by 0";
    TRUNCATED_WRONG_VALUE_FOR_FIELD truncated_wrong_value_for_field(1366, "22007", kind, value, db, table, column, row) "Incorrect {kind} value: '{value}' for column `{db}`.`{table}`.`{column}` at row {row}";
    ILLEGAL_VALUE_FOR_TYPE illegal_value_for_type(1367, "22007", kind, value) "Illegal {kind} '{value}' value found during parsing";
    PASSWD_LENGTH passwd_length(1372, "HY000", len) "Password hash should be a {len}-digit hexadecimal number";
    NO_BINARY_LOGGING no_binary_logging(1381, "HY000") "You are not using binary logging";
    PS_MANY_PARAM ps_many_param(1390, "HY000") "Prepared statement contains too many placeholders";
    KEY_PART_0 key_part_0(1391, "HY000", name) "Key part '{name}' length cannot be 0";
    CANNOT_USER cannot_user(1396, "HY000", operation, users) "Operation {operation} failed for {users}";
    DATA_TOO_LONG data_too_long(1406, "22001", column, row) "Data too long for column '{column}' at row {row}";
    SP_BAD_SQLSTATE sp_bad_sqlstate(1407, "42000", state) "Bad SQLSTATE: '{state}'";
    CANT_CREATE_USER_WITH_GRANT cant_create_user_with_grant(1410, "42000") "You are not allowed to create a user with GRANT";
    WRONG_VALUE_FOR_TYPE wrong_value_for_type(1411, "HY000", kind, value, function) "Incorrect {kind} value: '{value}' for function {function}";
    TABLE_DEF_CHANGED table_def_changed(1412, "HY000") "Table definition has changed, please retry transaction";
    STMT_HAS_NO_OPEN_CURSOR stmt_has_no_open_cursor(1421, "HY000", id) "The statement ({id}) has no open cursor.";
    TOO_BIG_SCALE too_big_scale(1425, "42000", name, max) "Too big scale specified for '{name}'. Maximum is {max}";
    TOO_BIG_PRECISION too_big_precision(1426, "42000", name, max) "Too big precision specified for '{name}'. Maximum is {max}";
    XAER_NOTA xaer_nota(1397, "XAE04") "XAER_NOTA: Unknown XID";
    XAER_INVAL xaer_inval(1398, "XAE05") "XAER_INVAL: Invalid arguments (or unsupported command)";
    XAER_RMFAIL xaer_rmfail(1399, "XAE07", state) "XAER_RMFAIL: The command cannot be executed when global transaction is in the  {state} state";
    XAER_RMERR xaer_rmerr(1401, "XAE03") "XAER_RMERR: Fatal error occurred in the transaction branch - check your data for consistency";
    XAER_OUTSIDE xaer_outside(1400, "XAE09") "XAER_OUTSIDE: Some work is done outside global transaction";
    XA_RBROLLBACK xa_rbrollback(1402, "XA100") "XA_RBROLLBACK: Transaction branch was rolled back";
    INSIDE_TRANSACTION_PREVENTS_SWITCH_SQL_LOG_BIN inside_transaction_prevents_switch_sql_log_bin(1694, "HY000") "Cannot modify @@session.sql_log_bin inside a transaction";
    MULTI_UPDATE_KEY_CONFLICT multi_update_key_conflict(1706, "HY000", first, second) "Primary key/partition key update is not allowed since the table is updated both as '{first}' and '{second}'";
    PARTITION_CLAUSE_ON_NONPARTITIONED partition_clause_on_nonpartitioned(1747, "HY000") "PARTITION () clause on non partitioned table";
    LOAD_FROM_FIXED_SIZE_ROWS_TO_VAR load_from_fixed_size_rows_to_var(1409, "HY000") "Can't load value from file with fixed size rows to variable";
    M_BIGGER_THAN_D m_bigger_than_d(1427, "42000", column) "For float(M,D), double(M,D) or decimal(M,D), M must be >= D (column '{column}')";
    STACK_OVERRUN_NEED_MORE stack_overrun_need_more(1436, "HY000", used, total, need) "Thread stack overrun:  {used} bytes used of a {total} byte stack, and {need} bytes needed. Consider increasing the thread_stack system variable.";
    WARN_CANT_DROP_DEFAULT_KEYCACHE warn_cant_drop_default_keycache(1438, "HY000") "Cannot drop default keycache";
    TOO_BIG_DISPLAYWIDTH too_big_displaywidth(1439, "42000", column, max) "Display width out of range for '{column}' (max = {max})";
    XAER_DUPID xaer_dupid(1440, "XAE08") "XAER_DUPID: The XID already exists";
    DATETIME_FUNCTION_OVERFLOW datetime_function_overflow(1441, "22008", function) "Datetime function: {function} field overflow";
    ROW_IS_REFERENCED row_is_referenced(1451, "23000", constraint) "Cannot delete or update a parent row: a foreign key constraint fails ({constraint})";
    NO_REFERENCED_ROW no_referenced_row(1452, "23000", constraint) "Cannot add or update a child row: a foreign key constraint fails ({constraint})";
    MAX_PREPARED_STMT_COUNT_REACHED max_prepared_stmt_count_reached(1461, "42000", max) "Can't create more than max_prepared_stmt_count statements (current value: {max})";
    NON_GROUPING_FIELD_USED non_grouping_field_used(1463, "42000", column, clause) "Non-grouping field '{column}' is used in {clause} clause";
    AUTOINC_READ_FAILED autoinc_read_failed(1467, "HY000") "Failed to read auto-increment value from storage engine";
    TOO_LONG_STRING too_long_string(1470, "HY000", value, name, max) "String '{value}' is too long for {name} (should be no longer than {max})";
    AMBIGUOUS_FIELD_TERM ambiguous_field_term(1475, "HY000") "First character of the FIELDS TERMINATED string is ambiguous; please use non-optional and non-empty FIELDS ENCLOSED BY";
    FOREIGN_SERVER_DOESNT_EXIST foreign_server_doesnt_exist(1477, "HY000", name) "The foreign server name you are trying to reference does not exist. Data source error:  {name}";
    PLUGIN_IS_NOT_LOADED plugin_is_not_loaded(1524, "HY000", name) "Plugin '{name}' is not loaded";
    WRONG_VALUE wrong_value(1525, "HY000", kind, value) "Incorrect {kind} value: '{value}'";
    DROP_INDEX_FK drop_index_fk(1553, "HY000", index) "Cannot drop index '{index}': needed in a foreign key constraint";
    CANT_CHANGE_TX_CHARACTERISTICS cant_change_tx_characteristics(1568, "25001") "Transaction characteristics can't be changed while a transaction is in progress";
    WRONG_PARAMCOUNT_TO_NATIVE_FCT wrong_paramcount_to_native_fct(1582, "42000", name) "Incorrect parameter count in the call to native function '{name}'";
    WRONG_PARAMETERS_TO_NATIVE_FCT wrong_parameters_to_native_fct(1583, "42000", name) "Incorrect parameters in the call to native function '{name}'";
    XA_RBTIMEOUT xa_rbtimeout(1613, "XA106") "XA_RBTIMEOUT: Transaction branch was rolled back: took too long";
    XA_RBDEADLOCK xa_rbdeadlock(1614, "XA102") "XA_RBDEADLOCK: Transaction branch was rolled back: deadlock was detected";
    VARIABLE_IS_READONLY variable_is_readonly(1621, "HY000", scope, name, other) "{scope} variable '{name}' is read-only. Use SET {other} to assign the value";
    NON_ASCII_SEPARATOR non_ascii_separator(1638, "HY000") "Non-ASCII separator arguments are not fully supported";
    UNKNOWN_LOCALE unknown_locale(1649, "HY000", name) "Unknown locale: '{name}'";
    TOO_LONG_TABLE_COMMENT too_long_table_comment(1628, "HY000", table, max) "Comment for table '{table}' is too long (max = {max})";
    TOO_LONG_INDEX_COMMENT too_long_index_comment(1688, "HY000", index, max) "Comment for index '{index}' is too long (max = {max})";
    TOO_LONG_FIELD_COMMENT too_long_field_comment(1629, "HY000", field, max) "Comment for field '{field}' is too long (max = {max})";
    FUNC_INEXISTENT_NAME_COLLISION func_inexistent_name_collision(1630, "42000", name) "FUNCTION {name} does not exist. Check the 'Function Name Parsing and Resolution' section in the Reference Manual";
    DATA_OUT_OF_RANGE data_out_of_range(1690, "22003", kind, expression) "{kind} value is out of range in '{expression}'";
    ACCESS_DENIED_NO_PASSWORD access_denied_no_password(1698, "28000", user, host) "Access denied for user '{user}'@'{host}'";
    SET_PASSWORD_AUTH_PLUGIN set_password_auth_plugin(1699, "HY000", plugin) "SET PASSWORD is not applicable for users authenticating via {plugin} plugin";
    TRUNCATE_ILLEGAL_FK truncate_illegal_fk(1701, "42000", constraint) "Cannot truncate a table referenced in a foreign key constraint ({constraint})";
    FOREIGN_DUPLICATE_KEY foreign_duplicate_key(1761, "23000", parent, record, child, key) "Foreign key constraint for table '{parent}', record '{record}' would lead to a duplicate entry in table '{child}', key '{key}'";
    UNKNOWN_FORMAT unknown_format(1791, "HY000", statement, name) "Unknown {statement} format name: '{name}'";
    CANT_EXECUTE_IN_READ_ONLY_TRANSACTION cant_execute_in_read_only_transaction(1792, "25006") "Cannot execute statement in a READ ONLY transaction";
    MUST_CHANGE_PASSWORD must_change_password(1820, "HY000") "You must SET PASSWORD before executing this statement";
    FK_COLUMN_CANNOT_DROP fk_column_cannot_drop(1828, "HY000", column, key) "Cannot drop column '{column}': needed in a foreign key constraint '{key}'";
    FK_COLUMN_CANNOT_DROP_CHILD fk_column_cannot_drop_child(1829, "HY000", column, key, table) "Cannot drop column '{column}': needed in a foreign key constraint '{key}' of table {table}";
    FK_COLUMN_NOT_NULL fk_column_not_null(1830, "HY000", column, key) "Column '{column}' cannot be NOT NULL: needed in a foreign key constraint '{key}' SET NULL";
    FK_COLUMN_CANNOT_CHANGE fk_column_cannot_change(1832, "HY000", column, key) "Cannot change column '{column}': used in a foreign key constraint '{key}'";
    FK_COLUMN_CANNOT_CHANGE_CHILD fk_column_cannot_change_child(1833, "HY000", column, key, table) "Cannot change column '{column}': used in a foreign key constraint '{key}' of table '{table}'";
    DUP_INDEX dup_index(1831, "HY000", index) "Duplicate index `{index}`. This is deprecated and will be disallowed in a future release";
    DUP_CONSTRAINT_NAME dup_constraint_name(1826, "HY000", kind, name) "Duplicate {kind} constraint name '{name}'";
    GENERATED_COLUMN_FUNCTION_IS_NOT_ALLOWED generated_column_function_is_not_allowed(1901, "HY000", what, clause, name) "Function or expression '{what}' cannot be used in the {clause} clause of `{name}`";
    PRIMARY_KEY_BASED_ON_GENERATED_COLUMN primary_key_based_on_generated_column(1903, "HY000") "Primary key cannot be defined upon a generated column";
    WRONG_FK_OPTION_FOR_GENERATED_COLUMN wrong_fk_option_for_generated_column(1905, "HY000", clause) "Cannot define foreign key with {clause} clause on a generated column";
    NON_DEFAULT_VALUE_FOR_GENERATED_COLUMN non_default_value_for_generated_column(1906, "HY000", column, table) "The value specified for generated column '{column}' in table '{table}' has been ignored";
    UNSUPPORTED_ACTION_ON_GENERATED_COLUMN unsupported_action_on_generated_column(1907, "HY000") "This is not yet supported for generated columns";
    INVALID_DEFAULT_VALUE_FOR_FIELD invalid_default_value_for_field(1978, "22007", value, column) "Incorrect default value '{value}' for column '{column}'";
    ERROR_EVALUATING_EXPRESSION error_evaluating_expression(4027, "HY000", expression) "Got an error evaluating stored expression {expression}";
    EXPR_REFERS_TO_UNINIT_FIELD expr_refers_to_uninit_field(4029, "01000", column, other) "Expression for field `{column}` is referring to uninitialized field `{other}`";
    MALFORMED_PACKET malformed_packet(1835, "HY000") "Malformed communication packet";
    ALTER_OPERATION_NOT_SUPPORTED alter_operation_not_supported(1845, "0A000", what, other) "{what} is not supported for this operation. Try {other}";
    ALTER_OPERATION_NOT_SUPPORTED_REASON alter_operation_not_supported_reason(1846, "0A000", what, reason, other) "{what} is not supported. Reason: {reason}. Try {other}";
    CANT_LOCK_LOG_TABLE cant_lock_log_table(1556, "HY000") "You can't use locks with log tables";
    INNODB_ONLINE_LOG_TOO_BIG innodb_online_log_too_big(1799, "HY000", index) "Creating index '{index}' required more than 'innodb_online_alter_log_max_size' bytes of modification log. Please try again";
    UNKNOWN_ALTER_ALGORITHM unknown_alter_algorithm(1800, "HY000", word) "Unknown ALGORITHM '{word}'";
    UNKNOWN_ALTER_LOCK unknown_alter_lock(1801, "HY000", word) "Unknown LOCK type '{word}'";
    FEATURE_DISABLED feature_disabled(1289, "HY000", feature, option) "The '{feature}' feature is disabled; you need MariaDB built with '{option}' to have it working";
    TRG_DOES_NOT_EXIST trg_does_not_exist(1360, "HY000") "Trigger does not exist";
    EVENT_DOES_NOT_EXIST event_does_not_exist(1539, "HY000", name) "Unknown event '{name}'";
    DELAYED_NOT_SUPPORTED delayed_not_supported(1616, "HY000", table) "DELAYED option not supported for table '{table}'";
    DUP_QUERY_NAME dup_query_name(4004, "HY000", name) "Duplicate query name `{name}` in WITH clause";
    WRONG_NUMBER_OF_VALUES_IN_TVC wrong_number_of_values_in_tvc(4099, "HY000") "The used table value constructor has a different number of values";
    MUST_CHANGE_PASSWORD_LOGIN must_change_password_login(1862, "HY000") "Your password has expired. To log in you must change it using a client that supports expired passwords";
    BAD_OPTION_VALUE bad_option_value(1912, "HY000", value, name) "Incorrect value '{value}' for option '{name}'";
    UNKNOWN_OPTION unknown_option(1911, "HY000", name) "Unknown option '{name}'";
    DATA_OVERFLOW data_overflow(1916, "22003", value, kind) "Got overflow when converting '{value}' to {kind}. Value truncated";
    ILLEGAL_SUBQUERY_OPTIMIZER_SWITCHES illegal_subquery_optimizer_switches(1923, "HY000") "At least one of the 'in_to_exists' or 'materialization' optimizer_switch flags must be 'on'";
    QUERY_CACHE_IS_GLOBALLY_DISABLED query_cache_is_globally_disabled(1925, "HY000") "Query cache is globally disabled and you can't enable it only for this session";
    CONNECTION_KILLED connection_killed(1927, "70100") "Connection was killed";
    NO_SUCH_QUERY no_such_query(1957, "HY000", id) "Unknown query id: {id}";
    WRONG_PARAMETERS_TO_STORED_FCT wrong_parameters_to_stored_fct(1584, "42000", name) "Incorrect parameters in the call to stored function '{name}'";
    WRONG_PARAMETERS_TO_PROCEDURE wrong_parameters_to_procedure(1108, "HY000", name) "Incorrect parameters to procedure '{name}'";
    KILL_QUERY_DENIED kill_query_denied(1979, "HY000", id) "You are not owner of query {id}";
    TARGET_NOT_EXPLAINABLE target_not_explainable(1933, "HY000") "Target is not executing an operation with a query plan";
    BAD_BASE64_DATA bad_base64_data(1958, "HY000", position) "Bad base64 data as position {position}";
    INVALID_ROLE invalid_role(1959, "OP000", role) "Invalid role specification `{role}`";
    INVALID_CURRENT_USER invalid_current_user(1960, "0L000") "The current user is invalid";
    CANNOT_GRANT_ROLE cannot_grant_role(1961, "HY000", role, whom) "Cannot grant role '{role}' to: {whom}";
    CANNOT_REVOKE_ROLE cannot_revoke_role(1962, "HY000", role, whom) "Cannot revoke role '{role}' from: {whom}";
    STATEMENT_TIMEOUT statement_timeout(1969, "70100") "Query execution was interrupted (max_statement_time exceeded)";
    SUBQUERIES_NOT_SUPPORTED subqueries_not_supported(1970, "42000", statement) "{statement} does not support subqueries or stored functions";
    USER_CREATE_EXISTS user_create_exists(1973, "HY000", user, host) "Can't create user '{user}'@'{host}'; it already exists";
    USER_DROP_EXISTS user_drop_exists(1974, "HY000", user, host) "Can't drop user '{user}'@'{host}'; it doesn't exist";
    ROLE_CREATE_EXISTS role_create_exists(1975, "HY000", role) "Can't create role '{role}'; it already exists";
    ROLE_DROP_EXISTS role_drop_exists(1976, "HY000", role) "Can't drop role '{role}'; it doesn't exist";
    CANNOT_CONVERT_CHARACTER cannot_convert_character(1977, "HY000", from, octets, to) "Cannot convert '{from}' character 0x{octets} to '{to}'";
    CONSTRAINT_FAILED constraint_failed(4025, "23000", constraint, db, table) "CONSTRAINT `{constraint}` failed for `{db}`.`{table}`";
    JSON_BAD_CHR json_bad_chr(4035, "HY000", argument, function, position) "Broken JSON string in argument {argument} to function '{function}' at position {position}";
    JSON_NOT_JSON_CHR json_not_json_chr(4036, "HY000", argument, function, position) "Character disallowed in JSON in argument {argument} to function '{function}' at position {position}";
    JSON_EOS json_eos(4037, "HY000", argument, function) "Unexpected end of JSON text in argument {argument} to function '{function}'";
    JSON_SYNTAX json_syntax(4038, "HY000", argument, function, position) "Syntax error in JSON text in argument {argument} to function '{function}' at position {position}";
    JSON_DEPTH json_depth(4040, "HY000", limit, argument, function, position) "Limit of {limit} on JSON nested structures depth is reached in argument {argument} to function '{function}' at position {position}";
    JSON_PATH_EOS json_path_eos(4041, "HY000", argument, function) "Unexpected end of JSON path in argument {argument} to function '{function}'";
    JSON_PATH_SYNTAX json_path_syntax(4042, "HY000", argument, function, position) "Syntax error in JSON path in argument {argument} to function '{function}' at position {position}";
    JSON_PATH_DEPTH json_path_depth(4043, "HY000", limit, argument, function, position) "Limit of {limit} on JSON path depth is reached in argument {argument} to function '{function}' at position {position}";
    JSON_PATH_NO_WILDCARD json_path_no_wildcard(4044, "HY000", argument, function) "Wildcards or range in JSON path not allowed in argument {argument} to function '{function}'";
    JSON_ONE_OR_ALL json_one_or_all(4046, "HY000", function) "Argument 2 to function '{function}' must be \"one\" or \"all\".";
    JSON_PATH_EMPTY json_path_empty(4051, "HY000", argument, function) "Path expression '$' is not allowed in argument {argument} to function '{function}'.";
    UNKNOWN_STRUCTURED_VARIABLE unknown_structured_variable(4081, "HY000", name) "Unknown structured system variable or ROW routine variable '{name}'";
    INTERNAL_ERROR internal_error(1815, "HY000", text) "Internal error: {text}";
    ILLEGAL_HA_CREATE_OPTION illegal_ha_create_option(1478, "HY000", engine, option) "Table storage engine '{engine}' does not support the create option '{option}'";
    SEQUENCE_RUN_OUT sequence_run_out(4084, "HY000", db, name) "Sequence '{db}.{name}' has run out";
    SEQUENCE_INVALID_DATA sequence_invalid_data(4085, "HY000", db, name) "Sequence '{db}.{name}' has out of range value for options";
    SEQUENCE_INVALID_TABLE_STRUCTURE sequence_invalid_table_structure(4086, "HY000", db, name, reason) "Sequence '{db}.{name}' table structure is invalid ({reason})";
    SEQUENCE_ACCESS_ERROR sequence_access_error(4087, "HY000", db, name) "Sequence '{db}.{name}' access error";
    NOT_SEQUENCE not_sequence(4089, "42S02", db, name) "'{db}.{name}' is not a SEQUENCE";
    NOT_SEQUENCE2 not_sequence2(4090, "42S02", name) "'{name}' is not a SEQUENCE";
    UNKNOWN_SEQUENCES unknown_sequences(4091, "42S02", names) "Unknown SEQUENCE: '{names}'";
    UNKNOWN_VIEW unknown_view(4092, "42S02", names) "Unknown VIEW: '{names}'";
    LOAD_INFILE_CAPABILITY_DISABLED load_infile_capability_disabled(4166, "HY000") "The used command is not allowed because the MariaDB server or client has disabled the local infile capability";
    UNKNOWN_DATA_TYPE unknown_data_type(4161, "HY000", name) "Unknown data type: '{name}'";
    INVISIBLE_NOT_NULL_WITHOUT_DEFAULT invisible_not_null_without_default(4108, "HY000", column) "Invisible column `{column}` must have a default value";
    TOO_LONG_DATABASE_COMMENT too_long_database_comment(4160, "HY000", database, max) "Comment for database '{database}' is too long (max = {max})";
    NO_AUTOINCREMENT_WITH_UNIQUE no_auto_increment_in_hash(4169, "HY000", column, index) "AUTO_INCREMENT column `{column}` cannot be used in the UNIQUE index `{index}`";
    PK_INDEX_CANT_BE_IGNORED pk_index_cant_be_ignored(4174, "HY000") "A primary key cannot be marked as IGNORE";
    JSON_TABLE_ERROR_ON_FIELD json_table_error_on_field(4176, "HY000", column, table) "Field '{column}' can't be set for JSON_TABLE '{table}'.";
    JSON_TABLE_ALIAS_REQUIRED json_table_alias_required(4177, "HY000") "Every table function must have an alias.";
    JSON_TABLE_SCALAR_EXPECTED json_table_scalar_expected(4178, "HY000", column, table) "Can't store an array or an object in the scalar column '{column}' of JSON_TABLE '{table}'.";
    JSON_TABLE_MULTIPLE_MATCHES json_table_multiple_matches(4179, "HY000", column, table) "Can't store multiple matches of the path in the column '{column}' of JSON_TABLE '{table}'.";
    WITH_COL_WRONG_LIST with_col_wrong_list(4002, "HY000") "WITH column list and SELECT field list have different column counts";
    WRONG_WINDOW_SPEC_NAME wrong_window_spec_name(4009, "HY000", name) "Window specification with name '{name}' is not defined";
    DUP_WINDOW_NAME dup_window_name(4010, "HY000", name) "Multiple window specifications with the same name '{name}'";
    PARTITION_LIST_IN_REFERENCING_WINDOW_SPEC partition_list_in_referencing_window_spec(4011, "HY000", name) "Window specification referencing another one '{name}' cannot contain partition list";
    ORDER_LIST_IN_REFERENCING_WINDOW_SPEC order_list_in_referencing_window_spec(4012, "HY000", name) "Referenced window specification '{name}' already contains order list";
    WINDOW_FRAME_IN_REFERENCED_WINDOW_SPEC window_frame_in_referenced_window_spec(4013, "HY000", name) "Referenced window specification '{name}' cannot contain window frame";
    BAD_COMBINATION_OF_WINDOW_FRAME_BOUND_SPECS bad_combination_of_window_frame_bound_specs(4014, "HY000") "Unacceptable combination of window frame bound specifications";
    WRONG_PLACEMENT_OF_WINDOW_FUNCTION wrong_placement_of_window_function(4015, "HY000") "Window function is allowed only in SELECT list and ORDER BY clause";
    WINDOW_FUNCTION_IN_WINDOW_SPEC window_function_in_window_spec(4016, "HY000") "Window function is not allowed in window specification";
    NOT_ALLOWED_WINDOW_FRAME not_allowed_window_frame(4017, "HY000", name) "Window frame is not allowed with '{name}'";
    NO_ORDER_LIST_IN_WIN_SPEC no_order_list_in_win_spec(4018, "HY000", name) "No order list in window specification for '{name}'";
    RANGE_FRAME_NEEDS_SIMPLE_ORDERBY range_frame_needs_simple_orderby(4019, "HY000") "RANGE-type frame requires ORDER BY clause with single sort key";
    WRONG_TYPE_FOR_ROWS_FRAME wrong_type_for_rows_frame(4020, "HY000") "Integer is required for ROWS-type frame";
    WRONG_TYPE_FOR_RANGE_FRAME wrong_type_for_range_frame(4021, "HY000") "Numeric datatype is required for RANGE-type frame";
    FRAME_EXCLUSION_NOT_SUPPORTED frame_exclusion_not_supported(4022, "HY000") "Frame exclusion is not supported yet";
    INVALID_NTILE_ARGUMENT invalid_ntile_argument(4024, "HY000") "Argument of NTILE must be greater than 0";
    SUM_FUNC_WITH_WINDOW_FUNC_AS_ARG sum_func_with_window_func_as_arg(4074, "HY000") "Window functions can not be used as arguments to group functions.";
    WRONG_TYPE_FOR_PERCENTILE_FUNC wrong_type_for_percentile_func(4101, "HY000", name) "Numeric datatype is required for {name} function";
    ARGUMENT_NOT_CONSTANT argument_not_constant(4102, "HY000", name) "Argument to the {name} function is not a constant for a partition";
    ARGUMENT_OUT_OF_RANGE argument_out_of_range(4103, "HY000", name) "Argument to the {name} function does not belong to the range [0,1]";
    WRONG_TYPE_OF_ARGUMENT wrong_type_of_argument(4104, "HY000", name) "{name} function only accepts arguments that can be converted to numerical types";
    USER_IS_BLOCKED user_is_blocked(4150, "HY000") "User is blocked because of too many credential errors; unblock with 'ALTER USER / FLUSH PRIVILEGES'";
    ACCOUNT_HAS_BEEN_LOCKED account_has_been_locked(4151, "HY000") "Access denied, this account is locked";
    QUERY_RESULT_INCOMPLETE query_result_incomplete(1931, "HY000", limit) "Query execution was interrupted. The query exceeded {limit}. The query result may be incomplete";
    STD_INVALID_ARGUMENT std_invalid_argument(3047, "HY000", what, function) "Invalid argument error: {what} in function {function}.";
    RECURSIVE_WITHOUT_ANCHORS recursive_without_anchors(4005, "HY000", name) "No anchors for recursive WITH element '{name}'";
    INVALID_DEFAULT_PARAM invalid_default_param(4032, "HY000") "Default/ignore value is not supported for such parameter usage";
    UNACCEPTABLE_MUTUAL_RECURSION unacceptable_mutual_recursion(4006, "HY000", name) "Unacceptable mutual recursion with anchored table '{name}'";
    NOT_STANDARD_COMPLIANT_RECURSIVE not_standard_compliant_recursive(4008, "HY000", name) "Restrictions imposed on recursive definitions are violated for table '{name}'";
    ILLEGAL_PARAMETER_DATA_TYPES2_FOR_OPERATION illegal_parameter_data_types2_for_operation(4078, "HY000", a, b, op) "Illegal parameter data types {a} and {b} for operation '{op}'";
    ILLEGAL_PARAMETER_DATA_TYPE_FOR_OPERATION illegal_parameter_data_type_for_operation(4079, "HY000", a, op) "Illegal parameter data type {a} for operation '{op}'";
    WITH_TIES_NEEDS_ORDER with_ties_needs_order(4180, "HY000") "FETCH ... WITH TIES requires ORDER BY clause to be present";
    SFORMAT_ERROR sformat_error(4183, "HY000", what) "SFORMAT error: {what}";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_stands_once_and_has_a_state() {
        let mut seen = std::collections::HashSet::new();
        for (number, state) in NUMBERS {
            assert!(seen.insert(number), "{number} twice");
            assert_eq!(state.len(), 5, "{number}");
        }
    }

    #[test]
    fn texts_take_their_arguments() {
        let error = errors::dup_entry("7", "PRIMARY");
        assert_eq!(error.to_string(), "ERROR 1062 (23000): Duplicate entry '7' for key 'PRIMARY'");
        assert_eq!(error.code, code::DUP_ENTRY);
    }
}
