//! Converts what a client sends to our types. Lenient where the protocol may grow (`initialize`, by which versions are
//! negotiated), strict elsewhere: a field that nothing would use is refused by its name, and extensions belong in `_meta`.
//! Pure.

use std::collections::BTreeMap;

use domain::{ProviderKind, SessionId};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value, json};

use super::rpc::RpcError;
use crate::limits;

mod prompt_content;

pub(super) use prompt_content::content;

/// Parses the parameters of a method; the error names the field.
pub(super) fn params<T: DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    let params = if params.is_null() { json!({}) } else { params };
    serde_path_to_error::deserialize(params).map_err(|error| {
        // A field that is missing is named by the message.
        let field = Some(error.path().to_string()).filter(|path| path != ".");
        RpcError::params(format!("{}: {}", field.as_deref().unwrap_or("params"), error.inner()))
    })
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Initialize {
    /// Any integer; we answer with the version we implement.
    #[serde(rename = "protocolVersion")]
    pub(super) _protocol_version: u64,
    #[serde(default)]
    pub(super) client_capabilities: Value,
    #[serde(default)]
    pub(super) client_info: Value,
}

/// What the client supports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClientCapabilities {
    pub(super) name: String,
    pub(super) reads_files: bool,
    pub(super) writes_files: bool,
    pub(super) has_terminals: bool,
    pub(super) takes_forms: bool,
    pub(super) takes_notices: bool,
    pub(super) takes_compaction: bool,
    /// Whether it shows each option of a permission by its name, and not by its kind.
    pub(super) names_options: bool,
}

/// Clients with one label and one key for each kind of option. Where several options are of a kind, such a key means the last of
/// them, and nobody sees which that is.
const OPTIONS_BY_KIND: &[&str] = &["CodeCompanion.nvim"];

impl ClientCapabilities {
    /// Reads the client's name and capabilities; what is missing counts as unsupported.
    pub(super) fn read(initialize: &Initialize) -> Self {
        let can = &initialize.client_capabilities;
        let name: String = initialize.client_info["name"]
            .as_str()
            .unwrap_or_default()
            .chars()
            .filter(|letter| !letter.is_control())
            .take(64)
            .collect();
        Self {
            names_options: !OPTIONS_BY_KIND.contains(&name.as_str()),
            name: if name.is_empty() { "editor".to_owned() } else { name },
            reads_files: can["fs"]["readTextFile"] == true,
            writes_files: can["fs"]["writeTextFile"] == true,
            has_terminals: can["terminal"] == true,
            takes_forms: can["elicitation"]["form"].is_object(),
            takes_notices: can["session"]["notices"].is_object(),
            takes_compaction: can["session"]["compaction"].is_object(),
        }
    }
}

/// Parameters of `session/new`, `session/load` and `session/resume`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SessionParams {
    #[serde(default)]
    pub(super) session_id: String,
    pub(super) cwd: String,
    #[serde(default)]
    pub(super) mcp_servers: Value,
    #[serde(default)]
    pub(super) additional_directories: Value,
    /// Settings of the agent, as `provider_config` elsewhere; sent by clients of the former bridge.
    #[serde(default)]
    pub(super) config: Value,
    /// Sent by clients of the former bridge.
    pub(super) permission_mode: Option<String>,
    #[serde(default, rename = "_meta")]
    pub(super) meta: Value,
}

impl SessionParams {
    /// Returns the working directory, which must be absolute.
    pub(super) fn folder(&self) -> Result<&str, RpcError> {
        if std::path::Path::new(&self.cwd).is_absolute() {
            return Ok(&self.cwd);
        }
        Err(RpcError::params("cwd must be an absolute path"))
    }

    /// Returns the `provider_config` entries for the MCP servers and additional directories.
    pub(super) fn provider_config(
        &self,
        provider: ProviderKind,
    ) -> Result<BTreeMap<String, String>, RpcError> {
        let mut config = settings(&self.config)?;
        let given = list("mcpServers", &self.mcp_servers)?;
        if !given.is_empty() {
            config.insert("mcp_servers".to_owned(), servers(given, provider)?);
        }
        let folders = list("additionalDirectories", &self.additional_directories)?;
        if !folders.is_empty() {
            let is_absolute = |folder: &&Value| {
                folder.as_str().is_some_and(|folder| std::path::Path::new(folder).is_absolute())
            };
            if let Some(folder) = folders.iter().find(|folder| !is_absolute(folder)) {
                let message = format!("additionalDirectories: {folder} is not an absolute path");
                return Err(RpcError::params(message));
            }
            config.insert("add_dirs".to_owned(), json!(folders).to_string());
        }
        Ok(config)
    }
}

