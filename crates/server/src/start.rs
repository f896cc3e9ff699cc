//! Starting and stopping: data folder, engine, databases, sockets; and in reverse.
//!
//! The data folder is made, locked and checked first: see `folder.rs`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use keel_base::SqlError;
use keel_catalog::account::{Account, auth};
use keel_database::Database;
use keel_definitions::FirstAccounts;
use keel_exec::Host;
use keel_logs::{Logs, Severity};
use keel_runtime::net::{self, Address, Listener};
use keel_runtime::wait::WaitEvent;
use keel_runtime::{Runtime, fiber, fs, sim, system, time};
use keel_settings::budget::{Budget, MemoryLimit};
use keel_settings::options::{Initial, OptionError, Options, lines};
use keel_settings::variables::{Setting, table};
use keel_storage::Engine;
use keel_storage::folder::FORMAT;
use keel_tls::{Tls, TlsError};
use keel_views::Served;
use keel_views::monitor::deadlocks::Watch;

use crate::folder::{self, FolderLock};
use crate::host::ServerHost;
use crate::service::{SqlService, connections_max};
use crate::session::init_file;
use crate::state::{ServerState, VERSION};
use crate::{memory, set};

/// Longest file of root's first password.
const PASSWORD_FILE_BYTES_MAX: u64 = 4096;

/// How long a stop waits for sessions to end.
const STOP_WAIT_MAX: Duration = Duration::from_secs(20);

