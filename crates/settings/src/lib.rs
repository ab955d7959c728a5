//! Settings of sessions and the permission rules in them: where each value comes from (default < global <
//! project < environment < flag) and which one is effective. Knows files and their format; acting on a value
//! is the job of others.
//!
//! A project's file lies in a repository that others write to and agents may edit. It can only make things
//! stricter: whatever it allows is ignored.

mod file;
mod keys;
pub mod limits;
pub mod rules;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use domain::permission::rules::{FileRule, allow_below};
use domain::permission::{Grant, PermissionRule, PermissionRules, RuleAction};
use domain::{Error, Timestamp};
use file::SettingsFileLocation;
use serde::{Deserialize, Serialize};

/// The settings of one source. A field that is absent is not set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SettingsLayer {
    pub sessions: SessionDefaults,
    pub permissions: PermissionSettings,
    pub feature_flags: BTreeMap<String, bool>,
}

/// Defaults of new sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionDefaults {
    pub default_model: Option<String>,
    pub auto_compact: Option<bool>,
    pub auto_compact_threshold: Option<u32>,
    pub max_messages_per_session: Option<u32>,
}

/// Permission lists, rules and timeouts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PermissionSettings {
    pub connected_timeout_secs: Option<u32>,
    pub disconnected_timeout_secs: Option<u32>,
    pub enable_auto_approve: Option<bool>,
    pub auto_approve_directories: Option<Vec<String>>,
    pub activity_refresh_enabled: Option<bool>,
    /// Patterns such as `Bash(git *)`.
    pub allow: Vec<String>,
    pub ask: Vec<String>,
    pub deny: Vec<String>,
    /// Rules in their full form.
    pub rules: Vec<WrittenRule>,
}

/// A rule as written in a file.
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

/// The sources of settings; each overrides those before it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingsScope {
    Default,
    Global,
    Project(PathBuf),
    Environment,
    Flag,
}

impl SettingsScope {
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

/// The sources a daemon is started with.
#[derive(Clone, Debug, Default)]
pub struct SettingsSources {
    /// The user's settings file, if there is one.
    pub global_file: Option<PathBuf>,
    /// The user's rule file, if there is one.
    pub rules_file: Option<PathBuf>,
    pub environment: SettingsLayer,
    pub flags: SettingsLayer,
}

impl SettingsSources {
    /// Reads variables such as `BETCODE_PERMISSIONS_CONNECTED_TIMEOUT_SECS`.
    pub fn read_environment(
        variables: impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
    ) -> Result<SettingsLayer, Error> {
        keys::from_variables(variables)
    }

    /// Reads flags such as `permissions.connected_timeout_secs=5`.
    pub fn read_flags<'a>(flags: impl Iterator<Item = &'a str>) -> Result<SettingsLayer, Error> {
        keys::from_flags(flags)
    }
}

/// The settings of this daemon. Files are read on every use, so that an edit takes effect at once. Cheap to
/// clone.
#[derive(Clone, Default)]
pub struct Settings {
    sources: Arc<SettingsSources>,
    /// One update at a time: each reads a file, changes it and writes it.
    updating: Arc<Mutex<()>>,
    rules_seen: Arc<RulesSeen>,
}

/// What is known of the user's rule file: another program may change it at any time, an agent among them.
#[derive(Default)]
struct RulesSeen {
    /// A hash of its text as it was last read or written here.
    known: Mutex<Option<u64>>,
    /// Counts the changes that were not made here.
    changes: tokio::sync::watch::Sender<u64>,
}

impl RulesSeen {
    /// Takes the text that is in force; tells who watches if it was not written here.
    fn read(&self, text: Option<&str>) {
        let now = hash(text);
        let before = self.known.lock().unwrap_or_else(PoisonError::into_inner).replace(now);
        if before.is_some_and(|before| before != now) {
            self.changes.send_modify(|count| *count += 1);
        }
    }

    fn wrote(&self, text: Option<&str>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(hash(text));
    }
}

