//! MCP clients that nobody here wrote use the workbench, over standard streams and over HTTP; and who may not.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use e2e::daemon::Daemon;
use e2e::deadline::within;
use e2e::http::{self, Answer};
use e2e::tools;
use e2e::world::World;
use serde_json::{Value, json};

use crate::stage::{Agent, script, stage};

/// A way to reach the daemon.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Stdio,
    Http,
}

#[tokio::test]
async fn published_typescript_client_uses_the_workbench_over_stdio() -> Result<()> {
    published(Way::Stdio, node).await
}

#[tokio::test]
async fn published_typescript_client_uses_the_workbench_over_http() -> Result<()> {
    published(Way::Http, node).await
}

#[tokio::test]
async fn published_python_client_uses_the_workbench_over_stdio() -> Result<()> {
    published(Way::Stdio, python).await
}

#[tokio::test]
async fn published_python_client_uses_the_workbench_over_http() -> Result<()> {
    published(Way::Http, python).await
}

fn node(clients: &Path) -> Vec<String> {
    let script = tools::repository().join("e2e/tests/mcp/sdk_client.mjs");
    let sdk = clients.join("npm/node_modules/@modelcontextprotocol/sdk");
    [clients.join("npm/bin/node"), script, sdk].map(|path| path.display().to_string()).to_vec()
}

fn python(clients: &Path) -> Vec<String> {
    let script = tools::repository().join("e2e/tests/mcp/sdk_client.py");
    [clients.join("python/bin/python"), script].map(|path| path.display().to_string()).to_vec()
}

async fn published(way: Way, client: fn(&Path) -> Vec<String>) -> Result<()> {
    let Some(clients) = tools::mcp_clients()? else { return Ok(()) };
    let world = World::new()?;
    let mut daemon = Daemon::start(&world).await?;
    let folder = world.path("my project");
    std::fs::create_dir(&folder)?;
    std::fs::write(folder.join("kept.txt"), "still here")?;
    let mut words = client(&clients);
    let project = folder.display().to_string();
    match way {
        Way::Http => {
            let address = daemon.listen().first().context("the daemon has no port")?;
            let project = project.replace(' ', "%20");
            words.extend(["http".to_owned(), format!("http://{address}/mcp?project={project}")]);
        }
        Way::Stdio => {
            let (obey, socket) = (world.obey()?.display().to_string(), daemon.socket().display().to_string());
            words.extend(["stdio".to_owned(), project.clone(), obey, "mcp".to_owned()]);
            words.extend(["--no-autostart".to_owned(), "--socket".to_owned(), socket]);
        }
    }
    let mut command = tokio::process::Command::from(world.command(&words[0]));
    command.args(&words[1..]).kill_on_drop(true);
    let output = within("the end of the client", command.output()).await?.context("running the client")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(
        output.status.success(),
        "{}\n{}\nthe daemon's log:\n{}",
        text(&output.stdout),
        text(&output.stderr),
        daemon.log()
    );
    check(&serde_json::from_slice(&output.stdout)?, &project)?;
    audited(&Cli::new(&world)).await?;
    daemon.terminate().await?;
    daemon.assert_no_descendants().await
}

fn check(seen: &Value, project: &str) -> Result<()> {
    let said = |name: &str| seen[name]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    let failed = |name: &str| seen[name]["isError"] == true;
    ensure!(seen["server"] == "obey", "{seen:#}");
    ensure!(seen["instructions"].as_str().is_some_and(|text| text.contains(project)), "{seen:#}");
    let names = seen["tools"].as_array().context("no tools")?;
    // Every operation but Session.Start, which is done by itself.
    ensure!(names.len() == 27 && names.contains(&json!("agent_create")), "{names:?}");
    let reading = seen["reading"].as_array().context("no annotations")?;
    ensure!(reading.contains(&json!("safe_read")) && !reading.contains(&json!("safe_bash")), "{reading:?}");
    ensure!(seen["schema"]["required"] == json!(["cmd"]), "{}", seen["schema"]);
    let bash: Value = serde_json::from_str(&said("bash"))?;
    ensure!(bash["stdout_preview"] == format!("{project}\n42\n") && !failed("bash"), "{bash}");
    ensure!(said("stored").contains("mem_") && said("found").contains("the kettle"), "{seen:#}");
    ensure!(failed("wrong") && said("wrong").contains("timeout: must be between 0 and 300"), "{seen:#}");
    ensure!(failed("refused") && said("refused").contains("OBEY-1041"), "{seen:#}");
    ensure!(!failed("ended") && said("again").contains("still here"), "{seen:#}");
    ensure!(seen["unknown"] == true && seen["parallel"] == 4, "{seen:#}");
    Ok(())
}

/// Everything was written down, as the user's doing, and the chain is whole.
async fn audited(cli: &Cli) -> Result<()> {
    let rows = cli.ok(&["audit", "tail", "--json", "-n", "0"]).await?.json_lines()?;
    ensure!(rows.iter().any(|row| row["operation"] == "SafeExec.Bash"), "{rows:#?}");
    ensure!(rows.iter().all(|row| row["caller"] == "user"), "{rows:#?}");
    cli.ok(&["audit", "verify"]).await?;
    Ok(())
}

