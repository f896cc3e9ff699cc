//! Whatever a client sends as statements, the server answers each, and every table is sound afterwards.
//!
//! A whole server runs in a simulated world on a thread of its own and takes one input after the other, each in a database
//! made anew; inputs that change what others would see get a world of their own.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use keel_runtime::net::{self, Address, Stream};
use keel_runtime::sim;
use keel_server::{Options, Server, start_on_fiber};
use keel_value::Value;
use keel_wire::client::{ClientError, ConnectOptions, Connection};

/// Inputs that one world takes.
const INPUTS_PER_WORLD: u32 = 200;
/// Statements taken of one input.
const STATEMENTS_MAX: usize = 24;
/// Longest statement.
const STATEMENT_BYTES_MAX: usize = 2000;

/// Tables to begin with.
const TABLES: &[&str] = &[
    "create table a (id int primary key auto_increment, g int, s varchar(20), d decimal(10,2), key (g), unique key (s, g))",
    "create table b (id bigint unsigned primary key, a_id int, t text, at datetime(3), e enum('x','y','zz'), key (a_id, id), key (t(5)))",
    "create table c (x double, y date, z set('p','q'), w varbinary(30), n tinyint not null default 7)",
    "insert into a values (1,1,'one',1.50),(2,1,'two',2.25),(3,2,'three',null),(4,2,'FOUR',4.00),(5,3,null,-5.55),(9,null,'x',0)",
    "insert into b values (1,1,'text','2024-02-29 12:00:00.125','x'),(2,1,null,null,null),(3,2,repeat('long ',50),'1999-12-31 23:59:59','zz'),(18446744073709551615,9,'','2000-01-01','y')",
    "insert into c values (1.5,'2024-01-31','p,q',x'00ff',1),(null,'0000-00-00','',null,2),(-1e300,null,'q','a',127)",
];

type Client = Connection<Stream>;

fn start() -> Server {
    let options = Options::new()
        .with("datadir", "/keel")
        .with("port", "3306")
        .with("initialize-insecure", "1")
        .with("innodb-buffer-pool-size", "8M")
        .with("innodb-log-file-size", "16M")
        .with("sql-mode", "ALLOW_INVALID_DATES");
    start_on_fiber(options).unwrap_or_else(|error| panic!("{error}"))
}

fn connect(server: &Server) -> Result<Client, ClientError> {
    let address = server.addresses().iter().find(|a| matches!(a, Address::Tcp(_))).expect("TCP");
    let stream = net::connect(address).expect("connects");
    Connection::connect(stream, &ConnectOptions::default())
}

