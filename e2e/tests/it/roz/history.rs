//! What an agent gets of an earlier conversation and of a project's context: turns and a system prompt where it takes them,
//! text in its first message elsewhere; the same after a daemon was killed. What counts is what the model received.

use anyhow::{Context, Result, ensure};
use prost_types::value::Kind;
use prost_types::{Struct, Value as PbValue};
use serde_json::{Value, json};
use wire::roz::v1 as pb;
use wire::roz::v1::content_part::Part;
use wire::roz::v1::session_request::Request as Said;

use super::talk::{Talk, environment, start, text};
use crate::stage::{Agent, Stage, script, stage};

mod with_turns {
    use super::{history_is_turns_and_survives_a_kill, secrets_of_a_history_are_not_kept};
    crate::stage::scenarios_of!(openai, Openai, history_is_turns_and_survives_a_kill);
    crate::stage::scenarios_of!(openai_chat, OpenaiChat, history_is_turns_and_survives_a_kill);
    crate::stage::scenarios_of!(
        real_claude,
        Claude,
        history_is_turns_and_survives_a_kill,
        secrets_of_a_history_are_not_kept
    );
    crate::stage::scenarios_of!(
        real_codex,
        Codex,
        history_is_turns_and_survives_a_kill,
        secrets_of_a_history_are_not_kept
    );
}

fn part(part: Part) -> pb::ContentPart {
    pb::ContentPart { part: Some(part) }
}

fn said(words: &str) -> pb::ContentPart {
    part(Part::Text(pb::TextContent { text: words.into() }))
}

fn message(role: &str, parts: Vec<pb::ContentPart>) -> pb::ConversationMessage {
    pb::ConversationMessage { role: role.into(), parts }
}

/// A conversation with a call and its result.
fn history() -> Vec<pb::ConversationMessage> {
    let left = PbValue { kind: Some(Kind::StringValue("left".into())) };
    let input = Some(Struct { fields: [("where".to_owned(), left)].into() });
    let call = Part::ToolUse(pb::ToolUseContent { id: "t1".into(), name: "camera".into(), input });
    let result = Part::ToolResult(pb::ToolResultContent {
        tool_use_id: "t1".into(),
        name: "camera".into(),
        content: "a red door".into(),
        is_error: false,
    });
    vec![
        message("user", vec![said("where is the door?")]),
        message("assistant", vec![said("I look."), part(call)]),
        message("user", vec![part(result)]),
        message("assistant", vec![said("It is on the left.")]),
    ]
}

/// The same as a model receives it.
const HISTORY: [(&str, &str); 5] = [
    ("user", "where is the door?"),
    ("assistant", "I look."),
    ("call camera t1", r#"{"where":"left"}"#),
    ("result t1", "a red door"),
    ("assistant", "It is on the left."),
];

/// Returns the conversation of a request to a model: who says it, and what.
fn conversation(body: &Value) -> Vec<(String, String)> {
    let items = body["input"].as_array().or_else(|| body["messages"].as_array());
    // Claude Code itself puts empty messages between others.
    let items = items.into_iter().flatten().filter(|item| item["content"] != json!([]));
    items.flat_map(entries).collect()
}

/// Whether a block of Anthropic's interface is a call or its result.
fn is_call(block: &Value) -> bool {
    block["type"] == "tool_use" || block["type"] == "tool_result"
}

fn of_block(role: &str, block: &Value) -> (String, String) {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match block["type"].as_str() {
        Some("tool_use") => {
            (format!("call {} {}", word(&block["name"]), word(&block["id"])), block["input"].to_string())
        }
        Some("tool_result") => (format!("result {}", word(&block["tool_use_id"])), word(&block["content"])),
        _ => (role.to_owned(), word(&block["text"])),
    }
}

fn entries(item: &Value) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match item["type"].as_str() {
        Some("function_call") => {
            let who = format!("call {} {}", word(&item["name"]), word(&item["call_id"]));
            return vec![(who, word(&item["arguments"]))];
        }
        Some("function_call_output") => {
            return vec![(format!("result {}", word(&item["call_id"])), word(&item["output"]))];
        }
        _ => {}
    }
    if item["role"] == "tool" {
        return vec![(format!("result {}", word(&item["tool_call_id"])), word(&item["content"]))];
    }
    if let Some(blocks) = item["content"].as_array().filter(|blocks| blocks.iter().any(is_call)) {
        return blocks.iter().map(|block| of_block(&word(&item["role"]), block)).collect();
    }
    let parts = item["content"].as_array().into_iter().flatten();
    let words: Vec<String> =
        parts.map(|part| word(&part["text"])).chain(item["content"].as_str().map(str::to_owned)).collect();
    let message = (word(&item["role"]), words.concat());
    let calls = item["tool_calls"].as_array().into_iter().flatten().map(|call| {
        let function = &call["function"];
        (format!("call {} {}", word(&function["name"]), word(&call["id"])), word(&function["arguments"]))
    });
    std::iter::once(message).chain(calls).collect()
}

/// Returns what the model received with the last request for a prompt.
fn received(stage: &Stage, key: &str) -> Result<(Vec<(String, String)>, Value)> {
    let request = stage.world.model().requests_for(key).pop().context("no request for this prompt")?;
    Ok((conversation(&request.body), request.body))
}

/// Returns where the history begins in a conversation.
fn position(conversation: &[(String, String)]) -> Option<usize> {
    let is_history = |window: &[(String, String)]| {
        window.iter().zip(HISTORY).all(|((who, words), wanted)| (who.as_str(), words.as_str()) == wanted)
    };
    conversation.windows(HISTORY.len()).position(is_history)
}

