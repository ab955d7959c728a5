//! What an agent's call is called, and what it is about. Agents of this protocol name kinds of tools and show titles;
//! sessions want the names that permission rules are written for. Pure.

use std::borrow::Cow;
use std::collections::BTreeSet;

use agent_client_protocol_schema::v1::{ContentBlock, ToolCall, ToolCallContent as Shown, ToolKind as Kind};
use runtime::provider::BridgeServer;
use serde_json::{Map, Value, json};

use super::deeds;
use super::memory::Memory;
use crate::limits::{CALL_PATHS_MAX, TITLE_MAX_CHARS, TOOL_NAME_MAX_CHARS};
use crate::look::Look;
use crate::text::one_line;

/// What rules call a command.
pub(super) const SHELL: &str = "Bash";

/// A call, in a session's words.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Named {
    pub(super) tool: String,
    pub(super) input: Value,
    pub(super) title: String,
}

/// Names a call; where the daemon's own server is there, its tools have their plain names.
pub(super) fn call(call: &ToolCall, memory: &Memory) -> Named {
    if let Some(named) = bridged(call).filter(|_| memory.bridge.is_some()) {
        return named;
    }
    let raw = raw_input(call);
    let command = any_command(call);
    let tool = tool(call, command.is_some());
    let title = one_line(&call.title, TITLE_MAX_CHARS);
    let input = match &command {
        Some(command) => with(raw, "command", json!(command)),
        None => match paths(call, &memory.cwd).first() {
            Some(path) if tool != "Think" => with(raw, "file_path", json!(path)),
            _ => object(raw),
        },
    };
    let title = if title.is_empty() { one_line(&tool, TITLE_MAX_CHARS) } else { title };
    Named { tool, input, title }
}

/// Names a call of one of the daemon's own tools. Agents say the server beside the tool, or put its name before it. Only
/// where the agent says so and not its model: a call that is taken for one of these is not asked about twice.
pub(super) fn bridged(call: &ToolCall) -> Option<Named> {
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
    Some(Named { title: tool.clone(), tool, input })
}

/// Returns the plain name of a tool from either of the names agents make of it and its server's.
fn plain(name: &str) -> Option<&str> {
    let joined = || name.strip_prefix(BridgeServer::NAME)?.strip_prefix("__");
    BridgeServer::plain_name(name).or_else(joined)
}

/// What the agent told beside the protocol's own fields.
pub(super) fn meta<'a>(call: &'a ToolCall, key: &str) -> &'a Value {
    call.meta.as_ref().and_then(|meta| meta.get(key)).unwrap_or(&Value::Null)
}

fn raw_input(call: &ToolCall) -> &Value {
    call.raw_input.as_ref().unwrap_or(&Value::Null)
}

/// What agents call a tool themselves, in the places they have for it: the field is younger than most of them.
fn own_names(call: &ToolCall) -> [&str; 4] {
    [
        call.name.as_deref().unwrap_or_default(),
        meta(call, "goose").under("toolCall").text("toolName"),
        meta(call, "claudeCode").text("toolName"),
        meta(call, "toolName").as_str().unwrap_or_default(),
    ]
}

fn tool(call: &ToolCall, runs_command: bool) -> String {
    match call.kind {
        Kind::Execute => "Bash",
        Kind::Edit | Kind::Delete | Kind::Move => "Edit",
        Kind::Read => "Read",
        Kind::Search => "Grep",
        Kind::Fetch => "WebFetch",
        Kind::Think => "Think",
        Kind::SwitchMode => "ExitPlanMode",
        _ if runs_command => "Bash",
        _ => {
            let named = own_names(call).into_iter().find(|name| !name.is_empty());
            let word = call.title.split([' ', ':', '(']).next().unwrap_or_default();
            return match named.unwrap_or(word) {
                "" => "Tool".to_owned(),
                name => one_line(name, 64),
            };
        }
    }
    .to_owned()
}

/// Returns the command of a call, for what follows it.
pub(super) fn any_command(call: &ToolCall) -> Option<String> {
    command(raw_input(call)).or_else(|| shown_command(call))
}

/// Returns the command of an input: a line, or what a shell is given.
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

/// Returns the command of a call that has no input, as Gemini's: its title.
fn shown_command(call: &ToolCall) -> Option<String> {
    let is_bare = call.kind == Kind::Execute && call.raw_input.is_none();
    is_bare.then(|| call.title.clone()).filter(|title| !title.is_empty())
}

/// Returns the files a call is about, each once however often it is named below the working folder.
pub(super) fn paths(call: &ToolCall, cwd: &str) -> Vec<String> {
    let raw = raw_input(call);
    let named = ["file_path", "path", "filePath", "filepath", "abs_path"].map(|key| raw.text(key).into());
    let diffs = call.content.iter().filter_map(|part| match part {
        Shown::Diff(diff) => Some(diff.path.to_string_lossy()),
        _ => None,
    });
    let places = call.locations.iter().map(|place| place.path.to_string_lossy());
    let mut known = BTreeSet::new();
    let all = diffs.chain(named).chain(places).filter(|path| !path.is_empty());
    let fresh = all.filter(|path| known.insert(deeds::plain(cwd, path)));
    fresh.take(CALL_PATHS_MAX).map(Cow::into_owned).collect()
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

/// Returns what a call has shown: its texts, the new state of files, its raw output.
pub(super) fn output(update: &ToolCall) -> String {
    let raw = update.raw_output.as_ref().unwrap_or(&Value::Null);
    let shown = ["aggregated_output", "formatted_output", "output", "stdout"].map(|key| raw.text(key));
    match raw.as_str().or_else(|| shown.into_iter().find(|text| !text.is_empty())) {
        // What a program printed is more than what is shown of it.
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => update.content.iter().map(said).collect(),
    }
}

fn said(part: &Shown) -> String {
    match part {
        Shown::Content(part) => match &part.content {
            ContentBlock::Text(text) => unfenced(&text.text),
            _ => String::new(),
        },
        Shown::Diff(diff) => format!("{}\n", diff.path.display()),
        _ => String::new(),
    }
}

/// Returns the terminal a call shows.
pub(super) fn terminal(update: &ToolCall) -> Option<&str> {
    let terminal = update.content.iter().find_map(|part| match part {
        Shown::Terminal(terminal) => Some(&*terminal.terminal_id.0),
        _ => None,
    });
    terminal.filter(|name| !name.is_empty())
}

/// Takes a text out of the code fence some agents put around output.
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
    use crate::acp::memory::Bridge;
    use crate::acp::typed;

    fn of(mut call: Value) -> ToolCall {
        typed::read(&mut call, "tool_call").unwrap()
    }

    fn with_bridge() -> Memory {
        Memory { bridge: Some(Bridge::default()), ..Memory::default() }
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
            assert_ne!(call(&of, &Memory::default()).tool, "lift", "{value}");
        }
        // What a model writes makes nothing else one of them.
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
