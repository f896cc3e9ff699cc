//! The INNODB_ tables, from the engine's own status.

use keel_value::Value;

use super::{RowMaker, View, maybe, number, text};
use crate::show::status;

/// Most locks that are shown at once.
const LOCKS_MAX: usize = 10_000;

/// Makes the rows of one of these tables; those about what this engine does not have stay empty.
pub fn fill(view: &View<'_>, rows: &mut RowMaker<'_>) {
    match rows.table() {
        "INNODB_TRX" => transactions(view, rows),
        "INNODB_LOCKS" => locks(view, rows),
        "INNODB_METRICS" => metrics(view, rows),
        "INNODB_BUFFER_POOL_STATS" => pool(view, rows),
        _ => {}
    }
}

fn transactions(view: &View<'_>, rows: &mut RowMaker<'_>) {
    for trx in view.state.engine.transactions() {
        let state = match (trx.rolling_back, trx.waits_in) {
            (true, _) => "ROLLING BACK",
            (_, Some(_)) => "LOCK WAIT",
            _ => "RUNNING",
        };
        rows.row([
            ("trx_id", number(trx.id.0)),
            ("trx_state", text(state)),
            ("trx_weight", number(trx.changes + trx.locks)),
            ("trx_rows_locked", number(trx.locks)),
            ("trx_rows_modified", number(trx.changes)),
            ("trx_lock_structs", number(trx.locks)),
        ]);
    }
}

fn locks(view: &View<'_>, rows: &mut RowMaker<'_>) {
    for (place, lock) in view.state.engine.locks(LOCKS_MAX).iter().enumerate() {
        let key: String = lock.key.iter().map(|b| format!("{b:02x}")).collect();
        rows.row([
            ("lock_id", text(format!("{}:{place}", lock.tree))),
            ("lock_trx_id", number(lock.owner.map_or(0, |id| id.0))),
            ("lock_type", text("RECORD")),
            ("lock_table", text(lock.tree.to_string())),
            ("lock_data", maybe((!lock.key.is_empty()).then_some(key))),
        ]);
    }
}

fn metrics(view: &View<'_>, rows: &mut RowMaker<'_>) {
    for (name, value) in status::engine(&view.state.engine.status()) {
        let Ok(count) = value.parse::<u64>() else { continue };
        rows.row([
            ("NAME", text(name.trim_start_matches("Innodb_").to_lowercase())),
            ("SUBSYSTEM", text("engine")),
            ("COUNT", number(count)),
            ("TYPE", text("value")),
            ("COMMENT", text("")),
        ]);
    }
}

fn pool(view: &View<'_>, rows: &mut RowMaker<'_>) {
    let store = view.state.engine.status().store;
    let hits = store.read_requests.saturating_sub(store.reads);
    rows.row([
        ("POOL_ID", number(0)),
        ("POOL_SIZE", number(store.pages_total)),
        ("FREE_BUFFERS", number(store.pages_free)),
        ("DATABASE_PAGES", number(store.pages_total.saturating_sub(store.pages_free))),
        ("MODIFIED_DATABASE_PAGES", number(store.pages_dirty)),
        ("NUMBER_PAGES_READ", number(store.reads)),
        ("NUMBER_PAGES_WRITTEN", number(store.writes)),
        ("NUMBER_PAGES_GET", number(store.read_requests)),
        ("HIT_RATE", Value::UInt((hits * 1000).checked_div(store.read_requests).unwrap_or(0))),
    ]);
}
