//! Names an agent's call and its subject. Agents of this protocol report kinds of tools and titles; sessions
//! need the names that permission rules are written for. Pure.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::PathBuf;

use agent_client_protocol_schema::v1::{ContentBlock, ToolCall, ToolCallContent as Shown, ToolKind as Kind};
use agent_port::BridgeServer;
use domain::CallId;
use serde_json::{Map, Value, json};

use super::permitted;
use super::state::AcpState;
use crate::limits::{CALL_PATHS_MAX, TITLE_MAX_CHARS, TOOL_NAME_MAX_CHARS};
use provider_common::json_fields::Look;
use provider_common::text::one_line;

/// The name of commands in rules.
pub(super) const SHELL: &str = "Bash";

/// The name of the call by which an agent asks to leave plan mode.
pub(super) const LEAVE_PLAN: &str = "ExitPlanMode";

/// The key under which rules look for the files of a patch, and under which agents send them.
const CHANGES: &str = "changes";

/// The names agents use for commands if they report no kind.
const SHELLS: [&str; 10] = [
    "Bash",
    "bash",
    "shell",
    "local_shell",
    "exec_command",
    "unified_exec",
    "run_shell_command",
    "run_terminal_cmd",
    "execute_command",
    "developer__shell",
];

/// A call, named as in a session.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NamedCall {
    pub(super) tool: String,
    pub(super) input: Value,
    pub(super) title: String,
}

/// Names a call; if the daemon's own server is present, its tools have their plain names.
pub(super) fn call(call: &ToolCall, state: &AcpState) -> NamedCall {
    if let Some(named) = bridged(call).filter(|_| state.bridge.is_some()) {
        return named;
    }
    let raw = raw_input(call);
    let known = state.calls.get(&CallId::new(&*call.tool_call_id.0)).map(|call| call.tool.as_str());
    let tool = tool(call, known);
    let title = one_line(&call.title, TITLE_MAX_CHARS);
    let input = match any_command(call).filter(|_| tool == SHELL) {
        Some(command) => with(raw, "command", json!(command)),
        None if tool == "Think" => object(raw),
        None => with_files(call, &state.cwd),
    };
    let title = if title.is_empty() { one_line(&tool, TITLE_MAX_CHARS) } else { title };
    NamedCall { tool, input, title }
}

/// Names a call of one of the daemon's own tools. Agents report the server beside the tool, or prefix the
/// tool with its name. Counts only if the agent says so and not its model: no second permission is asked for
/// such a call.
pub(super) fn bridged(call: &ToolCall) -> Option<NamedCall> {
    let raw = raw_input(call);
    let acts = !matches!(call.kind, Kind::Read | Kind::Search | Kind::Think | Kind::Other);
    if acts || command(raw).is_some() {
        return None;
    }
    let titled = call.title.strip_prefix("Tool: ").and_then(|name| name.strip_prefix(BridgeServer::NAME));
    let titled = titled.and_then(|name| name.strip_prefix('/')).filter(|tool| *tool == raw.text("tool"));
    let (tool, input) = match titled.filter(|_| raw.text("server") == BridgeServer::NAME) {
        Some(tool) => (tool, object(raw.under("arguments"))),
        None => {
            let mut names = own_names(call).into_iter().chain([call.title.as_str()]);
            (names.find_map(plain)?, object(raw))
        }
    };
    let tool = Some(one_line(tool, TOOL_NAME_MAX_CHARS)).filter(|tool| !tool.is_empty())?;
    Some(NamedCall { title: tool.clone(), tool, input })
}

/// Returns the plain name of a tool from either form in which agents combine it with its server.
fn plain(name: &str) -> Option<&str> {
    let joined = || name.strip_prefix(BridgeServer::NAME)?.strip_prefix("__");
    BridgeServer::plain_name(name).or_else(joined)
}

/// Returns a field the agent sent beside the protocol's own.
pub(super) fn meta<'a>(call: &'a ToolCall, key: &str) -> &'a Value {
    call.meta.as_ref().and_then(|meta| meta.get(key)).unwrap_or(&Value::Null)
}

