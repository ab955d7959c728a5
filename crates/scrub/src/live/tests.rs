//! Texts in pieces: what is shown at once, what waits, and what is never shown.

use std::sync::LazyLock;

use super::*;
use crate::Config;

/// One for all: making it takes longer than what is tried with it.
static SCRUBBER: LazyLock<Scrubber> = LazyLock::new(|| Scrubber::new(&Config::new()).unwrap());

fn live() -> Live {
    Live::new(&SCRUBBER)
}

fn token() -> String {
    format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")
}

#[test]
fn plain_words_are_shown_at_once() {
    let mut live = live();
    for piece in ["I look at ", "the fi", "les of the pro", "ject.\n"] {
        assert_eq!(live.push(piece), Piece { text: piece.to_owned(), original: None });
        assert_eq!(live.held(), 0);
    }
    assert_eq!(live.save(), None);
}

#[test]
fn words_that_announce_a_secret_are_shown_and_only_what_follows_them_waits() {
    for said in [
        "Let me check the token:",
        "press any key",
        "Password: ",
        "export API_KEY=",
        "the key of the map, the secret of the sea, a token of love",
        "see docs/keys-2024/overview-of-secrets.md",
        "commit 3f2a9c81d7",
    ] {
        let mut live = live();
        assert_eq!(live.push(said).text, said);
        assert_eq!(live.held(), 0, "{said}");
    }
    let mut live = live();
    assert_eq!(live.push("export API_KEY=a").text, "export API_KEY=");
    assert_eq!(live.held(), 1);
}

#[test]
fn a_keyword_cut_by_a_restart_is_still_one() {
    for at in 1..10 {
        let text = "xpassword=Kx9vQ2mZ7pLw4Rt8\n";
        let mut former = live();
        let mut said = former.push(&text[..at]).text;
        let mut next = match former.save() {
            Some(saved) => Live::restore(&former.scrubber, saved),
            None => Live::new(&former.scrubber),
        };
        said += &next.push(&text[at..]).text;
        assert_eq!(said, "xpassword=[REDACTED:generic-password]\n", "cut at {at}");
    }
}

#[test]
fn a_secret_cut_anywhere_is_found() {
    let text = format!("the token is {} and so on\n", token());
    for at in 0..text.len() {
        let mut live = live();
        let mut said = live.push(&text[..at]).text;
        said += &live.push(&text[at..]).text;
        said += &live.finish().text;
        assert_eq!(said, "the token is [REDACTED:github-pat] and so on\n", "cut at {at}");
    }
}

#[test]
fn what_looks_like_a_beginning_waits_and_the_rest_does_not() {
    let mut live = live();
    assert_eq!(live.push("here: ghp_a1B2c3D4").text, "here: ");
    assert_eq!(live.held(), "ghp_a1B2c3D4".len());
    let saved = live.save().unwrap();
    let mut other = Live::restore(&live.scrubber, saved);
    let rest = format!("{}\n", &token()[12..]);
    assert_eq!(other.push(&rest).text, "[REDACTED:github-pat]\n");
    assert_eq!(live.push(" no").text, "ghp_a1B2c3D4 no", "a gap ends it, and it was none");
    assert_eq!(live.finish().text, "");
}

#[test]
fn the_original_is_told_beside_what_is_shown() {
    let mut live = live();
    let piece = live.push(&format!("x {}\n", token()));
    assert_eq!(piece.text, "x [REDACTED:github-pat]\n");
    assert_eq!(piece.original, Some(format!("x {}\n", token())));
}

#[test]
fn a_private_key_is_never_shown_in_part() {
    let body = "MIIEowIBAAKCAQEAx3T9fJq0c2h5Z8m1w7RkYv4nPpLsD6uBgXeHtQaNoViSjKlM\n".repeat(20);
    let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{body}-----END RSA PRIVATE KEY-----\n");
    let mut live = live();
    let mut said = String::new();
    for piece in key.as_bytes().chunks(7) {
        said += &live.push(std::str::from_utf8(piece).unwrap()).text;
    }
    said += &live.finish().text;
    assert!(said.contains("[REDACTED:private-key]") && !said.contains("MIIEow"), "{said}");
}

#[test]
fn a_secret_that_never_ends_is_not_held_for_ever() {
    let mut live = live();
    let mut said = live.push("Authorization: Bearer ").text;
    for number in 0..3000_u64 {
        said += &live.push(&format!("{:x}Zq", (number + 7).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40)).text;
    }
    assert!(live.view.len() < 3 * limits::LIVE_HELD_MAX);
    said += &live.push(" end\n").text;
    assert!(said.ends_with(" end\n"), "{} bytes shown", said.len());
}

/// A restart between any two pieces changes nothing of what is shown.
#[test]
fn a_restart_between_pieces_shows_what_none_would_have_shown() {
    let password = ["Kx9v", "Q2mZ", "7pLw", "4Rt8"].concat();
    let text = format!("begin the token is {} and password={password} here.\n the token is x end", token());
    for size in 1..9 {
        let pieces: Vec<&str> =
            text.as_bytes().chunks(size).map(|piece| std::str::from_utf8(piece).unwrap()).collect();
        let shown = |restart: usize| {
            let mut live = Live::new(&SCRUBBER);
            let mut said: Vec<String> = Vec::new();
            for (at, piece) in pieces.iter().enumerate() {
                if at == restart {
                    live = match live.save() {
                        Some(saved) => Live::restore(&live.scrubber, saved),
                        None => Live::new(&live.scrubber),
                    };
                }
                said.push(live.push(piece).text);
            }
            said.push(live.finish().text);
            said
        };
        let without = shown(usize::MAX);
        for (restart, piece) in pieces.iter().enumerate() {
            assert_eq!(shown(restart), without, "pieces of {size}, restart before {piece:?} at {restart}");
        }
    }
}
