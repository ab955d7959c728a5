//! Permission rules and grants bind what the agent inside the daemon does without asking: reading, listing, searching,
//! looking commands, and edits where the mode accepts them. And what it does is in the audit.

use anyhow::Result;
use e2e::clients::collect;
use serde_json::{Value, json};
use wire::betcode::v1 as betcode;
use wire::betcode::v1::agent_service_client::AgentServiceClient;
use wire::obey::local::v1::ActivityType;
use wire::obey::v1 as own;
use wire::obey::v1::audit_service_client::AuditServiceClient;

use super::session;
use crate::stage::{Agent, Stage, contents, of_type, script, stage};

pub(super) use crate::betcode::settings::write;

async fn call(stage: &Stage, id: &str, key: &str, tool: &str, input: Value) -> Result<(bool, String)> {
    let steps = json!([{"tool": tool, "input": input}, {"text": "done"}]);
    let turn = stage.turn(id, &script(stage.agent, key, &steps)).await?;
    assert_eq!(contents(&turn, ActivityType::Completion), "done", "{turn:#?}");
    let results = of_type(&turn, ActivityType::ToolResult);
    Ok((results[0].tool_success, results[0].content.clone()))
}

#[tokio::test]
async fn a_rule_that_denies_reading_binds() -> Result<()> {
    let stage = stage!(Agent::Openai);
    std::fs::write(stage.world.project().join(".env"), "TOKEN=the family silver\n")?;
    std::fs::write(stage.world.project().join("open.txt"), "silver is for all\n")?;
    std::os::unix::fs::symlink(".env", stage.world.project().join("innocent"))?;
    write(&stage, &json!({"permissions": {"deny": ["Read(.env)", "Bash(cat *)", "Write(locked/**)"]}}))?;
    for mode in ["supervised", "acceptEdits", "autonomous", "plan"] {
        let id = stage.create_as(session(&stage, &[("permission_mode", mode)])).await?.id;
        for (tool, input) in [
            ("Read", json!({"file_path": ".env"})),
            ("Read", json!({"file_path": "./src/../.env"})),
            ("Read", json!({"file_path": "innocent"})),
            ("Grep", json!({"pattern": "silver", "path": ".env"})),
            ("LS", json!({"path": ".env"})),
            ("Bash", json!({"command": "cat .env"})),
        ] {
            let key = format!("{mode} {tool} {input}").replace(['"', '{', '}'], "");
            let (ok, said) = call(&stage, &id, &key, tool, input).await?;
            assert!(!ok && said.contains("denies this") && !said.contains("silver"), "{key}: {said}");
        }
        // What is allowed is not asked about, and a search passes the file over.
        let (ok, said) =
            call(&stage, &id, &format!("{mode} open"), "Read", json!({"file_path": "open.txt"})).await?;
        assert!(ok && said.contains("for all"), "{said}");
        let (ok, said) =
            call(&stage, &id, &format!("{mode} search"), "Grep", json!({"pattern": "silver"})).await?;
        assert!(ok && said.contains("open.txt") && !said.contains("family"), "{said}");
        let settled = stage.requests(&id, true).await?;
        assert_eq!(settled.len(), 6, "only what was denied is recorded: {settled:?}");
        assert!(stage.requests(&id, false).await?.is_empty());
    }
    let id = stage.create_as(session(&stage, &[("permission_mode", "acceptEdits")])).await?.id;
    let locked = json!({"file_path": "locked/a", "content": "x"});
    let (ok, said) = call(&stage, &id, "locked", "Write", locked).await?;
    assert!(!ok && said.contains("denies this"), "{said}");
    stage.close().await
}

#[tokio::test]
async fn a_rule_that_wants_to_be_asked_asks_about_reading() -> Result<()> {
    let stage = stage!(Agent::Openai);
    std::fs::write(stage.world.project().join("diary"), "dear diary\n")?;
    write(&stage, &json!({"permissions": {"ask": ["Read(diary)"]}}))?;
    let id = stage.create().await?;
    let steps = json!([{"tool": "Read", "input": {"file_path": "diary"}}, {"text": "done"}]);
    let turn = stage.send(&id, &script(Agent::Openai, "diary", &steps)).await?;
    let request = stage.wait_for_request(&id).await?;
    assert_eq!(request.tool_name, "Read");
    stage.decide(&id, &request.id, own::Decision::AllowOnce).await?;
    let turn = collect(turn).await?;
    assert!(contents(&turn, ActivityType::ToolResult).contains("dear diary"), "{turn:?}");
    stage.close().await
}

