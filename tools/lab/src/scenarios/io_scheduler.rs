//! The scheduler of "XtraDB storage engine": noop against CFQ in 2009. CFQ is gone; bfq is its heir, none is noop.

use super::{XTRADB, memory, no_binlog, pool};
use crate::clients::Workload;
use crate::data::DataSet;
use crate::disk::DiskKind;
use crate::engines::Kind;
use crate::plan::{Arm, Cell, Choice, Plan, Scenario, Work};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "io-scheduler",
    report: "XtraDB storage engine",
    what: "TPC-C, 20 clients, XtraDB's settings, data twice the pool: schedulers none, mq-deadline and bfq of a loop device (needs root)",
    found: "noop was 4 times as fast as CFQ, on six disks in 2009",
    plan,
};

fn plan(choice: &Choice) -> Plan {
    let mut plan = Plan::new(choice);
    plan.warm_up_max = choice.size(8, 30);
    plan.seconds = choice.size(12, 60);
    let warehouses = choice.size(4, 10);
    let data = DataSet::tpcc(warehouses);
    let mut arms = Vec::new();
    for engine in choice.local() {
        for scheduler in ["none", "mq-deadline", "bfq"] {
            let arm = Arm::new(format!("{} {scheduler}", engine.name), engine);
            let arm = if engine.kind == Kind::Keel { arm } else { arm.settings(XTRADB) };
            let arm = no_binlog(arm.set([pool(data.bytes / 2)]).within(memory(data.bytes * 6 / 10)));
            let bytes = data.bytes * 3 + (2 << 30);
            let disk = DiskKind { file_system: "ext4", scheduler: Some(scheduler), bytes };
            arms.push(Arm { disk: Some(disk), ..arm });
        }
    }
    let workload = Workload::new("tpcc.lua", &[&format!("--warehouses={warehouses}")], 20);
    plan.cells.push(Cell {
        name: String::new(),
        x: None,
        data,
        work: Work::Sysbench(workload),
        writes: true,
        arms,
    });
    plan.without_missing_disks()
}