/// How often a running server is looked at for failure and requests to stop.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// Why a server does not start, or does not stop well; one line.
#[derive(Debug)]
pub enum StartError {
    /// An option.
    Option(OptionError),
    /// The data folder cannot be used.
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another server runs on the data folder.
    InUse(PathBuf),
    /// The data folder is that of a newer Keel, or of something else.
    Format {
        /// Which folder.
        path: PathBuf,
        /// What was found.
        found: String,
    },
    /// The file with root's first password cannot be used.
    Password {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file of `init_file` cannot be opened.
    InitFile {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The address cannot be listened on.
    Listen {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// TLS.
    Tls(TlsError),
    /// The engine.
    Engine(String),
    /// The catalog.
    Catalog(SqlError),
    /// The engine at the end: not every page is written, so the next start recovers.
    Stop(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Option(error) => error.fmt(f),
            StartError::Folder { path, source } => {
                write!(f, "the data folder {} cannot be used: {source}", path.display())
            }
            StartError::InUse(path) => {
                write!(f, "the data folder {} is in use by another server", path.display())
            }
            StartError::Format { path, found } => write!(
                f,
                "the data folder {} has format {found}; this server knows format {FORMAT}",
                path.display()
            ),
            StartError::Password { path, reason } => {
                write!(f, "no password for root in {}: {reason}", path.display())
            }
            StartError::InitFile { path, source } => {
                write!(f, "the init file {} cannot be opened: {source}", path.display())
            }
            StartError::Listen { address, source } => write!(f, "cannot listen on {address}: {source}"),
            StartError::Tls(error) => {
                write!(f, "TLS cannot be set up: {error} (--skip-ssl starts without it)")
            }
            StartError::Engine(error) => write!(f, "the engine cannot open its data: {error}"),
            StartError::Catalog(error) => write!(f, "the catalog cannot be opened: {}", error.message),
            StartError::Stop(error) => {
                write!(f, "not every page could be written, the next start recovers from the log: {error}")
            }
        }
    }
}

impl std::error::Error for StartError {}

/// Why a running server is to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The log failed: nothing is acknowledged any more.
    Failed(String),
    /// A client said SHUTDOWN.
    Asked,
}

/// A running server.
pub struct Server {
    state: Arc<ServerState>,
    net: net::Server,
    addresses: Vec<Address>,
    notes: Vec<String>,
    /// What `pid_file` names.
    pid_file: Option<PathBuf>,
    /// Held to the end.
    lock: FolderLock,
}

/// Starts a server in a running runtime; called from outside its fibers.
pub fn start(options: Options, runtime: &Runtime) -> Result<Server, StartError> {
    runtime.block_on(|| {
        let server = start_on_fiber(options)?;
        memory::start(&server.state);
        Ok(server)
    })
}

/// Starts a server from a fiber, real or simulated.
pub fn start_on_fiber(mut options: Options) -> Result<Server, StartError> {
    let addresses = options.addresses().map_err(StartError::Option)?;
    let folder = options.datadir();
    let (lock, folder_notes) = folder::prepare(&folder)?;
    let tls = open_tls(&options, &folder)?;
    let listeners = listen_on(&addresses, options.backlog())?;
    let addresses: Vec<Address> = listeners.iter().map(Listener::local_address).collect();
    let (state, host) = open_state(&options, &folder, &addresses, tls)?;
    let database = state.database();
    let made = make_accounts(&state, &mut options)?;
    if state.globals.named("skip_grant_tables").is_on() {
        database.definer().skip_grants();
    }
    database.start_read_only(state.globals.named("read_only").is_on());
    state.engine.set_deadlock_search(state.globals.named("innodb_deadlock_detect").is_on());
    database.set_force_primary_key(state.globals.named("innodb_force_primary_key").is_on());
    database.set_online_log_max(state.globals.named("innodb_online_alter_log_max_size").as_u64());
    Watch::start(&state);
    state.timeouts.start();
    state.logs.start(&state.globals, log_header(&state));
    state.keeper.apply(&state);
    set::apply_pace(&state);
    let budget = state.budget();
    let fitted = fit_connections(&state, &options, &budget).into_iter().chain(options.size_notes());
    let folder_notes = made.into_iter().chain(folder_notes).chain(socket_note(&options, &addresses));
    let mut notes: Vec<String> = folder_notes.chain(fitted).chain(budget.note()).collect();
    notes.extend(write_pid(&state, &options));
    notes.extend(lines::of(&options.given, &state.globals));
    let pid_file = options.pid_file();
    state.set_given(options.given);
    if !sim::in_simulation() && system::user_id() == 0 {
        notes.push("warning: started as the system's root: run the server as a user of its own".into());
    }
    for note in &notes {
        state.logs.error(Severity::Note, 0, note);
    }
    let service = Arc::new(SqlService { state: state.clone(), host });
    run_init_file(&service)?;
    state.logs.error(Severity::Note, 0, &ready(&state));
    let net = net::serve(listeners, service);
    Ok(Server { state, net, addresses, notes, pid_file, lock })
}

/// Runs the statements of `init_file`.
fn run_init_file(service: &SqlService) -> Result<(), StartError> {
    let path = PathBuf::from(service.state.globals.named("init_file").show());
    if path.as_os_str().is_empty() {
        return Ok(());
    }
    init_file::run(service, &path).map_err(|source| StartError::InitFile { path, source })
}

/// Makes a data folder with its first accounts without serving it; called from outside the runtime's fibers. Returns
/// lines that say how to connect.
pub fn init(mut options: Options, runtime: &Runtime) -> Result<Vec<String>, StartError> {
    runtime.block_on(|| {
        let folder = options.datadir();
        let (_lock, _) = folder::prepare(&folder)?;
        let tls = open_tls(&options, &folder)?;
        let (state, _host) = open_state(&options, &folder, &[], tls)?;
        let mut notes = make_accounts(&state, &mut options)?;
        if notes.is_empty() {
            notes.push(format!("the data folder {} has its accounts already", folder.display()));
        }
        notes.extend(lines::of(&options.given, &state.globals));
        state.engine.shutdown().map_err(|error| StartError::Stop(error.to_string()))?;
        Ok(notes)
    })
}

/// Opens the engine and the catalog.
fn open_state(
    options: &Options,
    folder: &Path,
    addresses: &[Address],
    tls: Tls,
) -> Result<(Arc<ServerState>, Arc<dyn Host>), StartError> {
    let engine =
        Engine::open(options.engine_config()).map_err(|error| StartError::Engine(error.to_string()))?;
    let globals = options.globals(facts(options, folder, addresses, &tls));
    let memory = MemoryLimit::new(options.memory_limit(), options.is_set("innodb_buffer_pool_size"));
    let served = Served::new(engine.clone(), globals, memory, tls, open_logs(options, folder));
    let state = Arc::new(ServerState::new(served));
    let server_host = Arc::new(ServerHost::default());
    server_host.tie(&state);
    let host: Arc<dyn Host> = server_host;
    let database = Database::open(engine, host.clone()).map_err(StartError::Catalog)?;
    state.set_database(database);
    Ok((state, host))
}

/// Makes the accounts of a new data folder and returns lines that say how to connect; none for an existing folder, where
/// the options that choose the first accounts have no effect.
fn make_accounts(state: &ServerState, options: &mut Options) -> Result<Vec<String>, StartError> {
    let database = state.database();
    if !database.definer().lacks_accounts() {
        lines::accounts_exist(&mut options.given);
        return Ok(Vec::new());
    }
    let folder = options.datadir();
    let owner_id = if sim::in_simulation() { None } else { system::owner_of(&folder) };
    let owner = owner_id.and_then(system::user_name);
    let first = match &options.initial {
        Initial::Socket => FirstAccounts::Socket { owner },
        Initial::Insecure => FirstAccounts::Insecure,
        Initial::PasswordFile(path) => FirstAccounts::Password(
            read_password(path).map_err(|reason| StartError::Password { path: path.clone(), reason })?,
        ),
    };
    database.definer().make_accounts(&first).map_err(StartError::Catalog)?;
    Ok(match (&first, &options.initial) {
        (FirstAccounts::Socket { owner }, _) => {
            socket_notes(&first, owner_id.filter(|_| owner.is_none()), options)
        }
        (_, Initial::PasswordFile(path)) => {
            vec![format!("made root for connections from this machine, password from {}", path.display())]
        }
        _ => vec!["warning: made root without a password for connections from this machine".into()],
    })
}

fn socket_notes(first: &FirstAccounts, nameless: Option<u32>, options: &Options) -> Vec<String> {
    let socket = options.socket();
    let mut notes: Vec<String> = first
        .accounts()
        .iter()
        .map(|account| {
            format!(
                "made {0}@localhost, by unix_socket, for the operating system's user {0}: mariadb -S{1} -u{0}",
                account.user,
                socket.display()
            )
        })
        .collect();
    if let Some(id) = nameless {
        notes.push(format!(
            "warning: the data folder's owner, user {id}, has no name: only the system's root can connect \
             (--initial-password-file gives root a password)"
        ));
    }
    notes
}

/// root's first password: a file's content without the end of its line.
fn read_password(path: &Path) -> Result<Vec<u8>, String> {
    let read = || {
        let length = fs::File::open(path, &fs::OpenOptions::reading())?.len()?;
        if length > PASSWORD_FILE_BYTES_MAX { Ok(None) } else { fs::read_to_end(path).map(Some) }
    };
    let mut password = match read() {
        Ok(Some(password)) => password,
        Ok(None) => return Err(format!("it has more than {PASSWORD_FILE_BYTES_MAX} bytes")),
        Err(error) => return Err(io::Error::to_string(&error)),
    };
    for end in [b'\n', b'\r'] {
        password.pop_if(|last| *last == end);
    }
    if password.is_empty() { Err("it is empty".into()) } else { Ok(password) }
}

/// Lowers `max_connections` to what the process may open files for, as MariaDB does, and gives a note where it did; a number
/// that nobody chose also to what there is memory for.
fn fit_connections(state: &ServerState, options: &Options, budget: &Budget) -> Option<String> {
    let mut configured = state.globals.named("max_connections").as_u64();
    if !options.is_set("max_connections") && budget.connections_max() < configured {
        configured = budget.connections_max();
        state.globals.set(table().id("max_connections"), Setting::UInt(configured));
    }
    let max = connections_max(state, configured);
    if max == configured {
        return None;
    }
    state.globals.set(table().id("max_connections"), Setting::UInt(max));
    let descriptors = system::descriptors_max();
    Some(format!(
        "max_connections is {max}, not {configured}: the process may open {descriptors} files (ulimit -n)"
    ))
}

/// Says who can connect by a socket in the data folder, which is closed to other users.
fn socket_note(options: &Options, addresses: &[Address]) -> Option<String> {
    let path = addresses.iter().find_map(|address| match address {
        Address::Unix(path) => Some(path),
        Address::Tcp(_) => None,
    })?;
    path.starts_with(options.datadir()).then(|| {
        format!(
            "the socket {} lies in the data folder: only the user that runs the server can connect by it \
             (--socket names another path)",
            path.display()
        )
    })
}

/// Writes the number of this process into the file that `pid_file` names; a note where that cannot be done.
fn write_pid(state: &ServerState, options: &Options) -> Option<String> {
    let path = options.pid_file()?;
    let written = fs::write_whole(&path, format!("{}\n", std::process::id()).as_bytes());
    let error = written.err()?;
    state.globals.set(table().id("pid_file"), Setting::text(""));
    Some(format!("pid_file={} cannot be written: {error}", path.display()))
}

/// TLS by the files that the options name, or by a certificate that the server makes for itself.
fn open_tls(options: &Options, folder: &Path) -> Result<Tls, StartError> {
    let Some(files) = options.tls_files() else { return Ok(Tls::default()) };
    if !options.names_certificate() {
        keel_tls::make_own(folder, &system::host_name(), time::unix_micros() / 1_000_000)
            .map_err(|source| StartError::Folder { path: folder.to_path_buf(), source })?;
    }
    Tls::open(files).map_err(StartError::Tls)
}

fn listen_on(addresses: &[Address], backlog: u32) -> Result<Vec<Listener>, StartError> {
    addresses
        .iter()
        .map(|address| {
            net::listen(address, backlog)
                .map_err(|source| StartError::Listen { address: shown(address), source })
        })
        .collect()
}

/// An address as users write it.
pub fn shown(address: &Address) -> String {
    match address {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => path.display().to_string(),
    }
}

/// The logs; the error log has a file where one is named, `--log-error` alone names the host's.
fn open_logs(options: &Options, folder: &Path) -> Logs {
    let error_log = options.is_set("log_error").then(|| folder.join(error_log(options)));
    Logs::new(folder, error_log)
}

fn error_log(options: &Options) -> String {
    let name = match options.named("log_error") {
        none if none.is_empty() => system::host_name(),
        given => given,
    };
    if Path::new(&name).extension().is_some() { name } else { format!("{name}.err") }
}

/// The line by which tools see that a server has started.
fn ready(state: &ServerState) -> String {
    let shown = |name: &str| state.globals.named(name).show();
    let (socket, port) = (shown("socket"), shown("port"));
    format!("keel: ready for connections.\nVersion: '{VERSION}'  socket: '{socket}'  port: {port}  Keel")
}

/// What the general log and the slow log begin with.
fn log_header(state: &ServerState) -> String {
    let shown = |name: &str| state.globals.named(name).show();
    // Tools know the line by the path that it begins with.
    let program = std::env::current_exe().map_or("/keel".into(), |path| path.display().to_string());
    format!(
        "{program}, Version: {VERSION} (Keel). started with:\nTcp port: {}  Unix socket: {}\n\
         Time\t\t    Id Command\tArgument\n",
        shown("port"),
        shown("socket")
    )
}

/// Variables that describe this server.
fn facts(options: &Options, folder: &Path, addresses: &[Address], tls: &Tls) -> Vec<(&'static str, Setting)> {
    let port = addresses.iter().find_map(|address| match address {
        Address::Tcp(address) => Some(address.port()),
        Address::Unix(_) => None,
    });
    let mut datadir = folder.display().to_string();
    if !datadir.ends_with('/') {
        datadir.push('/');
    }
    let mut facts = vec![
        ("datadir", Setting::Text(datadir.into())),
        ("hostname", Setting::text(&system::host_name())),
        ("innodb_buffer_pool_size", Setting::UInt(options.pool_bytes())),
        ("innodb_buffer_pool_size_max", Setting::UInt(options.pool_bytes_max())),
        ("keel_memory_limit", Setting::UInt(options.memory_limit())),
        ("port", Setting::UInt(u64::from(port.unwrap_or(0)))),
        ("socket", Setting::Text(options.socket().display().to_string().into())),
        ("version", Setting::text(VERSION)),
        ("version_compile_machine", Setting::text(std::env::consts::ARCH)),
        ("thread_pool_size", Setting::UInt(keel_runtime::worker_count() as u64)),
    ];
    let host = system::host_name();
    let temporary = match options.named("tmpdir") {
        none if none.is_empty() => std::env::temp_dir().display().to_string(),
        named => named,
    };
    for (name, found) in [
        ("general_log_file", Setting::text(&format!("{host}.log"))),
        ("slow_query_log_file", Setting::text(&format!("{host}-slow.log"))),
        ("log_slow_query_file", Setting::text(&format!("{host}-slow.log"))),
        ("open_files_limit", Setting::UInt(system::descriptors_max().min(u64::from(u32::MAX)))),
        ("report_port", Setting::UInt(u64::from(port.unwrap_or(0)))),
        ("slave_load_tmpdir", Setting::text(&temporary)),
        ("tmpdir", Setting::text(&temporary)),
    ] {
        if !options.is_set(name) {
            facts.push((name, found));
        }
    }
    if options.is_set("innodb_io_capacity") && !options.is_set("innodb_io_capacity_max") {
        let twice = options.named("innodb_io_capacity").parse::<u64>().unwrap_or(0).saturating_mul(2);
        facts.push(("innodb_io_capacity_max", Setting::UInt(twice.max(2000))));
    }
    if options.is_set("log_error") {
        facts.push(("log_error", Setting::text(&error_log(options))));
    }
    if let Some(files) = tls.files() {
        facts.push(("have_ssl", Setting::text("YES")));
        for (name, path) in [
            ("ssl_cert", Some(&files.certificate)),
            ("ssl_key", Some(&files.key)),
            ("ssl_ca", files.authorities.as_ref()),
            ("ssl_capath", files.authorities_folder.as_ref()),
            ("ssl_crl", files.revocations.as_ref()),
            ("ssl_crlpath", files.revocations_folder.as_ref()),
        ] {
            let shown = path.map(|path| Setting::text(&path.display().to_string()));
            facts.push((name, shown.unwrap_or(Setting::Null)));
        }
    }
    facts
}

impl Server {
    /// Where it listens, with the port that was picked.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Notes for the user who started it.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The command that connects to an address, if an account is known that can log in there.
    pub fn client_command(&self, address: &Address) -> Option<String> {
        let database = self.state.database();
        let catalog = database.catalog();
        let account = |user: &str| catalog.accounts.user(user, "localhost");
        let by_password = || {
            let way = account("root")?.auth.iter().find(|way| way.takes_password())?;
            Some(if way.string.is_empty() { "-uroot" } else { "-uroot -p" }.to_string())
        };
        let by_socket = || {
            let name = system::user_name(system::user_id())?;
            let is_socket =
                |account: &Arc<Account>| account.auth.iter().any(|way| *way.plugin == *auth::SOCKET);
            account(&name).is_some_and(is_socket).then(|| format!("-u{name}"))
        };
        match address {
            Address::Tcp(tcp) => {
                by_password().map(|user| format!("mariadb -h{} -P{} {user}", tcp.ip(), tcp.port()))
            }
            Address::Unix(path) => {
                by_socket().or_else(by_password).map(|user| format!("mariadb -S{} {user}", path.display()))
            }
        }
    }

