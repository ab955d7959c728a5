//! The agent's side of ACP, as little as a session needs. A prompt is a [`Batch`] in JSON: shell lines that are run one
//! after the other, each with a deadline and bounded output; a [`Report`] of them is left in a file, because what an agent
//! says may be scrubbed on its way to the journal.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How long one attempt may take; a probe that waits for what never comes is cut off.
const ATTEMPT_TIME: Duration = Duration::from_secs(20);
/// How much of an attempt's output is kept.
const OUTPUT_MAX: u64 = 256 * 1024;
/// How long the agent waits for its batch to be released.
const RELEASE_TIME: Duration = Duration::from_secs(120);
/// How often a file or a process is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// What a prompt wants done.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Batch {
    /// What the agent says first.
    pub say: String,
    /// Whether a permission is asked for first, and waited for at the end.
    pub ask: bool,
    /// Nothing is run before this file exists; empty: at once.
    pub release: String,
    /// Where the report is left.
    pub report: PathBuf,
    /// Variables of every attempt. `$OBEY_DAEMON_SOCKET` in a value stands for what the agent was given as that.
    pub variables: BTreeMap<String, String>,
    pub attempts: Vec<Attempt>,
}

/// One shell line; or `acp:METHOD PARAMETERS`, a request to the client with the variables filled in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attempt {
    pub name: String,
    pub run: String,
}

/// What became of an attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub name: String,
    /// `None` where it was killed or did not end in time.
    pub code: Option<i32>,
    pub output: String,
}

/// What became of a batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The agent's number where it runs.
    pub pid: u32,
    pub outcomes: Vec<Outcome>,
}

type Output = Arc<Mutex<std::io::Stdout>>;

/// Serves ACP on standard input and output until input ends.
pub(super) fn serve() -> Result<()> {
    let output: Output = Arc::new(Mutex::new(std::io::stdout()));
    let (answers, answered) = mpsc::channel();
    let answered = Arc::new(Mutex::new(answered));
    for line in std::io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else { continue };
        match message["method"].as_str() {
            Some(method) => take(method.to_owned(), &message, &output, &answers, &answered)?,
            // A refusal is told whole.
            None if message["result"].is_null() => drop(answers.send(message)),
            None => drop(answers.send(message["result"].clone())),
        }
    }
    Ok(())
}

