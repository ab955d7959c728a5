//! One client connection: reads its lines in order, dispatches them, and closes everything at the end.
//! Requests run concurrently; those of one session keep their order. Must not wait for an agent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use domain::{SessionId, StopMode};
use http::Extensions;
use runtime::Supervisor;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use super::AcpSessionDefaults;
use super::client_requests::ClientRequests;
use super::event_log::EventLog;
use super::from_wire::{self, ClientCapabilities};
use super::lines::{ClientLine, LineReader};
use super::outbox::{ClientOutbox, OutputFrame};
use super::presence::OpenSessions;
use super::resume_state::{ConnectionNotes, NoteWriter as _, Notes};
use super::rpc::{self, INVALID_REQUEST, METHOD_NOT_FOUND, RpcError, RpcId, RpcMessage};
use super::session_stream::{ClientMessage, SessionStream};
use crate::limits;
use surface::access::{self, Recorder};
use surface::peer::{self, Caller, Peer, Signer};

/// The protocol version we implement.
const PROTOCOL_VERSION: u32 = 1;

/// Whether and how a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionEnding {
    Open,
    /// Ends together with its agents.
    Stop,
    /// The daemon exits; the agents keep running and the next daemon resumes them.
    Leave,
}

/// State that every part of a connection uses.
pub(super) struct ConnectionContext {
    pub(super) supervisor: Supervisor,
    pub(super) defaults: AcpSessionDefaults,
    pub(super) out: ClientOutbox,
    pub(super) client_requests: ClientRequests,
    pub(super) evidence: EventLog,
    pub(super) presence: OpenSessions,
    /// Who drives the connection.
    caller: AcpCaller,
    recorder: Recorder,
    /// The name of this connection, where it outlives the daemon; else empty.
    pub(super) connection: String,
    /// One permit for each session this client may have open.
    pub(super) room: Arc<Semaphore>,
    client: Mutex<ClientCapabilities>,
    talks: Mutex<HashMap<SessionId, SessionStream>>,
    /// Signals how the connection ends; set when it is being served.
    ending: OnceLock<watch::Receiver<ConnectionEnding>>,
}

/// Who is behind a connection.
pub(super) struct AcpCaller {
    caller: Caller,
    signer: Signer,
    peer: Option<Peer>,
}

impl AcpCaller {
    /// Whoever sent a request.
    pub(super) fn of(extensions: &Extensions) -> Self {
        let peer = extensions.get::<Peer>().copied();
        Self { caller: peer::caller(extensions), signer: Signer::of(extensions), peer }
    }

    /// The user, on pipes of this process.
    pub(super) fn user() -> Self {
        Self { caller: Caller::User, signer: Signer::default(), peer: None }
    }
}

/// A connection that is not served yet.
pub(super) struct AcpConnection {
    core: Arc<ConnectionContext>,
    remembered: ConnectionNotes,
}

/// Identifies a connection that outlives the daemon: its name, and the notes kept about it.
#[derive(Clone, Debug, Default)]
pub(super) struct ResumableConnection {
    pub(super) connection: String,
    pub(super) notes: Notes,
}

impl AcpConnection {
    pub(super) fn new(
        supervisor: Supervisor,
        defaults: AcpSessionDefaults,
        presence: OpenSessions,
        lasting: ResumableConnection,
        caller: AcpCaller,
    ) -> (Self, mpsc::Receiver<OutputFrame>) {
        let (out, frames) = ClientOutbox::new(!lasting.connection.is_empty());
        let core = ConnectionContext {
            recorder: Recorder::new(Some(supervisor.audit())),
            supervisor,
            room: Arc::new(Semaphore::new(defaults.max_sessions.clamp(1, Semaphore::MAX_PERMITS))),
            evidence: EventLog::begin(defaults.evidence.clone(), out.clone()),
            defaults,
            client_requests: ClientRequests::new(out.clone()),
            out,
            presence,
            caller,
            connection: lasting.connection,
            client: Mutex::default(),
            talks: Mutex::default(),
            ending: OnceLock::new(),
        };
        (Self { core: Arc::new(core), remembered: ConnectionNotes::read(&lasting.notes) }, frames)
    }

