//! Which servers can be measured here: Keel itself, MariaDB and MySQL by their programs, and any server at an address.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use keel_testkit::client::{Address, Client, Login};

/// A kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// This project's server.
    Keel,
    /// MariaDB.
    MariaDb,
    /// MySQL.
    MySql,
    /// A server that runs elsewhere: it is measured as it is.
    Remote,
}

/// A server that arms can be made of.
#[derive(Debug, Clone)]
pub struct Engine {
    /// What it is.
    pub kind: Kind,
    /// `keel`, `mariadb`, `mysql`, or the address.
    pub name: String,
    /// Its program; empty for a remote one.
    pub program: PathBuf,
    /// What it says of its version.
    pub version: String,
    /// The commit that it was built of, where that is known.
    pub commit: Option<String>,
    /// Where and how to log in, of a remote one.
    pub remote: Option<(Address, Login)>,
}

/// What is left out of a run, and why.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Skipped {
    /// An engine or an arm.
    pub what: String,
    /// Why it cannot be had.
    pub why: String,
}

impl Skipped {
    /// Something left out.
    pub fn new(what: impl Into<String>, why: impl Into<String>) -> Skipped {
        Skipped { what: what.into(), why: why.into() }
    }
}

/// The engines that the words name (`keel,mariadb,mysql=PATH,host:3306`), or those that are here; and those that are not.
pub fn find(words: Option<&str>) -> Result<(Vec<Engine>, Vec<Skipped>), String> {
    let mut found = Vec::new();
    let mut skipped = Vec::new();
    for word in
        words.unwrap_or("keel,mariadb,mysql").split(',').map(str::trim).filter(|word| !word.is_empty())
    {
        let (name, path) = match word.split_once('=') {
            Some((name, path)) => (name, Some(PathBuf::from(path))),
            None => (word, None),
        };
        let engine = match name {
            "keel" => keel(path),
            "mariadb" => mariadb(path),
            "mysql" => mysql(path),
            _ if name.contains(':') && path.is_none() => remote(name)?,
            _ => {
                return Err(format!(
                    "no such engine: {word}; say keel, mariadb, mysql, NAME=PROGRAM or HOST:PORT"
                ));
            }
        };
        match engine {
            Ok(engine) => found.push(engine),
            Err(why) => skipped.push(Skipped::new(name, why)),
        }
    }
    Ok((found, skipped))
}

fn keel(path: Option<PathBuf>) -> Result<Engine, String> {
    let program = match path {
        Some(path) => path,
        None => env::current_exe().map_err(|error| error.to_string())?,
    };
    let mut engine = local(Kind::Keel, "keel", program)?;
    engine.commit = commit(&engine.program);
    Ok(engine)
}

fn mariadb(path: Option<PathBuf>) -> Result<Engine, String> {
    let lacks = "is not installed (Debian's package mariadb-server)";
    let program = path.or_else(|| in_path("mariadbd")).ok_or_else(|| format!("mariadbd {lacks}"))?;
    in_path("mariadb-install-db").ok_or_else(|| format!("mariadb-install-db {lacks}"))?;
    local(Kind::MariaDb, "mariadb", program)
}

fn mysql(path: Option<PathBuf>) -> Result<Engine, String> {
    let named = path.or_else(|| env::var_os("KEEL_LAB_MYSQL").map(PathBuf::from));
    let program = named.ok_or("no program named: --engines mysql=PATH or KEEL_LAB_MYSQL=PATH of a mysqld")?;
    let engine = local(Kind::MySql, "mysql", program)?;
    if engine.version.contains("MariaDB") {
        return Err(format!("{} is a MariaDB", engine.program.display()));
    }
    Ok(engine)
}

fn local(kind: Kind, name: &str, program: PathBuf) -> Result<Engine, String> {
    let output = Command::new(&program).arg("--version").output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_string();
    if !output.status.success() || version.is_empty() {
        return Err(format!("{} --version does not answer", program.display()));
    }
    Ok(Engine { kind, name: name.into(), program, version, commit: None, remote: None })
}

/// What keeps a password out of a file of settings, from which sysbench reads it so that no list of processes shows it.
fn unreadable(password: &str) -> Option<&'static str> {
    if password.starts_with('#') {
        return Some("begins with #");
    }
    password.contains(|c: char| c.is_whitespace() || c.is_control()).then_some("has white space")
}

/// A server at `host:port`; who logs in stands in `KEEL_LAB_USER` and `KEEL_LAB_PASSWORD`.
fn remote(word: &str) -> Result<Result<Engine, String>, String> {
    let (host, port) = word.rsplit_once(':').ok_or("an address is HOST:PORT")?;
    let port = port.parse().map_err(|_| format!("{word}: {port} is not a port"))?;
    let login = Login {
        user: env::var("KEEL_LAB_USER").unwrap_or_else(|_| "root".into()),
        password: env::var("KEEL_LAB_PASSWORD").unwrap_or_default(),
        ..Login::default()
    };
    if let Some(why) = unreadable(&login.password) {
        return Err(format!(
            "KEEL_LAB_PASSWORD {why}, which sysbench's settings cannot hold: use another account"
        ));
    }
    let address = Address::Tcp(host.into(), port);
    let client = match Client::connect(&address, &login) {
        Ok(client) => client,
        Err(error) => {
            return Ok(Err(format!(
                "{} cannot log in: {error} (KEEL_LAB_USER, KEEL_LAB_PASSWORD)",
                login.user
            )));
        }
    };
    let version = client.version.clone();
    let remote = Some((address, login));
    Ok(Ok(Engine {
        kind: Kind::Remote,
        name: word.into(),
        program: PathBuf::new(),
        version,
        commit: None,
        remote,
    }))
}

/// A program of the search path, or of the folders of system programs.
pub fn in_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The commit of the checkout that the program lies in, if it lies in one.
fn commit(program: &Path) -> Option<String> {
    let git = |folder: &Path| {
        let output =
            Command::new("git").arg("-C").arg(folder).args(["rev-parse", "--short=12", "HEAD"]).output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let here = Path::new("tools/lab/tpcc.lua").exists().then_some(Path::new("."));
    program.parent().and_then(git).or_else(|| here.and_then(git))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_left_out_and_said() {
        let (found, skipped) = find(Some("mysql=/nowhere/mysqld,keel=/nowhere/keel")).unwrap();
        assert!(found.is_empty());
        assert_eq!(
            skipped.iter().map(|skipped| skipped.what.as_str()).collect::<Vec<_>>(),
            ["mysql", "keel"]
        );
        assert!(skipped[0].why.contains("/nowhere/mysqld"), "{skipped:?}");
    }

    #[test]
    fn passwords_that_sysbench_would_read_as_others_are_refused() {
        for (password, fits) in
            [("p#w\"x'=\\", true), ("", true), ("#pw", false), ("p w", false), ("pw\n", false)]
        {
            assert_eq!(unreadable(password).is_none(), fits, "{password:?}");
        }
    }

    #[test]
    fn an_address_where_nobody_listens_is_left_out() {
        let (found, skipped) = find(Some("127.0.0.1:1")).unwrap();
        assert!(found.is_empty() && skipped[0].why.contains("cannot log in"), "{skipped:?}");
        assert!(find(Some("oracle")).is_err());
        assert!(find(Some("host:port")).is_err());
    }
}
