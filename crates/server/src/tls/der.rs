//! DER, as far as certificates need it: reading without a panic on any bytes, and writing.

/// Tags.
#[allow(missing_docs)]
pub mod tag {
    pub const INTEGER: u8 = 0x02;
    pub const BIT_STRING: u8 = 0x03;
    pub const OCTET_STRING: u8 = 0x04;
    pub const OID: u8 = 0x06;
    pub const UTF8: u8 = 0x0c;
    pub const UTC_TIME: u8 = 0x17;
    pub const TIME: u8 = 0x18;
    pub const SEQUENCE: u8 = 0x30;
    pub const SET: u8 = 0x31;
    /// `[0]`, constructed.
    pub const CONTEXT_0: u8 = 0xa0;
    /// `[3]`, constructed.
    pub const CONTEXT_3: u8 = 0xa3;
}

/// One element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element<'a> {
    /// Its tag.
    pub tag: u8,
    /// What it holds.
    pub content: &'a [u8],
    /// All of it, tag and length included.
    pub whole: &'a [u8],
}

/// Reads elements one after the other; what is cut short ends it.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The tag of the next element.
    pub fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The content of the next element, which has this tag.
    pub fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.element(tag).map(|element| element.content)
    }

    /// The next element, which has this tag.
    pub fn element(&mut self, tag: u8) -> Option<Element<'a>> {
        self.next().filter(|element| element.tag == tag)
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let all = self.0;
        let (&tag, rest) = all.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x84 => {
                let (octets, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (octets.iter().fold(0, |length, octet| length << 8 | usize::from(*octet)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(Element { tag, content, whole: &all[..all.len() - rest.len()] })
    }
}

/// An element of that tag and content.
pub fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len();
    match length {
        0..=0x7f => out.push(length as u8),
        0x80..=0xff => out.extend([0x81, length as u8]),
        _ => out.extend([0x82, (length >> 8) as u8, length as u8]),
    }
    out.extend_from_slice(content);
    out
}

/// The same around several.
pub fn join(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    element(tag, &parts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_back_and_cuts_end_the_reading() {
        for length in [0, 1, 127, 128, 255, 256, 5000] {
            let bytes = element(tag::OCTET_STRING, &vec![9; length]);
            let read = Reader(&bytes).element(tag::OCTET_STRING).expect("whole");
            assert_eq!((read.content.len(), read.whole), (length, &bytes[..]));
            assert!((0..bytes.len()).all(|cut| Reader(&bytes[..cut]).next().is_none()));
        }
        for bytes in [&[0x30, 0x80][..], &[0x30, 0x85, 0, 0, 0, 0, 0], &[0x30, 0x84, 255, 255, 255, 255]] {
            assert!(Reader(bytes).next().is_none());
        }
    }
}
