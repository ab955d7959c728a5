//! Policies: what must not be done with commands, paths and content, why, and what to do instead. Built-in
//! ones, the user's and the project's. They explain a refusal before the sandbox would stop the action, or
//! where it would not. The sandbox remains the boundary, because text can always be written so that no parser
//! understands it.

mod current;
mod glob;
mod rules;
mod shell;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use domain::{Error, ErrorCode};

pub use current::{ProjectPolicies, UserPolicies};
use rules::PolicyRule;
use shell::Simple;

use crate::limits;

/// How severe a violation is.
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

/// What a policy is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyCategory {
    Security,
    Coding,
    Repo,
}

impl PolicyCategory {
    const ALL: [Self; 3] = [Self::Security, Self::Coding, Self::Repo];

    /// Returns the word that files and the interface have for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Security => "security",
            Self::Coding => "coding",
            Self::Repo => "repo",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.name() == text)
    }
}

/// A policy.
#[derive(Clone, Debug)]
pub struct Policy {
    pub id: String,
    pub title: String,
    pub category: PolicyCategory,
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

/// A policy that an action violates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub id: String,
    pub title: String,
    pub reason: String,
    pub suggestion: String,
    pub severity: Severity,
}

/// An action to check.
#[derive(Clone, Copy, Debug)]
pub enum PolicyAction<'a> {
    Command(&'a str),
    Read(&'a str),
    Write {
        path: &'a str,
        content: &'a str,
    },
    /// A description in words, with its content.
    Other(&'a str),
}

/// A set of policies.
#[derive(Clone, Debug)]
pub struct Policies {
    list: Arc<[Policy]>,
}

/// The built-in policies.
const OWN: &str = include_str!("../policies/obey.toml");

impl Policies {
    /// Loads the built-in policies and the user's file, if there is one. The user may disable policies by id.
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

    /// Adds a project's policies. A project cannot disable any: agents may be able to write its files.
    pub fn with_project(&self, name: &str, text: &str) -> Result<Self, Error> {
        let file = rules::read(name, text, PolicySource::Project)?;
        if !file.disable.is_empty() {
            return Err(wrong(name, "disable: only the user's own file can disable policies".into()));
        }
        Self::checked(self.list.iter().cloned().chain(file.policies).collect())
    }

    /// Checks that no id occurs twice.
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

    /// Returns the violations of an action, worst first.
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

    /// Rejects an action that violates a critical policy (OBEY-1041); otherwise returns the warnings.
    pub fn enforce(&self, action: PolicyAction<'_>) -> Result<Vec<Violation>, Error> {
        let found = self.check(action);
        match found.first() {
            Some(worst) if worst.severity == Severity::Critical => Err(Error::new(
                ErrorCode::PolicyRefused,
                format!("{} ({}): {}. {}", worst.title, worst.id, worst.reason, worst.suggestion).trim_end(),
            )),
            _ => Ok(found.into_iter().filter(|violation| violation.severity == Severity::Warning).collect()),
        }
    }
}

/// An action, parsed once for all rules.
struct View<'a> {
    text: &'a str,
    commands: Vec<Simple>,
    reads: Vec<String>,
    writes: Vec<String>,
    content: &'a str,
}

impl<'a> View<'a> {
    /// Collects the commands, paths and content of an action, so that each policy can check its part.
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
