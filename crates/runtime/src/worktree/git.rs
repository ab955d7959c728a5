//! Git as we run it on repositories nobody vouches for. Their configuration may name programs: hooks, filters, file
//! monitors, helpers. Only commands that run none of them are used here, with hooks and the monitor pinned off on top;
//! what would run filters (`status`, checking files out) goes through a `Shelter`, which the configuration of the
//! repository does not reach.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use domain::{Error, ErrorCode};

use crate::limits;
use crate::process::brief::{Brief, BriefError, Done};

/// Configuration that wins over the repository's. Each of these could run a program or reach the network.
const PINS: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.pager", "cat"),
    ("core.askPass", ""),
    ("core.sshCommand", "false"),
    ("credential.helper", ""),
    ("protocol.allow", "never"),
    ("safe.bareRepository", "explicit"),
    ("submodule.recurse", "false"),
    ("worktree.guessRemote", "false"),
    ("branch.autoSetupMerge", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("advice.detachedHead", "false"),
];

/// Returns the program: the first `git` in an absolute folder of `PATH`.
fn program() -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("git"))
        .find(|program| program.is_file())
        .ok_or_else(|| failed("git is not installed (not found in PATH)"))
}

fn environment() -> Vec<(OsString, OsString)> {
    let mut env: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
        ("LC_ALL".into(), "C".into()),
        // The user's own configuration may name filters as well, which a repository's attributes would choose.
        ("HOME".into(), "/nonexistent".into()),
        ("GIT_CONFIG_GLOBAL".into(), "/dev/null".into()),
        ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
        ("GIT_ATTR_NOSYSTEM".into(), "1".into()),
        ("GIT_TERMINAL_PROMPT".into(), "0".into()),
        ("GIT_OPTIONAL_LOCKS".into(), "0".into()),
        ("GIT_NO_LAZY_FETCH".into(), "1".into()),
        ("GIT_ALLOW_PROTOCOL".into(), "none".into()),
        ("GIT_CONFIG_COUNT".into(), PINS.len().to_string().into()),
    ];
    for (number, (key, value)) in PINS.iter().enumerate() {
        env.push((format!("GIT_CONFIG_KEY_{number}").into(), (*key).into()));
        env.push((format!("GIT_CONFIG_VALUE_{number}").into(), (*value).into()));
    }
    env
}

/// Runs git in a folder; fails only where it could not be run at all.
pub(super) async fn try_run(
    folder: &Path,
    args: &[&OsStr],
    more_env: &[(&str, &OsStr)],
) -> Result<Done, Error> {
    let mut env = environment();
    env.extend(more_env.iter().map(|(name, value)| ((*name).into(), (*value).to_owned())));
    let brief = Brief {
        program: program()?,
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env,
        cwd: folder.to_owned(),
        wait: limits::GIT_WAIT,
        output_max_bytes: limits::GIT_OUTPUT_MAX_BYTES,
    };
    brief.run().await.map_err(|error| match error {
        BriefError::TimedOut(wait) => {
            Error::new(ErrorCode::CommandTimedOut, format!("git did not end within {} s", wait.as_secs()))
        }
        other => failed(&format!("git: {other}")),
    })
}

/// Runs git in a folder and returns what it printed; what it complains about is the error.
pub(super) async fn run(folder: &Path, args: &[&OsStr]) -> Result<Vec<u8>, Error> {
    let done = try_run(folder, args, &[]).await?;
    if done.ok { Ok(done.stdout) } else { Err(complaint(&done)) }
}

/// Returns what git said was wrong.
pub(super) fn complaint(done: &Done) -> Error {
    let text = String::from_utf8_lossy(&done.stderr);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let said = lines.map(|line| line.trim_start_matches("fatal: ").trim_start_matches("error: "));
    let said: Vec<&str> = said.filter(|line| !line.starts_with("Preparing worktree")).collect();
    failed(&format!("git says: {}", said.join("; ")))
}

