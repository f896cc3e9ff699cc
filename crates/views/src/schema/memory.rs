//! `information_schema.KEEL_MEMORY`: the bound of each consumer of memory, what it uses and the most that it used.

use keel_runtime::{heap, system};
use keel_settings::budget::{CONNECTION_BYTES, TEXT_FACTOR};

use super::{RowMaker, View, number, text};

/// The rows of `information_schema.KEEL_MEMORY`.
pub fn fill(view: &View<'_>, rows: &mut RowMaker<'_>) {
    let state = view.served;
    let budget = state.budget();
    let work = state.database().host().work_memory();
    let pool = state.engine.pool_bytes();
    let plans = state.database().plan_bytes() as u64;
    let connections = state.registry.len() as u64;
    let used = system::memory_used_bytes();
    let most = state.memory.most_bytes().max(used);
    let operators = &state.operators;
    let packets = &state.long_packets;
    let texts = &state.long_texts;
    let parts = work.taken()
        + operators.used_bytes()
        + packets.used_bytes()
        + texts.used_bytes() * TEXT_FACTOR
        + plans;
    let other_heap = heap::allocated_bytes().saturating_sub(parts);
    for (name, bound, used, most) in [
        ("buffer pool", pool, state.pool_used_bytes(), None),
        ("work memory", budget.work, work.taken(), Some(work.most())),
        ("operators", operators.bytes_max(), operators.used_bytes(), Some(operators.most_bytes())),
        ("long packets", packets.bytes_max(), packets.used_bytes(), Some(packets.most_bytes())),
        (
            "long texts",
            texts.bytes_max() * TEXT_FACTOR,
            texts.used_bytes() * TEXT_FACTOR,
            Some(texts.most_bytes() * TEXT_FACTOR),
        ),
        ("cached plans", budget.plans, plans, None),
        (
            "connections",
            budget.connections,
            connections * CONNECTION_BYTES,
            Some(state.most_connections() * CONNECTION_BYTES),
        ),
        ("other heap", 0, other_heap, None),
        ("unused", 0, state.unused_bytes(used), None),
        ("process", budget.limit, used, Some(most)),
    ] {
        rows.row([
            ("CONSUMER", text(name)),
            ("BYTES_MAX", if bound == 0 { keel_value::Value::Null } else { number(bound) }),
            ("BYTES_USED", number(used)),
            ("BYTES_MOST", most.map_or(keel_value::Value::Null, number)),
        ]);
    }
}
