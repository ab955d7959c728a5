//! Lists, adds and revokes grants, wherever they are stored: grants of a session in its journal, wider ones
//! in the user's rule file, narrowing ones in a project's. Makes no decision about a call.

mod suggest;

use std::path::{Path, PathBuf};

use domain::permission::rules::FileRule;
use domain::permission::{Grant, GrantAction, PermissionRule, RuleAction, Scope};
use domain::{Command, Error, ErrorCode, EventKind, SessionId};

pub use suggest::Suggestion;

use crate::session::{Applied, Snapshot};
use crate::supervisor::Supervisor;
use host::clock;
use storage::sessions::SessionFilter;

/// A grant and where it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Unique among all grants.
    pub id: String,
    pub grant: Grant,
    /// The session whose journal holds it; `None` if it is in a file.
    pub session: Option<SessionId>,
    /// The session's folder, or the folder that the grant's paths are relative to.
    pub folder: PathBuf,
    pub reason: String,
    pub source: String,
    /// A project tries to allow itself something; such a grant has no effect.
    pub ignored: bool,
}

/// The grants found, and the problems with those that could not be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    pub grants: Vec<Listed>,
    pub problems: Vec<String>,
}

/// The grants of a daemon. Cheap to create.
#[derive(Clone)]
pub struct Grants {
    supervisor: Supervisor,
}

/// Separates the session id from the grant id.
const OF_SESSION: char = '/';

impl Grants {
    pub(crate) fn new(supervisor: Supervisor) -> Self {
        Self { supervisor }
    }

    /// Returns the grants of one session, or of all sessions that have not ended, and the rules in force in a
    /// project.
    pub async fn list(&self, session: Option<&SessionId>, project: Option<&Path>) -> Result<Listing, Error> {
        let mut listing = Listing::default();
        let sessions = match session {
            Some(id) => vec![self.supervisor.snapshot(id).await?.as_ref().clone()],
            None => self.supervisor.list(SessionFilter::default()).await?,
        };
        let now = clock::now();
        for session in &sessions {
            let lives = |grant: &&Grant| grant.expires_at.is_none_or(|end| now < end);
            listing
                .grants
                .extend(session.state.grants.iter().filter(lives).map(|grant| of_session(session, grant)));
        }
        let mut folders: Vec<PathBuf> = project.map(Path::to_owned).into_iter().collect();
        for session in sessions.iter().filter(|_| project.is_none()) {
            folders.extend([session.spec.place().root.to_owned(), session.spec.working_dir.clone()]);
        }
        folders.sort();
        folders.dedup();
        let settings = self.supervisor.settings().clone();
        let of_files = move || of_files(&settings, &folders);
        let (grants, problems) = tokio::task::spawn_blocking(of_files).await.map_err(broken)?;
        listing.grants.extend(grants);
        listing.problems.extend(problems);
        Ok(listing)
    }

    /// Adds a grant: to a session if its scope says so, otherwise to the user's rule file.
    pub async fn add(
        &self,
        session: Option<&SessionId>,
        grant: Grant,
        reason: String,
        by: String,
    ) -> Result<Listed, Error> {
        grant.check()?;
        if grant.scope != Scope::Session {
            return self.add_to_file(grant, reason, by).await;
        }
        let id = session.ok_or_else(|| Error::invalid("session_id", "is required for a session's grant"))?;
        let applied = self.supervisor.command(id, Command::SetGrant { grant: Box::new(grant), by }).await?;
        let snapshot = self.supervisor.snapshot(id).await?;
        let given = applied.events.iter().find_map(|event| {
            let EventKind::GrantsChanged { grants, .. } = &event.kind else { return None };
            grants.last().cloned()
        });
        let given =
            given.ok_or_else(|| Error::new(ErrorCode::SessionError, "the session did not take the grant"))?;
        Ok(of_session(&snapshot, &given))
    }

    async fn add_to_file(&self, grant: Grant, reason: String, by: String) -> Result<Listed, Error> {
        let now = clock::now();
        let grant = Grant { given_by: by, given_at: Some(now), ..grant };
        let settings = self.supervisor.settings().clone();
        let rule = tokio::task::spawn_blocking(move || settings.add_rule(&grant, &reason, now)).await;
        Ok(of_file(rule.map_err(broken)??, false))
    }

    /// Revokes a grant by its id.
    pub async fn revoke(&self, id: &str, by: String) -> Result<Listed, Error> {
        if let Some((session, grant)) = id.split_once(OF_SESSION) {
            let session = SessionId::new(session);
            let snapshot = self.supervisor.snapshot(&session).await?;
            let found = snapshot.state.grants.iter().find(|known| known.name() == grant).cloned();
            let found = found.ok_or_else(|| unknown(id))?;
            self.supervisor.command(&session, Command::ClearGrants { tool: grant.to_owned(), by }).await?;
            return Ok(of_session(&snapshot, &found));
        }
        let (settings, wanted) = (self.supervisor.settings().clone(), id.to_owned());
        let removed = tokio::task::spawn_blocking(move || settings.remove_rule(&wanted, clock::now())).await;
        if let Some(rule) = removed.map_err(broken)?? {
            return Ok(of_file(rule, false));
        }
        // Other rules are in files that only people edit.
        match self.list(None, None).await?.grants.into_iter().find(|listed| listed.id == id) {
            Some(listed) => Err(Error::invalid(
                "id",
                format_args!("{id} stands in {}, which is changed by hand", listed.source),
            )),
            None => Err(unknown(id)),
        }
    }

