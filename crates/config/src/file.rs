//! The daemon's configuration: its keys, their defaults and the order of precedence (default < file <
//! environment < flag). Every key is described in `docs/config.md`. Parses and validates values; acting on
//! them is the daemon's work.

pub mod budgets;
pub mod checkpoints;
mod execute;
pub mod forge;
pub mod limits;
pub mod listen;
mod memory;
pub mod notices;
pub mod prices;
pub mod relay;
pub mod sandbox;
pub mod scrub;
pub mod sessions;
pub mod telemetry;
mod workers;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use domain::ErrorCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

pub use execute::Execute;

use crate::failure::{Failure, Result};
use crate::nearest::suggestion;
use crate::vars::Vars;
pub use memory::Memory;
pub use workers::WorkerSettings;

/// Everything that can be configured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// TCP addresses; each one serves everything. Empty: only the socket.
    pub listen: Vec<String>,
    /// The default address, if it is the last of `listen`. If it is taken, the next free port is used.
    #[serde(skip)]
    pub default_listen: Option<SocketAddr>,
    pub socket: Option<PathBuf>,
    pub data_dir: Option<PathBuf>,
    /// A level or a filter such as `info,runtime=debug`.
    pub log_level: String,
    pub claude_code: ClaudeCode,
    pub codex: Codex,
    pub openclaw: Openclaw,
    pub gitlab: forge::Gitlab,
    pub github: forge::Github,
    pub execute: Execute,
    pub retention: Retention,
    pub sessions: sessions::Sessions,
    pub checkpoints: checkpoints::Checkpoints,
    pub workers: WorkerSettings,
    pub sandbox: sandbox::Sandbox,
    pub limits: limits::Limits,
    pub relay: relay::Relay,
    pub scrub: scrub::Scrub,
    pub workbench: Workbench,
    pub memory: Memory,
    pub acp: Acp,
    pub access: listen::Access,
    pub tls: listen::Tls,
    pub notices: notices::Notices,
    pub prices: prices::Prices,
    pub budgets: budgets::Budgets,
    pub telemetry: telemetry::Telemetry,
}

/// The Agent Client Protocol: agents that speak it, and the defaults of `obey acp`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Acp {
    /// Additional agents, or other command lines for known ones: `name=command line`.
    pub agents: Vec<String>,
    pub provider: String,
    /// The agent, if the provider is `acp`.
    pub agent: String,
    /// Empty: the provider's default.
    pub model: String,
    pub mode: String,
    /// Keep agents running when the editor closes.
    pub keep: bool,
    /// Sessions one editor may have open.
    pub max_sessions: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClaudeCode {
    /// A path, or a name to look up on `PATH`; unset: `claude`.
    pub binary: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Codex {
    /// A path, or a name to look up on `PATH`; unset: `codex`.
    pub binary: Option<PathBuf>,
}

/// The OpenClaw gateway of sessions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Openclaw {
    /// A path, or a name to look up on `PATH`; unset: `openclaw`.
    pub binary: Option<PathBuf>,
    /// Unset: `ws://127.0.0.1:18789`.
    pub url: Option<String>,
    /// Unset: `OPENCLAW_GATEWAY_TOKEN`.
    pub token: Option<String>,
}

/// How long records are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    pub activities_days: u32,
    pub events_days: u32,
    pub sessions_days: u32,
    /// Output of one agent that waits on disk for the daemon.
    pub spool_max_mb: u64,
}

/// Tools for agents and scripts (`contextd.v1`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Workbench {
    /// The project of sessions that name none; unset: the folder the daemon was started in.
    pub default_project: Option<PathBuf>,
    pub session_idle_minutes: u64,
    pub session_max_minutes: u64,
    /// Whether a project's own `.gitleaks.toml` is used.
    pub project_rules: bool,
    /// Offer the operations to agents as tools.
    pub for_agents: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: vec![listen::DEFAULT.to_owned()],
            default_listen: listen::DEFAULT.parse().ok(),
            socket: None,
            data_dir: None,
            log_level: "info".to_owned(),
            claude_code: ClaudeCode::default(),
            codex: Codex::default(),
            openclaw: Openclaw::default(),
            gitlab: forge::Gitlab::default(),
            github: forge::Github::default(),
            execute: Execute::default(),
            retention: Retention::default(),
            sessions: sessions::Sessions::default(),
            checkpoints: checkpoints::Checkpoints::default(),
            workers: WorkerSettings::default(),
            sandbox: sandbox::Sandbox::default(),
            limits: limits::Limits::default(),
            relay: relay::Relay::default(),
            scrub: scrub::Scrub::default(),
            workbench: Workbench::default(),
            memory: Memory::default(),
            acp: Acp::default(),
            access: listen::Access::default(),
            tls: listen::Tls::default(),
            notices: notices::Notices::default(),
            prices: prices::Prices::default(),
            budgets: budgets::Budgets::default(),
            telemetry: telemetry::Telemetry::default(),
        }
    }
}

