//! Grants: remembered answers. What each covers, for whom, where, and for how long. Pure: the caller supplies
//! the time and the folder of the call. An approval is interpreted narrowly, a denial widely.

mod stored;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pattern::{self, CallPattern, PatternCall};
use super::{glob, shell};
use crate::error::Error;
use crate::id::CallId;
use crate::limits;
use crate::time::Timestamp;
use crate::worker::AUTO_APPROVE;

/// The action of a grant for the calls it covers. In this order: the stricter one wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantAction {
    Deny,
    /// A person is asked, even if something else would allow it.
    Ask,
    #[default]
    Allow,
}

impl GrantAction {
    /// Returns the printed name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Ask => "ask",
            Self::Allow => "allow",
        }
    }

    /// Parses the printed name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Deny, Self::Ask, Self::Allow].into_iter().find(|action| action.name() == text)
    }
}

/// Which calls of its tool a grant covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Coverage {
    /// Every call.
    Tool,
    /// Exactly this command.
    Command(String),
    /// One plain command that begins with these words.
    Prefix(String),
    /// Calls about this file and no other.
    File(PathBuf),
    /// Calls about files below this folder.
    Folder(PathBuf),
    /// The tool's name is a whole pattern, such as `Bash(git log *)`.
    Pattern,
}

/// Where a grant applies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// In the session whose journal contains it.
    #[default]
    Session,
    /// In sessions that work in this folder or below it.
    Worktree(PathBuf),
    /// In sessions of the project with this root, including its worktrees.
    Project(PathBuf),
    Always,
}

/// Whose requests a grant answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Principal {
    /// The session's own agent.
    Agent,
    /// One sub-agent, named by the call that started it.
    SubAgent(CallId),
    /// The agent and its sub-agents.
    Everyone,
}

impl Principal {
    /// Returns the principal of a request.
    pub fn of(parent: Option<&CallId>) -> Self {
        parent.map_or(Self::Agent, |call| Self::SubAgent(call.clone()))
    }

    fn includes(&self, parent: Option<&CallId>) -> bool {
        *self == Self::Everyone || *self == Self::of(parent)
    }
}

/// The folders a call is made in.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub working_dir: &'a Path,
    /// The root of the session's project.
    pub root: &'a Path,
}

/// A call, who makes it and when.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub call: PatternCall<'a>,
    /// The sub-agent that asks; `None` for the agent itself.
    pub parent: Option<&'a CallId>,
    pub root: &'a Path,
    pub now: Timestamp,
}

/// A remembered answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "stored::Stored", into = "stored::Stored")]
pub struct Grant {
    /// Unique within its session or file; empty for grants of older versions.
    pub id: String,
    /// A tool's name, which may end in `*`.
    pub tool: String,
    pub covers: Coverage,
    pub action: GrantAction,
    pub scope: Scope,
    pub principal: Principal,
    /// It covers nothing from then on.
    pub expires_at: Option<Timestamp>,
    /// How often it may still be used; `None` for unlimited.
    pub uses_left: Option<u32>,
    pub given_by: String,
    pub given_at: Option<Timestamp>,
}

impl Grant {
    /// Returns whether it approves a worker's calls automatically, within limits by the minute.
    pub fn is_automatic(&self) -> bool {
        self.given_by == AUTO_APPROVE
    }

    /// Returns a grant for one session's own agent, without limits of time and number.
    pub fn new(tool: &str, covers: Coverage) -> Self {
        Self {
            id: String::new(),
            tool: tool.to_owned(),
            covers,
            action: GrantAction::Allow,
            scope: Scope::Session,
            principal: Principal::Agent,
            expires_at: None,
            uses_left: None,
            given_by: String::new(),
            given_at: None,
        }
    }

    /// Returns the grant for everything a pattern covers, or an error about the pattern. A written pattern
    /// applies to the session and everything that runs in it.
    pub fn by_pattern(field: &str, pattern: &str, denied: bool) -> Result<Self, Error> {
        CallPattern::parse(field, pattern)?;
        let action = if denied { GrantAction::Deny } else { GrantAction::Allow };
        let grant = Self::new(pattern.trim(), Coverage::Pattern);
        Ok(Self { action, principal: Principal::Everyone, ..grant })
    }

