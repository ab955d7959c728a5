//! Distills memories from a session: commands that failed until something was changed, and commands that
//! worked. Reads the session's audit rows. Pure.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{MemoryOutcome, NewMemory};
use crate::audit::{AuditOutcome, Row};
use crate::limits;
use crate::sessions::SessionOutcome;

/// Returns the memories of a session, the most informative first.
pub fn distill(task: &str, outcome: SessionOutcome, rows: &[Row]) -> Vec<NewMemory> {
    let calls: Vec<Call> = rows.iter().filter_map(call).collect();
    let mut memories = Vec::new();
    let mut told = BTreeSet::new();
    for (at, failed) in calls.iter().enumerate().filter(|(_, call)| call.failed()) {
        if !told.insert(failed.command.clone()) {
            continue;
        }
        let cured =
            calls[at + 1..].iter().position(|later| later.command == failed.command && !later.failed());
        memories.push(match cured {
            Some(after) => cure(failed, &calls[at + 1..at + 1 + after]),
            None => failure(failed, task),
        });
    }
    if let Some(memory) = way(task, outcome, &calls) {
        memories.insert(0, memory);
    }
    memories.truncate(limits::DISTILLED_MAX);
    memories
}

/// Separates a summary from the cause of a failure.
const CAUSE: &str = " · ";

/// Longest cause that a summary names.
const CAUSE_CHARS: usize = 200;

/// Adds to the summary of a failed command what it said about the cause: its first line with an error, else its last line.
pub fn with_cause(summary: &str, exit_code: i32, stdout: &str, stderr: &str) -> String {
    let names_error = |line: &&str| {
        let line = line.to_lowercase();
        ["error", "fatal", "panic", "failed", "exception", "not found", "cannot"]
            .iter()
            .any(|word| line.contains(word))
    };
    let lines = || stderr.lines().chain(stdout.lines()).map(str::trim).filter(|line| !line.is_empty());
    let last =
        || stderr.lines().rev().chain(stdout.lines().rev()).map(str::trim).find(|line| !line.is_empty());
    match lines().find(names_error).or_else(last) {
        Some(cause) if exit_code != 0 => format!("{summary}{CAUSE}{}", short(cause, CAUSE_CHARS)),
        _ => summary.to_owned(),
    }
}

/// A command that was run, or a file that was written.
struct Call {
    command: String,
    summary: String,
    /// What a failed command said about the cause; empty if unknown.
    cause: String,
    ran: bool,
    ok: bool,
}

impl Call {
    fn failed(&self) -> bool {
        self.ran && !self.ok
    }
}

/// Reads a command or a write from a row of the audit; `None` for other operations.
fn call(row: &Row) -> Option<Call> {
    let input: Value = serde_json::from_str(&row.entry.input).unwrap_or_default();
    let text = |name: &str| input.get(name).and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    let (summary, cause) = row.entry.summary.split_once(CAUSE).unwrap_or((&row.entry.summary, ""));
    let (summary, cause) = (summary.to_owned(), cause.to_owned());
    match row.entry.operation.as_str() {
        "SafeExec.Bash" if row.entry.outcome == AuditOutcome::Done => {
            let ok = summary.contains("(exit 0");
            Some(Call { command: text("cmd"), summary, cause, ran: true, ok })
        }
        "SafeExec.Write" if row.entry.outcome == AuditOutcome::Done => {
            Some(Call { command: text("path"), summary, cause, ran: false, ok: true })
        }
        _ => None,
    }
}

/// Returns the memory of a command that failed first and then worked, with the steps in between.
fn cure(failed: &Call, between: &[Call]) -> NewMemory {
    let steps: Vec<String> = between.iter().map(|call| format!("- {}", call.summary)).collect();
    let steps = if steps.is_empty() { "- running it again".to_owned() } else { steps.join("\n") };
    let mut files: Vec<&str> =
        between.iter().filter(|call| !call.ran).map(|call| call.command.as_str()).collect();
    files.sort_unstable();
    files.dedup();
    memory(
        &format!("What made `{}` work", short(&failed.command, 60)),
        &described(
            failed,
            &format!("`{}` failed at first and worked after a change", short(&failed.command, 200)),
        ),
        &format!("{}\nFix:\n{steps}{}", problem(failed), listed("Files", &files)),
        MemoryOutcome::Success,
    )
}

/// Names the problem and, if it is known, its cause.
fn problem(failed: &Call) -> String {
    let cause = if failed.cause.is_empty() { "unknown" } else { &failed.cause };
    format!("Problem: {}\nCause: {cause}", failed.summary)
}

/// Adds the cause to a description, so that a search for the error finds the memory.
fn described(failed: &Call, text: &str) -> String {
    if failed.cause.is_empty() { text.to_owned() } else { format!("{text}: {}", failed.cause) }
}

fn listed(name: &str, items: &[&str]) -> String {
    if items.is_empty() { String::new() } else { format!("\n{name}: {}", items.join(", ")) }
}

