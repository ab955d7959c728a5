//! A small daemon for tests: keeps sessions, events and requests in memory and plays turns from a script.
//! Speaks the real protocol; knows none of the real rules beyond what the tests need. Used by the tests of the
//! functions (`src/tests`) and by those of the program.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::Status;
use tonic::transport::Server;
use wire::obey::local::v1 as local;
use wire::obey::local::v1::local_daemon_service_server::LocalDaemonServiceServer;
use wire::obey::v1 as pb;
use wire::obey::v1::campaign_service_server::CampaignServiceServer;
use wire::obey::v1::event_service_server::EventServiceServer;
use wire::obey::v1::overview_service_server::OverviewServiceServer;
use wire::obey::v1::request_service_server::RequestServiceServer;
use wire::obey::v1::turn_service_server::TurnServiceServer;

/// No test waits longer than this for anything.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// One step of a turn.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Event(&'static str, Value),
    /// Opens a request and waits until it is settled.
    Ask(Box<pb::Request>, Value),
    /// Waits until the turn is cancelled.
    Hang,
}

/// What the daemon was asked, for tests that look at it.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) created: Vec<(local::CreateSessionRequest, Option<String>)>,
    pub(crate) prompts: Vec<pb::PromptRequest>,
    pub(crate) decisions: Vec<pb::AnswerPermissionRequest>,
    pub(crate) answers: Vec<pb::AnswerQuestionRequest>,
    pub(crate) executed: Vec<local::ExecuteRequest>,
    pub(crate) stops: Vec<local::StopSessionRequest>,
    pub(crate) modes: Vec<pb::SetModeRequest>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) campaigns: Vec<pb::Campaign>,
    pub(crate) sessions: Vec<local::SessionInfo>,
    pub(crate) events: BTreeMap<String, Vec<pb::Event>>,
    pub(crate) requests: Vec<pb::Request>,
    /// Turns to come, for whatever prompt.
    pub(crate) turns: VecDeque<Vec<Step>>,
    pub(crate) seen: Seen,
    pub(crate) cancelled: bool,
    pub(crate) watchers: Vec<mpsc::Sender<Result<local::SessionStatusEvent, Status>>>,
    /// The daemon is going down.
    pub(crate) closed: bool,
    served: Option<tokio::task::JoinHandle<()>>,
}

/// The daemon. Clones share their state.
#[derive(Clone)]
pub(crate) struct Fake {
    state: Arc<Mutex<State>>,
    /// Counts changes; whoever waits for one looks again.
    pub(crate) changes: watch::Sender<u64>,
}

/// Makes an error as the real daemon sends it.
pub(crate) fn refuse(code: tonic::Code, obey: &'static str, message: &str) -> Status {
    let mut status = Status::new(code, message);
    status.metadata_mut().insert("obey-code", tonic::metadata::MetadataValue::from_static(obey));
    status
}

impl Fake {
    /// Serves on a socket until the test's runtime ends.
    pub(crate) fn serve(socket: &Path) -> Self {
        let fake = Self { state: Arc::default(), changes: watch::channel(0).0 };
        fake.open(socket);
        fake
    }

    /// Serves on a socket until `close`.
    pub(crate) fn open(&self, socket: &Path) {
        let fake = self.clone();
        // A socket file is left behind by whoever served before.
        let _absent = std::fs::remove_file(socket);
        let listener = tokio::net::UnixListener::bind(socket).unwrap();
        let router = Server::builder()
            .add_service(LocalDaemonServiceServer::new(fake.clone()))
            .add_service(EventServiceServer::new(fake.clone()))
            .add_service(TurnServiceServer::new(fake.clone()))
            .add_service(RequestServiceServer::new(fake.clone()))
            .add_service(OverviewServiceServer::new(fake.clone()))
            .add_service(CampaignServiceServer::new(fake.clone()));
        let served = self.state().served.take();
        assert!(served.is_none(), "it is open already");
        let mut closing = self.changes.subscribe();
        let served = tokio::spawn(async move {
            let closed = async {
                while !fake.state().closed {
                    closing.changed().await.unwrap();
                }
            };
            router.serve_with_incoming_shutdown(UnixListenerStream::new(listener), closed).await.unwrap();
        });
        self.state().closed = false;
        self.state().served = Some(served);
    }

