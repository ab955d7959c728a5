//! The audit proves something: who did what is in it, over every surface, and whatever is done to it while no daemon runs is
//! found by the next one.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use wire::obey::v1 as own;

use super::{hostile_session, hostile_stage, obey, run_as_agent};
use crate::stage::{Agent, Stage};

/// Ends the daemon in order, does something to its files, and starts it again.
async fn tampered(stage: &mut Stage, spoil: impl AsyncFn(&Path) -> Result<()>) -> Result<Value> {
    stage.daemon.terminate().await?;
    spoil(&data(stage)?).await?;
    stage.daemon.restart().await?;
    stage.clients = stage.daemon.clients().await?;
    let output = stage.cli().run(&["audit", "verify", "--json"]).await?;
    let verdict = output.json()?;
    ensure!((output.code == Some(0)) == (verdict["intact"] == true), "{output:#?}");
    Ok(verdict)
}

/// The folder in which the database lies.
fn data(stage: &Stage) -> Result<std::path::PathBuf> {
    let mut folders = vec![stage.world.path("data"), stage.world.path("home")];
    while let Some(folder) = folders.pop() {
        if folder.join("daemon.db").exists() {
            return Ok(folder);
        }
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        folders.extend(entries.map(|entry| entry.path()).filter(|path| path.is_dir()));
    }
    anyhow::bail!("no database")
}

fn sqlite(folder: &Path, sql: &str) -> Result<()> {
    let status = std::process::Command::new("sqlite3").arg(folder.join("daemon.db")).arg(sql).status()?;
    ensure!(status.success(), "{sql}");
    Ok(())
}

async fn stage_with_rows() -> Result<Stage> {
    let stage = Stage::open(Agent::Scripted).await?.context("the scripted agent is part of the daemon")?;
    let id = stage.create().await?;
    stage.cli().ok(&["session", "stop", &id]).await?;
    Ok(stage)
}

const DROP: &str = "DROP TRIGGER audit_no_change; DROP TRIGGER audit_no_removal;";

#[tokio::test]
async fn every_tampering_is_found_by_the_next_daemon() -> Result<()> {
    let edited = "UPDATE audit SET body = replace(body, 'STOPPED', 'FAILED ');";
    for (sql, expected) in [
        ("DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit);", "cut off"),
        ("DELETE FROM audit;", "emptied"),
        ("DELETE FROM audit WHERE seq = 2;", "entry 2 is missing"),
        (edited, "hash does not fit"),
        ("", "audit_no_removal"),
    ] {
        let mut stage = stage_with_rows().await?;
        ensure!(tampered(&mut stage, async |_| Ok(())).await?["intact"] == true);
        let sql = format!("{DROP}{sql}");
        let verdict = tampered(&mut stage, async |folder| sqlite(folder, &sql)).await?;
        ensure!(
            verdict["intact"] == false && verdict["problems"].to_string().contains(expected),
            "{sql}: {verdict:#}"
        );
        // What was found is not covered up by what comes later.
        stage.create().await?;
        let verdict = tampered(&mut stage, async |_| Ok(())).await?;
        ensure!(verdict["intact"] == false, "{sql}: {verdict:#}");
        stage.close().await?;
    }
    Ok(())
}

/// Whoever has no key can compute the hashes anew, but not the seals.
#[tokio::test]
async fn a_chain_that_was_written_anew_is_found() -> Result<()> {
    let mut stage = stage_with_rows().await?;
    let script = r#"
import hashlib, sqlite3, sys
base = sqlite3.connect(sys.argv[1])
for name in ("audit_no_change", "audit_no_removal"):
    base.execute("DROP TRIGGER " + name)
before = b""
for seq, body in base.execute("SELECT seq, body FROM audit ORDER BY seq").fetchall():
    body = body.replace("STOPPED", "RUNNING")
    before = hashlib.sha256(before + body.encode()).digest()
    base.execute("UPDATE audit SET body = ?, hash = ? WHERE seq = ?", (body, before, seq))
base.commit()
"#;
    let verdict = tampered(&mut stage, async |folder| {
        let python = std::process::Command::new("python3")
            .args(["-c", script])
            .arg(folder.join("daemon.db"))
            .status()?;
        ensure!(python.success());
        Ok(())
    });
    let verdict = verdict.await?;
    ensure!(verdict["problems"].to_string().contains("not sealed with this daemon's key"), "{verdict:#}");
    stage.close().await
}

