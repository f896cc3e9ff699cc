//! Sizes that change while the server works: the buffer pool and the redo log.

use keel_base::{SqlError, SqlResult, errors};
use keel_exec::InterruptState;
use keel_runtime::system;
use keel_settings::budget;
use keel_settings::variables::Setting;
use keel_storage::Error;
use keel_storage::fault::StoreError;

use crate::core::Core;

/// Resizes the pool to `bytes`; the statement waits until it is done.
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

/// Sets the memory limit to `bytes`, or to the default with 0. The pool follows unless a user gave its size.
pub fn limit(core: &Core, bytes: u64) -> SqlResult<Setting> {
    let bytes = if bytes == 0 { budget::default_limit() } else { bytes };
    core.state.keeper.change(&core.state, Some(bytes), None);
    Ok(Setting::UInt(bytes))
}

/// Sets the size of the redo log to `bytes`. To shrink it, the statement waits until pages are written.
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
