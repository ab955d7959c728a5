//! The keys of `provider_config` for an ACP agent. A closed list:
//!
//! | key | value |
//! |---|---|
//! | `permission_mode` | a mode's name; the surfaces make it the session's mode |
//! | `agent` | an agent by its name: `codex-acp`, `claude-agent-acp`, `gemini`, `goose`, `opencode`, or one of the daemon's configuration |
//! | `command` | the agent's command line instead: a JSON list of words, or words with blanks between |
//! | `client_tools` | `false`: the agent is not offered our files and commands and uses its own |
//! | `mcp_servers` | JSON object of MCP servers by name, as in `.mcp.json` |
//! | `sandbox_read_only`, `sandbox_writable` | an absolute path, or a JSON list of them, that the agent sees in the sandbox |
//! | `sandbox_endpoints` | addresses of the agent's model, with blanks between, for the network `model` of the sandbox |

use std::collections::BTreeMap;

use agent_port::Places;
use domain::Error;
use serde_json::{Map, Value};

use provider_common::config::{
    argument, check_keys, check_permission_mode, directories, flag, invalid, mcp_servers,
};
use provider_common::suggestion::near;

const KEYS: [&str; 8] = [
    "permission_mode",
    "agent",
    "command",
    "client_tools",
    "mcp_servers",
    "sandbox_read_only",
    "sandbox_writable",
    "sandbox_endpoints",
];

/// Agents that are known by name, each with its command line.
const KNOWN: [(&str, &[&str]); 5] = [
    ("codex-acp", &["codex-acp"]),
    ("claude-agent-acp", &["claude-agent-acp"]),
    ("gemini", &["gemini", "--acp", "--skip-trust"]),
    ("goose", &["goose", "acp"]),
    ("opencode", &["opencode", "acp"]),
];

/// Agents by name: the known ones, and those of the daemon's configuration, which take precedence.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedAgents(BTreeMap<String, Vec<String>>);

impl Default for NamedAgents {
    fn default() -> Self {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Self(KNOWN.iter().map(|(name, command)| ((*name).to_owned(), words(command))).collect())
    }
}

impl NamedAgents {
    /// Adds the agents of the configuration: `name=command line`. The error names the invalid entry.
    pub fn new(configured: &[String]) -> Result<Self, String> {
        let mut all = Self::default();
        for entry in configured {
            let (name, command) = entry.split_once('=').unwrap_or((entry, ""));
            let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
            if name.trim().is_empty() || command.is_empty() {
                return Err(format!(
                    "{entry:?} must be a name and a command line, such as mine=/opt/mine/agent --acp"
                ));
            }
            all.0.insert(name.trim().to_owned(), command);
        }
        Ok(all)
    }

    /// Returns every agent's name and command line.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.0.iter().map(|(name, command)| (name.as_str(), command.as_slice()))
    }
}

/// The parsed `provider_config`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AcpSettings {
    /// The name of the agent for people.
    pub(super) name: String,
    /// The program and its arguments.
    pub(super) command: Vec<String>,
    pub(super) client_tools: bool,
    pub(super) mcp_servers: Map<String, Value>,
    pub(super) places: Places,
}

impl AcpSettings {
    /// Parses the entries; the first invalid one is the error.
    pub(super) fn read(config: &BTreeMap<String, String>, named: &NamedAgents) -> Result<Self, Error> {
        check_keys(config, &KEYS)?;
        check_permission_mode(config)?;
        let (name, command) = (argument(config, "agent")?, command(config)?);
        let (name, command) = match (name.as_str(), command) {
            ("", None) => {
                let names: Vec<&str> = named.0.keys().map(String::as_str).collect();
                let remedy =
                    format!("is required, or a command: the agents known here are {}", names.join(", "));
                return Err(invalid("agent", remedy));
            }
            ("", Some(command)) => (command.first().cloned().unwrap_or_default(), command),
            (_, Some(_)) => return Err(invalid("command", "cannot be given together with agent")),
            (wanted, None) => match named.0.get(wanted) {
                Some(command) => (name.clone(), command.clone()),
                None => {
                    let remedy = match near(wanted, named.0.keys().map(String::as_str)).first() {
                        Some(near) => format!("{wanted:?} is not known; did you mean {near}?"),
                        None => {
                            let names: Vec<&str> = named.0.keys().map(String::as_str).collect();
                            format!("{wanted:?} is not known; known are {}", names.join(", "))
                        }
                    };
                    return Err(invalid("agent", remedy));
                }
            },
        };
        let client_tools = match config.get("client_tools") {
            None => true,
            Some(_) => flag(config, "client_tools")?,
        };
        let endpoints = argument(config, "sandbox_endpoints")?;
        let places = Places {
            read_only: directories(config, "sandbox_read_only")?,
            writable: directories(config, "sandbox_writable")?,
            endpoints: endpoints.split_whitespace().map(str::to_owned).collect(),
            ..Places::default()
        };
        Ok(Self { name, command, client_tools, mcp_servers: mcp_servers(config)?, places })
    }
}

/// Parses the command line: a JSON list of words, or words separated by blanks.
fn command(config: &BTreeMap<String, String>) -> Result<Option<Vec<String>>, Error> {
    const KEY: &str = "command";
    let value = argument(config, KEY)?;
    let words: Vec<String> = if value.starts_with('[') {
        serde_json::from_str(&value)
            .map_err(|error| invalid(KEY, format_args!("is not a JSON list of words: {error}")))?
    } else {
        value.split_whitespace().map(str::to_owned).collect()
    };
    match words.first() {
        None if config.contains_key(KEY) => Err(invalid(KEY, "is empty")),
        None => Ok(None),
        Some(program) if program.contains('/') && !program.starts_with('/') => {
            Err(invalid(KEY, "must begin with an absolute path or the name of a program on the PATH"))
        }
        Some(_) => Ok(Some(words)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entries: &[(&str, &str)]) -> Result<AcpSettings, Error> {
        let config = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let named = NamedAgents::new(&["mine=/opt/mine/agent --acp".to_owned()]).unwrap();
        AcpSettings::read(&config, &named)
    }

    #[test]
    fn an_agent_is_named_or_spelled_out() {
        assert_eq!(read(&[("agent", "goose")]).unwrap().command, ["goose", "acp"]);
        assert_eq!(read(&[("agent", "mine")]).unwrap().command, ["/opt/mine/agent", "--acp"]);
        assert_eq!(read(&[("command", "goose acp")]).unwrap().command, ["goose", "acp"]);
        assert_eq!(read(&[("command", r#"["/a b/c", "d e"]"#)]).unwrap().command, ["/a b/c", "d e"]);
        assert!(!read(&[("agent", "goose"), ("client_tools", "false")]).unwrap().client_tools);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let message = |entries: &[(&str, &str)]| read(entries).unwrap_err().message;
        assert!(message(&[]).starts_with("provider_config.agent: is required"));
        assert_eq!(
            message(&[("agent", "gose")]),
            "provider_config.agent: \"gose\" is not known; did you mean goose?"
        );
        assert!(message(&[("command", "")]).contains("command: is empty"));
        assert!(message(&[("command", "./agent")]).contains("command: must begin with an absolute path"));
        assert!(message(&[("command", "[1]")]).contains("command: is not a JSON list"));
        assert!(message(&[("command", "x"), ("agent", "goose")]).contains("together with agent"));
        assert!(NamedAgents::new(&["nothing".to_owned()]).unwrap_err().contains("\"nothing\""));
    }
}