#[tokio::test]
async fn a_sessions_own_grants_bind_reading() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let id = stage.create().await?;
    let readme = || json!({"file_path": "README.md"});
    assert!(call(&stage, &id, "before", "Read", readme()).await?.0);
    let forbid =
        betcode::SetSessionGrantRequest { session_id: id.clone(), tool_name: "Read".into(), granted: false };
    AgentServiceClient::new(stage.clients.channel.clone()).set_session_grant(forbid).await?;
    let (ok, said) = call(&stage, &id, "after", "Read", readme()).await?;
    assert!(!ok && said.contains("denied in this session"), "{said}");
    stage.close().await
}

#[tokio::test]
async fn what_the_agent_does_is_in_the_audit() -> Result<()> {
    let stage = stage!(Agent::Openai);
    let id = stage.create_as(session(&stage, &[("permission_mode", "autonomous")])).await?.id;
    let key = format!("sk-proj-{}", "a1B2c3D4e5".repeat(5));
    for (name, tool, input) in [
        ("write", "Write", json!({"file_path": "a.txt", "content": format!("API_KEY={key}")})),
        ("edit", "Edit", json!({"file_path": "a.txt", "old_string": "API_KEY", "new_string": "KEY"})),
        ("read", "Read", json!({"file_path": "a.txt"})),
        ("list", "LS", json!({})),
        ("search", "Grep", json!({"pattern": "KEY"})),
        ("run", "Bash", json!({"command": "exit 3"})),
        ("outside", "Read", json!({"file_path": "/etc/hostname"})),
    ] {
        call(&stage, &id, name, tool, input).await?;
    }
    // One that is let go of in the middle is told as well.
    let steps = json!([{"tool": "Bash", "input": {"command": "sleep 100"}}, {"text": "never"}]);
    let turn = stage.send(&id, &script(Agent::Openai, "long", &steps)).await?;
    stage.wait_for(&id, "tool_started", |event| event["input"]["command"] == "sleep 100").await?;
    assert!(stage.cancel(&id).await?);
    collect(turn).await?;
    let mut audit = AuditServiceClient::new(stage.clients.channel.clone());
    let request = own::ReadAuditRequest { session_id: id.clone(), follow: true, ..Default::default() };
    let mut rows = audit.read_audit(request).await?.into_inner();
    let mut told = Vec::new();
    while told.len() < 8 {
        let row = e2e::deadline::within("a row of the audit", rows.message()).await??;
        // Beside what was done to the session.
        told.extend(row.filter(|row| row.operation.starts_with("Toolbox.")));
    }
    let shown: Vec<(&str, &str)> =
        told.iter().map(|row| (row.operation.as_str(), row.outcome.as_str())).collect();
    let ok = |operation| (operation, "ok");
    assert_eq!(
        shown[..6],
        ["Write", "Edit", "Read", "List", "Search", "Run"]
            .map(|verb| format!("Toolbox.{verb}"))
            .each_ref()
            .map(|name| ok(name.as_str()))
    );
    assert!(shown[6].0 == "Toolbox.Read" && shown[6].1.starts_with("OBEY-"), "{shown:?}");
    assert_eq!(shown[7], ("Toolbox.Run", "cancelled"));
    for row in &told {
        assert_eq!(row.caller, format!("agent {id}"), "{row:?}");
        assert!(!format!("{row:?}").contains(&key), "{row:?}");
    }
    assert!(told[5].summary.contains("exit 3") && !told[5].tier.is_empty(), "{:?}", told[5]);
    let verdict = audit.verify_audit(own::VerifyAuditRequest {}).await?.into_inner();
    assert!(verdict.intact && verdict.entries >= 8, "{verdict:?}");
    stage.close().await
}
