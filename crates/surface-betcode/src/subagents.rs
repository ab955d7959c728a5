//! `SubagentService`: workers of sessions and orchestrations of workers. The rules are in `domain`, the work is the
//! runtime's; this file converts requests and answers.

mod from_wire;
mod orchestration_events;
mod worker_events;

use domain::worker::{WorkerAuthority, WorkerStatus};
use domain::{Error, SessionId};
use prost::Message as _;
use runtime::workers::{NewOrchestration, SpawnWorker, WorkerView, Workers};
use tonic::Request;
use wire::betcode::v1 as pb;
use wire::betcode::v1::subagent_service_server::SubagentService;

use super::agent::client_of;
use super::to_wire::timestamp;
use super::{Betcode, RpcResult, answer};
use surface::pump::Messages;
use surface::shorten;

#[tonic::async_trait]
impl SubagentService for Betcode {
    async fn spawn_subagent(
        &self,
        request: Request<pb::SpawnSubagentRequest>,
    ) -> RpcResult<pb::SpawnSubagentResponse> {
        let (client, request) = client_of(request)?;
        answer(self.spawn_worker(request, client.signature()).await)
    }

    type WatchSubagentStream = Messages<pb::SubagentEvent>;

    async fn watch_subagent(
        &self,
        request: Request<pb::WatchSubagentRequest>,
    ) -> RpcResult<Self::WatchSubagentStream> {
        answer(self.watch_worker(request.into_inner()).await)
    }

    async fn send_to_subagent(
        &self,
        request: Request<pb::SendToSubagentRequest>,
    ) -> RpcResult<pb::SendToSubagentResponse> {
        let (client, request) = client_of(request)?;
        answer(self.send_to_worker(request, client.signature()).await)
    }

    async fn cancel_subagent(
        &self,
        request: Request<pb::CancelSubagentRequest>,
    ) -> RpcResult<pb::CancelSubagentResponse> {
        answer(self.cancel_worker(request.into_inner()).await)
    }

    async fn list_subagents(
        &self,
        request: Request<pb::ListSubagentsRequest>,
    ) -> RpcResult<pb::ListSubagentsResponse> {
        answer(self.list_workers(request.into_inner()).await)
    }

    async fn create_orchestration(
        &self,
        request: Request<pb::CreateOrchestrationRequest>,
    ) -> RpcResult<pb::CreateOrchestrationResponse> {
        let (client, request) = client_of(request)?;
        answer(self.orchestrate(request, client.signature()).await)
    }

    type WatchOrchestrationStream = Messages<pb::OrchestrationEvent>;

    async fn watch_orchestration(
        &self,
        request: Request<pb::WatchOrchestrationRequest>,
    ) -> RpcResult<Self::WatchOrchestrationStream> {
        answer(self.watch_orchestration_events(request.into_inner()).await)
    }

    async fn revoke_auto_approve(
        &self,
        request: Request<pb::RevokeAutoApproveRequest>,
    ) -> RpcResult<pb::RevokeAutoApproveResponse> {
        let (client, request) = client_of(request)?;
        answer(self.revoke(request, client.signature()).await)
    }
}

impl Betcode {
    pub(super) fn workers(&self) -> Workers {
        Workers::new(&self.supervisor)
    }

    async fn spawn_worker(
        &self,
        request: pb::SpawnSubagentRequest,
        by: String,
    ) -> Result<pb::SpawnSubagentResponse, Error> {
        if request.parent_session_id.is_empty() {
            return Err(Error::invalid("parent_session_id", "is required"));
        }
        let spawn = SpawnWorker {
            parent: SessionId::new(request.parent_session_id),
            prompt: request.prompt,
            provider: request.provider,
            model: request.model,
            name: request.name,
            working_directory: request.working_directory,
            allowed_tools: request.allowed_tools,
            auto_approve: request.auto_approve,
            max_turns: i64::from(request.max_turns),
            environment: request.env.into_iter().collect(),
            worktree: request.worktree,
            authority: WorkerAuthority::User,
            call: None,
            by,
        };
        let spawned = self.workers().spawn(spawn).await?;
        let id = spawned.record.session.to_string();
        Ok(pb::SpawnSubagentResponse { subagent_id: id.clone(), session_id: id })
    }

    async fn send_to_worker(
        &self,
        request: pb::SendToSubagentRequest,
        by: String,
    ) -> Result<pb::SendToSubagentResponse, Error> {
        let found = self.workers().find(&request.subagent_id, None).await?;
        self.workers().send(&found.record.session, request.content, by).await?;
        Ok(pb::SendToSubagentResponse { delivered: true })
    }

