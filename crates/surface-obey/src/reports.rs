//! The daemon's state, its shutdown, and reports from external programs: campaigns, festivals, activity.

use domain::{Command, Error, EventKind, ProviderKind, Timestamp};
use host::clock;
use runtime::campaign::NewCampaign;
use storage::campaigns::{CampaignReport, FestivalRow};
use storage::sessions::SessionFilter;
use tonic::{Status, Streaming};
use wire::obey::local::v1 as pb;

use super::{Obey, Shutdown, external, from_wire, to_wire};
use crate::limits;
use surface::status;

impl Obey {
    /// Returns the daemon's version, host, process id and start time.
    pub(super) async fn pong(&self) -> Result<pb::PingResponse, Error> {
        let campaigns = self.supervisor.campaigns().list().await?;
        Ok(pb::PingResponse {
            version: self.about.version.clone(),
            hostname: hostname(),
            hub_status: "none".to_owned(),
            campaign_count: i32::try_from(campaigns.len()).unwrap_or(i32::MAX),
            pid: i32::try_from(std::process::id()).unwrap_or(0),
            started_at: Some(to_wire::timestamp(self.about.started_at)),
        })
    }

    /// Returns the state of all campaigns, or of one, with their festivals and sessions.
    pub(super) async fn state(&self, request: pb::StateRequest) -> Result<pb::StateResponse, Error> {
        let campaigns = match request.campaign_id.as_str() {
            "" => self.supervisor.campaigns().list().await?,
            id => vec![self.supervisor.campaigns().find(id).await?],
        };
        let only = (!request.campaign_id.is_empty()).then(|| campaigns[0].id.clone());
        let festivals = self.supervisor.campaigns().festivals(only.clone()).await?;
        let filter = SessionFilter { campaign_id: only, ..SessionFilter::default() };
        let sessions = self.supervisor.list(filter).await?;
        let state = |campaign: &storage::campaigns::CampaignRow| {
            let of_it = festivals.iter().filter(|festival| festival.campaign_id == campaign.id);
            let (all, active) = of_it.fold((0, 0), |(all, active), festival| {
                (all + 1, active + i32::from(festival.status == "active"))
            });
            pb::CampaignState {
                id: campaign.id.clone(),
                name: campaign.name.clone(),
                path: campaign.path.clone(),
                description: campaign.description.clone(),
                festival_count: all,
                active_festival_count: active,
                created_at: Some(to_wire::timestamp(campaign.created_at)),
                updated_at: Some(to_wire::timestamp(campaign.updated_at)),
            }
        };
        Ok(pb::StateResponse {
            campaigns: campaigns.iter().map(state).collect(),
            active_sessions: sessions.iter().map(to_wire::session_summary).collect(),
            festivals: festivals.into_iter().map(festival_state).collect(),
        })
    }

    /// Shuts the daemon down. Sessions are stopped before the response; the daemon itself ends after it.
    pub(super) async fn shut_down(
        &self,
        request: pb::ShutdownRequest,
    ) -> Result<pb::ShutdownResponse, Error> {
        let stopped = if request.stop_sessions { self.supervisor.stop_all().await } else { 0 };
        // A full channel means that a shutdown is already requested.
        let _ = self.about.shutdown.try_send(Shutdown);
        Ok(pb::ShutdownResponse {
            accepted: true,
            sessions_stopped: i32::try_from(stopped).unwrap_or(i32::MAX),
        })
    }

