//! What an agent may call: its own session and the workbench in it, and nothing that makes it its user.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use wire::obey::v1 as own;

use super::{hostile_session, hostile_stage, obey, run_as_agent};
use crate::betcode::settings::write as write_settings;
use crate::stage::{CAMPAIGN, Stage};

/// Who may call each method, as the unit tests of the table hold it.
const GOLDEN: &str = include_str!("../../../../crates/surface/src/access/golden.txt");

/// Ends the daemon when its user calls it, and does nothing else with an empty request.
const SHUTDOWN: &str = "obey.local.v1.LocalDaemonService/Shutdown";

/// `Execute` starts a child of the daemon, which nobody could tell from the user's own programs.
#[tokio::test]
async fn an_agent_may_not_execute_commands_that_speak_for_its_user() -> Result<()> {
    let stage = hostile_stage().await?;
    let (session, other) = (hostile_session(&stage, "supervised").await?, stage.create().await?);
    let obey = obey(&stage)?;
    let alias = format!("!{obey} session list; {obey} session approve {session}; {obey} session log {other}");
    let command = format!(
        "#ask\ngit config alias.pwn \"{}\"\n{obey} exec -c {CAMPAIGN} -- git pwn 2>&1",
        alias.replace('"', "\\\"")
    );
    let _turn = stage.send(&session, &command).await?;
    let said = stage.wait_for(&session, "text_delta", |_| true).await?;
    let said = said["text"].as_str().unwrap_or_default().to_owned();
    ensure!(said.contains("OBEY-1002") && said.contains("exit 6"), "{said}");
    let waiting = stage.requests(&session, false).await?;
    ensure!(waiting.len() == 1, "the agent's own request still waits: {waiting:#?}");
    stage.decide(&session, &waiting[0].id, own::Decision::Deny).await?;
    stage.wait_for(&session, "turn_ended", |_| true).await?;
    stage.close().await
}

/// What the daemon knows beyond the agent's own session is the user's.
#[tokio::test]
async fn an_agent_may_not_list_campaigns_or_sessions() -> Result<()> {
    let stage = hostile_stage().await?;
    let session = hostile_session(&stage, "autonomous").await?;
    let obey = obey(&stage)?;
    for what in ["campaign list", "session list"] {
        let said = run_as_agent(&stage, &session, &format!("{obey} {what} 2>&1")).await?;
        ensure!(said.contains("OBEY-1002") && said.contains("exit 6"), "{what}: {said}");
    }
    stage.close().await
}

/// The methods of gRPC that the golden file lets a kind of caller call, and the others.
fn expected(caller: &str) -> BTreeMap<String, bool> {
    let lines = GOLDEN.lines().filter_map(|line| line.split_once(": "));
    let methods =
        lines.filter(|(method, _)| method.contains(".v1") && method.contains('/') && !method.contains(' '));
    methods.map(|(method, may)| (method.to_owned(), may.split(", ").any(|name| name == caller))).collect()
}

/// Reads what `access-client` printed: whether each method was open to its caller.
fn answered(printed: &str) -> BTreeMap<String, bool> {
    let words = printed.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let calls = words.filter(|words| words.len() == 3 && words[0].contains('/'));
    calls
        .map(|words| (words[0].to_owned(), words[2] != "OBEY-1002" && words[1] != "Unauthenticated"))
        .collect()
}

fn client() -> Result<PathBuf> {
    let folder = e2e::tools::obey()?.parent().map(PathBuf::from).context("obey lies in no folder")?;
    let client = folder.join("access-client");
    ensure!(client.exists(), "{} is missing; build it: cargo build --workspace --bins", client.display());
    Ok(client)
}

fn differences(found: &BTreeMap<String, bool>, expected: &BTreeMap<String, bool>) -> Vec<String> {
    let all = expected.iter().filter(|(method, may)| found.get(*method) != Some(may));
    all.map(|(method, may)| format!("{method}: expected {may}, found {:?}", found.get(method))).collect()
}

