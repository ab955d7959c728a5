//! What git proves itself with when it pushes to a server: the server's own token, for its own address. Makes no request.

use std::fmt;
use std::path::PathBuf;

use domain::{Error, ErrorCode};

use crate::instance::Instance;
use crate::project::{self, Remote};
use crate::{ForgeKind, Forges};

/// A name and a password for one server.
#[derive(Clone, PartialEq, Eq)]
pub struct GitCredential {
    /// Scheme, host and port: whom it may be shown to.
    pub server: String,
    pub username: &'static str,
    pub password: String,
    /// Certificates that the server's is signed with, where the machine's are not enough.
    pub ca_file: Option<PathBuf>,
}

impl fmt::Debug for GitCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitCredential").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Forges {
    /// Returns what git needs to push to a remote, if that is an address of the project's own server and the server has a
    /// token. A remote over SSH, or one on another host, has credentials of its own.
    pub async fn git_credential(
        &self,
        kind: Option<ForgeKind>,
        project: &str,
        remote: Option<&str>,
    ) -> Result<Option<GitCredential>, Error> {
        let (forges, project, remote) = (self.clone(), project.to_owned(), remote.map(str::to_owned));
        // It may read a token from a file.
        let found = tokio::task::spawn_blocking(move || {
            let located = forges.0.instances.locate(kind, &project::named(&project)?, remote.as_deref())?;
            credential(&located.instance, remote.as_deref().unwrap_or_default())
        });
        found.await.unwrap_or_else(|error| {
            Err(Error::new(ErrorCode::ForgeUnavailable, "an internal error").with_detail(error.to_string()))
        })
    }
}

fn credential(instance: &Instance, remote: &str) -> Result<Option<GitCredential>, Error> {
    let Some(Remote::Http(address)) = project::remote(remote) else { return Ok(None) };
    if project::path_below(&instance.base, &address).is_none() {
        return Ok(None);
    }
    // The password in an address is the user's own choice.
    let has_own = reqwest::Url::parse(remote.trim()).is_ok_and(|url| url.password().is_some());
    let Some(password) = instance.token()?.filter(|_| !has_own) else { return Ok(None) };
    let username = match instance.kind {
        ForgeKind::GitLab => "oauth2",
        ForgeKind::GitHub => "x-access-token",
    };
    let server = address.origin().ascii_serialization();
    Ok(Some(GitCredential { server, username, password, ca_file: instance.ca_file.clone() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InstanceConfig;

    fn of(remote: &str) -> Option<GitCredential> {
        let token = Some("secret-token".to_owned());
        let config =
            InstanceConfig { url: "https://git.example/sub".to_owned(), token, ..Default::default() };
        credential(&Instance::new(ForgeKind::GitLab, config).unwrap(), remote).unwrap()
    }

    #[test]
    fn the_token_is_for_the_servers_own_address_only() {
        let own = of("https://git.example/sub/group/name.git").unwrap();
        assert_eq!((own.server.as_str(), own.username), ("https://git.example", "oauth2"));
        assert!(!format!("{own:?}").contains("secret-token"));
        for other in [
            "",
            "/folder",
            "git@git.example:sub/group/name.git",
            "ssh://git@git.example/sub/group/name.git",
            "http://git.example/sub/group/name.git",
            "https://git.example:8443/sub/group/name.git",
            "https://git.example/other/group/name.git",
            "https://git.example.evil/sub/group/name.git",
            "https://me:own@git.example/sub/group/name.git",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
