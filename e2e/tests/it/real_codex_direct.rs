//! The real Codex against the scripted model server, without the daemon: proof that the server speaks OpenAI's
//! Responses API well enough, and a place to see how Codex itself behaves.

use anyhow::{Context, Result};
use e2e::deadline::poll;
use e2e::model_server::{Outcome, Purpose};
use e2e::world::World;
use serde_json::{Value, json};

use crate::codex_driver::Codex;

/// Makes a world with the real codex, or ends the test where that is allowed.
macro_rules! world {
    () => {
        match World::with_codex()? {
            Some(world) => world,
            None => return Ok(()),
        }
    };
}

const COMMAND: &str = "item/commandExecution/requestApproval";
const CHANGE: &str = "item/fileChange/requestApproval";

/// Asks about every command and every change, and runs them inside the sandbox.
fn untrusted() -> Value {
    json!({"approvalPolicy": "untrusted", "sandbox": "workspace-write"})
}

fn free() -> Value {
    json!({"approvalPolicy": "never", "sandbox": "danger-full-access"})
}

fn text_of(turn: &Value) -> &Value {
    turn["items"].as_array().and_then(|items| items.last()).map_or(&Value::Null, |item| &item["text"])
}

#[tokio::test]
async fn text_and_reasoning_arrive_byte_for_byte_and_tokens_are_counted() -> Result<()> {
    let world = world!();
    let mut codex = Codex::start(&world, free()).await?;
    let script = r#"say SCRIPT: [[{"thinking":"let me see"},{"text":"žlutý\n 🐎 kůň","chunks":5},
        {"usage":{"input_tokens":30,"output_tokens":7,"cache_read_input_tokens":5}}]]"#;
    let turn = codex.turn(script).await?;
    assert_eq!((&turn["status"], text_of(&turn)), (&json!("completed"), &json!("žlutý\n 🐎 kůň")));
    assert_eq!(codex.deltas("item/agentMessage/delta"), "žlutý\n 🐎 kůň");
    assert_eq!(world.model().sent_text("say"), "žlutý\n 🐎 kůň");
    assert_eq!(codex.deltas("item/reasoning/summaryTextDelta"), "let me see");
    let usage = codex.seen.iter().rfind(|message| message["method"] == "thread/tokenUsage/updated");
    let total = &usage.context("tokens")?["params"]["tokenUsage"]["total"];
    assert_eq!((&total["inputTokens"], &total["cachedInputTokens"]), (&json!(35), &json!(5)));
    assert_eq!(total["outputTokens"], 7);
    let request = &world.model().requests_for("say")[0];
    assert_eq!(
        (request.path.as_str(), request.header("authorization")),
        ("/v1/responses", Some("Bearer dummy"))
    );
    assert_eq!(codex.turn("hello").await.map(|turn| text_of(&turn).clone())?, json!("You said: hello"));
    assert_eq!(codex.finish().await?, Some(0));
    Ok(())
}

#[tokio::test]
async fn a_command_runs_when_it_is_allowed_and_not_when_it_is_denied() -> Result<()> {
    let world = world!();
    let mut codex = Codex::start(&world, untrusted()).await?;
    let script = r#"run SCRIPT: [{"tool":"Bash","input":{"command":"touch allowed; echo made"}},
        {"tool":"Bash","input":{"command":"touch denied"}},{"text":"done"}]"#;
    codex.prompt(script).await?;
    let ask = codex.asks(COMMAND).await?;
    assert!(ask["params"]["command"].as_str().is_some_and(|command| command.contains("touch allowed")));
    codex.answer(&ask, json!({"decision": "accept"})).await?;
    let ask = codex.asks(COMMAND).await?;
    codex.answer(&ask, json!({"decision": "decline"})).await?;
    assert_eq!(text_of(&codex.end().await?), "done");
    let commands = codex.items("commandExecution");
    let statuses: Vec<&Value> = commands.iter().map(|item| &item["status"]).collect();
    assert_eq!(statuses, ["completed", "declined"]);
    assert_eq!(commands[0]["aggregatedOutput"], "made\n");
    let exists = |name: &str| world.project().join(name).exists();
    assert_eq!((exists("allowed"), exists("denied")), (true, false));
    // The model heard of both.
    let steps: Vec<usize> = world.model().requests_for("run").iter().map(|request| request.step).collect();
    assert_eq!(steps, [0, 1, 2]);
    Ok(())
}

