//! Which variables of a caller's environment a session takes over when it is created: `PATH`, what reaches a network
//! through a proxy, and what its provider declares as its own. Everything else stays with the caller.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::limits::{CALLER_VARIABLES_MAX, CONFIG_VALUE_MAX_BYTES};
use crate::session::ProviderKind;

/// The key of `provider_config` under which a client sends its variables, as a JSON object of texts.
pub const CALLER_ENVIRONMENT_KEY: &str = "caller_environment";

/// What every agent takes over: where programs are, and how the network is reached.
const EVERY_AGENT: &[&str] = &[
    "PATH",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
];

/// Markers by which an agent would take itself for the child of another one.
const NEVER: &[&str] =
    &["CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SSE_PORT", "CODEX_SANDBOX*"];

/// The variables that a provider declares as its own; `*` ends a prefix.
fn declared(provider: ProviderKind) -> &'static [&'static str] {
    match provider {
        ProviderKind::ClaudeCode => &["ANTHROPIC_*", "CLAUDE_*", "IS_SANDBOX"],
        ProviderKind::Codex => &["OPENAI_*", "CODEX_*", "AZURE_OPENAI_API_KEY"],
        ProviderKind::Openclaw => &["OPENCLAW_*"],
        ProviderKind::OpenaiApi => &["OPENAI_*"],
        // The agent is known by its command line only, so these are those of the agents that are known by name.
        ProviderKind::Acp => &[
            "ANTHROPIC_*",
            "CLAUDE_*",
            "IS_SANDBOX",
            "OPENAI_*",
            "CODEX_*",
            "GEMINI_*",
            "GOOGLE_API_KEY",
            "GOOGLE_GENAI_*",
            "GOOSE_*",
            "OPENCODE_*",
            "OPENROUTER_API_KEY",
            "QWEN_*",
            "DASHSCOPE_API_KEY",
            "KIMI_*",
            "MOONSHOT_API_KEY",
            "MISTRAL_API_KEY",
            "CURSOR_API_KEY",
        ],
        ProviderKind::Scripted | ProviderKind::External => &[],
    }
}

fn listed(list: &[&str], name: &str) -> bool {
    list.iter().any(|entry| match entry.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *entry,
    })
}

/// Returns whether a session of a provider takes a variable over.
pub fn is_taken(provider: ProviderKind, name: &str) -> bool {
    !listed(NEVER, name) && (listed(EVERY_AGENT, name) || listed(declared(provider), name))
}

/// Returns whether a session of any provider takes a variable over; a client sends no other.
pub fn is_sent(name: &str) -> bool {
    ProviderKind::ALL.into_iter().any(|provider| is_taken(provider, name))
}

/// Reads what a client sent, and keeps what a session of this provider takes over.
pub fn read(provider: ProviderKind, text: &str) -> Result<BTreeMap<String, String>, Error> {
    let wrong = |problem: String| Error::invalid(CALLER_ENVIRONMENT_KEY, problem);
    let sent: BTreeMap<String, String> = serde_json::from_str(text).map_err(|error| {
        wrong(format!("must be a JSON object of texts such as {{\"PATH\":\"…\"}}: {error}"))
    })?;
    if sent.len() > CALLER_VARIABLES_MAX {
        return Err(wrong(format!("has more than {CALLER_VARIABLES_MAX} variables")));
    }
    let taken: BTreeMap<String, String> =
        sent.into_iter().filter(|(name, value)| !value.is_empty() && is_taken(provider, name)).collect();
    if let Some((name, _)) =
        taken.iter().find(|(_, value)| value.len() > CONFIG_VALUE_MAX_BYTES || value.contains('\0'))
    {
        return Err(wrong(format!(
            "{name} contains a NUL byte or is longer than {CONFIG_VALUE_MAX_BYTES} bytes"
        )));
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_takes_the_path_and_its_own_providers_variables_only() {
        let sent = r#"{"PATH":"/a:/b","ANTHROPIC_API_KEY":"k","OPENAI_API_KEY":"o","AWS_SECRET_ACCESS_KEY":"s",
            "GITHUB_TOKEN":"g","LD_PRELOAD":"/x.so","NODE_OPTIONS":"-r x","HTTPS_PROXY":"http://p","CLAUDECODE":"1",
            "CLAUDE_CODE_ENTRYPOINT":"cli","CLAUDE_CODE_USE_BEDROCK":"","OBEY_SOCKET":"/s"}"#;
        let names = |provider| -> Vec<String> { read(provider, sent).unwrap().into_keys().collect() };
        assert_eq!(names(ProviderKind::ClaudeCode), ["ANTHROPIC_API_KEY", "HTTPS_PROXY", "PATH"]);
        assert_eq!(names(ProviderKind::Codex), ["HTTPS_PROXY", "OPENAI_API_KEY", "PATH"]);
        assert_eq!(names(ProviderKind::Scripted), ["HTTPS_PROXY", "PATH"]);
    }

    #[test]
    fn a_client_sends_what_some_provider_takes() {
        for name in ["PATH", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "GEMINI_API_KEY", "no_proxy"] {
            assert!(is_sent(name), "{name}");
        }
        for name in ["HOME", "AWS_PROFILE", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "CLAUDECODE", "LD_LIBRARY_PATH"]
        {
            assert!(!is_sent(name), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_name() {
        for bad in ["[]", "{\"PATH\":1}", "", "{\"PATH\":\"a\\u0000b\"}"] {
            let error = read(ProviderKind::Codex, bad).unwrap_err();
            assert!(error.message.starts_with("caller_environment: "), "{error}");
        }
    }
}
