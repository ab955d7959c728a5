//! What a session is created with, and the statuses it can have. What happens to it later is in `state`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::containment::Containment;
use crate::id::{CampaignId, SessionId};
use crate::permission::{Mode, Place};
use crate::time::Timestamp;

/// A kind of agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderKind {
    ClaudeCode,
    Openclaw,
    Codex,
    OpenaiApi,
    /// Any agent that speaks the Agent Client Protocol.
    Acp,
    /// The built-in agent that follows a script in its prompt; needs no model.
    Scripted,
    /// An agent that runs outside the daemon and whose activity is reported to it; takes no prompts.
    External,
}

/// What a provider is called that takes `append_system_prompt`, among the capabilities that clients are told of.
pub const SYSTEM_PROMPT_CAPABILITY: &str = "system prompt";

impl ProviderKind {
    /// Every provider.
    pub const ALL: [ProviderKind; 7] = [
        Self::ClaudeCode,
        Self::Openclaw,
        Self::Codex,
        Self::OpenaiApi,
        Self::Acp,
        Self::Scripted,
        Self::External,
    ];

    /// Returns the printed name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Openclaw => "openclaw",
            Self::Codex => "codex",
            Self::OpenaiApi => "openai-api",
            Self::Acp => "acp",
            Self::Scripted => "scripted",
            Self::External => "external",
        }
    }

    /// Parses the printed name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == text)
    }
}

/// The statuses of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    #[default]
    Created,
    Starting,
    /// Idle, waiting for input.
    Running,
    /// A turn is open.
    Working,
    Stopping,
    /// Terminal: clean end.
    Stopped,
    /// Terminal: an error ended it.
    Failed,
}

impl Status {
    /// Every status.
    pub const ALL: [Status; 7] = [
        Self::Created,
        Self::Starting,
        Self::Running,
        Self::Working,
        Self::Stopping,
        Self::Stopped,
        Self::Failed,
    ];

    /// Returns whether only a restart or a resume leaves it.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Stopped | Self::Failed)
    }

    /// Returns whether an agent process may exist.
    pub fn has_agent(self) -> bool {
        matches!(self, Self::Starting | Self::Running | Self::Working | Self::Stopping)
    }

    /// Returns the printed name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Starting => "STARTING",
            Self::Running => "RUNNING",
            Self::Working => "WORKING",
            Self::Stopping => "STOPPING",
            Self::Stopped => "STOPPED",
            Self::Failed => "FAILED",
        }
    }

    /// Parses the printed name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == text)
    }
}

/// When the agent of a session starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaunchPolicy {
    /// At once.
    #[default]
    Now,
    /// With the first prompt; a stopped session starts again with the next one.
    OnPrompt,
}

/// What happens to a session automatically. Nothing, unless its creator asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timeouts {
    /// An unanswered permission is denied after this long while a client holds the input.
    pub attended_wait: Option<Duration>,
    /// The same while no client does.
    pub unattended_wait: Option<Duration>,
    /// Activity of the session restarts `unattended_wait`.
    pub activity_extends: bool,
    /// The conversation is compacted between turns once it has more tokens than this.
    pub compact_above_tokens: Option<u64>,
    /// An agent that was idle for this long is stopped. For sessions that start with a prompt: the next
    /// prompt starts it again.
    pub idle_wait: Option<Duration>,
}

/// What a session was created with. Never changes, except for overrides by a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionSpec {
    pub id: SessionId,
    pub campaign_id: Option<CampaignId>,
    pub provider: ProviderKind,
    /// Empty: the provider's default.
    pub model: String,
    pub name: String,
    pub festival_id: String,
    pub task_id: String,
    pub parent: Option<SessionId>,
    /// The campaign's root, or the working folder if there is no campaign.
    #[serde(default)]
    pub root: PathBuf,
    /// Below the root.
    pub working_dir: PathBuf,
    pub provider_config: BTreeMap<String, String>,
    /// Added to the agent's environment. May contain secrets: never shown, never in the journal.
    pub environment: BTreeMap<String, String>,
    /// Token budget; 0 for unlimited.
    pub max_tokens: u64,
    /// Counted from the start of the session.
    pub timeout: Option<Duration>,
    pub mode: Mode,
    pub launch: LaunchPolicy,
    #[serde(rename = "upkeep", default)]
    pub timeouts: Timeouts,
    #[serde(default)]
    pub containment: Containment,
    /// Whether secrets are taken out of its events, as its campaign says; nothing: as the daemon is configured.
    #[serde(default)]
    pub scrub: Option<bool>,
    /// Workers that its agent may have at a time; 0: it may start none with the tools for that.
    #[serde(default)]
    pub workers: u32,
    pub created_at: Timestamp,
}

impl SessionSpec {
    /// Returns a session in a folder with nothing else chosen.
    pub fn new(id: SessionId, provider: ProviderKind, folder: PathBuf) -> Self {
        Self {
            id,
            campaign_id: None,
            provider,
            model: String::new(),
            name: String::new(),
            festival_id: String::new(),
            task_id: String::new(),
            parent: None,
            root: folder.clone(),
            working_dir: folder,
            provider_config: BTreeMap::new(),
            environment: BTreeMap::new(),
            max_tokens: 0,
            timeout: None,
            mode: Mode::default(),
            launch: LaunchPolicy::default(),
            timeouts: Timeouts::default(),
            containment: Containment::default(),
            scrub: None,
            workers: 0,
            created_at: Timestamp::default(),
        }
    }

    /// Returns the folders in which the session's calls are made.
    pub fn place(&self) -> Place<'_> {
        // Sessions of an older version have no root.
        let root = if self.root.as_os_str().is_empty() { &self.working_dir } else { &self.root };
        Place { working_dir: &self.working_dir, root }
    }
}
