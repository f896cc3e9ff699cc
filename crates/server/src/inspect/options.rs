//! Options of `keel check`, spelled as MariaDB's programs spell theirs.

use std::path::PathBuf;

use keel_value::Value;

use super::CannotInspect;
use crate::variables::value::parse_size;

/// `keel check --help`.
pub const CHECK_USAGE: &str = "\
usage: keel check DIR [options]

Verifies the data folder of a stopped server: log, checksums and structure of every page, every index against the rows,
every version chain, the catalog against the files. Nothing in DIR is written. After a crash the log is applied to copies
of the pages in a temporary file, and what the next start would find is verified.

  --innodb-buffer-pool-size=N   memory for pages that are read here and there (default 128M)
  --tmpdir=DIR                  where copies of pages go that the log changes (default $TMPDIR, else /tmp)
  --format=text|json            one line of text, or one JSON object, for each finding (default text)
  --silent                      findings only, no summary and no progress

Exit code: 0 nothing is wrong, 1 something is damaged, 2 the folder cannot be checked.";

/// `keel salvage --help`.
pub const SALVAGE_USAGE: &str = "\
usage: keel salvage DIR OUT [options]

Reads what can be read of a damaged data folder and writes a file of SQL for each table into OUT, a new or empty folder: CREATE
TABLE and INSERTs that Keel and MariaDB load. Pages that no other page leads to any more are used by what they say of
themselves; rows of lost pages come from an index where it holds all columns, else what it holds stands in comments. What is
lost is said by key ranges. Nothing in DIR is written. Options are those of keel check, and --out=OUT.

Exit code: 0 all was read, 1 something is lost or damaged, 2 nothing can be read.";

/// How findings are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A line for people.
    Text,
    /// A line for programs.
    Json,
}

/// What the command line says.
#[derive(Debug, Clone)]
pub struct InspectOptions {
    /// The data folder.
    pub folder: PathBuf,
    /// Where a salvage writes.
    pub out: Option<PathBuf>,
    /// Memory for pages.
    pub memory: u64,
    /// Folder for temporary files.
    pub temporary: PathBuf,
    /// How findings are printed.
    pub format: Format,
    /// Findings only.
    pub silent: bool,
}

impl InspectOptions {
    /// The defaults for a folder.
    pub fn new(folder: PathBuf) -> InspectOptions {
        InspectOptions {
            folder,
            out: None,
            memory: 128 << 20,
            temporary: std::env::temp_dir(),
            format: Format::Text,
            silent: false,
        }
    }

    /// Reads a command line without its first words; a salvage has a second folder.
    pub fn parse(args: &[String], has_out: bool) -> Result<InspectOptions, CannotInspect> {
        let mut options = InspectOptions::new(PathBuf::new());
        for word in args {
            let Some(option) = word.strip_prefix("--") else {
                if has_out && options.out.is_none() && !options.folder.as_os_str().is_empty() {
                    options.out = Some(word.into());
                } else {
                    options.take_folder(word)?;
                }
                continue;
            };
            if let (true, Some(out)) = (has_out, option.strip_prefix("out=")) {
                options.out = Some(out.into());
                continue;
            }
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            options.take(&name.replace('-', "_"), value, word)?;
        }
        if options.folder.as_os_str().is_empty() {
            return Err(CannotInspect("which data folder? try --help".into()));
        }
        match has_out && options.out.is_none() {
            true => Err(CannotInspect("where to write? try --help".into())),
            false => Ok(options),
        }
    }

    fn take_folder(&mut self, folder: &str) -> Result<(), CannotInspect> {
        if !self.folder.as_os_str().is_empty() {
            return Err(CannotInspect(format!("one data folder at a time, '{folder}' is a second")));
        }
        self.folder = folder.into();
        Ok(())
    }

    fn take(&mut self, name: &str, value: &str, word: &str) -> Result<(), CannotInspect> {
        let wrong = || CannotInspect(format!("'{word}' is not usable; try --help"));
        match name {
            "datadir" => return self.take_folder(value),
            "innodb_buffer_pool_size" => {
                self.memory = match parse_size(value) {
                    Some(Value::Int(size)) => u64::try_from(size).map_err(|_| wrong())?,
                    Some(Value::UInt(size)) => size,
                    _ => return Err(wrong()),
                };
            }
            "tmpdir" if !value.is_empty() => self.temporary = value.into(),
            "format" if value == "text" => self.format = Format::Text,
            "format" if value == "json" => self.format = Format::Json,
            "silent" if value.is_empty() => self.silent = true,
            _ => return Err(wrong()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<InspectOptions, String> {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        InspectOptions::parse(&words, false).map_err(|error| error.0)
    }

    #[test]
    fn a_salvage_has_two_folders() {
        let parse = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
            InspectOptions::parse(&words, true).map(|options| options.out).map_err(|error| error.0)
        };
        assert_eq!(parse(&["/d", "/out"]), Ok(Some("/out".into())));
        assert_eq!(parse(&["--out=/out", "/d"]), Ok(Some("/out".into())));
        assert!(parse(&["/d"]).is_err() && parse(&["/d", "/o", "/x"]).is_err());
    }

    #[test]
    fn options_are_spelled_as_mariadb_does() {
        let options = parse(&["/d", "--innodb-buffer-pool-size=64M", "--format=json", "--silent"]).unwrap();
        assert_eq!((options.folder.to_str(), options.memory), (Some("/d"), 64 << 20));
        assert!(options.silent && options.format == Format::Json);
        assert_eq!(parse(&["--datadir=/d"]).unwrap().folder.to_str(), Some("/d"));
        assert!(parse(&[]).is_err() && parse(&["/a", "/b"]).is_err());
        assert_eq!(parse(&["/d", "--force"]).unwrap_err(), "'--force' is not usable; try --help");
    }
}
