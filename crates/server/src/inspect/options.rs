//! What an inspection is asked to do. The command line is the command's affair.

use std::path::PathBuf;

use keel_value::Value;

use keel_settings::variables::value::parse_size;

/// A size in bytes as options write it: digits and a suffix K, M, G, T, P or E.
pub fn parse_bytes(text: &str) -> Option<u64> {
    match parse_size(text)? {
        Value::UInt(size) => Some(size),
        Value::Int(size) => u64::try_from(size).ok(),
        _ => None,
    }
}

/// How findings are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One line of text for each finding.
    Text,
    /// One JSON object for each finding.
    Json,
}

/// What to inspect, and how.
#[derive(Debug, Clone)]
pub struct InspectOptions {
    /// The data folder.
    pub folder: PathBuf,
    /// Where a salvage writes.
    pub out: Option<PathBuf>,
    /// Memory for pages, in bytes.
    pub memory: u64,
    /// Folder for temporary files.
    pub temporary: PathBuf,
    /// How findings are printed.
    pub format: Format,
    /// Findings only, no summary and no progress.
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
}
