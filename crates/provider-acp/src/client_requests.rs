//! Handles the client requests of an ACP agent: files and commands inside the session's root, through the
//! session's tools. Commands are terminals to the agent: created, read, waited for, killed. They end with the
//! daemon.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use agent_client_protocol_schema::v1;
use agent_port::ClientRequestHandler;
use agent_port::toolbox::{RunningOutput, SessionTools, StopSignal, ToolOutput, ToolTask, Work};
use domain::{Error, ErrorCode};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::translate::{WATCH, plan};
use crate::limits::TERMINALS_MAX;
use provider_common::json_fields::Look;

/// The first of the exit codes of a command that did not end on its own: it timed out, could not be run, or
/// was killed.
const EXIT_FORCED: i32 = 124;

/// The handler of one session.
pub(super) struct AcpClientRequestHandler {
    tools: Arc<dyn SessionTools>,
    terminals: Arc<Mutex<Terminals>>,
}

struct Terminals {
    /// Makes the names different from those of an earlier daemon, which the agent may still use.
    own: u64,
    begun: u64,
    /// Oldest first: those that run, and the most recent of those that have ended.
    open: Vec<(String, Terminal)>,
}

/// A command that was started.
#[derive(Clone)]
struct Terminal {
    ended: watch::Receiver<Option<ToolOutput>>,
    /// Ends it; its output so far is kept.
    stop: watch::Sender<bool>,
    task: AbortHandle,
    output_max_bytes: usize,
    /// What it has printed so far.
    output: RunningOutput,
}

impl Terminal {
    fn is_running(&self) -> bool {
        self.ended.borrow().is_none() && !self.task.is_finished()
    }

    /// Kills it, unless it has ended.
    fn kill(&self) {
        if self.is_running() {
            self.stop.send_replace(true);
        }
    }

    fn exit_status(&self, done: &ToolOutput) -> v1::TerminalExitStatus {
        // A command that was stopped may have ended on its own just before.
        let by_itself = done.exit_code.is_some_and(|code| !*self.stop.borrow() || code < EXIT_FORCED);
        if !by_itself {
            return v1::TerminalExitStatus::new().signal("SIGKILL".to_owned());
        }
        v1::TerminalExitStatus::new().exit_code(done.exit_code.and_then(|code| u32::try_from(code).ok()))
    }
}

impl Terminals {
    fn find(&self, name: &str) -> Option<&Terminal> {
        self.open.iter().find(|(own, _)| own == name).map(|(_, terminal)| terminal)
    }

    /// Makes room for another one; returns whether there is any. Some agents never release ended terminals.
    fn make_room(&mut self) -> bool {
        let running = self.open.iter().filter(|(_, terminal)| terminal.is_running()).count();
        let ended = self.open.len() - running;
        let mut dropped = ended.saturating_sub(TERMINALS_MAX);
        self.open.retain(|(_, terminal)| {
            let drops = dropped > 0 && !terminal.is_running();
            dropped -= usize::from(drops);
            !drops
        });
        running < TERMINALS_MAX
    }
}

/// Returns the result of a command that was killed.
fn killed() -> ToolOutput {
    ToolOutput { ok: false, output: String::new(), exit_code: None }
}

impl AcpClientRequestHandler {
    pub(super) fn new(tools: Arc<dyn SessionTools>) -> Self {
        // The keys of this hash are random, so the hash of no input is a random number.
        let own = RandomState::new().build_hasher().finish();
        let terminals = Terminals { own, begun: 0, open: Vec::new() };
        Self { tools, terminals: Arc::new(Mutex::new(terminals)) }
    }
}

