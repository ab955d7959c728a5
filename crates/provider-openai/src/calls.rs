//! Carries out a model's calls: in parallel where possible, with permission where the mode demands one. Each
//! call is reported once when it starts and once when it ends.

use std::collections::BTreeMap;
use std::sync::Arc;

use agent_port::toolbox::{SessionTools, ToolOutput, ToolTask};
use domain::request::{PermissionSubject, Question, RequestSubject};
use domain::{AgentEvent, AgentInput, CallId, Error, ErrorCode, Mode};
use serde_json::Value;
use tokio::task::JoinSet;

use super::agent::OpenaiWorker;
use super::history::HistoryCall;
use super::shorten::ends;
use super::tools::{self, CallPermission, ToolAction};
use super::turn::TurnStop;
use crate::limits::TOOL_OUTPUT_MAX_BYTES;

/// A call that has not ended.
struct RunningCall {
    call: HistoryCall,
    input: Value,
    act: ToolAction,
}

/// Calls in progress.
struct RunningCalls {
    open: BTreeMap<usize, RunningCall>,
    /// Calls that wait for an answer, by the id of their request.
    waiting: BTreeMap<String, usize>,
    running: JoinSet<(usize, Result<ToolOutput, String>)>,
    /// Files are changed one after the other.
    pen: Arc<tokio::sync::Mutex<()>>,
}

impl OpenaiWorker {
    /// Carries out the calls of one reply and stores their results.
    pub(super) async fn carry_out(&mut self, calls: Vec<HistoryCall>) -> Result<(), TurnStop> {
        let mut running = RunningCalls {
            open: BTreeMap::new(),
            waiting: BTreeMap::new(),
            running: JoinSet::new(),
            pen: Arc::default(),
        };
        let mut wrong = Vec::new();
        for (at, call) in calls.into_iter().enumerate() {
            let read: Result<Value, String> = match call.arguments.trim() {
                "" => Ok(Value::Object(serde_json::Map::new())),
                text => {
                    serde_json::from_str(text).map_err(|error| format!("the arguments are no JSON: {error}"))
                }
            };
            let input = read.clone().unwrap_or_else(|_| Value::String(call.arguments.clone()));
            self.history.call(call.clone());
            self.emit(AgentEvent::ToolStarted {
                call: CallId::new(call.id.as_str()),
                tool: call.name.clone(),
                title: tools::title(&call.name, &input),
                input: input.clone(),
                parent: None,
            })
            .await?;
            match read.and_then(|input| tools::read(&call.name, &input, self.mode, self.others())) {
                Ok(act) => {
                    running.open.insert(at, RunningCall { call, input, act });
                }
                Err(message) => wrong.push((call.id, message)),
            }
        }
        for (id, message) in wrong {
            self.finish_call(&id, false, message).await?;
        }
        let all: Vec<usize> = running.open.keys().copied().collect();
        for at in all {
            self.begin(&mut running, at).await?;
        }
        self.attend(&mut running).await
    }

    /// Starts one call: at once, or by asking for what it needs.
    async fn begin(&mut self, running: &mut RunningCalls, at: usize) -> Result<(), TurnStop> {
        let Some(open) = running.open.get(&at) else { return Ok(()) };
        let (id, act) = (open.call.id.clone(), open.act.clone());
        match (tools::need(&act, self.mode), act) {
            (CallPermission::Refused, act) => {
                let message = match act {
                    ToolAction::Client(_) => "plan mode: observation only".to_owned(),
                    _ => "not in plan mode: put your plan before the user first".to_owned(),
                };
                self.settle(running, at, false, message).await
            }
            (CallPermission::Permission, _) => {
                let ask = open.permission();
                self.ask(running, at, RequestSubject::Permission(ask)).await
            }
            (CallPermission::NoObjection, _) => {
                let (native, ask) = (id, open.permission());
                running.waiting.insert(native.clone(), at);
                Ok(self.emit(AgentEvent::Checks { native, ask }).await?)
            }
            (CallPermission::Nothing, ToolAction::Ask(questions)) => {
                self.ask(
                    running,
                    at,
                    RequestSubject::Question { questions, call: Some(CallId::new(id.as_str())) },
                )
                .await
            }
            (CallPermission::Nothing, ToolAction::Todos(todos)) => {
                self.emit(AgentEvent::Todos(todos)).await?;
                self.settle(running, at, true, "the list was shown to the user".to_owned()).await
            }
            (CallPermission::Nothing, ToolAction::Client(_)) => self.call_client(running, at).await,
            (
                CallPermission::Nothing,
                ToolAction::Task(_)
                | ToolAction::Named(..)
                | ToolAction::LeavePlan
                | ToolAction::Server { .. },
            ) => Ok(()),
        }
    }