    /// Serves the client until its input ends, it stops reading, or `ending` says so.
    pub(super) async fn run(
        self,
        mut input: mpsc::Receiver<Bytes>,
        mut ending: watch::Receiver<ConnectionEnding>,
    ) {
        let core = self.core;
        // Cannot fail: a connection is served only once.
        let _first = core.ending.set(ending.clone());
        if !core.take_up(self.remembered).await {
            // The next daemon can still find what is unavailable now.
            return core.leave().await;
        }
        let mut lines = LineReader::new(limits::ACP_LINE_MAX_BYTES);
        let mut work = RunningRequests { tasks: JoinSet::new(), core: Arc::clone(&core) };
        let ending = loop {
            let piece = tokio::select! {
                biased;
                ended = ending.wait_for(|ending| *ending != ConnectionEnding::Open) => {
                    break ended.map_or(ConnectionEnding::Stop, |ending| *ending);
                }
                piece = input.recv() => piece,
                () = core.out.hung_up() => None,
            };
            let Some(piece) = piece else { break ConnectionEnding::Stop };
            for (number, line) in lines.push_counting(&piece) {
                work.handle_line(line, number).await;
            }
        };
        if let (ConnectionEnding::Stop, Some(line)) = (ending, lines.finish()) {
            work.handle_line(Some(line), lines.ended()).await;
        }
        if ending == ConnectionEnding::Stop {
            work.finish().await;
        }
        work.tasks.abort_all();
        core.close(ending).await;
        core.evidence.end().await;
        if ending == ConnectionEnding::Leave {
            return core.leave().await;
        }
        core.out.end(OutputFrame::End).await;
    }
}

/// The client's requests in progress.
struct RunningRequests {
    tasks: JoinSet<()>,
    core: Arc<ConnectionContext>,
}

impl RunningRequests {
    /// Waits for the answers to what the client sent before it closed its input; a client that does not read gets none.
    async fn finish(&mut self) {
        let tasks = &mut self.tasks;
        let answered = async { while tasks.join_next().await.is_some() {} };
        let deadline = tokio::time::sleep(limits::ACP_LAST_ANSWERS_WAIT);
        tokio::select! {
            () = answered => {}
            () = deadline => {}
            () = self.core.out.hung_up() => {}
        }
    }

    /// Handles one line of the client: a request, a notification, a response, or an invalid line.
    async fn handle_line(&mut self, line: Option<ClientLine>, number: u64) {
        let core = Arc::clone(&self.core);
        let line = match line {
            Some(ClientLine::Whole(line)) => line,
            Some(ClientLine::TooLong(id)) => {
                let id = id.as_ref().and_then(RpcId::echo).unwrap_or_else(RpcId::null);
                let most = limits::ACP_LINE_MAX_BYTES;
                let fault = RpcError::new(INVALID_REQUEST, format!("a line has at most {most} bytes"));
                return core.refuse(&id, fault, number).await;
            }
            None => return core.out.done([number]),
        };
        match rpc::read(&line) {
            RpcMessage::Broken { id, fault } => core.refuse(&id, fault, number).await,
            RpcMessage::Response { id, result } => {
                if !core.client_requests.answered(&id, result, number) {
                    core.out.log("debug", "the client answered what nobody waits for");
                    core.out.done([number]);
                }
            }
            RpcMessage::Notification { method, params } => core.notified(&method, params, number).await,
            RpcMessage::Request { id, method, params } => {
                core.out.remember_line(&id, number);
                self.handle_request(id, method, params).await;
            }
        }
    }

    /// Dispatches a request to its method after checking that the caller may make it.
    async fn handle_request(&mut self, id: RpcId, method: String, params: Value) {
        let core = Arc::clone(&self.core);
        if let Err(fault) = core.admit(&method, &params).await {
            return core.answer(&id, Err(fault)).await;
        }
        match method.as_str() {
            // Handled inline, so that the requests sent directly after it find it done.
            "initialize" => {
                let answer = core.initialize(params);
                if answer.is_ok() {
                    let details = json!({"protocolVersion": PROTOCOL_VERSION, "client": core.client().name});
                    core.evidence.report("initialize", "", &details);
                }
                core.answer(&id, answer).await;
            }
            "session/prompt" | "session/set_mode" | "session/set_model" | "session/set_config_option" => {
                if let Err(fault) = core.forward_to_session(&id, &method, params) {
                    core.answer(&id, Err(fault)).await;
                }
            }
            "session/new" | "session/load" | "session/resume" | "session/list" | "session/close"
            | "session/delete" => {
                while self.tasks.len() >= limits::ACP_REQUESTS_MAX {
                    self.tasks.join_next().await;
                }
                while self.tasks.try_join_next().is_some() {}
                self.tasks.spawn(async move { core.serve(id, &method, params).await });
            }
            _ => core.answer(&id, Err(unknown(&method))).await,
        }
    }
}

