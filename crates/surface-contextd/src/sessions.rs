//! Sessions of the workbench: access, creation on first use, start and end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::{Error, ErrorCode, SessionId};
use host::clock;
use runtime::campaign::resolve_root;
use wire::contextd::v1 as pb;
use workbench::answer::estimate;
use workbench::limits as most;
use workbench::memory::{MemorySearch, distill};
use workbench::place::Scope;
use workbench::sessions::{Session, SessionLookup, SessionOutcome, StoredSession, check_id};

use super::ContextdHandler;
use super::call::OperationCall;
use surface::access;

/// The minimum confidence of memories that are injected at the start. Lower than that of a search, so that
/// distilled memories are included.
const INJECTED_CONFIDENCE: f64 = 0.5;

impl ContextdHandler {
    /// Rejects callers without access (OBEY-1002). HTTP calls were already checked; for tools this is the
    /// first check.
    pub(super) fn admit(&self, call: &OperationCall, session_id: &str) -> Result<(), Error> {
        let method = format!("contextd.v1.{}Service/{}", call.operation.service, call.operation.method);
        access::check(access::grpc(&method), &call.caller, session_id)
    }

    /// Returns an open session: a known one, one of the session core, or a new one.
    pub(super) async fn session(
        &self,
        call: &OperationCall,
        id: &str,
        working_dir: &str,
    ) -> Result<Arc<Session>, Error> {
        let id = check_id(id)?;
        let now = clock::now();
        match self.workbench.sessions().find(&id, now).await? {
            SessionLookup::Open(session) => Ok(session),
            SessionLookup::Ended => Err(Error::new(
                ErrorCode::WrongState,
                format!("session_id: {id} has ended; start another with Session.Start"),
            )),
            SessionLookup::Expired(with) => self.open(id, with, false).await,
            SessionLookup::Unknown => match self.supervisor.snapshot(&id).await {
                Ok(snapshot) => {
                    let root = runtime::containment::root_of_tools(&snapshot.spec).to_owned();
                    self.open(id, StoredSession { root, ..StoredSession::default() }, true).await
                }
                Err(error) if error.code != ErrorCode::SessionNotFound => Err(error),
                Err(_) if call.operation.key == "Session.End" => Err(Error::new(
                    ErrorCode::SessionNotFound,
                    format!("session_id: there is no session {id}"),
                )),
                Err(_) => {
                    let root = self.first_root(working_dir)?;
                    self.open(id, StoredSession { root, ..StoredSession::default() }, false).await
                }
            },
        }
    }

    /// Returns the project of a session that is created on first use.
    fn first_root(&self, working_dir: &str) -> Result<PathBuf, Error> {
        if Path::new(working_dir).is_absolute() {
            return project_root("working_dir", Path::new(working_dir));
        }
        let default = self.about.default_project.as_deref().and_then(|folder| resolve_root(folder).ok());
        default.ok_or_else(|| {
            Error::new(
                ErrorCode::WrongState,
                "session_id: this session is new and there is no default project; start one with Session.Start and \
                 project_path, or send an absolute working_dir",
            )
        })
    }

    async fn open(&self, id: SessionId, with: StoredSession, adopted: bool) -> Result<Arc<Session>, Error> {
        let project = self.workbench.project(&with.root, self.about.project_rules)?;
        self.workbench.sessions().open_as(id, project, with, adopted, clock::now()).await
    }

    /// Opens a session for a project and returns its id and the context to inject.
    pub(super) async fn start_session(
        &self,
        call: &mut OperationCall,
        request: pb::SessionStartRequest,
    ) -> Result<pb::SessionStartResponse, Error> {
        let root = project_root("project_path", Path::new(&request.project_path))?;
        let task = self.workbench.scrubber().scrub_text(&request.task_description);
        let with = StoredSession { root, tenant: request.tenant_id, team: request.team_id, task };
        let session = self.open(host::new_session_id(), with, false).await?;
        let injected_context = self.context(&session).await?;
        call.summary = format!("Started: {} on {}", session.id, session.place.project);
        let session_id = session.id.to_string();
        Ok(pb::SessionStartResponse { session_id, injected_context, tokens_used: 0 })
    }

