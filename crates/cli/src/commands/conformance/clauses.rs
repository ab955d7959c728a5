//! The clauses that can be checked from outside, by their ids in docs/spec/conformance.md. Each check uses the public
//! interfaces only, so that it holds for any daemon.

use std::path::PathBuf;

use client::connection::Client;
use serde_json::{Value, json};

use super::acp::{AcpProbe, AcpServer};
use super::agent::AgentProbe;
use super::request::{Answer, Target};

/// A clause of the specification.
pub(super) struct Clause {
    pub(super) id: &'static str,
    pub(super) text: &'static str,
}

const fn clause(id: &'static str, text: &'static str) -> Clause {
    Clause { id, text }
}

/// What is checked, in this order.
pub(super) const CLAUSES: &[Clause] = &[
    clause("L-10", "Ping answers"),
    clause("L-11", "GetState answers"),
    clause("L-20", "CreateSession needs a registered campaign"),
    clause("L-40", "GetSession of an unknown id is OBEY-2010"),
    clause("L-43", "ListSessions answers"),
    clause("L-50", "SendMessage to an unknown session is OBEY-2010"),
    clause("L-78", "StopSession of an unknown session is OBEY-2010"),
    clause("L-07", "ReportCampaignEvent registers a campaign"),
    clause("L-34", "CreateSession answers with the session, RUNNING"),
    clause("L-53", "SendMessage streams a turn to its end"),
    clause("L-56", "calls and results carry tool, id and success"),
    clause("L-55", "the last event is COMPLETION, with the answer and the tokens"),
    clause("L-41", "GetSession counts the tokens"),
    clause("L-64", "an empty message is refused"),
    clause("L-77", "StopSession answers with the session, STOPPED"),
    clause("L-51", "SendMessage to a session that has ended is OBEY-2011"),
    clause("L-79", "StopSession of a session that has ended is OBEY-2020"),
    clause("A-01", "initialize answers protocol version 1"),
    clause("A-03", "there are no authentication methods"),
    clause("A-04", "another version is answered with 1"),
    clause("A-05", "a session wants an absolute folder"),
    clause("A-07", "every session has an id of its own"),
    clause("A-09", "a prompt to an unknown session is refused"),
    clause("A-11", "a turn is told in pieces and ends with a reason"),
    clause("A-70", "errors have the codes of the contract"),
    clause("B-13", "SessionInfo answers a start"),
    clause("B-16", "a message is a turn that ends with TurnComplete"),
    clause("B-10", "a conversation begins with a start, else a fatal error"),
    clause("B-30", "ListSessions has pages and a total"),
    clause("B-41", "calls about sessions that are not there are refused"),
    clause("Z-15", "Pong answers Ping"),
    clause("Z-01", "what comes before a start is no_session"),
    clause("Z-03", "an unknown environment is invalid_argument"),
    clause("Z-54", "ids of tasks are validated"),
    clause("C-05", "errors are JSON with a code and a status"),
    clause("C-06", "/health, /openapi.json and /docs are served"),
    clause("C-07", "TOOL.md and the schemas are served"),
    clause("C-40", "session_id is required; a session is started"),
    clause("C-21", "no network in commands"),
    clause("C-22", "a command that fails is an answer"),
    clause("C-23", "a time-out ends a command and is an answer"),
    clause("C-25", "previews of 500 characters and refs to the rest"),
    clause("C-26", "refs belong to their session"),
    clause("C-27", "paths resolve beneath the project's root"),
    clause("C-28", "secrets are removed from output"),
    clause("C-44", "memories are found in other words"),
    clause("C-46", "feedback moves confidence"),
    clause("C-48", "checkpoints have three levels"),
    clause("C-60", "policies are checked, with reasons and suggestions"),
    clause("C-61", "policies are enforced in commands"),
    clause("C-62", "skills are created, read, changed and deleted"),
    clause("C-64", "errors are found by similarity"),
    clause("C-67", "foreign hosts and origins are refused"),
];

/// What came of a check.
#[derive(Debug)]
pub(super) enum Verdict {
    Held,
    /// What was seen instead.
    Failed(String),
    /// Why it does not apply here.
    Skipped(&'static str),
}

impl Verdict {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Failed(_) => "failed",
            Self::Skipped(_) => "skipped",
        }
    }

    pub(super) fn detail(&self) -> &str {
        match self {
            Self::Held => "",
            Self::Failed(seen) => seen,
            Self::Skipped(why) => why,
        }
    }
}

/// The outcome of a check: an error says what was seen instead.
type Outcome = Result<(), String>;

