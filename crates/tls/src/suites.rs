//! OpenSSL's names of ciphers, which MariaDB uses, and its cipher lists.

use rustls::{CipherSuite, SupportedCipherSuite};

const NAMES: &[(CipherSuite, &str)] = &[
    (CipherSuite::TLS13_AES_256_GCM_SHA384, "TLS_AES_256_GCM_SHA384"),
    (CipherSuite::TLS13_CHACHA20_POLY1305_SHA256, "TLS_CHACHA20_POLY1305_SHA256"),
    (CipherSuite::TLS13_AES_128_GCM_SHA256, "TLS_AES_128_GCM_SHA256"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "ECDHE-RSA-AES256-GCM-SHA384"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-ECDSA-CHACHA20-POLY1305"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-RSA-CHACHA20-POLY1305"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "ECDHE-ECDSA-AES128-GCM-SHA256"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "ECDHE-RSA-AES128-GCM-SHA256"),
];

/// OpenSSL's name of a cipher.
pub fn name(suite: CipherSuite) -> &'static str {
    NAMES.iter().find(|(known, _)| *known == suite).map_or("", |(_, name)| name)
}

fn is_13(name: &str) -> bool {
    name.starts_with("TLS_")
}

/// Words of OpenSSL's cipher lists that select all ciphers: none of the known ones is weak.
const ALL: &[&str] = &["ALL", "DEFAULT", "HIGH", "SECURE"];

/// The ciphers of `known` that the value of `ssl_cipher` allows, in the order of the list. Names are separated by colons,
/// commas or spaces; `!name` removes one. As in OpenSSL, a list with ciphers of TLS 1.2 only does not restrict those of
/// 1.3, and the reverse. `None` if no word of the list is known.
pub fn chosen(known: &[SupportedCipherSuite], list: &str) -> Option<Vec<SupportedCipherSuite>> {
    let words: Vec<&str> = list.split([':', ',', ' ']).filter(|word| !word.is_empty()).collect();
    let in_order = |suites: &[SupportedCipherSuite]| {
        let place = |suite: &SupportedCipherSuite| NAMES.iter().position(|(s, _)| *s == suite.suite());
        let mut sorted = suites.to_vec();
        sorted.sort_by_key(place);
        sorted
    };
    if words.is_empty() {
        return Some(in_order(known));
    }
    let by_name = |word: &str| known.iter().copied().find(|suite| name(suite.suite()) == word);
    let mut all: Vec<SupportedCipherSuite> = Vec::new();
    for thirteen in [true, false] {
        let own = |suite: &SupportedCipherSuite| is_13(name(suite.suite())) == thirteen;
        let everything: Vec<SupportedCipherSuite> = in_order(known).into_iter().filter(own).collect();
        let mut picked: Vec<SupportedCipherSuite> = Vec::new();
        for word in &words {
            let more = match by_name(word).filter(own) {
                Some(suite) => vec![suite],
                None if ALL.contains(word) => everything.clone(),
                None => continue,
            };
            more.into_iter()
                .filter(|suite| !picked.contains(suite))
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|suite| picked.push(suite));
        }
        all.extend(if picked.is_empty() { everything } else { picked });
    }
    let unwanted = |suite: &SupportedCipherSuite| {
        words.iter().any(|word| word.strip_prefix('!') == Some(name(suite.suite())))
    };
    let is_said = words.iter().any(|word| {
        let bare = word.trim_start_matches('!');
        ALL.contains(&bare) || by_name(bare).is_some()
    });
    all.retain(|suite| !unwanted(suite));
    (is_said && !all.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Option<Vec<&'static str>> {
        let known = rustls::crypto::ring::default_provider().cipher_suites;
        chosen(&known, list).map(|suites| suites.iter().map(|suite| name(suite.suite())).collect())
    }

    #[test]
    fn every_cipher_has_a_name() {
        let all = names("").unwrap();
        assert_eq!(all.len(), NAMES.len());
        assert_eq!(names("DEFAULT").unwrap(), all);
        assert!(all.iter().all(|name| !name.is_empty()));
    }

    #[test]
    fn a_list_for_one_version_leaves_the_other_alone() {
        let one = names("ECDHE-RSA-AES128-GCM-SHA256").unwrap();
        assert_eq!(one.len(), 4);
        assert_eq!(one[3], "ECDHE-RSA-AES128-GCM-SHA256");
        assert_eq!(names("TLS_AES_128_GCM_SHA256").unwrap().len(), 7);
        assert_eq!(names("HIGH:!TLS_AES_128_GCM_SHA256").unwrap().len(), 8);
        assert_eq!(names("nonsense"), None);
    }
}
