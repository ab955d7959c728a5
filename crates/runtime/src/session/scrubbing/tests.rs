//! Texts on their way to the rules: what is recorded of them, when, and what never is.

use std::sync::OnceLock;
use std::time::Duration;

use super::*;

// What the scrubber's own tests fill their examples with.
#[path = "../../../../scrub/tests/it/made_up.rs"]
mod made_up;

fn scrubber() -> &'static Scrubber {
    static SCRUBBER: OnceLock<Scrubber> = OnceLock::new();
    SCRUBBER.get_or_init(|| Scrubber::new(&scrub::Config::new()).unwrap())
}

fn scrubbing() -> Scrubbing {
    Scrubbing::new(Some(scrubber().clone()))
}

fn token() -> String {
    format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")
}

fn text(text: &str) -> AgentEvent {
    AgentEvent::Text { text: text.to_owned(), parent: None }
}

fn ended() -> AgentEvent {
    let reason = domain::turn::EndReason::Completed;
    AgentEvent::TurnEnded { reason, text: String::new(), error: String::new() }
}

#[tokio::test]
async fn what_is_held_comes_out_before_the_end_of_the_turn() {
    let mut scrubbing = scrubbing();
    assert_eq!(scrubbing.take(text("it is ghp_a1B2")), [Clean::as_is(text("it is "))]);
    assert_ne!(scrubbing.save(), []);
    assert_eq!(scrubbing.take(ended()), [Clean::as_is(text("ghp_a1B2")), Clean::as_is(ended())]);
    assert_eq!(scrubbing.save(), []);
}

#[tokio::test]
async fn speakers_do_not_complete_each_others_secrets_nor_end_them() {
    let mut scrubbing = scrubbing();
    let call = CallId::new("c1");
    let other = |text: &str| AgentEvent::Text { text: text.to_owned(), parent: Some(CallId::new("c2")) };
    let progress = |output: &str| AgentEvent::ToolProgress { call: call.clone(), output: output.to_owned() };
    let token = token();
    assert_eq!(scrubbing.take(text(&token[..10])), []);
    assert_eq!(scrubbing.take(progress(&token[..20])), []);
    assert_eq!(scrubbing.take(other("hello ")), [Clean::as_is(other("hello "))]);
    let said = scrubbing.take(text(&format!("{} x", &token[10..])));
    assert_eq!(said[0].event, text("[REDACTED:github-pat] x"));
    assert_eq!(said[0].original, Some(format!("{token} x")));
    let said = scrubbing.take(progress(&format!("{}\n", &token[20..])));
    assert_eq!(said[0].event, progress("[REDACTED:github-pat]\n"));
}

#[tokio::test]
async fn a_text_goes_on_in_the_next_daemon() {
    let mut former = scrubbing();
    assert_eq!(former.take(text("the password=")).len(), 1);
    assert_eq!(former.take(text("Kx9vQ2mZ")), []);
    let mut next = scrubbing();
    next.restore(former.save());
    let said = next.take(text("7pLw4Rt8\n"));
    assert!(!format!("{said:?}").contains("event: Text { text: \"Kx9v"), "{said:?}");
    assert!(
        matches!(&said[0].event, AgentEvent::Text { text, .. } if text.contains("[REDACTED:")),
        "{said:?}"
    );
}

#[tokio::test]
async fn nothing_of_a_text_is_lost_though_its_letters_have_several_bytes() {
    let whole: String = (0..400).map(|n| format!("teller·{n}·{}", ["e", "é", "€", "🐎"][n % 4])).collect();
    let letters: Vec<char> = whole.chars().collect();
    let mut said = String::new();
    let mut note = |events: Vec<Clean>| {
        for clean in events {
            if let AgentEvent::Text { text, .. } = clean.event {
                said.push_str(&text);
            }
        }
    };
    let mut current = scrubbing();
    for piece in letters.chunks(7) {
        note(current.take(text(&piece.iter().collect::<String>())));
        let mut next = scrubbing();
        next.restore(current.save());
        current = next;
    }
    note(current.take(ended()));
    assert_eq!(said, whole);
}

#[tokio::test]
async fn held_text_is_released_where_scrubbing_is_off() {
    let mut former = scrubbing();
    assert_eq!(former.take(text("ghp_a1B2")), []);
    let mut next = Scrubbing::new(None);
    next.restore(former.save());
    assert_eq!(next.take(text("x")), [Clean::as_is(text("ghp_a1B2")), Clean::as_is(text("x"))]);
}

