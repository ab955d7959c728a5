//! What a call does, in words: its kind, its one line, and the summary of a run of calls.

use serde_json::Value;

use crate::limits;
use crate::row::CallRow;
use crate::text;

/// Words within a tool's name that tell its kind; the first that matches counts.
const KINDS: [(&str, &[&str]); 7] = [
    ("plan", &["todo", "plan"]),
    ("delegate", &["task", "agent", "worker"]),
    ("fetch", &["fetch", "http", "download", "browse"]),
    ("search", &["search", "grep", "glob", "find", "query"]),
    (
        "edit",
        &["edit", "write", "patch", "create", "update", "replace", "delete", "remove", "move", "rename"],
    ),
    ("read", &["read", "view", "list", "cat", "open", "ls"]),
    ("execute", &["bash", "shell", "exec", "run", "command", "terminal"]),
];

/// Fields of an input that tell best what a call does, in this order.
const TELLING: [&str; 8] =
    ["command", "file_path", "path", "notebook_path", "pattern", "url", "query", "description"];

/// Returns the kind of a tool, judging by its name.
pub fn call_kind(tool: &str) -> &'static str {
    let name = tool.to_ascii_lowercase();
    let has = |words: &&[&str]| words.iter().any(|word| name.contains(word));
    KINDS.iter().find(|(_, words)| has(words)).map_or("other", |(kind, _)| kind)
}

/// Describes a call in one line: its command, its file, the files it changes, its title, or its whole input.
pub fn call_text(tool: &str, input: &Value, title: &str) -> String {
    let telling = TELLING.iter().find_map(|key| field_text(input, key)).or_else(|| changed_paths(input));
    let what = match telling {
        Some(value) => value,
        None if !title.is_empty() => title.to_owned(),
        None if input.is_null() || input.as_object().is_some_and(serde_json::Map::is_empty) => String::new(),
        None => input.to_string(),
    };
    let what = text::one_line(&what);
    let line = match what.as_str() {
        "" => tool.to_owned(),
        what if what.starts_with(tool) => what.to_owned(),
        what => format!("{tool}: {what}"),
    };
    text::head(&line, limits::CALL_TEXT_MAX_CHARS)
}

/// A field that is a text, or a list of texts such as the words of a command.
fn field_text(input: &Value, key: &str) -> Option<String> {
    match input.get(key)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Array(words) if !words.is_empty() => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            words.map(|words| words.join(" "))
        }
        _ => None,
    }
}

/// The paths of a list of changes, or of changes by path.
fn changed_paths(input: &Value) -> Option<String> {
    let paths: Vec<&str> = match input.get("changes")? {
        Value::Array(changes) => {
            changes.iter().filter_map(|change| change.get("path").and_then(Value::as_str)).collect()
        }
        Value::Object(changes) => changes.keys().map(String::as_str).collect(),
        _ => return None,
    };
    if paths.is_empty() { None } else { Some(paths.join(", ")) }
}

/// Describes a run of calls: kinds in the order of their first call, with their numbers; a single call of a kind that
/// runs something names it.
pub fn calls_summary(calls: &[CallRow]) -> String {
    let mut kinds: Vec<(&str, &str, usize, &CallRow)> = Vec::new();
    for call in calls {
        let tool = if call.kind == "other" { call.tool.as_str() } else { "" };
        match kinds.iter_mut().find(|(kind, name, ..)| *kind == call.kind && *name == tool) {
            Some((_, _, count, _)) => *count += 1,
            None => kinds.push((call.kind, tool, 1, call)),
        }
    }
    let parts = kinds.into_iter().map(|(kind, tool, count, first)| match (kind, count) {
        ("execute", 1) => format!("ran {}", without_tool(first)),
        ("execute", count) => format!("ran {count} commands"),
        ("read", count) => format!("read {count}"),
        ("search", count) => format!("searched {count}"),
        ("edit", count) => format!("edited {count}"),
        ("fetch", count) => format!("fetched {count}"),
        ("delegate", 1) => format!("delegated {}", without_tool(first)),
        ("delegate", count) => format!("delegated {count}"),
        ("plan", _) => "planned".to_owned(),
        (_, 1) => tool.to_owned(),
        (_, count) => format!("{tool} {count}"),
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn without_tool(call: &CallRow) -> &str {
    call.text.strip_prefix(call.tool.as_str()).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&call.text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_names_what_it_does() {
        assert_eq!(
            call_text("Bash", &json!({"command": "ls\n -l", "description": "list"}), "t"),
            "Bash: ls -l"
        );
        assert_eq!(call_text("shell", &json!({"command": ["git", "push"]}), ""), "shell: git push");
        assert_eq!(call_text("Read", &json!({"file_path": "/a"}), ""), "Read: /a");
        assert_eq!(
            call_text("apply_patch", &json!({"changes": [{"path": "a"}, {"path": "b"}]}), ""),
            "apply_patch: a, b"
        );
        assert_eq!(call_text("Other", &json!({"x": 1}), ""), "Other: {\"x\":1}");
        assert_eq!(call_text("Other", &json!({"x": 1}), "title"), "Other: title");
        assert_eq!(call_text("Other", &Value::Null, ""), "Other");
        assert_eq!(call_text("Other", &json!({}), ""), "Other");
        assert!(call_text("Bash", &json!({"command": "x".repeat(1000)}), "").ends_with('…'));
    }

    #[test]
    fn the_name_of_a_tool_tells_its_kind() {
        let kinds = [
            ("Bash", "execute"),
            ("Edit", "edit"),
            ("apply_patch", "edit"),
            ("Read", "read"),
            ("Grep", "search"),
            ("WebFetch", "fetch"),
            ("Task", "delegate"),
            ("TodoWrite", "plan"),
            ("mcp__lab__ping", "other"),
        ];
        for (tool, kind) in kinds {
            assert_eq!(call_kind(tool), kind, "{tool}");
        }
    }
}