impl Default for Workbench {
    fn default() -> Self {
        Self {
            default_project: None,
            session_idle_minutes: 30,
            session_max_minutes: 240,
            project_rules: false,
            for_agents: true,
        }
    }
}

impl Default for Acp {
    fn default() -> Self {
        Self {
            agents: Vec::new(),
            provider: domain::ProviderKind::Codex.name().to_owned(),
            agent: String::new(),
            model: String::new(),
            mode: String::new(),
            keep: false,
            max_sessions: 100,
        }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self { activities_days: 30, events_days: 7, sessions_days: 90, spool_max_mb: 512 }
    }
}

/// The command line flags; each takes precedence over file and environment.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    pub listen: Vec<String>,
    pub socket: Option<PathBuf>,
    pub data_dir: Option<PathBuf>,
    pub log_level: Option<String>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
}

/// The kinds of values; they determine how a variable's text is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    Text,
    List,
    Number,
    Switch,
}

/// Returns every key with its kind, `section.key` for those in a section.
pub fn keys() -> Vec<(String, ValueKind)> {
    let mut keys = Vec::new();
    let defaults = serde_json::to_value(Config::default()).unwrap_or_default();
    for (name, value) in defaults.as_object().into_iter().flatten() {
        match value.as_object() {
            Some(section) => {
                keys.extend(section.iter().map(|(key, value)| (format!("{name}.{key}"), kind_of(value))));
            }
            None => keys.push((name.clone(), kind_of(value))),
        }
    }
    keys
}

fn kind_of(default: &serde_json::Value) -> ValueKind {
    match default {
        serde_json::Value::Array(_) => ValueKind::List,
        serde_json::Value::Number(_) => ValueKind::Number,
        serde_json::Value::Bool(_) => ValueKind::Switch,
        _ => ValueKind::Text,
    }
}

/// Returns the variable that sets a key: `OBEY_` and the key in capitals. The log level has the short
/// `OBEY_LOG`.
pub fn variable(key: &str) -> String {
    match key {
        "log_level" => "OBEY_LOG".to_owned(),
        _ => format!("OBEY_{}", key.replace('.', "_").to_uppercase()),
    }
}

/// Loads a configuration. `file` is the path for messages and the text, if the file exists.
pub fn load(file: Option<(&Path, &str)>, vars: &Vars, flags: &Flags) -> Result<Config> {
    let mut table = match file {
        Some((path, text)) => read(path, text)?,
        None => Table::new(),
    };
    overlay_variables(&mut table, vars)?;
    telemetry::overlay_standard_variables(&mut table, vars)?;
    let is_default = !table.contains_key("listen");
    overlay_flags(&mut table, flags);
    let mut config: Config = Value::Table(table).try_into().map_err(|error: toml::de::Error| {
        let place = file.map_or_else(|| "the environment".to_owned(), |(path, _)| path.display().to_string());
        invalid(format!("{place}: {}", error.to_string().trim_end().replace('\n', " ")))
    })?;
    check(&config)?;
    if !is_default || !listen::ends_with_default(&config.listen, &flags.listen) {
        config.default_listen = None;
    }
    Ok(config)
}

/// Reads the file at a path, if it exists.
pub fn read_file(path: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(invalid(format!("cannot read {}: {error}", path.display()))),
    }
}

/// Parses the configuration file and checks its keys; errors contain the line.
fn read(path: &Path, text: &str) -> Result<Table> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].lines().count().max(1));
        invalid(format!("{}:{line}: {}", path.display(), error.message()))
    })?;
    check_keys(path, &table)?;
    for name in ["socket", "data_dir"] {
        if let Some(value) = table.get(name).and_then(Value::as_str)
            && !value.starts_with('/')
            && !value.starts_with("~/")
        {
            return Err(invalid(format!(
                "{}: {name} must be an absolute path or start with ~/",
                path.display()
            )));
        }
    }
    Ok(table)
}

/// Rejects unknown keys before serde does, because serde cannot suggest the intended key.
fn check_keys(path: &Path, table: &Table) -> Result<()> {
    let known: Vec<String> = keys().into_iter().map(|(key, _)| key).collect();
    let sections: Vec<&str> =
        known.iter().filter_map(|key| key.split_once('.')).map(|(name, _)| name).collect();
    for (name, value) in table {
        let found: Vec<String> = match value.as_table() {
            Some(section) if sections.contains(&name.as_str()) => {
                section.keys().map(|key| format!("{name}.{key}")).collect()
            }
            // A section's name with another type; serde's error is good enough.
            _ if sections.contains(&name.as_str()) => continue,
            _ => vec![name.clone()],
        };
        if let Some(key) = found.iter().find(|key| !known.contains(key)) {
            let all = known.iter().map(String::as_str).chain(sections.iter().copied());
            let meant = suggestion(key, all);
            return Err(invalid(format!("{}: unknown key {key}{meant}", path.display())));
        }
    }
    Ok(())
}

