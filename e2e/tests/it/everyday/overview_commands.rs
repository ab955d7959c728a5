//! The same from the command line: `ps`, `logs`, `wait`, `search`, `usage` and `export`.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wire::obey::v1 as own;

use crate::stage::{Agent, Stage, process_scenarios, script, stage};

process_scenarios!(
    ps_names_who_waits_and_why_in_eighty_columns,
    what_an_agent_did_is_found_exported_and_summed_up,
);

mod once {
    use super::{
        a_log_is_a_look_and_a_list_is_none, a_search_after_a_kill_finds_everything,
        wait_tells_a_failed_turn_and_waits_for_any_or_all,
    };
    crate::stage::scenarios_of!(
        scripted,
        Scripted,
        a_log_is_a_look_and_a_list_is_none,
        a_search_after_a_kill_finds_everything,
        wait_tells_a_failed_turn_and_waits_for_any_or_all
    );
}

async fn named(stage: &Stage, name: &str, message: &str) -> Result<String> {
    let mut request = stage.new_session();
    request.agent_name = name.into();
    let id = stage.create_as(request).await?.id;
    prompt(stage, &id, message).await?;
    Ok(id)
}

async fn prompt(stage: &Stage, id: &str, message: &str) -> Result<()> {
    let prompt = own::PromptRequest { session_id: id.into(), text: message.into(), ..Default::default() };
    stage.clients.turns.clone().prompt(prompt).await?;
    Ok(())
}

async fn ps(stage: &Stage, id: &str) -> Result<Value> {
    let listed = stage.cli().ok(&["ps", "--all", "--json"]).await?.json_lines()?;
    let found = listed.into_iter().find(|session| session["session_id"] == id);
    found.with_context(|| format!("{id} is not listed"))
}

async fn ps_names_who_waits_and_why_in_eighty_columns(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let asks = json!([agent.asking("touch made"), {"text": "made it"}]);
    let id =
        named(&stage, "a name that is much too long for a column of a list", &script(agent, "ask", &asks))
            .await?;
    stage.wait_for_request(&id).await?;
    stage.world.set_env("COLUMNS", "80");
    let shown = stage.cli().ok(&["ps"]).await?;
    let row = shown.stdout.lines().nth(1).context("a row")?;
    assert!(row.starts_with("▲ needs you  a name that is much"), "{shown:?}");
    assert!(row.contains("wants: "), "{shown:?}");
    let session = ps(&stage, &id).await?;
    for field in [
        "session_id",
        "name",
        "campaign",
        "folder",
        "branch",
        "provider",
        "model",
        "mode",
        "state",
        "reason",
        "since",
        "requests",
        "last_line",
        "tokens",
        "cost_usd",
        "budget",
    ] {
        assert!(session.get(field).is_some(), "{field} is missing in {session}");
    }
    assert_eq!(session["state"], "needs_you");
    assert_eq!(session["requests"][0]["id"], "req_1");
    assert_eq!(session["campaign"], "demo");
    assert_eq!(session["budget"], Value::Null);
    stage.close().await
}

async fn wait_tells_a_failed_turn_and_waits_for_any_or_all(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let cli = stage.cli();
    assert_eq!(cli.run(&["wait", "--all"]).await?.code, Some(0), "nothing works");
    let bad = named(&stage, "bad", &script(agent, "bad", &json!([{"error": "Invalid API key"}]))).await?;
    let failed = cli.run(&["session", "wait", "bad"]).await?;
    assert_eq!(failed.code, Some(7), "{failed:?}");
    assert!(failed.stdout.contains("Invalid API key"), "{failed:?}");
    let slow = named(&stage, "slow", &script(agent, "slow", &json!([agent.asking("touch made")]))).await?;
    stage.wait_for_request(&slow).await?;
    let good = named(&stage, "good", &script(agent, "good", &json!([{"text": "well"}]))).await?;
    let any = cli.run(&["wait", "slow", "good", "--any", "--json"]).await?;
    assert_eq!(any.code, Some(0), "{any:?}");
    let first = any.json_lines()?;
    assert_eq!(first.len(), 1);
    assert_eq!(first[0]["session_id"], good.as_str());
    let late = cli.run(&["wait", "slow", "good", "--timeout", "100ms"]).await?;
    assert_eq!(late.code, Some(1), "{late:?}");
    let all = cli.spawn(&["wait", "slow", "bad", "good"]).await?;
    stage.decide(&slow, "req_1", own::Decision::AllowOnce).await?;
    let all = all.finish().await?;
    assert_eq!(all.code, Some(7), "the turn of {bad} failed: {all:?}");
    let missing = cli.run(&["wait", "sess_00000000000000000000000000"]).await?;
    assert_eq!(missing.code, Some(4), "{missing:?}");
    stage.close().await
}

