//! The keys of `provider_config` for OpenClaw. A closed list:
//!
//! | key | value |
//! |---|---|
//! | `permission_mode` | a mode's name; the surfaces make it the session's mode |
//! | `gateway_url` | the gateway's address, `ws://…` or `wss://…`; absent: the daemon's configuration, else `ws://127.0.0.1:18789` |
//! | `token_env` | the variable that holds the gateway's token; absent: the daemon's configuration, else `OPENCLAW_GATEWAY_TOKEN` |
//! | `agent_id` | which of the gateway's agents; default `main` |
//! | `mcp_servers` | MCP servers as in `.mcp.json`, run by the gateway; `${NAME}` is one of its variables |

use std::collections::BTreeMap;

use domain::Error;

use provider_common::config::{argument, check_keys, check_permission_mode, invalid, word};
use provider_common::mcp_spec::{self, McpServerSpec};

const KEYS: [&str; 5] = ["permission_mode", "gateway_url", "token_env", "agent_id", "mcp_servers"];

/// The parsed `provider_config`. Empty texts are not set.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OpenclawSettings {
    pub(super) gateway_url: String,
    pub(super) token_env: String,
    pub(super) agent_id: String,
    pub(super) servers: Vec<McpServerSpec>,
}

impl OpenclawSettings {
    /// Parses the entries; the first invalid one is the error.
    pub(super) fn read(config: &BTreeMap<String, String>) -> Result<Self, Error> {
        check_keys(config, &KEYS)?;
        check_permission_mode(config)?;
        let gateway_url = argument(config, "gateway_url")?;
        if !gateway_url.is_empty() && !is_gateway(&gateway_url) {
            return Err(invalid("gateway_url", "must be an address such as ws://127.0.0.1:18789"));
        }
        let agent_id = match word(config, "agent_id")?.as_str() {
            "" => "main".to_owned(),
            named => named.to_owned(),
        };
        let servers = mcp_spec::read(config)?;
        Ok(Self { gateway_url, token_env: word(config, "token_env")?, agent_id, servers })
    }
}

/// Returns whether a text is the address of a gateway.
pub(super) fn is_gateway(url: &str) -> bool {
    let host = url.strip_prefix("ws://").or_else(|| url.strip_prefix("wss://"));
    let printable = url.chars().all(|letter| letter.is_ascii_graphic());
    host.is_some_and(|host| !host.is_empty() && !host.starts_with('/')) && printable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named() {
        let read = |key: &str, value: &str| {
            OpenclawSettings::read(&BTreeMap::from([(key.to_owned(), value.to_owned())]))
        };
        assert!(read("gateway_url", "http://x").unwrap_err().message.contains("provider_config.gateway_url"));
        assert!(read("gateway_ulr", "x").unwrap_err().message.contains("did you mean gateway_url?"));
        assert!(read("token_env", "A B").unwrap_err().message.contains("provider_config.token_env"));
        assert_eq!(read("agent_id", "").unwrap().agent_id, "main");
        assert!(read("gateway_url", "wss://box.example:1").is_ok());
        let servers = read("mcp_servers", r#"{"x": {"command": "a", "cwd": "/"}}"#).unwrap_err().message;
        assert!(servers.starts_with("provider_config.mcp_servers: server x: "), "{servers}");
    }
}
