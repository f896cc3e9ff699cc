//! The rows of `mysql.general_log` and `mysql.slow_log`.

use keel_value::{Time, Value};

use super::{RowMaker, View, moment, number, text};

/// Makes the rows of a log table; false if the table is none.
pub fn fill(view: &View<'_>, rows: &mut RowMaker<'_>) -> bool {
    let server = view.served.globals.named("server_id").as_u64();
    let bytes = |bytes: &[u8]| text(String::from_utf8_lossy(bytes));
    let time = |micros: i64| Value::Time(Time { micros });
    match rows.table() {
        "general_log" => {
            for row in view.served.logs.tables.general.all() {
                rows.row([
                    ("event_time", moment(view, row.time)),
                    ("user_host", text(&row.user_host)),
                    ("thread_id", number(row.thread)),
                    ("server_id", number(server)),
                    ("command_type", text(&row.command)),
                    ("argument", bytes(&row.argument)),
                ]);
            }
        }
        "slow_log" => {
            for row in view.served.logs.tables.slow.all() {
                rows.row([
                    ("start_time", moment(view, row.time)),
                    ("user_host", text(&row.user_host)),
                    ("query_time", time(row.query_micros)),
                    ("lock_time", time(row.lock_micros)),
                    ("rows_sent", number(row.rows_sent)),
                    ("rows_examined", number(row.rows_examined)),
                    ("db", text(&row.database)),
                    ("last_insert_id", number(0)),
                    ("insert_id", number(0)),
                    ("server_id", number(server)),
                    ("sql_text", bytes(&row.text)),
                    ("thread_id", number(row.thread)),
                    ("rows_affected", number(row.rows_affected)),
                ]);
            }
        }
        _ => return false,
    }
    true
}
