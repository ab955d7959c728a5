//! How Claude Code is started: its program, its command line, its environment, and whether an earlier
//! conversation is resumed. Reads the disk, and writes a conversation that the session was created with; starts nothing.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use agent_port::{BridgeServer, LaunchRequest, Places};
use domain::{Error, ErrorCode, State};
use serde_json::json;

use super::settings::ClaudeSettings;
use super::state::ClaudeState;
use super::{encode, models, uuid};
use crate::given::{self, Conversation};
use crate::limits;
use provider_common::program::{ProgramSearch, variable};

/// The program, and the hint for users without Claude Code.
pub(super) const PROGRAM: ProgramSearch = ProgramSearch {
    name: "claude",
    title: "Claude Code",
    remedy: "install Claude Code with `npm install -g @anthropic-ai/claude-code`, \
             or name its program in obey's configuration",
};

/// Variables that one Claude Code sets for its children. An agent that finds them assumes that it runs inside
/// another one, whose socket and session they name.
const PARENT_MARKS: [&str; 14] = [
    "AI_AGENT",
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_EFFORT",
    "CLAUDE_ENV_FILE",
    "CLAUDE_PID",
    "CLAUDE_PROJECT_DIR",
];

/// Variables that the agent gets unless its environment has a value for them.
const DEFAULT_VARIABLES: [(&str, &str); 2] = [
    // A program that updates itself under its supervisor is untested.
    ("DISABLE_AUTOUPDATER", "1"),
    // Without it, most models have no tools for to-do lists, and clients never see one.
    ("CLAUDE_CODE_ENABLE_TODO_TOOLS", "1"),
];

/// Where the agent's conversation comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConversationOrigin {
    New,
    /// The agent has it.
    Resumed,
    /// It branches off another one, which stays as it is.
    BranchOf(String),
}

/// Returns the id of the conversation and where it comes from.
pub(super) fn origin(request: &LaunchRequest<'_>) -> Result<(String, ConversationOrigin), Error> {
    let branches = request.resume && request.state.fork.as_ref().is_some_and(|fork| fork.branches);
    if !branches {
        let (name, exists) = conversation(request);
        let exists = exists || keep_given(request, &name)?;
        let origin = if exists { ConversationOrigin::Resumed } else { ConversationOrigin::New };
        return Ok((name, origin));
    }
    let (from, name) = (request.state.native_session.clone(), uuid::of_session(request.spec.id.as_str()));
    // A daemon that died at this point had begun the branch already.
    if has(request, &name) {
        return Ok((name, ConversationOrigin::Resumed));
    }
    if !uuid::is_uuid(&from) || !has(request, &from) {
        return Err(Error::new(
            ErrorCode::ProviderNotReady,
            format!(
                "Claude Code no longer has the conversation {from} that this session is a fork of; fork it at an \
                 earlier event, then the history is told instead"
            ),
        ));
    }
    Ok((name, ConversationOrigin::BranchOf(from)))
}

/// Returns the id of the conversation and whether the agent already has it.
fn conversation(request: &LaunchRequest<'_>) -> (String, bool) {
    let known = &request.state.native_session;
    let name = if request.resume && uuid::is_uuid(known) {
        known.clone()
    } else {
        uuid::of_session(request.spec.id.as_str())
    };
    let exists = has(request, &name);
    (name, exists)
}

/// Returns whether the agent has a conversation. It refuses to begin one that it has, and to resume one that it has not:
/// it writes nothing before the first prompt, and loses what a crash cut short.
fn has(request: &LaunchRequest<'_>, name: &str) -> bool {
    projects(request).is_some_and(|folder| has_conversation(&folder, name))
}

/// Writes the conversation that the session was created with, for the agent to resume; false: there is none.
fn keep_given(request: &LaunchRequest<'_>, name: &str) -> Result<bool, Error> {
    if request.given.is_empty() {
        return Ok(false);
    }
    let conversation = Conversation { name, folder: &request.spec.working_dir };
    let written = match projects(request) {
        Some(folder) => {
            given::write(&folder, &conversation, &request.given).map_err(|error| error.to_string())
        }
        None => Err("HOME is not set".to_owned()),
    };
    written.map(|()| true).map_err(|problem| {
        let said = "the earlier conversation cannot be given to Claude Code; check its folder projects";
        Error::new(ErrorCode::ProviderNotReady, format!("{said} ({problem})"))
    })
}

/// Returns the folder of the agent's conversations.
fn projects(request: &LaunchRequest<'_>) -> Option<PathBuf> {
    let folder = config_dir(&request.environment)?.join("projects");
    Some(match request.spec.containment.sandbox {
        Some(_) => Places::own_part(&folder, &request.spec.id),
        None => folder,
    })
}

