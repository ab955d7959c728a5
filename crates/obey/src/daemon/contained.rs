//! Which agents run in the sandbox, read from the configuration.

use std::collections::BTreeMap;

use domain::{AgentNetwork, Error, ErrorCode, ProviderKind};
use runtime::containment::Policy;

use crate::config::Config;

/// Returns the policy; the error names the entry that is wrong.
pub(crate) fn policy(config: &Config) -> Result<Policy, Error> {
    let section = &config.sandbox;
    let network = AgentNetwork::parse(&section.network)
        .ok_or_else(|| invalid("sandbox.network", &section.network, "use full, model or none"))?;
    let mut providers = BTreeMap::new();
    for (name, chosen) in entries("sandbox.providers", &section.providers)? {
        let kind = ProviderKind::parse(&name)
            .ok_or_else(|| invalid("sandbox.providers", &name, "there is no such provider"))?;
        providers.insert(kind, chosen);
    }
    Ok(Policy {
        everywhere: section.agents.then_some(network),
        providers,
        campaigns: entries("sandbox.campaigns", &section.campaigns)?,
        read_only: section.read_only.clone(),
        writable: section.writable.clone(),
        model_hosts: section.model_hosts.clone(),
    })
}

fn entries(key: &str, list: &[String]) -> Result<BTreeMap<String, Option<AgentNetwork>>, Error> {
    let remedy = "write a name, `=`, and full, model, none or off";
    let mut all = BTreeMap::new();
    for entry in list {
        let (name, value) = entry.split_once('=').ok_or_else(|| invalid(key, entry, remedy))?;
        let chosen = match value.trim() {
            "off" => None,
            other => Some(AgentNetwork::parse(other).ok_or_else(|| invalid(key, entry, remedy))?),
        };
        all.insert(name.trim().to_owned(), chosen);
    }
    Ok(all)
}

fn invalid(key: &str, value: &str, remedy: &str) -> Error {
    Error::new(ErrorCode::ConfigInvalid, format!("{key}: {value:?} cannot be used; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sandbox_is_chosen_by_campaign_and_by_provider() {
        let mut config = Config::default();
        assert_eq!(policy(&config).unwrap(), Policy::default());
        config.sandbox.agents = true;
        config.sandbox.network = "model".to_owned();
        config.sandbox.campaigns = vec!["shop=none".to_owned(), "docs = off".to_owned()];
        config.sandbox.providers = vec!["codex=full".to_owned()];
        let policy = policy(&config).unwrap();
        assert_eq!(policy.everywhere, Some(AgentNetwork::Model));
        assert_eq!(policy.demands(ProviderKind::Codex, &["docs"]).sandbox, None);
        assert_eq!(policy.demands(ProviderKind::Codex, &["x"]).sandbox, Some(AgentNetwork::Full));
        assert_eq!(policy.demands(ProviderKind::Codex, &["shop"]).sandbox, Some(AgentNetwork::None));
    }

    #[test]
    fn a_wrong_entry_is_named() {
        for (key, value) in [("campaigns", "shop"), ("campaigns", "shop=open"), ("providers", "nobody=full")]
        {
            let mut config = Config::default();
            let list = if key == "campaigns" {
                &mut config.sandbox.campaigns
            } else {
                &mut config.sandbox.providers
            };
            list.push(value.to_owned());
            let message = policy(&config).unwrap_err().message;
            assert!(message.starts_with(&format!("sandbox.{key}: ")), "{message}");
        }
    }
}
