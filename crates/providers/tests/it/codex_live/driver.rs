//! Drives one real Codex through its codec and keeps what both sides sent.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use agent_port::Codec;
use domain::request::RequestSubject;
use domain::turn::EndReason;
use domain::{AgentEvent, AgentInput, Decision, Usage};
use providers::codex::Codex;
use serde_json::{Map, Value, json};

use crate::codex_golden::CODEX;
use crate::support::{decode, launch, starting};

/// Long enough for a loaded machine; a healthy answer takes a second.
const PATIENCE: Duration = Duration::from_secs(40);

pub(super) struct Live {
    name: &'static str,
    setup: Value,
    base: tempfile::TempDir,
    pub(super) child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    codec: Box<dyn Codec>,
    record: Vec<Value>,
    pub(super) events: Vec<AgentEvent>,
    pub(super) usage: Usage,
}

/// Returns the program and the model's address.
fn given() -> (PathBuf, String) {
    let given =
        std::env::var_os("OBEY_TEST_CODEX").map(PathBuf::from).zip(std::env::var("OBEY_TEST_MODEL").ok());
    given.unwrap_or_else(|| {
        panic!("OBEY_TEST_CODEX or OBEY_TEST_MODEL is not set; scripts/run-tests sets both")
    })
}

/// Writes the configuration of a Codex whose model is the scripted one.
fn configure(home: &Path, model: &str, more: &str) {
    std::fs::create_dir_all(home).unwrap();
    let config = format!(
        "model = \"gpt-5.5\"\nmodel_provider = \"scripted\"\n{more}\n\
         [model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{model}/v1\"\nenv_key = \"SCRIPTED_KEY\"\n\
         wire_api = \"responses\"\nrequest_max_retries = 0\nstream_max_retries = 0\nsupports_websockets = false\n\
         [features]\nplugins = false\nmulti_agent_v2 = true\n"
    );
    std::fs::write(home.join("config.toml"), config).unwrap();
}

impl Live {
    /// Starts the agent and waits until it is ready.
    pub(super) fn start(name: &'static str, setup: Value) -> Self {
        let base = tempfile::tempdir().unwrap();
        let mut live = Self::begin(name, setup, base);
        live.until(|event| matches!(event, AgentEvent::Ready { .. }));
        live
    }

    /// Starts the agent. A setup with `native_session` resumes a conversation.
    pub(super) fn begin(name: &'static str, setup: Value, base: tempfile::TempDir) -> Self {
        let (program, model) = given();
        let root = base.path();
        for dir in ["home", "tmp", "repo"] {
            std::fs::create_dir_all(root.join(dir)).unwrap();
        }
        configure(&root.join("home/codex"), &model, setup["config"].as_str().unwrap_or_default());
        let mut spec = CODEX.spec(&setup);
        spec.working_dir = root.join("repo");
        let mut state = starting(&spec);
        setup["native_session"].as_str().unwrap_or_default().clone_into(&mut state.native_session);
        state.turns = setup["turns"].as_u64().unwrap_or(0);
        let mut environment: Vec<_> = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("HOME", root.join("home").display().to_string()),
            ("CODEX_HOME", root.join("home/codex").display().to_string()),
            ("TMPDIR", root.join("tmp").display().to_string()),
            ("LANG", "C.UTF-8".to_owned()),
            ("SCRIPTED_KEY", "none".to_owned()),
        ]
        .map(|(key, value)| (key.into(), value.into()))
        .to_vec();
        for (key, value) in setup["environment"].as_object().into_iter().flatten() {
            environment.push((key.into(), value.as_str().unwrap().into()));
        }
        let mut plan = launch(&Codex::new(Some(program)), &spec, &state, environment);
        let mut child = Command::new(&plan.program)
            .args(&plan.args)
            .env_clear()
            .envs(plan.environment)
            .current_dir(root.join("repo"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        let mut stdin = child.stdin.take();
        let mut wire = Vec::new();
        plan.codec.open(&mut wire);
        stdin.as_mut().unwrap().write_all(&wire).unwrap();
        let (record, events, usage) = (Vec::new(), Vec::new(), Usage::default());
        Self { name, setup, base, child, stdin, lines, codec: plan.codec, record, events, usage }
    }

    pub(super) fn tell(&mut self, input: AgentInput) {
        let mut wire = Vec::new();
        self.codec.encode(&input, &mut wire).unwrap();
        self.record.push(json!({"told": input}));
        self.stdin.as_mut().unwrap().write_all(&wire).unwrap();
    }

    pub(super) fn prompt(&mut self, text: &str, script: Value) {
        self.tell(AgentInput::Prompt { text: format!("{text} SCRIPT: {script}"), attachments: Vec::new() });
    }

    /// Handles the agent's lines until a wanted event.
    pub(super) fn until(&mut self, mut wanted: impl FnMut(&AgentEvent) -> bool) -> AgentEvent {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = match self.lines.recv_timeout(left) {
                Ok(line) => line,
                Err(error) => panic!("{}: {error}; so far {:#?}", self.name, self.events),
            };
            let events = self.take(&line);
            if let Some(event) = events.iter().find(|event| wanted(event)) {
                return event.clone();
            }
        }
    }

