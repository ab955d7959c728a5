//! Converts settings, rules and MCP servers for clients. Pure.

use domain::event::{ServerStatus, ToolServer};
use domain::permission::pattern::CallPattern;
use domain::permission::{Grant, GrantAction, PermissionRule, PermissionRules, RuleAction};
use runtime::Snapshot;
use runtime::settings::SettingsLayer;
use wire::betcode::v1 as pb;

use crate::DaemonInfo;

/// Converts one layer of settings. The daemon's own settings are added by the caller.
pub(super) fn settings(layer: &SettingsLayer) -> pb::Settings {
    let (sessions, permissions) = (&layer.sessions, &layer.permissions);
    pb::Settings {
        daemon: None,
        sessions: Some(pb::SessionSettings {
            default_model: sessions.default_model.clone(),
            auto_compact: sessions.auto_compact,
            auto_compact_threshold: sessions.auto_compact_threshold,
            max_messages_per_session: sessions.max_messages_per_session,
        }),
        permissions: Some(pb::PermissionSettings {
            connected_timeout_secs: permissions.connected_timeout_secs,
            disconnected_timeout_secs: permissions.disconnected_timeout_secs,
            enable_auto_approve: permissions.enable_auto_approve,
            auto_approve_directories: permissions.auto_approve_directories.clone().unwrap_or_default(),
            activity_refresh_enabled: permissions.activity_refresh_enabled,
        }),
        feature_flags: layer.feature_flags.clone().into_iter().collect(),
    }
}

/// Converts the daemon's own settings, which clients cannot change here.
pub(super) fn daemon(daemon: &DaemonInfo) -> pb::DaemonSettings {
    pb::DaemonSettings {
        max_subprocesses: Some(daemon.max_subprocesses),
        socket_path: Some(daemon.socket.display().to_string()),
        port: daemon.port.map(u32::from),
        database_path: Some(daemon.database.display().to_string()),
        log_level: Some(daemon.log_level.clone()),
        max_payload_bytes: Some(surface::limits::ATTACHMENTS_MAX_BYTES as u64),
    }
}

/// Returns all rules. The session's grants come before every rule, newest first.
pub(super) fn rules(grants: &[Grant], rules: &PermissionRules) -> pb::PermissionRules {
    let mut all: Vec<pb::PermissionRule> = grants.iter().rev().enumerate().map(granted).collect();
    all.extend(rules.iter().map(rule));
    let whole = |action: RuleAction| -> Vec<String> {
        let about_all = rules.iter().filter(|rule| rule.action == action && rule.path_pattern.is_empty());
        let tools = about_all.filter_map(|rule| CallPattern::parse("rule", &rule.tool_pattern).ok());
        tools.filter(CallPattern::is_general).map(|pattern| pattern.tool().to_owned()).collect()
    };
    pb::PermissionRules {
        rules: all,
        denied_tools: whole(RuleAction::Deny),
        require_approval: whole(RuleAction::Ask),
    }
}

/// Converts a grant of the session to a rule.
fn granted((number, grant): (usize, &Grant)) -> pb::PermissionRule {
    let action = match grant.action {
        GrantAction::Deny => pb::PermissionAction::Deny,
        GrantAction::Ask => pb::PermissionAction::Ask,
        GrantAction::Allow => pb::PermissionAction::Allow,
    };
    pb::PermissionRule {
        id: format!("session-{}", number + 1),
        tool_pattern: grant.label(),
        path_pattern: String::new(),
        action: action.into(),
        priority: i32::MIN,
        description: "remembered in this session".to_owned(),
        source: "session".to_owned(),
    }
}

/// Converts a rule of the settings files.
fn rule(rule: &PermissionRule) -> pb::PermissionRule {
    let action = match rule.action {
        RuleAction::Allow => pb::PermissionAction::Allow,
        RuleAction::Deny => pb::PermissionAction::Deny,
        RuleAction::Ask => pb::PermissionAction::Ask,
        RuleAction::AskSession => pb::PermissionAction::AskSession,
    };
    pb::PermissionRule {
        id: rule.id.clone(),
        tool_pattern: rule.tool_pattern.clone(),
        path_pattern: rule.path_pattern.clone(),
        action: action.into(),
        priority: rule.priority,
        description: rule.description.clone(),
        source: rule.source.clone(),
    }
}

