//! "How we got from 30k qps to 101k qps": ten settings at once on 48 cores. Here the list against none, and in the full form each alone. On
//! few cores the latches that they part have nobody waiting; what can be seen is what they cost and what they do not.

use super::{THIRTY_K, no_binlog};
use crate::clients::Workload;
use crate::data::DataSet;
use crate::engines::{Engine, Kind};
use crate::plan::{Arm, Cell, Choice, Plan, Scenario, Work, lines};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "thirty-to-hundred-k",
    report: "How we got from 30k qps to 101k qps",
    what: "four reads and an update by key, all cached: the report's ten settings against none, and each alone (--full)",
    found: "3.4 times the queries, on 48 cores; which of the ten did it is not known",
    plan,
};

const TABLES: u32 = 64;
const ROWS: u32 = 5000;

fn plan(choice: &Choice) -> Plan {
    let mut plan = Plan::new(choice);
    plan.seconds = choice.size(10, 60);
    plan.warm_up_max = choice.size(8, 30);
    let clients: &[u32] = choice.size(&[16, 64], &[16, 64, 256]);
    for clients in clients {
        let mut arms = Vec::new();
        for engine in choice.local() {
            let unset = if engine.kind == Kind::Keel {
                engine.name.clone()
            } else {
                format!("{} defaults", engine.name)
            };
            arms.push(arm(engine, &unset));
            arms.push(arm(engine, &format!("{} all", engine.name)).settings(THIRTY_K).set(scaled()));
            if !choice.quick && engine.kind != Kind::Keel {
                arms.extend(alone(engine));
            }
        }
        let options = [format!("--tables={TABLES}"), format!("--table_size={ROWS}")];
        let workload =
            Workload::new("our_oltp.lua", &[&options[0], &options[1], "--rand-type=uniform"], *clients);
        plan.cells.push(Cell {
            name: format!("{clients} clients"),
            x: Some(f64::from(*clients)),
            data: DataSet::tables(TABLES, ROWS),
            work: Work::Sysbench(workload),
            writes: true,
            arms,
        });
    }
    plan
}

/// A server in whose pool all data have room.
fn arm(engine: &Engine, name: &str) -> Arm {
    let arm = no_binlog(Arm::new(name, engine));
    if engine.kind == Kind::Keel { arm } else { arm.set(["innodb_buffer_pool_size=512M"]) }
}

/// Sizes of a machine of 500 GB as they are on a small one.
fn scaled() -> [&'static str; 2] {
    ["innodb_log_file_size=1G", "innodb_log_buffer_size=64M"]
}

/// Each setting of the list alone.
fn alone(engine: &Engine) -> Vec<Arm> {
    let all = lines(THIRTY_K);
    let one = |line: &String| {
        let name = line.split('=').next().unwrap_or_default();
        let scaled = scaled().into_iter().filter(|scaled| scaled.starts_with(name));
        let mut arm = arm(engine, &format!("{} + {name}", engine.name));
        arm.settings.push(line.clone());
        arm.set(scaled)
    };
    all.iter().map(one).collect()
}
