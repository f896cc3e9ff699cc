//! Accounts: the same statements as several users on Keel and on MariaDB; ways to authenticate; `kill -9` between GRANTs.

use keel_testkit::Random;
use keel_testkit::client::{Client, Login};
use keel_testkit::differential::describe;
use keel_testkit::process::{Engine, Server};
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// One server and who is connected to it.
struct Side {
    server: Server,
    clients: HashMap<String, Client>,
}

impl Side {
    fn start(engine: Engine, options: &[&str]) -> Side {
        Side { server: Server::start(engine, options).expect("starts"), clients: HashMap::new() }
    }

    fn connect(&self, user: &str, password: &str) -> Result<Client, String> {
        let login = Login { user: user.into(), password: password.into(), ..Login::default() };
        Client::connect(&self.server.unix(), &login).map_err(|error| error.to_string())
    }

    /// What the server answers to a user's statement.
    fn run(&mut self, user: &str, sql: &str) -> String {
        if sql == "reconnect" {
            self.clients.remove(user);
        }
        if !self.clients.contains_key(user) {
            match self.connect(user, "") {
                Ok(client) => drop(self.clients.insert(user.into(), client)),
                Err(error) => return error,
            }
        }
        if sql == "reconnect" {
            return String::new();
        }
        let client = self.clients.get_mut(user).expect("is connected");
        let told = client.query(sql).expect("answers").iter().map(describe).collect::<Vec<_>>().join("\n");
        // That a state of the session has changed MariaDB says when it first opens a view.
        let told = told.replace("status 0x400", "status 0x").replace("status 0x40", "status 0x");
        match told.split_once("Aborted connection ") {
            Some((before, after)) => {
                let number = after.find(' ').unwrap_or(after.len());
                format!("{before}Aborted connection N{}", &after[number..])
            }
            None => told,
        }
    }
}

#[test]
fn every_user_may_do_what_mariadb_lets_it() {
    let options = ["--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci"];
    let mut keel = Side::start(Engine::Keel, &options);
    let mut maria = Side::start(Engine::MariaDb, &options);
    // What a package's installation adds.
    for sql in ["DELETE FROM mysql.global_priv WHERE User = ''", "DELETE FROM mysql.db", "FLUSH PRIVILEGES"] {
        maria.run("root", sql);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/accounts");
    let mut different = Vec::new();
    let scripts = [
        "definitions.steps",
        "statements.steps",
        "read_only.steps",
        "init_connect.steps",
        "corners.steps",
        "dropped.steps",
        "view_changes.steps",
        "own_tables.steps",
        "unsupported.steps",
        "seen.steps",
    ];
    for name in scripts {
        let text = std::fs::read_to_string(folder.join(name)).expect("readable");
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
            let (user, sql) = line.split_once(": ").expect("user: statement");
            let (ours, theirs) = (keel.run(user, sql), maria.run(user, sql));
            if ours != theirs {
                let place = number + 1;
                different.push(format!("{name}:{place}: {line}\n  Keel:    {ours}\n  MariaDB: {theirs}"));
            }
        }
    }
    assert!(different.is_empty(), "{} lines differ:\n{}", different.len(), different.join("\n"));
}

