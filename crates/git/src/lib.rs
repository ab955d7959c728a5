//! Runs git on untrusted repositories. A repository's configuration may name programs: hooks, filters, file
//! monitors, drivers, helpers. This module and its children switch them off, in one place: for the daemon's
//! own commands (`environment`), and for commands that people ask for (`guard`), which keep the user's
//! configuration.

pub mod guard;
pub mod limits;
pub mod names;
mod overrides;
mod write_scope;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use domain::{Error, ErrorCode};

use agent_process::short_command::{ShortCommand, ShortCommandError, ShortCommandOutput};

/// Configuration that overrides the repository's in every command. Each of these keys could run a program.
const PINS: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.pager", "cat"),
    ("core.alternateRefsCommand", "false"),
    ("safe.bareRepository", "explicit"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    ("diff.ignoreSubmodules", "dirty"),
    ("diff.submodule", "short"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("interactive.diffFilter", "cat"),
    ("advice.detachedHead", "false"),
];

/// Additional pins for the daemon's own commands, which need no network, no user settings and no ignored
/// files.
const OWN_PINS: &[(&str, &str)] = &[
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.askPass", ""),
    ("core.sshCommand", "false"),
    ("credential.helper", ""),
    ("protocol.allow", "never"),
    ("worktree.guessRemote", "false"),
    ("branch.autoSetupMerge", "false"),
];

/// Returns the first `git` in an absolute folder of `PATH`.
fn program() -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("git"))
        .find(|program| program.is_file())
        .ok_or_else(|| failed("git is not installed (not found in PATH)"))
}

/// Returns configuration as the environment variables that git reads it from.
fn config_variables<'a>(config: impl Iterator<Item = (&'a OsStr, &'a OsStr)>) -> Vec<(OsString, OsString)> {
    let mut env = Vec::new();
    let mut count = 0;
    for (key, value) in config {
        env.push((format!("GIT_CONFIG_KEY_{count}").into(), key.to_owned()));
        env.push((format!("GIT_CONFIG_VALUE_{count}").into(), value.to_owned()));
        count += 1;
    }
    env.push(("GIT_CONFIG_COUNT".into(), count.to_string().into()));
    env
}

/// Returns the complete environment of the daemon's own commands: no user settings, no network, no prompts.
fn environment() -> Vec<(OsString, OsString)> {
    let mut env: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
        ("LC_ALL".into(), "C".into()),
        // The user's configuration may name filters as well, and a repository's attributes could select them.
        ("HOME".into(), "/nonexistent".into()),
        ("GIT_CONFIG_GLOBAL".into(), "/dev/null".into()),
        ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
        ("GIT_ATTR_NOSYSTEM".into(), "1".into()),
        ("GIT_TERMINAL_PROMPT".into(), "0".into()),
        ("GIT_OPTIONAL_LOCKS".into(), "0".into()),
        ("GIT_NO_LAZY_FETCH".into(), "1".into()),
        ("GIT_ALLOW_PROTOCOL".into(), "none".into()),
    ];
    let pins = PINS.iter().chain(OWN_PINS).map(|(key, value)| (OsStr::new(*key), OsStr::new(*value)));
    env.extend(config_variables(pins));
    env
}

/// Runs one of the daemon's own commands in a folder. Fails only if it could not be run at all. Only for
/// commands that run no filter; the others need a `HookIsolation`.
pub async fn try_run(
    folder: &Path,
    args: &[&OsStr],
    more_env: &[(&str, &OsStr)],
) -> Result<ShortCommandOutput, Error> {
    try_run_writing(folder, args, more_env, &[]).await
}

