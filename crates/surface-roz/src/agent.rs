//! `AgentService`: one line per method; the sibling files implement them.

use tonic::{Request, Response, Streaming};
use wire::roz::v1 as pb;
use wire::roz::v1::agent_service_server::AgentService;

use super::{Roz, RpcResult, answer};
use surface::client_key::client_key;
use surface::peer::Signer;
use surface::pump::Messages;

#[tonic::async_trait]
impl AgentService for Roz {
    type StreamSessionStream = Messages<pb::SessionResponse>;

    async fn stream_session(
        &self,
        request: Request<Streaming<pb::SessionRequest>>,
    ) -> RpcResult<Self::StreamSessionStream> {
        let signer = Signer::of(request.extensions());
        let key = client_key(request.metadata());
        Ok(Response::new(self.session(request.into_inner(), signer, key)))
    }

    type WatchTeamStream = Messages<pb::TeamEvent>;

    async fn watch_team(&self, request: Request<pb::WatchTeamRequest>) -> RpcResult<Self::WatchTeamStream> {
        let request = request.into_inner();
        answer(self.team(&request.task_id).await)
    }
}
