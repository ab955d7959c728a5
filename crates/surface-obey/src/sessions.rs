//! Session methods of `LocalDaemonService`: create, get, list, send, stop, restart, watch.

use std::sync::Arc;

use domain::{Command, Error, ErrorCode, Event, StopMode, WhenBusy};
use runtime::Snapshot;
use tokio::sync::{broadcast, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use wire::obey::local::v1 as pb;

use super::{Obey, from_wire, to_wire};
use crate::limits;
use domain::caller_environment::CALLER_ENVIRONMENT_KEY;
use surface::peer::Caller;
use surface::pump::{Messages, ReadUntil, pump};
use surface::status;

/// The metadata key by which a client names the parent of a new session.
const PARENT_KEY: &str = "obey-parent-session";

/// The metadata key by which the daemon reports how sessions are contained.
const CONTAINMENT_KEY: &str = "obey-containment";

/// Metadata key by which the daemon says what a session may use and has used.
const RESOURCES_KEY: &str = "obey-resources";

/// Metadata key by which the daemon says by what limits hold.
const ENFORCEMENT_KEY: &str = "obey-enforcement";

/// Returns the parent session a request names, if any.
pub(super) fn parent_of<T>(request: &Request<T>) -> Option<String> {
    let value = request.metadata().get(PARENT_KEY)?.to_str().ok()?;
    (!value.is_empty()).then(|| value.to_owned())
}

/// Returns `child=parent` for a session with a parent. The published message has no field for it.
fn parent_pair(snapshot: &Snapshot) -> Option<String> {
    snapshot.spec.parent.as_ref().map(|parent| format!("{}={parent}", snapshot.spec.id))
}

/// Returns `session=containment` for a contained session. The published message has no field for it.
fn containment_pair(snapshot: &Snapshot) -> Option<String> {
    let spec = &snapshot.spec;
    spec.containment.describe(spec.provider).map(|how| format!("{}={how}", spec.id))
}

/// Metadata sent along with a list of sessions: pairs of a session id and a value.
#[derive(Default)]
pub(super) struct Beside {
    pub(super) parents: Vec<String>,
    pub(super) containments: Vec<String>,
    pub(super) resources: Vec<String>,
    /// By what limits hold on this machine; nothing where nobody asked.
    pub(super) enforcement: Vec<String>,
}

impl Beside {
    /// Adds the pairs to the response's metadata, one entry each.
    pub(super) fn add_metadata(&self, metadata: &mut tonic::metadata::MetadataMap) {
        for (key, pairs) in [
            (PARENT_KEY, &self.parents),
            (CONTAINMENT_KEY, &self.containments),
            (RESOURCES_KEY, &self.resources),
            (ENFORCEMENT_KEY, &self.enforcement),
        ] {
            for value in pairs.iter().take(limits::PARENTS_TOLD_MAX).filter_map(|pair| pair.parse().ok()) {
                metadata.append(key, value);
            }
        }
    }
}

impl Obey {
    /// Creates a session. `parent` is the session that requested it, if any.
    pub(super) async fn create(
        &self,
        request: pb::CreateSessionRequest,
        parent: Option<String>,
        (caller, by): (&Caller, String),
        client_key: &str,
    ) -> Result<pb::CreateSessionResponse, Error> {
        // A PATH chooses the programs that run: only the user at this machine has one that means something here.
        if request.provider_config.contains_key(CALLER_ENVIRONMENT_KEY) && *caller != Caller::User {
            return Err(Error::invalid(
                CALLER_ENVIRONMENT_KEY,
                "is taken only from this machine's user; leave it out, and the session has the daemon's own",
            ));
        }
        let new = from_wire::new_session(request, parent, by)?;
        let created = self.supervisor.create_once(new, client_key).await?;
        Ok(pb::CreateSessionResponse { session: Some(to_wire::session_info(&created)) })
    }

    /// Returns a session and, for beside the answer, how it is contained and what it uses.
    pub(super) async fn session(
        &self,
        request: pb::GetSessionRequest,
    ) -> Result<(pb::SessionInfo, Beside), Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let snapshot = self.supervisor.snapshot(&id).await?;
        let beside = Beside {
            containments: containment_pair(&snapshot).into_iter().collect(),
            resources: vec![self.resources_pair(&snapshot)],
            ..Beside::default()
        };
        Ok((to_wire::session_info(&snapshot), beside))
    }

    /// Returns `session=` and, as JSON, what it may use, what holds it to that and what it has used.
    fn resources_pair(&self, snapshot: &Snapshot) -> String {
        let limits = snapshot.spec.containment.limits;
        let report = self.supervisor.resources(snapshot);
        let said = serde_json::json!({
            "limits": limits,
            "enforcement": report.enforcement.name(),
            "not_enforced": report.not_enforced,
            "peak_memory_bytes": report.peak_memory_bytes,
            "cpu_ms": report.cpu_ms,
            "oom_kills": report.oom_kills,
        });
        format!("{}={said}", snapshot.spec.id)
    }

    /// Lists sessions, with the values that have no field in the message.
    pub(super) async fn list(
        &self,
        request: pb::ListSessionsRequest,
    ) -> Result<(pb::ListSessionsResponse, Beside), Error> {
        let mut filter = from_wire::filter(request)?;
        if let Some(campaign) = &filter.campaign_id {
            filter.campaign_id = Some(self.campaign_id(campaign).await?);
        }
        let sessions = self.supervisor.list(filter).await?;
        let beside = Beside {
            parents: sessions.iter().filter_map(parent_pair).collect(),
            containments: sessions.iter().filter_map(containment_pair).collect(),
            enforcement: vec![self.supervisor.enforcement().name().to_owned()],
            ..Beside::default()
        };
        let sessions = sessions.iter().map(to_wire::session_info).collect();
        Ok((pb::ListSessionsResponse { sessions }, beside))
    }

    /// Resolves a campaign. Sessions of a removed campaign can still be listed by its id.
    async fn campaign_id(&self, id_or_name: &str) -> Result<String, Error> {
        match self.supervisor.campaigns().find(id_or_name).await {
            Ok(campaign) => Ok(campaign.id),
            Err(error) if error.code == ErrorCode::CampaignNotFound => Ok(id_or_name.to_owned()),
            Err(error) => Err(error),
        }
    }

    /// Sends a prompt and streams the activity of its turn. Rejects it while another turn runs.
    pub(super) async fn send(
        &self,
        request: pb::SendMessageRequest,
        by: String,
        client_key: &str,
    ) -> Result<Messages<pb::SessionActivityEvent>, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let command = Command::Prompt {
            text: from_wire::message(request.message)?,
            attachments: Vec::new(),
            when_busy: WhenBusy::Refuse,
            by,
        };
        let applied = self.supervisor.command_once(&id, command, client_key).await?;
        let after = applied.events.last().map_or(0, |event| event.seq);
        let cursor = self.supervisor.events_after(&id, after).await?;
        Ok(pump(cursor, to_wire::TurnActivityProjector::default(), ReadUntil::Followed))
    }

    /// Stops a session, at once or gracefully.
    pub(super) async fn stop(
        &self,
        request: pb::StopSessionRequest,
    ) -> Result<pb::StopSessionResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let how = if request.graceful { StopMode::Graceful } else { StopMode::Now };
        let stopped = self.supervisor.stop(&id, how).await?;
        Ok(pb::StopSessionResponse { session: Some(to_wire::session_info(&stopped)) })
    }

    /// Restarts a session under the same id, with changed provider settings if given.
    pub(super) async fn restart(
        &self,
        request: pb::RestartSessionRequest,
    ) -> Result<pb::CreateSessionResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let config = from_wire::string_map(request.provider_config);
        let restarted: Arc<Snapshot> = self.supervisor.restart(&id, config).await?;
        Ok(pb::CreateSessionResponse { session: Some(to_wire::session_info(&restarted)) })
    }

    /// Streams the status changes of a session from now on.
    pub(super) async fn watch(
        &self,
        request: pb::WatchSessionRequest,
    ) -> Result<Messages<pb::SessionStatusEvent>, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        // The sequence number is read before the status, so that an end between the two is still streamed.
        let after = self.supervisor.events_after(&id, 0).await?.newest();
        let snapshot = self.supervisor.snapshot(&id).await?;
        let cursor = self.supervisor.events_after(&id, after).await?;
        let ended = snapshot.state.status.is_terminal() && snapshot.last_seq <= after;
        let until = if ended { ReadUntil::Event(after) } else { ReadUntil::Followed };
        Ok(pump(cursor, to_wire::StatusProjector, until))
    }

    /// Streams the status changes of all sessions, or of those of one campaign.
    pub(super) async fn watch_all(
        &self,
        request: pb::WatchAllSessionsRequest,
    ) -> Result<Messages<pb::SessionStatusEvent>, Error> {
        let campaign = match request.campaign_id.as_str() {
            "" => None,
            id => Some(self.supervisor.campaigns().find(id).await?.id),
        };
        let statuses = self.supervisor.watch_statuses();
        let (sender, receiver) = mpsc::channel(surface::limits::STREAM_READY_MAX);
        tokio::spawn(self.clone().feed_statuses(statuses, campaign, sender));
        Ok(Box::pin(ReceiverStream::new(receiver)))
    }

    /// Forwards status changes until the client disconnects.
    async fn feed_statuses(
        self,
        mut statuses: broadcast::Receiver<Arc<Event>>,
        campaign: Option<String>,
        sender: mpsc::Sender<Result<pb::SessionStatusEvent, tonic::Status>>,
    ) {
        loop {
            let event = tokio::select! {
                event = statuses.recv() => event,
                () = sender.closed() => return,
            };
            let message = match event {
                Ok(event) if self.is_of(&event, campaign.as_deref()).await => {
                    to_wire::status_event(&event).map(Ok)
                }
                Ok(_) => None,
                Err(broadcast::error::RecvError::Lagged(count)) => {
                    let error = Error::new(
                        ErrorCode::LimitReached,
                        format!(
                            "the watcher fell {count} status changes behind; list the sessions and watch again"
                        ),
                    );
                    Some(Err(status::grpc(&error)))
                }
                Err(broadcast::error::RecvError::Closed) => return,
            };
            let Some(message) = message else { continue };
            let failed = message.is_err();
            if sender.send(message).await.is_err() || failed {
                return;
            }
        }
    }

    async fn is_of(&self, event: &Event, campaign: Option<&str>) -> bool {
        let Some(campaign) = campaign else { return true };
        let Ok(snapshot) = self.supervisor.snapshot(&event.session).await else { return false };
        snapshot.spec.campaign_id.as_ref().is_some_and(|id| id.as_str() == campaign)
    }
}
