//! CHECK TABLE finds what is wrong: an entry that is missing, one too many, one that says something else, a row that is gone.

use crate::common::*;
use keel_database::Database;
use keel_storage::{OnDuplicate, Read, ScanRange, TreeHandle, Txn, TxnOptions};
use std::sync::Arc;

/// Changes a tree behind the table's back.
fn damage(database: &Arc<Database>, f: impl FnOnce(&mut Txn)) {
    let mut txn = database.engine().begin(TxnOptions::default());
    f(&mut txn);
    txn.commit().expect("commit");
}

fn first_entry(txn: &mut Txn, tree: &TreeHandle) -> (Vec<u8>, Vec<u8>) {
    let mut scan = txn.scan(tree, ScanRange::ALL, Read::Snapshot).expect("scan");
    let (key, row) = scan.next(txn).expect("scan").expect("an entry");
    (key.to_vec(), row.to_vec())
}

/// Damages each tree of the table in turn; CHECK TABLE must complain as long as the damage is there.
#[test]
fn rows_and_index_entries_that_disagree_are_found() {
    world(|database| {
        let mut client = Client::new(database);
        client.run("CREATE DATABASE IF NOT EXISTS test");
        client.script(
            "CREATE TABLE t (id INT PRIMARY KEY, a INT, u INT, v VARCHAR(20), KEY ka (a, v), UNIQUE KEY ku (u)) -> ok
             INSERT INTO t SELECT seq, seq % 7, seq * 3, CONCAT('v', seq) FROM (SELECT 1 seq UNION SELECT 2 UNION SELECT 3 \
             UNION SELECT 4 UNION SELECT 5) s -> ok",
        );
        let ok = "test.t|check|status|OK";
        assert_eq!(client.run("CHECK TABLE t"), ok);
        let table = database.catalog().table("test", "t").expect("the table").clone();
        let secondary = table.indexes.iter().enumerate().filter(|(n, _)| table.clustered != Some(*n));
        let trees = std::iter::once(table.rows()).chain(secondary.map(|(_, index)| index.entries()));
        for tree in trees {
            let mut kept = Default::default();
            damage(database, |txn| {
                kept = first_entry(txn, tree);
                txn.delete(tree, &kept.0).expect("deleted");
            });
            let answer = client.run("CHECK TABLE t");
            assert!(answer.ends_with("test.t|check|error|Corrupt"), "an entry is gone: {answer}");
            damage(database, |txn| {
                txn.insert(tree, &kept.0, &kept.1, OnDuplicate::LockShared).expect("inserted");
            });
            assert_eq!(client.run("CHECK TABLE t"), ok);
        }
        let index = table.indexes.iter().find(|i| &*i.name == "ka").expect("the index").entries();
        let mut extra = Vec::new();
        damage(database, |txn| {
            let (key, row) = first_entry(txn, index);
            // The same row under a smaller value of the first column.
            extra = key;
            extra[1] ^= 0x40;
            txn.insert(index, &extra, &row, OnDuplicate::LockShared).expect("inserted");
        });
        let answer = client.run("CHECK TABLE t");
        assert!(answer.contains("'ka'") && answer.ends_with("|error|Corrupt"), "one too many: {answer}");
        damage(database, |txn| txn.delete(index, &extra).expect("deleted"));
        assert_eq!(client.run("CHECK TABLE t"), ok);
        damage(database, |txn| {
            let (key, mut row) = first_entry(txn, index);
            row.push(1);
            txn.update(index, &key, &row).expect("updated");
        });
        let answer = client.run("CHECK TABLE t");
        assert!(answer.contains("other values"), "{answer}");
    });
}
