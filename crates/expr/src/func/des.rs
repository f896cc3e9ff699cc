//! DES_ENCRYPT and DES_DECRYPT: triple DES in CBC, as old applications ask for it.
//!
//! There is no file of keys (`des_key_file`), so the ten keys that it would hold are zeros, as they are in MariaDB then.
//! MariaDB's note 1287 is not given.

use aes::cipher::generic_array::GenericArray;
use aes::cipher::{BlockDecrypt, BlockEncrypt, KeyInit};
use des::TdesEde3;
use keel_base::{SqlResult, errors};
use keel_value::types::Class;
use keel_value::{CollationId, SqlType, Value};
use md5::{Digest, Md5};

use super::string::too_long;
use super::{Function, function, given, text_value};
use crate::typing::{string_type, text_octets};
use crate::{EvalContext, Expr};

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[
    function!("des_encrypt", 1, 2, |_, args| Ok(secret_type(args, |octets| octets + OVERHEAD)), encrypt),
    function!(
        "des_decrypt",
        1,
        2,
        |_, args| {
            Ok(secret_type(args, |octets| if octets < OVERHEAD { octets } else { octets - OVERHEAD }))
        },
        decrypt
    ),
];

/// Bytes of a block.
const BLOCK: usize = 8;
/// What encryption adds at most: the octet before the blocks, and one block.
const OVERHEAD: u64 = 9;
/// The first octet of what is encrypted: this, and the number of the key.
const ENCRYPTED: u8 = 0x80;
/// The number of a key that was said.
const SAID_KEY: u8 = 0x7F;
/// Keys that a file may hold.
const KEYS: i128 = 10;
/// Bytes of a key.
const KEY_BYTES: usize = 24;

fn secret_type(args: &[Expr], octets: impl Fn(u64) -> u64) -> (SqlType, bool) {
    (string_type(octets(text_octets(&args[0])), CollationId::BINARY), true)
}

/// The cipher of a key that was said: hashes of what came before and the key, one behind the other.
fn cipher_of(key: &[u8]) -> TdesEde3 {
    let first = Md5::digest(key);
    let second = Md5::new().chain_update(first).chain_update(key).finalize();
    let mut whole = [0; KEY_BYTES];
    whole[..first.len()].copy_from_slice(&first);
    whole[first.len()..].copy_from_slice(&second[..KEY_BYTES - first.len()]);
    TdesEde3::new(&GenericArray::from(whole))
}

/// The cipher of a key from the file that is not there.
fn cipher_of_file() -> TdesEde3 {
    TdesEde3::new(&GenericArray::from([0; KEY_BYTES]))
}

fn warn_of_key(name: &str, cx: &mut EvalContext<'_, '_>) -> SqlResult<Value> {
    cx.warn(errors::wrong_parameters_to_procedure(name))?;
    Ok(Value::Null)
}

/// The first octet, and the cipher; none for a key that is not there.
fn chosen<'f>(key: Option<&'f Expr>, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<(u8, TdesEde3)>> {
    let Some(key) = key else { return Ok(Some((ENCRYPTED, cipher_of_file()))) };
    if matches!(key.class(), Class::Int | Class::Decimal | Class::Real) {
        let number = key.integer(cx)?.filter(|number| (0..KEYS).contains(number));
        return Ok(number.map(|number| (ENCRYPTED | number as u8, cipher_of_file())));
    }
    Ok(key.text(cx)?.map(|key| (ENCRYPTED | SAID_KEY, cipher_of(&key))))
}

fn encrypt<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let plain = given!(args[0].text(cx)?);
    if plain.is_empty() {
        return Ok(text_value(""));
    }
    let Some((mark, cipher)) = chosen(args.get(1), cx)? else { return warn_of_key("des_encrypt", cx) };
    let padding = BLOCK - plain.len() % BLOCK;
    if too_long("des_encrypt", (plain.len() + padding + 1) as u64, cx)? {
        return Ok(Value::Null);
    }
    let mut out = vec![mark];
    out.extend_from_slice(&plain);
    out.resize(out.len() + padding - 1, b'*');
    out.push(padding as u8);
    let mut before = [0; BLOCK];
    for block in out[1..].chunks_exact_mut(BLOCK) {
        block.iter_mut().zip(before).for_each(|(octet, before)| *octet ^= before);
        cipher.encrypt_block(GenericArray::from_mut_slice(block));
        before.copy_from_slice(block);
    }
    Ok(Value::Bytes(out.into()))
}

fn decrypt<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let secret = given!(args[0].text(cx)?);
    // What was not encrypted stays as it is.
    if secret.len() < OVERHEAD as usize || secret.len() % BLOCK != 1 || secret[0] & ENCRYPTED == 0 {
        return Ok(Value::Bytes(secret.into_owned().into()));
    }
    let cipher = match args.get(1) {
        None if i128::from(secret[0] & !ENCRYPTED) < KEYS => cipher_of_file(),
        None => return warn_of_key("des_decrypt", cx),
        Some(key) => match key.text(cx)? {
            Some(key) => cipher_of(&key),
            None => return warn_of_key("des_decrypt", cx),
        },
    };
    let mut out = secret[1..].to_vec();
    let mut before = [0; BLOCK];
    for block in out.chunks_exact_mut(BLOCK) {
        let next: [u8; BLOCK] = std::array::from_fn(|i| block[i]);
        cipher.decrypt_block(GenericArray::from_mut_slice(block));
        block.iter_mut().zip(before).for_each(|(octet, before)| *octet ^= before);
        before = next;
    }
    let padding = usize::from(out[out.len() - 1]);
    if padding > BLOCK {
        return Ok(Value::Null);
    }
    out.truncate(out.len() - padding);
    Ok(Value::Bytes(out.into()))
}
