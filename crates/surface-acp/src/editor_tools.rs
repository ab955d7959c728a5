//! Offers an editor's abilities to the agent as tools: reading and writing files through its buffers, and
//! running a command in one of its terminals. The agent calls them like any client's tools; a call arrives
//! here as a request and is executed with the editor's own methods.

use std::time::Duration;

use domain::event::ClientTool;
use serde_json::{Value, json};

use super::client_requests::Reply;
use super::from_wire::ClientCapabilities;
use crate::limits;

/// The source name under which editor tools are registered in a session.
pub(super) const SOURCE: &str = "acp";

const READ: &str = "editor_read_file";
const WRITE: &str = "editor_write_file";
const RUN: &str = "editor_run_command";

/// Returns the tools for an editor with these capabilities.
pub(super) fn of(client: &ClientCapabilities) -> Vec<ClientTool> {
    let path = json!({"type": "string", "description": "Absolute path"});
    let mut tools = Vec::new();
    if client.reads_files {
        tools.push(tool(
            READ,
            "Reads a text file as the editor has it, unsaved changes included.",
            json!({"path": path, "line": {"type": "integer"}, "limit": {"type": "integer"}}),
            &["path"],
        ));
    }
    if client.writes_files {
        tools.push(tool(
            WRITE,
            "Writes a text file through the editor, which shows the change.",
            json!({"path": path, "content": {"type": "string"}}),
            &["path", "content"],
        ));
    }
    if client.has_terminals {
        tools.push(tool(
            RUN,
            "Runs a command in a terminal of the editor and returns its output.",
            json!({
                "command": {"type": "string"},
                "args": {"type": "array", "items": {"type": "string"}},
                "cwd": {"type": "string"},
            }),
            &["command"],
        ));
    }
    tools
}

fn tool(name: &str, description: &str, properties: Value, required: &[&str]) -> ClientTool {
    ClientTool {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: json!({"type": "object", "properties": properties, "required": required}),
        exclusive: false,
        // The editor's terminal has its own timeout; the session must not time out before it.
        timeout_ms: (name == RUN).then(|| 2 * limits::ACP_TERMINAL_WAIT.as_millis() as u64),
        // Tools that change something need a permission, as the agent's own tools do.
        asks: name != READ,
    }
}

/// Returns whether a tool is an editor tool.
pub(super) fn is_ours(tool: &str) -> bool {
    [READ, WRITE, RUN].contains(&tool)
}

/// Sends requests to the editor. Returns `None` if the editor is gone.
pub(super) trait EditorClient {
    fn send_request(&mut self, method: &str, params: &Value) -> impl Future<Output = Option<Reply>> + Send;
}

/// Executes a call with the editor's methods. Returns whether it succeeded, and its output; `None` if the
/// editor is gone.
pub(super) async fn run(
    editor: &mut impl EditorClient,
    session: &str,
    tool: &str,
    input: &Value,
) -> Option<(bool, String)> {
    let mut params = input.clone();
    if !params.is_object() {
        return Some((false, "the input must be an object".to_owned()));
    }
    params["sessionId"] = session.into();
    match tool {
        READ => {
            let reply = editor.send_request("fs/read_text_file", &params).await?;
            Some(outcome(reply, |read| read["content"].as_str().unwrap_or_default().to_owned()))
        }
        WRITE => {
            let reply = editor.send_request("fs/write_text_file", &params).await?;
            Some(outcome(reply, |_| "written".to_owned()))
        }
        _ => terminal(editor, session, params).await,
    }
}

/// Runs a command to its end. The terminal is released in any case.
async fn terminal(
    editor: &mut impl EditorClient,
    session: &str,
    mut params: Value,
) -> Option<(bool, String)> {
    params["outputByteLimit"] = limits::ACP_OUTPUT_MAX_BYTES.into();
    let created = match editor.send_request("terminal/create", &params).await? {
        Ok(created) => created,
        refused => return Some(outcome(refused, |_| String::new())),
    };
    let of = json!({"sessionId": session, "terminalId": created["terminalId"]});
    let wait = editor.send_request("terminal/wait_for_exit", &of);
    let waited = tokio::time::timeout(limits::ACP_TERMINAL_WAIT, wait).await;
    let ended = match waited {
        Ok(ended) => ended?,
        Err(_) => {
            // A terminal that cannot be killed is still released.
            let _refused = editor.send_request("terminal/kill", &of).await?;
            Err(json!({"message": too_long(limits::ACP_TERMINAL_WAIT)}))
        }
    };
    let output = editor.send_request("terminal/output", &of).await?;
    let _refused = editor.send_request("terminal/release", &of).await?;
    let output = output.map(|output| output["output"].as_str().unwrap_or_default().to_owned());
    Some(exited(ended, output.unwrap_or_default()))
}

