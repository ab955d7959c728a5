//! An editor's connection outlives the daemon: whatever becomes of it, the editor's pipes stay open, and nothing it is
//! told is lost, told twice or out of order.

use std::path::Path;

use anyhow::{Result, ensure};
use e2e::acp::Editor;
use e2e::daemon::Daemon;
use e2e::deadline::poll;
use e2e::processes;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{SCRIPTED, agents, assert_no_agent, editor, start, status};
use crate::stage::{Agent, Stage, process_scenarios, script, stage};

process_scenarios!(
    a_turn_goes_on_and_is_answered_over_a_killed_daemon,
    a_permission_that_waits_can_be_answered_after_the_daemon_was_killed,
);

/// Numbered words, so that one that is missing, told twice or out of place is seen.
fn story(name: &str, count: usize) -> String {
    (0..count).map(|number| format!("{name}·{number}·{} ", ["e", "é", "€", "🐎"][number % 4])).collect()
}

/// Half of a story, a gate, and the other half slowly.
fn telling(agent: Agent, name: &str, gate: &Path) -> String {
    let text: Vec<char> = story(name, 200).chars().collect();
    let (first, second) = text.split_at(text.len() / 2);
    let part = |part: &[char]| part.iter().collect::<String>();
    let first = json!({"text": part(first), "chunks": 20});
    let second = json!({"text": part(second), "chunks": 40, "gap_ms": 10});
    let steps = match agent {
        Agent::Scripted => json!([first, {"wait_file": gate}, second]),
        // A model has no gate; its first half takes a moment as well.
        _ => json!([[{"text": part(&text), "chunks": 60, "gap_ms": 30}]]),
    };
    script(agent, name, &steps)
}

/// Kills the daemon as it is now.
async fn kill(stage: &Stage) -> Result<i32> {
    // The one that takes the place of a killed one may still be starting.
    let pid = poll("a daemon", || daemon(stage)).await?;
    processes::signal(pid, Signal::KILL);
    Ok(pid)
}

/// Kills the daemon and waits for the one that takes its place.
async fn kill_and_wait(stage: &Stage) -> Result<()> {
    let killed = kill(stage).await?;
    poll("the next daemon", || daemon(stage).filter(|pid| *pid != killed)).await?;
    Ok(())
}

/// The process of the daemon, whoever started it.
fn daemon(stage: &Stage) -> Option<i32> {
    let is_daemon = |command: &str| command.contains(" serve ");
    stage.world.processes().into_iter().find(|process| is_daemon(&process.command)).map(|process| process.pid)
}

/// Ends a stage whose daemon is not the one that it started.
async fn close(stage: Stage) -> Result<()> {
    stage.cli().ok(&["stop", "--sessions"]).await?;
    stage.world.assert_no_process_left().await
}

fn answers(editor: &Editor, id: u64) -> usize {
    editor.seen.iter().filter(|message| message["id"] == id && message.get("method").is_none()).count()
}

async fn a_turn_goes_on_and_is_answered_over_a_killed_daemon(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let gate = stage.world.path("gate");
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let id = editor.prompt(&session, &telling(agent, "first", &gate)).await?;
    editor.chunk().await?;
    kill(&stage).await?;
    stage.world.touch("gate")?;
    let answer = editor.answer(id).await?;
    ensure!(answer["result"]["stopReason"] == "end_turn", "{answer}; {}", editor.errors());
    assert_eq!(editor.said(&session), story("first", 200));
    ensure!(editor.updates_of(&session, "user_message_chunk").is_empty(), "its own words were told to it");
    // And the session is as it was.
    let again = script(agent, "second", &json!([{"text": "still here"}]));
    ensure!(editor.turn(&session, &again).await? == "end_turn");
    ensure!(editor.said(&session).ends_with("still here"));
    ensure!(answers(&editor, id) == 1, "answered more than once");
    editor.close().await?;
    assert_no_agent(&stage).await?;
    ensure!(status(&stage, &session).await? == "STOPPED", "the agent is still the connection's");
    close(stage).await
}

async fn a_permission_that_waits_can_be_answered_after_the_daemon_was_killed(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let steps = json!([agent.asking("touch made"), {"text": "went on"}]);
    let id = editor.prompt(&session, &script(agent, "may I", &steps)).await?;
    let asked = editor.asked("session/request_permission").await?;
    kill(&stage).await?;
    // The answer to the question as it was asked, while nobody is there to hear it.
    let allowed = json!({"outcome": {"outcome": "selected", "optionId": "allow-once"}});
    editor.reply(&asked, allowed).await?;
    ensure!(editor.answer(id).await?["result"]["stopReason"] == "end_turn");
    ensure!(editor.said(&session).contains("went on"), "{:#?}", editor.seen);
    let questions =
        editor.seen.iter().filter(|message| message["method"] == "session/request_permission").count();
    ensure!(questions == 1, "asked {questions} times");
    editor.close().await?;
    close(stage).await
}

