//! The daemon's side: watches the sessions, follows the one that is shown, and does what the screen asks. Every request is a
//! task of its own, so that the screen never waits; a lost daemon is called again. Sessions of other machines are watched and
//! called where they are; a machine that is gone holds up none of the others.

mod attaching;
mod changes;
mod creating;
mod follow;
mod machines;
mod plans;
mod sending;
mod usage;
mod walk;
mod work;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use client::connection::Client;
use config::failure::Failure;
use config::vars::Vars;
use domain::budget::Budget;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use view::{SessionSummary, SummaryBudget, SummaryRequest, SummaryState};
use wire::obey::v1 as pb;

use crate::data::{Request, Update};
use crate::limits;
pub(crate) use creating::home;

/// How the daemon is reached, and for whom.
#[derive(Clone, Debug)]
pub(crate) struct DaemonSettings {
    pub(crate) client: Client,
    /// Who answers, for the record.
    pub(crate) person: String,
    /// The folder the command was called in.
    pub(crate) folder: PathBuf,
    /// The person's home folder.
    pub(crate) home: Option<PathBuf>,
    /// What new sessions take over of the environment; none on another machine, whose daemon has its own.
    pub(crate) vars: Option<Vars>,
}

/// The tasks that talk to the daemon.
pub(crate) struct DaemonSide {
    settings: Arc<DaemonSettings>,
    updates: mpsc::Sender<Update>,
    /// Machines beside this one, by name.
    others: Vec<(String, Arc<DaemonSettings>)>,
    homes: SessionHomes,
    watching: Vec<JoinHandle<()>>,
    following: Option<JoinHandle<()>>,
    planning: Option<JoinHandle<()>>,
}

/// On which other machine each session is; none: on this one. A machine may be paired with itself: this one is then meant.
type SessionHomes = Arc<Mutex<HashMap<String, Option<String>>>>;

/// Remembers where sessions are.
fn note_homes<'a>(homes: &SessionHomes, sessions: impl Iterator<Item = &'a str>, machine: Option<&str>) {
    let mut homes = homes.lock().unwrap_or_else(PoisonError::into_inner);
    for session in sessions {
        let is_here = homes.get(session).is_some_and(Option::is_none);
        if machine.is_none() || !is_here {
            homes.insert(session.to_owned(), machine.map(str::to_owned));
        }
    }
}

impl DaemonSide {
    pub(crate) fn new(
        settings: DaemonSettings,
        machines: Vec<(String, Client)>,
        updates: mpsc::Sender<Update>,
    ) -> Self {
        let other = |(name, client): (String, Client)| {
            (name, Arc::new(DaemonSettings { client, vars: None, ..settings.clone() }))
        };
        let others = machines.into_iter().map(other).collect();
        let homes = SessionHomes::default();
        Self {
            settings: Arc::new(settings),
            updates,
            others,
            homes,
            watching: Vec::new(),
            following: None,
            planning: None,
        }
    }

    /// Returns how the machine is reached that a session is on.
    fn settings_of(&self, session: Option<&str>) -> Arc<DaemonSettings> {
        let homes = self.homes.lock().unwrap_or_else(PoisonError::into_inner);
        let home = session.and_then(|session| homes.get(session)?.as_ref());
        let other = home.and_then(|home| self.others.iter().find(|(name, _)| name == home));
        Arc::clone(other.map_or(&self.settings, |(_, settings)| settings))
    }

    /// Returns how a machine is reached; an empty name is this one.
    fn settings_on(&self, machine: &str) -> Arc<DaemonSettings> {
        let other = self.others.iter().find(|(name, _)| name == machine);
        Arc::clone(other.map_or(&self.settings, |(_, settings)| settings))
    }

    /// Begins to do what the screen asks.
    pub(crate) fn handle(&mut self, request: Request) {
        let (settings, updates) = (self.settings_of(request.session()), self.updates.clone());
        match request {
            Request::Watch { include_ended } => {
                self.watching.drain(..).for_each(|task| task.abort());
                self.watching.push(tokio::spawn(watch(
                    settings,
                    updates.clone(),
                    Arc::clone(&self.homes),
                    include_ended,
                )));
                for (name, settings) in &self.others {
                    let machine = machines::OtherMachineWatch {
                        name: name.clone(),
                        settings: Arc::clone(settings),
                        updates: updates.clone(),
                        homes: Arc::clone(&self.homes),
                        include_ended,
                    };
                    self.watching.push(tokio::spawn(machine.run()));
                }
            }
            Request::Open { session, last_seq, tail } => {
                let task = tokio::spawn(follow::follow(settings, updates, session, last_seq, tail));
                stop(self.following.replace(task));
            }
            Request::Plans { session: None } => stop(self.planning.take()),
            Request::Plans { session: Some(session) } => {
                let task = tokio::spawn(plans::watch(settings, updates, session));
                stop(self.planning.replace(task));
            }
            Request::Files { folder } => {
                tokio::spawn(async move {
                    let walked = folder.clone();
                    let paths = tokio::task::spawn_blocking(move || walk::files(&walked)).await;
                    let paths = paths.unwrap_or_default();
                    // A screen that is gone needs nothing.
                    let _gone = updates.send(Update::Files { folder, paths }).await;
                });
            }
            Request::Choices { machine } => {
                let settings = self.settings_on(&machine);
                tokio::spawn(creating::choices(settings, machine, updates));
            }
            Request::Create(new) => {
                let (settings, homes) = (self.settings_on(&new.machine), Arc::clone(&self.homes));
                tokio::spawn(creating::create(settings, homes, *new, updates));
            }
            Request::Search { text } => {
                let (others, homes) = (self.others.clone(), Arc::clone(&self.homes));
                tokio::spawn(machines::search(settings, others, homes, text, updates));
            }
            Request::Usage { by, span } => {
                tokio::spawn(usage::usage(settings, self.others.clone(), (by, span), updates));
            }
            request => {
                tokio::spawn(async move {
                    if let Some(update) = sending::send(&settings, request).await {
                        let _gone = updates.send(update).await;
                    }
                });
            }
        }
    }
}

