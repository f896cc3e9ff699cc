//! Certificates as accounts and status variables show them. `x509-parser` reads them; names and times are printed as
//! OpenSSL prints them, because MariaDB stores and compares that text (REQUIRE ISSUER, REQUIRE SUBJECT).

use x509_parser::asn1_rs::FromDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::time::ASN1Time;
use x509_parser::x509::X509Name;

/// Reads one certificate; `None` for other bytes or for a certificate with bytes after it.
pub fn read(der: &[u8]) -> Option<X509Certificate<'_>> {
    let (rest, certificate) = X509Certificate::from_der(der).ok()?;
    rest.is_empty().then_some(certificate)
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A time as OpenSSL prints it: `Nov  9 21:33:08 2036 GMT`.
pub fn print_time(time: ASN1Time) -> String {
    let utc = time.to_datetime();
    let month = MONTHS[usize::from(u8::from(utc.month())) - 1];
    let (hour, minute, second) = utc.to_hms();
    format!("{month} {:2} {hour:02}:{minute:02}:{second:02} {} GMT", utc.day(), utc.year())
}

/// OpenSSL's short names of attributes. `x509-parser` knows others for some of them.
const ATTRIBUTES: &[(&str, &str)] = &[
    ("2.5.4.3", "CN"),
    ("2.5.4.4", "SN"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "street"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.12", "title"),
    ("2.5.4.13", "description"),
    ("2.5.4.17", "postalCode"),
    ("2.5.4.41", "name"),
    ("2.5.4.42", "GN"),
    ("2.5.4.43", "initials"),
    ("2.5.4.44", "generationQualifier"),
    ("2.5.4.46", "dnQualifier"),
    ("2.5.4.65", "pseudonym"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("1.2.840.113549.1.9.2", "unstructuredName"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];

/// A name in one line: `/C=SE/O=Example/CN=client`. Bytes that are not printable ASCII become `\xNN`.
pub fn one_line(name: &X509Name<'_>) -> String {
    let mut line = String::new();
    for attribute in name.iter_attributes() {
        let id = attribute.attr_type().to_id_string();
        let short = ATTRIBUTES.iter().find(|(known, _)| *known == id).map(|(_, short)| *short);
        line.push('/');
        line.push_str(short.unwrap_or(&id));
        line.push('=');
        for byte in attribute.attr_value().data {
            match byte {
                b' '..=b'~' => line.push(char::from(*byte)),
                _ => line.push_str(&format!("\\x{byte:02X}")),
            }
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_print_as_openssl_prints_them() {
        let print = |seconds| print_time(ASN1Time::from_timestamp(seconds).expect("in range"));
        assert_eq!(print(2_110_743_188), "Nov 19 21:33:08 2036 GMT");
        assert_eq!(print(951_782_400), "Feb 29 00:00:00 2000 GMT");
        assert_eq!(print(4_102_444_805), "Jan  1 00:00:05 2100 GMT");
    }

    #[test]
    fn names_print_in_one_line() {
        let name = b"\x30\x2a\x31\x0b\x30\x09\x06\x03\x55\x04\x06\x0c\x02SE\
            \x31\x0c\x30\x0a\x06\x03\x55\x04\x0a\x0c\x03M\xc3\xa9\
            \x31\x0d\x30\x0b\x06\x04\x2a\x86\x48\x05\x0c\x03xyz";
        let (rest, name) = X509Name::from_der(name).expect("a name");
        assert!(rest.is_empty());
        assert_eq!(one_line(&name), "/C=SE/O=M\\xC3\\xA9/1.2.840.5=xyz");
    }
}
