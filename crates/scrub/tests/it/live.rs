//! Texts that come in pieces: every secret of the corpus, cut at every place, and byte by byte.

use scrub::Live;

use super::made_up::{self, Dice};
use super::rules::{examples, keywords};

/// Says a text in pieces and returns what was shown of it.
fn said(pieces: &[&str]) -> String {
    let mut live = Live::new(super::scrubber());
    let mut out: String = pieces.iter().map(|piece| live.push(piece).text).collect();
    out += &live.finish().text;
    out
}

/// What may be shown of a secret that is known only by what stands in it.
const SHOWN_MAX: usize = 15;

/// Whether so much of a secret may be shown: what is known only by what stands in it, or a part of the word that its kind begins
/// with and that is no secret.
fn may_show(rule: &str, secret: &str, shown: usize) -> bool {
    let begins_with = |word: &String| {
        word.len() >= shown && secret.len() >= shown && word[..shown].eq_ignore_ascii_case(&secret[..shown])
    };
    shown <= SHOWN_MAX.min(secret.len() / 2) || keywords(rule).iter().any(begins_with)
}

/// Returns how much of a secret is shown before the mark that stands for it; nothing if there is no such mark, or more behind it.
fn shown_of(out: &str, before: &str, secret: &str, after: &str) -> Option<usize> {
    let (head, rest) = out.strip_prefix(before)?.split_once("[REDACTED:")?;
    let (_, tail) = rest.split_once(']')?;
    (secret.starts_with(head) && tail == after).then_some(head.len())
}

/// The text before and behind a secret, as it is shown when it comes at once.
fn surroundings<'t>(whole: &'t str, text: &str, secret: &str) -> Option<(&'t str, &'t str)> {
    let (before, after) = text.split_once(secret)?;
    let mark = whole.strip_prefix(before)?;
    let end = mark.strip_prefix("[REDACTED:")?.find(']')? + "[REDACTED:]".len();
    let tail = &mark[end..];
    (tail == after).then_some((&whole[..before.len()], tail))
}

/// Plays every secret of the corpus, and returns what was shown too much of. `cuts` says which pieces a text comes in.
fn leaks(cuts: impl Fn(&str, std::ops::Range<usize>) -> Vec<Vec<&str>>) -> (usize, Vec<String>) {
    let (mut played, mut wrong) = (0, Vec::new());
    for one in examples() {
        for (index, template) in one.positive.iter().enumerate() {
            let filled = made_up::expand(template, &mut Dice::new(&format!("{} + {index} 0", one.id)));
            let made_up::Marked { text, secrets } = made_up::marked(&filled);
            let whole = super::scrub(&text).0;
            for secret in &secrets {
                // Of a text with two secrets the first is looked at.
                let Some((before, after)) = surroundings(&whole, &text, secret) else { continue };
                let start = before.len();
                for pieces in cuts(&text, start..start + secret.len()) {
                    played += 1;
                    let out = said(&pieces);
                    let shown = shown_of(&out, before, secret, after);
                    if !shown.is_some_and(|shown| may_show(&one.id, secret, shown)) {
                        wrong.push(format!("{}: {pieces:?}\n    became {out:?}", one.id));
                        break;
                    }
                }
            }
        }
    }
    (played, wrong)
}

fn complain(wrong: &[String]) -> String {
    let list = wrong.iter().take(40).map(|line| line.chars().take(400).collect::<String>());
    format!("{} are shown in part:\n{}", wrong.len(), list.collect::<Vec<_>>().join("\n"))
}

#[test]
fn a_secret_cut_at_any_place_is_not_shown() {
    let (played, wrong) = leaks(|text, secret| {
        let cuts = secret.start.saturating_sub(40)..=secret.end;
        cuts.filter_map(|at| text.split_at_checked(at)).map(|(head, tail)| vec![head, tail]).collect()
    });
    println!("{played} cuts");
    assert!(wrong.is_empty(), "{}", complain(&wrong));
}

#[test]
fn a_secret_that_comes_letter_by_letter_or_in_small_pieces_is_not_shown() {
    let (played, wrong) = leaks(|text, _| {
        [1, 2, 3, 5, 7]
            .map(|size| {
                let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).step_by(size).skip(1).collect();
                let starts = std::iter::once(0).chain(ends.iter().copied());
                starts
                    .zip(ends.iter().copied().chain([text.len()]))
                    .map(|(from, to)| &text[from..to])
                    .collect()
            })
            .to_vec()
    });
    println!("{played} texts in pieces");
    assert!(wrong.is_empty(), "{}", complain(&wrong));
}
