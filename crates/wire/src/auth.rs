//! What clients prove themselves by: `mysql_native_password`, `caching_sha2_password`, and signatures of the plugin
//! `ed25519`.
//!
//! `mysql_native_password`: who knows the password can answer the server's challenge, and neither the answer nor what the
//! server stores lets anybody else answer another one.
//!
//! Stored is `SHA1(SHA1(password))`; the answer is `SHA1(password) XOR SHA1(challenge + stored)`; an empty password answers
//! with nothing.
//!
//! `caching_sha2_password`: stored is a slow hash, which answers no challenge. Who has the digest `SHA256(SHA256(password))` of
//! an earlier login can check the answer `SHA256(password) XOR SHA256(digest + challenge)`; otherwise the client is asked for
//! the password itself, over a connection that nobody else reads.

use ed25519_dalek::{Signature, VerifyingKey};
use sha1::{Digest, Sha1};
use sha2::Sha256;

/// The plugin's name on the wire.
pub const NATIVE_PASSWORD: &str = "mysql_native_password";

/// Octets of a challenge, an answer and a stored hash.
pub const SCRAMBLE_BYTES: usize = 20;

/// Makes a challenge of random bytes fit for the wire: no zero byte, printable ASCII without `$`.
pub fn challenge(random: [u8; SCRAMBLE_BYTES]) -> [u8; SCRAMBLE_BYTES] {
    random.map(|byte| match byte % 94 + 33 {
        b'$' => b'z',
        printable => printable,
    })
}

fn sha1(parts: &[&[u8]]) -> [u8; SCRAMBLE_BYTES] {
    let mut hash = Sha1::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

/// What the server keeps of a password.
pub fn stored_hash(password: &[u8]) -> [u8; SCRAMBLE_BYTES] {
    sha1(&[&sha1(&[password])])
}

/// A client's answer to a challenge.
pub fn answer(password: &[u8], challenge: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = sha1(&[password]);
    let mask = sha1(&[challenge, &sha1(&[&once])]);
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

/// Whether an answer to `challenge` proves knowledge of the password behind `stored`; None stands for no password.
pub fn verify(answer: &[u8], challenge: &[u8], stored: Option<&[u8; SCRAMBLE_BYTES]>) -> bool {
    let Some(stored) = stored else { return answer.is_empty() };
    let Ok(answer) = <&[u8; SCRAMBLE_BYTES]>::try_from(answer) else { return false };
    let mask = sha1(&[challenge, stored]);
    let mut once = [0; SCRAMBLE_BYTES];
    for (slot, (a, b)) in once.iter_mut().zip(answer.iter().zip(mask)) {
        *slot = a ^ b;
    }
    same(&sha1(&[&once]), stored)
}

/// Compares in a time that does not depend on where they differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// The plugin's name on the wire whose passwords are checked by a digest that a login leaves behind.
pub const CACHING_SHA2: &str = "caching_sha2_password";

/// Octets of that plugin's answers and digests.
pub const DIGEST_BYTES: usize = 32;

/// The server's words within that plugin, each a payload: the answer is right; say the password itself.
pub const FAST_SUCCESS: [u8; 2] = [1, 3];
/// See [`FAST_SUCCESS`].
pub const FULL_AUTHENTICATION: [u8; 2] = [1, 4];

fn sha256(parts: &[&[u8]]) -> [u8; DIGEST_BYTES] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

/// What a login with a password leaves behind.
pub fn digest(password: &[u8]) -> [u8; DIGEST_BYTES] {
    sha256(&[&sha256(&[password])])
}

/// A client's answer to a challenge by [`CACHING_SHA2`].
pub fn digest_answer(password: &[u8], challenge: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = sha256(&[password]);
    let mask = sha256(&[&sha256(&[&once]), challenge]);
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

/// Whether such an answer proves knowledge of the password behind `digest`.
pub fn verify_digest(answer: &[u8], challenge: &[u8], digest: &[u8; DIGEST_BYTES]) -> bool {
    if answer.len() != DIGEST_BYTES {
        return false;
    }
    let mask = sha256(&[digest, challenge]);
    let mut once = [0; DIGEST_BYTES];
    for (slot, (a, b)) in once.iter_mut().zip(answer.iter().zip(mask)) {
        *slot = a ^ b;
    }
    same(&sha256(&[&once]), digest)
}

/// The plugin's name on the wire whose answer is an Ed25519 signature of the challenge.
pub const ED25519: &str = "client_ed25519";

/// Octets of that plugin's challenge.
pub const NONCE_BYTES: usize = 32;

/// Whether a signature of `nonce` is of who has the secret key of `key`.
pub fn verify_signature(signature: &[u8], nonce: &[u8; NONCE_BYTES], key: &[u8; 32]) -> bool {
    let (Ok(key), Ok(signature)) = (VerifyingKey::from_bytes(key), Signature::from_slice(signature)) else {
        return false;
    };
    key.verify_strict(nonce, &signature).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_hash_is_what_password_prints() {
        let hex: String = stored_hash(b"secret").iter().map(|b| format!("{b:02X}")).collect();
        assert_eq!(hex, "14E65567ABDB5135D0CFD9A70B3032C179A49EE7"); // MariaDB: SELECT PASSWORD('secret')
    }

    #[test]
    fn only_the_right_password_answers() {
        let challenge = challenge([7; 20]);
        let stored = stored_hash(b"secret");
        assert!(verify(&answer(b"secret", &challenge), &challenge, Some(&stored)));
        assert!(!verify(&answer(b"Secret", &challenge), &challenge, Some(&stored)));
        assert!(!verify(&answer(b"secret", b"another challenge..."), &challenge, Some(&stored)));
        assert!(!verify(b"", &challenge, Some(&stored)));
        assert!(verify(&answer(b"", &challenge), &challenge, None));
        assert!(!verify(&answer(b"x", &challenge), &challenge, None));
    }

    #[test]
    fn only_the_right_password_answers_for_a_digest() {
        let digest = digest(b"secret");
        let right = digest_answer(b"secret", b"some challenge of 20");
        assert!(verify_digest(&right, b"some challenge of 20", &digest));
        assert!(!verify_digest(&right, b"another challenge...", &digest));
        assert!(!verify_digest(&digest_answer(b"other", b"c"), b"c", &digest));
        assert!(!verify_digest(&right[..31], b"some challenge of 20", &digest));
        assert!(digest_answer(b"", b"c").is_empty());
    }

    #[test]
    fn challenges_are_printable() {
        for start in 0..=255u8 {
            let bytes = challenge(std::array::from_fn(|i| start.wrapping_add(i as u8)));
            assert!(bytes.iter().all(|b| b.is_ascii_graphic() && *b != b'$'));
        }
    }
}
