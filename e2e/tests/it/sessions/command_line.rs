//! The same sessions through the command line: what it prints, and with which code it ends.

use std::collections::HashMap;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::stage::{Agent, scenarios, script, stage};

scenarios!(
    a_session_lives_its_life_on_the_command_line,
    a_request_is_approved_on_the_command_line,
    a_watch_ends_with_its_session,
    mistakes_have_codes,
);

async fn create(stage: &crate::stage::Stage, more: &[&str]) -> Result<String> {
    let base =
        ["session", "create", "--campaign", "demo", "--provider", stage.agent.name(), "--mode", "supervised"];
    let config: HashMap<&str, &str> = stage.agent.config().iter().copied().collect();
    let config = json!(config).to_string();
    let args: Vec<&str> = base.into_iter().chain(["--config", &config]).chain(more.iter().copied()).collect();
    stage.cli().ok(&args).await?.session_id()
}

async fn a_session_lives_its_life_on_the_command_line(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let cli = stage.cli();
    let id = create(&stage, &["--name", "worker"]).await?;
    assert!(id.starts_with("sess_"), "{id}");
    let list = cli.ok(&["session", "list"]).await?;
    assert!(list.stdout.contains("worker"), "{list:?}");
    let info = cli.json(&["session", "info", &id]).await?;
    assert!(info.to_string().contains(&id), "{info}");
    let prompt = script(agent, "hello", &json!([{"text": "Hello from the agent."}]));
    let sent = cli.ok(&["session", "send", "worker", &prompt]).await?;
    assert!(sent.stdout.contains("Hello from the agent."), "{sent:?}");
    let log = cli.ok(&["session", "log", &id, "--json"]).await?;
    let events = log.json_lines()?;
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>(), "{log:?}");
    cli.ok(&["session", "stop", &id]).await?;
    assert!(!cli.ok(&["session", "list"]).await?.stdout.contains("worker"));
    assert!(cli.ok(&["session", "list", "--all"]).await?.stdout.contains("worker"));
    cli.ok(&["session", "restart", &id]).await?;
    let info: Value = cli.json(&["session", "info", &id]).await?;
    assert!(info.to_string().contains("RUNNING"), "{info}");
    stage.close().await
}

async fn a_request_is_approved_on_the_command_line(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let cli = stage.cli();
    let step = agent.asking("touch made");
    let id =
        create(&stage, &["--message", &script(agent, "ask", &json!([step, {"text": "made it"}]))]).await?;
    stage.wait_for_request(&id).await?;
    let waiting = cli.ok(&["session", "requests", &id]).await?;
    assert!(waiting.stdout.contains(agent.shell()), "{waiting:?}");
    cli.ok(&["session", "approve", &id]).await?;
    stage.wait_for_text(&id, "made it").await?;
    stage.wait_for(&id, "turn_ended", |_| true).await?;
    let prompt = script(agent, "deny", &json!([step, {"text": "fine"}]));
    let sent = cli.spawn(&["session", "send", &id, &prompt]).await?;
    stage.wait_for(&id, "request_opened", |event| event["request"] != "req_1").await?;
    cli.ok(&["session", "deny", &id, "--message", "no"]).await?;
    let sent = sent.finish().await?;
    let heard = if agent.goes_on_when_denied() { "fine" } else { "I denied that: no" };
    assert!(sent.stdout.contains(heard), "{sent:?}");
    stage.close().await
}

async fn a_watch_ends_with_its_session(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let cli = stage.cli();
    let id = create(&stage, &[]).await?;
    let mut watch = cli.spawn(&["session", "watch", &id, "--json"]).await?;
    cli.ok(&["session", "send", &id, &script(agent, "hi", &json!([{"text": "seen by the watcher"}]))])
        .await?;
    watch.wait_for_line("the turn", |line| line.contains("turn_ended")).await?;
    cli.ok(&["session", "stop", &id, "--force"]).await?;
    let output = watch.finish().await.context("the watch must end")?;
    assert_eq!(output.code, Some(0), "{output:?}");
    stage.close().await
}

async fn mistakes_have_codes(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let cli = stage.cli();
    let unknown = cli.run(&["session", "info", "sess_nothing"]).await?;
    assert_eq!(unknown.code, Some(4), "{unknown:?}");
    assert!(unknown.stderr.contains("OBEY-2010"), "{unknown:?}");
    let usage = cli.run(&["session", "create", "--provider", "no-such-provider"]).await?;
    assert_eq!(usage.code, Some(2), "{usage:?}");
    let campaign =
        cli.run(&["session", "create", "--campaign", "nowhere", "--provider", agent.name()]).await?;
    let listed = cli.run(&["session", "list", "--campaign", "nowhere"]).await?;
    for mistaken in [campaign, listed] {
        assert_eq!(mistaken.code, Some(4), "{mistaken:?}");
        assert!(mistaken.stderr.contains("OBEY-2001"), "{mistaken:?}");
    }
    let json = cli.run(&["session", "stop", "sess_nothing", "--json"]).await?;
    let error: Value = serde_json::from_str(&json.stderr).with_context(|| format!("{json:?}"))?;
    assert_eq!(error["error"]["code"], "OBEY-2010", "{json:?}");
    stage.close().await
}