    /// Records a campaign event of an external program. A `Created` event registers the campaign.
    pub(super) async fn report_campaign(
        &self,
        request: pb::CampaignEventRequest,
    ) -> Result<pb::EventResponse, Error> {
        let kind = pb::CampaignEventType::try_from(request.r#type)
            .ok()
            .filter(|kind| *kind != pb::CampaignEventType::Unspecified)
            .ok_or_else(|| Error::invalid("type", "is required and must be a campaign event"))?;
        let campaign_id = match kind {
            pb::CampaignEventType::Created => self.register(&request).await?,
            _ => self.known_campaign(&request.campaign_id).await?,
        };
        let report = CampaignReport {
            campaign_id: campaign_id.clone(),
            festival_id: String::new(),
            event_type: kind.as_str_name().to_owned(),
            payload: serde_json::json!({
                "name": request.name, "path": request.path, "description": request.description,
                "project": request.project,
            })
            .to_string(),
            source: request.source.clone(),
            at: clock::now(),
        };
        let stored = self.supervisor.campaigns().report(report, None).await?;
        if !stored.repeated {
            self.follow_campaign(kind, &campaign_id, &request).await?;
        }
        Ok(event_response(campaign_id, stored))
    }

    /// Registers the campaign of a `Created` event and returns its id.
    async fn register(&self, request: &pb::CampaignEventRequest) -> Result<String, Error> {
        if request.path.is_empty() {
            return Err(Error::invalid("path", "is required for a created campaign"));
        }
        let new = NewCampaign {
            id: request.campaign_id.clone(),
            name: request.name.clone(),
            path: request.path.clone(),
            description: request.description.clone(),
            scrub: None,
            mode: None,
        };
        Ok(self.supervisor.campaigns().add(new).await?.id)
    }

    /// Applies a report's changes to the campaign itself.
    async fn follow_campaign(
        &self,
        kind: pb::CampaignEventType,
        id: &str,
        request: &pb::CampaignEventRequest,
    ) -> Result<(), Error> {
        match kind {
            pb::CampaignEventType::Deleted => self.supervisor.campaigns().remove(id).await.map(|_| ()),
            pb::CampaignEventType::Updated => {
                let known = self.supervisor.campaigns().find(id).await?;
                if request.path.is_empty() || request.path == known.path {
                    // A report cannot register a root: the folder must still be the registered one.
                    self.supervisor.campaigns().root(&known).await?;
                }
                let or = |new: &str, old: String| if new.is_empty() { old } else { new.to_owned() };
                let changed = NewCampaign {
                    id: known.id,
                    name: or(&request.name, known.name),
                    path: or(&request.path, known.path),
                    description: or(&request.description, known.description),
                    scrub: None,
                    mode: None,
                };
                self.supervisor.campaigns().add(changed).await.map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// Returns the id of a registered campaign, given by id or name.
    async fn known_campaign(&self, id: &str) -> Result<String, Error> {
        if id.is_empty() {
            return Err(Error::invalid("campaign_id", "is required"));
        }
        Ok(self.supervisor.campaigns().find(id).await?.id)
    }

    /// Records a festival event of an external program.
    pub(super) async fn report_festival(
        &self,
        request: pb::FestivalEventRequest,
    ) -> Result<pb::EventResponse, Error> {
        let kind = pb::FestivalEventType::try_from(request.r#type)
            .ok()
            .filter(|kind| *kind != pb::FestivalEventType::Unspecified)
            .ok_or_else(|| Error::invalid("type", "is required and must be a festival event"))?;
        if request.festival_id.is_empty() {
            return Err(Error::invalid("festival_id", "is required"));
        }
        let campaign_id = self.known_campaign(&request.campaign_id).await?;
        let now = clock::now();
        let report = CampaignReport {
            campaign_id: campaign_id.clone(),
            festival_id: request.festival_id.clone(),
            event_type: kind.as_str_name().to_owned(),
            payload: serde_json::json!({
                "name": request.name, "status": request.status, "phase": request.phase,
                "sequence": request.sequence, "task_id": request.task_id, "agent_name": request.agent_name,
                "total_tasks": request.total_tasks, "completed_tasks": request.completed_tasks,
                "detail": request.detail,
            })
            .to_string(),
            source: request.source.clone(),
            at: now,
        };
        let festival = festival_row(request, campaign_id.clone(), now);
        let stored = self.supervisor.campaigns().report(report, Some(festival)).await?;
        Ok(event_response(campaign_id, stored))
    }

    /// Stores the activity events of a stream until it ends, at most `ACTIVITY_EVENTS_MAX`.
    pub(super) async fn take_activity(
        &self,
        mut events: Streaming<pb::AgentActivityEvent>,
    ) -> Result<pb::ActivityAck, Status> {
        let mut ack = pb::ActivityAck::default();
        while let Some(event) = events.message().await? {
            ack.received += 1;
            let last = self.store_activity(event).await.map_err(|error| status::grpc(&error))?;
            ack.stored += 1;
            ack.last_sequence = i64::try_from(last).unwrap_or(i64::MAX);
            if ack.received.unsigned_abs() >= limits::ACTIVITY_EVENTS_MAX {
                let message =
                    format!("one stream takes {} events; open another", limits::ACTIVITY_EVENTS_MAX);
                return Err(status::grpc(&Error::new(domain::ErrorCode::LimitReached, message)));
            }
        }
        Ok(ack)
    }

    /// Stores one activity event in the session's journal and returns its sequence number.
    async fn store_activity(&self, event: pb::AgentActivityEvent) -> Result<u64, Error> {
        let id = from_wire::session_id(&event.session_id)?;
        let snapshot = self.supervisor.snapshot(&id).await?;
        let kind = pb::ActivityType::try_from(event.r#type)
            .ok()
            .filter(|kind| *kind != pb::ActivityType::Unspecified)
            .ok_or_else(|| Error::invalid("type", "is required and must be an activity type"))?;
        if snapshot.spec.provider == ProviderKind::External {
            let events = external::agent_events(kind, event)?;
            let applied = self.supervisor.command(&id, Command::Observe { events }).await?;
            return Ok(applied.events.last().map_or(snapshot.last_seq, |event| event.seq));
        }
        let mut extra = std::collections::BTreeMap::new();
        if !event.arguments.is_empty() {
            extra.insert("arguments".to_owned(), String::from_utf8_lossy(&event.arguments).into_owned());
        }
        if !event.output.is_empty() {
            extra.insert("output".to_owned(), event.output);
        }
        let mut tokens_input = from_wire::tokens("tokens_input", event.tokens_input)?;
        let mut tokens_output = from_wire::tokens("tokens_output", event.tokens_output)?;
        if snapshot.state.status.is_terminal() {
            // What a session that has ended used is final; what is said later is kept beside it.
            for (name, tokens) in [("tokens_input", &mut tokens_input), ("tokens_output", &mut tokens_output)]
            {
                if *tokens > 0 {
                    extra.insert(name.to_owned(), std::mem::take(tokens).to_string());
                }
            }
        }
        let reported = EventKind::ActivityReported {
            activity: kind.as_str_name().trim_start_matches("ACTIVITY_TYPE_").to_lowercase(),
            agent_name: event.agent_name,
            content: event.content,
            tool: event.tool_name,
            call: event.tool_call_id,
            ok: event.success,
            tokens_input,
            tokens_output,
            extra,
        };
        let applied = self.supervisor.command(&id, Command::Report(reported)).await?;
        Ok(applied.events.last().map_or(0, |event| event.seq))
    }
}

/// Converts the result of a stored report; `deduplicated` marks a repeated one.
fn event_response(campaign_id: String, stored: storage::campaigns::ReportOutcome) -> pb::EventResponse {
    pb::EventResponse {
        accepted: true,
        deduplicated: stored.repeated,
        campaign_id,
        event_id: stored.event_id,
    }
}

fn festival_row(request: pb::FestivalEventRequest, campaign_id: String, now: Timestamp) -> FestivalRow {
    FestivalRow {
        campaign_id,
        id: request.festival_id,
        name: request.name,
        status: request.status,
        phase: request.phase,
        total_tasks: request.total_tasks,
        completed_tasks: request.completed_tasks,
        current_task: request.task_id,
        current_agent: request.agent_name,
        updated_at: now,
    }
}

fn festival_state(festival: FestivalRow) -> pb::FestivalState {
    pb::FestivalState {
        campaign_id: festival.campaign_id,
        id: festival.id,
        name: festival.name,
        status: festival.status,
        phase: festival.phase,
        total_tasks: festival.total_tasks,
        completed_tasks: festival.completed_tasks,
        current_task: festival.current_task,
        current_agent: festival.current_agent,
        updated_at: Some(to_wire::timestamp(festival.updated_at)),
    }
}

pub(super) fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_owned())
        .or_else(|_| std::env::var("HOSTNAME"))
        .unwrap_or_else(|_| "localhost".to_owned())
}
