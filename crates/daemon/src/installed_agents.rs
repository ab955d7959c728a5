//! The agents that this machine can run: the providers, and each agent of the Agent Client Protocol. Looks at files
//! only; starts nothing.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use agent_port::{Availability, Capabilities, Provider};
use config::failure::{Failure, Result};
use config::file::Config;
use domain::{ProviderKind, SYSTEM_PROMPT_CAPABILITY};
use providers::acp;
use wire::obey::v1 as pb;

/// The order in which an agent is chosen for a session that names none.
const PREFERRED: [ProviderKind; 3] = [ProviderKind::ClaudeCode, ProviderKind::Codex, ProviderKind::Openclaw];

/// Finds every agent with a `PATH`, and with the one of this process. An empty `path` is the latter.
pub fn find(config: &Config, path: &str) -> Result<pb::ListInstalledAgentsResponse> {
    let named = acp::NamedAgents::new(&config.acp.agents).map_err(Failure::failed)?;
    let all = providers::all(&providers::ProviderOptions {
        obey_exe: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("obey")),
        claude_binary: config.claude_code.binary.clone(),
        codex_binary: config.codex.binary.clone(),
        codex_notify: Vec::new(),
        openclaw: crate::openclaw_options(&config.openclaw, None),
        acp_agents: named.clone(),
        toolbox: None,
    });
    let own = std::env::var_os("PATH");
    let path = if path.is_empty() { own.as_deref() } else { Some(OsStr::new(path)) };
    let mut agents = Vec::new();
    let is_one = |kind| !matches!(kind, ProviderKind::Acp | ProviderKind::External);
    for provider in all.iter().filter(|provider| is_one(provider.kind())) {
        let found =
            Found { here: provider.availability(path), with_own_path: provider.availability(own.as_deref()) };
        agents.push(agent(provider.kind().name(), provider.as_ref(), found));
    }
    if let Some(provider) = all.iter().find(|provider| provider.kind() == ProviderKind::Acp) {
        let with_own_path = acp::availability(&named, own.as_deref());
        let here = acp::availability(&named, path);
        for ((name, here), (_, with_own_path)) in here.into_iter().zip(with_own_path) {
            agents.push(agent(&name, provider.as_ref(), Found { here, with_own_path }));
        }
    }
    let default_agent = default_agent(&config.sessions.default_provider, &agents);
    Ok(pb::ListInstalledAgentsResponse { agents, default_agent })
}

/// Returns what finds the agents for clients.
pub(crate) fn finder(config: Config) -> Arc<surface_obey::FindAgents> {
    // The names of agents were checked when the daemon started.
    Arc::new(move |path| find(&config, path).unwrap_or_default())
}

/// What is found of an agent with two `PATH`s.
struct Found {
    here: Availability,
    with_own_path: Availability,
}

fn agent(name: &str, provider: &dyn Provider, found: Found) -> pb::InstalledAgent {
    let shown = |program: PathBuf| program.to_string_lossy().into_owned();
    let daemon_program = match found.with_own_path {
        Availability::Installed { program, .. } => shown(program),
        Availability::BuiltIn | Availability::Missing { .. } => String::new(),
    };
    let mut agent = pb::InstalledAgent {
        name: name.to_owned(),
        provider: provider.kind().name().to_owned(),
        capabilities: abilities(provider.capabilities()),
        models: provider.models(),
        daemon_program,
        ..Default::default()
    };
    match found.here {
        Availability::Installed { program, version } => {
            agent.state = "installed".to_owned();
            agent.program = shown(program);
            agent.version = version.unwrap_or_default();
        }
        Availability::BuiltIn => {
            agent.state = "built_in".to_owned();
            agent.version = env!("CARGO_PKG_VERSION").to_owned();
        }
        Availability::Missing { remedy } => {
            agent.state = "missing".to_owned();
            agent.remedy = remedy;
        }
    }
    agent
}

/// Returns the configured agent, else the first installed one: the usual providers, then agents of the Agent Client
/// Protocol.
fn default_agent(configured: &str, agents: &[pb::InstalledAgent]) -> String {
    if !configured.is_empty() {
        return configured.to_owned();
    }
    let is_installed = |agent: &&pb::InstalledAgent| agent.state == "installed";
    let preferred = PREFERRED
        .iter()
        .find_map(|kind| agents.iter().filter(is_installed).find(|agent| agent.name == kind.name()));
    let by_name =
        || agents.iter().filter(is_installed).find(|agent| agent.provider == ProviderKind::Acp.name());
    preferred.or_else(by_name).map(|agent| agent.name.clone()).unwrap_or_default()
}

fn abilities(can: Capabilities) -> Vec<String> {
    let all = [
        (can.process, "outlives the daemon"),
        (can.resume, "resume"),
        (can.steer, "steer"),
        (can.questions, "questions"),
        (can.attachments, "attachments"),
        (can.compaction, "compaction"),
        (can.system_prompt, SYSTEM_PROMPT_CAPABILITY),
        (can.history, "history as turns"),
        (can.system_messages, "system messages"),
    ];
    all.into_iter().filter(|(can, _)| *can).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_agent_is_configured_or_the_first_that_is_installed() {
        let agent = |name: &str, provider: &str, state: &str| pb::InstalledAgent {
            name: name.to_owned(),
            provider: provider.to_owned(),
            state: state.to_owned(),
            ..Default::default()
        };
        let mut agents = vec![
            agent("codex", "codex", "installed"),
            agent("claude-code", "claude-code", "missing"),
            agent("scripted", "scripted", "built_in"),
            agent("goose", "acp", "installed"),
        ];
        assert_eq!(default_agent("", &agents), "codex");
        assert_eq!(default_agent("openai-api", &agents), "openai-api");
        agents[0].state = "missing".to_owned();
        assert_eq!(default_agent("", &agents), "goose");
        agents[3].state = "missing".to_owned();
        assert_eq!(default_agent("", &agents), "", "a built-in agent is never chosen by itself");
    }
}