#[tokio::test]
async fn an_upgrade_in_the_middle_of_turns_is_not_noticed() -> Result<()> {
    let mut stage = stage!(SCRIPTED);
    let gate = stage.world.path("gate");
    let mut editor = editor(&stage, &[]).await?;
    let mut prompts = Vec::new();
    for number in 0..3 {
        let session = editor.open(&stage.world.project()).await?;
        let name = format!("teller{number}");
        let id = editor.prompt(&session, &telling(SCRIPTED, &name, &gate)).await?;
        prompts.push((session, name, id));
    }
    let asking = editor.open(&stage.world.project()).await?;
    let steps = json!([SCRIPTED.asking("touch made"), {"text": "made it"}]);
    let asked_id = editor.prompt(&asking, &script(SCRIPTED, "ask", &steps)).await?;
    let asked = editor.asked("session/request_permission").await?;
    stage.world.touch("gate")?;
    for _ in 0..2 {
        stage.cli().ok(&["upgrade"]).await?;
    }
    for (session, name, id) in &prompts {
        if answers(&editor, *id) == 0 {
            editor.answer(*id).await?;
        }
        let answer =
            editor.seen.iter().find(|message| message["id"] == *id && message.get("method").is_none());
        ensure!(answer.is_some_and(|answer| answer["result"]["stopReason"] == "end_turn"), "{answer:?}");
        assert_eq!(editor.said(session), story(name, 200));
        ensure!(answers(&editor, *id) == 1);
    }
    editor.reply(&asked, json!({"outcome": {"outcome": "selected", "optionId": "allow-once"}})).await?;
    ensure!(editor.answer(asked_id).await?["result"]["stopReason"] == "end_turn");
    ensure!(editor.said(&asking).contains("made it"));
    editor.close().await?;
    assert_no_agent(&stage).await?;
    stage.daemon.wait().await?;
    close(stage).await
}

/// What another program settles while no daemon runs cannot be; what it settles between two is told as always.
#[tokio::test]
async fn a_permission_settled_elsewhere_after_the_kill_is_called_off() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let steps = json!([SCRIPTED.asking("touch made"), {"text": "went on"}]);
    let id = editor.prompt(&session, &script(SCRIPTED, "may I", &steps)).await?;
    let asked = editor.asked("session/request_permission").await?;
    // Another one with the same flags, not one of the command's own.
    kill_and_wait(&stage).await?;
    stage.cli().ok(&["session", "approve", &session]).await?;
    let taken_back =
        editor.wait("the question taken back", |message| message["method"] == "$/cancel_request");
    ensure!(taken_back.await?["params"]["requestId"] == asked["id"]);
    if answers(&editor, id) == 0 {
        editor.answer(id).await?;
    }
    ensure!(editor.said(&session).contains("went on"));
    editor.close().await?;
    close(stage).await
}

#[tokio::test]
async fn kill_after_kill_loses_and_repeats_nothing() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = editor(&stage, &[]).await?;
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(editor.open(&stage.world.project()).await?);
    }
    let mut expected = vec![String::new(); 3];
    for round in 0..6 {
        let mut ids = Vec::new();
        for (number, session) in sessions.iter().enumerate() {
            let text = story(&format!("r{round}s{number}"), 60);
            expected[number].push_str(&text);
            let steps = json!([{"text": text, "chunks": 60, "gap_ms": 2 + round}]);
            ids.push(editor.prompt(session, &script(SCRIPTED, &format!("{round}"), &steps)).await?);
            // Into the sending of a prompt, and into its telling.
            if (round + number) % 2 == 0 {
                kill_and_wait(&stage).await?;
            }
        }
        for (number, id) in ids.iter().enumerate() {
            if answers(&editor, *id) == 0 {
                editor.answer(*id).await?;
            }
            let answer = editor.seen.iter().find(|message| message["id"] == *id).cloned().unwrap_or_default();
            ensure!(answer["result"]["stopReason"] == "end_turn", "{answer}; {}", editor.errors());
            ensure!(answers(&editor, *id) == 1, "answered more than once");
            assert_eq!(editor.said(&sessions[number]), expected[number], "round {round}");
        }
    }
    for session in &sessions {
        ensure!(editor.updates_of(session, "user_message_chunk").is_empty(), "its own words were told to it");
    }
    editor.close().await?;
    assert_no_agent(&stage).await?;
    close(stage).await
}

#[tokio::test]
async fn what_an_editor_asks_while_no_daemon_runs_is_answered_by_the_next() -> Result<()> {
    let mut stage = stage!(SCRIPTED);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    ensure!(
        editor.turn(&session, &script(SCRIPTED, "x", &json!([{"text": "before "}]))).await? == "end_turn"
    );
    stage.daemon.terminate().await?;
    ensure!(agents(&stage) == 1, "the agent goes on");
    // A request, a notification and half a line.
    let listing = editor.ask("session/list", json!({})).await?;
    editor.tell("session/cancel", json!({"sessionId": session})).await?;
    let prompt = json!([{"type": "text", "text": script(SCRIPTED, "y", &json!([{"text": "after"}]))}]);
    let params = json!({"sessionId": session, "prompt": prompt});
    let (id, line) = editor.request("session/prompt", params);
    let (begin, rest) = line.split_at(line.len() / 2);
    editor.write(begin.as_bytes()).await?;
    let listed = editor.answer(listing).await?;
    ensure!(listed["result"]["sessions"][0]["sessionId"] == json!(session), "{listed}");
    editor.line(rest).await?;
    let answer = editor.answer(id).await?;
    ensure!(answer["result"]["stopReason"] == "end_turn", "{answer}");
    ensure!(editor.said(&session) == "before after", "{}", editor.said(&session));
    editor.close().await?;
    assert_no_agent(&stage).await?;
    close(stage).await
}