/// Applies the `OBEY_…` variables.
fn overlay_variables(table: &mut Table, vars: &Vars) -> Result<()> {
    for (key, kind) in keys() {
        let name = variable(&key);
        // An empty list is a value (no TCP address at all); for the other kinds empty means unset.
        let found = if kind == ValueKind::List { vars.set(&name) } else { vars.get(&name) };
        let Some(text) = found else { continue };
        let text = text.to_str().ok_or_else(|| invalid(format!("{name} is not UTF-8")))?;
        let value = value_of(&key, kind, text).ok_or_else(|| {
            let wanted = if kind == ValueKind::Number { "a whole number" } else { "true or false" };
            invalid(format!("{name}={text}: must be {wanted}"))
        })?;
        set(table, &key, value);
    }
    Ok(())
}

/// Parses the text of a variable; `None` if it has the wrong type.
fn value_of(key: &str, kind: ValueKind, text: &str) -> Option<Value> {
    Some(match kind {
        ValueKind::Text if matches!(key, "socket" | "data_dir") => {
            Value::String(std::path::absolute(text).ok()?.to_string_lossy().into_owned())
        }
        ValueKind::Text => Value::String(text.to_owned()),
        ValueKind::List => Value::Array(split_list(text)),
        ValueKind::Number => Value::Integer(text.parse().ok()?),
        ValueKind::Switch => Value::Boolean(text.parse().ok()?),
    })
}

fn split_list(text: &str) -> Vec<Value> {
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty() && *entry != "none");
    entries.map(|entry| Value::String(entry.to_owned())).collect()
}

/// Applies the flags.
fn overlay_flags(table: &mut Table, flags: &Flags) {
    if !flags.listen.is_empty() {
        let listen = listen::with_flags(table.get("listen"), &flags.listen);
        set(table, "listen", listen);
    }
    for (key, path) in [
        ("socket", &flags.socket),
        ("data_dir", &flags.data_dir),
        ("tls.cert", &flags.tls_cert),
        ("tls.key", &flags.tls_key),
    ] {
        if let Some(path) = path {
            set(table, key, Value::String(path.to_string_lossy().into_owned()));
        }
    }
    if let Some(level) = &flags.log_level {
        set(table, "log_level", Value::String(level.clone()));
    }
}

/// Sets a key, which may be in a section.
fn set(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
        }
        Some((section, key)) => {
            let entry = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            if let Some(section) = entry.as_table_mut() {
                section.insert(key.to_owned(), value);
            }
        }
    }
}

/// Checks values that have the right type but may be unusable.
fn check(config: &Config) -> Result<()> {
    for text in &config.listen {
        listen::address(text)?;
    }
    config.tls.check()?;
    config.notices.check()?;
    config.relay.check()?;
    config.telemetry.check()?;
    config.gitlab.check()?;
    config.github.check()?;
    if let Err(error) = tracing_subscriber::EnvFilter::try_new(&config.log_level) {
        return Err(invalid(format!("log_level: {:?} is no level or filter: {error}", config.log_level)));
    }
    if let Some(name) = config.execute.allow.iter().find(|name| name.is_empty() || name.contains('/')) {
        return Err(invalid(format!("execute.allow: {name:?} must be a program's name without a path")));
    }
    if config.execute.timeout_secs == 0 {
        return Err(invalid("execute.timeout_secs: must be above 0".to_owned()));
    }
    if config.workbench.session_idle_minutes == 0 || config.workbench.session_max_minutes == 0 {
        return Err(invalid(
            "workbench: session_idle_minutes and session_max_minutes must be above 0".to_owned(),
        ));
    }
    sessions::check_provider("acp.provider", &config.acp.provider)?;
    config.sessions.check()?;
    if config.acp.max_sessions == 0 {
        return Err(invalid("acp.max_sessions: must be above 0".to_owned()));
    }
    if let Some(problem) = config.workers.problem().or_else(|| config.checkpoints.problem()) {
        return Err(invalid(problem.to_owned()));
    }
    prices::table(&config.prices)?;
    budgets::configured(&config.budgets)?;
    Ok(())
}

fn invalid(message: String) -> Failure {
    Failure::coded(ErrorCode::ConfigInvalid, message)
}

#[cfg(test)]
mod tests;
