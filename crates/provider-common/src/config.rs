//! Parses `provider_config`: which keys a provider accepts and what their values may be. Every error names
//! `provider_config.<key>`. Knows no provider.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use agent_port::BridgeServer;
use domain::{Error, Mode};
use serde_json::{Map, Value};

use crate::limits;
use crate::mcp_spec::filled;
use crate::suggestion::near;

/// Refuses keys that are not on a provider's list; silently ignoring a key would be a trap.
pub fn check_keys(config: &BTreeMap<String, String>, allowed: &[&str]) -> Result<(), Error> {
    for key in config.keys() {
        if allowed.contains(&key.as_str()) {
            continue;
        }
        let remedy = match near(key, allowed.iter().copied()).first() {
            Some(name) => format!("is not known; did you mean {name}?"),
            None => format!("is not known; this provider takes {}", allowed.join(", ")),
        };
        return Err(invalid(key, remedy));
    }
    Ok(())
}

/// Creates the error for one key.
pub fn invalid(key: &str, remedy: impl std::fmt::Display) -> Error {
    // The key comes from a client and ends up in logs: no control characters, limited length.
    let shown: String = key.chars().filter(|letter| !letter.is_control()).take(64).collect();
    Error::invalid(&format!("provider_config.{shown}"), remedy)
}

/// Parses a flag; absent means false.
pub fn flag(config: &BTreeMap<String, String>, key: &str) -> Result<bool, Error> {
    match config.get(key).map(String::as_str) {
        None | Some("false" | "0" | "no" | "") => Ok(false),
        Some("true" | "1" | "yes") => Ok(true),
        Some(_) => Err(invalid(key, "must be true or false")),
    }
}

/// Parses a whole number within bounds.
pub fn number(
    config: &BTreeMap<String, String>,
    key: &str,
    bounds: std::ops::RangeInclusive<u64>,
) -> Result<Option<u64>, Error> {
    let Some(text) = config.get(key) else { return Ok(None) };
    match text.parse::<u64>() {
        Ok(value) if bounds.contains(&value) => Ok(Some(value)),
        _ => Err(invalid(
            key,
            format_args!("must be a whole number from {} to {}", bounds.start(), bounds.end()),
        )),
    }
}

/// Checks `permission_mode`, which the surfaces turn into the session's mode; here it only must be valid.
pub fn check_permission_mode(config: &BTreeMap<String, String>) -> Result<(), Error> {
    match config.get(Mode::CONFIG_KEY) {
        Some(text) if Mode::parse(text).is_none() => {
            let names: Vec<&str> = Mode::ALL.iter().map(|(_, name)| *name).collect();
            Err(invalid(Mode::CONFIG_KEY, format_args!("must be one of {}", names.join(", "))))
        }
        _ => Ok(()),
    }
}

/// Parses a value that becomes part of one command line argument.
pub fn argument(config: &BTreeMap<String, String>, key: &str) -> Result<String, Error> {
    let value = config.get(key).map(|value| value.trim()).unwrap_or_default();
    if value.contains('\0') {
        return Err(invalid(key, "must not contain NUL"));
    }
    if value.len() > limits::ARGUMENT_MAX_BYTES {
        return Err(invalid(key, format_args!("is longer than {} bytes", limits::ARGUMENT_MAX_BYTES)));
    }
    Ok(value.to_owned())
}

/// Parses one of a few words; empty if not set.
pub fn one_of(config: &BTreeMap<String, String>, key: &str, allowed: &[&str]) -> Result<String, Error> {
    let value = argument(config, key)?;
    if value.is_empty() || allowed.contains(&value.as_str()) {
        return Ok(value);
    }
    Err(invalid(key, format_args!("must be one of {}", allowed.join(", "))))
}

/// Parses a name: it becomes part of a configuration key or is looked up.
pub fn word(config: &BTreeMap<String, String>, key: &str) -> Result<String, Error> {
    let value = argument(config, key)?;
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    if value.len() <= 64 && value.chars().all(plain) {
        return Ok(value);
    }
    Err(invalid(key, "must be one word of letters, digits, - and _"))
}

/// Parses the address of an endpoint; empty if not set.
pub fn address(config: &BTreeMap<String, String>, key: &str) -> Result<String, Error> {
    let value = argument(config, key)?;
    if value.is_empty() || is_address(&value) {
        return Ok(value);
    }
    Err(invalid(key, "must be an address such as https://example.com/v1"))
}

