//! What a server is started with: MariaDB's option names, from the command line and from option files.
//!
//! `--name=value`, `--name value`, `--name` alone for what is on or off, `--skip-name` and `--disable-name` for off,
//! `--loose-name` for what may be unknown; hyphens and underscores are the same. Every system variable that can be set at
//! the start is an option. An unknown option or an unusable value is an error that names it, its file and its line; names of
//! the past ([`past`]) are taken. `--maximum-name` and `--autoset-name` are known and have no effect. The command line comes after the files, and the last word counts. What becomes of each is said in a line ([`lines`]).

pub mod file;
pub mod lines;
mod nearest;
pub mod past;
mod plugins;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use keel_context::Locale;
use keel_runtime::fs::Fault;
use keel_runtime::net::Address;
use keel_runtime::{ReactorChoice, system};
use keel_storage::EngineConfig;

use self::file::Pair;
use self::lines::{Given, What};
use self::past::{Past, Was};
use crate::budget::{self, Budget};
use crate::descriptors::descriptors_kept;
use crate::variables::{
    Argument, Globals, Kind, OF_WORDS, Origin, Setting, VarId, alias, apply, table, value, with_word,
};
use keel_tls::TlsFiles;

/// Why options cannot be used; one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionError(pub String);

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OptionError {}

/// Address space that a pool takes at most: what MariaDB takes.
const POOL_ADDRESSES_MAX: u64 = 8 << 40;

/// Where words come from that stand in no file.
const COMMAND_LINE: &str = "command line";

/// Options that are Keel's own.
const OWN: &[&str] = &["workers", "reactor", "fail_next", PASSWORD_FILE];

/// The option that makes root without a password in a new data folder.
pub const INSECURE: &str = "initialize_insecure";

/// The option that names the file with root's password in a new data folder.
pub const PASSWORD_FILE: &str = "initial_password_file";

/// An option of MariaDB that is on or off and no variable: whether there is TLS.
const TLS: &str = "ssl";

/// How the first accounts of a new data folder authenticate.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Initial {
    /// By the operating system's user at the socket.
    #[default]
    Socket,
    /// root without a password.
    Insecure,
    /// root with the password in a file.
    PasswordFile(PathBuf),
}

/// What a server is started with.
#[derive(Debug, Clone)]
pub struct Options {
    /// Variables that were set, in order.
    changed: Vec<(VarId, Setting)>,
    /// Who set them.
    origins: Vec<(VarId, Origin)>,
    /// What `--workers` says; see [`Options::workers`].
    workers: usize,
    /// What `--ssl` says.
    tls: bool,
    /// How workers talk to the kernel.
    pub reactor: ReactorChoice,
    /// File operations that are to fail: tests of what the server does then.
    pub faults: Vec<Fault>,
    /// How the accounts of a new data folder authenticate.
    pub initial: Initial,
    /// Everything that was given, in order.
    pub given: Vec<Given>,
    /// Where the word at hand comes from.
    place: String,
}

impl Options {
    /// No option given.
    pub fn new() -> Options {
        Options {
            changed: Vec::new(),
            origins: Vec::new(),
            workers: 0,
            tls: true,
            reactor: ReactorChoice::Auto,
            faults: Vec::new(),
            initial: Initial::Socket,
            given: Vec::new(),
            place: COMMAND_LINE.into(),
        }
    }

