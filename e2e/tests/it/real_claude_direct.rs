//! The real Claude Code against the scripted model server, without the daemon. Proves that the server speaks the API
//! as the agent expects it, so that a failing daemon test means a failing daemon.

use anyhow::Result;
use e2e::model_server::{Outcome, Purpose};
use e2e::world::World;
use serde_json::json;

use crate::claude_driver::{Claude, kinds};

/// Every test begins with this: a world with claude, or the end of the test where skipping is allowed.
macro_rules! world {
    () => {
        match World::with_claude()? {
            Some(world) => world,
            None => return Ok(()),
        }
    };
}

#[tokio::test]
async fn a_text_arrives_byte_for_byte_with_usage_and_cost() -> Result<()> {
    let world = world!();
    let mut claude = Claude::start(&world, &["--model", "sonnet"])?;
    let script = r#"bytes SCRIPT: [[{"text":"Ahoj 🐎, \"quoted\"\n\tžluťoučký kůň. End","chunks":7},
        {"usage":{"input_tokens":1200,"output_tokens":340,"cache_read_input_tokens":50}}]]"#;
    let result = claude.turn(script).await?;
    let sent = world.model().sent_text("bytes");
    assert_eq!(sent, "Ahoj 🐎, \"quoted\"\n\tžluťoučký kůň. End");
    assert_eq!(claude.deltas("text"), sent);
    assert_eq!(claude.of_kind("assistant")[0]["message"]["content"][0]["text"], json!(sent));
    assert_eq!(result["result"], json!(sent));
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(false)));
    assert_eq!(result["usage"]["input_tokens"], 1200);
    assert_eq!(result["usage"]["output_tokens"], 340);
    assert_eq!(result["usage"]["cache_read_input_tokens"], 50);
    assert!(result["total_cost_usd"].as_f64() > Some(0.0), "{result}");
    let requests = world.model().requests();
    assert_eq!(requests.len(), 1, "nothing but the turn is asked: {requests:#?}");
    assert_eq!((requests[0].path.as_str(), requests[0].query.as_str()), ("/v1/messages", "beta=true"));
    assert_eq!(requests[0].header("x-api-key"), Some("dummy"));
    assert_eq!(claude.finish().await?, Some(0));
    Ok(())
}

/// The same order of messages as claude shows with the vendor's API.
#[tokio::test]
async fn thinking_then_text_streams_in_the_known_order() -> Result<()> {
    let world = world!();
    let mut claude = Claude::start(&world, &[])?;
    let script = r#"think SCRIPT: [[{"thinking":"let me think","chunks":2},{"text":"done","chunks":2}]]"#;
    let result = claude.turn(script).await?;
    assert_eq!(claude.deltas("thinking"), "let me think");
    assert_eq!(result["result"], "done");
    let mut kinds = kinds(&claude.seen);
    // Estimates of thinking come as often as claude likes.
    kinds.retain(|kind| kind != "system/thinking_tokens");
    let expected = [
        "system/init",
        "system/status",
        "stream_event/message_start",
        "stream_event/content_block_start",
        "stream_event/content_block_delta",
        "stream_event/content_block_delta",
        "stream_event/content_block_delta",
        "assistant",
        "stream_event/content_block_stop",
        "stream_event/content_block_start",
        "stream_event/content_block_delta",
        "stream_event/content_block_delta",
        "assistant",
        "stream_event/content_block_stop",
        "stream_event/message_delta",
        "stream_event/message_stop",
        "result",
    ];
    assert_eq!(kinds, expected);
    Ok(())
}

#[tokio::test]
async fn a_tool_waits_for_permission_and_runs_after_it() -> Result<()> {
    let world = world!();
    let mut claude = Claude::start(&world, &[])?;
    let script = r#"ask SCRIPT: [{"tool":"Bash","input":{"command":"touch made && echo done","description":"make"}},
        {"text":"made it"}]"#;
    claude.prompt(script).await?;
    let ask = claude.asks().await?;
    assert_eq!(ask["request"]["tool_name"], "Bash");
    assert_eq!(ask["request"]["input"]["command"], "touch made && echo done");
    assert!(!world.project().join("made").exists());
    claude.answer(&ask, json!({"behavior": "allow", "updatedInput": ask["request"]["input"]})).await?;
    let result = claude.result().await?;
    assert_eq!(result["result"], "made it");
    assert!(world.project().join("made").exists());
    let steps: Vec<usize> = world.model().requests_for("ask").iter().map(|request| request.step).collect();
    assert_eq!(steps, [0, 1]);
    Ok(())
}

