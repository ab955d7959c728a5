//! Git commands that people ask for (`obey exec -- git …`). They are checked by `domain::git_command` and run
//! with the user's configuration, but without any program that the repository's configuration names. A
//! command that cannot be proven safe is not run.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use domain::git_command::{self, GitCommand};
use domain::{Error, ErrorCode};

use super::overrides::{self, Setting};
use super::{PINS, config_variables, run_with};
use crate::limits;
use host::project_file;

#[cfg(test)]
mod tests;

/// Git variables that a command inherits from the daemon: who the user is and how the network is reached. All
/// others select a repository or a program.
const KEPT: &[&str] = &[
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
];

/// Commands that talk to another repository.
const REMOTE: &[&str] = &["clone", "fetch", "ls-remote", "pull", "push", "remote"];

/// The file that names submodules: read from the working tree, from the index and from the last commit.
const MODULES: &str = ".gitmodules";

/// A command that passed the checks.
pub struct Guarded {
    pub args: Vec<String>,
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
}

impl Guarded {
    /// Adds configuration that goes before everything else, the repository's own included.
    pub fn add_config(&mut self, entries: &[(String, String)]) {
        let counted = |name: &OsStr| name == "GIT_CONFIG_COUNT";
        let count = self.env.iter().find(|(name, _)| counted(name));
        let count = count.and_then(|(_, count)| count.to_str()?.parse::<usize>().ok()).unwrap_or(0);
        self.env.retain(|(name, _)| !counted(name));
        for (at, (key, value)) in entries.iter().enumerate() {
            self.env.push((format!("GIT_CONFIG_KEY_{}", count + at).into(), key.into()));
            self.env.push((format!("GIT_CONFIG_VALUE_{}", count + at).into(), value.into()));
        }
        self.env.push(("GIT_CONFIG_COUNT".into(), (count + entries.len()).to_string().into()));
    }
}

/// Checks the arguments alone.
pub fn check(args: &[String]) -> Result<GitCommand, Error> {
    git_command::parse(args).map_err(|message| refused(&message))
}

/// Makes a command safe to run in a folder of a campaign. `cwd` is the folder it runs in, with its `-C`
/// already applied.
pub async fn guarded(
    command: GitCommand,
    root: &Path,
    cwd: PathBuf,
    env: Vec<(OsString, OsString)>,
) -> Result<Guarded, Error> {
    let env = cleaned(env);
    let pinned = pinned(&env);
    let settings = settings(&cwd, &pinned).await?.unwrap_or_default();
    check_place(&settings, root, &cwd, &pinned).await?;
    if command.subcommand.is_some_and(|name| REMOTE.contains(&name))
        && let Some(key) = overrides::program_at_remote(&settings)
    {
        return Err(refused(&format!(
            "the repository's configuration sets {key}, a program that would be run; remove it from .git/config"
        )));
    }
    if command.changes && overrides::has_conditional_includes(&settings) {
        return Err(refused(
            "the repository's configuration includes files by a condition (includeIf), which a command that changes \
             something may make true; remove it from .git/config",
        ));
    }
    let mut all = settings;
    all.extend(submodules(&cwd, &pinned).await?);
    let overrides = overrides::overrides(&all, command.changes);
    if overrides.len() > limits::GIT_OVERRIDES_MAX {
        return Err(refused(&format!(
            "the repository's configuration names more than {} programs",
            limits::GIT_OVERRIDES_MAX
        )));
    }
    let pins = PINS.iter().map(|(key, value)| (OsStr::new(*key), OsStr::new(*value)));
    let overrides = overrides.iter().map(|(key, value)| (OsStr::new(key), OsStr::new(value)));
    let mut env = env;
    env.extend(config_variables(pins.chain(overrides)));
    Ok(Guarded { args: command.args, env, cwd })
}

/// Removes variables that could select a repository or a program, and adds answers for everything git would
/// ask the user.
fn cleaned(env: Vec<(OsString, OsString)>) -> Vec<(OsString, OsString)> {
    let kept = |name: &OsStr| match name.to_str() {
        Some(name) if name.starts_with("GIT_") => KEPT.contains(&name),
        Some(name) => {
            !matches!(name, "EDITOR" | "VISUAL" | "PAGER" | "SSH_ASKPASS" | "LESSOPEN" | "LESSCLOSE")
        }
        None => false,
    };
    let mut env: Vec<_> = env.into_iter().filter(|(name, _)| kept(name)).collect();
    let own: [(&str, &str); 5] = [
        ("GIT_EDITOR", ":"),
        ("GIT_SEQUENCE_EDITOR", ":"),
        ("GIT_PAGER", "cat"),
        ("GIT_TERMINAL_PROMPT", "0"),
        // Without `ext`, which runs a command, and without remote helpers of any other name.
        ("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh"),
    ];
    env.extend(own.map(|(name, value)| (name.into(), value.into())));
    env
}

