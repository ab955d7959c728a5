//! An editor for measurements: starts a program that speaks the Agent Client Protocol and reads its lines on
//! the measuring thread, taking the time as soon as a line is there.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::clock::monotonic_ns;
use crate::direct;
use crate::emitter::{FILLER, Script};
use crate::stats;

/// A program connected by pipes.
pub(crate) struct Editor {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    line: String,
    last_id: u64,
}

/// The measurements of a turn.
pub(crate) struct Heard {
    /// From the writing of each chunk to its reading, in microseconds, sorted.
    pub(crate) ages: Vec<f64>,
    pub(crate) span: Duration,
}

impl Editor {
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let stdin = child.stdin.take().context("no stdin")?;
        let stdout = child.stdout.take().context("no stdout")?;
        Ok(Self { child, stdin, stdout: BufReader::new(stdout), line: String::new(), last_id: 0 })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send(&mut self, message: &Value) -> Result<()> {
        Ok(self.stdin.write_all(format!("{message}\n").as_bytes())?)
    }

    fn read(&mut self) -> Result<&str> {
        self.line.clear();
        ensure!(self.stdout.read_line(&mut self.line)? > 0, "the output has ended");
        Ok(&self.line)
    }

    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Result<u64> {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        Ok(id)
    }

    /// Sends a request and waits for its answer, ignoring everything else.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        let id = self.ask(method, params)?;
        loop {
            let message: Value = serde_json::from_str(self.read()?)?;
            if message["id"] == id && message.get("method").is_none() {
                ensure!(message.get("error").is_none(), "{method}: {message}");
                return Ok(message["result"].clone());
            }
        }
    }

    /// Sends `initialize`; returns the time since `began`.
    pub(crate) fn initialize(&mut self, began: Instant) -> Result<Duration> {
        self.call("initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}}))?;
        Ok(began.elapsed())
    }

    pub(crate) fn open(&mut self, folder: &Path) -> Result<String> {
        let result = self.call("session/new", &json!({"cwd": folder, "mcpServers": []}))?;
        Ok(result["sessionId"].as_str().context("no session")?.to_owned())
    }

    pub(crate) fn prompt(&mut self, session: &str, script: &Script) -> Result<u64> {
        let prompt = json!([{"type": "text", "text": script.prompt()}]);
        self.ask("session/prompt", &json!({"sessionId": session, "prompt": prompt}))
    }

    /// Sends any text as a prompt.
    pub(crate) fn say(&mut self, session: &str, text: &str) -> Result<u64> {
        let prompt = json!([{"type": "text", "text": text}]);
        self.ask("session/prompt", &json!({"sessionId": session, "prompt": prompt}))
    }

    /// Reads a turn whose stamped chunks may arrive several in a line or split, as other adapters send them;
    /// each exactly once, in order. Returns their ages.
    pub(crate) fn stamped(&mut self, count: u64) -> Result<Vec<f64>> {
        let mut heard = direct::Heard::default();
        loop {
            let line = self.read()?;
            if line.contains("\"stopReason\"") {
                return Ok(stats::sorted(heard.check(count)?.ages));
            }
            if !line.contains("\"agent_message_chunk\"") {
                ensure!(!line.contains("\"error\""), "{line}");
                continue;
            }
            let message: Value = serde_json::from_str(line)?;
            heard.take(message["params"]["update"]["content"]["text"].as_str().unwrap_or_default())?;
        }
    }

    /// Reads a turn up to the line that ends it: every chunk exactly once, in order.
    pub(crate) fn turn(&mut self, chunks: u64, ends: impl Fn(&str) -> bool) -> Result<Heard> {
        let mut ages = Vec::with_capacity(usize::try_from(chunks).unwrap_or(0));
        let (mut first, mut last) = (None, 0);
        loop {
            let line = self.read()?;
            let now = monotonic_ns();
            if let Some((number, written)) = chunk(line) {
                ensure!(number == ages.len() as u64, "chunk {} came as number {number}", ages.len());
                first.get_or_insert(written);
                last = now;
                ages.push(now.saturating_sub(written) as f64 / 1e3);
            } else if ends(line) {
                break;
            }
        }
        ensure!(ages.len() as u64 == chunks, "{} of {chunks} chunks came", ages.len());
        let span = Duration::from_nanos(last.saturating_sub(first.unwrap_or(0)));
        Ok(Heard { ages: stats::sorted(ages), span })
    }

    /// Reads until all of these requests are answered; returns the number of chunks.
    pub(crate) fn finish(&mut self, mut waiting: std::collections::HashSet<u64>) -> Result<u64> {
        let mut chunks = 0;
        while !waiting.is_empty() {
            let line = self.read()?;
            if chunk(line).is_some() {
                chunks += 1;
                continue;
            }
            let message: Value = serde_json::from_str(line)?;
            ensure!(message.get("error").is_none(), "{message}");
            if let Some(id) = message["id"].as_u64() {
                waiting.remove(&id);
            }
        }
        Ok(chunks)
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        // An error means that it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the number and the time of a chunk from either side, if it is complete.
fn chunk(line: &str) -> Option<(u64, u64)> {
    let text = line.rsplit_once("\"text\":\"")?.1.split_once('"')?.0;
    let (number, rest) = text.split_once(' ')?;
    let (written, filler) = rest.split_once(' ')?;
    (filler == FILLER).then(|| Some((number.parse().ok()?, written.parse().ok()?)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_found_in_updates_and_in_the_agents_own_lines() {
        let text = format!("00000007 0000000000000042 {FILLER}");
        let update = format!(
            r#"{{"method":"session/update","params":{{"update":{{"content":{{"type":"text","text":"{text}"}}}}}}}}"#
        );
        assert_eq!(chunk(&update), Some((7, 42)));
        assert_eq!(chunk(&format!(r#"{{"say":"text","text":"{text}"}}"#)), Some((7, 42)));
        assert_eq!(chunk(r#"{"id":3,"result":{"stopReason":"end_turn"}}"#), None);
    }
}
