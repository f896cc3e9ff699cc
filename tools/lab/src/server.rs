//! Servers of the lab's own: started in a folder, asked, stopped. None survives the lab: each is killed with its parent.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use keel_testkit::child::{contained, end, interrupted, kill_group};
use keel_testkit::client::{Address, Client, Login};
use keel_testkit::process::{free_port, make_scratch_dir, root_user};

use crate::engines::{Engine, Kind};
use crate::limits::{Held, Limits};

/// The longest that a server may take to answer its first connection: recovery and a pool that is read in are behind it then.
const START_MAX: Duration = Duration::from_secs(120);
/// The longest that a server may take to write its pages and end.
const STOP_MAX: Duration = Duration::from_secs(180);

/// How a server is started.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Lines of the option file.
    pub settings: Vec<String>,
    /// Lines behind them, which win.
    pub overrides: Vec<String>,
    /// What it may have.
    pub limits: Limits,
    /// The only cores it may use, as `taskset -c` takes them.
    pub cores: Option<String>,
}

/// A running server; stopped at once when dropped.
pub struct Server {
    /// What runs.
    pub engine: Engine,
    /// The limits that hold it, in words.
    pub limits: Vec<String>,
    child: Option<Child>,
    address: Address,
    login: Login,
    log: PathBuf,
    /// Of sockets; their paths may have only some hundred bytes, so they are not in the data's folder.
    scratch: Option<PathBuf>,
    /// Behind the process: its groups can be removed when it has ended.
    _held: Held,
}

impl Server {
    /// Starts a server on a folder that [`install`] or an earlier start has filled, or connects to a remote one.
    pub fn start(engine: &Engine, folder: &Path, setup: &Setup) -> Result<Server, String> {
        if let Some((address, login)) = &engine.remote {
            return Ok(Server {
                engine: engine.clone(),
                limits: Vec::new(),
                child: None,
                address: address.clone(),
                login: login.clone(),
                log: PathBuf::new(),
                scratch: None,
                _held: Held::default(),
            });
        }
        let scratch = make_scratch_dir("lab").map_err(|error| format!("the temporary folder: {error}"))?;
        let held = Held::new(&setup.limits, folder, &engine.name);
        let mut setup = setup.clone();
        let mut limits = held.said.clone();
        // Without a group Keel can be told how much it may have; the others cannot.
        if let (Kind::Keel, Some(bytes), false) =
            (engine.kind, setup.limits.memory, limits.iter().any(|said| said.starts_with("memory")))
        {
            setup.overrides.push(format!("keel_memory_limit={}M", bytes >> 20));
            limits.push(format!("keel_memory_limit {} MiB", bytes >> 20));
        }
        let mut server = Server {
            engine: engine.clone(),
            limits,
            child: None,
            address: Address::Unix(scratch.join("s.sock")),
            login: Login::default(),
            log: folder.join("server.log"),
            scratch: Some(scratch),
            _held: held,
        };
        server.launch(folder, &setup)?;
        Ok(server)
    }

    fn launch(&mut self, folder: &Path, setup: &Setup) -> Result<(), String> {
        let text = |error: std::io::Error| format!("{}: {error}", self.engine.name);
        let options = folder.join("lab.cnf");
        fs::write(&options, option_file(self.engine.kind, setup)).map_err(text)?;
        let log = File::create(&self.log).map_err(text)?;
        let mut words = self._held.wrapper();
        if let Some(cores) = &setup.cores {
            words.extend(["taskset".to_string(), "-c".to_string(), cores.clone()]);
        }
        words.push(self.engine.program.display().to_string());
        if self.engine.kind == Kind::Keel {
            words.push("serve".into());
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(format!("--defaults-file={}", options.display()));
        command.arg(format!("--datadir={}", folder.join("data").display()));
        let scratch = self.scratch.as_deref().unwrap_or(folder);
        command.arg(format!("--socket={}", scratch.join("s.sock").display()));
        command.arg(format!("--port={}", free_port())).arg("--bind-address=127.0.0.1");
        if self.engine.kind == Kind::Keel {
            // Older versions, which do not know the option, make root without a password by themselves.
            command.arg("--loose-initialize-insecure");
        } else {
            command.arg(format!("--tmpdir={}", temporary_dir(folder)?.display()));
            command.arg(format!("--pid-file={}", folder.join("pid").display())).args(root_user());
        }
        if self.engine.kind == Kind::MySql {
            command.arg("--mysqlx=OFF");
        }
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(text)?).stderr(log);
        self.child = Some(contained(&mut command).spawn().map_err(text)?);
        self.wait_ready()
    }

