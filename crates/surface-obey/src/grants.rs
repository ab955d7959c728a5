//! `GrantService`: remembered permissions. The access table restricts it to the user.

use std::path::PathBuf;

use domain::permission::pattern::CallPattern;
use domain::permission::{Coverage, Grant, GrantAction, Principal, Scope};
use domain::{Error, Timestamp};
use runtime::grants::{Listed, Suggestion};
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::grant::{Covers, Where};
use wire::obey::v1::grant_service_server::GrantService;

use super::local::answer;
use super::{Obey, from_wire, to_wire};
use surface::access;
use surface::peer::Signer;

#[tonic::async_trait]
impl GrantService for Obey {
    async fn list_grants(
        &self,
        request: Request<pb::ListGrantsRequest>,
    ) -> Result<Response<pb::ListGrantsResponse>, Status> {
        answer(self.grants(request.into_inner()).await)
    }

    async fn add_grant(&self, request: Request<pb::AddGrantRequest>) -> Result<Response<pb::Grant>, Status> {
        let signer = Signer::of(request.extensions());
        self.answer_with_grant(self.add_grant(request.into_inner(), &signer).await)
    }

    async fn revoke_grant(
        &self,
        request: Request<pb::RevokeGrantRequest>,
    ) -> Result<Response<pb::Grant>, Status> {
        let signer = Signer::of(request.extensions());
        let request = request.into_inner();
        let by = signer.sign(request.revoked_by);
        self.answer_with_grant(self.supervisor.grants().revoke(&request.id, by).await)
    }

    async fn suggest_grants(
        &self,
        _request: Request<pb::SuggestGrantsRequest>,
    ) -> Result<Response<pb::SuggestGrantsResponse>, Status> {
        let found = self.supervisor.grants().suggest().await;
        let all = |found: Vec<Suggestion>| found.into_iter().map(suggestion).collect();
        answer(found.map(|found| pb::SuggestGrantsResponse { suggestions: all(found) }))
    }
}

impl Obey {
    /// Lists the grants of a session or project, with the problems found in their files.
    async fn grants(&self, request: pb::ListGrantsRequest) -> Result<pb::ListGrantsResponse, Error> {
        let session = match request.session_id.as_str() {
            "" => None,
            id => Some(from_wire::session_id(id)?),
        };
        let project = (!request.project.is_empty()).then(|| PathBuf::from(request.project));
        let listing = self.supervisor.grants().list(session.as_ref(), project.as_deref()).await?;
        let grants = listing.grants.into_iter().map(listed).collect();
        Ok(pb::ListGrantsResponse { grants, problems: listing.problems })
    }

    /// Answers with a grant that was added or revoked, and names it for the audit.
    fn answer_with_grant(&self, done: Result<Listed, Error>) -> Result<Response<pb::Grant>, Status> {
        let summary = done.as_ref().ok().map(|listed| {
            let named = Grant { id: listed.id.clone(), ..listed.grant.clone() };
            access::Summary(self.supervisor.without_secrets(&named.summary()))
        });
        let mut response = answer(done.map(listed))?;
        if let Some(summary) = summary {
            response.extensions_mut().insert(summary);
        }
        Ok(response)
    }

    async fn add_grant(&self, request: pb::AddGrantRequest, signer: &Signer) -> Result<Listed, Error> {
        let wanted = request.grant.ok_or_else(|| Error::invalid("grant", "is required"))?;
        let reason = wanted.reason.clone();
        let session = match &wanted.r#where {
            Some(Where::SessionId(id)) => Some(from_wire::session_id(id)?),
            _ => None,
        };
        let grant = grant(wanted)?;
        let by = signer.sign(request.given_by);
        self.supervisor.grants().add(session.as_ref(), grant, reason, by).await
    }
}