    /// Reads a command line without its first words; `--defaults-file`, `--defaults-extra-file` and `--no-defaults` say
    /// which files come before it. Without any of them `defaults_file` is read where it exists.
    pub fn parse(args: &[String], defaults_file: Option<&Path>) -> Result<Options, OptionError> {
        let mut options = Options::new();
        let mut rest = Vec::new();
        let mut files: Vec<PathBuf> = defaults_file
            .filter(|path| keel_runtime::fs::exists(path))
            .map(Path::to_path_buf)
            .into_iter()
            .collect();
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let (name, value) = split(word);
            match name.as_str() {
                "no_defaults" => files.clear(),
                "defaults_file" | "defaults_extra_file" => {
                    let path = value
                        .map(str::to_string)
                        .or_else(|| words.next().cloned())
                        .ok_or_else(|| OptionError(format!("{word} needs a file's name")))?;
                    if name == "defaults_file" {
                        files.clear();
                    }
                    files.push(path.into());
                }
                _ => rest.push(word.as_str()),
            }
        }
        for path in files {
            for Pair { name, value, place } in file::read(&path)? {
                options.place = place;
                options.take(&name, value.as_deref())?;
            }
        }
        options.place = COMMAND_LINE.into();
        options.take_words(&rest)?;
        options.settle_collation()?;
        Ok(options)
    }

    /// A collation of the server holds in whatever order it is given with the character set; both must fit together.
    fn settle_collation(&mut self) -> Result<(), OptionError> {
        use keel_value::collation::{self, Charset};
        let last = |name: &str| {
            let id = table().id(name);
            let is_it = |given: &&Given| matches!(given.what, What::Variable(of) if of == id);
            self.given.iter().rev().find(is_it)?.value.clone()
        };
        let (Some(charset), Some(collation)) = (last("character_set_server"), last("collation_server"))
        else {
            return Ok(());
        };
        let Some((set, found)) = Charset::by_name(&charset).zip(collation::by_name(&collation)) else {
            return Ok(());
        };
        if found.charset() != set {
            return Err(OptionError(format!(
                "COLLATION '{}' is not valid for CHARACTER SET '{}'",
                found.name(),
                set.name()
            )));
        }
        for (id, setting) in implied("collation_server", Some(found.name())) {
            self.changed.push((id, setting));
        }
        Ok(())
    }

    fn take_words(&mut self, words: &[&str]) -> Result<(), OptionError> {
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            if !word.starts_with("--") || word.len() < 3 {
                return Err(OptionError(format!("'{word}' is not an option")));
            }
            let (name, mut value) = split(word);
            if value.is_none() && needs_value(&name) {
                value = words.next_if(|next| !next.starts_with("--")).copied();
            }
            self.take(&name, value)?;
        }
        Ok(())
    }

    /// Takes one option; `name` has underscores.
    fn take(&mut self, name: &str, value: Option<&str>) -> Result<(), OptionError> {
        let what = self.effect_of(name, value).map_err(|error| self.located(error))?;
        let value = value.map(str::to_string);
        self.given.push(Given { name: name.into(), value, place: self.place.clone(), what });
        Ok(())
    }

    /// An error with the file and the line of its option.
    fn located(&self, error: OptionError) -> OptionError {
        match self.place.as_str() {
            COMMAND_LINE => error,
            place => OptionError(format!("{place}: {}", error.0)),
        }
    }

    /// Sets what an option sets, and says what that was.
    fn effect_of(&mut self, name: &str, value: Option<&str>) -> Result<What, OptionError> {
        if OWN.contains(&name) && name != PASSWORD_FILE {
            return self.take_own(name, value.unwrap_or("")).map(|()| What::Option);
        }
        for (spelling, on) in
            [("ssl", true), ("enable_ssl", true), ("skip_ssl", false), ("disable_ssl", false)]
        {
            if name == spelling {
                return self.take_tls(on, value).map(|()| What::Option);
            }
        }
        if name == INSECURE {
            return self.take_insecure(value).map(|()| What::Initial);
        }
        if name == PASSWORD_FILE {
            return self.take_password_file(value.unwrap_or("")).map(|()| What::Initial);
        }
        if let Some(loose) = name.strip_prefix("loose_") {
            return match self.effect_of(loose, value) {
                Err(error) if is_known(loose) => Err(error),
                other => Ok(other.unwrap_or(What::Unknown)),
            };
        }
        if let Some(id) = settable(name) {
            return self.take_variable(id, value).map(|()| What::Variable(id));
        }
        match name {
            "ansi" => return self.take_ansi(),
            "plugin_load" | "plugin_load_add" | "early_plugin_load" => {
                return plugins::check(value.unwrap_or("")).map(What::Nothing).map_err(OptionError);
            }
            // Options of MySQL 4 and 5.0 for variables: --set-variable=name=value.
            "set_variable" => {
                let (name, value) = value.and_then(|pair| pair.split_once('=')).unwrap_or_default();
                return self.effect_of(&normal(name), Some(value.trim()));
            }
            _ => {}
        }
        for (prefix, word) in [("skip_", "OFF"), ("disable_", "OFF"), ("enable_", "ON")] {
            let Some(short) = name.strip_prefix(prefix) else { continue };
            if past::find(name).is_some() {
                break;
            }
            if let Some(id) = settable(short)
                && can_be_switched(id)
                && value.is_none()
            {
                return self.take_variable(id, Some(word)).map(|()| What::Variable(id));
            }
            if let Some(past) = past::find(short).filter(|past| past.means.is_empty()) {
                return taken(past, Some(value.unwrap_or(word)), name);
            }
        }
        for (prefix, why) in PREFIXES_WITHOUT_EFFECT {
            let Some(short) = name.strip_prefix(prefix) else { continue };
            if settable(short).is_some() || past::find(short).is_some() {
                return Ok(What::Nothing(why));
            }
        }
        match past::find(name) {
            Some(past) if matches!(past.was, Was::Refused(_)) => taken(past, value, name),
            Some(past) if past.means.is_empty() => Ok(What::Past(past)),
            Some(past) => {
                let id = table().id(past.means);
                self.take_variable(id, value).map(|()| What::Meant(id, past))
            }
            None => Err(unknown(name)),
        }
    }

    /// `--ansi`.
    fn take_ansi(&mut self) -> Result<What, OptionError> {
        self.take_variable(table().id("sql_mode"), Some("ANSI"))?;
        self.take_variable(table().id("tx_isolation"), Some("SERIALIZABLE"))?;
        Ok(What::Option)
    }

    fn take_own(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let wrong = || unusable(name, value);
        match name {
            "workers" => self.workers = value.parse().map_err(|_| wrong())?,
            "fail_next" => {
                self.faults.push(value.parse().map_err(|()| wrong())?);
            }
            _ => {
                self.reactor = match value {
                    "auto" => ReactorChoice::Auto,
                    "io_uring" => ReactorChoice::IoUring,
                    "epoll" => ReactorChoice::Epoll,
                    _ => return Err(wrong()),
                }
            }
        }
        Ok(())
    }

    fn take_insecure(&mut self, value: Option<&str>) -> Result<(), OptionError> {
        let on = match value.map(str::to_ascii_lowercase).as_deref() {
            None | Some("1" | "on" | "true") => true,
            Some("0" | "off" | "false") => false,
            Some(other) => return Err(unusable(INSECURE, other)),
        };
        match (on, &self.initial) {
            (true, Initial::PasswordFile(_)) => Err(only_one()),
            (true, _) => {
                self.initial = Initial::Insecure;
                Ok(())
            }
            (false, Initial::Insecure) => {
                self.initial = Initial::Socket;
                Ok(())
            }
            (false, _) => Ok(()),
        }
    }

    fn take_password_file(&mut self, value: &str) -> Result<(), OptionError> {
        if value.is_empty() {
            return Err(OptionError(format!("--{} needs a file's name", hyphens(PASSWORD_FILE))));
        }
        if self.initial == Initial::Insecure {
            return Err(only_one());
        }
        self.initial = Initial::PasswordFile(value.into());
        Ok(())
    }

    fn take_tls(&mut self, on: bool, value: Option<&str>) -> Result<(), OptionError> {
        self.tls = match value.map(str::to_ascii_lowercase).as_deref() {
            None => on,
            Some("1" | "on" | "true") if on => true,
            Some("0" | "off" | "false") if on => false,
            Some(_) => return Err(unusable(TLS, value.unwrap_or_default())),
        };
        Ok(())
    }

    fn take_variable(&mut self, id: VarId, value: Option<&str>) -> Result<(), OptionError> {
        let variable = table().get(id);
        if variable.is_fixed() {
            return Ok(());
        }
        let text = match value {
            Some(text) => text,
            None if variable.kind == Kind::Bool => "ON",
            None if variable.name == "log_warnings" => "2",
            None if variable.argument == Argument::Optional => "",
            None => return Err(OptionError(format!("--{} needs a value", hyphens(variable.name)))),
        };
        let mut setting = value::from_option(variable, text).ok_or_else(|| unusable(variable.name, text))?;
        // Another port than the one that was asked for is of no use to anybody.
        if variable.name == "port" && text.parse::<u64>().is_ok_and(|port| port > u64::from(u16::MAX)) {
            return Err(unusable(variable.name, text));
        }
        if let Some(checked) = check_names(variable.name, text) {
            setting = checked.map_err(|()| unusable(variable.name, text))?;
        }
        if let Some(why) = variable.refusal(&setting) {
            return Err(refused(variable.name, Some(text), why));
        }
        if !variable.keeps_given() {
            return Ok(());
        }
        self.change(id, setting.clone());
        self.imply(variable.name, &setting);
        for (id, other) in implied(variable.name, Some(setting.as_text())) {
            self.change(id, other);
        }
        Ok(())
    }

    fn change(&mut self, id: VarId, setting: Setting) {
        self.changed.push((id, setting));
        let origin = match self.place.rsplit_once(file::LINE) {
            Some((path, _)) => Origin::File(path.into()),
            None => Origin::CommandLine,
        };
        self.origins.push((id, origin));
    }

    /// Sets what has the same meaning under another name.
    fn imply(&mut self, name: &str, setting: &Setting) {
        if let Some(other) = alias(name) {
            self.change(table().id(other), setting.clone());
        }
        for (switch, list, word, when_in) in OF_WORDS {
            let id = table().id(list);
            if name == *switch {
                let is_in = (setting.as_u64() != 0) == *when_in;
                let words = with_word(table().get(id), &self.text(list), word, is_in);
                self.change(id, words);
            } else if name == *list {
                let has = setting.as_text().split(',').any(|own| own == *word);
                self.change(table().id(switch), Setting::Bool(has == *when_in));
            }
        }
    }

    /// Sets a variable as the command line would; for tests and tools.
    pub fn with(mut self, name: &str, value: &str) -> Options {
        self.take(&name.replace('-', "_"), Some(value)).unwrap_or_else(|error| panic!("{error}"));
        self
    }

    fn setting(&self, name: &str) -> Option<&Setting> {
        let id = table().id(name);
        self.changed.iter().rev().find(|(changed, _)| *changed == id).map(|(_, setting)| setting)
    }

    fn text(&self, name: &str) -> String {
        self.setting(name).unwrap_or(&table().get(table().id(name)).default).show()
    }

    fn number(&self, name: &str) -> u64 {
        self.setting(name).unwrap_or(&table().get(table().id(name)).default).as_u64()
    }

    /// The value of a variable as text.
    pub fn named(&self, name: &str) -> String {
        self.text(name)
    }

    /// The data folder.
    pub fn datadir(&self) -> PathBuf {
        match self.text("datadir") {
            none if none.is_empty() => PathBuf::from("keel-data"),
            given => PathBuf::from(given),
        }
    }

    /// The TCP port.
    pub fn port(&self) -> u16 {
        self.number("port") as u16
    }

    /// Connections that may wait to be accepted.
    pub fn backlog(&self) -> u32 {
        self.number("back_log").max(1) as u32
    }

    /// Worker threads; 0 means one per core.
    pub fn workers(&self) -> usize {
        match (self.workers, self.setting("thread_pool_size")) {
            (0, Some(size)) => size.as_u64() as usize,
            (workers, _) => workers,
        }
    }

    /// The unix socket's path; a relative one is within the data folder.
    pub fn socket(&self) -> PathBuf {
        match self.text("socket") {
            none if none.is_empty() => self.datadir().join("mysql.sock"),
            given => self.datadir().join(given),
        }
    }

    /// Of what TLS is made: the files that are named, else the server's own certificate. None where `--ssl` is off, and in
    /// a simulated world, which has no true randomness, where no file is named.
    pub fn tls_files(&self) -> Option<TlsFiles> {
        let named = |name: &str| match self.text(name) {
            none if none.is_empty() => None,
            path => Some(self.datadir().join(path)),
        };
        let (certificate, key) = (named("ssl_cert"), named("ssl_key"));
        let (certificate, key) = match (certificate, key) {
            _ if !self.tls => return None,
            // One file may hold both.
            (Some(certificate), key) => (certificate.clone(), key.unwrap_or(certificate)),
            (None, Some(key)) => (key.clone(), key),
            (None, None) if keel_runtime::sim::in_simulation() => return None,
            (None, None) => {
                (self.datadir().join(keel_tls::OWN_CERTIFICATE), self.datadir().join(keel_tls::OWN_KEY))
            }
        };
        Some(TlsFiles {
            certificate,
            key,
            authorities: named("ssl_ca"),
            authorities_folder: named("ssl_capath"),
            revocations: named("ssl_crl"),
            revocations_folder: named("ssl_crlpath"),
            ciphers: self.text("ssl_cipher"),
            versions: self.text("tls_version"),
        })
    }

    /// Whether a certificate or a key is named.
    pub fn names_certificate(&self) -> bool {
        !self.text("ssl_cert").is_empty() || !self.text("ssl_key").is_empty()
    }

    /// Where the server listens.
    pub fn addresses(&self) -> Result<Vec<Address>, OptionError> {
        let mut addresses = Vec::new();
        if self.number("skip_networking") == 0 {
            for host in self.text("bind_address").split(',').map(str::trim) {
                let ip = match host {
                    "" | "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
                    "*" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                    other => other.parse().map_err(|_| unusable("bind_address", other))?,
                };
                addresses.push(Address::Tcp(SocketAddr::new(ip, self.port())));
            }
        }
        addresses.push(Address::Unix(self.socket()));
        Ok(addresses)
    }

    /// How the engine is opened.
    pub fn engine_config(&self) -> EngineConfig {
        let mut config = EngineConfig::new(self.datadir());
        config.store.pool_bytes = self.pool_bytes();
        config.store.pool_bytes_max = self.pool_bytes_max();
        config.store.redo_capacity_bytes = self.number("innodb_log_file_size");
        if self.is_set("innodb_log_buffer_size") {
            config.store.log_buffer_bytes = self.number("innodb_log_buffer_size");
        }
        config.store.durability = apply::durability(self.number("innodb_flush_log_at_trx_commit"));
        config.store.doublewrite = self.number("innodb_doublewrite") != 0;
        config.store.direct_io = self.text("innodb_flush_method").starts_with("O_DIRECT");
        config.store.tree_files_max = self.tree_files_max(config.store.log_files_max()) as usize;
        config.lock_wait_timeout = std::time::Duration::from_secs(self.number("innodb_lock_wait_timeout"));
        config
    }

    /// Files of trees that may be open at once. Connections get their descriptors first; but where these are few, a quarter of
    /// all is for trees, and where they are many, half.
    fn tree_files_max(&self, log_files: u64) -> u64 {
        let descriptors = system::descriptors_max();
        let others = descriptors_kept(descriptors, log_files) + self.number("max_connections");
        descriptors.saturating_sub(others).clamp(descriptors / 4, descriptors / 2)
    }

    /// All memory that the server may use: what was asked for, as far as it is there, else a share of what there is.
    pub fn memory_limit(&self) -> u64 {
        match self.number("keel_memory_limit") {
            0 => budget::default_limit(),
            asked => budget::possible_limit(asked),
        }
    }

    /// Whether a value of the variable is given.
    pub fn is_set(&self, name: &str) -> bool {
        self.setting(name).is_some()
    }

    /// The pool's size: what was asked for, else its part of the memory. More than there is memory at all is not given to
    /// anybody: then it is the most that leaves the others what they need.
    pub fn pool_bytes(&self) -> u64 {
        match self.setting("innodb_buffer_pool_size").map(Setting::as_u64) {
            Some(asked) if asked > system::memory_bytes() => {
                asked.min(Budget::pool_most(self.memory_limit()))
            }
            Some(asked) => asked,
            None => Budget::of(self.memory_limit(), None).pool,
        }
    }

    /// What to say of a pool, or of all memory, that is not as large as was asked for.
    pub fn size_notes(&self) -> impl Iterator<Item = String> {
        let there = system::memory_bytes() >> 20;
        let sizes =
            [("innodb_buffer_pool_size", self.pool_bytes()), ("keel_memory_limit", self.memory_limit())];
        sizes.into_iter().filter_map(move |(name, given)| {
            let (asked, given) = (self.setting(name)?.as_u64() >> 20, given >> 20);
            (asked > given).then(|| format!("{name} is {given}M, not {asked}M: there are {there}M of memory"))
        })
    }

    /// The file for the number of the process, if one is given; a relative path is within the data folder.
    pub fn pid_file(&self) -> Option<PathBuf> {
        let name = self.setting("pid_file")?.show();
        (!name.is_empty()).then(|| self.datadir().join(name))
    }

    /// The size up to which the pool may grow while the server works: what was asked for, else the machine's memory, since a
    /// container may be given more. It is address space alone.
    pub fn pool_bytes_max(&self) -> u64 {
        let asked = self.setting("innodb_buffer_pool_size_max").map(Setting::as_u64);
        let max = asked.map_or_else(system::machine_memory_bytes, |asked| asked.min(POOL_ADDRESSES_MAX));
        max.max(self.pool_bytes()) & !((1 << 20) - 1)
    }

    /// The global variables of a server that starts so. SET GLOBAL ... = DEFAULT gives what facts say of variables that
    /// nobody set.
    pub fn globals(&self, facts: Vec<(&'static str, Setting)>) -> Globals {
        let facts = || facts.iter().map(|(name, setting)| (table().id(name), setting.clone()));
        let is_set = |id: VarId| self.changed.iter().any(|(changed, _)| *changed == id);
        let kept = |id: VarId| apply::KEPT_BY_DEFAULT.contains(&table().get(id).name);
        let kept = self.changed.iter().filter(|(id, _)| kept(*id)).cloned();
        let defaults = facts().filter(|(id, _)| !is_set(*id)).chain(kept);
        // What the start finds for options that nobody gave; what describes the server itself is compiled in.
        let is_option = |id: VarId| table().get(id).argument != Argument::NoOption;
        let found = facts().filter(|(id, setting)| is_option(*id) && *setting != table().get(*id).default);
        let origins = found.map(|(id, _)| (id, Origin::Auto)).chain(self.origins.iter().cloned());
        Globals::with_defaults(self.changed.iter().cloned().chain(facts()), defaults, origins)
    }
}

