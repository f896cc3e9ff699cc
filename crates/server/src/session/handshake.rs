//! Who the client is: the handshake response, the switch to another plugin, COM_CHANGE_USER.
//!
//! Accounts are `root` without a password, from this machine only; error 1045 for everybody else.

use keel_base::{SqlError, SqlResult, errors};
use keel_runtime::net::{After, Connection};
use keel_value::CollationId;
use keel_value::collation::{self, Charset};
use keel_wire::auth;
use keel_wire::capability::Capabilities;
use keel_wire::handshake::{ChangeUser, Response, ResponseError, encode_auth_switch};
use keel_wire::{packet, reply};

use super::ClientSession;
use crate::counters::Counter;
use crate::variables::{Setting, apply, table};

/// Where a connection stands.
pub(super) enum Phase {
    /// The greeting is out.
    Greeted,
    /// The client was asked to answer with another plugin.
    Switching(Box<Login>),
    /// Authenticated.
    Ready,
}

/// What a client says about itself.
pub(super) struct Login {
    user: String,
    answer: Vec<u8>,
    database: String,
    collation: Option<u16>,
    plugin: String,
}

impl ClientSession {
    /// Takes a packet of the authentication.
    pub(super) fn authenticate(&mut self, conn: &mut Connection, packet: &[u8]) -> After {
        let login = match std::mem::replace(&mut self.phase, Phase::Greeted) {
            Phase::Switching(mut login) => {
                login.answer = packet.to_vec();
                login.plugin = auth::NATIVE_PASSWORD.into();
                *login
            }
            _ => match self.read_response(packet) {
                Ok(login) => login,
                Err(error) => return self.deny(conn, &error),
            },
        };
        self.log_in(conn, login)
    }

    fn read_response(&mut self, packet: &[u8]) -> SqlResult<Login> {
        let response = Response::decode(packet).map_err(|error| match error {
            ResponseError::Malformed | ResponseError::Tls | ResponseError::OldProtocol => {
                errors::handshake_error()
            }
        })?;
        self.core.capabilities = Capabilities(response.capabilities.0 & Capabilities::SERVER.0);
        self.core.sql.vars.found_rows_flag = self.core.capabilities.has(Capabilities::FOUND_ROWS);
        let collation = Some(u16::from(response.collation));
        Ok(Login {
            user: self.name(collation, &response.user),
            answer: response.auth,
            database: self.name(collation, &response.database),
            collation,
            plugin: response.plugin,
        })
    }

    /// COM_CHANGE_USER.
    pub(super) fn change_user(&mut self, conn: &mut Connection, rest: &[u8]) -> After {
        let Ok(change) = ChangeUser::decode(rest, self.core.capabilities) else {
            return self.deny(conn, &errors::handshake_error());
        };
        if let Err(error) = self.core.reset() {
            return self.deny(conn, &error);
        }
        let login = Login {
            user: self.name(change.collation, &change.user),
            answer: change.auth,
            database: self.name(change.collation, &change.database),
            collation: change.collation,
            plugin: change.plugin,
        };
        self.log_in(conn, login)
    }

    /// A name in the character set of the collation that came with it, else of the session.
    fn name(&self, collation: Option<u16>, text: &[u8]) -> String {
        let given = collation.and_then(CollationId::for_client);
        let from = given.unwrap_or(self.core.sql.vars.client_collation).charset();
        let utf8 = match from {
            Charset::Latin1 => collation::convert(from, Charset::Utf8mb4, text).0,
            _ => text.into(),
        };
        String::from_utf8_lossy(&utf8).into_owned()
    }

    fn log_in(&mut self, conn: &mut Connection, login: Login) -> After {
        if !login.plugin.is_empty() && login.plugin != auth::NATIVE_PASSWORD {
            return self.ask_for_native_password(conn, login);
        }
        match self.admit(&login) {
            Ok(()) => self.welcome(conn),
            Err(error) => self.deny(conn, &error),
        }
    }

    fn ask_for_native_password(&mut self, conn: &mut Connection, login: Login) -> After {
        let out = conn.output();
        let start = packet::begin(out);
        encode_auth_switch(out, auth::NATIVE_PASSWORD, &self.scramble);
        packet::finish(out, start, &mut self.sequence);
        self.phase = Phase::Switching(Box::new(login));
        After::Idle
    }

    fn admit(&mut self, login: &Login) -> SqlResult<()> {
        // First of all: a refusal is in the client's character set.
        if let Some(number) = login.collation {
            self.take_collation(number);
        }
        let host = self.core.sql.client_host.clone();
        let is_root = login.user == "root" && &*host == "localhost";
        if !is_root || !auth::verify(&login.answer, &self.scramble, None) {
            let using = if login.answer.is_empty() { "NO" } else { "YES" };
            self.core.state.counters.add(Counter::AccessDenied, 1);
            return Err(errors::access_denied(&login.user, &host, using));
        }
        self.core.sql.user = login.user.as_str().into();
        {
            let mut activity = self.core.client.activity.lock();
            activity.user = self.core.sql.user.clone();
            activity.database = None;
        }
        self.core.sql.database = None;
        if !login.database.is_empty() {
            self.core.use_database(&login.database)?;
        }
        Ok(())
    }

    /// The client's collation sets the character sets of statements, literals and results; an unknown one leaves the
    /// server's.
    fn take_collation(&mut self, number: u16) {
        let Some(chosen) = CollationId::for_client(number) else { return };
        if chosen == CollationId::BINARY {
            return self.take_charset("binary", "binary");
        }
        self.take_charset(chosen.charset().name(), chosen.name());
    }

    fn take_charset(&mut self, charset: &str, collation: &str) {
        let mut settings = self.core.client.settings.lock();
        for (name, text) in [
            ("character_set_client", charset),
            ("character_set_results", charset),
            ("character_set_connection", charset),
            ("collation_connection", collation),
        ] {
            let setting = Setting::text(text);
            apply::session(&mut self.core.sql.vars, name, &setting);
            settings.set(table().id(name), setting);
        }
    }

    fn welcome(&mut self, conn: &mut Connection) -> After {
        self.phase = Phase::Ready;
        self.core.client.activity.lock().end();
        self.renew_timeouts(conn);
        self.send_ok(conn, reply::Ok::default(), false);
        After::Idle
    }

    fn deny(&mut self, conn: &mut Connection, error: &SqlError) -> After {
        self.dismissed = true;
        self.core.state.counters.add(Counter::AbortedConnects, 1);
        self.send_error(conn, error);
        After::Close
    }
}
