//! Grants: they say what they cover before they are given, cover that and nothing else, and are the user's alone.

use anyhow::{Context, Result, ensure};
use e2e::clients::{collect, refused};
use serde_json::{Value, json};
use tonic::Code;
use wire::obey::local::v1::ActivityType;
use wire::obey::v1 as own;
use wire::obey::v1::grant_service_client::GrantServiceClient;

use super::{hostile_session, hostile_stage, obey, run_as_agent};
use crate::stage::{Agent, Stage, contents, script};

async fn scripted() -> Result<Stage> {
    Stage::open(Agent::Scripted).await?.context("the scripted agent is part of the daemon")
}

fn call(tool: &str, input: Value) -> Value {
    json!({"tool": tool, "input": input, "ask": true, "result": "done"})
}

fn run(command: &str) -> Value {
    call("Bash", json!({"command": command}))
}

/// Allows a request and remembers a proposal of it.
async fn grant(stage: &Stage, request: &own::Request, proposal: &str, uses: u32) -> Result<()> {
    let answer = own::AnswerPermissionRequest {
        session_id: request.session_id.clone(),
        request_id: request.id.clone(),
        decision: own::Decision::AllowOnce.into(),
        grant: proposal.to_owned(),
        grant_uses: uses,
        answered_by: "anna".to_owned(),
        ..Default::default()
    };
    stage.clients.requests.clone().answer_permission(answer).await?;
    Ok(())
}

/// Waits for the next request of a tool input that waits.
async fn asked(stage: &Stage, session: &str, part: &str) -> Result<own::Request> {
    stage
        .wait_for(session, "request_opened", |event| {
            event["automatic"] != true && event["input"].to_string().contains(part)
        })
        .await?;
    let waiting = stage.requests(session, false).await?;
    waiting.into_iter().find(|request| request.input_json.contains(part)).context("it waits")
}

async fn json_of(stage: &Stage, args: &[&str]) -> Result<Value> {
    stage.cli().json(args).await
}

#[tokio::test]
async fn a_request_says_what_may_be_granted_and_the_grant_covers_that() -> Result<()> {
    let stage = scripted().await?;
    let id = stage.create().await?;
    let steps = json!([
        run("npm test -- --foo 1"),
        run("npm test -- --foo 2"),
        run("npm test; rm -rf ."),
        call("Write", json!({"file_path": "w1.txt"})),
        call("Write", json!({"file_path": "w1.txt"})),
        call("Write", json!({"file_path": "w2.txt"})),
        {"text": "over"},
    ]);
    let turn = stage.send(&id, &script(Agent::Scripted, "grants", &steps)).await?;
    let first = asked(&stage, &id, "foo 1").await?;
    let texts: Vec<&str> = first.proposals.iter().map(|proposal| proposal.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "the command `npm test -- --foo 1` (Bash), in this session",
            "commands that begin with `npm test` (Bash), in this session",
            "commands that begin with `npm test` (Bash), in this project",
        ]
    );
    grant(&stage, &first, "prefix", 0).await?;
    // The second is covered and not asked; the third is no plain command.
    let third = asked(&stage, &id, "rm -rf").await?;
    assert_eq!(third.id, "req_3");
    stage.decide(&id, &third.id, own::Decision::Deny).await?;
    let write = asked(&stage, &id, "w1.txt").await?;
    assert_eq!(write.proposals[0].text, "Write of the file `w1.txt`, in this session");
    stage.decide(&id, &write.id, own::Decision::AllowSession).await?;
    let other = asked(&stage, &id, "w2.txt").await?;
    assert_eq!(other.id, "req_6", "a file that was allowed is not asked again, another one is");
    stage.decide(&id, &other.id, own::Decision::AllowOnce).await?;
    assert_eq!(contents(&collect(turn).await?, ActivityType::Completion), "over");
    let settled = stage.wait_for(&id, "request_settled", |event| event["by"] == "grant").await?;
    assert_eq!(settled["used_grant"], "g1");
    stage.close().await
}

