//! An editor of the Agent Client Protocol: starts `obey acp` in a world, speaks JSON lines with it, and holds every
//! line it gets against the published schema. Reads only when it is asked to, so that it can be as slow as it likes.

mod schema;

use std::collections::HashMap;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::deadline::within;
use crate::processes;
use crate::tools;
use crate::world::World;
pub use schema::Schema;

/// A running `obey acp` and the client at its pipes. Dropping it kills the process.
pub struct Editor {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    errors: Arc<Mutex<String>>,
    schema: Option<Schema>,
    /// Methods of requests that wait for an answer, by id.
    asked: HashMap<String, String>,
    last_id: u64,
    /// Everything that came, in order.
    pub seen: Vec<Value>,
}

impl Editor {
    /// Starts `obey acp` with these further words.
    pub async fn start(world: &World, args: &[&str]) -> Result<Editor> {
        let mut command = tokio::process::Command::from(world.command(world.obey()?));
        command.arg("acp").args(args);
        Editor::spawn(command).await
    }

    /// Starts any command that speaks the protocol.
    pub async fn spawn(mut command: tokio::process::Command) -> Result<Editor> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting obey acp")?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("no stdout")?;
        let stderr = child.stderr.take().context("no stderr")?;
        let errors: Arc<Mutex<String>> = Arc::default();
        let kept = Arc::clone(&errors);
        tokio::spawn(async move {
            let mut lines = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push_str(&line);
                kept.push('\n');
            }
        });
        let schema = tools::acp_schema()?.map(|path| Schema::read(&path)).transpose()?;
        Ok(Editor {
            child,
            stdin,
            lines: BufReader::new(stdout).lines(),
            errors,
            schema,
            asked: HashMap::new(),
            last_id: 0,
            seen: Vec::new(),
        })
    }

    /// What it wrote to standard error so far.
    pub fn errors(&self) -> String {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn pid(&self) -> Option<i32> {
        self.child.id().map(|pid| pid as i32)
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            processes::signal(pid, signal);
        }
    }

    /// Writes bytes as they are.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let stdin = self.stdin.as_mut().context("the input is closed")?;
        within("room in the pipe", async {
            stdin.write_all(bytes).await?;
            stdin.flush().await
        })
        .await?
        .context("writing to obey acp")
    }

    /// Sends one line.
    pub async fn line(&mut self, line: &str) -> Result<()> {
        self.write(format!("{line}\n").as_bytes()).await
    }

    /// Sends a request and returns its id.
    pub async fn ask(&mut self, method: &str, params: Value) -> Result<u64> {
        let (id, line) = self.request(method, params);
        self.line(&line).await?;
        Ok(id)
    }

    /// A request that is yet to be sent: its id and its line.
    pub fn request(&mut self, method: &str, params: Value) -> (u64, String) {
        self.last_id += 1;
        let id = self.last_id;
        self.asked.insert(id.to_string(), method.to_owned());
        (id, json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string())
    }

    /// Sends a notification.
    pub async fn tell(&mut self, method: &str, params: Value) -> Result<()> {
        self.line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()).await
    }

    /// Answers a request of the agent.
    pub async fn reply(&mut self, request: &Value, result: Value) -> Result<()> {
        self.line(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string()).await
    }

    /// The next message, checked against the schema.
    pub async fn next(&mut self) -> Result<Value> {
        let line = within("a line", self.lines.next_line()).await;
        let line = line.with_context(|| format!("standard error:\n{}", self.errors()))??;
        let line =
            line.with_context(|| format!("the output has ended; standard error:\n{}", self.errors()))?;
        let message: Value = serde_json::from_str(&line).with_context(|| format!("no JSON: {line}"))?;
        self.check(&message).with_context(|| format!("against the published schema: {line}"))?;
        self.seen.push(message.clone());
        Ok(message)
    }

    fn check(&mut self, message: &Value) -> Result<()> {
        ensure!(message["jsonrpc"] == "2.0", "jsonrpc is not 2.0");
        let Some(schema) = &self.schema else { return Ok(()) };
        if message.get("method").is_some() {
            return schema.check_message(message);
        }
        let method = self.asked.remove(&message["id"].to_string());
        schema.check_answer(method.as_deref(), message)
    }

    /// Waits for a message that fulfils the condition; everything before it is kept in `seen`.
    pub async fn wait(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        loop {
            let message = self.next().await.with_context(|| format!("waiting for {what}"))?;
            if wanted(&message) {
                return Ok(message);
            }
        }
    }

    /// Waits for the answer to a request.
    pub async fn answer(&mut self, id: u64) -> Result<Value> {
        self.wait("an answer", |message| message["id"] == id && message.get("method").is_none()).await
    }

    /// Sends a request and returns its whole answer.
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        let id = self.ask(method, params).await?;
        self.answer(id).await
    }

    /// Sends a request that must succeed and returns its result.
    pub async fn result(&mut self, method: &str, params: Value) -> Result<Value> {
        let answer = self.call(method, params).await?;
        match answer.get("result") {
            Some(result) => Ok(result.clone()),
            None => bail!("{method} was refused: {answer}\nstandard error:\n{}", self.errors()),
        }
    }

    /// Sends a request that must be refused and returns its error.
    pub async fn refusal(&mut self, method: &str, params: Value) -> Result<Value> {
        let answer = self.call(method, params).await?;
        match answer.get("error") {
            Some(error) => Ok(error.clone()),
            None => bail!("{method} was not refused: {answer}"),
        }
    }

    /// Introduces itself as an editor that can do nothing for the agent.
    pub async fn initialize(&mut self) -> Result<Value> {
        self.initialize_with(json!({})).await
    }

    /// Introduces itself with capabilities.
    pub async fn initialize_with(&mut self, capabilities: Value) -> Result<Value> {
        let info = json!({"name": "test-editor", "version": "1"});
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": info});
        self.result("initialize", params).await
    }

    /// Opens a session in a folder and returns its id.
    pub async fn open(&mut self, cwd: &std::path::Path) -> Result<String> {
        let result = self.result("session/new", json!({"cwd": cwd, "mcpServers": []})).await?;
        result["sessionId"].as_str().map(str::to_owned).context("no sessionId")
    }

    /// Sends a prompt without waiting for its end.
    pub async fn prompt(&mut self, session: &str, text: &str) -> Result<u64> {
        let prompt = json!([{"type": "text", "text": text}]);
        self.ask("session/prompt", json!({"sessionId": session, "prompt": prompt})).await
    }

    /// Sends a prompt and returns how its turn ended.
    pub async fn turn(&mut self, session: &str, text: &str) -> Result<String> {
        let id = self.prompt(session, text).await?;
        let answer = self.answer(id).await?;
        let reason = answer["result"]["stopReason"].as_str();
        Ok(reason.with_context(|| format!("{answer}\nstandard error:\n{}", self.errors()))?.to_owned())
    }

    /// Waits for a request of the agent.
    pub async fn asked(&mut self, method: &str) -> Result<Value> {
        self.wait(method, |message| message["method"] == method && message.get("id").is_some()).await
    }

    /// Waits until an agent says something.
    pub async fn chunk(&mut self) -> Result<Value> {
        let said = |message: &Value| message["params"]["update"]["sessionUpdate"] == "agent_message_chunk";
        self.wait("a chunk", said).await
    }

    /// The updates of a session that came so far.
    pub fn updates(&self, session: &str) -> Vec<&Value> {
        let of = |message: &&Value| {
            message["params"]["sessionId"] == session && message["method"] == "session/update"
        };
        self.seen.iter().filter(of).map(|message| &message["params"]["update"]).collect()
    }

    /// The updates of one kind.
    pub fn updates_of(&self, session: &str, kind: &str) -> Vec<Value> {
        let updates = self.updates(session).into_iter();
        updates.filter(|update| update["sessionUpdate"] == kind).cloned().collect()
    }

    /// All text of one kind of chunk.
    pub fn text(&self, session: &str, kind: &str) -> String {
        let chunks = self.updates_of(session, kind);
        chunks.iter().filter_map(|chunk| chunk["content"]["text"].as_str()).collect()
    }

    /// What the agent said.
    pub fn said(&self, session: &str) -> String {
        self.text(session, "agent_message_chunk")
    }

    /// Closes the input, as an editor that leaves.
    pub fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// Waits for the end of the process, reading what is left.
    pub async fn ended(&mut self) -> Result<ExitStatus> {
        loop {
            let line = within("the end of the output", self.lines.next_line()).await??;
            let Some(line) = line else { break };
            let message: Value = serde_json::from_str(&line).with_context(|| format!("no JSON: {line}"))?;
            self.check(&message)?;
            self.seen.push(message);
        }
        let status = within("the end of obey acp", self.child.wait()).await;
        Ok(status.with_context(|| self.errors())??)
    }

    /// Leaves, and asserts that the process ended well.
    pub async fn close(mut self) -> Result<()> {
        self.hang_up();
        let status = self.ended().await?;
        ensure!(status.success(), "{status}; standard error:\n{}", self.errors());
        Ok(())
    }
}
