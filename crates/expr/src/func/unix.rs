//! ENCRYPT: the password hashes of crypt(3), as MariaDB gets them from the system's library.

use keel_base::SqlResult;
use keel_storage::runtime;
use keel_value::{CollationId, SqlType, Value};
use pwhash::unix;

use super::{Function, function, given, text_value};
use crate::typing::string_type;
use crate::{Env, EvalContext, Expr};

/// The functions of this subject.
pub const FUNCTIONS: &[Function] = &[function!(volatile "encrypt", 1, 2, encrypt_type, encrypt)];

/// Characters that MariaDB describes a result with: those of the oldest method.
const RESULT_LENGTH: u64 = 13;
/// What crypt(3) gives for a salt that it cannot read.
const NO_HASH: &str = "*0";
/// Characters of a salt of the oldest method.
const SALT_LENGTH: usize = 2;
/// What salts and hashes are written with.
const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Most rounds that a salt may ask for: some tenth of a second. crypt(3) knows no such limit, but a call holds a thread here.
const ROUNDS_MAX: u32 = 100_000;
/// The same for bcrypt, whose rounds are a power of two.
const BCRYPT_COST_MAX: u32 = 11;

fn encrypt_type(_: &Env, _: &mut [Expr]) -> SqlResult<(SqlType, bool)> {
    Ok((string_type(RESULT_LENGTH, CollationId::BINARY), true))
}

fn encrypt<'f>(_: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let password = given!(args[0].text(cx)?);
    if password.is_empty() {
        return Ok(text_value(""));
    }
    let salt = match args.get(1) {
        None => random_salt(),
        Some(salt) => {
            let salt = given!(salt.text(cx)?);
            if salt.len() < SALT_LENGTH {
                return Ok(Value::Null);
            }
            salt.into_owned()
        }
    };
    let hash = std::str::from_utf8(&salt).ok().filter(|salt| is_bounded(salt));
    let hash = hash.and_then(|salt| unix::crypt(until_nul(&password), salt).ok());
    Ok(text_value(hash.unwrap_or_else(|| NO_HASH.into())))
}

/// Two characters of those that salts are written with.
fn random_salt() -> Vec<u8> {
    let mut salt = [0; SALT_LENGTH];
    runtime::rand::fill(&mut salt);
    salt.iter().map(|octet| DIGITS[usize::from(octet & 63)]).collect()
}

/// Passwords end where a string of C does.
fn until_nul(password: &[u8]) -> &[u8] {
    password.split(|octet| *octet == 0).next().unwrap_or_default()
}

/// Whether a salt asks for work within the limits.
fn is_bounded(salt: &str) -> bool {
    let number = |text: &str, most: u32| text.parse().is_ok_and(|rounds: u32| rounds <= most);
    let mut parts = salt.split('$');
    match (parts.next(), parts.next(), parts.next()) {
        // The extended form of the oldest method: four digits to the base of 64, the lowest first.
        (Some(old), ..) if old.starts_with('_') => {
            let digits = old.bytes().skip(1).take(4);
            let values = digits.map(|digit| DIGITS.iter().position(|known| *known == digit));
            values
                .rev()
                .try_fold(0, |sum, value| Some(sum * 64 + value?))
                .is_some_and(|n| n <= ROUNDS_MAX as usize)
        }
        (Some(""), Some("2a" | "2b" | "2y"), Some(cost)) => number(cost, BCRYPT_COST_MAX),
        (Some(""), Some("sha1"), Some(rounds)) => number(rounds, ROUNDS_MAX),
        (Some(""), Some("5" | "6"), Some(rounds)) => {
            rounds.strip_prefix("rounds=").is_none_or(|rounds| number(rounds, ROUNDS_MAX))
        }
        _ => true,
    }
}
