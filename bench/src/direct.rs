//! Drives agents without the daemon, each as its own documentation describes, with as little code as
//! possible. Reads lines on the measuring thread and takes the time as soon as a line is there.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::model_server::stamp;
use e2e::world::World;
use serde_json::{Value, json};

use crate::tools;

/// The kind of agent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Claude,
    Codex,
    Acp,
}

/// What an agent has besides its own tools.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extras {
    Nothing,
    /// The workbench, or, without the daemon, a server with as many tools.
    Tools,
}

/// The measurements of a turn: when its first chunk was read, and the age of each chunk at that time, in
/// microseconds.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) first_ns: u64,
    pub(crate) ages: Vec<f64>,
    reader: stamp::Reader,
}

impl Heard {
    /// Adds text that was just read.
    pub(crate) fn take(&mut self, text: &str) -> Result<()> {
        let now = stamp::now_ns();
        let sent =
            self.reader.take(text).with_context(|| format!("a piece is missing or harmed: {text:?}"))?;
        if self.ages.is_empty() && !sent.is_empty() {
            self.first_ns = now;
        }
        self.ages.extend(sent.into_iter().map(|sent| now.saturating_sub(sent) as f64 / 1e3));
        Ok(())
    }

    /// Checks that all chunks arrived.
    pub(crate) fn check(self, count: u64) -> Result<Self> {
        ensure!(self.reader.count() == count, "{} of {count} pieces came", self.reader.count());
        Ok(self)
    }
}

/// A program driven over its pipes, with a started conversation.
pub(crate) struct Program {
    kind: Kind,
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    line: String,
    asked: u64,
    conversation: Value,
}

impl Program {
    /// Starts the program and a conversation, until it accepts prompts.
    pub(crate) fn start(kind: Kind, extras: Extras, world: &World) -> Result<Self> {
        let (program, word) = tools::command()?;
        let missing = "it is not installed; run scripts/setup-tests";
        let mut command = match kind {
            Kind::Claude => {
                let mut command = world.command(e2e::tools::claude()?.context(missing)?);
                command.args(["-p", "--input-format", "stream-json", "--output-format", "stream-json"]);
                command.args([
                    "--verbose",
                    "--permission-prompt-tool",
                    "stdio",
                    "--include-partial-messages",
                ]);
                command.args(["--model", "sonnet"]);
                if extras == Extras::Tools {
                    let server = json!({"command": program, "args": [word], "alwaysLoad": true});
                    let config = json!({"mcpServers": {"bench": server}});
                    command.args(["--mcp-config", &config.to_string()]);
                }
                command
            }
            Kind::Codex => {
                let mut command = world.command(e2e::tools::codex()?.context(missing)?);
                command.arg("app-server");
                command
            }
            Kind::Acp => world.command(e2e::tools::codex_acp()?.context(missing)?),
        };
        let mut program = Self::spawn(kind, &mut command)?;
        program.begin(extras, world)?;
        Ok(program)
    }

    fn spawn(kind: Kind, command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let stdin = child.stdin.take().context("no stdin")?;
        let stdout = BufReader::new(child.stdout.take().context("no stdout")?);
        Ok(Self { kind, child, stdin, stdout, line: String::new(), asked: 0, conversation: Value::Null })
    }

