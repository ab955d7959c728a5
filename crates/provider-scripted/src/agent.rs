//! The scripted agent itself, a plain blocking program: one thread reads its input, so that an interrupt is
//! noticed at any time, and the main thread plays the script. Uses only its standard streams.

mod client_tools;

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::time::Duration;

use agent_port::BridgeServer;
use domain::request::{PermissionSubject, Question, QuestionOption, RequestSubject};
use domain::turn::EndReason;
use domain::{CallId, Mode};
use serde_json::Value;

use super::script::{self, ScriptStep, TextPieces};
use super::wire::{FromScriptedAgent, StartMessage, ToScriptedAgent};
use super::{SUBCOMMAND, demo};
use crate::limits;
use provider_common::text::one_line;

/// Runs the agent until it is asked to leave, its input ends or its script ends it; returns its exit code.
pub fn run_agent(stdin: impl Read + Send + 'static, stdout: impl Write) -> i32 {
    let (tx, inbox) = sync_channel(limits::SCRIPTED_INBOX_MAX);
    std::thread::spawn(move || {
        for line in BufReader::new(stdin).split(b'\n') {
            let Ok(line) = line else { break };
            if let Ok(told) = serde_json::from_slice(&line)
                && tx.send(told).is_err()
            {
                break;
            }
        }
    });
    let mut agent = ScriptedAgent {
        inbox,
        out: BufWriter::new(stdout),
        mode: Mode::Supervised,
        later: VecDeque::new(),
        said: String::new(),
        calls: 0,
        asks: 0,
        tools: Vec::new(),
    };
    match agent.live() {
        Err(ScriptStop::Exit(code)) => code,
        Ok(()) | Err(ScriptStop::Interrupted) => 0,
    }
}

/// Why the agent stops what it is doing.
#[derive(Debug, PartialEq)]
pub(super) enum ScriptStop {
    /// The turn ends.
    Interrupted,
    /// The agent exits.
    Exit(i32),
}

/// There is no reader of its output any more.
impl From<std::io::Error> for ScriptStop {
    fn from(_: std::io::Error) -> Self {
        Self::Exit(0)
    }
}

/// How a request was settled.
pub(super) enum RequestOutcome {
    Allowed,
    Denied { message: String, stop: bool },
    Answered(std::collections::BTreeMap<String, String>),
    Returned { ok: bool, output: String },
}

/// The agent's state and streams.
pub(super) struct ScriptedAgent<W: Write> {
    inbox: Receiver<ToScriptedAgent>,
    out: BufWriter<W>,
    pub(super) mode: Mode,
    /// Inputs that came too early: handled when the turn has ended.
    later: VecDeque<ToScriptedAgent>,
    /// The text of the turn since its last call, which is what agents report as their answer.
    said: String,
    calls: u64,
    asks: u64,
    /// Tools that clients run for it.
    tools: Vec<(String, bool)>,
}

impl<W: Write> ScriptedAgent<W> {
    /// Handles inputs one after the other until the agent exits.
    fn live(&mut self) -> Result<(), ScriptStop> {
        loop {
            let told = match self.later.pop_front() {
                Some(told) => told,
                None => self.inbox.recv().map_err(|_| ScriptStop::Exit(0))?,
            };
            match told {
                ToScriptedAgent::Start(start) => self.start(start)?,
                ToScriptedAgent::Prompt { text, attachments } => self.turn(&text, &attachments)?,
                // Too late to be added to a turn: it is a new one.
                ToScriptedAgent::Steer { text } => self.turn(&text, &[])?,
                ToScriptedAgent::Compact => {
                    self.say(&FromScriptedAgent::TurnStarted)?;
                    let done = self.step(&ScriptStep::Compact);
                    self.end(done)?;
                }
                ToScriptedAgent::Mode { mode } => self.mode = mode,
                ToScriptedAgent::Tools { tools } => self.tools = tools,
                ToScriptedAgent::Leave => return Ok(()),
                ToScriptedAgent::Outlive => self.outlive()?,
                ToScriptedAgent::Interrupt
                | ToScriptedAgent::Decide { .. }
                | ToScriptedAgent::Answer { .. }
                | ToScriptedAgent::ToolResult { .. } => {}
            }
        }
    }

    fn start(&mut self, start: StartMessage) -> Result<(), ScriptStop> {
        self.mode = start.mode;
        match self.rest(Duration::from_millis(start.startup_delay_ms)) {
            Err(ScriptStop::Exit(code)) => return Err(ScriptStop::Exit(code)),
            Ok(()) | Err(ScriptStop::Interrupted) => {}
        }
        if !start.startup_fail.is_empty() {
            let _ = writeln!(std::io::stderr(), "{}", start.startup_fail);
            return Err(ScriptStop::Exit(1));
        }
        let StartMessage { session, model, .. } = start;
        self.say(&FromScriptedAgent::Ready { session, model, version: env!("CARGO_PKG_VERSION").to_owned() })
    }

