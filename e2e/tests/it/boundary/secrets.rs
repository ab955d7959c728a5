//! Secrets that agents say, think, run, read and log: taken out before the journal, whatever the agent is, and found in no file of
//! the daemon after the turn.

mod corpus;
mod surfaces;

use anyhow::{Result, ensure};
use e2e::deadline::poll;
use e2e::files;
use serde_json::{Value, json};

use crate::stage::{Agent, Stage, process_scenarios, stage};

process_scenarios!(secrets_reach_neither_the_journal_nor_a_file);

/// Agents inside the daemon and behind ACP, which have tools of other names.
mod spoken {
    use super::what_an_agent_says_reaches_no_journal;
    crate::stage::scenarios_of!(openai, Openai, what_an_agent_says_reaches_no_journal);
    crate::stage::scenarios_of!(openai_chat, OpenaiChat, what_an_agent_says_reaches_no_journal);
    crate::stage::scenarios_of!(real_acp, Acp, what_an_agent_says_reaches_no_journal);
}

/// Made up from parts, so that no file of the repository looks as if it held one.
fn secrets() -> [String; 3] {
    let tail = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
    [
        format!("ghp_{tail}"),
        format!(
            "sk-ant-api03-{}{}{}AA",
            tail,
            tail.to_lowercase().replace('a', "Z"),
            "q7R8Wv2Kx9mZ4Lp1Td6Yb"
        ),
        ["Kx9v", "Q2mZ", "7pLw", "4Rt8"].concat(),
    ]
}

/// Words with the secrets in them.
fn words() -> String {
    let [token, key, password] = secrets();
    format!("the token is {token} and ANTHROPIC_API_KEY={key} and password={password} here.\n")
}

async fn nothing_holds_a_secret(stage: &Stage, id: &str) -> Result<()> {
    let log = stage.cli().ok(&["session", "log", id, "--json"]).await?.stdout;
    let shown = stage.cli().ok(&["session", "log", id]).await?.stdout;
    for secret in secrets() {
        ensure!(!log.contains(&secret), "the journal has {}…", &secret[..6]);
        ensure!(!shown.contains(&secret), "the log shows {}…", &secret[..6]);
    }
    ensure!(log.contains("[REDACTED:"), "nothing was taken out: {log}");
    let secrets = secrets();
    let texts: Vec<&str> = secrets.iter().map(String::as_str).collect();
    poll("the files without secrets", || {
        let folders = ["data/obey", "run/obey"].map(|folder| stage.world.path(folder));
        folders
            .iter()
            .all(|folder| files::holders(folder, &texts).is_ok_and(|found| found.is_empty()))
            .then_some(())
    })
    .await
}

fn steps(shell: &str) -> Value {
    let command = format!("printf '%s' '{}'", words().trim_end());
    json!([{"thinking": words(), "chunks": 9}, {"text": words(), "chunks": 23, "gap_ms": 2},
           {"tool": shell, "input": {"command": command}, "result": words()}, {"text": "done"}])
}

async fn secrets_reach_neither_the_journal_nor_a_file(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let mut request = stage.new_session();
    request.provider_config.insert("permission_mode".into(), "autonomous".into());
    let id = stage.create_as(request).await?.id;
    let prompt = stage.script(&id, "secrets", &steps(agent.shell()));
    let turn = stage.turn(&id, &prompt).await?;
    for event in &turn {
        let text = format!("{event:?}");
        ensure!(secrets().iter().all(|secret| !text.contains(secret)), "streamed: {text}");
    }
    nothing_holds_a_secret(&stage, &id).await?;
    stage.close().await
}

async fn what_an_agent_says_reaches_no_journal(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let prompt = stage.script(&id, "spoken", &json!([{"text": words(), "chunks": 23, "gap_ms": 2}]));
    for event in &stage.turn(&id, &prompt).await? {
        let text = format!("{event:?}");
        ensure!(secrets().iter().all(|secret| !text.contains(secret)), "streamed: {text}");
    }
    nothing_holds_a_secret(&stage, &id).await?;
    stage.close().await
}

/// The user may look at one event as it was for a while; it is on record, and no agent can.
#[tokio::test]
async fn the_user_may_look_at_one_original_and_that_is_recorded() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let id = stage.create().await?;
    let steps = json!([{"text": words()}]);
    stage.turn(&id, &stage.script(&id, "reveal", &steps)).await?;
    let [token, ..] = secrets();
    let journal = stage.journal(&id).await?;
    let ended = journal.iter().find(|event| event.r#type == "turn_started");
    let seq = ended.map(|event| event.seq.to_string()).unwrap_or_default();
    let shown = stage.cli().ok(&["session", "reveal", &id, &seq]).await?.stdout;
    ensure!(shown.contains(&token), "{shown}");
    stage
        .wait_for(&id, "notice", |event| {
            event["message"].as_str().is_some_and(|text| text.contains("reveal"))
        })
        .await?;
    let refused = stage.cli().run(&["session", "reveal", &id, "1"]).await?;
    ensure!(refused.code != Some(0) && refused.stderr.contains("seq"), "{}", refused.stderr);
    nothing_holds_a_secret(&stage, &id).await?;
    stage.close().await
}

#[tokio::test]
async fn an_agent_may_not_look_at_originals() -> Result<()> {
    let stage = super::hostile_stage().await?;
    let id = super::hostile_session(&stage, "autonomous").await?;
    let obey = super::obey(&stage)?;
    let said = super::run_as_agent(&stage, &id, &format!("{obey} session reveal {id} 1 2>&1")).await?;
    ensure!(said.contains("OBEY-1002"), "{said}");
    stage.close().await
}

