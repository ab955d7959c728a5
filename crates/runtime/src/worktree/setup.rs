//! What a project wants done in its new worktrees: `.obey/worktree.toml` names ignored files to copy from the main
//! tree and a command to run. The file is untrusted: files are copied without following links, and the command
//! runs only if the user allowed this very file for this repository.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use domain::Error;
use host::{clock, project_file};
use serde::Deserialize;
use storage::{Durability, worktrees};

use super::git::{self, Repository};
use super::tree::OpenTree;
use super::{TreeName, Worktrees};
use crate::limits;
use crate::process::short_command::{ShortCommand, ShortCommandError};

/// The file, below the root of a working tree.
const FILE: &str = ".obey/worktree.toml";

/// Variables of the daemon that the hook gets. Everything else may be a secret.
const KEPT_VARIABLES: &[&str] = &["PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "SHELL"];

/// The content of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SetupFile {
    copy: Vec<PathBuf>,
    setup: String,
    timeout_secs: Option<u64>,
}

/// A project's set-up, as read from one working tree.
#[derive(Debug)]
pub(super) struct Setup {
    file: SetupFile,
    hash: String,
}

/// What became of a project's set-up hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetupOutcome {
    /// The project has none.
    NoHook,
    Done,
    /// The user has not allowed this file and what it calls yet, or it was left out for an agent in the sandbox.
    NotAllowed {
        command: String,
        hash: String,
    },
}