/// Adds the servers that the session was created with to those of the agent's own configuration, by name: agents report little
/// more than names.
fn given_servers(
    snapshot: &Snapshot,
    mut configured: serde_json::Map<String, serde_json::Value>,
) -> serde_json::Map<String, serde_json::Value> {
    let text = snapshot.spec.provider_config.get("mcp_servers").map_or("", String::as_str);
    if let Ok(serde_json::Value::Object(servers)) = serde_json::from_str(text) {
        configured.extend(servers);
    }
    configured
}

/// Returns the type of a server and where it is: as the agent says, else as it was given. Arguments and headers may be
/// secrets and are not shown.
fn described(server: &ToolServer, given: Option<&serde_json::Value>) -> (String, String) {
    if !server.endpoint.is_empty() {
        return ("http".to_owned(), server.endpoint.clone());
    }
    if server.name == OWN_SERVER {
        return ("stdio".to_owned(), OWN_SERVER.to_owned());
    }
    let member = |name: &str| given.and_then(|given| given[name].as_str());
    match (member("url"), member("command")) {
        (Some(url), _) => (member("type").unwrap_or("http").to_owned(), url.to_owned()),
        (None, Some(command)) => ("stdio".to_owned(), command.to_owned()),
        (None, None) => (String::new(), String::new()),
    }
}

/// The daemon's own server, which every agent gets.
const OWN_SERVER: &str = "obey";

/// Returns the MCP servers of a session. Without an agent they count as stopped.
pub(super) fn mcp_servers(
    snapshot: &Snapshot,
    configured: serde_json::Map<String, serde_json::Value>,
) -> Vec<pb::McpServerInfo> {
    let runs = snapshot.state.status.has_agent();
    let given = given_servers(snapshot, configured);
    let server = |server: &ToolServer| {
        let status = match server.status {
            _ if !runs => pb::McpServerStatus::Stopped,
            ServerStatus::Starting => pb::McpServerStatus::Starting,
            ServerStatus::Running => pb::McpServerStatus::Running,
            ServerStatus::Stopped => pb::McpServerStatus::Stopped,
            ServerStatus::Failed => pb::McpServerStatus::Error,
        };
        let (server_type, endpoint) = described(server, given.get(&server.name));
        pb::McpServerInfo {
            name: server.name.clone(),
            server_type,
            endpoint,
            status: status.into(),
            tools: server.tools.clone(),
            error_message: server.error.clone(),
        }
    };
    snapshot.state.servers.iter().map(server).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_is_described_as_the_agent_says_or_as_it_was_given() {
        let server = |name: &str, endpoint: &str| ToolServer {
            name: name.to_owned(),
            status: ServerStatus::Running,
            tools: Vec::new(),
            endpoint: endpoint.to_owned(),
            error: String::new(),
        };
        let of = |server: &ToolServer, given: Option<serde_json::Value>| described(server, given.as_ref());
        let is = |kind: &str, endpoint: &str| (kind.to_owned(), endpoint.to_owned());
        assert_eq!(of(&server("a", "http://x/"), None), is("http", "http://x/"));
        let program = json!({"command": "/bin/files", "args": ["--key", "secret"]});
        assert_eq!(of(&server("a", ""), Some(program)), is("stdio", "/bin/files"));
        let events = json!({"type": "sse", "url": "http://y/", "headers": {"authorization": "secret"}});
        assert_eq!(of(&server("a", ""), Some(events)), is("sse", "http://y/"));
        assert_eq!(of(&server("a", ""), Some(json!({"url": "http://z/"}))), is("http", "http://z/"));
        assert_eq!(of(&server("obey", ""), None), is("stdio", "obey"));
        assert_eq!(of(&server("a", ""), None), is("", ""));
    }
}
