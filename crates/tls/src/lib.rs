//! TLS of connections: the server's certificate, the verification of clients, and the layer between socket and buffers.
//! rustls implements the protocol.
//!
//! The server has one [`Acceptor`] at a time. FLUSH SSL reads the same files again and replaces it; open connections keep
//! the acceptor that they began with. If `ssl_cert` and `ssl_key` are not set, the first start generates a certificate and
//! keeps it in the data folder ([`own`]).
//!
//! 1. Sessions are not resumed. Every connection is a full handshake, so a revoked certificate is refused at once.
//! 2. Nothing here knows the protocol of MariaDB, settings or sessions: the caller passes paths and texts ([`TlsFiles`]).
#![forbid(unsafe_code)]

pub mod certificate;
pub mod layer;
pub mod own;
mod suites;
mod verifier;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keel_runtime::fs;
use parking_lot::RwLock;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion, version};
use x509_parser::time::ASN1Time;

/// The server's own certificate in the data folder.
pub const OWN_CERTIFICATE: &str = "server-cert.pem";
/// Its key.
pub const OWN_KEY: &str = "server-key.pem";

/// Longer files are refused.
const FILE_BYTES_MAX: usize = 16 << 20;

/// Why TLS cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsError {
    /// MariaDB's text for this failure.
    pub what: &'static str,
    /// The file or setting, and the reason.
    pub detail: String,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.detail)
    }
}

// MariaDB's texts.
const CERTIFICATE: &str = "Unable to get certificate";
const KEY: &str = "Unable to get private key";
const NO_MATCH: &str = "Private key does not match the certificate public key";
const PATHS: &str = "SSL_CTX_set_default_verify_paths failed";
const CIPHERS: &str = "Failed to set ciphers to use";
const CONTEXT: &str = "SSL_CTX_new failed";
const VERSION: &str = "Unknown TLS version";

fn failed(what: &'static str, detail: impl fmt::Display) -> TlsError {
    TlsError { what, detail: detail.to_string() }
}

/// The files and settings that an [`Acceptor`] is made of, each named after its system variable.
#[derive(Debug, Clone, Default)]
pub struct TlsFiles {
    /// `ssl_cert`.
    pub certificate: PathBuf,
    /// `ssl_key`.
    pub key: PathBuf,
    /// `ssl_ca`.
    pub authorities: Option<PathBuf>,
    /// `ssl_capath`.
    pub authorities_folder: Option<PathBuf>,
    /// `ssl_crl`.
    pub revocations: Option<PathBuf>,
    /// `ssl_crlpath`.
    pub revocations_folder: Option<PathBuf>,
    /// `ssl_cipher`.
    pub ciphers: String,
    /// `tls_version`.
    pub versions: String,
}

/// A counter that all sessions share.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds one.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The current value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The certificate and rules by which connections are accepted, read from the files at one moment.
pub struct Acceptor {
    config: Arc<ServerConfig>,
    /// Start of the certificate's validity.
    pub not_before: ASN1Time,
    /// End of the certificate's validity.
    pub not_after: ASN1Time,
    /// The allowed ciphers, separated by colons.
    pub cipher_list: String,
    /// Whether clients are asked for certificates.
    pub asks_clients: bool,
    /// Handshakes begun.
    pub accepts: Count,
    /// Handshakes completed.
    pub finished: Count,
}

/// The TLS state of a server. The default is off.
#[derive(Default)]
pub struct Tls {
    files: Option<TlsFiles>,
    acceptor: RwLock<Option<Arc<Acceptor>>>,
}

impl Tls {
    /// Reads the files and switches TLS on.
    pub fn open(files: TlsFiles) -> Result<Tls, TlsError> {
        let acceptor = Acceptor::open(&files)?;
        Ok(Tls { files: Some(files), acceptor: RwLock::new(Some(Arc::new(acceptor))) })
    }

    /// The acceptor for new connections; `None` if TLS is off.
    pub fn acceptor(&self) -> Option<Arc<Acceptor>> {
        self.acceptor.read().clone()
    }

    /// The files it was opened with; `None` if TLS is off.
    pub fn files(&self) -> Option<&TlsFiles> {
        self.files.as_ref()
    }

    /// FLUSH SSL: reads the files again. On an error the current acceptor stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        if let Some(files) = &self.files {
            let acceptor = Acceptor::open(files)?;
            *self.acceptor.write() = Some(Arc::new(acceptor));
        }
        Ok(())
    }
}

/// Generates the server's own certificate in `folder` if there is none; `now` is in seconds since 1970.
pub fn make_own(folder: &Path, host: &str, now: i64) -> std::io::Result<()> {
    let (certificate, key) = (folder.join(OWN_CERTIFICATE), folder.join(OWN_KEY));
    if fs::try_exists(&certificate)? {
        return Ok(());
    }
    // The key is written first: after a crash between the two writes, the next start replaces it.
    let made = own::generate(host, now)
        .ok_or_else(|| std::io::Error::other("the system gives no random bytes for a key"))?;
    fs::write_whole_private(&key, made.key.as_bytes())?;
    fs::write_whole(&certificate, made.certificate.as_bytes())
}