impl ClientRequestHandler for AcpClientRequestHandler {
    fn run(&self, what: Value) -> Work<Value> {
        let text = |key: &str| what.text(key).to_owned();
        match what.text("do") {
            "read" => {
                let task = ToolTask::Read {
                    path: text("path"),
                    first_line: what.count("line").unwrap_or(0),
                    lines: what.count("limit").unwrap_or(0),
                    raw: true,
                };
                let work = self.tools.perform(task);
                Box::pin(async move { Ok(json!(v1::ReadTextFileResponse::new(work.await?.output))) })
            }
            "write" => {
                let work =
                    self.tools.perform(ToolTask::Write { path: text("path"), content: text("content") });
                Box::pin(async move { work.await.map(|_| json!(v1::WriteTextFileResponse::new())) })
            }
            "run" => {
                let begun = self.begin(&what);
                Box::pin(async move { begun.map(|name| json!(v1::CreateTerminalResponse::new(name))) })
            }
            // The turn was interrupted; callers that wait for a command learn that it was killed.
            // The session is only to be told.
            plan::LEFT => Box::pin(async { Ok(Value::Null) }),
            "end" => {
                let terminals = self.terminals.lock().unwrap_or_else(PoisonError::into_inner);
                terminals.open.iter().for_each(|(_, terminal)| terminal.kill());
                Box::pin(async { Ok(Value::Null) })
            }
            verb => {
                let (verb, name) = (verb.to_owned(), text("terminal"));
                let seen = what.count("seen").unwrap_or(0);
                let terminals = Arc::clone(&self.terminals);
                Box::pin(async move { attend(&terminals, &verb, &name, seen).await })
            }
        }
    }
}

