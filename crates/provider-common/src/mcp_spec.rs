//! The format of `provider_config.mcp_servers` for agents inside the daemon, or behind a gateway, as in
//! `.mcp.json`. Closed lists: unknown keys are refused by name. Pure.
//!
//! | key | value |
//! |---|---|
//! | `type` | `stdio` or `http`; absent: derived from the other keys |
//! | `command`, `args`, `env` | a program that speaks over its standard streams; it runs in the session's folder |
//! | `url`, `headers` | a server that speaks streamable HTTP |
//! | `startup_timeout_sec`, `tool_timeout_sec` | timeouts of its start and of a call |
//!
//! `${NAME}` in a text is the variable of that name in the session's environment, so that keys need not be stored.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use domain::Error;
use serde_json::{Map, Value};

use crate::config::{invalid, is_address, mcp_servers, started_with, texts};
use crate::limits::{MCP_CALL_WAIT, MCP_CALL_WAIT_MAX, MCP_START_WAIT, MCP_START_WAIT_MAX, SERVERS_MAX};
use crate::program::variable;

const KEYS: [&str; 8] =
    ["type", "command", "args", "env", "url", "headers", "startup_timeout_sec", "tool_timeout_sec"];

/// One server.
#[derive(Clone, Debug, PartialEq)]
pub struct McpServerSpec {
    pub name: String,
    pub reach: McpTransport,
    pub start_wait: Duration,
    pub call_wait: Duration,
}

/// How it is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum McpTransport {
    Program { command: String, args: Vec<String>, env: BTreeMap<String, String> },
    Web { url: String, headers: BTreeMap<String, String> },
}

/// Parses all servers; the first invalid one is the error.
pub fn read(config: &BTreeMap<String, String>) -> Result<Vec<McpServerSpec>, Error> {
    let servers = mcp_servers(config)?;
    if servers.len() > SERVERS_MAX {
        return Err(invalid("mcp_servers", format_args!("are more than {SERVERS_MAX}")));
    }
    servers.iter().map(|(name, server)| spec(name, server)).collect()
}

/// Parses one server.
fn spec(name: &str, server: &Value) -> Result<McpServerSpec, Error> {
    let wrong = |what: String| invalid("mcp_servers", format_args!("server {name}: {what}"));
    let Some(server) = server.as_object() else { return Err(wrong("must be an object".to_owned())) };
    if let Some(key) = server.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(wrong(format!("{key:?} is not known; this provider takes {}", KEYS.join(", "))));
    }
    let is_program = server.contains_key("command");
    match server.get("type").map(|kind| kind.as_str().unwrap_or_default()) {
        None => {}
        Some("stdio") if is_program => {}
        Some("http" | "streamable-http") if !is_program => {}
        Some("sse") => return Err(wrong("type sse is out of use; the server may speak http".to_owned())),
        Some(_) => return Err(wrong("type must be stdio with a command, or http with a url".to_owned())),
    }
    let reach = if is_program { program(server) } else { web(server) }.map_err(wrong)?;
    Ok(McpServerSpec {
        name: name.to_owned(),
        reach,
        start_wait: seconds(server, "startup_timeout_sec", MCP_START_WAIT, MCP_START_WAIT_MAX)
            .map_err(wrong)?,
        call_wait: seconds(server, "tool_timeout_sec", MCP_CALL_WAIT, MCP_CALL_WAIT_MAX).map_err(wrong)?,
    })
}

fn program(server: &Map<String, Value>) -> Result<McpTransport, String> {
    let command = server.get("command").and_then(Value::as_str).unwrap_or_default();
    if command.is_empty() || command.contains('\0') {
        return Err("command must be the name or the path of a program".to_owned());
    }
    if server.contains_key("url") || server.contains_key("headers") {
        return Err("has a command and a url; one of them must go".to_owned());
    }
    let (args, env) = started_with(server)?;
    Ok(McpTransport::Program { command: command.to_owned(), args, env })
}

/// Parses a server that is reached by HTTP.
fn web(server: &Map<String, Value>) -> Result<McpTransport, String> {
    let url = server.get("url").and_then(Value::as_str).unwrap_or_default();
    if !is_address(url) {
        return Err("url must be an address such as https://example.com/mcp".to_owned());
    }
    if server.contains_key("env") || server.contains_key("args") {
        return Err("env and args are for servers with a command".to_owned());
    }
    let headers = texts(server, "headers")?;
    for (name, value) in &headers {
        let named = reqwest::header::HeaderName::from_bytes(name.as_bytes()).is_ok();
        if !named || value.chars().any(char::is_control) {
            return Err(format!("headers: {name:?} cannot be sent"));
        }
    }
    Ok(McpTransport::Web { url: url.to_owned(), headers })
}

