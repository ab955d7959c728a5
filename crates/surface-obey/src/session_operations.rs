//! `SessionService`: fork, rename, archive, remove, budget.

use domain::event::Attachment;
use domain::{Budget, Command, Error, ErrorCode, SessionId};
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::session_service_server::SessionService;

use super::local::answer;
use super::{Obey, from_wire, to_wire};
use surface::peer::Signer;

#[tonic::async_trait]
impl SessionService for Obey {
    async fn fork(
        &self,
        request: Request<pb::ForkSessionRequest>,
    ) -> Result<Response<pb::ForkSessionResponse>, Status> {
        let by = by(&request);
        answer(self.fork_session(request.into_inner(), by).await)
    }

    async fn rename(
        &self,
        request: Request<pb::RenameSessionRequest>,
    ) -> Result<Response<pb::RenameSessionResponse>, Status> {
        let request = request.into_inner();
        let id = from_wire::session_id(&request.session_id);
        answer(match id {
            Ok(id) => {
                let renamed = self.supervisor.rename(&id, &request.name).await;
                renamed.map(|name| pb::RenameSessionResponse { name })
            }
            Err(error) => Err(error),
        })
    }

    async fn archive(
        &self,
        request: Request<pb::ArchiveSessionRequest>,
    ) -> Result<Response<pb::ArchiveSessionResponse>, Status> {
        let by = by(&request);
        let request = request.into_inner();
        let command = Command::Archive { archived: !request.undo, by };
        let done = self.command_of(&request.session_id, command).await;
        answer(done.map(|_| pb::ArchiveSessionResponse { archived: !request.undo }))
    }

    async fn remove(
        &self,
        request: Request<pb::RemoveSessionRequest>,
    ) -> Result<Response<pb::RemoveSessionResponse>, Status> {
        answer(match from_wire::session_id(&request.into_inner().session_id) {
            Ok(id) => self.supervisor.remove(&id).await.map(|()| pb::RemoveSessionResponse {}),
            Err(error) => Err(error),
        })
    }

    async fn set_budget(
        &self,
        request: Request<pb::SetBudgetRequest>,
    ) -> Result<Response<pb::BudgetStatus>, Status> {
        let by = by(&request);
        let request = request.into_inner();
        let change = Budget {
            tokens: request.tokens,
            cost_micro_usd: request.cost_micro_usd,
            work_ms: request.work_ms,
            calls: request.calls,
        };
        let done = self.command_of(&request.session_id, Command::SetBudget { change, by }).await;
        answer(match done {
            Ok(id) => self.budget(&id).await,
            Err(error) => Err(error),
        })
    }

    async fn get_budget(
        &self,
        request: Request<pb::GetBudgetRequest>,
    ) -> Result<Response<pb::BudgetStatus>, Status> {
        answer(match from_wire::session_id(&request.into_inner().session_id) {
            Ok(id) => self.budget(&id).await,
            Err(error) => Err(error),
        })
    }
}

impl Obey {
    async fn command_of(&self, id: &str, command: Command) -> Result<SessionId, Error> {
        let id = from_wire::session_id(id)?;
        self.supervisor.command(&id, command).await?;
        Ok(id)
    }

    async fn fork_session(
        &self,
        request: pb::ForkSessionRequest,
        by: String,
    ) -> Result<pb::ForkSessionResponse, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let forked = self.supervisor.fork(&id, request.seq, request.name.trim(), by).await?;
        let origin = forked.state.fork.as_ref();
        Ok(pb::ForkSessionResponse {
            session_id: forked.spec.id.to_string(),
            name: forked.state.name.clone(),
            seq: origin.map_or(0, |fork| fork.seq),
            resumes: origin.is_some_and(|fork| fork.history.is_empty()),
        })
    }

    async fn budget(&self, id: &SessionId) -> Result<pb::BudgetStatus, Error> {
        let snapshot = self.supervisor.snapshot(id).await?;
        let (budget, spent) = self.supervisor.spending(&snapshot);
        let limited = snapshot.state.rate_limit.as_ref();
        Ok(pb::BudgetStatus {
            session_id: id.to_string(),
            tokens: budget.tokens,
            cost_micro_usd: budget.cost_micro_usd,
            work_ms: budget.work_ms,
            calls: budget.calls,
            spent_tokens: spent.tokens,
            spent_micro_usd: spent.cost_micro_usd,
            spent_work_ms: spent.work_ms,
            spent_calls: spent.calls,
            used_up: budget.exhausted_by(&spent).unwrap_or_default(),
            rate_limit: limited.map(|limit| limit.reason.clone()).unwrap_or_default(),
            resumes_at: limited.map(|limit| to_wire::timestamp(limit.resumes_at)),
        })
    }

    /// Refuses files for an agent that takes none.
    pub(super) async fn check_attachments(&self, id: &SessionId, files: &[Attachment]) -> Result<(), Error> {
        if files.is_empty() {
            return Ok(());
        }
        let provider = self.supervisor.snapshot(id).await?.spec.provider;
        if self.supervisor.providers().get(provider)?.capabilities().attachments {
            return Ok(());
        }
        Err(Error::new(
            ErrorCode::InvalidArgument,
            format!(
                "attachments: an agent of {} takes none; name the file in the prompt instead",
                provider.name()
            ),
        ))
    }
}

fn by<T>(request: &Request<T>) -> String {
    Signer::of(request.extensions()).name()
}
