//! Files of the server that statements read and write: LOAD DATA INFILE, SELECT ... INTO OUTFILE and DUMPFILE, LOAD_FILE().
//!
//! 1. A name without a folder stands in the folder of the default database, all others count from the data folder, as in
//!    MariaDB. Folders of databases hold such files only and are made when the first one is written.
//! 2. Where `secure_file_priv` names a folder, no file outside of it is used. What the server itself keeps in the data
//!    folder is never used: 1290.
//! 3. Who uses files has the privilege FILE: 1045 where they are read, 1227 where they are written.
//!
//! All calls park the fiber while the kernel works.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use keel_base::{SqlError, SqlResult, errors};
use keel_catalog::account::Privileges;
use keel_storage::runtime::fs::{self, File, OpenOptions, Sync};
use keel_storage::runtime::wait::WaitEvent;

use crate::rights::require_global;
use crate::{Env, FileRules};

/// The folder of the data folder in which the engine keeps its trees.
const TREES: &str = "trees";

/// Bytes written at once.
const WRITE_BYTES: usize = 64 << 10;

/// 1227 for who may not write files.
pub fn require_to_write(env: &Env) -> SqlResult<()> {
    require_global(env, Privileges::FILE)
}

/// 1045 for who may not read files.
pub fn require_to_read(env: &Env) -> SqlResult<()> {
    let access = &env.access;
    if access.global.has(Privileges::FILE) {
        return Ok(());
    }
    Err(errors::access_denied(&access.user, &access.host, if access.with_password { "YES" } else { "NO" }))
}

/// What the kernel said, without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_string()
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(match error.kind() {
        io::ErrorKind::NotFound => 2,
        _ => 5,
    })
}

/// The folder of a database: letters, digits and underscores as they are, all else by its number, as MariaDB names it.
fn folder_of(database: &str) -> String {
    let mut name = String::with_capacity(database.len());
    for ch in database.chars() {
        match ch {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => name.push(ch),
            other => name.push_str(&format!("@{:04x}", u32::from(other))),
        }
    }
    name
}

/// Where a file is that a statement names.
fn resolve(env: &Env, rules: &FileRules, name: &[u8]) -> PathBuf {
    let path = Path::new(OsStr::from_bytes(name));
    match &env.database {
        Some(database) if !name.contains(&b'/') => rules.data_folder.join(folder_of(database)).join(path),
        _ => rules.data_folder.join(path),
    }
}

/// Whether a file may be used. One that is not there is judged by its folder, which must be.
fn is_permitted(rules: &FileRules, path: &Path) -> bool {
    let whole = fs::canonical(path).ok();
    let folder = match &whole {
        Some(whole) => whole.parent().map(Path::to_path_buf),
        None => path.parent().and_then(|parent| fs::canonical(parent).ok()),
    };
    let Some(folder) = folder else { return false };
    let Ok(data) = fs::canonical(&rules.data_folder) else { return false };
    let trees = data.join(TREES);
    if folder == data || folder.starts_with(fs::canonical(&trees).unwrap_or(trees)) {
        return false;
    }
    match &rules.only {
        None => true,
        Some(only) => fs::canonical(only).is_ok_and(|only| folder.starts_with(only)),
    }
}

fn not_permitted() -> SqlError {
    errors::option_prevents_statement("--secure-file-priv")
}

/// Opens a file for LOAD DATA: 1290, 13 where there is none, 1085 where it is no regular one, 29.
pub fn open(env: &Env, name: &[u8]) -> SqlResult<InputFile> {
    require_to_read(env)?;
    let rules = env.server.file_rules();
    let path = resolve(env, &rules, name);
    if !is_permitted(&rules, &path) {
        return Err(not_permitted());
    }
    let shown = path.display();
    let status = fs::status(&path).map_err(|e| errors::ee_stat(&shown, errno(&e), reason(&e)))?;
    if !status.is_file {
        return Err(errors::textfile_not_readable(shown));
    }
    let file = File::open(&path, &OpenOptions::reading())
        .map_err(|e| errors::ee_filenotfound(&shown, errno(&e), reason(&e)))?;
    Ok(InputFile { file: file.with_event(WaitEvent::FileSystem), path, offset: 0 })
}

/// A file being read from its start.
pub struct InputFile {
    file: File,
    path: PathBuf,
    offset: u64,
}

