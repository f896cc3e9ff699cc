//! INET4, INET6 and UUID: octets of a fixed number with a text form of their own.
//!
//! 1. [`Fixed::octets`] are what clients know: network order, a UUID as it is printed. [`Fixed::ordered`] are the same octets
//!    so that memcmp orders them as MariaDB does; rows and keys hold these.
//! 2. UUIDs of versions 1 to 5 order by their node and clock sequence first and by the youngest digits of their time last:
//!    their groups stand in reverse order. All others order as they print. The two kinds are told apart by the high bit of
//!    octet 6 of the ordered form, which is why MariaDB refuses some UUIDs that no version has.

use std::cmp::Ordering;
use std::io::Write;

use crate::TypeKind;

/// Octets of the longest value.
pub const OCTETS_MAX: usize = 16;

/// A value of INET4, INET6 or UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fixed {
    kind: FixedKind,
    octets: [u8; OCTETS_MAX],
}

/// The types of which [`Fixed`] holds values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum FixedKind {
    Inet4,
    Inet6,
    Uuid,
}

impl FixedKind {
    /// The kind of a type; none for types of other values.
    pub const fn of(kind: TypeKind) -> Option<FixedKind> {
        match kind {
            TypeKind::Inet4 => Some(FixedKind::Inet4),
            TypeKind::Inet6 => Some(FixedKind::Inet6),
            TypeKind::Uuid => Some(FixedKind::Uuid),
            _ => None,
        }
    }

    /// The type of its values.
    pub const fn type_kind(self) -> TypeKind {
        match self {
            FixedKind::Inet4 => TypeKind::Inet4,
            FixedKind::Inet6 => TypeKind::Inet6,
            FixedKind::Uuid => TypeKind::Uuid,
        }
    }

    /// Octets of its values.
    pub const fn octets(self) -> usize {
        match self {
            FixedKind::Inet4 => 4,
            FixedKind::Inet6 | FixedKind::Uuid => OCTETS_MAX,
        }
    }

    /// As messages name it.
    pub const fn name(self) -> &'static str {
        match self {
            FixedKind::Inet4 => "inet4",
            FixedKind::Inet6 => "inet6",
            FixedKind::Uuid => "uuid",
        }
    }
}

impl Fixed {
    /// The value whose octets are all zero.
    pub const fn zero(kind: FixedKind) -> Fixed {
        Fixed { kind, octets: [0; OCTETS_MAX] }
    }

    /// A value by its octets, which must be as many as the type has.
    pub fn from_octets(kind: FixedKind, octets: &[u8]) -> Option<Fixed> {
        if octets.len() != kind.octets() {
            return None;
        }
        let mut value = Fixed::zero(kind);
        value.octets[..octets.len()].copy_from_slice(octets);
        (kind != FixedKind::Uuid || is_tellable(&value.octets)).then_some(value)
    }

    /// A value by its text, which must hold nothing else.
    pub fn parse(kind: FixedKind, text: &[u8]) -> Option<Fixed> {
        match kind {
            FixedKind::Inet4 => Fixed::from_octets(kind, &parse_inet4(text)?),
            FixedKind::Inet6 => Fixed::from_octets(kind, &parse_inet6(text)?),
            FixedKind::Uuid => Fixed::from_octets(kind, &parse_uuid(text)?),
        }
    }

    /// Which type it is of.
    pub const fn kind(&self) -> FixedKind {
        self.kind
    }

    /// Its octets, as many as the type has.
    pub fn octets(&self) -> &[u8] {
        &self.octets[..self.kind.octets()]
    }

    /// Whether all octets are zero.
    pub fn is_zero(&self) -> bool {
        self.octets == [0; OCTETS_MAX]
    }

    /// Appends the octets that order by memcmp.
    pub fn append_ordered(&self, out: &mut Vec<u8>) {
        let ordered = self.ordered();
        out.extend_from_slice(&ordered[..self.kind.octets()]);
    }

