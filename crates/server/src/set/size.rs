//! Sizes that change while the server works: the buffer pool and the redo log.

use keel_base::{SqlError, SqlResult, errors};
use keel_query::InterruptState;
use keel_runtime::system;
use keel_settings::budget;
use keel_settings::variables::Setting;
use keel_storage::Error;
use keel_storage::fault::StoreError;

use crate::core::Core;

/// Gives the pool so many octets; the statement waits until it has them, or has given back what is beyond.
pub fn pool(core: &Core, bytes: u64) -> SqlResult<()> {
    let engine = &core.state.engine;
    let needed = bytes.saturating_sub(engine.pool_bytes());
    // A container may have less than the machine, whose memory bounds the addresses.
    let most = engine.pool_bytes_max().min(system::memory_bytes().max(engine.pool_bytes()));
    let resized = match bytes <= most {
        true => engine.resize_pool(bytes, &|| core.sql.interrupt.state() != InterruptState::None),
        false => return Err(errors::ee_outofmemory(needed)),
    };
    match resized {
        Err(Error::Store(StoreError::Io { op: "map", .. })) => Err(errors::ee_outofmemory(needed)),
        other => finish(core, other),
    }?;
    core.state.keeper.change(&core.state, None, Some(true));
    Ok(())
}

/// Gives the server so many octets in all, or with 0 its share of what there is; the pool follows where nobody chose its size.
pub fn limit(core: &Core, bytes: u64) -> SqlResult<Setting> {
    let bytes = if bytes == 0 { budget::default_limit() } else { bytes };
    core.state.keeper.change(&core.state, Some(bytes), None);
    Ok(Setting::UInt(bytes))
}

/// Gives the redo log so many octets before writers wait; for fewer, the statement waits until pages are written.
pub fn redo(core: &Core, bytes: u64) -> SqlResult<()> {
    let buffer = core.state.globals.named("innodb_log_buffer_size").as_u64();
    if bytes < buffer {
        let message = format!("innodb_log_file_size must be at least innodb_log_buffer_size={buffer}");
        return Err(SqlError { message: message.into(), ..errors::wrong_arguments("SET") });
    }
    let stopped = || core.sql.interrupt.state() != InterruptState::None;
    finish(core, core.state.engine.resize_redo(bytes, &stopped))
}

fn finish(core: &Core, resized: Result<bool, Error>) -> SqlResult<()> {
    match resized {
        Ok(true) => Ok(()),
        Ok(false) => core.sql.check_interrupt().and(Err(errors::query_interrupted())),
        Err(error) => Err(errors::get_errno(168, error, "InnoDB")),
    }
}
