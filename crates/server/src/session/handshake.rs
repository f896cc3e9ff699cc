//! Who the client is: the handshake response, the switch to another plugin, COM_CHANGE_USER.
//!
//! An account may be proven in several ways, which are tried in their order. The first answer comes with the response, to
//! the challenge of the greeting; for any other way the client is asked by a request to switch the plugin.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, errors};
use keel_catalog::account::auth::Auth;
use keel_catalog::account::{Access, Account, Lifetime, Privileges, auth as query_auth, sha_crypt};
use keel_runtime::net::{After, Connection};
use keel_runtime::time::{self, Instant};
use keel_runtime::wait::WaitEvent;
use keel_runtime::{fiber, system};
use keel_settings::variables::{Setting, apply, table};
use keel_value::CollationId;
use keel_value::collation::{self, Charset};
use keel_views::counters::Counter;
use keel_wire::capability::Capabilities;
use keel_wire::handshake::{
    ChangeUser, Response, ResponseError, asks_for_tls, encode_auth_switch, encode_auth_switch_raw,
};
use keel_wire::{auth, packet, reply};

use super::ClientSession;
use crate::hosts;
use crate::service::address_of;

/// Where a connection stands.
pub(super) enum Phase {
    /// The greeting is out.
    Greeted,
    /// The client asked for TLS and must have answered the greeting by then.
    Securing(Instant),
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
    /// Which of the account's ways is tried.
    way: usize,
    /// `unix_socket` was tried, and no password after it.
    socket_last: bool,
    /// The plugin that the client was asked for last.
    asked: Option<&'static str>,
    /// It was asked for the password itself.
    plain: bool,
}

impl Login {
    /// Goes on to the account's next way to authenticate.
    fn next_way(&mut self) {
        self.way += 1;
        self.asked = None;
        self.plain = false;
    }

    /// Notes for a refusal whether a password counted: the last way that took one, or takes none, decides.
    fn note_tried(&mut self, way: &Auth) {
        if !way.has_password() {
            self.socket_last = true;
        } else if !self.answer.is_empty() {
            self.socket_last = false;
        }
    }
}

/// What an answer proves.
enum Proof {
    Good,
    Bad,
    /// Nothing yet: the client must be asked for this plugin.
    Ask(&'static str),
    /// Nothing yet: the client must say the password itself.
    AskPlain,
}

/// Whether a client's first answer is of the plugin that the greeting names.
fn is_native(plugin: &str) -> bool {
    plugin.is_empty() || plugin == auth::NATIVE_PASSWORD
}

/// Whether the client's answer is one by `plugin` for the way that is tried. A first answer by another plugin than the
/// greeting's is one if it is no blank, by which clients ask for that plugin's challenge.
fn answers_by(login: &Login, plugin: &'static str) -> bool {
    match login.asked {
        Some(asked) => asked == plugin,
        None if login.way > 0 => false,
        None if plugin == auth::NATIVE_PASSWORD => is_native(&login.plugin),
        None => login.plugin == plugin && login.answer.len() == auth::DIGEST_BYTES,
    }
}

/// Whether what is taken as an answer by `mysql_native_password` can be one: an empty one or a digest.
fn has_length_of_answer(login: &Login, way: &Auth) -> bool {
    let other = matches!(&*way.plugin, query_auth::SOCKET | query_auth::ED25519 | query_auth::CACHING_SHA2);
    other
        || !answers_by(login, auth::NATIVE_PASSWORD)
        || matches!(login.answer.len(), 0 | auth::SCRAMBLE_BYTES)
}

/// Whether a password was given, as messages say it.
fn using(login: &Login) -> &'static str {
    if login.answer.is_empty() { "NO" } else { "YES" }
}

impl ClientSession {
    /// Takes a packet of the authentication.
    pub(super) fn authenticate(&mut self, conn: &mut Connection, packet: &[u8]) -> After {
        let login = match std::mem::replace(&mut self.phase, Phase::Greeted) {
            Phase::Switching(mut login) => {
                login.answer = packet.to_vec();
                *login
            }
            Phase::Greeted if asks_for_tls(packet) => return self.begin_tls(conn),
            _ => match self.read_response(packet) {
                Ok(login) => login,
                Err(error) => return self.fail_handshake(conn, &error),
            },
        };
        self.log_in(conn, login)
    }

