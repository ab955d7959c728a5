//! Requests of an ACP agent to its client: permissions, files, commands.

use agent_client_protocol_schema::v1;
use agent_port::{Decoded, Revisioned};
use domain::event::Level;
use domain::request::{PermissionSubject, RequestSubject};
use domain::{AgentEvent, Decision, Error, ErrorCode, Mode};
use serde_json::{Value, json};

use super::super::permitted::{self, PermittedAction};
use super::super::state::{AcpCall, AcpState, PendingPermission, PermissionChoice};
use super::super::{encode, names, options, rpc, typed};
use super::{WATCH, plan, updates};
use crate::limits::{TITLE_MAX_CHARS, TOOL_OUTPUT_MAX_BYTES};
use provider_common::json_fields::Look;
use provider_common::text::one_line;

/// Handles a request of the agent; `None` if it cannot be parsed.
pub(super) fn request(
    state: &mut Revisioned<AcpState>,
    id: &Value,
    method: &str,
    params: &mut Value,
    out: &mut Decoded,
) -> Option<()> {
    match method {
        "session/request_permission" => {
            let mut asked = std::mem::take(params);
            let mut taken = |key: &str| asked.get_mut(key).map(Value::take).unwrap_or_default();
            let (mut call, mut options) = (taken("toolCall"), taken("options"));
            if !call.is_object() {
                // A person is asked all the same: only a person can say whether it matters.
                call = json!({});
            }
            if let Value::Array(options) = &mut options {
                options.retain_mut(options::mend);
            }
            *params = json!({"toolCall": call, "options": options});
            permission(state, id, typed::read(params, method)?, out)?;
        }
        "fs/read_text_file" => {
            let asked: v1::ReadTextFileRequest = typed::read(params, method)?;
            let path = asked.path.to_string_lossy().into_owned();
            let what = json!({"do": "read", "path": path, "line": asked.line, "limit": asked.limit});
            let ask = ask("Read", json!({"file_path": path}), &path);
            if wait(state, id, what, out) {
                out.events.push(AgentEvent::Checks { native: id.to_string(), ask });
            }
        }
        "fs/write_text_file" => {
            let asked: v1::WriteTextFileRequest = typed::read(params, method)?;
            let path = asked.path.to_string_lossy().into_owned();
            let what = json!({"do": "write", "path": path, "content": asked.content});
            let input = json!({"file_path": path, "content": asked.content});
            let deed = PermittedAction::write(state, &path);
            with_permission(state, id, ("Write", input, path), Some(&deed), what, out);
        }
        "terminal/create" => {
            let asked: v1::CreateTerminalRequest = typed::read(params, method)?;
            let command = command_line(&asked);
            let what = json!({"do": "run", "command": command, "cwd": asked.cwd, "env": asked.env,
                "limit": asked.output_byte_limit.filter(|limit| *limit > 0)});
            let folder = asked.cwd.as_ref().map(|folder| folder.to_string_lossy()).unwrap_or_default();
            // Variables can change what a command does, and no permission for the command alone covers that.
            let deed = asked.env.is_empty().then(|| PermittedAction::run(state, &command, &folder));
            let input = command_input(&asked, &command);
            with_permission(state, id, (names::SHELL, input, command), deed.as_ref(), what, out);
        }
        "terminal/output" | "terminal/wait_for_exit" | "terminal/kill" | "terminal/release" => {
            // All four name a terminal, and nothing else.
            let asked: v1::TerminalOutputRequest = typed::read(params, method)?;
            let verb = method.trim_start_matches("terminal/");
            client_request(state, id, json!({"do": verb, "terminal": asked.terminal_id}), out);
        }
        _ => rpc::refuse(
            id,
            v1::ErrorCode::MethodNotFound,
            &format!("obey does not do {method}"),
            &mut out.replies,
        ),
    }
    Some(())
}

/// Returns a command in the form a shell takes. Some agents put the whole line into the command.
fn command_line(asked: &v1::CreateTerminalRequest) -> String {
    let mut line = asked.command.clone();
    for arg in &asked.args {
        line.push(' ');
        line.push_str(&quoted(arg));
    }
    line
}

