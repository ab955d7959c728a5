//! What an ACP agent asks of its client: permissions, files, commands.

use domain::request::{Ask, PermissionAsk};
use domain::{AgentEvent, Decision, Error, ErrorCode, Mode};
use runtime::provider::Decoded;
use serde_json::{Value, json};

use super::super::memory::{Asked, Asking, Call, Memory};
use super::super::{encode, names, rpc};
use super::updates;
use crate::limits::{TITLE_MAX_CHARS, TOOL_OUTPUT_MAX_BYTES};
use crate::look::Look;
use crate::text::one_line;

/// Takes a request of the agent's.
pub(super) fn request(memory: &mut Memory, id: &Value, method: &str, params: &Value, out: &mut Decoded) {
    match method {
        "session/request_permission" => permission(memory, id, params, out),
        "fs/read_text_file" => {
            let what = json!({"do": "read", "path": params["path"], "line": params["line"], "limit": params["limit"]});
            errand(memory, id, what, out);
        }
        "fs/write_text_file" => {
            let path = params.text("path").to_owned();
            let what = json!({"do": "write", "path": path, "content": params["content"]});
            let input = json!({"file_path": path, "content": params["content"]});
            with_permission(memory, id, ("Write", input, path), what, out);
        }
        "terminal/create" => {
            let command = command_line(params);
            let what = json!({"do": "run", "command": command, "cwd": params["cwd"], "env": params["env"],
                "limit": params["outputByteLimit"]});
            with_permission(memory, id, ("Bash", json!({"command": command}), command), what, out);
        }
        "terminal/output" | "terminal/wait_for_exit" | "terminal/kill" | "terminal/release" => {
            let verb = method.trim_start_matches("terminal/");
            errand(memory, id, json!({"do": verb, "terminal": params["terminalId"]}), out);
        }
        _ => rpc::refuse(id, rpc::METHOD_NOT_FOUND, &format!("obey does not do {method}"), &mut out.replies),
    }
}

/// Returns a command as a shell takes it. Some agents put the whole line into the command.
fn command_line(params: &Value) -> String {
    let command = params.text("command");
    let args = params.list("args").iter().filter_map(Value::as_str);
    let mut line = command.to_owned();
    for arg in args {
        line.push(' ');
        line.push_str(&quoted(arg));
    }
    line
}

fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./=:,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn permission(memory: &mut Memory, id: &Value, params: &Value, out: &mut Decoded) {
    let call = params.under("toolCall");
    let named = names::call(call, memory.bridge.is_some());
    let options = params.list("options");
    let options: Vec<(String, String)> = options
        .iter()
        .map(|option| (option.text("kind").to_owned(), option.text("optionId").to_owned()))
        .collect();
    let started = updates::start_call(memory, call, out);
    // Some ask about a call in other words than they reported it with.
    if started.as_ref().and_then(|call| memory.calls.get(call)).is_some_and(|call| call.bridged) {
        // The daemon asks for itself, once the call reaches it.
        let outcome = encode::chosen(&options, Decision::AllowOnce);
        rpc::reply(id, json!({"outcome": outcome}), &mut out.replies);
        return;
    }
    let mut about = names::paths(call);
    about.extend(names::command(call.under("rawInput")).or_else(|| names::shown_command(call)));
    let native = id.to_string();
    memory.remember_ask(
        &native,
        Asking { id: id.clone(), call: started.clone(), what: Asked::Options { options, about } },
    );
    let ask = PermissionAsk {
        call: started,
        tool: named.tool,
        input: named.input,
        title: named.title,
        parent: None,
    };
    out.events.push(AgentEvent::Asked { native, ask: Ask::Permission(ask) });
}

/// Does something that changes the folder, once it is allowed: by what was allowed in this turn already, by the mode, or
/// by a permission of its own.
fn with_permission(
    memory: &mut Memory,
    id: &Value,
    (tool, input, about): (&str, Value, String),
    what: Value,
    out: &mut Decoded,
) {
    let allowed = memory.turn.as_ref().is_some_and(|turn| turn.allowed.contains(&about));
    let by_mode = memory.mode == Mode::AcceptEdits && tool == "Write";
    if allowed || by_mode {
        errand(memory, id, what, out);
        return;
    }
    if memory.mode == Mode::Plan {
        rpc::refuse(id, rpc::INTERNAL_ERROR, "nothing may be changed in plan mode", &mut out.replies);
        return;
    }
    let native = id.to_string();
    memory.remember_ask(&native, Asking { id: id.clone(), call: None, what: Asked::Errand(what) });
    let title = one_line(&format!("{tool}: {about}"), TITLE_MAX_CHARS);
    let ask = PermissionAsk { call: None, tool: tool.to_owned(), input, title, parent: None };
    out.events.push(AgentEvent::Asked { native, ask: Ask::Permission(ask) });
}

fn errand(memory: &mut Memory, id: &Value, what: Value, out: &mut Decoded) {
    if memory.remember_errand(id, what).is_none() {
        rpc::refuse(id, rpc::INTERNAL_ERROR, "too much is under way", &mut out.replies);
    }
}

/// Answers the agent with what became of an errand.
pub(in crate::acp) fn returned(
    memory: &mut Memory,
    name: &str,
    result: Result<Value, Error>,
    out: &mut Decoded,
) {
    let Some(wanted) = memory.errands.remove(name) else { return };
    match result {
        Ok(value) => {
            show_terminal(memory, &wanted.what, &value);
            if wanted.id.is_null() {
                // It was our own.
                return;
            }
            rpc::reply(&wanted.id, value, &mut out.replies);
        }
        Err(error) => {
            let gone = error.code == ErrorCode::InvalidArgument && error.message.contains("does not exist");
            let code = if gone { rpc::NOT_FOUND } else { rpc::INTERNAL_ERROR };
            rpc::refuse(&wanted.id, code, &error.message, &mut out.replies);
        }
    }
}

/// Keeps what a terminal of ours printed for the call that shows it: its agent says the terminal's name and no more.
fn show_terminal(memory: &mut Memory, what: &Value, said: &Value) {
    let (name, printed) = (what.text("terminal"), said.text("output"));
    if what.text("do") != "output" {
        return;
    }
    let shows = |call: &&mut Call| !name.is_empty() && call.terminal == name;
    if let Some(call) = memory.calls.values_mut().find(shows)
        && printed.len() <= TOOL_OUTPUT_MAX_BYTES
    {
        printed.clone_into(&mut call.output);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_a_line_that_means_the_same() {
        assert_eq!(command_line(&json!({"command": "echo a b"})), "echo a b");
        let params = json!({"command": "printf", "args": ["%s\n", "it's", "", "a-b"]});
        assert_eq!(command_line(&params), "printf '%s\n' 'it'\\''s' '' a-b");
    }
}
