//! Behaviour that only the real Claude Code has: to-do lists, which it keeps with tools of its own.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wire::betcode::v1::agent_event::Event as Body;

use crate::acp::editor;
use crate::betcode::talk::Talk;
use crate::stage::{Agent, script, stage};

const CLAUDE: Agent = Agent::Claude;

/// A prompt with which the agent notes two things to do, and does one.
fn noting() -> String {
    let steps = json!([
        {"tool": "TaskCreate", "input": {"subject": "write it", "description": "the parser"}},
        {"tool": "TaskCreate", "input": {"subject": "test it", "description": "every rule"}},
        {"tool": "TaskUpdate", "input": {"taskId": "1", "status": "completed"}},
        {"text": "Noted."},
    ]);
    script(CLAUDE, "note what is to do", &steps)
}

#[tokio::test]
async fn to_do_lists_reach_the_journal_and_betcode_without_a_setting() -> Result<()> {
    let stage = stage!(CLAUDE);
    let mut talk = Talk::new(&stage).await?;
    talk.prompt(&noting()).await?;
    let events = talk.turn().await?;
    let last = events.into_iter().rev().find_map(|event| match event.event {
        Some(Body::TodoUpdate(update)) => Some(update.items),
        _ => None,
    });
    let items = last.context("no TodoUpdate")?;
    let told: Vec<_> =
        items.iter().map(|item| (item.subject.as_str(), item.status().as_str_name())).collect();
    ensure!(told == [("write it", "COMPLETED"), ("test it", "PENDING")], "{told:?}");
    let done = |event: &Value| {
        let texts = event["todos"].as_array().into_iter().flatten();
        let texts: Vec<_> = texts.map(|todo| (todo["text"].as_str(), todo["status"].as_str())).collect();
        texts == [(Some("write it"), Some("completed")), (Some("test it"), Some("pending"))]
    };
    stage.wait_for(talk.session(), "todos_changed", done).await?;
    talk.hush();
    stage.close().await
}

#[tokio::test]
async fn to_do_lists_are_an_editors_plan_without_a_setting() -> Result<()> {
    let stage = stage!(CLAUDE);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    ensure!(editor.turn(&session, &noting()).await? == "end_turn");
    let plans = editor.updates_of(&session, "plan");
    let last = plans.last().context("no plan")?;
    let told: Vec<_> = last["entries"].as_array().into_iter().flatten().collect();
    ensure!(told.len() == 2, "{last}");
    ensure!(told[0]["content"] == "write it" && told[0]["status"] == "completed", "{last}");
    ensure!(told[1]["content"] == "test it" && told[1]["status"] == "pending", "{last}");
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn a_session_can_switch_the_to_do_tools_off() -> Result<()> {
    let stage = stage!(CLAUDE);
    let mut request = stage.new_session();
    request.environment.insert("CLAUDE_CODE_ENABLE_TODO_TOOLS".into(), "0".into());
    let id = stage.create_as(request).await?.id;
    stage.turn(&id, &noting()).await?;
    let journal = stage.journal(&id).await?;
    ensure!(journal.iter().all(|event| event.r#type != "todos_changed"), "{journal:#?}");
    stage.close().await
}