impl Drop for DaemonSide {
    fn drop(&mut self) {
        self.watching.drain(..).for_each(|task| task.abort());
        stop(self.following.take());
        stop(self.planning.take());
    }
}

fn stop(task: Option<JoinHandle<()>>) {
    if let Some(task) = task {
        task.abort();
    }
}

/// Watches the sessions for as long as the screen is there.
async fn watch(
    settings: Arc<DaemonSettings>,
    updates: mpsc::Sender<Update>,
    homes: SessionHomes,
    include_ended: bool,
) {
    loop {
        match watch_once(&settings, &updates, &homes, include_ended).await {
            Ok(()) => {}
            Err(failure) if failure.is_connection_lost() => {}
            Err(failure) => {
                let update = Update::Failed { why: failure.for_people(), forbidden: is_forbidden(&failure) };
                if updates.send(update).await.is_err() {
                    return;
                }
            }
        }
        if updates.send(Update::Lost).await.is_err() {
            return;
        }
        tokio::time::sleep(limits::RECONNECT_PAUSE).await;
    }
}

async fn watch_once(
    settings: &DaemonSettings,
    updates: &mpsc::Sender<Update>,
    homes: &SessionHomes,
    include_ended: bool,
) -> Result<(), Failure> {
    let request = watch_request(include_ended);
    let mut stream = settings.client.overview().watch(request).await?.into_inner();
    while let Some(update) = stream.message().await? {
        if update.snapshot && updates.send(Update::Connected).await.is_err() {
            return Ok(());
        }
        note_homes(homes, update.sessions.iter().map(|session| session.session_id.as_str()), None);
        let update = Update::Overview {
            revision: update.revision,
            snapshot: update.snapshot,
            sessions: update.sessions.into_iter().map(summary).collect(),
            removed: update.removed,
            machine: update.machine,
        };
        if updates.send(update).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns what is asked of a machine's list. Who asks for what is over asks for what was put aside too.
fn watch_request(include_ended: bool) -> pb::WatchOverviewRequest {
    let filter = pb::OverviewFilter { include_ended, include_archived: include_ended, ..Default::default() };
    pb::WatchOverviewRequest { filter: Some(filter) }
}

/// Returns whether the caller may not do this.
fn is_forbidden(failure: &Failure) -> bool {
    failure.grpc == Some(tonic::Code::PermissionDenied)
}

fn summary(from: pb::SessionOverview) -> SessionSummary {
    let state = match from.state() {
        pb::SessionState::NeedsYou => SummaryState::NeedsYou,
        pb::SessionState::Failed => SummaryState::Failed,
        pb::SessionState::Working => SummaryState::Working,
        pb::SessionState::Quiet => SummaryState::Quiet,
        pb::SessionState::Done => SummaryState::Done,
        pb::SessionState::Ended => SummaryState::Ended,
        pb::SessionState::Idle | pb::SessionState::Unspecified => SummaryState::Idle,
    };
    let request = |request: pb::OverviewRequest| SummaryRequest {
        at: ms(request.asked_at.as_ref()),
        request: request.request_id,
        subject: request.kind,
        text: request.text,
    };
    SessionSummary {
        since: ms(from.since.as_ref()),
        requests: from.requests.into_iter().map(request).collect(),
        session: from.session_id,
        name: from.name,
        campaign: from.campaign,
        folder: from.folder,
        branch: from.branch,
        provider: from.provider,
        model: from.model,
        mode: from.mode,
        state,
        reason: from.reason,
        last_line: from.last_line,
        tokens: from.tokens,
        cost_micro_usd: from.cost_micro_usd,
        todos_done: u64::from(from.todos_done),
        todos_total: u64::from(from.todos_all),
        machine: from.machine,
        last_seq: from.last_seq,
        budget: from.budget.map(budget).unwrap_or_default(),
        queued: u64::from(from.queued),
    }
}

fn budget(from: pb::SessionBudget) -> SummaryBudget {
    let limit = Budget {
        tokens: from.max_tokens,
        cost_micro_usd: from.cost_micro_usd,
        work_ms: from.work_ms,
        calls: from.calls,
    };
    let left = Budget {
        tokens: from.tokens_left,
        cost_micro_usd: from.cost_left_micro_usd,
        work_ms: from.work_left_ms,
        calls: from.calls_left,
    };
    SummaryBudget { limit, left }
}

/// Milliseconds since the Unix epoch.
fn ms(at: Option<&prost_types::Timestamp>) -> i64 {
    at.map_or(0, |at| at.seconds * 1_000 + i64::from(at.nanos) / 1_000_000)
}