    fn read_response(&mut self, packet: &[u8]) -> SqlResult<Login> {
        let response = Response::decode(packet).map_err(|error| {
            // Errors before 4.1 have no SQLSTATE.
            self.core.capabilities = match error {
                ResponseError::OldProtocol => Capabilities(0),
                ResponseError::Malformed => Capabilities::PROTOCOL_41,
            };
            errors::handshake_error()
        })?;
        self.core.capabilities = Capabilities(response.capabilities.0 & Capabilities::SERVER.0);
        self.core.sql.vars.found_rows_flag = self.core.capabilities.has(Capabilities::FOUND_ROWS);
        self.core.sql.sends_files = self.core.capabilities.has(Capabilities::LOCAL_FILES);
        let is_old = !response.capabilities.has(Capabilities::PROTOCOL_41);
        let collation = if is_old { None } else { Some(u16::from(response.collation)) };
        if is_old && !response.capabilities.has(Capabilities::SECURE_CONNECTION) && !response.auth.is_empty()
        {
            return Err(errors::not_supported_auth_mode());
        }
        Ok(Login {
            user: self.name(collation, &response.user),
            answer: response.auth,
            database: self.name(collation, &response.database),
            collation,
            plugin: response.plugin,
            way: 0,
            socket_last: false,
            asked: None,
            plain: false,
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
            way: 0,
            socket_last: false,
            asked: None,
            plain: false,
        };
        self.log_in(conn, login)
    }

    /// A name in the character set of the collation that came with it, else of the session.
    fn name(&self, collation: Option<u16>, text: &[u8]) -> String {
        let given = collation.and_then(CollationId::for_client);
        let from = given.unwrap_or(self.core.sql.vars.client_collation).charset();
        let utf8 = match from {
            _ if from.is_utf8() => text.into(),
            _ => collation::convert(from, Charset::Utf8mb4, text).0,
        };
        String::from_utf8_lossy(&utf8).into_owned()
    }

    /// Goes on with proving who the client is, as far as it can without asking it.
    fn log_in(&mut self, conn: &mut Connection, mut login: Login) -> After {
        // First of all: a refusal is in the client's character set.
        if let Some(number) = login.collation.take() {
            self.take_collation(number);
        }
        let catalog = self.core.state.database().catalog();
        let accounts = &catalog.accounts;
        if accounts.unchecked {
            let access = Access::unlimited("", "");
            return self.enter(conn, &login, access, None);
        }
        let host = self.core.sql.client_host.clone();
        let address = address_of(&conn.peer());
        let account = accounts.of_client(&login.user, &host, address).cloned();
        let errors_max = self.core.state.globals.named("max_password_errors").as_u64();
        if let Some(account) = &account
            && self.core.state.usage.is_blocked(account, errors_max)
        {
            return self.deny(conn, &errors::user_is_blocked());
        }
        // An unknown name is asked for proofs as some account is, and none of them is accepted. The account is looked up
        // for known names too, so that both take the same time.
        let decoy = accounts.decoy(&login.user).cloned();
        let ways = account.as_ref().or(decoy.as_ref()).map(|shown| shown.auth.clone()).unwrap_or_default();
        while let Some(way) = ways.get(login.way) {
            if !has_length_of_answer(&login, way) {
                return self.fail_handshake(conn, &errors::handshake_error());
            }
            let proof = self.try_way(conn, &login, way, account.is_some());
            if matches!(proof, Proof::Good | Proof::Bad) {
                login.note_tried(way);
            }
            match proof {
                Proof::Good if account.is_none() => login.next_way(),
                Proof::Good => {
                    let Some(account) = &account else { break };
                    self.core.state.usage.password_proven(account);
                    let access = Access::of(accounts, account);
                    return self.enter(conn, &login, access, Some(account));
                }
                Proof::Bad => login.next_way(),
                Proof::Ask(_) if !self.core.capabilities.has(Capabilities::PLUGIN_AUTH) => {
                    return self.deny(conn, &errors::not_supported_auth_mode());
                }
                Proof::Ask(plugin) => return self.ask(conn, login, plugin),
                Proof::AskPlain => return self.ask_plain(conn, login),
            }
        }
        self.core.state.counters.add(Counter::AccessDenied, 1);
        if let Some(account) = &account
            && !login.answer.is_empty()
        {
            self.core.state.usage.password_failed(account, errors_max);
        }
        let error = match login.socket_last {
            true => errors::access_denied_no_password(&login.user, &host),
            false => errors::access_denied(&login.user, &host, using(&login)),
        };
        self.deny(conn, &error)
    }

    /// What the client's answer proves, if it answers this way of proving at all.
    fn try_way(&mut self, conn: &mut Connection, login: &Login, way: &Auth, is_known: bool) -> Proof {
        let proves = |proven: bool| if proven { Proof::Good } else { Proof::Bad };
        match &*way.plugin {
            query_auth::SOCKET => {
                let user = conn.peer_uid().and_then(system::user_name);
                proves(user.is_some_and(|user| user == login.user))
            }
            query_auth::ED25519 if login.asked == Some(auth::ED25519) => {
                let key = query_auth::key_octets(&way.string);
                proves(key.is_some_and(|key| auth::verify_signature(&login.answer, &self.nonce, &key)))
            }
            query_auth::ED25519 => Proof::Ask(auth::ED25519),
            query_auth::CACHING_SHA2 if answers_by(login, auth::CACHING_SHA2) => {
                self.try_digest(conn, login, &way.string, is_known)
            }
            query_auth::CACHING_SHA2 => Proof::Ask(auth::CACHING_SHA2),
            _ => {
                if !answers_by(login, auth::NATIVE_PASSWORD) {
                    return Proof::Ask(auth::NATIVE_PASSWORD);
                }
                let stored = query_auth::native_octets(&way.string);
                let known = way.string.is_empty() || stored.is_some();
                proves(known && auth::verify(&login.answer, &self.scramble, stored.as_ref()))
            }
        }
    }

    /// What an answer by `caching_sha2_password` proves: with the digest of an earlier login at once, else the client says
    /// the password, if nobody reads along. Without TLS clients ask for a public key to say it by; there is none.
    fn try_digest(&mut self, conn: &mut Connection, login: &Login, stored: &str, is_known: bool) -> Proof {
        let is_blank = matches!(*login.answer, [] | [0]);
        if is_blank || stored.is_empty() {
            return if is_blank && stored.is_empty() { Proof::Good } else { Proof::Bad };
        }
        let digests = &self.core.state.digests;
        if !login.plain {
            // PyMySQL takes the zero byte behind the challenge for a part of it.
            let padded = [&self.scramble[..], &[0]].concat();
            let proven = |digest| {
                [&self.scramble, &padded[..]].iter().any(|c| auth::verify_digest(&login.answer, c, &digest))
            };
            if !digests.get(stored).is_some_and(proven) || !is_known {
                // Where others may read along, nobody is asked to say it.
                return if self.is_private(conn) { Proof::AskPlain } else { Proof::Bad };
            }
            packet::append(conn.output(), &auth::FAST_SUCCESS, &mut self.sequence);
            return Proof::Good;
        }
        let Some(password) = login.answer.strip_suffix(&[0]).filter(|_| self.is_private(conn)) else {
            return Proof::Bad;
        };
        // Thousands of rounds: other sessions of this worker go on meanwhile, and what else blocks finds threads.
        let proofs = &self.core.state.proofs;
        if !proofs.acquire_until(1, WaitEvent::Blocking, time::now() + self.seconds("connect_timeout")) {
            return Proof::Bad;
        }
        let is_good = fiber::blocking(WaitEvent::Blocking, || sha_crypt::verify(password, stored));
        proofs.release(1);
        if !is_good {
            return Proof::Bad;
        }
        digests.put(stored, auth::digest(password));
        Proof::Good
    }

    /// Asks the client for the password itself.
    fn ask_plain(&mut self, conn: &mut Connection, mut login: Login) -> After {
        packet::append(conn.output(), &auth::FULL_AUTHENTICATION, &mut self.sequence);
        login.asked = Some(auth::CACHING_SHA2);
        login.plain = true;
        self.phase = Phase::Switching(Box::new(login));
        After::Idle
    }

    /// Asks the client to answer by another plugin.
    fn ask(&mut self, conn: &mut Connection, mut login: Login, plugin: &'static str) -> After {
        let out = conn.output();
        let start = packet::begin(out);
        if plugin == auth::ED25519 {
            keel_runtime::rand::fill(&mut self.nonce);
            encode_auth_switch_raw(out, plugin, &self.nonce);
        } else {
            encode_auth_switch(out, plugin, &self.scramble);
        }
        packet::finish(out, start, &mut self.sequence);
        login.asked = Some(plugin);
        self.phase = Phase::Switching(Box::new(login));
        After::Idle
    }

    /// Lets a client in that has proven who it is, unless its account says otherwise.
    fn enter(
        &mut self,
        conn: &mut Connection,
        login: &Login,
        access: Access,
        account: Option<&Arc<Account>>,
    ) -> After {
        match self.admit(conn, login, access, account) {
            Ok(()) => {
                let changes = self.is_known;
                self.is_known = true;
                if self.had_failures && !changes {
                    hosts::forget_failures(&self.peer, &self.core.state);
                }
                self.log_connection(conn, if changes { "Change user" } else { "Connect" });
                match self.welcome(conn) {
                    After::Idle if !changes => self.run_init_connect(conn),
                    after => after,
                }
            }
            Err(error) => self.deny(conn, &error),
        }
    }

    fn admit(
        &mut self,
        conn: &Connection,
        login: &Login,
        mut access: Access,
        account: Option<&Arc<Account>>,
    ) -> SqlResult<()> {
        let state = self.core.state.clone();
        access.with_password = !login.answer.is_empty();
        self.core.limited = None;
        if let Some(account) = account {
            if !self.is_secure_enough(conn, account) {
                state.counters.add(Counter::AccessDenied, 1);
                let host = self.core.sql.client_host.clone();
                return Err(errors::access_denied(&login.user, host, using(login)));
            }
            if account.locked {
                return Err(errors::account_has_been_locked());
            }
            access.expired = self.is_expired(account);
            let strict = state.globals.named("disconnect_on_expired_password").is_on();
            if access.expired
                && strict
                && !self.core.capabilities.has(Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS)
            {
                return Err(errors::must_change_password_login());
            }
            let max_all = state.globals.named("max_connections").as_u64();
            // Who is in already and becomes another user takes no other place.
            if !self.is_known
                && state.registry.len() as u64 > max_all
                && !access.global.has_any(Privileges::CONNECTION_ADMIN.and(Privileges::SUPER))
            {
                state.counters.add(Counter::ErrorsMaxConnections, 1);
                return Err(errors::con_count_error());
            }
            let max = state.globals.named("max_user_connections").as_u64();
            self.core.limited = state.usage.connect(account, max)?;
            self.choose_default_role(&mut access, account);
        }
        let sql = &mut self.core.sql;
        sql.user = login.user.as_str().into();
        sql.access = access;
        sql.database = None;
        {
            let mut activity = self.core.client.activity.lock();
            activity.user = sql.user.clone();
            activity.account = Some(sql.access.user.clone());
            activity.database = None;
        }
        if !login.database.is_empty() {
            self.core.use_database(&login.database)?;
        }
        Ok(())
    }

    fn choose_default_role(&self, access: &mut Access, account: &Account) {
        let catalog = self.core.state.database().catalog();
        if account.has_default_role() {
            access.choose_role(&catalog.accounts, account.default_role.clone());
        }
    }

    /// Whether the password must be changed before all else.
    fn is_expired(&self, account: &Account) -> bool {
        if !account.auth.iter().any(Auth::has_password) {
            return false;
        }
        let days = match account.lifetime {
            _ if account.password_changed == 0 => return true,
            Lifetime::Never => return false,
            Lifetime::Days(days) => u64::from(days),
            Lifetime::Default => self.core.state.globals.named("default_password_lifetime").as_u64(),
        };
        let now = keel_runtime::time::unix_micros() / 1_000_000;
        days > 0 && now.saturating_sub(account.password_changed) as u64 > days * 86_400
    }

    /// The client's collation sets the character sets of statements, literals and results; an unknown one leaves the
    /// server's.
    fn take_collation(&mut self, number: u16) {
        let Some(chosen) = CollationId::for_client(number) else { return };
        if chosen == CollationId::BINARY {
            return self.take_charset("binary", "binary");
        }
        self.take_charset(chosen.charset().name(), chosen.name());
        self.core.sql.vars.results_collation = chosen.for_results();
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
        if self.begin_compression(conn).is_err() { After::Close } else { After::Idle }
    }

    /// Refuses a client that does not keep to the protocol.
    pub(super) fn fail_handshake(&mut self, conn: &mut Connection, error: &SqlError) -> After {
        hosts::note_failure(&self.peer, &self.core.state);
        self.deny(conn, error)
    }

    pub(super) fn deny(&mut self, conn: &mut Connection, error: &SqlError) -> After {
        self.dismissed = true;
        self.core.state.counters.add(Counter::AbortedConnects, 1);
        self.log_refusal(conn, error);
        self.send_error(conn, error);
        After::Close
    }
}
