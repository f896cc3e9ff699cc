//! From no client to 5,000 at once, then reads by all of them. No report has figures for it; two say that the thread pool is there for this.

use super::no_binlog;
use crate::data::DataSet;
use crate::engines::Kind;
use crate::plan::{Arm, Cell, Choice, Plan, Scenario, Work};
use crate::runner::{STORM_ROWS, STORM_TABLES};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "connection-storm",
    report: "Performance of TencentDB for MariaDB (its thread pool is on by default)",
    what: "1,000 and 5,000 connections at once, then a read by key on each of them, over and over: connections a second, p99, memory",
    found: "no figures",
    plan,
};

fn plan(choice: &Choice) -> Plan {
    let mut plan = Plan::new(choice);
    plan.seconds = choice.size(10, 60);
    plan.warm_up_max = 0;
    plan.pairs = choice.size(2, 5);
    for clients in [1000, 5000] {
        let mut arms = Vec::new();
        for engine in choice.local() {
            let arm = no_binlog(Arm::new(&engine.name, engine));
            if engine.kind == Kind::Keel {
                arms.push(arm);
                continue;
            }
            let arm = arm.set(["max_connections=6000", "back_log=4000", "innodb_buffer_pool_size=512M"]);
            if engine.kind == Kind::MariaDb {
                let pool = Arm { name: format!("{} thread pool", engine.name), ..arm.clone() };
                arms.push(pool.set(["thread_handling=pool-of-threads"]));
            }
            arms.push(arm);
        }
        plan.cells.push(Cell {
            name: format!("{clients} clients"),
            x: Some(f64::from(clients)),
            data: DataSet::tables(STORM_TABLES, STORM_ROWS),
            work: Work::Storm { clients },
            writes: false,
            arms,
        });
    }
    plan
}
