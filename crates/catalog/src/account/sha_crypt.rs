//! SHA-crypt with SHA-256, as MySQL's `caching_sha2_password` keeps passwords: `$A$005$`, a salt of 20 characters, and the hash in
//! 43; 005 stands for 5000 rounds. After Ulrich Drepper's "Unix crypt using SHA-256 and SHA-512", with the longer salt.

use sha2::{Digest, Sha256};

/// Characters of a salt.
const SALT: usize = 20;
/// Characters of a hash.
const HASH: usize = 43;
/// What stands before the rounds.
const MAGIC: &str = "$A$";
/// Rounds of what is made here, in thousands.
const ROUNDS: u32 = 5;
/// Characters of all.
pub const STORED: usize = MAGIC.len() + 4 + SALT + HASH;
/// The longest password: each round costs as much as it is long.
pub const PASSWORD_MAX: usize = 256;

const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// What is stored of a password; `random` makes the salt.
pub fn make(password: &[u8], random: [u8; SALT]) -> String {
    let salt = random.map(|byte| ALPHABET[usize::from(byte & 63)]);
    let hash = crypt(password, &salt, ROUNDS * 1000);
    format!("{MAGIC}{ROUNDS:03X}${}{hash}", String::from_utf8_lossy(&salt))
}

/// Rounds, salt and hash of what is stored.
fn parts(stored: &str) -> Option<(u32, &[u8], &str)> {
    let (rounds, rest) = stored.strip_prefix(MAGIC)?.split_once('$')?;
    let thousands = u32::from_str_radix(rounds, 16).ok().filter(|n| (5..=0xfff).contains(n))?;
    let (salt, hash) = rest.split_at_checked(SALT)?;
    let is_hash = hash.len() == HASH && hash.bytes().all(|b| ALPHABET.contains(&b));
    let is_number = rounds.len() == 3 && rounds.bytes().all(|b| b.is_ascii_hexdigit());
    (is_number && is_hash && salt.is_ascii()).then_some((thousands * 1000, salt.as_bytes(), hash))
}

/// Whether it can be stored.
pub fn is_stored(text: &str) -> bool {
    parts(text).is_some()
}

/// Whether a password is the one of which `stored` was kept.
pub fn verify(password: &[u8], stored: &str) -> bool {
    let Some((rounds, salt, hash)) = parts(stored) else { return false };
    if password.len() > PASSWORD_MAX {
        return false;
    }
    let found = crypt(password, salt, rounds);
    found.bytes().zip(hash.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

fn sha(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

/// The digest over and over, as long as `length`.
fn stretched(digest: &[u8; 32], length: usize) -> Vec<u8> {
    digest.iter().copied().cycle().take(length).collect()
}

fn crypt(password: &[u8], salt: &[u8], rounds: u32) -> String {
    let inner = sha(&[password, salt, password]);
    let mut hash = Sha256::new();
    hash.update(password);
    hash.update(salt);
    hash.update(stretched(&inner, password.len()));
    let mut bits = password.len();
    while bits > 0 {
        if bits & 1 == 1 {
            hash.update(inner)
        } else {
            hash.update(password)
        }
        bits >>= 1;
    }
    let mut digest: [u8; 32] = hash.finalize().into();
    let p = stretched(&sha(&vec![password; password.len()]), password.len());
    let s = stretched(&sha(&vec![salt; 16 + usize::from(digest[0])]), salt.len());
    for round in 0..rounds {
        let mut hash = Sha256::new();
        let odd = round % 2 == 1;
        if odd {
            hash.update(&p)
        } else {
            hash.update(digest)
        }
        if round % 3 != 0 {
            hash.update(&s);
        }
        if round % 7 != 0 {
            hash.update(&p);
        }
        if odd {
            hash.update(digest)
        } else {
            hash.update(&p)
        }
        digest = hash.finalize().into();
    }
    in_letters(&digest)
}

/// The digest in the order and the letters of crypt.
fn in_letters(digest: &[u8; 32]) -> String {
    let mut out = String::with_capacity(HASH);
    let mut put = |bits: u32, count: u32| {
        (0..count).for_each(|place| out.push(char::from(ALPHABET[(bits >> (6 * place)) as usize & 63])));
    };
    let octet = |at: usize| u32::from(digest[at]);
    let (mut a, mut b, mut c) = (0, 10, 20);
    for _ in 0..10 {
        put(octet(a) << 16 | octet(b) << 8 | octet(c), 4);
        (a, b, c) = ((c + 1) % 30, (a + 1) % 30, (b + 1) % 30);
    }
    put(octet(31) << 8 | octet(30), 3);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_sha_crypt() {
        // As `openssl passwd -5` makes them.
        assert_eq!(
            crypt(b"Hello world!", b"saltstring", 5000),
            "5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"
        );
    }

    #[test]
    fn hashes_are_those_of_mysql() {
        // A salt of a real server's; its octets are no text.
        let salt = [
            0xf9, 0xcc, 0x98, 0xce, 0x08, 0x89, 0x29, 0x24, 0xf5, 0x0a, 0x21, 0x3b, 0x6b, 0xc5, 0x71, 0xa2,
            0xc1, 0x17, 0x78, 0xc5,
        ];
        assert_eq!(crypt(b"hashcat", &salt, 5000), "bTy95Y99eAME1dwEkHOA1ndHGBWz.1bxSSRkuTXFGV/");
    }

    #[test]
    fn only_the_right_password_fits() {
        let stored = make(b"secret", *b"12345678901234567890");
        assert!(stored.starts_with("$A$005$") && stored.len() == STORED && is_stored(&stored));
        assert!(verify(b"secret", &stored));
        assert!(!verify(b"Secret", &stored) && !verify(b"", &stored));
        for bad in [
            "",
            "$A$005$short",
            &stored[1..],
            &stored.replace("$005$", "$004$"),
            &stored.replace("$005$", "$+05$"),
        ] {
            assert!(!is_stored(bad), "{bad}");
        }
        assert!(!verify(&[b'x'; PASSWORD_MAX + 1], &stored));
    }
}