/// Returns the memory of a command that never worked.
fn failure(failed: &Call, task: &str) -> NewMemory {
    let about = if task.is_empty() { String::new() } else { format!(" during: {}", short(task, 200)) };
    memory(
        &format!("`{}` failed", short(&failed.command, 60)),
        &described(failed, &format!("A command that failed and was not made to work{about}")),
        &format!("{}\nCommand: {}\nFix: none was found", problem(failed), failed.command),
        MemoryOutcome::Failure,
    )
}

/// How the task was done; only if there was a task and something was done for it.
fn way(task: &str, outcome: SessionOutcome, calls: &[Call]) -> Option<NewMemory> {
    let mut seen = BTreeSet::new();
    let steps: Vec<String> = calls
        .iter()
        .filter(|call| call.ok && seen.insert(call.command.clone()))
        .map(|call| format!("- {}", call.summary))
        .take(20)
        .collect();
    if task.is_empty() || steps.is_empty() {
        return None;
    }
    let (word, outcome) = match outcome {
        SessionOutcome::Failure => ("What was tried for", MemoryOutcome::Failure),
        SessionOutcome::Partial => ("What was done so far for", MemoryOutcome::Mixed),
        SessionOutcome::Success => ("How to", MemoryOutcome::Success),
    };
    Some(memory(
        &format!("{word}: {}", short(task, 80)),
        &format!("A session with the task: {}", short(task, 400)),
        &steps.join("\n"),
        outcome,
    ))
}

fn memory(title: &str, description: &str, content: &str, outcome: MemoryOutcome) -> NewMemory {
    NewMemory {
        title: short(title, limits::TITLE_CHARS),
        description: short(description, limits::DESCRIPTION_CHARS),
        content: short(content, limits::CONTENT_CHARS),
        outcome,
        tags: vec!["distilled".to_owned()],
        session: String::new(),
        distilled: true,
    }
}

fn short(text: &str, chars: usize) -> String {
    let line = text.trim();
    if line.chars().count() <= chars {
        return line.to_owned();
    }
    line.chars().take(chars.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::AuditEntry;

    fn row(operation: &str, input: Value, summary: &str) -> Row {
        let entry = AuditEntry {
            operation: operation.into(),
            input: input.to_string(),
            outcome: AuditOutcome::Done,
            summary: summary.into(),
            ..AuditEntry::default()
        };
        Row { seq: 0, entry, body: String::new(), hash: Vec::new() }
    }

    fn bash(command: &str, exit: i32) -> Row {
        let input = serde_json::json!({ "cmd": command });
        row("SafeExec.Bash", input, &format!("Executed: {command} (exit {exit})"))
    }

    #[test]
    fn a_failure_that_was_cured_says_what_cured_it() {
        let write = row("SafeExec.Write", serde_json::json!({"path": "a.rs"}), "Wrote: a.rs (3 bytes)");
        let rows = [bash("make", 2), write, bash("make", 0)];
        let memories = distill("repair the build", SessionOutcome::Success, &rows);
        assert_eq!(memories.len(), 2);
        assert_eq!(memories[0].title, "How to: repair the build");
        assert_eq!(
            (memories[1].title.as_str(), memories[1].outcome),
            ("What made `make` work", MemoryOutcome::Success)
        );
        assert!(memories[1].content.contains("Wrote: a.rs"), "{}", memories[1].content);
    }

    #[test]
    fn a_distilled_memory_names_problem_cause_fix_and_files() {
        let summary = with_cause(
            "Executed: make (exit 2)",
            2,
            "",
            "cc -c a.c\na.c:3: error: missing semicolon\nmake: stop\n",
        );
        let failed = row("SafeExec.Bash", serde_json::json!({"cmd": "make"}), &summary);
        let write = row("SafeExec.Write", serde_json::json!({"path": "src/a.c"}), "Wrote: src/a.c (3 bytes)");
        let memories = distill("", SessionOutcome::Success, &[failed, write, bash("make", 0)]);
        assert_eq!(
            memories[0].content,
            "Problem: Executed: make (exit 2)\nCause: a.c:3: error: missing semicolon\nFix:\n- Wrote: src/a.c (3 bytes)\nFiles: src/a.c"
        );
        assert!(memories[0].description.contains("missing semicolon"), "{}", memories[0].description);
        assert_eq!(with_cause("ok", 0, "error", ""), "ok");
        assert_eq!(with_cause("bad", 1, "", "one\ntwo\n"), "bad · two");
    }

    #[test]
    fn a_failure_that_stayed_is_a_warning_and_nothing_is_nothing() {
        let memories = distill("", SessionOutcome::Failure, &[bash("make", 2), bash("make", 2)]);
        assert_eq!(memories.len(), 1);
        assert_eq!(memories[0].outcome, MemoryOutcome::Failure);
        assert!(distill("think", SessionOutcome::Success, &[]).is_empty());
    }
}