/// The end of a text that waits is neither lost nor said twice when the daemon dies, and still clean.
#[tokio::test]
async fn a_secret_cut_by_the_death_of_the_daemon_is_still_found() -> Result<()> {
    let mut stage = stage!(Agent::Scripted);
    let id = stage.create().await?;
    let text = format!("begin {} {} end", words(), words());
    let steps = json!([{"text": text, "chunks": 120, "gap_ms": 25}]);
    let stream = stage.send(&id, &stage.script(&id, "cut", &steps)).await?;
    for part in ["begin", "token is", "password="] {
        stage.wait_for_text(&id, part).await?;
        stage.daemon.kill9().await?;
        stage.daemon.restart().await?;
        stage.clients = stage.daemon.clients().await?;
    }
    drop(stream);
    stage.wait_for(&id, "turn_ended", |_| true).await?;
    let mut said = String::new();
    for event in stage.journal(&id).await? {
        if event.r#type == "text_delta" {
            said.push_str(crate::stage::fields(&event)["text"].as_str().unwrap_or_default());
        }
    }
    let [token, key, password] = secrets();
    let clean = text.replace(&token, "[REDACTED:github-pat]").replace(&key, "[REDACTED:anthropic-api-key]");
    let clean = clean.replace(&password, "[REDACTED:generic-password]");
    ensure!(said == clean, "{said}\nis not\n{clean}");
    nothing_holds_a_secret(&stage, &id).await?;
    stage.close().await
}

/// Runs a turn with secrets; returns the journal and what `session info` says of scrubbing.
async fn journal_of_a_turn(stage: &Stage, key: &str) -> Result<(String, bool)> {
    let id = stage.create().await?;
    stage.turn(&id, &stage.script(&id, key, &json!([{"text": words(), "chunks": 5}]))).await?;
    let log = stage.cli().ok(&["session", "log", &id, "--json"]).await?.stdout;
    let info: Value =
        serde_json::from_str(&stage.cli().ok(&["session", "info", &id, "--json"]).await?.stdout)?;
    let text = stage.cli().ok(&["session", "info", &id]).await?.stdout;
    let is_scrubbed = info["scrubbed"] == json!(true);
    ensure!(text.contains("removed from events") == is_scrubbed, "{text}");
    Ok((log, is_scrubbed))
}

fn is_clean(log: &str) -> bool {
    log.contains("[REDACTED:") && secrets().iter().all(|secret| !log.contains(secret))
}

fn is_as_said(log: &str) -> bool {
    !log.contains("[REDACTED:") && secrets().iter().all(|secret| log.contains(secret))
}

#[tokio::test]
async fn a_campaign_switches_scrubbing_off_and_on_again() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let (log, is_scrubbed) = journal_of_a_turn(&stage, "default").await?;
    ensure!(is_clean(&log) && is_scrubbed, "{log}");
    for (switch, wanted) in [("off", false), ("on", true)] {
        let set = ["campaign", "set", crate::stage::CAMPAIGN, "--scrub", switch, "--json"];
        let campaign: Value = serde_json::from_str(&stage.cli().ok(&set).await?.stdout)?;
        ensure!(campaign["scrub"] == json!(wanted), "{campaign}");
        let (log, is_scrubbed) = journal_of_a_turn(&stage, switch).await?;
        ensure!(
            is_scrubbed == wanted && is_clean(&log) == wanted && is_as_said(&log) != wanted,
            "{switch}: {log}"
        );
        let told = stage.cli().run(&["doctor"]).await?.stdout;
        let line =
            told.lines().find(|line| line.contains("from the events") || line.contains("in the events"));
        let line = line.unwrap_or_default();
        ensure!(line.contains(if wanted { "removed" } else { "kept" }), "{told}");
        let audit = stage.cli().ok(&["audit", "tail", "-n", "0", "--json"]).await?.stdout;
        ensure!(audit.contains(&format!("scrub {switch} for {}", crate::stage::CAMPAIGN)), "{audit}");
    }
    stage.close().await
}

#[tokio::test]
async fn the_configuration_switches_scrubbing_off_and_a_campaign_on() -> Result<()> {
    let Some(stage) = Stage::open_with(Agent::Scripted, |world| {
        std::fs::create_dir_all(world.path("config/obey"))?;
        Ok(std::fs::write(world.path("config/obey/config.toml"), "[scrub]\nevents = false\n")?)
    })
    .await?
    else {
        return Ok(());
    };
    let (log, is_scrubbed) = journal_of_a_turn(&stage, "configured").await?;
    ensure!(is_as_said(&log) && !is_scrubbed, "{log}");
    stage.cli().ok(&["campaign", "set", crate::stage::CAMPAIGN, "--scrub", "on"]).await?;
    let (log, is_scrubbed) = journal_of_a_turn(&stage, "campaign").await?;
    ensure!(is_clean(&log) && is_scrubbed, "{log}");
    stage.close().await
}

/// The switch is the user's alone.
#[tokio::test]
async fn an_agent_may_not_switch_scrubbing_off() -> Result<()> {
    let stage = super::hostile_stage().await?;
    let id = super::hostile_session(&stage, "autonomous").await?;
    let obey = super::obey(&stage)?;
    let campaign = crate::stage::CAMPAIGN;
    let said =
        super::run_as_agent(&stage, &id, &format!("{obey} campaign set {campaign} --scrub off 2>&1")).await?;
    ensure!(said.contains("OBEY-1002"), "{said}");
    stage.close().await
}
