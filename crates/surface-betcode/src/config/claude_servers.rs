//! The MCP servers that Claude Code takes from its own configuration: the user's, those of a folder, and the project's
//! `.mcp.json`. Read to describe them to clients, since the agent says little more than their names. Changes nothing.

use std::path::{Path, PathBuf};

use domain::{ProviderKind, SessionSpec};
use host::project_file;
use serde_json::{Map, Value};

use crate::limits;

/// Returns the servers of a session's agent by name; the nearest to the folder wins, as with the agent.
pub(super) fn configured(spec: &SessionSpec) -> Map<String, Value> {
    if spec.provider != ProviderKind::ClaudeCode {
        return Map::new();
    }
    let text = user_file(spec)
        .and_then(|path| project_file::read_own_text(&path, limits::CLAUDE_CONFIG_MAX_BYTES).ok().flatten());
    let user = parsed(text);
    let most = limits::CLAUDE_CONFIG_MAX_BYTES;
    let project = project_file::read_text(&spec.working_dir, Path::new(".mcp.json"), most).ok().flatten();
    let local = &user["projects"][spec.working_dir.to_string_lossy().as_ref()];
    merged(&[&user, &parsed(project), local])
}

/// Returns the agent's own file of the user's settings.
fn user_file(spec: &SessionSpec) -> Option<PathBuf> {
    let variable = |name: &str| {
        let own = spec.environment.get(name).map(PathBuf::from);
        own.or_else(|| std::env::var_os(name).map(PathBuf::from)).filter(|path| path.is_absolute())
    };
    variable("CLAUDE_CONFIG_DIR").or_else(|| variable("HOME")).map(|folder| folder.join(".claude.json"))
}

/// A file that is missing or broken has no servers.
fn parsed(text: Option<String>) -> Value {
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Returns the servers of several files; later ones win.
fn merged(files: &[&Value]) -> Map<String, Value> {
    let servers = files.iter().filter_map(|file| file["mcpServers"].as_object());
    servers.flatten().map(|(name, server)| (name.clone(), without_query(server.clone()))).collect()
}

/// Removes what may be a secret from an address.
fn without_query(mut server: Value) -> Value {
    if let Some(url) = server["url"].as_str() {
        let plain = url.split(['?', '#']).next().unwrap_or_default();
        let shown = match (plain.split_once("://"), plain.rsplit_once('@')) {
            (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
            _ => plain.to_owned(),
        };
        server["url"] = shown.into();
    }
    server
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_nearest_configuration_wins_and_secrets_of_addresses_are_removed() {
        let user =
            json!({"mcpServers": {"a": {"command": "far"}, "b": {"url": "https://u:p@h/x?key=secret"}}});
        let project = json!({"mcpServers": {"a": {"command": "near"}}});
        let all = merged(&[&user, &project, &Value::Null]);
        assert_eq!(all["a"]["command"], "near");
        assert_eq!(all["b"]["url"], "https://h/x");
        assert_eq!(parsed(Some("{broken".into())), Value::Null);
    }
}
