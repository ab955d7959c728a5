//! Which agents run in the sandbox and what agents may use, read from the configuration.

use std::collections::BTreeMap;
use std::path::Path;

use domain::{AgentNetwork, Error, ErrorCode, ProviderKind, Resource, ResourceLimits};
use runtime::containment::{LimitPolicy, Policy, Withheld};

use config::file::Config;
use config::file::limits::Amount;
use config::paths::Paths;
use config::vars::Vars;

use crate::options::ServeOptions;

/// Returns the policy; the error names the invalid entry.
pub fn policy(config: &Config) -> Result<Policy, Error> {
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
        limits: limit_policy(config)?,
        withheld: Withheld::default(),
    })
}

/// Names in the home folder under which programs keep keys.
const KEY_FOLDERS: [&str; 10] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".password-store",
    ".config/gcloud",
    ".config/gh",
    ".config/glab-cli",
    ".local/share/keyrings",
];

/// Returns what no agent in the sandbox is given: the folders of this daemon, and those with the user's keys.
pub fn withheld(options: &ServeOptions) -> Withheld {
    let vars = Vars::of_process();
    let paths = Paths::of(&vars, config::paths::uid());
    let flag = options.flags.iter().skip_while(|flag| *flag != "--config").nth(1).map(Path::new);
    let mut own = vec![options.data_dir.clone(), paths.state_dir.clone()];
    own.extend(
        [&paths.config_file, &paths.socket].into_iter().filter_map(|file| file.parent()).map(Path::to_owned),
    );
    // Elsewhere the files themselves: beside them may be anything.
    own.extend(config::paths::config_file(flag, &vars, &paths));
    own.extend(options.settings.rules_file.clone());
    own.extend([options.socket.clone(), options.socket.with_file_name("token")]);
    let home = paths.home.into_iter();
    Withheld {
        own,
        keys: home.flat_map(|home| KEY_FOLDERS.map(|name| home.join(name))).collect(),
        given: vec![options.data_dir.join("worktrees")],
    }
}

/// Returns what agents may use; the error names the entry that is wrong.
fn limit_policy(config: &Config) -> Result<LimitPolicy, Error> {
    let section = &config.limits;
    let mut everywhere = ResourceLimits::default();
    for (resource, amount) in [
        (Resource::Memory, &section.memory),
        (Resource::Cpus, &section.cpus),
        (Resource::Processes, &section.processes),
    ] {
        if let Some(text) = amount.as_ref().map(Amount::to_string) {
            everywhere
                .set(resource, Some(amount_of(&format!("limits.{}", resource.name()), resource, &text)?));
        }
    }
    let mut providers = BTreeMap::new();
    for (name, limits) in limit_entries("limits.providers", &section.providers)? {
        let kind = ProviderKind::parse(&name)
            .ok_or_else(|| invalid("limits.providers", &name, "there is no such provider"))?;
        providers.insert(kind, limits);
    }
    let reserve = section.reserve.to_string();
    let reserve_bytes = match reserve.as_str() {
        "0" => 0,
        text => amount_of("limits.reserve", Resource::Memory, text)?,
    };
    let campaigns = limit_entries("limits.campaigns", &section.campaigns)?;
    Ok(LimitPolicy { everywhere, providers, campaigns, reserve_bytes })
}

fn amount_of(key: &str, resource: Resource, text: &str) -> Result<u64, Error> {
    let wrong = |remedy: String| Error::new(ErrorCode::ConfigInvalid, format!("{key}: {remedy}"));
    resource.parse(text).map_err(wrong)
}

fn limit_entries(key: &str, list: &[String]) -> Result<BTreeMap<String, ResourceLimits>, Error> {
    let remedy = "write a name, `=`, and limits such as memory:4G cpus:2 processes:500";
    let mut all = BTreeMap::new();
    for entry in list {
        let (name, said) = entry.split_once('=').ok_or_else(|| invalid(key, entry, remedy))?;
        let mut limits = ResourceLimits::default();
        for word in said.split_whitespace() {
            let (what, text) = word.split_once(':').ok_or_else(|| invalid(key, entry, remedy))?;
            let resource = Resource::ALL.into_iter().find(|resource| resource.name() == what);
            let resource = resource.ok_or_else(|| invalid(key, entry, remedy))?;
            limits.set(resource, Some(amount_of(key, resource, text)?));
        }
        if limits.is_empty() {
            return Err(invalid(key, entry, remedy));
        }
        all.insert(name.trim().to_owned(), limits);
    }
    Ok(all)
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
        let usual = LimitPolicy { reserve_bytes: 256 << 20, ..LimitPolicy::default() };
        assert_eq!(policy(&config).unwrap(), Policy { limits: usual, ..Policy::default() });
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
    fn limits_are_chosen_by_campaign_and_by_provider() {
        let mut config = Config::default();
        config.limits.memory = Some(Amount::Text("4G".to_owned()));
        config.limits.cpus = Some(Amount::Decimal(1.5));
        config.limits.processes = Some(Amount::Whole(500));
        config.limits.campaigns = vec!["shop=memory:1G processes:100".to_owned()];
        config.limits.providers = vec!["codex = cpus:4".to_owned()];
        config.limits.reserve = Amount::Whole(0);
        let LimitPolicy { everywhere, providers, campaigns, reserve_bytes } = policy(&config).unwrap().limits;
        assert_eq!(everywhere.to_string(), "memory 4G, cpus 1.5, processes 500");
        assert_eq!(providers[&ProviderKind::Codex].to_string(), "cpus 4");
        assert_eq!(campaigns["shop"].to_string(), "memory 1G, processes 100");
        assert_eq!(reserve_bytes, 0);
    }

    #[test]
    fn a_wrong_limit_is_named() {
        let wrong = |change: &dyn Fn(&mut config::file::limits::Limits)| {
            let mut config = Config::default();
            change(&mut config.limits);
            policy(&config).unwrap_err().message
        };
        let text = |text: &str| Some(Amount::Text(text.to_owned()));
        assert!(wrong(&|limits| limits.memory = text("4")).starts_with("limits.memory: "));
        assert!(wrong(&|limits| limits.cpus = Some(Amount::Whole(0))).starts_with("limits.cpus: "));
        assert!(
            wrong(&|limits| limits.processes = Some(Amount::Decimal(0.5))).starts_with("limits.processes: ")
        );
        assert!(
            wrong(&|limits| limits.reserve = Amount::Text("x".to_owned())).starts_with("limits.reserve: ")
        );
        for entry in ["shop", "shop=", "shop=memory", "shop=swap:1G", "shop=memory:x"] {
            let message = wrong(&|limits| limits.campaigns = vec![entry.to_owned()]);
            assert!(message.starts_with("limits.campaigns: "), "{message}");
        }
        assert!(
            wrong(&|limits| limits.providers = vec!["x=cpus:1".to_owned()]).starts_with("limits.providers: ")
        );
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
