//! What a certificate says: whom it names, who signed it, how long it holds. Names and times are printed as OpenSSL prints
//! them, since that is what accounts and status variables of MariaDB hold.

use super::der::{Reader, tag};

/// A moment in UTC, by parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    year: u32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl Time {
    /// A moment in seconds since 1970.
    pub fn from_unix(seconds: i64) -> Time {
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400) as u32);
        // Years begin in March, so that the odd day is the last; an era has 400 of them.
        let shifted = days + 719_468;
        let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * of_year + 2) / 153;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        Time {
            year: (era * 400 + year_of_era + i64::from(month <= 2)) as u32,
            month: month as u32,
            day: (of_year - (153 * shifted_month + 2) / 5 + 1) as u32,
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
        }
    }

    fn read(reader: &mut Reader<'_>) -> Option<Time> {
        let element = reader.next()?;
        let text = std::str::from_utf8(element.content).ok()?.strip_suffix('Z')?;
        let (year, rest) = match element.tag {
            tag::UTC_TIME => {
                let year: u32 = text.get(..2)?.parse().ok()?;
                (if year < 50 { 2000 + year } else { 1900 + year }, text.get(2..)?)
            }
            tag::TIME => (text.get(..4)?.parse().ok()?, text.get(4..)?),
            _ => return None,
        };
        let part = |at: usize| rest.get(at..at + 2)?.parse::<u32>().ok();
        let time =
            Time { year, month: part(0)?, day: part(2)?, hour: part(4)?, minute: part(6)?, second: part(8)? };
        ((1..=12).contains(&time.month) && rest.len() == 10).then_some(time)
    }

    /// As DER writes it: with two digits of the year before 2050.
    pub fn encode(&self) -> (u8, String) {
        let Time { year, month, day, hour, minute, second } = self;
        let rest = format!("{month:02}{day:02}{hour:02}{minute:02}{second:02}Z");
        match year {
            1950..=2049 => (tag::UTC_TIME, format!("{:02}{rest}", year % 100)),
            _ => (tag::TIME, format!("{year:04}{rest}")),
        }
    }

    /// As OpenSSL prints it.
    pub fn print(&self) -> String {
        let Time { year, month, day, hour, minute, second } = self;
        let month = MONTHS[(*month as usize).clamp(1, 12) - 1];
        format!("{month} {day:2} {hour:02}:{minute:02}:{second:02} {year} GMT")
    }
}

/// The parts of a certificate.
#[derive(Debug, Clone, Copy)]
pub struct Certificate<'a> {
    /// 0 for version 1.
    pub version: u8,
    /// Who signed it, as a whole element.
    pub issuer: &'a [u8],
    /// Whom it names, as a whole element.
    pub subject: &'a [u8],
    /// From when it holds.
    pub not_before: Time,
    /// Until when.
    pub not_after: Time,
    /// The public key, as a whole element.
    pub key: &'a [u8],
    /// What is signed.
    pub signed: &'a [u8],
    /// By which algorithm: the content of its element.
    pub algorithm: &'a [u8],
    /// The signature.
    pub signature: &'a [u8],
}

