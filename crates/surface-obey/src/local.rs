//! `LocalDaemonService`: one line per method; the sibling files implement them.

use tonic::{Request, Response, Status, Streaming};
use wire::obey::local::v1 as pb;
use wire::obey::local::v1::local_daemon_service_server::LocalDaemonService;

use super::Obey;
use surface::client_key::client_key;
use surface::peer::Signer;
use surface::pump::Messages;
use surface::status;

type RpcResult<T> = Result<Response<T>, Status>;

/// Converts a result to a gRPC response.
pub(super) fn answer<T>(result: Result<T, domain::Error>) -> RpcResult<T> {
    result.map(Response::new).map_err(|error| status::grpc(&error))
}

#[tonic::async_trait]
impl LocalDaemonService for Obey {
    async fn report_campaign_event(
        &self,
        request: Request<pb::CampaignEventRequest>,
    ) -> RpcResult<pb::EventResponse> {
        answer(self.report_campaign(request.into_inner()).await)
    }

    async fn report_festival_event(
        &self,
        request: Request<pb::FestivalEventRequest>,
    ) -> RpcResult<pb::EventResponse> {
        answer(self.report_festival(request.into_inner()).await)
    }

    async fn stream_agent_activity(
        &self,
        request: Request<Streaming<pb::AgentActivityEvent>>,
    ) -> RpcResult<pb::ActivityAck> {
        self.take_activity(request.into_inner()).await.map(Response::new)
    }

    async fn ping(&self, _request: Request<pb::PingRequest>) -> RpcResult<pb::PingResponse> {
        answer(self.pong().await)
    }

    async fn get_state(&self, request: Request<pb::StateRequest>) -> RpcResult<pb::StateResponse> {
        answer(self.state(request.into_inner()).await)
    }

    type ExecuteStream = Messages<pb::ExecuteResponse>;

    async fn execute(&self, request: Request<pb::ExecuteRequest>) -> RpcResult<Self::ExecuteStream> {
        answer(self.run_command(request.into_inner()).await)
    }

    async fn shutdown(&self, request: Request<pb::ShutdownRequest>) -> RpcResult<pb::ShutdownResponse> {
        answer(self.shut_down(request.into_inner()).await)
    }

    async fn create_session(
        &self,
        request: Request<pb::CreateSessionRequest>,
    ) -> RpcResult<pb::CreateSessionResponse> {
        let signer = Signer::of(request.extensions());
        signer
            .check_configuration(&request.get_ref().provider_config)
            .map_err(|error| status::grpc(&error))?;
        let parent = super::sessions::parent_of(&request);
        let (key, caller) = (client_key(request.metadata()), surface::peer::caller(request.extensions()));
        answer(self.create(request.into_inner(), parent, (&caller, signer.name()), &key).await)
    }

    async fn get_session(&self, request: Request<pb::GetSessionRequest>) -> RpcResult<pb::SessionInfo> {
        let (session, beside) =
            self.session(request.into_inner()).await.map_err(|error| status::grpc(&error))?;
        let mut response = Response::new(session);
        beside.add_metadata(response.metadata_mut());
        Ok(response)
    }

    async fn list_sessions(
        &self,
        request: Request<pb::ListSessionsRequest>,
    ) -> RpcResult<pb::ListSessionsResponse> {
        let (sessions, beside) =
            self.list(request.into_inner()).await.map_err(|error| status::grpc(&error))?;
        let mut response = Response::new(sessions);
        beside.add_metadata(response.metadata_mut());
        Ok(response)
    }

    type SendMessageStream = Messages<pb::SessionActivityEvent>;

    async fn send_message(
        &self,
        request: Request<pb::SendMessageRequest>,
    ) -> RpcResult<Self::SendMessageStream> {
        let by = Signer::of(request.extensions()).name();
        let key = client_key(request.metadata());
        answer(self.send(request.into_inner(), by, &key).await)
    }

    async fn stop_session(
        &self,
        request: Request<pb::StopSessionRequest>,
    ) -> RpcResult<pb::StopSessionResponse> {
        answer(self.stop(request.into_inner()).await)
    }

    async fn restart_session(
        &self,
        request: Request<pb::RestartSessionRequest>,
    ) -> RpcResult<pb::CreateSessionResponse> {
        let signer = Signer::of(request.extensions());
        signer
            .check_configuration(&request.get_ref().provider_config)
            .map_err(|error| status::grpc(&error))?;
        answer(self.restart(request.into_inner()).await)
    }

    type WatchSessionStream = Messages<pb::SessionStatusEvent>;

    async fn watch_session(
        &self,
        request: Request<pb::WatchSessionRequest>,
    ) -> RpcResult<Self::WatchSessionStream> {
        answer(self.watch(request.into_inner()).await)
    }

    type WatchAllSessionsStream = Messages<pb::SessionStatusEvent>;

    async fn watch_all_sessions(
        &self,
        request: Request<pb::WatchAllSessionsRequest>,
    ) -> RpcResult<Self::WatchAllSessionsStream> {
        answer(self.watch_all(request.into_inner()).await)
    }
}
