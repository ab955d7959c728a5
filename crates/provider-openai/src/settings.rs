//! The keys of `provider_config` for the OpenAI API provider. A closed list:
//!
//! | key | value |
//! |---|---|
//! | `permission_mode` | a mode's name; the surfaces make it the session's mode |
//! | `base_url` | the address of a compatible endpoint, up to and with its version; absent: `OPENAI_BASE_URL`, else OpenAI's |
//! | `api_key_env` | the variable that holds the key; absent: `OPENAI_API_KEY`, which an endpoint of one's own may lack |
//! | `wire_api` | `responses` (the default) or `chat` |
//! | `reasoning_effort` | such as `low`, `medium`, `high`; what the model offers |
//! | `temperature` | how freely the model writes, from 0 to 2; absent: the endpoint's default |
//! | `max_output_tokens` | the longest reply; absent: what the endpoint allows |
//! | `context_window` | context window of the model in tokens; absent: the known value, otherwise 128000 |
//! | `max_retries` | how often a request that the endpoint could not serve is retried; default 4 |
//! | `append_system_prompt` | text added to the agent's instructions |
//! | `mcp_servers` | MCP servers by name, as in `.mcp.json`; see `crate::mcp` |

use std::collections::BTreeMap;

use domain::Error;

use crate::{limits, mcp};
use provider_common::config::{
    address, check_keys, check_permission_mode, has_userinfo, invalid, number, one_of, word,
};

const KEYS: [&str; 11] = [
    "permission_mode",
    "base_url",
    "api_key_env",
    "wire_api",
    "reasoning_effort",
    "temperature",
    "max_output_tokens",
    "context_window",
    "max_retries",
    "append_system_prompt",
    "mcp_servers",
];

const WIRES: [&str; 2] = ["responses", "chat"];

/// Which of the two APIs an endpoint speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WireApi {
    #[default]
    Responses,
    Chat,
}

/// The parsed `provider_config`. Empty texts are not set.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OpenaiSettings {
    pub(super) base_url: String,
    pub(super) api_key_env: String,
    pub(super) wire_api: WireApi,
    pub(super) reasoning_effort: String,
    pub(super) temperature: Option<f64>,
    pub(super) max_output_tokens: Option<u64>,
    pub(super) context_window: Option<u64>,
    pub(super) max_retries: u32,
    pub(super) append_system_prompt: String,
    pub(super) servers: Vec<mcp::McpServerSpec>,
}

impl OpenaiSettings {
    /// Parses the entries; the first invalid one is the error.
    pub(super) fn read(config: &BTreeMap<String, String>) -> Result<Self, Error> {
        check_keys(config, &KEYS)?;
        check_permission_mode(config)?;
        let retries = number(config, "max_retries", 0..=u64::from(limits::RETRIES_MAX))?;
        let base_url = address(config, "base_url")?;
        if has_userinfo(&base_url) {
            let remedy = "must not hold a name or a password, which would be stored and shown; put the key into a \
                          variable and name it with api_key_env";
            return Err(invalid("base_url", remedy));
        }
        Ok(Self {
            base_url: base_url.trim_end_matches('/').to_owned(),
            api_key_env: word(config, "api_key_env")?,
            wire_api: match one_of(config, "wire_api", &WIRES)?.as_str() {
                "chat" => WireApi::Chat,
                _ => WireApi::Responses,
            },
            reasoning_effort: word(config, "reasoning_effort")?,
            temperature: temperature(config)?,
            max_output_tokens: number(config, "max_output_tokens", 1..=10_000_000)?,
            context_window: number(config, "context_window", limits::WINDOW_MIN_TOKENS..=100_000_000)?,
            max_retries: retries.and_then(|count| u32::try_from(count).ok()).unwrap_or(limits::RETRIES),
            append_system_prompt: config.get("append_system_prompt").cloned().unwrap_or_default(),
            servers: mcp::read(config)?,
        })
    }
}

/// Parses the temperature; the endpoints accept 0 to 2.
fn temperature(config: &BTreeMap<String, String>) -> Result<Option<f64>, Error> {
    let Some(text) = config.get("temperature") else { return Ok(None) };
    match text.parse::<f64>() {
        Ok(value) if (0.0..=2.0).contains(&value) => Ok(Some(value)),
        _ => Err(invalid("temperature", "must be a number from 0 to 2")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entries: &[(&str, &str)]) -> Result<OpenaiSettings, Error> {
        let config = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        OpenaiSettings::read(&config)
    }

    #[test]
    fn what_is_wrong_is_named() {
        let message = |key: &str, value: &str| read(&[(key, value)]).unwrap_err().message;
        assert_eq!(message("wire_api", "grpc"), "provider_config.wire_api: must be one of responses, chat");
        assert_eq!(
            message("base_ulr", "x"),
            "provider_config.base_ulr: is not known; did you mean base_url?"
        );
        for (key, value) in [
            ("base_url", "example.com"),
            ("base_url", "file:///etc/passwd"),
            ("base_url", "https://me:pw@example.com/v1"),
            ("api_key_env", "A B"),
            ("max_output_tokens", "many"),
            ("temperature", "2.5"),
            ("temperature", "NaN"),
            ("context_window", "1"),
            ("max_retries", "1000"),
            ("mcp_servers", "[]"),
            ("mcp_servers", r#"{"a":{"command":"x","cwd":"/"}}"#),
        ] {
            assert!(message(key, value).starts_with(&format!("provider_config.{key}: ")), "{key}={value}");
        }
    }

    #[test]
    fn an_address_needs_no_slash_at_its_end() {
        let read = read(&[("base_url", "http://127.0.0.1:8080/v1/"), ("wire_api", "chat")]).unwrap();
        assert_eq!(read.base_url, "http://127.0.0.1:8080/v1");
        assert_eq!((read.wire_api, read.max_retries), (WireApi::Chat, limits::RETRIES));
    }
}
