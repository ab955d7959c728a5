//! Runs the errands of an ACP agent: files and commands inside the session's root, through the session's tools.
//! Commands are terminals to the agent: begun, looked at, waited for, ended. They end with the daemon.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use agent_client_protocol_schema::v1;
use domain::{Error, ErrorCode};
use runtime::provider::Helper;
use runtime::toolbox::{Done, Task, Tools, Work};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::limits::TERMINALS_MAX;
use crate::look::Look;

/// The helper of one session.
pub(super) struct Errands {
    tools: Arc<dyn Tools>,
    terminals: Arc<Mutex<Terminals>>,
}

#[derive(Default)]
struct Terminals {
    begun: u64,
    open: HashMap<String, Terminal>,
}

/// A command that was begun.
#[derive(Clone)]
struct Terminal {
    ended: watch::Receiver<Option<Done>>,
    task: AbortHandle,
    output_max_bytes: usize,
}

/// What an ended command is shown as where it was not let end.
fn killed() -> Done {
    Done { ok: false, output: String::new(), exit_code: None }
}

impl Errands {
    pub(super) fn new(tools: Arc<dyn Tools>) -> Self {
        Self { tools, terminals: Arc::default() }
    }
}

impl Helper for Errands {
    fn run(&self, what: Value) -> Work<Value> {
        let text = |key: &str| what.text(key).to_owned();
        match what.text("do") {
            "read" => {
                let task = Task::Read {
                    path: text("path"),
                    first_line: what.count("line").unwrap_or(0),
                    lines: what.count("limit").unwrap_or(0),
                    raw: true,
                };
                let work = self.tools.perform(task);
                Box::pin(async move { Ok(json!(v1::ReadTextFileResponse::new(work.await?.output))) })
            }
            "write" => {
                let work = self.tools.perform(Task::Write { path: text("path"), content: text("content") });
                Box::pin(async move { work.await.map(|_| json!(v1::WriteTextFileResponse::new())) })
            }
            "run" => {
                let begun = self.begin(&what);
                Box::pin(async move { begun.map(|name| json!(v1::CreateTerminalResponse::new(name))) })
            }
            // The turn was interrupted; who waits for a command hears that it was killed.
            "end" => {
                let terminals = self.terminals.lock().unwrap_or_else(PoisonError::into_inner);
                terminals.open.values().for_each(|terminal| terminal.task.abort());
                Box::pin(async { Ok(Value::Null) })
            }
            verb => {
                let (verb, name) = (verb.to_owned(), text("terminal"));
                let terminals = Arc::clone(&self.terminals);
                Box::pin(async move { attend(&terminals, &verb, &name).await })
            }
        }
    }
}

