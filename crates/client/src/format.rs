//! Small values for people: durations, ages, token counts, money, times, shortened text. Pure.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Returns a duration in its two largest units.
pub fn duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    match seconds {
        0 if duration.as_micros() < 50 => "<0.1ms".to_owned(),
        0 if millis < 10 => format!("{:.1}ms", duration.as_secs_f64() * 1_000.0),
        0 => format!("{millis}ms"),
        1..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Returns how long ago something was, in one unit.
pub fn age(at: Option<&prost_types::Timestamp>, now: Timestamp) -> String {
    let Some(at) = at.and_then(timestamp) else { return "-".to_owned() };
    let seconds = now.as_second().saturating_sub(at.as_second()).max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns a count in about three digits: `950`, `1.2k`, `34k`, `5.6M`.
pub fn count(value: u64) -> String {
    let scaled = |divisor: u64, unit: &str| {
        // Truncated to tenths: 999,999 is 999k and not 1000k.
        let tenths = value / (divisor / 10);
        if tenths < 100 {
            format!("{}.{}{unit}", tenths / 10, tenths % 10)
        } else {
            format!("{}{unit}", tenths / 10)
        }
    };
    match value {
        0..1_000 => value.to_string(),
        1_000..1_000_000 => scaled(1_000, "k"),
        _ => scaled(1_000_000, "M"),
    }
}

/// Returns an amount given in millionths of a US dollar.
pub fn cost(micro_usd: u64) -> String {
    let dollars = micro_usd / 1_000_000;
    let rest = micro_usd % 1_000_000;
    if micro_usd < 1_000_000 {
        format!("${dollars}.{:04}", rest / 100)
    } else {
        format!("${dollars}.{:02}", rest / 10_000)
    }
}

/// Returns a size in bytes.
pub fn size(bytes: u64) -> String {
    let (mut scaled, mut unit) = (bytes, "B");
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if scaled < 10_240 {
            break;
        }
        (scaled, unit) = (scaled / 1_024, next);
    }
    format!("{scaled} {unit}")
}

/// Converts a protobuf timestamp.
pub fn timestamp(at: &prost_types::Timestamp) -> Option<Timestamp> {
    Timestamp::new(at.seconds, at.nanos).ok()
}

/// Returns a timestamp as RFC 3339 in UTC.
pub fn rfc3339(at: Option<&prost_types::Timestamp>) -> Option<String> {
    at.and_then(timestamp).map(|at| at.to_string())
}

/// Returns the time of day in a time zone.
pub fn clock(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string()
}

/// Returns date and time in a time zone.
pub fn date(at: Option<&prost_types::Timestamp>, zone: &TimeZone) -> String {
    match at.and_then(timestamp) {
        Some(at) => at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        None => "-".to_owned(),
    }
}

/// Returns text on one line: line ends and runs of whitespace become one space.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the columns of a terminal that a text takes: a letter of Chinese and an emoji take two.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Cuts a text to a number of columns, with an ellipsis if something is missing.
pub fn shorten(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 0;
    for letter in text.chars() {
        used += letter.width().unwrap_or(0);
        if used >= columns {
            break;
        }
        short.push(letter);
    }
    short.push('…');
    short
}

/// Returns a text as one word of a shell's command line.
pub fn shell_word(text: &str) -> String {
    let is_plain =
        |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.' | '/' | ':' | '@');
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// Fills a text with spaces to a number of columns.
pub fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Returns a text about a session in which paths below its folder are relative, since the folder is known.
pub fn below_folder(text: &str, folder: &str) -> String {
    if folder.len() < 2 {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(folder) {
        let (before, after) = (&rest[..at], &rest[at + folder.len()..]);
        let begins = before.chars().next_back().is_none_or(|c| !is_of_path(c));
        out.push_str(before);
        match after.strip_prefix('/') {
            Some(below) if begins => {
                // What is below is named by itself, and the folder with a slash at its end as a dot.
                if below.chars().next().is_none_or(char::is_whitespace) {
                    out.push('.');
                }
                rest = below;
            }
            None if begins && after.chars().next().is_none_or(|c| !is_of_path(c)) => {
                out.push('.');
                rest = after;
            }
            _ => {
                out.push_str(folder);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Whether a letter goes on with a path.
fn is_of_path(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '/' | '.' | '-' | '_' | '~')
}

/// Returns a number with its noun.
pub fn plural(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_and_filled_by_the_columns_it_takes() {
        assert_eq!((width("名前"), width("my 🦀")), (4, 5));
        assert_eq!((padded("名", 4), padded("long", 2)), ("名  ".to_owned(), "long".to_owned()));
        assert_eq!(
            (shorten("日本語の名前", 7), shorten("abcdef", 4)),
            ("日本語…".to_owned(), "abc…".to_owned())
        );
    }

    #[test]
    fn a_name_with_spaces_or_quotes_is_one_word_for_a_shell() {
        for (text, word) in
            [("fix-1", "fix-1"), ("my agent", "'my agent'"), ("it's", "'it'\\''s'"), ("", "''")]
        {
            assert_eq!(shell_word(text), word);
        }
    }

    #[test]
    fn paths_below_the_folder_are_relative_and_others_stay() {
        for (text, shown) in [
            ("Edit /src/shop/a/b.rs", "Edit a/b.rs"),
            ("List /src/shop", "List ."),
            ("List /src/shop/ now", "List . now"),
            ("cp /src/shop/a '/src/shop/b'", "cp a 'b'"),
            ("Edit /src/shop2/a and /src/shop.bak/b", "Edit /src/shop2/a and /src/shop.bak/b"),
            ("rm /old/src/shop/a", "rm /old/src/shop/a"),
        ] {
            assert_eq!(below_folder(text, "/src/shop"), shown);
        }
        assert_eq!(below_folder("ls /a", "/"), "ls /a");
    }

    #[test]
    fn durations_have_two_units_at_most() {
        for (millis, text) in [
            (0, "<0.1ms"),
            (2, "2.0ms"),
            (250, "250ms"),
            (1_500, "1.5s"),
            (42_000, "42s"),
            (61_000, "1m01s"),
            (3_660_000, "1h01m"),
            (90_000_000, "1d01h"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn counts_are_short() {
        for (value, text) in
            [(0, "0"), (999, "999"), (1_234, "1.2k"), (34_567, "34k"), (999_999, "999k"), (5_600_000, "5.6M")]
        {
            assert_eq!(count(value), text);
        }
    }

    #[test]
    fn small_sums_show_what_they_are() {
        assert_eq!(cost(12_345), "$0.0123");
        assert_eq!(cost(1_239_999), "$1.23");
    }

    #[test]
    fn text_is_cut_by_characters() {
        assert_eq!(shorten("äöüß", 4), "äöüß");
        assert_eq!(shorten("äöüßx", 4), "äöü…");
        assert_eq!(one_line("a\n  b\tc "), "a b c");
    }

    #[test]
    fn times_are_printed_in_utc_and_in_a_zone() {
        let at = prost_types::Timestamp { seconds: 1_771_425_000, nanos: 500_000_000 };
        assert_eq!(rfc3339(Some(&at)).unwrap(), "2026-02-18T14:30:00.5Z");
        assert_eq!(clock(timestamp(&at).unwrap(), &TimeZone::UTC), "14:30:00");
        assert_eq!(age(Some(&at), Timestamp::new(1_771_425_090, 0).unwrap()), "1m");
    }

    #[test]
    fn sizes_keep_two_digits() {
        assert_eq!(size(512), "512 B");
        assert_eq!(size(3 * 1024 * 1024 * 1024), "3072 MiB");
        assert_eq!(size(300 * 1024 * 1024 * 1024), "300 GiB");
    }
}