    fn wait_ready(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + START_MAX;
        loop {
            if self.client().is_ok() {
                return Ok(());
            }
            if self.has_ended() {
                return Err(format!("{} ended at its start: {}", self.engine.name, self.log_tail()));
            }
            if interrupted() {
                return Err("interrupted".into());
            }
            if Instant::now() > deadline {
                return Err(format!("{} does not answer: {}", self.engine.name, self.log_tail()));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// A client of the account that the lab uses.
    pub fn client(&self) -> Result<Client, String> {
        let client = Client::connect(&self.address, &self.login).map_err(|error| error.to_string())?;
        client.set_timeout(Some(Duration::from_secs(600))).map_err(|error| error.to_string())?;
        Ok(client)
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Who logs in.
    pub fn login(&self) -> &Login {
        &self.login
    }

    /// Its process, unless it runs elsewhere.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Whether its process is gone.
    pub fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// The last lines that it wrote.
    pub fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(6)..].join("\n")
    }

    /// Sysbench's options that lead here. A password is read from [`Server::sysbench_input`]: other users can see options.
    pub fn sysbench_options(&self) -> Vec<String> {
        let mut options = match &self.address {
            Address::Unix(path) => vec![format!("--mysql-socket={}", path.display())],
            Address::Tcp(host, port) => vec![format!("--mysql-host={host}"), format!("--mysql-port={port}")],
        };
        options.push(format!("--mysql-user={}", self.login.user));
        if !self.login.password.is_empty() {
            options.push("--config-file=/dev/stdin".into());
        }
        options
    }

    /// Sysbench's standard input.
    pub fn sysbench_input(&self) -> io::Result<Stdio> {
        if self.login.password.is_empty() {
            return Ok(Stdio::null());
        }
        // A pipe holds more than a password is long.
        let (reader, mut writer) = io::pipe()?;
        writeln!(writer, "mysql-password={}", self.login.password)?;
        Ok(reader.into())
    }

    /// Ends it in good order; its folder can be copied then.
    pub fn stop(&mut self) -> Result<(), String> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let status = end(&mut child, STOP_MAX).map_err(|error| error.to_string())?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("{} ended with {status}: {}", self.engine.name, self.log_tail()))
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A program may be a script that has started the server.
            kill_group(&mut child);
        }
        if let Some(scratch) = &self.scratch {
            fs::remove_dir_all(scratch).ok();
        }
    }
}

/// Settings that say where things are. A server of the lab has all its own in its folder, whatever a report's settings say.
const PLACES: &[&str] = &[
    "user",
    "pid_file",
    "socket",
    "port",
    "basedir",
    "datadir",
    "tmpdir",
    "lc_messages_dir",
    "bind_address",
    "log_error",
    "slow_query_log_file",
    "general_log_file",
    "log_bin_index",
];

/// The character set of servers whose settings name none.
pub const CHARSET: &str = "utf8mb4";

/// The option file of a start. The reports' settings are of many versions: one that MariaDB or MySQL no longer has is passed over there.
fn option_file(kind: Kind, setup: &Setup) -> String {
    let mut text = String::from("[mysqld]\n");
    // The defaults differ: MariaDB's is latin1, and MySQL's collation is unknown to the others.
    let settings = || setup.settings.iter().chain(&setup.overrides);
    let is_charset = |line: &String| {
        let name = line.split('=').next().unwrap_or_default().trim().replace('-', "_");
        matches!(name.trim_start_matches("loose_"), "character_set_server" | "collation_server")
    };
    if !settings().any(is_charset) {
        text += &format!("character_set_server={CHARSET}\ncollation_server={CHARSET}_general_ci\n");
    }
    for line in settings() {
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        let plain = name.trim().replace('-', "_");
        if PLACES.contains(&plain.as_str()) {
            continue;
        }
        let loose = if kind == Kind::Keel { "" } else { "loose_" };
        match plain.as_str() {
            // The binary log's name may have a path.
            "log_bin" if value.contains('/') => text += &format!("{loose}log_bin=binlog\n"),
            _ => text += &format!("{loose}{line}\n"),
        }
    }
    text
}

/// Where another's server keeps its temporary tables: one that starts removes whatever looks like one there.
fn temporary_dir(folder: &Path) -> Result<PathBuf, String> {
    let temporary = folder.join("tmp");
    fs::create_dir_all(&temporary).map_err(|error| format!("{}: {error}", temporary.display()))?;
    Ok(temporary)
}

/// Makes an empty server's data in `folder/data`.
pub fn install(engine: &Engine, folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let data = folder.join("data");
    let mut command = match engine.kind {
        Kind::MariaDb => {
            let install =
                crate::engines::in_path("mariadb-install-db").ok_or("mariadb-install-db is not installed")?;
            let mut command = Command::new(install);
            command.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
            command.env("TMPDIR", temporary_dir(folder)?);
            command
        }
        Kind::MySql => {
            let mut command = Command::new(&engine.program);
            command.args(["--no-defaults", "--initialize-insecure"]);
            command
        }
        // Keel makes its folder at its first start, with root without a password.
        Kind::Keel | Kind::Remote => return Ok(()),
    };
    command.arg(format!("--datadir={}", data.display())).args(root_user());
    let output = contained(&mut command).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{} makes no data folder: {}", engine.name, String::from_utf8_lossy(&output.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_stand_behind_settings_and_foreign_ones_are_loose() {
        let setup = Setup {
            settings: vec!["innodb_buffer_pool_size=2560M".into()],
            overrides: vec!["innodb_buffer_pool_size=64M".into()],
            ..Setup::default()
        };
        let charset = "character_set_server=utf8mb4\ncollation_server=utf8mb4_general_ci\n";
        let text = format!("[mysqld]\n{charset}innodb_buffer_pool_size=2560M\ninnodb_buffer_pool_size=64M\n");
        assert_eq!(option_file(Kind::Keel, &setup), text);
        assert_eq!(option_file(Kind::MariaDb, &setup), text.replace("innodb", "loose_innodb"));
    }

    #[test]
    fn places_of_a_package_are_not_taken() {
        let settings = [
            "datadir=/var/lib/mysql",
            "pid-file=/run/x",
            "log_bin=/var/log/mysql/mariadb-bin",
            "port=3306",
            "character-set-server=latin1",
        ];
        let setup = Setup { settings: settings.map(str::to_string).to_vec(), ..Setup::default() };
        assert_eq!(
            option_file(Kind::MySql, &setup),
            "[mysqld]\nloose_log_bin=binlog\nloose_character-set-server=latin1\n"
        );
    }
}
