//! The built-in tools: they work in the session's root, ask by mode, run side by side, and never leave the root.

use anyhow::Result;
use e2e::clients::collect;
use e2e::deadline::poll;
use serde_json::{Value, json};
use wire::obey::local::v1::ActivityType;
use wire::obey::v1 as own;

use super::session;
use crate::roz::talk::{Talk, pure};
use crate::stage::{Agent, Stage, contents, fields, of_type, scenarios_of, script, stage};

fn call(tool: &str, input: Value) -> Value {
    json!({"tool": tool, "input": input})
}

/// Runs one reply of calls in a session and returns their results.
async fn results(stage: &Stage, id: &str, key: &str, calls: Vec<Value>) -> Result<Vec<(bool, String)>> {
    let steps = json!([calls, {"text": "done"}]);
    let turn = stage.turn(id, &script(stage.agent, key, &steps)).await?;
    assert_eq!(contents(&turn, ActivityType::Completion), "done", "{turn:#?}");
    let calls = of_type(&turn, ActivityType::ToolCall);
    let results = of_type(&turn, ActivityType::ToolResult);
    let of = |id: &str| results.iter().find(|result| result.tool_call_id == id);
    let found = calls.iter().filter_map(|call| of(&call.tool_call_id));
    Ok(found.map(|result| (result.tool_success, result.content.clone())).collect())
}

scenarios_of!(openai, Openai, calls_of_one_reply_run_side_by_side);
scenarios_of!(openai_chat, OpenaiChat, calls_of_one_reply_run_side_by_side);

/// Each waits for the other.
async fn calls_of_one_reply_run_side_by_side(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = free(&stage).await?;
    let meet = |own: &str, other: &str| {
        let command = format!("touch {own}; until test -e {other}; do sleep 0.01; done; echo met");
        call("Bash", json!({"command": command, "timeout": 30_000}))
    };
    let met = results(&stage, &id, "meet", vec![meet("a", "b"), meet("b", "a")]).await?;
    assert_eq!(met, [(true, "met\n".to_owned()), (true, "met\n".to_owned())]);
    let history = agent.history(&stage.world.model().requests_for("meet")[1].body);
    assert_eq!(history.matches("met\\n").count(), 2, "both results reach the model: {history}");
    stage.close().await
}

async fn free(stage: &Stage) -> Result<String> {
    Ok(stage.create_as(session(stage, &[("permission_mode", "autonomous")])).await?.id)
}

#[tokio::test]
async fn every_tool_works_in_the_sessions_folder() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let id = free(&stage).await?;
    let wrote = results(
        &stage,
        &id,
        "write",
        vec![call("Write", json!({"file_path": "src/a.txt", "content": "one\ntwo\nthree\n"}))],
    );
    assert!(wrote.await?[0].0);
    let edited = results(
        &stage,
        &id,
        "edit",
        vec![call("Edit", json!({"file_path": "src/a.txt", "old_string": "two", "new_string": "2"}))],
    );
    assert!(edited.await?[0].0);
    assert_eq!(std::fs::read_to_string(stage.world.project().join("src/a.txt"))?, "one\n2\nthree\n");
    // Four at once.
    let looked = results(
        &stage,
        &id,
        "look",
        vec![
            call("Read", json!({"file_path": "src/a.txt", "offset": 2, "limit": 1})),
            call("LS", json!({"path": "src"})),
            call("Grep", json!({"pattern": "^th", "glob": "*.txt"})),
            call("Bash", json!({"command": "cat src/a.txt | wc -l; exit 3"})),
        ],
    );
    let looked = looked.await?;
    assert_eq!(looked[0], (true, "2\n".to_owned()));
    assert!(looked[1].1.contains("a.txt (12 bytes)"), "{looked:?}");
    assert!(looked[2].1.contains("src/a.txt:3: three"), "{looked:?}");
    assert!(!looked[3].0 && looked[3].1.starts_with("3\n") && looked[3].1.contains("exit 3"), "{looked:?}");
    stage.close().await
}

#[tokio::test]
async fn nothing_outside_the_root_is_reached() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let id = free(&stage).await?;
    std::fs::write(stage.world.path("secret"), "the family silver")?;
    std::os::unix::fs::symlink(stage.world.root(), stage.world.project().join("out"))?;
    let outside = stage.world.path("secret").display().to_string();
    let tried = results(
        &stage,
        &id,
        "escape",
        vec![
            call("Read", json!({"file_path": "../secret"})),
            call("Read", json!({"file_path": outside})),
            call("Read", json!({"file_path": "out/secret"})),
            call("Write", json!({"file_path": "../made", "content": "x"})),
            call("Edit", json!({"file_path": "out/secret", "old_string": "silver", "new_string": "tin"})),
            call("LS", json!({"path": ".."})),
            call("Grep", json!({"pattern": "silver", "path": ".."})),
            call("Grep", json!({"pattern": "silver"})),
            call("Bash", json!({"command": format!("cat {outside}; echo x > ../made")})),
            call("Write", json!({"file_path": ".git/hooks/pre-commit", "content": "x"})),
        ],
    );
    for (at, (ok, output)) in tried.await?.into_iter().enumerate() {
        assert!(!output.contains("silver"), "call {at}: {output}");
        assert!(!ok || output.contains("nothing found") || at == 8, "call {at}: {output}");
    }
    assert_eq!(std::fs::read_to_string(stage.world.path("secret"))?, "the family silver");
    assert!(!stage.world.path("made").exists());
    assert!(!stage.world.project().join(".git/hooks/pre-commit").exists());
    stage.close().await
}

