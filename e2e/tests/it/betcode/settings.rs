//! Settings from outside: what they say, how they change, and what follows from them.

use std::collections::HashMap;

use anyhow::{Context, Result};
use e2e::clients::{Clients, refused};
use serde_json::{Value, json};
use tonic::Code;
use tonic::transport::Channel;
use wire::betcode::v1 as pb;
use wire::betcode::v1::config_service_client::ConfigServiceClient;

use super::talk::{Talk, again, results, text};
use crate::stage::{Agent, Stage, process_scenarios, script, stage};

process_scenarios!(rules_answer_for_every_agent, a_permission_nobody_answers_is_denied_in_time);
crate::stage::scenarios_of!(
    openai,
    Openai,
    rules_answer_for_every_agent,
    a_permission_nobody_answers_is_denied_in_time
);

fn config(clients: &Clients) -> ConfigServiceClient<Channel> {
    ConfigServiceClient::new(clients.channel.clone())
}

/// Writes the user's own settings.
pub(crate) fn write(stage: &Stage, settings: &Value) -> Result<()> {
    let folder = stage.world.path("config/betcode");
    std::fs::create_dir_all(&folder)?;
    Ok(std::fs::write(folder.join("settings.json"), settings.to_string())?)
}

async fn rules_answer_for_every_agent(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    write(&stage, &json!({"permissions": {"allow": ["Bash(touch *)"], "deny": ["Bash(rm *)"]}}))?;
    // A project may forbid more, and allow nothing.
    std::fs::create_dir(stage.world.project().join(".betcode"))?;
    let project = json!({"permissions": {"deny": ["Bash(touch secret)"], "allow": ["Bash"]}});
    std::fs::write(stage.world.project().join(".betcode/settings.json"), project.to_string())?;
    let mut talk = Talk::new(&stage).await?;
    let steps = json!([
        agent.asking("touch made"),
        agent.asking("touch secret"),
        agent.asking("touch more; rm made"),
        agent.asking("touch more; echo hi"),
        {"text": "end"},
    ]);
    talk.prompt(&script(agent, "go", &steps)).await?;
    let asked = talk.permission().await?;
    assert!(format!("{asked:?}").contains("echo hi"), "only what no rule covers is asked: {asked:?}");
    talk.decide(&asked.request_id, pb::PermissionDecision::Deny).await?;
    assert_eq!(text(&talk.turn().await?), "end");
    let failed: Vec<bool> = results(&talk.heard).iter().map(|result| result.is_error).collect();
    assert_eq!(failed, [false, true, true, true], "{:#?}", results(&talk.heard));
    let settled: Vec<String> = stage
        .journal(talk.session())
        .await?
        .iter()
        .filter(|event| event.r#type == "request_settled")
        .map(|event| crate::stage::fields(event)["by"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert!(settled[0].starts_with("rule Bash(touch *) (global settings, "), "{settled:?}");
    assert!(settled[1].starts_with("rule Bash(touch secret) (project settings, "), "{settled:?}");
    assert!(settled[2].starts_with("rule Bash(rm *) (global settings, "), "{settled:?}");
    assert!(!stage.world.project().join("more").exists());
    // Sessions of the other surface have the same rules.
    let id = stage.create().await?;
    let turn = stage
        .turn(&id, &script(agent, "other", &json!([agent.asking("touch made"), {"text": "ok"}])))
        .await?;
    assert!(format!("{turn:?}").contains("allowed once by rule"), "{turn:#?}");
    stage.close().await
}

async fn a_permission_nobody_answers_is_denied_in_time(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    write(&stage, &json!({"permissions": {"connected_timeout_secs": 1, "disconnected_timeout_secs": 1}}))?;
    let mut talk = Talk::new(&stage).await?;
    talk.prompt(&script(agent, "ask", &json!([agent.asking("touch made"), {"text": "so be it"}]))).await?;
    talk.permission().await?;
    let turn = talk.turn().await?;
    assert_eq!(text(&turn), "so be it");
    assert!(results(&turn)[0].is_error && results(&turn)[0].output.contains("nobody answered"), "{turn:#?}");
    let settled = stage.wait_for(talk.session(), "request_settled", |_| true).await?;
    assert_eq!((&settled["by"], &settled["decision"]), (&json!("timeout"), &json!("deny")));
    // The same without anybody there.
    talk.prompt(&script(agent, "again", &json!([agent.asking("touch made"), {"text": "once more"}]))).await?;
    talk.permission().await?;
    let (session, last) = (talk.session().to_owned(), talk.last());
    drop(talk);
    stage.wait_for(&session, "turn_ended", |turn| turn["turn"] == "turn_2").await?;
    let mut back = Talk::start(&stage.clients, again(&session, last)).await?;
    assert_eq!(text(&back.turn().await?), "once more");
    // A session of the other surface waits; so does one whose settings say so.
    write(&stage, &json!({"permissions": {"connected_timeout_secs": 0}}))?;
    let mut patient = Talk::new(&stage).await?;
    patient.prompt(&script(agent, "ask", &json!([agent.asking("touch made"), {"text": "at last"}]))).await?;
    let asked = patient.permission().await?;
    let spec = stage.wait_for(patient.session(), "request_opened", |_| true).await?;
    assert_eq!(spec["request"], asked.request_id);
    patient.decide(&asked.request_id, pb::PermissionDecision::AllowOnce).await?;
    assert_eq!(text(&patient.turn().await?), "at last");
    stage.close().await
}

#[tokio::test]
async fn settings_are_read_and_changed_by_scope() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut config = config(&stage.clients);
    let get = |scope: &str| pb::GetSettingsRequest { scope: scope.into() };
    let defaults = config.get_settings(get("default")).await?.into_inner();
    let permissions = defaults.permissions.context("no permissions")?;
    assert_eq!(permissions.connected_timeout_secs, Some(60));
    assert_eq!(permissions.disconnected_timeout_secs, Some(604_800));
    let whole = config.get_settings(get("")).await?.into_inner();
    let daemon = whole.daemon.context("no daemon")?;
    assert_eq!(daemon.socket_path, Some(stage.daemon.socket().display().to_string()));
    assert_eq!(daemon.port, stage.daemon.listen().first().map(|address| u32::from(address.port())));
    let global = config.get_settings(get("global")).await?.into_inner();
    assert_eq!(global.permissions.context("no permissions")?.connected_timeout_secs, None);

    let seconds = |seconds| pb::Settings {
        permissions: Some(pb::PermissionSettings {
            connected_timeout_secs: Some(seconds),
            ..Default::default()
        }),
        ..Default::default()
    };
    let update = |scope: &str, settings: pb::Settings| pb::UpdateSettingsRequest {
        settings: Some(settings),
        scope: scope.into(),
    };
    let holds = |settings: pb::Settings| settings.permissions.and_then(|all| all.connected_timeout_secs);
    assert_eq!(holds(config.update_settings(update("", seconds(5))).await?.into_inner()), Some(5));
    let project = format!("project:{}", stage.world.project().display());
    assert_eq!(holds(config.update_settings(update(&project, seconds(7))).await?.into_inner()), Some(7));
    assert_eq!(holds(config.get_settings(get("")).await?.into_inner()), Some(5));
    assert_eq!(holds(config.get_settings(get(&project)).await?.into_inner()), Some(7));
    assert!(stage.world.project().join(".betcode/settings.json").exists());

    refused(config.get_settings(get("mine")).await, Code::InvalidArgument, "OBEY-1001")?;
    for scope in ["default", "flag", "environment", "project:/nowhere"] {
        refused(config.update_settings(update(scope, seconds(1))).await, Code::InvalidArgument, "OBEY-1001")?;
    }
    let port = pb::Settings {
        daemon: Some(pb::DaemonSettings { port: Some(1), ..Default::default() }),
        ..Default::default()
    };
    refused(config.update_settings(update("", port)).await, Code::InvalidArgument, "OBEY-1001")?;
    let free = pb::PermissionSettings { enable_auto_approve: Some(true), ..Default::default() };
    let free = pb::Settings { permissions: Some(free), ..Default::default() };
    refused(config.update_settings(update(&project, free)).await, Code::InvalidArgument, "OBEY-1001")?;
    stage.close().await
}

#[tokio::test]
async fn variables_and_flags_win_over_files() -> Result<()> {
    let world = e2e::world::World::new()?;
    world.set_env("BETCODE_PERMISSIONS_CONNECTED_TIMEOUT_SECS", "11");
    world.set_env("BETCODE_PERMISSIONS_DISCONNECTED_TIMEOUT_SECS", "12");
    let options = ["--betcode", "permissions.disconnected_timeout_secs=13"];
    let mut daemon = e2e::daemon::Daemon::start_with(&world, &options).await?;
    let folder = world.path("config/betcode");
    std::fs::create_dir_all(&folder)?;
    let file = json!({"permissions": {"connected_timeout_secs": 1, "disconnected_timeout_secs": 2}});
    std::fs::write(folder.join("settings.json"), file.to_string())?;
    let mut config = config(&daemon.clients().await?);
    for (scope, connected, disconnected) in [
        ("default", Some(60), Some(604_800)),
        ("global", Some(1), Some(2)),
        ("environment", Some(11), Some(12)),
        ("flag", None, Some(13)),
        ("", Some(11), Some(13)),
    ] {
        let request = pb::GetSettingsRequest { scope: scope.into() };
        let found = config.get_settings(request).await?.into_inner().permissions.context("none")?;
        let seconds = (found.connected_timeout_secs, found.disconnected_timeout_secs);
        assert_eq!(seconds, (connected, disconnected), "{scope}");
    }
    daemon.terminate().await?;
    Ok(())
}

#[tokio::test]
async fn permissions_say_where_each_rule_comes_from() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    write(&stage, &json!({"permissions": {"deny": ["Bash(rm *)", "WebFetch"], "ask": ["Write"]}}))?;
    let start = pb::StartConversation {
        allowed_tools: vec!["Bash(git *)".into()],
        working_directory: stage.world.project().display().to_string(),
        metadata: HashMap::from([("provider".into(), "scripted".into())]),
        ..Default::default()
    };
    let talk = Talk::start(&stage.clients, start).await?;
    let request = pb::GetPermissionsRequest { session_id: talk.session().into() };
    let found = config(&stage.clients).get_permissions(request).await?.into_inner();
    let first: Vec<(&str, &str)> = found
        .rules
        .iter()
        .take(2)
        .map(|rule| (rule.tool_pattern.as_str(), rule.source.split(',').next().unwrap_or_default()))
        .collect();
    assert_eq!(first, [("Bash(git *)", "session"), ("Bash(rm *)", "global settings")]);
    assert!(found.rules.iter().any(|rule| rule.source == "built-in" && rule.tool_pattern == "Read"));
    assert_eq!(found.denied_tools, ["WebFetch"]);
    assert!(found.require_approval.contains(&"Write".to_owned()), "{found:?}");
    let priorities: Vec<i32> = found.rules.iter().map(|rule| rule.priority).collect();
    assert!(priorities.windows(2).all(|pair| pair[0] <= pair[1]), "{priorities:?}");
    stage.close().await
}

#[tokio::test]
async fn settings_shape_conversations() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    write(
        &stage,
        &json!({"sessions": {"max_messages_per_session": 2}, "feature_flags": {"context_compaction": false}}),
    )?;
    let mut talk = Talk::new(&stage).await?;
    talk.prompt(&script(Agent::Scripted, "go", &json!([{"text": "one"}]))).await?;
    talk.turn().await?;
    talk.prompt("more").await?;
    let error = talk.error().await?;
    assert!(error.code == "OBEY-1003" && error.message.contains("max_messages_per_session"), "{error:?}");
    let compact = pb::CompactSessionRequest { session_id: talk.session().into() };
    let mut agents = super::talk::agents(&stage.clients);
    refused(agents.compact_session(compact).await, Code::PermissionDenied, "OBEY-1002")?;
    // Settings nobody can read are said where they matter.
    std::fs::write(stage.world.path("config/betcode/settings.json"), "{")?;
    let start = super::talk::new_start(&stage);
    let mut broken = Talk::raw(&mut agents, vec![pb::agent_request::Request::Start(start)]).await?;
    let error = broken.error().await?;
    assert!(
        error.is_fatal && error.code == "OBEY-1014" && error.message.contains("settings.json"),
        "{error:?}"
    );
    stage.close().await
}
