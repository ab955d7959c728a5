//! MCP servers as a gateway has them: their names and definitions there, and the resulting change of its
//! configuration. One gateway serves many sessions, and a definition applies to the whole gateway. Each is
//! therefore disabled there and enabled for its own conversation alone, under a name that no other session
//! uses. Pure.

use std::collections::{BTreeMap, BTreeSet};

use agent_port::BridgeServer;
use serde_json::{Map, Value, json};

use crate::limits::{BRIDGE_CALL_SECS, BRIDGE_START_SECS, GATEWAY_SERVER_NAME_MAX_CHARS};
use provider_common::json_fields::Look;
use provider_common::mcp_spec::{McpServerSpec, McpTransport};

/// Characters of a session's id that distinguish its servers from those of others: fifty random bits.
const MARK_CHARS: usize = 10;

/// One server of a session.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GatewayServer {
    /// Its key in the gateway's configuration, and the first part of its tools' names.
    pub(super) name: String,
    /// The session's name of it.
    pub(super) own: String,
    pub(super) definition: Value,
}

/// A change of servers: their definition, or `None` to remove one.
pub(super) type Changes = BTreeMap<String, Option<Value>>;

/// Returns a session's servers. Programs run in `folder`, if the gateway has it.
pub(super) fn of_session(
    session: &str,
    specs: &[McpServerSpec],
    bridge: Option<&BridgeServer>,
    folder: Option<&str>,
) -> Vec<GatewayServer> {
    let letters: Vec<char> = session.chars().filter(char::is_ascii_alphanumeric).collect();
    let mark: String = letters[letters.len().saturating_sub(MARK_CHARS)..].iter().collect();
    let mark = mark.to_ascii_lowercase();
    let mut servers = Vec::new();
    servers.extend(bridge.map(|bridge| GatewayServer {
        name: format!("{}-{mark}", BridgeServer::NAME),
        own: BridgeServer::NAME.to_owned(),
        definition: json!({
            "enabled": false,
            "command": bridge.command.to_string_lossy(),
            "args": bridge.args,
            "connectionTimeoutMs": BRIDGE_START_SECS * 1000,
            // The daemon asks for permissions itself, which may take long.
            "requestTimeoutMs": BRIDGE_CALL_SECS * 1000,
        }),
    }));
    let mut taken = BTreeSet::new();
    for spec in specs {
        let name = named(&mark, &spec.name, &mut taken);
        servers.push(GatewayServer { name, own: spec.name.clone(), definition: definition(spec, folder) });
    }
    servers
}

/// Names a server so that the gateway keeps the name: it shortens long names and changes similar ones, and
/// then it would be unknown whose tool is meant.
fn named(mark: &str, own: &str, taken: &mut BTreeSet<String>) -> String {
    let plain: String = own.chars().map(|letter| if letter == '.' { '-' } else { letter }).collect();
    let whole = format!("{}-{mark}-{plain}", BridgeServer::NAME);
    let mut name: String = whole.chars().take(GATEWAY_SERVER_NAME_MAX_CHARS).collect();
    let mut count = 2;
    while !taken.insert(name.to_ascii_lowercase()) {
        let end = format!("-{count}");
        name = whole.chars().take(GATEWAY_SERVER_NAME_MAX_CHARS - end.len()).collect::<String>() + &end;
        count += 1;
    }
    name
}

/// Returns a server's definition in the gateway's format, disabled.
fn definition(spec: &McpServerSpec, folder: Option<&str>) -> Value {
    let millis = |wait: std::time::Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    let mut definition = match &spec.reach {
        McpTransport::Program { command, args, env } => json!({"command": command, "args": args, "env": env}),
        McpTransport::Web { url, headers } => {
            json!({"url": url, "transport": "streamable-http", "headers": headers})
        }
    };
    if let (McpTransport::Program { .. }, Some(folder)) = (&spec.reach, folder) {
        definition["cwd"] = folder.into();
    }
    definition["enabled"] = false.into();
    definition["connectionTimeoutMs"] = millis(spec.start_wait).into();
    definition["requestTimeoutMs"] = millis(spec.call_wait).into();
    definition
}