/// The daemon under test and the session the checks work in.
pub(super) struct Probe {
    target: Target,
    client: Client,
    project: PathBuf,
    session: String,
    agent: AgentProbe,
    /// None where the daemon is not this user's.
    acp: Option<AcpProbe>,
}

/// Requires a condition; otherwise shows the answer.
fn expect(condition: bool, answer: &Answer) -> Outcome {
    if condition {
        return Ok(());
    }
    let body: String = answer.body.chars().take(200).collect();
    Err(format!("status {}: {body}", answer.status))
}

impl Probe {
    pub(super) fn new(target: Target, client: Client, project: PathBuf, acp: Option<AcpServer>) -> Self {
        let (session, agent, acp) = (String::new(), AgentProbe::default(), acp.map(AcpProbe::new));
        Self { target, client, project, session, agent, acp }
    }

    pub(super) async fn get(&self, path: &str) -> Result<Answer, String> {
        self.target.send("GET", path, &[], None).await
    }

    /// Calls an operation in the session of the checks.
    async fn call(&self, path: &str, mut input: Value) -> Result<Answer, String> {
        input["session_id"] = json!(self.session);
        self.target.send("POST", &format!("/api/v1/{path}"), &[], Some(&input)).await
    }

    async fn bash(&self, command: &str) -> Result<Answer, String> {
        self.call("safeexec/bash", json!({"cmd": command, "timeout": 20})).await
    }

    async fn start(&self) -> Result<String, String> {
        let input = json!({"project_path": self.project});
        let answer = self.target.send("POST", "/api/v1/session/start", &[], Some(&input)).await?;
        let id = answer.json()["session_id"].as_str().unwrap_or_default().to_owned();
        expect(id.starts_with("sess_"), &answer).map(|()| id)
    }

    /// Ends what was made for the checks; a session of the workbench that stays expires.
    pub(super) async fn end(&mut self) {
        let editors = match &mut self.acp {
            Some(acp) => acp.end().await,
            None => Vec::new(),
        };
        self.agent.end(&self.client, &editors).await;
        let _expires = self.call("session/end", json!({"outcome": "success"})).await;
    }
}

/// Checks a clause.
pub(super) async fn check(id: &str, probe: &mut Probe) -> Verdict {
    if id == "C-67" && matches!(probe.target, Target::Unix(_)) {
        return Verdict::Skipped("over TCP only; name the daemon with --address");
    }
    if let Some(verdict) = super::grpc::check(id, &probe.client).await {
        return verdict;
    }
    if let Some(verdict) = probe.agent.check(id, &probe.client, &probe.project).await {
        return verdict;
    }
    if id.starts_with("A-") {
        return match &mut probe.acp {
            Some(_) if probe.agent.is_missing() => Verdict::Skipped(super::agent::NO_AGENT),
            Some(acp) => acp.check(id, &probe.project).await,
            None => Verdict::Skipped("the daemon of this user only; leave out --address"),
        };
    }
    let outcome = match id {
        "C-05" => errors_are_json(probe).await,
        "C-06" => documents(probe).await,
        "C-07" => schemas(probe).await,
        "C-40" => sessions(probe).await,
        "C-21" => no_network(probe).await,
        "C-22" => failing_command(probe).await,
        "C-23" => timeout(probe).await,
        "C-25" => previews(probe).await,
        "C-26" => refs(probe).await,
        "C-27" => paths(probe).await,
        "C-28" => secrets(probe).await,
        "C-44" => memories(probe).await,
        "C-46" => feedback(probe).await,
        "C-48" => checkpoints(probe).await,
        "C-60" => policies(probe).await,
        "C-61" => enforcement(probe).await,
        "C-62" => skills(probe).await,
        "C-64" => remediations(probe).await,
        "C-67" => foreign_callers(probe).await,
        _ => Err("nothing checks this clause".to_owned()),
    };
    outcome.map_or_else(Verdict::Failed, |()| Verdict::Held)
}

async fn errors_are_json(probe: &Probe) -> Outcome {
    let answer = probe.target.send("POST", "/api/v1/no/such", &[], Some(&json!({}))).await?;
    expect(answer.status == 404 && answer.json()["error"].is_string(), &answer)?;
    let answer = probe.target.send("POST", "/api/v1/safeexec/bash", &[], Some(&json!({"cmd": 5}))).await?;
    let body = answer.json();
    expect(answer.status == 400 && body["code"].is_string() && body["status"] == 400, &answer)
}