impl AcpClientRequestHandler {
    /// Starts a command as a terminal and returns its name.
    fn begin(&self, what: &Value) -> Result<String, Error> {
        let environment =
            what.list("env").iter().map(|pair| (pair.text("name").to_owned(), pair.text("value").to_owned()));
        let task = ToolTask::Run {
            command: what.text("command").to_owned(),
            environment: environment.collect(),
            folder: what.text("cwd").to_owned(),
            // The maximum: the agent ends it when it wants to.
            timeout: Some(crate::limits::TERMINAL_WAIT),
        };
        let mut terminals = self.terminals.lock().unwrap_or_else(PoisonError::into_inner);
        if !terminals.make_room() {
            return Err(Error::new(ErrorCode::LimitReached, "too many commands are running; end some"));
        }
        let (stop, stopped) = watch::channel(false);
        let output = RunningOutput::default();
        let work = self.tools.perform_watched(task, StopSignal(stopped), output.clone());
        let (sender, ended) = watch::channel(None);
        let task = tokio::spawn(async move {
            let done = work.await.unwrap_or_else(|error| ToolOutput {
                ok: false,
                output: error.message,
                exit_code: Some(126),
            });
            // There may be no receiver left.
            let _ = sender.send(Some(done));
        });
        terminals.begun += 1;
        let name = format!("term_{:x}_{}", terminals.own, terminals.begun);
        let limit = what.count("limit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let terminal = Terminal { ended, stop, task: task.abort_handle(), output_max_bytes: limit, output };
        terminals.open.push((name.clone(), terminal));
        Ok(name)
    }
}

/// Carries out a request about a terminal.
async fn attend(terminals: &Mutex<Terminals>, verb: &str, name: &str, seen: u64) -> Result<Value, Error> {
    let find = || {
        let mut terminals = terminals.lock().unwrap_or_else(PoisonError::into_inner);
        let found = terminals.find(name).cloned();
        if verb == "release" {
            terminals.open.retain(|(own, _)| own != name);
        }
        found
    };
    let Some(mut terminal) = find() else {
        return Err(Error::new(
            ErrorCode::InvalidArgument,
            format!("terminal {name} does not exist (any more)"),
        ));
    };
    match verb {
        "output" => {
            let done = terminal.ended.borrow().clone();
            let status = done.as_ref().map(|done| terminal.exit_status(done));
            let (text, is_cut) = done.map_or_else(|| terminal.output.text(), |done| (done.output, false));
            let (output, truncated) = last_bytes(&text, terminal.output_max_bytes);
            Ok(json!(v1::TerminalOutputResponse::new(output, truncated || is_cut).exit_status(status)))
        }
        "wait_for_exit" => {
            let done = match terminal.ended.wait_for(Option::is_some).await {
                Ok(done) => done.clone().unwrap_or_else(killed),
                // It was killed, and nothing else is known.
                Err(_) => killed(),
            };
            Ok(json!(v1::WaitForTerminalExitResponse::new(terminal.exit_status(&done))))
        }
        // Our own: the next piece of what it prints, for whoever looks at the call; none after its end.
        WATCH => {
            tokio::select! {
                biased;
                (text, seen) = terminal.output.after(seen) => Ok(json!({"text": text, "seen": seen})),
                // Its end is reported by the agent.
                _ = terminal.ended.wait_for(Option::is_some) => Ok(Value::Null),
            }
        }
        // It cannot be asked for again; dropping its work kills a command.
        "release" => {
            terminal.task.abort();
            Ok(json!(v1::ReleaseTerminalResponse::new()))
        }
        _ => {
            terminal.kill();
            // The next request for its output must find that it has ended, and with what.
            let _ = terminal.ended.wait_for(Option::is_some).await;
            Ok(json!(v1::KillTerminalResponse::new()))
        }
    }
}

/// Returns the end of a text, and whether it was shortened.
fn last_bytes(text: &str, max: usize) -> (&str, bool) {
    if text.len() <= max {
        return (text, false);
    }
    (&text[text.ceil_char_boundary(text.len() - max)..], true)
}

impl Drop for AcpClientRequestHandler {
    fn drop(&mut self) {
        for (_, terminal) in &self.terminals.lock().unwrap_or_else(PoisonError::into_inner).open {
            terminal.task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tool that never ends one command and echoes the others.
    struct Slow;

    impl SessionTools for Slow {
        fn perform(&self, task: ToolTask) -> Work<ToolOutput> {
            Box::pin(async move {
                match task {
                    ToolTask::Run { command, .. } if command == "forever" => std::future::pending().await,
                    ToolTask::Run { command, .. } => {
                        Ok(ToolOutput { ok: true, output: command, exit_code: Some(0) })
                    }
                    other => Ok(ToolOutput { ok: true, output: format!("{other:?}"), exit_code: None }),
                }
            })
        }
    }

    async fn ask(errands: &AcpClientRequestHandler, what: Value) -> Result<Value, Error> {
        errands.run(what).await
    }

    /// Prints something and then runs until it is stopped.
    struct Printing;

    impl SessionTools for Printing {
        fn perform(&self, _task: ToolTask) -> Work<ToolOutput> {
            Box::pin(async { Ok(ToolOutput::default()) })
        }

        fn perform_watched(&self, _: ToolTask, stop: StopSignal, output: RunningOutput) -> Work<ToolOutput> {
            Box::pin(async move {
                output.push(b"so far\n");
                stop.wait().await;
                output.push(b"stopped\n");
                Ok(ToolOutput { ok: false, output: "so far\nstopped\n".to_owned(), exit_code: Some(137) })
            })
        }
    }

    #[tokio::test]
    async fn a_command_that_runs_shows_what_it_has_printed() {
        let errands = AcpClientRequestHandler::new(Arc::new(Printing));
        let begun = ask(&errands, json!({"do": "run", "command": "x"})).await.unwrap();
        let name = &begun["terminalId"];
        let watch = |seen: u64| json!({"do": WATCH, "terminal": name, "seen": seen});
        let first = ask(&errands, watch(0)).await.unwrap();
        assert_eq!(first, json!({"text": "so far\n", "seen": 7}));
        let running = ask(&errands, json!({"do": "output", "terminal": name})).await.unwrap();
        assert!(
            running["output"] == "so far\n" && running.get("exitStatus").is_none_or(Value::is_null),
            "{running}"
        );
        let more = errands.run(watch(7));
        ask(&errands, json!({"do": "kill", "terminal": name})).await.unwrap();
        assert_eq!(more.await.unwrap(), json!({"text": "stopped\n", "seen": 15}));
        assert_eq!(ask(&errands, watch(15)).await.unwrap(), Value::Null);
    }

    #[tokio::test]
    async fn a_terminal_is_begun_waited_for_read_and_released() {
        let errands = AcpClientRequestHandler::new(Arc::new(Slow));
        let begun = ask(&errands, json!({"do": "run", "command": "héllo", "limit": 4})).await.unwrap();
        let name = &begun["terminalId"];
        let exit = ask(&errands, json!({"do": "wait_for_exit", "terminal": name})).await.unwrap();
        assert_eq!(exit, json!({"exitCode": 0}));
        let output = ask(&errands, json!({"do": "output", "terminal": name})).await.unwrap();
        assert_eq!(output, json!({"output": "llo", "truncated": true, "exitStatus": {"exitCode": 0}}));
        ask(&errands, json!({"do": "release", "terminal": name})).await.unwrap();
        assert!(ask(&errands, json!({"do": "output", "terminal": name})).await.is_err());
    }

    #[tokio::test]
    async fn an_interrupt_ends_every_command() {
        let errands = AcpClientRequestHandler::new(Arc::new(Slow));
        let begun = ask(&errands, json!({"do": "run", "command": "forever"})).await.unwrap();
        let wait = errands.run(json!({"do": "wait_for_exit", "terminal": begun["terminalId"]}));
        ask(&errands, json!({"do": "end"})).await.unwrap();
        assert_eq!(wait.await.unwrap(), json!({"signal": "SIGKILL"}));
    }

    #[tokio::test]
    async fn a_command_that_is_killed_has_ended() {
        let errands = AcpClientRequestHandler::new(Arc::new(Slow));
        let begun = ask(&errands, json!({"do": "run", "command": "forever"})).await.unwrap();
        let name = &begun["terminalId"];
        let running = ask(&errands, json!({"do": "output", "terminal": name})).await.unwrap();
        assert_eq!(running, json!({"output": "", "truncated": false}));
        ask(&errands, json!({"do": "kill", "terminal": name})).await.unwrap();
        let exit = ask(&errands, json!({"do": "wait_for_exit", "terminal": name})).await.unwrap();
        assert_eq!(exit, json!({"signal": "SIGKILL"}));
    }
    #[tokio::test]
    async fn what_was_killed_says_so_where_its_output_is_read() {
        let errands = AcpClientRequestHandler::new(Arc::new(Slow));
        let begun = ask(&errands, json!({"do": "run", "command": "forever"})).await.unwrap();
        let name = &begun["terminalId"];
        ask(&errands, json!({"do": "kill", "terminal": name})).await.unwrap();
        let output = ask(&errands, json!({"do": "output", "terminal": name})).await.unwrap();
        assert_eq!(output, json!({"output": "", "truncated": false, "exitStatus": {"signal": "SIGKILL"}}));
    }

    #[tokio::test]
    async fn commands_that_have_ended_leave_room_for_others() {
        let errands = AcpClientRequestHandler::new(Arc::new(Slow));
        let mut names = Vec::new();
        for _ in 0..3 {
            for _ in 0..TERMINALS_MAX {
                let begun = ask(&errands, json!({"do": "run", "command": "forever"})).await.unwrap();
                names.push(begun["terminalId"].clone());
            }
            // Only running ones are counted.
            assert!(ask(&errands, json!({"do": "run", "command": "forever"})).await.is_err());
            ask(&errands, json!({"do": "end"})).await.unwrap();
            for name in &names[names.len() - TERMINALS_MAX..] {
                ask(&errands, json!({"do": "wait_for_exit", "terminal": name})).await.unwrap();
            }
        }
        // The most recently ended can be asked for; those that ended long ago cannot.
        let last = names.last().unwrap();
        assert!(ask(&errands, json!({"do": "output", "terminal": last})).await.is_ok());
        assert!(ask(&errands, json!({"do": "output", "terminal": names[0]})).await.is_err());
        assert!(errands.terminals.lock().unwrap().open.len() <= 2 * TERMINALS_MAX);
    }

    #[tokio::test]
    async fn no_two_terminals_of_a_session_have_one_name() {
        let begin = async || {
            let errands = AcpClientRequestHandler::new(Arc::new(Slow));
            ask(&errands, json!({"do": "run", "command": "x"})).await.unwrap()["terminalId"].clone()
        };
        assert_ne!(begin().await, begin().await, "as with a daemon that comes back");
    }
}