    /// What its sessions share.
    pub fn state(&self) -> &Arc<ServerState> {
        &self.state
    }

    /// Whether it is to end, and why.
    pub fn ended(&self) -> Option<Ended> {
        if let Some(reason) = self.state.engine.failure() {
            return Some(Ended::Failed(reason));
        }
        self.state.stop_requested.is_set().then_some(Ended::Asked)
    }

    /// Waits on a fiber until the server is to end.
    pub fn wait_ended(&self) -> Ended {
        loop {
            if let Some(ended) = self.ended() {
                return ended;
            }
            self.state.stop_requested.wait_until(WaitEvent::Idle, time::now() + WATCH_INTERVAL);
        }
    }

    /// Tells the error log on a fiber why the server ends without a stop.
    pub fn note_failure(&self, reason: &str) {
        self.state.logs.error(Severity::Error, 0, reason);
        self.state.logs.stop();
    }

    /// Stops on a fiber: no new connections, sessions end and roll back, everything is flushed.
    pub fn stop(self) -> Result<(), StartError> {
        self.lock.note_stopping();
        self.net.stop_accepting();
        for client in self.state.registry.all() {
            client.kill();
        }
        self.net.close_all();
        let deadline = time::now() + STOP_WAIT_MAX;
        while !self.state.registry.is_empty() && time::now() < deadline {
            fiber::sleep(Duration::from_millis(5));
        }
        self.state.timeouts.stop();
        self.state.logs.error(Severity::Note, 0, "keel: Shutdown complete");
        self.state.logs.stop();
        self.state.keeper.stop();
        for address in &self.addresses {
            if let Address::Unix(path) = address {
                // The socket's file may be gone already.
                let _ = fs::remove_file(path);
            }
        }
        if let Some(path) = &self.pid_file {
            let _ = fs::remove_file(path);
        }
        if self.state.engine.failure().is_some() {
            return Ok(());
        }
        self.state.engine.shutdown().map_err(|error| StartError::Stop(error.to_string()))
    }
}
