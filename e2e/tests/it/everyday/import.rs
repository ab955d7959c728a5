//! Conversations that real agents had without the daemon become sessions, and go on under their own ids.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::claude_driver::Claude;
use crate::codex_driver::Codex;
use crate::stage::{Agent, Stage, fields, script, stage};

/// What the scrubber takes for a key.
const SECRET: &str = "ghp_0123456789abcdefghijABCDEFGHIJ456789";

/// The two prompts of a conversation without the daemon.
fn prompts(agent: Agent) -> [String; 2] {
    let call =
        json!([{"tool": "Bash", "input": {"command": "echo from the tool"}}, {"text": "first answer"}]);
    [
        script(agent, "Fix the login bug", &call),
        script(
            agent,
            &format!("the key is {SECRET}"),
            &json!([{"thinking": format!("it is {SECRET}")}, {"text": format!("second answer, with {SECRET}")}]),
        ),
    ]
}

/// Imports a conversation and continues it.
async fn import(stage: &Stage, id: &str, way_back: &str) -> Result<()> {
    let cli = stage.cli();
    let listed = cli.json(&["import"]).await?;
    let of = |id: &str| -> Result<Value> {
        let all = listed["conversations"].as_array().context("no list")?;
        all.iter()
            .find(|one| one["id"] == json!(id))
            .cloned()
            .with_context(|| format!("not listed: {listed}"))
    };
    let one = of(id)?;
    assert_eq!(one["provider"], json!(stage.agent.name()), "{one}");
    assert_eq!((&one["turns"], &one["session_id"]), (&json!(2), &Value::Null), "{one}");
    assert_eq!(one["folder"], json!(stage.world.project()), "{one}");
    assert!(one["title"].as_str().is_some_and(|title| title.starts_with("Fix the login bug")), "{one}");
    let table = cli.ok(&["import"]).await?.stdout;
    assert!(table.contains(id), "{table}");

    let made = cli.json(&["import", id]).await?;
    let session = made["session_id"].as_str().context("no session")?.to_owned();
    assert_eq!((&made["turns"], &made["already_imported"]), (&json!(2), &json!(false)), "{made}");
    let journal = stage.journal(&session).await?;
    let kinds: Vec<&str> = journal.iter().map(|event| event.r#type.as_str()).collect();
    let seqs: Vec<u64> = journal.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=journal.len() as u64).collect::<Vec<_>>());
    assert_eq!(kinds.iter().filter(|kind| **kind == "turn_started").count(), 2, "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == "turn_ended").count(), 2, "{kinds:?}");
    assert!(kinds.contains(&"tool_started") && kinds.contains(&"tool_finished"), "{kinds:?}");
    let all: String = journal.iter().map(|event| event.json.as_str()).collect();
    assert!(
        all.contains("first answer") && all.contains("from the tool") && all.contains("second answer"),
        "{all}"
    );
    assert!(!all.contains(SECRET) && all.contains("[REDACTED"), "{all}");
    // The events have the times at which they happened, before the last one, which is the import's.
    let times: Vec<_> = journal.iter().map(|event| event.at.map(|at| (at.seconds, at.nanos))).collect();
    assert!(times.is_sorted() && times.first() < times.last(), "{times:?}");

    // The same conversation is the same session.
    let again = cli.json(&["import", id]).await?;
    assert_eq!(
        (&again["session_id"], &again["already_imported"]),
        (&json!(session), &json!(true)),
        "{again}"
    );
    let info = cli.json(&["session", "info", &session]).await?;
    assert_eq!((&info["way_back"], &info["conversation_id"]), (&json!(way_back), &json!(id)), "{info}");
    let text = cli.ok(&["session", "info", &session]).await?.stdout;
    assert!(text.contains(way_back), "{text}");

    // The next prompt resumes it: the model is sent what was said before.
    let prompt = script(stage.agent, "goon", &json!([{"text": "third answer"}]));
    cli.ok(&["session", "send", &session, &prompt]).await?;
    let ended = stage.journal(&session).await?;
    let last = ended.iter().rfind(|event| event.r#type == "turn_ended").context("no turn ended")?;
    assert_eq!(fields(last)["turn"], json!("turn_3"), "{last:?}");
    let requests = stage.world.model().requests_for("goon");
    let history = stage.agent.history(&requests.first().context("the model was not asked")?.body);
    assert!(history.contains("first answer") && history.contains("second answer"), "{history}");
    let now = cli.json(&["session", "info", &session]).await?;
    assert_eq!(now["conversation_id"], json!(id), "{now}");
    let relisted = cli.json(&["import", "--provider", stage.agent.name()]).await?;
    let same =
        relisted["conversations"].as_array().and_then(|all| all.iter().find(|one| one["id"] == json!(id)));
    assert_eq!(same.context("gone")?["session_id"], json!(session), "{relisted}");
    Ok(())
}

#[tokio::test]
async fn real_claude_a_conversation_is_imported_and_resumed() -> Result<()> {
    let stage = stage!(Agent::Claude);
    let mut claude = Claude::start(&stage.world, &["--permission-mode", "bypassPermissions"])?;
    for prompt in prompts(Agent::Claude) {
        claude.turn(&prompt).await?;
    }
    let id = claude.of_kind("system/init")[0]["session_id"].as_str().context("no id")?.to_owned();
    assert_eq!(claude.finish().await?, Some(0));
    import(&stage, &id, &format!("claude --resume {id}")).await?;
    stage.close().await
}

#[tokio::test]
async fn real_codex_a_conversation_is_imported_and_resumed() -> Result<()> {
    let stage = stage!(Agent::Codex);
    let free = json!({"approvalPolicy": "never", "sandbox": "danger-full-access"});
    let mut codex = Codex::start(&stage.world, free).await?;
    for prompt in prompts(Agent::Codex) {
        codex.turn(&prompt).await?;
    }
    let id = codex.thread.clone();
    assert_eq!(codex.finish().await?, Some(0));
    import(&stage, &id, &format!("codex resume {id}")).await?;
    stage.close().await
}

#[tokio::test]
async fn what_cannot_be_imported_is_said() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let cli = stage.cli();
    let none = cli.json(&["import"]).await?;
    assert_eq!(none, json!({"conversations": []}));
    for id in ["0c8d0a2e-6f0e-4b0f-9f55-3d6d3f1c2a11", "../../etc/passwd"] {
        let refused = cli.run(&["import", id]).await?;
        assert_eq!(refused.code, Some(4), "{refused:?}");
        assert!(refused.stderr.contains("obey import"), "{refused:?}");
    }
    // One whose folder is gone, and one that is a link.
    let projects = stage.world.path("home/.claude/projects/-gone");
    std::fs::create_dir_all(&projects)?;
    let line = json!({
        "type": "user",
        "message": {"role": "user", "content": "hello"},
        "cwd": "/nowhere/at/all",
        "timestamp": "2026-01-02T03:04:05.000Z",
    });
    let id = "11111111-2222-4333-8444-555555555555";
    std::fs::write(projects.join(format!("{id}.jsonl")), format!("{line}\n"))?;
    let linked = "99999999-2222-4333-8444-555555555555";
    std::os::unix::fs::symlink(
        projects.join(format!("{id}.jsonl")),
        projects.join(format!("{linked}.jsonl")),
    )?;
    let listed = cli.json(&["import"]).await?;
    assert_eq!(listed["conversations"].as_array().map(Vec::len), Some(1), "{listed}");
    let refused = cli.run(&["import", id]).await?;
    assert!(refused.code != Some(0) && refused.stderr.contains("/nowhere/at/all"), "{refused:?}");
    let refused = cli.run(&["import", linked]).await?;
    assert_eq!(refused.code, Some(4), "{refused:?}");
    stage.close().await
}
