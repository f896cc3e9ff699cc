//! The self-signed certificate that the server generates if none is configured. It serves clients that do not verify the
//! server, and clients that have a copy of it. `rcgen` makes it: a P-256 key, valid for ten years, for `localhost`, the
//! loopback addresses and the machine's name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rcgen::string::Ia5String;
use rcgen::{CertificateParams, DnType, KeyPair, SanType};
use x509_parser::time::ASN1Time;

/// Validity in seconds: ten years.
const VALIDITY: i64 = 3650 * 86_400;
/// Validity begins a day before the server's time, for clients with slow clocks.
const EARLIER: i64 = 86_400;

/// The common name.
const NAME: &str = "Keel auto-generated server certificate";

/// A certificate and its key, both as PEM.
pub struct OwnCertificate {
    /// The certificate.
    pub certificate: String,
    /// The private key in PKCS #8.
    pub key: String,
}

/// Generates a certificate for the machine `host`; `now` is in seconds since 1970. `None` if the system has no random bytes.
pub fn generate(host: &str, now: i64) -> Option<OwnCertificate> {
    let mut params = CertificateParams::default();
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.not_before = ASN1Time::from_timestamp(now - EARLIER).ok()?.to_datetime();
    params.not_after = ASN1Time::from_timestamp(now + VALIDITY).ok()?.to_datetime();
    let names = ["localhost", host].into_iter().filter_map(|name| Ia5String::try_from(name).ok());
    params.subject_alt_names.extend(names.map(SanType::DnsName));
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    params.subject_alt_names.extend(loopback.map(SanType::IpAddress));
    let key = KeyPair::generate().ok()?;
    let certificate = params.self_signed(&key).ok()?;
    Some(OwnCertificate { certificate: certificate.pem(), key: key.serialize_pem() })
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use x509_parser::x509::X509Version;

    use super::*;
    use crate::certificate::{one_line, read};

    #[test]
    fn made_certificate_reads_back_and_cuts_do_not() {
        let made = generate("somewhere", 1_795_383_600).expect("a certificate");
        let der = CertificateDer::from_pem_slice(made.certificate.as_bytes()).expect("PEM");
        let certificate = read(&der).expect("a certificate");
        assert_eq!(certificate.version(), X509Version::V3);
        assert_eq!(certificate.issuer(), certificate.subject());
        assert_eq!(one_line(certificate.subject()), format!("/CN={NAME}"));
        assert_eq!(certificate.validity().not_after.timestamp(), 1_795_383_600 + VALIDITY);
        let names = certificate.subject_alternative_name().expect("well-formed").expect("present");
        assert_eq!(names.value.general_names.len(), 4);
        assert!(made.key.starts_with("-----BEGIN PRIVATE KEY-----"));
        assert!((0..der.len()).all(|cut| read(&der[..cut]).is_none()));
    }
}
