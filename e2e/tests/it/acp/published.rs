//! Clients nobody here wrote: the published TypeScript and Python libraries, and acpx. They drive the binary with the
//! real agents behind it, and every line it wrote to them is held against the published schema afterwards.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use e2e::acp::Schema;
use e2e::deadline::{poll, within};
use e2e::{processes, tools};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::assert_no_agent;
use crate::stage::{Agent, Stage, process_scenarios, script, stage};

process_scenarios!(
    published_typescript_library_drives_a_session,
    published_python_library_drives_a_session,
    published_acpx_drives_sessions_over_several_processes,
);

/// A program that is `obey acp` with everything that passes written down.
pub(crate) fn recorder(stage: &Stage) -> Result<PathBuf> {
    let obey = stage.world.obey()?;
    let (records, agent) = (stage.world.path("records"), super::words(stage.agent).join(" "));
    fs::create_dir_all(&records)?;
    let program = stage.world.path("recorder");
    let text = format!(
        "#!/bin/sh\ntee {r}/$$.in | '{o}' acp {agent} \"$@\" 2>>{r}/log | tee {r}/$$.out\n",
        r = records.display(),
        o = obey.display()
    );
    fs::write(&program, text)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok(program)
}

/// Holds every recorded line against the schema; returns how many there were.
pub(crate) fn check_records(stage: &Stage) -> Result<usize> {
    let Some(path) = tools::acp_schema()? else { return Ok(0) };
    let schema = Schema::read(&path)?;
    let mut count = 0;
    for entry in fs::read_dir(stage.world.path("records"))? {
        let file = entry?.path();
        if file.extension().is_none_or(|extension| extension != "out") {
            continue;
        }
        let parse = |text: String| -> Result<Vec<Value>> {
            text.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
        };
        let asked: HashMap<String, String> = parse(fs::read_to_string(file.with_extension("in"))?)?
            .iter()
            .filter_map(|message| Some((message["id"].to_string(), message["method"].as_str()?.to_owned())))
            .collect();
        for message in parse(fs::read_to_string(&file)?)? {
            count += 1;
            let checked = if message.get("method").is_some() {
                schema.check_message(&message)
            } else {
                schema.check_answer(asked.get(&message["id"].to_string()).map(String::as_str), &message)
            };
            checked.with_context(|| message.to_string())?;
        }
    }
    Ok(count)
}

async fn run(stage: &Stage, program: impl Into<OsString>, args: Vec<OsString>) -> Result<(i32, String)> {
    let program = program.into();
    let mut command = tokio::process::Command::from(stage.world.command(&program));
    command.args(args).kill_on_drop(true);
    let output = within("the end of the client", command.output()).await?.context("running the client")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let log = fs::read_to_string(stage.world.path("records/log")).unwrap_or_default();
    let code = output.status.code().unwrap_or(-1);
    ensure!(code == 0, "{code}\n{}\n{}\n{log}", text(&output.stdout), text(&output.stderr));
    Ok((code, text(&output.stdout)))
}

fn prompts(agent: Agent) -> String {
    json!({
        "say": script(agent, "say it", &json!([{"text": "said it"}])),
        "ask": script(agent, "ask first", &json!([agent.asking("touch asked"), {"text": "done"}])),
        "hang": script(agent, "stay there", &json!([[{"text": "begun"}, {"hang": true}]])),
    })
    .to_string()
}

fn check_report(output: &str) -> Result<()> {
    let report: Value = serde_json::from_str(output.lines().last().unwrap_or_default())?;
    ensure!(report["stops"] == json!(["end_turn", "end_turn", "cancelled"]), "{report}");
    ensure!(report["permissions"] == 1, "{report}");
    ensure!(report["live"].as_u64() > Some(3) && report["replayed"].as_u64() > Some(3), "{report}");
    Ok(())
}

