//! The command line. `clap` parses every command except `serve`, whose options are MariaDB's and are parsed by the server.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use keel_offline::command::{Format, InspectOptions, parse_bytes};

/// An OLTP database server that speaks MariaDB's protocol and SQL.
#[derive(Debug, Parser)]
#[command(
    name = "keel",
    disable_version_flag = true,
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// Print the version.
    #[arg(short = 'V', long)]
    pub version: bool,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What `keel` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Runs the server. Without options: data in ./keel-data, 127.0.0.1:3306 and a socket in the data folder.
    #[command(disable_help_flag = true)]
    Serve(ServeArgs),
    /// Makes a data folder and its accounts without serving it. An existing folder keeps its accounts.
    ///
    /// The accounts are root@localhost and USER@localhost, where USER owns the folder. Each accepts only the operating
    /// system's user of its name at the socket.
    #[command(after_help = "Exit status: 0 the folder has its accounts, 1 it could not be made.")]
    Init(InitArgs),
    /// Verifies the data folder of a stopped server.
    ///
    /// Verifies log, checksums and structure of every page, every index against the rows, every version chain, and the
    /// catalog against the files. Nothing in DIR is written. After a crash the log is applied to copies of the pages in a
    /// temporary file, and the state that the next start would find is verified.
    #[command(
        after_help = "Exit status: 0 nothing is wrong, 1 something is damaged, 2 the folder cannot be checked."
    )]
    Check(InspectArgs),
    /// Writes the readable rows of a damaged data folder as SQL.
    ///
    /// Writes a file of SQL for each table into OUT, a new or empty folder: CREATE TABLE and INSERTs that Keel and MariaDB
    /// load. Pages that no other page refers to are used by their own headers. Rows of lost pages come from an index that
    /// holds all columns; the values of other indexes are written as comments. Lost rows are reported as key ranges.
    /// Nothing in DIR is written.
    #[command(
        after_help = "Exit status: 0 every row was read, 1 something is lost or damaged, 2 nothing can be read."
    )]
    Salvage(SalvageArgs),
    /// Runs experiments with this and other servers, side by side.
    #[command(subcommand)]
    Lab(keel_lab::cli::Command),
}

/// The server's own options; `--help` among them.
#[derive(Debug, Args)]
pub struct ServeArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    pub options: Vec<String>,
}

/// Options of `keel init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// The data folder.
    #[arg(value_name = "DIR", required_unless_present = "datadir", conflicts_with = "datadir")]
    folder: Option<String>,
    /// The data folder, as the server's option names it.
    #[arg(long, value_name = "DIR")]
    datadir: Option<String>,
    /// Make root without a password, for connections from this machine, and no other account.
    #[arg(long, alias = "initialize_insecure", conflicts_with = "initial_password_file")]
    initialize_insecure: bool,
    /// Make root with the password in FILE, for connections from this machine, and no other account.
    #[arg(long, alias = "initial_password_file", value_name = "FILE")]
    initial_password_file: Option<String>,
    /// Options of `keel serve`.
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<String>,
}

impl InitArgs {
    /// The options of the server that makes the folder.
    pub fn options(self) -> Vec<String> {
        let mut words = self.options;
        words.extend(self.folder.or(self.datadir).map(|folder| format!("--datadir={folder}")));
        words.extend(self.initialize_insecure.then(|| "--initialize-insecure".to_string()));
        words.extend(self.initial_password_file.map(|file| format!("--initial-password-file={file}")));
        words
    }
}

/// Options of both inspections.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The data folder.
    #[arg(value_name = "DIR", required_unless_present = "datadir", conflicts_with = "datadir")]
    folder: Option<PathBuf>,
    /// The data folder, as the server's option names it.
    #[arg(long, value_name = "DIR")]
    datadir: Option<PathBuf>,
    /// Memory for pages that are read in random order.
    #[arg(long, alias = "innodb_buffer_pool_size", value_name = "SIZE", default_value = "128M", value_parser = size)]
    innodb_buffer_pool_size: u64,
    /// Folder for copies of the pages that the log changes; $TMPDIR or /tmp by default.
    #[arg(long, value_name = "DIR")]
    tmpdir: Option<PathBuf>,
    /// How findings are printed.
    #[arg(long, value_enum, default_value = "text")]
    format: Shape,
    /// Print findings only, no summary and no progress.
    #[arg(long)]
    silent: bool,
}

