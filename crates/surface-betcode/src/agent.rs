//! `AgentService`: one line per method; the sibling files implement them.

use tonic::{Request, Status, Streaming};
use wire::betcode::v1 as pb;
use wire::betcode::v1::agent_service_server::AgentService;

use super::presence::BetcodeClient;
use super::{Betcode, RpcResult, answer};
use surface::client_key::client_key;
use surface::pump::Messages;
use surface::status;

#[tonic::async_trait]
impl AgentService for Betcode {
    type ConverseStream = Messages<pb::AgentEvent>;

    async fn converse(
        &self,
        request: Request<Streaming<pb::AgentRequest>>,
    ) -> RpcResult<Self::ConverseStream> {
        // It says why the daemon ends it.
        let mut response = answer(self.conversation(request))?;
        response.extensions_mut().insert(surface::server::LastWords);
        Ok(response)
    }

    async fn list_sessions(
        &self,
        request: Request<pb::ListSessionsRequest>,
    ) -> RpcResult<pb::ListSessionsResponse> {
        answer(self.list(request.into_inner()).await)
    }

    type ResumeSessionStream = Messages<pb::AgentEvent>;

    async fn resume_session(
        &self,
        request: Request<pb::ResumeSessionRequest>,
    ) -> RpcResult<Self::ResumeSessionStream> {
        answer(self.resume(request.into_inner()).await)
    }

    async fn compact_session(
        &self,
        request: Request<pb::CompactSessionRequest>,
    ) -> RpcResult<pb::CompactSessionResponse> {
        answer(self.compact(request.into_inner()).await)
    }

    async fn cancel_turn(
        &self,
        request: Request<pb::CancelTurnRequest>,
    ) -> RpcResult<pb::CancelTurnResponse> {
        let key = client_key(request.metadata());
        answer(self.cancel(request.into_inner(), &key).await)
    }

    async fn request_input_lock(
        &self,
        request: Request<pb::InputLockRequest>,
    ) -> RpcResult<pb::InputLockResponse> {
        let (client, request) = client_of(request)?;
        answer(self.request_lock(request, &client).await)
    }

    async fn list_session_grants(
        &self,
        request: Request<pb::ListSessionGrantsRequest>,
    ) -> RpcResult<pb::ListSessionGrantsResponse> {
        answer(self.grants(request.into_inner()).await)
    }

    async fn clear_session_grants(
        &self,
        request: Request<pb::ClearSessionGrantsRequest>,
    ) -> RpcResult<pb::ClearSessionGrantsResponse> {
        let (client, request) = client_of(request)?;
        answer(self.clear_grants(request, &client).await)
    }

    async fn set_session_grant(
        &self,
        request: Request<pb::SetSessionGrantRequest>,
    ) -> RpcResult<pb::SetSessionGrantResponse> {
        let (client, request) = client_of(request)?;
        answer(self.set_grant(request, &client).await)
    }

    async fn rename_session(
        &self,
        request: Request<pb::RenameSessionRequest>,
    ) -> RpcResult<pb::RenameSessionResponse> {
        answer(self.rename(request.into_inner()).await)
    }

    async fn set_session_mode(
        &self,
        request: Request<pb::SetSessionModeRequest>,
    ) -> RpcResult<pb::SetSessionModeResponse> {
        answer(self.set_mode(request.into_inner()).await)
    }

    async fn set_session_model(
        &self,
        request: Request<pb::SetSessionModelRequest>,
    ) -> RpcResult<pb::SetSessionModelResponse> {
        answer(self.set_model(request.into_inner()).await)
    }

    async fn delete_session(
        &self,
        request: Request<pb::DeleteSessionRequest>,
    ) -> RpcResult<pb::DeleteSessionResponse> {
        answer(self.delete(request.into_inner()).await)
    }
}

/// Returns the calling client along with the message.
pub(super) fn client_of<T>(request: Request<T>) -> Result<(BetcodeClient, T), Status> {
    let client = BetcodeClient::of(&request).map_err(|error| status::grpc(&error))?;
    Ok((client, request.into_inner()))
}
