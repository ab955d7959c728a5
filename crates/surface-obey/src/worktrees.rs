//! `WorktreeService`: working trees, what changed in them, and merging them back. The access table restricts it to the
//! user. Git is the runtime's.

use domain::{Error, TurnId};
use runtime::worktree::{
    BranchChoice, CollectedWorktree, DiffScope, DiscardScope, HookChoice, MergeRequest, NewWorktree,
    SetupOutcome, TreeName, Worktree,
};
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::worktree_service_server::WorktreeService;

use super::local::answer;
use super::{Obey, diff_wire, from_wire, to_wire};
use surface::peer::Signer;

/// Lines of context around a change if the client does not say.
const CONTEXT_DEFAULT: u32 = 3;

#[tonic::async_trait]
impl WorktreeService for Obey {
    async fn create(
        &self,
        request: Request<pb::WorktreeCreateRequest>,
    ) -> Result<Response<pb::WorktreeCreateResponse>, Status> {
        let created = self.supervisor.worktrees().create_set_up(new_worktree(request.into_inner())).await;
        answer(created.map(|created| pb::WorktreeCreateResponse {
            worktree: Some(worktree(&created.worktree)),
            setup: Some(setup(created.setup)),
        }))
    }

    async fn list(
        &self,
        request: Request<pb::WorktreeListRequest>,
    ) -> Result<Response<pb::WorktreeListResponse>, Status> {
        let listed = self.supervisor.worktrees().list(&request.into_inner().repo_path).await;
        let all = |listed: Vec<Worktree>| listed.iter().map(worktree).collect();
        answer(listed.map(|listed| pb::WorktreeListResponse { worktrees: all(listed) }))
    }

    async fn diff(
        &self,
        request: Request<pb::WorktreeDiffRequest>,
    ) -> Result<Response<pb::WorktreeDiffResponse>, Status> {
        answer(self.worktree_diff(request.into_inner()).await)
    }

    async fn diff_file(
        &self,
        request: Request<pb::WorktreeDiffFileRequest>,
    ) -> Result<Response<pb::WorktreeDiffFileResponse>, Status> {
        answer(self.worktree_diff_file(request.into_inner()).await)
    }

    async fn merge(
        &self,
        request: Request<pb::WorktreeMergeRequest>,
    ) -> Result<Response<pb::WorktreeMergeResponse>, Status> {
        let request = request.into_inner();
        let merge = tree_name(request.tree).map(|tree| MergeRequest {
            tree,
            into: request.into,
            commit_message: request.commit_message,
            squash: request.squash,
            message: request.message,
            allow_protected: request.allow_protected,
        });
        let merged = match merge {
            Ok(merge) => self.supervisor.worktrees().merge(merge).await,
            Err(error) => Err(error),
        };
        answer(merged.map(|merged| pb::WorktreeMergeResponse {
            into: merged.into,
            commit: merged.commit,
            committed: merged.committed,
            up_to_date: merged.up_to_date,
            fast_forward: merged.fast_forward,
        }))
    }

    async fn rebase(
        &self,
        request: Request<pb::WorktreeRebaseRequest>,
    ) -> Result<Response<pb::WorktreeRebaseResponse>, Status> {
        let request = request.into_inner();
        let rebased = match tree_name(request.tree) {
            Ok(tree) => self.supervisor.worktrees().rebase(&tree, &request.onto).await,
            Err(error) => Err(error),
        };
        answer(rebased.map(|rebased| pb::WorktreeRebaseResponse {
            onto: rebased.onto,
            commit: rebased.commit,
            commits: rebased.commits,
            up_to_date: rebased.up_to_date,
        }))
    }

    async fn discard(
        &self,
        request: Request<pb::WorktreeDiscardRequest>,
    ) -> Result<Response<pb::WorktreeDiscardResponse>, Status> {
        answer(self.discard_in_worktree(request.into_inner()).await)
    }

    async fn remove(
        &self,
        request: Request<pb::WorktreeRemoveRequest>,
    ) -> Result<Response<pb::WorktreeRemoveResponse>, Status> {
        let request = request.into_inner();
        let removed = self.supervisor.worktrees().remove(&request.worktree_id, request.force).await;
        answer(removed.map(|removed| pb::WorktreeRemoveResponse { sessions_closed: removed.sessions_closed }))
    }

    async fn is_merged(
        &self,
        request: Request<pb::WorktreeIsMergedRequest>,
    ) -> Result<Response<pb::WorktreeIsMergedResponse>, Status> {
        let check = match tree_name(request.into_inner().tree) {
            Ok(tree) => self.supervisor.worktrees().is_merged(&tree).await,
            Err(error) => Err(error),
        };
        answer(check.map(diff_wire::merge_check))
    }

    async fn collect_garbage(
        &self,
        request: Request<pb::WorktreeCollectRequest>,
    ) -> Result<Response<pb::WorktreeCollectResponse>, Status> {
        let request = request.into_inner();
        let collected = self.supervisor.worktrees().collect(&request.repo_path, request.dry_run).await;
        let all = |list: Vec<CollectedWorktree>| list.into_iter().map(collected_tree).collect();
        answer(collected.map(|list| pb::WorktreeCollectResponse { worktrees: all(list) }))
    }

    async fn get_setup(
        &self,
        request: Request<pb::WorktreeGetSetupRequest>,
    ) -> Result<Response<pb::WorktreeSetup>, Status> {
        let found = match tree_name(request.into_inner().tree) {
            Ok(tree) => self.supervisor.worktrees().setup(&tree).await,
            Err(error) => Err(error),
        };
        answer(found.map(setup))
    }

