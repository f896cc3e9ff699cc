//! "Performance comparison data for strong sync": 50 to 1000 clients read, update, and do both. What is here is the arm without a replica;
//! the others need one. It shows what the report's table shows beside: who keeps his peak at 1000 clients.
//!
//! These clients wait for their answers, so a slow server is asked less. How long users of a service would wait shows in the last cells: transactions
//! fall due at a rate of their own, a share of the most that the arm did before, and their time counts from then.

use super::no_binlog;
use crate::clients::Workload;
use crate::data::DataSet;
use crate::engines::Kind;
use crate::plan::{Arm, Cell, Choice, Plan, Scenario, Work};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "strong-sync",
    report: "Performance comparison data for strong sync",
    what: "select, update_non_index and oltp_new, 50 to 1000 clients, all cached: servers without a replica; MariaDB also with its thread pool; \
           then latency at shares of each one's peak",
    found: "strong sync 0.99 to 1.17 times asynchronous MySQL; at 1000 clients 0.97 of its own peak against 0.86 (hybrid)",
    plan,
};

const TABLES: u32 = 10;
const ROWS: u32 = 20_000;
/// The report's workloads, and what they do.
const WORKLOADS: &[(&str, &str)] =
    &[("select.lua", "read"), ("update_non_index.lua", "update"), ("oltp_new.lua", "hybrid")];

fn plan(choice: &Choice) -> Plan {
    let mut plan = Plan::new(choice);
    plan.seconds = choice.size(8, 60);
    plan.warm_up_max = choice.size(4, 30);
    plan.pairs = choice.size(1, 5);
    for missing in ["semi-sync", "strong sync", "relay of 0.8 ms"] {
        plan.skip(missing, "needs a replica, which the lab does not start yet");
    }
    let clients: &[u32] = choice.size(&[50, 200, 1000], &[50, 100, 200, 500, 1000]);
    for (script, kind) in WORKLOADS {
        for clients in clients {
            plan.cells.push(cell(choice, script, kind, *clients));
        }
    }
    for percent in choice.size(&[50, 90][..], &[25, 50, 75, 90]) {
        plan.cells.push(open(choice, *percent));
    }
    plan
}

/// The hybrid workload at a share of each arm's peak, by clients enough that one is free while others wait.
fn open(choice: &Choice, percent: u32) -> Cell {
    let mut cell = cell(choice, "oltp_new.lua", "hybrid", 200);
    if let Work::Sysbench(workload) = cell.work {
        cell.work = Work::Open { workload, percent, of: "hybrid clients" };
    }
    Cell { name: format!("hybrid, due at {percent} % of the peak"), x: Some(f64::from(percent)), ..cell }
}

fn cell(choice: &Choice, script: &'static str, kind: &str, clients: u32) -> Cell {
    let mut arms = Vec::new();
    for engine in choice.local() {
        let arm = no_binlog(Arm::new(format!("{} async", engine.name), engine));
        if engine.kind == Kind::Keel {
            arms.push(arm);
            continue;
        }
        let arm = arm.set(["innodb_buffer_pool_size=512M", "max_connections=2000", "back_log=1000"]);
        if engine.kind == Kind::MariaDb {
            let pool = Arm { name: format!("{} async, thread pool", engine.name), ..arm.clone() };
            arms.push(pool.set(["thread_handling=pool-of-threads"]));
        }
        arms.push(arm);
    }
    let options = [format!("--tables={TABLES}"), format!("--table_size={ROWS}")];
    Cell {
        name: format!("{kind}, {clients} clients"),
        x: Some(f64::from(clients)),
        data: DataSet::tables(TABLES, ROWS),
        work: Work::Sysbench(Workload::new(
            script,
            &[&options[0], &options[1], "--rand-type=special"],
            clients,
        )),
        writes: script != "select.lua",
        arms,
    }
}