#[tokio::test]
async fn every_method_answers_each_caller_as_the_table_says() -> Result<()> {
    let stage = hostile_stage().await?;
    let (session, other) = (hostile_session(&stage, "autonomous").await?, stage.create().await?);
    let client = client()?;
    let (client, socket) = (client.display(), stage.daemon.socket().display());
    let tcp = stage.daemon.listen().first().context("the daemon listens on no port")?.to_string();
    let (grpc, web) = ("application/grpc", "application/grpc-web+proto");
    for (address, kind) in [(format!("unix:{socket}"), grpc), (tcp.clone(), grpc), (tcp, web)] {
        let client = format!("ACCESS_CONTENT_TYPE={kind} {client}");
        // About nobody's session: the user's calls are carried out.
        let command = format!("{client} {address} sess_nobody {SHUTDOWN}");
        let user = stage.world.command("sh").args(["-c", &command]).output()?;
        let mut wanted = expected("user");
        wanted.remove(SHUTDOWN);
        let found = differences(&answered(&String::from_utf8_lossy(&user.stdout)), &wanted);
        ensure!(
            found.is_empty(),
            "the user at {address}, {kind}: {found:#?} {}",
            String::from_utf8_lossy(&user.stderr)
        );
        for (caller, named) in [("agent", &session), ("other agent", &other)] {
            let said = run_as_agent(&stage, &session, &format!("{client} {address} {named} 2>&1")).await?;
            let found = differences(&answered(&said), &expected(caller));
            ensure!(found.is_empty(), "{caller} at {address}, {kind}: {found:#?}\n{said}");
        }
    }
    ensure!(stage.info(&other).await.is_ok(), "an agent ended the daemon");
    stage.close().await
}

/// The token is not its user's rights: it lets others see that the daemon is well, and what it serves.
#[tokio::test]
async fn another_user_gets_nothing_without_the_token_and_health_and_documents_with_it() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: being another user needs root");
        return Ok(());
    }
    let stage = hostile_stage().await?;
    let address = stage.daemon.listen().first().context("the daemon listens on no port")?.to_string();
    let session = hostile_session(&stage, "autonomous").await?;
    // Copied to where everybody may run it.
    let program = std::env::temp_dir().join(format!("access-client-{}", std::process::id()));
    std::fs::copy(client()?, &program)?;
    let token = std::fs::read_to_string(stage.daemon.socket().with_file_name("token"))?;
    for (caller, token) in [("nobody", None), ("token", Some(token.trim()))] {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        command.arg(&program).args([&address, &session]).env_clear();
        if let Some(token) = token {
            command.env("ACCESS_TOKEN", token);
        }
        let done = command.output()?;
        let printed = String::from_utf8_lossy(&done.stdout).into_owned();
        let found = differences(&answered(&printed), &expected(caller));
        ensure!(found.is_empty(), "{caller}: {found:#?} {}", String::from_utf8_lossy(&done.stderr));
    }
    std::fs::remove_file(&program)?;
    stage.close().await
}

/// Services that a relay serves and a daemon does not.
const SERVED_BY_RELAYS: [&str; 3] =
    ["betcode.v1.TunnelService/", "obey.v1.PipeService/", "obey.v1.RelayService/"];

