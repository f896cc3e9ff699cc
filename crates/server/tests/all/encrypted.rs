//! TLS in the simulated world: bytes come late and in pieces, and clients lose heart in the middle of a handshake.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use keel_runtime::net::{self, Address, Stream};
use keel_runtime::{fiber, fs, sim, time};
use keel_server::{Server, start_on_fiber};
use keel_tls::own;
use keel_wire::capability::Capabilities;
use keel_wire::client::{ConnectOptions, Connection};
use keel_wire::handshake::encode_tls_request;
use keel_wire::packet;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

type Tls = StreamOwned<ClientConnection, Stream>;

/// Starts a server with a certificate; gives what its clients trust. The times of certificates are real ones.
fn start() -> (Server, Arc<ClientConfig>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64;
    let made = own::generate("simulated", now).expect("a certificate");
    let folder = Path::new("/certificates");
    fs::create_dir_all(folder).expect("a folder");
    fs::write_whole(&folder.join("cert.pem"), made.certificate.as_bytes()).expect("writes");
    fs::write_whole_private(&folder.join("key.pem"), made.key.as_bytes()).expect("writes");
    let options = crate::common::options(Path::new("/keel"))
        .with("port", "3306")
        .with("connect-timeout", "5")
        .with("innodb-buffer-pool-size", "8M")
        .with("innodb-log-file-size", "16M")
        .with("ssl-cert", "/certificates/cert.pem")
        .with("ssl-key", "/certificates/key.pem");
    let server = start_on_fiber(options).unwrap_or_else(|error| panic!("{error}"));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(made.certificate.as_bytes()).expect("PEM")).expect("trusted");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.expect("versions").with_root_certificates(roots).with_no_client_auth();
    (server, Arc::new(config))
}

fn stream(server: &Server) -> Stream {
    let address = server.addresses().iter().find(|a| matches!(a, Address::Tcp(_))).expect("TCP");
    net::connect(address).expect("connects")
}

fn client(server: &Server, config: &Arc<ClientConfig>) -> Connection<Tls> {
    let name = ServerName::try_from("localhost").expect("a name");
    let tls = ClientConnection::new(config.clone(), name).expect("a client");
    Connection::connect_tls(stream(server), &ConnectOptions::default(), |stream| {
        StreamOwned::new(tls, stream)
    })
    .expect("root is let in")
}

#[test]
fn statements_and_rows_pass_through_tls_whatever_the_network_does() {
    for seed in 1..4 {
        let outcome = sim::run(sim::Options::new(seed), || {
            let (server, config) = start();
            let mut client = client(&server, &config);
            assert_eq!(client.rows("SHOW STATUS LIKE 'Ssl_version'").expect("rows")[0][1], "TLSv1.3");
            let long = "x".repeat(300_000);
            assert_eq!(client.rows(&format!("SELECT LENGTH('{long}')")).expect("rows")[0][0], "300000");
            let rows = client.rows("SELECT REPEAT('ab', 400000)").expect("rows");
            assert_eq!(rows[0][0], "ab".repeat(400_000));
            client.query("SET wait_timeout = 3").expect("sets");
            fiber::sleep(Duration::from_secs(60));
            assert!(client.query("SELECT 1").is_err(), "an idle client is dropped");
            server.stop().expect("stops");
        });
        outcome.done();
    }
}

#[test]
fn a_client_that_never_ends_its_tls_handshake_is_dropped() {
    let outcome = sim::run(sim::Options::new(7), || {
        let (server, config) = start();
        let name = ServerName::try_from("localhost").expect("a name");
        let mut tls = ClientConnection::new(config, name).expect("a client");
        let mut hello = Vec::new();
        tls.write_tls(&mut hello).expect("writes");
        for (sent, pause) in [(0, 0), (1, 0), (50, 0), (hello.len(), 0), (hello.len(), 200)] {
            let mut stream = stream(&server);
            let started = time::now();
            let (mut request, mut sequence) = (Vec::new(), 1);
            let mut payload = Vec::new();
            encode_tls_request(&mut payload, Capabilities::PROTOCOL_41, 45);
            packet::append(&mut request, &payload, &mut sequence);
            stream.write_all(&request).expect("sends");
            for byte in &hello[..sent] {
                if pause > 0 {
                    fiber::sleep(Duration::from_millis(pause));
                }
                if stream.connection().is_ended() || stream.write_all(&[*byte]).is_err() {
                    break;
                }
            }
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
            let took = started.elapsed();
            assert!((5..8).contains(&took.as_secs()), "{sent} bytes, {pause} ms: {took:?}");
        }
        while !server.state().registry.is_empty() {
            fiber::sleep(Duration::from_millis(50));
        }
        server.stop().expect("stops");
    });
    outcome.done();
}