#[tokio::test]
async fn a_denied_tool_tells_the_model_why_and_the_turn_goes_on() -> Result<()> {
    let world = world!();
    let mut claude = Claude::start(&world, &[])?;
    let script = r#"deny SCRIPT: [{"tool":"Bash","input":{"command":"touch made"}},{"text":"as you wish"}]"#;
    claude.prompt(script).await?;
    let ask = claude.asks().await?;
    claude.answer(&ask, json!({"behavior": "deny", "message": "not today"})).await?;
    let result = claude.result().await?;
    assert_eq!(result["result"], "as you wish");
    assert_eq!(result["permission_denials"].as_array().map(Vec::len), Some(1));
    let second = &world.model().requests_for("deny")[1];
    assert!(second.body.to_string().contains("not today"));
    Ok(())
}

#[tokio::test]
async fn parallel_calls_have_ids_of_their_own() -> Result<()> {
    let world = world!();
    let mut claude = Claude::start(&world, &[])?;
    let script = r#"two SCRIPT: [[{"tool":"Read","input":{"file_path":"README.md"}},
        {"tool":"Bash","input":{"command":"echo hi"}}],{"text":"both"}]"#;
    let result = claude.turn(script).await?;
    assert_eq!(result["result"], "both");
    let results = claude.of_kind("user");
    let ids: Vec<&str> =
        results.iter().filter_map(|user| user["message"]["content"][0]["tool_use_id"].as_str()).collect();
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1]);
    Ok(())
}

#[tokio::test]
async fn a_question_is_asked_and_its_answer_reaches_the_model() -> Result<()> {
    let world = world!();
    let mut claude = Claude::start(&world, &[])?;
    let script = r#"quiz SCRIPT: [{"question":{"text":"Which color?","options":["Red","Blue"]}},{"text":"blue it is"}]"#;
    claude.prompt(script).await?;
    let ask = claude.asks().await?;
    assert_eq!(ask["request"]["tool_name"], "AskUserQuestion");
    let questions = &ask["request"]["input"]["questions"];
    let input = json!({"questions": questions, "answers": {"Which color?": "Blue"}});
    claude.answer(&ask, json!({"behavior": "allow", "updatedInput": input})).await?;
    assert_eq!(claude.result().await?["result"], "blue it is");
    assert!(world.model().requests_for("quiz")[1].body.to_string().contains("Blue"));
    Ok(())
}

