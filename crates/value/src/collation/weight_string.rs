//! WEIGHT_STRING(): weights as MariaDB writes them, which is not the form of keys.

use super::{Charset, Info, Weighing, order, uca};

/// Pad to the asked number of weights.
const PAD: u32 = 0x40;
/// Pad behind the weights up to the length of the result.
const PAD_TO_LENGTH: u32 = 0x80;
/// Turn the bits, or the order of octets, round. The flags of the first level count for all, those of others for nothing.
const DESC: u32 = 0x100;
const REVERSE: u32 = 0x1_0000;
/// Levels of which flags tell.
const LEVELS: usize = 6;
/// What follows the weights of the first level where the collation does not pad, if Unicode's algorithm weighs.
const NOPAD_FILL: u16 = 0x200;

/// The levels that flags ask for, those beyond the last as the last.
fn levels(info: &Info, flags: u32) -> Vec<usize> {
    let present = match info.weighing {
        Weighing::Uca(uca) => u32::from(uca.levels),
        _ => 1,
    };
    let last = present.ilog2() as usize;
    let asked = (0..LEVELS).filter(|level| flags >> level & 1 == 1);
    let asked = asked.fold(0u32, |asked, level| asked | 1 << level.min(last));
    let wanted = if asked == 0 { present } else { asked & present };
    (0..=last).filter(|level| wanted >> level & 1 == 1).collect()
}

/// Octets of one weight.
pub(super) fn width(info: &Info) -> usize {
    match info.weighing {
        Weighing::Octets | Weighing::Table(_) => 1,
        Weighing::Uca(_) if info.charset == Charset::Latin1 => 1,
        Weighing::CodePoints if info.charset.max_bytes() == 4 => 3,
        Weighing::CodePoints | Weighing::General | Weighing::Uca(_) => 2,
    }
}

/// The most octets that a character gives on all levels.
pub(super) fn character_max(info: &Info) -> usize {
    match info.weighing {
        Weighing::Uca(_) if info.charset == Charset::Latin1 => 2,
        Weighing::Uca(uca) => 16 * uca.levels.count_ones() as usize,
        _ => width(info),
    }
}

/// Levels of a collation.
pub(super) fn level_count(info: &Info) -> u32 {
    match info.weighing {
        Weighing::Uca(uca) => uca.levels.count_ones(),
        _ => 1,
    }
}

/// Appends the weights: at most `count` on each level, all if it is 0. Pads up to `length` bytes if the flags ask for it.
pub(super) fn append(info: &Info, bytes: &[u8], count: usize, length: usize, flags: u32, out: &mut Vec<u8>) {
    let begin = out.len();
    for level in levels(info, flags) {
        let start = out.len();
        let most = if count == 0 { usize::MAX } else { count };
        let written = match info.weighing {
            Weighing::Uca(uca) => uca::each_weight(uca, info.charset, level, bytes, most, |weight| {
                write(info, u32::from(weight), out);
            }),
            _ => plain(info, bytes, most, out),
        };
        if flags & PAD != 0 {
            let fill = fill(info, level);
            (written..count).for_each(|_| write(info, fill, out));
        }
        if flags & DESC != 0 {
            out[start..].iter_mut().for_each(|octet| *octet = !*octet);
        }
        if flags & REVERSE != 0 {
            out[start..].reverse();
        }
    }
    let end = begin + length;
    if flags & PAD_TO_LENGTH != 0 && out.len() < end {
        let space = if info.pads { fill(info, 0) } else { 0 };
        while out.len() < end {
            write(info, space, out);
        }
        out.truncate(end);
    }
}

fn plain(info: &Info, bytes: &[u8], most: usize, out: &mut Vec<u8>) -> usize {
    let weigher = order::weigher(info);
    let (mut rest, mut written) = (bytes, 0);
    while !rest.is_empty() && written < most {
        let (weight, len) = weigher.next(rest);
        write(info, weight, out);
        rest = &rest[len..];
        written += 1;
    }
    written
}

fn write(info: &Info, weight: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&weight.to_be_bytes()[4 - width(info)..]);
}

/// What pads a level.
fn fill(info: &Info, level: usize) -> u32 {
    match info.weighing {
        Weighing::Uca(_) if level == 0 && !info.pads => u32::from(NOPAD_FILL),
        Weighing::Uca(uca) => u32::from(uca::space(uca, level)),
        _ if info.pads => order::weigher(info).space(),
        _ => 0,
    }
}