    /// Has a client run its tool. The session watches which calls are sent one at a time, and how long each
    /// may take.
    async fn call_client(&mut self, running: &mut RunningCalls, at: usize) -> Result<(), TurnStop> {
        let Some(open) = running.open.get(&at) else { return Ok(()) };
        let ask = RequestSubject::ClientTool {
            call: CallId::new(open.call.id.as_str()),
            tool: open.call.name.clone(),
            input: open.input.clone(),
        };
        self.ask(running, at, ask).await
    }

    async fn ask(
        &mut self,
        running: &mut RunningCalls,
        at: usize,
        ask: RequestSubject,
    ) -> Result<(), TurnStop> {
        let Some(open) = running.open.get(&at) else { return Ok(()) };
        let native = open.call.id.clone();
        running.waiting.insert(native.clone(), at);
        Ok(self.emit(AgentEvent::Asked { native, ask }).await?)
    }

    /// Waits until every call has ended.
    async fn attend(&mut self, running: &mut RunningCalls) -> Result<(), TurnStop> {
        while !running.open.is_empty() {
            tokio::select! {
                biased;
                input = self.inbox.recv() => self.answered(running, input).await?,
                Some(ended) = running.running.join_next(), if !running.running.is_empty() => {
                    match ended {
                        Ok((at, Ok(done))) => self.settle(running, at, done.ok, done.output).await?,
                        Ok((at, Err(message))) => self.settle(running, at, false, message).await?,
                        Err(error) => return Err(TurnStop::failed(format!("a tool broke down: {error}"))),
                    }
                }
            }
        }
        Ok(())
    }

    /// Handles an input that arrives while calls are in progress.
    async fn answered(
        &mut self,
        running: &mut RunningCalls,
        input: Option<AgentInput>,
    ) -> Result<(), TurnStop> {
        match input {
            Some(AgentInput::Decide { native, decision, message, updated_input, .. }) => {
                let Some(at) = running.waiting.remove(&native) else { return Ok(()) };
                if decision.allows() {
                    return self.allowed(running, at, updated_input).await;
                }
                let denied = match message.as_str() {
                    "" => "the user denied this".to_owned(),
                    // It says itself who denied.
                    told if told.starts_with("Permission ") => message,
                    told => format!("the user denied this: {told}"),
                };
                self.settle(running, at, false, denied).await
            }
            Some(AgentInput::Answer { native, answers, ask }) => {
                let Some(at) = running.waiting.remove(&native) else { return Ok(()) };
                self.settle(running, at, true, told(ask.questions(), &answers)).await
            }
            Some(AgentInput::ToolResult { native, ok, output }) => {
                let Some(at) = running.waiting.remove(&native) else { return Ok(()) };
                self.settle(running, at, ok, output).await
            }
            other @ (Some(
                AgentInput::Prompt { .. }
                | AgentInput::Steer { .. }
                | AgentInput::Interrupt
                | AgentInput::Tools(_)
                | AgentInput::SetMode(_)
                | AgentInput::SetModel(_)
                | AgentInput::Compact
                | AgentInput::Leave,
            )
            | None) => self.take_input(other),
        }
    }