/// Returns the input of a permission for a command. Its variables are placed before it: rules and grants look
/// at the line alone, and one for the command does not cover what another `PATH` makes of it.
fn command_input(asked: &v1::CreateTerminalRequest, command: &str) -> Value {
    let set = |variable: &v1::EnvVariable| format!("{}={}", variable.name, quoted(&variable.value));
    let set: Vec<String> = asked.env.iter().map(set).collect();
    let line =
        if set.is_empty() { command.to_owned() } else { format!("export {}; {command}", set.join(" ")) };
    let mut input = json!({"command": line});
    if let Some(folder) = &asked.cwd {
        input["cwd"] = json!(folder);
    }
    if !asked.env.is_empty() {
        let pairs = asked.env.iter().map(|variable| (variable.name.clone(), json!(variable.value)));
        input["env"] = Value::Object(pairs.collect());
    }
    input
}

fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./=:,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Opens a permission for one of the agent's own calls.
fn permission(
    state: &mut Revisioned<AcpState>,
    id: &Value,
    asked: v1::RequestPermissionRequest,
    out: &mut Decoded,
) -> Option<()> {
    let call: &v1::ToolCall = &asked.tool_call.try_into().ok()?;
    let named = names::call(call, state);
    let options: Vec<_> = asked.options.into_iter().map(|option| (option.kind, option.option_id)).collect();
    let started = updates::start_call(state, call, out);
    // Some agents describe a call differently when they ask than when they reported it.
    if started.as_ref().and_then(|call| state.calls.get(call)).is_some_and(|call| call.bridged) {
        // The daemon asks for the permission itself once the call reaches it.
        rpc::reply(id, encode::chosen(&options, Decision::AllowOnce), &mut out.replies);
        return Some(());
    }
    let deeds = permitted::of(state, call, &named);
    let native = id.to_string();
    state.remember_permission(
        &native,
        PendingPermission {
            id: id.clone(),
            call: started.clone(),
            what: PermissionChoice::Options { options, deeds },
            leaves_plan: named.tool == names::LEAVE_PLAN,
        },
    );
    let ask = PermissionSubject {
        call: started,
        tool: named.tool,
        input: named.input,
        title: named.title,
        parent: None,
    };
    out.events.push(AgentEvent::Asked { native, ask: RequestSubject::Permission(ask) });
    Some(())
}

/// Does something that changes the folder, once it is allowed: by an approval in this turn, by the mode, or
/// by a separate permission.
fn with_permission(
    state: &mut Revisioned<AcpState>,
    id: &Value,
    (tool, input, about): (&str, Value, String),
    deed: Option<&PermittedAction>,
    what: Value,
    out: &mut Decoded,
) {
    if state.mode == Mode::Plan {
        let message = one_line(
            &format!("{tool} refused, since nothing may be changed in plan mode: {about}"),
            TITLE_MAX_CHARS,
        );
        out.events.push(AgentEvent::Notice { level: Level::Warning, message });
        rpc::refuse(
            id,
            v1::ErrorCode::InternalError,
            "nothing may be changed in plan mode",
            &mut out.replies,
        );
        return;
    }
    if deed.is_some_and(|deed| permitted::take(state, deed)) {
        client_request(state, id, what, out);
        return;
    }
    if !wait(state, id, what, out) {
        return;
    }
    let (native, ask) = (id.to_string(), ask(tool, input, &about));
    // What the mode allows, a rule may forbid.
    let by_mode = state.mode == Mode::AcceptEdits && tool == "Write";
    out.events.push(match by_mode {
        true => AgentEvent::Checks { native, ask },
        false => AgentEvent::Asked { native, ask: RequestSubject::Permission(ask) },
    });
}

fn ask(tool: &str, input: Value, about: &str) -> PermissionSubject {
    let title = one_line(&format!("{tool}: {about}"), TITLE_MAX_CHARS);
    PermissionSubject { call: None, tool: tool.to_owned(), input, title, parent: None }
}

