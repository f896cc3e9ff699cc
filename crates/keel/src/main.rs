//! The `keel` command: `keel serve` runs the server until a signal, SHUTDOWN, or a failure of the log; `keel init`
//! makes a data folder, `keel check` verifies the data folder of a stopped server, `keel salvage` reads a damaged one,
//! `keel lab` measures.

mod args;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Parser;
use keel_offline::command::{self, InspectOptions};
use keel_runtime::signal::{Signal, Signals};
use keel_runtime::{Config, Runtime, console, fiber, heap};
use keel_server::Options;
use keel_server::start::{self, Ended, Server};
use sd_notify::NotifyState;

use crate::args::{Cli, Command, InitArgs};

#[global_allocator]
static ALLOCATOR: heap::Heap = heap::Heap::new();

/// `keel serve --help`.
const SERVE_HELP: &str = include_str!("serve_help.txt");

/// Prints a line. A closed pipe is not a reason to end.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

/// How often a running server looks for a signal or a failure.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    let cli = Cli::parse();
    if cli.version {
        say!("keel {} (MariaDB {})", env!("CARGO_PKG_VERSION"), keel_server::VERSION);
        return ExitCode::SUCCESS;
    }
    match cli.command {
        None => ExitCode::SUCCESS,
        Some(Command::Serve(serve))
            if serve.options.iter().any(|option| option == "--help" || option == "-h") =>
        {
            say!("{}", SERVE_HELP.trim_end());
            ExitCode::SUCCESS
        }
        Some(Command::Serve(serve)) => match self::serve(&serve.options) {
            Ok(()) => ExitCode::SUCCESS,
            Err(text) => {
                console::error(text);
                ExitCode::FAILURE
            }
        },
        Some(Command::Init(args)) => match init(args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(text) => {
                console::error(text);
                ExitCode::FAILURE
            }
        },
        Some(Command::Check(args)) => inspect_folder(&args.options()),
        Some(Command::Salvage(args)) => inspect_folder(&args.options()),
        Some(Command::Lab(command)) => match keel_lab::cli::run(&command) {
            Ok(()) => ExitCode::SUCCESS,
            Err(text) => {
                eprintln!("keel: {text}");
                ExitCode::FAILURE
            }
        },
    }
}

fn serve(args: &[String]) -> Result<(), String> {
    let options =
        Options::parse(args, Some(Path::new("/etc/keel/my.cnf"))).map_err(|error| error.to_string())?;
    options.faults.iter().cloned().for_each(keel_runtime::fs::inject);
    keel_runtime::system::set_umask();
    let signals = Signals::take();
    let config = Config { workers: options.workers(), reactor: options.reactor, ..Config::default() };
    let runtime = Runtime::start(config).map_err(|error| format!("the runtime cannot start: {error}"))?;
    let server = start::start(options, &runtime).map_err(|error| error.to_string())?;
    server.notes().iter().for_each(console::note);
    announce(&server, &runtime);
    notify(NotifyState::Ready);
    let asked = Arc::new(AtomicBool::new(false));
    let flag = asked.clone();
    std::thread::spawn(move || {
        while signals.wait() != Signal::Terminate {}
        flag.store(true, Ordering::SeqCst);
    });
    let ended = runtime.block_on(|| wait(&server, &asked));
    notify(NotifyState::Stopping);
    if let Ended::Failed(reason) = ended {
        runtime.block_on(|| server.note_failure(&reason));
        return Err(format!("stopped: {reason}; nothing was acknowledged after that"));
    }
    console::note("stopping");
    runtime.block_on(|| server.stop()).map_err(|error| error.to_string())?;
    console::note("stopped");
    Ok(())
}

/// Reports a state to systemd, if it started the process (`Type=notify`).
fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        console::warning(format_args!("the service manager cannot be notified: {error}"));
    }
}

/// `keel init`.
fn init(args: InitArgs) -> Result<(), String> {
    let options = Options::parse(&args.options(), Some(Path::new("/etc/keel/my.cnf")))
        .map_err(|error| error.to_string())?;
    keel_runtime::system::set_umask();
    let config = Config { workers: options.workers(), reactor: options.reactor, ..Config::default() };
    let runtime = Runtime::start(config).map_err(|error| format!("the runtime cannot start: {error}"))?;
    let notes = start::init(options, &runtime).map_err(|error| error.to_string())?;
    notes.iter().for_each(console::note);
    Ok(())
}

/// Exit status of an inspection that was not possible.
const CANNOT: u8 = 2;

/// Findings go to the standard output, everything else to the standard error.
struct Terminal;

impl command::check::Lines for Terminal {
    fn out(&self, line: &str) {
        say!("{line}");
    }

    fn aside(&self, line: &str) {
        eprintln!("keel: {line}");
    }
}

/// `keel check`, or `keel salvage` if the options name an output folder.
fn inspect_folder(options: &InspectOptions) -> ExitCode {
    let run = |runtime: Runtime| {
        let lines: Arc<dyn command::check::Lines> = Arc::new(Terminal);
        let inspect = || match &options.out {
            Some(out) => command::salvage(options, out, &lines),
            None => command::check(options, &lines),
        };
        runtime.block_on(inspect).map_err(|error| error.to_string())
    };
    match Runtime::start(Config::default()).map_err(|error| error.to_string()).and_then(run) {
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

/// Logs the addresses and how to connect.
fn announce(server: &Server, runtime: &Runtime) {
    console::note(format_args!("ready, MariaDB {}, {}", keel_server::VERSION, runtime.reactor_name()));
    for address in server.addresses() {
        let listening = start::shown(address);
        match server.client_command(address) {
            Some(command) => console::note(format_args!("listening on {listening}    connect: {command}")),
            None => console::note(format_args!("listening on {listening}")),
        }
    }
}