    fn turn(&mut self, prompt: &str, attachments: &[String]) -> Result<(), ScriptStop> {
        self.said.clear();
        self.say(&FromScriptedAgent::TurnStarted)?;
        let done = match script::read(prompt) {
            Some(Ok(steps)) => steps.iter().try_for_each(|step| self.step(step)),
            Some(Err(error)) => Err(ScriptFailure::Turn(error)),
            None => demo::play(self, prompt, attachments),
        };
        self.end(done)
    }

    /// Ends the turn the way its script ended.
    fn end(&mut self, done: Result<(), ScriptFailure>) -> Result<(), ScriptStop> {
        let (reason, error) = match done {
            Ok(()) => (EndReason::Completed, String::new()),
            Err(ScriptFailure::Turn(error)) => (EndReason::Failed, error),
            Err(ScriptFailure::Stop(ScriptStop::Interrupted)) => (EndReason::Cancelled, String::new()),
            Err(ScriptFailure::Stop(stop)) => return Err(stop),
        };
        let text = std::mem::take(&mut self.said);
        self.say(&FromScriptedAgent::TurnEnded { reason, text, error })
    }

    /// Plays one step of a script.
    fn step(&mut self, step: &ScriptStep) -> Result<(), ScriptFailure> {
        self.take_input()?;
        match step {
            ScriptStep::Text(pieces) => self.pieces(pieces, Self::text)?,
            ScriptStep::Thinking(pieces) => self.pieces(pieces, |agent, text| {
                let text = text.to_owned();
                agent.say(&FromScriptedAgent::Thinking { text })
            })?,
            ScriptStep::Tool { tool, input, .. } if BridgeServer::plain_name(tool).is_some() => {
                self.client_tool(BridgeServer::plain_name(tool).unwrap_or(tool), input)?;
            }
            ScriptStep::Tool { tool, input, ask, result, ok } => {
                self.tool(tool, input, *ask, || (*ok, result.clone()))?;
            }
            ScriptStep::Question { text, options } => self.question(text, options)?,
            ScriptStep::Todo(todos) => {
                self.say(&FromScriptedAgent::Todos { todos: todos.clone() })?;
            }
            ScriptStep::Usage(usage) => self.say(&FromScriptedAgent::Usage { usage: *usage })?,
            ScriptStep::WaitFile(path) => {
                while !path.exists() {
                    self.rest(limits::SCRIPTED_POLL)?;
                }
            }
            ScriptStep::Hang => loop {
                self.next_input()?;
            },
            ScriptStep::Flood { lines, text } => self.flood(*lines, text)?,
            ScriptStep::LongLine(bytes) => self.long_line(*bytes)?,
            ScriptStep::PlanMode(on) => self.say(&FromScriptedAgent::PlanMode { on: *on })?,
            ScriptStep::Compact => {
                let summary = "the script was compacted".to_owned();
                self.say(&FromScriptedAgent::Compacted { before: 1_000, after: 100, summary })?;
            }
            ScriptStep::Garbage(bytes) => {
                self.out.write_all(bytes).map_err(ScriptStop::from)?;
                self.out.write_all(b"\n").and_then(|()| self.out.flush()).map_err(ScriptStop::from)?;
            }
            ScriptStep::Stderr(text) => {
                // Without a reader the message is not needed.
                let _ = writeln!(std::io::stderr(), "{text}");
            }
            ScriptStep::Error(error) => return Err(ScriptFailure::Turn(error.clone())),
            ScriptStep::IgnoreTerm => {
                ignore_term().map_err(|error| ScriptFailure::Turn(error.to_string()))?
            }
            ScriptStep::Crash(code) => return Err(ScriptFailure::Stop(ScriptStop::Exit(*code))),
            ScriptStep::CrashSignal(number) => return Err(crash(*number)),
            ScriptStep::SpawnChild => {
                let pid = spawn_child().map_err(|error| ScriptFailure::Turn(error.to_string()))?;
                self.text(&pid.to_string())?;
            }
        }
        Ok(())
    }

    fn pieces(
        &mut self,
        pieces: &TextPieces,
        say: impl Fn(&mut Self, &str) -> Result<(), ScriptStop>,
    ) -> Result<(), ScriptStop> {
        for (at, piece) in pieces.iter().enumerate() {
            if at > 0 {
                self.rest(pieces.gap)?;
            }
            say(self, piece)?;
        }
        Ok(())
    }

