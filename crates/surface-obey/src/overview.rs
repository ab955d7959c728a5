//! `OverviewService`: what lists show of every session.

use std::collections::{HashMap, HashSet};

use domain::overview::{RequestFacts, RequestFactsKind, SessionState};
use domain::{Error, SessionId};
use host::clock;
use host::machine::MachineIdentity;
use runtime::overview::{OverviewFilter, OverviewWatch, SessionGlance};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::overview_service_server::OverviewService;

use super::local::answer;
use super::to_wire::timestamp;
use super::{Obey, from_wire};
use surface::pump::Messages;
use surface::status;

#[tonic::async_trait]
impl OverviewService for Obey {
    type WatchStream = Messages<pb::OverviewUpdate>;

    async fn watch(
        &self,
        request: Request<pb::WatchOverviewRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        answer(self.watch_overview(request.into_inner()).await)
    }

    async fn list(
        &self,
        request: Request<pb::ListOverviewRequest>,
    ) -> Result<Response<pb::ListOverviewResponse>, Status> {
        answer(self.list_overview(request.into_inner()).await)
    }

    async fn mark_seen(
        &self,
        request: Request<pb::MarkSeenRequest>,
    ) -> Result<Response<pb::MarkSeenResponse>, Status> {
        answer(self.mark_session_seen(&request.into_inner()).await)
    }
}

impl Obey {
    async fn list_overview(
        &self,
        request: pb::ListOverviewRequest,
    ) -> Result<pb::ListOverviewResponse, Error> {
        let filter = self.overview_filter(request.filter).await?;
        let (revision, glances) = self.supervisor.overview().list(&filter).await?;
        let names = self.campaign_names().await?;
        let machine = self.machine_name().await;
        let sessions = glances.iter().map(|glance| session_overview(glance, &names, &machine)).collect();
        Ok(pb::ListOverviewResponse { revision, sessions })
    }

    async fn watch_overview(
        &self,
        request: pb::WatchOverviewRequest,
    ) -> Result<Messages<pb::OverviewUpdate>, Error> {
        let filter = self.overview_filter(request.filter).await?;
        let watch = self.supervisor.overview().watch(filter).await?;
        // One update waits at most: what happens meanwhile is part of the next one.
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(self.clone().feed_overview(watch, sender));
        Ok(Box::pin(ReceiverStream::new(receiver)))
    }

    /// Forwards changes until the client disconnects.
    async fn feed_overview(
        self,
        mut watch: OverviewWatch,
        sender: mpsc::Sender<Result<pb::OverviewUpdate, Status>>,
    ) {
        let machine = self.machine_name().await;
        let mut names = HashMap::new();
        loop {
            // A change is read only when the one before it was taken.
            let Ok(place) = sender.reserve().await else { return };
            let change = tokio::select! {
                change = watch.next() => change,
                () = sender.closed() => return,
            };
            let update = match change {
                Ok(change) => {
                    let ids = change.sessions.iter().filter_map(|glance| glance.facts.campaign_id.as_ref());
                    if change.is_snapshot || ids.into_iter().any(|id| !names.contains_key(id.as_str())) {
                        names = self.campaign_names().await.unwrap_or(names);
                    }
                    let to_wire = |glance: &SessionGlance| session_overview(glance, &names, &machine);
                    Ok(pb::OverviewUpdate {
                        revision: change.revision,
                        snapshot: change.is_snapshot,
                        sessions: change.sessions.iter().map(to_wire).collect(),
                        removed: change.removed.iter().map(ToString::to_string).collect(),
                        machine: machine.clone(),
                    })
                }
                Err(error) => Err(status::grpc(&error)),
            };
            let failed = update.is_err();
            place.send(update);
            if failed {
                return;
            }
        }
    }

    async fn mark_session_seen(&self, request: &pb::MarkSeenRequest) -> Result<pb::MarkSeenResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let newest = self.supervisor.events_after(&id, 0).await?.newest();
        let overview = self.supervisor.overview();
        overview.mark_seen(&id, request.seq, newest).await?;
        let glance = overview.glance(&id).await?;
        let names = self.campaign_names().await?;
        Ok(pb::MarkSeenResponse {
            session: Some(session_overview(&glance, &names, &self.machine_name().await)),
        })
    }

    async fn overview_filter(&self, filter: Option<pb::OverviewFilter>) -> Result<OverviewFilter, Error> {
        let filter = filter.unwrap_or_default();
        let campaign_id = match filter.campaign.as_str() {
            "" => None,
            campaign => Some(self.supervisor.campaigns().find(campaign).await?.id),
        };
        let sessions: Result<HashSet<SessionId>, Error> =
            filter.session_ids.iter().map(|id| from_wire::session_id(id)).collect();
        Ok(OverviewFilter {
            include_ended: filter.include_ended,
            include_archived: filter.include_archived,
            campaign_id,
            sessions: sessions?,
        })
    }

    /// Returns the name of this machine: that under which it has joined a relay, else that of the host.
    async fn machine_name(&self) -> String {
        let folder = self.about.devices.folder().to_owned();
        let reading = tokio::task::spawn_blocking(move || MachineIdentity::load_or_create(&folder));
        reading.await.ok().and_then(Result::ok).map_or_else(host::machine::hostname, |own| own.name)
    }

    /// Returns the names of campaigns by their ids.
    pub(super) async fn campaign_names(&self) -> Result<HashMap<String, String>, Error> {
        let campaigns = self.supervisor.campaigns().list().await?;
        Ok(campaigns.into_iter().map(|campaign| (campaign.id, campaign.name)).collect())
    }
}

