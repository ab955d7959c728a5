//! Sessions over the life of several editors: loading, listing, taking up again, closing, removing.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{SCRIPTED, agents, assert_no_agent, editor, refused, status};
use crate::stage::{Agent, script, stage, usual_scenarios};

usual_scenarios!(
    a_later_process_takes_up_a_session_that_was_never_prompted,
    a_later_process_loads_the_history_and_goes_on,
);

async fn a_later_process_takes_up_a_session_that_was_never_prompted(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut first = editor(&stage, &[]).await?;
    let session = first.open(&stage.world.project()).await?;
    first.close().await?;
    let mut second = editor(&stage, &[]).await?;
    let place = json!({"sessionId": session, "cwd": stage.world.project(), "mcpServers": []});
    second.result("session/resume", place).await?;
    let text = script(agent, "after all", &json!([{"text": "taken up"}]));
    ensure!(second.turn(&session, &text).await? == "end_turn");
    ensure!(second.said(&session).contains("taken up"));
    second.close().await?;
    stage.close().await
}

async fn a_later_process_loads_the_history_and_goes_on(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut first = editor(&stage, &[]).await?;
    let session = first.open(&stage.world.project()).await?;
    let text = script(agent, "remember the word", &json!([{"text": "one two three", "chunks": 3}]));
    ensure!(first.turn(&session, &text).await? == "end_turn");
    first.close().await?;
    assert_no_agent(&stage).await?;

    let mut second = editor(&stage, &[]).await?;
    let place = json!({"sessionId": session, "cwd": stage.world.project(), "mcpServers": []});
    let loaded = second.result("session/load", place.clone()).await?;
    ensure!(loaded["modes"]["currentModeId"] == "supervised", "{loaded}");
    ensure!(second.text(&session, "user_message_chunk").contains("remember the word"));
    ensure!(second.said(&session).contains("one two three"), "{:#?}", second.seen);
    ensure!(second.updates_of(&session, "agent_message_chunk").len() == 1, "pieces are put together again");
    ensure!(agents(&stage) == 0, "looking back starts nothing");
    let text = script(agent, "and now", &json!([{"text": "four"}]));
    ensure!(second.turn(&session, &text).await? == "end_turn");
    if agent.is_real() {
        let request = stage.world.model().requests_for("and now").pop().context("the model was not asked")?;
        ensure!(
            agent.history(&request.body).contains("remember the word"),
            "the agent knows what was before"
        );
    }
    second.close().await?;

    let mut third = editor(&stage, &[]).await?;
    third.result("session/resume", place).await?;
    ensure!(third.said(&session).is_empty(), "taking up tells no history");
    third.close().await?;
    stage.close().await
}

#[tokio::test]
async fn sessions_are_listed_by_folder_and_page() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = editor(&stage, &[]).await?;
    let project = stage.world.project();
    let other = project.join("below");
    std::fs::create_dir(&other)?;
    for _ in 0..55 {
        editor.open(&project).await?;
    }
    let odd = editor.open(&other).await?;
    let first = editor.result("session/list", json!({"cwd": project})).await?;
    ensure!(first["sessions"].as_array().map(Vec::len) == Some(50), "{first}");
    let next = editor.result("session/list", json!({"cwd": project, "cursor": first["nextCursor"]})).await?;
    ensure!(
        next["sessions"].as_array().map(Vec::len) == Some(5) && next.get("nextCursor").is_none(),
        "{next}"
    );
    let below = editor.result("session/list", json!({"cwd": other})).await?;
    ensure!(below["sessions"][0]["sessionId"] == json!(odd), "{below}");
    ensure!(below["sessions"][0]["_meta"]["obey"]["state"] == "created", "{below}");
    refused(&editor.refusal("session/list", json!({"cursor": "x"})).await?, -32602, "cursor")?;
    refused(&editor.refusal("session/list", json!({"cwd": "x"})).await?, -32602, "absolute")?;
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn a_closed_session_ends_its_agent_and_keeps_its_record() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let id = editor.prompt(&session, &script(SCRIPTED, "x", &json!([{"text": "a"}, {"hang": true}]))).await?;
    editor.chunk().await?;
    let closing = editor.ask("session/close", json!({"sessionId": session})).await?;
    ensure!(editor.answer(id).await?["result"]["stopReason"] == "cancelled", "the prompt is answered first");
    ensure!(editor.answer(closing).await?["result"] == json!({}));
    assert_no_agent(&stage).await?;
    ensure!(status(&stage, &session).await? == "STOPPED");
    let error = editor.refusal("session/prompt", json!({"sessionId": session, "prompt": []})).await?;
    refused(&error, -32602, "is not open here")?;
    refused(&editor.refusal("session/close", json!({"sessionId": session})).await?, -32602, "not open")?;
    let listed = editor.result("session/list", json!({"cwd": stage.world.project()})).await?;
    ensure!(listed["sessions"][0]["_meta"]["obey"]["state"] == "closed", "{listed}");
    editor.result("session/delete", json!({"sessionId": session})).await?;
    let place = json!({"sessionId": session, "cwd": stage.world.project(), "mcpServers": []});
    refused(&editor.refusal("session/load", place).await?, -32602, "there is no session")?;
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn whatever_was_said_to_a_session_before_it_is_closed_is_answered() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = editor(&stage, &[]).await?;
    for end in ["session/close", "session/delete"] {
        for _ in 0..10 {
            let session = editor.open(&stage.world.project()).await?;
            let mut ids = Vec::new();
            // All at once: the first is still being sent when the others come.
            for text in ["one", "two", "three"] {
                let steps = json!([{"text": "a"}, {"hang": true}]);
                ids.push(editor.prompt(&session, &script(SCRIPTED, text, &steps)).await?);
            }
            let mode = json!({"sessionId": session, "modeId": "plan"});
            ids.push(editor.ask("session/set_mode", mode).await?);
            ids.push(editor.ask(end, json!({"sessionId": session})).await?);
            for id in ids {
                let is_answer = |message: &Value| message["id"] == id && message.get("method").is_none();
                if !editor.seen.iter().any(is_answer) {
                    editor.answer(id).await.with_context(|| format!("{end}: {id} of {session}"))?;
                }
            }
            assert_no_agent(&stage).await?;
        }
    }
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn a_session_works_where_it_was_begun() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let place = json!({"sessionId": session, "cwd": stage.world.root(), "mcpServers": []});
    refused(&editor.refusal("session/load", place).await?, -32602, "works in")?;
    let new = |cwd: &str| json!({"cwd": cwd, "mcpServers": []});
    refused(&editor.refusal("session/new", new("project")).await?, -32602, "cwd must be an absolute path")?;
    refused(&editor.refusal("session/new", new("/nowhere/at/all")).await?, -32602, "cwd")?;
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn a_session_of_the_daemon_is_shared_with_an_editor() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let session = stage.create().await?;
    let mut editor = editor(&stage, &[]).await?;
    let place = json!({"sessionId": session, "cwd": stage.world.project(), "mcpServers": []});
    editor.result("session/load", place).await?;
    stage.turn(&session, &script(SCRIPTED, "from elsewhere", &json!([{"text": "heard here"}]))).await?;
    editor
        .wait("the words of another client", |message| {
            message["params"]["update"]["content"]["text"]
                .as_str()
                .is_some_and(|text| text.contains("heard here"))
        })
        .await?;
    ensure!(editor.text(&session, "user_message_chunk").contains("from elsewhere"));
    editor.close().await?;
    ensure!(status(&stage, &session).await? == "RUNNING", "it is not the editor's to end");
    stage.close().await
}