/// Returns whether a text is the address of an endpoint.
pub fn is_address(value: &str) -> bool {
    let host = value.strip_prefix("http://").or_else(|| value.strip_prefix("https://"));
    let printable = value.chars().all(|letter| letter.is_ascii_graphic());
    host.is_some_and(|host| !host.is_empty() && !host.starts_with('/')) && printable
}

/// Returns whether an address contains a user name or a password.
pub fn has_userinfo(address: &str) -> bool {
    let host = address.split_once("://").map_or(address, |(_, rest)| rest);
    host.split(['/', '?', '#']).next().is_some_and(|host| host.contains('@'))
}

/// Parses an absolute path, or a JSON list of them.
pub fn directories(config: &BTreeMap<String, String>, key: &str) -> Result<Vec<PathBuf>, Error> {
    let value = argument(config, key)?;
    let paths: Vec<String> = if value.starts_with('[') {
        serde_json::from_str(&value)
            .map_err(|error| invalid(key, format_args!("is not a JSON list of paths: {error}")))?
    } else if value.is_empty() {
        Vec::new()
    } else {
        vec![value]
    };
    let dirs: Vec<PathBuf> = paths.into_iter().map(PathBuf::from).collect();
    match dirs.iter().find(|dir| !dir.is_absolute() || dir.as_os_str().as_encoded_bytes().contains(&0)) {
        Some(dir) => Err(invalid(key, format_args!("{} is not an absolute path", dir.display()))),
        None => Ok(dirs),
    }
}

/// Parses MCP servers by name, as in `.mcp.json`; each has a command or a URL.
pub fn mcp_servers(config: &BTreeMap<String, String>) -> Result<Map<String, Value>, Error> {
    const KEY: &str = "mcp_servers";
    let Some(text) = config.get(KEY).filter(|text| !text.trim().is_empty()) else { return Ok(Map::new()) };
    let wrong = |what: String| invalid(KEY, what);
    let value: Value =
        serde_json::from_str(text).map_err(|error| wrong(format!("is not a JSON object: {error}")))?;
    // The content of a `.mcp.json` file is accepted unchanged.
    let value = match value {
        Value::Object(mut map) if map.len() == 1 && map.contains_key("mcpServers") => {
            map.remove("mcpServers").unwrap_or_default()
        }
        other => other,
    };
    let Value::Object(mut servers) = value else {
        return Err(wrong("must be a JSON object of servers by name".to_owned()));
    };
    // They have one order, however they are written: derived names depend on it.
    servers.sort_keys();
    for (name, server) in &mut servers {
        let good = !name.is_empty()
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.'));
        let Some(server) = server.as_object_mut().filter(|_| good) else {
            return Err(wrong(format!("server {name:?} must have a plain name and be an object")));
        };
        if name == BridgeServer::NAME {
            return Err(wrong(format!("the name {name} is the daemon's own; choose another")));
        }
        if server.get("command").is_some_and(Value::is_string) {
            // A value that is not a text is silently dropped by one agent and fails another.
            started_with(server).map_err(|what| wrong(format!("server {name}: {what}")))?;
            // The agent fails on a server without this list.
            server.entry("args").or_insert_with(|| Value::Array(Vec::new()));
        } else if !server.get("url").is_some_and(Value::is_string) {
            return Err(wrong(format!("server {name} needs a command or a url")));
        }
    }
    Ok(servers)
}

/// Parses the arguments and the variables of a server that is a program.
pub fn started_with(server: &Map<String, Value>) -> Result<(Vec<String>, BTreeMap<String, String>), String> {
    let args = match server.get("args") {
        None => Some(Vec::new()),
        Some(list) => list.as_array().and_then(|list| {
            list.iter().map(|arg| arg.as_str().filter(|arg| !arg.contains('\0')).map(str::to_owned)).collect()
        }),
    };
    let args = args.ok_or_else(|| "args must be a list of texts".to_owned())?;
    let env = texts(server, "env")?;
    // Variables that a request may not set for an agent may not be set for its server either.
    agent_port::environment::check(&env).map_err(|error| error.message)?;
    Ok((args, env))
}

/// Parses texts by name; empty if the key is missing.
pub fn texts(server: &Map<String, Value>, key: &str) -> Result<BTreeMap<String, String>, String> {
    let Some(value) = server.get(key) else { return Ok(BTreeMap::new()) };
    let entries = value.as_object().and_then(|map| {
        map.iter().map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
    });
    entries.ok_or_else(|| format!("{key} must be an object of texts"))
}