fn unknown(method: &str) -> RpcError {
    let shown: String = method.chars().filter(|letter| !letter.is_control()).take(64).collect();
    RpcError::new(METHOD_NOT_FOUND, format!("method not found: {shown}"))
}

impl ConnectionContext {
    /// Whether the daemon is exiting. Errors caused by that are left to the next daemon.
    pub(super) fn is_leaving(&self) -> bool {
        !self.connection.is_empty()
            && self.ending.get().is_some_and(|ending| *ending.borrow() == ConnectionEnding::Leave)
    }

    /// Ends the output without an end of the connection, so that the next daemon can continue it.
    async fn leave(&self) {
        self.talks().clear();
        self.out.end(OutputFrame::Leave).await;
        self.out.end(OutputFrame::End).await;
    }

    /// Answers a request. The result is ignored: a client that is gone needs no answer.
    pub(super) async fn answer(&self, id: &RpcId, result: Result<Value, RpcError>) {
        if result.is_err() && self.is_leaving() {
            return;
        }
        let _gone = self.out.answer(id, result, |_| {}).await;
    }

    /// Answers a line that is not a request.
    async fn refuse(&self, id: &RpcId, fault: RpcError, line: u64) {
        let _gone = self.out.refuse(id, fault, line).await;
    }

    pub(super) fn client(&self) -> ClientCapabilities {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn talks(&self) -> MutexGuard<'_, HashMap<SessionId, SessionStream>> {
        self.talks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client's name as it is recorded in the journal.
    pub(super) fn by(&self) -> String {
        let name = self.client().name;
        self.caller.signer.sign(if name.is_empty() { "acp".to_owned() } else { format!("acp:{name}") })
    }

    /// Refuses a client that may not decide what an agent may do.
    pub(super) fn check_may_answer(&self) -> Result<(), domain::Error> {
        self.caller.signer.check_may_answer()
    }

    /// Stores the client's capabilities and returns ours.
    pub(super) fn initialize(&self, params: Value) -> Result<Value, RpcError> {
        let initialize: from_wire::Initialize = from_wire::params(params.clone())?;
        let client = ClientCapabilities::read(&initialize);
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = client;
        self.out.note(|notes| notes.client(&params));
        let provider = self.supervisor.providers().get(self.defaults.provider);
        let can = provider.map(|provider| provider.capabilities()).unwrap_or_default();
        let kind = self.defaults.provider;
        let claude = kind == domain::ProviderKind::ClaudeCode;
        Ok(json!({
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {"image": can.attachments, "audio": false, "embeddedContext": true},
                "mcpCapabilities": {"http": claude || kind == domain::ProviderKind::Codex, "sse": claude},
                "sessionCapabilities": {
                    "list": {}, "resume": {}, "close": {}, "delete": {}, "additionalDirectories": {},
                },
            },
            "agentInfo": {
                "name": "obey",
                "title": format!("obey ({})", kind.name()),
                "version": env!("CARGO_PKG_VERSION"),
            },
            "authMethods": [],
        }))
    }

    /// Refuses what the access table does not let the caller do, and methods it does not know.
    async fn admit(&self, method: &str, params: &Value) -> Result<(), RpcError> {
        let row = access::acp(method).ok_or_else(|| unknown(method))?;
        let session = params["sessionId"].as_str().unwrap_or_default();
        let Err(error) = access::check(Some(row), &self.caller.caller, session) else { return Ok(()) };
        self.recorder.refused(row, &self.caller.caller, session, self.caller.peer).await;
        Err(RpcError::from(&error))
    }