fn config_dir(environment: &[(OsString, OsString)]) -> Option<PathBuf> {
    let named = variable(environment, "CLAUDE_CONFIG_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    named.or_else(|| variable(environment, "HOME").map(|home| Path::new(home).join(".claude")))
}

/// Looks in every project: a session may have been begun in another directory.
fn has_conversation(projects: &Path, name: &str) -> bool {
    let file = format!("{name}.jsonl");
    let Ok(folders) = projects.read_dir() else { return false };
    folders.take(limits::PROJECT_FOLDERS_MAX).flatten().any(|folder| folder.path().join(&file).is_file())
}

/// Returns the command line. Every value is bound to its option with `=`, so that none can be taken for an
/// option.
pub(super) fn arguments(
    settings: &ClaudeSettings,
    state: &State,
    name: &str,
    origin: &ConversationOrigin,
) -> Vec<OsString> {
    let mut args: Vec<OsString> = [
        "-p",
        "--input-format=stream-json",
        "--output-format=stream-json",
        "--verbose",
        "--permission-prompt-tool=stdio",
        "--include-partial-messages",
    ]
    .map(OsString::from)
    .to_vec();
    let mut option = |name: &str, value: &OsStr| {
        let mut arg = OsString::from(name);
        arg.push("=");
        arg.push(value);
        args.push(arg);
    };
    match origin {
        ConversationOrigin::New => option("--session-id", name.as_ref()),
        ConversationOrigin::Resumed => option("--resume", name.as_ref()),
        ConversationOrigin::BranchOf(from) => {
            option("--resume", from.as_ref());
            option("--session-id", name.as_ref());
        }
    }
    option("--permission-mode", encode::native_mode(state.mode).as_ref());
    // The session's model may be one that the agent reported itself; what does not look like a model is left
    // out.
    if !state.model.is_empty() && models::check(&state.model).is_ok() {
        option("--model", state.model.as_ref());
    }
    if !settings.allowed_tools.is_empty() {
        option("--allowedTools", settings.allowed_tools.as_ref());
    }
    if !settings.disallowed_tools.is_empty() {
        option("--disallowedTools", settings.disallowed_tools.as_ref());
    }
    if let Some(turns) = settings.max_turns {
        option("--max-turns", turns.to_string().as_ref());
    }
    for dir in &settings.add_dirs {
        option("--add-dir", dir.as_os_str());
    }
    if matches!(origin, ConversationOrigin::BranchOf(_)) {
        args.push("--fork-session".into());
    }
    if settings.strict_mcp {
        args.push("--strict-mcp-config".into());
    }
    args
}

/// Returns the agent's environment: the inherited one, minus the variables of another agent, plus what a
/// supervised program needs. Variables set by the session's own environment are kept.
pub(super) fn environment(request: &LaunchRequest<'_>) -> Vec<(OsString, OsString)> {
    let own = &request.spec.environment;
    let is_mark = |name: &OsStr| PARENT_MARKS.iter().any(|mark| name == *mark && !own.contains_key(*mark));
    let mut environment: Vec<(OsString, OsString)> =
        request.environment.iter().filter(|(name, _)| !is_mark(name)).cloned().collect();
    for (name, value) in DEFAULT_VARIABLES {
        if variable(&environment, name).is_none() {
            environment.push((name.into(), value.into()));
        }
    }
    environment
}

/// Returns the option that names the daemon's own server. It contains no secret, and with the command line
/// the agent starts the server while it starts itself, not afterwards.
pub(super) fn bridge(server: &BridgeServer) -> OsString {
    // Otherwise the agent hides the tools behind its tool search, and starts without waiting for them.
    let own = json!({
        "type": "stdio",
        "command": server.command.to_string_lossy(),
        "args": server.args,
        "alwaysLoad": true,
    });
    format!("--mcp-config={}", json!({"mcpServers": {BridgeServer::NAME: own}})).into()
}

/// Lets the agent call the daemon's own tools without asking: the daemon asks once the call arrives. In plan
/// mode the agent would refuse them all.
pub(super) fn allow_bridge(settings: &mut ClaudeSettings) {
    let gap = if settings.allowed_tools.is_empty() { "" } else { "," };
    settings.allowed_tools = format!("{}{gap}mcp__{}", settings.allowed_tools, BridgeServer::NAME);
}

/// Returns the codec state of a new run.
pub(super) fn codec_state(request: &LaunchRequest<'_>, name: &str) -> ClaudeState {
    let state = request.state;
    // The start time and what happened before it distinguish a launch from every other of its session.
    let started = state.started_at.unwrap_or_default().0;
    ClaudeState {
        session: name.to_owned(),
        run: format!("{started}.{}.{}", state.restart_count, state.turns),
        asked_model: if models::check(&state.model).is_ok() { state.model.clone() } else { String::new() },
        mode: state.mode,
        native_mode: encode::native_mode(state.mode).to_owned(),
        bridged: request.bridge.is_some(),
        todos: state.todos.iter().take(limits::TODOS_MAX).cloned().collect(),
        ..ClaudeState::default()
    }
}

#[cfg(test)]
mod tests;