    /// Ends serving as a daemon does that is replaced: streams end, the state is kept.
    pub(crate) async fn close(&self) {
        self.state().closed = true;
        self.changed();
        let served = self.state().served.take();
        served.expect("it is not open").await.unwrap();
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Adds a session with nothing in its log.
    pub(crate) fn add_session(&self, id: &str, name: &str, status: local::SessionStatus) {
        self.state().sessions.push(local::SessionInfo {
            id: id.to_owned(),
            agent_name: name.to_owned(),
            status: status.into(),
            provider: local::SessionProvider::Scripted.into(),
            working_dir: "/w".to_owned(),
            ..Default::default()
        });
    }

    /// Appends an event to a session's log and returns its number.
    pub(crate) fn append(&self, session: &str, name: &str, fields: &Value) -> u64 {
        let mut state = self.state();
        let events = state.events.entry(session.to_owned()).or_default();
        let seq = events.len() as u64 + 1;
        events.push(pb::Event {
            seq,
            at: Some(prost_types::Timestamp { seconds: 1_771_425_000, nanos: 0 }),
            r#type: name.to_owned(),
            json: fields.to_string(),
            session_id: session.to_owned(),
            kind: None,
        });
        drop(state);
        self.changed();
        seq
    }

    pub(crate) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Waits until something holds.
    pub(crate) async fn until(&self, holds: impl Fn(&State) -> bool) {
        let mut changes = self.changes.subscribe();
        let waiting = async {
            while !holds(&self.state()) {
                changes.changed().await.unwrap();
            }
        };
        tokio::time::timeout(DEADLINE, waiting).await.expect("it never came true");
    }

    pub(crate) fn session(&self, id: &str) -> Result<local::SessionInfo, Status> {
        let found = self.state().sessions.iter().find(|session| session.id == id).cloned();
        found.ok_or_else(|| refuse(tonic::Code::NotFound, "OBEY-2010", &format!("no session {id}")))
    }

    pub(crate) fn set_status(&self, id: &str, status: local::SessionStatus) {
        if let Some(session) = self.state().sessions.iter_mut().find(|session| session.id == id) {
            session.status = status.into();
        }
        self.changed();
    }

    /// Begins a turn and returns its id and the number of the event that records it.
    pub(crate) fn begin_turn(&self, session: String, prompt: &str) -> (String, u64) {
        let number = self.state().seen.prompts.len();
        let turn = format!("turn_{number}");
        self.set_status(&session, local::SessionStatus::Working);
        let begun = json!({"turn": turn, "origin": "client", "prompt": prompt});
        let seq = self.append(&session, "turn_started", &begun);
        let steps = self.state().turns.pop_front().unwrap_or_default();
        self.state().cancelled = false;
        tokio::spawn(self.clone().play(session, turn.clone(), steps));
        (turn, seq)
    }

    async fn play(self, session: String, turn: String, steps: Vec<Step>) {
        let mut reason = "completed";
        for step in steps {
            match step {
                // A script may end its turn itself.
                Step::Event("turn_ended", fields) => {
                    self.append(&session, "turn_ended", &fields);
                    self.set_status(&session, local::SessionStatus::Running);
                    return;
                }
                Step::Event(name, fields) => {
                    self.append(&session, name, &fields);
                }
                Step::Ask(request, fields) => {
                    let id = request.id.clone();
                    self.state().requests.push(pb::Request { session_id: session.clone(), ..*request });
                    self.append(&session, "request_opened", &fields);
                    let settled = |state: &State| {
                        state.requests.iter().any(|request| request.id == id && !request.outcome.is_empty())
                    };
                    self.until(settled).await;
                }
                Step::Hang => {
                    self.until(|state| state.cancelled).await;
                    reason = "cancelled";
                }
            }
        }
        self.append(&session, "turn_ended", &json!({"turn": turn, "reason": reason}));
        self.set_status(&session, local::SessionStatus::Running);
    }

    /// Settles a request unless somebody did before.
    pub(crate) fn settle(
        &self,
        id: &str,
        outcome: &str,
        event: &Value,
    ) -> Result<pb::AnswerResponse, Status> {
        let mut state = self.state();
        let Some(request) = state.requests.iter_mut().find(|request| request.id == id) else {
            return Err(refuse(tonic::Code::NotFound, "OBEY-2015", &format!("no request {id}")));
        };
        let settled_by_this_answer = request.outcome.is_empty();
        if settled_by_this_answer {
            outcome.clone_into(&mut request.outcome);
            "cli".clone_into(&mut request.settled_by);
        }
        let request = request.clone();
        drop(state);
        if settled_by_this_answer {
            self.append(&request.session_id, "request_settled", event);
        }
        Ok(pb::AnswerResponse { request: Some(request), settled_by_this_answer })
    }
}