fn take(
    method: String,
    message: &Value,
    output: &Output,
    answers: &Sender<Value>,
    answered: &Arc<Mutex<Receiver<Value>>>,
) -> Result<()> {
    let id = message["id"].clone();
    let result = match method.as_str() {
        "initialize" => json!({
            "protocolVersion": 1, "agentCapabilities": {},
            "agentInfo": {"name": "hostile-agent", "version": "1"},
        }),
        "session/new" => json!({"sessionId": "hostile"}),
        "session/prompt" => {
            let text = message["params"]["prompt"].to_string();
            let prompt = message["params"]["prompt"].as_array().into_iter().flatten();
            let text =
                prompt.filter_map(|part| part["text"].as_str()).next_back().map_or(text, str::to_owned);
            let (output, answered) = (Arc::clone(output), Arc::clone(answered));
            std::thread::spawn(move || {
                let result = turn(&text, &output, &answered);
                let reply = match result {
                    Ok(()) => json!({"jsonrpc": "2.0", "id": id, "result": {"stopReason": "end_turn"}}),
                    Err(error) => {
                        let error = json!({"code": -32603, "message": format!("{error:#}")});
                        json!({"jsonrpc": "2.0", "id": id, "error": error})
                    }
                };
                let _ = write(&output, &reply);
            });
            return Ok(());
        }
        "session/cancel" => {
            // Whoever waits for an answer waits no longer.
            let _ = answers.send(Value::Null);
            return Ok(());
        }
        _ => json!({}),
    };
    if id.is_null() {
        return Ok(());
    }
    write(output, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn write(output: &Output, message: &Value) -> Result<()> {
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(output, "{message}")?;
    Ok(output.flush()?)
}

fn turn(text: &str, output: &Output, answered: &Mutex<Receiver<Value>>) -> Result<()> {
    let (Some(start), Some(end)) = (text.find('{'), text.rfind('}')) else {
        return update(output, "nothing to do");
    };
    let batch: Batch = serde_json::from_str(&text[start..=end]).context("the prompt is no batch")?;
    if !batch.say.is_empty() {
        update(output, &batch.say)?;
    }
    if batch.ask {
        let call = json!({
            "toolCallId": "own", "title": "Run: id", "kind": "execute", "status": "pending",
            "rawInput": {"command": "id"},
        });
        let options = json!([
            {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
            {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
        ]);
        let params = json!({"sessionId": "hostile", "toolCall": call, "options": options});
        let request =
            json!({"jsonrpc": "2.0", "id": "ask", "method": "session/request_permission", "params": params});
        write(output, &request)?;
    }
    wait_for(Path::new(&batch.release))?;
    let folder = batch.report.parent().unwrap_or(Path::new(".")).to_owned();
    let socket = std::env::var("OBEY_DAEMON_SOCKET").unwrap_or_default();
    let given = batch.variables.iter();
    let given = given.map(|(name, value)| (name.clone(), value.replace("$OBEY_DAEMON_SOCKET", &socket)));
    let variables: BTreeMap<String, String> = given.collect();
    let outcomes = batch.attempts.iter().map(|attempt| match attempt.run.strip_prefix("acp:") {
        Some(request) => ask_client(attempt, request, &variables, output, answered),
        None => run(attempt, &variables, &folder),
    });
    let report = Report { pid: std::process::id(), outcomes: outcomes.collect() };
    // Renamed, so that whoever waits for it finds it whole.
    let unfinished = batch.report.with_extension("unfinished");
    fs::write(&unfinished, serde_json::to_vec(&report)?).context("writing the report")?;
    fs::rename(&unfinished, &batch.report)?;
    if batch.ask {
        let answer = answered.lock().unwrap_or_else(PoisonError::into_inner).recv().unwrap_or_default();
        update(output, &format!("answered: {answer}"))?;
    }
    update(output, "done")
}

/// Asks the client for something and reports its answer.
fn ask_client(
    attempt: &Attempt,
    request: &str,
    variables: &BTreeMap<String, String>,
    output: &Output,
    answered: &Mutex<Receiver<Value>>,
) -> Outcome {
    let (method, params) = request.split_once(' ').unwrap_or((request, "{}"));
    // Longer names first: one may begin like another.
    let mut known: Vec<_> = variables.iter().collect();
    known.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    let params = known
        .into_iter()
        .fold(params.to_owned(), |params, (name, value)| params.replace(&format!("${name}"), value));
    let answer = || -> Result<String> {
        let mut params: Value = serde_json::from_str(&params).context(params.clone())?;
        params["sessionId"] = "hostile".into();
        write(output, &json!({"jsonrpc": "2.0", "id": attempt.name, "method": method, "params": params}))?;
        let answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(answered.recv_timeout(ATTEMPT_TIME)?.to_string())
    };
    let said = answer().unwrap_or_else(|error| format!("not answered: {error:#}"));
    Outcome { name: attempt.name.clone(), code: None, output: said }
}

fn update(output: &Output, text: &str) -> Result<()> {
    let update = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
    let params = json!({"sessionId": "hostile", "update": update});
    write(output, &json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
}

fn wait_for(release: &Path) -> Result<()> {
    let started = Instant::now();
    while !release.as_os_str().is_empty() && !release.exists() {
        anyhow::ensure!(started.elapsed() < RELEASE_TIME, "{} did not appear", release.display());
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn run(attempt: &Attempt, variables: &BTreeMap<String, String>, folder: &Path) -> Outcome {
    let outcome = try_run(attempt, variables, &folder.join("attempt.out"));
    let (code, output) = outcome.unwrap_or_else(|error| (None, format!("not run: {error:#}")));
    Outcome { name: attempt.name.clone(), code, output }
}

/// Output goes to a file: a pipe would be held open by whatever an attempt leaves behind.
fn try_run(
    attempt: &Attempt,
    variables: &BTreeMap<String, String>,
    file: &Path,
) -> Result<(Option<i32>, String)> {
    let _ = fs::remove_file(file);
    let out = File::options().create_new(true).append(true).open(file)?;
    let mut child = Command::new("/bin/sh")
        .args(["-c", &attempt.run])
        .envs(variables)
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        .process_group(0)
        .spawn()?;
    let started = Instant::now();
    let code = loop {
        if let Some(status) = child.try_wait()? {
            break status.code();
        }
        if started.elapsed() > ATTEMPT_TIME {
            if let Some(group) = Pid::from_raw(child.id() as i32) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            break None;
        }
        std::thread::sleep(LOOK);
    };
    let mut bytes = Vec::new();
    File::open(file)?.take(OUTPUT_MAX).read_to_end(&mut bytes)?;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if code.is_none() && started.elapsed() > ATTEMPT_TIME {
        text.push_str("\nDID NOT END IN TIME");
    }
    Ok((code, text))
}