impl Setup {
    /// Reads the set-up of a working tree; `None` if it has no such file.
    pub(super) fn read(root: &Path) -> Result<Option<Self>, Error> {
        let wrong = |what: String| git::failed(&format!("{FILE}: {what}"));
        let text = project_file::read_text(root, Path::new(FILE), limits::SETUP_FILE_MAX_BYTES)
            .map_err(|error| wrong(error.to_string()))?;
        let Some(text) = text else { return Ok(None) };
        let file: SetupFile =
            toml::from_str(&text).map_err(|error| wrong(error.to_string().trim().to_owned()))?;
        if file.copy.len() > limits::SETUP_COPIES_MAX {
            return Err(wrong(format!("copy has more than {} entries", limits::SETUP_COPIES_MAX)));
        }
        if let Some(path) = file.copy.iter().find(|path| !is_plain(path)) {
            return Err(wrong(format!(
                "copy: {} must be a path inside the project, without ..",
                path.display()
            )));
        }
        let most = limits::SETUP_WAIT_MAX.as_secs();
        if file.timeout_secs.is_some_and(|wait| wait == 0 || wait > most) {
            return Err(wrong(format!("timeout_secs must be between 1 and {most}")));
        }
        let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
        digest.update(text.as_bytes());
        for (path, content) in called_files(root, &file).map_err(wrong)? {
            // Lengths keep one file's end apart from the next one's beginning.
            for part in [path.as_bytes(), &content] {
                digest.update(&(part.len() as u64).to_le_bytes());
                digest.update(part);
            }
        }
        let hash = digest.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Some(Self { file, hash }))
    }

    /// Returns the outcome of a hook that is not run.
    pub(super) fn left_out(self) -> SetupOutcome {
        if self.file.setup.trim().is_empty() {
            return SetupOutcome::NoHook;
        }
        SetupOutcome::NotAllowed { command: self.file.setup, hash: self.hash }
    }

    /// Copies files from one tree to another. What is missing there, or exists here, is left alone.
    pub(super) fn copy_files(&self, from: &Path, to: &Path) -> Result<(), Error> {
        for path in &self.file.copy {
            let wrong = |what: String| git::failed(&format!("{FILE}: copy: {}: {what}", path.display()));
            let bytes = project_file::read(from, path, limits::SETUP_COPY_MAX_BYTES)
                .map_err(|error| wrong(error.to_string()))?;
            if let Some(bytes) = bytes {
                write_beneath(to, path, &bytes).map_err(|error| wrong(error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Runs the hook in a tree.
    async fn run(&self, tree: &Path, main: &Path) -> Result<(), Error> {
        let mut env: Vec<_> = KEPT_VARIABLES
            .iter()
            .filter_map(|name| std::env::var_os(name).map(|value| ((*name).into(), value)))
            .collect();
        env.push(("OBEY_MAIN_FOLDER".into(), main.as_os_str().to_owned()));
        let brief = ShortCommand {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), (&self.file.setup).into()],
            env,
            cwd: tree.to_owned(),
            wait: self.file.timeout_secs.map_or(limits::SETUP_WAIT, Duration::from_secs),
            output_max_bytes: limits::SETUP_OUTPUT_MAX_BYTES,
            writes_below: None,
        };
        let failed = |what: &str| git::failed(&format!("the set-up hook of {FILE} failed: {what}"));
        match brief.run().await {
            Ok(done) if done.ok => Ok(()),
            Ok(done) => {
                let said = if done.stderr.is_empty() { done.stdout } else { done.stderr };
                let said = String::from_utf8_lossy(&said);
                let lines: Vec<&str> = said.lines().rev().take(5).collect();
                Err(failed(&lines.into_iter().rev().collect::<Vec<_>>().join("; ")))
            }
            Err(ShortCommandError::TimedOut(wait)) => {
                Err(failed(&format!("it did not end within {} s", wait.as_secs())))
            }
            Err(error) => Err(failed(&error.to_string())),
        }
    }
}

impl Worktrees {
    /// Runs the set-up hook of a tree, if the user allowed it.
    pub(super) async fn run_allowed_hook(
        &self,
        setup: Option<&Setup>,
        repository: &Repository,
        tree: &Path,
        main: &Path,
    ) -> Result<SetupOutcome, Error> {
        let Some(setup) = setup.filter(|setup| !setup.file.setup.trim().is_empty()) else {
            return Ok(SetupOutcome::NoHook);
        };
        let (folder, hash) = (repository.common_dir.display().to_string(), setup.hash.clone());
        let is_allowed = self
            .store()
            .read(move |connection| worktrees::is_setup_allowed(connection, &folder, &hash))
            .await?;
        if !is_allowed {
            return Ok(SetupOutcome::NotAllowed {
                command: setup.file.setup.clone(),
                hash: setup.hash.clone(),
            });
        }
        setup.run(tree, main).await.map(|()| SetupOutcome::Done)
    }

    /// Returns the state of the set-up hook of a tree, without running it.
    pub async fn setup(&self, name: &TreeName) -> Result<SetupOutcome, Error> {
        let tree = self.open_tree(name).await?;
        let setup = Setup::read(&tree.path)?.filter(|setup| !setup.file.setup.trim().is_empty());
        let Some(setup) = setup else { return Ok(SetupOutcome::NoHook) };
        let (folder, hash) = (tree.repository.common_dir.display().to_string(), setup.hash.clone());
        let is_allowed = self
            .store()
            .read(move |connection| worktrees::is_setup_allowed(connection, &folder, &hash))
            .await?;
        let Setup { file, hash } = setup;
        Ok(if is_allowed {
            SetupOutcome::Done
        } else {
            SetupOutcome::NotAllowed { command: file.setup, hash }
        })
    }

    /// Records that the user allows the set-up hook of a tree, and runs it there. The hash is that of the file the
    /// user was shown; a file that has changed since is refused.
    pub async fn allow_setup(&self, name: &TreeName, hash: &str, by: &str) -> Result<SetupOutcome, Error> {
        let OpenTree { repository, path, trees, .. } = self.open_tree(name).await?;
        let setup = Setup::read(&path)?.filter(|setup| !setup.file.setup.trim().is_empty());
        let Some(setup) = setup else {
            return Err(git::failed(&format!("{} has no set-up hook in {FILE}", path.display())));
        };
        if setup.hash != hash {
            return Err(Error::invalid(
                "hash",
                format_args!("{FILE} has changed since it was shown; read it again: {}", setup.file.setup),
            ));
        }
        let (folder, hash, by) =
            (repository.common_dir.display().to_string(), hash.to_owned(), by.to_owned());
        let now = clock::now();
        self.store()
            .write(Durability::Synced, move |connection| {
                worktrees::allow_setup(connection, &folder, &hash, now, &by)
            })
            .await?;
        let main = trees.first().map_or(path.clone(), |main| main.path.clone());
        self.run_allowed_hook(Some(&setup), &repository, &path, &main).await
    }
}

/// Returns the files of a tree that a command names, with their content: who allows the command allows them as they are. What those
/// call in turn is not followed.
fn called_files(root: &Path, file: &SetupFile) -> Result<Vec<(String, Vec<u8>)>, String> {
    let is_between = |letter: char| letter.is_whitespace() || ";&|()<>`'\"=".contains(letter);
    let mut found = Vec::new();
    for word in file.setup.split(is_between).filter(|word| !word.is_empty()) {
        let path: PathBuf = Path::new(word).components().filter(|part| *part != Component::CurDir).collect();
        // What is copied is of this machine, and changes.
        if !is_plain(&path) || file.copy.contains(&path) || found.iter().any(|(known, _)| known == word) {
            continue;
        }
        match project_file::read(root, &path, limits::SETUP_COPY_MAX_BYTES) {
            Ok(Some(content)) => found.push((word.to_owned(), content)),
            // A word that is no file of the project.
            Ok(None) => {}
            // A folder is none either; a link or something larger than any script cannot be vouched for.
            Err(_) if root.join(&path).symlink_metadata().is_ok_and(|found| found.is_dir()) => {}
            Err(error) => return Err(format!("setup calls {word}: {error}")),
        }
    }
    Ok(found)
}

/// Returns whether a path is relative and stays where it starts.
fn is_plain(path: &Path) -> bool {
    let mut parts = path.components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(name) if name != ".git"))
}

/// Writes a new file beneath a folder. A link on the way is refused; a file that exists stays.
fn write_beneath(root: &Path, below: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut folder = root.to_owned();
    for part in below.parent().into_iter().flat_map(Path::components) {
        folder.push(part);
        match folder.symlink_metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(std::io::Error::other(format!("{} is not a folder", folder.display()))),
            Err(_) => std::fs::create_dir(&folder)?,
        }
    }
    // What is copied may be a key.
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(root.join(below));
    match opened {
        Ok(mut file) => file.write_all(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}
