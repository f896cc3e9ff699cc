//! Which scripts of suite `main` make which group.

/// A group takes the names that match one of its patterns and that no group before it has taken; `*` stands for anything.
const GROUPS: &[(&str, &[&str])] = &[
    ("json", &["func_json*", "json_*", "type_json*"]),
    ("cte", &["cte_*"]),
    ("window", &["win", "win_*"]),
    ("view", &["view", "view_alias", "derived_view", "*_view"]),
    (
        "null",
        &["null", "null_key", "subselect_nulls*", "group_by_null", "func_isnull", "negation_elimination"],
    ),
    (
        "date",
        &[
            "type_date*",
            "type_time*",
            "type_year",
            "type_temporal*",
            "func_time*",
            "func_date_add",
            "func_timestamp",
            "date_formats",
            "adddate_454",
            "temporal_*",
            "datetime_456",
            "func_extract",
            "str_to_datetime_457",
            "in_datetime_241",
            "second_frac-9175",
            "timezone*",
        ],
    ),
    (
        "decimal",
        &[
            "type_newdecimal",
            "type_decimal",
            "type_float",
            "type_num",
            "type_num_innodb",
            "round",
            "bigint",
            "overflow",
            "func_math",
        ],
    ),
    (
        "cast",
        &[
            "cast",
            "type_hex_hybrid",
            "implicit_char_to_num_conversion",
            "func_hybrid_type",
            "func_weight_string",
            "binary_to_hex",
        ],
    ),
    ("ctype utf8mb4", &["ctype_utf8mb4*"]),
    (
        "ctype latin1",
        &["ctype_latin1*", "ctype_collate*", "ctype_binary", "ctype_ascii", "ctype_create", "ctype_errors"],
    ),
    (
        "type",
        &[
            "type_*",
            "strings",
            "bool*",
            "varbinary",
            "endspace",
            "empty_string_literal",
            "strict",
            "default*",
        ],
    ),
    ("func", &["func_*", "case", "last_value", "user_var", "precedence", "brackets"]),
    (
        "select",
        &[
            "select",
            "select_*",
            "limit",
            "distinct*",
            "having",
            "row",
            "fetch_first",
            "comments",
            "compare",
            "parser",
            "count_distinct*",
            "sum_distinct",
            "table_value_constr",
            "rownum",
            "alias",
            "name_const_replacement",
        ],
    ),
    ("join", &["join", "join_*", "table_elim", "greedy_optimizer"]),
    ("subselect", &["subselect*", "derived", "derived_*", "in_subq_cond_pushdown", "subquery_*"]),
    ("union", &["union", "union_*", "except*", "intersect*", "set_operation*"]),
    ("group", &["group_by*", "group_min_max*", "innodb_group", "olap"]),
    ("order", &["order_by*", "order_fill_sortbuf", "filesort_*", "desc_index_range"]),
    ("insert", &["insert", "insert_*", "replace", "replace_*", "bulk_replace"]),
    ("update", &["update", "update_*", "multi_update*", "simultaneous_assignment", "single_delete_update*"]),
    ("delete", &["delete", "delete_*", "truncate", "truncate_*"]),
    (
        "create",
        &[
            "create",
            "create_*",
            "drop",
            "drop_*",
            "temp_table",
            "comment_*",
            "keywords",
            "rename",
            "check_constraint*",
            "show_check",
            "information_schema",
        ],
    ),
    ("alter", &["alter_table*", "ignored_index*", "invisible_field"]),
    (
        "key",
        &[
            "key",
            "key_*",
            "keyread",
            "unique",
            "range",
            "range_innodb",
            "index_merge_innodb",
            "index_intersect_innodb",
            "innodb_ext_key",
            "foreign_key",
            "constraints",
        ],
    ),
    ("auto_increment", &["auto_increment*", "strict_autoinc*"]),
    (
        "transaction",
        &[
            "commit*",
            "rollback",
            "trans_*",
            "consistent_snapshot",
            "deadlock_innodb",
            "implicit_commit",
            "innodb_mysql_lock*",
            "xa",
            "locking_clause",
            "lock",
            "lock_multi",
            "set_statement",
            "ps",
            "ps_1general",
        ],
    ),
];

/// Parts of names of scripts that need another server: a debug build, a plugin, hours, another engine, another character set.
const ELSEWHERE: &[&str] = &[
    "debug",
    "big",
    "partition",
    "ucs2",
    "myisam",
    "aria",
    "upgrade",
    "grant",
    "not_windows",
    "create_windows",
    "udf",
    "plugin",
    "_sync",
    "_user",
    "_role",
    "_server",
    "_event",
    "_max_indexes",
    "crash",
    "binlog",
    "rpl",
    "_pfs",
];

/// The groups' names, in the order of the report.
pub fn names() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().map(|(name, _)| *name)
}

/// The group of a script, if it has one.
pub fn group_of(script: &str) -> Option<&'static str> {
    if ELSEWHERE.iter().any(|part| script.contains(part)) && script != "bigint" {
        return None;
    }
    let group =
        GROUPS.iter().find(|(_, patterns)| patterns.iter().any(|pattern| matches(pattern, script)))?;
    Some(group.0)
}

/// `*` at the beginning or the end of a pattern stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (_, Some(start)) => name.starts_with(start),
        _ => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_find_their_group() {
        assert_eq!(group_of("func_json"), Some("json"));
        assert_eq!(group_of("func_str"), Some("func"));
        assert_eq!(group_of("type_date_round"), Some("date"));
        assert_eq!(group_of("derived_view"), Some("view"));
        assert_eq!(group_of("subselect_nulls"), Some("null"));
        assert_eq!(group_of("bigint"), Some("decimal"));
        assert_eq!(group_of("alter_table_debug"), None);
        assert_eq!(group_of("mysqldump"), None);
    }
}
