//! The tables of time zones in `mysql`, made of the zones that are built in. They list the changes of clocks that fall into the
//! range of TIMESTAMP, and are only read.

use keel_value::Value;
use keel_value::temporal::named::{self, NamedZone, Standing};

use super::{RowMaker, flag, number, text};

/// Makes the rows of one of these tables; false where it is none of them.
pub fn fill(rows: &mut RowMaker<'_>) -> bool {
    let one: fn(&mut RowMaker<'_>, u64, &str, &NamedZone) = match rows.table() {
        "time_zone" => |rows, id, _, _| {
            rows.row([("Time_zone_id", number(id)), ("Use_leap_seconds", text("N"))]);
        },
        "time_zone_name" => |rows, id, name, _| {
            rows.row([("Name", text(name)), ("Time_zone_id", number(id))]);
        },
        "time_zone_transition" => transitions,
        "time_zone_transition_type" => types,
        "time_zone_leap_second" => return true,
        _ => return false,
    };
    for (id, (name, zone)) in (1..).zip(named::all()) {
        one(rows, id, name, &zone);
    }
    true
}

/// The different ways in which a clock stands, the one of 1970 first.
fn ways(zone: &NamedZone) -> Vec<&Standing> {
    let mut ways: Vec<&Standing> = Vec::new();
    for (_, standing) in zone.changes() {
        if !ways.contains(&standing) {
            ways.push(standing);
        }
    }
    ways
}

fn transitions(rows: &mut RowMaker<'_>, id: u64, _: &str, zone: &NamedZone) {
    let ways = ways(zone);
    for (start, standing) in zone.changes() {
        let Some(start) = start else { continue };
        let way = ways.iter().position(|way| *way == standing).unwrap_or(0);
        rows.row([
            ("Time_zone_id", number(id)),
            ("Transition_time", Value::Int(start)),
            ("Transition_type_id", number(way as u64)),
        ]);
    }
}

fn types(rows: &mut RowMaker<'_>, id: u64, _: &str, zone: &NamedZone) {
    for (way, standing) in (0..).zip(ways(zone)) {
        rows.row([
            ("Time_zone_id", number(id)),
            ("Transition_type_id", number(way)),
            ("Offset", Value::Int(standing.offset.into())),
            ("Is_DST", flag(standing.is_summer)),
            ("Abbreviation", text(&standing.abbreviation)),
        ]);
    }
}
