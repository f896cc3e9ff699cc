//! Ways to prove who one is: plugins and what an account keeps for them.

use std::sync::Arc;

use ed25519_dalek::VerifyingKey;
use ed25519_dalek::hazmat::ExpandedSecretKey;
use keel_base::{SqlResult, errors};
use keel_storage::runtime::rand;
use sha1::{Digest, Sha1};
use sha2::Sha512;

use super::sha_crypt;

/// The plugin of passwords where nothing else is said.
pub const NATIVE: &str = "mysql_native_password";
/// The plugin of Ed25519 signatures.
pub const ED25519: &str = "ed25519";
/// MySQL's plugin of passwords kept by a slow hash.
pub const CACHING_SHA2: &str = "caching_sha2_password";
/// The plugin that asks the kernel who is at the other end of the socket.
pub const SOCKET: &str = "unix_socket";

/// A hash of [`NATIVE`] that no password has.
pub const INVALID: &str = "invalid";

/// One way to prove to be an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Auth {
    /// The plugin.
    pub plugin: Arc<str>,
    /// What it keeps: a hash, a public key, a name.
    pub string: String,
}

impl Auth {
    /// A password's hash, or none.
    pub fn native(string: String) -> Auth {
        Auth { plugin: NATIVE.into(), string }
    }

    /// The operating system's user at the other end of the socket.
    pub fn socket() -> Auth {
        Auth { plugin: SOCKET.into(), string: String::new() }
    }

    /// Whether some password, or none, is accepted this way.
    pub fn takes_password(&self) -> bool {
        self.has_password() && self.string != INVALID
    }

    /// Whether the account proves itself by a password that can be changed.
    pub fn has_password(&self) -> bool {
        *self.plugin != *SOCKET
    }
}

/// The known plugin of that name, or 1524.
pub fn plugin(name: &str) -> SqlResult<Arc<str>> {
    let known =
        [NATIVE, ED25519, SOCKET, CACHING_SHA2].into_iter().find(|known| known.eq_ignore_ascii_case(name));
    known.map(Arc::from).ok_or_else(|| errors::plugin_is_not_loaded(name))
}

/// What a plugin keeps of a password in plain text.
pub fn hashed(plugin: &str, password: &[u8]) -> String {
    match plugin {
        _ if password.is_empty() && plugin != ED25519 => String::new(),
        ED25519 => public_key(password),
        CACHING_SHA2 => {
            let mut random = [0; 20];
            rand::fill(&mut random);
            sha_crypt::make(password, random)
        }
        _ => native_hash(password),
    }
}

/// `PASSWORD()`.
fn native_hash(password: &[u8]) -> String {
    let twice = Sha1::digest(Sha1::digest(password));
    twice.iter().fold(String::from("*"), |out, byte| out + &format!("{byte:02X}"))
}

/// The public key of a password: its SHA-512 is the expanded secret key.
fn public_key(password: &[u8]) -> String {
    let secret = ExpandedSecretKey::from_bytes(&Sha512::digest(password).into());
    base64(VerifyingKey::from(&secret).as_bytes())
}

/// A password is none that would take the plugin very long, or 1470.
pub fn check_password(plugin: &str, password: &[u8]) -> SqlResult<()> {
    if plugin == CACHING_SHA2 && password.len() > sha_crypt::PASSWORD_MAX {
        return Err(errors::too_long_string("<secret>", plugin, sha_crypt::PASSWORD_MAX));
    }
    Ok(())
}

/// What is given as a plugin's hash is one, or 1372.
pub fn check_hash(plugin: &str, hash: &str) -> SqlResult<()> {
    let fits = match plugin {
        NATIVE => hash.is_empty() || hash == INVALID || native_octets(hash).is_some(),
        ED25519 => key_octets(hash).is_some(),
        CACHING_SHA2 => hash.is_empty() || sha_crypt::is_stored(hash),
        _ => true,
    };
    if fits {
        return Ok(());
    }
    Err(match plugin {
        NATIVE => errors::passwd_length(41),
        CACHING_SHA2 => errors::passwd_length(sha_crypt::STORED),
        _ => errors::passwd_length(KEY_CHARS),
    })
}

/// The octets of a hash of [`NATIVE`].
pub fn native_octets(hash: &str) -> Option<[u8; 20]> {
    let digits = hash.strip_prefix('*').filter(|digits| digits.len() == 40 && digits.is_ascii())?;
    let mut octets = [0; 20];
    for (place, octet) in octets.iter_mut().enumerate() {
        *octet = u8::from_str_radix(&digits[place * 2..place * 2 + 2], 16).ok()?;
    }
    Some(octets)
}

/// Characters of a public key, without padding.
const KEY_CHARS: usize = 43;

/// The octets of a public key of [`ED25519`].
pub fn key_octets(text: &str) -> Option<[u8; 32]> {
    let mut octets = Vec::with_capacity(33);
    let (mut bits, mut held) = (0u32, 0);
    for c in text.bytes() {
        let value = ALPHABET.iter().position(|known| *known == c)? as u32;
        bits = bits << 6 | value;
        held += 6;
        if held >= 8 {
            held -= 8;
            octets.push((bits >> held) as u8);
        }
    }
    if text.len() == KEY_CHARS { octets.try_into().ok() } else { None }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base 64 without padding.
fn base64(octets: &[u8]) -> String {
    let mut out = String::new();
    for group in octets.chunks(3) {
        let bits =
            group.iter().fold(0u32, |bits, octet| bits << 8 | u32::from(*octet)) << (8 * (3 - group.len()));
        for place in 0..=group.len() {
            out.push(char::from(ALPHABET[(bits >> (18 - 6 * place)) as usize & 63]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_mariadbs() {
        assert_eq!(hashed(NATIVE, b"secret"), "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7");
        assert_eq!(hashed(NATIVE, b""), "");
        assert_eq!(hashed(ED25519, b"secret"), "ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY");
    }

    #[test]
    fn hashes_come_back_as_octets() {
        let key = hashed(ED25519, b"x");
        assert_eq!(base64(&key_octets(&key).unwrap()), key);
        assert!(key_octets("short").is_none() && native_octets("*zz").is_none());
        assert_eq!(native_octets(&hashed(NATIVE, b"secret")).unwrap()[0], 0x14);
        assert!(check_hash(NATIVE, "zz").is_err());
        assert!(check_hash(NATIVE, INVALID).is_ok() && native_octets(INVALID).is_none());
    }
}
