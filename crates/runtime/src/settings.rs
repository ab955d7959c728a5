//! Settings of conversations and the permission rules in them: where each value comes from (default < global <
//! project < environment < flag) and which one holds. Knows files and their form; acting on a value is others' work.
//!
//! A project's file lies in a repository that others write to and agents may edit. It can only make things stricter:
//! what it allows is not heard.

mod file;
mod keys;
pub mod rules;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use domain::permission::rules::{FileRule, allow_below};
use domain::permission::{Action, Grant, Rule, Rules};
use domain::{Error, Timestamp};
use file::Place;
use serde::{Deserialize, Serialize};

/// What one place says. What it does not say is not set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Layer {
    pub sessions: Sessions,
    pub permissions: Permissions,
    pub feature_flags: BTreeMap<String, bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sessions {
    pub default_model: Option<String>,
    pub auto_compact: Option<bool>,
    pub auto_compact_threshold: Option<u32>,
    pub max_messages_per_session: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Permissions {
    pub connected_timeout_secs: Option<u32>,
    pub disconnected_timeout_secs: Option<u32>,
    pub enable_auto_approve: Option<bool>,
    pub auto_approve_directories: Option<Vec<String>>,
    pub activity_refresh_enabled: Option<bool>,
    /// Patterns such as `Bash(git *)`.
    pub allow: Vec<String>,
    pub ask: Vec<String>,
    pub deny: Vec<String>,
    /// Rules with everything said.
    pub rules: Vec<WrittenRule>,
}

/// A rule as a file says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WrittenRule {
    pub id: String,
    pub tool_pattern: String,
    pub path_pattern: String,
    /// allow, deny, ask or ask_session.
    pub action: String,
    pub priority: i32,
    pub description: String,
}

/// Where settings come from; each wins over those before it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Default,
    Global,
    Project(PathBuf),
    Environment,
    Flag,
}

impl Scope {
    fn name(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Global => "global",
            Self::Project(_) => "project",
            Self::Environment => "environment",
            Self::Flag => "flag",
        }
    }
}

/// What a daemon is started with.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The user's own file; none: there is no such place.
    pub global_file: Option<PathBuf>,
    /// The user's own file of rules; none: there is no such place.
    pub rules_file: Option<PathBuf>,
    pub environment: Layer,
    pub flags: Layer,
}

impl Sources {
    /// Reads variables such as `BETCODE_PERMISSIONS_CONNECTED_TIMEOUT_SECS`.
    pub fn read_environment(
        variables: impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
    ) -> Result<Layer, Error> {
        keys::from_variables(variables)
    }

    /// Reads flags such as `permissions.connected_timeout_secs=5`.
    pub fn read_flags<'a>(flags: impl Iterator<Item = &'a str>) -> Result<Layer, Error> {
        keys::from_flags(flags)
    }
}

/// The settings of this daemon. Files are read when they are asked for, so that an edit holds at once. Cheap to clone.
#[derive(Clone, Default)]
pub struct Settings {
    sources: Arc<Sources>,
    /// One update at a time: each reads a file, changes it and writes it.
    updating: Arc<Mutex<()>>,
}

/// The file of a project, below its folder.
const PROJECT_FILE: &str = ".betcode/settings.json";

impl Settings {
    pub fn new(sources: Sources) -> Self {
        Self { sources: Arc::new(sources), updating: Arc::default() }
    }

    /// Returns what one place says.
    pub fn layer(&self, scope: &Scope) -> Result<Layer, Error> {
        match scope {
            Scope::Default => Ok(keys::defaults()),
            Scope::Environment => Ok(self.sources.environment.clone()),
            Scope::Flag => Ok(self.sources.flags.clone()),
            Scope::Global | Scope::Project(_) => match self.file(scope) {
                Some(place) => file::read(&place),
                None => Ok(Layer::default()),
            },
        }
    }

    /// Returns what holds in a project, or everywhere. A file that cannot be understood is an error: leaving it out
    /// would drop what it forbids.
    pub fn effective(&self, project: Option<&Path>) -> Result<Layer, Error> {
        let mut whole = Layer::default();
        for scope in scopes(project) {
            let mut layer = self.layer(&scope)?;
            if matches!(scope, Scope::Project(_)) {
                layer.permissions.enable_auto_approve = None;
                layer.permissions.auto_approve_directories = None;
            }
            keys::overlay(&mut whole, layer);
        }
        Ok(whole)
    }

    /// Returns the permission rules that hold in a folder of a project: those of settings and those of files.
    pub fn rules_in(&self, working_dir: &Path, root: &Path) -> Result<Rules, Error> {
        let mut of_files = self.user_rules()?;
        for folder in rules::folders(working_dir, root) {
            of_files.extend(rules::of_project(folder)?.heard);
        }
        Ok(self.rules(Some(working_dir))?.with_files(of_files))
    }

    /// Returns the rules of the user's own file.
    pub fn user_rules(&self) -> Result<Vec<FileRule>, Error> {
        self.sources.rules_file.as_deref().map_or_else(|| Ok(Vec::new()), rules::of_user)
    }

    /// Returns the rules of a project's file.
    pub fn project_rules(&self, folder: &Path) -> Result<rules::ProjectRules, Error> {
        rules::of_project(folder)
    }