impl Default for Options {
    fn default() -> Self {
        Options::new()
    }
}

/// `--Some-Name=value` as `some_name` and `value`.
fn split(word: &str) -> (String, Option<&str>) {
    let bare = word.trim_start_matches('-');
    match bare.split_once('=') {
        Some((name, value)) => (normal(name), Some(value)),
        None => (normal(bare), None),
    }
}

/// The name with underscores, in lower case.
pub(crate) fn normal(name: &str) -> String {
    name.trim().replace('-', "_").to_ascii_lowercase()
}

fn hyphens(name: &str) -> String {
    name.replace('_', "-")
}

fn unusable(name: &str, value: &str) -> OptionError {
    OptionError(format!("--{}: '{value}' is not a value that it can have", hyphens(name)))
}

/// Prefixes of MariaDB's options that bound or size other options, and why that has no effect.
const PREFIXES_WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("maximum_", "sessions may choose any value that the variable can have"),
    ("autoset_", "what the server can size it sizes unless a value is given"),
];

fn refused(name: &str, value: Option<&str>, why: &str) -> OptionError {
    let value = value.map_or(String::new(), |value| format!("={value}"));
    OptionError(format!("--{}{value} asks for what this server does not do: {why}", hyphens(name)))
}

/// A name of the past that sets nothing.
fn taken(past: &'static Past, value: Option<&str>, name: &str) -> Result<What, OptionError> {
    match past.refusal(value) {
        Some(why) => Err(refused(name, value, why)),
        None => Ok(What::Past(past)),
    }
}

