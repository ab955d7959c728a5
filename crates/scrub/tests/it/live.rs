//! Texts that come in pieces: every secret of the corpus, cut at every place, and byte by byte.

use scrub::Live;

use super::made_up::{self, Dice};
use super::rules::examples;

/// Says a text in pieces and returns what was shown of it.
fn said(pieces: &[&str]) -> String {
    let mut live = Live::new(super::scrubber());
    let mut out: String = pieces.iter().map(|piece| live.push(piece).text).collect();
    out += &live.finish().text;
    out
}

/// Whether a text shows more of a secret than its beginning, which says what it is.
fn leaks(out: &str, secret: &str) -> bool {
    let rest = &secret.as_bytes()[secret.len() / 2..];
    rest.windows((rest.len() / 2).clamp(4, 12)).any(|part| {
        let Ok(part) = std::str::from_utf8(part) else { return false };
        !part.trim().is_empty() && out.contains(part)
    })
}

#[test]
fn a_secret_cut_at_any_place_is_not_shown() {
    let mut wrong = Vec::new();
    for one in examples() {
        for (index, template) in one.positive.iter().enumerate() {
            let filled = made_up::expand(template, &mut Dice::new(&format!("{} + {index} 0", one.id)));
            let marked = made_up::marked(&filled);
            let whole = super::scrub(&marked.text).0;
            for secret in &marked.secrets {
                // What a text says of itself besides its secret may repeat a part of it.
                if leaks(&whole, secret) {
                    continue;
                }
                let Some(start) = marked.text.find(secret.as_str()) else { continue };
                for at in start..=start + secret.len() {
                    let Some((head, tail)) = marked.text.split_at_checked(at) else { continue };
                    let out = said(&[head, tail]);
                    if leaks(&out, secret) {
                        wrong.push(format!(
                            "{}: cut at {}: {head:?} | {tail:?}\n    became {out:?}",
                            one.id,
                            at - start
                        ));
                        break;
                    }
                }
                let bytes: Vec<&str> = marked.text.split("").filter(|piece| !piece.is_empty()).collect();
                let out = said(&bytes);
                if leaks(&out, secret) {
                    wrong.push(format!("{}: letter by letter\n    became {out:?}", one.id));
                }
            }
        }
    }
    let list =
        wrong.iter().take(40).map(|line| line.chars().take(300).collect::<String>()).collect::<Vec<_>>();
    assert!(wrong.is_empty(), "{} are shown in part:\n{}", wrong.len(), list.join("\n"));
}