impl<'a> Certificate<'a> {
    /// Reads a certificate.
    pub fn read(der: &'a [u8]) -> Option<Certificate<'a>> {
        let mut outer = Reader(Reader(der).expect(tag::SEQUENCE)?);
        let signed = outer.element(tag::SEQUENCE)?;
        let algorithm = outer.expect(tag::SEQUENCE)?;
        let signature = outer.expect(tag::BIT_STRING)?.strip_prefix(&[0])?;
        let mut inner = Reader(signed.content);
        let version = match inner.peek()? {
            tag::CONTEXT_0 => *Reader(inner.expect(tag::CONTEXT_0)?).expect(tag::INTEGER)?.last()?,
            _ => 0,
        };
        inner.expect(tag::INTEGER)?;
        inner.expect(tag::SEQUENCE)?;
        let issuer = inner.element(tag::SEQUENCE)?.whole;
        let mut validity = Reader(inner.expect(tag::SEQUENCE)?);
        let (not_before, not_after) = (Time::read(&mut validity)?, Time::read(&mut validity)?);
        let subject = inner.element(tag::SEQUENCE)?.whole;
        let key = inner.element(tag::SEQUENCE)?.whole;
        let signed = signed.whole;
        Some(Certificate {
            version,
            issuer,
            subject,
            not_before,
            not_after,
            key,
            signed,
            algorithm,
            signature,
        })
    }
}

/// Attributes of names with their short forms.
const ATTRIBUTES: &[(&[u8], &str)] = &[
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 4], "SN"),
    (&[0x55, 4, 5], "serialNumber"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "street"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x55, 4, 12], "title"),
    (&[0x55, 4, 13], "description"),
    (&[0x55, 4, 17], "postalCode"),
    (&[0x55, 4, 41], "name"),
    (&[0x55, 4, 42], "GN"),
    (&[0x55, 4, 43], "initials"),
    (&[0x55, 4, 44], "generationQualifier"),
    (&[0x55, 4, 46], "dnQualifier"),
    (&[0x55, 4, 65], "pseudonym"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], "emailAddress"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 2], "unstructuredName"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
];

/// A name in one line: `/C=SE/O=Some/CN=client`.
pub fn one_line(name: &[u8]) -> String {
    let mut line = String::new();
    let Some(sets) = Reader(name).expect(tag::SEQUENCE) else { return line };
    for attribute in Reader(sets).flat_map(|set| Reader(set.content)) {
        let mut parts = Reader(attribute.content);
        let (Some(oid), Some(value)) = (parts.expect(tag::OID), parts.next()) else { continue };
        let known = ATTRIBUTES.iter().find(|(known, _)| *known == oid);
        line.push('/');
        match known {
            Some((_, short)) => line.push_str(short),
            None => line.push_str(&dotted(oid)),
        }
        line.push('=');
        for octet in value.content {
            match octet {
                b' '..=b'~' => line.push(char::from(*octet)),
                _ => line.push_str(&format!("\\x{octet:02X}")),
            }
        }
    }
    line
}

/// An object identifier by its numbers.
fn dotted(oid: &[u8]) -> String {
    let mut numbers = Vec::new();
    let mut number = 0u64;
    for octet in oid {
        number = number << 7 | u64::from(octet & 0x7f);
        if octet & 0x80 == 0 {
            if numbers.is_empty() {
                let first = (number / 40).min(2);
                numbers.push(first.to_string());
                number -= first * 40;
            }
            numbers.push(number.to_string());
            number = 0;
        }
    }
    numbers.join(".")
}

#[cfg(test)]
mod tests {
    use super::super::der::{element, join};
    use super::*;

    #[test]
    fn times_are_printed_as_openssl_does() {
        let time = Time::from_unix(2_110_743_188);
        assert_eq!(time.print(), "Nov 19 21:33:08 2036 GMT");
        assert_eq!(Time::from_unix(951_782_400).print(), "Feb 29 00:00:00 2000 GMT");
        for time in [time, Time::from_unix(4_102_444_800), Time::from_unix(5)] {
            let (tag, text) = time.encode();
            assert_eq!(Time::read(&mut Reader(&element(tag, text.as_bytes()))), Some(time));
        }
        assert!(Time::read(&mut Reader(&element(tag::UTC_TIME, b"991301000000Z"))).is_none());
    }

    #[test]
    fn names_are_printed_in_one_line() {
        let attribute = |oid: &[u8], value: &[u8]| {
            let pair = join(tag::SEQUENCE, &[&element(tag::OID, oid), &element(tag::UTF8, value)]);
            element(tag::SET, &pair)
        };
        let name = join(
            tag::SEQUENCE,
            &[
                &attribute(&[0x55, 4, 6], b"SE"),
                &attribute(&[0x55, 4, 10], "M\u{e9}".as_bytes()),
                &attribute(&[0x2a, 0x86, 0x48, 5], b"x"),
            ],
        );
        assert_eq!(one_line(&name), "/C=SE/O=M\\xC3\\xA9/1.2.840.5=x");
        assert_eq!(one_line(&name[..9]), "");
    }
}
