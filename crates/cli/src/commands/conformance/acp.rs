//! Clauses of the Agent Client Protocol: `obey acp` as an editor starts it, spoken to in lines. Needs the daemon of this user,
//! since the protocol has no address.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::agent::{ANSWER, SCRIPT};
use super::clauses::Verdict;

/// How long an answer may take; one of them starts an agent.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// Codes of errors that the contract has.
const INVALID_PARAMS: i64 = -32602;
const METHOD_NOT_FOUND: i64 = -32601;
const PARSE_ERROR: i64 = -32700;

/// How the server is started.
pub(super) struct AcpServer {
    pub(super) program: PathBuf,
    pub(super) socket: PathBuf,
}

/// A connection to the server, made by the first clause.
pub(super) struct AcpProbe {
    server: AcpServer,
    connection: Option<Connection>,
    sessions: Vec<String>,
    next_id: i64,
}

struct Connection {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

type Outcome = Result<(), String>;

fn require(condition: bool, answer: &Value) -> Outcome {
    if condition { Ok(()) } else { Err(answer.to_string().chars().take(300).collect()) }
}

impl AcpProbe {
    pub(super) fn new(server: AcpServer) -> Self {
        Self { server, connection: None, sessions: Vec::new(), next_id: 0 }
    }

    /// Checks a clause.
    pub(super) async fn check(&mut self, id: &str, project: &Path) -> Verdict {
        let outcome = tokio::time::timeout(ANSWER_WAIT, self.outcome(id, project)).await;
        let silent = || Err(format!("no answer within {} s", ANSWER_WAIT.as_secs()));
        outcome.unwrap_or_else(|_| silent()).map_or_else(Verdict::Failed, |()| Verdict::Held)
    }

    async fn outcome(&mut self, id: &str, project: &Path) -> Outcome {
        match id {
            "A-01" => {
                let answer = self.initialize(1).await?;
                require(answer["result"]["protocolVersion"] == 1, &answer)
            }
            "A-03" => {
                let answer = self.initialize(1).await?;
                require(answer["result"]["authMethods"] == json!([]), &answer)
            }
            "A-04" => {
                let answer = self.initialize(7).await?;
                require(answer["result"]["protocolVersion"] == 1, &answer)
            }
            "A-05" => {
                let params = json!({"cwd": "not/absolute", "mcpServers": []});
                let answer = self.ask("session/new", params).await?.0;
                require(answer["error"]["code"] == INVALID_PARAMS, &answer)
            }
            "A-07" => {
                for _ in 0..2 {
                    let answer = self.ask("session/new", json!({"cwd": project, "mcpServers": []})).await?.0;
                    let session = answer["result"]["sessionId"].as_str().unwrap_or_default().to_owned();
                    require(!session.is_empty() && !self.sessions.contains(&session), &answer)?;
                    self.sessions.push(session);
                }
                Ok(())
            }
            "A-09" => {
                let answer = self.prompt("sess_01AAAAAAAAAAAAAAAAAAAAAAAA", "hello").await?.0;
                require(answer["error"]["code"].is_i64(), &answer)
            }
            "A-11" => self.turn().await,
            "A-70" => self.errors().await,
            _ => Err("nothing checks this clause".to_owned()),
        }
    }

    async fn initialize(&mut self, version: u64) -> Result<Value, String> {
        let params = json!({"protocolVersion": version, "clientCapabilities": {}});
        Ok(self.ask("initialize", params).await?.0)
    }

    async fn prompt(&mut self, session: &str, text: &str) -> Result<(Value, Vec<Value>), String> {
        let prompt = json!([{"type": "text", "text": text}]);
        self.ask("session/prompt", json!({"sessionId": session, "prompt": prompt})).await
    }

    /// A turn is told in pieces and ends with a reason.
    async fn turn(&mut self) -> Outcome {
        let session = self.sessions.last().cloned().unwrap_or_default();
        let (answer, told) = self.prompt(&session, SCRIPT).await?;
        require(answer["result"]["stopReason"] == "end_turn", &answer)?;
        let updates = told.iter().map(|line| &line["params"]["update"]);
        let pieces = updates.filter(|update| update["sessionUpdate"] == "agent_message_chunk");
        let text: String = pieces.filter_map(|piece| piece["content"]["text"].as_str()).collect();
        require(text.ends_with(ANSWER), &json!(told))
    }

    async fn errors(&mut self) -> Outcome {
        let answer = self.ask("no/such", json!({})).await?.0;
        require(
            answer["error"]["code"] == METHOD_NOT_FOUND && answer["error"]["message"].is_string(),
            &answer,
        )?;
        let connection = self.connect()?;
        connection.send("{no json").await?;
        loop {
            let line = connection.line().await?;
            if line["id"].is_null() && line["error"].is_object() {
                return require(line["error"]["code"] == PARSE_ERROR, &line);
            }
        }
    }

    /// Sends a request; returns its answer and what was told before it.
    async fn ask(&mut self, method: &str, params: Value) -> Result<(Value, Vec<Value>), String> {
        self.next_id += 1;
        let id = self.next_id;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let connection = self.connect()?;
        connection.send(&request.to_string()).await?;
        let mut told = Vec::new();
        loop {
            let line = connection.line().await?;
            if line["id"] == id && line.get("method").is_none() {
                return Ok((line, told));
            }
            told.push(line);
        }
    }

    fn connect(&mut self) -> Result<&mut Connection, String> {
        let made = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::start(&self.server)?,
        };
        Ok(self.connection.insert(made))
    }

    /// Ends the server as an editor does: by closing its input. Returns the sessions that were made.
    pub(super) async fn end(&mut self) -> Vec<String> {
        if let Some(Connection { mut child, input, .. }) = self.connection.take() {
            drop(input);
            // One that stays is killed when it is dropped.
            let _stays = tokio::time::timeout(ANSWER_WAIT, child.wait()).await;
        }
        std::mem::take(&mut self.sessions)
    }
}

impl Connection {
    fn start(server: &AcpServer) -> Result<Self, String> {
        let mut child = Command::new(&server.program)
            .arg("--socket")
            .arg(&server.socket)
            .args(["acp", "--provider", "scripted"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("obey acp: {error}"))?;
        let missing = || "obey acp: no streams".to_owned();
        let input = child.stdin.take().ok_or_else(missing)?;
        let lines = BufReader::new(child.stdout.take().ok_or_else(missing)?).lines();
        Ok(Self { child, input, lines })
    }

    async fn send(&mut self, line: &str) -> Outcome {
        let sent = self.input.write_all(format!("{line}\n").as_bytes()).await;
        sent.map_err(|error| format!("obey acp: {error}"))
    }

    async fn line(&mut self) -> Result<Value, String> {
        let line = self.lines.next_line().await.map_err(|error| error.to_string())?;
        let line = line.ok_or_else(|| "obey acp ended".to_owned())?;
        serde_json::from_str(&line).map_err(|_| format!("not a line of JSON: {line}"))
    }
}
