//! Codex's items as calls: a tool's name, its input, one line for a person, and the result. Pure.

use agent_port::BridgeServer;
use domain::CallId;
use serde_json::{Value, json};

use super::super::state::{CodexCall, CodexCallKind};
use crate::limits::{CHANGES_MAX, MESSAGE_MAX_CHARS, TITLE_MAX_CHARS};
use provider_common::json_fields::Look;
use provider_common::text::{cut, one_line};

/// The tool that runs commands, whatever the agent's model calls it.
pub(super) const SHELL: &str = "shell";
/// The tool that changes files.
pub(super) const PATCH: &str = "apply_patch";

/// A call that was started.
pub(super) struct StartedCall {
    pub(super) tool: String,
    pub(super) input: Value,
    pub(super) title: String,
    pub(super) open: CodexCall,
}

/// Returns the call of an item; `None` if it is no call.
pub(super) fn begun(item: &Value, parent: Option<CallId>) -> Option<StartedCall> {
    let open = CodexCall { parent, ..CodexCall::default() };
    let plain = |tool: &str, input: Value, detail: &str| {
        let title = if detail.is_empty() { tool.to_owned() } else { format!("{tool}: {detail}") };
        let title = one_line(&title, TITLE_MAX_CHARS);
        StartedCall { tool: tool.to_owned(), input, title, open: open.clone() }
    };
    Some(match item.text("type") {
        "commandExecution" => {
            let input = command_input(item.text("command"), item.text("cwd"));
            let mut begun = plain(SHELL, input.clone(), input.text("command"));
            begun.open.kind = CodexCallKind::Command;
            begun
        }
        "fileChange" => {
            let files = files(item.list("changes"));
            let mut begun = plain(PATCH, json!({"changes": item.under("changes")}), &named(&files));
            begun.open.files = files;
            begun
        }
        "mcpToolCall" => {
            let (server, tool) = (item.text("server"), item.text("tool"));
            if server == BridgeServer::NAME {
                // Its tools have their plain names; no other server can have its name.
                return Some(plain(tool, item.under("arguments").clone(), ""));
            }
            let name = format!("mcp__{server}__{tool}");
            let mut begun = plain(&name, item.under("arguments").clone(), "");
            begun.title = one_line(&format!("{server} {tool}"), TITLE_MAX_CHARS);
            begun.open.tool = name;
            begun
        }
        "dynamicToolCall" => plain(item.text("tool"), item.under("arguments").clone(), ""),
        "collabAgentToolCall" => {
            let input = json!({"prompt": item.under("prompt"), "agents": item.under("receiverThreadIds")});
            let tool = match item.text("tool") {
                "wait" => "wait_agent".to_owned(),
                tool => snake(tool),
            };
            plain(&tool, input, item.text("prompt"))
        }
        "webSearch" => plain("web_search", json!({"query": item.under("query")}), item.text("query")),
        "imageView" => plain("view_image", json!({"path": item.under("path")}), item.text("path")),
        "imageGeneration" => plain(
            "image_generation",
            json!({"prompt": item.under("revisedPrompt")}),
            item.text("revisedPrompt"),
        ),
        "sleep" => plain("sleep", json!({"ms": item.under("durationMs")}), ""),
        _ => return None,
    })
}

/// Returns whether a finished call succeeded, and its output.
pub(super) fn outcome(item: &Value) -> (bool, String) {
    let status = item.text("status");
    let ok = matches!(status, "completed" | "") && item.under("error").is_null();
    let output = match item.text("type") {
        "commandExecution" => {
            let mut output = item.text("aggregatedOutput").to_owned();
            let code = item.under("exitCode").as_i64().filter(|code| *code != 0);
            if let Some(code) = code.filter(|_| status == "failed") {
                if !output.is_empty() && !output.ends_with('\n') {
                    output.push('\n');
                }
                output.push_str(&format!("exit code {code}"));
            }
            output
        }
        "mcpToolCall" if !item.under("error").is_null() => item.under("error").text("message").to_owned(),
        "mcpToolCall" => content(item.under("result").list("content")),
        "dynamicToolCall" => content(item.list("contentItems")),
        "webSearch" => content(item.list("results")),
        "imageGeneration" => item.text("savedPath").to_owned(),
        _ => String::new(),
    };
    match status {
        "declined" if output.is_empty() => (false, "declined".to_owned()),
        "failed" if output.is_empty() => (false, "failed".to_owned()),
        _ => (ok && item.under("success").as_bool().unwrap_or(true), output),
    }
}

