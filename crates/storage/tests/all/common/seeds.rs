//! Seeds of random tests.

/// `KEEL_SEED` is one seed; `KEEL_SEEDS` is their number, or the range `from..to`.
pub fn seeds(default: u64) -> std::ops::Range<u64> {
    if let Ok(seed) = std::env::var("KEEL_SEED") {
        let seed = seed.parse().expect("a seed");
        return seed..seed + 1;
    }
    let given = std::env::var("KEEL_SEEDS").unwrap_or_default();
    match given.split_once("..") {
        Some((from, to)) => from.parse().expect("a seed")..to.parse().expect("a seed"),
        None => 0..given.parse().unwrap_or(default),
    }
}