    /// Calls a tool, after asking if the step says so; returns whether it succeeded.
    pub(super) fn tool(
        &mut self,
        tool: &str,
        input: &Value,
        ask: bool,
        run: impl FnOnce() -> (bool, String),
    ) -> Result<bool, ScriptStop> {
        self.calls += 1;
        let call = CallId::new(format!("call-{}", self.calls));
        let detail = ["command", "path", "file_path"].iter().find_map(|key| input.get(key)?.as_str());
        let title = detail.map_or(tool.to_owned(), |detail| format!("{tool}: {detail}"));
        let title = one_line(&title, limits::TITLE_MAX_CHARS);
        let (tool, input) = (tool.to_owned(), input.clone());
        self.say(&FromScriptedAgent::ToolStarted {
            call: call.clone(),
            tool: tool.clone(),
            input: input.clone(),
            title: title.clone(),
        })?;
        if ask {
            let ask = PermissionSubject { call: Some(call.clone()), tool, input, title, parent: None };
            let asked = ask.tool.clone();
            if let RequestOutcome::Denied { message, stop } = self.ask(RequestSubject::Permission(ask))? {
                // Without a message it was a person.
                let denied = || format!("Permission denied by user for: {asked}");
                let output = if message.is_empty() { denied() } else { message };
                self.say(&FromScriptedAgent::ToolFinished { call, ok: false, output })?;
                return if stop { Err(ScriptStop::Interrupted) } else { Ok(false) };
            }
        }
        let (ok, output) = run();
        self.say(&FromScriptedAgent::ToolFinished { call, ok, output })?;
        Ok(ok)
    }

    /// Asks a question and sends the answer as text.
    fn question(&mut self, text: &str, options: &[String]) -> Result<(), ScriptStop> {
        let option = |label: &String| QuestionOption { label: label.clone(), description: String::new() };
        let question = Question {
            id: "q1".to_owned(),
            text: text.to_owned(),
            options: options.iter().map(option).collect(),
            ..Question::default()
        };
        match self.ask(RequestSubject::Question { questions: vec![question], call: None })? {
            RequestOutcome::Answered(answers) => {
                let given: Vec<&str> = answers.values().map(String::as_str).collect();
                self.text(&format!("answered: {}", given.join(", ")))
            }
            RequestOutcome::Denied { stop: true, .. } => Err(ScriptStop::Interrupted),
            RequestOutcome::Denied { message, .. } => self.text(&format!("not answered: {message}")),
            RequestOutcome::Allowed | RequestOutcome::Returned { .. } => self.text("not answered"),
        }
    }

    /// Asks and waits for the answer.
    fn ask(&mut self, ask: RequestSubject) -> Result<RequestOutcome, ScriptStop> {
        self.asks += 1;
        let name = format!("ask-{}", self.asks);
        self.say(&FromScriptedAgent::Asked { id: name.clone(), ask })?;
        loop {
            match self.next_input() {
                Ok(ToScriptedAgent::Decide { id, allow: true, .. }) if id == name => {
                    return Ok(RequestOutcome::Allowed);
                }
                Ok(ToScriptedAgent::Decide { id, message, stop, .. }) if id == name => {
                    return Ok(RequestOutcome::Denied { message, stop });
                }
                Ok(ToScriptedAgent::Answer { id, answers }) if id == name => {
                    return Ok(RequestOutcome::Answered(answers));
                }
                Ok(ToScriptedAgent::ToolResult { id, ok, output }) if id == name => {
                    return Ok(RequestOutcome::Returned { ok, output });
                }
                Ok(_) => {}
                Err(stop) => {
                    if stop == ScriptStop::Interrupted {
                        self.say(&FromScriptedAgent::Withdrew { id: name })?;
                    }
                    return Err(stop);
                }
            }
        }
    }

    /// Sends text and stores it for the end of the turn.
    pub(super) fn text(&mut self, text: &str) -> Result<(), ScriptStop> {
        self.remember(text);
        let text = text.to_owned();
        self.say(&FromScriptedAgent::Text { text })
    }

    fn remember(&mut self, text: &str) {
        if self.said.len() + text.len() <= limits::SCRIPTED_TEXT_MAX_BYTES {
            self.said.push_str(text);
        }
    }

    pub(super) fn say(&mut self, say: &FromScriptedAgent) -> Result<(), ScriptStop> {
        if matches!(say, FromScriptedAgent::ToolStarted { .. }) {
            self.said.clear();
        }
        self.write(say)?;
        Ok(self.out.flush()?)
    }

    fn write(&mut self, say: &FromScriptedAgent) -> Result<(), ScriptStop> {
        serde_json::to_writer(&mut self.out, say).map_err(std::io::Error::from)?;
        Ok(self.out.write_all(b"\n")?)
    }