/// What the `mariadb` client says when it connects so and asks who it is.
fn mariadb(side: &Side, user: &str, password: &str, more: &[&str]) -> String {
    let output = Command::new("mariadb")
        // MariaDB has no certificate here.
        .args(["--no-defaults", "--skip-ssl", "-N", "-u", user])
        .arg(format!("--password={password}"))
        .arg(format!("-S{}", side.server.socket().display()))
        .args(more)
        .args(["-e", "SELECT CURRENT_USER(), USER()"])
        .output()
        .expect("the mariadb client is installed");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Accounts with each way to authenticate.
const AUTHENTICATIONS: &[&str] = &[
    "CREATE USER native IDENTIFIED BY 'pw'",
    "CREATE USER signer IDENTIFIED VIA ed25519 USING PASSWORD('secret')",
    "CREATE USER socket IDENTIFIED VIA unix_socket",
    "CREATE USER many IDENTIFIED VIA unix_socket OR ed25519 USING PASSWORD('x') OR mysql_native_password USING PASSWORD('y')",
    "CREATE USER locked ACCOUNT LOCK",
    "CREATE USER expired IDENTIFIED BY 'p' PASSWORD EXPIRE",
    "CREATE USER encrypted REQUIRE SSL",
    "CREATE USER elsewhere@'10.%'",
];

#[test]
fn clients_prove_who_they_are_as_with_mariadb() {
    let keel = Side::start(Engine::Keel, &[]);
    let maria = Side::start(Engine::MariaDb, &["--plugin-load-add=auth_ed25519"]);
    for side in [&keel, &maria] {
        let mut root = side.connect("root", "").expect("root connects");
        AUTHENTICATIONS.iter().for_each(|sql| drop(root.run(sql).unwrap_or_else(|e| panic!("{sql}: {e}"))));
    }
    let me = Command::new("id").arg("-un").output().expect("id").stdout;
    let me = String::from_utf8_lossy(&me).trim().to_string();
    for side in [&keel, &maria] {
        let mut root = side.connect("root", "").expect("root connects");
        root.run(&format!("ALTER USER '{me}'@localhost IDENTIFIED VIA unix_socket"))
            .or_else(|_| root.run(&format!("CREATE USER '{me}'@localhost IDENTIFIED VIA unix_socket")))
            .expect("an account of this user");
    }
    let signs: &[&str] = &["--default-auth=client_ed25519"];
    for (user, password, more) in [
        ("native", "pw", &[][..]),
        ("native", "pw", signs),
        ("native", "bad", &[]),
        ("native", "", &[]),
        ("signer", "secret", &[]),
        ("signer", "secret", signs),
        ("signer", "bad", &[]),
        ("signer", "", &[]),
        ("socket", "", &[]),
        (&me, "", &[]),
        ("many", "x", &[]),
        ("many", "y", &[]),
        ("many", "z", &[]),
        ("locked", "", &[]),
        ("expired", "p", &[]),
        ("expired", "bad", &[]),
        ("encrypted", "", &[]),
        ("elsewhere", "", &[]),
        ("nobody", "x", &[]),
        ("native", "pw", &["mysql"]),
    ] {
        let (ours, theirs) = (mariadb(&keel, user, password, more), mariadb(&maria, user, password, more));
        if ["elsewhere", "nobody"].contains(&user) {
            // Both refuse an unknown name as they would some account, not the same one.
            assert!(
                [&ours, &theirs].iter().all(|said| said.contains("Access denied")),
                "{ours:?} {theirs:?}"
            );
            continue;
        }
        assert_eq!(ours, theirs, "{user} with {password:?} {more:?}");
    }
}

#[test]
fn grants_are_done_or_not_whenever_the_server_is_killed() {
    const USERS: u64 = 20;
    let seed: u64 = std::env::var("KEEL_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20261122);
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let mut server = Server::start(Engine::Keel, &[]).expect("keel starts");
    let mut client = server.client().expect("connects");
    for user in 0..USERS {
        client.run(&format!("CREATE USER u{user}")).expect("user");
    }
    // By user the last number of a database whose grant was acknowledged.
    let mut acknowledged = vec![0u64; USERS as usize];
    for round in 0..4 {
        for _ in 0..20 + random.below(40) {
            let user = random.below(USERS) as usize;
            let next = acknowledged[user] + 1;
            client.run(&format!("GRANT SELECT ON d{next}.* TO u{user}")).expect("grants");
            acknowledged[user] = next;
        }
        // One whose answer nobody has read.
        let unread = random.below(USERS) as usize;
        let next = acknowledged[unread] + 1;
        client.post(&format!("GRANT SELECT ON d{next}.* TO u{unread}")).expect("sends");
        std::thread::sleep(std::time::Duration::from_micros(random.below(2000)));
        server.kill();
        server.check().unwrap_or_else(|what| panic!("seed {seed}, round {round}: {what}"));
        server.launch().expect("starts again");
        client = server.client().expect("connects");
        for (user, known) in acknowledged.iter_mut().enumerate() {
            let found =
                client.run(&format!("SHOW GRANTS FOR u{user}")).expect("grants").strings().len() as u64 - 1;
            let may_be_more = u64::from(user == unread);
            assert!(
                (*known..=*known + may_be_more).contains(&found),
                "seed {seed}, round {round}: u{user} has {found} grants, not {known}"
            );
            *known = found;
        }
    }
}