fn seconds(
    server: &Map<String, Value>,
    key: &str,
    usual: Duration,
    most: Duration,
) -> Result<Duration, String> {
    let Some(value) = server.get(key) else { return Ok(usual) };
    let most = most.as_secs();
    match value.as_u64().filter(|count| (1..=most).contains(count)) {
        Some(count) => Ok(Duration::from_secs(count)),
        None => Err(format!("{key} must be a whole number from 1 to {most}")),
    }
}

/// Returns the values that would be filled in.
pub fn values(reach: &McpTransport, environment: &[(OsString, OsString)]) -> Vec<String> {
    let texts: Vec<&String> = match reach {
        McpTransport::Program { command, args, env } => {
            [command].into_iter().chain(args).chain(env.values()).collect()
        }
        McpTransport::Web { url, headers } => [url].into_iter().chain(headers.values()).collect(),
    };
    let places =
        texts.iter().flat_map(|text| text.split("${").skip(1)).filter_map(|rest| rest.split_once('}'));
    let names = places.map(|(place, _)| place.split_once(":-").map_or(place, |(name, _)| name));
    names.filter_map(|name| variable(environment, name)?.to_str().map(str::to_owned)).collect()
}

/// Replaces names of variables, `${NAME}` or `${NAME:-default}`, with their values; a variable that is not
/// set is an error.
pub fn filled(text: &str, environment: &[(OsString, OsString)]) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("${") {
        let Some((name, after)) = behind.split_once('}') else { break };
        let (name, otherwise) = match name.split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise)),
            None => (name, None),
        };
        let set = variable(environment, name).and_then(|value| value.to_str());
        let value = set.filter(|value| !value.is_empty() || otherwise.is_none()).or(otherwise);
        filled.push_str(before);
        filled.push_str(value.ok_or_else(|| format!("the variable {name} is not set"))?);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(server: &str) -> Result<McpServerSpec, Error> {
        let config = BTreeMap::from([("mcp_servers".to_owned(), format!(r#"{{"x":{server}}}"#))]);
        read(&config).map(|mut specs| specs.remove(0))
    }

    #[test]
    fn servers_are_read_as_other_agents_write_them() {
        let program = one(r#"{"command":"npx","args":["-y","thing"],"env":{"KEY":"${KEY}"}}"#).unwrap();
        assert!(matches!(&program.reach, McpTransport::Program { command, args, env }
            if command == "npx" && args.len() == 2 && env["KEY"] == "${KEY}"));
        assert_eq!((program.start_wait, program.call_wait), (MCP_START_WAIT, MCP_CALL_WAIT));
        let web = one(
            r#"{"type":"http","url":"http://127.0.0.1:1/mcp","headers":{"X-Key":"k"},"tool_timeout_sec":5}"#,
        );
        let web = web.unwrap();
        assert!(
            matches!(&web.reach, McpTransport::Web { url, headers } if url.ends_with("/mcp") && headers["X-Key"] == "k")
        );
        assert_eq!(web.call_wait, Duration::from_secs(5));
    }

    #[test]
    fn what_is_wrong_with_a_server_is_named() {
        for (server, what) in [
            (r#"{"command":"a","cwd":"/"}"#, "\"cwd\" is not known"),
            (r#"{"command":"","args":[]}"#, "command must be"),
            (r#"{"command":"a","args":"b"}"#, "args must be a list"),
            (r#"{"command":"a","args":[1]}"#, "args must be a list"),
            (r#"{"command":"a","env":{"LD_PRELOAD":"x"}}"#, "LD_PRELOAD is reserved"),
            (r#"{"command":"a","env":{"A":1}}"#, "env must be an object"),
            (r#"{"command":"a","url":"http://x"}"#, "has a command and a url"),
            (r#"{"url":"ftp://x"}"#, "url must be an address"),
            (r#"{"url":"http://x","headers":{"a b":"c"}}"#, "headers: \"a b\" cannot be sent"),
            (r#"{"type":"sse","url":"http://x"}"#, "type sse is out of use"),
            (r#"{"type":"stdio","url":"http://x"}"#, "type must be stdio with a command"),
            (r#"{"command":"a","tool_timeout_sec":0}"#, "tool_timeout_sec must be a whole number"),
        ] {
            let message = one(server).unwrap_err().message;
            assert!(
                message.starts_with("provider_config.mcp_servers: server x: ") && message.contains(what),
                "{server}: {message}"
            );
        }
    }

    #[test]
    fn variables_are_filled_in() {
        let environment = [("KEY".into(), "secret".into())];
        assert_eq!(filled("Bearer ${KEY}!", &environment).unwrap(), "Bearer secret!");
        assert_eq!(filled("${", &environment).unwrap(), "${");
        assert_eq!(filled("${KEY:-x} ${NO:-y}${NO:-}", &environment).unwrap(), "secret y");
        let web = one(r#"{"url":"http://x/${NO}/${KEY:-}","headers":{"A":"b${"}}"#).unwrap();
        assert_eq!(values(&web.reach, &environment), ["secret"]);
        assert_eq!(filled("${NO}", &environment).unwrap_err(), "the variable NO is not set");
    }
}
