//! The changes of files that a call's input describes, as lines. Knows the formats of the agents' edit tools; what it
//! does not know has no changes.

use serde_json::Value;

use crate::limits;
use crate::row::{DiffLine, FileChange};
use crate::text;

/// Returns the changes that an input describes; none if the tool is not known to edit files.
pub fn file_changes(tool: &str, input: &Value) -> Vec<FileChange> {
    let text_of = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    // By path: each change is a whole content or a unified diff.
    if let Some(changes) = input.get("changes").and_then(Value::as_object) {
        let changes = changes.iter().take(limits::FILES_MAX);
        return changes
            .map(|(path, change)| match change.get("type").and_then(Value::as_str) {
                Some(kind @ ("add" | "delete")) => whole(path, kind, text_of(change, "content")),
                _ => unified(path, &text_of(change, "unified_diff").unwrap_or_default()),
            })
            .collect();
    }
    if let Some(changes) = input.get("changes").and_then(Value::as_array) {
        let changes = changes.iter().take(limits::FILES_MAX);
        return changes
            .filter_map(|change| {
                let path = text_of(change, "path")?;
                let diff = text_of(change, "diff").unwrap_or_default();
                let kind = change.get("kind").and_then(|kind| kind.get("type")).and_then(Value::as_str);
                Some(match kind {
                    Some(kind @ ("add" | "delete")) => whole(&path, kind, Some(diff)),
                    _ => unified(&path, &diff),
                })
            })
            .collect();
    }
    let Some(path) = text_of(input, "file_path") else { return Vec::new() };
    match tool {
        "Edit" | "MultiEdit" => {
            let edits = match input.get("edits").and_then(Value::as_array) {
                Some(edits) => edits.iter().take(limits::FILES_MAX).collect(),
                None => vec![input],
            };
            let pairs: Vec<(String, String)> = edits
                .iter()
                .filter_map(|edit| Some((text_of(edit, "old_string")?, text_of(edit, "new_string")?)))
                .collect();
            if pairs.is_empty() { Vec::new() } else { vec![replaced(&path, &pairs)] }
        }
        "Write" => vec![whole(&path, "add", text_of(input, "content"))],
        _ => Vec::new(),
    }
}

/// A change that is being put together; keeps a bounded number of lines and counts all.
struct ChangeBuilder(FileChange);

impl ChangeBuilder {
    fn new(path: &str) -> Self {
        Self(FileChange { path: path.to_owned(), added: 0, removed: 0, lines: Vec::new(), omitted: 0 })
    }

    fn push(&mut self, mark: &'static str, text: &str) {
        match mark {
            "+" => self.0.added += 1,
            "-" => self.0.removed += 1,
            _ => {}
        }
        if self.0.lines.len() < limits::DIFF_LINES_MAX {
            self.0.lines.push(DiffLine { mark, text: text.to_owned() });
        } else {
            self.0.omitted += 1;
        }
    }
}

/// A file that is created or deleted.
fn whole(path: &str, kind: &str, content: Option<String>) -> FileChange {
    let mut change = ChangeBuilder::new(path);
    let mark = if kind == "delete" { "-" } else { "+" };
    for line in text::lines(&content.unwrap_or_default()) {
        change.push(mark, line);
    }
    change.0
}

/// A file changed by a unified diff; everything before its first hunk is left out.
fn unified(path: &str, diff: &str) -> FileChange {
    let mut change = ChangeBuilder::new(path);
    let mut in_hunk = false;
    for line in text::lines(diff) {
        if line.starts_with("@@") {
            in_hunk = true;
            change.push("@", line);
            continue;
        }
        match (in_hunk, line.split_at_checked(1)) {
            (true, Some(("+", rest))) => change.push("+", rest),
            (true, Some(("-", rest))) => change.push("-", rest),
            (true, Some((" ", rest))) => change.push(" ", rest),
            (true, None) => change.push(" ", ""),
            _ => {}
        }
    }
    change.0
}

/// A file in which texts are replaced: of every pair, the lines that differ between the common beginning and end.
fn replaced(path: &str, pairs: &[(String, String)]) -> FileChange {
    let mut change = ChangeBuilder::new(path);
    for (at, (old, new)) in pairs.iter().enumerate() {
        if at > 0 {
            change.push("@", "");
        }
        let (old, new) = (text::lines(old), text::lines(new));
        let least = old.len().min(new.len());
        let before = (0..least).take_while(|&i| old[i] == new[i]).count();
        let after =
            (0..least - before).take_while(|&i| old[old.len() - 1 - i] == new[new.len() - 1 - i]).count();
        for line in &old[before.saturating_sub(limits::DIFF_CONTEXT)..before] {
            change.push(" ", line);
        }
        for line in &old[before..old.len() - after] {
            change.push("-", line);
        }
        for line in &new[before..new.len() - after] {
            change.push("+", line);
        }
        let end = old.len() - after;
        for line in &old[end..old.len().min(end + limits::DIFF_CONTEXT)] {
            change.push(" ", line);
        }
    }
    change.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(tool: &str, input: Value) -> Vec<String> {
        let mut all = Vec::new();
        for file in file_changes(tool, &input) {
            all.push(format!("{} +{} -{}", file.path, file.added, file.removed));
            all.extend(file.lines.iter().map(|line| format!("{}{}", line.mark, line.text)));
        }
        all
    }

    #[test]
    fn an_edit_shows_the_lines_that_differ() {
        let input =
            json!({"file_path": "a", "old_string": "1\n2\n3\n4\nx\n5", "new_string": "1\n2\n3\n4\ny\nz\n5"});
        assert_eq!(shown("Edit", input), ["a +2 -1", " 2", " 3", " 4", "-x", "+y", "+z", " 5"]);
        let same = json!({"file_path": "a", "old_string": "x\nx", "new_string": "x"});
        assert_eq!(shown("Edit", same), ["a +0 -1", " x", "-x"]);
    }

    #[test]
    fn every_format_of_the_agents_is_known() {
        assert_eq!(shown("Write", json!({"file_path": "n", "content": "a\nb\n"})), ["n +2 -0", "+a", "+b"]);
        let codex = json!({"changes": [
            {"path": "a", "kind": {"type": "update"}, "diff": "--- a\n+++ b\n@@ -1 +1 @@\n one\n-two\n+2\n"},
            {"path": "b", "kind": {"type": "delete"}, "diff": "old\n"},
        ]});
        let lines = ["a +1 -1", "@@@ -1 +1 @@", " one", "-two", "+2", "b +0 -1", "-old"];
        assert_eq!(shown("apply_patch", codex), lines);
        let by_path = json!({"changes": {"/w/a": {"type": "add", "content": "new\n"}}});
        assert_eq!(shown("Edit", by_path), ["/w/a +1 -0", "+new"]);
        assert_eq!(shown("Bash", json!({"command": "x", "file_path": "y"})), Vec::<String>::new());
    }

    #[test]
    fn a_long_change_says_what_it_leaves_out() {
        let changes = file_changes("Write", &json!({"file_path": "n", "content": "a\n".repeat(1000)}));
        assert_eq!((changes[0].added, changes[0].lines.len(), changes[0].omitted), (1000, 400, 600));
    }
}
