//! User variables.

use std::sync::Arc;

use hashbrown::HashMap;
use keel_base::{SqlResult, errors};
use keel_value::{CollationId, SqlType, Value, convert, decimal};

use crate::memory::{Allowance, Work};
use crate::place::Place;

/// A user variable.
#[derive(Debug, Clone)]
pub struct UserVariable {
    /// Its value.
    pub value: Value,
    /// The type that it had when it was set.
    pub ty: SqlType,
}

impl UserVariable {
    /// A variable as it is kept: times and members of ENUM and SET are text from here on, and quotients have all their digits.
    pub fn new(value: Value, ty: &SqlType) -> UserVariable {
        let is_text = ty.has_members()
            || matches!(value, Value::Date(_) | Value::Time(_) | Value::DateTime(_) | Value::Fixed(_));
        if let Value::Decimal(digits) = &value
            && digits.scale() > ty.decimals
        {
            let scale = digits.scale().min(decimal::MAX_SCALE);
            return UserVariable { ty: SqlType::decimal(65, scale), value };
        }
        if value.is_null() || !is_text {
            return UserVariable { value, ty: ty.clone() };
        }
        let mut text = Vec::new();
        convert::to_text(value.as_ref(), ty, &mut text);
        let collation = if ty.has_members() { ty.collation } else { CollationId::UTF8MB4_GENERAL_CI };
        UserVariable { ty: SqlType::varchar(text.len() as u32, collation), value: Value::Bytes(text.into()) }
    }
}

/// The user variables of a session, names in lower case. What they take is bounded for all sessions together.
pub struct UserVariables {
    map: HashMap<String, UserVariable>,
    bytes: usize,
    memory: Allowance,
}

/// What a variable takes beside name and text.
const VARIABLE_BYTES: usize = 128;

impl UserVariables {
    /// None.
    pub fn new(host: Arc<dyn Place>) -> UserVariables {
        UserVariables {
            map: HashMap::new(),
            bytes: 0,
            memory: Allowance::new(u64::MAX, Work::new(host, None)),
        }
    }

    /// The variable of that name.
    pub fn get(&self, name: &str) -> Option<&UserVariable> {
        self.map.get(name)
    }

    /// All of them with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &UserVariable)> {
        self.map.iter().map(|(name, variable)| (name.as_str(), variable))
    }

    /// Sets a variable; 1037 where there is no memory for it.
    pub fn set(&mut self, name: &str, variable: UserVariable) -> SqlResult<()> {
        let size = |v: &UserVariable| v.value.as_ref().as_bytes().map_or(0, <[u8]>::len);
        let known = self.map.get(name);
        let before = known.map_or(0, |v| size(v) + name.len() + VARIABLE_BYTES);
        let bytes = self.bytes - before + size(&variable) + name.len() + VARIABLE_BYTES;
        if bytes > self.bytes && !self.memory.allows(bytes) {
            return Err(errors::outofmemory(size(&variable)));
        }
        self.bytes = bytes;
        self.map.insert(name.into(), variable);
        Ok(())
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.map.clear();
        self.bytes = 0;
        self.memory.shrink();
    }
}
