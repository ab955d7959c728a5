//! The clients, the location of their configuration, and the format of an MCP server there. Rules only.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use cli_args::mcp::{McpClient, McpScope};
use config::failure::{Failure, Result};
use config::vars::Vars;

/// The command a client should start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) command: String,
    pub(super) args: Vec<String>,
}

/// The format of a client's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON, with comments if the client allows them; the servers are in this object.
    Json {
        container: &'static str,
        style: JsonServerStyle,
    },
    Toml,
}

/// The format of a server in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonServerStyle {
    /// `command` and `args`.
    Plain,
    /// The same with `"type": "stdio"`.
    Typed,
    /// One list of words, and a different type.
    Words,
}

/// One client.
#[derive(Clone, Debug)]
pub(super) struct McpClientConfig {
    kind: McpClient,
    /// The value of `--client`.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) format: Format,
    /// What the user should do next.
    pub(super) next: &'static str,
}

const SERVERS: &str = "mcpServers";
const fn json_in(container: &'static str, style: JsonServerStyle) -> Format {
    Format::Json { container, style }
}

impl McpClientConfig {
    /// Returns the rules of a client.
    pub(super) fn of(kind: McpClient) -> Self {
        let restart = "Start it again to see the tools.";
        let (name, title, format, next) = match kind {
            McpClient::Claude => {
                let next = "See it with: claude mcp list";
                ("claude", "Claude Code", json_in(SERVERS, JsonServerStyle::Typed), next)
            }
            McpClient::ClaudeDesktop => {
                ("claude-desktop", "Claude Desktop", json_in(SERVERS, JsonServerStyle::Plain), restart)
            }
            McpClient::Codex => ("codex", "Codex", Format::Toml, "See it with: codex mcp list"),
            McpClient::Cursor => ("cursor", "Cursor", json_in(SERVERS, JsonServerStyle::Plain), restart),
            McpClient::Gemini => (
                "gemini",
                "Gemini CLI",
                json_in(SERVERS, JsonServerStyle::Plain),
                "See it with: gemini mcp list",
            ),
            McpClient::Opencode => ("opencode", "OpenCode", json_in("mcp", JsonServerStyle::Words), restart),
            McpClient::Vscode => ("vscode", "VS Code", json_in("servers", JsonServerStyle::Typed), restart),
            McpClient::Windsurf => {
                ("windsurf", "Windsurf", json_in(SERVERS, JsonServerStyle::Plain), restart)
            }
            McpClient::Zed => ("zed", "Zed", json_in("context_servers", JsonServerStyle::Plain), restart),
        };
        Self { kind, name, title, format, next }
    }

    /// Returns the client's file.
    pub(super) fn file(
        &self,
        scope: McpScope,
        vars: &Vars,
        home: Option<&Path>,
        folder: &Path,
    ) -> Result<PathBuf> {
        if scope == McpScope::Project {
            return match self.project_file() {
                Some(name) => Ok(folder.join(name)),
                None => Err(Failure::usage(format!("{} has no configuration of projects", self.title))
                    .with_hint("use --scope user")),
            };
        }
        let home = home.ok_or_else(|| Failure::usage("HOME is not set, so that the file cannot be found"))?;
        let config = vars.folder("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        // macOS keeps the settings of GUI applications elsewhere.
        let application = |name: &str| {
            if cfg!(target_os = "macos") {
                home.join("Library/Application Support").join(name)
            } else {
                config.join(name)
            }
        };
        Ok(match self.kind {
            McpClient::Claude => {
                vars.folder("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.to_owned()).join(".claude.json")
            }
            McpClient::ClaudeDesktop => application("Claude").join("claude_desktop_config.json"),
            McpClient::Codex => {
                vars.folder("CODEX_HOME").unwrap_or_else(|| home.join(".codex")).join("config.toml")
            }
            McpClient::Cursor => home.join(".cursor/mcp.json"),
            McpClient::Gemini => home.join(".gemini/settings.json"),
            McpClient::Opencode => with_comments(config.join("opencode/opencode.json")),
            McpClient::Vscode => application("Code").join("User/mcp.json"),
            McpClient::Windsurf => home.join(".codeium/windsurf/mcp_config.json"),
            McpClient::Zed => config.join("zed/settings.json"),
        })
    }

    /// Returns the configuration file within a project; `None` if the client has none.
    fn project_file(&self) -> Option<&'static str> {
        Some(match self.kind {
            McpClient::Claude => ".mcp.json",
            McpClient::Codex => ".codex/config.toml",
            McpClient::Cursor => ".cursor/mcp.json",
            McpClient::Gemini => ".gemini/settings.json",
            McpClient::Opencode => "opencode.json",
            McpClient::Vscode => ".vscode/mcp.json",
            McpClient::Zed => ".zed/settings.json",
            McpClient::ClaudeDesktop | McpClient::Windsurf => return None,
        })
    }

    /// Returns the entry in this client's JSON format.
    pub(super) fn json(&self, entry: &Entry) -> Value {
        let Entry { command, args } = entry;
        let style = match self.format {
            Format::Json { style, .. } => style,
            Format::Toml => JsonServerStyle::Plain,
        };
        match style {
            JsonServerStyle::Plain => json!({"command": command, "args": args}),
            JsonServerStyle::Typed => json!({"type": "stdio", "command": command, "args": args}),
            JsonServerStyle::Words => {
                let words: Vec<&String> = std::iter::once(command).chain(args).collect();
                json!({"type": "local", "command": words, "enabled": true})
            }
        }
    }
}

/// Prefers the file with comments if only that one exists.
fn with_comments(path: PathBuf) -> PathBuf {
    let other = path.with_extension("jsonc");
    if !path.exists() && other.exists() { other } else { path }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    fn file(kind: McpClient, scope: McpScope, vars: &[(&str, &str)]) -> Result<PathBuf> {
        McpClientConfig::of(kind).file(scope, &Vars::of(vars), Some(Path::new("/h")), Path::new("/p"))
    }

    #[test]
    fn every_client_has_the_name_its_flag_has_and_a_file() {
        for kind in McpClient::value_variants() {
            let client = McpClientConfig::of(*kind);
            assert_eq!(kind.to_possible_value().unwrap().get_name(), client.name);
            assert!(file(*kind, McpScope::User, &[]).unwrap().starts_with("/h"));
            match file(*kind, McpScope::Project, &[]) {
                Ok(path) => assert!(path.starts_with("/p"), "{}", path.display()),
                Err(failure) => assert!(failure.message.contains("has no configuration of projects")),
            }
        }
    }

    #[test]
    fn variables_of_the_clients_count() {
        let named = |kind, vars: &[(&str, &str)]| file(kind, McpScope::User, vars).unwrap();
        assert_eq!(named(McpClient::Claude, &[]), Path::new("/h/.claude.json"));
        let moved = named(McpClient::Claude, &[("CLAUDE_CONFIG_DIR", "/c")]);
        assert_eq!(moved, Path::new("/c/.claude.json"));
        assert_eq!(named(McpClient::Codex, &[("CODEX_HOME", "/x")]), Path::new("/x/config.toml"));
        let zed = named(McpClient::Zed, &[("XDG_CONFIG_HOME", "/g")]);
        assert_eq!(zed, Path::new("/g/zed/settings.json"));
    }
}
