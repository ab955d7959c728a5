//! The keys of `provider_config` for Claude Code. A closed list:
//!
//! | key | value |
//! |---|---|
//! | `permission_mode` | a mode's name; the surfaces make it the session's mode |
//! | `append_system_prompt` | text added to the agent's own system prompt |
//! | `allowed_tools`, `disallowed_tools` | rules such as `Read,Bash(git log:*)`; what they allow is not asked |
//! | `max_turns` | model calls within one turn before it ends |
//! | `add_dirs` | an absolute path, or a JSON list of them, that the agent may use besides its directory |
//! | `mcp_servers` | JSON object of MCP servers by name, as in `.mcp.json` |
//! | `strict_mcp` | `true`: only those servers, none from the user's or the repository's files |
//!
//! Deliberately missing: `settings` (can disable asking, and run commands as hooks) and the program itself.

use std::collections::BTreeMap;
use std::path::PathBuf;

use domain::Error;
use serde_json::{Map, Value};

use provider_common::config::{
    argument, check_keys, check_permission_mode, directories, flag, mcp_servers, number,
};

pub(super) const KEYS: [&str; 8] = [
    "permission_mode",
    "append_system_prompt",
    "allowed_tools",
    "disallowed_tools",
    "max_turns",
    "add_dirs",
    "mcp_servers",
    "strict_mcp",
];

/// The parsed `provider_config`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ClaudeSettings {
    pub(super) append_system_prompt: String,
    pub(super) allowed_tools: String,
    pub(super) disallowed_tools: String,
    pub(super) max_turns: Option<u64>,
    pub(super) add_dirs: Vec<PathBuf>,
    pub(super) mcp_servers: Map<String, Value>,
    pub(super) strict_mcp: bool,
}

impl ClaudeSettings {
    /// Parses the entries; the first invalid one is the error.
    pub(super) fn read(config: &BTreeMap<String, String>) -> Result<Self, Error> {
        check_keys(config, &KEYS)?;
        check_permission_mode(config)?;
        Ok(Self {
            // Sent through stdin, not the command line: any text is fine.
            append_system_prompt: config.get("append_system_prompt").cloned().unwrap_or_default(),
            allowed_tools: argument(config, "allowed_tools")?,
            disallowed_tools: argument(config, "disallowed_tools")?,
            max_turns: number(config, "max_turns", 1..=10_000)?,
            add_dirs: directories(config, "add_dirs")?,
            mcp_servers: mcp_servers(config)?,
            strict_mcp: flag(config, "strict_mcp")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(key: &str, value: &str) -> Result<ClaudeSettings, Error> {
        ClaudeSettings::read(&BTreeMap::from([(key.to_owned(), value.to_owned())]))
    }

    #[test]
    fn servers_are_read_in_both_forms() {
        let servers =
            json!({"a": {"command": "x", "args": []}, "b": {"type": "http", "url": "http://127.0.0.1"}});
        let bare = r#"{"a":{"command":"x"},"b":{"type":"http","url":"http://127.0.0.1"}}"#;
        assert_eq!(Value::Object(read("mcp_servers", bare).unwrap().mcp_servers), servers);
        let file = format!(r#"{{"mcpServers":{bare}}}"#);
        assert_eq!(Value::Object(read("mcp_servers", &file).unwrap().mcp_servers), servers);
        for wrong in ["[]", "{", r#"{"a":1}"#, r#"{"a":{}}"#, r#"{"a b":{"command":"x"}}"#] {
            assert!(read("mcp_servers", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn directories_are_absolute() {
        assert_eq!(read("add_dirs", "/a").unwrap().add_dirs, [PathBuf::from("/a")]);
        assert_eq!(read("add_dirs", r#"["/a","/b c"]"#).unwrap().add_dirs.len(), 2);
        assert!(read("add_dirs", "a").is_err());
        assert!(read("add_dirs", "--settings").is_err());
        assert!(read("add_dirs", r#"["/a",1]"#).is_err());
    }

    #[test]
    fn what_cannot_be_an_argument_is_refused() {
        assert!(read("allowed_tools", "Read\0").is_err());
        assert!(read("allowed_tools", &"x".repeat(200 * 1024)).is_err());
        assert!(read("max_turns", "0").is_err());
        assert_eq!(
            read("binary", "/bin/sh").unwrap_err().message,
            "provider_config.binary: is not known; this provider takes permission_mode, \
             append_system_prompt, allowed_tools, disallowed_tools, max_turns, add_dirs, mcp_servers, strict_mcp"
        );
    }
}
