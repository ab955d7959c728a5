//! The files of a checkpoint outside their repository: a bundle with a commit of everything that the repository's own history
//! does not have. What happens to references and loose objects of the repository does not reach it. Knows no table.

use std::ffi::OsStr;
use std::io::BufRead as _;
use std::path::Path;

use domain::Error;

use super::shelter::HookIsolation;
use super::tree::OpenTree;
use super::turn_tree::RecordedFiles;
use super::{Worktrees, git};
use crate::limits;

/// The name of the commit inside a bundle.
const NAME: &str = "refs/obey/checkpoint";

/// Ends the subject of a commit without all files: what it lacks must not be removed by a restore.
const PARTIAL: &str = " partial";

impl Worktrees {
    /// Writes recorded files of a folder to a bundle. Neither index nor branches nor references change.
    pub async fn bundle_checkpoint(
        &self,
        folder: &Path,
        files: &RecordedFiles,
        id: &str,
        bundle: &Path,
    ) -> Result<(), Error> {
        let tree = Self::look_at_folder(folder).await?;
        let isolation = self.isolation(&tree).await?;
        let subject = format!("obey checkpoint {id}{}", if files.complete { "" } else { PARTIAL });
        let commit = commit(&tree, &isolation, &files.tree, &subject).await?;
        isolation.set_ref(NAME, &commit)?;
        let made = isolation.file("bundle");
        let target = made.display().to_string();
        let known = tree.head.as_ref().map(|head| format!("^{head}"));
        let mut args = vec!["bundle", "create", "--quiet", &target, NAME];
        args.extend(known.as_deref());
        isolation.run(&tree.path, &isolation.no_index(), &args).await?;
        std::fs::rename(&made, bundle)
            .map_err(|error| git::failed(&format!("{} cannot be written: {error}", bundle.display())))
    }

    /// Brings the commit of a bundle back into the repository of a folder, as `refs/obey/checkpoints/ID`.
    pub async fn unbundle_checkpoint(&self, folder: &Path, id: &str, bundle: &Path) -> Result<(), Error> {
        let (commit, needed) = read_header(bundle)
            .map_err(|error| git::failed(&format!("the files of {id} cannot be read: {error}")))?;
        let tree = Self::look_at_folder(folder).await?;
        let isolation = self.isolation(&tree).await?;
        for (number, base) in needed.iter().enumerate() {
            if tree.repository.commit(base).await?.is_none() {
                let message = format!("{id} needs the commit {base}, which {} lost", folder.display());
                return Err(git::failed(&message));
            }
            isolation.set_ref(&format!("refs/heads/base-{number}"), base)?;
        }
        let source = bundle.display().to_string();
        isolation.run(&tree.path, &isolation.no_index(), &["bundle", "unbundle", &source]).await?;
        let name = format!("refs/obey/checkpoints/{id}");
        // Whatever it names now, the bundle is right.
        let args = ["update-ref", "--no-deref", "-m", "obey", &name, &commit].map(OsStr::new);
        let env = [("GIT_DIR", tree.repository.common_dir.as_os_str())];
        let done = git::try_run(&tree.repository.common_dir, &args, &env).await?;
        if done.ok { Ok(()) } else { Err(git::complaint(&done)) }
    }
}

/// Commits a tree on top of what is checked out.
async fn commit(
    tree: &OpenTree,
    isolation: &HookIsolation,
    files: &str,
    subject: &str,
) -> Result<String, Error> {
    let (name, email) = (OsStr::new("obey"), OsStr::new("obey@localhost"));
    let env = [
        ("GIT_AUTHOR_NAME", name),
        ("GIT_AUTHOR_EMAIL", email),
        ("GIT_COMMITTER_NAME", name),
        ("GIT_COMMITTER_EMAIL", email),
    ];
    let mut args = vec!["commit-tree", files, "-m", subject];
    if let Some(head) = &tree.head {
        args.extend(["-p", head]);
    }
    let done = isolation.try_run_as(&tree.path, &isolation.no_index(), &args, &env).await?;
    if !done.ok {
        return Err(git::complaint(&done));
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// Returns the commit of a bundle and the commits it builds on. The header is lines of text that end with an empty one.
fn read_header(bundle: &Path) -> std::io::Result<(String, Vec<String>)> {
    let file = std::io::Read::take(std::fs::File::open(bundle)?, limits::BUNDLE_HEADER_MAX_BYTES);
    let mut reader = std::io::BufReader::new(file);
    let (mut commit, mut needed) = (None, Vec::new());
    loop {
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line)? == 0 || line == b"\n" {
            break;
        }
        let line = String::from_utf8_lossy(&line);
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some(first), _) if first.starts_with('-') => needed.push(first[1..].to_owned()),
            (Some(id), Some(name)) if name == NAME => commit = Some(id.to_owned()),
            _ => {}
        }
    }
    let commit = commit.ok_or_else(|| std::io::Error::other("it is no bundle of a checkpoint"))?;
    Ok((commit, needed))
}
