//! The configuration of GitLab and GitHub: addresses and where tokens are.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::invalid;
use crate::failure::Result;

/// Servers of GitLab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Gitlab {
    /// The server of projects that are named without one; empty: `GITLAB_URL`, else `https://gitlab.com`.
    pub url: String,
    /// Unset: `token_file`, else `GITLAB_TOKEN`.
    pub token: Option<String>,
    /// A file with the token that only its owner can read.
    pub token_file: Option<PathBuf>,
    /// Certificates that are trusted beside the machine's.
    pub ca_file: Option<PathBuf>,
    /// Further servers: an address, or `address=file with its token`.
    pub instances: Vec<String>,
    /// Tokens of single projects or groups: `group/name=file with its token`, or an address instead of the path. The nearest
    /// one counts, and the server's token is for all others.
    pub projects: Vec<String>,
}

/// The server of GitHub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Github {
    /// Empty: `https://github.com`.
    pub url: String,
    /// Unset: `token_file`, else `GITHUB_TOKEN`.
    pub token: Option<String>,
    pub token_file: Option<PathBuf>,
    pub ca_file: Option<PathBuf>,
    /// Tokens of single repositories or owners: `owner/name=file with its token`.
    pub projects: Vec<String>,
}

impl Gitlab {
    pub(super) fn check(&self) -> Result<()> {
        check_address("gitlab.url", &self.url)?;
        self.servers().iter().try_for_each(|(url, _)| check_address("gitlab.instances", url))
    }

    /// Returns the projects and groups that have tokens of their own, each with the file of its token.
    pub fn project_tokens(&self) -> Vec<(String, PathBuf)> {
        project_tokens(&self.projects)
    }

    /// Returns the further servers, each with the file of its token.
    pub fn servers(&self) -> Vec<(String, Option<PathBuf>)> {
        let split = |entry: &String| match entry.split_once('=') {
            Some((url, file)) => (url.trim().to_owned(), Some(PathBuf::from(file.trim()))),
            None => (entry.trim().to_owned(), None),
        };
        self.instances.iter().map(split).collect()
    }
}

impl Github {
    pub(super) fn check(&self) -> Result<()> {
        check_address("github.url", &self.url)
    }

    /// Returns the repositories and owners that have tokens of their own, each with the file of its token.
    pub fn project_tokens(&self) -> Vec<(String, PathBuf)> {
        project_tokens(&self.projects)
    }
}

/// Splits `project=file`. An entry without a file has an empty one, which is refused with the project's name.
fn project_tokens(entries: &[String]) -> Vec<(String, PathBuf)> {
    let split = |entry: &String| {
        let (project, file) = entry.split_once('=').unwrap_or((entry, ""));
        (project.trim().to_owned(), PathBuf::from(file.trim()))
    };
    entries.iter().map(split).collect()
}

fn check_address(key: &str, url: &str) -> Result<()> {
    if url.is_empty() || url.starts_with("https://") || url.starts_with("http://") {
        return Ok(());
    }
    Err(invalid(format!("{key}: {url:?} must be an address that begins with https://")))
}