/// Returns the entries of a list, which may be left out.
fn list<'a>(field: &str, value: &'a Value) -> Result<&'a [Value], RpcError> {
    match value {
        Value::Null => Ok(&[]),
        Value::Array(entries) => Ok(entries),
        _ => Err(RpcError::params(format!("{field}: must be a list"))),
    }
}

/// Returns settings of the agent. Which there are, its provider says.
fn settings(config: &Value) -> Result<BTreeMap<String, String>, RpcError> {
    let members = match config {
        Value::Null => return Ok(BTreeMap::new()),
        Value::Object(members) => members,
        _ => return Err(RpcError::params("config: must be an object of settings")),
    };
    if let Some(key) =
        ["permission_mode", "mcp_servers", "add_dirs"].iter().find(|key| members.contains_key(**key))
    {
        let message =
            format!("config.{key}: is said by permissionMode, mcpServers and additionalDirectories");
        return Err(RpcError::params(message));
    }
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Ok(members.iter().map(|(key, value)| (key.clone(), text(value))).collect())
}

/// Refuses a member that nothing would use, by its name. `_meta` is for extensions and passes everywhere.
fn check_members(what: &str, value: &Value, known: &[&str]) -> Result<(), RpcError> {
    let members = value.as_object().ok_or_else(|| RpcError::params(format!("{what}: must be an object")))?;
    match members.keys().find(|name| *name != "_meta" && !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let shown: String = name.chars().filter(|letter| !letter.is_control()).take(64).collect();
            let known = known.join(", ");
            let problem =
                format!("unknown field {shown:?}, expected one of {known}; extensions belong in _meta");
            Err(RpcError::params(format!("{what}: {problem}")))
        }
    }
}

/// Returns MCP servers in the format of `.mcp.json`.
fn servers(servers: &[Value], provider: ProviderKind) -> Result<String, RpcError> {
    if servers.len() > limits::ACP_SERVERS_MAX {
        return Err(RpcError::params(format!("mcpServers: at most {}", limits::ACP_SERVERS_MAX)));
    }
    let mut named = Map::new();
    for (at, server) in servers.iter().enumerate() {
        check_server(&format!("mcpServers[{at}]"), server)?;
        let wrong = |what: &str| RpcError::params(format!("mcpServers: {what}"));
        let name = server["name"].as_str().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| wrong("every server needs a name"))?;
        let pairs = |field: &str| -> Map<String, Value> {
            let entries = server[field].as_array().into_iter().flatten();
            entries
                .filter_map(|entry| Some((entry["name"].as_str()?.into(), entry["value"].clone())))
                .collect()
        };
        let own = match server["type"].as_str() {
            Some("sse") if provider != ProviderKind::ClaudeCode => {
                return Err(wrong("servers over SSE are not supported; use http or stdio"));
            }
            Some(kind @ ("http" | "sse")) => {
                let url = server["url"].as_str().ok_or_else(|| wrong("an http server needs a url"))?;
                json!({"type": kind, "url": url, "headers": pairs("headers")})
            }
            None | Some("stdio") => {
                let command = server["command"].as_str().ok_or_else(|| wrong("a server needs a command"))?;
                let args = if server["args"].is_array() { server["args"].clone() } else { json!([]) };
                json!({"command": command, "args": args, "env": pairs("env")})
            }
            Some(_) => return Err(wrong("a server's type is http, sse or absent")),
        };
        named.insert(plain_name(name), own);
    }
    Ok(Value::Object(named).to_string())
}

