//! How weights of the first level are written in sort keys: letters without accents, digits and the space in one octet, most
//! other weights in two.
//!
//! The weights are cut into segments in their order, each with lead octets of its own. The form belongs to what is stored:
//! it must not change for a file of weights, whichever its tailoring. Octet 00 is free to end a key.

use super::table::Level;

/// How the weights of a segment are written.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// The lead alone: a segment of one weight.
    Alone,
    /// A lead for each 256 weights, then the place within these.
    Pair,
    /// The lead and the weight.
    Far,
    /// One lead, the low octet of the weight; the weight that follows it is written behind as it is.
    Double,
    /// One lead for one weight; the weight that follows it is written behind as it is.
    AloneDouble,
}

#[derive(Clone, Copy)]
struct Segment {
    first: u16,
    last: u16,
    lead: u8,
    form: Form,
}

/// The segments.
pub(super) struct Code {
    segments: Vec<Segment>,
    /// For the high octet of a weight the segment in which its lowest weight lies.
    start: [u8; 256],
    /// For a lead the octets of what it leads, 0 if it leads nothing.
    len: [u8; 256],
    space: u8,
}

/// The last weight that characters of the tables have; computed ones are greater.
const TOLD_MAX: u16 = 0x7FFF;
/// Weights that begin computed ones, which come in twos.
const DOUBLES: std::ops::RangeInclusive<u16> = 0xFB00..=0xFBFF;
/// The two that lead most Chinese characters.
const UNIFIED: [u16; 2] = [0xFB40, 0xFB41];

impl Code {
    /// The code of a file whose own order has this first level.
    pub(super) fn new(level: &Level) -> Code {
        let letters = (b'0'..=b'9').chain(b'a'..=b'z').chain([b' ']);
        let mut alone: Vec<u16> = letters.map(|c| level.alone[usize::from(c)]).filter(|w| *w != 0).collect();
        alone.sort_unstable();
        alone.dedup();
        let mut maker = Maker { segments: Vec::new(), lead: 1, next: 1 };
        for weight in alone {
            maker.upto(weight - 1, Form::Pair);
            maker.upto(weight, Form::Alone);
        }
        maker.upto(TOLD_MAX, Form::Pair);
        maker.upto(DOUBLES.start() - 1, Form::Far);
        maker.upto(UNIFIED[0] - 1, Form::Double);
        maker.upto(UNIFIED[0], Form::AloneDouble);
        maker.upto(UNIFIED[1], Form::AloneDouble);
        maker.upto(*DOUBLES.end(), Form::Double);
        maker.upto(u16::MAX, Form::Far);
        Code::of(maker.segments, level)
    }

    fn of(segments: Vec<Segment>, level: &Level) -> Code {
        let mut code = Code { segments, start: [0; 256], len: [0; 256], space: 0 };
        for high in 0..=u8::MAX {
            let lowest = (u16::from(high) << 8).max(1);
            code.start[usize::from(high)] = code.segments.partition_point(|s| s.last < lowest) as u8;
        }
        for segment in &code.segments {
            let (leads, len) = match segment.form {
                Form::Alone => (1, 1),
                Form::Pair => ((segment.last - segment.first) / 256 + 1, 2),
                Form::Far | Form::AloneDouble => (1, 3),
                Form::Double => (1, 4),
            };
            let from = usize::from(segment.lead);
            code.len[from..from + usize::from(leads)].fill(len);
        }
        code.space = code.segment(level.space).lead;
        code
    }

    #[inline]
    fn segment(&self, weight: u16) -> Segment {
        let mut at = usize::from(self.start[usize::from(weight >> 8)]);
        while self.segments[at].last < weight {
            at += 1;
        }
        self.segments[at]
    }

    /// Appends a weight, which is not 0, and asks for the next one if the two belong together.
    #[inline]
    pub(super) fn write(&self, weight: u16, next: impl FnOnce() -> u16, out: &mut Vec<u8>) {
        let segment = self.segment(weight);
        let [high, low] = weight.to_be_bytes();
        match segment.form {
            Form::Alone => out.push(segment.lead),
            Form::Pair => {
                let [page, place] = (weight - segment.first).to_be_bytes();
                out.extend_from_slice(&[segment.lead + page, place]);
            }
            Form::Far => out.extend_from_slice(&[segment.lead, high, low]),
            Form::AloneDouble => {
                out.push(segment.lead);
                out.extend_from_slice(&next().to_be_bytes());
            }
            Form::Double => {
                out.extend_from_slice(&[segment.lead, low]);
                out.extend_from_slice(&next().to_be_bytes());
            }
        }
    }

    /// The one octet of a character, 0 if it has more or is a space; `level` may be that of a tailoring.
    pub(super) fn plain(&self, level: &Level) -> [u8; 256] {
        let mut plain = [0; 256];
        for octet in (0..128u8).filter(|octet| *octet != b' ') {
            let weight = level.plain[usize::from(octet)];
            if weight != 0 && weight != level.space {
                let segment = self.segment(weight);
                plain[usize::from(octet)] = if segment.form == Form::Alone { segment.lead } else { 0 };
            }
        }
        plain
    }

    /// What a space is written as.
    pub(super) fn space(&self) -> u8 {
        self.space
    }

    /// Octets of what `lead` leads, itself included; None if it leads nothing.
    pub(super) fn len(&self, lead: u8) -> Option<usize> {
        Some(usize::from(self.len[usize::from(lead)])).filter(|len| *len > 0)
    }
}

struct Maker {
    segments: Vec<Segment>,
    lead: u16,
    next: u32,
}

impl Maker {
    /// Adds what lies between the last segment and `last`, if anything does.
    fn upto(&mut self, last: u16, form: Form) {
        if u32::from(last) < self.next {
            return;
        }
        let first = self.next as u16;
        let leads = if form == Form::Pair { (last - first) / 256 + 1 } else { 1 };
        assert!(self.lead + leads <= 256, "the leads of a file of weights do not suffice");
        self.segments.push(Segment { first, last, lead: self.lead as u8, form });
        self.lead += leads;
        self.next = u32::from(last) + 1;
    }
}
