//! The keys of `provider_config` for Codex. A closed list:
//!
//! | key | value |
//! |---|---|
//! | `permission_mode` | a mode's name; the surfaces make it the session's mode |
//! | `sandbox` | `read-only`, `workspace-write` or `danger-full-access`, whatever the session's mode says |
//! | `approval_policy` | `untrusted`, `on-request` or `never`, whatever the session's mode says |
//! | `network_access` | `true`: commands in a `workspace-write` sandbox reach the network |
//! | `add_dirs` | an absolute path, or a JSON list of them, that a `workspace-write` sandbox may write to as well |
//! | `model_provider` | a model provider by the name it has in Codex's configuration |
//! | `base_url` | the address of an OpenAI-compatible endpoint (Responses API); with `model_provider`, that one's address |
//! | `api_key_env` | the variable that holds the endpoint's key; absent: `OPENAI_API_KEY`, where it is set |
//! | `reasoning_effort` | such as `low`, `medium`, `high`; what the model offers |
//! | `reasoning_summary` | `auto`, `concise`, `detailed` or `none` |
//! | `append_system_prompt` | text added to the agent's own instructions |
//! | `mcp_servers` | JSON object of MCP servers by name, as in `.mcp.json` |
//! | `notify_path`, `notify_kind` | absolute path of a `file` or `fifo` that is notified when a turn ends |
//!
//! Deliberately missing: anything else of Codex's configuration (it can run commands as hooks), who reviews
//! approvals (an agent must not answer its own requests) and the program itself.

use std::collections::BTreeMap;
use std::path::PathBuf;

use domain::Error;
use domain::containment::{AgentNetwork, Containment};
use serde_json::{Map, Value, json};

use provider_common::config::{
    address, argument, check_keys, check_permission_mode, directories, flag, invalid, mcp_servers, one_of,
    word,
};

pub(super) const KEYS: [&str; 14] = [
    "permission_mode",
    "sandbox",
    "approval_policy",
    "network_access",
    "add_dirs",
    "model_provider",
    "base_url",
    "api_key_env",
    "reasoning_effort",
    "reasoning_summary",
    "append_system_prompt",
    "mcp_servers",
    "notify_path",
    "notify_kind",
];

const SANDBOXES: [&str; 3] = ["read-only", "workspace-write", "danger-full-access"];
const POLICIES: [&str; 3] = ["untrusted", "on-request", "never"];
const SUMMARIES: [&str; 4] = ["auto", "concise", "detailed", "none"];

/// The parsed `provider_config`. Empty texts are not set.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CodexSettings {
    pub(super) sandbox: String,
    pub(super) approval_policy: String,
    pub(super) network_access: bool,
    pub(super) add_dirs: Vec<PathBuf>,
    pub(super) model_provider: String,
    pub(super) base_url: String,
    pub(super) api_key_env: String,
    pub(super) reasoning_effort: String,
    pub(super) reasoning_summary: String,
    pub(super) append_system_prompt: String,
    /// In Codex's own format.
    pub(super) mcp_servers: Map<String, Value>,
    pub(super) notify_path: String,
    pub(super) notify_kind: String,
    /// The agent runs in our sandbox; not one of the entries.
    pub(super) contained: bool,
}

impl CodexSettings {
    /// Parses the entries; the first invalid one is the error.
    pub(super) fn read(config: &BTreeMap<String, String>) -> Result<Self, Error> {
        check_keys(config, &KEYS)?;
        check_permission_mode(config)?;
        let settings = Self {
            sandbox: one_of(config, "sandbox", &SANDBOXES)?,
            approval_policy: one_of(config, "approval_policy", &POLICIES)?,
            network_access: flag(config, "network_access")?,
            add_dirs: directories(config, "add_dirs")?,
            model_provider: word(config, "model_provider")?,
            base_url: address(config, "base_url")?,
            api_key_env: word(config, "api_key_env")?,
            reasoning_effort: word(config, "reasoning_effort")?,
            reasoning_summary: one_of(config, "reasoning_summary", &SUMMARIES)?,
            // Sent through stdin, not the command line: any text is fine.
            append_system_prompt: config.get("append_system_prompt").cloned().unwrap_or_default(),
            mcp_servers: own_servers(mcp_servers(config)?),
            notify_path: argument(config, "notify_path")?,
            notify_kind: one_of(config, "notify_kind", &["file", "fifo"])?,
            contained: false,
        };
        if !settings.notify_path.is_empty() && !settings.notify_path.starts_with('/') {
            return Err(invalid("notify_path", "must be an absolute path"));
        }
        if let Some(name) = settings.mcp_servers.keys().find(|name| name.contains('.')) {
            return Err(invalid(
                "mcp_servers",
                format_args!("Codex takes no server with a dot in its name: {name}"),
            ));
        }
        if !settings.api_key_env.is_empty() && settings.base_url.is_empty() {
            return Err(invalid("api_key_env", "is of use only with base_url"));
        }
        Ok(settings)
    }

