//! KILL: ends statements and connections, by id, by the number of a query, or all of a user.

use keel_base::{SqlResult, errors};
use keel_exec::InterruptState;
use keel_sql::ast::{Account, CastType, Expr, Kill, KillTarget};
use keel_value::Value;
use keel_views::registry::Client;

use crate::core::Core;
use crate::privileges;

/// Runs KILL; gives how many connections of a user it has reached.
pub fn run(core: &mut Core, kill: &Kill, params: &[Value]) -> SqlResult<u64> {
    let (expr, query_only) = match &kill.what {
        KillTarget::Connection(expr) => (expr, false),
        KillTarget::Query(expr) => (expr, true),
        KillTarget::QueryId(expr) => {
            let number = id_of(core, expr, params)?;
            return query(core, number).map(|()| 0);
        }
        KillTarget::User(account) => return of_user(core, account, false),
        KillTarget::QueryOfUser(account) => return of_user(core, account, true),
    };
    let id = id_of(core, expr, params)?;
    connection(core, id as u64, query_only).map(|()| 0)
}

/// KILL id, or KILL QUERY id.
pub fn connection(core: &mut Core, id: u64, query_only: bool) -> SqlResult<()> {
    let client = core.state.registry.get(id).ok_or_else(|| errors::no_such_thread(id))?;
    if !privileges::may_end(core, &client) {
        return Err(errors::kill_denied(id));
    }
    end(core, &client, query_only);
    match (client.id == core.client.id, query_only) {
        (true, true) => Err(errors::query_interrupted()),
        (true, false) => Err(errors::connection_killed()),
        _ => Ok(()),
    }
}

/// KILL QUERY ID number. A command that has ended since is left alone.
fn query(core: &mut Core, number: i64) -> SqlResult<()> {
    let client =
        core.state.registry.with_query(number as u64).ok_or_else(|| errors::no_such_query(number))?;
    if !privileges::may_end(core, &client) {
        return Err(errors::kill_query_denied(number));
    }
    end(core, &client, true);
    if client.id == core.client.id { Err(errors::query_interrupted()) } else { Ok(()) }
}

fn end(core: &Core, client: &Client, query_only: bool) {
    match query_only {
        true => client.kill_query(),
        // The answer still goes out; the session closes behind it.
        false if client.id == core.client.id => client.interrupt.raise(InterruptState::Connection),
        false => client.kill(),
    }
}

/// What KILL and SHOW EXPLAIN are given as an integer: NULL is 0, as is what is none.
pub fn id_of(core: &mut Core, expr: &Expr, params: &[Value]) -> SqlResult<i64> {
    // A query without tables is an expression like others.
    if expr.reads_tables() || expr.has_sequence() {
        return Err(errors::subqueries_not_supported("KILL"));
    }
    let integer = Expr::Cast { expr: Box::new(expr.clone()), to: CastType::Signed };
    Ok(match core.evaluate_in("KILL", &integer, params)?.value {
        Value::Int(id) => id,
        Value::UInt(id) => id as i64,
        _ => 0,
    })
}

/// KILL USER. Connections that the session may not end are passed over; its own ends last.
fn of_user(core: &mut Core, account: &Account, query_only: bool) -> SqlResult<u64> {
    let (user, host) = match account {
        Account::User { user, host } => (user.clone(), host.clone()),
        Account::CurrentUser => (core.sql.user.to_string(), "%".to_string()),
        Account::CurrentRole | Account::Role(_) => return Err(errors::not_supported_yet("KILL of a role")),
    };
    let clients = core.state.registry.all();
    let (own, others): (Vec<_>, Vec<_>) = clients
        .into_iter()
        .filter(|client| {
            *client.activity.lock().user == *user
                && (host == "%" || is_from(client, &host))
                && privileges::may_end(core, client)
        })
        .partition(|client| client.id == core.client.id);
    others.iter().chain(&own).for_each(|client| end(core, client, query_only));
    Ok((others.len() + own.len()) as u64)
}

/// Whether a connection comes from a host, as the process list shows it without its port.
fn is_from(client: &Client, host: &str) -> bool {
    client.host.rsplit_once(':').map_or(&*client.host, |(address, _)| address).eq_ignore_ascii_case(host)
}
