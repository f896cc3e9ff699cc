//! Trees by script: `golden/tree.txt` holds commands and the shape of the tree that they leave.
//!
//! A line of the script that begins with `>` is a command, what follows up to the next one is its answer:
//! `insert FROM..TO BYTES` and `remove FROM..TO` change the keys of that range of numbers, `outline` prints the pages,
//! `verify` the problems found. `KEEL_UPDATE_GOLDENS=1` writes the answers anew; review the difference as code.

use std::path::PathBuf;

use keel_runtime::sim::Disk;
use keel_storage::store::Store;
use keel_storage::tree::Tree;

use super::support::*;

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/tree.txt")
}

fn key(number: u64) -> Vec<u8> {
    format!("k{number:04}").into_bytes()
}

fn range(word: &str) -> Box<dyn Iterator<Item = u64>> {
    let (from, to) = word.split_once("..").expect("FROM..TO");
    let (from, to): (u64, u64) = (from.parse().expect("a number"), to.parse().expect("a number"));
    if from <= to { Box::new(from..to) } else { Box::new((to..from).rev()) }
}

fn command(store: &Store, tree: &Tree, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["insert", keys, bytes] => {
            let value = vec![b'v'; bytes.parse().expect("a length")];
            for number in range(keys) {
                Op::Put(key(number), value.clone()).run(store, tree).expect("done");
            }
            String::new()
        }
        ["remove", keys] => {
            for number in range(keys) {
                Op::Remove(key(number)).run(store, tree).expect("done");
            }
            String::new()
        }
        ["outline"] => tree.outline().expect("readable"),
        ["verify"] => tree.verify().expect("readable").iter().map(|problem| format!("{problem}\n")).collect(),
        _ => panic!("no such command: {line}"),
    }
}

#[test]
fn trees_take_the_shapes_of_the_golden_script() {
    let script = std::fs::read_to_string(path()).expect("the script");
    let answers = world(1, &Disk::new(1), || {
        let store = open(tiny());
        let tree = store.create_tree(TREE).expect("created");
        let mut out = String::new();
        for line in script.lines().filter(|line| line.starts_with(['>', '#'])) {
            out += &format!("{line}\n");
            if let Some(line) = line.strip_prefix('>') {
                out += &command(&store, &tree, line);
            }
        }
        store.shutdown().expect("clean");
        out
    })
    .done();
    if std::env::var_os("KEEL_UPDATE_GOLDENS").is_some() {
        std::fs::write(path(), answers).expect("written");
        return;
    }
    assert!(answers == script, "the shape of trees changed; now:\n{answers}");
}
