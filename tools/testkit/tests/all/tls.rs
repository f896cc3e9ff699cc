//! TLS, compression and `caching_sha2_password`, as the `mariadb` client and PyMySQL use them; beside MariaDB where it has the
//! same. Certificates are made by `openssl`.

use keel_testkit::process::{Engine, Server, feed, scratch_dir};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_string()
}

/// What a client says: its rows, or its error.
fn said(output: &Output) -> String {
    if output.status.success() { text(&output.stdout) } else { text(&output.stderr) }
}

fn mariadb(server: &Server, args: &[&str], input: &str) -> Output {
    let mut child = Command::new("mariadb")
        .args(["--no-defaults", "-N", "-h127.0.0.1", "--protocol=tcp"])
        .arg(format!("-P{}", server.port))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the mariadb client is installed");
    feed(&mut child, input.as_bytes());
    child.wait_with_output().expect("ends")
}

fn openssl(folder: &Path, words: &str) {
    let output = Command::new("openssl").args(words.split_whitespace()).current_dir(folder).output();
    let output = output.expect("openssl is installed");
    assert!(output.status.success(), "{words}: {}", text(&output.stderr));
}

/// A folder with an authority, a server's certificate, clients' certificates of versions 1 and 3, one of a stranger, and a
/// list that revokes the client `gone`.
fn certificates() -> PathBuf {
    let folder = scratch_dir("certificates");
    fs::write(folder.join("v3"), "basicConstraints=CA:FALSE\nsubjectAltName=DNS:localhost\n")
        .expect("writes");
    fs::write(
        folder.join("ca.cnf"),
        "[ca]\ndefault_ca=c\n[c]\ndatabase=index\ndefault_md=sha256\ndefault_crl_days=30\nunique_subject=no\ncrlnumber=number\n\
         crl_extensions=e\n[e]\nauthorityKeyIdentifier=keyid\n",
    )
    .expect("writes");
    fs::write(folder.join("index"), "").expect("writes");
    fs::write(folder.join("number"), "01\n").expect("writes");
    openssl(
        &folder,
        "req -x509 -newkey rsa:2048 -nodes -days 300 -subj /CN=Authority -keyout ca-key.pem -out ca.pem",
    );
    openssl(
        &folder,
        "req -x509 -newkey rsa:2048 -nodes -days 300 -subj /CN=Stranger -keyout stranger-key.pem -out stranger.pem",
    );
    for (name, subject, extensions) in [
        ("server", "/CN=localhost", "-extfile v3"),
        ("client", "/C=SE/O=Some/CN=client", "-extfile v3"),
        ("old", "/C=SE/O=Some/CN=old", ""),
        ("gone", "/C=SE/O=Some/CN=gone", "-extfile v3"),
    ] {
        openssl(
            &folder,
            &format!("req -newkey rsa:2048 -nodes -subj {subject} -keyout {name}-key.pem -out {name}.csr"),
        );
        openssl(
            &folder,
            &format!(
                "x509 -req -in {name}.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 300 -out {name}.pem {extensions}"
            ),
        );
    }
    openssl(&folder, "ca -config ca.cnf -cert ca.pem -keyfile ca-key.pem -revoke gone.pem");
    openssl(&folder, "ca -config ca.cnf -cert ca.pem -keyfile ca-key.pem -gencrl -out crl.pem");
    folder
}

fn options(folder: &Path) -> Vec<String> {
    [("ssl-cert", "server.pem"), ("ssl-key", "server-key.pem"), ("ssl-ca", "ca.pem")]
        .map(|(name, file)| format!("--{name}={}", folder.join(file).display()))
        .to_vec()
}

fn start(engine: Engine, options: &[String]) -> Server {
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    Server::start(engine, &options).expect("the server starts")
}

/// Options of a client with that certificate.
fn with_certificate(folder: &Path, name: &str) -> Vec<String> {
    vec![
        "--ssl".into(),
        format!("--ssl-cert={}", folder.join(format!("{name}.pem")).display()),
        format!("--ssl-key={}", folder.join(format!("{name}-key.pem")).display()),
    ]
}

