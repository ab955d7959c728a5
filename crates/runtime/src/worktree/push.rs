//! The remote of a repository, and pushing a tree's branch to it. Knows git, not the server behind the remote.

use std::ffi::OsStr;
use std::path::Path;

use domain::{Error, ErrorCode};

use super::git;
use super::merge::target_name;
use super::push_credential::HandedCredential;
pub use super::push_credential::PushCredential;
use super::tree::TreeName;
use super::{Worktrees, short_name};
use crate::git::{guard, run_with};

/// The remote that a branch is pushed to.
const REMOTE: &str = "origin";

/// What to push.
#[derive(Clone, Debug, Default)]
pub struct PushRequest {
    pub tree: TreeName,
    /// The branch it is to be merged into; empty: the one the tree was made from.
    pub into: String,
    /// Commits what is not committed with this message first; empty: uncommitted changes are refused.
    pub commit_message: String,
    /// What git proves itself with at the remote's server; none: what the user's own configuration has.
    pub credential: Option<PushCredential>,
}

/// A branch that was pushed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushedBranch {
    pub branch: String,
    /// The branch it is to be merged into.
    pub into: String,
    /// The first line of its newest commit.
    pub subject: String,
}

impl Worktrees {
    /// Returns the address of the remote of a folder's repository; `None` if there is no repository or no such remote.
    /// The repository chose it: it is not to be trusted.
    pub async fn remote_address(&self, folder: &Path) -> Result<Option<String>, Error> {
        if !folder.is_absolute() || !folder.is_dir() {
            let problem = format!("{} is no folder on this machine", folder.display());
            return Err(Error::invalid("folder", problem));
        }
        let args = ["config", "--get", "remote.origin.url"].map(OsStr::new);
        let done = git::try_run(folder, &args, &[]).await?;
        let address = String::from_utf8_lossy(&done.stdout).trim().to_owned();
        Ok(Some(address).filter(|address| done.ok && !address.is_empty()))
    }

    /// The same of a working tree.
    pub async fn remote_address_of(&self, tree: &TreeName) -> Result<Option<String>, Error> {
        let tree = self.open_tree(tree).await?;
        self.remote_address(&tree.path).await
    }

    /// Pushes a tree's branch to its remote. Runs to its end even if the caller disconnects.
    pub async fn push(&self, request: PushRequest) -> Result<PushedBranch, Error> {
        let worktrees = self.clone();
        let pushed = tokio::spawn(async move { worktrees.push_here(request).await });
        pushed
            .await
            .unwrap_or_else(|error| Err(git::failed("an internal error").with_detail(error.to_string())))
    }

    /// Refuses to push elsewhere than to the server at which the merge request is opened. The repository's own
    /// configuration, which an agent may write, can lead a push there.
    async fn check_push_address(&self, folder: &Path) -> Result<(), Error> {
        let Some(address) = self.remote_address(folder).await? else { return Ok(()) };
        let keys = r"^(remote\.origin\.pushurl|url\..*\.(push)?insteadof)$";
        let args = ["config", "--null", "--get-regexp", keys].map(OsStr::new);
        let printed = git::try_run(folder, &args, &[]).await?.stdout;
        let text = String::from_utf8_lossy(&printed);
        for (key, value) in text.split('\0').filter_map(|entry| entry.split_once('\n')) {
            let leads_away = match key.strip_prefix("url.").and_then(|rest| rest.rsplit_once('.')) {
                Some((other, _)) => address.starts_with(value) && is_elsewhere(other, &address),
                None => is_elsewhere(value, &address),
            };
            if leads_away {
                return Err(git::failed(&format!(
                    "the repository's setting {key} leads the push to another server than {REMOTE}'s, {}; look at it, then \
                     remove it: git config --unset-all {key}",
                    server(&address).unwrap_or(&address)
                )));
            }
        }
        Ok(())
    }

    async fn push_here(&self, request: PushRequest) -> Result<PushedBranch, Error> {
        let tree = self.open_tree(&request.tree).await?;
        let _alone = self.alone(&tree.repository).await;
        // Opened again: it may have changed while this waited.
        let tree = self.open_folder(&tree.path).await?;
        let Some(branch) = tree.branch.clone() else {
            return Err(git::failed(&format!("{} has no branch checked out", tree.path.display())));
        };
        let into = target_name(&tree, &request.into).await?;
        let isolation = self.isolation(&tree).await?;
        let head = tree.head()?.to_owned();
        let ours = self.commit_changes(&tree, &isolation, &head, &request.commit_message).await?;
        if ours != head {
            self.move_own_branch(&tree, &isolation, &head, &ours).await?;
        }
        let subject = ["log", "-1", "--format=%s", ours.as_str()].map(OsStr::new);
        let subject = String::from_utf8_lossy(&git::run(&tree.path, &subject).await?).trim().to_owned();
        self.check_push_address(&tree.path).await?;
        push_branch(&tree.path, &branch, request.credential.as_ref()).await?;
        Ok(PushedBranch { branch, into: short_name(&into).to_owned(), subject })
    }
}

/// Returns whether an address leads to another server than a remote's own. A folder of this machine is none.
fn is_elsewhere(other: &str, address: &str) -> bool {
    server(other).is_some_and(|other| Some(other) != server(address))
}

/// Returns the server of a remote's address, in any of git's forms; none for a folder.
fn server(address: &str) -> Option<&str> {
    let place = match address.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => rest.split('/').next().unwrap_or_default(),
        // The form of scp.
        None => address.split_once(':').map(|(place, _)| place).filter(|place| !place.contains('/'))?,
    };
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    Some(match place.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => place,
    })
}

/// Pushes with the user's own configuration and credentials, and without any program that the repository names.
async fn push_branch(folder: &Path, branch: &str, credential: Option<&PushCredential>) -> Result<(), Error> {
    let refspec = format!("refs/heads/{branch}:refs/heads/{branch}");
    let args = ["push", "--porcelain", REMOTE, &refspec].map(str::to_owned);
    let env = std::env::vars_os().collect();
    let mut command = guard::guarded(guard::check(&args)?, folder, folder.to_owned(), env).await?;
    // Kept until git has ended: it is read while git runs.
    let handed = credential.map(HandedCredential::new).transpose()?;
    if let Some(handed) = &handed {
        command.add_config(&handed.config);
    }
    let args: Vec<&OsStr> = command.args.iter().map(OsStr::new).collect();
    let done = run_with(&command.cwd, &args, command.env).await?;
    if done.ok {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).take(5).collect();
    Err(Error::new(
        ErrorCode::WorktreeFailed,
        format!("{branch} cannot be pushed to {REMOTE}; git says: {}", lines.join("; ")),
    ))
}

#[cfg(test)]
mod tests {
    use super::{is_elsewhere, server};

    #[test]
    fn a_server_is_the_same_in_every_form_of_its_address() {
        for address in [
            "https://git.example/team/shop.git",
            "https://user:token@git.example/team/shop.git",
            "ssh://git@git.example:2222/team/shop.git",
            "git@git.example:team/shop.git",
            "git.example:team/shop.git",
        ] {
            assert_eq!(server(address), Some("git.example"), "{address}");
        }
        let own = "https://git.example/team/shop.git";
        for other in ["https://git.example.evil/x", "https://git.example@evil/x", "git@evil:git.example/x"] {
            assert!(is_elsewhere(other, own), "{other}");
        }
        for same in ["/srv/shop.git", "file:///srv/shop.git", "git@git.example:team/shop.git"] {
            assert!(!is_elsewhere(same, own), "{same}");
        }
    }
}
