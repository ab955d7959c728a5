//! Converts what a client sends to our types. Lenient where the protocol may grow, strict where a mistake
//! would be acted on. Pure.

use std::collections::BTreeMap;

use domain::event::Attachment;
use domain::{ProviderKind, SessionId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::rpc::RpcError;
use crate::limits;

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
#[serde(rename_all = "camelCase")]
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

/// Returns MCP servers in the format of `.mcp.json`.
fn servers(servers: &[Value], provider: ProviderKind) -> Result<String, RpcError> {
    if servers.len() > limits::ACP_SERVERS_MAX {
        return Err(RpcError::params(format!("mcpServers: at most {}", limits::ACP_SERVERS_MAX)));
    }
    let mut named = Map::new();
    for server in servers {
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

/// Replaces characters that agents do not accept in server names.
fn plain_name(name: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' };
    name.chars().map(plain).take(64).collect()
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionOnlyParams {
    pub(super) session_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
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
#[serde(rename_all = "camelCase")]
pub(super) struct SetModeParams {
    pub(super) session_id: String,
    pub(super) mode_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetModelParams {
    pub(super) session_id: String,
    pub(super) model_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetOptionParams {
    pub(super) session_id: String,
    pub(super) config_id: String,
    pub(super) value: Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct ListParams {
    pub(super) cwd: Option<String>,
    pub(super) cursor: Option<String>,
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

/// The content of a prompt in our types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PromptContent {
    pub(super) text: String,
    pub(super) attachments: Vec<Attachment>,
}

/// Parses the blocks of a prompt. `takes_files`: the agent accepts more than text.
pub(super) fn content(blocks: &[Value], takes_files: bool) -> Result<PromptContent, RpcError> {
    let mut said = PromptContent::default();
    let mut context = String::new();
    for block in blocks {
        let text = |field: &str| block[field].as_str().unwrap_or_default();
        match text("type") {
            "text" => add(&mut said.text, text("text")),
            "image" if takes_files => {
                let (media_type, data) = (text("mimeType"), text("data"));
                attach(&mut said, file_name(text("uri"), media_type), media_type, data)?;
            }
            "image" => return Err(RpcError::params("prompt: this agent takes no images")),
            "resource_link" => add(&mut said.text, &link(text("title"), text("name"), text("uri"))),
            "resource" => {
                let resource = &block["resource"];
                let uri = resource["uri"].as_str().unwrap_or_default();
                match (resource["text"].as_str(), resource["blob"].as_str()) {
                    (Some(body), _) => {
                        add(&mut said.text, &link("", "", uri));
                        context.push_str(&format!("\n<context ref=\"{uri}\">\n{body}\n</context>"));
                    }
                    (None, Some(blob)) if takes_files => {
                        let media_type = resource["mimeType"].as_str().unwrap_or("application/octet-stream");
                        attach(&mut said, file_name(uri, media_type), media_type, blob)?;
                    }
                    _ => return Err(RpcError::params("prompt: a resource needs a text this agent can read")),
                }
            }
            "audio" => return Err(RpcError::params("prompt: audio is not supported")),
            other => {
                let shown: String = other.chars().filter(|letter| !letter.is_control()).take(32).collect();
                return Err(RpcError::params(format!("prompt: blocks of type {shown:?} are not supported")));
            }
        }
    }
    said.text.push_str(&context);
    if said.text.trim().is_empty() && said.attachments.is_empty() {
        return Err(RpcError::params("prompt: is empty"));
    }
    Ok(said)
}

/// Appends without a separator: editors split a message into blocks wherever something is mentioned.
fn add(text: &mut String, piece: &str) {
    text.push_str(piece);
}

/// Formats a link as Markdown, with the best available label.
fn link(title: &str, name: &str, uri: &str) -> String {
    let own = uri.rsplit('/').next().unwrap_or(uri);
    let shown = [title, name, own].into_iter().find(|text| !text.is_empty()).unwrap_or("link");
    let path = uri.strip_prefix("file://").unwrap_or(uri);
    format!("[@{shown}]({path})")
}

fn file_name(uri: &str, media_type: &str) -> String {
    let own = uri.rsplit('/').next().filter(|name| !name.is_empty());
    own.map_or_else(|| format!("file.{}", media_type.rsplit('/').next().unwrap_or("bin")), str::to_owned)
}

/// Adds a file to a prompt, within the limits of number and size.
fn attach(said: &mut PromptContent, name: String, media_type: &str, content: &str) -> Result<(), RpcError> {
    use base64::Engine as _;
    if media_type.is_empty() || base64::engine::general_purpose::STANDARD.decode(content).is_err() {
        return Err(RpcError::params(format!("prompt: {name} needs a mimeType and base64 data")));
    }
    let held: usize = said.attachments.iter().map(|attachment| attachment.content.len()).sum();
    let most = surface::limits::ATTACHMENTS_MAX_BYTES / 3 * 4;
    if held + content.len() > most || said.attachments.len() >= surface::limits::ATTACHMENTS_MAX {
        let (bytes, files) = (surface::limits::ATTACHMENTS_MAX_BYTES, surface::limits::ATTACHMENTS_MAX);
        return Err(RpcError::params(format!("prompt: at most {files} files and {bytes} bytes of them")));
    }
    said.attachments.push(Attachment {
        name,
        media_type: media_type.to_owned(),
        content: content.to_owned(),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_become_one_message() {
        let blocks = [
            json!({"type": "text", "text": "Look at "}),
            json!({"type": "resource_link", "name": "a.rs", "uri": "file:///w/a.rs"}),
            json!({"type": "text", "text": " and "}),
            json!({"type": "resource", "resource": {"uri": "file:///w/b.rs", "text": "fn b() {}"}}),
            json!({"type": "image", "mimeType": "image/png", "data": "AAAA"}),
        ];
        let said = content(&blocks, true).unwrap();
        assert_eq!(
            said.text,
            "Look at [@a.rs](/w/a.rs) and [@b.rs](/w/b.rs)\n<context ref=\"file:///w/b.rs\">\nfn b() {}\n</context>"
        );
        assert_eq!((said.attachments[0].name.as_str(), said.attachments.len()), ("file.png", 1));
    }

    #[test]
    fn what_an_agent_cannot_take_is_refused_by_name() {
        let refused = |block: Value| content(&[block], false).unwrap_err().message;
        assert!(
            refused(json!({"type": "image", "mimeType": "image/png", "data": "AAAA"})).contains("no images")
        );
        assert!(refused(json!({"type": "audio"})).contains("audio"));
        assert!(refused(json!({"type": "video"})).contains("\"video\""));
        assert!(refused(json!({"type": "text", "text": " "})).contains("is empty"));
        assert!(content(&[], true).is_err());
        let bad = json!({"type": "image", "mimeType": "image/png", "data": "?"});
        assert!(content(&[bad], true).unwrap_err().message.contains("base64"));
    }

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
        ] {
            assert!(of(members).unwrap_err().starts_with(field), "{field}");
        }
        let prompt = |members: Value| params::<PromptParams>(members).unwrap().check();
        assert!(prompt(json!({"sessionId": "s", "prompt": [], "metadata": null})).is_ok());
        let refused = prompt(json!({"sessionId": "s", "prompt": [], "metadata": {"a": 1}})).unwrap_err();
        assert!(refused.message.starts_with("metadata: "), "{refused:?}");
    }

    #[test]
    fn a_folder_must_be_absolute() {
        let place: SessionParams = params(json!({"cwd": "w", "mcpServers": []})).unwrap();
        assert_eq!(place.folder().unwrap_err().message, "cwd must be an absolute path");
        assert!(params::<SessionParams>(json!({"mcpServers": []})).unwrap_err().message.contains("cwd"));
        assert!(session_id("../x").is_err() && session_id("").is_err());
    }
}