    /// Refuses what Codex' own sandbox would have to do for an agent in ours: it cannot be built there.
    pub(super) fn check_inside(&self, containment: Containment) -> Result<(), Error> {
        let Some(network) = containment.sandbox else { return Ok(()) };
        if !matches!(self.sandbox.as_str(), "" | "danger-full-access") {
            let remedy = "has no effect on an agent in the sandbox, where Codex cannot build its own; leave it out \
                          (editors: use the modes supervised or autonomous), or start the agent without the sandbox";
            return Err(invalid("sandbox", remedy));
        }
        if self.network_access && network != AgentNetwork::Full {
            let remedy = format_args!(
                "has no effect on an agent in the sandbox with the network {}; leave it out, or choose the network full",
                network.name()
            );
            return Err(invalid("network_access", remedy));
        }
        if !self.notify_path.is_empty() {
            let remedy = "is out of reach for an agent in the sandbox; leave it out";
            return Err(invalid("notify_path", remedy));
        }
        Ok(())
    }
}

/// Returns servers in the format of Codex's configuration: `.mcp.json` names a few fields differently.
fn own_servers(servers: Map<String, Value>) -> Map<String, Value> {
    let own = |(name, server): (String, Value)| {
        let mut server = match server {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        server.remove("type");
        if let Some(headers) = server.remove("headers") {
            server.insert("http_headers".to_owned(), headers);
        }
        if server.contains_key("url") {
            server.remove("args");
        }
        (name, json!(server))
    };
    servers.into_iter().map(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entries: &[(&str, &str)]) -> Result<CodexSettings, Error> {
        let config = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        CodexSettings::read(&config)
    }

    #[test]
    fn what_has_no_effect_in_the_sandbox_is_refused_there() {
        let inside = |network| Containment { sandbox: Some(network), ..Containment::default() };
        let check = |entries: &[(&str, &str)], containment| {
            read(entries).unwrap().check_inside(containment).map_err(|error| error.message)
        };
        for (key, value, network) in [
            ("sandbox", "read-only", AgentNetwork::Full),
            ("sandbox", "workspace-write", AgentNetwork::None),
            ("network_access", "true", AgentNetwork::Model),
            ("notify_path", "/tmp/x", AgentNetwork::Full),
        ] {
            let refused = check(&[(key, value)], inside(network)).unwrap_err();
            assert!(refused.starts_with(&format!("provider_config.{key}: ")), "{refused}");
            assert_eq!(check(&[(key, value)], Containment::default()), Ok(()));
        }
        let full = [("sandbox", "danger-full-access"), ("network_access", "true")];
        assert_eq!(check(&full, inside(AgentNetwork::Full)), Ok(()));
        assert_eq!(check(&[("approval_policy", "untrusted")], inside(AgentNetwork::None)), Ok(()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let message = |key: &str, value: &str| read(&[(key, value)]).unwrap_err().message;
        assert_eq!(
            message("sandbox", "none"),
            "provider_config.sandbox: must be one of read-only, workspace-write, danger-full-access"
        );
        assert_eq!(
            message("approval_policy", "on-failure"),
            "provider_config.approval_policy: must be one of untrusted, on-request, never"
        );
        assert_eq!(message("sandbx", "x"), "provider_config.sandbx: is not known; did you mean sandbox?");
        assert!(message("approvals_reviewer", "auto_review").contains("approvals_reviewer: is not known"));
        assert!(message("hooks", "x").contains("this provider takes permission_mode, sandbox"));
        for url in ["example.com", "ftp://x", "http://", "http:///x", "http://x y", "http://x\ny"] {
            assert!(message("base_url", url).starts_with("provider_config.base_url: must be"), "{url}");
        }
        for name in ["a b", "a.b", "a=\"b\"", "a\nb"] {
            assert!(read(&[("model_provider", name)]).is_err(), "{name}");
        }
        assert!(message("api_key_env", "KEY").contains("only with base_url"));
        assert!(message("mcp_servers", "[]").starts_with("provider_config.mcp_servers:"));
        assert!(message("mcp_servers", r#"{"a.b":{"command":"x"}}"#).contains("dot in its name: a.b"));
        assert!(message("network_access", "maybe").contains("network_access: must be true or false"));
        assert!(message("add_dirs", "x").contains("add_dirs: x is not an absolute path"));
    }

    #[test]
    fn servers_are_put_in_codexs_words() {
        let servers = r#"{"a":{"command":"x","env":{"K":"v"}},
            "b":{"type":"http","url":"http://127.0.0.1/mcp","headers":{"authorization":"Bearer x"}}}"#;
        let read = read(&[("mcp_servers", servers)]).unwrap().mcp_servers;
        let expected = json!({
            "a": {"command": "x", "args": [], "env": {"K": "v"}},
            "b": {"url": "http://127.0.0.1/mcp", "http_headers": {"authorization": "Bearer x"}},
        });
        assert_eq!(Value::Object(read), expected);
    }
}