fn raw_input(call: &ToolCall) -> &Value {
    call.raw_input.as_ref().unwrap_or(&Value::Null)
}

/// Returns the agent's own names for a tool, in all the places agents use: the field is newer than most of
/// them.
fn own_names(call: &ToolCall) -> [&str; 4] {
    [
        call.name.as_deref().unwrap_or_default(),
        meta(call, "goose").under("toolCall").text("toolName"),
        meta(call, "claudeCode").text("toolName"),
        meta(call, "toolName").as_str().unwrap_or_default(),
    ]
}

/// Returns the name of a server's tool, as rules have it. Some agents report it as the title. Goose's
/// `developer` tools are its own.
fn servers_tool(call: &ToolCall, known: Option<&str>) -> Option<String> {
    let joined = |name: &&str| {
        name.contains("__") && !name.contains(char::is_whitespace) && !name.starts_with("developer__")
    };
    let titled = Some(call.title.as_str()).filter(|title| title.starts_with("mcp__"));
    let named = own_names(call).into_iter().chain(titled).chain(known).find(joined);
    // The form of codex-acp.
    let raw = raw_input(call);
    let (server, tool) = (raw.text("server"), raw.text("tool"));
    let told = call.title.strip_prefix("Tool: ").and_then(|name| name.split_once('/'));
    let told =
        told.filter(|told| *told == (server, tool)).map(|(server, tool)| format!("mcp__{server}__{tool}"));
    let name = named.map(str::to_owned).or(told)?;
    Some(one_line(&name, TOOL_NAME_MAX_CHARS))
}

/// Names a tool: a server's tool by its own name whatever its kind, others by their kind, and those without a
/// kind by the name they have. A kind makes no call more harmless than its name and its input say: what has a
/// command or a change counts as that. Without a kind, a command in the input makes nothing a shell: rules for
/// commands are not written for it.
fn tool(call: &ToolCall, known: Option<&str>) -> String {
    if let Some(name) = servers_tool(call, known) {
        return name;
    }
    match most_dangerous(call) {
        Kind::Execute => SHELL,
        Kind::Edit | Kind::Delete | Kind::Move => "Edit",
        Kind::Read => "Read",
        Kind::Search => "Grep",
        Kind::Fetch => "WebFetch",
        Kind::Think => "Think",
        Kind::SwitchMode => LEAVE_PLAN,
        _ => {
            let named = own_names(call).into_iter().find(|name| !name.is_empty());
            let word = call.title.split([' ', ':', '(']).next().unwrap_or_default();
            // Some agents describe a call differently when they ask than when they reported it.
            return match named.or(known).unwrap_or(word) {
                "" => "Tool".to_owned(),
                name if SHELLS.contains(&name) => SHELL.to_owned(),
                name => one_line(name, TOOL_NAME_MAX_CHARS),
            };
        }
    }
    .to_owned()
}

/// Returns the kind of a call, or a more dangerous one that its name or its input shows.
fn most_dangerous(call: &ToolCall) -> Kind {
    let raw = raw_input(call);
    let names = own_names(call);
    let claims_less = |than: Kind| match call.kind {
        Kind::Read | Kind::Search | Kind::Fetch | Kind::Think | Kind::SwitchMode => true,
        Kind::Edit | Kind::Delete | Kind::Move => than == Kind::Execute,
        _ => false,
    };
    let edits_text = is_editor_word(raw);
    let runs =
        (command(raw).is_some() && edits_text.is_none()) || names.iter().any(|name| SHELLS.contains(name));
    if runs && claims_less(Kind::Execute) {
        return Kind::Execute;
    }
    let has_diff = call.content.iter().any(|part| matches!(part, Shown::Diff(_)));
    let has_change = WRITTEN.iter().any(|key| !raw.under(key).is_null());
    let writes = has_diff
        || edits_text == Some(true)
        || (has_change && matches!(call.kind, Kind::Read | Kind::Search))
        || names.iter().any(|name| permitted::EDITS.contains(name));
    if writes && claims_less(Kind::Edit) { Kind::Edit } else { call.kind }
}

