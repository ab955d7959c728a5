//! Conversations that Codex keeps below its folder `sessions`: a file for each, by date. What the program adds to
//! prompts by itself is left out. Pure except for reading those files.

use std::path::{Path, PathBuf};

use agent_port::conversations::{
    ConversationEntry, ConversationFiles, ConversationSummary, EntryKind, PastConversation,
};
use domain::{Error, Timestamp};
use serde_json::{Value, json};

use crate::limits;
use provider_common::conversation_file::{candidates, contains, for_each_line, is_plain_id, timestamp};
use provider_common::json_fields::Look as _;
use provider_common::text::one_line;

/// Folders between `sessions` and a file: year, month, day.
const DEPTH: usize = 3;

/// The conversations below one folder `sessions`.
pub(super) struct CodexConversations {
    pub(super) sessions: Option<PathBuf>,
}

impl CodexConversations {
    /// Looks where the program itself would, with the daemon's own environment.
    pub(super) fn of_this_user() -> Self {
        let named = std::env::var_os("CODEX_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let folder =
            named.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".codex")));
        Self { sessions: folder.map(|folder| folder.join("sessions")) }
    }

    fn files(&self) -> Vec<PathBuf> {
        let found = self.sessions.as_ref().map(|sessions| candidates(sessions, DEPTH)).unwrap_or_default();
        found.into_iter().map(|one| one.path).collect()
    }
}

impl ConversationFiles for CodexConversations {
    fn list(&self) -> Result<Vec<ConversationSummary>, Error> {
        let mut found = Vec::new();
        for path in self.files().into_iter().take(limits::CONVERSATIONS_LISTED_MAX) {
            let mut reading = Reading::default();
            let is_wanted = |line: &[u8]| {
                let head = line.get(..512).unwrap_or(line);
                contains(head, "session_meta")
                    || contains(head, "user_message")
                    || contains(head, "UserMessage")
                    || contains(head, "task_complete")
            };
            // One that cannot be read, or was removed meanwhile, hides no other.
            if for_each_line(&path, is_wanted, |line| reading.take(&line)).is_ok()
                && let Some(summary) = reading.summary()
            {
                found.push(summary);
            }
        }
        Ok(found)
    }

    fn read(&self, id: &str) -> Result<Option<PastConversation>, Error> {
        if !is_plain_id(id) {
            return Ok(None);
        }
        let end = format!("-{id}.jsonl");
        let named = |path: &&PathBuf| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(&end))
        };
        let files = self.files();
        let Some(path) = files.iter().find(named) else { return Ok(None) };
        let mut reading = Reading::default();
        let complete = for_each_line(path, |_| true, |line| reading.take(&line))?;
        let Some(summary) = reading.summary().filter(|summary| summary.id == id) else { return Ok(None) };
        let truncated = !complete || reading.entries.len() >= limits::CONVERSATION_EVENTS_MAX;
        Ok(Some(PastConversation { summary, model: reading.model, entries: reading.entries, truncated }))
    }

    fn way_back(&self, id: &str) -> String {
        format!("codex resume {id}")
    }
}

/// What was read of one file so far.
#[derive(Default)]
struct Reading {
    id: String,
    folder: PathBuf,
    first_prompt: String,
    model: String,
    started_at: Timestamp,
    last_at: Timestamp,
    turns: u64,
    entries: Vec<ConversationEntry>,
    /// The file belongs to a sub-agent.
    is_worker: bool,
}

impl Reading {
    fn summary(&self) -> Option<ConversationSummary> {
        (self.turns > 0 && !self.id.is_empty() && !self.is_worker).then(|| ConversationSummary {
            id: self.id.clone(),
            folder: self.folder.clone(),
            title: self.first_prompt.clone(),
            started_at: self.started_at,
            last_at: self.last_at,
            turns: self.turns,
        })
    }

    /// Handles one line.
    fn take(&mut self, line: &Value) {
        let at = timestamp(line.text("timestamp"));
        if self.started_at.0 == 0 {
            self.started_at = at;
        }
        self.last_at = self.last_at.max(at);
        let payload = line.under("payload");
        match line.text("type") {
            "session_meta" if self.id.is_empty() => {
                payload.text("id").clone_into(&mut self.id);
                self.folder = Path::new(payload.text("cwd")).to_owned();
                self.is_worker = payload.under("source").get("subagent").is_some();
            }
            "turn_context" if !payload.text("model").is_empty() => {
                payload.text("model").clone_into(&mut self.model);
            }
            "event_msg" => self.event(at, payload),
            "response_item" => self.item(at, payload),
            _ => {}
        }
    }

    fn event(&mut self, at: Timestamp, payload: &Value) {
        match payload.text("type") {
            // Older versions write the first, newer ones the second.
            "user_message" => self.prompt(at, payload.text("message")),
            "item_completed" if payload.under("item").text("type") == "UserMessage" => {
                let content = payload.under("item").list("content");
                let texts: Vec<&str> = content.iter().map(|part| part.text("text")).collect();
                self.prompt(at, &texts.join("\n"));
            }
            "task_complete" => self.push(at, EntryKind::TurnEnded { interrupted: false }),
            "turn_aborted" => self.push(at, EntryKind::TurnEnded { interrupted: true }),
            _ => {}
        }
    }

    fn prompt(&mut self, at: Timestamp, text: &str) {
        let is_repeated = self.entries.last().is_some_and(|last| last.kind == EntryKind::prompt(text));
        if text.trim().is_empty() || is_repeated {
            return;
        }
        self.turns += 1;
        if self.first_prompt.is_empty() {
            self.first_prompt = one_line(text, limits::TITLE_MAX_CHARS);
        }
        self.push(at, EntryKind::prompt(text));
    }

