//! T4 of "sysbench TPC-C on a VM" guessed that MySQL was faster for want of a binary log. Here it is off, on, and on and synced with each
//! commit. Only the synced one is as durable as none: without it a crash can leave what one log knows and the other does not.

use super::{TUNED, memory, pool};
use crate::clients::Workload;
use crate::data::DataSet;
use crate::engines::Kind;
use crate::plan::{Arm, Cell, Choice, Plan, Scenario, Work};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "binlog-cost",
    report: "sysbench TPC-C on a VM, T2 and T4",
    what: "TPC-C, 64 clients, T2's settings: the binary log off, on, and on and synced; syncs of each transaction",
    found: "1.12 times as fast without (MySQL 5.7 against MariaDB 10.3)",
    plan,
};

fn plan(choice: &Choice) -> Plan {
    let mut plan = Plan::new(choice);
    plan.warm_up_max = choice.size(10, 30);
    let warehouses = choice.size(4, 10);
    let data = DataSet::tpcc(warehouses);
    let mut arms = Vec::new();
    for engine in choice.local() {
        let arm = |what: &str, lines: &[&str]| {
            let arm = Arm::new(format!("{} {what}", engine.name), engine).settings(TUNED);
            let arm = arm.set([pool(data.bytes * 10 / 39)]).set(lines.iter().copied());
            arm.within(memory(data.bytes * 4 / 10))
        };
        if engine.kind == Kind::Keel {
            arms.push(arm("no binlog", &[]));
            plan.skip("keel binlog", "Keel has no binary log yet");
            continue;
        }
        arms.push(arm("no binlog", &["skip_log_bin"]));
        let on = ["log_bin=binlog", "server_id=1", "binlog_format=ROW"];
        arms.push(arm("binlog", &[&on[..], &["sync_binlog=0"]].concat()));
        arms.push(arm("binlog synced", &[&on[..], &["sync_binlog=1"]].concat()));
    }
    let workload = Workload::new("tpcc.lua", &[&format!("--warehouses={warehouses}")], 64);
    plan.cells.push(Cell {
        name: String::new(),
        x: None,
        data,
        work: Work::Sysbench(workload),
        writes: true,
        arms,
    });
    plan
}
