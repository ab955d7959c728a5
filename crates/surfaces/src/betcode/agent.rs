//! `AgentService`: one line per method; what they do is in the sibling files.

use tonic::{Request, Status, Streaming};
use wire::betcode::v1 as pb;
use wire::betcode::v1::agent_service_server::AgentService;

use super::presence::Client;
use super::{Answer, Betcode, answer};
use crate::peer::require_user;
use crate::pump::Messages;
use crate::status;

#[tonic::async_trait]
impl AgentService for Betcode {
    type ConverseStream = Messages<pb::AgentEvent>;

    async fn converse(&self, request: Request<Streaming<pb::AgentRequest>>) -> Answer<Self::ConverseStream> {
        require_user(&request, "converse with sessions").map_err(|error| status::grpc(&error))?;
        answer(self.conversation(request))
    }

    async fn list_sessions(
        &self,
        request: Request<pb::ListSessionsRequest>,
    ) -> Answer<pb::ListSessionsResponse> {
        let request = admitted(request, "list sessions")?;
        answer(self.list(request.into_inner()).await)
    }

    type ResumeSessionStream = Messages<pb::AgentEvent>;

    async fn resume_session(
        &self,
        request: Request<pb::ResumeSessionRequest>,
    ) -> Answer<Self::ResumeSessionStream> {
        let request = admitted(request, "read sessions")?;
        answer(self.resume(request.into_inner()).await)
    }

    async fn compact_session(
        &self,
        request: Request<pb::CompactSessionRequest>,
    ) -> Answer<pb::CompactSessionResponse> {
        let request = admitted(request, "compact sessions")?;
        answer(self.compact(request.into_inner()).await)
    }

    async fn cancel_turn(&self, request: Request<pb::CancelTurnRequest>) -> Answer<pb::CancelTurnResponse> {
        let request = admitted(request, "cancel turns")?;
        answer(self.cancel(request.into_inner()).await)
    }

    async fn request_input_lock(
        &self,
        request: Request<pb::InputLockRequest>,
    ) -> Answer<pb::InputLockResponse> {
        let (client, request) = client_of(request, "take the input of sessions")?;
        answer(self.request_lock(request, &client).await)
    }

    async fn list_session_grants(
        &self,
        request: Request<pb::ListSessionGrantsRequest>,
    ) -> Answer<pb::ListSessionGrantsResponse> {
        let request = admitted(request, "read grants")?;
        answer(self.grants(request.into_inner()).await)
    }

    async fn clear_session_grants(
        &self,
        request: Request<pb::ClearSessionGrantsRequest>,
    ) -> Answer<pb::ClearSessionGrantsResponse> {
        let (client, request) = client_of(request, "change grants")?;
        answer(self.clear_grants(request, &client).await)
    }

    async fn set_session_grant(
        &self,
        request: Request<pb::SetSessionGrantRequest>,
    ) -> Answer<pb::SetSessionGrantResponse> {
        let (client, request) = client_of(request, "change grants")?;
        answer(self.set_grant(request, &client).await)
    }

    async fn rename_session(
        &self,
        request: Request<pb::RenameSessionRequest>,
    ) -> Answer<pb::RenameSessionResponse> {
        let request = admitted(request, "rename sessions")?;
        answer(self.rename(request.into_inner()).await)
    }

    async fn delete_session(
        &self,
        request: Request<pb::DeleteSessionRequest>,
    ) -> Answer<pb::DeleteSessionResponse> {
        let request = admitted(request, "delete sessions")?;
        answer(self.delete(request.into_inner()).await)
    }
}

/// Refuses agents: they neither answer their own requests nor see other sessions.
pub(super) fn admitted<T>(request: Request<T>, action: &str) -> Result<Request<T>, Status> {
    require_user(&request, action).map_err(|error| status::grpc(&error))?;
    Ok(request)
}

fn client_of<T>(request: Request<T>, action: &str) -> Result<(Client, T), Status> {
    let request = admitted(request, action)?;
    let client = Client::of(&request).map_err(|error| status::grpc(&error))?;
    Ok((client, request.into_inner()))
}