/// Stores a client request until the session has decided; returns whether there is room for it.
fn wait(state: &mut Revisioned<AcpState>, id: &Value, what: Value, out: &mut Decoded) -> bool {
    let what = PermissionChoice::Errand(what);
    let asking = PendingPermission { id: id.clone(), call: None, what, leaves_plan: false };
    let kept = state.remember_permission(&id.to_string(), asking);
    if !kept {
        rpc::refuse(id, v1::ErrorCode::InternalError, "too much is under way", &mut out.replies);
    }
    kept
}

fn client_request(state: &mut Revisioned<AcpState>, id: &Value, what: Value, out: &mut Decoded) {
    if state.remember_client_request(id, what).is_none() {
        rpc::refuse(id, v1::ErrorCode::InternalError, "too much is under way", &mut out.replies);
    }
}

/// Answers the agent with the result of a client request.
pub(crate) fn returned(
    state: &mut Revisioned<AcpState>,
    name: &str,
    result: Result<Value, Error>,
    out: &mut Decoded,
) {
    let Some(wanted) = state.errands.remove(name) else { return };
    if wanted.what.text("do") == plan::LEFT {
        return plan::left(state, out);
    }
    match result {
        Ok(value) if wanted.what.text("do") == WATCH => printed(state, &wanted.what, &value, out),
        // It was our own request, which no agent waits for.
        Err(_) if wanted.id.is_null() => {}
        Ok(value) => {
            show_terminal(state, &wanted.what, &value);
            if wanted.id.is_null() {
                // It was our own request.
                return;
            }
            rpc::reply(&wanted.id, value, &mut out.replies);
        }
        Err(error) => {
            let gone = error.code == ErrorCode::InvalidArgument && error.message.contains("does not exist");
            let code = if gone { v1::ErrorCode::ResourceNotFound } else { v1::ErrorCode::InternalError };
            rpc::refuse(&wanted.id, code, &error.message, &mut out.replies);
        }
    }
}

/// Asks for what one of our terminals prints, for the call that shows it: the agent reports only its name.
pub(super) fn watch(state: &mut Revisioned<AcpState>, terminal: &str, seen: u64) {
    // Without room the output is told when the command ends.
    let _ =
        state.remember_client_request(&Value::Null, json!({"do": WATCH, "terminal": terminal, "seen": seen}));
}

/// Reports what a terminal has printed meanwhile, and asks for more.
fn printed(state: &mut Revisioned<AcpState>, what: &Value, said: &Value, out: &mut Decoded) {
    let (name, text) = (what.text("terminal"), said.text("text"));
    let found = state.calls.iter_mut().find(|(_, call)| !name.is_empty() && call.terminal == name);
    let Some((id, call)) = found else { return };
    if text.is_empty() || call.output.len() + text.len() > TOOL_OUTPUT_MAX_BYTES {
        return;
    }
    call.output.push_str(text);
    out.events.push(AgentEvent::ToolProgress { call: id.clone(), output: text.to_owned() });
    watch(state, name, said.count("seen").unwrap_or(0));
}

/// Stores the output of one of our terminals for the call that shows it: the agent reports only the
/// terminal's name.
fn show_terminal(state: &mut Revisioned<AcpState>, what: &Value, said: &Value) {
    let (name, printed) = (what.text("terminal"), said.text("output"));
    if what.text("do") != "output" {
        return;
    }
    let shows = |call: &&mut AcpCall| !name.is_empty() && call.terminal == name;
    if let Some(call) = state.calls.values_mut().find(shows)
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
        assert_eq!(command_line(&v1::CreateTerminalRequest::new("s", "echo a b")), "echo a b");
        let args = ["%s\n", "it's", "", "a-b"].map(str::to_owned).to_vec();
        let asked = v1::CreateTerminalRequest::new("s", "printf").args(args);
        assert_eq!(command_line(&asked), "printf '%s\n' 'it'\\''s' '' a-b");
    }
}
