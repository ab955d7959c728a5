//! The individual settings: their names in variables and flags, their defaults, their valid values, and how
//! one source overrides another.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use domain::permission::pattern::CallPattern;
use domain::permission::{PermissionRule, PermissionRules, RuleAction};
use domain::{Error, ErrorCode};

use super::{PermissionSettings, SessionDefaults, SettingsLayer};
use crate::limits;

/// Prefix of the environment variables that set something here.
const PREFIX: &str = "BETCODE_";

/// Settings that take one value.
const KEYS: &[&str] = &[
    "sessions.default_model",
    "sessions.auto_compact",
    "sessions.auto_compact_threshold",
    "sessions.max_messages_per_session",
    "permissions.connected_timeout_secs",
    "permissions.disconnected_timeout_secs",
    "permissions.enable_auto_approve",
    "permissions.auto_approve_directories",
    "permissions.activity_refresh_enabled",
    "permissions.allow",
    "permissions.ask",
    "permissions.deny",
];

/// Features by name, and whether each can be switched off.
const FEATURES: &[(&str, bool)] = &[
    ("streaming_deltas", false),
    ("permission_bridge", false),
    ("session_persistence", false),
    ("worktree_management", true),
    ("context_compaction", true),
];

/// Returns the built-in defaults.
pub(super) fn defaults() -> SettingsLayer {
    SettingsLayer {
        sessions: SessionDefaults {
            // Empty: the agent's default.
            default_model: Some(String::new()),
            auto_compact: Some(true),
            auto_compact_threshold: Some(180_000),
            max_messages_per_session: Some(10_000),
        },
        permissions: PermissionSettings {
            connected_timeout_secs: Some(60),
            disconnected_timeout_secs: Some(7 * 24 * 3600),
            enable_auto_approve: Some(false),
            auto_approve_directories: Some(Vec::new()),
            activity_refresh_enabled: Some(false),
            ..PermissionSettings::default()
        },
        feature_flags: FEATURES.iter().map(|(name, _)| ((*name).to_owned(), true)).collect(),
    }
}

/// Overrides one layer with another: a value that is set replaces the one below, others stay.
pub(super) fn overlay(under: &mut SettingsLayer, over: SettingsLayer) {
    fn put<T>(under: &mut Option<T>, over: Option<T>) {
        if over.is_some() {
            *under = over;
        }
    }
    let (sessions, permissions) = (over.sessions, over.permissions);
    put(&mut under.sessions.default_model, sessions.default_model);
    put(&mut under.sessions.auto_compact, sessions.auto_compact);
    put(&mut under.sessions.auto_compact_threshold, sessions.auto_compact_threshold);
    put(&mut under.sessions.max_messages_per_session, sessions.max_messages_per_session);
    put(&mut under.permissions.connected_timeout_secs, permissions.connected_timeout_secs);
    put(&mut under.permissions.disconnected_timeout_secs, permissions.disconnected_timeout_secs);
    put(&mut under.permissions.enable_auto_approve, permissions.enable_auto_approve);
    put(&mut under.permissions.auto_approve_directories, permissions.auto_approve_directories);
    put(&mut under.permissions.activity_refresh_enabled, permissions.activity_refresh_enabled);
    // Rules accumulate; their order decides which one applies.
    under.permissions.allow.extend(permissions.allow);
    under.permissions.ask.extend(permissions.ask);
    under.permissions.deny.extend(permissions.deny);
    under.permissions.rules.extend(permissions.rules);
    under.feature_flags.extend(over.feature_flags);
}

pub(super) fn action(text: &str) -> Result<RuleAction, Error> {
    match text.to_ascii_lowercase().as_str() {
        "allow" => Ok(RuleAction::Allow),
        "deny" => Ok(RuleAction::Deny),
        "ask" => Ok(RuleAction::Ask),
        "ask_session" => Ok(RuleAction::AskSession),
        _ => Err(Error::invalid(
            "permissions.rules.action",
            format_args!("{text:?} is none of allow, deny, ask and ask_session"),
        )),
    }
}