async fn documents(probe: &Probe) -> Outcome {
    let health = probe.get("/health").await?;
    expect(health.status == 200 && health.json()["status"].is_string(), &health)?;
    let document = probe.get("/openapi.json").await?;
    expect(document.json()["openapi"].is_string() && document.json()["paths"].is_object(), &document)?;
    let docs = probe.get("/docs").await?;
    expect(docs.status == 200, &docs)
}

async fn schemas(probe: &Probe) -> Outcome {
    let text = probe.get("/tools/TOOL.md").await?;
    expect(text.status == 200 && text.body.contains("safe_bash"), &text)?;
    let whole = probe.get("/tools/schema.json").await?;
    expect(whole.json()["SafeExec.Bash"]["input"].is_object(), &whole)?;
    let one = probe.get("/tools/schema/safe_bash.json").await?;
    expect(one.json() == whole.json()["SafeExec.Bash"], &one)
}

async fn sessions(probe: &mut Probe) -> Outcome {
    let without =
        probe.target.send("POST", "/api/v1/safeexec/bash", &[], Some(&json!({"cmd": "true"}))).await?;
    expect(without.status == 400 && without.body.contains("session_id"), &without)?;
    probe.session = probe.start().await?;
    Ok(())
}

async fn no_network(probe: &Probe) -> Outcome {
    let answer = probe.bash("exec 3<>/dev/tcp/192.0.2.1/53 && echo reached").await?;
    let body = answer.json();
    let reached = body["stdout_preview"].as_str().unwrap_or_default().contains("reached");
    expect(answer.status == 200 && body["exit_code"] != 0 && !reached, &answer)
}

async fn failing_command(probe: &Probe) -> Outcome {
    let answer = probe.bash("echo out; echo err >&2; exit 3").await?;
    let body = answer.json();
    let streams = body["stdout_preview"] == "out\n" && body["stderr_preview"] == "err\n";
    expect(answer.status == 200 && body["exit_code"] == 3 && streams, &answer)
}

async fn timeout(probe: &Probe) -> Outcome {
    let answer = probe.call("safeexec/bash", json!({"cmd": "sleep 20", "timeout": 1})).await?;
    let code = answer.json()["exit_code"].as_i64().unwrap_or(0);
    expect(answer.status == 200 && code != 0, &answer)
}

async fn long_output(probe: &Probe) -> Result<(Answer, String), String> {
    let answer = probe.bash("seq 1 2000").await?;
    let id = answer.json()["stdout_ref"].as_str().unwrap_or_default().to_owned();
    expect(!id.is_empty(), &answer)?;
    Ok((answer, id))
}

async fn previews(probe: &Probe) -> Outcome {
    let (answer, id) = long_output(probe).await?;
    let body = answer.json();
    let preview = body["stdout_preview"].as_str().unwrap_or_default().chars().count();
    expect((1..=500).contains(&preview) && body["tokens_used"].as_i64() > Some(0), &answer)?;
    let whole = probe.call("ref/content", json!({"ref_id": id})).await?;
    expect(whole.json()["content"].as_str().is_some_and(|text| text.lines().count() == 2000), &whole)
}

async fn refs(probe: &Probe) -> Outcome {
    let (_, id) = long_output(probe).await?;
    let other = probe.start().await?;
    let input = json!({"ref_id": id, "session_id": other});
    let answer = probe.target.send("POST", "/api/v1/ref/content", &[], Some(&input)).await?;
    expect((400..500).contains(&answer.status), &answer)
}

async fn paths(probe: &Probe) -> Outcome {
    for path in ["../../../../etc/passwd", "/etc/passwd"] {
        let answer = probe.call("safeexec/read", json!({"path": path})).await?;
        expect((400..500).contains(&answer.status), &answer)?;
        let answer = probe.call("safeexec/write", json!({"path": path, "content": "x"})).await?;
        expect((400..500).contains(&answer.status), &answer)?;
    }
    let answer = probe.call("safeexec/write", json!({"path": "a/b.txt", "content": "one\ntwo\n"})).await?;
    expect(answer.json()["bytes_written"] == 8, &answer)?;
    let answer = probe.call("safeexec/read", json!({"path": "a/b.txt", "offset": 2, "limit": 1})).await?;
    let body = answer.json();
    expect(
        body["content_preview"].as_str().unwrap_or_default().trim() == "two" && body["total_lines"] == 2,
        &answer,
    )?;
    let answer = probe.call("safeexec/read", json!({"path": "no/such.txt"})).await?;
    expect(answer.status == 404, &answer)
}

async fn secrets(probe: &Probe) -> Outcome {
    // Put together at run time, so that no file holds what looks like a key.
    let secret = ["ghp_", "aB3dE5", "fG7hJ9", "kL1mN2", "pQ4rS6", "tU8vW0", "xY1zA2"].concat();
    let answer = probe.bash(&format!("echo token={secret}")).await?;
    expect(answer.status == 200 && !answer.body.contains(&secret), &answer)
}