/// Replaces names of variables with their values from the agent's environment, in everything servers are
/// started and reached with, so that keys need not be stored.
pub fn fill_servers(
    servers: &mut Map<String, Value>,
    environment: &[(OsString, OsString)],
) -> Result<(), Error> {
    fn fill(value: &mut Value, environment: &[(OsString, OsString)]) -> Result<(), String> {
        match value {
            Value::String(text) => *text = filled(text, environment)?,
            Value::Array(list) => list.iter_mut().try_for_each(|value| fill(value, environment))?,
            Value::Object(map) => map.values_mut().try_for_each(|value| fill(value, environment))?,
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        Ok(())
    }
    servers.iter_mut().try_for_each(|(name, server)| {
        fill(server, environment)
            .map_err(|what| invalid("mcp_servers", format_args!("server {name}: {what}")))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn variables_of_servers_are_filled_in_wherever_they_stand() {
        let text = r#"{"s": {"command": "${TOOL}", "args": ["--key=${KEY}", "${NO:-none}"], "env": {"K": "${KEY}"}}}"#;
        let environment = [("TOOL".into(), "x".into()), ("KEY".into(), "secret".into())];
        let mut servers = mcp_servers(&config(&[("mcp_servers", text)])).unwrap();
        fill_servers(&mut servers, &environment).unwrap();
        let filled = json!({"command": "x", "args": ["--key=secret", "none"], "env": {"K": "secret"}});
        assert_eq!(servers["s"], filled);
        let mut servers =
            mcp_servers(&config(&[("mcp_servers", r#"{"s": {"url": "http://${HOST}/"}}"#)])).unwrap();
        let error = fill_servers(&mut servers, &environment).unwrap_err();
        assert_eq!(error.message, "provider_config.mcp_servers: server s: the variable HOST is not set");
    }

    #[test]
    fn what_a_server_is_started_with_must_be_texts() {
        for (server, what) in [
            (r#"{"command": "a", "args": "b"}"#, "args must be a list of texts"),
            (r#"{"command": "a", "args": ["--port", 8080]}"#, "args must be a list of texts"),
            (r#"{"command": "a", "env": {"A": 1}}"#, "env must be an object of texts"),
            (r#"{"command": "a", "env": ["A=1"]}"#, "env must be an object of texts"),
            (r#"{"command": "a", "env": {"LD_PRELOAD": "x"}}"#, "LD_PRELOAD is reserved"),
        ] {
            let text = format!(r#"{{"x": {server}}}"#);
            let message = mcp_servers(&config(&[("mcp_servers", &text)])).unwrap_err().message;
            let named = message.starts_with("provider_config.mcp_servers: server x: ");
            assert!(named && message.contains(what), "{server}: {message}");
        }
        let good = r#"{"x": {"command": "a", "args": ["--port", "8080"], "env": {"A": "1"}}, "y": {"command": "b"}}"#;
        assert_eq!(mcp_servers(&config(&[("mcp_servers", good)])).unwrap().len(), 2);
    }

    #[test]
    fn an_unknown_key_is_named_with_the_nearest_known_one() {
        let error = check_keys(&config(&[("max_truns", "3")]), &["max_turns", "add_dirs"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "OBEY-1001: provider_config.max_truns: is not known; did you mean max_turns?"
        );
    }

    #[test]
    fn a_strange_key_gets_the_list() {
        let error = check_keys(&config(&[("--settings\n", "{}")]), &["max_turns"]).unwrap_err();
        assert_eq!(error.message, "provider_config.--settings: is not known; this provider takes max_turns");
    }

    #[test]
    fn values_are_checked() {
        assert!(flag(&config(&[("a", "true")]), "a").unwrap());
        assert!(!flag(&config(&[]), "a").unwrap());
        assert!(flag(&config(&[("a", "maybe")]), "a").is_err());
        assert_eq!(number(&config(&[("n", "3")]), "n", 1..=9).unwrap(), Some(3));
        assert!(number(&config(&[("n", "-3")]), "n", 1..=9).is_err());
        assert!(check_permission_mode(&config(&[("permission_mode", "bypassPermissions")])).is_ok());
        assert!(check_permission_mode(&config(&[("permission_mode", "yolo")])).is_err());
    }
}