/// The same; the command may write below these folders too.
pub async fn try_run_writing(
    folder: &Path,
    args: &[&OsStr],
    more_env: &[(&str, &OsStr)],
    more_writes: &[&Path],
) -> Result<ShortCommandOutput, Error> {
    let writes_below = write_scope::folders(folder, more_env, more_writes);
    let mut env = environment();
    env.extend(more_env.iter().map(|(name, value)| ((*name).into(), (*value).to_owned())));
    let deadline = tokio::time::Instant::now() + limits::GIT_LOCK_WAIT;
    let mut pause = limits::GIT_LOCK_PAUSE;
    loop {
        let done = run_limited(folder, args, env.clone(), Some(writes_below.clone())).await?;
        // Agents run git in the other trees of the repository, and git does not wait for every lock itself.
        if done.ok || !is_locked_out(&done.stderr) || tokio::time::Instant::now() + pause > deadline {
            return Ok(done);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(limits::GIT_LOCK_WAIT / 8);
    }
}

/// Returns whether git failed because another git held a lock, which it takes before it changes anything.
fn is_locked_out(stderr: &[u8]) -> bool {
    let text = String::from_utf8_lossy(stderr);
    (text.contains(".lock'") && text.contains("File exists")) || text.contains("could not lock config file")
}

/// Returns the user's name and address for commits that the daemon makes for the user: as the user's and the
/// repository's configuration say. Reading configuration runs no program.
pub async fn identity(folder: &Path) -> Result<(String, String), Error> {
    let mut env = environment();
    env.retain(|(name, _)| name != "HOME" && name != "GIT_CONFIG_GLOBAL");
    for name in ["HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"] {
        if let Some(value) = std::env::var_os(name) {
            env.push((name.into(), value));
        }
    }
    let args = ["config", "--includes", "-z", "--get-regexp", "^user\\.(name|email)$"].map(OsStr::new);
    let done = run_with(folder, &args, env).await?;
    let (mut name, mut email) = ("obey".to_owned(), "obey@localhost".to_owned());
    for entry in String::from_utf8_lossy(&done.stdout).split('\0') {
        match entry.split_once('\n') {
            Some(("user.name", value)) if !value.trim().is_empty() => value.trim().clone_into(&mut name),
            Some(("user.email", value)) if !value.trim().is_empty() => value.trim().clone_into(&mut email),
            _ => {}
        }
    }
    Ok((name, email))
}

/// Runs git with a complete environment, bounded in time and output. It may write wherever its user may.
pub async fn run_with(
    folder: &Path,
    args: &[&OsStr],
    env: Vec<(OsString, OsString)>,
) -> Result<ShortCommandOutput, Error> {
    run_limited(folder, args, env, None).await
}

async fn run_limited(
    folder: &Path,
    args: &[&OsStr],
    env: Vec<(OsString, OsString)>,
    writes_below: Option<Vec<PathBuf>>,
) -> Result<ShortCommandOutput, Error> {
    let brief = ShortCommand {
        program: program()?,
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env,
        cwd: folder.to_owned(),
        wait: limits::GIT_WAIT,
        output_max_bytes: limits::GIT_OUTPUT_MAX_BYTES,
        writes_below,
    };
    // On the heap: its buffers would be part of every future that runs git, one inside the other.
    Box::pin(brief.run()).await.map_err(|error| match error {
        ShortCommandError::TimedOut(wait) => {
            Error::new(ErrorCode::CommandTimedOut, format!("git did not end within {} s", wait.as_secs()))
        }
        other => failed(&format!("git: {other}")),
    })
}

/// Runs one of the daemon's own commands in a folder and returns its stdout. If it fails, its stderr becomes
/// the error.
pub async fn run(folder: &Path, args: &[&OsStr]) -> Result<Vec<u8>, Error> {
    run_writing(folder, args, &[]).await
}

/// The same; the command may write below these folders too.
pub async fn run_writing(folder: &Path, args: &[&OsStr], more_writes: &[&Path]) -> Result<Vec<u8>, Error> {
    let done = try_run_writing(folder, args, &[], more_writes).await?;
    if done.ok { Ok(done.stdout) } else { Err(complaint(&done)) }
}

/// Returns git's error messages as an error.
pub fn complaint(done: &ShortCommandOutput) -> Error {
    let text = String::from_utf8_lossy(&done.stderr);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let said = lines.map(|line| line.trim_start_matches("fatal: ").trim_start_matches("error: "));
    let said: Vec<&str> = said.filter(|line| !line.starts_with("Preparing worktree")).collect();
    failed(&format!("git says: {}", said.join("; ")))
}

pub fn failed(message: &str) -> Error {
    Error::new(ErrorCode::WorktreeFailed, message)
}

#[cfg(test)]
mod tests {
    use super::is_locked_out;

    #[test]
    fn only_a_lock_of_another_git_is_waited_for() {
        for text in [
            "fatal: cannot lock ref 'refs/heads/x': Unable to create '/r/.git/refs/heads/x.lock': File exists.\n\nAnother git",
            "fatal: Unable to create '/r/.git/worktrees/x/index.lock': File exists.",
            "error: could not lock config file /r/.git/config: File exists",
        ] {
            assert!(is_locked_out(text.as_bytes()), "{text}");
        }
        for text in [
            "fatal: 'x' is already checked out",
            "error: cannot lock ref 'refs/heads/x': is at 12 but expected 34",
        ] {
            assert!(!is_locked_out(text.as_bytes()), "{text}");
        }
    }
}