async fn a_log_is_a_look_and_a_list_is_none(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let cli = stage.cli();
    let id = named(&stage, "done", &script(agent, "done", &json!([{"text": "well"}]))).await?;
    assert_eq!(cli.run(&["wait", "done"]).await?.code, Some(0));
    cli.ok(&["session", "list"]).await?;
    cli.ok(&["ps"]).await?;
    assert_eq!(ps(&stage, &id).await?["state"], "done");
    cli.ok(&["logs", "done", "-n", "3"]).await?;
    assert_eq!(ps(&stage, &id).await?["state"], "idle");
    stage.close().await
}

async fn what_an_agent_did_is_found_exported_and_summed_up(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let cli = stage.cli();
    let steps = json!([agent.asking("echo tamarind > made"), {"text": "The kumquat is ripe."}]);
    let id = named(&stage, "finder", &script(agent, "fruit", &steps)).await?;
    stage.wait_for_request(&id).await?;
    stage.decide(&id, "req_1", own::Decision::AllowOnce).await?;
    assert_eq!(cli.run(&["wait", "finder"]).await?.code, Some(0));
    let found = cli.ok(&["search", "kumquat", "--kind", "answer", "--json"]).await?.json_lines()?;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0]["session_id"], &found[0]["kind"]), (&json!(id), &json!("answer")));
    let seq = found[0]["seq"].as_u64().context("a number")?;
    let event = stage.journal(&id).await?.into_iter().find(|event| event.seq == seq).context("the event")?;
    assert_eq!(event.r#type, "text_delta");
    let commands = cli.ok(&["search", "tamarind", "--kind", "command", "--json"]).await?.json_lines()?;
    assert_eq!(commands.len(), 1, "{commands:?}");
    assert!(cli.ok(&["search", "durian"]).await?.stdout.is_empty());
    assert_eq!(cli.run(&["search", "***"]).await?.code, Some(2));
    let markdown = cli.ok(&["export", "finder", "--format", "md"]).await?.stdout;
    for part in ["# finder", "## Turn 1", "tamarind", "The kumquat is ripe.", "*Turn completed*"] {
        assert!(markdown.contains(part), "{part} is missing in:\n{markdown}");
    }
    let exported: Value =
        serde_json::from_str(&cli.ok(&["export", "finder", "--format", "json"]).await?.stdout)?;
    assert_eq!(exported["session"]["session_id"], id.as_str());
    let numbers: Vec<u64> = exported["events"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|event| event["seq"].as_u64())
        .collect();
    assert_eq!(numbers, (1..=stage.journal(&id).await?.len() as u64).collect::<Vec<_>>());
    let used = cli.ok(&["usage", "--by", "session", "--json"]).await?.json_lines()?;
    if agent.is_real() {
        assert_eq!(used.len(), 1, "{used:?}");
        assert_eq!(used[0]["session_id"], id.as_str());
        assert_eq!(ps(&stage, &id).await?["tokens"], json!(tokens(&used[0])?));
    } else {
        assert!(used.is_empty(), "the scripted agent reports nothing: {used:?}");
    }
    stage.close().await
}

fn tokens(row: &Value) -> Result<u64> {
    let number = |field: &str| row[field].as_u64().with_context(|| format!("{field} of {row}"));
    Ok(number("input_tokens")? + number("output_tokens")?)
}

async fn a_search_after_a_kill_finds_everything(agent: Agent) -> Result<()> {
    let mut stage = stage!(agent);
    let id = named(&stage, "one", &script(agent, "one", &json!([{"text": "rambutan"}]))).await?;
    stage.wait_for(&id, "turn_ended", |_| true).await?;
    stage.daemon.kill9().await?;
    stage.daemon.restart().await?;
    stage.clients = stage.daemon.clients().await?;
    let found = stage.cli().ok(&["search", "rambutan", "--kind", "answer", "--json"]).await?.json_lines()?;
    assert_eq!(found.len(), 1, "{found:?}");
    stage.cli().ok(&["session", "stop", &id]).await?;
    stage.close().await
}