    /// Checks a grant that was written by a person.
    pub fn check(&self) -> Result<(), Error> {
        let pattern = CallPattern::parse("tool", &self.tool)?;
        if self.covers != Coverage::Pattern && !pattern.is_general() {
            return Err(Error::invalid("tool", format_args!("{:?} is no tool's name", self.tool)));
        }
        let long = |text: &str| text.len() > limits::PATTERN_MAX_BYTES;
        match &self.covers {
            Coverage::Tool | Coverage::Pattern => {}
            Coverage::Command(command) if command.trim().is_empty() => {
                return Err(Error::invalid("command", "is empty"));
            }
            Coverage::Prefix(words) if !shell::is_prefix_text(words) => {
                return Err(Error::invalid(
                    "prefix",
                    "must be one or more plain words, without quotes and without what a shell would make more of",
                ));
            }
            Coverage::Prefix(text) if long(text) => {
                return Err(Error::invalid(
                    "prefix",
                    format_args!("is longer than {} bytes", limits::PATTERN_MAX_BYTES),
                ));
            }
            Coverage::Command(_) | Coverage::Prefix(_) => {}
            Coverage::File(path) | Coverage::Folder(path) => check_path("file", path)?,
        }
        match &self.scope {
            Scope::Worktree(path) => check_path("worktree", path)?,
            Scope::Project(path) => check_path("project", path)?,
            Scope::Session | Scope::Always => {}
        }
        if self.uses_left.is_some() && self.action != GrantAction::Allow {
            return Err(Error::invalid("uses", "only what is allowed can be used up; leave it away"));
        }
        Ok(())
    }

    /// Returns whether the grant is still valid and answers this call.
    pub fn covers(&self, asked: &Asked<'_>) -> bool {
        let lives = self.expires_at.is_none_or(|end| asked.now < end) && self.uses_left != Some(0);
        lives && self.is_here(asked) && self.is_theirs(asked) && self.is_about(asked)
    }

    /// Returns whether it allows something of the same tool, whether or not it covers the call.
    pub fn is_nearly_about(&self, call: &PatternCall<'_>) -> bool {
        let pattern = CallPattern::parse("tool", &self.tool);
        self.action == GrantAction::Allow && pattern.is_ok_and(|pattern| pattern.names_tool(call))
    }

    fn is_here(&self, asked: &Asked<'_>) -> bool {
        match &self.scope {
            Scope::Session | Scope::Always => true,
            Scope::Worktree(path) => asked.call.working_dir.starts_with(path),
            Scope::Project(path) => asked.root == path || asked.call.working_dir.starts_with(path),
        }
    }

    /// Returns whether the grant applies to the caller. What is forbidden to an agent is also forbidden to
    /// its sub-agents.
    fn is_theirs(&self, asked: &Asked<'_>) -> bool {
        self.action != GrantAction::Allow || self.principal.includes(asked.parent)
    }

    fn is_about(&self, asked: &Asked<'_>) -> bool {
        let call = &asked.call;
        let Ok(pattern) = CallPattern::parse("tool", &self.tool) else { return false };
        match (&self.covers, self.action) {
            (Coverage::Pattern, GrantAction::Allow) => pattern.surely_covers(call),
            (Coverage::Pattern, _) => pattern.may_cover(call),
            (covers, GrantAction::Allow) => {
                pattern.surely_covers(call) && !wants_more(call) && surely(covers, call)
            }
            (covers, _) => pattern.may_cover(call) && perhaps(covers, call),
        }
    }

    /// Returns its name for people and commands; grants of older versions have only their text.
    pub fn name(&self) -> String {
        if self.id.is_empty() { self.label() } else { self.id.clone() }
    }

    /// Says in one line which grant it is, what it does and where it holds.
    pub fn summary(&self) -> String {
        let mut text = format!("{} {} {}", self.action.name(), self.label(), self.place());
        if let Principal::SubAgent(call) = &self.principal {
            text.push_str(&format!(", for sub-agent {call}"));
        }
        if let Some(uses) = self.uses_left {
            text.push_str(&format!(", {uses} uses"));
        }
        if let Some(end) = self.expires_at {
            text.push_str(&format!(", until {}", end.0 / 1_000_000));
        }
        if !self.id.is_empty() {
            text.push_str(&format!(" ({})", self.id));
        }
        text
    }

    /// Returns it as a pattern, which is how some protocols write it.
    pub fn label(&self) -> String {
        let tool = &self.tool;
        match &self.covers {
            Coverage::Tool | Coverage::Pattern => tool.clone(),
            Coverage::Command(command) => format!("{tool}({command})"),
            Coverage::Prefix(words) => format!("{tool}({words}:*)"),
            Coverage::File(path) => format!("{tool}({})", path.display()),
            Coverage::Folder(path) => {
                format!("{tool}({}/**)", path.display().to_string().trim_end_matches('/'))
            }
        }
    }