fn words(list: &[String]) -> Vec<&str> {
    list.iter().map(String::as_str).collect()
}

#[test]
fn a_server_makes_a_certificate_for_itself_and_keeps_it() {
    let mut server = Server::start(Engine::Keel, &[]).expect("keel starts");
    let own = server.dir.join("data/server-cert.pem");
    let key = fs::metadata(server.dir.join("data/server-key.pem")).expect("a key");
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    let made = fs::read(&own).expect("a certificate");
    let output = mariadb(&server, &["-uroot", "--ssl", "-t"], "\\s\n");
    assert!(said(&output).contains("Cipher in use is TLS_AES_256_GCM_SHA384"), "{}", said(&output));
    let output = mariadb(&server, &["-uroot", "--skip-ssl", "-t"], "\\s\n");
    assert!(said(&output).contains("Not in use"), "{}", said(&output));
    let trusted = format!("--ssl-ca={}", own.display());
    let verified = ["-uroot", "-hlocalhost", "--ssl-verify-server-cert", &trusted];
    assert_eq!(said(&mariadb(&server, &verified, "SELECT 1")), "1");
    let old = ["-uroot", "--tls-version=TLSv1.2"];
    assert_eq!(
        said(&mariadb(&server, &old, "SHOW STATUS LIKE 'Ssl_cipher'")),
        "Ssl_cipher\tECDHE-ECDSA-AES256-GCM-SHA384"
    );
    server.stop().expect("stops");
    server.launch().expect("starts again");
    assert_eq!(fs::read(&own).expect("still there"), made);
    server.stop().expect("stops");
    server.set_options(&["--skip-ssl"]);
    server.launch().expect("starts without");
    let asked = "SELECT @@have_ssl, @@ssl_cert; SHOW STATUS LIKE 'Ssl_version'";
    assert_eq!(said(&mariadb(&server, &["-uroot", "--ssl"], asked)), "DISABLED\tNULL\nSsl_version");
}

#[test]
fn accounts_ask_for_as_much_as_in_mariadb() {
    let folder = certificates();
    let servers = [Engine::Keel, Engine::MariaDb].map(|engine| start(engine, &options(&folder)));
    for server in &servers {
        let mut root = server.client().expect("connects");
        for statement in [
            "CREATE USER plain",
            "CREATE USER s REQUIRE SSL",
            "CREATE USER x REQUIRE X509",
            "CREATE USER c REQUIRE CIPHER 'TLS_AES_256_GCM_SHA384'",
            "CREATE USER c2 REQUIRE CIPHER 'nonsense'",
            "CREATE USER su REQUIRE SUBJECT '/C=SE/O=Some/CN=client'",
            "CREATE USER so REQUIRE SUBJECT '/C=SE/O=Some/CN=old'",
            "CREATE USER i REQUIRE ISSUER '/CN=Authority'",
            "CREATE USER i2 REQUIRE ISSUER '/CN=Stranger'",
            "CREATE USER l REQUIRE SSL ACCOUNT LOCK",
            "CREATE USER p IDENTIFIED BY 'pw' REQUIRE SSL",
        ] {
            root.run(statement).expect(statement);
        }
    }
    let ways = [
        vec!["--skip-ssl".to_string()],
        vec!["--ssl".to_string()],
        vec!["--ssl".to_string(), "--tls-version=TLSv1.2".to_string()],
        with_certificate(&folder, "client"),
        with_certificate(&folder, "old"),
        [with_certificate(&folder, "old"), vec!["--tls-version=TLSv1.2".to_string()]].concat(),
    ];
    for user in ["plain", "s", "x", "c", "c2", "su", "so", "i", "i2", "l", "p", "nobody"] {
        for way in &ways {
            let user = format!("-u{user}");
            let args = [words(way), vec![&user, if user == "-up" { "-ppw" } else { "-v" }]].concat();
            let answers =
                servers.each_ref().map(|server| said(&mariadb(server, &args, "SELECT CURRENT_USER()")));
            assert_eq!(answers[0], answers[1], "{args:?}");
        }
    }
    // A certificate that nobody vouches for ends the connection; what the client says of that depends on when it notices.
    let args = with_certificate(&folder, "stranger");
    for server in &servers {
        let output = mariadb(server, &[words(&args), vec!["-uplain"]].concat(), "SELECT 1");
        assert!(!output.status.success(), "{}", said(&output));
    }
    // A socket is no TLS, but nobody reads along on it.
    for server in &servers {
        server.client().expect("connects").run("SET GLOBAL require_secure_transport = ON").expect("sets");
    }
    for args in
        [["-uplain", "--skip-ssl"], ["-uplain", "--ssl"], ["-unobody", "--skip-ssl"], ["-us", "--ssl"]]
    {
        let answers = servers.each_ref().map(|server| said(&mariadb(server, &args, "SELECT CURRENT_USER()")));
        assert_eq!(answers[0], answers[1], "{args:?}");
    }
    for server in &servers {
        server.client().expect("connects over the socket");
        let socket = format!("-S{}", server.socket().display());
        for (args, allowed) in [(["-us", "--skip-ssl"], false), (["-us", "--ssl"], true)] {
            let local = [vec!["--protocol=socket", &socket], args.to_vec()].concat();
            assert_eq!(mariadb(server, &local, "SELECT 1").status.success(), allowed, "{args:?}");
        }
    }
    fs::remove_dir_all(folder).ok();
}

