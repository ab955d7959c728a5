//! How Codex is started: its program, its command line, its environment, and the initial state of its codec.
//! Reads the disk; starts nothing.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use agent_port::{BridgeServer, LaunchRequest, Places, PreparedState, Revisioned};
use domain::{Error, ErrorCode};
use serde_json::{Value, json};

use super::settings::CodexSettings;
use super::state::CodexState;
use super::{encode, history, models};
use crate::limits::{BRIDGE_CALL_SECS, BRIDGE_START_SECS};
use provider_common::config::invalid;
use provider_common::program::{ProgramSearch, variable};

/// The program, and the hint for users without Codex.
pub(super) const PROGRAM: ProgramSearch = ProgramSearch {
    name: "codex",
    title: "Codex",
    remedy: "install Codex with `npm install -g @openai/codex`",
};

/// The name of the model provider that `base_url` defines.
const OWN_PROVIDER: &str = "obey";
const DEFAULT_KEY: &str = "OPENAI_API_KEY";

/// Variables that one Codex sets for its children. An agent that finds them assumes that it runs inside
/// another one, whose sandbox and conversation they name.
const PARENT_MARKS: [&str; 9] = [
    "CODEX_INTERNAL_ORIGINATOR_OVERRIDE",
    "CODEX_PERMISSION_PROFILE",
    "CODEX_PLUGIN_METRICS_OUTPUT",
    "CODEX_SANDBOX",
    "CODEX_SANDBOX_NETWORK_DISABLED",
    "CODEX_SESSION_ID",
    "CODEX_THREAD_ID",
    "CODEX_TOOL_CALL_ID",
    "CODEX_VERSION",
];

/// Set unless the session's own environment sets them: a start that fails must end with its reason, not with
/// a trace and colours. The agent runs its commands without colours anyway.
const QUIET: [(&str, &str); 2] = [("RUST_LIB_BACKTRACE", "0"), ("NO_COLOR", "1")];

/// Returns the agent's environment: the inherited one, minus the variables of another agent, plus what a
/// supervised program needs. Variables set by the session's own environment are kept.
pub(super) fn environment(request: &LaunchRequest<'_>) -> Vec<(OsString, OsString)> {
    let own = &request.spec.environment;
    let is_mark = |name: &OsStr| PARENT_MARKS.iter().any(|mark| name == *mark && !own.contains_key(*mark));
    let mut environment: Vec<(OsString, OsString)> =
        request.environment.iter().filter(|(name, _)| !is_mark(name)).cloned().collect();
    for (name, value) in QUIET {
        if !own.contains_key(name) {
            environment.retain(|(known, _)| known != name);
            environment.push((name.into(), value.into()));
        }
    }
    environment
}

/// Refuses what the agent itself would only report when it exits.
pub(super) fn check_environment(
    settings: &CodexSettings,
    environment: &[(OsString, OsString)],
) -> Result<(), Error> {
    if let Some(home) = variable(environment, "CODEX_HOME").filter(|home| !home.is_empty())
        && !Path::new(home).is_dir()
    {
        return Err(Error::new(
            ErrorCode::CreateFailed,
            format!(
                "CODEX_HOME is {}, which is not a folder; create it or leave CODEX_HOME unset",
                home.display()
            ),
        ));
    }
    let key = &settings.api_key_env;
    if !key.is_empty() && variable(environment, key).is_none_or(OsStr::is_empty) {
        let remedy = format!("{key} is not set in the agent's environment");
        return Err(invalid("api_key_env", remedy));
    }
    Ok(())
}

/// Returns what the agent runs at the end of a turn: our own forwarder if the session names a sink, otherwise
/// the configured program. The forwarder gets the sink through the environment.
pub(super) fn notify(
    settings: &CodexSettings,
    configured: &[String],
    obey_exe: &Path,
    environment: &mut Vec<(OsString, OsString)>,
) -> Vec<String> {
    if settings.notify_path.is_empty() {
        return configured.to_vec();
    }
    environment.push(("ACPLB_NOTIFY_PATH".into(), settings.notify_path.clone().into()));
    environment.push(("ACPLB_NOTIFY_KIND".into(), settings.notify_kind.clone().into()));
    vec![obey_exe.to_string_lossy().into_owned(), "acp-notify".to_owned()]
}

