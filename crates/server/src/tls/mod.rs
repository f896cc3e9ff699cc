//! TLS: the server's certificate, who its clients may be, and how it is reloaded. rustls does the work.
//!
//! The server has one [`Acceptor`] at a time; FLUSH SSL puts another in its place, made of the same files as they are then.
//! A connection keeps the one that it began with. Without `ssl_cert` and `ssl_key` the server makes a certificate of its own at
//! its first start and keeps it in the data folder ([`own`]).
//!
//! Sessions are not resumed: every connection is a whole handshake, so that what has been revoked stays out.

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

/// The longest file that is read.
const FILE_BYTES_MAX: usize = 16 << 20;

/// Why TLS cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsError {
    /// As MariaDB says it.
    pub what: &'static str,
    /// More about it.
    pub detail: String,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.detail)
    }
}

/// MariaDB's words.
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

/// What TLS is made of.
#[derive(Debug, Clone, Default)]
pub struct Files {
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

/// A count that any session adds to.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// One more.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How clients are accepted, made of files at one moment.
pub struct Acceptor {
    config: Arc<ServerConfig>,
    /// Start of the certificate's validity.
    pub not_before: ASN1Time,
    /// End of the certificate's validity.
    pub not_after: ASN1Time,
    /// The allowed ciphers, colons between.
    pub cipher_list: String,
    /// Whether clients are asked for certificates.
    pub asks_clients: bool,
    /// Handshakes begun.
    pub accepts: Count,
    /// Handshakes that came to their end.
    pub finished: Count,
}

/// A server's TLS, which may be off.
#[derive(Default)]
pub struct Tls {
    files: Option<Files>,
    acceptor: RwLock<Option<Arc<Acceptor>>>,
}

impl Tls {
    /// TLS by these files.
    pub fn open(files: Files) -> Result<Tls, TlsError> {
        let acceptor = Acceptor::open(&files)?;
        Ok(Tls { files: Some(files), acceptor: RwLock::new(Some(Arc::new(acceptor))) })
    }

    /// How clients are accepted now; none where TLS is off.
    pub fn acceptor(&self) -> Option<Arc<Acceptor>> {
        self.acceptor.read().clone()
    }

    /// What it is made of.
    pub fn files(&self) -> Option<&Files> {
        self.files.as_ref()
    }

    /// FLUSH SSL: reads the files again. What was there stays where they cannot be used.
    pub fn reload(&self) -> Result<(), TlsError> {
        if let Some(files) = &self.files {
            let acceptor = Acceptor::open(files)?;
            *self.acceptor.write() = Some(Arc::new(acceptor));
        }
        Ok(())
    }
}

/// Makes the server's own certificate in its folder, unless it is there.
pub fn make_own(folder: &Path, host: &str, now: i64) -> std::io::Result<()> {
    let (certificate, key) = (folder.join(OWN_CERTIFICATE), folder.join(OWN_KEY));
    if fs::try_exists(&certificate)? {
        return Ok(());
    }
    // A crash between the two leaves a key that the next start replaces.
    let made = own::make(host, now)
        .ok_or_else(|| std::io::Error::other("the system gives no random bytes for a key"))?;
    fs::write_whole_private(&key, made.key.as_bytes())?;
    fs::write_whole(&certificate, made.certificate.as_bytes())
}

impl Acceptor {
    fn open(files: &Files) -> Result<Acceptor, TlsError> {
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

/// The certificate that every client is shown.
#[derive(Debug)]
struct Own(Arc<CertifiedKey>);

impl ResolvesServerCert for Own {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

/// Reads the certificate's chain and its key. rustls would refuse a certificate of version 1, which is the client's affair.
fn own_key(files: &Files, provider: &CryptoProvider) -> Result<Own, TlsError> {
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
    Ok(Own(Arc::new(CertifiedKey::new(chain, key))))
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

/// Who judges clients' certificates; none where no authority is named.
fn client_verifier(
    files: &Files,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    let mut authorities = Vec::new();
    if let Some(path) = &files.authorities {
        authorities.extend(certificates(path).map_err(|error| failed(PATHS, error))?);
    }
    if let Some(folder) = &files.authorities_folder {
        for path in files_of(folder)? {
            // Whatever else lies there is no authority.
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

fn revocations(files: &Files) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
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

/// The certificates of a file, or one line that says why there are none.
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