/// Keys under which inputs have what is to be written to a file.
const WRITTEN: [&str; 7] = ["content", "contents", "file_text", "new_string", "new_str", "newText", CHANGES];

/// Returns whether an editor's tool, which has the word for what it does where others have a command line, changes its
/// file; `None` if it is no such tool.
fn is_editor_word(raw: &Value) -> Option<bool> {
    let has_file = ["path", "file_path"].iter().any(|key| !raw.text(key).is_empty());
    match raw.text("command") {
        "view" if has_file => Some(false),
        "create" | "str_replace" | "insert" | "undo_edit" | "write" if has_file => Some(true),
        _ => None,
    }
}

/// Returns the command of a call.
fn any_command(call: &ToolCall) -> Option<String> {
    command(raw_input(call)).or_else(|| shown_command(call))
}

/// Returns the command of an input: a line, or the argument of a shell.
fn command(raw: &Value) -> Option<String> {
    match raw.under("command") {
        Value::String(line) => Some(line.clone()),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            match words.as_slice() {
                [shell, flag, line] if shell.ends_with("sh") && flag.starts_with('-') => {
                    Some((*line).to_owned())
                }
                [] => None,
                words => Some(words.join(" ")),
            }
        }
        _ => Some(raw.text("cmd").to_owned()).filter(|line| !line.is_empty()),
    }
}

/// Returns the command of a call without input, as Gemini's: its title.
fn shown_command(call: &ToolCall) -> Option<String> {
    let is_bare = call.kind == Kind::Execute && call.raw_input.is_none();
    is_bare.then(|| call.title.clone()).filter(|title| !title.is_empty())
}

/// Returns the files a call is about, each once however it is spelled below the working folder.
pub(super) fn paths(call: &ToolCall, cwd: &str) -> Vec<String> {
    let raw = raw_input(call);
    let named = ["file_path", "path", "filePath", "filepath", "abs_path"].map(|key| raw.text(key).into());
    let diffs = call.content.iter().filter_map(|part| match part {
        Shown::Diff(diff) => Some(diff.path.to_string_lossy()),
        _ => None,
    });
    let places = call.locations.iter().map(|place| place.path.to_string_lossy());
    let mut known = BTreeSet::new();
    let changed =
        changes(call).into_iter().flat_map(|(path, change)| [path, moved_to(change)]).map(Cow::from);
    let all = diffs.chain(named).chain(changed).chain(places).filter(|path| !path.is_empty());
    let fresh = all.filter(|path| known.insert(permitted::plain(cwd, path)));
    fresh.take(CALL_PATHS_MAX).map(Cow::into_owned).collect()
}

/// Returns the files of a patch, which its input lists by name, with the change of each, or as a list.
fn changes(call: &ToolCall) -> Vec<(&str, &Value)> {
    match raw_input(call).under(CHANGES) {
        // For any other tool the key may mean anything.
        _ if !matches!(call.kind, Kind::Edit | Kind::Delete | Kind::Move) => Vec::new(),
        Value::Object(map) => map.iter().map(|(path, change)| (path.as_str(), change)).collect(),
        Value::Array(list) => list.iter().map(|change| (change.text("path"), change)).collect(),
        _ => Vec::new(),
    }
}

/// Returns where a patch moves a file, in Codex's form: `{"update": {"move_path": …}}`, or the same without
/// its kind.
fn moved_to(change: &Value) -> &str {
    let inner = change.as_object().into_iter().flatten().map(|(_, how)| how.text("move_path"));
    inner.chain([change.text("move_path")]).find(|path| !path.is_empty()).unwrap_or_default()
}