/// Returns the text that is the model's system prompt.
fn system_prompt(body: &Value) -> String {
    let of_role = conversation(body).into_iter().filter(|(role, _)| role == "system" || role == "developer");
    let words: String = of_role.map(|(_, words)| words).collect();
    format!("{}{}{words}", body["instructions"], body["system"])
}

async fn begin(stage: &Stage) -> Result<Talk> {
    let start = pb::StartSession {
        history: history(),
        project_context: vec!["always use tabs, says AGENTS.md".into()],
        ..start(&environment(stage).await?)
    };
    Talk::start(stage, start).await
}

/// Sends a message with system context and waits for its answer.
async fn speak(stage: &Stage, talk: &mut Talk, key: &str) -> Result<()> {
    let message = pb::UserMessage {
        content: script(stage.agent, key, &json!([{"text": "I do"}])),
        system_context: Some("speak softly".into()),
        ..Default::default()
    };
    talk.say(Said::UserMessage(message)).await?;
    ensure!(text(&talk.turn().await?.1) == "I do");
    Ok(())
}

/// Returns who says the context of a message. Claude Code has it in the prompt.
fn context_role(agent: Agent) -> &'static str {
    match agent {
        Agent::OpenaiChat => "system",
        Agent::Claude => "user",
        _ => "developer",
    }
}

async fn history_is_turns_and_survives_a_kill(agent: Agent) -> Result<()> {
    let mut stage = stage!(agent);
    let mut talk = begin(&stage).await?;
    speak(&stage, &mut talk, "remember").await?;
    let (first, body) = received(&stage, "remember")?;
    let at = position(&first).with_context(|| format!("the history is no turns: {first:#?}"))?;
    let after: Vec<&str> = first[at + HISTORY.len()..].iter().map(|(role, _)| role.as_str()).collect();
    let system = context_role(agent);
    let context = first.iter().position(|(_, words)| words.contains("speak softly")).context("no context")?;
    let is_prompt = |(role, words): &(String, String)| role == "user" && words.contains("remember");
    let prompt = first.iter().rposition(is_prompt).context("no prompt")?;
    ensure!(first[context].0 == system && at < context && context <= prompt, "{after:?} {first:#?}");
    ensure!(first[prompt].1.starts_with("remember") == (context < prompt), "{:?}", first[prompt]);
    ensure!(!format!("{first:?}").contains("conversation_so_far"), "{first:#?}");
    let (whole, own) = (system_prompt(&body), &first[prompt].1);
    ensure!(whole.contains("always use tabs") && !own.contains("always use tabs"), "{whole}\n{own}");

    // The next daemon goes on with the same.
    let session = talk.session().to_owned();
    drop(talk);
    stage.daemon.kill9().await?;
    stage.daemon.restart().await?;
    stage.clients = stage.daemon.clients().await?;
    stage.turn(&session, &script(agent, "again", &json!([{"text": "still here"}]))).await?;
    let (second, body) = received(&stage, "again")?;
    let at = position(&second).with_context(|| format!("the history is gone: {second:#?}"))?;
    let count = second.iter().filter(|(_, words)| words == HISTORY[0].1).count();
    ensure!(count == 1, "the history is there {count} times: {second:#?}");
    let context =
        second.iter().position(|(_, words)| words.contains("speak softly")).context("no context")?;
    ensure!(second[context].0 == system && at < context, "{second:#?}");
    ensure!(system_prompt(&body).contains("always use tabs"), "{body}");
    stage.close().await
}

async fn secrets_of_a_history_are_not_kept(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let secret = format!("ghp_{}", "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8");
    let history = vec![message("user", vec![said(&format!("my token is {secret}"))])];
    let start = pb::StartSession { history, ..start(&environment(&stage).await?) };
    let talk = Talk::start(&stage, start).await?;
    let journal = stage.journal(talk.session()).await?;
    let told = format!("{journal:?}");
    ensure!(told.contains("my token is") && !told.contains(&secret), "{told}");
    stage.close().await
}

/// The sandboxed agent has a folder of its own for its conversations.
#[tokio::test]
async fn real_claude_has_the_history_as_turns_in_the_sandbox_too() -> Result<()> {
    let opened = Stage::open_with(Agent::Claude, |world| {
        world.set_env("OBEY_SANDBOX_AGENTS", "true");
        Ok(())
    });
    let Some(stage) = opened.await? else { return Ok(()) };
    let mut talk = begin(&stage).await?;
    speak(&stage, &mut talk, "remember").await?;
    let (conversation, _) = received(&stage, "remember")?;
    position(&conversation).with_context(|| format!("the history is no turns: {conversation:#?}"))?;
    // A new agent begins with the same history and the same system prompt.
    talk.hush();
    talk.rest().await?;
    let session = talk.session().to_owned();
    stage.wait_for_status(&session, "STOPPED").await?;
    stage.restart(&session).await?;
    stage.turn(&session, &script(Agent::Claude, "again", &json!([{"text": "still here"}]))).await?;
    let (again, body) = received(&stage, "again")?;
    position(&again).with_context(|| format!("the history is gone: {again:#?}"))?;
    let count = again.iter().filter(|(_, words)| words == HISTORY[0].1).count();
    ensure!(count == 1, "the history is there {count} times: {again:#?}");
    ensure!(body["system"].to_string().contains("always use tabs"), "{}", body["system"]);
    stage.close().await
}
