//! Servers as processes: Keel from this checkout and Debian's MariaDB, each in a folder of its own, both durable.

use crate::client::{Address, Client, Login};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Which server to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// This project's server.
    Keel,
    /// Debian's mariadbd.
    MariaDb,
}

impl Engine {
    /// For reports.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Keel => "keel",
            Engine::MariaDb => "mariadb",
        }
    }
}

/// A running server; killed and its folder removed when dropped.
pub struct Server {
    /// What runs.
    pub engine: Engine,
    /// Its folder: data, socket and log.
    pub dir: PathBuf,
    /// TCP port on 127.0.0.1.
    pub port: u16,
    child: Option<Child>,
    options: Vec<String>,
    wrapper: Vec<String>,
}

/// The longest that a server may take to answer its first connection.
const START_MAX: Duration = Duration::from_secs(60);

/// The built `keel`: `KEEL_BIN`, or the release build of this checkout.
pub fn keel_binary() -> PathBuf {
    if let Some(path) = std::env::var_os("KEEL_BIN") {
        return path.into();
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("tools/testkit lies in the repository");
    target.unwrap_or_else(|| root.join("target")).join("release/keel")
}

/// A port that nobody listens on at this moment.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}

/// A new folder under the system's temporary one.
pub fn scratch_dir(label: &str) -> PathBuf {
    make_scratch_dir(label).expect("temporary folder is writable")
}

/// The same for whoever must go on without it: an error where the disk is full.
pub fn make_scratch_dir(label: &str) -> io::Result<PathBuf> {
    let stamp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let name = format!("keel-{label}-{}-{:x}", std::process::id(), stamp.as_nanos());
    let dir = std::env::temp_dir().join(name);
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// Where a MariaDB in a folder keeps temporary tables: one that starts removes whatever looks like one, also those
/// of another server that is being set up beside it.
fn mariadb_temporary_dir(dir: &Path) -> io::Result<PathBuf> {
    let temporary = dir.join("tmp");
    fs::create_dir_all(&temporary)?;
    Ok(temporary)
}

/// Keel's default character set, which Debian's package sets in its option file. The default of the program is latin1.
const MARIADB_CHARSET: &str = "--character-set-server=utf8mb4";

/// Whether an option sets the character set or the collation of the server.
fn names_charset(option: &str) -> bool {
    let name = option.split('=').next().unwrap_or_default().replace('_', "-");
    matches!(name.as_str(), "--character-set-server" | "--collation-server")
}

impl Server {
    /// Starts a server in a scratch folder with extra options such as `--innodb-buffer-pool-size=64M`.
    pub fn start(engine: Engine, options: &[&str]) -> io::Result<Server> {
        let mut server = Server::prepare(engine, scratch_dir(engine.name()), options)?;
        server.launch()?;
        Ok(server)
    }

    fn prepare(engine: Engine, dir: PathBuf, options: &[&str]) -> io::Result<Server> {
        fs::create_dir_all(&dir)?;
        if engine == Engine::MariaDb && !dir.join("data").exists() {
            let output = Command::new("mariadb-install-db")
                .env("TMPDIR", mariadb_temporary_dir(&dir)?)
                .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
                .arg(format!("--datadir={}", dir.join("data").display()))
                .args(root_user())
                .arg(MARIADB_CHARSET)
                .args(options.iter().filter(|option| names_charset(option)))
                .output()?;
            if !output.status.success() {
                return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
            }
        }
        let options = options.iter().map(|option| option.to_string()).collect();
        Ok(Server { engine, dir, port: free_port(), child: None, options, wrapper: Vec::new() })
    }

    /// Fills MariaDB's tables of time zones, which a new one has empty; Keel's are built in.
    pub fn load_zones(&self) -> io::Result<()> {
        let zones = Command::new("mariadb-tzinfo-to-sql")
            .arg("/usr/share/zoneinfo")
            .stderr(Stdio::null())
            .output()?;
        let mut client = Command::new("mariadb")
            .args(["--no-defaults", "-uroot", "mysql"])
            .arg(format!("--socket={}", self.socket().display()))
            .stdin(Stdio::piped())
            .spawn()?;
        client.stdin.take().expect("is piped").write_all(&zones.stdout)?;
        if client.wait()?.success() { Ok(()) } else { Err(io::Error::other("time zones cannot be loaded")) }
    }

    /// Starts the process and kills it so much later, most likely before it answers.
    pub fn launch_and_kill(&mut self, after: Duration) -> io::Result<()> {
        self.spawn()?;
        std::thread::sleep(after);
        self.kill();
        Ok(())
    }

    /// Starts the process and waits until it answers.
    pub fn launch(&mut self) -> io::Result<()> {
        self.spawn()?;
        let deadline = Instant::now() + START_MAX;
        loop {
            if Client::connect(&self.unix(), &Login::default()).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.as_mut().expect("just spawned").try_wait()? {
                return Err(io::Error::other(format!(
                    "{} ended with {status}: {}",
                    self.engine.name(),
                    self.log_tail()
                )));
            }
            if Instant::now() > deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, self.log_tail()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn spawn(&mut self) -> io::Result<()> {
        let log = File::options().create(true).append(true).open(self.dir.join("server.log"))?;
        let mut command = match self.engine {
            Engine::Keel => {
                let mut command = self.keel_command();
                // Tests log in as root over TCP and the socket, whatever user runs them.
                // MariaDB has no such note, and most tests compare warnings.
                command.args(["serve", "--loose-initialize-insecure", "--skip-keel-note-without-effect"]);
                command
            }
            Engine::MariaDb => {
                let mut command = Command::new("mariadbd");
                command.args(["--no-defaults", "--bind-address=127.0.0.1"]).args(root_user());
                command.arg(MARIADB_CHARSET);
                command.arg(format!("--pid-file={}", self.dir.join("pid").display()));
                command.arg(format!("--tmpdir={}", mariadb_temporary_dir(&self.dir)?.display()));
                command
            }
        };
        command
            .arg(format!("--datadir={}", self.dir.join("data").display()))
            .arg(format!("--port={}", self.port))
            .arg(format!("--socket={}", self.socket().display()))
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        self.child = Some(command.spawn().map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", command.get_program().display()))
        })?);
        Ok(())
    }

    fn keel_command(&self) -> Command {
        let Some((program, words)) = self.wrapper.split_first() else {
            return Command::new(keel_binary());
        };
        let mut command = Command::new(program);
        command.args(words).arg(keel_binary());
        command
    }

    /// Words before the command of later launches of Keel, which must end by running it in their own process.
    pub fn set_wrapper(&mut self, words: Vec<String>) {
        self.wrapper = words;
    }

    /// Options of later launches.
    pub fn set_options(&mut self, options: &[&str]) {
        self.options = options.iter().map(|option| option.to_string()).collect();
    }

    /// Waits for the process to end by itself, at most for so long.
    pub fn wait_ended(&mut self, max: Duration) -> io::Result<ExitStatus> {
        let deadline = Instant::now() + max;
        let child = self.child.as_mut().ok_or_else(|| io::Error::other("not running"))?;
        loop {
            if let Some(status) = child.try_wait()? {
                self.child = None;
                return Ok(status);
            }
            if Instant::now() > deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the server goes on"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether a process that was started is gone.
    pub fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// The last lines that the server wrote.
    pub fn log_tail(&self) -> String {
        let text = fs::read(self.dir.join("server.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let end = &lines[lines.len().saturating_sub(15)..];
        match lines.iter().position(|line| line.contains("panicked at")) {
            // The first panic says more than the last lines of its stack.
            Some(first) => lines[first..].iter().take(60).chain(end).copied().collect::<Vec<_>>().join("\n"),
            None => end.join("\n"),
        }
    }

    /// Path of the server's Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.join("s.sock")
    }

    /// Its Unix address.
    pub fn unix(&self) -> Address {
        Address::Unix(self.socket())
    }

    /// Its TCP address.
    pub fn tcp(&self) -> Address {
        Address::Tcp("127.0.0.1".into(), self.port)
    }

    /// A client of root over the Unix socket.
    pub fn client(&self) -> io::Result<Client> {
        Client::connect(&self.unix(), &Login::default())
    }

    /// A client of root in `database`.
    pub fn client_in(&self, database: &str) -> io::Result<Client> {
        Client::connect(&self.unix(), &Login { database: Some(database.into()), ..Login::default() })
    }

    /// Process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// SIGKILL while others hold the server; [`Server::kill`] waits for its end.
    pub fn signal_kill(&self) {
        if let Some(pid) = self.pid() {
            kill_process(pid);
        }
    }

    /// SIGKILL: what a power cut looks like to everybody but the disk.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// `keel check` over the folder of a server that does not run; the error is what it found.
    pub fn check(&self) -> Result<(), String> {
        assert!(self.child.is_none() && self.engine == Engine::Keel, "only a stopped Keel can be checked");
        let output = Command::new(keel_binary())
            .arg("check")
            .arg(self.dir.join("data"))
            .arg("--silent")
            .output()
            .map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!(
                "keel check: {}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            )),
        }
    }

    /// SIGTERM, then waits for a clean end.
    pub fn stop(&mut self) -> io::Result<ExitStatus> {
        let mut child = self.child.take().ok_or_else(|| io::Error::other("not running"))?;
        // SAFETY: plain system call on the id of a child that has not been waited for.
        unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
        let deadline = Instant::now() + START_MAX;
        while Instant::now() < deadline {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        child.kill().ok();
        child.wait()
    }

    /// Makes [`Server::peak_bytes`] begin anew.
    pub fn reset_peak(&self) {
        let pid = self.pid().expect("the server runs");
        // 5 resets the peak of resident memory (proc(5)).
        fs::write(format!("/proc/{pid}/clear_refs"), "5").expect("the kernel keeps a peak");
    }

    /// The most memory that was resident since the start, or since [`Server::reset_peak`], in bytes.
    pub fn peak_bytes(&self) -> u64 {
        let field = self.status_field("VmHWM:");
        field.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
    }

    fn status_field(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid()?)).ok()?;
        Some(text.lines().find_map(|line| line.strip_prefix(name))?.trim().to_string())
    }

    /// CPU time used so far, user and system together.
    pub fn cpu_time(&self) -> Duration {
        self.pid().and_then(crate::child::cpu_time).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if !std::thread::panicking() {
            fs::remove_dir_all(&self.dir).ok();
        }
    }
}

/// Gives a program its input, of which it may read as much as it likes: one that is refused reads none.
pub fn feed(child: &mut std::process::Child, input: &[u8]) {
    use std::io::Write;
    let mut stdin = child.stdin.take().expect("its input is piped");
    match stdin.write_all(input) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => panic!("the program's input: {error}"),
        _ => {}
    }
}

/// SIGKILL for a child that nobody has waited for yet: only then does its id still mean it.
pub fn kill_process(pid: u32) {
    // SAFETY: a plain system call, which touches no memory of ours.
    unsafe { libc::kill(pid as i32, libc::SIGKILL) };
}

/// mariadbd refuses to run as root unless told to.
pub fn root_user() -> &'static [&'static str] {
    if crate::child::is_root() { &["--user=root"] } else { &[] }
}