    /// Describes what it covers; paths below `folder` are shown relative to it.
    pub fn what(&self, folder: &Path) -> String {
        let tool = &self.tool;
        let below = |path: &Path| {
            let path = path.strip_prefix(folder).unwrap_or(path);
            if path.as_os_str().is_empty() { ".".to_owned() } else { path.display().to_string() }
        };
        match &self.covers {
            Coverage::Tool => format!("every call of {tool}"),
            Coverage::Pattern => format!("calls that match {tool}"),
            Coverage::Command(command) => format!("the command `{}` ({tool})", short(command)),
            Coverage::Prefix(words) => format!("commands that begin with `{}` ({tool})", short(words)),
            Coverage::File(path) => format!("{tool} of the file `{}`", short(&below(path))),
            Coverage::Folder(path) => format!("{tool} of files in `{}`", short(&below(path))),
        }
    }

    /// Describes where it applies.
    pub fn place(&self) -> String {
        match &self.scope {
            Scope::Session => "in this session".to_owned(),
            Scope::Worktree(path) => format!("in the worktree {}", path.display()),
            Scope::Project(path) => format!("in the project {}", path.display()),
            Scope::Always => "everywhere".to_owned(),
        }
    }
}

/// Returns the grant that answers a call: the strictest of those that cover it, and of equally strict ones
/// the newest.
pub fn strictest<'a>(grants: impl IntoIterator<Item = &'a Grant>, asked: &Asked<'_>) -> Option<&'a Grant> {
    let mut found: Option<&Grant> = None;
    for grant in grants.into_iter().filter(|grant| grant.covers(asked)) {
        if found.is_none_or(|best| grant.action <= best.action) {
            found = Some(grant);
        }
    }
    found
}

fn check_path(field: &str, path: &Path) -> Result<(), Error> {
    if path.is_absolute() && glob::plain(Path::new("/"), path) == path {
        return Ok(());
    }
    Err(Error::invalid(field, format_args!("{} is no absolute path without . and ..", path.display())))
}

/// Folders whose files control programs: a grant for a folder around them is not meant for them.
const STEERING: &[&str] = &[".git", ".obey", ".betcode"];

/// Returns whether a call is certainly covered: the interpretation for approvals.
fn surely(covers: &Coverage, call: &PatternCall<'_>) -> bool {
    match covers {
        Coverage::Tool | Coverage::Pattern => true,
        Coverage::Command(command) => pattern::command_of(call.input).as_deref() == Some(command),
        Coverage::Prefix(words) => {
            let line = call.input.get("command").or_else(|| call.input.get("cmd")).and_then(Value::as_str);
            line.is_some_and(|line| shell::is_plain(line) && shell::begins_with(line, words))
        }
        Coverage::File(file) => pattern::all_paths(call, |path| path == file),
        Coverage::Folder(folder) => pattern::all_paths(call, |path| {
            path.strip_prefix(folder).is_ok_and(|rest| {
                !rest.iter().any(|part| STEERING.iter().any(|name| part.eq_ignore_ascii_case(name)))
            })
        }),
    }
}

/// Returns whether a call may be covered: the interpretation for denials and questions.
fn perhaps(covers: &Coverage, call: &PatternCall<'_>) -> bool {
    match covers {
        Coverage::Tool | Coverage::Pattern => true,
        Coverage::Command(command) => {
            let suspects = pattern::suspects_of(call.input);
            suspects.iter().any(|suspect| suspect == command.trim())
        }
        Coverage::Prefix(words) => {
            let suspects = pattern::suspects_of(call.input);
            suspects.iter().any(|suspect| shell::begins_with(suspect, words))
        }
        Coverage::File(file) => pattern::any_path(call, |path| path == file),
        Coverage::Folder(folder) => pattern::any_path(call, |path| path.starts_with(folder)),
    }
}

/// Returns whether a call asks for more than its command or its file says: another folder, no sandbox, a
/// wider one.
fn wants_more(call: &PatternCall<'_>) -> bool {
    let given = |key: &str| {
        let value = call.input.get(key).unwrap_or(&Value::Null);
        !matches!(value, Value::Null | Value::Bool(false))
    };
    let runs = pattern::command_of(call.input).is_some();
    let outside = ["cwd", "workdir", "working_dir"].iter().any(|key| {
        let folder = call.input.get(key).and_then(Value::as_str);
        folder.is_some_and(|folder| {
            !glob::plain(call.working_dir, Path::new(folder)).starts_with(call.working_dir)
        })
    });
    (runs && (outside || given("dangerouslyDisableSandbox") || given("permissions")))
        || given("grant_root")
        || call.tool == "request_permissions"
}

/// Puts text on one line of limited length.
fn short(text: &str) -> String {
    let line: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    match line.char_indices().nth(limits::GRANT_TEXT_MAX_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests;
