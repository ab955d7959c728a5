//! Describes a tool call for an editor: its kind, the files it touches, and its changes. Pure; knows the
//! agents' tools by name and guesses the kind of others.

use std::path::Path;

use serde_json::{Value, json};

use crate::limits;

/// Returns the protocol's kind of a tool.
pub(super) fn kind(tool: &str) -> &'static str {
    match tool {
        "ExitPlanMode" | "EnterPlanMode" => return "switch_mode",
        "Bash" | "BashOutput" | "KillShell" | "shell" | "sleep" => return "execute",
        "Read" | "LS" | "view_image" => return "read",
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" | "apply_patch" => return "edit",
        "Grep" | "Glob" | "web_search" | "WebSearch" => return "search",
        "WebFetch" => return "fetch",
        "Task" | "Agent" | "TodoWrite" | "update_plan" | "spawn_agent" | "wait_agent" => return "think",
        _ => {}
    }
    let name = tool.to_ascii_lowercase();
    const WORDS: [(&str, &[&str]); 9] = [
        ("switch_mode", &["switch_mode", "plan_mode"]),
        ("fetch", &["fetch", "http", "download", "browse"]),
        ("search", &["search", "grep", "glob", "find", "query"]),
        ("read", &["read", "view", "list", "cat", "open"]),
        ("edit", &["edit", "write", "patch", "create", "update", "replace"]),
        ("delete", &["delete", "remove"]),
        ("move", &["move", "rename"]),
        ("execute", &["exec", "shell", "bash", "run", "command", "terminal"]),
        ("think", &["think", "plan", "todo", "reason"]),
    ];
    let has = |words: &&[&str]| words.iter().any(|word| name.contains(word));
    WORDS.iter().find(|(_, words)| has(words)).map_or("other", |(kind, _)| kind)
}

/// Returns the files a call is about, as absolute paths.
pub(super) fn locations(input: &Value, working_dir: &Path) -> Vec<Value> {
    let absolute = |path: &str| working_dir.join(path).to_string_lossy().into_owned();
    let mut found: Vec<Value> = Vec::new();
    for key in ["file_path", "path", "notebook_path"] {
        if let Some(path) = input[key].as_str().filter(|path| !path.is_empty()) {
            let mut place = json!({"path": absolute(path)});
            if let Some(line) = input["offset"].as_u64() {
                place["line"] = line.into();
            }
            found.push(place);
        }
    }
    for change in input["changes"].as_array().into_iter().flatten().take(limits::ACP_PLACES_MAX) {
        if let Some(path) = change["path"].as_str() {
            found.push(json!({"path": absolute(path)}));
        }
    }
    found
}

/// Returns the changes of a call, as far as its input contains them.
pub(super) fn diffs(tool: &str, input: &Value, working_dir: &Path) -> Vec<Value> {
    let path = |value: &Value| {
        let path = value.as_str().unwrap_or_default();
        working_dir.join(path).to_string_lossy().into_owned()
    };
    let diff = |path: &str, old: Option<&str>, new: &str| json!({"type": "diff", "path": path, "oldText": old, "newText": new});
    if let Some(changes) = input["changes"].as_object() {
        // The format of `codex-acp`: by path, each as whole content or as a unified diff.
        let changes = changes.iter().take(limits::ACP_PLACES_MAX);
        return changes.flat_map(|(file, change)| changed(&path(&json!(file)), change)).collect();
    }
    match tool {
        "Edit" | "MultiEdit" => {
            let file = path(&input["file_path"]);
            let edits = match input["edits"].as_array() {
                Some(edits) => edits.as_slice(),
                None => std::slice::from_ref(input),
            };
            edits
                .iter()
                .take(limits::ACP_PLACES_MAX)
                .filter_map(|edit| Some((edit["old_string"].as_str()?, edit["new_string"].as_str()?)))
                .map(|(old, new)| diff(&file, Some(old), new))
                .collect()
        }
        "Write" => {
            let new = input["content"].as_str();
            new.map(|new| vec![diff(&path(&input["file_path"]), None, new)]).unwrap_or_default()
        }
        "apply_patch" => {
            let changes = input["changes"].as_array().into_iter().flatten().take(limits::ACP_PLACES_MAX);
            changes.flat_map(|change| patched(&path(&change["path"]), change)).collect()
        }
        _ => Vec::new(),
    }
}

/// Converts one change in the format of `codex-acp` to diffs.
fn changed(path: &str, change: &Value) -> Vec<Value> {
    let as_codex = match change["type"].as_str() {
        Some(kind @ ("add" | "delete")) => json!({"kind": {"type": kind}, "diff": change["content"]}),
        _ => json!({"kind": {"type": "update"}, "diff": change["unified_diff"]}),
    };
    patched(path, &as_codex)
}