    /// The octets that order by memcmp; zeros behind those that the type has.
    pub fn ordered(&self) -> [u8; OCTETS_MAX] {
        if self.kind == FixedKind::Uuid && is_reversed(&self.octets) {
            return reverse_groups(&self.octets);
        }
        self.octets
    }

    /// The value of ordered octets; those missing are zero.
    pub fn from_ordered(kind: FixedKind, ordered: &[u8]) -> Fixed {
        let mut value = Fixed::zero(kind);
        let count = kind.octets().min(ordered.len());
        value.octets[..count].copy_from_slice(&ordered[..count]);
        let was_reversed = value.octets[6] >= 0x80 && REVERSED_VERSIONS.contains(&value.octets[8]);
        if kind == FixedKind::Uuid && was_reversed {
            value.octets = restore_groups(&value.octets);
        }
        value
    }

    /// Appends its text.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        match self.kind {
            FixedKind::Inet4 => append_inet4(out, self.octets[..4].try_into().expect("4 octets")),
            FixedKind::Inet6 => append_inet6(out, &self.octets),
            FixedKind::Uuid => append_uuid(out, &self.octets),
        }
    }
}

impl PartialOrd for Fixed {
    fn partial_cmp(&self, other: &Fixed) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Fixed {
    fn cmp(&self, other: &Fixed) -> Ordering {
        self.ordered().cmp(&other.ordered())
    }
}

/// Octet 6 of UUIDs that order by their node: versions 1 to 5, and 0 with anything beside it.
const REVERSED_VERSIONS: std::ops::RangeInclusive<u8> = 0x01..=0x5F;

fn is_reversed(uuid: &[u8; OCTETS_MAX]) -> bool {
    REVERSED_VERSIONS.contains(&uuid[6]) && uuid[8] >= 0x80
}

/// Whether the ordered form tells by itself in which order its groups are.
fn is_tellable(uuid: &[u8; OCTETS_MAX]) -> bool {
    uuid[6] < 0x80 || uuid[8] == 0 || uuid[8] > 0x80
}

/// `llllllll-mmmm-Vhhh-vsss-nnnnnnnnnnnn` to `nnnnnnnnnnnn-vsss-Vhhh-mmmm-llllllll`.
fn reverse_groups(uuid: &[u8; OCTETS_MAX]) -> [u8; OCTETS_MAX] {
    let mut out = [0; OCTETS_MAX];
    out[..6].copy_from_slice(&uuid[10..]);
    out[6..8].copy_from_slice(&uuid[8..10]);
    out[8..10].copy_from_slice(&uuid[6..8]);
    out[10..12].copy_from_slice(&uuid[4..6]);
    out[12..].copy_from_slice(&uuid[..4]);
    out
}

fn restore_groups(ordered: &[u8; OCTETS_MAX]) -> [u8; OCTETS_MAX] {
    let mut out = [0; OCTETS_MAX];
    out[..4].copy_from_slice(&ordered[12..]);
    out[4..6].copy_from_slice(&ordered[10..12]);
    out[6..8].copy_from_slice(&ordered[8..10]);
    out[8..10].copy_from_slice(&ordered[6..8]);
    out[10..].copy_from_slice(&ordered[..6]);
    out
}

/// Four numbers of one to three digits.
pub fn parse_inet4(text: &[u8]) -> Option<[u8; 4]> {
    let mut out = [0; 4];
    let mut groups = text.split(|b| *b == b'.');
    for octet in &mut out {
        let group = groups.next()?;
        if group.is_empty() || group.len() > 3 || !group.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let value = group.iter().fold(0u16, |n, digit| n * 10 + u16::from(digit - b'0'));
        *octet = u8::try_from(value).ok()?;
    }
    groups.next().is_none().then_some(out)
}

/// Octets of a group of an IPv6 address.
const GROUP: usize = 2;

/// Eight groups of up to four digits; `::` once for groups of zero; the last two may be written as an IPv4 address.
pub fn parse_inet6(text: &[u8]) -> Option<[u8; OCTETS_MAX]> {
    let mut out = [0; OCTETS_MAX];
    let mut len = 0;
    let mut gap = None;
    let mut rest = text;
    if rest.first() == Some(&b':') {
        if rest.get(1) != Some(&b':') {
            return None;
        }
        gap = Some(0);
        rest = &rest[2..];
    }
    if text.len() < 2 {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.iter().take_while(|b| b.is_ascii_hexdigit()).count();
        let behind = rest.get(digits).copied();
        if behind == Some(b'.') {
            let v4 = parse_inet4(rest)?;
            out.get_mut(len..len + 4)?.copy_from_slice(&v4);
            len += 4;
            break;
        }
        if !(1..=4).contains(&digits) || !matches!(behind, None | Some(b':')) {
            return None;
        }
        let value = rest[..digits].iter().fold(0, |n, digit| n << 4 | u16::from(nibble(*digit)));
        out.get_mut(len..len + GROUP)?.copy_from_slice(&value.to_be_bytes());
        len += GROUP;
        rest = &rest[(digits + 1).min(rest.len())..];
        if behind == Some(b':') {
            match rest.first() {
                None => return None,
                Some(b':') if gap.is_some() || len == OCTETS_MAX => return None,
                Some(b':') => {
                    gap = Some(len);
                    rest = &rest[1..];
                }
                _ => {}
            }
        }
    }
    match gap {
        // It stands for one group at least.
        Some(_) if len == OCTETS_MAX => None,
        Some(at) => {
            out.copy_within(at..len, OCTETS_MAX - (len - at));
            let moved = OCTETS_MAX - (len - at);
            out[at..moved].fill(0);
            Some(out)
        }
        None => (len == OCTETS_MAX).then_some(out),
    }
}

/// The value of a hexadecimal digit.
fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// 32 hexadecimal digits, with hyphens anywhere between them.
fn parse_uuid(text: &[u8]) -> Option<[u8; OCTETS_MAX]> {
    let mut out = [0; OCTETS_MAX];
    let mut count = 0;
    if !text.first()?.is_ascii_hexdigit() || !text.last()?.is_ascii_hexdigit() {
        return None;
    }
    for &b in text.iter().filter(|b| **b != b'-') {
        if !b.is_ascii_hexdigit() {
            return None;
        }
        let octet = out.get_mut(count / 2)?;
        *octet = *octet << 4 | nibble(b);
        count += 1;
    }
    (count == 2 * OCTETS_MAX).then_some(out)
}

/// Appends `1.2.3.4`.
pub fn append_inet4(out: &mut Vec<u8>, v4: [u8; 4]) {
    let [a, b, c, d] = v4;
    write!(out, "{a}.{b}.{c}.{d}").expect("a Vec takes all bytes");
}

/// Appends an IPv6 address: the first longest run of zero groups as `::`, the last two groups as an IPv4 address where such
/// a one is mapped or compatible.
pub fn append_inet6(out: &mut Vec<u8>, v6: &[u8; OCTETS_MAX]) {
    const GROUPS: usize = OCTETS_MAX / GROUP;
    let groups: [u16; GROUPS] = std::array::from_fn(|i| u16::from_be_bytes([v6[2 * i], v6[2 * i + 1]]));
    let (mut start, mut len) = (GROUPS, 0);
    let mut at = 0;
    while at < GROUPS {
        let run = groups[at..].iter().take_while(|g| **g == 0).count();
        if run > len {
            (start, len) = (at, run);
        }
        at += run.max(1);
    }
    let holds_v4 = start == 0 && (len == 6 || len == 5 && groups[5] == 0xFFFF);
    let mut i = 0;
    while i < GROUPS {
        if i == start {
            out.extend_from_slice(b"::");
            i += len;
            continue;
        }
        if i > 0 && i != start + len {
            out.push(b':');
        }
        if holds_v4 && i == 6 {
            append_inet4(out, v6[12..].try_into().expect("4 octets"));
            return;
        }
        write!(out, "{:x}", groups[i]).expect("a Vec takes all bytes");
        i += 1;
    }
}

fn append_uuid(out: &mut Vec<u8>, uuid: &[u8; OCTETS_MAX]) {
    for (i, octet) in uuid.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        write!(out, "{octet:02x}").expect("a Vec takes all bytes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(kind: FixedKind, text: &str) -> Option<String> {
        let value = Fixed::parse(kind, text.as_bytes())?;
        let mut out = Vec::new();
        value.append_to(&mut out);
        assert_eq!(Fixed::from_ordered(kind, &value.ordered()), value, "{text}");
        Some(String::from_utf8(out).expect("ASCII"))
    }

    #[test]
    fn addresses_are_read_and_shown_as_mariadb_does() {
        for (text, expected) in [
            ("::1.2.3.4", Some("::1.2.3.4")),
            ("::102", Some("::102")),
            ("::FFFF:1.2.3.4", Some("::ffff:1.2.3.4")),
            ("1:0:0:2:0:0:0:3", Some("1:0:0:2::3")),
            ("1:0:2:3:4:5:6:7", Some("1::2:3:4:5:6:7")),
            ("::1:2:3:4:5:6:7", Some("::1:2:3:4:5:6:7")),
            ("1:2:3:4:5:6:7::", Some("1:2:3:4:5:6:7::")),
            ("1:2:3:4:5:6:1.2.3.4", Some("1:2:3:4:5:6:102:304")),
            ("::01.2.3.4", Some("::1.2.3.4")),
            ("::", Some("::")),
            ("1:2:3:4:5:6:7:8::", None),
            ("1::2::3", None),
            ("1:2:3:4:5:6:7::8", None),
            ("00001::", None),
            (":1::", None),
            ("1:", None),
            (":", None),
            ("", None),
            (" ::1", None),
            ("::1.2.3", None),
        ] {
            assert_eq!(shown(FixedKind::Inet6, text).as_deref(), expected, "{text}");
        }
        assert_eq!(shown(FixedKind::Inet4, "001.002.003.004").as_deref(), Some("1.2.3.4"));
        for text in
            ["1.2.3", "0001.2.3.4", "1.2.3.256", "1..2.3", ".1.2.3", "1.2.3.", "", "1.2.3.4.5", "1.2.3.4 "]
        {
            assert_eq!(shown(FixedKind::Inet4, text), None, "{text}");
        }
    }

    #[test]
    fn uuids_of_versions_1_to_5_order_by_their_node() {
        let uuid = |text: &str| Fixed::parse(FixedKind::Uuid, text.as_bytes()).expect(text);
        let texts = [
            "00000000-7fff-4f80-7fff-8080ffffff80",
            "000000ff-ffff-d07f-c07f-007f00ff0080",
            "ffffff00-ff00-0f00-e080-00007f800000",
            "ffffffff-ffff-1000-8000-000080000000",
            "00000000-0000-5000-8000-000090000000",
        ];
        for pair in texts.windows(2) {
            assert!(uuid(pair[0]) < uuid(pair[1]), "{pair:?}");
        }
        assert_eq!(
            shown(FixedKind::Uuid, "123E-4567e89b12d3a456-426655440001").as_deref(),
            Some("123e4567-e89b-12d3-a456-426655440001")
        );
        for text in [
            "",
            "-123e4567e89b12d3a456426655440005",
            "123e4567e89b12d3a45642665544000",
            "9e712021-00f8-df01-35c6-37f5fb2adf2a",
        ] {
            assert_eq!(shown(FixedKind::Uuid, text), None, "{text}");
        }
    }
}
