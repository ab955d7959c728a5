//! Policies: what must not be done with commands, paths and content, why, and what to do instead. Built-in ones, the
//! user's and the project's. They are said before the sandbox would stop something, or where it would not; the sandbox
//! stays the wall, because a text can always be written so that no reader of texts understands it.

mod glob;
mod rules;
mod shell;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use domain::{Error, ErrorCode};

use rules::PolicyRule;
use shell::Simple;

use crate::limits;

/// How bad a violation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Info,
    Warning,
    Critical,
}

impl Severity {
    /// Returns contextd's word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// Where a policy comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicySource {
    BuiltIn,
    User,
    Project,
}

impl PolicySource {
    /// Returns contextd's scope.
    pub fn scope(self) -> &'static str {
        match self {
            Self::BuiltIn => "org",
            Self::User => "team",
            Self::Project => "project",
        }
    }
}

/// A policy for people.
#[derive(Clone, Debug)]
pub struct Policy {
    pub id: String,
    pub title: String,
    /// security, coding or repo.
    pub category: String,
    pub severity: Severity,
    pub requirement: String,
    pub suggestion: String,
    pub source: PolicySource,
    rule: PolicyRule,
}

impl Policy {
    /// Returns what happens to an action that violates it.
    pub fn enforcement(&self) -> &'static str {
        match self.severity {
            Severity::Critical => "refused: SafeExec does not run or write it (OBEY-1041)",
            Severity::Warning => "allowed: SafeExec says so in its summary",
            Severity::Info => "allowed: told by Policy.Check only",
        }
    }
}

/// What stands against an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub id: String,
    pub title: String,
    pub reason: String,
    pub suggestion: String,
    pub severity: Severity,
}

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub enum PolicyAction<'a> {
    Command(&'a str),
    Read(&'a str),
    Write {
        path: &'a str,
        content: &'a str,
    },
    /// Something in words, with what belongs to it.
    Other(&'a str),
}

/// The policies that hold somewhere.
#[derive(Clone, Debug)]
pub struct Policies {
    list: Arc<[Policy]>,
}

/// Our own policies.
const OWN: &str = include_str!("../policies/obey.toml");

impl Policies {
    /// Reads the built-in policies and the user's file, where there is one. The user may disable by id.
    pub fn new(user: Option<(&str, &str)>) -> Result<Self, Error> {
        let mut list = rules::read("built-in policies", OWN, PolicySource::BuiltIn)?.policies;
        if let Some((name, text)) = user {
            let file = rules::read(name, text, PolicySource::User)?;
            if let Some(unknown) = file.disable.iter().find(|id| list.iter().all(|policy| policy.id != **id))
            {
                return Err(wrong(name, format!("disable: there is no policy {unknown:?}")));
            }
            list.retain(|policy| !file.disable.contains(&policy.id));
            list.extend(file.policies);
        }
        Self::checked(list)
    }

    /// Adds a project's own policies. A project cannot take any away: agents may be able to write its files.
    pub fn with_project(&self, name: &str, text: &str) -> Result<Self, Error> {
        let file = rules::read(name, text, PolicySource::Project)?;
        if !file.disable.is_empty() {
            return Err(wrong(name, "disable: only the user's own file can disable policies".into()));
        }
        Self::checked(self.list.iter().cloned().chain(file.policies).collect())
    }

    fn checked(list: Vec<Policy>) -> Result<Self, Error> {
        for (at, policy) in list.iter().enumerate() {
            if list[..at].iter().any(|other| other.id == policy.id) {
                return Err(wrong("policies", format!("{:?} is there twice", policy.id)));
            }
        }
        Ok(Self { list: list.into() })
    }

    /// Returns all policies.
    pub fn all(&self) -> &[Policy] {
        &self.list
    }

    /// Returns what stands against an action, worst first.
    pub fn check(&self, action: PolicyAction<'_>) -> Vec<Violation> {
        let view = View::of(action);
        let mut found: Vec<Violation> = self
            .list
            .iter()
            .filter_map(|policy| {
                let reason = policy.rule.reason(&view)?;
                Some(Violation {
                    id: policy.id.clone(),
                    title: policy.title.clone(),
                    reason,
                    suggestion: policy.suggestion.clone(),
                    severity: policy.severity,
                })
            })
            .collect();
        found.sort_by(|one, other| other.severity.cmp(&one.severity).then(one.id.cmp(&other.id)));
        found
    }

    /// Refuses an action that a critical policy stands against (OBEY-1041); returns the warnings otherwise.
    pub fn enforce(&self, action: PolicyAction<'_>) -> Result<Vec<Violation>, Error> {
        let found = self.check(action);
        match found.first() {
            Some(worst) if worst.severity == Severity::Critical => Err(Error::new(
                ErrorCode::PolicyRefused,
                format!("{} ({}): {}. {}", worst.title, worst.id, worst.reason, worst.suggestion),
            )),
            _ => Ok(found.into_iter().filter(|violation| violation.severity == Severity::Warning).collect()),
        }
    }
}

/// What rules look at: an action taken apart once.
struct View<'a> {
    text: &'a str,
    commands: Vec<Simple>,
    reads: Vec<String>,
    writes: Vec<String>,
    content: &'a str,
}

impl<'a> View<'a> {
    fn of(action: PolicyAction<'a>) -> Self {
        let mut view =
            Self { text: "", commands: Vec::new(), reads: Vec::new(), writes: Vec::new(), content: "" };
        match action {
            PolicyAction::Command(command) => {
                view.text = command;
                view.commands = shell::simple_commands(command, limits::POLICY_DEPTH_MAX);
                for simple in &view.commands {
                    view.writes.extend(simple.writes.iter().cloned());
                    view.reads.extend(simple.words.iter().skip(1).cloned());
                }
            }
            PolicyAction::Read(path) => view.reads.push(path.to_owned()),
            PolicyAction::Write { path, content } => {
                view.writes.push(path.to_owned());
                view.content = content;
            }
            PolicyAction::Other(content) => view.content = content,
        }
        view
    }
}

fn wrong(name: &str, error: String) -> Error {
    Error::new(ErrorCode::ConfigInvalid, format!("{name}: {error}"))
}