    fn begin(&mut self, extras: Extras, world: &World) -> Result<()> {
        let (program, word) = tools::command()?;
        let server = json!({"command": program, "args": [word]});
        match (self.kind, extras) {
            // It accepts a prompt at once.
            (Kind::Claude, _) => {}
            (Kind::Codex, extras) => {
                let client = json!({"name": "bench", "title": "Bench", "version": "0"});
                self.call(
                    "initialize",
                    &json!({"clientInfo": client, "capabilities": {"experimentalApi": true}}),
                )?;
                self.send(&json!({"method": "initialized"}))?;
                let mut begin = json!({"cwd": world.project(), "model": "gpt-5.5"});
                if extras == Extras::Tools {
                    begin["config"] = json!({"mcp_servers.bench": server});
                }
                self.conversation = self.call("thread/start", &begin)?["thread"]["id"].clone();
            }
            (Kind::Acp, extras) => {
                self.call("initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}}))?;
                let own = json!({"name": "bench", "command": program, "args": [word], "env": []});
                let servers = if extras == Extras::Tools { json!([own]) } else { json!([]) };
                let begun =
                    self.call("session/new", &json!({"cwd": world.project(), "mcpServers": servers}))?;
                self.conversation = begun["sessionId"].clone();
            }
        }
        Ok(())
    }

    /// Runs a turn and reads it to its end.
    pub(crate) fn turn(&mut self, prompt: &str) -> Result<Heard> {
        match self.kind {
            Kind::Claude => {
                let message = json!({"role": "user", "content": prompt});
                self.send(&json!({"type": "user", "message": message, "parent_tool_use_id": null}))?;
            }
            Kind::Codex => {
                let input = json!([{"type": "text", "text": prompt, "text_elements": []}]);
                self.ask("turn/start", &json!({"threadId": self.conversation, "input": input}))?;
            }
            Kind::Acp => {
                let prompt = json!([{"type": "text", "text": prompt}]);
                self.ask("session/prompt", &json!({"sessionId": self.conversation, "prompt": prompt}))?;
            }
        }
        let mut heard = Heard::default();
        loop {
            let message = self.read()?;
            let (text, ends) = match self.kind {
                Kind::Claude => (&message["event"]["delta"]["text"], message["type"] == "result"),
                Kind::Codex => {
                    let is_delta = message["method"] == "item/agentMessage/delta";
                    let text = if is_delta { &message["params"]["delta"] } else { &Value::Null };
                    (text, message["method"] == "turn/completed")
                }
                Kind::Acp => {
                    let update = &message["params"]["update"];
                    let is_chunk = update["sessionUpdate"] == "agent_message_chunk";
                    let text = if is_chunk { &update["content"]["text"] } else { &Value::Null };
                    (text, message["result"]["stopReason"].is_string())
                }
            };
            if let Some(text) = text.as_str() {
                heard.take(text)?;
            }
            if ends {
                return Ok(heard);
            }
            ensure!(message.get("error").is_none(), "{message}");
        }
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        Ok(self.stdin.write_all(format!("{message}\n").as_bytes())?)
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<u64> {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        Ok(id)
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        let id = self.ask(method, params)?;
        loop {
            let message = self.read()?;
            if message["id"] == id && message.get("method").is_none() {
                ensure!(message.get("error").is_none(), "{method}: {message}");
                return Ok(message["result"].clone());
            }
        }
    }

    fn read(&mut self) -> Result<Value> {
        self.line.clear();
        ensure!(self.stdout.read_line(&mut self.line)? > 0, "the agent has ended");
        serde_json::from_str(&self.line).with_context(|| self.line.clone())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // An error means that it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The Responses API without an agent: one request, its events read as they arrive.
pub(crate) async fn ask_endpoint(client: &reqwest::Client, base_url: &str, prompt: &str) -> Result<Heard> {
    let body = json!({"model": "gpt-5.5", "stream": true, "input": [{"type": "message", "role": "user",
        "content": [{"type": "input_text", "text": prompt}]}]});
    let request = client.post(format!("{base_url}/responses")).header("content-type", "application/json");
    let mut response = request.body(body.to_string()).send().await?.error_for_status()?;
    let (mut heard, mut buffer) = (Heard::default(), Vec::new());
    while let Some(bytes) = response.chunk().await? {
        buffer.extend_from_slice(&bytes);
        while let Some(at) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=at).collect();
            let Some(data) = line.strip_prefix(b"data: ") else { continue };
            let event: Value = serde_json::from_slice(data)?;
            if event["type"] == "response.output_text.delta" {
                heard.take(event["delta"].as_str().unwrap_or_default())?;
            }
        }
    }
    Ok(heard)
}
