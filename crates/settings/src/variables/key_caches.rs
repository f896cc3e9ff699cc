//! Key caches by name: the settings of each are kept and shown, and no cache exists.

use std::collections::BTreeMap;

use keel_base::{SqlError, SqlResult, errors};
use parking_lot::Mutex;

use super::{Globals, Setting, VarId, Variable, table};

/// Most caches with a name.
const CACHES_MAX: usize = 256;

/// Names of the variables of a cache.
const VARIABLES: [&str; 6] = [
    "key_buffer_size",
    "key_cache_age_threshold",
    "key_cache_block_size",
    "key_cache_division_limit",
    "key_cache_file_hash_size",
    "key_cache_segments",
];

/// Words for a scope, which name no cache.
const SCOPES: [&str; 3] = ["global", "local", "session"];

/// The settings of all caches that have a name.
#[derive(Debug, Default)]
pub struct KeyCaches(Mutex<BTreeMap<String, [u64; VARIABLES.len()]>>);

/// Whether the name is the one of the cache that has the global variables' values.
pub fn is_default(instance: &str) -> bool {
    instance.eq_ignore_ascii_case("default")
}

/// Position of a variable among those of a cache.
fn place(name: &str) -> Option<usize> {
    VARIABLES.iter().position(|variable| *variable == name)
}

/// The variable that `SET instance.name` means.
pub fn find(instance: &str, name: &str) -> SqlResult<VarId> {
    if SCOPES.iter().any(|scope| scope.eq_ignore_ascii_case(instance)) {
        return Err(errors::unknown_structured_variable(instance));
    }
    let id = table().find(name).ok_or_else(|| errors::unknown_structured_variable(instance))?;
    require(table().get(id)).map(|()| id)
}

/// 1272 for a variable that caches do not have.
pub fn require(variable: &Variable) -> SqlResult<()> {
    match place(variable.name) {
        Some(_) => Ok(()),
        None => Err(errors::variable_is_not_struct(variable.name)),
    }
}

/// 1438 where the default cache would get no memory.
pub fn check_default(variable: &Variable, setting: &Setting) -> SqlResult<()> {
    match variable.name == VARIABLES[0] && setting.as_u64() == 0 {
        true => Err(cant_drop()),
        false => Ok(()),
    }
}

fn cant_drop() -> SqlError {
    errors::warn_cant_drop_default_keycache()
}

impl KeyCaches {
    /// The value of a cache's variable: 0 where there is no such cache.
    pub fn read(&self, instance: &str, name: &str) -> Setting {
        let caches = self.0.lock();
        let values = caches.get(instance);
        Setting::UInt(values.zip(place(name)).map_or(0, |(values, place)| values[place]))
    }

    /// Sets a cache's variable. A new cache has the defaults, and no memory.
    pub fn set(&self, globals: &Globals, instance: &str, name: &str, value: u64) -> SqlResult<()> {
        let Some(place) = place(name) else { return Ok(()) };
        let mut caches = self.0.lock();
        if caches.len() >= CACHES_MAX && !caches.contains_key(instance) {
            return Err(errors::out_of_resources());
        }
        // A cache that has no memory yet gets none by that.
        if place == 0 && value == 0 && !caches.contains_key(instance) {
            return Ok(());
        }
        let values = caches.entry(instance.to_owned()).or_insert_with(|| {
            let mut values = VARIABLES.map(|name| globals.default_of(table().id(name)).as_u64());
            values[0] = 0;
            values
        });
        values[place] = value;
        Ok(())
    }
}
