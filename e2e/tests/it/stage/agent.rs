//! Who plays the agent. Scenarios are the same for all; what differs between agents, and what one of them cannot do, is
//! said here and nowhere else, with what was seen of it.

use anyhow::Result;
use e2e::world::World;
use serde_json::{Value, json};
use wire::obey::local::v1 as pb;

/// An agent of the scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agent {
    Scripted,
    Claude,
    Codex,
    /// The agent inside the daemon, over the Responses API.
    Openai,
    /// The same over Chat Completions.
    OpenaiChat,
    /// The native `codex-acp`, as any agent that speaks the Agent Client Protocol.
    Acp,
    Opencode,
    Goose,
    Gemini,
    /// The published adapter of Claude Code, `@agentclientprotocol/claude-agent-acp`.
    ClaudeAcp,
    /// The published adapter of Codex, `@agentclientprotocol/codex-acp`.
    CodexAcp,
    /// OpenClaw through a gateway that the test started.
    Openclaw,
}

use Agent::*;

impl Agent {
    pub(crate) const ALL: [Agent; 12] = [
        Scripted, Claude, Codex, Openai, OpenaiChat, Acp, Opencode, Goose, Gemini, ClaudeAcp, CodexAcp,
        Openclaw,
    ];

    /// The program it is, as it is found on PATH; none where it is part of the daemon.
    pub(crate) fn program(self) -> Option<&'static str> {
        match self {
            Scripted | Openai | OpenaiChat => None,
            Claude => Some("claude"),
            Codex => Some("codex"),
            Acp | CodexAcp => Some("codex-acp"),
            Opencode => Some("opencode"),
            Goose => Some("goose"),
            Gemini => Some("gemini"),
            ClaudeAcp => Some("claude-agent-acp"),
            Openclaw => Some("openclaw"),
        }
    }

    /// What `sed` does to its lines so that its version is one nobody tested.
    pub(crate) fn other_version(self) -> &'static str {
        match self {
            Claude => r#"s/"claude_code_version":"[0-9.]*"/"claude_code_version":"9.9.999"/"#,
            Codex => r#"s/0[.]166[.]0/0.999.0/g"#,
            Acp => r#"s/"version": *"0[.]16[.]0"/"version":"0.999.0"/"#,
            CodexAcp => r#"s/"version": *"2[.]6[.]0"/"version":"2.999.0"/"#,
            ClaudeAcp => r#"s/"version": *"0[.]99[.]0"/"version":"0.999.0"/"#,
            Gemini => r#"s/"version": *"0[.]61[.]0"/"version":"0.999.0"/"#,
            Opencode => r#"s/"version": *"1[.]18[.]33"/"version":"1.999.0"/"#,
            // Goose does not say which version it is.
            _ => r#"s/"protocolVersion": *1/"protocolVersion":7/"#,
        }
    }

    pub(crate) fn provider(self) -> pb::SessionProvider {
        match self {
            Scripted => pb::SessionProvider::Scripted,
            Claude => pb::SessionProvider::ClaudeCode,
            Codex => pb::SessionProvider::Codex,
            Openai | OpenaiChat => pb::SessionProvider::OpenaiApi,
            Acp | Opencode | Goose | Gemini | ClaudeAcp | CodexAcp => pb::SessionProvider::Acp,
            Openclaw => pb::SessionProvider::Openclaw,
        }
    }

    /// As `--provider` takes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scripted => "scripted",
            Claude => "claude-code",
            Codex => "codex",
            Openai | OpenaiChat => "openai-api",
            Acp | Opencode | Goose | Gemini | ClaudeAcp | CodexAcp => "acp",
            Openclaw => "openclaw",
        }
    }

    pub(crate) fn model(self) -> &'static str {
        match self {
            Claude => "sonnet",
            Codex | Openai | OpenaiChat => "gpt-5.5",
            _ => "",
        }
    }

    /// Whether a model stands behind it.
    pub(crate) fn is_real(self) -> bool {
        self != Scripted
    }

    /// Whether it is a process, which can be killed.
    pub(crate) fn is_process(self) -> bool {
        !matches!(self, Openai | OpenaiChat | Openclaw)
    }

    /// What a session of it must be configured with.
    pub(crate) fn config(self) -> &'static [(&'static str, &'static str)] {
        match self {
            OpenaiChat => &[("wire_api", "chat")],
            Acp | CodexAcp => &[("agent", "codex-acp")],
            Opencode => &[("agent", "opencode")],
            Goose => &[("agent", "goose")],
            Gemini => &[("agent", "gemini")],
            ClaudeAcp => &[("agent", "claude-agent-acp")],
            _ => &[],
        }
    }

    /// Whether it tells tokens of input and output apart; some agents only say how full their window is.
    pub(crate) fn counts_tokens(self) -> bool {
        self != Acp
    }

    /// Whether it can ask its user something.
    pub(crate) fn asks_questions(self) -> bool {
        self.provider() != pb::SessionProvider::Acp && self != Openclaw
    }

    /// Whether its model hears of a denial within the same turn.
    pub(crate) fn goes_on_when_denied(self) -> bool {
        !matches!(self, Acp | CodexAcp | Opencode)
    }

    /// Whether it asks even about commands that only look.
    pub(crate) fn asks_about_everything(self) -> bool {
        matches!(self, Goose | Gemini | Openclaw)
    }

    /// Whether it gives its connection to the model up when it is interrupted.
    pub(crate) fn hangs_up(self) -> bool {
        self.is_real() && self != Acp
    }

    /// A reply that says `half a` and never ends by itself. Goose hears an interrupt only between two pieces of a reply:
    /// while its model says nothing it never answers, so its model goes on slowly.
    pub(crate) fn endless(self) -> Value {
        if self == Goose {
            return json!([{"text": "half a "}, {"text": "word and ".repeat(2000), "chunks": 2000, "gap_ms": 100}]);
        }
        json!([{"text": "half a "}, {"hang": true}])
    }

    /// Steps for a session whose model knows tools of servers by names of that session alone, and calls them through
    /// another tool, because it was not shown them: OpenClaw's.
    pub(crate) fn steps(self, session: &str, steps: &Value) -> Value {
        if self != Openclaw {
            return steps.clone();
        }
        match steps {
            Value::Array(all) => all.iter().map(|step| self.steps(session, step)).collect(),
            step => match step["tool"].as_str().and_then(|tool| tool.strip_prefix("mcp__")?.split_once("__"))
            {
                Some((server, tool)) => {
                    let id = format!("{}__{tool}", server_at_gateway(session, server));
                    json!({"tool": "tool_call", "input": {"id": id, "args": step["input"]}})
                }
                None => step.clone(),
            },
        }
    }

    /// Whether it shows what a command printed; Gemini's calls end with an empty content.
    pub(crate) fn shows_output(self) -> bool {
        self != Gemini
    }

    /// Whether it shows what its model thinks.
    pub(crate) fn shows_thinking(self) -> bool {
        self != Openclaw
    }

    /// What it calls the tool that runs commands; scripts call it `Bash`.
    pub(crate) fn shell(self) -> &'static str {
        if self == Codex { "shell" } else { "Bash" }
    }

    /// A step that runs a command it must ask about.
    pub(crate) fn asking(self, command: &str) -> Value {
        let mut step = json!({"tool": "Bash", "input": {"command": command}, "ask": true, "result": "done"});
        if matches!(self, Codex | Acp | CodexAcp) {
            // It reads without asking and asks about what leaves its sandbox.
            step["input"]["sandbox_permissions"] = "require_escalated".into();
            step["input"]["justification"] = "to try".into();
        }
        step
    }

    /// The conversation as its model was sent it.
    pub(crate) fn history(self, body: &Value) -> String {
        let field = match self {
            Codex | Openai | Acp | CodexAcp => "input",
            Gemini => "contents",
            _ => "messages",
        };
        body[field].to_string()
    }

    /// Lets time pass between a stop and a restart, where the agent needs it: Gemini names the file of a conversation
    /// by the minute, and one that is loaded within the minute it began in is overwritten before it is read.
    pub(crate) fn age(self, world: &World) -> Result<()> {
        let folder = world.path("home/.gemini/tmp/project/chats");
        if self != Gemini || !folder.is_dir() {
            return Ok(());
        }
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // session-2026-11-15T11-35-282c0169.jsonl
            if let Some((_, id)) = name.rsplit_once('-') {
                std::fs::rename(&path, folder.join(format!("session-2026-01-01T00-00-{id}")))?;
            }
        }
        Ok(())
    }

    pub(crate) fn world(self) -> Result<Option<World>> {
        match self {
            Scripted => World::new().map(Some),
            Claude => World::with_claude(),
            Codex => World::with_codex(),
            Openai | OpenaiChat => World::with_openai().map(Some),
            Acp => World::with_codex_acp(),
            Opencode => World::with_opencode(),
            Goose => World::with_goose(),
            Gemini => World::with_gemini(),
            ClaudeAcp => World::with_claude_agent_acp(),
            CodexAcp => World::with_published_codex_acp(),
            Openclaw => crate::real_openclaw::world(),
        }
    }
}

/// What a gateway calls a server of a session.
pub(crate) fn server_at_gateway(session: &str, server: &str) -> String {
    let mark = session[session.len() - 10..].to_lowercase();
    if server == "obey" { format!("obey-{mark}") } else { format!("obey-{mark}-{server}") }
}
