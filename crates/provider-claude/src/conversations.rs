//! Conversations that Claude Code keeps below its folder `projects`: a file for each, named by its id. Sub-agents and
//! what the program adds to prompts by itself are left out. Pure except for reading those files.

use std::path::PathBuf;

use agent_port::conversations::{
    ConversationEntry, ConversationFiles, ConversationSummary, EntryKind, PastConversation,
};
use domain::{Error, Timestamp};
use serde_json::Value;

use super::title;
use super::wire::Look as _;
use crate::limits;
use provider_common::conversation_file::{candidates, contains, for_each_line, is_plain_id, timestamp};
use provider_common::text::one_line;

/// The conversations below one folder `projects`.
pub(super) struct ClaudeConversations {
    pub(super) projects: Option<PathBuf>,
}

impl ClaudeConversations {
    /// Looks where the program itself would, with the daemon's own environment.
    pub(super) fn of_this_user() -> Self {
        let named = std::env::var_os("CLAUDE_CONFIG_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let folder =
            named.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".claude")));
        Self { projects: folder.map(|folder| folder.join("projects")) }
    }

    fn files(&self) -> Vec<PathBuf> {
        let found = self.projects.as_ref().map(|projects| candidates(projects, 1)).unwrap_or_default();
        found.into_iter().map(|one| one.path).collect()
    }
}

impl ConversationFiles for ClaudeConversations {
    fn list(&self) -> Result<Vec<ConversationSummary>, Error> {
        let mut found = Vec::new();
        for path in self.files().into_iter().take(limits::CONVERSATIONS_LISTED_MAX) {
            let mut reading = Reading::default();
            // One that cannot be read, or was removed meanwhile, hides no other.
            let is_wanted = |line: &[u8]| contains(line, "\"type\":\"user\"") || contains(line, "itle\":");
            if for_each_line(&path, is_wanted, |line| reading.take(&line, true)).is_ok()
                && let Some(summary) = reading.summary(&path)
            {
                found.push(summary);
            }
        }
        Ok(found)
    }

    fn read(&self, id: &str) -> Result<Option<PastConversation>, Error> {
        let file = format!("{id}.jsonl");
        let path = self.files().into_iter().find(|path| path.file_name().is_some_and(|name| *name == *file));
        let Some(path) = path.filter(|_| is_plain_id(id)) else { return Ok(None) };
        let mut reading = Reading::default();
        let complete = for_each_line(&path, |_| true, |line| reading.take(&line, false))?;
        let Some(summary) = reading.summary(&path) else { return Ok(None) };
        let truncated = !complete || reading.entries.len() >= limits::CONVERSATION_EVENTS_MAX;
        Ok(Some(PastConversation { summary, model: reading.model, entries: reading.entries, truncated }))
    }

    fn way_back(&self, id: &str) -> String {
        format!("claude --resume {id}")
    }
}

/// What was read of one file so far.
#[derive(Default)]
struct Reading {
    folder: PathBuf,
    title: String,
    first_prompt: String,
    model: String,
    started_at: Timestamp,
    last_at: Timestamp,
    turns: u64,
    entries: Vec<ConversationEntry>,
}

impl Reading {
    fn summary(&self, path: &std::path::Path) -> Option<ConversationSummary> {
        let id = path.file_stem()?.to_str()?;
        // Files without a prompt are those of sub-agents, or nothing was said.
        (self.turns > 0).then(|| ConversationSummary {
            id: id.to_owned(),
            folder: self.folder.clone(),
            title: if self.title.is_empty() { self.first_prompt.clone() } else { self.title.clone() },
            started_at: self.started_at,
            last_at: self.last_at,
            turns: self.turns,
        })
    }