pub(super) fn failed(message: &str) -> Error {
    Error::new(ErrorCode::WorktreeFailed, message)
}

/// A repository: what all its working trees share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repository {
    /// Holds branches, objects and configuration.
    pub(super) common_dir: PathBuf,
    /// Where commands are run: the folder that was asked about.
    pub(super) folder: PathBuf,
}

impl Repository {
    /// Finds the repository that a folder belongs to.
    pub(super) async fn find(folder: &Path) -> Result<Self, Error> {
        let asked = ["rev-parse", "--path-format=absolute", "--is-bare-repository", "--git-common-dir"];
        let done = try_run(folder, &asked.map(OsStr::new), &[]).await?;
        if !done.ok {
            let error = complaint(&done);
            if error.message.contains("cannot use bare repository") {
                return Err(bare(folder));
            }
            let what = format!("{} is no git repository: {}", folder.display(), error.message);
            return Err(Error::invalid("repo_path", what));
        }
        let mut lines = done.stdout.split(|byte| *byte == b'\n');
        if lines.next() == Some(b"true") {
            return Err(bare(folder));
        }
        let common_dir = PathBuf::from(OsStr::from_bytes(lines.next().unwrap_or_default()));
        // Written into a file line by line later.
        if !common_dir.is_absolute() || common_dir.as_os_str().as_bytes().contains(&b'\n') {
            return Err(Error::invalid("repo_path", "leads to a repository whose path cannot be used"));
        }
        Ok(Self { common_dir, folder: folder.to_owned() })
    }

    /// Returns the working trees git knows, the main one first.
    pub(super) async fn trees(&self) -> Result<Vec<Tree>, Error> {
        let args = ["worktree", "list", "--porcelain", "-z"];
        let printed = run(&self.folder, &args.map(OsStr::new)).await?;
        Ok(read_trees(&printed))
    }

    /// Returns the commit a name stands for.
    pub(super) async fn commit(&self, name: &str) -> Result<Option<String>, Error> {
        let wanted = format!("{name}^{{commit}}");
        let args = ["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted];
        let done = try_run(&self.folder, &args.map(OsStr::new), &[]).await?;
        let commit = String::from_utf8_lossy(&done.stdout).trim().to_owned();
        Ok((done.ok && !commit.is_empty()).then_some(commit))
    }

    /// Returns the name of the hash its objects are called by.
    pub(super) async fn object_format(&self) -> Result<String, Error> {
        let printed = run(&self.folder, &["rev-parse", "--show-object-format"].map(OsStr::new)).await?;
        Ok(String::from_utf8_lossy(&printed).trim().to_owned())
    }
}

fn bare(folder: &Path) -> Error {
    Error::invalid(
        "repo_path",
        format_args!("{} is a bare repository; name a folder in which it is checked out", folder.display()),
    )
}

/// A working tree as git lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) path: PathBuf,
    pub(super) head: String,
    /// Without `refs/heads/`; none: no branch is checked out.
    pub(super) branch: Option<String>,
    pub(super) locked: bool,
    pub(super) bare: bool,
}

fn read_trees(printed: &[u8]) -> Vec<Tree> {
    let mut trees: Vec<Tree> = Vec::new();
    for line in printed.split(|byte| *byte == 0) {
        let (word, rest) = match line.iter().position(|byte| *byte == b' ') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &b""[..]),
        };
        if word == b"worktree" {
            trees.push(Tree { path: OsString::from_vec(rest.to_vec()).into(), ..Tree::default() });
            continue;
        }
        let Some(tree) = trees.last_mut() else { continue };
        let text = String::from_utf8_lossy(rest).into_owned();
        match word {
            b"HEAD" => tree.head = text,
            b"branch" => tree.branch = text.strip_prefix("refs/heads/").map(str::to_owned),
            b"locked" => tree.locked = true,
            b"bare" => tree.bare = true,
            _ => {}
        }
    }
    trees
}