/// Returns the text of a result; other content is named.
fn content(parts: &[Value]) -> String {
    let plain = |part: &Value| match part.text("type") {
        "text" | "inputText" | "input_text" => part.text("text").to_owned(),
        "image" | "inputImage" => format!("[image {}]", part.text("mimeType")),
        _ if !part.text("url").is_empty() => format!("{} {}", part.text("title"), part.text("url")),
        _ => part.to_string(),
    };
    let parts: Vec<String> = parts.iter().map(plain).filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

/// Returns the input of a command: the script itself, if the agent wraps it for a shell.
pub(super) fn command_input(command: &str, cwd: &str) -> Value {
    let mut input = json!({"command": unwrapped(command)});
    if !cwd.is_empty() {
        input["cwd"] = json!(cwd);
    }
    input
}

/// Returns the paths and kinds of a change.
pub(super) fn files(changes: &[Value]) -> Vec<(String, String)> {
    let file = |change: &Value| {
        (cut(change.text("path"), MESSAGE_MAX_CHARS), change.under("kind").text("type").to_owned())
    };
    changes.iter().take(CHANGES_MAX).map(file).collect()
}

/// Names the files of a change.
pub(super) fn named(files: &[(String, String)]) -> String {
    let names: Vec<String> = files.iter().map(|(path, kind)| format!("{kind} {path}")).collect();
    names.join(", ")
}

/// Undoes `/bin/bash -lc 'script'`. Anything that is not exactly that stays as it is.
fn unwrapped(command: &str) -> String {
    let inner = command.split_once(' ').and_then(|(shell, rest)| {
        let name = shell.rsplit('/').next().unwrap_or(shell);
        let is_shell = matches!(name, "bash" | "sh" | "zsh" | "dash");
        is_shell.then(|| rest.strip_prefix("-lc ").or_else(|| rest.strip_prefix("-c "))).flatten()
    });
    inner.and_then(one_word).unwrap_or_else(|| command.to_owned())
}

/// Parses a text that is one word to a shell; `None` if it is more than one, or would be expanded.
fn one_word(text: &str) -> Option<String> {
    let mut word = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => loop {
                match letters.next()? {
                    '\'' => break,
                    letter => word.push(letter),
                }
            },
            '"' => loop {
                match letters.next()? {
                    '"' => break,
                    '\\' => match letters.next()? {
                        letter @ ('"' | '\\' | '$' | '`') => word.push(letter),
                        letter => word.extend(['\\', letter]),
                    },
                    '$' | '`' => return None,
                    letter => word.push(letter),
                }
            },
            '\\' => word.push(letters.next()?),
            letter if letter.is_whitespace() || "$`;&|<>()*?[]#~=%!{}".contains(letter) => return None,
            letter => word.push(letter),
        }
    }
    (!word.is_empty()).then_some(word)
}

/// Returns `spawnAgent` as `spawn_agent`, the way the other tools are named.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_without_its_shell() {
        for (wrapped, plain) in [
            ("/bin/bash -lc 'touch a; echo done'", "touch a; echo done"),
            ("/bin/bash -lc ls", "ls"),
            (r#"/bin/zsh -lc "echo \"hi\" 'x'""#, r#"echo "hi" 'x'"#),
            (r"bash -lc 'it'\''s'", "it's"),
            ("git log", "git log"),
            ("/bin/bash -lc 'a' b", "/bin/bash -lc 'a' b"),
            ("/bin/bash -lc $X", "/bin/bash -lc $X"),
            ("/bin/bash script.sh", "/bin/bash script.sh"),
            ("/usr/bin/python -c 'x'", "/usr/bin/python -c 'x'"),
            ("/bin/bash -lc 'open", "/bin/bash -lc 'open"),
        ] {
            assert_eq!(unwrapped(wrapped), plain);
        }
    }

    #[test]
    fn every_kind_of_call_has_a_name_and_a_title() {
        let title = |item: Value| begun(&item, None).map(|begun| (begun.tool, begun.title)).unwrap();
        let is = |tool: &str, title: &str| (tool.to_owned(), title.to_owned());
        assert_eq!(title(json!({"type": "commandExecution", "command": "ls"})), is("shell", "shell: ls"));
        let changes =
            json!([{"path": "/a", "kind": {"type": "add"}}, {"path": "/b", "kind": {"type": "delete"}}]);
        assert_eq!(
            title(json!({"type": "fileChange", "changes": changes})),
            is("apply_patch", "apply_patch: add /a, delete /b")
        );
        assert_eq!(
            title(json!({"type": "mcpToolCall", "server": "lab", "tool": "echo"})),
            is("mcp__lab__echo", "lab echo")
        );
        assert_eq!(
            title(json!({"type": "collabAgentToolCall", "tool": "spawnAgent", "prompt": "look"})),
            is("spawn_agent", "spawn_agent: look")
        );
        assert_eq!(title(json!({"type": "webSearch", "query": "x"})), is("web_search", "web_search: x"));
        assert!(begun(&json!({"type": "agentMessage"}), None).is_none());
    }

    #[test]
    fn outcomes_say_what_went_wrong() {
        let command = |status: &str, output: Value, code: Value| {
            outcome(
                &json!({"type": "commandExecution", "status": status, "aggregatedOutput": output, "exitCode": code}),
            )
        };
        assert_eq!(command("completed", json!("x\n"), json!(0)), (true, "x\n".to_owned()));
        assert_eq!(command("failed", json!("no"), json!(2)), (false, "no\nexit code 2".to_owned()));
        assert_eq!(command("failed", Value::Null, json!(-1)), (false, "exit code -1".to_owned()));
        assert_eq!(command("declined", Value::Null, Value::Null), (false, "declined".to_owned()));
        let mcp = json!({"type": "mcpToolCall", "status": "failed", "error": {"message": "user rejected"}});
        assert_eq!(outcome(&mcp), (false, "user rejected".to_owned()));
        let mcp = json!({"type": "mcpToolCall", "status": "completed", "error": null,
            "result": {"content": [{"type": "text", "text": "a"}, {"type": "image", "mimeType": "image/png"}]}});
        assert_eq!(outcome(&mcp), (true, "a\n[image image/png]".to_owned()));
    }
}