    /// Continues a call that was allowed, perhaps with a changed input.
    async fn allowed(
        &mut self,
        running: &mut RunningCalls,
        at: usize,
        updated: Option<Value>,
    ) -> Result<(), TurnStop> {
        let Some(open) = running.open.get_mut(&at) else { return Ok(()) };
        if let Some(input) = updated {
            match tools::read(&open.call.name, &input, self.mode, self.others()) {
                Ok(act) => (open.input, open.act) = (input, act),
                Err(message) => return self.settle(running, at, false, message).await,
            }
        }
        match open.act.clone() {
            ToolAction::Task(task) | ToolAction::Named(task, _) => {
                running.start(at, task, &self.tools);
                Ok(())
            }
            ToolAction::LeavePlan => {
                self.mode = Mode::Supervised;
                self.emit(AgentEvent::Mode(self.mode)).await?;
                self.settle(running, at, true, "the user approved the plan; carry it out".to_owned()).await
            }
            ToolAction::Client(_) => self.call_client(running, at).await,
            ToolAction::Server { arguments, .. } => {
                let Some(tool) = self.servers.find(&open.call.name) else {
                    let message = "the server no longer has this tool".to_owned();
                    return self.settle(running, at, false, message).await;
                };
                let call = agent_port::toolbox::ExternalToolCall {
                    tool: open.call.name.clone(),
                    arguments: Value::Object(arguments.clone()),
                };
                let work = self.servers.call(tool, arguments);
                let failed = |message| Error::new(ErrorCode::DeliveryFailed, message);
                let work = self.tools.noted(call, Box::pin(async move { work.await.map_err(failed) }));
                running.running.spawn(async move { (at, work.await.map_err(|error| error.message)) });
                Ok(())
            }
            ToolAction::Ask(_) | ToolAction::Todos(_) => Ok(()),
        }
    }

    /// Ends a call.
    async fn settle(
        &mut self,
        running: &mut RunningCalls,
        at: usize,
        ok: bool,
        output: String,
    ) -> Result<(), TurnStop> {
        let Some(open) = running.open.remove(&at) else { return Ok(()) };
        running.waiting.retain(|_, other| *other != at);
        self.finish_call(&open.call.id, ok, output).await
    }

    async fn finish_call(&mut self, id: &str, ok: bool, output: String) -> Result<(), TurnStop> {
        let output = ends(&output, TOOL_OUTPUT_MAX_BYTES);
        self.history.result(id, &output);
        Ok(self.emit(AgentEvent::ToolFinished { call: CallId::new(id), ok, output }).await?)
    }
}

impl RunningCall {
    /// Returns the permission to ask for.
    fn permission(&self) -> PermissionSubject {
        PermissionSubject {
            call: Some(CallId::new(self.call.id.as_str())),
            tool: self.call.name.clone(),
            input: self.input.clone(),
            title: tools::title(&self.call.name, &self.input),
            parent: None,
        }
    }
}

impl RunningCalls {
    fn start(&mut self, at: usize, task: ToolTask, tools: &Arc<dyn SessionTools>) {
        let pen = task.changes_files().then(|| Arc::clone(&self.pen));
        let work = tools.perform(task);
        self.running.spawn(async move {
            let _held = match &pen {
                Some(pen) => Some(pen.lock().await),
                None => None,
            };
            (at, work.await.map_err(|error| error.message))
        });
    }
}

/// Returns the user's answers as a text for the model.
fn told(questions: &[Question], answers: &BTreeMap<String, String>) -> String {
    let lines = questions.iter().filter_map(|question| {
        let answer = answers.get(&question.id).or_else(|| answers.get(&question.text))?;
        Some(format!("{}: {answer}", question.text))
    });
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { "the user gave no answer".to_owned() } else { lines.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_long_output_is_left_out() {
        let shortened = |output: &str| ends(output, TOOL_OUTPUT_MAX_BYTES);
        assert_eq!(shortened("short"), "short");
        let long = format!("head{}tail", "é".repeat(TOOL_OUTPUT_MAX_BYTES));
        let cut = shortened(&long);
        assert!(cut.starts_with("headé") && cut.ends_with("étail") && cut.contains("bytes left out"));
        assert!(cut.len() < TOOL_OUTPUT_MAX_BYTES + 100);
    }

    #[test]
    fn answers_are_told_with_their_questions() {
        let question =
            Question { id: "question_1".to_owned(), text: "Color?".to_owned(), ..Question::default() };
        let by = |key: &str| BTreeMap::from([(key.to_owned(), "Blue".to_owned())]);
        assert_eq!(told(std::slice::from_ref(&question), &by("question_1")), "Color?: Blue");
        assert_eq!(told(std::slice::from_ref(&question), &by("Color?")), "Color?: Blue");
        assert_eq!(told(&[question], &BTreeMap::new()), "the user gave no answer");
    }
}