fn unknown(name: &str) -> OptionError {
    let mut message = format!("unknown option '--{}'", hyphens(name));
    if let Some(near) = nearest::option(name) {
        message += &format!(", did you mean '--{}'?", hyphens(&near));
    }
    OptionError(message)
}

/// Whether a name is an option of the server itself, so that `loose_` does not pass over what is wrong with it.
fn is_known(name: &str) -> bool {
    let bare = ["skip_", "disable_", "enable_"].iter().find_map(|prefix| name.strip_prefix(prefix));
    settable(name).is_some() || bare.is_some_and(|bare| settable(bare).is_some())
}

/// Whether `--skip-name` and `--enable-name` set a variable: it is on or off, or one of its words is that.
fn can_be_switched(id: VarId) -> bool {
    let variable = table().get(id);
    variable.kind == Kind::Bool
        || variable.argument == Argument::Optional && value::from_option(variable, "OFF").is_some()
}

/// The variable of that name, where it can be set at the start.
fn settable(name: &str) -> Option<VarId> {
    // Two variables have another name on the command line.
    let name = match name {
        "transaction_isolation" => "tx_isolation",
        "transaction_read_only" => "tx_read_only",
        name => name,
    };
    let id = table().find(name)?;
    let variable = table().get(id);
    let session_only = variable.scope == crate::variables::Scope::SessionOnly;
    let is_option = variable.argument != Argument::NoOption || !variable.read_only;
    (is_option && !session_only).then_some(id)
}

