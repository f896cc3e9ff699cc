//! The pace of background work, if a user gives it. `innodb_io_capacity` and `innodb_io_capacity_max` limit the pages that the
//! engine writes per second; `innodb_purge_batch_size` and `innodb_purge_threads` set the transactions that purge handles at a
//! time and its fibers.
//!
//! `innodb_io_capacity` applies to an idle store, `innodb_io_capacity_max` as long as the log has space. The first must not
//! exceed the second: as in MariaDB, the variable that was not set is adjusted, with two warnings.

use keel_base::{Level, Warning};
use keel_settings::variables::{Setting, table};

use crate::core::Core;
use crate::state::ServerState;

const IDLE: &str = "innodb_io_capacity";
const MOST: &str = "innodb_io_capacity_max";
const BATCH: &str = "innodb_purge_batch_size";
const FIBERS: &str = "innodb_purge_threads";

/// Number of the warnings.
const WRONG_ARGUMENTS: u16 = 1210;

/// Tells the engine what was chosen.
pub fn apply(state: &ServerState) {
    let chosen = |name: &str| {
        let id = table().id(name);
        state.globals.is_chosen(id).then(|| state.globals.get(id).as_u64())
    };
    state.engine.set_pages_per_second(chosen(IDLE).unwrap_or(0), chosen(MOST).unwrap_or(0));
    state.engine.set_purge(chosen(BATCH).unwrap_or(0), chosen(FIBERS).unwrap_or(0));
}

/// What follows from a change of one of them; nothing for other names.
pub fn changed(core: &mut Core, name: &str) {
    if [BATCH, FIBERS].contains(&name) {
        return apply(&core.state);
    }
    if ![IDLE, MOST].contains(&name) {
        return;
    }
    let value = |name: &str| core.state.globals.named(name).as_u64();
    let (idle, most) = (value(IDLE), value(MOST));
    if idle > most {
        let (other, to, said) = match name {
            IDLE => (MOST, idle.saturating_mul(2), raised(idle, most)),
            _ => (IDLE, most, lowered(idle, most)),
        };
        core.state.globals.set(table().id(other), Setting::UInt(to));
        for message in said {
            let warning = Warning { level: Level::Warning, code: WRONG_ARGUMENTS, message: message.into() };
            core.sql.push_warning(warning);
        }
    }
    apply(&core.state);
}

fn raised(idle: u64, most: u64) -> [String; 2] {
    [
        format!("Setting {IDLE} to {idle} higher than {MOST} {most}"),
        format!("Setting innodb_max_io_capacity to {}", idle.saturating_mul(2)),
    ]
}

fn lowered(idle: u64, most: u64) -> [String; 2] {
    [format!("Setting {MOST} {most} lower than {IDLE} {idle}."), format!("Setting {IDLE} to {most}")]
}
