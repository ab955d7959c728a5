//! Runs git on untrusted repositories. A repository's configuration may name programs: hooks, filters, file
//! monitors, drivers, helpers. This module and its children switch them off, in one place: for the daemon's
//! own commands (`environment`), and for commands that people ask for (`guard`), which keep the user's
//! configuration.

pub(crate) mod guard;
mod overrides;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use domain::{Error, ErrorCode};

use crate::limits;
use crate::process::short_command::{ShortCommand, ShortCommandError, ShortCommandOutput};

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
pub(crate) async fn try_run(
    folder: &Path,
    args: &[&OsStr],
    more_env: &[(&str, &OsStr)],
) -> Result<ShortCommandOutput, Error> {
    let mut env = environment();
    env.extend(more_env.iter().map(|(name, value)| ((*name).into(), (*value).to_owned())));
    run_with(folder, args, env).await
}

/// Runs git with a complete environment, bounded in time and output.
async fn run_with(
    folder: &Path,
    args: &[&OsStr],
    env: Vec<(OsString, OsString)>,
) -> Result<ShortCommandOutput, Error> {
    let brief = ShortCommand {
        program: program()?,
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env,
        cwd: folder.to_owned(),
        wait: limits::GIT_WAIT,
        output_max_bytes: limits::GIT_OUTPUT_MAX_BYTES,
    };
    brief.run().await.map_err(|error| match error {
        ShortCommandError::TimedOut(wait) => {
            Error::new(ErrorCode::CommandTimedOut, format!("git did not end within {} s", wait.as_secs()))
        }
        other => failed(&format!("git: {other}")),
    })
}

/// Runs one of the daemon's own commands in a folder and returns its stdout. If it fails, its stderr becomes
/// the error.
pub(crate) async fn run(folder: &Path, args: &[&OsStr]) -> Result<Vec<u8>, Error> {
    let done = try_run(folder, args, &[]).await?;
    if done.ok { Ok(done.stdout) } else { Err(complaint(&done)) }
}

/// Returns git's error messages as an error.
pub(crate) fn complaint(done: &ShortCommandOutput) -> Error {
    let text = String::from_utf8_lossy(&done.stderr);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let said = lines.map(|line| line.trim_start_matches("fatal: ").trim_start_matches("error: "));
    let said: Vec<&str> = said.filter(|line| !line.starts_with("Preparing worktree")).collect();
    failed(&format!("git says: {}", said.join("; ")))
}

pub(crate) fn failed(message: &str) -> Error {
    Error::new(ErrorCode::WorktreeFailed, message)
}