/// The two options that choose how root authenticates are given together.
fn only_one() -> OptionError {
    OptionError(format!("--{} and --{} exclude each other", hyphens(INSECURE), hyphens(PASSWORD_FILE)))
}

fn needs_value(name: &str) -> bool {
    OWN.contains(&name)
        || settable(name).is_some_and(|id| {
            let variable = table().get(id);
            variable.kind != Kind::Bool && variable.argument != Argument::Optional
        })
}

/// Checks values that name something; None for variables whose values do not.
fn check_names(name: &str, text: &str) -> Option<Result<Setting, ()>> {
    use keel_value::collation::{self, Charset};
    if name.starts_with("character_set_") && name != "character_sets_dir" {
        return Some(Charset::by_name(text).map(|c| Setting::text(c.name())).ok_or(()));
    }
    if name.starts_with("collation_") {
        return Some(collation::by_name(text).map(|c| Setting::text(c.name())).ok_or(()));
    }
    if matches!(name, "lc_time_names" | "lc_messages") {
        return Some(Locale::by_name(text).map(|locale| Setting::text(locale.name)).ok_or(()));
    }
    if name == "sql_mode" {
        let mode = keel_value::SqlMode::parse(text);
        return Some(mode.map(|m| Setting::text(&m.to_text())).map_err(|_| ()));
    }
    None
}

