//! Drives the real Claude Code directly over its JSON lines, without the daemon: what the model server must satisfy.
//! Knows the transport and the names of message kinds, not what the tests want of them.

use std::process::Stdio;

use anyhow::{Context, Result, bail};
use e2e::deadline::within;
use e2e::tools;
use e2e::world::World;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

/// A running `claude`. Dropping it kills it.
pub(crate) struct Claude {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    /// Every message so far, in order.
    pub(crate) seen: Vec<Value>,
    asked: usize,
}

impl Claude {
    pub(crate) fn start(world: &World, args: &[&str]) -> Result<Claude> {
        let binary = tools::claude()?.context("claude was there when the world was made")?;
        let mut child = tokio::process::Command::from(world.command(binary))
            .args(["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"])
            .args(["--permission-prompt-tool", "stdio", "--include-partial-messages"])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("no stdout")?;
        Ok(Claude { child, stdin, lines: BufReader::new(stdout).lines(), seen: Vec::new(), asked: 0 })
    }

    /// Sends one line.
    pub(crate) async fn send(&mut self, message: &Value) -> Result<()> {
        let stdin = self.stdin.as_mut().context("standard input is closed")?;
        stdin.write_all(format!("{message}\n").as_bytes()).await?;
        Ok(stdin.flush().await?)
    }

    /// Sends a prompt.
    pub(crate) async fn prompt(&mut self, text: &str) -> Result<()> {
        let message = json!({"role": "user", "content": text});
        self.send(&json!({"type": "user", "message": message, "parent_tool_use_id": null})).await
    }

    /// Sends a prompt and waits for the end of its turn.
    pub(crate) async fn turn(&mut self, text: &str) -> Result<Value> {
        self.prompt(text).await?;
        self.result().await
    }

    /// Waits for the end of a turn.
    pub(crate) async fn result(&mut self) -> Result<Value> {
        self.wait("a result", |message| message["type"] == "result").await
    }

    /// Waits until the agent asks whether it may use a tool.
    pub(crate) async fn asks(&mut self) -> Result<Value> {
        self.wait("a permission request", |message| message["request"]["subtype"] == "can_use_tool").await
    }

    /// Answers such a question.
    pub(crate) async fn answer(&mut self, ask: &Value, answer: Value) -> Result<()> {
        let response = json!({"subtype": "success", "request_id": ask["request_id"], "response": answer});
        self.send(&json!({"type": "control_response", "response": response})).await
    }

    /// Sends a control request and waits for its answer.
    pub(crate) async fn control(&mut self, request: Value) -> Result<Value> {
        self.asked += 1;
        let id = format!("r{}", self.asked);
        self.send(&json!({"type": "control_request", "request_id": id, "request": request})).await?;
        self.wait("a control response", |message| message["response"]["request_id"] == json!(id)).await
    }

    /// Waits for the next message that fulfils the condition.
    pub(crate) async fn wait(&mut self, what: &str, mut wanted: impl FnMut(&Value) -> bool) -> Result<Value> {
        let Claude { lines, seen, .. } = self;
        let found = within(what, async {
            while let Some(line) = lines.next_line().await? {
                let message: Value =
                    serde_json::from_str(&line).with_context(|| format!("no JSON: {line}"))?;
                seen.push(message.clone());
                if wanted(&message) {
                    return Ok(message);
                }
            }
            bail!("claude ended")
        })
        .await
        .flatten();
        found.with_context(|| format!("waiting for {what}; claude said {:?}", kinds(seen)))
    }

    /// Closes standard input and waits for the exit code.
    pub(crate) async fn finish(mut self) -> Result<Option<i32>> {
        self.stdin = None;
        within("claude's end", async {
            // Drained, because a writer that is not read may not end.
            while self.lines.next_line().await?.is_some() {}
            Ok(self.child.wait().await?.code())
        })
        .await?
    }

    /// The text of all deltas of this kind so far: `text`, `thinking` or `partial_json`.
    pub(crate) fn deltas(&self, field: &str) -> String {
        self.seen.iter().filter_map(|message| message["event"]["delta"][field].as_str()).collect()
    }

    /// The messages of one type, and subtype if given as `type/subtype`.
    pub(crate) fn of_kind(&self, wanted: &str) -> Vec<&Value> {
        self.seen.iter().filter(|message| kind(message) == wanted).collect()
    }
}

/// `type`, `type/subtype`, or for stream events `stream_event/<event type>`.
pub(crate) fn kind(message: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let name = text(&message["type"]);
    match name.as_str() {
        "system" => format!("system/{}", text(&message["subtype"])),
        "stream_event" => format!("stream_event/{}", text(&message["event"]["type"])),
        "control_request" => format!("control_request/{}", text(&message["request"]["subtype"])),
        _ => name,
    }
}

pub(crate) fn kinds(messages: &[Value]) -> Vec<String> {
    messages.iter().map(kind).collect()
}