#[tokio::test]
async fn a_grant_for_a_project_is_a_rule_of_the_user_and_ends_with_its_uses() -> Result<()> {
    let stage = scripted().await?;
    let id = stage.create().await?;
    let turn =
        stage.send(&id, &script(Agent::Scripted, "one", &json!([run("make check"), {"text": "x"}]))).await?;
    grant(&stage, &asked(&stage, &id, "make check").await?, "prefix.project", 1).await?;
    collect(turn).await?;
    let rules = std::fs::read_to_string(stage.world.path("config/obey/rules.toml"))?;
    ensure!(rules.contains("prefix = \"make check\"") && rules.contains("given_by = \"anna\""), "{rules}");
    // Another session of the project uses it, once.
    let other = stage.create().await?;
    let steps = json!([run("make check fast"), run("make check slow"), {"text": "x"}]);
    let turn = stage.send(&other, &script(Agent::Scripted, "two", &steps)).await?;
    let request = asked(&stage, &other, "make check").await?;
    ensure!(request.input_json.contains("slow"), "the first was covered: {request:?}");
    stage.decide(&other, &request.id, own::Decision::Deny).await?;
    collect(turn).await?;
    let settled = stage.wait_for(&other, "request_settled", |_| true).await?;
    ensure!(settled["by"].as_str().is_some_and(|by| by.contains("rules.toml")), "{settled}");
    stage.close().await
}

#[tokio::test]
async fn grants_are_listed_added_revoked_and_suggested() -> Result<()> {
    let stage = scripted().await?;
    let id = stage.create().await?;
    let project = stage.world.project().display().to_string();
    let added = json_of(
        &stage,
        &[
            "grants",
            "add",
            "--allow",
            "--prefix",
            "npm test",
            "--project",
            &project,
            "--uses",
            "3",
            "--expires",
            "1h",
        ],
    )
    .await?;
    assert_eq!((&added["action"], &added["uses_left"]), (&json!("allow"), &json!(3)), "{added}");
    json_of(
        &stage,
        &["grants", "add", "--deny", "--tool", "Read", "--file", "/etc/shadow", "--session", &id],
    )
    .await?;
    let listed = json_of(&stage, &["grants", "list"]).await?;
    let grants = listed["grants"].as_array().context("a list")?.clone();
    ensure!(grants.len() == 2, "{listed}");
    for grant in &grants {
        for field in ["id", "what", "where", "expires", "uses_left", "given_by", "given_at", "source"] {
            ensure!(grant.get(field).is_some(), "{field} is missing in {grant}");
        }
        json_of(&stage, &["grants", "revoke", grant["id"].as_str().context("an id")?]).await?;
    }
    assert_eq!(json_of(&stage, &["grants", "list"]).await?["grants"], json!([]));
    let gone = stage.cli().run(&["grants", "revoke", "rule_000000000000"]).await?;
    ensure!(gone.code != Some(0) && gone.stderr.contains("OBEY-1040"), "{gone:?}");
    // Asked twice and allowed each time: worth a rule.
    let steps = json!([run("make check a"), run("make check b"), run("cargo doc"), {"text": "x"}]);
    let turn = stage.send(&id, &script(Agent::Scripted, "habit", &steps)).await?;
    for part in ["check a", "check b", "cargo doc"] {
        let request = asked(&stage, &id, part).await?;
        stage.decide(&id, &request.id, own::Decision::AllowOnce).await?;
    }
    collect(turn).await?;
    let suggested = json_of(&stage, &["grants", "suggest"]).await?;
    let suggested = suggested["suggestions"].as_array().context("a list")?;
    ensure!(suggested.len() == 1, "{suggested:?}");
    assert_eq!(suggested[0]["times"], 2);
    ensure!(
        suggested[0]["add"].as_str().is_some_and(|add| add.contains("--prefix 'make check'")),
        "{suggested:?}"
    );
    stage.close().await
}

