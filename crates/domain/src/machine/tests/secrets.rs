//! Properties of every sequence of inputs with secrets: no secret is recorded or kept in the state, and the
//! replayed journal gives the live state. Streamed text is scrubbed before the rules see it, so none is
//! played here.

use proptest::prelude::*;

use super::script::{Play, input, is_comeback};
use crate::machine::{Effect, Machine};
use crate::redact::Redact;

const SECRET: &str = "hunter2";

/// Redacts one word.
struct Words;

impl Redact for Words {
    fn redact(&self, text: &str) -> Option<String> {
        text.contains(SECRET).then(|| text.replace(SECRET, "[REDACTED:word]"))
    }
}

/// Every input that can contain a secret, and those that lead to the states in which it is accepted. `@` is a
/// text with a secret in it.
const LINES: &[&str] = &[
    "start",
    "launched 42",
    "agent ready",
    "prompt use @",
    "steer and @",
    "steer_with @.txt see",
    "cancel",
    "decide 1 allow_once by anna",
    "decide 1 allow_session by anna",
    "decide 2 allow_once command by anna",
    "decide 2 deny by ben",
    r#"decide 1 allow_once {"command":"login @"} by ben"#,
    r#"decide 1 allow_once {"command":"login [REDACTED:word]"} by ben"#,
    "answer 1 q1=@ by anna",
    "answer 2 q1=@ by anna",
    "return 1 ok @ by editor",
    "return 2 failed @ by editor",
    "tools editor open",
    r#"call c1 open {"path":"@"}"#,
    r#"call c2 open {"path":["@",{"to":"@","@":"@"}]}"#,
    "rename @",
    "grant Bash(login @) by anna",
    "clear all by ben",
    "mode autonomous",
    "mode supervised",
    "launch_failed no @",
    "exit 0",
    "exit 1 bad @",
    "stop graceful",
    "stop now",
    "restart",
    "reattached",
    "revived",
    "timer start",
    "timer term",
    "timer tool",
    "agent turn",
    r#"agent tool c1 Bash {"command":"login @","env":[{"name":"@"}],"@":{"@":1}}"#,
    "agent result c1 ok @",
    "agent result c1 failed @",
    "agent done said @",
    "agent fails no @",
    "agent refuses no @",
    r#"agent ask n1 Bash {"command":"login @"}"#,
    r#"agent sub_ask n2 Bash {"command":"login @"}"#,
    r#"judged allow n5 Bash {"command":"login @"}"#,
    r#"judged deny n6 Bash {"command":"login @"}"#,
    r#"judged ask n7 Write {"file_path":"/repo/@","content":"@"}"#,
    "agent question n3 q1",
    r#"agent client_tool n4 open {"path":"@"}"#,
    "agent withdraw n1",
    "agent todo do @",
    "agent compacted of @",
    "agent worker w1",
    "agent worker_says w1 found @",
    "agent notice saw @",
    "agent unparsed {@",
    "agent broken by @",
];

/// Typical sequences, so that deep states are reached often.
const WAYS: &[&[&str]] = &[
    &[],
    &["prompt use @", "launched 42"],
    &["start", "launched 42", "agent ready", "prompt use @"],
    &["start", "launched 42", "agent ready", "prompt use @", r#"agent ask n1 Bash {"command":"login @"}"#],
    &[
        "tools editor open",
        "start",
        "launched 42",
        "agent ready",
        "prompt hi",
        r#"call c1 open {"path":"@"}"#,
    ],
];

fn scripts() -> impl Strategy<Value = Vec<String>> {
    let specs = proptest::sample::select(vec!["spec", "spec launch=on_prompt", "spec mode=autonomous"]);
    let ways = proptest::sample::select(WAYS);
    let steps = proptest::collection::vec(proptest::sample::select(LINES), 1..30);
    let around = proptest::collection::vec(("[a-z]{0,5}", "[a-z0-9]{0,5}"), 1..6);
    (specs, ways, steps, around).prop_map(|(spec, way, steps, around)| {
        let mut around = around.iter().cycle();
        let mut planted = |line: &str| {
            let mut parts = line.split('@');
            let mut text = parts.next().unwrap_or_default().to_owned();
            for (part, (before, after)) in parts.zip(&mut around) {
                text.extend([before.as_str(), SECRET, after, part]);
            }
            text
        };
        [&[spec], way, &steps].concat().into_iter().map(&mut planted).collect()
    })
}

fn play(script: &[String]) {
    let mut play = Play::new();
    let mut replayed = play.machine.state().clone();
    for line in script {
        if line.starts_with("spec") {
            play.line(line);
            replayed = play.machine.state().clone();
            continue;
        }
        let input = input(line);
        if is_comeback(&input) {
            let originals = play.machine.originals().clone();
            play.machine = Machine::restore(play.machine.spec().clone(), play.machine.state().clone());
            play.machine.set_originals(originals);
        }
        let before = play.machine.clone();
        match play.machine.apply_redacting(play.now, input, &Words) {
            Ok(decided) => {
                for effect in &decided.effects {
                    let Effect::Record(kind) = effect else { continue };
                    let stored = serde_json::to_string(kind).unwrap();
                    assert!(!stored.contains(SECRET), "{line:?} was recorded as {stored}");
                    replayed.evolve(play.now, kind);
                }
            }
            Err(_) => assert_eq!(play.machine, before, "a refused input changed something"),
        }
        let kept = serde_json::to_string(play.machine.state()).unwrap();
        assert!(!kept.contains(SECRET), "after {line:?} the state is {kept}");
        assert_eq!(&replayed, play.machine.state(), "after {line:?} the journal gives another state");
    }
}

/// `PROPTEST_CASES` asks for more than an ordinary run. A failure is kept as a script, not as a seed.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.max(2_000), failure_persistence: None, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_sequence_of_inputs_leaves_a_secret_in_the_journal_or_the_state(script in scripts()) {
        play(&script);
    }
}