/// Returns the environment for the daemon's own look at the repository. Even reading its index may run its
/// file monitor.
fn pinned(env: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    let pins = PINS.iter().map(|(key, value)| (OsStr::new(*key), OsStr::new(*value)));
    env.iter().cloned().chain(config_variables(pins)).collect()
}

/// Returns all configuration in force in a folder; `None` if there is no repository.
async fn settings(cwd: &Path, env: &[(OsString, OsString)]) -> Result<Option<Vec<Setting>>, Error> {
    let inside = ["rev-parse", "--git-dir"].map(OsStr::new);
    if !run_with(cwd, &inside, env.to_vec()).await?.ok {
        return Ok(None);
    }
    let list = ["config", "--list", "--show-scope", "--includes", "-z"].map(OsStr::new);
    let done = run_with(cwd, &list, env.to_vec()).await?;
    let too_long = done.stdout.len() >= limits::GIT_OUTPUT_MAX_BYTES;
    let settings = if done.ok && !too_long { overrides::read(&done.stdout) } else { None };
    settings.map(Some).ok_or_else(|| {
        let said = String::from_utf8_lossy(&done.stderr);
        refused(&format!("the repository's configuration cannot be read: {}", said.trim()))
    })
}

/// Refuses a repository whose working tree lies outside the campaign (`core.worktree`).
async fn check_place(
    settings: &[Setting],
    root: &Path,
    cwd: &Path,
    env: &[(OsString, OsString)],
) -> Result<(), Error> {
    let Some(tree) = overrides::of_repository(settings, "core.worktree") else { return Ok(()) };
    let done = run_with(cwd, &["rev-parse", "--show-toplevel"].map(OsStr::new), env.to_vec()).await?;
    let top = PathBuf::from(String::from_utf8_lossy(&done.stdout).trim_end_matches('\n'));
    if done.ok && top.starts_with(root) {
        return Ok(());
    }
    Err(refused(&format!(
        "the repository's configuration says that its files are in {tree} (core.worktree), outside the campaign"
    )))
}

/// Returns settings that name the submodules. Their own configuration is unknown, so git must not look into
/// them.
async fn submodules(cwd: &Path, env: &[(OsString, OsString)]) -> Result<Vec<Setting>, Error> {
    let top = run_with(cwd, &["rev-parse", "--show-toplevel"].map(OsStr::new), env.to_vec()).await?;
    if !top.ok {
        return Ok(Vec::new());
    }
    let top = PathBuf::from(String::from_utf8_lossy(&top.stdout).trim_end_matches('\n'));
    let modules = project_file::read(&top, Path::new(MODULES), limits::GIT_MODULES_MAX_BYTES)
        .map_err(|error| refused(&format!("{MODULES} {error}")))?;
    let mut found = Vec::new();
    let sources = [
        modules.map(|_| ["--file".to_owned(), top.join(MODULES).display().to_string()]),
        Some(["--blob".to_owned(), format!(":{MODULES}")]),
        Some(["--blob".to_owned(), format!("HEAD:{MODULES}")]),
    ];
    for [option, source] in sources.into_iter().flatten() {
        let list =
            ["config", &option, &source, "--no-includes", "--list", "--name-only", "-z"].map(OsStr::new);
        let done = run_with(cwd, &list, env.to_vec()).await?;
        // A missing file names no submodules. A file that cannot be read here cannot be read by git either.
        for key in done.stdout.split(|byte| *byte == 0).filter(|key| !key.is_empty()) {
            let Ok(key) = std::str::from_utf8(key) else { continue };
            if key.starts_with("submodule.") {
                found.push(Setting { of_repository: true, key: key.to_owned(), value: String::new() });
            }
        }
    }
    Ok(found)
}

fn refused(message: &str) -> Error {
    Error::new(ErrorCode::CommandNotAllowed, format!("command: {message}"))
}