#[tokio::test]
async fn lines_of_the_log_stay_lines() {
    let mut scrubbing = scrubbing();
    let logged = |line: &str| AgentEvent::Logged(line.to_owned());
    assert_eq!(scrubbing.take(logged("hello there")), [Clean::as_is(logged("hello there"))]);
    let said = scrubbing.take(logged(&format!("token {}", token())));
    assert_eq!(said[0].event, logged("token [REDACTED:github-pat]"));
}

#[test]
fn a_field_is_judged_by_its_name() {
    let redactor = Redactor(scrubber().clone());
    let clean = redactor.redact_named("password", &["Kx9v", "Q2mZ", "7pLw", "4Rt8"].concat()).unwrap();
    assert!(clean.starts_with("[REDACTED:"), "{clean}");
    assert_eq!(redactor.redact_named("path", "src/main.rs"), None);
}

/// Every text of the scrubber's corpus, with its secrets.
fn corpus() -> Vec<made_up::Marked> {
    let corpus: toml::Table = toml::from_str(include_str!("../../../../scrub/corpus/rules.toml")).unwrap();
    let mut texts = Vec::new();
    for rule in corpus["rule"].as_array().unwrap() {
        let id = rule["id"].as_str().unwrap();
        for (index, template) in rule["positive"].as_array().unwrap().iter().enumerate() {
            let mut dice = made_up::Dice::new(&format!("{id} {index}"));
            texts.push(made_up::marked(&made_up::expand(template.as_str().unwrap(), &mut dice)));
        }
    }
    texts
}

fn recorded(events: &[Clean]) -> String {
    events
        .iter()
        .map(|clean| if let AgentEvent::Text { text, .. } = &clean.event { text.as_str() } else { "" })
        .collect()
}

/// However long an agent stops inside a secret, nothing of it is recorded but the first bytes, which say of what kind it is.
#[tokio::test(start_paused = true)]
async fn no_pause_inside_a_secret_lets_it_out() {
    let pauses = [0, 1, 49, 51, 4_999, 5_001, 60_000, 3_600_000].map(Duration::from_millis);
    let mut played = 0;
    for made_up::Marked { text: whole, secrets } in corpus() {
        let at_once = recorded(&{
            let mut scrubbing = scrubbing();
            let mut out = scrubbing.take(text(&whole));
            out.extend(scrubbing.take(ended()));
            out
        });
        for round in 0..4_u32 {
            let mut dice = made_up::Dice::new(&format!("{whole} {round}"));
            let (mut scrubbing, mut said, mut rest) = (scrubbing(), String::new(), whole.as_str());
            while !rest.is_empty() {
                let mut size = 1 + dice.below(1 + 6 * round as usize * round as usize);
                while !rest.is_char_boundary(size.min(rest.len())) {
                    size += 1;
                }
                let (piece, later) = rest.split_at(size.min(rest.len()));
                said += &recorded(&scrubbing.take(text(piece)));
                tokio::time::advance(pauses[dice.below(pauses.len())]).await;
                rest = later;
            }
            said += &recorded(&scrubbing.take(ended()));
            for secret in secrets.iter().filter(|secret| !at_once.contains(secret_part(secret))) {
                assert!(!said.contains(secret_part(secret)), "{whole:?} became {said:?}");
                played += 1;
            }
        }
    }
    assert!(played > 3000, "{played}");
}

/// The part of a secret that must never be recorded: all of it but the word its kind begins with.
fn secret_part(secret: &str) -> &str {
    &secret[(secret.len() / 2).min(secret.len() - 4)..]
}

/// What is not the beginning of anything is recorded when it comes: nobody waits for more of it.
#[tokio::test]
async fn what_cannot_become_a_secret_does_not_wait() {
    let mut scrubbing = scrubbing();
    for said in [
        "I read the file",
        " and change three li",
        "nes of it. The token:",
        " none. Press any key",
        "\n$ cargo test --workspace",
        " -p scrub-2.0/src/lib.rs:42",
        "\nkey = value, password = ",
        "(see above), été 2024 — 漢字",
    ] {
        assert_eq!(scrubbing.take(text(said)), [Clean::as_is(text(said))]);
    }
}