    /// Adds a rule to the user's own file.
    pub fn add_rule(&self, grant: &Grant, reason: &str, now: Timestamp) -> Result<FileRule, Error> {
        let _one = self.updating.lock().unwrap_or_else(PoisonError::into_inner);
        rules::add(self.rules_file()?, grant, reason, now)
    }

    /// Takes a rule out of the user's own file; nothing where there is none of this id.
    pub fn remove_rule(&self, id: &str, now: Timestamp) -> Result<Option<FileRule>, Error> {
        let _one = self.updating.lock().unwrap_or_else(PoisonError::into_inner);
        rules::remove(self.rules_file()?, id, now)
    }

    /// Counts one use of a rule in the user's own file. Returns whether there was one left.
    pub(crate) fn take_use(&self, id: &str, now: Timestamp) -> Result<bool, Error> {
        let _one = self.updating.lock().unwrap_or_else(PoisonError::into_inner);
        rules::take_use(self.rules_file()?, id, now)
    }

    fn rules_file(&self) -> Result<&Path, Error> {
        let file = self.sources.rules_file.as_deref();
        file.ok_or_else(|| Error::invalid("scope", "this daemon has no place for rules of its user"))
    }

    /// Returns the rules of settings in a project, in the order in which they are asked.
    pub fn rules(&self, project: Option<&Path>) -> Result<Rules, Error> {
        let mut all = Rule::built_in();
        for scope in scopes(project) {
            let layer = self.layer(&scope)?;
            let source = match self.file(&scope) {
                Some(place) => format!("{} settings, {}", scope.name(), place.path().display()),
                None => scope.name().to_owned(),
            };
            let mut rules = rules_of(&layer, &source)?;
            if matches!(scope, Scope::Project(_)) {
                rules.retain(|rule| rule.action != Action::Allow);
            }
            all.extend(rules);
        }
        let permissions = self.effective(project)?.permissions;
        if let (Some(true), Some(project)) = (permissions.enable_auto_approve, project) {
            let folders = permissions.auto_approve_directories.unwrap_or_default();
            let holding = folders.iter().map(Path::new).find(|folder| project.starts_with(folder));
            all.extend(holding.map(|folder| allow_below(folder, "auto_approve_directories")));
        }
        for (number, rule) in all.iter_mut().enumerate().filter(|(_, rule)| rule.id.is_empty()) {
            rule.id = format!("rule-{}", number + 1);
        }
        Rules::new(all)
    }

    /// Changes what a place says: everything in `change`, or nothing. The file is replaced as a whole, so that a
    /// reader never sees half of it; what this version does not know stays in it.
    pub fn update(&self, scope: &Scope, change: &Layer) -> Result<(), Error> {
        keys::check(change)?;
        let place = match scope {
            Scope::Global | Scope::Project(_) => self.file(scope),
            Scope::Default | Scope::Environment | Scope::Flag => {
                return Err(Error::invalid(
                    "scope",
                    format_args!("{} cannot be changed here; use global or project", scope.name()),
                ));
            }
        };
        if let Scope::Project(folder) = scope
            && !folder.is_dir()
        {
            return Err(Error::invalid("scope", format_args!("{} is no folder", folder.display())));
        }
        let Some(place) = place else {
            return Err(Error::invalid("scope", "this daemon has no place for settings of its user"));
        };
        let permissions = &change.permissions;
        let widens =
            permissions.enable_auto_approve.is_some() || permissions.auto_approve_directories.is_some();
        if matches!(scope, Scope::Project(_)) && widens {
            return Err(Error::invalid(
                "settings.permissions.enable_auto_approve",
                "a project cannot allow itself anything; set it for the user with scope global",
            ));
        }
        let _one = self.updating.lock().unwrap_or_else(PoisonError::into_inner);
        file::change(&place, change)
    }

    fn file(&self, scope: &Scope) -> Option<Place> {
        match scope {
            Scope::Global => self.sources.global_file.clone().map(Place::Own),
            Scope::Project(folder) => Some(Place::Project { folder: folder.clone(), below: PROJECT_FILE }),
            Scope::Default | Scope::Environment | Scope::Flag => None,
        }
    }
}

fn scopes(project: Option<&Path>) -> Vec<Scope> {
    let mut scopes = vec![Scope::Default, Scope::Global];
    scopes.extend(project.map(|folder| Scope::Project(folder.to_owned())));
    scopes.extend([Scope::Environment, Scope::Flag]);
    scopes
}

fn rules_of(layer: &Layer, source: &str) -> Result<Vec<Rule>, Error> {
    let permissions = &layer.permissions;
    let lists = [
        (Action::Allow, &permissions.allow),
        (Action::Ask, &permissions.ask),
        (Action::Deny, &permissions.deny),
    ];
    let mut rules = Vec::new();
    for (action, list) in lists {
        for text in list {
            rules.push(Rule::listed(text, action, source)?);
        }
    }
    for written in &permissions.rules {
        let action = keys::action(&written.action)?;
        rules.push(Rule {
            id: written.id.clone(),
            tool_pattern: written.tool_pattern.clone(),
            path_pattern: written.path_pattern.clone(),
            action,
            priority: written.priority,
            description: written.description.clone(),
            source: source.to_owned(),
        });
    }
    Ok(rules)
}