/// One change in the format of Codex: a whole file, or the hunks of a diff.
fn patched(path: &str, change: &Value) -> Vec<Value> {
    let text = change["diff"].as_str().unwrap_or_default();
    let diff =
        |old: Option<&str>, new: &str| json!({"type": "diff", "path": path, "oldText": old, "newText": new});
    match change["kind"]["type"].as_str() {
        Some("add") => vec![diff(None, text)],
        Some("delete") => vec![diff(Some(text), "")],
        _ => hunks(text).iter().map(|(old, new)| diff(Some(old), new)).collect(),
    }
}

/// Returns both sides of every hunk of a unified diff.
fn hunks(text: &str) -> Vec<(String, String)> {
    let mut hunks: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        if line.starts_with("@@") {
            hunks.push(Default::default());
            continue;
        }
        let Some((old, new)) = hunks.last_mut() else { continue };
        let put = |side: &mut String, text: &str| {
            side.push_str(text);
            side.push('\n');
        };
        match line.split_at_checked(1) {
            Some(("-", rest)) => put(old, rest),
            Some(("+", rest)) => put(new, rest),
            Some((" ", rest)) => {
                put(old, rest);
                put(new, rest);
            }
            _ => {}
        }
    }
    hunks
}

/// Cuts a long output in the middle, because its beginning and end are the most informative.
pub(super) fn preview(output: &str) -> String {
    let most = limits::ACP_OUTPUT_MAX_BYTES;
    if output.len() <= most {
        return output.to_owned();
    }
    let head = floor(output, most / 4 * 3);
    let tail = ceil(output, output.len() - most / 4);
    let cut = tail - head;
    format!("{}\n...[truncated {cut} bytes]...\n{}", &output[..head], &output[tail..])
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn ceil(text: &str, at: usize) -> usize {
    (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_kind() {
        for (tool, expected) in [
            ("Bash", "execute"),
            ("shell", "execute"),
            ("Edit", "edit"),
            ("apply_patch", "edit"),
            ("Read", "read"),
            ("Grep", "search"),
            ("WebFetch", "fetch"),
            ("ExitPlanMode", "switch_mode"),
            ("Task", "think"),
            ("mcp__fs__delete_file", "delete"),
            ("mcp__fs__move_file", "move"),
            ("mcp__db__query", "search"),
            ("mcp__lab__ping", "other"),
        ] {
            assert_eq!(kind(tool), expected, "{tool}");
        }
    }

    #[test]
    fn an_edit_shows_where_and_what() {
        let input = json!({"file_path": "src/a.rs", "old_string": "x", "new_string": "y"});
        let root = Path::new("/w");
        assert_eq!(locations(&input, root), [json!({"path": "/w/src/a.rs"})]);
        assert_eq!(
            diffs("Edit", &input, root),
            [json!({"type": "diff", "path": "/w/src/a.rs", "oldText": "x", "newText": "y"})]
        );
        let read = json!({"file_path": "/abs", "offset": 7});
        assert_eq!(locations(&read, root), [json!({"path": "/abs", "line": 7})]);
    }

    #[test]
    fn a_patch_is_both_sides_of_every_hunk() {
        let diff = "--- a\n+++ b\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n@@ -9 +9 @@\n-nine\n";
        let input = json!({"changes": [
            {"path": "/w/a", "kind": {"type": "update"}, "diff": diff},
            {"path": "/w/b", "kind": {"type": "add"}, "diff": "new\n"},
        ]});
        let found = diffs("apply_patch", &input, Path::new("/w"));
        let sides: Vec<(&str, &str)> = found
            .iter()
            .map(|diff| (diff["oldText"].as_str().unwrap_or("-"), diff["newText"].as_str().unwrap()))
            .collect();
        assert_eq!(sides, [("one\ntwo\n", "one\n2\n"), ("nine\n", ""), ("-", "new\n")]);
    }

    #[test]
    fn changes_by_path_are_shown_too() {
        let input = json!({"file_path": "/w/a", "changes": {
            "/w/a": {"type": "add", "content": "new\n"},
            "/w/b": {"type": "update", "unified_diff": "@@ -1 +1 @@\n-old\n+new\n"},
        }});
        let found = diffs("Edit", &input, Path::new("/w"));
        assert_eq!(found.len(), 2);
        assert_eq!((&found[0]["path"], &found[0]["newText"]), (&json!("/w/a"), &json!("new\n")));
        assert_eq!((&found[1]["oldText"], &found[1]["newText"]), (&json!("old\n"), &json!("new\n")));
    }

    #[test]
    fn a_long_output_is_cut_between_letters() {
        let long = "é".repeat(limits::ACP_OUTPUT_MAX_BYTES);
        let cut = preview(&long);
        assert!(cut.len() < limits::ACP_OUTPUT_MAX_BYTES + 64);
        assert!(cut.contains("...[truncated ") && cut.starts_with('é') && cut.ends_with('é'));
        assert_eq!(preview("short"), "short");
    }
}
