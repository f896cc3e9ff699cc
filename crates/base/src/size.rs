//! Sizes in options: integers with a suffix.

/// Parses an integer with an optional suffix K, M, G, T, P or E, as MariaDB's options take it. The number without the suffix
/// must fit 64 bits; `None` for other texts.
pub fn parse_size(text: &str) -> Option<i128> {
    let text = text.trim();
    let shift = match text.as_bytes().last()?.to_ascii_uppercase() {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        b'T' => 40,
        b'P' => 50,
        b'E' => 60,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
    if let Some(negative) = digits.strip_prefix('-') {
        return Some(-i128::from(negative.parse::<i64>().ok()?.checked_mul(1 << shift)?));
    }
    Some(i128::from(digits.parse::<u64>().ok()?) << shift)
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn suffixes_multiply_and_other_texts_are_refused() {
        assert_eq!(parse_size("2560M"), Some(2560 << 20));
        assert_eq!(parse_size(" 32g "), Some(32 << 30));
        assert_eq!(parse_size("-1K"), Some(-1024));
        assert_eq!(parse_size("18446744073709551615E"), Some(i128::from(u64::MAX) << 60));
        for text in ["", "K", "12x", "-9223372036854775807K", "18446744073709551616"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
