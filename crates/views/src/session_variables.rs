//! Reads the variables of a session, including those whose value is kept by the session itself.

use keel_exec::Executor;
use keel_settings::variables::{SessionSettings, Setting, VarId, table};

/// The value of a variable as a session reads it; some live in the session itself.
pub fn read(connection: u64, executor: &dyn Executor, settings: &SessionSettings, id: VarId) -> Setting {
    let session = executor.env();
    match table().get(id).name {
        "timestamp" => {
            let micros = session.vars.timestamp.unwrap_or_else(keel_runtime::time::unix_micros);
            Setting::Double(micros as f64 / 1e6)
        }
        "insert_id" => Setting::UInt(session.vars.insert_id.unwrap_or(0)),
        "last_insert_id" | "identity" => Setting::UInt(session.last_insert_id),
        "warning_count" => Setting::UInt(session.diagnostics.warning_count),
        "error_count" => Setting::UInt(session.diagnostics.error_count),
        "in_transaction" => Setting::UInt(u64::from(executor.in_transaction())),
        "pseudo_thread_id" => Setting::UInt(connection),
        "rand_seed1" | "rand_seed2" => Setting::UInt(0),
        "collation_database" => Setting::text(session.vars.database_collation.name()),
        "character_set_database" => Setting::text(session.vars.database_collation.charset().name()),
        _ => settings.get(id).clone(),
    }
}