/// Refuses what the entry of a server has and nothing would use.
fn check_server(what: &str, server: &Value) -> Result<(), RpcError> {
    let is_remote = matches!(server["type"].as_str(), Some("http" | "sse"));
    let known: &[&str] = if is_remote {
        &["type", "name", "url", "headers"]
    } else {
        &["type", "name", "command", "args", "env"]
    };
    check_members(what, server, known)?;
    for field in ["env", "headers"] {
        for (at, pair) in list(field, &server[field])?.iter().enumerate() {
            check_members(&format!("{what}.{field}[{at}]"), pair, &["name", "value"])?;
        }
    }
    Ok(())
}

/// Replaces characters that agents do not accept in server names.
fn plain_name(name: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' };
    name.chars().map(plain).take(64).collect()
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SessionOnlyParams {
    pub(super) session_id: String,
    #[serde(default, rename = "_meta")]
    _meta: IgnoredAny,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PromptParams {
    pub(super) session_id: String,
    pub(super) prompt: Vec<Value>,
    /// Of the former bridge, which did nothing with it.
    #[serde(default)]
    pub(super) metadata: Value,
    #[serde(default, rename = "_meta")]
    pub(super) meta: Value,
}

impl PromptParams {
    /// Refuses what would be ignored.
    pub(super) fn check(&self) -> Result<(), RpcError> {
        if self.metadata.is_null() {
            return Ok(());
        }
        Err(RpcError::params("metadata: is not used; leave it out, or send _meta"))
    }
}

/// Returns the key by which a client makes a request take effect once; empty: it has none.
pub(super) fn client_key(meta: &Value) -> String {
    meta["clientKey"].as_str().unwrap_or_default().to_owned()
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SetModeParams {
    pub(super) session_id: String,
    pub(super) mode_id: String,
    #[serde(default, rename = "_meta")]
    _meta: IgnoredAny,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SetModelParams {
    pub(super) session_id: String,
    pub(super) model_id: String,
    #[serde(default, rename = "_meta")]
    _meta: IgnoredAny,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SetOptionParams {
    pub(super) session_id: String,
    pub(super) config_id: String,
    pub(super) value: Value,
    /// What kind of value it is; all of ours are texts, whose kind the protocol lets a client name as it likes.
    #[serde(default, rename = "type")]
    _kind: IgnoredAny,
    #[serde(default, rename = "_meta")]
    _meta: IgnoredAny,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListParams {
    pub(super) cwd: Option<String>,
    pub(super) cursor: Option<String>,
    #[serde(default, rename = "_meta")]
    _meta: IgnoredAny,
}

/// Parses a session id.
pub(super) fn session_id(text: &str) -> Result<SessionId, RpcError> {
    let known = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if text.starts_with(domain::id::SESSION_PREFIX) && text.len() <= 64 && text.chars().all(known) {
        return Ok(SessionId::new(text));
    }
    let shown: String = text.chars().filter(|letter| !letter.is_control()).take(64).collect();
    Err(RpcError::params(format!("sessionId: there is no session {shown:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_as_agents_take_them() {
        let place: SessionParams = params(json!({"cwd": "/w", "mcpServers": [
            {"name": "my server", "command": "/bin/x", "args": ["-a"], "env": [{"name": "K", "value": "v"}]},
            {"type": "http", "name": "web", "url": "http://127.0.0.1/mcp", "headers": [{"name": "h", "value": "1"}]},
        ]}))
        .unwrap();
        let config = place.provider_config(ProviderKind::Codex).unwrap();
        let servers: Value = serde_json::from_str(&config["mcp_servers"]).unwrap();
        assert_eq!(
            servers,
            json!({
                "my-server": {"command": "/bin/x", "args": ["-a"], "env": {"K": "v"}},
                "web": {"type": "http", "url": "http://127.0.0.1/mcp", "headers": {"h": "1"}},
            })
        );
        let sse: SessionParams =
            params(json!({"cwd": "/w", "mcpServers": [{"type": "sse", "name": "x", "url": "y"}]})).unwrap();
        assert!(sse.provider_config(ProviderKind::Codex).is_err());
    }

    #[test]
    fn a_field_of_another_type_is_refused_by_name() {
        for (members, field) in [
            (json!({"cwd": 5}), "cwd: invalid type"),
            (json!({"cwd": "/w", "sessionId": []}), "sessionId: invalid type"),
            (json!({"cwd": "/w", "permissionMode": {}}), "permissionMode: invalid type"),
            (json!({}), "params: missing field `cwd`"),
            (json!({"cwd": "/w", "mcpServer": []}), "mcpServer: unknown field `mcpServer`"),
        ] {
            let refused = params::<SessionParams>(members).unwrap_err();
            assert!(refused.message.starts_with(field), "{}", refused.message);
        }
    }

    #[test]
    fn fields_are_used_or_refused_by_name() {
        let of = |members: Value| {
            let mut params_of = json!({"cwd": "/w"});
            params_of.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            let place: SessionParams = params(params_of).unwrap();
            place.provider_config(ProviderKind::Codex).map_err(|fault| fault.message)
        };
        assert!(
            of(json!({"mcpServers": null, "additionalDirectories": null, "config": null}))
                .unwrap()
                .is_empty()
        );
        let used = of(json!({"config": {"sandbox": "read-only", "network_access": true}})).unwrap();
        assert_eq!((used["sandbox"].as_str(), used["network_access"].as_str()), ("read-only", "true"));
        for (members, field) in [
            (json!({"mcpServers": {}}), "mcpServers: must be a list"),
            (json!({"additionalDirectories": ["x"]}), "additionalDirectories: \"x\""),
            (json!({"additionalDirectories": [1]}), "additionalDirectories: 1"),
            (json!({"config": "x"}), "config: must be an object"),
            (json!({"config": {"permission_mode": "plan"}}), "config.permission_mode"),
            (
                json!({"mcpServers": [{"name": "a", "command": "b", "evn": []}]}),
                "mcpServers[0]: unknown field \"evn\"",
            ),
            (
                json!({"mcpServers": [{"name": "a", "command": "b", "env": [{"nam": "x"}]}]}),
                "mcpServers[0].env[0]: unknown field \"nam\"",
            ),
            (json!({"mcpServers": ["a"]}), "mcpServers[0]: must be an object"),
        ] {
            assert!(of(members).unwrap_err().starts_with(field), "{field}");
        }
        let prompt = |members: Value| params::<PromptParams>(members).unwrap().check();
        assert!(prompt(json!({"sessionId": "s", "prompt": [], "metadata": null})).is_ok());
        let refused = prompt(json!({"sessionId": "s", "prompt": [], "metadata": {"a": 1}})).unwrap_err();
        assert!(refused.message.starts_with("metadata: "), "{refused:?}");
    }

    #[test]
    fn a_field_that_no_method_knows_is_refused_by_name() {
        fn refused<T: DeserializeOwned + std::fmt::Debug>(mut members: Value) {
            params::<T>(members.clone()).unwrap();
            members["_meta"] = json!({"vendor": 1});
            params::<T>(members.clone()).unwrap();
            members["bogus"] = json!(true);
            let fault = params::<T>(members).unwrap_err();
            assert!(fault.message.contains("unknown field `bogus`"), "{fault:?}");
        }
        refused::<SessionParams>(json!({"cwd": "/w", "mcpServers": []}));
        refused::<SessionOnlyParams>(json!({"sessionId": "s"}));
        refused::<PromptParams>(json!({"sessionId": "s", "prompt": []}));
        refused::<SetModeParams>(json!({"sessionId": "s", "modeId": "plan"}));
        refused::<SetModelParams>(json!({"sessionId": "s", "modelId": "m"}));
        refused::<SetOptionParams>(
            json!({"sessionId": "s", "configId": "mode", "value": "plan", "type": "select"}),
        );
        refused::<ListParams>(json!({"cwd": "/w", "cursor": null}));
        // Versions are negotiated here: a client of a later one may say more.
        params::<Initialize>(json!({"protocolVersion": 9, "later": true})).unwrap();
    }

    #[test]
    fn a_folder_must_be_absolute() {
        let place: SessionParams = params(json!({"cwd": "w", "mcpServers": []})).unwrap();
        assert_eq!(place.folder().unwrap_err().message, "cwd must be an absolute path");
        assert!(params::<SessionParams>(json!({"mcpServers": []})).unwrap_err().message.contains("cwd"));
        assert!(session_id("../x").is_err() && session_id("").is_err());
    }
}