fn hash(text: Option<&str>) -> u64 {
    use std::hash::{Hash as _, Hasher as _};
    let mut hasher = std::hash::DefaultHasher::new();
    // An empty file has the same rules as none.
    text.unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

/// The settings file of a project, relative to its folder.
const PROJECT_FILE: &str = ".betcode/settings.json";

impl Settings {
    pub fn new(sources: SettingsSources) -> Self {
        let settings =
            Self { sources: Arc::new(sources), updating: Arc::default(), rules_seen: Arc::default() };
        // A file that cannot be read now is noticed when it is used.
        let _unread = settings.user_rules();
        settings
    }

    /// Counts the changes of the user's rule file that were not made by this daemon, from now on. Each is counted once,
    /// when its rules are first in force.
    pub fn watch_rules(&self) -> tokio::sync::watch::Receiver<u64> {
        self.rules_seen.changes.subscribe()
    }

    /// Returns the settings of one source.
    pub fn layer(&self, scope: &SettingsScope) -> Result<SettingsLayer, Error> {
        match scope {
            SettingsScope::Default => Ok(keys::defaults()),
            SettingsScope::Environment => Ok(self.sources.environment.clone()),
            SettingsScope::Flag => Ok(self.sources.flags.clone()),
            SettingsScope::Global | SettingsScope::Project(_) => match self.file(scope) {
                Some(place) => file::read(&place),
                None => Ok(SettingsLayer::default()),
            },
        }
    }

    /// Returns the effective settings in a project, or everywhere. A file that cannot be parsed is an error:
    /// ignoring it would drop what it forbids.
    pub fn effective(&self, project: Option<&Path>) -> Result<SettingsLayer, Error> {
        let mut whole = SettingsLayer::default();
        for scope in scopes(project) {
            let mut layer = self.layer(&scope)?;
            if matches!(scope, SettingsScope::Project(_)) {
                layer.permissions.enable_auto_approve = None;
                layer.permissions.auto_approve_directories = None;
            }
            keys::overlay(&mut whole, layer);
        }
        Ok(whole)
    }

    /// Returns the permission rules in force in a folder of a project: those of the settings and those of
    /// rule files.
    pub fn rules_in(&self, working_dir: &Path, root: &Path) -> Result<PermissionRules, Error> {
        let mut of_files = self.user_rules()?;
        for folder in rules::folders(working_dir, root) {
            of_files.extend(rules::of_project(folder)?.heard);
        }
        Ok(self.rules(Some(working_dir))?.with_files(of_files))
    }

    /// Returns the rules of the user's rule file.
    pub fn user_rules(&self) -> Result<Vec<FileRule>, Error> {
        let Some(path) = self.sources.rules_file.as_deref() else { return Ok(Vec::new()) };
        let text = rules::text_of_user(path)?;
        self.rules_seen.read(text.as_deref());
        text.map_or_else(|| Ok(Vec::new()), |text| rules::read_user(path, &text))
    }

    /// Takes the rule file as this daemon has just written it.
    fn wrote_rules<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        if let (Ok(_), Some(path)) = (&result, self.sources.rules_file.as_deref()) {
            self.rules_seen.wrote(rules::text_of_user(path)?.as_deref());
        }
        result
    }

    /// Returns the rules of a project's rule file.
    pub fn project_rules(&self, folder: &Path) -> Result<rules::ProjectRules, Error> {
        rules::of_project(folder)
    }

    /// Adds a rule to the user's rule file.
    pub fn add_rule(&self, grant: &Grant, reason: &str, now: Timestamp) -> Result<FileRule, Error> {
        let _one = self.updating.lock().unwrap_or_else(PoisonError::into_inner);
        self.user_rules()?;
        self.wrote_rules(rules::add(self.rules_file()?, grant, reason, now))
    }

    /// Removes a rule from the user's rule file; `None` if there is none with this id.
    pub fn remove_rule(&self, id: &str, now: Timestamp) -> Result<Option<FileRule>, Error> {
        let _one = self.updating.lock().unwrap_or_else(PoisonError::into_inner);
        self.user_rules()?;
        self.wrote_rules(rules::remove(self.rules_file()?, id, now))
    }

    /// Counts one use of a rule in the user's rule file. Returns whether one was left.
    pub fn take_use(&self, id: &str, now: Timestamp) -> Result<bool, Error> {
        let _one = self.updating.lock().unwrap_or_else(PoisonError::into_inner);
        self.user_rules()?;
        self.wrote_rules(rules::take_use(self.rules_file()?, id, now))
    }

    fn rules_file(&self) -> Result<&Path, Error> {
        let file = self.sources.rules_file.as_deref();
        file.ok_or_else(|| Error::invalid("scope", "this daemon has no place for rules of its user"))
    }

    /// Returns the rules of the settings in a project, in the order in which they are evaluated.
    pub fn rules(&self, project: Option<&Path>) -> Result<PermissionRules, Error> {
        let mut all = PermissionRule::built_in();
        for scope in scopes(project) {
            let layer = self.layer(&scope)?;
            let source = match self.file(&scope) {
                Some(place) => format!("{} settings, {}", scope.name(), place.path().display()),
                None => scope.name().to_owned(),
            };
            let mut rules = rules_of(&layer, &source)?;
            if matches!(scope, SettingsScope::Project(_)) {
                rules.retain(|rule| rule.action != RuleAction::Allow);
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
        PermissionRules::new(all)
    }

    /// Changes the settings of one source: everything in `change`, or nothing. The file is replaced
    /// atomically, so that a reader never sees half of it. Keys that this version does not know stay in it.
    pub fn update(&self, scope: &SettingsScope, change: &SettingsLayer) -> Result<(), Error> {
        keys::check(change)?;
        let place = match scope {
            SettingsScope::Global | SettingsScope::Project(_) => self.file(scope),
            SettingsScope::Default | SettingsScope::Environment | SettingsScope::Flag => {
                return Err(Error::invalid(
                    "scope",
                    format_args!("{} cannot be changed here; use global or project", scope.name()),
                ));
            }
        };
        if let SettingsScope::Project(folder) = scope
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
        if matches!(scope, SettingsScope::Project(_)) && widens {
            return Err(Error::invalid(
                "settings.permissions.enable_auto_approve",
                "a project cannot allow itself anything; set it for the user with scope global",
            ));
        }
        let _one = self.updating.lock().unwrap_or_else(PoisonError::into_inner);
        file::change(&place, change)
    }

    fn file(&self, scope: &SettingsScope) -> Option<SettingsFileLocation> {
        match scope {
            SettingsScope::Global => self.sources.global_file.clone().map(SettingsFileLocation::Own),
            SettingsScope::Project(folder) => {
                Some(SettingsFileLocation::Project { folder: folder.clone(), below: PROJECT_FILE })
            }
            SettingsScope::Default | SettingsScope::Environment | SettingsScope::Flag => None,
        }
    }
}

fn scopes(project: Option<&Path>) -> Vec<SettingsScope> {
    let mut scopes = vec![SettingsScope::Default, SettingsScope::Global];
    scopes.extend(project.map(|folder| SettingsScope::Project(folder.to_owned())));
    scopes.extend([SettingsScope::Environment, SettingsScope::Flag]);
    scopes
}

/// Converts the permission lists and rules of one layer.
fn rules_of(layer: &SettingsLayer, source: &str) -> Result<Vec<PermissionRule>, Error> {
    let permissions = &layer.permissions;
    let lists = [
        (RuleAction::Allow, &permissions.allow),
        (RuleAction::Ask, &permissions.ask),
        (RuleAction::Deny, &permissions.deny),
    ];
    let mut rules = Vec::new();
    for (action, list) in lists {
        for text in list {
            rules.push(PermissionRule::listed(text, action, source)?);
        }
    }
    for written in &permissions.rules {
        let action = keys::action(&written.action)?;
        rules.push(PermissionRule {
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