    /// Handles a notification of the client.
    async fn notified(&self, method: &str, params: Value, line: u64) {
        if access::acp(method).is_some() && self.admit(method, &params).await.is_err() {
            self.out.log("warn", "refused a notification that this caller may not send");
            return self.out.done([line]);
        }
        let passed_on = match method {
            "session/cancel" => {
                // Nobody could be told of a field that is not known, and what is running has to end.
                let id = params["sessionId"].as_str().and_then(|id| from_wire::session_id(id).ok());
                // There is nothing to cancel in a session that is not open.
                id.is_some_and(|id| self.talks().get(&id).is_some_and(|talk| talk.cancel(line)))
            }
            "$/cancel_request" => {
                // Only prompts run long enough to be cancelled.
                let rpc = RpcId::read(&params["requestId"]);
                let talks = self.talks();
                let found = rpc.and_then(|rpc| talks.values().find(|talk| talk.is_prompt(&rpc)));
                found.is_some_and(|talk| talk.cancel(line))
            }
            method if is_request(method) => {
                let fault = RpcError::new(INVALID_REQUEST, format!("{method} is a request and needs an id"));
                return self.refuse(&RpcId::null(), fault, line).await;
            }
            // The protocol lets us ignore unknown notifications, `$/…` among them.
            _ => {
                self.out.log("debug", "passed over a notification");
                false
            }
        };
        if !passed_on {
            self.out.done([line]);
        }
    }

    /// Passes a message to the stream of its session, which keeps the order.
    fn forward_to_session(&self, rpc: &RpcId, method: &str, params: Value) -> Result<(), RpcError> {
        let rpc = rpc.clone();
        let (session, said) = match method {
            "session/prompt" => {
                let prompt: from_wire::PromptParams = from_wire::params(params)?;
                prompt.check()?;
                (
                    prompt.session_id,
                    ClientMessage::Prompt {
                        rpc,
                        blocks: prompt.prompt,
                        key: from_wire::client_key(&prompt.meta),
                    },
                )
            }
            "session/set_mode" => {
                let set: from_wire::SetModeParams = from_wire::params(params)?;
                (set.session_id, ClientMessage::SetMode { rpc, mode: set.mode_id, as_option: false })
            }
            "session/set_model" => {
                let set: from_wire::SetModelParams = from_wire::params(params)?;
                (set.session_id, ClientMessage::SetModel { rpc, model: set.model_id, as_option: false })
            }
            _ => {
                let set: from_wire::SetOptionParams = from_wire::params(params)?;
                let value = set.value.as_str().map(str::to_owned);
                let value =
                    value.ok_or_else(|| RpcError::params("value must be one of the option's values"))?;
                match set.config_id.as_str() {
                    "mode" => (set.session_id, ClientMessage::SetMode { rpc, mode: value, as_option: true }),
                    "model" => {
                        (set.session_id, ClientMessage::SetModel { rpc, model: value, as_option: true })
                    }
                    _ => return Err(RpcError::params("configId: the options are mode and model")),
                }
            }
        };
        let id = from_wire::session_id(&session)?;
        match self.talks().get(&id) {
            Some(talk) => talk.submit(said),
            None => Err(RpcError::params(format!(
                "sessionId: {id} is not open here; use session/new, session/load or session/resume first"
            ))),
        }
    }

    /// Closes all sessions of this connection. Agents it started are stopped with it, unless another
    /// connection uses them. What the client asked of a session before it left is answered: a prompt that has not ended as
    /// cancelled, and with `--keep` it is sent.
    async fn close(&self, ending: ConnectionEnding) {
        let talks: Vec<SessionStream> = self.talks().drain().map(|(_, talk)| talk).collect();
        if ending == ConnectionEnding::Leave {
            return;
        }
        let mut stops = JoinSet::new();
        let keep = self.defaults.keep;
        for mut talk in talks {
            let supervisor = self.supervisor.clone();
            stops.spawn(async move {
                if keep {
                    return talk.finish().await;
                }
                talk.conclude_or_hush("cancelled").await;
                if talk.is_ours_alone() {
                    // An error means that the agent has already ended.
                    let _ended = supervisor.stop(talk.id(), StopMode::Now).await;
                    talk.settle().await;
                }
            });
        }
        while stops.join_next().await.is_some() {}
    }
}

/// Whether a method is a request and must have an id.
fn is_request(method: &str) -> bool {
    const METHODS: [&str; 13] = [
        "initialize",
        "authenticate",
        "logout",
        "session/new",
        "session/load",
        "session/resume",
        "session/list",
        "session/close",
        "session/delete",
        "session/prompt",
        "session/set_mode",
        "session/set_model",
        "session/set_config_option",
    ];
    METHODS.contains(&method)
}
