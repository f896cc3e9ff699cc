//! The INNODB_ tables, from the engine's own status.

use keel_value::Value;

use super::{RowMaker, View, number, text};
use crate::show::status;

/// Makes the rows of one of these tables; those about what this engine does not have stay empty.
pub fn fill(view: &View<'_>, rows: &mut RowMaker<'_>) {
    match rows.table() {
        "INNODB_METRICS" => metrics(view, rows),
        "INNODB_BUFFER_POOL_STATS" => pool(view, rows),
        _ => {}
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