    /// Stores what an answer grants beyond its session. The call itself is already allowed; a failure is
    /// reported as a notice.
    pub(crate) async fn keep(&self, session: &SessionId, applied: &Applied) {
        let wide = applied.events.iter().filter_map(|event| {
            let EventKind::RequestSettled { grant, .. } = &event.kind else { return None };
            grant.as_deref()
        });
        let wide: Vec<Grant> = wide.filter(|grant| grant.scope != Scope::Session).cloned().collect();
        for grant in wide {
            let by = grant.given_by.clone();
            if let Err(error) = self.add_to_file(grant, String::new(), by).await {
                let message = format!("allowed once only, since the rule cannot be kept: {}", error.message);
                let notice = EventKind::Notice {
                    level: domain::event::Level::Warning,
                    code: Some(error.code),
                    message,
                };
                if let Err(error) = Box::pin(self.supervisor.command(session, Command::Report(notice))).await
                {
                    tracing::warn!(%session, %error, "nobody is told of a rule that was not kept");
                }
            }
        }
    }
}

fn of_session(session: &Snapshot, grant: &Grant) -> Listed {
    Listed {
        id: format!("{}{OF_SESSION}{}", session.spec.id, grant.name()),
        grant: grant.clone(),
        session: Some(session.spec.id.clone()),
        folder: session.spec.working_dir.clone(),
        reason: String::new(),
        source: format!("session {}", session.spec.id),
        ignored: false,
    }
}

fn of_file(rule: FileRule, ignored: bool) -> Listed {
    let folder = match &rule.grant.scope {
        Scope::Worktree(folder) | Scope::Project(folder) => folder.clone(),
        Scope::Session | Scope::Always => PathBuf::from("/"),
    };
    Listed {
        id: rule.grant.id.clone(),
        grant: rule.grant,
        session: None,
        folder,
        reason: rule.reason,
        source: rule.source,
        ignored,
    }
}

/// Lists the rules of the user, of projects and of settings, each once, and the problems with unreadable
/// files.
fn of_files(settings: &crate::settings::Settings, folders: &[PathBuf]) -> (Vec<Listed>, Vec<String>) {
    let (mut grants, mut problems) = (Vec::new(), Vec::new());
    match settings.user_rules() {
        Ok(rules) => grants.extend(rules.into_iter().map(|rule| of_file(rule, false))),
        Err(error) => problems.push(error.message),
    }
    for folder in folders {
        match settings.project_rules(folder) {
            Ok(rules) => {
                grants.extend(rules.heard.into_iter().map(|rule| of_file(rule, false)));
                grants.extend(rules.ignored.into_iter().map(|rule| of_file(rule, true)));
            }
            Err(error) => problems.push(error.message),
        }
    }
    let everywhere =
        settings.rules(None).map(|rules| rules.iter().filter_map(of_setting).collect::<Vec<_>>());
    let mut of_settings = everywhere.unwrap_or_else(|error| {
        problems.push(error.message);
        Vec::new()
    });
    for folder in folders {
        match settings.rules(Some(folder)) {
            Ok(rules) => of_settings.extend(rules.iter().filter_map(of_setting)),
            Err(error) => problems.push(error.message),
        }
    }
    for listed in of_settings {
        if !grants.iter().any(|known| known.source == listed.source && known.grant == listed.grant) {
            grants.push(listed);
        }
    }
    problems.sort();
    problems.dedup();
    (grants, problems)
}

/// Converts a rule of the settings to a grant, as far as a grant can express it.
fn of_setting(rule: &PermissionRule) -> Option<Listed> {
    if rule.is_built_in() {
        return None;
    }
    let grant = Grant::by_pattern("tool_pattern", &rule.tool_pattern, false).ok()?;
    let action = match rule.action {
        RuleAction::Deny => GrantAction::Deny,
        RuleAction::Ask | RuleAction::AskSession => GrantAction::Ask,
        RuleAction::Allow => GrantAction::Allow,
    };
    let within =
        if rule.path_pattern.is_empty() { String::new() } else { format!("in {}", rule.path_pattern) };
    let reason = [within, rule.description.clone()].into_iter().filter(|text| !text.is_empty());
    Some(Listed {
        id: format!("setting_{}", rule.id),
        grant: Grant { action, scope: Scope::Always, ..grant },
        session: None,
        folder: PathBuf::from("/"),
        reason: reason.collect::<Vec<_>>().join(": "),
        source: rule.source.clone(),
        ignored: false,
    })
}

fn unknown(id: &str) -> Error {
    Error::new(ErrorCode::ItemNotFound, format!("there is no grant {id}; `obey grants list` shows all"))
}

fn broken(error: tokio::task::JoinError) -> Error {
    Error::new(ErrorCode::SessionError, "the rules could not be worked on").with_detail(error.to_string())
}