#[tokio::test]
async fn a_project_s_rules_narrow_and_a_broken_file_denies() -> Result<()> {
    let stage = scripted().await?;
    let folder = stage.world.project().join(".obey");
    std::fs::create_dir_all(&folder)?;
    let rules = "[[rule]]\naction = \"allow\"\ntool = \"Bash\"\n[[rule]]\naction = \"deny\"\ntool = \"Bash\"\nprefix = \"rm\"\n";
    std::fs::write(folder.join("rules.toml"), rules)?;
    let id = stage.create().await?;
    let turn = stage
        .send(&id, &script(Agent::Scripted, "n", &json!([run("ls; rm x"), run("touch x"), {"text": "x"}])))
        .await?;
    let request = asked(&stage, &id, "touch x").await?;
    assert_eq!(request.id, "req_2", "what the project denies is not asked, what it allows is");
    let listed = json_of(&stage, &["grants", "list"]).await?;
    let ignored: Vec<&Value> =
        listed["grants"].as_array().into_iter().flatten().filter(|grant| grant["ignored"] == true).collect();
    ensure!(ignored.len() == 1, "{listed}");
    stage.decide(&id, &request.id, own::Decision::AllowOnce).await?;
    collect(turn).await?;
    let settled = stage.wait_for(&id, "request_settled", |event| event["decision"] == "deny").await?;
    ensure!(settled["by"].as_str().is_some_and(|by| by.contains(".obey/rules.toml")), "{settled}");
    // A file that cannot be read denies, in an autonomous session too.
    std::fs::write(folder.join("rules.toml"), "[[rule]]\naction = \"dney\"\ntool = \"Bash\"\n")?;
    let mut request = stage.new_session();
    request.provider_config.insert("permission_mode".into(), "autonomous".into());
    let free = stage.create_as(request).await?.id;
    stage.turn(&free, &script(Agent::Scripted, "b", &json!([run("touch y"), {"text": "x"}]))).await?;
    let settled = stage.wait_for(&free, "request_settled", |_| true).await?;
    let message = settled["message"].as_str().unwrap_or_default();
    ensure!(settled["decision"] == "deny" && message.contains("rules.toml: line 1"), "{settled}");
    let listed = json_of(&stage, &["grants", "list"]).await?;
    ensure!(listed["problems"].to_string().contains("line 1"), "{listed}");
    stage.close().await
}

#[tokio::test]
async fn an_agent_may_not_touch_grants() -> Result<()> {
    let stage = hostile_stage().await?;
    let session = hostile_session(&stage, "autonomous").await?;
    let obey = obey(&stage)?;
    for what in [
        "grants list".to_owned(),
        format!("grants add --allow --tool Bash --session {session}"),
        "grants add --allow --tool '*' --always".to_owned(),
        "grants revoke rule_000000000000".to_owned(),
        "grants suggest".to_owned(),
    ] {
        let said = run_as_agent(&stage, &session, &format!("{obey} {what} 2>&1")).await?;
        ensure!(said.contains("OBEY-1002") && said.contains("exit 6"), "{what}: {said}");
    }
    ensure!(!stage.world.path("config/obey/rules.toml").exists());
    stage.close().await
}

#[tokio::test]
async fn a_grant_that_says_nothing_sensible_is_refused() -> Result<()> {
    let stage = scripted().await?;
    let mut grants = GrantServiceClient::new(stage.clients.channel.clone());
    let of = |covers| own::Grant {
        action: own::GrantAction::Allow.into(),
        tool: "Bash".into(),
        covers: Some(covers),
        ..Default::default()
    };
    for grant in [
        of(own::grant::Covers::Prefix("ls; rm".into())),
        of(own::grant::Covers::File("relative".into())),
        own::Grant { action: own::GrantAction::Allow.into(), ..Default::default() },
        own::Grant { tool: "Bash".into(), ..Default::default() },
    ] {
        let request = own::AddGrantRequest { grant: Some(grant), ..Default::default() };
        refused(grants.add_grant(request).await, Code::InvalidArgument, "OBEY-1001")?;
    }
    stage.close().await
}