    async fn allow_setup(
        &self,
        request: Request<pb::WorktreeAllowSetupRequest>,
    ) -> Result<Response<pb::WorktreeSetup>, Status> {
        let by = Signer::of(request.extensions()).name();
        let request = request.into_inner();
        let allowed = match tree_name(request.tree) {
            Ok(tree) => self.supervisor.worktrees().allow_setup(&tree, &request.hash, &by).await,
            Err(error) => Err(error),
        };
        answer(allowed.map(setup))
    }
}

impl Obey {
    async fn worktree_diff(
        &self,
        request: pb::WorktreeDiffRequest,
    ) -> Result<pb::WorktreeDiffResponse, Error> {
        let scope = diff_scope(request.scope(), &request.turn_id)?;
        let tree = tree_name(request.tree)?;
        Ok(diff_wire::diff(self.supervisor.worktrees().diff(&tree, &scope).await?))
    }

    async fn worktree_diff_file(
        &self,
        request: pb::WorktreeDiffFileRequest,
    ) -> Result<pb::WorktreeDiffFileResponse, Error> {
        let scope = diff_scope(request.scope(), &request.turn_id)?;
        let context = request.context.unwrap_or(CONTEXT_DEFAULT);
        let tree = tree_name(request.tree)?;
        let file = self.supervisor.worktrees().diff_file(&tree, &scope, &request.path, context).await?;
        Ok(diff_wire::diff_file(file))
    }

    async fn discard_in_worktree(
        &self,
        request: pb::WorktreeDiscardRequest,
    ) -> Result<pb::WorktreeDiscardResponse, Error> {
        let scope = match (request.scope(), request.paths.is_empty()) {
            (pb::WorktreeDiscardScope::ToBase, true) => DiscardScope::ToBase,
            (pb::WorktreeDiscardScope::ToBase, false) => {
                return Err(Error::invalid("paths", "are for uncommitted changes; leave them out"));
            }
            (_, true) => DiscardScope::Uncommitted,
            (_, false) => DiscardScope::Paths(request.paths),
        };
        let tree = tree_name(request.tree)?;
        let discarded = self.supervisor.worktrees().discard(&tree, scope).await?;
        Ok(pb::WorktreeDiscardResponse {
            kept_as: discarded.kept_as,
            kept_commit: discarded.kept_commit,
            commit: discarded.commit,
        })
    }
}

fn new_worktree(request: pb::WorktreeCreateRequest) -> NewWorktree {
    NewWorktree {
        branch_choice: match request.branch_choice() {
            pb::WorktreeBranchChoice::Unspecified => BranchChoice::Either,
            pb::WorktreeBranchChoice::Existing => BranchChoice::Existing,
            pb::WorktreeBranchChoice::New => BranchChoice::New,
        },
        repo_path: request.repo_path,
        branch: request.branch,
        name: request.name,
        path: request.path,
        base: request.base,
        prompt: request.prompt,
        hook: HookChoice::IfAllowed,
    }
}

/// Parses which tree is meant.
pub(super) fn tree_name(name: Option<pb::WorktreeName>) -> Result<TreeName, Error> {
    let name = name.ok_or_else(|| Error::invalid("tree", "is required"))?;
    let session = match name.session_id.as_str() {
        "" => None,
        id => Some(from_wire::session_id(id)?),
    };
    Ok(TreeName { id: name.worktree_id, session, folder: name.folder })
}

fn diff_scope(scope: pb::WorktreeDiffScope, turn: &str) -> Result<DiffScope, Error> {
    match scope {
        pb::WorktreeDiffScope::Unspecified | pb::WorktreeDiffScope::Base => Ok(DiffScope::Base),
        pb::WorktreeDiffScope::WorkingTree => Ok(DiffScope::WorkingTree),
        pb::WorktreeDiffScope::Turn => {
            let id = TurnId::parse(turn);
            let id = id.ok_or_else(|| {
                Error::invalid("turn_id", format_args!("{turn:?} is no turn such as turn_1"))
            })?;
            Ok(DiffScope::Turn(id.0))
        }
    }
}

fn worktree(worktree: &Worktree) -> pb::Worktree {
    pb::Worktree {
        id: worktree.id.clone(),
        name: worktree.name.clone(),
        path: worktree.path.display().to_string(),
        branch: worktree.branch.clone().unwrap_or_default(),
        base: worktree.base.clone(),
        created_at: Some(to_wire::timestamp(worktree.created_at)),
        active_session_id: worktree.active_session.as_ref().map(ToString::to_string).unwrap_or_default(),
        session_count: u32::try_from(worktree.session_count).unwrap_or(u32::MAX),
        exists: worktree.exists,
        main: worktree.is_main,
        made_here: worktree.made_here,
    }
}

fn setup(outcome: SetupOutcome) -> pb::WorktreeSetup {
    let (state, command, hash) = match outcome {
        SetupOutcome::NoHook => (pb::WorktreeSetupState::None, String::new(), String::new()),
        SetupOutcome::Done => (pb::WorktreeSetupState::Allowed, String::new(), String::new()),
        SetupOutcome::NotAllowed { command, hash } => (pb::WorktreeSetupState::NotAllowed, command, hash),
    };
    pb::WorktreeSetup { state: state.into(), command, hash }
}

fn collected_tree(collected: CollectedWorktree) -> pb::WorktreeCollected {
    pb::WorktreeCollected {
        worktree: Some(worktree(&collected.worktree)),
        removed: collected.kept.is_none(),
        kept_because: collected.kept.map(|reason| reason.words()).unwrap_or_default(),
        branch_deleted: collected.branch_deleted,
    }
}
