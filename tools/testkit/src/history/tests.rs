//! Made-up histories: each anomaly is found, and what is allowed is allowed.

use super::check::check;
use super::*;

/// A transaction from words: `a1:5` appends 5 to key 1, `r1:5,6` reads, `r1:` finds nothing, `l1:5` locks, `u1:5` takes back.
fn transaction(session: usize, times: (u64, u64), end: End, words: &str) -> Transaction {
    let steps = words.split_whitespace().enumerate().map(|(place, word)| {
        let (kind, rest) = word.split_at(1);
        let (key, elements) = rest.split_once(':').expect("a key and elements");
        let key: Key = key.parse().expect("a key");
        let list: Vec<Element> =
            elements.split_terminator(',').map(|e| e.parse().expect("an element")).collect();
        let op = match kind {
            "a" => Op::Append(vec![key], list[0]),
            "r" => Op::Read([(key, list)].into()),
            "l" => Op::Lock { lists: [(key, list)].into(), gaps: true },
            "u" => Op::Undo(vec![(key, list[0])]),
            _ => panic!("{word}"),
        };
        // Statements of transactions at the same time overlap, whatever they saw of each other.
        let (from, to) = (times.0 * 100 + place as u64, times.1 * 100 + 50);
        Step { op, sent: from, answered: to }
    });
    Transaction {
        session,
        steps: steps.collect(),
        began: times.0 * 100 + session as u64,
        ending: times.0 * 100 + 30 + session as u64,
        ended: times.1 * 100 + 60 + session as u64,
        end,
    }
}

/// All of them at the same time.
fn together(level: Level, transactions: &[&str], last: &[(Key, &[Element])]) -> History {
    let all = transactions.iter().enumerate().map(|(n, words)| transaction(n, (0, 9), End::Committed, words));
    history(level, all.collect(), last)
}

fn history(level: Level, transactions: Vec<Transaction>, last: &[(Key, &[Element])]) -> History {
    History { level, transactions, last: last.iter().map(|(key, list)| (*key, list.to_vec())).collect() }
}

fn name(history: &History) -> &'static str {
    check(history).map_or_else(|anomaly| anomaly.name, |()| "none")
}

#[test]
fn interleaved_writes_are_g0_on_every_level() {
    let words = ["a1:1 a2:2", "a1:3 a2:4"];
    for level in Level::ALL {
        assert_eq!(name(&together(level, &words, &[(1, &[1, 3]), (2, &[4, 2])])), "G0");
        assert_eq!(name(&together(level, &words, &[(1, &[1, 3]), (2, &[2, 4])])), "none");
    }
}

#[test]
fn reads_of_what_was_rolled_back_are_g1a_above_read_uncommitted() {
    for level in Level::ALL {
        let aborted = transaction(0, (0, 9), End::Aborted, "a1:1");
        let reader = transaction(1, (0, 9), End::Committed, "r1:1");
        let found = name(&history(level, vec![aborted, reader], &[]));
        assert_eq!(found, if level == Level::ReadUncommitted { "none" } else { "G1a" });
    }
    let undone = together(Level::ReadCommitted, &["a1:1 u1:1", "r1:1"], &[]);
    assert_eq!(name(&undone), "G1a");
    let kept =
        history(Level::ReadCommitted, vec![transaction(0, (0, 9), End::Aborted, "a1:1")], &[(1, &[1])]);
    assert_eq!(name(&kept), "G1a");
}

#[test]
fn reads_of_half_a_transaction_are_g1b() {
    let half = together(Level::ReadCommitted, &["a1:1 a1:2", "r1:1"], &[(1, &[1, 2])]);
    assert_eq!(name(&half), "G1b");
    let half = together(Level::ReadUncommitted, &["a1:1 a1:2", "r1:1"], &[(1, &[1, 2])]);
    assert_eq!(name(&half), "none");
}

#[test]
fn circular_flow_is_g1c() {
    for level in [Level::ReadCommitted, Level::RepeatableRead, Level::Serializable] {
        let circle = together(level, &["a1:1 r2:2", "a2:2 r1:1"], &[(1, &[1]), (2, &[2])]);
        assert_eq!(name(&circle), "G1c", "{level:?}");
    }
}

#[test]
fn a_read_skew_is_g_single() {
    let words = ["r1: r2:2", "a1:1 a2:2"];
    let last: &[(Key, &[Element])] = &[(1, &[1]), (2, &[2])];
    assert_eq!(name(&together(Level::Serializable, &words, last)), "G-single");
    assert_eq!(name(&together(Level::RepeatableRead, &words, last)), "G-single");
    assert_eq!(
        name(&together(Level::ReadCommitted, &words, last)),
        "none",
        "each statement has its snapshot"
    );
    assert_eq!(name(&together(Level::ReadCommitted, &["r1:1 r1:", "a1:1"], &[(1, &[1])])), "G-single");
}

#[test]
fn one_statement_reads_one_snapshot() {
    let lists: Lists = [(1, vec![]), (2, vec![2])].into();
    let mut skewed = together(Level::ReadCommitted, &["r1:", "a1:1 a2:2"], &[(1, &[1]), (2, &[2])]);
    skewed.transactions[0].steps[0].op = Op::Read(lists);
    assert_eq!(name(&skewed), "G-single");
}

