//! The list of the agents obey can run. Each is a crate of its own that defines how its agent starts and translates the
//! agent's protocol to the types of `domain` and back; none keeps sessions, sees another provider or knows a protocol we
//! serve.

mod external;

pub use provider_acp as acp;
pub use provider_claude as claude_code;
pub use provider_codex as codex;
pub use provider_openai as openai;
pub use provider_openclaw as openclaw;
pub use provider_scripted as scripted;

use std::path::PathBuf;
use std::sync::Arc;

use agent_port::Providers;
use agent_port::toolbox::SessionToolbox;

/// The daemon's configuration of agents. Never filled from a request: a client that could name the program
/// could run any program.
#[derive(Clone, Default)]
pub struct ProviderOptions {
    /// The daemon's own executable; the scripted agent is a mode of it.
    pub obey_exe: PathBuf,
    /// Claude Code's program; if absent, `claude` on the agent's `PATH`.
    pub claude_binary: Option<PathBuf>,
    /// Codex's program; if absent, `codex` on the agent's `PATH`.
    pub codex_binary: Option<PathBuf>,
    /// The program Codex runs at the end of a turn; empty for none.
    pub codex_notify: Vec<String>,
    pub openclaw: openclaw::OpenclawOptions,
    /// ACP agents by name.
    pub acp_agents: acp::NamedAgents,
    /// The tools of agents inside the daemon; if absent, such agents cannot be started.
    pub toolbox: Option<Arc<dyn SessionToolbox>>,
}

/// Returns every provider of this build.
pub fn all(options: &ProviderOptions) -> Providers {
    Providers::new(vec![
        Arc::new(claude_code::ClaudeCode::new(options.claude_binary.clone())),
        Arc::new(
            codex::Codex::new(options.codex_binary.clone())
                .with_notify(options.codex_notify.clone(), options.obey_exe.clone()),
        ),
        Arc::new(openclaw::Openclaw::new(options.openclaw.clone())),
        Arc::new(openai::OpenaiApi::new(options.toolbox.clone())),
        Arc::new(acp::Acp::new(options.acp_agents.clone(), options.toolbox.clone())),
        Arc::new(scripted::Scripted::new(options.obey_exe.clone())),
        Arc::new(external::External),
    ])
}
