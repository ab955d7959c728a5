//! How an agent is kept in its place: whether it runs in the sandbox and what it reaches from there, and what it may use of
//! the machine. Comes from the daemon's configuration and from the request that creates a session. As to the sandbox a
//! request may only make it stricter.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ProviderKind;
use crate::error::Error;
use crate::resources::ResourceLimits;

/// What an agent in the sandbox can reach by network, from most to least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentNetwork {
    /// Everything its machine reaches.
    Full,
    /// Only the endpoints of its model.
    Model,
    /// Nothing.
    None,
}

impl AgentNetwork {
    /// Returns the printed name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Model => "model",
            Self::None => "none",
        }
    }

    /// Parses the printed name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Full, Self::Model, Self::None].into_iter().find(|network| network.name() == text)
    }
}

/// How a session's agent is contained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Containment {
    /// The sandbox with this network; `None`: the agent has all rights of its user.
    pub sandbox: Option<AgentNetwork>,
    /// What it and everything it starts may use.
    #[serde(skip_serializing_if = "ResourceLimits::is_empty")]
    pub limits: ResourceLimits,
}

/// Keys of `provider_config` that are common to all providers; they never reach the provider itself.
pub const SANDBOX_KEY: &str = "agent_sandbox";
pub const NETWORK_KEY: &str = "agent_network";

impl Containment {
    /// Takes what a request says about the sandbox out of its settings. What the configuration demands stays at least as
    /// strict.
    pub fn take(self, config: &mut BTreeMap<String, String>) -> Result<Self, Error> {
        let wanted = match config.remove(SANDBOX_KEY).as_deref() {
            None => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(other) => {
                let remedy = format_args!("{other:?} is neither true nor false");
                return Err(Error::invalid(&field(SANDBOX_KEY), remedy));
            }
        };
        let network = match config.remove(NETWORK_KEY) {
            None => None,
            Some(text) => Some(AgentNetwork::parse(&text).ok_or_else(|| {
                let remedy = format_args!("{text:?} is no network of an agent; use full, model or none");
                Error::invalid(&field(NETWORK_KEY), remedy)
            })?),
        };
        if wanted == Some(false) && (self.sandbox.is_some() || network.is_some()) {
            let remedy = "the configuration or agent_network puts this agent in the sandbox; a request cannot take it out";
            return Err(Error::invalid(&field(SANDBOX_KEY), remedy));
        }
        let sandbox = match (self.sandbox, network) {
            (Some(demanded), Some(network)) if network < demanded => {
                let remedy =
                    format_args!("the configuration allows at most {}; choose that or less", demanded.name());
                return Err(Error::invalid(&field(NETWORK_KEY), remedy));
            }
            (_, Some(network)) => Some(network),
            (Some(demanded), None) => Some(demanded),
            (None, None) => wanted.filter(|wanted| *wanted).map(|_| AgentNetwork::Full),
        };
        Ok(Self { sandbox, ..self })
    }
}

fn field(key: &str) -> String {
    format!("provider_config.{key}")
}

impl Containment {
    /// Says how an agent of a provider is contained; nothing where it has every right of its user.
    pub fn describe(self, provider: ProviderKind) -> Option<String> {
        match (provider, self.sandbox) {
            // It has no process: whatever its session asks for, the daemon calls its model and runs its tools.
            (ProviderKind::OpenaiApi, _) => {
                Some("in the daemon, commands in the workbench's sandbox".to_owned())
            }
            (_, Some(_)) => Some(self.to_string()),
            (_, None) => None,
        }
    }

    /// Whether a text of [`Containment::describe`] is about an agent that is itself in the sandbox.
    pub fn is_in_sandbox(described: &str) -> bool {
        described.starts_with("sandbox")
    }
}

impl fmt::Display for Containment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sandbox {
            Some(network) => write!(f, "sandbox, network {}", network.name()),
            None => f.write_str("none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(demanded: Option<AgentNetwork>, said: &[(&str, &str)]) -> Result<Option<AgentNetwork>, String> {
        let mut config: BTreeMap<String, String> =
            said.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let taken = Containment { sandbox: demanded, ..Containment::default() }.take(&mut config);
        assert!(config.is_empty(), "{config:?}");
        taken.map(|containment| containment.sandbox).map_err(|error| error.message)
    }

    #[test]
    fn a_request_may_ask_for_the_sandbox_and_choose_its_network() {
        use AgentNetwork::{Full, Model, None as Nothing};
        assert_eq!(take(None, &[]), Ok(None));
        assert_eq!(take(None, &[(SANDBOX_KEY, "true")]), Ok(Some(Full)));
        assert_eq!(take(None, &[(SANDBOX_KEY, "false")]), Ok(None));
        assert_eq!(take(None, &[(NETWORK_KEY, "none")]), Ok(Some(Nothing)));
        assert_eq!(take(Some(Full), &[(NETWORK_KEY, "model")]), Ok(Some(Model)));
        assert_eq!(take(Some(Model), &[]), Ok(Some(Model)));
    }

    #[test]
    fn a_request_cannot_loosen_what_the_configuration_demands() {
        let refused = |demanded, said: &[(&str, &str)]| take(demanded, said).unwrap_err();
        let out = refused(Some(AgentNetwork::Full), &[(SANDBOX_KEY, "false")]);
        assert!(out.starts_with("provider_config.agent_sandbox: "), "{out}");
        let wider = refused(Some(AgentNetwork::None), &[(NETWORK_KEY, "full")]);
        assert!(wider.contains("at most none"), "{wider}");
    }

    #[test]
    fn only_agents_in_the_sandbox_are_described_as_in_it() {
        let model = Containment { sandbox: Some(AgentNetwork::Model), ..Containment::default() };
        let said = model.describe(ProviderKind::Codex).unwrap();
        assert_eq!((said.as_str(), Containment::is_in_sandbox(&said)), ("sandbox, network model", true));
        assert_eq!(Containment::default().describe(ProviderKind::Codex), None);
        for containment in [model, Containment::default()] {
            let said = containment.describe(ProviderKind::OpenaiApi).unwrap();
            assert!(said.starts_with("in the daemon") && !Containment::is_in_sandbox(&said), "{said}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_field() {
        for (key, value) in [(SANDBOX_KEY, "yes"), (NETWORK_KEY, "some")] {
            let message = Containment::default()
                .take(&mut BTreeMap::from([(key.to_owned(), value.to_owned())]))
                .unwrap_err()
                .message;
            assert!(message.starts_with(&format!("provider_config.{key}: ")), "{message}");
        }
    }
}