    /// Handles one line.
    fn take(&mut self, line: &Value, prompts_only: bool) {
        match line.text("type") {
            "summary" => self.title = one_line(line.text("summary"), limits::TITLE_MAX_CHARS),
            "custom-title" | "ai-title" => {
                let title = [line.text("title"), line.text("customTitle"), line.text("aiTitle")];
                if let Some(title) = title.into_iter().find(|title| !title.is_empty()) {
                    self.title = one_line(title, limits::TITLE_MAX_CHARS);
                }
            }
            "user" | "assistant" if line.is("isSidechain") => {}
            "user" => self.user(line, prompts_only),
            "assistant" if !prompts_only => self.assistant(line),
            _ => {}
        }
    }

    fn user(&mut self, line: &Value, prompts_only: bool) {
        let at = timestamp(line.text("timestamp"));
        self.see(line, at);
        let content = line.under("message").under("content");
        let mut prompt = content.as_str().unwrap_or_default().to_owned();
        for block in content.as_array().map(Vec::as_slice).unwrap_or_default() {
            match block.text("type") {
                "text" => {
                    if !prompt.is_empty() {
                        prompt.push('\n');
                    }
                    prompt.push_str(block.text("text"));
                }
                "tool_result" if !prompts_only => {
                    let call = block.text("tool_use_id").to_owned();
                    let output = plain(block.under("content"));
                    self.push(at, EntryKind::CallFinished { call, ok: !block.is("is_error"), output });
                }
                _ => {}
            }
        }
        if prompt.trim().is_empty() || line.is("isMeta") {
            return;
        }
        if prompt.starts_with("[Request interrupted by user") {
            self.push(at, EntryKind::TurnEnded { interrupted: true });
            return;
        }
        self.turns += 1;
        if self.first_prompt.is_empty() {
            self.first_prompt = one_line(&prompt, limits::TITLE_MAX_CHARS);
        }
        if !prompts_only {
            self.push(at, EntryKind::prompt(prompt));
        }
    }

    fn assistant(&mut self, line: &Value) {
        let at = timestamp(line.text("timestamp"));
        self.see(line, at);
        let message = line.under("message");
        let model = message.text("model");
        // Texts of the program itself have such a name.
        if !model.is_empty() && !model.starts_with('<') {
            model.clone_into(&mut self.model);
        }
        for block in message.list("content") {
            let kind = match block.text("type") {
                "text" => EntryKind::Text(block.text("text").to_owned()),
                "thinking" => EntryKind::Thinking(block.text("thinking").to_owned()),
                "tool_use" => {
                    let (tool, input) = (block.text("name"), block.under("input").clone());
                    EntryKind::CallStarted {
                        call: block.text("id").to_owned(),
                        title: title::of(tool, &input),
                        tool: tool.to_owned(),
                        input,
                    }
                }
                _ => continue,
            };
            self.push(at, kind);
        }
    }

    fn see(&mut self, line: &Value, at: Timestamp) {
        let folder = line.text("cwd");
        // The conversation is resumed where it began.
        if self.folder.as_os_str().is_empty() && !folder.is_empty() {
            self.folder = PathBuf::from(folder);
        }
        if self.started_at.0 == 0 {
            self.started_at = at;
        }
        self.last_at = self.last_at.max(at);
    }

    fn push(&mut self, at: Timestamp, kind: EntryKind) {
        let is_empty = matches!(&kind, EntryKind::Text(text) | EntryKind::Thinking(text) if text.is_empty());
        if !is_empty && self.entries.len() < limits::CONVERSATION_EVENTS_MAX {
            self.entries.push(ConversationEntry { at, kind });
        }
    }
}

