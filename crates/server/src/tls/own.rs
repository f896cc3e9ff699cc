//! The certificate that a server makes for itself: a P-256 key and its own signature, for clients that encrypt without
//! asking who answers, or that were given this very certificate.

use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

use super::certificate::Time;
use super::der::{element, join, tag};

/// How long it holds, in seconds: ten years.
const VALIDITY: i64 = 3650 * 86_400;
/// From a day ago, for clients whose clocks are behind.
const EARLIER: i64 = 86_400;

/// Whom it names.
const NAME: &str = "Keel auto-generated server certificate";

const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const EC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

/// `[2]` and `[7]` of a general name.
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

/// A certificate and its key, both as PEM.
pub struct Made {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

/// Makes a certificate for a machine of that name; `now` in seconds since 1970. None if there is no randomness.
pub fn make(host: &str, now: i64) -> Option<Made> {
    let random = SystemRandom::new();
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).ok()?;
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key.as_ref(), &random).ok()?;
    let mut serial = [0; 16];
    random.fill(&mut serial).ok()?;
    // Positive, and without a leading zero.
    serial[0] = serial[0] & 0x3f | 0x40;
    let signed = to_be_signed(host, now, &serial, pair.public_key().as_ref());
    let signature = pair.sign(&random, &signed).ok()?;
    let whole = join(tag::SEQUENCE, &[&signed, &algorithm(), &bits(signature.as_ref())]);
    Some(Made { certificate: pem("CERTIFICATE", &whole), key: pem("PRIVATE KEY", key.as_ref()) })
}

fn to_be_signed(host: &str, now: i64, serial: &[u8], key: &[u8]) -> Vec<u8> {
    let oid = |oid: &[u8]| element(tag::OID, oid);
    let common = join(tag::SEQUENCE, &[&oid(COMMON_NAME), &element(tag::UTF8, NAME.as_bytes())]);
    let name = element(tag::SEQUENCE, &element(tag::SET, &common));
    let moment = |seconds: i64| {
        let (tag, text) = Time::from_unix(seconds).encode();
        element(tag, text.as_bytes())
    };
    let validity = join(tag::SEQUENCE, &[&moment(now - EARLIER), &moment(now + VALIDITY)]);
    let kind = join(tag::SEQUENCE, &[&oid(EC_KEY), &oid(P256)]);
    let names = join(
        tag::SEQUENCE,
        &[
            &element(DNS_NAME, b"localhost"),
            &element(DNS_NAME, host.as_bytes()),
            &element(IP_ADDRESS, &[127, 0, 0, 1]),
            &element(IP_ADDRESS, &std::net::Ipv6Addr::LOCALHOST.octets()),
        ],
    );
    let extension = join(tag::SEQUENCE, &[&oid(ALTERNATIVE_NAMES), &element(tag::OCTET_STRING, &names)]);
    join(
        tag::SEQUENCE,
        &[
            &element(tag::CONTEXT_0, &element(tag::INTEGER, &[2])),
            &element(tag::INTEGER, serial),
            &algorithm(),
            &name,
            &validity,
            &name,
            &join(tag::SEQUENCE, &[&kind, &bits(key)]),
            &element(tag::CONTEXT_3, &element(tag::SEQUENCE, &extension)),
        ],
    )
}

fn algorithm() -> Vec<u8> {
    element(tag::SEQUENCE, &element(tag::OID, ECDSA_SHA256))
}

/// A bit string of whole octets.
fn bits(octets: &[u8]) -> Vec<u8> {
    join(tag::BIT_STRING, &[&[0], octets])
}

/// Characters of a line of PEM.
const LINE: usize = 64;

fn pem(label: &str, der: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(LINE / 4 * 3) {
        for group in line.chunks(3) {
            let bits = group.iter().fold(0u32, |bits, octet| bits << 8 | u32::from(*octet));
            let bits = bits << (8 * (3 - group.len()));
            for place in 0..4 {
                let digit = ALPHABET[(bits >> (18 - 6 * place)) as usize & 63];
                text.push(if place <= group.len() { char::from(digit) } else { '=' });
            }
        }
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::super::certificate::{Certificate, one_line};
    use super::*;

    #[test]
    fn what_is_made_can_be_read() {
        let made = make("somewhere", 1_795_383_600).expect("a certificate");
        let der = CertificateDer::from_pem_slice(made.certificate.as_bytes()).expect("PEM");
        let read = Certificate::read(&der).expect("a certificate");
        assert_eq!((read.version, read.issuer), (2, read.subject));
        assert_eq!(one_line(read.subject), format!("/CN={NAME}"));
        assert_eq!(read.not_after, Time::from_unix(1_795_383_600 + VALIDITY));
        assert!(made.key.starts_with("-----BEGIN PRIVATE KEY-----\n"));
        assert!((0..der.len()).all(|cut| Certificate::read(&der[..cut]).is_none()));
    }
}