    fn take(&mut self, line: &str) -> Vec<AgentEvent> {
        let (events, replies) = decode(&mut *self.codec, line.as_bytes());
        self.record.push(json!({"line": serde_json::from_str::<Value>(line).unwrap()}));
        if let Some(stdin) = &mut self.stdin {
            stdin.write_all(&replies).unwrap();
        }
        for event in &events {
            if let AgentEvent::Usage { usage, .. } = event {
                self.usage.add(usage);
            }
        }
        self.events.extend(events.clone());
        events
    }

    /// Waits for the end of the turn.
    pub(super) fn end(&mut self) -> (EndReason, String, String) {
        match self.until(|event| matches!(event, AgentEvent::TurnEnded { .. })) {
            AgentEvent::TurnEnded { reason, text, error } => (reason, text, error),
            other => panic!("{other:?}"),
        }
    }

    /// Waits for a request.
    pub(super) fn asked(&mut self) -> (String, RequestSubject) {
        match self.until(|event| matches!(event, AgentEvent::Asked { .. })) {
            AgentEvent::Asked { native, ask } => (native, ask),
            other => panic!("{other:?}"),
        }
    }

    /// Waits for a permission request and decides it; returns the tool it was about.
    pub(super) fn decide(&mut self, decision: Decision, message: &str) -> String {
        let (native, ask) = self.asked();
        let RequestSubject::Permission(permission) = &ask else { panic!("{ask:?}") };
        let (tool, message) = (permission.tool.clone(), message.to_owned());
        self.tell(AgentInput::Decide { native, decision, message, updated_input: None, ask });
        tool
    }

    /// Waits for the end of a call.
    pub(super) fn finished(&mut self) -> (bool, String) {
        match self.until(|event| matches!(event, AgentEvent::ToolFinished { .. })) {
            AgentEvent::ToolFinished { ok, output, .. } => (ok, output),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    /// Returns the agent's id of the conversation.
    pub(super) fn thread(&self) -> String {
        let ready = self.events.iter().find_map(|event| match event {
            AgentEvent::Ready { native_session, .. } => Some(native_session.clone()),
            _ => None,
        });
        ready.unwrap()
    }

    /// Kills the agent, as a crash would.
    pub(super) fn crash(mut self) -> tempfile::TempDir {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.base
    }

    /// Asks the agent to leave and writes the recording.
    pub(super) fn leave(mut self) -> (tempfile::TempDir, Vec<AgentEvent>) {
        // What is in progress at the end of the last turn belongs to the recording.
        while let Ok(line) = self.lines.recv_timeout(Duration::from_millis(200)) {
            self.take(&line);
        }
        self.tell(AgentInput::Leave);
        drop(self.stdin.take());
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => drop(self.take(&line)),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("{}: it does not leave", self.name),
            }
        }
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        if std::env::var_os("OBEY_RECORD").is_some() && self.name != "unrecorded" {
            self.write();
        }
        (self.base, self.events)
    }

    fn write(&self) {
        let mut text = json!({"setup": self.setup}).to_string() + "\n";
        for entry in &self.record {
            let mut entry = entry.clone();
            if let Some(line) = entry.get_mut("line") {
                trim(line);
            }
            text += &(entry.to_string() + "\n");
        }
        let root = self.base.path().display().to_string();
        let port = std::env::var("OBEY_TEST_MODEL").unwrap().replace("http://", "");
        let text = text.replace(&root, "/example").replace(&port, "127.0.0.1:1");
        std::fs::write(CODEX.folder().join(format!("{}.jsonl", self.name)), text).unwrap();
    }
}

fn lines_of(stdout: std::process::ChildStdout) -> Receiver<String> {
    let (tx, lines) = channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(stdout).lines().map_while(Result::ok);
        lines.take_while(|line| tx.send(line.clone()).is_ok()).count()
    });
    lines
}

/// Drops what is long, specific to the machine, and not used.
fn trim(line: &mut Value) {
    let kept = |value: &mut Value, keys: &[&str]| {
        if let Some(map) = value.as_object_mut() {
            map.retain(|key, _| keys.contains(&key.as_str()));
        }
    };
    drop_times(line);
    kept(&mut line["params"]["thread"], &["id", "parentThreadId", "agentNickname", "preview"]);
    kept(
        &mut line["params"]["threadSettings"],
        &["model", "collaborationMode", "approvalPolicy", "sandboxPolicy"],
    );
    kept(&mut line["params"]["threadSettings"]["collaborationMode"], &["mode"]);
    let result = &mut line["result"];
    kept(&mut result["thread"], &["id", "cliVersion"]);
    kept(&mut result["collaborationMode"], &["mode"]);
    kept(&mut result["config"], &["model", "review_model", "model_provider", "sandbox_workspace_write"]);
    if result["config"].is_object() {
        kept(result, &["config"]);
    }
    if let Some(models) = result["data"].as_array_mut() {
        models.retain(|model| model.get("displayName").is_none() || model["model"] == "gpt-5.5");
        for model in models {
            kept(model, &["id", "model", "itemId", "processId", "command"]);
        }
    }
    drop_nulls(line);
}

fn drop_times(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| {
                !key.ends_with("AtMs") && !matches!(key.as_str(), "startedAt" | "completedAt" | "durationMs")
            });
            map.values_mut().for_each(drop_times);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_times),
        _ => {}
    }
}

/// Removes nulls: indexing above inserted one for every missing field.
fn drop_nulls(value: &mut Value) {
    if let Value::Object(map) = value {
        map.values_mut().for_each(drop_nulls);
        let empty = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
        let answer = map.contains_key("id");
        map.retain(|key, value| !empty(value) || (answer && key == "result"));
    }
}