/// Parses a grant to be added.
fn grant(wanted: pb::Grant) -> Result<Grant, Error> {
    let action = match wanted.action() {
        pb::GrantAction::Allow => GrantAction::Allow,
        pb::GrantAction::Ask => GrantAction::Ask,
        pb::GrantAction::Deny => GrantAction::Deny,
        pb::GrantAction::Unspecified => return Err(Error::invalid("grant.action", "is required")),
    };
    if wanted.tool.is_empty() {
        return Err(Error::invalid(
            "grant.tool",
            "is required; a tool's name such as Bash or Write, or * for all",
        ));
    }
    let covers = match wanted.covers {
        Some(Covers::Command(command)) => Coverage::Command(command),
        Some(Covers::Prefix(words)) => Coverage::Prefix(words),
        Some(Covers::File(path)) => Coverage::File(path.into()),
        Some(Covers::Folder(path)) => Coverage::Folder(path.into()),
        None if CallPattern::parse("grant.tool", &wanted.tool)?.is_general() => Coverage::Tool,
        None => Coverage::Pattern,
    };
    let scope = match wanted.r#where {
        Some(Where::SessionId(_)) => Scope::Session,
        Some(Where::Worktree(path)) => Scope::Worktree(path.into()),
        Some(Where::Project(path)) => Scope::Project(path.into()),
        None => Scope::Always,
    };
    // Rules in a file apply to every agent and sub-agent in their scope.
    let everyone = wanted.sub_agents || scope != Scope::Session;
    let principal = if everyone { Principal::Everyone } else { Principal::Agent };
    let micros = |time: prost_types::Timestamp| {
        Timestamp(time.seconds.saturating_mul(1_000_000).saturating_add(i64::from(time.nanos) / 1_000))
    };
    if wanted.uses_left == Some(0) {
        return Err(Error::invalid("grant.uses_left", "must be at least 1"));
    }
    Ok(Grant {
        action,
        scope,
        principal,
        expires_at: wanted.expires_at.map(micros),
        uses_left: wanted.uses_left,
        ..Grant::new(wanted.tool.trim(), covers)
    })
}

/// Converts a grant, with texts that describe what it covers and where it applies.
fn listed(listed: Listed) -> pb::Grant {
    let Listed { id, grant, session, folder, reason, source, ignored } = listed;
    let what = grant.what(&folder);
    let where_text =
        session.as_ref().map_or_else(|| grant.place(), |session| format!("in session {session}"));
    let place = match (session, grant.scope) {
        (Some(session), _) => Some(Where::SessionId(session.to_string())),
        (None, Scope::Worktree(path)) => Some(Where::Worktree(path.display().to_string())),
        (None, Scope::Project(path)) => Some(Where::Project(path.display().to_string())),
        (None, Scope::Session | Scope::Always) => None,
    };
    let covers = match grant.covers {
        Coverage::Tool | Coverage::Pattern => None,
        Coverage::Command(command) => Some(Covers::Command(command)),
        Coverage::Prefix(words) => Some(Covers::Prefix(words)),
        Coverage::File(path) => Some(Covers::File(path.display().to_string())),
        Coverage::Folder(path) => Some(Covers::Folder(path.display().to_string())),
    };
    let action = match grant.action {
        GrantAction::Allow => pb::GrantAction::Allow,
        GrantAction::Ask => pb::GrantAction::Ask,
        GrantAction::Deny => pb::GrantAction::Deny,
    };
    pb::Grant {
        id,
        action: action.into(),
        tool: grant.tool,
        covers,
        r#where: place,
        expires_at: grant.expires_at.map(to_wire::timestamp),
        uses_left: grant.uses_left,
        sub_agents: grant.principal == Principal::Everyone,
        reason,
        given_by: grant.given_by,
        given_at: grant.given_at.map(to_wire::timestamp),
        source,
        what,
        where_text,
        ignored,
    }
}

/// Converts a suggested grant, which has no id and no source yet.
fn suggestion(suggestion: Suggestion) -> pb::GrantSuggestion {
    let Suggestion { grant, times, folder } = suggestion;
    let grant = Listed {
        id: String::new(),
        grant,
        session: None,
        folder,
        reason: String::new(),
        source: String::new(),
        ignored: false,
    };
    pb::GrantSuggestion { grant: Some(listed(grant)), times }
}
