//! What agents in the sandbox see of their user's home: their own conversations and credentials for good, their
//! configuration to read, and copies of files in which a change would make the same agent run code outside, later. Pure.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use agent_port::{CopiedFile, Places};

use crate::program::variable;

/// The addresses of Claude Code's models, and where it renews its login.
const CLAUDE_HOSTS: [&str; 3] =
    ["https://api.anthropic.com", "https://platform.claude.com", "https://console.anthropic.com"];

/// The addresses of Codex' models, and where it renews its login.
const CODEX_HOSTS: [&str; 3] = ["https://api.openai.com", "https://chatgpt.com", "https://auth.openai.com"];

/// Claude Code: credentials are shared, settings (which can name hooks) are read. Its file of everything else also holds
/// what was said in other projects.
pub fn claude(environment: &[(OsString, OsString)], projects: &[&Path]) -> Places {
    let Some(home) = folder(environment, "HOME") else { return Places::default() };
    let own = folder(environment, "CLAUDE_CONFIG_DIR");
    // With its own configuration folder, this file lies in that folder.
    let state = own.as_deref().unwrap_or(&home).join(".claude.json");
    let config = own.unwrap_or_else(|| home.join(".claude"));
    let within = |names: &[&str]| names.iter().map(|name| config.join(name)).collect::<Vec<PathBuf>>();
    let projects = projects.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    Places {
        read_only: within(&[
            "CLAUDE.md",
            "agents",
            "commands",
            "hooks",
            "output-styles",
            "plugins",
            "rules",
            "settings.json",
            "settings.local.json",
            "skills",
        ]),
        writable: within(&[".credentials.json"]),
        folders: within(&["projects"]),
        copies: vec![CopiedFile { path: state, only: Some(("projects".to_owned(), projects)) }],
        endpoints: endpoints(environment, "ANTHROPIC_BASE_URL", &CLAUDE_HOSTS),
        private: vec![config],
        prepared: None,
    }
}

/// Codex: credentials are shared, its configuration (which can name programs) is read.
pub fn codex(environment: &[(OsString, OsString)], base_url: &str, configured: &str) -> Places {
    let Some(home) = folder(environment, "HOME") else { return Places::default() };
    let config = folder(environment, "CODEX_HOME").unwrap_or_else(|| home.join(".codex"));
    let within = |names: &[&str]| names.iter().map(|name| config.join(name)).collect::<Vec<PathBuf>>();
    let mut endpoints = match base_url {
        "" => endpoints(environment, "OPENAI_BASE_URL", &CODEX_HOSTS),
        url => vec![url.to_owned()],
    };
    endpoints.extend(addresses_in(configured));
    Places {
        read_only: within(&[
            "AGENTS.md",
            "agents",
            "config.toml",
            "prompts",
            "rules",
            "skills",
            "hooks.json",
        ]),
        writable: within(&["auth.json"]),
        folders: within(&["sessions", "archived_sessions"]),
        copies: within(&["installation_id", "models_cache.json", "version.json"])
            .into_iter()
            .map(CopiedFile::from)
            .collect(),
        endpoints,
        prepared: None,
        private: vec![config],
    }
}

/// Returns the addresses of model providers in Codex' own configuration.
fn addresses_in(config: &str) -> Vec<String> {
    let address = |line: &str| {
        let (key, value) = line.split_once('=')?;
        let value = value.trim().strip_prefix('"')?.split('"').next()?;
        (key.trim() == "base_url").then(|| value.to_owned())
    };
    config.lines().filter_map(address).collect()
}

fn endpoints(environment: &[(OsString, OsString)], name: &str, usual: &[&str]) -> Vec<String> {
    match variable(environment, name).filter(|url| !url.is_empty()) {
        Some(url) => vec![url.to_string_lossy().into_owned()],
        None => usual.iter().map(ToString::to_string).collect(),
    }
}

/// Returns where the user's programs keep what they can make again.
pub fn cache(environment: &[(OsString, OsString)]) -> Option<PathBuf> {
    folder(environment, "XDG_CACHE_HOME")
        .or_else(|| folder(environment, "HOME").map(|home| home.join(".cache")))
}

fn folder(environment: &[(OsString, OsString)], name: &str) -> Option<PathBuf> {
    variable(environment, name).map(Path::new).filter(|path| path.is_absolute()).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn settings_that_can_run_code_are_never_shared_for_writing() {
        let home = environment(&[("HOME", "/home/u")]);
        for (places, bad) in [
            (claude(&home, &[]), [".claude/settings.json", ".claude.json"]),
            (codex(&home, "", ""), [".codex/config.toml", ".codex/rules"]),
        ] {
            for name in bad {
                let path = Path::new("/home/u").join(name);
                let shared = places.writable.iter().chain(&places.folders);
                assert!(!shared.into_iter().any(|folder| path.starts_with(folder)), "{name}");
            }
        }
    }

    #[test]
    fn models_are_where_the_variables_and_the_configuration_say() {
        let own = environment(&[("HOME", "/h"), ("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")]);
        assert_eq!(claude(&own, &[]).endpoints, ["http://127.0.0.1:9"]);
        assert_eq!(claude(&environment(&[("HOME", "/h")]), &[]).endpoints[0], "https://api.anthropic.com");
        let config = "[model_providers.x]\nbase_url = \"http://local:1/v1\" # mine\n";
        let places = codex(&environment(&[("HOME", "/h")]), "", config);
        assert!(places.endpoints.contains(&"http://local:1/v1".to_owned()), "{places:?}");
        assert_eq!(codex(&own, "http://other:2", "").endpoints, ["http://other:2"]);
    }
}
