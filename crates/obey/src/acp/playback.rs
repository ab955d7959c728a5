//! Plays a transcript to the server and checks its answers. A transcript is lines of JSON, one message each;
//! empty lines and lines that begin with `#` are comments, except for these:
//!
//! | line | meaning |
//! |---|---|
//! | `#expect {…}` | a message that contains this must arrive within 10 s; each counts for one message |
//! | `#async` | the next request is sent without waiting for its answer |
//! | `#reply METHOD {…}` | the answer to the server's requests of this method from here on |
//!
//! Every request that is not `#async` waits for its answer. An unexpected error is a failure. In messages
//! `{{SESSION_ID}}`, `SESSION_ID_HERE` and `__SESSION_ID__` stand for the id of the newest session and
//! `{{CWD}}` for the current folder.

mod transcript;

use std::collections::HashMap;

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

use crate::limits;
use config::exit::Exit;
use config::failure::Result;
use terminal::console::Console;
pub(super) use transcript::Transcript;
use transcript::{Step, contains};

/// Bytes buffered between the two ends of a playback.
pub(super) const PIPE_BYTES: usize = 64 * 1024;

/// The result of a playback.
#[derive(Debug, Default)]
pub(super) struct Report {
    sent: usize,
    received: usize,
    checked: usize,
    problems: Vec<String>,
}

impl Report {
    /// Prints the findings and returns the exit code.
    pub(super) fn tell(&self, console: &mut Console) -> Result<Exit> {
        for problem in &self.problems {
            console.out.line(problem)?;
        }
        let Self { sent, received, checked, problems } = self;
        let verdict = if problems.is_empty() { "passed" } else { "FAILED" };
        console.out.line(&format!("{verdict}: {sent} sent, {received} received, {checked} checked"))?;
        Ok(if problems.is_empty() { Exit::OK } else { Exit::FAILED })
    }
}

impl Transcript {
    /// Plays it to the other end of a pipe.
    pub(super) async fn play(self, pipe: DuplexStream) -> Report {
        let (read, write) = tokio::io::split(pipe);
        let mut player = Player {
            incoming: BufReader::new(read).lines(),
            outgoing: write,
            received: Vec::new(),
            replies: HashMap::new(),
            session: String::new(),
            folder: std::env::current_dir().unwrap_or_default().display().to_string(),
            report: Report::default(),
        };
        for (number, step) in &self.steps {
            if let Err(problem) = player.step(step).await {
                player.report.problems.push(format!("line {number}: {problem}"));
                break;
            }
        }
        player.finish()
    }
}

/// The client's side of a playback.
struct Player {
    incoming: Lines<BufReader<ReadHalf<DuplexStream>>>,
    outgoing: WriteHalf<DuplexStream>,
    /// The received messages, and whether an expectation matched them.
    received: Vec<(Value, bool)>,
    replies: HashMap<String, Value>,
    session: String,
    folder: String,
    report: Report,
}

impl Player {
    async fn step(&mut self, step: &Step) -> std::result::Result<(), String> {
        match step {
            Step::Send { text, waits } => self.send(text, *waits).await,
            Step::Expect(pattern) => self.expect(pattern).await,
            Step::Reply { method, result } => {
                self.replies.insert(method.clone(), result.clone());
                Ok(())
            }
        }
    }

    /// Sends a message; with `waits`, it waits for the answer to a request.
    async fn send(&mut self, text: &str, waits: bool) -> std::result::Result<(), String> {
        let text = self.filled(text);
        self.write(&text).await?;
        self.report.sent += 1;
        let message: Value = serde_json::from_str(&text).unwrap_or_default();
        let (id, method) = (&message["id"], message["method"].as_str());
        if !waits || id.is_null() || method.is_none() {
            return Ok(());
        }
        let answer = self.wait(|message| message["id"] == *id && message.get("method").is_none()).await?;
        let (answer, _) = &self.received[answer];
        check(method.unwrap_or_default(), answer)?;
        if let Some(session) = answer["result"]["sessionId"].as_str() {
            session.clone_into(&mut self.session);
        }
        Ok(())
    }