impl Acceptor {
    fn open(files: &TlsFiles) -> Result<Acceptor, TlsError> {
        let mut provider = ring::default_provider();
        provider.cipher_suites = suites::chosen(&provider.cipher_suites, &files.ciphers)
            .ok_or_else(|| failed(CIPHERS, format!("nothing of '{}' is known", files.ciphers)))?;
        let names = provider.cipher_suites.iter().map(|suite| suites::name(suite.suite()));
        let cipher_list = names.collect::<Vec<_>>().join(":");
        let provider = Arc::new(provider);
        let own = own_key(files, &provider)?;
        let leaf = own.0.cert.first().and_then(|leaf| certificate::read(leaf));
        let leaf = leaf.ok_or_else(|| failed(CERTIFICATE, files.certificate.display()))?;
        let (not_before, not_after) = (leaf.validity().not_before, leaf.validity().not_after);
        let verifier = client_verifier(files, &provider)?;
        let asks_clients = verifier.is_some();
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions(&files.versions)?)
            .map_err(|error| failed(CONTEXT, error))?;
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(own));
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Acceptor {
            config: Arc::new(config),
            not_before,
            not_after,
            cipher_list,
            asks_clients,
            accepts: Count::default(),
            finished: Count::default(),
        })
    }
}

/// The certificate that the server presents to every client.
#[derive(Debug)]
struct ServerCertificate(Arc<CertifiedKey>);

impl ResolvesServerCert for ServerCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

/// Reads the certificate's chain and its key. Unlike rustls, it accepts a certificate of version 1: the client decides on that.
fn own_key(files: &TlsFiles, provider: &CryptoProvider) -> Result<ServerCertificate, TlsError> {
    let shown = files.certificate.display();
    let chain = certificates(&files.certificate).map_err(|error| failed(CERTIFICATE, error))?;
    let leaf = chain.first().and_then(|leaf| certificate::read(leaf));
    let leaf = leaf.map(|leaf| leaf.public_key().raw.to_vec());
    let leaf = leaf.ok_or_else(|| failed(CERTIFICATE, format!("{shown} holds no certificate")))?;
    let text = read(&files.key).map_err(|error| failed(KEY, error))?;
    let shown = files.key.display();
    let key =
        PrivateKeyDer::from_pem_slice(&text).map_err(|_| failed(KEY, format!("{shown} holds no key")))?;
    let key = provider.key_provider.load_private_key(key);
    let key = key.map_err(|error| failed(KEY, format!("{shown}: {error}")))?;
    if key.public_key().is_some_and(|public| public.as_ref() != leaf) {
        return Err(failed(NO_MATCH, shown));
    }
    Ok(ServerCertificate(Arc::new(CertifiedKey::new(chain, key))))
}

fn versions(text: &str) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
    let says = |name: &str| text.split(',').any(|word| word.eq_ignore_ascii_case(name));
    let mut found = Vec::new();
    if says("TLSv1.3") {
        found.push(&version::TLS13);
    }
    if says("TLSv1.2") {
        found.push(&version::TLS12);
    }
    match found.is_empty() {
        true => Err(failed(VERSION, format!("'{text}'; there are TLSv1.2 and TLSv1.3"))),
        false => Ok(found),
    }
}

/// The verifier of clients' certificates; `None` if no authority is configured.
fn client_verifier(
    files: &TlsFiles,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    let mut authorities = Vec::new();
    if let Some(path) = &files.authorities {
        authorities.extend(certificates(path).map_err(|error| failed(PATHS, error))?);
    }
    if let Some(folder) = &files.authorities_folder {
        for path in files_of(folder)? {
            // Files of other kinds in the folder are ignored.
            authorities.extend(certificates(&path).unwrap_or_default());
        }
    }
    if files.authorities.is_none() && files.authorities_folder.is_none() {
        return Ok(None);
    }
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(authorities.iter().cloned());
    if added == 0 {
        return Err(failed(PATHS, "there is no certificate of an authority"));
    }
    let revocations = revocations(files)?;
    let has_revocations = !revocations.is_empty();
    let webpki = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .with_crls(revocations)
        .allow_unauthenticated()
        .build()
        .map_err(|error| failed(PATHS, error))?;
    let algorithms = provider.signature_verification_algorithms;
    Ok(Some(Arc::new(verifier::Verifier::new(webpki, authorities, algorithms, has_revocations))))
}

fn revocations(files: &TlsFiles) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let mut paths: Vec<PathBuf> = files.revocations.iter().cloned().collect();
    if let Some(folder) = &files.revocations_folder {
        paths.extend(files_of(folder)?);
    }
    let mut found = Vec::new();
    for path in paths {
        let text = read(&path).map_err(|error| failed(PATHS, error))?;
        let lists = CertificateRevocationListDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
        found.extend(lists.map_err(|error| failed(PATHS, format!("{}: {error}", path.display())))?);
    }
    Ok(found)
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>, TlsError> {
    let names =
        fs::read_dir(folder).map_err(|error| failed(PATHS, format!("{}: {error}", folder.display())))?;
    Ok(names.iter().map(|name| folder.join(name)).filter(|path| !fs::is_dir(path)).collect())
}

/// The certificates of a file, or the reason in one line if there are none.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let all = all.map_err(|error| format!("{}: {error}", path.display()))?;
    if all.is_empty() { Err(format!("{} holds no certificate", path.display())) } else { Ok(all) }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let text = fs::read_to_end(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if text.len() > FILE_BYTES_MAX { Err(format!("{} is too long", path.display())) } else { Ok(text) }
}
