//! Models that fail, cannot be reached, have no key or do not exist.

use domain::turn::EndReason;
use domain::{AgentEvent, AgentInput, ErrorCode};
use serde_json::{Value, json};

use super::driver::Live;

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn failures_of_the_model() {
    let mut live = Live::start("failures", json!({}));
    let mut fails = |script: Value, expected: EndReason, words: &str| {
        live.prompt("x", script);
        let (reason, _, error) = live.end();
        assert_eq!(reason, expected, "{error}");
        assert!(error.contains(words), "{error}");
    };
    fails(json!([{"status": 500, "message": "out of order"}]), EndReason::Failed, "high demand");
    fails(
        json!([{"status": 401, "message": "Incorrect API key"}]),
        EndReason::Failed,
        "check the key: `codex login`",
    );
    fails(json!([{"status": 400, "message": "bad thing"}]), EndReason::Failed, "bad thing");
    fails(json!([[{"text": "cut"}, {"drop": true}]]), EndReason::Failed, "stream disconnected");
    fails(json!([{"sse_error": "context_length_exceeded"}]), EndReason::LimitReached, "context window");
    fails(
        json!([[{"text": "a"}, {"stop_reason": "max_tokens"}]]),
        EndReason::LimitReached,
        "max_output_tokens",
    );
    fails(json!([[{"text": "a"}, {"stop_reason": "refusal"}]]), EndReason::Refused, "content_filter");
    live.prompt("last", json!([{"text": "Still here."}]));
    assert_eq!(live.end().1, "Still here.");
    live.leave();
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn a_model_that_cannot_be_reached_fails_the_turn() {
    let config = json!({"base_url": "http://127.0.0.1:9/v1"});
    let mut live = Live::start("unreachable", json!({"provider_config": config}));
    live.tell(AgentInput::Prompt { text: "hello".into(), attachments: Vec::new() });
    let (reason, _, error) = live.end();
    assert_eq!(reason, EndReason::Failed);
    assert!(error.contains("is the model's endpoint up?"), "{error}");
    live.leave();
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn a_missing_key_is_named() {
    let setup = json!({"environment": {"SCRIPTED_KEY": ""}});
    let mut live = Live::start("keyless", setup);
    live.prompt("a", json!([{"text": "never"}]));
    let (reason, _, error) = live.end();
    assert_eq!(reason, EndReason::Failed);
    assert_eq!(error, "Missing environment variable: `SCRIPTED_KEY`; set it in the session's environment");
    live.leave();
}

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn models() {
    let base = || tempfile::tempdir().unwrap();
    let mut live = Live::begin("unrecorded", json!({"model": "gpt-55"}), base());
    let broken = live.until(|event| matches!(event, AgentEvent::Broken { .. } | AgentEvent::Ready { .. }));
    let AgentEvent::Broken { code, message } = broken else { panic!("{broken:?}") };
    assert_eq!(code, Some(ErrorCode::ModelUnsupported));
    assert!(message.contains("did you mean gpt-5.5?"), "{message}");
    live.crash();
    // The user's own name is fine if the configuration has it.
    let setup = json!({"model": "own-model", "config": "review_model = \"own-model\""});
    let mut live = Live::start("models", setup);
    live.prompt("a", json!([{"text": "Own."}]));
    assert_eq!(live.end().1, "Own.");
    live.tell(AgentInput::SetModel("gpt-5.5".into()));
    live.prompt("b", json!([{"text": "Changed."}]));
    assert_eq!(live.end().1, "Changed.");
    live.leave();
}
