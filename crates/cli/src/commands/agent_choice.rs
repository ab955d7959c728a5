//! Which agent a new session runs: the one that was named, else the configured one, else one that is installed. Every
//! provider and every agent of the Agent Client Protocol goes by its name. Asks the daemon, with the caller's `PATH`.

use domain::{ErrorCode, ProviderKind};
use wire::obey::v1 as pb;

use client::caller_environment;
use client::connection::Client;
use config::failure::{Failure, Result};
use config::nearest::suggestion;
use terminal::console::Console;

/// The setting of the provider `acp` that names an agent.
pub(super) const AGENT_KEY: &str = "agent";

/// The agent of a new session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChosenAgent {
    pub(super) provider: ProviderKind,
    /// The agent of the provider `acp`.
    pub(super) agent: Option<String>,
}

/// Returns the agents as a session created from here finds them.
pub(super) async fn list(console: &Console, client: &Client) -> Result<pb::ListInstalledAgentsResponse> {
    // On another machine the daemon's own path counts.
    let path = match console.machine()? {
        None => caller_environment::path(&console.vars),
        Some(_) => Default::default(),
    };
    let request = pb::ListInstalledAgentsRequest { path };
    Ok(client.installed_agents().list_installed_agents(request).await?.into_inner())
}

/// Returns the agent that was named, or the default one.
pub(super) async fn choose(console: &Console, client: &Client, typed: Option<&str>) -> Result<ChosenAgent> {
    if let Some(provider) = typed.and_then(known_provider) {
        return Ok(ChosenAgent { provider, agent: None });
    }
    let known = list(console, client).await?;
    pick(typed, &known)
}

/// Parses a provider's name. Also accepts the short forms `claude` and `openai`.
fn known_provider(typed: &str) -> Option<ProviderKind> {
    ProviderKind::parse(match typed {
        "claude" => "claude-code",
        "openai" => "openai-api",
        other => other,
    })
}

fn pick(typed: Option<&str>, known: &pb::ListInstalledAgentsResponse) -> Result<ChosenAgent> {
    let name = match typed {
        Some(typed) => typed,
        None if known.default_agent.is_empty() => {
            return Err(Failure::coded(ErrorCode::ProviderNotReady, "no agent is installed").with_hint(
                "what can be installed, and how: obey agents list; without a model: -p scripted",
            ));
        }
        None => &known.default_agent,
    };
    if let Some(provider) = known_provider(name) {
        return Ok(ChosenAgent { provider, agent: None });
    }
    let acp = ProviderKind::Acp.name();
    if let Some(agent) = known.agents.iter().find(|agent| agent.name == name && agent.provider == acp) {
        return Ok(ChosenAgent { provider: ProviderKind::Acp, agent: Some(agent.name.clone()) });
    }
    let names: Vec<&str> = known.agents.iter().map(|agent| agent.name.as_str()).collect();
    let meant = suggestion(name, names.iter().copied());
    Err(Failure::usage(format!("--provider: there is no agent {name:?}{meant}"))
        .with_hint(format!("use one of {}", names.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(default_agent: &str) -> pb::ListInstalledAgentsResponse {
        let agent = |name: &str, provider: &str| pb::InstalledAgent {
            name: name.to_owned(),
            provider: provider.to_owned(),
            ..Default::default()
        };
        pb::ListInstalledAgentsResponse {
            agents: vec![agent("claude-code", "claude-code"), agent("gemini", "acp")],
            default_agent: default_agent.to_owned(),
        }
    }

    #[test]
    fn every_agent_goes_by_its_name() {
        let gemini = pick(Some("gemini"), &known("")).unwrap();
        assert_eq!((gemini.provider, gemini.agent.as_deref()), (ProviderKind::Acp, Some("gemini")));
        assert_eq!(known_provider("claude"), Some(ProviderKind::ClaudeCode));
        assert_eq!(pick(None, &known("gemini")).unwrap().agent.as_deref(), Some("gemini"));
        assert_eq!(pick(None, &known("codex")).unwrap().provider, ProviderKind::Codex);
    }

    #[test]
    fn a_near_name_is_suggested_and_nothing_installed_is_an_error() {
        let failure = pick(Some("gemni"), &known("")).unwrap_err();
        assert!(failure.message.ends_with("did you mean gemini?"), "{}", failure.message);
        assert_eq!(pick(None, &known("")).unwrap_err().code.as_deref(), Some("OBEY-2030"));
    }
}