#[test]
fn two_readers_that_see_two_writers_in_opposite_orders_are_a_long_fork() {
    let words = ["a1:1", "a2:2", "r1:1 r2:", "r1: r2:2"];
    let last: &[(Key, &[Element])] = &[(1, &[1]), (2, &[2])];
    assert_eq!(name(&together(Level::RepeatableRead, &words, last)), "G2");
    assert_eq!(name(&together(Level::Serializable, &words, last)), "G2");
    assert_eq!(name(&together(Level::ReadCommitted, &words, last)), "none", "two statements, two snapshots");
}

#[test]
fn write_skew_is_g2_where_serializable_and_allowed_below() {
    let words = ["r1: r2: a1:1", "r1: r2: a2:2"];
    let last: &[(Key, &[Element])] = &[(1, &[1]), (2, &[2])];
    assert_eq!(name(&together(Level::Serializable, &words, last)), "G2");
    assert_eq!(name(&together(Level::RepeatableRead, &words, last)), "none");
    let locked = ["l1: l2: a1:1", "l1: l2: a2:2"];
    assert_eq!(name(&together(Level::RepeatableRead, &locked, last)), "G2", "locking reads lock");
}

#[test]
fn a_phantom_is_found() {
    let mut phantom = together(Level::Serializable, &["r1: a9:9", "r9: a1:1"], &[(1, &[1]), (9, &[9])]);
    assert_eq!(name(&phantom), "G2");
    phantom.level = Level::RepeatableRead;
    assert_eq!(name(&phantom), "none");
}

#[test]
fn a_lost_update_is_innodbs_rule_at_repeatable_read_only() {
    let words = ["r1: a1:1", "r1: a1:2"];
    assert_eq!(name(&together(Level::RepeatableRead, &words, &[(1, &[1, 2])])), "none");
    assert_eq!(name(&together(Level::Snapshot, &words, &[(1, &[1, 2])])), "G-single");
    assert_eq!(name(&together(Level::Snapshot, &["r1: l2:2", "a2:2"], &[(2, &[2])])), "none");
    let locked = ["r1: l2:2", "a1:1 a2:2"];
    let last: &[(Key, &[Element])] = &[(1, &[1]), (2, &[2])];
    assert_eq!(name(&together(Level::RepeatableRead, &locked, last)), "none");
    assert_eq!(name(&together(Level::Snapshot, &locked, last)), "G-single");
    assert_eq!(name(&together(Level::Serializable, &words, &[(1, &[1, 2])])), "G-single");
}

#[test]
fn what_was_acknowledged_may_not_be_missing_nor_come_late() {
    for level in Level::ALL {
        assert_eq!(name(&together(level, &["a1:1"], &[])), "lost");
    }
    let open = |last: &[(Key, &[Element])]| {
        let open = transaction(0, (0, 9), End::Unknown, "a1:1 a2:2");
        name(&history(Level::Serializable, vec![open], last))
    };
    assert_eq!(open(&[]), "none");
    assert_eq!(open(&[(1, &[1]), (2, &[2])]), "none");
    assert_eq!(open(&[(1, &[1])]), "torn");
    let reader = |end: End, words: &str| {
        let writer = transaction(0, (0, 9), End::Unknown, "a1:1");
        let reader = transaction(1, (0, 9), end, words);
        name(&history(Level::RepeatableRead, vec![writer, reader], &[]))
    };
    assert_eq!(reader(End::Aborted, "l1:1"), "none", "locks are given back before a commit is durable");
    assert_eq!(reader(End::Committed, "l1:1"), "G1a");
    assert_eq!(reader(End::Aborted, "r1:1"), "G1a");
    for (level, expected) in [
        (Level::Serializable, "G-single-realtime"),
        (Level::RepeatableRead, "G-single-realtime"),
        (Level::ReadCommitted, "G-single-realtime"),
        (Level::ReadUncommitted, "none"),
    ] {
        let writer = transaction(0, (0, 1), End::Committed, "a1:1");
        let reader = transaction(1, (5, 6), End::Committed, "r1:");
        assert_eq!(name(&history(level, vec![writer, reader], &[(1, &[1])])), expected, "{level:?}");
    }
    let (late, early) =
        (transaction(0, (0, 1), End::Committed, "r1:1"), transaction(1, (5, 6), End::Committed, "a1:1"));
    assert_eq!(name(&history(Level::Serializable, vec![late, early], &[(1, &[1])])), "G1c-realtime");
}

#[test]
fn lists_that_nobody_can_have_read_are_found() {
    let read = |words: &str| name(&together(Level::ReadCommitted, &["a1:1", "a1:2", words], &[(1, &[1, 2])]));
    assert_eq!(read("r1:1,2"), "none");
    assert_eq!(read("r1:2"), "order");
    assert_eq!(read("r1:7"), "unwritten");
    assert_eq!(
        name(&together(Level::ReadCommitted, &["a1:1 r1:"], &[(1, &[1])])),
        "order",
        "its own write is hidden"
    );
    assert_eq!(name(&together(Level::ReadCommitted, &["a1:1"], &[(1, &[1, 1])])), "order");
    let undone = together(Level::RepeatableRead, &["a1:1 u1:1 r1: a1:2 r1:2"], &[(1, &[2])]);
    assert_eq!(name(&undone), "none");
    let undone = together(Level::RepeatableRead, &["a1:1 r1:1 u1:1 a2:2", "a1:3"], &[(1, &[3]), (2, &[2])]);
    assert_eq!(name(&undone), "none");
}
