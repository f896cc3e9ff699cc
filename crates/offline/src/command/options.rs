//! The options of an inspection.

use std::path::PathBuf;

/// Parses a size in bytes: digits and an optional suffix K, M, G, T, P or E.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let size = keel_base::parse_size(text)?;
    (size >= 0).then(|| u64::try_from(size).unwrap_or(u64::MAX))
}

/// The format of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One line of text for each finding.
    Text,
    /// One JSON object for each finding.
    Json,
}

/// The options of an inspection.
#[derive(Debug, Clone)]
pub struct InspectOptions {
    /// The data folder.
    pub folder: PathBuf,
    /// The output folder of a salvage.
    pub out: Option<PathBuf>,
    /// Memory for pages, in bytes.
    pub memory: u64,
    /// Folder for temporary files.
    pub temporary: PathBuf,
    /// The format of findings.
    pub format: Format,
    /// Print findings only, without summary and progress.
    pub silent: bool,
}

impl InspectOptions {
    /// The defaults for `folder`.
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
