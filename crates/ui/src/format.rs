//! Numbers, times and names as people read them.

/// Returns a duration in its largest unit: `41s`, `6m`, `1h`, `3d`.
pub(crate) fn span_ms(ms: i64) -> String {
    let seconds = ms.max(0) / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns a count with a unit: `950`, `1.2k`, `124k`, `3.4M`.
pub(crate) fn count(number: u64) -> String {
    let scaled = |unit: u64, letter: &str| {
        let tenths = number / (unit / 10);
        if tenths < 100 {
            format!("{}.{}{letter}", tenths / 10, tenths % 10)
        } else {
            format!("{}{letter}", number / unit)
        }
    };
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => scaled(1_000, "k"),
        _ => scaled(1_000_000, "M"),
    }
}

/// Returns an amount of money: `$1.84`; small amounts keep their digits.
pub(crate) fn dollars(micro_usd: u64) -> String {
    let cents = micro_usd / 10_000;
    if micro_usd > 0 && cents == 0 {
        return format!("${}.{:04}", micro_usd / 1_000_000, micro_usd % 1_000_000 / 100);
    }
    format!("${}.{:02}", cents / 100, cents % 100)
}

/// Returns a folder as it is called at home.
pub(crate) fn folder(path: &str, home: &str) -> String {
    match path.strip_prefix(home).filter(|_| !home.is_empty()) {
        Some("") => "~".to_owned(),
        Some(rest) if rest.starts_with('/') => format!("~{rest}"),
        _ => path.to_owned(),
    }
}

/// Returns a count with its noun.
pub(crate) fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_counts_and_costs_are_shortened() {
        assert_eq!(
            [span_ms(-5), span_ms(41_900), span_ms(400_000), span_ms(90_000_000)],
            ["0s", "41s", "6m", "1d"]
        );
        assert_eq!(
            [count(950), count(1_250), count(124_000), count(3_400_000)],
            ["950", "1.2k", "124k", "3.4M"]
        );
        assert_eq!([dollars(0), dollars(1_840_000), dollars(1_234)], ["$0.00", "$1.84", "$0.0012"]);
        assert_eq!(folder("/home/u/x", "/home/u"), "~/x");
        assert_eq!(folder("/srv/ab", "/srv/a"), "/srv/ab");
    }
}
