//! The bridge itself: an MCP server as agents start it, its limits, and what a new daemon means to it.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use super::talk::{Talk, call, physical, pure};
use crate::stage::{Agent, Stage, script, stage};

/// A client of `obey mcp`, as any agent is one.
struct Mcp {
    child: tokio::process::Child,
    input: tokio::process::ChildStdin,
    lines: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
}

impl Mcp {
    fn start(stage: &Stage, session: &str) -> Result<Mcp> {
        let mut command = tokio::process::Command::from(stage.world.command(stage.world.obey()?));
        command.args(["mcp", "--session", session]).kill_on_drop(true);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn()?;
        let input = child.stdin.take().context("no input")?;
        let lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        Ok(Mcp { child, input, lines })
    }

    async fn say(&mut self, message: Value) -> Result<()> {
        self.input.write_all(format!("{message}\n").as_bytes()).await?;
        Ok(self.input.flush().await?)
    }

    /// Waits for a line that fulfils the condition.
    async fn hear(&mut self, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        loop {
            let line = e2e::deadline::within("a line of MCP", self.lines.next_line()).await??;
            let value: Value = serde_json::from_str(&line.context("the server has ended")?)?;
            if wanted(&value) {
                return Ok(value);
            }
        }
    }

    async fn ask(&mut self, id: u64, method: &str, params: Value) -> Result<Value> {
        self.say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await?;
        self.hear(|value| value["id"] == json!(id)).await
    }

    async fn open(&mut self) -> Result<Value> {
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let opened = self.ask(1, "initialize", params).await?;
        self.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
        Ok(opened)
    }

    /// The tools of clients and of the team; the workbench's stand behind them.
    async fn tools(&mut self, id: u64) -> Result<Vec<String>> {
        let listed = self.ask(id, "tools/list", json!({})).await?;
        let tools = listed["result"]["tools"].as_array().context("no tools")?;
        let names = tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned));
        Ok(names.take_while(|name| name != "safe_bash").collect())
    }
}

#[tokio::test]
async fn an_agent_finds_its_clients_tools_over_mcp() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let mut talk = Talk::new(&stage, vec![pure("see"), physical("lift")]).await?;
    let mut mcp = Mcp::start(&stage, talk.session())?;
    let opened = mcp.open().await?;
    assert_eq!(opened["result"]["serverInfo"]["name"], "obey", "{opened}");
    assert_eq!(opened["result"]["capabilities"]["tools"]["listChanged"], true, "{opened}");
    assert_eq!(mcp.tools(2).await?, ["see", "lift", "spawn_worker", "watch_team"]);
    // A change is told, and the new list is there.
    let register = wire::roz::v1::RegisterTools { tools: vec![pure("hear")], ..Default::default() };
    talk.say(wire::roz::v1::session_request::Request::RegisterTools(register)).await?;
    mcp.hear(|value| value["method"] == "notifications/tools/list_changed").await?;
    assert_eq!(mcp.tools(3).await?, ["see", "lift", "hear", "spawn_worker", "watch_team"]);
    // A call goes to the client and back.
    let params = json!({"name": "see", "arguments": {"x": 1}, "_meta": {"claudecode/toolUseId": "toolu_7"}});
    mcp.say(json!({"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": params})).await?;
    let asked = talk.tool_request().await?;
    assert_eq!((asked.tool_call_id.as_str(), asked.tool_name.as_str()), ("toolu_7", "see"));
    talk.result("toolu_7", true, "a door").await?;
    let answer = mcp.hear(|value| value["id"] == 4).await?;
    assert_eq!(answer["result"]["content"][0]["text"], "a door", "{answer}");
    assert_ne!(answer["result"]["isError"], true);
    let unknown = mcp.ask(5, "tools/call", json!({"name": "nothing"})).await?;
    assert_eq!(unknown["result"]["isError"], true, "{unknown}");
    // What the agent takes back is taken back from the client's list, too.
    let params = json!({"name": "see", "arguments": {}});
    mcp.say(json!({"jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": params})).await?;
    talk.tool_request().await?;
    mcp.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 6}}))
        .await?;
    stage.wait_for(talk.session(), "request_settled", |event| event["by"] == "agent").await?;
    drop(mcp.input);
    e2e::deadline::within("the server's end", mcp.child.wait()).await??;
    stage.close().await
}

#[tokio::test]
async fn a_session_that_is_not_there_has_no_bridge() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let output = stage.cli().run(&["mcp", "--session", "sess_nobody"]).await?;
    assert_eq!(output.code, Some(4), "{output:?}");
    assert!(output.stderr.contains("OBEY-2010"), "{output:?}");
    stage.close().await
}

#[tokio::test]
async fn real_claude_an_agent_cannot_use_another_sessions_bridge() -> Result<()> {
    let agent = Agent::Claude;
    let stage = stage!(agent);
    let other = Talk::new(&stage, vec![pure("see")]).await?;
    let session = stage.create().await?;
    let obey = stage.world.obey()?.display().to_string();
    let socket = stage.daemon.socket().display().to_string();
    let command =
        format!("{obey} --socket {socket} --no-autostart mcp --session {} </dev/null", other.session());
    let steps = json!([{"tool": "Bash", "input": {"command": command}}, {"text": "tried"}]);
    let _stream = stage.send(&session, &script(agent, "steal", &steps)).await?;
    let request = stage.wait_for_request(&session).await?;
    stage.cli().ok(&["session", "approve", &session, &request.id]).await?;
    let finished = stage.wait_for(&session, "tool_finished", |_| true).await?;
    let output = finished["output"].as_str().unwrap_or_default();
    assert!(output.contains("OBEY-1002"), "{output}");
    stage.close().await
}

/// An agent's call waits while the daemon is exchanged; its client is gone with the old one, so it fails, and the turn
/// goes on.
#[tokio::test]
async fn real_claude_a_new_daemon_fails_the_call_and_the_turn_goes_on() -> Result<()> {
    let agent = Agent::Claude;
    let mut stage = stage!(agent);
    let mut talk = Talk::new(&stage, vec![pure("see")]).await?;
    let steps = json!([call("see", json!({})), {"text": "went on"}]);
    talk.prompt("m-1", &script(agent, "look", &steps)).await?;
    talk.tool_request().await?;
    let session = talk.session().to_owned();
    stage.daemon.kill9().await?;
    stage.daemon.restart().await?;
    stage.clients = stage.daemon.clients().await?;
    let end = stage.wait_for(&session, "turn_ended", |_| true).await?;
    assert_eq!(end["reason"], "completed", "{end}");
    stage.close().await
}