#[tokio::test]
async fn a_denial_that_stops_ends_the_turn() -> Result<()> {
    let world = world!();
    let mut codex = Codex::start(&world, untrusted()).await?;
    codex.prompt(r#"stop SCRIPT: [{"tool":"Bash","input":{"command":"touch a"}},{"text":"never"}]"#).await?;
    let ask = codex.asks(COMMAND).await?;
    codex.answer(&ask, json!({"decision": "cancel"})).await?;
    assert_eq!(codex.end().await?["status"], "interrupted");
    assert_eq!(text_of(&codex.turn("hello").await?), "You said: hello");
    Ok(())
}

#[tokio::test]
async fn a_patch_is_a_custom_tool_and_asked_about() -> Result<()> {
    let world = world!();
    let mut codex = Codex::start(&world, untrusted()).await?;
    codex
        .prompt(r#"edit SCRIPT: [{"tool":"Write","input":{"file_path":"new.txt","content":"one\ntwo\n"}},{"text":"ok"}]"#)
        .await?;
    let ask = codex.asks(CHANGE).await?;
    codex.answer(&ask, json!({"decision": "accept"})).await?;
    assert_eq!(text_of(&codex.end().await?), "ok");
    assert_eq!(std::fs::read_to_string(world.project().join("new.txt"))?, "one\ntwo\n");
    Ok(())
}

#[tokio::test]
async fn an_interrupt_ends_the_turn_at_any_point() -> Result<()> {
    let world = world!();
    let mut codex = Codex::start(&world, untrusted()).await?;
    let interrupt = async |codex: &mut Codex| -> Result<()> {
        let started = codex.seen.iter().rfind(|message| message["method"] == "turn/started");
        let turn = started.context("a turn")?["params"]["turn"]["id"].clone();
        let params = json!({"threadId": codex.thread, "turnId": turn});
        codex.call("turn/interrupt", params).await.map(drop)
    };
    codex.prompt(r#"hang SCRIPT: [[{"text":"part"},{"hang":true}]]"#).await?;
    codex.wait("text", |message| message["method"] == "item/agentMessage/delta").await?;
    interrupt(&mut codex).await?;
    assert_eq!(codex.end().await?["status"], "interrupted");
    world.model().wait_for_request(|request| request.outcome == Outcome::ClientGone).await?;
    codex.prompt(r#"ask SCRIPT: [{"tool":"Bash","input":{"command":"touch a"}},{"text":"never"}]"#).await?;
    let ask = codex.asks(COMMAND).await?;
    interrupt(&mut codex).await?;
    codex
        .wait("the request's end", |message| {
            message["method"] == "serverRequest/resolved" && message["params"]["requestId"] == ask["id"]
        })
        .await?;
    assert_eq!(text_of(&codex.turn(r#"next SCRIPT: [{"text":"fine"}]"#).await?), "fine");
    Ok(())
}

/// What the provider must do something about.
#[tokio::test]
async fn an_interrupt_leaves_a_command_running_until_it_is_terminated() -> Result<()> {
    let world = world!();
    let mut codex = Codex::start(&world, free()).await?;
    codex.prompt(r#"long SCRIPT: [{"tool":"Bash","input":{"command":"tail -f /dev/null"}}]"#).await?;
    let started = codex.wait("a turn", |message| message["method"] == "turn/started").await?;
    // One that has only just begun is ended with its turn.
    codex
        .wait("a command", |message| {
            message["method"] == "item/started" && message["params"]["item"]["type"] == "commandExecution"
        })
        .await?;
    let running = || world.processes().into_iter().any(|process| process.command.starts_with("tail"));
    poll("the command", || running().then_some(())).await?;
    let turn = started["params"]["turn"]["id"].clone();
    codex.call("turn/interrupt", json!({"threadId": codex.thread, "turnId": turn})).await?;
    let left = codex.call("thread/backgroundTerminals/list", json!({"threadId": codex.thread})).await?;
    assert!(running(), "codex ends what it interrupts now: the provider need not");
    let process = left["data"][0]["processId"].clone();
    let params = json!({"threadId": codex.thread, "processId": process});
    codex.call("thread/backgroundTerminals/terminate", params).await?;
    poll("its end", || (!running()).then_some(())).await
}

#[tokio::test]
async fn questions_plans_and_todos_come_from_scripts() -> Result<()> {
    let world = world!();
    let config = json!({"features.default_mode_request_user_input": true, "tools.update_plan.enabled": true});
    let mut codex = Codex::start(&world, json!({"config": config})).await?;
    let script = r#"ask SCRIPT: [{"question":{"text":"Which?","options":["red","blue"]}},{"todo":["paint"]},{"text":"ok"}]"#;
    codex.prompt(script).await?;
    let ask = codex.asks("item/tool/requestUserInput").await?;
    assert_eq!(ask["params"]["questions"][0]["question"], "Which?");
    codex.answer(&ask, json!({"answers": {"question_1": {"answers": ["red"]}}})).await?;
    let plan = codex.wait("a plan", |message| message["method"] == "turn/plan/updated").await?;
    assert_eq!(plan["params"]["plan"][0]["step"], "paint");
    assert_eq!(text_of(&codex.end().await?), "ok");
    Ok(())
}

#[tokio::test]
async fn a_message_sent_during_a_turn_may_bring_its_own_script() -> Result<()> {
    let world = world!();
    let mut codex = Codex::start(&world, free()).await?;
    codex.prompt(r#"long SCRIPT: [[{"text":"part"},{"wait":"never"}]]"#).await?;
    world.model().wait_until_paused("never").await?;
    codex.prompt(r#"steer SCRIPT: [{"text":"steered"}]"#).await?;
    assert_eq!(text_of(&codex.end().await?), "steered");
    Ok(())
}

#[tokio::test]
async fn failures_of_the_model_fail_the_turn_and_the_next_one_works() -> Result<()> {
    let world = world!();
    let mut codex = Codex::start(&world, free()).await?;
    for (step, words) in [
        (r#"{"status":401,"message":"Incorrect API key"}"#, "401 Unauthorized: Incorrect API key"),
        (r#"{"status":500}"#, "high demand"),
        (r#"[{"text":"cut"},{"drop":true}]"#, "stream disconnected"),
        (r#"{"sse_error":"context_length_exceeded"}"#, "context window"),
        (r#"[{"text":"a"},{"stop_reason":"max_tokens"}]"#, "max_output_tokens"),
    ] {
        let turn = codex.turn(&format!("x SCRIPT: [{step}]")).await?;
        assert_eq!(turn["status"], "failed", "{step}");
        let message = turn["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(words), "{step}: {message}");
    }
    assert_eq!(text_of(&codex.turn(r#"ok SCRIPT: [{"text":"recovered"}]"#).await?), "recovered");
    Ok(())
}

#[tokio::test]
async fn side_requests_never_use_up_a_step() -> Result<()> {
    let world = world!();
    let mut codex = Codex::start(&world, free()).await?;
    codex.turn(r#"one SCRIPT: [{"text":"first"},{"text":"must not be sent"}]"#).await?;
    codex.call("thread/compact/start", json!({"threadId": codex.thread})).await?;
    codex.end().await?;
    assert!(world.model().requests().iter().any(|request| request.purpose == Purpose::Compaction));
    assert_eq!(text_of(&codex.turn(r#"two SCRIPT: [{"text":"second"}]"#).await?), "second");
    assert_eq!(world.model().sent_text("one"), "first");
    Ok(())
}

#[tokio::test]
async fn a_conversation_goes_on_in_another_process() -> Result<()> {
    let world = world!();
    let mut codex =
        Codex::start(&world, json!({"approvalPolicy": "untrusted", "sandbox": "read-only"})).await?;
    codex.turn(r#"one SCRIPT: [{"text":"first"}]"#).await?;
    let thread = codex.thread.clone();
    codex.finish().await?;
    let mut codex = Codex::launch(&world)?;
    codex.initialize().await?;
    let resumed = codex.call("thread/resume", json!({"threadId": thread, "excludeTurns": true})).await?;
    codex.thread = thread;
    assert_eq!(resumed["approvalPolicy"], "untrusted");
    codex.turn(r#"two SCRIPT: [{"text":"second"}]"#).await?;
    let request = world.model().requests_for("two").pop().context("a request")?;
    assert!(request.body["input"].to_string().contains("first"), "the history is there");
    Ok(())
}