#[test]
fn variables_and_status_are_as_in_mariadb() {
    let folder = certificates();
    let more = "--ssl-cipher=ECDHE-RSA-AES128-GCM-SHA256".to_string();
    let options = [options(&folder), vec![more]].concat();
    let servers = [Engine::Keel, Engine::MariaDb].map(|engine| start(engine, &options));
    let asked = "SELECT @@have_ssl, @@have_openssl, @@ssl_cert, @@ssl_key, @@ssl_ca, @@ssl_cipher, @@ssl_crl, @@tls_version, \
        @@require_secure_transport; SET GLOBAL require_secure_transport = 0; \
        SHOW STATUS WHERE variable_name IN ('Ssl_cipher', 'Ssl_cipher_list', 'Ssl_version', 'Ssl_server_not_after', \
        'Ssl_server_not_before', 'Ssl_verify_mode', 'Ssl_verify_depth', 'Ssl_ctx_verify_mode', 'Ssl_ctx_verify_depth', \
        'Ssl_default_timeout', 'Compression'); \
        SHOW GLOBAL STATUS WHERE variable_name IN ('Ssl_cipher', 'Ssl_version'); \
        SELECT * FROM information_schema.global_status WHERE variable_name IN ('Ssl_cipher', 'Ssl_server_not_after')";
    for args in [
        &["-uroot", "--ssl"][..],
        &["-uroot", "--ssl", "--tls-version=TLSv1.2"],
        &["-uroot", "--skip-ssl"],
        &["-uroot", "--ssl", "--compress"],
    ] {
        let answers = servers.each_ref().map(|server| said(&mariadb(server, args, asked)));
        assert_eq!(answers[0], answers[1], "{args:?}");
    }
    let [keel, _] = &servers;
    let counts = said(&mariadb(keel, &["-uroot"], "FLUSH SSL; SHOW STATUS LIKE 'Ssl_%accepts'"));
    assert_eq!(counts, "Ssl_accepts\t0\nSsl_finished_accepts\t0");
    let counts = said(&mariadb(keel, &["-uroot"], "SHOW STATUS LIKE 'Ssl_%accepts'"));
    assert_eq!(counts, "Ssl_accepts\t1\nSsl_finished_accepts\t1");
    fs::remove_dir_all(folder).ok();
}