/// Returns the command line. It contains only what concerns the whole program; everything else is sent
/// through stdin, because every user of the machine can read a command line.
pub(super) fn arguments(
    settings: &CodexSettings,
    environment: &[(OsString, OsString)],
    notify: &[String],
) -> Vec<OsString> {
    let mut args = vec![OsString::from("app-server")];
    let mut set = |key: &str, value: &str| {
        args.push("-c".into());
        args.push(format!("{key}={value}").into());
    };
    if !notify.is_empty() {
        let words: Vec<String> = notify.iter().map(|word| text(word)).collect();
        set("notify", &format!("[{}]", words.join(",")));
    }
    if settings.base_url.is_empty() {
        if !settings.model_provider.is_empty() {
            set("model_provider", &text(&settings.model_provider));
        }
        return args;
    }
    if settings.model_provider.is_empty() {
        let key = match settings.api_key_env.as_str() {
            "" if variable(environment, DEFAULT_KEY).is_some_and(|key| !key.is_empty()) => DEFAULT_KEY,
            named => named,
        };
        // Without a key the endpoint gets none, as a local model expects.
        let key = if key.is_empty() { String::new() } else { format!(",env_key={}", text(key)) };
        let url = text(&settings.base_url);
        set(
            &format!("model_providers.{OWN_PROVIDER}"),
            &format!(r#"{{name="{OWN_PROVIDER}",base_url={url},wire_api="responses"{key}}}"#),
        );
        set("model_provider", &text(OWN_PROVIDER));
    } else {
        let provider = &settings.model_provider;
        set(&format!("model_providers.{provider}.base_url"), &text(&settings.base_url));
        if !settings.api_key_env.is_empty() {
            set(&format!("model_providers.{provider}.env_key"), &text(&settings.api_key_env));
        }
        set("model_provider", &text(provider));
    }
    args
}

/// Writes a text in the configuration language; for printable text that is the same as JSON.
fn text(value: &str) -> String {
    Value::from(value).to_string()
}

/// Returns what the agent sees in the sandbox. Its own configuration may name the addresses of its models.
pub(super) fn places(settings: &CodexSettings, environment: &[(OsString, OsString)]) -> Places {
    let home = variable(environment, "CODEX_HOME").map(std::path::PathBuf::from);
    let home = home.or_else(|| variable(environment, "HOME").map(|home| Path::new(home).join(".codex")));
    let configured = home.and_then(|home| std::fs::read_to_string(home.join("config.toml")).ok());
    let configured = configured.unwrap_or_default();
    let mut places = provider_common::places::codex(environment, &settings.base_url, &configured);
    places.writable.extend(settings.add_dirs.iter().cloned());
    if let (Some(cache), [folder]) = (provider_common::places::cache(environment), places.private.as_slice())
    {
        let mut input = Vec::new();
        encode::open(&mut Revisioned::default(), &mut input);
        places.prepared = Some(PreparedState {
            folder: folder.clone(),
            variable: "CODEX_HOME",
            args: vec!["app-server".into()],
            input,
            cache: cache.join("obey"),
        });
    }
    places
}

/// Returns the daemon's own server in the form of the agent's configuration. A call may wait for a person's
/// permission and a client's tool, which have their own timeouts.
pub(super) fn bridge(server: &BridgeServer) -> Value {
    json!({
        "command": server.command.to_string_lossy(),
        "args": server.args,
        "startup_timeout_sec": BRIDGE_START_SECS,
        "tool_timeout_sec": BRIDGE_CALL_SECS,
    })
}

/// Returns the codec state of a new run.
pub(super) fn codec_state(request: &LaunchRequest<'_>) -> CodexState {
    let (spec, state) = (request.spec, request.state);
    let asked = if models::check_form(&state.model).is_ok() { state.model.clone() } else { String::new() };
    CodexState {
        history: history::items(request.given.iter().map(|event| &event.kind)),
        cwd: spec.working_dir.to_string_lossy().into_owned(),
        resume: if request.resume { state.native_session.clone() } else { String::new() },
        had_turns: state.turns > 0,
        model_is_wanted: asked == spec.model,
        asked_model: asked,
        mode: state.mode,
        bridged: request.bridge.is_some(),
        bridge: request.bridge.as_ref().map(bridge),
        ..CodexState::default()
    }
}

#[cfg(test)]
mod tests;