#[tokio::test]
async fn a_deleted_mark_or_key_is_found() -> Result<()> {
    for file in ["audit.mark", "audit.key"] {
        let mut stage = stage_with_rows().await?;
        let verdict =
            tampered(&mut stage, async |folder| Ok(std::fs::remove_file(folder.join(file))?)).await?;
        ensure!(verdict["problems"].to_string().contains(&format!("{file} was deleted")), "{verdict:#}");
        stage.close().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_crash_is_no_tampering() -> Result<()> {
    let mut stage = stage_with_rows().await?;
    for _ in 0..3 {
        stage.create().await?;
        stage.daemon.kill9().await?;
        stage.daemon.restart().await?;
        stage.clients = stage.daemon.clients().await?;
    }
    let verdict = stage.cli().json(&["audit", "verify"]).await?;
    ensure!(verdict["intact"] == true, "{verdict:#}");
    stage.close().await
}

#[tokio::test]
async fn an_export_is_checked_without_the_daemon() -> Result<()> {
    let stage = stage_with_rows().await?;
    let file = stage.world.path("export.jsonl").display().to_string();
    stage.cli().ok(&["audit", "export", "--output", &file]).await?;
    let key =
        stage.cli().json(&["audit", "verify"]).await?["public_key"].as_str().unwrap_or_default().to_owned();
    let check = async |key: &str| {
        stage.cli().run(&["audit", "verify", "--file", &file, "--key", key, "--json"]).await
    };
    let verdict = check(&key).await?;
    ensure!(verdict.code == Some(0) && verdict.json()?["entries"].as_u64() > Some(2), "{verdict:#?}");
    ensure!(check(&"00".repeat(32)).await?.code != Some(0));
    let text = std::fs::read_to_string(&file)?;
    ensure!(
        !text.contains(
            std::fs::read_to_string(data(&stage)?.join("audit.key"))?.lines().nth(1).unwrap_or("?")
        )
    );
    std::fs::write(&file, text.replace("STOPPED", "RUNNING"))?;
    let changed = check(&key).await?;
    ensure!(changed.code != Some(0) && changed.stdout.contains("does not fit"), "{changed:#?}");
    stage.close().await
}

/// What was done to sessions is in the audit whichever surface it came by, with who and from where; so is what was refused.
#[tokio::test]
async fn acting_calls_outcomes_and_refusals_are_in_the_audit() -> Result<()> {
    let stage = hostile_stage().await?;
    let session = hostile_session(&stage, "supervised").await?;
    let obey = obey(&stage)?;
    let _turn = stage.send(&session, "#ask\ntrue").await?;
    stage.wait_for(&session, "request_opened", |_| true).await?;
    let waiting = stage.requests(&session, false).await?;
    stage.decide(&session, &waiting[0].id, own::Decision::Deny).await?;
    stage.wait_for(&session, "turn_ended", |_| true).await?;
    let other = hostile_session(&stage, "autonomous").await?;
    run_as_agent(&stage, &other, &format!("{obey} session list 2>&1; {obey} stop 2>&1")).await?;
    stage.cli().ok(&["exec", "-c", "demo", "--", "git", "--version"]).await?;
    stage.cli().ok(&["exec", "--sandbox", "--session", &session, "--", "true"]).await?;
    stage.cli().ok(&["session", "stop", &session]).await?;
    let rows = stage.cli().ok(&["audit", "tail", "-n", "0", "--json"]).await?.json_lines()?;
    let has = |what: &str, fits: &dyn Fn(&Value) -> bool| {
        ensure!(rows.iter().any(fits), "{what}: {rows:#?}");
        Ok(())
    };
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let of = |row: &Value, operation: &str| text(row, "operation").ends_with(operation);
    for operation in ["session.create", "session.prompt", "session.status"] {
        has(operation, &|row| of(row, operation) && row["session_id"] == session.as_str())?;
    }
    has("the request", &|row| of(row, "session.request") && row["outcome"] == "denied")?;
    for method in ["/CreateSession", "/SendMessage", "/Execute", "/AnswerPermission", "/StopSession"] {
        has(method, &|row| {
            of(row, method) && row["caller"] == "user" && text(row, "origin").starts_with("unix uid ")
        })?;
    }
    has("a command of the workbench", &|row| {
        of(row, "SafeExec.Bash") && text(row, "origin").starts_with("unix uid ")
    })?;
    let agent = format!("agent {other}");
    // The command line asks for campaigns before it lists sessions.
    for method in ["/ListCampaigns", "/Shutdown"] {
        has(method, &|row| {
            of(row, method) && row["outcome"] == "OBEY-1002" && row["caller"] == agent.as_str()
        })?;
    }
    stage.close().await
}

/// Looking at an event with its secrets is on record, with who looked and at which event.
#[tokio::test]
async fn reveals_are_in_the_audit() -> Result<()> {
    let stage = hostile_stage().await?;
    let session = hostile_session(&stage, "autonomous").await?;
    // Made up from parts, so that no file of the repository looks as if it held one.
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    run_as_agent(&stage, &session, &format!("echo {token}")).await?;
    let events = stage.journal(&session).await?;
    let scrubbed =
        events.iter().find(|event| event.json.contains("[REDACTED:")).context("nothing was taken out")?;
    let seq = scrubbed.seq.to_string();
    let shown = stage.cli().ok(&["session", "reveal", &session, &seq]).await?;
    ensure!(shown.stdout.contains(&token), "{shown:?}");
    let output = stage.cli().ok(&["audit", "tail", "-n", "0", "--json"]).await?;
    ensure!(!output.stdout.contains(&token), "the audit holds the secret");
    let rows = output.json_lines()?;
    let row = rows.iter().find(|row| row["operation"] == "obey.v1.EventService/Reveal");
    let row = row.context("the reveal is not in the audit")?;
    ensure!(
        row["caller"] == "user"
            && row["session_id"] == session.as_str()
            && row["summary"] == format!("event {seq}")
            && row["origin"].as_str().is_some_and(|origin| origin.starts_with("unix uid ")),
        "{row:#}"
    );
    stage.close().await
}
