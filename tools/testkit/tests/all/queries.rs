//! Random queries of some seeds: Keel answers as MariaDB does, the parts of a query are the query, and changes leave the same rows. `cargo x queries` goes on.

use keel_testkit::queries::run::{Check, Finding, Runner};
use keel_testkit::queries::world::World;

const SEEDS: &[u64] = &[101, 103, 105, 106, 107, 108, 109, 110];
/// Of each kind in each world.
const QUERIES: u64 = 30;

#[test]
fn random_queries_have_mariadbs_answers() {
    let mut runner = Runner::start().expect("both servers start");
    let mut findings: Vec<Finding> = Vec::new();
    for seed in SEEDS.iter().copied() {
        let world = World::new(seed);
        runner.set_up(&world).expect("both have the world");
        for number in 0..QUERIES {
            for check in [Check::Compare, Check::Partitions, Check::Changes] {
                findings.extend(runner.query(&world, seed, number, check).expect("both answer"));
            }
        }
    }
    let text = |found: &Finding| {
        format!(
            "{:?}, seed {}, query {}\n{}\n{};\n{}\n",
            found.class, found.seed, found.number, found.setup, found.sql, found.answers
        )
    };
    assert!(findings.is_empty(), "{}", findings.iter().map(text).collect::<Vec<_>>().join("\n"));
    assert!(runner.compared > 350, "{} of 720 queries could be compared", runner.compared);
    assert!(runner.refused < 60, "{} queries were refused by both", runner.refused);
}
