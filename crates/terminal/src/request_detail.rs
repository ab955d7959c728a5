//! What an agent asks to do, as a person needs to see it before they allow it: the change of a file as a diff, the whole
//! command, the plan. Pure.

use serde_json::Value;
use view::FileChange;

use crate::limits;
use crate::markdown::{self, StyledLine};
use crate::output::TextStyle;

/// Returns the lines that show a call's input. `all`: without leaving anything out.
pub(crate) fn lines(tool: &str, input: &Value, width: usize, all: bool) -> Vec<StyledLine> {
    let most = if all { usize::MAX } else { limits::REQUEST_LINES_MAX };
    let changes = view::file_changes(tool, input);
    let mut lines = Vec::new();
    if !changes.is_empty() {
        changes.iter().for_each(|change| lines.extend(of_change(change)));
    } else if let Some(plan) = input.get("plan").and_then(Value::as_str) {
        lines.extend(markdown::render(plan, width.saturating_sub(4)).into_iter().map(barred));
    } else if let Some(command) = command_of(input).filter(|_| !all) {
        let mark = |at: usize| if at == 0 { "  $ " } else { "    " };
        lines.extend(command.lines().enumerate().map(|(at, line)| {
            vec![(TextStyle::Dim, mark(at).to_owned()), (TextStyle::Bold, line.to_owned())]
        }));
        lines.extend(note(input, "description"));
        lines.extend(note(input, "cwd"));
    } else if all {
        let pretty = serde_json::to_string_pretty(input).unwrap_or_default();
        lines.extend(pretty.lines().map(|line| vec![(TextStyle::Dim, format!("  {line}"))]));
    }
    if lines.len() > most {
        let left = lines.len() - most;
        lines.truncate(most);
        lines.push(vec![(TextStyle::Warn, format!("  … {left} more lines; type ? to see all"))]);
    }
    lines
}

/// Returns the command of a call, for tools that run one.
pub(crate) fn command_of(input: &Value) -> Option<String> {
    match input.get("command")? {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            // `bash -lc TEXT`: the text is the command.
            match words.as_slice() {
                [shell, flags, text] if shell.ends_with("sh") && flags.starts_with('-') => {
                    Some((*text).to_owned())
                }
                words => Some(words.join(" ")),
            }
        }
        _ => None,
    }
}

fn note(input: &Value, key: &str) -> Option<StyledLine> {
    let text = input.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())?;
    Some(vec![(TextStyle::Dim, format!("    {key}: {}", client::format::one_line(text)))])
}

fn barred(mut line: StyledLine) -> StyledLine {
    line.insert(0, (TextStyle::Dim, "  │ ".to_owned()));
    line
}

/// Returns changes that were made, in a few lines.
pub(crate) fn changes<'a>(changes: impl Iterator<Item = &'a FileChange>, most: usize) -> Vec<StyledLine> {
    let mut lines: Vec<StyledLine> = changes.flat_map(of_change).collect();
    if lines.len() > most {
        let left = lines.len() - most;
        lines.truncate(most);
        lines.push(vec![(TextStyle::Dim, format!("  … {left} more lines"))]);
    }
    lines
}

fn of_change(change: &FileChange) -> Vec<StyledLine> {
    let mut lines = vec![vec![
        (TextStyle::Bold, format!("  {}", change.path)),
        (TextStyle::Good, format!("  +{}", change.added)),
        (TextStyle::Bad, format!(" -{}", change.removed)),
    ]];
    for line in &change.lines {
        let style = match line.mark {
            "+" => TextStyle::Good,
            "-" => TextStyle::Bad,
            "@" => TextStyle::Accent,
            _ => TextStyle::Dim,
        };
        let mark = if line.mark == "@" { "" } else { line.mark };
        let text = if line.mark == "@" && line.text.is_empty() { "⋯" } else { &line.text };
        lines.push(vec![(style, format!("  {mark}{text}"))]);
    }
    if change.omitted > 0 {
        lines.push(vec![(TextStyle::Warn, format!("  … {} more lines of this file", change.omitted))]);
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plain(tool: &str, input: &Value, all: bool) -> Vec<String> {
        let lines = lines(tool, input, 80, all);
        lines.iter().map(|line| line.iter().map(|(_, text)| text.as_str()).collect()).collect()
    }

    #[test]
    fn an_edit_is_shown_as_a_diff() {
        let input = json!({"file_path": "/p/cart.py", "old_string": "def total():\n    return sum(items) + 1",
            "new_string": "def total():\n    return sum(items)", "replace_all": false});
        assert_eq!(
            plain("Edit", &input, false),
            [
                "  /p/cart.py  +1 -1",
                "   def total():",
                "  -    return sum(items) + 1",
                "  +    return sum(items)"
            ]
        );
    }

    #[test]
    fn a_plan_and_a_command_are_shown_whole() {
        let plan = json!({"plan": "# Plan\n\n1. Read **all**\n2. Fix"});
        assert_eq!(
            plain("ExitPlanMode", &plan, false),
            ["  │ Plan", "  │ ", "  │ 1. Read all", "  │ 2. Fix"]
        );
        let command = json!({"command": "rm -rf build\nmake", "description": "Build again"});
        assert_eq!(
            plain("Bash", &command, false),
            ["  $ rm -rf build", "    make", "    description: Build again"]
        );
        let codex = json!({"command": ["bash", "-lc", "npm test"], "cwd": "/p"});
        assert_eq!(plain("shell", &codex, false), ["  $ npm test", "    cwd: /p"]);
    }

    #[test]
    fn a_long_change_says_what_it_leaves_out() {
        let input = json!({"file_path": "/p/a", "content": "x\n".repeat(200)});
        let short = plain("Write", &input, false);
        assert!(short.last().unwrap().contains("more lines; type ? to see all"), "{short:?}");
        assert_eq!(plain("Write", &input, true).len(), 201);
    }
}
