//! Whether a client's certificate is signed by one of the authorities of `ssl_ca`.
//!
//! Certificates of version 3 are judged by webpki. Those of version 1, which `openssl x509 -req` makes where nobody asks for
//! more and which it refuses, are judged here: signed directly by an authority, and within their time. They have no
//! extensions that could say more, and revocation lists count for them as in a chain of one.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::certificate::{Certificate, Time};
use super::der::{Reader, tag};

/// The version of certificates without extensions.
const VERSION_1: u8 = 0;

/// Judges clients.
pub struct Verifier {
    webpki: Arc<dyn ClientCertVerifier>,
    authorities: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
    /// Revocation lists are given: what they do not know is not accepted.
    has_revocations: bool,
}

impl Verifier {
    /// A verifier that asks `webpki` about all but version 1.
    pub fn new(
        webpki: Arc<dyn ClientCertVerifier>,
        authorities: Vec<CertificateDer<'static>>,
        algorithms: WebPkiSupportedAlgorithms,
        has_revocations: bool,
    ) -> Verifier {
        Verifier { webpki, authorities, algorithms, has_revocations }
    }

    fn judge(&self, leaf: &Certificate<'_>, now: UnixTime) -> Result<ClientCertVerified, Error> {
        let now = Time::from_unix(i64::try_from(now.as_secs()).unwrap_or(i64::MAX / 2));
        if now < leaf.not_before {
            return Err(CertificateError::NotValidYet.into());
        }
        if now > leaf.not_after {
            return Err(CertificateError::Expired.into());
        }
        if self.has_revocations {
            return Err(CertificateError::UnknownRevocationStatus.into());
        }
        let signs = |authority: &CertificateDer<'_>| {
            Certificate::read(authority).is_some_and(|authority| {
                authority.subject == leaf.issuer
                    && self.is_signed(authority.key, leaf.algorithm, leaf.signed, leaf.signature)
            })
        };
        match self.authorities.iter().any(signs) {
            true => Ok(ClientCertVerified::assertion()),
            false => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    /// Whether `key`, a whole element, made the signature by that algorithm.
    fn is_signed(&self, key: &[u8], algorithm: &[u8], message: &[u8], signature: &[u8]) -> bool {
        let Some((kind, bits)) = key_parts(key) else { return false };
        self.algorithms.all.iter().any(|known| {
            known.signature_alg_id().as_ref() == algorithm
                && known.public_key_alg_id().as_ref() == kind
                && known.verify_signature(bits, message, signature).is_ok()
        })
    }

    /// A signature of the handshake by a certificate of version 1.
    fn check_handshake(
        &self,
        message: &[u8],
        leaf: &Certificate<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let bad = || Error::from(CertificateError::BadSignature);
        let (kind, bits) = key_parts(leaf.key).ok_or_else(bad)?;
        let of_scheme = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == signature.scheme);
        let (_, algorithms) = of_scheme.ok_or_else(bad)?;
        let proves = algorithms.iter().any(|known| {
            known.public_key_alg_id().as_ref() == kind
                && known.verify_signature(bits, message, signature.signature()).is_ok()
        });
        if proves { Ok(HandshakeSignatureValid::assertion()) } else { Err(bad()) }
    }
}

/// The kind of a public key, and its bits.
fn key_parts(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = Reader(Reader(key).expect(tag::SEQUENCE)?);
    let kind = parts.expect(tag::SEQUENCE)?;
    Some((kind, parts.expect(tag::BIT_STRING)?.strip_prefix(&[0])?))
}

/// A certificate, if it is of version 1.
fn version_1<'a>(der: &'a CertificateDer<'_>) -> Option<Certificate<'a>> {
    Certificate::read(der).filter(|certificate| certificate.version == VERSION_1)
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("authorities", &self.authorities.len()).finish()
    }
}

impl ClientCertVerifier for Verifier {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.webpki.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match version_1(leaf) {
            Some(leaf) => self.judge(&leaf, now),
            None => self.webpki.verify_client_cert(leaf, intermediates, now),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match version_1(leaf) {
            Some(leaf) => self.check_handshake(message, &leaf, signature),
            None => self.webpki.verify_tls12_signature(message, leaf, signature),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match version_1(leaf) {
            // 1.3 has no signatures of the kinds that a certificate itself may have.
            Some(_) if is_of_12_alone(signature.scheme) => Err(CertificateError::BadSignature.into()),
            Some(leaf) => self.check_handshake(message, &leaf, signature),
            None => self.webpki.verify_tls13_signature(message, leaf, signature),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

fn is_of_12_alone(scheme: SignatureScheme) -> bool {
    matches!(
        scheme,
        SignatureScheme::RSA_PKCS1_SHA1
            | SignatureScheme::RSA_PKCS1_SHA256
            | SignatureScheme::RSA_PKCS1_SHA384
            | SignatureScheme::RSA_PKCS1_SHA512
            | SignatureScheme::ECDSA_SHA1_Legacy
    )
}