/// Options of a salvage.
#[derive(Debug, Args)]
pub struct SalvageArgs {
    #[command(flatten)]
    inspect: InspectArgs,
    /// The folder to write to.
    #[arg(value_name = "OUT", required_unless_present = "output", conflicts_with = "output")]
    out: Option<PathBuf>,
    /// The folder to write to, as an option.
    #[arg(id = "output", long = "out", value_name = "OUT")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shape {
    /// A line of text for each finding.
    Text,
    /// A JSON object for each finding.
    Json,
}

/// A size with MariaDB's suffixes K, M, G, T.
fn size(text: &str) -> Result<u64, String> {
    parse_bytes(text).ok_or_else(|| "not a size; write 64M or 1G".into())
}

impl InspectArgs {
    /// The inspection that these options ask for.
    pub fn options(self) -> InspectOptions {
        let folder = self.folder.or(self.datadir).unwrap_or_default();
        let defaults = InspectOptions::new(folder);
        InspectOptions {
            memory: self.innodb_buffer_pool_size,
            temporary: self.tmpdir.unwrap_or(defaults.temporary),
            format: match self.format {
                Shape::Text => Format::Text,
                Shape::Json => Format::Json,
            },
            silent: self.silent,
            ..defaults
        }
    }
}

impl SalvageArgs {
    /// The salvage that these options ask for. With `--out` and one folder, that folder is the data folder.
    pub fn options(self) -> InspectOptions {
        InspectOptions { out: self.out.or(self.output), ..self.inspect.options() }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(words: &[&str]) -> Result<InspectOptions, clap::Error> {
        let cli = Cli::try_parse_from(std::iter::once(&"keel").chain(words))?;
        match cli.command {
            Some(Command::Check(args)) => Ok(args.options()),
            Some(Command::Salvage(args)) => Ok(args.options()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn check_takes_mariadb_spellings() {
        let options =
            parse(&["check", "/d", "--innodb-buffer-pool-size=64M", "--format=json", "--silent"]).unwrap();
        assert_eq!((options.folder.to_str(), options.memory), (Some("/d"), 64 << 20));
        assert!(options.silent && options.format == Format::Json);
        assert_eq!(parse(&["check", "--innodb_buffer_pool_size", "1G", "/d"]).unwrap().memory, 1 << 30);
        assert_eq!(parse(&["check", "--datadir=/d"]).unwrap().folder.to_str(), Some("/d"));
        for bad in [
            &["check"][..],
            &["check", "/a", "/b"],
            &["check", "/d", "--force"],
            &["check", "/d", "--format=x"],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn salvage_takes_two_folders() {
        let out = |words: &[&str]| parse(words).map(|options| (options.folder, options.out)).ok();
        let both = Some(("/d".into(), Some("/out".into())));
        assert_eq!(out(&["salvage", "/d", "/out"]), both);
        assert_eq!(out(&["salvage", "--out=/out", "/d"]), both);
        assert_eq!(out(&["salvage", "/d"]), None);
        assert_eq!(out(&["salvage", "/d", "/o", "/x"]), None);
    }

    #[test]
    fn serve_passes_its_options_on() {
        let cli = Cli::try_parse_from(["keel", "serve", "--port=3307", "--help", "--loose-x"]).unwrap();
        let Some(Command::Serve(serve)) = cli.command else { panic!("not serve") };
        assert_eq!(serve.options, ["--port=3307", "--help", "--loose-x"]);
    }
    #[test]
    fn init_takes_a_folder_and_one_way_for_root() {
        let words = |words: &[&str]| match Cli::try_parse_from(["keel", "init"].iter().chain(words)) {
            Ok(Cli { command: Some(Command::Init(args)), .. }) => Some(args.options()),
            _ => None,
        };
        assert_eq!(words(&["/d"]).unwrap(), ["--datadir=/d"]);
        assert_eq!(
            words(&["--initialize_insecure", "--datadir", "/d"]).unwrap(),
            ["--datadir=/d", "--initialize-insecure"]
        );
        assert_eq!(
            words(&["/d", "--initial-password-file", "f", "--", "--no-defaults"]).unwrap(),
            ["--no-defaults", "--datadir=/d", "--initial-password-file=f"]
        );
        let both = &["/d", "--initialize-insecure", "--initial-password-file=f"][..];
        for bad in [&[][..], &["/d", "--port=1"], &["/d", "--datadir=/e"], both] {
            assert_eq!(words(bad), None, "{bad:?}");
        }
    }
}