/// Puts the files of a call where rules look for them: one as the file it is about, several as changes, of
/// which a denying rule need cover only one. The details of each change stay as the agent sent them.
fn with_files(call: &ToolCall, cwd: &str) -> Value {
    let (raw, paths) = (raw_input(call), paths(call, cwd));
    let Some(first) = paths.first() else { return object(raw) };
    let mut input = with(raw, "file_path", json!(first));
    if paths.len() == 1 {
        return input;
    }
    let own: BTreeSet<PathBuf> = changes(call).iter().map(|(path, _)| permitted::plain(cwd, path)).collect();
    let more = paths.iter().filter(|path| !own.contains(&permitted::plain(cwd, path)));
    match &mut input[CHANGES] {
        Value::Object(map) => map.extend(more.map(|path| (path.clone(), json!({})))),
        Value::Array(list) => list.extend(more.map(|path| json!({"path": path}))),
        other => *other = more.map(|path| json!({"path": path})).collect(),
    }
    input
}

fn object(raw: &Value) -> Value {
    match raw {
        Value::Object(_) => raw.clone(),
        Value::Null => json!({}),
        other => json!({"input": other}),
    }
}

fn with(raw: &Value, key: &str, value: Value) -> Value {
    let mut map = match raw {
        Value::Object(map) => map.clone(),
        _ => Map::new(),
    };
    map.insert(key.to_owned(), value);
    Value::Object(map)
}

/// Returns the output of a call: its texts, the new state of files, its raw output.
pub(super) fn output(update: &ToolCall) -> String {
    let raw = update.raw_output.as_ref().unwrap_or(&Value::Null);
    let shown = ["aggregated_output", "formatted_output", "output", "stdout"].map(|key| raw.text(key));
    match raw.as_str().or_else(|| shown.into_iter().find(|text| !text.is_empty())) {
        // The raw output is more complete than the content shown.
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => update.content.iter().map(shown_text).collect(),
    }
}

fn shown_text(part: &Shown) -> String {
    match part {
        Shown::Content(part) => match &part.content {
            ContentBlock::Text(text) => unfenced(&text.text),
            _ => String::new(),
        },
        Shown::Diff(diff) => format!("{}\n", diff.path.display()),
        _ => String::new(),
    }
}

/// Returns the terminal of a call.
pub(super) fn terminal(update: &ToolCall) -> Option<&str> {
    let terminal = update.content.iter().find_map(|part| match part {
        Shown::Terminal(terminal) => Some(&*terminal.terminal_id.0),
        _ => None,
    });
    terminal.filter(|name| !name.is_empty())
}