/// Returns the session's name for the gateway's `tool`, if it belongs to one of these servers.
pub(super) fn tool(servers: &BTreeMap<String, String>, tool: &str) -> Option<String> {
    let (server, tool) = tool.split_once("__")?;
    let own = servers.get(server)?;
    Some(if own == BridgeServer::NAME { tool.to_owned() } else { format!("mcp__{own}__{tool}") })
}

/// A change of a gateway's configuration: a merge patch, and the lists in it that are to be replaced.
#[derive(Debug, PartialEq)]
pub(super) struct ConfigPatch {
    pub(super) raw: String,
    pub(super) replace: Vec<String>,
}

/// Returns the change of a configuration, or `None` if there is nothing to change. An error says why it
/// cannot be changed.
pub(super) fn patch(config: &Value, changes: &Changes) -> Result<Option<ConfigPatch>, String> {
    if config.under("gateway").under("reload").text("mode") == "off" {
        let reason = "it heeds no change of its configuration while it runs (gateway.reload.mode is off)";
        return Err(reason.to_owned());
    }
    let there = config.under("mcp").under("servers");
    let (mut servers, mut replace) = (Map::new(), Vec::new());
    for (name, wanted) in changes {
        let (old, new) = (there.under(name), wanted.as_ref().unwrap_or(&Value::Null));
        if old.is_null() && new.is_null() {
            continue;
        }
        if old.get("args").is_some() {
            replace.push(format!("mcp.servers.{name}.args"));
        }
        servers.insert(name.clone(), merge(old, new));
    }
    if servers.is_empty() {
        return Ok(None);
    }
    Ok(Some(ConfigPatch { raw: json!({"mcp": {"servers": servers}}).to_string(), replace }))
}

