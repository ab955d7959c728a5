//! The agent inside the daemon: one task per session, with an inbox for inputs and a channel for reports.
//! This file owns its start and its idle time; turns are in `turn`.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use agent_port::toolbox::{OfferedTool, SessionTools};
use agent_port::{InProcessAgent, PastEvents};
use domain::event::{ClientTool, Level};
use domain::{AgentEvent, AgentInput, Error, ErrorCode, Mode};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::history::History;
use super::http::Endpoint;
use super::reply::FailureKind;
use super::settings::OpenaiSettings;
use super::tools::AdditionalTools;
use super::{content, models, tools};
use crate::limits::INBOX_MAX;
use crate::mcp::{McpContext, McpReport, McpServers};

/// Everything needed to start a worker.
pub(super) struct WorkerConfig {
    pub(super) session: String,
    pub(super) working_dir: String,
    pub(super) endpoint: Endpoint,
    pub(super) settings: OpenaiSettings,
    /// Empty: the default model.
    pub(super) model: String,
    pub(super) mode: Mode,
    pub(super) clients: Vec<ClientTool>,
    pub(super) tools: Arc<dyn SessionTools>,
    pub(super) past: Option<PastEvents>,
    pub(super) ground: McpContext,
    /// The session had an agent before; an endpoint that is down must not end it.
    pub(super) resume: bool,
}

/// The agent as its session holds it.
pub(super) struct OpenaiAgent {
    beginning: Option<WorkerConfig>,
    inbox: mpsc::Sender<AgentInput>,
    waiting: Option<mpsc::Receiver<AgentInput>>,
    task: Option<JoinHandle<()>>,
    /// The endpoint's models, once it has listed them.
    models: Arc<OnceLock<Vec<String>>>,
}

impl OpenaiAgent {
    pub(super) fn new(beginning: WorkerConfig) -> Self {
        let (inbox, waiting) = mpsc::channel(INBOX_MAX);
        Self {
            beginning: Some(beginning),
            inbox,
            waiting: Some(waiting),
            task: None,
            models: Arc::new(OnceLock::new()),
        }
    }
}

impl InProcessAgent for OpenaiAgent {
    fn start(&mut self, events: mpsc::Sender<AgentEvent>) {
        if let (Some(beginning), Some(inbox)) = (self.beginning.take(), self.waiting.take()) {
            let worker = OpenaiWorker::new(beginning, inbox, events, Arc::clone(&self.models));
            self.task = Some(tokio::spawn(worker.live()));
        }
    }

    fn check(&self, input: &AgentInput) -> Result<(), Error> {
        match input {
            AgentInput::Prompt { text, attachments } => content::parts(text, attachments).map(drop),
            AgentInput::SetModel(model) => {
                models::check_form(model)?;
                if model.is_empty() {
                    return Err(Error::invalid(
                        "model",
                        "name the model; a session's usual one is chosen at its start",
                    ));
                }
                let known = self.models.get().map(Vec::as_slice).unwrap_or_default();
                models::choose(model, known).map(drop)
            }
            AgentInput::Steer { .. }
            | AgentInput::Interrupt
            | AgentInput::Decide { .. }
            | AgentInput::Answer { .. }
            | AgentInput::ToolResult { .. }
            | AgentInput::Tools(_)
            | AgentInput::SetMode(_)
            | AgentInput::Compact
            | AgentInput::Leave => Ok(()),
        }
    }

    fn send(&mut self, input: AgentInput) -> Result<(), Error> {
        self.inbox.try_send(input).map_err(|_| {
            Error::new(ErrorCode::DeliveryFailed, "the agent inside the daemon does not take anything in")
        })
    }

    fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

impl Drop for OpenaiAgent {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The session has ended; there is no receiver of reports.
pub(super) struct SessionGone;

/// The running agent.
pub(super) struct OpenaiWorker {
    pub(super) session: String,
    pub(super) working_dir: String,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) settings: OpenaiSettings,
    pub(super) model: String,
    pub(super) mode: Mode,
    pub(super) clients: Vec<ClientTool>,
    pub(super) tools: Arc<dyn SessionTools>,
    /// Tools the daemon offers in addition to the built-in ones.
    named: Arc<[OfferedTool]>,
    pub(super) history: History,
    /// Tokens of the conversation as last counted by the endpoint, and how many entries it had then.
    pub(super) counted: (u64, usize),
    /// A message was added that has not been sent to the model.
    pub(super) is_steered: bool,
    pub(super) inbox: mpsc::Receiver<AgentInput>,
    events: mpsc::Sender<AgentEvent>,
    models: Arc<OnceLock<Vec<String>>>,
    past: Option<PastEvents>,
    /// What MCP servers are started with; taken at the start.
    ground: Option<McpContext>,
    pub(super) servers: McpServers,
    resume: bool,
    /// Clients' tools for which a warning was given that they are not offered.
    warned: BTreeSet<String>,
}

impl OpenaiWorker {
    fn new(
        beginning: WorkerConfig,
        inbox: mpsc::Receiver<AgentInput>,
        events: mpsc::Sender<AgentEvent>,
        models: Arc<OnceLock<Vec<String>>>,
    ) -> Self {
        let WorkerConfig {
            session,
            working_dir,
            endpoint,
            settings,
            model,
            mode,
            clients,
            tools,
            past,
            ground,
            resume,
        } = beginning;
        Self {
            session,
            working_dir,
            endpoint: Arc::new(endpoint),
            settings,
            model,
            mode,
            clients,
            named: tools.offers(),
            tools,
            history: History::default(),
            counted: (0, 0),
            is_steered: false,
            inbox,
            events,
            models,
            past,
            ground: Some(ground),
            servers: McpServers::default(),
            resume,
            warned: BTreeSet::new(),
        }
    }

    /// Returns the tools that are not built in.
    pub(super) fn others(&self) -> AdditionalTools<'_> {
        AdditionalTools { named: &self.named, clients: &self.clients, servers: &self.servers }
    }

    /// Runs until the session has ended or stops the agent.
    async fn live(mut self) {
        // The error only says that the session has ended, so there is no one to report it to.
        let _ = self.work().await;
    }

    /// Prepares history, model and servers, then handles inputs until the session ends.
    async fn work(&mut self) -> Result<(), SessionGone> {
        self.rebuild().await?;
        if let Err(error) = self.find_model().await? {
            self.emit(AgentEvent::Broken { code: Some(error.code), message: error.message }).await?;
            // A broken agent is ended by its session.
            return std::future::pending().await;
        }
        self.start_servers().await?;
        self.warn_of_hidden().await?;
        self.emit(AgentEvent::Ready {
            native_session: self.session.clone(),
            model: self.model.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            resolved_model: String::new(),
        })
        .await?;
        while let Some(input) = self.inbox.recv().await {
            match input {
                AgentInput::Prompt { text, attachments } => {
                    self.history.begin_turn();
                    self.history.user(&text, &attachments);
                    self.turn().await?;
                }
                // The turn it was meant for has just ended; it starts another.
                AgentInput::Steer { text } => {
                    self.history.begin_turn();
                    self.history.user(&text, &[]);
                    self.turn().await?;
                }
                AgentInput::Compact => self.compaction_turn().await?,
                // Its turn has already ended, which was reported.
                AgentInput::Interrupt => {}
                AgentInput::Leave => return Ok(()),
                setting @ (AgentInput::SetMode(_) | AgentInput::SetModel(_) | AgentInput::Tools(_)) => {
                    self.adopt(setting);
                    self.warn_of_hidden().await?;
                }
                // What was asked is not pending any more.
                AgentInput::Decide { .. } | AgentInput::Answer { .. } | AgentInput::ToolResult { .. } => {}
            }
        }
        Ok(())
    }

    /// Warns once for each client's tool that cannot be called because one of our tools has its name.
    pub(super) async fn warn_of_hidden(&mut self) -> Result<(), SessionGone> {
        let fresh = |name: &&str| !self.warned.contains(*name);
        let names: Vec<String> = tools::hidden(self.others()).filter(fresh).map(str::to_owned).collect();
        for name in names {
            let message = format!(
                "the client's tool {name} is not offered: a built-in tool has this name; give it another"
            );
            self.notice(Level::Warning, message).await?;
            self.warned.insert(name);
        }
        Ok(())
    }