#[tokio::test]
async fn modes_decide_what_is_asked() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let write = call("Write", json!({"file_path": "a", "content": "x"}));
    let id = stage.create_as(session(&stage, &[("permission_mode", "acceptEdits")])).await?.id;
    let done = results(&stage, &id, "edits", vec![write]).await?;
    assert!(done[0].0, "{done:?}");
    assert!(stage.requests(&id, true).await?.is_empty());

    let id = stage.create_as(session(&stage, &[("permission_mode", "plan")])).await?.id;
    let touch = call("Bash", json!({"command": "touch b"}));
    let done = results(&stage, &id, "planning", vec![touch]).await?;
    assert!(!done[0].0 && done[0].1.contains("plan mode"), "{done:?}");
    assert!(!stage.world.project().join("b").exists());

    let steps = json!([call("ExitPlanMode", json!({"plan": "1. do it"})), {"text": "begun"}]);
    let turn = stage.send(&id, &script(Agent::Openai, "plan", &steps)).await?;
    let request = stage.wait_for_request(&id).await?;
    assert_eq!(request.tool_name, "ExitPlanMode");
    stage.decide(&id, &request.id, own::Decision::AllowOnce).await?;
    collect(turn).await?;
    stage.wait_for(&id, "mode_changed", |event| event["mode"] == "supervised").await?;
    stage.close().await
}

#[tokio::test]
async fn an_interrupt_ends_the_command_that_ran() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let id = free(&stage).await?;
    let steps = json!([call("Bash", json!({"command": "tail -f /dev/null & tail -f /dev/zero >/dev/null"})), {"text": "never"}]);
    let turn = stage.send(&id, &script(Agent::Openai, "k", &steps)).await?;
    let tails = || {
        let processes = e2e::processes::of_world(stage.world.root());
        processes.into_iter().filter(|process| process.command.starts_with("tail")).count()
    };
    stage.wait_for(&id, "tool_started", |_| true).await?;
    // In the sandbox nothing carries the world's mark; the daemon's own children do.
    let stages =
        || stage.world.processes().iter().filter(|process| process.command.contains("sandbox-stage")).count();
    poll("the sandbox", || (tails() > 0 || stages() > 0).then_some(())).await?;
    assert!(stage.cancel(&id).await?);
    collect(turn).await?;
    poll("the end of the command", || (tails() == 0 && stages() == 0).then_some(())).await?;
    let next = stage.turn(&id, &script(Agent::Openai, "next", &json!([{"text": "still here"}]))).await?;
    assert_eq!(contents(&next, ActivityType::Completion), "still here");
    stage.close().await
}

#[tokio::test]
async fn calls_that_make_no_sense_are_answered() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let id = free(&stage).await?;
    let tried = results(
        &stage,
        &id,
        "nonsense",
        vec![call("Fly", json!({})), call("Read", json!({})), call("Grep", json!({"pattern": "("}))],
    );
    let tried = tried.await?;
    assert!(tried.iter().all(|(ok, _)| !ok), "{tried:?}");
    assert!(tried[0].1.contains("there is no tool") && tried[1].1.contains("file_path"), "{tried:?}");
    assert!(tried[2].1.contains("regular expression"), "{tried:?}");
    stage.close().await
}

#[tokio::test]
async fn a_clients_tool_that_has_the_name_of_ours_is_warned_of_once() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let mut talk = Talk::new(&stage, vec![pure("Read"), pure("Write"), pure("look_around")]).await?;
    for key in ["one", "two"] {
        talk.prompt(key, &script(Agent::Openai, key, &json!([{"text": "done"}]))).await?;
        talk.turn().await?;
    }
    let journal = stage.journal(talk.session()).await?;
    let notices = journal.iter().filter(|event| event.r#type == "notice").map(fields);
    let notices: Vec<Value> = notices.collect();
    let told = |name: &str| {
        let named = |notice: &&Value| {
            notice["level"] == "warning" && notice["message"].as_str().is_some_and(|text| text.contains(name))
        };
        notices.iter().filter(named).count()
    };
    assert_eq!([told("Read"), told("Write"), told("look_around")], [1, 1, 0], "{notices:?}");
    stage.close().await
}

#[tokio::test]
async fn a_list_of_things_to_do_is_shown() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let id = stage.create().await?;
    let steps = json!([{"todo": ["look", "leap"]}, {"text": "planned"}]);
    stage.turn(&id, &script(Agent::Openai, "todo", &steps)).await?;
    let todos = stage.wait_for(&id, "todos_changed", |_| true).await?;
    assert_eq!(todos["todos"][1]["text"], "leap", "{todos}");
    stage.close().await
}
