//! The choices of a person who is asked for a permission: grants, each with a sentence that describes what it
//! covers. The first is the meaning of "for the session" for clients that cannot choose further.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::grant::{Coverage, Grant, Place, Principal, Scope};
use super::{glob, pattern, shell};
use crate::error::Error;
use crate::request::PermissionSubject;

/// An offered grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// The id a client answers with, such as `prefix` or `file.project`.
    pub id: String,
    /// What would be allowed, and where.
    pub text: String,
}

/// A client's choice among the proposals, with its own limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Empty: the first.
    pub proposal: String,
    pub expires_after: Option<Duration>,
    pub uses: Option<u32>,
    /// It applies to the agent and all its sub-agents.
    pub sub_agents: bool,
}

impl Choice {
    /// Returns whether the grant is kept when the session ends.
    pub fn outlives_session(&self) -> bool {
        self.proposal.ends_with(BEYOND_SESSION)
    }
}

/// How the names of proposals end that are for more than the session.
const BEYOND_SESSION: &str = ".project";

/// Tools whose calls are each a separate decision: a plan, a question, a wider sandbox.
const NEVER_REMEMBERED: &[&str] = &[
    "ExitPlanMode",
    "exit_plan_mode",
    "AskUserQuestion",
    "request_permissions",
    "write_stdin",
    "mcp_elicitation",
];

/// Returns the grants that may follow from approving a call, the default first, with their ids.
pub fn grants(ask: &PermissionSubject, place: Place<'_>) -> Vec<(String, Grant)> {
    if NEVER_REMEMBERED.contains(&ask.tool.as_str()) {
        return Vec::new();
    }
    let kinds = kinds(ask, place);
    let principal = Principal::of(ask.parent.as_ref());
    let in_session = kinds.iter().map(|(id, covers)| ((*id).to_owned(), covers.clone(), Scope::Session));
    // The widest grant a person may give in passing; wider ones need `obey grants add`.
    let project = kinds.iter().find(|(id, _)| matches!(*id, "prefix" | "folder")).or_else(|| kinds.first());
    let in_project = project.into_iter().map(|(id, covers)| {
        (format!("{id}{BEYOND_SESSION}"), covers.clone(), Scope::Project(place.root.to_owned()))
    });
    let all = in_session.chain(in_project);
    all.map(|(id, covers, scope)| {
        let principal = if scope == Scope::Session { principal.clone() } else { Principal::Everyone };
        (id, Grant { scope, principal, ..Grant::new(&ask.tool, covers) })
    })
    .collect()
}

/// Returns the coverages that fit a call, narrowest first, with their ids.
fn kinds(ask: &PermissionSubject, place: Place<'_>) -> Vec<(&'static str, Coverage)> {
    if let Some(command) = pattern::command_of(&ask.input) {
        let prefix =
            ask.input.get("command").or_else(|| ask.input.get("cmd")).and_then(|command| command.as_str());
        let prefix = prefix.and_then(shell::usual_prefix).map(|words| ("prefix", Coverage::Prefix(words)));
        return [("command", Coverage::Command(command.into_owned()))].into_iter().chain(prefix).collect();
    }
    let mut kinds = Vec::new();
    let named = pattern::paths_of(&ask.tool, &ask.input, place.working_dir);
    if let [file] = named.as_slice()
        && pattern::is_about_one_file(&ask.tool, &ask.input)
    {
        kinds.push(("file", Coverage::File(file.clone())));
        let folder = file.parent().filter(|folder| folder.starts_with(place.root));
        kinds.extend(folder.map(|folder| ("folder", Coverage::Folder(folder.to_owned()))));
    }
    kinds.push(("tool", Coverage::Tool));
    kinds
}

/// Returns the proposals for a call.
pub fn proposals(ask: &PermissionSubject, place: Place<'_>) -> Vec<Proposal> {
    grants(ask, place).into_iter().map(|(id, grant)| Proposal { id, text: sentence(&grant, place) }).collect()
}

/// Returns the chosen grant, or an error that lists the choices.
pub fn chosen(ask: &PermissionSubject, place: Place<'_>, choice: &Choice) -> Result<Option<Grant>, Error> {
    let offered = grants(ask, place);
    if choice.proposal.is_empty() {
        return Ok(offered.into_iter().next().map(|(_, grant)| limited(grant, choice)));
    }
    let ids: Vec<&str> = offered.iter().map(|(id, _)| id.as_str()).collect();
    let Some(at) = ids.iter().position(|id| *id == choice.proposal) else {
        let there = if ids.is_empty() { "nothing but once".to_owned() } else { ids.join(", ") };
        return Err(Error::invalid(
            "grant",
            format_args!("{:?} is not offered for this request; there is {there}", choice.proposal),
        ));
    };
    Ok(offered.into_iter().nth(at).map(|(_, grant)| limited(grant, choice)))
}

fn limited(grant: Grant, choice: &Choice) -> Grant {
    let principal = if choice.sub_agents { Principal::Everyone } else { grant.principal.clone() };
    Grant { principal, uses_left: choice.uses, ..grant }
}

/// Describes what an offered grant covers and where.
fn sentence(grant: &Grant, place: Place<'_>) -> String {
    let whose = match grant.principal {
        Principal::SubAgent(_) => " by this sub-agent",
        Principal::Agent | Principal::Everyone => "",
    };
    let place_text = match &grant.scope {
        Scope::Session => "in this session",
        Scope::Worktree(_) => "in this worktree",
        Scope::Project(_) => "in this project",
        Scope::Always => "everywhere",
    };
    format!("{}{whose}, {place_text}", grant.what(place.working_dir))
}

/// Returns a path in the form grants store: absolute, without `.` and `..`.
pub fn absolute(folder: &Path, path: &Path) -> std::path::PathBuf {
    glob::plain(folder, path)
}

#[cfg(test)]
mod tests;