    /// Starts the MCP servers of the session.
    async fn start_servers(&mut self) -> Result<(), SessionGone> {
        let Some(ground) = self.ground.take() else { return Ok(()) };
        let (servers, report) = McpServers::start(&self.settings.servers, ground).await;
        self.servers = servers;
        self.tell_of_servers(report).await
    }

    /// Reports the state of the MCP servers and their warnings.
    pub(super) async fn tell_of_servers(&self, report: Option<McpReport>) -> Result<(), SessionGone> {
        let Some(McpReport { servers, warnings }) = report else { return Ok(()) };
        self.emit(AgentEvent::Servers(servers)).await?;
        for warning in warnings {
            self.notice(Level::Warning, warning).await?;
        }
        Ok(())
    }

    /// Applies changed settings; answers to requests that are no longer pending are ignored.
    pub(super) fn adopt(&mut self, input: AgentInput) {
        match input {
            AgentInput::SetMode(mode) => self.mode = mode,
            AgentInput::SetModel(model) => self.model = model,
            AgentInput::Tools(tools) => self.clients = tools,
            AgentInput::Prompt { .. }
            | AgentInput::Steer { .. }
            | AgentInput::Interrupt
            | AgentInput::Decide { .. }
            | AgentInput::Answer { .. }
            | AgentInput::ToolResult { .. }
            | AgentInput::Compact
            | AgentInput::Leave => {}
        }
    }

    /// Sends a report. Waits while the session has not handled the earlier ones.
    pub(super) async fn emit(&self, event: AgentEvent) -> Result<(), SessionGone> {
        self.events.send(event).await.map_err(|_| SessionGone)
    }

    pub(super) async fn notice(&self, level: Level, message: String) -> Result<(), SessionGone> {
        self.emit(AgentEvent::Notice { level, message }).await
    }

    /// Rebuilds the conversation from the journal.
    async fn rebuild(&mut self) -> Result<(), SessionGone> {
        let Some(mut past) = self.past.take() else { return Ok(()) };
        while past.events.seq() < past.last_seq {
            match past.events.available().await {
                Ok(events) if events.is_empty() => break,
                Ok(events) => {
                    for event in events.iter().filter(|event| event.seq <= past.last_seq) {
                        self.history.replay(&event.kind);
                    }
                }
                Err(error) if error.code == ErrorCode::EventsExpired => {
                    let message = "the beginning of the conversation is no longer kept".to_owned();
                    self.notice(Level::Warning, message).await?;
                    if past.events.skip_removed().await.is_err() {
                        break;
                    }
                }
                Err(error) => {
                    let message = format!("the conversation so far cannot be read: {}", error.message);
                    self.notice(Level::Error, message).await?;
                    break;
                }
            }
        }
        self.history.end_replay();
        Ok(())
    }

    /// Determines which model to use, and reports at once what the first turn would fail with.
    async fn find_model(&mut self) -> Result<Result<(), Error>, SessionGone> {
        let known = match self.endpoint.models().await {
            Ok(known) => known,
            // Not every endpoint lists its models.
            Err(failure) if failure.kind == FailureKind::NotFound => Vec::new(),
            Err(failure) if self.resume && !self.model.is_empty() => {
                self.notice(Level::Warning, format!("{}; the session goes on", failure.message)).await?;
                return Ok(Ok(()));
            }
            Err(failure) => {
                let remedy = match failure.kind {
                    FailureKind::Key => self.key_remedy(),
                    FailureKind::Unreachable => {
                        "; is provider_config.base_url right, and the endpoint up?".to_owned()
                    }
                    _ => String::new(),
                };
                return Ok(Err(Error::new(failure.code(), format!("{}{remedy}", failure.message))));
            }
        };
        // Fails only if a list was already stored, which is just as good.
        let _ = self.models.set(known.clone());
        match models::choose(&self.model, &known) {
            Ok(model) => self.model = model,
            Err(error) if self.resume && !self.model.is_empty() => {
                self.notice(Level::Warning, error.message).await?;
            }
            Err(error) => return Ok(Err(error)),
        }
        Ok(Ok(()))
    }

    pub(super) fn key_remedy(&self) -> String {
        let variable = super::key_variable(&self.settings);
        format!("; check the key in {variable}, or name its variable with provider_config.api_key_env")
    }
}