async fn published_typescript_library_drives_a_session(agent: Agent) -> Result<()> {
    let Some(clients) = tools::acp_clients()? else { return Ok(()) };
    let stage = stage!(agent);
    let script = tools::repository().join("e2e/tests/acp/sdk_client.mjs");
    let sdk = clients.join("npm/node_modules/@agentclientprotocol/sdk");
    let args = vec![
        script.into(),
        sdk.into(),
        recorder(&stage)?.into(),
        stage.world.project().into(),
        prompts(agent).into(),
    ];
    let (_, output) = run(&stage, "node", args).await?;
    check_report(&output)?;
    ensure!(check_records(&stage)? > 10);
    assert_no_agent(&stage).await?;
    stage.close().await
}

async fn published_python_library_drives_a_session(agent: Agent) -> Result<()> {
    let Some(clients) = tools::acp_clients()? else { return Ok(()) };
    let stage = stage!(agent);
    let script = tools::repository().join("e2e/tests/acp/sdk_client.py");
    let args =
        vec![script.into(), recorder(&stage)?.into(), stage.world.project().into(), prompts(agent).into()];
    let (_, output) = run(&stage, clients.join("python/bin/python"), args).await?;
    check_report(&output)?;
    ensure!(check_records(&stage)? > 10);
    assert_no_agent(&stage).await?;
    stage.close().await
}

async fn published_acpx_drives_sessions_over_several_processes(agent: Agent) -> Result<()> {
    let Some(clients) = tools::acp_clients()? else { return Ok(()) };
    let stage = stage!(agent);
    let cli = clients.join("npm/node_modules/acpx/dist/cli.js");
    let recorder = recorder(&stage)?;
    let acpx = |words: &[&str]| -> Vec<OsString> {
        let mut args: Vec<OsString> = vec![cli.clone().into(), "--agent".into(), recorder.clone().into()];
        args.extend(["--cwd".into(), stage.world.project().into(), "--approve-all".into()]);
        args.extend(["--timeout", "60"].map(OsString::from));
        args.extend(words.iter().map(OsString::from));
        args
    };
    let once = script(agent, "just once", &json!([agent.asking("touch once"), {"text": "once is enough"}]));
    let (_, output) = run(&stage, "node", acpx(&["--format", "quiet", "exec", &once])).await?;
    ensure!(output.contains("once is enough"), "{output}");
    // A session is begun by one process and prompted by another.
    run(&stage, "node", acpx(&["sessions", "new", "--name", "work"])).await?;
    let first = script(agent, "first", &json!([{"text": "words of the first"}]));
    let (_, output) =
        run(&stage, "node", acpx(&["--format", "quiet", "prompt", "-s", "work", &first])).await?;
    ensure!(output.contains("words of the first"), "{output}");
    end_owner(&stage).await?;
    let second = script(agent, "second", &json!([{"text": "words of the second"}]));
    let (_, output) =
        run(&stage, "node", acpx(&["--format", "quiet", "prompt", "-s", "work", &second])).await?;
    ensure!(output.contains("words of the second"), "{output}");
    run(&stage, "node", acpx(&["sessions", "close", "work"])).await?;
    ensure!(check_records(&stage)? > 10);
    let taken_up = fs::read_dir(stage.world.path("records"))?
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok())
        .filter(|text| text.contains("\"session/resume\"") || text.contains("\"session/load\""));
    ensure!(taken_up.count() == 2, "each prompt was another process's, which took the session up");
    assert_no_agent(&stage).await?;
    stage.close().await
}

/// Ends the process that acpx leaves behind a prompt for those that follow, with the agent it holds. It would leave by
/// itself after a while; but while it does, it answers whoever comes with an error instead of letting a new one begin.
async fn end_owner(stage: &Stage) -> Result<()> {
    let owners = || -> Vec<i32> {
        let all = stage.world.processes().into_iter();
        all.filter(|process| process.command.contains("__queue-owner")).map(|process| process.pid).collect()
    };
    let [owner] = owners()[..] else { bail!("not one owner: {:#?}", stage.world.processes()) };
    processes::signal(owner, Signal::TERM);
    poll("the end of the owner", || owners().is_empty().then_some(())).await
}