async fn memories(probe: &Probe) -> Outcome {
    let stored = json!({"title": "Postgres refuses connections", "content": "Use a pool of connections", "outcome": "success"});
    let answer = probe.call("memory/store", stored).await?;
    let id = answer.json()["id"].clone();
    expect(id.is_string(), &answer)?;
    let answer = probe.call("memory/search", json!({"query": "database rejects new sessions"})).await?;
    let body = answer.json();
    let found = body["memories"].as_array().into_iter().flatten().any(|memory| memory["id"] == id);
    expect(found, &answer)
}

async fn feedback(probe: &Probe) -> Outcome {
    let stored = json!({"title": "A lesson", "content": "of the conformance checks"});
    let answer = probe.call("memory/store", stored).await?;
    let input = json!({"memory_id": answer.json()["id"], "helpful": false, "comment": "outdated"});
    let first = probe.call("memory/feedback", input.clone()).await?;
    let second = probe.call("memory/feedback", input).await?;
    let value = |answer: &Answer| answer.json()["new_confidence"].as_f64().unwrap_or(-1.0);
    expect(value(&first) >= 0.0 && value(&second) < value(&first), &second)
}

async fn checkpoints(probe: &Probe) -> Outcome {
    let saved = probe.call("checkpoint/save", json!({"summary": "half done", "tags": ["check"]})).await?;
    let id = saved.json()["checkpoint_id"].clone();
    expect(id.is_string(), &saved)?;
    let list = probe.call("checkpoint/list", json!({})).await?;
    let body = list.json();
    expect(body["checkpoints"].as_array().into_iter().flatten().any(|one| one["id"] == id), &list)?;
    for level in ["summary", "context", "full"] {
        let answer = probe.call("checkpoint/resume", json!({"checkpoint_id": id, "level": level})).await?;
        expect(answer.json()["summary"] == "half done", &answer)?;
    }
    Ok(())
}

async fn policies(probe: &Probe) -> Outcome {
    let answer = probe.call("policy/check", json!({"action": "rm -rf /"})).await?;
    let body = answer.json();
    expect(body["compliant"] == false && body["violations"][0]["reason"].is_string(), &answer)?;
    let answer = probe.call("policy/check", json!({"action": "ls"})).await?;
    expect(answer.json()["compliant"] == true, &answer)
}

async fn enforcement(probe: &Probe) -> Outcome {
    let answer = probe.bash("rm -rf /").await?;
    expect((400..500).contains(&answer.status), &answer)
}

async fn skills(probe: &Probe) -> Outcome {
    let made = json!({"name": "conformance-check", "description": "d", "steps": ["one"]});
    let answer = probe.call("skill", made).await?;
    let id = answer.json()["id"].as_str().unwrap_or_default().to_owned();
    expect(!id.is_empty(), &answer)?;
    let path = format!("/api/v1/skill/{id}?session_id={}", probe.session);
    let input = json!({"description": "changed", "session_id": probe.session});
    let answer = probe.target.send("PUT", &format!("/api/v1/skill/{id}"), &[], Some(&input)).await?;
    expect(answer.status == 200, &answer)?;
    let answer = probe.get(&path).await?;
    expect(answer.json()["description"] == "changed" && answer.json()["steps"][0] == "one", &answer)?;
    let answer = probe.target.send("DELETE", &path, &[], None).await?;
    expect(answer.status == 200, &answer)?;
    let answer = probe.get(&path).await?;
    expect(answer.status == 404, &answer)
}

async fn remediations(probe: &Probe) -> Outcome {
    let record = json!({"title": "Port in use", "problem": "bind: address already in use 127.0.0.1:8080", "solution": "Stop it"});
    let answer = probe.call("remediation/record", record).await?;
    let id = answer.json()["id"].clone();
    expect(id.is_string(), &answer)?;
    let answer = probe
        .call("remediation/search", json!({"error": "bind: address already in use 127.0.0.1:9090"}))
        .await?;
    expect(answer.json()["remediations"][0]["id"] == id, &answer)
}

async fn foreign_callers(probe: &Probe) -> Outcome {
    for headers in [[("Host", "evil.example")], [("Origin", "https://evil.example")]] {
        let input = json!({"project_path": probe.project});
        let answer = probe.target.send("POST", "/api/v1/session/start", &headers, Some(&input)).await?;
        expect(answer.status == 403, &answer)?;
    }
    Ok(())
}
