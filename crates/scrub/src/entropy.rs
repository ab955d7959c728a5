//! How random a text looks. Knows no rules.

/// Returns the Shannon entropy in bits per byte: 0 for "aaaa", 4 for evenly used hexadecimal digits.
pub(crate) fn shannon(text: &[u8]) -> f64 {
    if text.is_empty() {
        return 0.0;
    }
    let mut counts = [0u32; 256];
    for &byte in text {
        counts[usize::from(byte)] += 1;
    }
    let len = text.len() as f64;
    counts
        .iter()
        .filter(|&&count| count > 0)
        .map(|&count| f64::from(count) / len)
        .map(|p| -p * p.log2())
        .sum()
}

/// Returns how many different bytes a text has.
pub(crate) fn distinct(text: &[u8]) -> usize {
    let mut seen = [false; 256];
    for &byte in text {
        seen[usize::from(byte)] = true;
    }
    seen.iter().filter(|&&seen| seen).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_grows_with_variety() {
        assert_eq!(shannon(b""), 0.0);
        assert_eq!(shannon(b"aaaaaaaa"), 0.0);
        assert!((shannon(b"0123456789abcdef") - 4.0).abs() < 1e-9);
        assert!(shannon(b"abababab") < shannon(b"abcdabcd"));
        assert_eq!(distinct(b"abab"), 2);
    }
}