/// Variables that follow another one: the collation of a character set, and the settings of the database and of clients
/// that name no character set.
fn implied(name: &str, value: Option<&str>) -> Vec<(VarId, Setting)> {
    use keel_value::collation::{self, Charset};
    let Some(value) = value else { return Vec::new() };
    let collation = match name {
        "character_set_server" => Charset::by_name(value).map(|c| c.default_collation()),
        "collation_server" => collation::by_name(value),
        _ => None,
    };
    let Some(collation) = collation else { return Vec::new() };
    let charset = collation.charset().name();
    [
        ("character_set_server", charset),
        ("collation_server", collation.name()),
        ("character_set_database", charset),
        ("collation_database", collation.name()),
        ("character_set_client", charset),
        ("character_set_results", charset),
        ("character_set_connection", charset),
        ("collation_connection", collation.name()),
    ]
    .into_iter()
    .map(|(name, text)| (table().id(name), Setting::text(text)))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options, OptionError> {
        Options::parse(&words.iter().map(|w| w.to_string()).collect::<Vec<_>>(), None)
    }

    #[test]
    fn names_take_hyphens_underscores_and_sizes() {
        let options = parse(&[
            "--datadir=/tmp/d",
            "--innodb_buffer_pool_size=2560M",
            "--Max-Connections",
            "77",
            "--skip-name-resolve",
            "--port=3307",
            "--skip-networking",
        ])
        .unwrap();
        assert_eq!(options.datadir(), Path::new("/tmp/d"));
        assert_eq!(options.pool_bytes(), 2560 << 20);
        assert_eq!((options.number("max_connections"), options.port()), (77, 3307));
        assert_eq!(options.addresses().unwrap(), [Address::Unix("/tmp/d/mysql.sock".into())]);
        assert_eq!(options.number("skip_name_resolve"), 1);
    }

    #[test]
    fn transactions_have_options_of_other_names() {
        let options = parse(&["--transaction-isolation=READ-COMMITTED", "--transaction-read-only"]).unwrap();
        assert_eq!(options.text("tx_isolation"), "READ-COMMITTED");
        assert_eq!(options.text("tx_read_only"), "ON");
        assert!(parse(&["--transaction-isolation=SOME"]).unwrap_err().0.contains("SOME"));
    }

    #[test]
    fn on_and_off_have_many_spellings() {
        for (word, value) in [
            ("--innodb-doublewrite=0", 0),
            ("--skip-innodb-doublewrite", 0),
            ("--disable-innodb-doublewrite", 0),
            ("--innodb-doublewrite", 1),
            ("--enable-innodb-doublewrite", 1),
            ("--innodb-doublewrite=OFF", 0),
        ] {
            assert_eq!(parse(&[word]).unwrap().number("innodb_doublewrite"), value, "{word}");
        }
    }

    #[test]
    fn tls_is_on_unless_it_is_put_off() {
        let files = |words: &[&str]| parse(words).unwrap().tls_files();
        let own = files(&["--datadir=/d"]).unwrap();
        assert_eq!(own.certificate, Path::new("/d/server-cert.pem"));
        assert_eq!(own.versions, "TLSv1.2,TLSv1.3");
        let given = files(&["--datadir=/d", "--ssl-key=/x/both.pem", "--ssl-ca=ca.pem"]).unwrap();
        assert_eq!((given.certificate, given.key), ("/x/both.pem".into(), "/x/both.pem".into()));
        assert_eq!(given.authorities.as_deref(), Some(Path::new("/d/ca.pem")));
        for off in ["--skip-ssl", "--ssl=0", "--disable-ssl", "--ssl=OFF"] {
            assert!(files(&[off]).is_none(), "{off}");
        }
        assert!(parse(&["--ssl=maybe"]).unwrap_err().0.contains("maybe"));
    }

    #[test]
    fn initial_options_choose_how_root_authenticates() {
        let initial = |words: &[&str]| parse(words).unwrap().initial;
        assert_eq!(initial(&[]), Initial::Socket);
        assert_eq!(initial(&["--initialize-insecure"]), Initial::Insecure);
        assert_eq!(initial(&["--loose-initialize-insecure", "--port=1"]), Initial::Insecure);
        assert_eq!(initial(&["--initialize-insecure", "--initialize-insecure=0"]), Initial::Socket);
        assert_eq!(initial(&["--initial-password-file", "/p"]), Initial::PasswordFile("/p".into()));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let error = |words: &[&str]| parse(words).unwrap_err().0;
        assert_eq!(error(&["--no-such-option=1"]), "unknown option '--no-such-option'");
        assert!(error(&["--innodb-buffer-pool-size=lots"]).contains("--innodb-buffer-pool-size: 'lots'"));
        assert!(error(&["--port"]).contains("--port needs a value"));
        assert!(error(&["serve"]).contains("'serve' is not an option"));
        assert!(error(&["--character-set-server=klingon"]).contains("klingon"));
        assert!(error(&["--hostname=x"]).contains("unknown option"));
        assert!(error(&["--reactor=kqueue"]).contains("kqueue"));
        assert!(error(&["--initial-password-file"]).contains("needs a file's name"));
        assert!(error(&["--initialize-insecure", "--initial-password-file=f"]).contains("exclude"));
        assert!(error(&["--initial-password-file=f", "--initialize-insecure"]).contains("exclude"));
        assert!(error(&["--initialize-insecure=maybe"]).contains("maybe"));
        assert!(error(&["--defaults-file=/no/such/file"]).contains("/no/such/file"));
    }

    fn lines(words: &[&str]) -> Vec<String> {
        let options = parse(words).unwrap();
        lines::of(&options.given, &options.globals(Vec::new()))
    }

    #[test]
    fn each_setting_has_one_line() {
        assert_eq!(
            lines(&[
                "--port=1",
                "--innodb-log-file-size=32g",
                "--innodb-purge-batch-size=5000",
                "--innodb-log-files-in-group=2",
                "--aria-log-purge-type=at_flush",
                "--loose-foo=1",
                "--innodb_change_buffer_size=5",
                "--innodb-redo-log-capacity=8M",
                "--sqlasyn=1",
                "--skip-symbolic-links",
                "--default-time-zone=+01:00",
                "--port=2",
                "--innodb-page-size=4k",
            ]),
            [
                "innodb_log_file_size=32g: acts, 8388608",
                "innodb_purge_batch_size=5000: acts, 5000",
                "innodb_log_files_in_group=2: obsolete since MariaDB 10.5: \
                 innodb_log_file_size is the whole of the redo",
                "aria_log_purge_type=at_flush: no effect because there is no Aria engine",
                "loose_foo=1: no effect because the name is unknown, which loose_ allows",
                "innodb_change_buffer_size=5: misspelt, taken as innodb_change_buffer_max_size: \
                 no effect because there is no change buffer",
                "innodb_redo_log_capacity=8M: the name in MySQL 8.0 of innodb_log_file_size: acts, 8388608",
                "sqlasyn=1: no effect because there is no replication yet \
                 (a name of TencentDB for MariaDB 10.1)",
                "skip_symbolic_links: no effect because tables are not files of their own names",
                "default_time_zone=+01:00: sets time_zone: acts, +01:00",
                "port=2: acts, 2",
                "innodb_page_size=4k: no effect because pages have 16 KiB",
            ]
        );
    }

    #[test]
    fn what_is_known_of_a_name_is_no_excuse_for_a_value() {
        let error = parse(&["--innodb_change_buffer_size=much"]).unwrap_err().0;
        assert!(error.contains("--innodb-change-buffer-max-size: 'much'"), "{error}");
        assert!(parse(&["--super-read-only=1"]).is_err());
    }

    #[test]
    fn prefixes_and_plugins_are_known_by_name() {
        for word in [
            "--maximum-sort-buffer-size=1M",
            "--autoset-open-files-limit",
            "--loose-rocksdb-block-cache-size=1G",
            "--rocksdb-block-cache-size=1G",
            "--skip-rocksdb",
            "--loose-server-audit-logging=ON",
            "--server-audit-logging=OFF",
            "--skip-slave-start",
            "--skip-super-read-only",
            "--replica-parallel-workers=4",
            "--disable-log-bin",
            "--skip-event-scheduler",
            "--skip-character-set-client-handshake",
            "--performance-schema-max-index-stat=1",
            "--innodb-buffer-page=ON",
            "--set-variable=max_connections=50",
            "--validate-password.policy=0",
            "--admin-port=1",
            "--loose-no-such-option",
        ] {
            assert!(parse(&[word]).is_ok(), "{word}: {:?}", parse(&[word]).err());
        }
        assert_eq!(parse(&["--set-variable=max_connections=50"]).unwrap().number("max_connections"), 50);
        assert_eq!(parse(&["--ansi"]).unwrap().text("tx_isolation"), "SERIALIZABLE");
        assert!(parse(&["--loose-innodb-read-only=1"]).is_err());
        assert!(parse(&["--maximum-no-such-option=1"]).is_err());
    }

    #[test]
    fn misspelt_options_of_plugins_are_unknown() {
        for word in [
            "--rocksdb-blok-cache-size=1G",
            "--skip-rocksdb-blok-cache",
            "--maximum-spider-no-such-option=1",
            "--server-audit-loging=OFF",
            "--audit-log-no-such-option=0",
            "--performance-schema-no-such-size=1",
            "--handlersocket-prot=9998",
            "--simple-password-check-digit=0",
            "--group-replication-start-on-boat=OFF",
            "--connect-worksize=1",
            "--mroonga-no-such-option",
        ] {
            let error = parse(&[word]).unwrap_err().0;
            assert!(error.contains("unknown"), "{error}");
        }
        assert!(parse(&["--loose-rocksdb-blok-cache-size=1G"]).is_ok());
        for word in [
            "--handlersocket-port=9998",
            "--simple-password-check-digits=0",
            "--spider-bka-mode=1",
            "--s3-region=x",
            "--connect-work-size=1",
            "--query-response-time-stats=ON",
            "--mysqlx-port=33060",
            "--mroonga-log-level=NOTICE",
        ] {
            let parsed = parse(&[word]);
            assert!(parsed.is_ok() || word.contains("simple-password"), "{word}: {:?}", parsed.err());
        }
    }

    #[test]
    fn values_of_replication_are_not_shown_as_if_they_acted() {
        let options = parse(&["--gtid-strict-mode=1", "--sync-binlog=1", "--server-id=7"]).unwrap();
        let shown = ["gtid_strict_mode", "sync_binlog", "server_id"].map(|name| options.text(name));
        assert_eq!(shown, ["OFF", "0", "7"]);
    }

    #[test]
    fn a_character_set_brings_its_collation() {
        let options = parse(&["--character-set-server=utf8mb4"]).unwrap();
        assert_eq!(options.text("collation_server"), "utf8mb4_general_ci");
        let options = parse(&["--collation-server=utf8mb4_bin"]).unwrap();
        assert_eq!(options.text("character_set_server"), "utf8mb4");
        assert_eq!(parse(&[]).unwrap().text("collation_server"), "utf8mb4_general_ci");
        let (latin1, bin) = ("--character-set-server=latin1", "--collation-server=latin1_bin");
        for words in [[latin1, bin], [bin, latin1]] {
            assert_eq!(parse(&words).unwrap().text("collation_server"), "latin1_bin");
            assert_eq!(parse(&words).unwrap().text("character_set_server"), "latin1");
        }
        for words in [["--character-set-server=utf8mb4", bin], [bin, "--character-set-server=utf8mb4"]] {
            let error = parse(&words).unwrap_err().to_string();
            assert!(
                error.contains("COLLATION 'latin1_bin' is not valid for CHARACTER SET 'utf8mb4'"),
                "{error}"
            );
        }
    }

    #[test]
    fn clients_start_with_the_character_set_of_the_server() {
        let options = parse(&["--character-set-server=latin1"]).unwrap();
        for name in ["character_set_client", "character_set_connection", "character_set_results"] {
            assert_eq!(options.text(name), "latin1", "{name}");
        }
        assert_eq!(options.text("collation_connection"), "latin1_swedish_ci");
    }
}