    /// Waits for a message that contains the pattern. A message received earlier counts unless already
    /// matched.
    async fn expect(&mut self, pattern: &str) -> std::result::Result<(), String> {
        let pattern: Value = serde_json::from_str(&self.filled(pattern))
            .map_err(|error| format!("the expectation is not JSON: {error}"))?;
        let known = self.received.iter().position(|(message, used)| !used && contains(message, &pattern));
        let found = match known {
            Some(found) => found,
            None => self.wait(|message| contains(message, &pattern)).await?,
        };
        self.received[found].1 = true;
        self.report.checked += 1;
        Ok(())
    }

    /// Waits for a message that has not arrived yet, and answers the server's requests meanwhile.
    async fn wait(&mut self, wanted: impl Fn(&Value) -> bool) -> std::result::Result<usize, String> {
        let seconds = limits::PLAYBACK_WAIT.as_secs();
        let by = tokio::time::Instant::now() + limits::PLAYBACK_WAIT;
        loop {
            let line = tokio::time::timeout_at(by, self.incoming.next_line()).await;
            let line = line.map_err(|_| format!("nothing of the kind came within {seconds} s"))?;
            let line = line.map_err(|error| error.to_string())?.ok_or("the server has ended")?;
            let message: Value =
                serde_json::from_str(&line).map_err(|error| format!("a line is not JSON: {error}"))?;
            tracing::debug!(target: "playback", "< {line}");
            self.report.received += 1;
            if message.get("id").is_some()
                && let Some(method) = message["method"].as_str()
            {
                let answer = match self.replies.get(method) {
                    Some(result) => json!({"jsonrpc": "2.0", "id": message["id"], "result": result}),
                    None => json!({"jsonrpc": "2.0", "id": message["id"],
                        "error": {"code": -32601, "message": "method not found"}}),
                };
                self.write(&answer.to_string()).await?;
            }
            let is_wanted = wanted(&message);
            self.received.push((message, false));
            if is_wanted {
                return Ok(self.received.len() - 1);
            }
        }
    }

    async fn write(&mut self, text: &str) -> std::result::Result<(), String> {
        tracing::debug!(target: "playback", "> {text}");
        let line = format!("{text}\n");
        self.outgoing.write_all(line.as_bytes()).await.map_err(|error| error.to_string())
    }

    fn filled(&self, text: &str) -> String {
        let mut text = text.replace("{{CWD}}", &self.folder);
        for placeholder in ["{{SESSION_ID}}", "SESSION_ID_HERE", "__SESSION_ID__"] {
            text = text.replace(placeholder, &self.session);
        }
        text
    }

    /// Returns the report. Error messages that no expectation matched count as problems.
    fn finish(mut self) -> Report {
        for (message, used) in &self.received {
            if message.get("error").is_some() && !used {
                let problem = format!("nobody expected {message}");
                self.report.problems.push(problem);
            }
        }
        self.report
    }
}

/// Checks what every answer must fulfil.
fn check(method: &str, answer: &Value) -> std::result::Result<(), String> {
    if answer["jsonrpc"] != "2.0" {
        return Err("the answer's jsonrpc is not \"2.0\"".to_owned());
    }
    let (result, error) = (answer.get("result"), answer.get("error"));
    match (result, error) {
        (Some(result), None) => match method {
            "initialize" if result["protocolVersion"] != json!(1) => {
                Err("protocolVersion is not the integer 1".to_owned())
            }
            "session/new" if !result["sessionId"].is_string() => Err("there is no sessionId".to_owned()),
            "session/prompt" if !result["stopReason"].is_string() => Err("there is no stopReason".to_owned()),
            _ => Ok(()),
        },
        (None, Some(error)) if error["code"].is_i64() && error["message"].is_string() => Ok(()),
        _ => Err("an answer has either a result or an error with code and message".to_owned()),
    }
}
