//! The accounts of a new data folder, who logs in with them, and what a client sees before it is logged in.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use keel_testkit::child::is_root;
use keel_testkit::client::{Address, Client, Login};
use keel_testkit::process::{Engine, Server, free_port, keel_binary, scratch_dir};

/// `keel serve` with nothing but its places and `options`.
struct Fresh {
    child: Child,
    dir: PathBuf,
    port: u16,
}

impl Fresh {
    fn start(dir: &Path, options: &[&str]) -> Fresh {
        let port = free_port();
        let log = fs::File::create(dir.join("log")).expect("a log");
        let child = Command::new(keel_binary())
            .arg("serve")
            .arg(format!("--datadir={}", dir.join("data").display()))
            .arg(format!("--socket={}", dir.join("s.sock").display()))
            .arg(format!("--port={port}"))
            .args(options)
            .stdin(Stdio::null())
            .stdout(log)
            .spawn()
            .expect("keel starts");
        let fresh = Fresh { child, dir: dir.to_path_buf(), port };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !fresh.log().contains("s.sock\n") && !fresh.log().contains("s.sock    connect") {
            assert!(Instant::now() < deadline, "{}", fresh.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        fresh
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).expect("a log")
    }

    fn login(&self, tcp: bool, user: &str, password: &str) -> io::Result<Client> {
        let login = Login { user: user.into(), password: password.into(), ..Login::default() };
        let address = match tcp {
            true => Address::Tcp("127.0.0.1".into(), self.port),
            false => Address::Unix(self.dir.join("s.sock")),
        };
        Client::connect(&address, &login)
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn me() -> String {
    let output = Command::new("id").arg("-un").output().expect("id");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

fn refusal(tried: io::Result<Client>) -> String {
    tried.err().expect("refused").to_string()
}

const NAMES: &str = "SELECT CONCAT(User, '@', Host) FROM mysql.user WHERE User <> 'PUBLIC' ORDER BY 1";

fn names(client: &mut Client) -> Vec<String> {
    client.run(NAMES).expect("select").strings().concat()
}

#[test]
fn new_folder_has_accounts_by_unix_socket_only() {
    let dir = scratch_dir("fresh");
    let fresh = Fresh::start(&dir, &[]);
    let me = me();
    let mut client = fresh.login(false, &me, "").expect("the owner logs in");
    let mut wanted = vec!["root@localhost".to_string(), format!("{me}@localhost")];
    wanted.sort();
    wanted.dedup();
    assert_eq!(names(&mut client), wanted);
    let shown = client.run("SHOW CREATE USER root@localhost").expect("shows").strings().concat().concat();
    assert!(shown.contains("IDENTIFIED VIA mysql_native_password USING 'invalid' OR unix_socket"), "{shown}");
    let grants = client.run("SHOW GRANTS").expect("shows").strings().concat().concat();
    assert!(grants.contains("GRANT ALL PRIVILEGES ON *.*") && grants.contains("GRANT PROXY"), "{grants}");
    for user in ["root", me.as_str()] {
        for password in ["", "x", "invalid"] {
            let said = refusal(fresh.login(true, user, password));
            assert!(said.contains("1698"), "{user}: {said}");
        }
    }
    let log = fresh.log();
    assert!(log.contains("made root@localhost") && log.contains(&format!("-u{me}")), "{log}");
    assert_eq!(log.contains("warning: started as the system's root"), is_root(), "{log}");
    drop((client, fresh));
    fs::remove_dir_all(dir).ok();
}

#[test]
fn other_users_of_the_machine_are_not_root() {
    if !is_root() {
        return;
    }
    let dir = scratch_dir("peers");
    let fresh = Fresh::start(&dir, &[]);
    fs::set_permissions(&dir, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("is ours");
    let mut root = fresh.login(false, "root", "").expect("root logs in");
    for sql in [
        "CREATE USER nobody@localhost IDENTIFIED VIA unix_socket",
        "CREATE USER other@localhost IDENTIFIED VIA unix_socket AS 'nobody'",
        "CREATE USER mixed@localhost IDENTIFIED VIA unix_socket OR mysql_native_password USING PASSWORD('pw')",
    ] {
        root.run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    let socket = format!("-S{}", dir.join("s.sock").display());
    let tcp = format!("-P{}", fresh.port);
    for (words, user, password, wanted) in [
        (&[socket.as_str()][..], "nobody", "", "nobody@localhost"),
        (&[&socket], "root", "", "ERROR 1698 (28000)"),
        (&[&socket], "other", "", "ERROR 1698 (28000)"),
        (&[&socket], "mixed", "pw", "mixed@localhost"),
        (&[&socket], "mixed", "", "ERROR 1698 (28000)"),
        (&["-h127.0.0.1", &tcp], "nobody", "", "ERROR 1698 (28000)"),
        (&["-h127.0.0.1", &tcp], "mixed", "pw", "mixed@localhost"),
    ] {
        let output = Command::new("setpriv")
            .args(["--reuid=nobody", "--clear-groups", "mariadb", "--no-defaults", "-N", "-u", user])
            .args(words)
            .args([&format!("--password={password}"), "-eSELECT CURRENT_USER()"])
            .output()
            .expect("setpriv runs");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(said.starts_with(wanted), "{user} {words:?}: {said}");
    }
    drop((root, fresh));
    fs::remove_dir_all(dir).ok();
}

fn keel(words: &[&str]) -> Output {
    Command::new(keel_binary()).args(words).output().expect("keel runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

#[test]
fn init_makes_accounts_that_later_options_do_not_change() {
    let dir = scratch_dir("init");
    let data = dir.join("data").display().to_string();
    let file = dir.join("password");
    fs::write(&file, "se cret\n").expect("write");
    let option = format!("--initial-password-file={}", file.display());
    let done = keel(&["init", &data, &option]);
    assert!(done.status.success() && text(&done).contains("password from"), "{}", text(&done));
    let again = keel(&["init", &data, "--initialize-insecure"]);
    assert!(again.status.success(), "{}", text(&again));
    assert!(text(&again).contains("initialize_insecure: no effect because"), "{}", text(&again));
    fs::remove_file(&file).expect("removes");
    let fresh = Fresh::start(&dir, &[&option]);
    assert!(fresh.log().contains("no effect because the data folder has its accounts"), "{}", fresh.log());
    assert!(refusal(fresh.login(true, "root", "")).contains("1045"));
    assert!(refusal(fresh.login(true, "root", "se cret\n")).contains("1045"));
    let mut client = fresh.login(true, "root", "se cret").expect("root logs in");
    assert_eq!(names(&mut client), ["root@127.0.0.1", "root@::1", "root@localhost"]);
    drop((client, fresh));
    let missing = dir.join("other").display().to_string();
    let failed = keel(&["init", &missing, &option]);
    assert!(
        !failed.status.success() && text(&failed).contains("no password for root in"),
        "{}",
        text(&failed)
    );
    let both = keel(&["init", &missing, &option, "--initialize-insecure"]);
    assert!(!both.status.success() && text(&both).contains("cannot be used with"), "{}", text(&both));
    assert!(!keel(&["init"]).status.success());
    fs::remove_dir_all(dir).ok();
}

#[test]
fn insecure_start_makes_root_without_a_password() {
    let dir = scratch_dir("insecure");
    let fresh = Fresh::start(&dir, &["--initialize-insecure"]);
    assert!(fresh.log().contains("warning: made root without a password"), "{}", fresh.log());
    let mut client = fresh.login(true, "root", "").expect("root logs in");
    assert_eq!(names(&mut client), ["root@127.0.0.1", "root@::1", "root@localhost"]);
    drop((client, fresh));
    fs::remove_dir_all(dir).ok();
}

/// A raw connection over TCP.
struct Wire(TcpStream);

impl Wire {
    fn open(server: &Server) -> Wire {
        let stream = TcpStream::connect(("127.0.0.1", server.port)).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        let mut wire = Wire(stream);
        wire.receive().expect("a greeting");
        wire
    }

    fn send(&mut self, sequence: u8, payload: &[u8]) {
        let mut packet = (payload.len() as u32).to_le_bytes();
        packet[3] = sequence;
        // A server that has refused may have closed already.
        let _ = self.0.write_all(&[&packet, payload].concat());
    }

    /// The next packet with its sequence number.
    fn receive(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 4];
        self.0.read_exact(&mut head).ok()?;
        let mut payload = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
        self.0.read_exact(&mut payload).ok()?;
        Some((head[3], payload))
    }
}

#[test]
fn health_checks_by_the_old_protocol_are_answered_as_by_mariadb() {
    let keel = Server::start(Engine::Keel, &[]).expect("keel starts");
    let maria = Server::start(Engine::MariaDb, &[]).expect("mariadb starts");
    for server in [&keel, &maria] {
        let mut root = server.client().expect("connects");
        root.run("CREATE USER check_me").expect("create");
        root.run("CREATE USER guarded IDENTIFIED BY 'pw'").expect("create");
    }
    let with_user = |head: &[u8], user: &str, tail: &[u8]| [head, user.as_bytes(), tail].concat();
    let mut responses = vec![
        with_user(b"\x00\x80\x00\x00\x01", "check_me", b""),
        b"\x00\x80\x00\x00".to_vec(),
        b"\x00\x80\x00\x00\x01".to_vec(),
        b"\x01".to_vec(),
        b"".to_vec(),
    ];
    for user in ["check_me", "guarded"] {
        for (head, tail) in [
            (&b"\x00\x80\x00\x00\x01"[..], &b"\0\0"[..]),
            (b"\x00\x80\x00\x00\x01", b"\0"),
            (b"\x00\x00\x00\x00\x01", b"\0"),
            (b"\x00\x00\x00\x00\x01", b"\0\0"),
            (b"\x00\x00\x00\x00\x01", b"\0abcdefgh\0"),
            (b"\x08\x00\x00\x00\x01", b"\0\0nosuch\0"),
        ] {
            responses.push(with_user(head, user, tail));
        }
    }
    for response in responses {
        let answers = [&keel, &maria].map(|server| {
            let mut wire = Wire::open(server);
            wire.send(1, &response);
            let first = wire.receive();
            wire.send(0, b"\x0e");
            let pong = wire.receive();
            wire.send(0, b"\x01");
            (first, pong, wire.receive())
        });
        assert_eq!(answers[0], answers[1], "{:?}", String::from_utf8_lossy(&response));
    }
}

/// What a client sees that says it is `user` and answers with `plugin`: kinds and names, not challenges.
fn dialogue(server: &Server, user: &str, plugin: &str, answer: &[u8]) -> Vec<String> {
    let mut wire = Wire::open(server);
    let mut response = b"\x00\xa2\x08\x00\x00\x00\x00\x01\x21".to_vec();
    response.extend_from_slice(&[0; 23]);
    response.extend_from_slice(user.as_bytes());
    response.push(0);
    response.push(answer.len() as u8);
    response.extend_from_slice(answer);
    response.extend_from_slice(plugin.as_bytes());
    response.push(0);
    wire.send(1, &response);
    let mut seen = Vec::new();
    while let Some((sequence, payload)) = wire.receive() {
        let is_switch = payload.first() == Some(&0xfe);
        let end = if is_switch { payload.iter().position(|b| *b == 0).unwrap_or(0) } else { payload.len() };
        let said = String::from_utf8_lossy(&payload[..end]).replace(user, "USER");
        seen.push(format!("{said} {}", payload.len() - (payload.len() - end) * usize::from(!is_switch)));
        if payload.first() == Some(&0xff) || payload.first() == Some(&0) {
            break;
        }
        wire.send(sequence + 1, &vec![7; if is_switch && said.contains("ed25519") { 64 } else { 20 }]);
    }
    seen
}

#[test]
fn unknown_names_are_asked_as_the_accounts_are() {
    for plugin in ["mysql_native_password", "ed25519", "caching_sha2_password"] {
        let server = Server::start(Engine::Keel, &[]).expect("starts");
        let mut root = server.client().expect("connects");
        let create = format!("VIA {plugin} USING PASSWORD('secret')");
        root.run(&format!("CREATE USER known@'%' IDENTIFIED {create}")).expect("create");
        // The only way that accounts have.
        for host in ["localhost", "127.0.0.1", "::1"] {
            root.run(&format!("ALTER USER root@'{host}' IDENTIFIED {create}")).expect("alter");
        }
        for (first, answer) in [
            ("mysql_native_password", &[7u8; 20][..]),
            ("mysql_native_password", &[]),
            ("client_ed25519", &[]),
            ("caching_sha2_password", &[7; 32]),
            ("caching_sha2_password", &[]),
        ] {
            let known = dialogue(&server, "known", first, answer);
            for user in ["other", "fifth", "wrong"] {
                let unknown = dialogue(&server, user, first, answer);
                assert_eq!(unknown, known, "{plugin}, {user} answers by {first}");
            }
        }
    }
}