#[test]
fn files_are_read_again_by_flush_ssl_and_refused_where_they_are_wrong() {
    let folder = certificates();
    let servers = [Engine::Keel, Engine::MariaDb].map(|engine| start(engine, &options(&folder)));
    let both = |args: &[&str], statement: &str| {
        let answers = servers.each_ref().map(|server| said(&mariadb(server, args, statement)));
        assert_eq!(answers[0], answers[1], "{statement}");
        answers[0].clone()
    };
    let until = "SHOW STATUS LIKE 'Ssl_server_not_after'";
    let first = both(&["-uroot"], until);
    fs::rename(folder.join("server-key.pem"), folder.join("kept")).expect("renames");
    assert!(both(&["-uroot"], "FLUSH SSL").contains("Unable to get private key"));
    assert_eq!(both(&["-uroot"], until), first);
    fs::rename(folder.join("kept"), folder.join("server-key.pem")).expect("renames");
    openssl(
        &folder,
        "x509 -req -in server.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 200 -out server.pem -extfile v3",
    );
    assert_eq!(both(&["-uroot"], "FLUSH SSL; SELECT 'done'"), "done");
    assert_ne!(both(&["-uroot"], until), first);
    let own = options(&folder);
    for wrong in [
        vec!["--ssl-cert=/nowhere.pem".to_string()],
        vec![own[0].clone(), format!("--ssl-key={}", folder.join("ca-key.pem").display())],
        [own.clone(), vec!["--ssl-cipher=nonsense".into()]].concat(),
        [own.clone(), vec!["--tls-version=TLSv1.1".into()]].concat(),
        [own[..2].to_vec(), vec!["--ssl-ca=/nowhere.pem".into()]].concat(),
    ] {
        let error = Server::start(Engine::Keel, &words(&wrong)).err().map(|error| error.to_string());
        assert!(
            error.as_ref().is_some_and(|text| text.contains("TLS cannot be set up")),
            "{wrong:?}: {error:?}"
        );
    }
    let revoked = [own, vec![format!("--ssl-crl={}", folder.join("crl.pem").display())]].concat();
    let keel = start(Engine::Keel, &revoked);
    for (name, allowed) in [("client", true), ("gone", false)] {
        let args = with_certificate(&folder, name);
        let output = mariadb(&keel, &[words(&args), vec!["-uroot"]].concat(), "SELECT 1");
        assert_eq!(output.status.success(), allowed, "{name}: {}", said(&output));
    }
    fs::remove_dir_all(folder).ok();
}