#[tokio::test]
async fn an_editor_that_leaves_while_no_daemon_runs_leaves_no_agent() -> Result<()> {
    let mut stage = stage!(SCRIPTED);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    editor.prompt(&session, &script(SCRIPTED, "x", &json!([{"text": "a"}, {"hang": true}]))).await?;
    editor.chunk().await?;
    stage.daemon.terminate().await?;
    ensure!(agents(&stage) == 1, "the agent goes on");
    editor.close().await?;
    assert_no_agent(&stage).await?;
    close(stage).await
}

#[tokio::test]
async fn a_history_that_is_being_told_is_told_to_its_end_once() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut first = editor(&stage, &[]).await?;
    let session = first.open(&stage.world.project()).await?;
    // Calls between the words, so that the history is many updates and not one.
    let mut steps = Vec::new();
    for number in 0..150 {
        steps.push(json!({"text": format!("{number} {}", "x".repeat(2000))}));
        steps.push(json!({"tool": "Read", "input": {"file_path": "a"}, "result": "b"}));
    }
    let script = script(SCRIPTED, "history", &Value::Array(steps));
    ensure!(first.turn(&session, &script).await? == "end_turn");
    let told = first.said(&session);
    first.close().await?;
    let mut second = start(&stage, &[]).await?;
    second.initialize().await?;
    let place = json!({"sessionId": session, "cwd": stage.world.project(), "mcpServers": []});
    // It is read slowly: the daemon ends while part of it is on its way.
    let id = second.ask("session/load", place).await?;
    second.chunk().await?;
    kill(&stage).await?;
    let answer = second.answer(id).await?;
    ensure!(answer["result"]["modes"]["currentModeId"] == "supervised", "{answer}");
    assert_eq!(second.said(&session), told);
    ensure!(second.updates_of(&session, "tool_call").len() == 150);
    second.close().await?;
    close(stage).await
}

#[tokio::test]
async fn a_command_in_a_terminal_of_the_editor_is_not_run_twice_over_a_killed_daemon() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = start(&stage, &[]).await?;
    editor.initialize_with(json!({"terminal": true})).await?;
    let session = editor.open(&stage.world.project()).await?;
    let input = json!({"command": "make", "args": ["test"]});
    let steps = json!([{"tool": "mcp__obey__editor_run_command", "input": input}, {"text": "done"}]);
    let id = editor.prompt(&session, &script(SCRIPTED, "run it", &steps)).await?;
    let asked = editor.asked("session/request_permission").await?;
    editor.reply(&asked, json!({"outcome": {"outcome": "selected", "optionId": "allow-once"}})).await?;
    let create = editor.asked("terminal/create").await?;
    editor.reply(&create, json!({"terminalId": "t1"})).await?;
    let wait = editor.asked("terminal/wait_for_exit").await?;
    kill(&stage).await?;
    // The rules have the agent go on without what a client ran for it; the editor hears that nobody waits any more.
    ensure!(editor.answer(id).await?["result"]["stopReason"] == "end_turn");
    let is_called_off = |message: &Value| {
        message["method"] == "$/cancel_request" && message["params"]["requestId"] == wait["id"]
    };
    ensure!(editor.seen.iter().any(is_called_off), "{:#?}", editor.seen);
    let created = editor.seen.iter().filter(|message| message["method"] == "terminal/create").count();
    ensure!(created == 1, "the command was run {created} times");
    let ends = editor.updates_of(&session, "tool_call_update");
    ensure!(ends.iter().any(|end| end["status"] == "failed"), "{ends:#?}");
    editor.close().await?;
    close(stage).await
}

#[tokio::test]
async fn a_daemon_that_somebody_else_starts_is_found() -> Result<()> {
    let mut stage = stage!(SCRIPTED);
    let gate = stage.world.path("gate");
    let mut editor = editor(&stage, &["--no-autostart"]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let id = editor.prompt(&session, &telling(SCRIPTED, "told", &gate)).await?;
    editor.chunk().await?;
    kill(&stage).await?;
    stage.daemon.wait().await.ok();
    stage.world.touch("gate")?;
    stage.daemon = Daemon::start(&stage.world).await?;
    stage.clients = stage.daemon.clients().await?;
    ensure!(editor.answer(id).await?["result"]["stopReason"] == "end_turn");
    assert_eq!(editor.said(&session), story("told", 200));
    editor.close().await?;
    stage.close().await
}