/// Removes the code fence some agents put around output.
fn unfenced(text: &str) -> String {
    let inside = text.trim_end().strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    match inside.and_then(|rest| rest.split_once('\n')) {
        Some((_, inside)) => inside.to_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::BridgeCommand;
    use crate::typed;

    fn of(mut call: Value) -> ToolCall {
        typed::read(&mut call, "tool_call").unwrap()
    }

    fn with_bridge() -> AcpState {
        AcpState { bridge: Some(BridgeCommand::default()), ..AcpState::default() }
    }

    #[test]
    fn calls_get_the_names_rules_are_written_for() {
        let named = |value: Value| {
            let named = call(&of(value), &with_bridge());
            (named.tool, named.input["command"].clone(), named.input["file_path"].clone())
        };
        let codex =
            json!({"kind": "execute", "title": "ls", "rawInput": {"command": ["/bin/bash", "-lc", "ls -a"]}});
        assert_eq!(named(codex), ("Bash".to_owned(), json!("ls -a"), Value::Null));
        let goose = json!({"kind": "other", "title": "shell", "rawInput": {"command": "ls"}});
        assert_eq!(named(goose), ("Bash".to_owned(), json!("ls"), Value::Null));
        let edit = json!({"kind": "edit", "title": "Edit a", "content": [{"type": "diff", "path": "/p/a", "newText": "x"}]});
        assert_eq!(named(edit), ("Edit".to_owned(), Value::Null, json!("/p/a")));
        let gemini = json!({"kind": "execute", "title": "touch x"});
        assert_eq!(named(gemini), ("Bash".to_owned(), json!("touch x"), Value::Null));
        let other = json!({"title": "weather: today", "rawInput": "x"});
        assert_eq!(named(other), ("weather".to_owned(), Value::Null, Value::Null));
        assert_eq!(call(&of(json!({})), &with_bridge()).tool, "Tool");
    }

    #[test]
    fn a_kind_makes_no_call_more_harmless_than_its_name_and_input() {
        let named = |value: Value| call(&of(value), &AcpState::default()).tool;
        let run = json!({"command": "touch pwned"});
        for kind in ["read", "search", "think", "fetch", "edit", "switch_mode"] {
            let words =
                json!({"kind": kind, "title": "All fine", "rawInput": {"command": ["rm", "-rf", "/"]}});
            for lie in [json!({"kind": kind, "title": "All fine", "rawInput": run}), words] {
                assert_eq!(named(lie.clone()), "Bash", "{lie}");
            }
            assert_eq!(named(json!({"kind": kind, "title": "x", "name": "run_shell_command"})), "Bash");
        }
        let diff = json!([{"type": "diff", "path": "/p/a", "newText": "x"}]);
        for lie in [
            json!({"kind": "read", "title": "Look", "content": diff}),
            json!({"kind": "think", "title": "Hm", "content": diff}),
            json!({"kind": "read", "title": "Look", "rawInput": {"path": "/p/a", "content": "x"}}),
            json!({"kind": "search", "title": "Look", "rawInput": {"path": "/p/a", "new_string": "x"}}),
            json!({"kind": "read", "title": "Look", "name": "write_file", "rawInput": {"path": "/p/a"}}),
            json!({"kind": "read", "title": "Look", "rawInput": {"command": "create", "path": "/p/a"}}),
        ] {
            assert_eq!(named(lie.clone()), "Edit", "{lie}");
        }
        for honest in [
            json!({"kind": "read", "title": "Look", "rawInput": {"path": "/p/a"}}),
            json!({"kind": "read", "title": "Look", "rawInput": {"command": "view", "path": "/p/a"}}),
        ] {
            assert_eq!(named(honest.clone()), "Read", "{honest}");
        }
    }

    #[test]
    fn tools_of_the_daemons_server_go_by_their_plain_names() {
        let input = json!({"x": 1});
        for value in [
            json!({"title": "Tool: obey/lift", "rawInput": {"server": "obey", "tool": "lift", "arguments": input}}),
            json!({"title": "mcp__obey__lift", "rawInput": input}),
            json!({"title": "Lift", "_meta": {"claudeCode": {"toolName": "mcp__obey__lift"}}, "rawInput": input}),
            json!({"title": "Lift", "_meta": {"goose": {"toolCall": {"toolName": "obey__lift"}}}, "rawInput": input}),
        ] {
            let of = of(value.clone());
            let named = call(&of, &with_bridge());
            assert_eq!((named.tool.as_str(), &named.input), ("lift", &input), "{value}");
            assert_ne!(call(&of, &AcpState::default()).tool, "lift", "{value}");
        }
        // Text written by a model makes nothing else one of them.
        for other in [
            json!({"title": "Tool: lab/lift", "rawInput": {"server": "lab", "tool": "lift"}}),
            json!({"title": "mcp__lab__lift", "rawInput": {"server": "obey", "tool": "lift"}}),
            json!({"title": "mcp__obey__lift", "kind": "execute", "rawInput": {"command": "rm"}}),
            json!({"title": "Tool: obey/lift", "rawInput": {"command": "rm", "server": "obey", "tool": "lift"}}),
        ] {
            assert_eq!(bridged(&of(other.clone())), None, "{other}");
        }
    }

    #[test]
    fn output_is_what_was_printed() {
        let fenced = json!({"content": [{"type": "content", "content": {"type": "text", "text": "```sh\nhi\n```\n"}}]});
        assert_eq!(output(&of(fenced)), "hi\n");
        assert_eq!(output(&of(json!({"rawOutput": {"aggregated_output": "out\n"}}))), "out\n");
        assert_eq!(output(&of(json!({"rawOutput": "plain"}))), "plain");
        assert_eq!(output(&of(json!({"content": [{"type": "diff", "path": "/a"}]}))), "/a\n");
        assert_eq!(output(&of(json!({}))), "");
    }
}
