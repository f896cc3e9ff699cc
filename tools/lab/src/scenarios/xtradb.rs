//! "XtraDB storage engine": InnoDB's settings of 2008 against XtraDB's four more, data twice the pool, 20 clients, a device of six disks. Its
//! engines are gone; their settings go to what has become of them. Keel has none but the pool's size.

use super::{INNODB_2008, XTRADB, memory, no_binlog, pool, remotes};
use crate::clients::Workload;
use crate::data::DataSet;
use crate::engines::Kind;
use crate::limits::Limits;
use crate::plan::{Arm, Cell, Choice, Plan, Scenario, Work};

/// About what six disks of 2009 did.
const IOPS: u32 = 1200;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "xtradb",
    report: "XtraDB storage engine",
    what: "TPC-C, 20 clients, data twice the pool, 1200 reads and writes a second: InnoDB's settings of 2008, XtraDB's, Keel's none; \
           new orders a minute, CPU, the worst second",
    found: "XtraDB about 1.5 times InnoDB, with better use of the processors",
    plan,
};

fn plan(choice: &Choice) -> Plan {
    let mut plan = Plan::new(choice);
    plan.warm_up_max = choice.size(12, 60);
    plan.seconds = choice.size(20, 120);
    let warehouses = choice.size(4, 10);
    let data = DataSet::tpcc(warehouses);
    let within = Limits { iops: Some(IOPS), ..memory(data.bytes * 6 / 10) };
    let size = pool(data.bytes / 2);
    let mut arms = Vec::new();
    for engine in choice.local() {
        let arm = |what: &str| Arm::new(format!("{}{what}", engine.name), engine).within(within);
        if engine.kind == Kind::Keel {
            arms.push(arm("").set([&size]));
            continue;
        }
        arms.push(no_binlog(arm(" innodb 2008").settings(INNODB_2008).set([&size])));
        arms.push(no_binlog(arm(" xtradb").settings(XTRADB).set([&size])));
    }
    arms.extend(remotes(choice));
    let workload = Workload::new("tpcc.lua", &[&format!("--warehouses={warehouses}")], 20);
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
