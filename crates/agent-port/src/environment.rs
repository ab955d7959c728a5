//! The environment of an agent: the daemon's, minus what does not concern the agent, plus what the session
//! adds. Also defines which names a request may not set.

use std::collections::BTreeMap;
use std::ffi::OsString;

use domain::{Error, SessionSpec};

/// Names and prefixes an agent never inherits: our own, cloud keys, sockets of other agents, and markers by
/// which a coding agent would take itself for the child of another one.
const NOT_INHERITED: &[&str] = &[
    "OBEY_*",
    "AWS_*",
    "GCP_*",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "AZURE_*",
    "DATABASE_URL",
    "REDIS_URL",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "GITLAB_TOKEN",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_SSE_PORT",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "NOTIFY_SOCKET",
    "INVOCATION_ID",
];

/// What an agent in the sandbox inherits beside what every agent of its provider takes from its caller: who and where it is, how
/// a terminal is spoken to, where tools are. None of them holds a key.
const INHERITED_IN_SANDBOX: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "CI",
    "EDITOR",
    "PAGER",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_DIRS",
    "XDG_CONFIG_DIRS",
    "XDG_RUNTIME_DIR",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "PNPM_HOME",
    "VIRTUAL_ENV",
    "DISABLE_AUTOUPDATER",
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
    "RUST_BACKTRACE",
];

/// Names a request may not set: each would make the agent, or a tool it starts, run foreign code, or speak
/// for the daemon.
const NOT_SETTABLE: &[&str] = &[
    "OBEY_*",
    "LD_*",
    "DYLD_*",
    "GIT_*",
    "PYTHON*",
    "PERL5*",
    "RUBYOPT",
    "RUBYLIB",
    "NODE_OPTIONS",
    "NODE_PATH",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "DOTNET_*",
    "BASH_ENV",
    "BASH_FUNC_*",
    "ENV",
    "SHELLOPTS",
    "PROMPT_COMMAND",
    "IFS",
    "PATH",
    "HOME",
    "SHELL",
    "CODEX_HOME",
    "CLAUDE_CONFIG_DIR",
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_CHILD_SESSION",
    "SSH_AUTH_SOCK",
    "XDG_*",
    "GLIBC_TUNABLES",
];

fn listed(list: &[&str], name: &str) -> bool {
    list.iter().any(|entry| match entry.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *entry,
    })
}

/// Checks the entries a request wants to add.
pub fn check(environment: &BTreeMap<String, String>) -> Result<(), Error> {
    for (name, value) in environment {
        let well_formed = !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if !well_formed {
            return Err(Error::invalid(
                "environment",
                format_args!("{name:?} is not a variable name; use letters, digits and underscores"),
            ));
        }
        if listed(NOT_SETTABLE, name) {
            return Err(Error::invalid(
                "environment",
                format_args!("{name} is reserved; set it in the daemon's own environment if you need it"),
            ));
        }
        if value.contains('\0') {
            return Err(Error::invalid("environment", format_args!("{name} contains a NUL byte")));
        }
    }
    Ok(())
}

/// Returns what a command or an agent inherits from the daemon's environment, with a request's own entries
/// added.
pub fn inherited(added: &BTreeMap<String, String>) -> Vec<(OsString, OsString)> {
    inherited_if(added, |_| true)
}

/// Returns whether an agent inherits a variable of the daemon in the sandbox: anything else may be a key of its user.
fn is_for_sandbox(spec: &SessionSpec, name: &str) -> bool {
    listed(INHERITED_IN_SANDBOX, name) || domain::caller_environment::is_taken(spec.provider, name)
}

fn inherited_if(
    added: &BTreeMap<String, String>,
    is_wanted: impl Fn(&str) -> bool,
) -> Vec<(OsString, OsString)> {
    let mut all: BTreeMap<OsString, OsString> = std::env::vars_os()
        .filter(|(name, _)| name.to_str().is_some_and(|name| !listed(NOT_INHERITED, name) && is_wanted(name)))
        .collect();
    for (name, value) in added {
        all.insert(name.into(), value.into());
    }
    all.into_iter().collect()
}

/// Returns the complete environment of a session's agent.
pub fn of_agent(spec: &SessionSpec, socket: &std::path::Path) -> Vec<(OsString, OsString)> {
    let is_sandboxed = spec.containment.sandbox.is_some();
    let mut all = inherited_if(&spec.environment, |name| !is_sandboxed || is_for_sandbox(spec, name));
    let campaign = spec.campaign_id.as_ref().map_or("", |id| id.as_str());
    let own: [(&str, OsString); 5] = [
        ("OBEY_SESSION_ID", spec.id.as_str().into()),
        ("OBEY_CAMPAIGN_ID", campaign.into()),
        ("OBEY_CAMPAIGN_DIR", spec.root.as_os_str().to_owned()),
        ("OBEY_PROVIDER", spec.provider.name().into()),
        ("OBEY_DAEMON_SOCKET", socket.as_os_str().to_owned()),
    ];
    all.extend(own.map(|(name, value)| (name.into(), value)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_in_the_sandbox_inherits_no_key_but_its_providers() {
        let spec =
            SessionSpec::new(domain::SessionId::new("sess_1"), domain::ProviderKind::ClaudeCode, "/w".into());
        for name in ["PATH", "HOME", "LC_ALL", "ANTHROPIC_API_KEY", "CLAUDE_CONFIG_DIR", "HTTPS_PROXY"] {
            assert!(is_for_sandbox(&spec, name), "{name}");
        }
        for name in
            ["GH_TOKEN", "NPM_TOKEN", "STRIPE_SECRET_KEY", "PGPASSWORD", "OPENAI_API_KEY", "KUBECONFIG", "X"]
        {
            assert!(!is_for_sandbox(&spec, name), "{name}");
        }
    }

    #[test]
    fn reserved_and_malformed_names_are_refused_by_name() {
        for bad in ["LD_PRELOAD", "OBEY_X", "NODE_OPTIONS", "PYTHONSTARTUP", "1A", "A-B", "", "BASH_ENV"] {
            let error = check(&BTreeMap::from([(bad.to_owned(), "x".to_owned())])).unwrap_err();
            assert!(error.message.starts_with("environment: "), "{error}");
        }
        assert_eq!(check(&BTreeMap::from([("MY_VAR".to_owned(), "x".to_owned())])), Ok(()));
    }
}