    async fn cancel_worker(
        &self,
        request: pb::CancelSubagentRequest,
    ) -> Result<pb::CancelSubagentResponse, Error> {
        let workers = self.workers();
        let found = workers.find(&request.subagent_id, None).await?;
        let reason = shorten::text(&request.reason, crate::limits::CANCEL_REASON_MAX_BYTES);
        let ended = workers.cancel(&found.record.session, &reason, request.force).await?;
        if request.cleanup_worktree {
            workers.remove_tree(&ended, request.force).await?;
        }
        let count = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
        Ok(pb::CancelSubagentResponse {
            cancelled: ended.status == WorkerStatus::Cancelled,
            final_status: status(ended.status) as i32,
            tool_calls_executed: count(ended.snapshot.state.calls),
            tool_calls_auto_approved: count(u64::from(ended.snapshot.state.auto_approved.total)),
        })
    }

    async fn list_workers(
        &self,
        request: pb::ListSubagentsRequest,
    ) -> Result<pb::ListSubagentsResponse, Error> {
        let parent = Some(request.parent_session_id).filter(|id| !id.is_empty()).map(SessionId::new);
        let wanted = match pb::SubagentStatus::try_from(request.status_filter) {
            Ok(wanted) => wanted,
            Err(_) => {
                let number = request.status_filter;
                return Err(Error::invalid("status_filter", format_args!("{number} is no status")));
            }
        };
        let mut views = self.workers().list(parent.as_ref()).await?;
        views.retain(|view| wanted == pb::SubagentStatus::Unspecified || status(view.status) == wanted);
        // A list that clients do not take helps nobody; the newest ones are what they want.
        let mut room = surface::limits::CLIENT_MESSAGE_BYTES;
        let newest = views.iter().rev().map(|view| self.worker_info(view));
        let mut subagents: Vec<pb::SubagentInfo> = newest
            .take_while(|info| {
                let needed = info.encoded_len() + crate::limits::SUBAGENT_FRAME_BYTES;
                room.checked_sub(needed).inspect(|left| room = *left).is_some()
            })
            .collect();
        subagents.reverse();
        Ok(pb::ListSubagentsResponse { subagents })
    }

    fn worker_info(&self, view: &WorkerView) -> pb::SubagentInfo {
        let record = &view.record;
        let cut = |text: &str| shorten::text(text, crate::limits::SUBAGENT_TEXT_MAX_BYTES);
        pb::SubagentInfo {
            id: record.session.to_string(),
            parent_session_id: record.parent.to_string(),
            session_id: record.session.to_string(),
            name: view.snapshot.state.name.clone(),
            prompt: cut(&self.supervisor.without_secrets(&record.prompt)),
            model: view.snapshot.state.model.clone(),
            working_directory: record.working_dir.display().to_string(),
            status: status(view.status) as i32,
            auto_approve: record.auto_approve,
            max_turns: i32::try_from(record.max_turns).unwrap_or(i32::MAX),
            allowed_tools: record.allowed_tools.clone(),
            result_summary: cut(&view.summary),
            created_at: Some(timestamp(record.created_at)),
            completed_at: view.ended_at.map(timestamp),
            provider: record.provider.name().to_owned(),
        }
    }

    async fn revoke(
        &self,
        request: pb::RevokeAutoApproveRequest,
        by: String,
    ) -> Result<pb::RevokeAutoApproveResponse, Error> {
        let workers = self.workers();
        let found = workers.find(&request.subagent_id, None).await?;
        let id = found.record.session.clone();
        let revoked = workers.revoke_auto_approve(&id, by).await?;
        let mut now = workers.find(id.as_str(), None).await?;
        let pending = now.snapshot.state.requests.len();
        let waits = now.status == WorkerStatus::Pending || pending > 0;
        if request.terminate_if_pending && waits && !now.status.is_final() {
            now = workers.cancel(&id, &request.reason, true).await?;
        }
        Ok(pb::RevokeAutoApproveResponse {
            revoked,
            pending_tool_calls: i32::try_from(pending).unwrap_or(i32::MAX),
            subagent_status: status(now.status) as i32,
        })
    }

    async fn orchestrate(
        &self,
        request: pb::CreateOrchestrationRequest,
        by: String,
    ) -> Result<pb::CreateOrchestrationResponse, Error> {
        if request.parent_session_id.is_empty() {
            return Err(Error::invalid("parent_session_id", "is required"));
        }
        let plan = from_wire::plan(request.strategy, request.steps)?;
        let total_steps = i32::try_from(plan.steps.len()).unwrap_or(i32::MAX);
        let parent = SessionId::new(request.parent_session_id);
        let new = NewOrchestration { parent, plan, owns_parent: false, by };
        let orchestration_id = self.workers().orchestrate(new).await?;
        Ok(pb::CreateOrchestrationResponse { orchestration_id, total_steps })
    }
}

pub(super) fn status(status: WorkerStatus) -> pb::SubagentStatus {
    match status {
        WorkerStatus::Pending => pb::SubagentStatus::Pending,
        WorkerStatus::Running => pb::SubagentStatus::Running,
        WorkerStatus::Completed => pb::SubagentStatus::Completed,
        WorkerStatus::Failed => pb::SubagentStatus::Failed,
        WorkerStatus::Cancelled => pb::SubagentStatus::Cancelled,
    }
}
