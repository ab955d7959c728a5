//! Drives one real Claude Code through its codec and keeps what both sides sent.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use agent_port::Codec;
use domain::request::RequestSubject;
use domain::turn::EndReason;
use domain::{AgentEvent, AgentInput, Decision, Usage};
use providers::claude_code::ClaudeCode;
use serde_json::{Value, json};

use crate::claude_golden::CLAUDE;
use crate::support::{decode, launch, starting};

/// Long enough for a loaded machine; a healthy answer takes a second.
const PATIENCE: Duration = Duration::from_secs(40);

pub(super) struct Live {
    name: &'static str,
    setup: Value,
    base: tempfile::TempDir,
    child: Child,
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
        std::env::var_os("OBEY_TEST_CLAUDE").map(PathBuf::from).zip(std::env::var("OBEY_TEST_MODEL").ok());
    given.unwrap_or_else(|| {
        panic!("OBEY_TEST_CLAUDE or OBEY_TEST_MODEL is not set; scripts/run-tests sets both")
    })
}

impl Live {
    /// Starts the agent and waits until it is ready.
    pub(super) fn start(name: &'static str, setup: Value) -> Self {
        let base = tempfile::tempdir().unwrap();
        Self::start_in(name, setup, base, "")
    }

    pub(super) fn start_in(name: &'static str, setup: Value, base: tempfile::TempDir, native: &str) -> Self {
        let (program, model) = given();
        let root = base.path();
        for dir in ["home", "tmp", "repo"] {
            std::fs::create_dir_all(root.join(dir)).unwrap();
        }
        let mut spec = CLAUDE.spec(&setup);
        spec.working_dir = root.join("repo");
        let mut state = starting(&spec);
        native.clone_into(&mut state.native_session);
        // A later run of the same session: the agent ignores a message whose id it has seen.
        state.turns = u64::from(!native.is_empty());
        let mut environment: Vec<_> = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("HOME", root.join("home").display().to_string()),
            ("TMPDIR", root.join("tmp").display().to_string()),
            ("LANG", "C.UTF-8".to_owned()),
            ("ANTHROPIC_BASE_URL", model),
            ("ANTHROPIC_API_KEY", "none".to_owned()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
            ("CLAUDE_CODE_MAX_RETRIES", "1".to_owned()),
        ]
        .map(|(key, value)| (key.into(), value.into()))
        .to_vec();
        for (key, value) in setup["environment"].as_object().into_iter().flatten() {
            environment.push((key.into(), value.as_str().unwrap().into()));
        }
        let mut plan = launch(&ClaudeCode::new(Some(program)), &spec, &state, environment);
        let mut child = Command::new(&plan.program)
            .args(&plan.args)
            .env_clear()
            .envs(plan.environment)
            .current_dir(root.join("repo"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let (tx, lines) = channel();
        let stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            BufReader::new(stdout)
                .lines()
                .map_while(Result::ok)
                .take_while(|line| tx.send(line.clone()).is_ok())
                .count()
        });
        let mut stdin = child.stdin.take();
        let mut wire = Vec::new();
        plan.codec.open(&mut wire);
        stdin.as_mut().unwrap().write_all(&wire).unwrap();
        let record = Vec::new();
        let (events, usage) = (Vec::new(), Usage::default());
        let mut live =
            Self { name, setup, base, child, stdin, lines, codec: plan.codec, record, events, usage };
        live.until(|event| matches!(event, AgentEvent::Ready { .. }));
        live
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
            let (events, replies) = decode(&mut *self.codec, line.as_bytes());
            self.record.push(json!({"line": serde_json::from_str::<Value>(&line).unwrap()}));
            self.stdin.as_mut().unwrap().write_all(&replies).unwrap();
            for event in &events {
                if let AgentEvent::Usage { usage, .. } = event {
                    self.usage.add(usage);
                }
            }
            let found = events.iter().find(|event| wanted(event)).cloned();
            self.events.extend(events);
            if let Some(event) = found {
                return event;
            }
        }
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

    pub(super) fn decide(&mut self, decision: Decision, message: &str) {
        let (native, ask) = self.asked();
        let message = message.to_owned();
        self.tell(AgentInput::Decide { native, decision, message, updated_input: None, ask });
    }

    /// What any user of the machine can read of it.
    pub(super) fn command_line(&self) -> String {
        let bytes = std::fs::read(format!("/proc/{}/cmdline", self.child.id())).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Asks the agent to leave and writes the recording.
    pub(super) fn leave(mut self) -> (tempfile::TempDir, Vec<AgentEvent>) {
        self.tell(AgentInput::Leave);
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            let (events, _) = decode(&mut *self.codec, line.as_bytes());
            self.record.push(json!({"line": serde_json::from_str::<Value>(&line).unwrap()}));
            self.events.extend(events);
        }
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().code().is_some());
        if std::env::var_os("OBEY_RECORD").is_some() && self.name != "unrecorded" {
            self.write();
        }
        (self.base, self.events)
    }

    fn write(&self) {
        let mut text = json!({"setup": self.setup}).to_string() + "\n";
        for entry in &self.record {
            let mut entry = entry.clone();
            trim(&mut entry["line"]);
            if entry["line"].is_null() {
                entry.as_object_mut().unwrap().remove("line");
            }
            text += &(entry.to_string() + "\n");
        }
        let root = self.base.path().display().to_string();
        let slug = root.replace(['/', '.'], "-");
        let text = text.replace(&root, "/example").replace(&slug, "-example");
        let port = std::env::var("OBEY_TEST_MODEL").unwrap().replace("http://", "");
        std::fs::write(
            CLAUDE.folder().join(format!("{}.jsonl", self.name)),
            text.replace(&port, "127.0.0.1:1"),
        )
        .unwrap();
    }
}

/// Drops what is long, specific to the machine, and not used.
fn trim(line: &mut Value) {
    let Some(map) = line.as_object_mut() else { return };
    for key in
        ["tools", "agents", "skills", "memory_paths", "messaging_socket_path", "subagent_stats", "plugins"]
    {
        map.remove(key);
    }
    map.retain(|key, _| !key.starts_with("fast_mode") && (!key.ends_with("_ms") || key == "retry_delay_ms"));
    for list in ["slash_commands", "terminal_slash_commands"] {
        if let Some(list) = map.get_mut(list).and_then(Value::as_array_mut) {
            list.truncate(2);
        }
    }
    let answer = &mut line["response"]["response"];
    if answer.get("claude_code_version").is_some() {
        for list in ["commands", "models"] {
            answer[list].as_array_mut().unwrap().truncate(2);
        }
        let kept = ["commands", "models", "claude_code_version", "current_permission_mode"];
        answer.as_object_mut().unwrap().retain(|key, _| kept.contains(&key.as_str()));
    }
    if line["response"].is_null() {
        line.as_object_mut().unwrap().remove("response");
    }
}