#[test]
fn long_rows_and_statements_pass_through_tls_and_compression() {
    let server = Server::start(Engine::Keel, &["--max-allowed-packet=64M"]).expect("keel starts");
    server.client().expect("connects").run("CREATE DATABASE d").expect("database");
    let long = "long ".repeat(4 << 20);
    let insert = format!("INSERT INTO t VALUES (1, '{long}'), (2, REPEAT('noise', 100));\n");
    let script = format!(
        "CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, v LONGTEXT);\n{insert}\
         SELECT id, LENGTH(v), MD5(v) FROM t;\nSELECT v FROM t WHERE id = 1;\nSHOW STATUS LIKE 'Compression';\n"
    );
    let mut answers = Vec::new();
    for args in [&["--skip-ssl"][..], &["--ssl"], &["--skip-ssl", "--compress"], &["--ssl", "--compress"]] {
        let all = [args, &["-uroot", "--max-allowed-packet=64M", "d"]].concat();
        let answer = said(&mariadb(&server, &all, &script));
        let (rows, compression) = answer.rsplit_once('\t').expect("a status");
        assert_eq!(compression == "ON", args.contains(&"--compress"), "{args:?}");
        assert!(rows.len() > long.len(), "{args:?}: {}", &rows[..rows.len().min(300)]);
        answers.push(rows.to_string());
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
    let many = "SELECT seq FROM (WITH RECURSIVE c AS (SELECT 1 AS seq UNION ALL SELECT seq + 1 FROM c WHERE seq < 900) \
                SELECT seq FROM c) x;\n"
        .repeat(20);
    let answers = [&["--skip-ssl"][..], &["--ssl", "--compress"]]
        .map(|args| said(&mariadb(&server, &[args, &["-uroot"]].concat(), &many)));
    assert_eq!(answers[0], answers[1]);
}

fn python(script: &str) -> String {
    let output = Command::new("/usr/bin/python3").args(["-c", script]).output().expect("python3");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn caching_sha2_password_works_by_tls_by_socket_and_by_what_is_cached() {
    let server = Server::start(Engine::Keel, &[]).expect("keel starts");
    let mut root = server.client().expect("connects");
    for statement in [
        "CREATE USER slow IDENTIFIED VIA caching_sha2_password USING PASSWORD('secret')",
        "CREATE USER blank IDENTIFIED VIA caching_sha2_password",
        "CREATE USER local IDENTIFIED VIA caching_sha2_password USING PASSWORD('secret')",
        "CREATE USER two IDENTIFIED VIA caching_sha2_password USING PASSWORD('a') OR mysql_native_password USING PASSWORD('b')",
    ] {
        root.run(statement).expect(statement);
    }
    // What one account stores another can be made of.
    let stored = root
        .run("SELECT authentication_string FROM mysql.user WHERE user = 'slow'")
        .expect("stored")
        .strings()
        .concat();
    assert!(stored[0].starts_with("$A$005$") && stored[0].len() == 70, "{stored:?}");
    root.run(&format!("CREATE USER copy IDENTIFIED VIA caching_sha2_password USING '{}'", stored[0]))
        .expect("copies");
    assert!(root.run("CREATE USER bad IDENTIFIED VIA caching_sha2_password USING '$A$005$x'").is_err());
    let script = format!(
        r#"
import pymysql, ssl
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
def attempt(user, password, **how):
    where = dict(unix_socket={socket:?}) if how.pop("local", False) else dict(host="127.0.0.1", port={port})
    try:
        connection = pymysql.connect(user=user, password=password, **where, **how)
    except Exception as error:
        return type(error).__name__
    with connection.cursor() as cursor:
        cursor.execute("SELECT CURRENT_USER()")
        found = cursor.fetchone()[0]
    connection.close()
    return found
print(attempt("slow", "secret"))
print(attempt("slow", "wrong", ssl=context))
print(attempt("slow", "secret", ssl=context))
print(attempt("slow", "secret"))
print(attempt("slow", "wrong"))
print(attempt("copy", "secret", ssl=context))
print(attempt("blank", ""))
print(attempt("blank", "x", ssl=context))
print(attempt("local", "secret", local=True))
print(attempt("local", "secret"))
print(attempt("two", "a", ssl=context))
"#,
        socket = server.socket().display().to_string(),
        port = server.port
    );
    let answers = python(&script);
    let refused = "OperationalError";
    let expected = [
        refused, refused, "slow@%", "slow@%", refused, "copy@%", "blank@%", refused, "local@%", "local@%",
        "two@%",
    ];
    assert_eq!(answers.lines().collect::<Vec<_>>(), expected);
    // The mariadb client brings the plugin too, and lets itself be asked twice.
    assert_eq!(said(&mariadb(&server, &["-utwo", "-pb", "--ssl"], "SELECT 1")), "1");
    assert_eq!(said(&mariadb(&server, &["-uslow", "-psecret", "--ssl"], "SELECT 1")), "1");
    root.run("SET PASSWORD FOR slow = PASSWORD('other')").expect("changes");
    assert!(!mariadb(&server, &["-uslow", "-psecret", "--ssl"], "SELECT 1").status.success());
    assert_eq!(said(&mariadb(&server, &["-uslow", "-pother", "--ssl"], "SELECT 1")), "1");
    let shown = root.run("SHOW CREATE USER slow").expect("shows").strings().concat();
    assert!(shown[0].contains("IDENTIFIED VIA caching_sha2_password USING '$A$005$"), "{shown:?}");
}

/// A client that has read the greeting.
fn greeted(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let mut head = [0; 4];
    stream.read_exact(&mut head).expect("a greeting");
    let mut greeting = vec![0; usize::from(head[0])];
    stream.read_exact(&mut greeting).expect("a greeting");
    stream
}

/// The packet that asks for TLS.
fn tls_request() -> Vec<u8> {
    let mut packet = vec![32, 0, 0, 1];
    packet.extend_from_slice(&0x00bf_aa0c_u32.to_le_bytes());
    packet.extend_from_slice(&[0, 0, 0, 1, 45]);
    packet.extend_from_slice(&[0; 23]);
    packet
}

#[test]
fn broken_and_stalled_handshakes_end_and_others_go_on() {
    let server = Server::start(Engine::Keel, &["--connect-timeout=2"]).expect("keel starts");
    let record = |kind: u8, length: u16, content: &[u8]| {
        let mut bytes = vec![kind, 3, 1];
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(content);
        bytes
    };
    let inputs = [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xff; 100_000],
        record(22, 0xffff, &[1; 100]),
        record(22, 5, &[1, 0xff, 0xff, 0xff, 0]),
        record(23, 20, &[0; 20]),
        record(21, 2, &[2, 0]),
        tls_request(),
    ];
    for input in &inputs {
        let mut stream = greeted(&server);
        stream.write_all(&tls_request()).expect("asks for TLS");
        // The server may have closed by the time that all is written.
        let _ = stream.write_all(input);
        let started = Instant::now();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", &input[..4]);
    }
    // A client that sends a byte now and then has no more time than others.
    let hello = record(22, 400, &[]);
    let mut stream = greeted(&server);
    stream.write_all(&tls_request()).expect("asks for TLS");
    let started = Instant::now();
    for byte in hello.iter().chain(&[1u8; 300]) {
        if stream.write_all(&[*byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(started.elapsed() < Duration::from_secs(8), "the slow client was cut off");
    assert_eq!(said(&mariadb(&server, &["-uroot", "--ssl"], "SELECT 1")), "1");
    let left = "SELECT COUNT(*) FROM information_schema.processlist";
    assert_eq!(said(&mariadb(&server, &["-uroot"], left)), "1");
}

#[test]
fn packets_that_cannot_be_unpacked_end_their_connection_alone() {
    let server = Server::start(Engine::Keel, &[]).expect("keel starts");
    // CLIENT_MYSQL, PROTOCOL_41, SECURE_CONNECTION and COMPRESS; root without a password.
    let mut login = vec![38, 0, 0, 1];
    login.extend_from_slice(&(1u32 | 1 << 9 | 1 << 15 | 1 << 5).to_le_bytes());
    login.extend_from_slice(&[0, 0, 0, 1, 45]);
    login.extend_from_slice(&[0; 23]);
    login.extend_from_slice(b"root\0\0");
    let ping = [5, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 14];
    for bad in [
        &[9, 0, 0, 0, 255, 255, 255, 1, 2, 3, 4, 5, 6, 7, 8, 9][..],
        &[5, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 14],
        // What unpacks into more than it says.
        &[11, 0, 0, 0, 1, 0, 0, 0x78, 0x9c, 0x4b, 0x4c, 0x4a, 0x06, 0x00, 0x02, 0x4d, 0x01, 0x27],
        &[0, 0, 0, 0, 9, 0, 0, 255, 255, 255, 255, 255, 255, 255],
    ] {
        let mut stream = greeted(&server);
        stream.write_all(&login).expect("logs in");
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).expect("an answer");
        let mut rest = vec![0; usize::from(answer[0])];
        stream.read_exact(&mut rest).expect("OK");
        assert_eq!(rest[0], 0, "{rest:?}");
        stream.write_all(&ping).expect("pings");
        let mut pong = [0; 7];
        stream.read_exact(&mut pong).expect("an answer");
        assert_eq!((pong[3], &pong[4..]), (1, &[0, 0, 0][..]), "short answers go out as they are, numbered");
        let _ = stream.write_all(bad);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("the server closes");
    }
    assert_eq!(said(&mariadb(&server, &["-uroot", "--compress"], "SELECT 1")), "1");
}