    /// Returns the context that is injected at the start of a session, within its token limits.
    async fn context(&self, session: &Session) -> Result<String, Error> {
        let mut text = format!(
            "Project: {}\nSandbox: {} (no network). Run commands with SafeExec.Bash, read and write with SafeExec.Read \
             and SafeExec.Write; secrets are taken out of all output.\n",
            session.place.project,
            self.workbench.tier(),
        );
        let critical = session
            .project
            .policies()?
            .all()
            .iter()
            .filter(|policy| policy.severity == workbench::policy::Severity::Critical)
            .count();
        text.push_str(&format!("Policies: {critical} refuse what they forbid; ask Policy.Check.\n"));
        if session.task.is_empty() {
            return Ok(text);
        }
        text.push_str(&format!("Task: {}\n", shortened(&session.task, 400)));
        let search = MemorySearch {
            query: session.task.clone(),
            place: session.place.clone(),
            scope: Scope::Project,
            outcome: None,
            limit: most::INJECTED_MEMORIES_MAX,
            min_confidence: INJECTED_CONFIDENCE,
            now: clock::now(),
        };
        let (found, _) = self.workbench.memories().search(search).await?;
        let mut left = most::INJECTED_TOKENS_MAX;
        let mut told = String::new();
        for memory in found {
            let line = format!(
                "- {} ({}, {}): {}\n",
                memory.title,
                memory.id,
                memory.outcome.name(),
                shortened(&memory.content, 400)
            );
            let cost = estimate(&line);
            if cost <= left {
                left -= cost;
                told.push_str(&session.project.scrubber().scrub_text(&line));
            }
        }
        if !told.is_empty() {
            text.push_str(&format!("Memories that may help:\n{told}"));
        }
        Ok(text)
    }

    /// Ends a session that was started here. An agent's session is ended with `obey session stop` instead.
    pub(super) async fn end_session(
        &self,
        call: &mut OperationCall,
        request: pb::SessionEndRequest,
    ) -> Result<pb::SessionEndResponse, Error> {
        let session = Arc::clone(call.session()?);
        if session.adopted {
            return Err(Error::new(
                ErrorCode::WrongState,
                format!(
                    "session_id: {} is an agent's; end it with `obey session stop {}`",
                    session.id, session.id
                ),
            ));
        }
        let outcome = match request.outcome.as_str() {
            "" => SessionOutcome::default(),
            named => SessionOutcome::parse(named)
                .ok_or_else(|| Error::invalid("outcome", "must be success, failure or partial"))?,
        };
        let mut memories_extracted = 0;
        if request.distill {
            let rows = self.calls_of(&session.id).await?;
            for mut memory in distill::distill(&session.task, outcome, &rows) {
                memory.session = session.id.to_string();
                self.workbench.memories().keep(&session.place, memory, clock::now()).await?;
                memories_extracted += 1;
            }
        }
        self.workbench.sessions().end(&session.id, outcome, clock::now()).await?;
        self.workbench.end_session(&session.id);
        call.summary = format!("Ended: {} ({}, {memories_extracted} memories)", session.id, outcome.name());
        Ok(pb::SessionEndResponse { memories_extracted, tokens_used: 0 })
    }

    /// Returns the workbench calls of a session, oldest first. The audit also contains other operations on
    /// the session.
    pub(super) async fn calls_of(&self, id: &SessionId) -> Result<Vec<workbench::audit::Row>, Error> {
        let mut rows: Vec<workbench::audit::Row> = Vec::new();
        let mut after = 0;
        loop {
            let page = self.workbench.audit().after(after, Some(id.to_string())).await?;
            let Some(last) = page.last() else { return Ok(rows) };
            if rows.len() >= most::CHECKPOINT_CALLS_MAX {
                return Ok(rows);
            }
            after = last.seq;
            rows.extend(page.into_iter().filter(|row| row.entry.is_of_workbench()));
        }
    }
}

/// Checks a project's root; the error names the field it came in.
fn project_root(field: &str, path: &Path) -> Result<PathBuf, Error> {
    resolve_root(path).map_err(|error| Error::invalid(field, error.message.trim_start_matches("path: ")))
}

/// Shortens a text at a character boundary.
pub(super) fn shortened(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    text.chars().take(chars.saturating_sub(1)).chain(['…']).collect()
}
