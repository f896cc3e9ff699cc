//! T1 against T2 of "sysbench TPC-C on a VM": the package's settings and the tuned ones. T2 changes eight things at once, so the full form
//! also makes each change alone.
//!
//! The report's machine had 4 GB, a pool of 256M or 2560M, and 10 GB of data. Here the pools are the same shares of smaller data, and so is the
//! memory, plus what a program takes. Redo sizes are the reports' own.

use super::{PACKAGE, TUNED, memory, no_binlog, pool, remotes};
use crate::clients::Workload;
use crate::data::DataSet;
use crate::disk::DiskKind;
use crate::engines::{Engine, Kind};
use crate::limits::Limits;
use crate::plan::{Arm, Cell, Choice, Plan, Scenario, Work};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "default-vs-tuned",
    report: "sysbench TPC-C on a VM, T1 and T2",
    what: "TPC-C, 64 clients: the package's settings (data 39 times the pool) against T2's tuned ones (3.9 times); Keel with none",
    found: "5.56 times the transactions, p95 6.7 times lower; which of the eight changes did it is not known",
    plan,
};

fn plan(choice: &Choice) -> Plan {
    let mut plan = Plan::new(choice);
    plan.warm_up_max = choice.size(10, 30);
    let warehouses = choice.size(6, 25);
    let data = DataSet::tpcc(warehouses);
    let within = memory(data.bytes * 4 / 10);
    let mut arms = Vec::new();
    for engine in choice.local() {
        let name = &engine.name;
        if engine.kind == Kind::Keel {
            arms.push(Arm::new(name, engine).within(within));
        } else {
            arms.push(package(engine, &data, within));
        }
        arms.push(tuned(engine, &data, within));
    }
    arms.extend(remotes(choice));
    if !choice.quick {
        choice.of(Kind::MariaDb).for_each(|engine| arms.extend(ablation(engine, &data, within)));
        plan.skip("package + swappiness 1", "vm.swappiness is the whole machine's; the lab leaves it alone");
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
    plan.without_missing_disks()
}

fn package(engine: &Engine, data: &DataSet, within: Limits) -> Arm {
    let name = format!("{} package", engine.name);
    Arm::new(name, engine).settings(PACKAGE).set([pool(data.bytes / 39)]).within(within)
}

fn tuned(engine: &Engine, data: &DataSet, within: Limits) -> Arm {
    let name = format!("{} tuned", engine.name);
    no_binlog(Arm::new(name, engine).settings(TUNED).set([tuned_pool(data)]).within(within))
}

fn tuned_pool(data: &DataSet) -> String {
    pool(data.bytes * 10 / 39)
}

/// The package's settings with one of T2's changes each.
fn ablation(engine: &Engine, data: &DataSet, within: Limits) -> Vec<Arm> {
    let with = |what: &str, lines: &[&str]| {
        let arm = package(engine, data, within).set(lines.iter().copied());
        Arm { name: format!("{} package + {what}", engine.name), ..arm }
    };
    let on = |what: &str, file_system, scheduler| {
        let disk = DiskKind { file_system, scheduler: Some(scheduler), bytes: data.bytes * 4 + (1 << 30) };
        Arm { disk: Some(disk), ..with(what, &[]) }
    };
    let pool = tuned_pool(data);
    vec![
        with("pool", &[&pool]),
        with("redo 256M", &["innodb_log_file_size=256M"]),
        with("no query cache", &["query_cache_type=0", "query_cache_size=0"]),
        with("pool instances 8", &["innodb_buffer_pool_instances=8"]),
        // O_DIRECT is the package's already: what it is worth shows without it.
        with("flush method fsync", &["innodb_flush_method=fsync"]),
        with("no binlog", &["skip_log_bin"]),
        on("xfs", "xfs", "none"),
        on("ext4, scheduler bfq", "ext4", "bfq"),
        on("ext4, scheduler none", "ext4", "none"),
    ]
}
