//! The service of `obey.local.v1` of the small daemon.

use std::pin::Pin;

use tokio_stream::Stream;
use tonic::{Code, Request, Response, Status, Streaming};
use wire::obey::local::v1 as pb;
use wire::obey::local::v1::local_daemon_service_server::LocalDaemonService;

use super::fake::{Fake, refuse};

type Answer<T> = Result<Response<T>, Status>;
type Many<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn not_used<T>() -> Answer<T> {
    Err(Status::unimplemented("no test needs it"))
}

#[tonic::async_trait]
impl LocalDaemonService for Fake {
    type ExecuteStream = Many<pb::ExecuteResponse>;
    type SendMessageStream = Many<pb::SessionActivityEvent>;
    type WatchSessionStream = Many<pb::SessionStatusEvent>;
    type WatchAllSessionsStream = Many<pb::SessionStatusEvent>;

    async fn report_campaign_event(&self, _: Request<pb::CampaignEventRequest>) -> Answer<pb::EventResponse> {
        not_used()
    }

    async fn report_festival_event(&self, _: Request<pb::FestivalEventRequest>) -> Answer<pb::EventResponse> {
        not_used()
    }

    async fn stream_agent_activity(
        &self,
        _: Request<Streaming<pb::AgentActivityEvent>>,
    ) -> Answer<pb::ActivityAck> {
        not_used()
    }

    async fn ping(&self, _: Request<pb::PingRequest>) -> Answer<pb::PingResponse> {
        Ok(Response::new(pb::PingResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            hostname: "here".to_owned(),
            hub_status: "none".to_owned(),
            pid: 7,
            ..Default::default()
        }))
    }

    async fn get_state(&self, _: Request<pb::StateRequest>) -> Answer<pb::StateResponse> {
        Ok(Response::new(pb::StateResponse::default()))
    }

    async fn execute(&self, request: Request<pb::ExecuteRequest>) -> Answer<Self::ExecuteStream> {
        use pb::execute_response::Output;
        let request = request.into_inner();
        if request.command == "sh" {
            return Err(refuse(
                Code::PermissionDenied,
                "OBEY-1020",
                "sh is not allowed; add it to execute.allow",
            ));
        }
        self.state().seen.executed.push(request);
        let parts = [
            Output::Stdout(b"out\n".to_vec()),
            Output::Stderr(b"err\n".to_vec()),
            Output::Result(pb::ExecuteResult { exit_code: 3, ..Default::default() }),
        ];
        let parts = parts.map(|output| Ok(pb::ExecuteResponse { output: Some(output) }));
        Ok(Response::new(Box::pin(tokio_stream::iter(parts))))
    }

    async fn shutdown(&self, request: Request<pb::ShutdownRequest>) -> Answer<pb::ShutdownResponse> {
        let sessions_stopped = if request.into_inner().stop_sessions { 2 } else { 0 };
        self.state().closed = true;
        self.changed();
        Ok(Response::new(pb::ShutdownResponse { accepted: true, sessions_stopped }))
    }

    async fn create_session(
        &self,
        request: Request<pb::CreateSessionRequest>,
    ) -> Answer<pb::CreateSessionResponse> {
        let parent = request.metadata().get("obey-parent-session");
        let parent = parent.map(|value| value.to_str().unwrap().to_owned());
        let request = request.into_inner();
        let campaign =
            self.state().campaigns.iter().find(|campaign| campaign.id == request.campaign_id).cloned();
        let Some(campaign) = campaign else {
            let message = format!("campaign {:?} is not registered", request.campaign_id);
            return Err(refuse(Code::NotFound, "OBEY-2001", &message));
        };
        let number = self.state().seen.created.len();
        let session = pb::SessionInfo {
            id: format!("sess_01{number:024}"),
            campaign_id: campaign.id,
            provider: request.provider,
            model: request.model.clone(),
            agent_name: request.agent_name.clone(),
            status: pb::SessionStatus::Running.into(),
            working_dir: campaign.path,
            ..Default::default()
        };
        self.state().seen.created.push((request, parent));
        self.state().sessions.push(session.clone());
        Ok(Response::new(pb::CreateSessionResponse { session: Some(session) }))
    }

    async fn get_session(&self, request: Request<pb::GetSessionRequest>) -> Answer<pb::SessionInfo> {
        self.session(&request.into_inner().session_id).map(Response::new)
    }

    async fn list_sessions(
        &self,
        request: Request<pb::ListSessionsRequest>,
    ) -> Answer<pb::ListSessionsResponse> {
        let filter = request.into_inner();
        let mut sessions = self.state().sessions.clone();
        sessions.retain(|session| {
            let ended = session.status >= pb::SessionStatus::Stopped as i32;
            (filter.include_terminated || !ended)
                && (filter.campaign_id.is_empty() || filter.campaign_id == session.campaign_id)
                && (filter.statuses.is_empty() || filter.statuses.contains(&session.status))
                && (filter.provider == 0 || filter.provider == session.provider)
        });
        Ok(Response::new(pb::ListSessionsResponse { sessions }))
    }

    async fn send_message(&self, _: Request<pb::SendMessageRequest>) -> Answer<Self::SendMessageStream> {
        not_used()
    }

    async fn stop_session(
        &self,
        request: Request<pb::StopSessionRequest>,
    ) -> Answer<pb::StopSessionResponse> {
        let request = request.into_inner();
        let session = self.session(&request.session_id)?;
        if session.status == pb::SessionStatus::Stopped as i32 {
            return Err(refuse(Code::FailedPrecondition, "OBEY-2020", "the session is stopped already"));
        }
        self.state().seen.stops.push(request);
        self.set_status(&session.id, pb::SessionStatus::Stopped);
        Ok(Response::new(pb::StopSessionResponse { session: Some(self.session(&session.id)?) }))
    }

    async fn restart_session(
        &self,
        request: Request<pb::RestartSessionRequest>,
    ) -> Answer<pb::CreateSessionResponse> {
        let session = self.session(&request.into_inner().session_id)?;
        self.set_status(&session.id, pb::SessionStatus::Running);
        Ok(Response::new(pb::CreateSessionResponse { session: Some(self.session(&session.id)?) }))
    }

    async fn watch_session(&self, _: Request<pb::WatchSessionRequest>) -> Answer<Self::WatchSessionStream> {
        not_used()
    }

    async fn watch_all_sessions(
        &self,
        _: Request<pb::WatchAllSessionsRequest>,
    ) -> Answer<Self::WatchAllSessionsStream> {
        let (tx, rx) = tokio::sync::mpsc::channel(8);
        self.state().watchers.push(tx);
        self.changed();
        Ok(Response::new(Box::pin(tokio_stream::wrappers::ReceiverStream::new(rx))))
    }
}
