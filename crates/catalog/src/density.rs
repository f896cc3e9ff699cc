//! How many rows share a value of an index's leading parts, found by sampling.
//!
//! Keys from places spread over the index are taken, and the rows that share their leading parts are counted by the engine.
//! A key met this way belongs to a frequent value more often than to a rare one, so the harmonic mean of the counts is the
//! mean over values. NULLs equal nothing and are left out. What was found holds until the table has changed in size.

use hashbrown::HashMap;
use keel_base::{SqlResult, TreeId};
use keel_storage::{Engine, ScanRange};
use parking_lot::Mutex;
use std::ops::Bound;

use super::IndexDef;
use keel_context::engine_error;

/// Keys looked at in an index.
const SAMPLES: usize = 8;
/// A table that has grown or shrunk by this factor is sampled anew.
const DRIFT: f64 = 1.5;

/// What is known of a table's indexes, by their trees. One entry per index.
#[derive(Default)]
pub struct Densities(Mutex<HashMap<TreeId, Sampled>>);

struct Sampled {
    /// Rows of the table at the time.
    rows: f64,
    per_value: Vec<f64>,
}

impl Densities {
    /// For each number of leading parts, rows per combination of their values, in a table of so many rows. Waits.
    pub fn of(&self, engine: &Engine, index: &IndexDef, rows: f64) -> SqlResult<Vec<f64>> {
        if let Some(known) = self.0.lock().get(&index.tree_id)
            && rows < known.rows * DRIFT
            && rows > known.rows / DRIFT
        {
            return Ok(known.per_value.clone());
        }
        let per_value = sample(engine, index, rows)?;
        self.0.lock().insert(index.tree_id, Sampled { rows, per_value: per_value.clone() });
        Ok(per_value)
    }
}

fn sample(engine: &Engine, index: &IndexDef, rows: f64) -> SqlResult<Vec<f64>> {
    let parts = index.encoders.len();
    let (mut shares, mut counts) = (vec![0.0; parts], vec![0u32; parts]);
    for number in 0..SAMPLES {
        let place = (number as f64 + 0.5) / SAMPLES as f64;
        let Some(key) = engine.key_near(index.entries(), place).map_err(engine_error)? else { continue };
        let mut end = 0;
        for (part, encoder) in index.encoders.iter().enumerate() {
            let mut null = Vec::new();
            encoder.encode(keel_value::ValueRef::Null, &mut null);
            let Some(length) = encoder.skip(&key[end..]) else { break };
            if encoder.nullable && key[end..end + length] == null[..] {
                break;
            }
            end += length;
            let mut upper = key[..end].to_vec();
            let bounded = keel_value::key::successor(&mut upper);
            let range = ScanRange {
                lower: Bound::Included(&key[..end]),
                upper: if bounded { Bound::Excluded(&upper) } else { Bound::Unbounded },
                reverse: false,
            };
            let found = engine.row_estimate(index.entries(), range).map_err(engine_error)?;
            shares[part] += 1.0 / (found.max(1) as f64);
            counts[part] += 1;
        }
    }
    let mean = |part: usize| if counts[part] == 0 { 1.0 } else { f64::from(counts[part]) / shares[part] };
    let mut per_value: Vec<f64> = (0..parts).map(|part| mean(part).clamp(1.0, rows.max(1.0))).collect();
    if index.is_unique()
        && let Some(last) = per_value.last_mut()
    {
        *last = 1.0;
    }
    Ok(per_value)
}
