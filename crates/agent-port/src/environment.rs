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
    let mut all: BTreeMap<OsString, OsString> = std::env::vars_os()
        .filter(|(name, _)| name.to_str().is_some_and(|name| !listed(NOT_INHERITED, name)))
        .collect();
    for (name, value) in added {
        all.insert(name.into(), value.into());
    }
    all.into_iter().collect()
}

/// Returns the complete environment of a session's agent.
pub fn of_agent(spec: &SessionSpec, socket: &std::path::Path) -> Vec<(OsString, OsString)> {
    let mut all = inherited(&spec.environment);
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
    fn reserved_and_malformed_names_are_refused_by_name() {
        for bad in ["LD_PRELOAD", "OBEY_X", "NODE_OPTIONS", "PYTHONSTARTUP", "1A", "A-B", "", "BASH_ENV"] {
            let error = check(&BTreeMap::from([(bad.to_owned(), "x".to_owned())])).unwrap_err();
            assert!(error.message.starts_with("environment: "), "{error}");
        }
        assert_eq!(check(&BTreeMap::from([("MY_VAR".to_owned(), "x".to_owned())])), Ok(()));
    }
}