    fn flood(&mut self, lines: u64, text: &str) -> Result<(), ScriptStop> {
        let say = FromScriptedAgent::Text { text: text.to_owned() };
        for at in 0..lines {
            // Buffered: as fast as possible. Interrupts are still noticed.
            self.write(&say)?;
            self.remember(text);
            if at % 256 == 255 {
                self.take_input()?;
            }
        }
        Ok(self.out.flush()?)
    }

    /// Writes one long text without holding it in memory.
    fn long_line(&mut self, bytes: u64) -> Result<(), ScriptStop> {
        self.out.write_all(br#"{"say":"text","text":""#)?;
        std::io::copy(&mut std::io::repeat(b'x').take(bytes), &mut self.out)?;
        self.out.write_all(b"\"}\n")?;
        Ok(self.out.flush()?)
    }

    /// Waits for the next input that is not handled by `attend`.
    fn next_input(&mut self) -> Result<ToScriptedAgent, ScriptStop> {
        loop {
            let told = self.inbox.recv().map_err(|_| ScriptStop::Exit(0))?;
            if let Some(told) = self.attend(told)? {
                return Ok(told);
            }
        }
    }

    /// Takes what came meanwhile, without waiting. The end of the input does not end a turn that needs none.
    fn take_input(&mut self) -> Result<(), ScriptStop> {
        loop {
            match self.inbox.try_recv() {
                Ok(told) => drop(self.attend(told)?),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(()),
            }
        }
    }

    /// Waits for a duration, unless it is interrupted.
    fn rest(&mut self, wait: Duration) -> Result<(), ScriptStop> {
        let until = std::time::Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(std::time::Instant::now());
            match self.inbox.recv_timeout(left) {
                Ok(told) => drop(self.attend(told)?),
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => {
                    // No interrupt can arrive any more; the turn is finished all the same.
                    std::thread::sleep(left);
                    return Ok(());
                }
            }
        }
    }

    /// Handles an input that concerns the running turn; returns one that answers a request.
    fn attend(&mut self, told: ToScriptedAgent) -> Result<Option<ToScriptedAgent>, ScriptStop> {
        match told {
            ToScriptedAgent::Interrupt => Err(ScriptStop::Interrupted),
            ToScriptedAgent::Leave => Err(ScriptStop::Exit(0)),
            ToScriptedAgent::Steer { text } => self.text(&format!("steered: {text}\n")).map(|()| None),
            ToScriptedAgent::Mode { mode } => {
                self.mode = mode;
                Ok(None)
            }
            ToScriptedAgent::Tools { tools } => {
                self.tools = tools;
                Ok(None)
            }
            answer @ (ToScriptedAgent::Decide { .. }
            | ToScriptedAgent::Answer { .. }
            | ToScriptedAgent::ToolResult { .. }) => Ok(Some(answer)),
            other @ (ToScriptedAgent::Start(_)
            | ToScriptedAgent::Prompt { .. }
            | ToScriptedAgent::Compact
            | ToScriptedAgent::Outlive) => {
                if self.later.len() < limits::SCRIPTED_INBOX_MAX {
                    self.later.push_back(other);
                }
                Ok(None)
            }
        }
    }

    /// The task of a child left behind: it starts its own session, reports that, and stays for a while.
    fn outlive(&mut self) -> Result<(), ScriptStop> {
        rustix::process::setsid().map_err(std::io::Error::from)?;
        self.out.write_all(b"\n")?;
        self.out.flush()?;
        std::thread::sleep(limits::SCRIPTED_CHILD_LIFE);
        Err(ScriptStop::Exit(0))
    }
}

/// Why a script did not reach its end.
pub(super) enum ScriptFailure {
    /// The turn fails with this text.
    Turn(String),
    Stop(ScriptStop),
}

impl From<ScriptStop> for ScriptFailure {
    fn from(stop: ScriptStop) -> Self {
        Self::Stop(stop)
    }
}

/// Installs a handler for SIGTERM that does nothing. tokio is used only for this: it is safe code and stays
/// installed.
fn ignore_term() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _entered = runtime.enter();
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).map(drop)
}

fn crash(number: i32) -> ScriptFailure {
    if let Some(signal) = rustix::process::Signal::from_named_raw(number) {
        // If it fails, the agent ends anyway.
        let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
    }
    ScriptFailure::Stop(ScriptStop::Exit(1))
}

/// Starts this program again as a child that leaves the process session; returns its pid once it has.
fn spawn_child() -> std::io::Result<u32> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg(SUBCOMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut told = serde_json::to_vec(&ToScriptedAgent::Outlive)?;
    told.push(b'\n');
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&told)?;
    }
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut String::new())?;
    }
    Ok(child.id())
}
