//! Projects a session's journal to the protocol's updates. Its state is the fold of the previous events; a
//! reader that starts later must apply those first. Pure.

mod calls;
mod current_settings;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use domain::event::{AgentCommand, Level, Todo, TodoPriority, TodoStatus};
use domain::request::RequestSubject;
use domain::turn::{COMPACT, EndReason, TurnOrigin};
use domain::{Event, EventKind, Mode, SessionSpec, State, Usage, any_event};
use serde::Serialize;
use serde_json::{Value, json};

use super::from_wire::ClientCapabilities;
use super::rpc::{self, INTERNAL_ERROR, RpcError};
use super::{modes, tools};
use calls::OpenToolCalls;

/// The method of every update.
const UPDATE: &str = "session/update";

/// Who started a turn, from the point of view of this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromptOwner {
    /// This client; it already has the prompt's text.
    Ours,
    Others,
}

/// Turns events into updates.
pub(super) struct UpdateProjector {
    session_id: String,
    working_dir: PathBuf,
    /// The spec at creation; only the Codex settings of the mode are used.
    spec: SessionSpec,
    /// What is shown: mode, model and title.
    state: State,
    /// The session's mode, which an agent that plans by itself does not show.
    session_mode: Mode,
    models: Vec<String>,
    client: ClientCapabilities,
    calls: OpenToolCalls,
    commands: Vec<AgentCommand>,
    todos: Vec<Todo>,
    usage: Usage,
    context: (Option<u64>, Option<u64>),
    compactions: u64,
}

impl UpdateProjector {
    /// Creates a projector for the start of the journal.
    pub(super) fn new(spec: &SessionSpec, client: &ClientCapabilities, models: Vec<String>) -> Self {
        Self {
            session_id: spec.id.to_string(),
            working_dir: spec.working_dir.clone(),
            state: State::new(spec),
            session_mode: spec.mode,
            spec: spec.clone(),
            models,
            client: client.clone(),
            calls: OpenToolCalls::default(),
            commands: Vec::new(),
            todos: Vec::new(),
            usage: Usage::default(),
            context: (None, None),
            compactions: 0,
        }
    }

    /// Appends the lines of one event.
    pub(super) fn take(&mut self, event: &Event, whose: PromptOwner, out: &mut Vec<u8>) {
        if self.state.evolve_title(&event.kind) {
            let title = self.state.shown_title();
            self.update(&json!({"sessionUpdate": "session_info_update", "title": title}), out);
        }
        match &event.kind {
            EventKind::TextDelta { text, parent: None } => self.chunk("agent_message_chunk", text, out),
            // A sub-agent's text is addressed to the agent, not to the person.
            EventKind::TextDelta { text, parent: Some(_) } | EventKind::ThinkingDelta { text, .. } => {
                self.chunk("agent_thought_chunk", text, out);
            }
            EventKind::TurnStarted { origin: TurnOrigin::Client, prompt, attachments, .. } => {
                if whose == PromptOwner::Others && prompt != COMPACT {
                    self.chunk("user_message_chunk", prompt, out);
                    for file in attachments.iter().filter(|file| file.media_type.starts_with("image/")) {
                        let image =
                            json!({"type": "image", "mimeType": file.media_type, "data": file.content});
                        self.update(&json!({"sessionUpdate": "user_message_chunk", "content": image}), out);
                    }
                }
            }
            EventKind::MessageAdded { text, .. } if whose == PromptOwner::Others => {
                self.chunk("user_message_chunk", text, out);
            }
            EventKind::ToolStarted { call, tool, input, title, .. } => {
                let mut update = self.calls.started(call, tool, input, title, &self.working_dir);
                // What nobody is asked about runs at once.
                let is_harmless = matches!(update["kind"].as_str(), Some("think" | "read" | "search"));
                if self.session_mode == Mode::Autonomous || is_harmless {
                    update["status"] = "in_progress".into();
                }
                self.update(&update, out);
            }
            EventKind::ToolProgress { call, output } => {
                if let Some(update) = self.calls.progressed(call, output) {
                    self.update(&update, out);
                }
            }
            EventKind::ToolFinished { call, ok, output, .. } => {
                let update = self.calls.finished(call, *ok, output);
                self.update(&update, out);
            }
            EventKind::RequestOpened { request, ask: RequestSubject::Permission(ask), .. } => {
                self.calls.asked(*request, ask.call.as_ref());
            }
            EventKind::RequestSettled { request, outcome, .. } => {
                if let Some(update) = self.calls.settled(*request, outcome) {
                    self.update(&update, out);
                }
            }
            EventKind::TurnEnded { .. } => {
                for update in self.calls.turn_ended() {
                    self.update(&update, out);
                }
            }
            any_event!(
                life TurnStarted InterruptRequested MessageAdded RequestOpened GrantsChanged settings
                plan usage worker report
            ) => self.take_settings(event, out),
        }
    }

