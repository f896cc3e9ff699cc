//! The `keel` command: `keel serve` runs the server until a signal, SHUTDOWN, or a disk that no longer keeps its word;
//! `keel check` verifies the data folder of a stopped one, `keel salvage` reads what is left of a damaged one, `keel lab` measures.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keel_runtime::net::Address;
use keel_runtime::signal::{Signal, Signals};
use keel_runtime::{Config, Runtime, fiber};
use keel_server::inspect::{self, InspectOptions};
use keel_server::options::Options;
use keel_server::start::{self, Ended, Server};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
Keel, an OLTP database server that speaks MariaDB's protocol.

usage: keel serve [--datadir=DIR] [--port=N] [--socket=PATH] [--defaults-file=FILE] [--reactor=auto|io_uring|epoll]
                  [--workers=N] [--any-system-variable=VALUE ...]
       keel check DIR         verifies the data folder of a stopped server; keel check --help
       keel salvage DIR OUT   writes what can be read of a damaged data folder as SQL; keel salvage --help
       keel lab ...           experiments with this and other servers, side by side; keel lab --help
       keel --version

Without options: data in ./keel-data, 127.0.0.1:3306 and a socket in the data folder. Option names are MariaDB's.";

/// Prints a line; where nobody reads any more, that is no reason to end.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

/// How often a running server looks for a signal or a failure.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.split_first() {
        Some((command, rest)) if command == "check" || command == "salvage" => {
            return inspect_folder(command == "salvage", rest);
        }
        Some((command, rest)) if command == "lab" => keel_lab::cli::run(rest),
        Some((command, rest)) if command == "serve" && !rest.iter().any(|arg| arg == "--help") => serve(rest),
        Some((flag, _)) if flag == "--version" || flag == "-V" => {
            say!("keel {} (MariaDB {})", env!("CARGO_PKG_VERSION"), keel_server::state::VERSION);
            Ok(())
        }
        Some((flag, _)) if flag == "--help" || flag == "-h" || flag == "serve" => {
            say!("{USAGE}");
            Ok(())
        }
        Some((other, _)) => Err(format!("no such command: {other}; try keel --help")),
        None => {
            say!("{USAGE}");
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("keel: {text}");
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &[String]) -> Result<(), String> {
    let options =
        Options::parse(args, Some(Path::new("/etc/keel/my.cnf"))).map_err(|error| error.to_string())?;
    options.faults.iter().cloned().for_each(keel_runtime::fs::inject);
    let signals = Signals::take();
    let config = Config { workers: options.workers(), reactor: options.reactor, ..Config::default() };
    let runtime = Runtime::start(config).map_err(|error| format!("the runtime cannot start: {error}"))?;
    let server = start::start(options, &runtime).map_err(|error| error.to_string())?;
    for note in server.notes() {
        say!("keel: {note}");
    }
    announce(&server, &runtime);
    let asked = Arc::new(AtomicBool::new(false));
    let flag = asked.clone();
    std::thread::spawn(move || {
        while signals.wait() != Signal::Terminate {}
        flag.store(true, Ordering::SeqCst);
    });
    let ended = runtime.block_on(|| wait(&server, &asked));
    if let Ended::Failed(reason) = ended {
        runtime.block_on(|| server.note_failure(&reason));
        return Err(format!("stopped: {reason}; nothing was acknowledged after that"));
    }
    say!("keel: stopping");
    runtime.block_on(|| server.stop()).map_err(|error| error.to_string())?;
    say!("keel: stopped");
    Ok(())
}

/// Exit code of an inspection that was not possible.
const CANNOT: u8 = 2;

/// Findings go to the standard output, everything else beside it.
struct Terminal;

impl inspect::check::Lines for Terminal {
    fn out(&self, line: &str) {
        say!("{line}");
    }

    fn aside(&self, line: &str) {
        eprintln!("keel: {line}");
    }
}

/// `keel check`, or `keel salvage`.
fn inspect_folder(is_salvage: bool, args: &[String]) -> ExitCode {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        say!("{}", if is_salvage { inspect::SALVAGE_USAGE } else { inspect::CHECK_USAGE });
        return ExitCode::SUCCESS;
    }
    let parsed = InspectOptions::parse(args, is_salvage).map_err(|error| error.to_string());
    let done = parsed.and_then(|options| {
        let runtime = Runtime::start(Config::default()).map_err(|error| error.to_string())?;
        let lines: Arc<dyn inspect::check::Lines> = Arc::new(Terminal);
        let run = || match &options.out {
            Some(out) => inspect::salvage(&options, out, &lines),
            None => inspect::check(&options, &lines),
        };
        runtime.block_on(run).map_err(|error| error.to_string())
    });
    match done {
        Ok(verdict) => ExitCode::from(verdict as u8),
        Err(text) => {
            eprintln!("keel: {text}");
            ExitCode::from(CANNOT)
        }
    }
}

/// Waits for a signal, SHUTDOWN or the end of the log.
fn wait(server: &Server, asked: &AtomicBool) -> Ended {
    loop {
        if let Some(ended) = server.ended() {
            return ended;
        }
        if asked.load(Ordering::SeqCst) {
            return Ended::Asked;
        }
        fiber::sleep(WATCH_INTERVAL);
    }
}

/// Says where the server listens and how to connect.
fn announce(server: &Server, runtime: &Runtime) {
    say!("keel: ready, MariaDB {}, {}", keel_server::state::VERSION, runtime.reactor_name());
    for address in server.addresses() {
        let how = match address {
            Address::Tcp(tcp) => format!("mariadb -h{} -P{} -uroot", tcp.ip(), tcp.port()),
            Address::Unix(path) => format!("mariadb -S{} -uroot", path.display()),
        };
        say!("keel: listening on {}    connect: {how}", start::shown(address));
    }
}