/// A call of `tools/call` as a request.
fn call(address: SocketAddr, headers: &str, tool: &str, arguments: &Value) -> String {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments}});
    post(address, headers, &body.to_string())
}

fn post(address: SocketAddr, headers: &str, body: &str) -> String {
    let host = if headers.contains("host:") { String::new() } else { format!("host: {address}\r\n") };
    format!(
        "POST /mcp HTTP/1.1\r\n{host}{headers}content-type: application/json\r\naccept: application/json, \
         text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

async fn send(address: SocketAddr, request: String) -> Result<Answer> {
    within("an answer", http::exchange(address, request)).await?
}

#[tokio::test]
async fn pages_and_strangers_do_not_reach_mcp() -> Result<()> {
    let world = World::new()?;
    let mut daemon = Daemon::start(&world).await?;
    let address = *daemon.listen().first().context("the daemon has no port")?;
    let made = world.project().join("made");
    let input = json!({"cmd": "touch made"});
    for headers in [
        "origin: http://evil.example\r\n",
        "origin: null\r\n",
        "origin: http://127.0.0.1:1\r\n",
        "host: evil.example\r\n",
        "host: evil.example:50051\r\n",
        "sec-fetch-site: cross-site\r\n",
        "sec-fetch-site: same-site\r\n",
    ] {
        let answer = send(address, call(address, headers, "safe_bash", &input)).await?;
        ensure!(answer.status == 403 && !made.exists(), "{headers}: {} {}", answer.status, answer.body);
    }
    let form = post(address, "", "cmd=x").replace("application/json\r\naccept", "text/plain\r\naccept");
    ensure!(send(address, form).await?.status == 403);
    for (method, expected) in [("GET", 405), ("DELETE", 405), ("PUT", 405)] {
        let answer = http::send(address, method, "/mcp", None).await?;
        ensure!(answer.status == expected, "{method}: {} {}", answer.status, answer.body);
    }
    for body in
        ["", "[]", "{}", "{\"jsonrpc\":\"2.0\"}", "\u{0}", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}"]
    {
        let answer = send(address, post(address, "", body)).await?;
        ensure!((400..500).contains(&answer.status), "{body}: {} {}", answer.status, answer.body);
    }
    let cli = Cli::new(&world);
    let rows = cli.ok(&["audit", "tail", "-n", "0", "--json"]).await?.json_lines()?;
    let is_refusal = |row: &serde_json::Value| row["caller"] == "stranger" && row["outcome"] == "OBEY-1002";
    ensure!(!rows.is_empty() && rows.iter().all(is_refusal), "something was executed: {rows:#?}");
    // The same, from where it may come.
    let answer = send(address, call(address, "", "safe_bash", &input)).await?;
    ensure!(answer.status == 200 && made.exists(), "{} {}", answer.status, answer.body);
    daemon.terminate().await?;
    daemon.assert_no_descendants().await
}

/// An agent that speaks to the port by itself gets its own session, and is asked for what must be asked for.
#[tokio::test]
async fn real_claude_reaches_only_its_own_session_over_http() -> Result<()> {
    let agent = Agent::Claude;
    let stage = stage!(agent);
    let session = stage.create().await?;
    let address = *stage.daemon.listen().first().context("the daemon has no port")?;
    let request = call(address, "", "safe_bash", &json!({"cmd": "echo $((40 + 2))", "session_id": "sess_x"}));
    let file = stage.world.path("request.txt");
    std::fs::write(&file, request)?;
    let command = format!(
        "bash -c 'exec 3<>/dev/tcp/{}/{}; cat {} >&3; cat <&3'",
        address.ip(),
        address.port(),
        file.display()
    );
    let steps = json!([{"tool": "Bash", "input": {"command": command}}, {"text": "done"}]);
    let _stream = stage.send(&session, &script(agent, "curl", &steps)).await?;
    let request = stage.wait_for_request(&session).await?;
    stage.cli().ok(&["session", "approve", &session, &request.id]).await?;
    // The command may run; what it asks of us is asked for again.
    stage.wait_for(&session, "request_opened", |event| event.to_string().contains("safe_bash")).await?;
    let pending = stage.requests(&session, false).await?;
    let asked = pending.first().context("nothing is asked")?;
    stage.cli().ok(&["session", "approve", &session, &asked.id]).await?;
    let finished = stage.wait_for(&session, "tool_finished", |_| true).await?;
    ensure!(finished["output"].as_str().is_some_and(|text| text.contains("42\\\\n")), "{finished}");
    let rows = stage.cli().ok(&["audit", "tail", "--json"]).await?.json_lines()?;
    let row = rows.iter().find(|row| row["operation"] == "SafeExec.Bash").context("no row")?;
    ensure!(row["caller"] == format!("agent {session}") && row["session_id"] == session.as_str(), "{row}");
    stage.close().await
}