    /// Handles events that set a value until the next change: plan, mode, model, commands, name, usage. Also
    /// those without an update.
    fn take_settings(&mut self, event: &Event, out: &mut Vec<u8>) {
        match &event.kind {
            EventKind::TodosChanged { todos } => {
                self.todos.clone_from(todos);
                let plan = self.plan();
                self.update(&plan, out);
            }
            EventKind::ModeChanged { mode } => {
                (self.session_mode, self.state.mode) = (*mode, *mode);
                self.mode(out);
            }
            EventKind::PlanModeChanged { on } => {
                let shown = if *on { Mode::Plan } else { self.session_mode };
                if shown != self.state.mode {
                    self.state.mode = shown;
                    self.mode(out);
                }
            }
            EventKind::AgentReady { model, .. } | EventKind::ModelChanged { model } => {
                if !model.is_empty() && *model != self.state.model {
                    self.state.model.clone_from(model);
                    self.options(out);
                }
            }
            EventKind::CommandsChanged { commands } => {
                self.commands.clone_from(commands);
                let update = self.available_commands();
                self.update(&update, out);
            }
            EventKind::UsageReported { usage, context_tokens, context_window, .. } => {
                self.usage.add(usage);
                self.context = (context_tokens.or(self.context.0), context_window.or(self.context.1));
                if let Some(update) = self.used() {
                    self.update(&update, out);
                }
            }
            EventKind::Compacted { summary, tokens_after, .. } => {
                self.context.0 = tokens_after.or(self.context.0);
                self.compacted(summary, out);
            }
            EventKind::Notice { level, message, .. } if self.client.takes_notices => {
                let severity = match level {
                    Level::Info => "info",
                    Level::Warning => "warning",
                    Level::Error => "error",
                };
                let notice = json!({"sessionUpdate": "notice", "severity": severity, "title": message});
                self.update(&notice, out);
            }
            any_event!(
                SessionCreated StatusChanged AgentStarted AgentExited AgentLogged Restarted turn output
                request Renamed ServersChanged ToolsRegistered InputHolderChanged plan worker Notice
                ActivityReported Unparsed
            ) => {}
        }
    }

    /// Returns a tool call that needs a permission before it starts, in the form the request needs.
    pub(super) fn asked_call(&self, call: &str, tool: &str, input: &Value, title: &str) -> Value {
        calls::pending(call, tool, input, title, &self.working_dir)
    }

    fn chunk(&self, kind: &str, text: &str, out: &mut Vec<u8>) {
        let update = Chunk { session_update: kind, content: TextContent { kind: "text", text } };
        rpc::write_notification(out, UPDATE, &Update { session_id: &self.session_id, update });
    }

    fn update(&self, update: &Value, out: &mut Vec<u8>) {
        rpc::write_notification(out, UPDATE, &Update { session_id: &self.session_id, update });
    }
}

/// Maps the end of a turn to the answer of a prompt: a stop reason, or an error if the agent failed.
pub(super) fn stop_reason(reason: EndReason, error: &str) -> Result<&'static str, RpcError> {
    match reason {
        EndReason::Completed => Ok("end_turn"),
        EndReason::Cancelled => Ok("cancelled"),
        EndReason::Refused => Ok("refusal"),
        EndReason::LimitReached | EndReason::BudgetExceeded => Ok("max_tokens"),
        EndReason::Failed | EndReason::Interrupted => {
            let message = if error.is_empty() { "the agent could not finish the turn" } else { error };
            Err(RpcError::new(INTERNAL_ERROR, message))
        }
    }
}

/// Returns an entry of a plan.
fn plan_entry(todo: &Todo) -> Value {
    let status = match todo.status {
        TodoStatus::Pending => "pending",
        TodoStatus::InProgress => "in_progress",
        TodoStatus::Completed => "completed",
    };
    let priority = match todo.priority {
        Some(TodoPriority::High) => "high",
        // The protocol has no word for an agent that does not say.
        Some(TodoPriority::Medium) | None => "medium",
        Some(TodoPriority::Low) => "low",
    };
    let mut entry = json!({"content": todo.text, "priority": priority, "status": status});
    let more = [("description", &todo.description), ("activeForm", &todo.active_form)];
    for (name, words) in more.into_iter().filter(|(_, words)| !words.is_empty()) {
        entry["_meta"]["obey"][name] = Value::String(words.clone());
    }
    entry
}

/// Returns text as the content of a call.
fn text_content(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": tools::preview(text)}})
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Update<'a, U> {
    session_id: &'a str,
    update: U,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    session_update: &'a str,
    content: TextContent<'a>,
}

#[derive(Serialize)]
struct TextContent<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    text: &'a str,
}
