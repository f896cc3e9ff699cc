//! Ciphers and old hashes: AES_ENCRYPT, ENCODE, OLD_PASSWORD.

use aes::Aes128;
use aes::cipher::generic_array::GenericArray;
use aes::cipher::{BlockDecrypt, BlockEncrypt, KeyInit};
use keel_base::SqlResult;
use keel_value::{CollationId, SqlType, Value};

use super::away::{Pace, long};
use super::string::too_long;
use super::{Function, function, given, text_value};
use crate::typing::{string_type, text_octets};
use crate::{Env, EvalContext, Expr};

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!("aes_encrypt", 2, 2, aes_encrypt_type, aes_encrypt),
    function!("aes_decrypt", 2, 2, octets_type, aes_decrypt),
    function!("encode", 2, 2, octets_type, |_, a, cx| scramble(a, cx, Scrambler::encode)),
    function!("decode", 2, 2, octets_type, |_, a, cx| scramble(a, cx, Scrambler::decode)),
    function!(text "old_password", 1, 1, old_password_type, old_password),
];

/// Bytes of an AES block and of the key.
const BLOCK: usize = 16;

fn aes_encrypt_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    let block = BLOCK as u64;
    Ok((string_type((octets(&args[0]) / block + 1) * block, CollationId::BINARY), true))
}

fn octets_type(_: &Env, args: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((string_type(octets(&args[0]), CollationId::BINARY), true))
}

fn octets(arg: &Expr) -> u64 {
    text_octets(arg)
}

/// The cipher of a key of any length: its bytes are laid over each other.
fn aes(key: &[u8]) -> Aes128 {
    let mut folded = [0; BLOCK];
    key.iter().enumerate().for_each(|(i, octet)| folded[i % BLOCK] ^= octet);
    Aes128::new(&GenericArray::from(folded))
}

/// AES with 128 bits, block by block, with PKCS #7 padding.
fn aes_encrypt<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let plain = given!(args[0].text(cx)?);
    let cipher = aes(&given!(args[1].text(cx)?));
    let padding = BLOCK - plain.len() % BLOCK;
    if too_long("aes_encrypt", (plain.len() + padding) as u64, cx)? {
        return Ok(Value::Null);
    }
    let mut out = plain.into_owned();
    out.resize(out.len() + padding, padding as u8);
    long(Pace::Digest, out.len(), || {
        let encrypt = |block| cipher.encrypt_block(GenericArray::from_mut_slice(block));
        out.chunks_exact_mut(BLOCK).for_each(encrypt);
    });
    Ok(Value::Bytes(out.into()))
}

fn aes_decrypt<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let secret = given!(args[0].text(cx)?);
    let cipher = aes(&given!(args[1].text(cx)?));
    if secret.is_empty() || secret.len() % BLOCK != 0 {
        return Ok(Value::Null);
    }
    let mut out = secret.into_owned();
    long(Pace::Digest, out.len(), || {
        let decrypt = |block| cipher.decrypt_block(GenericArray::from_mut_slice(block));
        out.chunks_exact_mut(BLOCK).for_each(decrypt);
    });
    let padding = usize::from(out[out.len() - 1]);
    let kept = out.len().saturating_sub(padding);
    let is_padded = (1..=BLOCK).contains(&padding) && out[kept..].iter().all(|b| usize::from(*b) == padding);
    if !is_padded {
        return Ok(Value::Null);
    }
    out.truncate(kept);
    Ok(Value::Bytes(out.into()))
}

/// The hash of passwords before version 4.1, also the seed of ENCODE: two numbers of 31 bits. Blanks do not count.
fn old_hash(text: &[u8]) -> (u32, u32) {
    const BITS: u64 = 0x7FFF_FFFF;
    let (mut first, mut second, mut add) = (1_345_345_333u64, 0x1234_5671u64, 7u64);
    for octet in text.iter().filter(|b| !matches!(b, b' ' | b'\t')) {
        let octet = u64::from(*octet);
        first ^= ((first & 63).wrapping_add(add)).wrapping_mul(octet).wrapping_add(first << 8);
        second = second.wrapping_add((second << 8) ^ first);
        add = add.wrapping_add(octet);
    }
    ((first & BITS) as u32, (second & BITS) as u32)
}

fn old_password_type(cx: &Env, _: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((string_type(16, cx.vars.connection_collation), true))
}

fn old_password<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    if text.is_empty() {
        return Ok(text_value(""));
    }
    let (first, second) = old_hash(&text);
    Ok(text_value(format!("{first:08x}{second:08x}")))
}

/// ENCODE and DECODE: a permutation of all bytes and a stream of numbers, both made of the password.
struct Scrambler {
    random: Random,
    /// What stands for an octet in the secret.
    encoded: [u8; 256],
    /// The other way round.
    decoded: [u8; 256],
    shift: u32,
}

/// MariaDB's generator of pseudo random numbers.
struct Random {
    first: u64,
    second: u64,
}

impl Random {
    const MODULUS: u64 = 0x3FFF_FFFF;

    fn next(&mut self) -> f64 {
        self.first = (self.first * 3 + self.second) % Random::MODULUS;
        self.second = (self.first + self.second + 33) % Random::MODULUS;
        self.first as f64 / Random::MODULUS as f64
    }

    /// 0 to 254.
    fn octet(&mut self) -> u32 {
        (self.next() * 255.0) as u32
    }
}

impl Scrambler {
    fn new(password: &[u8]) -> Scrambler {
        let (first, second) = old_hash(password);
        let mut random =
            Random { first: u64::from(first) % Random::MODULUS, second: u64::from(second) % Random::MODULUS };
        let mut decoded: [u8; 256] = std::array::from_fn(|i| i as u8);
        for i in 0..decoded.len() {
            decoded.swap(i, random.octet() as usize);
        }
        let mut encoded = [0; 256];
        decoded.iter().enumerate().for_each(|(i, octet)| encoded[usize::from(*octet)] = i as u8);
        Scrambler { random, encoded, decoded, shift: 0 }
    }

    fn encode(&mut self, octet: u8) -> u8 {
        self.shift ^= self.random.octet();
        let secret = u32::from(self.encoded[usize::from(octet)]) ^ self.shift;
        self.shift ^= u32::from(octet);
        secret as u8
    }

    fn decode(&mut self, octet: u8) -> u8 {
        self.shift ^= self.random.octet();
        let plain = self.decoded[usize::from(octet ^ self.shift as u8)];
        self.shift ^= u32::from(plain);
        plain
    }
}

fn scramble<'f>(
    args: &'f [Expr],
    cx: &mut EvalContext<'_, 'f>,
    step: fn(&mut Scrambler, u8) -> u8,
) -> SqlResult<Value> {
    let text = given!(args[0].text(cx)?);
    let mut scrambler = Scrambler::new(&given!(args[1].text(cx)?));
    let out: Vec<u8> = text.iter().map(|octet| step(&mut scrambler, *octet)).collect();
    Ok(Value::Bytes(out.into()))
}