fn too_long(wait: Duration) -> String {
    format!("the command did not end within {} s", wait.as_secs())
}

/// Returns the result of a command; a failed one gets its exit code or signal appended to the output.
fn exited(ended: Reply, mut output: String) -> (bool, String) {
    let why = match &ended {
        Ok(ended) => match (ended["exitCode"].as_i64(), ended["signal"].as_str()) {
            (Some(0), _) => return (true, output),
            (Some(code), _) => format!("exit code {code}"),
            (None, signal) => format!("ended by signal {}", signal.unwrap_or("unknown")),
        },
        Err(error) => error["message"].as_str().unwrap_or("the terminal failed").to_owned(),
    };
    if !output.is_empty() && !output.ends_with('\n') {
        output.push('\n');
    }
    output.push_str(&why);
    (false, output)
}

fn outcome(reply: Reply, text: impl FnOnce(&Value) -> String) -> (bool, String) {
    match reply {
        Ok(result) => (true, text(&result)),
        Err(error) => (false, error["message"].as_str().unwrap_or("the editor refused").to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::client_requests::ClientRequests;
    use super::super::outbox::{ClientOutbox, OutputFrame};
    use super::super::rpc::{self, RpcMessage};
    use super::*;

    impl EditorClient for ClientRequests {
        async fn send_request(&mut self, method: &str, params: &Value) -> Option<Reply> {
            ClientRequests::send_request(self, method, params).await
        }
    }

    #[test]
    fn an_editor_brings_what_it_offers() {
        let names =
            |client: ClientCapabilities| of(&client).into_iter().map(|tool| tool.name).collect::<Vec<_>>();
        assert!(names(ClientCapabilities::default()).is_empty());
        let all = ClientCapabilities {
            reads_files: true,
            writes_files: true,
            has_terminals: true,
            ..ClientCapabilities::default()
        };
        let names = names(all);
        assert_eq!(names, [READ, WRITE, RUN]);
        assert!(names.iter().all(|name| is_ours(name)) && !is_ours("Bash"));
    }

    /// Simulates an editor that answers in this order.
    async fn with_editor(tool: &str, input: Value, replies: Vec<(&str, Reply)>) -> Option<(bool, String)> {
        let (out, mut frames) = ClientOutbox::new(false);
        let mut client_requests = ClientRequests::new(out);
        let editor = client_requests.clone();
        let play = async move {
            for (method, reply) in replies {
                let Some(OutputFrame::Lines(line, _)) = frames.recv().await else { panic!("no request") };
                let RpcMessage::Request { id, method: asked, params } = rpc::read(line.trim_ascii_end())
                else {
                    panic!("no request: {line:?}")
                };
                assert_eq!((asked.as_str(), &params["sessionId"]), (method, &json!("sess_1")));
                assert!(editor.answered(&id, reply, 0));
            }
        };
        tokio::join!(run(&mut client_requests, "sess_1", tool, &input), play).0
    }

    #[tokio::test]
    async fn files_go_through_the_editor() {
        let input = json!({"path": "/w/a", "line": 3});
        let read = with_editor(READ, input, vec![("fs/read_text_file", Ok(json!({"content": "x"})))]).await;
        assert_eq!(read, Some((true, "x".to_owned())));
        let input = json!({"path": "/w/a", "content": "y"});
        let refused = Err(json!({"code": -32603, "message": "outside the folder"}));
        let write = with_editor(WRITE, input, vec![("fs/write_text_file", refused)]).await;
        assert_eq!(write, Some((false, "outside the folder".to_owned())));
    }

    #[tokio::test]
    async fn a_command_runs_in_a_terminal_that_is_released() {
        let script = |exit: Value| {
            vec![
                ("terminal/create", Ok(json!({"terminalId": "t1"}))),
                ("terminal/wait_for_exit", Ok(exit)),
                ("terminal/output", Ok(json!({"output": "words", "truncated": false}))),
                ("terminal/release", Ok(json!({}))),
            ]
        };
        let input = json!({"command": "make"});
        let good = with_editor(RUN, input.clone(), script(json!({"exitCode": 0}))).await;
        assert_eq!(good, Some((true, "words".to_owned())));
        let bad = with_editor(RUN, input.clone(), script(json!({"exitCode": 2}))).await;
        assert_eq!(bad, Some((false, "words\nexit code 2".to_owned())));
        let killed = with_editor(RUN, input.clone(), script(json!({"signal": "SIGKILL"}))).await;
        assert_eq!(killed, Some((false, "words\nended by signal SIGKILL".to_owned())));
        let refused = vec![("terminal/create", Err(json!({"message": "no terminals"})))];
        assert_eq!(with_editor(RUN, input, refused).await, Some((false, "no terminals".to_owned())));
    }
}