/// The database of an input, empty but for [`TABLES`].
fn fixture(client: &mut Client) {
    for statement in ["drop database if exists f", "create database f", "use f"].iter().chain(TABLES) {
        client.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// Runs one statement, as text or prepared. False where the server closed the connection, as some statements ask.
fn answered(client: &mut Client, statement: &str, prepared: bool) -> bool {
    let outcome = if prepared {
        client.prepare(statement).and_then(|prepared| {
            let values = [Value::Int(3), Value::bytes(b"two"), Value::Null, Value::Double(1.5)];
            let values: Vec<Value> = values.iter().cycle().take(prepared.params).cloned().collect();
            let outcome = client.execute(&prepared, &values).map(|_| ());
            client.close_statement(&prepared)?;
            outcome
        })
    } else {
        client.query_all(statement).map(|_| ())
    };
    match outcome {
        Ok(()) | Err(ClientError::Server(_)) => true,
        Err(ClientError::Io(_)) => false,
        Err(ClientError::Protocol(what)) => panic!("the answer to {statement:?} makes no sense: {what}"),
    }
}

/// All tables of the database: structure, and indexes against rows.
fn verify(client: &mut Client) {
    let Ok(tables) = client.rows("show full tables from f where table_type = 'BASE TABLE'") else { return };
    for table in tables {
        let name = table[0].replace('`', "``");
        let found = match client.rows(&format!("check table f.`{name}`")) {
            // The input may have taken its rights from root.
            Err(ClientError::Server(_)) => return,
            found => found.expect("a check"),
        };
        assert!(found.iter().all(|row| row[3] == "OK"), "{found:?}");
    }
}

fn try_input(server: &Server, text: &str) {
    let mut client = connect(server).expect("root is let in");
    fixture(&mut client);
    for (index, statement) in text.split(";\n").take(STATEMENTS_MAX).enumerate() {
        if statement.len() <= STATEMENT_BYTES_MAX && !answered(&mut client, statement, index % 3 == 2) {
            break;
        }
    }
    drop(client);
    let mut client = match connect(server) {
        // Nor need root be let in any more.
        Err(ClientError::Server(_)) => return,
        client => client.expect("the server goes on"),
    };
    // What the input left locked belongs to a connection that is going away.
    client.query("set lock_wait_timeout = 60, innodb_lock_wait_timeout = 60").expect("the server goes on");
    verify(&mut client);
}

/// Whether an input may change what a later one meets, or end the server.
fn is_global(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    const WORDS: &[&str] = &[
        "global",
        "shutdown",
        "kill",
        "read_only",
        "flush",
        "@@",
        "password",
        "user",
        "grant",
        "revoke",
        "role",
    ];
    WORDS.iter().any(|word| lower.contains(word))
}

/// Inputs that only cost time.
fn is_endless(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    lower.contains("benchmark") || lower.matches("join").count() + lower.matches(',').count() > 400
}

/// Serves inputs until the sender is gone.
fn serve(inputs: Receiver<String>, done: Sender<()>) {
    let outcome = sim::run(sim::Options::new(1), move || {
        let server = start();
        while let Ok(text) = inputs.recv() {
            try_input(&server, &text);
            done.send(()).expect("somebody waits for it");
        }
        server.stop().expect("stops");
    });
    outcome.done();
}

/// A world in a thread of its own.
struct World {
    inputs: Option<Sender<String>>,
    done: Receiver<()>,
    thread: Option<thread::JoinHandle<()>>,
    left: u32,
}

impl World {
    fn new() -> World {
        let (inputs, received) = channel();
        let (done_here, done) = channel();
        let thread = thread::spawn(move || serve(received, done_here));
        World { inputs: Some(inputs), done, thread: Some(thread), left: INPUTS_PER_WORLD }
    }

    fn run(&mut self, text: &str) {
        self.left -= 1;
        let sent = self.inputs.as_ref().map(|inputs| inputs.send(text.into()));
        if !matches!(sent, Some(Ok(()))) || self.done.recv().is_err() {
            panic!("the world of the server ended with:\n{text}");
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.inputs = None;
        if let Some(Err(_)) = self.thread.take().map(thread::JoinHandle::join) {
            assert!(thread::panicking(), "the server did not stop");
        }
    }
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// Statements, `;` and a line end between them; every third is prepared.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if is_endless(&text) {
        return;
    }
    if is_global(&text) {
        return World::new().run(&text);
    }
    WORLD.with_borrow_mut(|world| {
        let usable = world.take().filter(|world| world.left > 0);
        let mut current = usable.unwrap_or_else(World::new);
        current.run(&text);
        *world = Some(current);
    });
}

/// The statements of the tests that compare with MariaDB, in small groups, and some of the parser's own.
pub fn samples() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql");
    let mut samples = Vec::new();
    for name in ["select", "joins", "dml", "functions", "ddl", "changing", "collation", "values"] {
        let script = std::fs::read_to_string(folder.join(name).with_extension("test")).expect("a script");
        let lines: Vec<&str> = script.lines().filter(|line| line.ends_with(';')).collect();
        for group in lines.chunks(4) {
            let mut text = String::new();
            for line in group {
                writeln!(text, "{line}").expect("a string");
            }
            samples.push(text.into_bytes());
        }
    }
    samples.extend(crate::sql::statements().chunks(5).map(|group| group.join(";\n").into_bytes()));
    samples
}