    fn item(&mut self, at: Timestamp, item: &Value) {
        let call = || item.text("call_id").to_owned();
        let started = |tool: &str, input: Value| EntryKind::CallStarted {
            call: call(),
            title: one_line(&format!("{tool}: {}", shown(&input)), limits::TITLE_MAX_CHARS),
            tool: tool.to_owned(),
            input,
        };
        let kind = match item.text("type") {
            "message" if item.text("role") == "assistant" => {
                let texts: Vec<&str> = item.list("content").iter().map(|part| part.text("text")).collect();
                EntryKind::Text(texts.concat())
            }
            "reasoning" => {
                let texts: Vec<&str> = item.list("summary").iter().map(|part| part.text("text")).collect();
                EntryKind::Thinking(texts.join("\n"))
            }
            "function_call" => {
                let arguments = item.text("arguments");
                let input =
                    serde_json::from_str(arguments).unwrap_or_else(|_| json!({"arguments": arguments}));
                started(item.text("name"), input)
            }
            "custom_tool_call" => started(item.text("name"), json!({"input": item.text("input")})),
            "local_shell_call" => started("shell", item.under("action").clone()),
            "function_call_output" | "custom_tool_call_output" => {
                let output = item.under("output");
                let text = output.as_str().map_or_else(|| output.text("content").to_owned(), str::to_owned);
                let ok = output.get("success").and_then(Value::as_bool).unwrap_or(true);
                EntryKind::CallFinished { call: call(), ok, output: text }
            }
            _ => return,
        };
        self.push(at, kind);
    }

    fn push(&mut self, at: Timestamp, kind: EntryKind) {
        let is_empty = matches!(&kind, EntryKind::Text(text) | EntryKind::Thinking(text) if text.is_empty());
        if !is_empty && self.entries.len() < limits::CONVERSATION_EVENTS_MAX {
            self.entries.push(ConversationEntry { at, kind });
        }
    }
}

/// Returns the part of a call's input that describes the call best.
fn shown(input: &Value) -> String {
    let command = input.get("command").or_else(|| input.get("cmd")).or_else(|| input.get("input"));
    match command {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        _ => input.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01a1e3ef-065e-7510-afd5-1273ac633d8d";

    /// Lines as Codex writes them, shortened.
    const FILE: &str = r#"{"timestamp":"2026-11-16T10:37:35.260Z","type":"session_meta","payload":{"id":"01a1e3ef-065e-7510-afd5-1273ac633d8d","cwd":"/home/anna/shop","originator":"codex_cli_rs","source":"cli"}}
{"timestamp":"2026-11-16T10:37:35.279Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>"}]}}
{"timestamp":"2026-11-16T10:37:35.282Z","type":"turn_context","payload":{"cwd":"/home/anna/shop","model":"gpt-5.5"}}
{"timestamp":"2026-11-16T10:37:35.289Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Fix the bug"}]}}
{"timestamp":"2026-11-16T10:37:35.290Z","type":"event_msg","payload":{"type":"item_completed","item":{"type":"UserMessage","content":[{"type":"text","text":"Fix the bug"}]}}}
{"timestamp":"2026-11-16T10:37:35.300Z","type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{\"command\":[\"cat\",\"a.rs\"]}","call_id":"call_1"}}
{"timestamp":"2026-11-16T10:37:35.310Z","type":"response_item","payload":{"type":"function_call_output","call_id":"call_1","output":"fn main() {}"}}
{"timestamp":"2026-11-16T10:37:35.313Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]}}
{"timestamp":"2026-11-16T10:37:35.320Z","type":"event_msg","payload":{"type":"task_complete","last_agent_message":"Done."}}
"#;

    #[test]
    fn a_conversation_is_listed_and_read() {
        let root = tempfile::tempdir().unwrap();
        let day = root.path().join("2026/11/16");
        std::fs::create_dir_all(&day).unwrap();
        std::fs::write(day.join(format!("rollout-2026-11-16T10-37-35-{ID}.jsonl")), FILE).unwrap();
        let files = CodexConversations { sessions: Some(root.path().to_owned()) };
        let listed = files.list().unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(
            (listed[0].id.as_str(), listed[0].title.as_str(), listed[0].turns),
            (ID, "Fix the bug", 1)
        );
        let read = files.read(ID).unwrap().unwrap();
        assert_eq!(
            (read.model.as_str(), read.summary.folder.as_path()),
            ("gpt-5.5", Path::new("/home/anna/shop"))
        );
        let kinds: Vec<EntryKind> = read.entries.into_iter().map(|entry| entry.kind).collect();
        assert_eq!(
            kinds,
            [
                EntryKind::prompt("Fix the bug"),
                EntryKind::CallStarted {
                    call: "call_1".to_owned(),
                    tool: "shell".to_owned(),
                    input: json!({"command": ["cat", "a.rs"]}),
                    title: "shell: cat a.rs".to_owned(),
                },
                EntryKind::CallFinished {
                    call: "call_1".to_owned(),
                    ok: true,
                    output: "fn main() {}".to_owned()
                },
                EntryKind::Text("Done.".to_owned()),
                EntryKind::TurnEnded { interrupted: false },
            ]
        );
        assert_eq!(files.read("../x").unwrap(), None);
        assert_eq!(files.read("01a1").unwrap(), None);
    }
}