fn session_state(state: SessionState) -> pb::SessionState {
    match state {
        SessionState::NeedsYou => pb::SessionState::NeedsYou,
        SessionState::Failed => pb::SessionState::Failed,
        SessionState::Working => pb::SessionState::Working,
        SessionState::Quiet => pb::SessionState::Quiet,
        SessionState::Done => pb::SessionState::Done,
        SessionState::Idle => pb::SessionState::Idle,
        SessionState::Ended => pb::SessionState::Ended,
    }
}

/// Converts one session.
fn session_overview(
    glance: &SessionGlance,
    campaigns: &HashMap<String, String>,
    machine: &str,
) -> pb::SessionOverview {
    let (facts, found, evidence) = (&glance.facts, &glance.assessment, &glance.evidence);
    let campaign_id = facts.campaign_id.as_ref().map(ToString::to_string).unwrap_or_default();
    pb::SessionOverview {
        session_id: facts.id.to_string(),
        name: facts.name.clone(),
        campaign: campaigns.get(&campaign_id).cloned().unwrap_or_default(),
        campaign_id,
        folder: facts.folder.display().to_string(),
        branch: glance.branch.clone().unwrap_or_default(),
        provider: facts.provider_name(),
        model: facts.model.clone(),
        mode: facts.mode.name().to_owned(),
        state: session_state(found.state).into(),
        cause: found.cause.name().to_owned(),
        reason: found.reason.clone(),
        since: Some(timestamp(found.since)),
        evidence: Some(pb::SessionEvidence {
            process_alive: evidence.is_process_alive,
            last_event_at: evidence.last_event_at.map(timestamp),
            cpu_ms: evidence.cpu_ms,
            cpu_ms_in_silence: evidence.cpu_ms_in_silence,
        }),
        requests: facts.requests.iter().map(overview_request).collect(),
        last_line: facts.last_line.clone(),
        tokens: facts.usage.map(|usage| usage.budgeted_tokens()),
        cost_micro_usd: facts.usage.map(|usage| usage.cost_micro_usd).filter(|cost| *cost > 0),
        budget: budget(glance),
        todos_done: u32::try_from(facts.todos_done).unwrap_or(u32::MAX),
        todos_all: u32::try_from(facts.todos_all).unwrap_or(u32::MAX),
        machine: machine.to_owned(),
        status: facts.status.name().to_owned(),
        last_seq: glance.last_seq,
        created_at: Some(timestamp(facts.created_at)),
        seen: glance.is_seen,
        parent_id: facts.parent.as_ref().map(ToString::to_string).unwrap_or_default(),
        turns: facts.turns,
        last_turn: facts.last_turn.as_ref().map_or_else(String::new, |turn| turn.reason.name().to_owned()),
        archived: facts.is_archived,
        queued: u32::try_from(facts.queued).unwrap_or(u32::MAX),
    }
}

fn overview_request(request: &RequestFacts) -> pb::OverviewRequest {
    let (kind, tool) = match &request.kind {
        RequestFactsKind::Permission { tool } => ("permission", tool.as_str()),
        RequestFactsKind::Question => ("question", ""),
    };
    pb::OverviewRequest {
        request_id: request.id.to_string(),
        kind: kind.to_owned(),
        tool: tool.to_owned(),
        text: request.text.clone(),
        asked_at: Some(timestamp(request.asked_at)),
    }
}

/// Returns the limits of a session; nothing where it has none.
fn budget(glance: &SessionGlance) -> Option<pb::SessionBudget> {
    let facts = &glance.facts;
    let ends_at = facts.timeout.zip(facts.started_at).map(|(timeout, started)| started.after(timeout));
    let (budget, left) = (&facts.budget, facts.budget.remaining(&facts.spending(clock::now())));
    (!budget.is_unlimited() || ends_at.is_some()).then(|| pb::SessionBudget {
        max_tokens: budget.tokens,
        tokens_left: left.tokens,
        ends_at: ends_at.map(timestamp),
        cost_micro_usd: budget.cost_micro_usd,
        cost_left_micro_usd: left.cost_micro_usd,
        work_ms: budget.work_ms,
        work_left_ms: left.work_ms,
        calls: budget.calls,
        calls_left: left.calls,
    })
}
