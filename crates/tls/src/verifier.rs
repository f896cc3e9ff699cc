//! Verifies clients' certificates against the authorities of `ssl_ca`.
//!
//! webpki verifies certificates of version 3 and refuses those of version 1, which `openssl x509 -req` makes unless asked
//! for more. This module verifies version 1: signed directly by an authority, and within the validity. They have no
//! extensions that could say more. With revocation lists their status is unknown, so they are refused.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use webpki::RawPublicKeyEntity;
use x509_parser::certificate::X509Certificate;
use x509_parser::x509::X509Version;

use crate::certificate;

/// Verifies clients' certificates of all versions.
pub struct Verifier {
    webpki: Arc<dyn ClientCertVerifier>,
    authorities: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
    /// With revocation lists a certificate of version 1 is refused: its status is unknown.
    has_revocations: bool,
}

impl Verifier {
    /// Version 1 is verified here, the other versions by `webpki`.
    pub fn new(
        webpki: Arc<dyn ClientCertVerifier>,
        authorities: Vec<CertificateDer<'static>>,
        algorithms: WebPkiSupportedAlgorithms,
        has_revocations: bool,
    ) -> Verifier {
        Verifier { webpki, authorities, algorithms, has_revocations }
    }

    fn judge(&self, leaf: &X509Certificate<'_>, now: UnixTime) -> Result<ClientCertVerified, Error> {
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if now < leaf.validity().not_before.timestamp() {
            return Err(CertificateError::NotValidYet.into());
        }
        if now > leaf.validity().not_after.timestamp() {
            return Err(CertificateError::Expired.into());
        }
        if self.has_revocations {
            return Err(CertificateError::UnknownRevocationStatus.into());
        }
        let signs = |authority: &CertificateDer<'_>| {
            certificate::read(authority).is_some_and(|authority| {
                authority.subject().as_raw() == leaf.issuer().as_raw()
                    && leaf.verify_signature(Some(authority.public_key())).is_ok()
            })
        };
        match self.authorities.iter().any(signs) {
            true => Ok(ClientCertVerified::assertion()),
            false => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    /// Verifies a signature of the handshake by the key of a certificate of version 1.
    fn check_handshake(
        &self,
        message: &[u8],
        leaf: &X509Certificate<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let bad = || Error::from(CertificateError::BadSignature);
        let info = SubjectPublicKeyInfoDer::from(leaf.public_key().raw);
        let key = RawPublicKeyEntity::try_from(&info).map_err(|_| bad())?;
        let of_scheme = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == signature.scheme);
        let (_, algorithms) = of_scheme.ok_or_else(bad)?;
        match algorithms
            .iter()
            .any(|known| key.verify_signature(*known, message, signature.signature()).is_ok())
        {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(bad()),
        }
    }
}

/// A certificate, if it is of version 1.
fn version_1<'a>(der: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    certificate::read(der).filter(|certificate| certificate.version() == X509Version::V1)
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
            // TLS 1.3 does not allow the signature schemes of 1.2.
            Some(_) if is_scheme_of_12_only(signature.scheme) => Err(CertificateError::BadSignature.into()),
            Some(leaf) => self.check_handshake(message, &leaf, signature),
            None => self.webpki.verify_tls13_signature(message, leaf, signature),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

fn is_scheme_of_12_only(scheme: SignatureScheme) -> bool {
    matches!(
        scheme,
        SignatureScheme::RSA_PKCS1_SHA1
            | SignatureScheme::RSA_PKCS1_SHA256
            | SignatureScheme::RSA_PKCS1_SHA384
            | SignatureScheme::RSA_PKCS1_SHA512
            | SignatureScheme::ECDSA_SHA1_Legacy
    )
}