/// Returns the text of a tool's result: a text, or blocks of which some are texts.
fn plain(content: &Value) -> String {
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<&str> =
        blocks.iter().map(|block| block.text("text")).filter(|text| !text.is_empty()).collect();
    texts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0c8d0a2e-6f0e-4b0f-9f55-3d6d3f1c2a11";

    /// Lines as Claude Code 2.1.325 writes them, shortened.
    const FILE: &str = r#"{"type":"queue-operation","operation":"enqueue","timestamp":"2026-11-16T10:37:32.535Z","sessionId":"x","content":"hidden"}
{"parentUuid":null,"isSidechain":false,"type":"user","message":{"role":"user","content":"Fix the bug\nin a.rs"},"uuid":"u1","timestamp":"2026-11-16T10:37:32.556Z","cwd":"/home/anna/shop","sessionId":"x","version":"2.1.325"}
{"parentUuid":"u1","isSidechain":false,"attachment":{"type":"date"},"type":"attachment","uuid":"a1","timestamp":"2026-11-16T10:37:32.555Z"}
{"parentUuid":"a1","isSidechain":false,"type":"assistant","message":{"role":"assistant","model":"claude-sonnet-5-5","content":[{"type":"thinking","thinking":"Let me see."},{"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"cat a.rs"}}]},"uuid":"u2","timestamp":"2026-11-16T10:37:33.000Z","cwd":"/home/anna/shop"}
{"parentUuid":"u2","isSidechain":true,"type":"user","message":{"role":"user","content":"for a sub-agent"},"uuid":"s1","timestamp":"2026-11-16T10:37:33.100Z"}
{"parentUuid":"u2","isSidechain":false,"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"fn main() {}"}],"is_error":false}]},"uuid":"u3","timestamp":"2026-11-16T10:37:34.000Z"}
{"parentUuid":"u3","isSidechain":false,"isMeta":true,"type":"user","message":{"role":"user","content":"Caveat: added by the program"},"uuid":"u4","timestamp":"2026-11-16T10:37:34.100Z"}
{"parentUuid":"u3","isSidechain":false,"type":"assistant","message":{"role":"assistant","model":"<synthetic>","content":[{"type":"text","text":"Done."}]},"uuid":"u5","timestamp":"2026-11-16T10:37:35.000Z"}
{"type":"custom-title","customTitle":"The bug in a.rs","sessionId":"x"}
"#;

    #[test]
    fn a_conversation_is_listed_and_read() {
        let root = tempfile::tempdir().unwrap();
        let project = root.path().join("-home-anna-shop");
        std::fs::create_dir(&project).unwrap();
        std::fs::write(project.join(format!("{ID}.jsonl")), FILE).unwrap();
        std::fs::write(project.join("agent-1.jsonl"), "{\"type\":\"user\",\"isSidechain\":true}\n").unwrap();
        let files = ClaudeConversations { projects: Some(root.path().to_owned()) };
        let listed = files.list().unwrap();
        assert_eq!(listed.len(), 1);
        let one = &listed[0];
        assert_eq!((one.id.as_str(), one.title.as_str(), one.turns), (ID, "The bug in a.rs", 1));
        assert_eq!(one.folder, PathBuf::from("/home/anna/shop"));
        let read = files.read(ID).unwrap().unwrap();
        assert_eq!((read.model.as_str(), read.truncated), ("claude-sonnet-5-5", false));
        assert_eq!(read.summary.last_at, timestamp("2026-11-16T10:37:35.000Z"));
        let kinds: Vec<EntryKind> = read.entries.into_iter().map(|entry| entry.kind).collect();
        assert_eq!(
            kinds,
            [
                EntryKind::prompt("Fix the bug\nin a.rs"),
                EntryKind::Thinking("Let me see.".to_owned()),
                EntryKind::Text("I look.".to_owned()),
                EntryKind::CallStarted {
                    call: "toolu_1".to_owned(),
                    tool: "Bash".to_owned(),
                    input: serde_json::json!({"command": "cat a.rs"}),
                    title: "Bash: cat a.rs".to_owned(),
                },
                EntryKind::CallFinished {
                    call: "toolu_1".to_owned(),
                    ok: true,
                    output: "fn main() {}".to_owned()
                },
                EntryKind::Text("Done.".to_owned()),
            ]
        );
        for id in ["other", "../x", "", "*"] {
            assert_eq!(files.read(id).unwrap(), None, "{id}");
        }
        assert_eq!(files.way_back(ID), format!("claude --resume {ID}"));
    }
}
