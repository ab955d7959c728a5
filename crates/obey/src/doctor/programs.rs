//! The agents, as a session finds them: the daemon is asked which can run. Without a daemon this process looks itself,
//! because the next daemon has its `PATH`. The programs of the usual ones are tried.

use std::path::Path;

use wire::obey::v1::{InstalledAgent, ListInstalledAgentsRequest};

use super::{Finding, State};
use client::caller_environment;
use client::connection::Client;
use config::file::Config;
use terminal::console::Console;

/// The agents that are looked at.
const USUAL: [UsualAgent; 2] = [
    UsualAgent {
        check: "claude",
        name: "claude-code",
        package: "@anthropic-ai/claude-code",
        oldest: [2, 1],
        keys: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_VERTEX",
        ],
        folder: ("CLAUDE_CONFIG_DIR", ".claude"),
        files: &[
            (".credentials.json", ""),
            ("settings.json", "apiKeyHelper"),
            ("settings.json", "ANTHROPIC_"),
        ],
        login: "run claude and log in, or set ANTHROPIC_API_KEY for the daemon",
    },
    UsualAgent {
        check: "codex",
        name: "codex",
        package: "@openai/codex",
        oldest: [0, 166],
        keys: &["OPENAI_API_KEY", "CODEX_API_KEY"],
        folder: ("CODEX_HOME", ".codex"),
        files: &[("auth.json", ""), ("config.toml", "model_provider")],
        login: "run: codex login; or set OPENAI_API_KEY for the daemon",
    },
];

/// What is known of an agent that most people use.
struct UsualAgent {
    check: &'static str,
    name: &'static str,
    /// How it is installed with npm.
    package: &'static str,
    /// The oldest version that obey was tried with.
    oldest: [u64; 2],
    /// Variables with which it needs no login.
    keys: &'static [&'static str],
    /// The variable with its own folder, and the usual one below the home folder.
    folder: (&'static str, &'static str),
    /// Files in that folder which hold a login or name a model that needs none, and the word in them that says so.
    files: &'static [(&'static str, &'static str)],
    login: &'static str,
}

pub(super) async fn examine(console: &Console, config: &Config, daemon: Option<&Client>) -> Vec<Finding> {
    let path = caller_environment::path(&console.vars);
    let known = match daemon {
        Some(client) => {
            let request = ListInstalledAgentsRequest { path };
            client
                .installed_agents()
                .list_installed_agents(request)
                .await
                .map(|known| known.into_inner())
                .ok()
        }
        None => daemon::installed_agents::find(config, &path).ok(),
    };
    // A daemon of an older version does not know the call; the finding about its version says so.
    let Some(known) = known else { return Vec::new() };
    let mut findings = vec![all(&known.agents)];
    for usual in &USUAL {
        let check = usual.check;
        let Some(agent) = known.agents.iter().find(|agent| agent.name == usual.name) else { continue };
        let found = program(usual, agent).await;
        let is_well = found.state == State::Ok;
        findings.push(found);
        findings.extend(is_well.then(|| login(console, usual)).flatten());
        if daemon.is_some() && agent.state == "installed" && agent.daemon_program.is_empty() {
            let message = "the daemon's own PATH lacks it: sessions from this shell find it, those of editors and other \
                           programs do not";
            let repair = "start the daemon with your PATH; agents go on: obey stop && obey ping";
            findings.push(Finding::warning(check, message, repair));
        }
    }
    findings
}

/// Says which of all agents can run; the built-in one always can and is none of them.
fn all(agents: &[InstalledAgent]) -> Finding {
    const CHECK: &str = "providers";
    let names = |is_wanted: &dyn Fn(&InstalledAgent) -> bool| -> Vec<&str> {
        agents.iter().filter(|agent| is_wanted(agent)).map(|agent| agent.name.as_str()).collect()
    };
    let can_run = names(&|agent| agent.state == "installed" && agent.name != "scripted");
    if can_run.is_empty() {
        let repair = "install one, such as: npm install -g @anthropic-ai/claude-code; all: obey agents list";
        return Finding::warning(CHECK, "no agent is installed", repair);
    }
    let others = names(&|agent| agent.state != "installed");
    let others = if others.is_empty() { String::new() } else { format!("; not: {}", others.join(", ")) };
    Finding::ok(CHECK, format!("{}{others}", can_run.join(", ")))
}

/// Checks that an agent's program is installed and runs, and prints its version.
async fn program(usual: &UsualAgent, agent: &InstalledAgent) -> Finding {
    let (check, package) = (usual.check, usual.package);
    if agent.state != "installed" {
        let repair = format!("npm install -g {package}, or set its `binary`: obey config edit");
        return Finding::warning(check, agent.remedy.clone(), repair);
    }
    let shown = &agent.program;
    match cli::programs::ask(Path::new(shown), &["--version"], cli::limits::VERSION_WAIT).await {
        Ok(said) if said.status.success() => match version_in(&said.out) {
            Some(version) if version[..] < usual.oldest[..] => {
                let [major, minor] = usual.oldest;
                let message = format!(
                    "{} at {shown} is older than any that obey was tried with ({major}.{minor})",
                    said.out
                );
                Finding::warning(check, message, format!("npm install -g {package}@latest"))
            }
            _ => Finding::ok(check, format!("{} at {shown}", said.out)),
        },
        Ok(said) => {
            Finding::broken(check, format!("{shown} --version failed: {}", said.status), "install it again")
        }
        Err(problem) => Finding::broken(check, format!("{shown} --version {problem}"), "install it again"),
    }
}

/// Warns if an agent seems to have no login. Only signs are looked for: whether a key is good, its model says.
fn login(console: &Console, usual: &UsualAgent) -> Option<Finding> {
    if cfg!(target_os = "macos") || usual.keys.iter().any(|key| console.vars.get(key).is_some()) {
        // On macOS logins are in the keychain.
        return None;
    }
    let default = console.paths.home.as_ref().map(|home| home.join(usual.folder.1));
    let folder = console.vars.folder(usual.folder.0).or(default)?;
    let has = |(file, word): &(&str, &str)| {
        std::fs::read_to_string(folder.join(file)).is_ok_and(|text| text.contains(word))
    };
    if usual.files.iter().any(has) {
        return None;
    }
    let message =
        format!("no login: neither {} is set, nor is there a login in {}", usual.keys[0], folder.display());
    Some(Finding::warning(usual.check, message, usual.login))
}

/// Returns the first two numbers of the version in a program's words.
pub(super) fn version_in(said: &str) -> Option<[u64; 2]> {
    let word = said.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
    let mut numbers = word.split('.').map(|part| part.parse::<u64>());
    Some([numbers.next()?.ok()?, numbers.next()?.ok()?])
}

#[cfg(test)]
mod tests {
    use super::version_in;

    #[test]
    fn versions_are_found_in_what_programs_print() {
        assert_eq!(version_in("git version 2.47.3"), Some([2, 47]));
        assert_eq!(version_in("2.1.325 (Claude Code)"), Some([2, 1]));
        assert_eq!(version_in("codex-cli 0.166.0"), Some([0, 166]));
        assert_eq!(version_in("unknown"), None);
    }
}