impl Errands {
    fn begin(&self, what: &Value) -> Result<String, Error> {
        let environment =
            what.list("env").iter().map(|pair| (pair.text("name").to_owned(), pair.text("value").to_owned()));
        let task = Task::Run {
            command: what.text("command").to_owned(),
            environment: environment.collect(),
            folder: what.text("cwd").to_owned(),
            // As long as it may take at most: the agent ends it when it wants to.
            timeout: Some(crate::limits::TERMINAL_WAIT),
        };
        let mut terminals = self.terminals.lock().unwrap_or_else(PoisonError::into_inner);
        if terminals.open.len() >= TERMINALS_MAX {
            return Err(Error::new(ErrorCode::LimitReached, "too many terminals are open; release some"));
        }
        let work = self.tools.perform(task);
        let (sender, ended) = watch::channel(None);
        let task = tokio::spawn(async move {
            let done = work.await.unwrap_or_else(|error| Done {
                ok: false,
                output: error.message,
                exit_code: Some(126),
            });
            // Nobody may be left who wants to know.
            let _ = sender.send(Some(done));
        });
        terminals.begun += 1;
        let name = format!("term_{}", terminals.begun);
        let limit = what.count("limit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let terminal = Terminal { ended, task: task.abort_handle(), output_max_bytes: limit };
        terminals.open.insert(name.clone(), terminal);
        Ok(name)
    }
}

/// Does something with a terminal.
async fn attend(terminals: &Mutex<Terminals>, verb: &str, name: &str) -> Result<Value, Error> {
    let find = || {
        let mut terminals = terminals.lock().unwrap_or_else(PoisonError::into_inner);
        if verb == "release" { terminals.open.remove(name) } else { terminals.open.get(name).cloned() }
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
            let (output, truncated) =
                last_bytes(done.as_ref().map_or("", |done| &done.output), terminal.output_max_bytes);
            let status = done.as_ref().map(|done| exit_status(done, None));
            Ok(json!(v1::TerminalOutputResponse::new(output, truncated).exit_status(status)))
        }
        "wait_for_exit" => {
            let done = match terminal.ended.wait_for(Option::is_some).await {
                Ok(done) => done.clone().unwrap_or_else(killed),
                // It was killed, and nothing is known but that.
                Err(_) => killed(),
            };
            let signal = done.exit_code.is_none().then_some("SIGKILL");
            Ok(json!(v1::WaitForTerminalExitResponse::new(exit_status(&done, signal))))
        }
        // Dropping its work kills a command.
        _ => {
            terminal.task.abort();
            Ok(json!(v1::KillTerminalResponse::new()))
        }
    }
}

fn exit_status(done: &Done, signal: Option<&str>) -> v1::TerminalExitStatus {
    let code = done.exit_code.and_then(|code| u32::try_from(code).ok());
    v1::TerminalExitStatus::new().exit_code(code).signal(signal.map(str::to_owned))
}

/// Returns the end of a text, and whether that is not all of it.
fn last_bytes(text: &str, max: usize) -> (&str, bool) {
    if text.len() <= max {
        return (text, false);
    }
    (&text[text.ceil_char_boundary(text.len() - max)..], true)
}

impl Drop for Errands {
    fn drop(&mut self) {
        for terminal in self.terminals.lock().unwrap_or_else(PoisonError::into_inner).open.values() {
            terminal.task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tool that never ends one command and echoes the others.
    struct Slow;

    impl Tools for Slow {
        fn perform(&self, task: Task) -> Work<Done> {
            Box::pin(async move {
                match task {
                    Task::Run { command, .. } if command == "forever" => std::future::pending().await,
                    Task::Run { command, .. } => Ok(Done { ok: true, output: command, exit_code: Some(0) }),
                    other => Ok(Done { ok: true, output: format!("{other:?}"), exit_code: None }),
                }
            })
        }
    }

    async fn ask(errands: &Errands, what: Value) -> Result<Value, Error> {
        errands.run(what).await
    }

    #[tokio::test]
    async fn a_terminal_is_begun_waited_for_read_and_released() {
        let errands = Errands::new(Arc::new(Slow));
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
        let errands = Errands::new(Arc::new(Slow));
        let begun = ask(&errands, json!({"do": "run", "command": "forever"})).await.unwrap();
        let wait = errands.run(json!({"do": "wait_for_exit", "terminal": begun["terminalId"]}));
        ask(&errands, json!({"do": "end"})).await.unwrap();
        assert_eq!(wait.await.unwrap(), json!({"signal": "SIGKILL"}));
    }

    #[tokio::test]
    async fn a_command_that_is_killed_has_ended() {
        let errands = Errands::new(Arc::new(Slow));
        let begun = ask(&errands, json!({"do": "run", "command": "forever"})).await.unwrap();
        let name = &begun["terminalId"];
        let running = ask(&errands, json!({"do": "output", "terminal": name})).await.unwrap();
        assert_eq!(running, json!({"output": "", "truncated": false}));
        ask(&errands, json!({"do": "kill", "terminal": name})).await.unwrap();
        let exit = ask(&errands, json!({"do": "wait_for_exit", "terminal": name})).await.unwrap();
        assert_eq!(exit, json!({"signal": "SIGKILL"}));
    }
}