impl InputFile {
    /// Appends up to `bytes` to `out`; false at the end.
    pub fn read(&mut self, out: &mut Vec<u8>, bytes: usize) -> SqlResult<bool> {
        let before = out.len();
        out.resize(before + bytes, 0);
        let read = self.file.read_some_at(&mut out[before..], self.offset);
        let count = read.map_err(|e| errors::ee_read(self.path.display(), errno(&e), reason(&e)))?;
        out.truncate(before + count);
        self.offset += count as u64;
        Ok(count > 0)
    }
}

/// LOAD_FILE(): the content, or none where it may not be read or is none. 1301 as a warning where it is too long.
pub(crate) fn content(env: &mut Env, name: &[u8]) -> SqlResult<Option<Vec<u8>>> {
    if !env.access.global.has(Privileges::FILE) || name.contains(&0) {
        return Ok(None);
    }
    let rules = env.server.file_rules();
    let path = rules.data_folder.join(Path::new(OsStr::from_bytes(name)));
    if !is_permitted(&rules, &path) {
        return Ok(None);
    }
    let Ok(status) = fs::status(&path) else { return Ok(None) };
    if !status.is_file || !status.is_public {
        return Ok(None);
    }
    let max = env.vars.max_allowed_packet;
    if status.len > max {
        env.warn(errors::warn_allowed_packet_overflowed("load_file", max));
        return Ok(None);
    }
    let Ok(file) = File::open(&path, &OpenOptions::reading()) else { return Ok(None) };
    let mut bytes = vec![0; status.len as usize];
    let read = file.with_event(WaitEvent::FileSystem).read_some_at(&mut bytes, 0);
    let Ok(count) = read else { return Ok(None) };
    bytes.truncate(count);
    Ok(Some(bytes))
}

/// A file being made.
pub struct OutputFile {
    file: File,
    path: PathBuf,
    offset: u64,
    /// What is not written yet.
    pub buffer: Vec<u8>,
}

impl OutputFile {
    /// Makes a file that was not there: 1086 where it was, 1290, 1.
    pub fn create(env: &Env, name: &[u8]) -> SqlResult<OutputFile> {
        require_to_write(env)?;
        let exists = || errors::file_exists_error(String::from_utf8_lossy(name));
        if name.is_empty() {
            return Err(exists());
        }
        let rules = env.server.file_rules();
        let path = resolve(env, &rules, name);
        if let (Some(database), false) = (&env.database, name.contains(&b'/')) {
            // Where that fails, so does what follows.
            let _ = fs::create_dir_all(&rules.data_folder.join(folder_of(database)));
        }
        if !is_permitted(&rules, &path) {
            return Err(not_permitted());
        }
        let options = OpenOptions { write: true, create_new: true, public: true, ..OpenOptions::default() };
        let file = File::open(&path, &options).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => exists(),
            _ => errors::ee_cantcreatefile(path.display(), errno(&e), reason(&e)),
        })?;
        let file = file.with_event(WaitEvent::FileSystem);
        Ok(OutputFile { file, path, offset: 0, buffer: Vec::with_capacity(WRITE_BYTES * 2) })
    }

    /// Writes what the buffer holds, if it is much.
    pub fn settle(&mut self) -> SqlResult<()> {
        if self.buffer.len() < WRITE_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> SqlResult<()> {
        let written = self.file.write_at(&self.buffer, self.offset, Sync::None);
        written.map_err(|e| errors::ee_write(self.path.display(), errno(&e), reason(&e)))?;
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        self.buffer.shrink_to(WRITE_BYTES * 2);
        Ok(())
    }

    /// Ends the file: what a failed statement has made of it is removed.
    pub fn finish<T>(mut self, result: SqlResult<T>) -> SqlResult<T> {
        let result = result.and_then(|value| self.flush().map(|()| value));
        if result.is_err() {
            let _ = fs::remove_file(&self.path);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_databases_have_plain_names() {
        assert_eq!(folder_of("test_1"), "test_1");
        assert_eq!(folder_of("../a-b"), "@002e@002e@002fa@002db");
    }

    #[test]
    fn messages_hold_what_the_kernel_said() {
        let error = io::Error::from_raw_os_error(2);
        assert_eq!((errno(&error), reason(&error).as_str()), (2, "No such file or directory"));
    }
}
