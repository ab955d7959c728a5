//! Drives the real `codex app-server` directly over its JSON-RPC lines, without the daemon: what the model server must
//! satisfy. Knows the transport and the names of messages, not what the tests want of them.

use std::process::Stdio;

use anyhow::{Context, Result, bail};
use e2e::deadline::within;
use e2e::tools;
use e2e::world::World;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

/// A running `codex app-server` with one conversation. Dropping it kills it.
pub(crate) struct Codex {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    /// Every message so far, in order.
    pub(crate) seen: Vec<Value>,
    asked: usize,
    pub(crate) thread: String,
}

impl Codex {
    /// Starts the agent and a conversation with these parameters.
    pub(crate) async fn start(world: &World, params: Value) -> Result<Codex> {
        let mut codex = Codex::launch(world)?;
        let mut begin = json!({"cwd": world.project()});
        for (key, value) in params.as_object().into_iter().flatten() {
            begin[key] = value.clone();
        }
        codex.initialize().await?;
        let begun = codex.call("thread/start", begin).await?;
        codex.thread = begun["thread"]["id"].as_str().context("a conversation has a name")?.to_owned();
        Ok(codex)
    }

    /// Starts the agent and says nothing to it.
    pub(crate) fn launch(world: &World) -> Result<Codex> {
        let binary = tools::codex()?.context("codex was there when the world was made")?;
        let mut child = tokio::process::Command::from(world.command(binary))
            .arg("app-server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let stdin = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
        Ok(Codex { child, stdin, lines, seen: Vec::new(), asked: 0, thread: String::new() })
    }

    pub(crate) async fn initialize(&mut self) -> Result<()> {
        let client = json!({"name": "test", "title": "Test", "version": "0"});
        let capabilities = json!({"experimentalApi": true});
        self.call("initialize", json!({"clientInfo": client, "capabilities": capabilities})).await?;
        self.send(&json!({"method": "initialized"})).await
    }

    /// Sends one line.
    pub(crate) async fn send(&mut self, message: &Value) -> Result<()> {
        let stdin = self.stdin.as_mut().context("standard input is closed")?;
        stdin.write_all(format!("{message}\n").as_bytes()).await?;
        Ok(stdin.flush().await?)
    }

    /// Asks something and waits for the answer.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.asked += 1;
        let id = format!("r{}", self.asked);
        self.send(&json!({"id": id, "method": method, "params": params})).await?;
        let answer = self.wait(method, |message| message["id"] == json!(id)).await?;
        match answer.get("error") {
            Some(error) => bail!("{method}: {error}"),
            None => Ok(answer["result"].clone()),
        }
    }

    /// Sends a prompt; during a turn it steers.
    pub(crate) async fn prompt(&mut self, text: &str) -> Result<()> {
        let input = json!([{"type": "text", "text": text, "text_elements": []}]);
        self.call("turn/start", json!({"threadId": self.thread, "input": input})).await.map(drop)
    }

    /// Sends a prompt and waits for the end of its turn.
    pub(crate) async fn turn(&mut self, text: &str) -> Result<Value> {
        self.prompt(text).await?;
        self.end().await
    }

    /// Waits for the end of a turn.
    pub(crate) async fn end(&mut self) -> Result<Value> {
        let thread = self.thread.clone();
        let ended = self
            .wait("the end of a turn", |message| {
                message["method"] == "turn/completed" && message["params"]["threadId"] == json!(thread)
            })
            .await?;
        Ok(ended["params"]["turn"].clone())
    }

    /// Waits until the agent asks something.
    pub(crate) async fn asks(&mut self, method: &str) -> Result<Value> {
        self.wait(method, |message| message["method"] == json!(method) && message.get("id").is_some()).await
    }

    /// Answers such a request.
    pub(crate) async fn answer(&mut self, ask: &Value, result: Value) -> Result<()> {
        self.send(&json!({"id": ask["id"], "result": result})).await
    }

    /// Waits for the next message that fulfils the condition.
    pub(crate) async fn wait(&mut self, what: &str, mut wanted: impl FnMut(&Value) -> bool) -> Result<Value> {
        let Codex { lines, seen, .. } = self;
        let found = within(what, async {
            while let Some(line) = lines.next_line().await? {
                let message: Value =
                    serde_json::from_str(&line).with_context(|| format!("no JSON: {line}"))?;
                seen.push(message.clone());
                if wanted(&message) {
                    return Ok(message);
                }
            }
            bail!("codex ended")
        })
        .await
        .flatten();
        let methods = || seen.iter().map(|message| message["method"].as_str().unwrap_or("answer"));
        found.with_context(|| format!("waiting for {what}; codex said {:?}", methods().collect::<Vec<_>>()))
    }

    /// Closes standard input and waits for the exit code.
    pub(crate) async fn finish(mut self) -> Result<Option<i32>> {
        self.stdin = None;
        within("codex's end", async {
            // Drained, because a writer that is not read may not end.
            while self.lines.next_line().await?.is_some() {}
            Ok(self.child.wait().await?.code())
        })
        .await?
    }

    /// The text of all deltas of this method so far.
    pub(crate) fn deltas(&self, method: &str) -> String {
        let deltas = self.seen.iter().filter(|message| message["method"] == json!(method));
        deltas.filter_map(|message| message["params"]["delta"].as_str()).collect()
    }

    /// The finished items of one type.
    pub(crate) fn items(&self, kind: &str) -> Vec<&Value> {
        let done = self.seen.iter().filter(|message| message["method"] == "item/completed");
        done.map(|message| &message["params"]["item"]).filter(|item| item["type"] == json!(kind)).collect()
    }
}
