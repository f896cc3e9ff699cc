//! KEEL_DEADLOCKS, KEEL_DEADLOCK_TRANSACTIONS, KEEL_DEADLOCK_STATEMENTS: the deadlocks of late.

use keel_value::Value;

use super::{RowMaker, View, flag, maybe, moment, number, text};
use crate::monitor::deadlocks::{Deadlock, Party};
use crate::monitor::transactions::{Session, isolation_name};

/// Makes the rows of one of these tables.
pub fn fill(view: &View<'_>, rows: &mut RowMaker<'_>) {
    for deadlock in view.served.deadlocks.all() {
        match rows.table() {
            "KEEL_DEADLOCKS" => summary(view, &deadlock, rows),
            "KEEL_DEADLOCK_TRANSACTIONS" => {
                (0..deadlock.parties.len()).for_each(|place| transaction(view, &deadlock, place, rows));
            }
            _ => (0..deadlock.parties.len()).for_each(|place| statements(view, &deadlock, place, rows)),
        }
    }
}

/// Positions count from 1.
fn position(place: usize) -> Value {
    number(place as u64 + 1)
}

fn thread(party: &Party) -> Value {
    party.session.as_ref().map_or(Value::Null, |session| number(session.id))
}

fn summary(view: &View<'_>, deadlock: &Deadlock, rows: &mut RowMaker<'_>) {
    let victim = &deadlock.parties[deadlock.victim];
    rows.row([
        ("DEADLOCK_ID", number(deadlock.number)),
        ("DETECTED", moment(view, deadlock.at)),
        ("TRANSACTIONS", number(deadlock.parties.len() as u64)),
        ("VICTIM_POSITION", position(deadlock.victim)),
        ("VICTIM_TRX_ID", number(victim.trx)),
        ("VICTIM_THREAD_ID", thread(victim)),
    ]);
}

fn transaction(view: &View<'_>, deadlock: &Deadlock, place: usize, rows: &mut RowMaker<'_>) {
    let party = &deadlock.parties[place];
    let of_session = |f: fn(&Session) -> Option<&str>| maybe(party.session.as_ref().and_then(f));
    rows.row([
        ("DEADLOCK_ID", number(deadlock.number)),
        ("POSITION", position(place)),
        ("TRX_ID", number(party.trx)),
        ("IS_VICTIM", flag(place == deadlock.victim)),
        ("THREAD_ID", thread(party)),
        ("USER", of_session(|session| Some(&session.user))),
        ("HOST", of_session(|session| Some(&session.host))),
        ("DB", of_session(|session| session.database.as_deref())),
        ("BEGAN", moment(view, party.started)),
        ("ISOLATION_LEVEL", text(isolation_name(party.isolation))),
        ("ROWS_CHANGED", number(party.rows_changed)),
        ("ROW_LOCKS", number(party.row_locks)),
        ("WAITS_SINCE", moment(view, party.waits_since)),
        ("WAITS_FOR_TABLE", text(&party.waits_for.table)),
        ("WAITS_FOR_INDEX", text(&party.waits_for.index)),
        ("WAITS_FOR_MODE", text(party.waits_for.whole_mode())),
        ("WAITS_FOR_DATA", text(&party.waits_for.data)),
        ("HOLDS_TABLE", text(&party.holds.table)),
        ("HOLDS_INDEX", text(&party.holds.index)),
        ("HOLDS_MODE", text(party.holds.whole_mode())),
        ("HOLDS_DATA", text(&party.holds.data)),
        ("STATEMENTS", number(party.statements.len() as u64)),
        ("STATEMENTS_LOST", number(party.lost)),
    ]);
}

fn statements(view: &View<'_>, deadlock: &Deadlock, place: usize, rows: &mut RowMaker<'_>) {
    let party = &deadlock.parties[place];
    let last = party.statements.len().saturating_sub(1);
    for (index, (statement, begun)) in party.statements.iter().zip(&party.begun).enumerate() {
        rows.row([
            ("DEADLOCK_ID", number(deadlock.number)),
            ("POSITION", position(place)),
            ("STATEMENT_NUMBER", number(party.lost + index as u64 + 1)),
            ("BEGAN", moment(view, *begun)),
            ("IS_WAITING", flag(index == last)),
            ("STATEMENT", Value::Bytes(statement.text.clone())),
            ("STATEMENT_LENGTH", number(statement.text_len)),
            ("IS_CUT", flag(statement.text_len > statement.text.len() as u64)),
            ("PARAMETERS", super::locks::parameters(statement)),
        ]);
    }
}