/// Conversations say inside their stream what is wrong with a message; the answer of reflection has begun by then.
const IN_BAND: [&str; 4] = [
    "betcode.v1.AgentService/Converse",
    "roz.v1.AgentService/StreamSession",
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

#[tokio::test]
async fn a_message_that_cannot_be_read_is_the_clients_fault_on_every_method() -> Result<()> {
    let stage = hostile_stage().await?;
    let address = stage.daemon.listen().first().context("the daemon listens on no port")?.to_string();
    for (what, wanted) in [("malformed", "InvalidArgument"), ("too-large", "ResourceExhausted")] {
        let done = stage.world.command(client()?).args([&address, what]).output()?;
        let printed = String::from_utf8_lossy(&done.stdout).into_owned();
        ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let lines: Vec<Vec<&str>> = printed.lines().map(|line| line.split(' ').collect()).collect();
        ensure!(lines.len() == expected("user").len(), "{printed}");
        let is_wrong = |words: &&Vec<&str>| {
            let of_relay = SERVED_BY_RELAYS.iter().any(|service| words[0].starts_with(service));
            let wanted = if of_relay { "Unimplemented" } else { wanted };
            !IN_BAND.contains(&words[0]) && words[1] != wanted
        };
        let wrong: Vec<_> = lines.iter().filter(is_wrong).collect();
        ensure!(wrong.is_empty(), "{what}: {wrong:#?}");
    }
    stage.close().await
}

/// A call of the workbench over REST, as the agent's shell makes it.
fn rest(stage: &Stage, path: &str, body: &serde_json::Value) -> Result<String> {
    let address = stage.daemon.listen().first().context("the daemon listens on no port")?;
    let post = "curl -sS -H 'content-type: application/json' -d";
    Ok(format!("{post} '{body}' http://{address}/api/v1/safeexec/{path} 2>&1"))
}

#[tokio::test]
async fn plan_mode_binds_every_way_into_the_workbench() -> Result<()> {
    let stage = hostile_stage().await?;
    let session = hostile_session(&stage, "plan").await?;
    let obey = obey(&stage)?;
    let body = json!({"path": "made.txt", "content": "x", "session_id": session});
    let bash = json!({"cmd": "touch made.txt", "session_id": session});
    for command in [
        rest(&stage, "write", &body)?,
        rest(&stage, "bash", &bash)?,
        format!("{obey} exec --sandbox -- 'touch made.txt' 2>&1"),
        format!("{obey} skill create made --description x 2>&1"),
    ] {
        let said = run_as_agent(&stage, &session, &command).await?;
        ensure!(
            said.contains("plan mode: observation only") && said.contains("OBEY-1002"),
            "{command}: {said}"
        );
    }
    ensure!(!stage.world.project().join("made.txt").exists(), "a file was made in plan mode");
    let settled = stage.journal(&session).await?.into_iter().filter(|event| {
        event.r#type == "request_settled" && crate::stage::fields(event)["by"] == "mode plan"
    });
    ensure!(settled.count() == 4, "every refusal is in the journal");
    let read = json!({"path": "README.md", "session_id": session});
    let said = run_as_agent(&stage, &session, &rest(&stage, "read", &read)?).await?;
    ensure!(said.contains("A project for tests"), "what changes nothing is not bound: {said}");
    stage.close().await
}

#[tokio::test]
async fn rules_that_deny_bind_every_way_into_the_workbench_and_are_recorded() -> Result<()> {
    let stage = hostile_stage().await?;
    write_settings(&stage, &json!({"permissions": {"deny": ["Read(hidden.txt)", "Bash(rm *)"]}}))?;
    std::fs::write(stage.world.project().join("hidden.txt"), "the cellar key")?;
    let session = hostile_session(&stage, "autonomous").await?;
    let obey = obey(&stage)?;
    let read = json!({"path": "hidden.txt", "session_id": session});
    for command in [rest(&stage, "read", &read)?, format!("{obey} exec --sandbox -- 'rm hidden.txt' 2>&1")] {
        let said = run_as_agent(&stage, &session, &command).await?;
        ensure!(said.contains("OBEY-1002") && !said.contains("cellar"), "{command}: {said}");
    }
    ensure!(stage.world.project().join("hidden.txt").exists(), "a command that is denied ran");
    let settled = stage.requests(&session, true).await?;
    let tools: Vec<&str> = settled.iter().map(|request| request.tool_name.as_str()).collect();
    ensure!(tools == ["safe_read", "safe_bash"], "each denial is a request on record: {settled:#?}");
    stage.close().await
}

#[tokio::test]
async fn an_agent_that_calls_the_workbench_itself_asks_its_user() -> Result<()> {
    let stage = hostile_stage().await?;
    let session = hostile_session(&stage, "supervised").await?;
    let bash = json!({"cmd": "echo allowed here", "session_id": session});
    for (at, decision) in [own::Decision::AllowOnce, own::Decision::Deny].into_iter().enumerate() {
        let turn = stage.send(&session, &rest(&stage, "bash", &bash)?).await?;
        let opened = |event: &serde_json::Value| event["request"] == format!("req_{}", at + 1);
        stage.wait_for(&session, "request_opened", opened).await?;
        let request = stage.requests(&session, false).await?.pop().context("no request is listed")?;
        ensure!(request.tool_name == "safe_bash", "{request:#?}");
        stage.decide(&session, &request.id, decision).await?;
        let said = crate::stage::contents(
            &e2e::clients::collect(turn).await?,
            wire::obey::local::v1::ActivityType::Completion,
        );
        let allowed = decision == own::Decision::AllowOnce;
        ensure!(said.contains("allowed here") == allowed && said.contains("OBEY-1002") != allowed, "{said}");
    }
    let settled = stage.journal(&session).await?;
    let settled = settled.iter().filter(|event| event.r#type == "request_settled").count();
    ensure!(settled == 2, "{settled} requests were settled");
    // The user's own calls are not asked about.
    let said = stage.cli().ok(&["exec", "--sandbox", "--session", &session, "--", "echo mine"]).await?;
    ensure!(said.stdout.contains("mine"), "{said:?}");
    ensure!(stage.requests(&session, true).await?.len() == 2, "the user was asked about a call of their own");
    stage.close().await
}