/// Checks every value that is set.
pub(super) fn check(layer: &SettingsLayer) -> Result<(), Error> {
    let (sessions, permissions) = (&layer.sessions, &layer.permissions);
    if let Some(model) = &sessions.default_model
        && (model.chars().count() > domain::limits::NAME_MAX_CHARS || model.chars().any(char::is_control))
    {
        return Err(invalid("sessions.default_model", "is no model's name"));
    }
    let counts = [
        ("sessions.auto_compact_threshold", sessions.auto_compact_threshold, 1_000),
        ("sessions.max_messages_per_session", sessions.max_messages_per_session, 1),
    ];
    for (key, count, least) in counts {
        if count.is_some_and(|count| count < least) {
            return Err(invalid(key, &format!("must be at least {least}")));
        }
    }
    for (key, seconds) in [
        ("permissions.connected_timeout_secs", permissions.connected_timeout_secs),
        ("permissions.disconnected_timeout_secs", permissions.disconnected_timeout_secs),
    ] {
        if seconds.is_some_and(|seconds| seconds > limits::ANSWER_WAIT_MAX_SECS) {
            let most = limits::ANSWER_WAIT_MAX_SECS;
            return Err(invalid(key, &format!("must be at most {most}; 0 waits as long as the session")));
        }
    }
    for folder in permissions.auto_approve_directories.iter().flatten() {
        if !Path::new(folder).is_absolute() || folder == "/" || folder.contains("..") {
            let what = format!("{folder:?} must be an absolute folder, without dots and not the root");
            return Err(invalid("permissions.auto_approve_directories", &what));
        }
    }
    check_rules(permissions)?;
    for (name, on) in &layer.feature_flags {
        match FEATURES.iter().find(|(known, _)| known == name) {
            None => {
                let known: Vec<&str> = FEATURES.iter().map(|(name, _)| *name).collect();
                let what = format!("is not known; there are {}", known.join(", "));
                return Err(invalid(&format!("feature_flags.{name}"), &what));
            }
            Some((_, false)) if !on => {
                return Err(invalid(&format!("feature_flags.{name}"), "cannot be switched off"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Checks the number of rules and parses each.
fn check_rules(permissions: &PermissionSettings) -> Result<(), Error> {
    let count =
        permissions.allow.len() + permissions.ask.len() + permissions.deny.len() + permissions.rules.len();
    if count > limits::RULES_MAX {
        return Err(invalid("permissions", &format!("has more than {} rules", limits::RULES_MAX)));
    }
    for text in permissions.allow.iter().chain(&permissions.ask).chain(&permissions.deny) {
        CallPattern::parse("permissions", text)?;
    }
    for rule in &permissions.rules {
        action(&rule.action)?;
        CallPattern::parse("permissions.rules.tool_pattern", &rule.tool_pattern)?;
    }
    PermissionRules::new(PermissionRule::built_in()).map(drop)
}

fn invalid(key: &str, what: &str) -> Error {
    Error::new(ErrorCode::InvalidArgument, format!("settings.{key}: {what}"))
}

/// Reads settings from environment variables such as `BETCODE_SESSIONS_DEFAULT_MODEL`.
pub(super) fn from_variables(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<SettingsLayer, Error> {
    let variables: BTreeMap<OsString, OsString> = variables.collect();
    let mut layer = SettingsLayer::default();
    for key in KEYS {
        let name = format!("{PREFIX}{}", key.replace('.', "_").to_uppercase());
        let Some(value) = variables.get(std::ffi::OsStr::new(&name)) else { continue };
        let Some(value) = value.to_str() else {
            return Err(Error::new(ErrorCode::ConfigInvalid, format!("{name} is not UTF-8")));
        };
        set(&mut layer, key, value).map_err(|error| {
            Error::new(ErrorCode::ConfigInvalid, format!("{name}={value}: {}", error.message))
        })?;
    }
    check(&layer).map_err(|error| Error::new(ErrorCode::ConfigInvalid, error.message))?;
    Ok(layer)
}

pub(super) fn from_flags<'a>(flags: impl Iterator<Item = &'a str>) -> Result<SettingsLayer, Error> {
    let mut layer = SettingsLayer::default();
    for flag in flags {
        let wrong = |what: String| Error::new(ErrorCode::ConfigInvalid, format!("--betcode {flag}: {what}"));
        let Some((key, value)) = flag.split_once('=') else {
            return Err(wrong("must be KEY=VALUE".to_owned()));
        };
        set(&mut layer, key, value).map_err(|error| wrong(error.message))?;
    }
    check(&layer).map_err(|error| Error::new(ErrorCode::ConfigInvalid, error.message))?;
    Ok(layer)
}

/// Parses a value and sets the key; lists are separated by commas.
fn set(layer: &mut SettingsLayer, key: &str, value: &str) -> Result<(), Error> {
    let number = || value.parse::<u32>().map(Some).map_err(|_| Error::invalid(key, "must be a whole number"));
    let switch = || value.parse::<bool>().map(Some).map_err(|_| Error::invalid(key, "must be true or false"));
    let (sessions, permissions) = (&mut layer.sessions, &mut layer.permissions);
    match key {
        "sessions.default_model" => sessions.default_model = Some(value.to_owned()),
        "sessions.auto_compact" => sessions.auto_compact = switch()?,
        "sessions.auto_compact_threshold" => sessions.auto_compact_threshold = number()?,
        "sessions.max_messages_per_session" => sessions.max_messages_per_session = number()?,
        "permissions.connected_timeout_secs" => permissions.connected_timeout_secs = number()?,
        "permissions.disconnected_timeout_secs" => permissions.disconnected_timeout_secs = number()?,
        "permissions.enable_auto_approve" => permissions.enable_auto_approve = switch()?,
        "permissions.auto_approve_directories" => permissions.auto_approve_directories = Some(list(value)),
        "permissions.activity_refresh_enabled" => permissions.activity_refresh_enabled = switch()?,
        "permissions.allow" => permissions.allow.extend(list(value)),
        "permissions.ask" => permissions.ask.extend(list(value)),
        "permissions.deny" => permissions.deny.extend(list(value)),
        _ => {
            return Err(Error::invalid(key, format_args!("is not known; there are {}", KEYS.join(", "))));
        }
    }
    Ok(())
}

/// Splits at commas, but not within parentheses: patterns may contain them.
fn list(text: &str) -> Vec<String> {
    let mut depth = 0_i32;
    let parts = text.split(|letter: char| {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth <= 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}
