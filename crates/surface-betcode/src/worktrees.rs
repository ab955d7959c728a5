//! `WorktreeService`, and the worktree lookups of conversations.

use std::path::Path;

use domain::{Error, ErrorCode};
use runtime::Snapshot;
use runtime::worktree::{BranchChoice, NewWorktree, Worktree};
use tonic::Request;
use wire::betcode::v1 as pb;
use wire::betcode::v1::worktree_service_server::WorktreeService;

use super::{Betcode, RpcResult, answer, to_wire};

/// The feature flag that switches this service off.
const FEATURE: &str = "worktree_management";

#[tonic::async_trait]
impl WorktreeService for Betcode {
    async fn list_worktrees(
        &self,
        request: Request<pb::ListWorktreesRequest>,
    ) -> RpcResult<pb::ListWorktreesResponse> {
        answer(self.worktrees(request.into_inner()).await)
    }

    async fn create_worktree(
        &self,
        request: Request<pb::CreateWorktreeRequest>,
    ) -> RpcResult<pb::WorktreeInfo> {
        answer(self.create_worktree(request.into_inner()).await)
    }

    async fn switch_worktree(
        &self,
        request: Request<pb::SwitchWorktreeRequest>,
    ) -> RpcResult<pb::SwitchWorktreeResponse> {
        answer(self.switch_worktree(request.into_inner()).await)
    }

    async fn remove_worktree(
        &self,
        request: Request<pb::RemoveWorktreeRequest>,
    ) -> RpcResult<pb::RemoveWorktreeResponse> {
        answer(self.remove_worktree(request.into_inner()).await)
    }
}

impl Betcode {
    async fn worktrees(&self, request: pb::ListWorktreesRequest) -> Result<pb::ListWorktreesResponse, Error> {
        self.require_feature(FEATURE)?;
        let listed = self.supervisor.worktrees().list(&request.repo_path).await?;
        Ok(pb::ListWorktreesResponse { worktrees: listed.iter().map(info).collect() })
    }

    /// Creates a worktree, and its branch if requested.
    async fn create_worktree(&self, request: pb::CreateWorktreeRequest) -> Result<pb::WorktreeInfo, Error> {
        self.require_feature(FEATURE)?;
        let new = NewWorktree {
            repo_path: request.repo_path,
            branch: request.branch,
            name: request.name,
            path: request.path,
            branch_choice: if request.create_branch { BranchChoice::New } else { BranchChoice::Existing },
            ..NewWorktree::default()
        };
        Ok(info(&self.supervisor.worktrees().create(new).await?))
    }

    /// Makes a worktree the current one and returns the previous one.
    async fn switch_worktree(
        &self,
        request: pb::SwitchWorktreeRequest,
    ) -> Result<pb::SwitchWorktreeResponse, Error> {
        self.require_feature(FEATURE)?;
        let (now, before) = self.supervisor.worktrees().switch(&request.worktree_id).await?;
        Ok(pb::SwitchWorktreeResponse {
            worktree: Some(info(&now)),
            previous_worktree_id: before.unwrap_or_default(),
        })
    }

    /// Removes a worktree and closes its sessions.
    async fn remove_worktree(
        &self,
        request: pb::RemoveWorktreeRequest,
    ) -> Result<pb::RemoveWorktreeResponse, Error> {
        self.require_feature(FEATURE)?;
        let folder = self.supervisor.worktrees().path(&request.worktree_id).await?;
        let removed = self.supervisor.worktrees().remove(&request.worktree_id, request.force).await?;
        self.leave_folder(&request.worktree_id, &folder).await;
        Ok(pb::RemoveWorktreeResponse { removed: true, sessions_closed: removed.sessions_closed })
    }

    /// Ends the streams of sessions whose folder is gone.
    async fn leave_folder(&self, worktree_id: &str, folder: &Path) {
        let message = format!("worktree_id: {worktree_id} was removed; its sessions stay on record");
        let reason = Error::new(ErrorCode::WorktreeNotFound, message);
        for session in self.presence.attended() {
            let snapshot = self.supervisor.snapshot(&session).await;
            if snapshot.is_ok_and(|snapshot| snapshot.spec.working_dir.starts_with(folder)) {
                self.presence.dismiss(&session, &reason);
            }
        }
    }

    /// Returns the folder of conversations that name none: the current worktree, else the daemon's default
    /// folder.
    pub(super) async fn default_folder(&self) -> Result<String, Error> {
        let current = self.supervisor.worktrees().current_folder().await?;
        let folder = current.or_else(|| self.about.default_folder.clone());
        folder.map(|folder| folder.display().to_string()).ok_or_else(|| {
            Error::invalid(
                "working_directory",
                "is required: no worktree is chosen and the daemon has no folder",
            )
        })
    }

    /// Returns the folder of the worktree with this id.
    pub(super) async fn worktree_folder(&self, id: &str) -> Result<String, Error> {
        self.require_feature(FEATURE)?;
        Ok(self.supervisor.worktrees().folder(id).await?.display().to_string())
    }

    /// Returns the worktree a session works in; empty if it is in none.
    pub(super) async fn worktree_of(&self, snapshot: &Snapshot) -> Result<String, Error> {
        let found = self.supervisor.worktrees().holding(&[&snapshot.spec.working_dir]).await?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    pub(super) async fn worktrees_of(&self, snapshots: &[Snapshot]) -> Result<Vec<String>, Error> {
        let folders: Vec<&Path> =
            snapshots.iter().map(|snapshot| snapshot.spec.working_dir.as_path()).collect();
        self.supervisor.worktrees().holding(&folders).await
    }
}

pub(super) fn info(worktree: &Worktree) -> pb::WorktreeInfo {
    pb::WorktreeInfo {
        id: worktree.id.clone(),
        name: worktree.name.clone(),
        path: worktree.path.display().to_string(),
        branch: worktree.branch.clone().unwrap_or_default(),
        created_at: Some(to_wire::timestamp(worktree.created_at)),
        active_session_id: worktree.active_session.as_ref().map(ToString::to_string).unwrap_or_default(),
        exists_on_disk: worktree.exists,
        session_count: u32::try_from(worktree.session_count).unwrap_or(u32::MAX),
    }
}