/// Returns the merge patch from one value to another: keys that are to be removed become null.
fn merge(old: &Value, new: &Value) -> Value {
    let Value::Object(new) = new else { return new.clone() };
    let empty = Map::new();
    let old = old.as_object().unwrap_or(&empty);
    let gone = old.keys().filter(|key| !new.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let kept =
        new.iter().map(|(key, value)| (key.clone(), merge(old.get(key).unwrap_or(&Value::Null), value)));
    Value::Object(gone.chain(kept).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "sess_01KA2B3C4D5E6F7G8H9J0KMNPQ";

    fn specs(text: &str) -> Vec<McpServerSpec> {
        provider_common::mcp_spec::read(&BTreeMap::from([("mcp_servers".to_owned(), text.to_owned())]))
            .unwrap()
    }

    fn bridge() -> BridgeServer {
        BridgeServer {
            command: "/bin/obey".into(),
            args: ["mcp", "--session", SESSION].map(str::to_owned).to_vec(),
        }
    }

    #[test]
    fn servers_are_defined_for_nobody_and_named_for_one_session() {
        let specs = specs(
            r#"{"lab": {"command": "python3", "args": ["a.py"], "env": {"KEY": "${KEY}"}},
                "far": {"type": "http", "url": "https://x/mcp", "headers": {"X": "y"}, "tool_timeout_sec": 5}}"#,
        );
        let servers = of_session(SESSION, &specs, Some(&bridge()), Some("/work"));
        let shown: Vec<_> =
            servers.iter().map(|server| (server.name.as_str(), server.own.as_str())).collect();
        let wanted =
            [("obey-8h9j0kmnpq", "obey"), ("obey-8h9j0kmnpq-far", "far"), ("obey-8h9j0kmnpq-lab", "lab")];
        assert_eq!(shown, wanted);
        assert_eq!(
            servers[0].definition,
            json!({"enabled": false, "command": "/bin/obey", "args": ["mcp", "--session", SESSION],
                   "connectionTimeoutMs": 60_000, "requestTimeoutMs": 691_200_000})
        );
        assert_eq!(
            servers[1].definition,
            json!({"enabled": false, "url": "https://x/mcp", "transport": "streamable-http",
                   "headers": {"X": "y"}, "connectionTimeoutMs": 20_000, "requestTimeoutMs": 5_000})
        );
        assert_eq!(
            servers[2].definition,
            json!({"enabled": false, "command": "python3", "args": ["a.py"], "env": {"KEY": "${KEY}"},
                   "cwd": "/work", "connectionTimeoutMs": 20_000, "requestTimeoutMs": 300_000})
        );
        assert!(servers.iter().all(|server| server.definition["enabled"] == false), "{servers:?}");
    }

    #[test]
    fn names_are_short_and_no_two_sound_the_same() {
        let specs = specs(
            r#"{"a.long.name.of.a.server": {"command": "a"}, "a.long.name.of.another": {"command": "a"},
                "A.long.name.of.many": {"command": "a"}, "x": {"command": "a"}}"#,
        );
        let servers = of_session(SESSION, &specs, None, None);
        let names: BTreeSet<String> = servers.iter().map(|server| server.name.to_lowercase()).collect();
        assert_eq!(names.len(), servers.len(), "{servers:?}");
        for server in &servers {
            let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
            assert!(server.name.len() <= 30 && server.name.chars().all(plain), "{server:?}");
        }
        // All names of another session are different.
        let others = of_session("sess_01KA2B3C4D5E6F7G8H9J0KMNPR", &specs, None, None);
        assert!(others.iter().all(|server| !names.contains(&server.name.to_lowercase())), "{others:?}");
    }

    #[test]
    fn tools_have_the_names_they_have_with_every_agent() {
        let servers = BTreeMap::from([
            ("obey-8h9j0kmnpq".to_owned(), "obey".to_owned()),
            ("obey-8h9j0kmnpq-lab".to_owned(), "lab".to_owned()),
        ]);
        assert_eq!(tool(&servers, "obey-8h9j0kmnpq__safe_bash").as_deref(), Some("safe_bash"));
        assert_eq!(tool(&servers, "obey-8h9j0kmnpq-lab__a__b").as_deref(), Some("mcp__lab__a__b"));
        assert_eq!(tool(&servers, "obey-8h9j0kmnpr-lab__a"), None);
        assert_eq!(tool(&servers, "exec"), None);
    }

    #[test]
    fn a_change_is_no_more_than_what_is_wanted() {
        let changes = Changes::from([
            ("new".to_owned(), Some(json!({"enabled": false, "command": "a", "args": ["b"]}))),
            ("old".to_owned(), None),
            ("absent".to_owned(), None),
            ("again".to_owned(), Some(json!({"command": "a", "args": [], "env": {"B": "2"}}))),
        ]);
        let config = json!({
            "mcp": {"servers": {
                "old": {"command": "x", "args": ["y"]},
                "again": {"command": "a", "args": ["z"], "env": {"A": "1"}, "cwd": "/"},
                "of the user": {"url": "https://x"},
            }},
        });
        let patch = patch(&config, &changes).unwrap().unwrap();
        let raw: Value = serde_json::from_str(&patch.raw).unwrap();
        assert_eq!(
            raw,
            json!({"mcp": {"servers": {
                "new": {"enabled": false, "command": "a", "args": ["b"]},
                "old": null,
                "again": {"command": "a", "args": [], "env": {"A": null, "B": "2"}, "cwd": null},
            }}})
        );
        assert_eq!(patch.replace, ["mcp.servers.again.args", "mcp.servers.old.args"]);
    }

    #[test]
    fn nothing_is_written_for_what_is_gone_or_would_not_be_heeded() {
        let gone = Changes::from([("absent".to_owned(), None)]);
        assert_eq!(patch(&json!({}), &gone), Ok(None));
        let off = json!({"gateway": {"reload": {"mode": "off"}}});
        assert!(patch(&off, &gone).unwrap_err().contains("gateway.reload.mode"));
    }
}
