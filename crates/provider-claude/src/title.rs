//! One line for a person about a call: `Bash: cargo test`. Pure.

use serde_json::Value;

use super::wire::Look;
use crate::limits::TITLE_MAX_CHARS;
use provider_common::text::one_line;

/// Returns the title of a call.
pub(super) fn of(tool: &str, input: &Value) -> String {
    let shown = match tool.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
        Some((server, name)) => format!("{server} {name}"),
        None => tool.to_owned(),
    };
    let detail = detail(tool, input);
    if detail.trim().is_empty() {
        return one_line(&shown, TITLE_MAX_CHARS);
    }
    one_line(&format!("{shown}: {detail}"), TITLE_MAX_CHARS)
}

/// Returns what distinguishes this call of a tool from the next.
fn detail(tool: &str, input: &Value) -> String {
    match tool {
        "AskUserQuestion" => input
            .list("questions")
            .first()
            .map(|question| question.text("question"))
            .unwrap_or_default()
            .into(),
        "ExitPlanMode" => "leave plan mode and begin".to_owned(),
        "TodoWrite" => format!("{} entries", input.list("todos").len()),
        "TaskUpdate" => format!("{} {}", input.text("taskId"), input.text("status")),
        _ => {
            // The first of these keys that a call has says most about it.
            const TELLING: [&str; 12] = [
                "command",
                "file_path",
                "notebook_path",
                "pattern",
                "url",
                "query",
                "subject",
                "description",
                "skill",
                "path",
                "plan",
                "prompt",
            ];
            TELLING.iter().map(|key| input.text(key)).find(|text| !text.is_empty()).unwrap_or_default().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_title_says_what_a_person_wants_to_know() {
        assert_eq!(of("Bash", &json!({"command": "fest status", "description": "x"})), "Bash: fest status");
        assert_eq!(of("Edit", &json!({"file_path": "/a/b.rs", "old_string": "x"})), "Edit: /a/b.rs");
        assert_eq!(of("mcp__lab__ping", &json!({"x": 1})), "lab ping");
        assert_eq!(of("Agent", &json!({"description": "look around", "prompt": "…"})), "Agent: look around");
        assert_eq!(of("ExitPlanMode", &json!({})), "ExitPlanMode: leave plan mode and begin");
        assert_eq!(of("Mystery", &json!(null)), "Mystery");
        assert_eq!(of("Bash", &json!({"command": "a\nb\u{7}c"})), "Bash: a b c");
        assert_eq!(of("Bash", &json!({"command": "x".repeat(500)})).chars().count(), TITLE_MAX_CHARS);
    }
}
