//! What logins by `caching_sha2_password` leave behind: with the digest of a password the next login need not say it.
//!
//! A digest is kept under what the account stores, which has a salt of its own, so that a changed password finds none; FLUSH
//! PRIVILEGES forgets them all.

use hashbrown::HashMap;
use keel_wire::auth::DIGEST_BYTES;
use parking_lot::Mutex;

/// Digests that are kept; with more all are forgotten.
const DIGESTS_MAX: usize = 4096;

/// Digests of passwords that have been proven, by what is stored of them.
#[derive(Default)]
pub struct Digests(Mutex<HashMap<Box<str>, [u8; DIGEST_BYTES]>>);

impl Digests {
    /// The digest of the password of which this is stored.
    pub fn get(&self, stored: &str) -> Option<[u8; DIGEST_BYTES]> {
        self.0.lock().get(stored).copied()
    }

    /// Keeps a digest.
    pub fn put(&self, stored: &str, digest: [u8; DIGEST_BYTES]) {
        let mut kept = self.0.lock();
        if kept.len() >= DIGESTS_MAX {
            kept.clear();
        }
        kept.insert(stored.into(), digest);
    }

    /// FLUSH PRIVILEGES.
    pub fn forget(&self) {
        self.0.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_kept_than_there_may_be() {
        let digests = Digests::default();
        for number in 0..DIGESTS_MAX + 1 {
            digests.put(&number.to_string(), [1; DIGEST_BYTES]);
        }
        assert_eq!(digests.get("0"), None);
        assert!(digests.get(&DIGESTS_MAX.to_string()).is_some());
        digests.forget();
        assert!(digests.get(&DIGESTS_MAX.to_string()).is_none());
    }
}