#[tokio::test]
async fn an_interrupt_ends_the_turn_and_the_stream_and_the_next_turn_works() -> Result<()> {
    let world = world!();
    let mut claude = Claude::start(&world, &[])?;
    claude.prompt(r#"stuck SCRIPT: [[{"text":"half a "},{"hang":true}]]"#).await?;
    claude.wait("a delta", |message| message["event"]["delta"]["text"].is_string()).await?;
    claude.control(json!({"subtype": "interrupt"})).await?;
    let result = claude.result().await?;
    assert_eq!(result["subtype"], "error_during_execution");
    assert_eq!(result["terminal_reason"], "aborted_streaming");
    world.model().wait_for_request(|request| request.outcome == Outcome::ClientGone).await?;
    let next = claude.turn(r#"next SCRIPT: [{"text":"still here"}]"#).await?;
    assert_eq!(next["result"], "still here");
    assert_eq!(claude.finish().await?, Some(0));
    Ok(())
}

#[tokio::test]
async fn a_pause_holds_the_turn_until_it_is_released() -> Result<()> {
    let world = world!();
    let mut claude = Claude::start(&world, &[])?;
    claude.prompt(r#"gate SCRIPT: [[{"text":"before "},{"wait":"open"},{"text":"after"}]]"#).await?;
    world.model().wait_until_paused("open").await?;
    claude.wait("the first text", |message| message["type"] == "assistant").await?;
    assert_eq!(claude.of_kind("result").len(), 0);
    world.model().release("open");
    claude.result().await?;
    assert_eq!(claude.deltas("text"), "before after");
    Ok(())
}

#[tokio::test]
async fn an_api_error_ends_the_turn_with_an_error_and_the_next_turn_works() -> Result<()> {
    let world = world!();
    let mut claude = Claude::start(&world, &[])?;
    for (status, kind) in [(529, "overloaded_error"), (400, "invalid_request_error")] {
        let prompt = format!(r#"fail{status} SCRIPT: [{{"status":{status},"message":"scripted {status}"}}]"#);
        let result = claude.turn(&prompt).await?;
        assert_eq!((&result["is_error"], &result["terminal_reason"]), (&json!(true), &json!("api_error")));
        assert_eq!(result["api_error_status"], status, "{kind}");
    }
    let result = claude.turn(r#"ok SCRIPT: [{"text":"recovered"}]"#).await?;
    assert_eq!((&result["result"], &result["is_error"]), (&json!("recovered"), &json!(false)));
    Ok(())
}

#[tokio::test]
async fn a_fault_that_happens_once_is_retried() -> Result<()> {
    let world = world!();
    world.set_env("CLAUDE_CODE_MAX_RETRIES", "2");
    let mut claude = Claude::start(&world, &[])?;
    let script = r#"busy SCRIPT: [[{"status":529,"retry_after":0,"times":1},{"text":"second try"}]]"#;
    let result = claude.turn(script).await?;
    assert_eq!(result["result"], "second try");
    assert_eq!(claude.of_kind("system/api_retry").len(), 1);
    let outcomes: Vec<Outcome> = world.model().requests_for("busy").iter().map(|r| r.outcome).collect();
    assert_eq!(outcomes, [Outcome::Refused(529), Outcome::Finished]);
    Ok(())
}

#[tokio::test]
async fn a_cut_stream_is_asked_for_again() -> Result<()> {
    let world = world!();
    world.set_env("CLAUDE_CODE_MAX_RETRIES", "1");
    let mut claude = Claude::start(&world, &[])?;
    let result = claude.turn(r#"cut SCRIPT: [[{"drop":true,"times":1},{"text":"whole"}]]"#).await?;
    assert_eq!(result["result"], "whole");
    assert_eq!(world.model().requests_for("cut")[0].outcome, Outcome::Cut);
    Ok(())
}

#[tokio::test]
async fn replies_that_end_early_are_continued_with_the_next_step() -> Result<()> {
    let world = world!();
    let mut claude = Claude::start(&world, &[])?;
    for early in [r#"{"sse_error":"overloaded_error"}"#, r#"{"stop_reason":"max_tokens"}"#] {
        let result =
            claude.turn(&format!(r#"x SCRIPT: [[{{"text":"part"}},{early}],{{"text":"rest"}}]"#)).await?;
        assert_eq!(result["result"], "rest", "{early}");
    }
    Ok(())
}

#[tokio::test]
async fn side_requests_never_use_up_a_step() -> Result<()> {
    let world = world!();
    let mut claude = Claude::start(&world, &[])?;
    claude.turn(r#"one SCRIPT: [{"text":"first"},{"text":"must not be sent"}]"#).await?;
    claude.turn("/compact").await?;
    assert!(world.model().requests().iter().any(|request| request.purpose == Purpose::Compaction));
    assert_eq!(claude.of_kind("system/compact_boundary").len(), 1);
    let result = claude.turn(r#"two SCRIPT: [{"text":"second"}]"#).await?;
    assert_eq!(result["result"], "second");
    assert_eq!(world.model().sent_text("one"), "first");
    // Counts tokens and asks whether a model exists.
    claude.control(json!({"subtype": "get_context_usage"})).await?;
    claude.control(json!({"subtype": "set_model", "model": "no-such-model"})).await?;
    assert!(world.model().requests().iter().any(|request| request.path == "/v1/messages/count_tokens"));
    let plain = claude.turn("hello").await?;
    assert_eq!(plain["result"], "You said: hello");
    Ok(())
}

#[tokio::test]
async fn a_message_sent_during_a_turn_may_bring_its_own_script() -> Result<()> {
    let world = world!();
    let mut claude = Claude::start(&world, &[])?;
    let script = r#"long SCRIPT: [{"tool":"Bash","input":{"command":"touch a"}},{"text":"not reached"}]"#;
    claude.prompt(script).await?;
    let ask = claude.asks().await?;
    claude.prompt(r#"steer SCRIPT: [{"text":"steered"}]"#).await?;
    claude.answer(&ask, json!({"behavior": "allow"})).await?;
    assert_eq!(claude.result().await?["result"], "steered");
    Ok(())
}
