//! Which project of which server is meant: by a number, a path, an address, or the remote of a repository. Pure: knows
//! addresses, not servers.

use domain::Error;
use reqwest::Url;

use crate::limits::PROJECT_MAX_BYTES;

/// A project as a caller names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProjectName {
    /// The remote of the folder says which.
    OfRemote,
    /// A number or a path on the default server.
    Here(String),
    /// An address on some server.
    At(Url),
}

/// Where a remote of a repository is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Remote {
    /// By HTTP: scheme, host, port and path are those of the server.
    Http(Url),
    /// By SSH or git's own protocol: only the host says which server it is.
    Other { host: String, path: String },
}

/// Reads what a caller names.
pub(crate) fn named(text: &str) -> Result<ProjectName, Error> {
    let text = text.trim();
    if text.len() > PROJECT_MAX_BYTES {
        return Err(invalid(format!("is longer than {PROJECT_MAX_BYTES} bytes")));
    }
    if text.is_empty() {
        return Ok(ProjectName::OfRemote);
    }
    if text.contains("://") {
        return address(text).map(ProjectName::At);
    }
    path(text).map(ProjectName::Here)
}

/// Checks an address that a caller or the configuration gives: HTTPS, or HTTP of this machine, without credentials.
pub(crate) fn address(text: &str) -> Result<Url, Error> {
    let url = Url::parse(text).map_err(|error| invalid(format!("{text:?} is no address: {error}")))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("must not contain a name or password; set a token instead".to_owned()));
    }
    match url.scheme() {
        "https" => {}
        "http" if is_loopback(&url) => {}
        "http" => return Err(invalid(format!("{text}: http is for this machine only; use https"))),
        other => return Err(invalid(format!("{text}: {other} is not supported; use https"))),
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(invalid(format!("{text:?} names no host")));
    }
    Ok(url)
}

/// Whether an address is of this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Checks a path of a project, such as `group/subgroup/name`, or its number.
pub(crate) fn path(text: &str) -> Result<String, Error> {
    let text = text.trim_matches('/');
    let text = text.strip_suffix(".git").unwrap_or(text);
    let is_fine = |segment: &str| {
        !segment.is_empty()
            && segment != "."
            && segment != ".."
            && segment.chars().all(|letter| {
                letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.' | '+' | ' ' | '~' | '@')
            })
    };
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number || (text.contains('/') && text.split('/').all(is_fine)) {
        return Ok(text.to_owned());
    }
    Err(invalid(format!(
        "{text:?} is no project; use a path such as group/name, a number, or a full address"
    )))
}

/// Returns the path of the project that an address below `base` names: without the pages of the project itself.
pub(crate) fn path_below(base: &Url, address: &Url) -> Option<String> {
    let same = base.scheme() == address.scheme()
        && base.host_str() == address.host_str()
        && base.port_or_known_default() == address.port_or_known_default();
    let prefix = base.path().trim_end_matches('/');
    let rest = address.path().strip_prefix(prefix).filter(|_| same)?;
    if !rest.is_empty() && !rest.starts_with('/') {
        return None;
    }
    let rest = rest.split("/-/").next().unwrap_or_default();
    Some(rest.trim_matches('/').to_owned())
}

/// Reads the address of a remote; `None`: it is a folder, or nothing that names a host.
pub(crate) fn remote(text: &str) -> Option<Remote> {
    let text = text.trim();
    if text.len() > PROJECT_MAX_BYTES {
        return None;
    }
    if let Some((scheme, _)) = text.split_once("://") {
        let mut url = Url::parse(text).ok()?;
        // A name or password is git's business, and none of ours.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let host = url.host_str().filter(|host| !host.is_empty())?.to_owned();
        return match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" => Some(Remote::Http(url)),
            "ssh" | "git" | "git+ssh" | "ssh+git" => {
                Some(Remote::Other { host: host.to_ascii_lowercase(), path: trimmed(url.path()) })
            }
            _ => None,
        };
    }
    // As scp writes it. A slash before the first colon makes it a path.
    let (host, path) = text.split_once(':')?;
    let host = host.rsplit('@').next().unwrap_or(host);
    if host.is_empty() || host.contains('/') || path.is_empty() {
        return None;
    }
    Some(Remote::Other { host: host.to_ascii_lowercase(), path: trimmed(path) })
}

fn trimmed(path: &str) -> String {
    path.trim_matches('/').to_owned()
}

fn invalid(problem: String) -> Error {
    Error::invalid("project", problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_a_number_a_path_or_an_address() {
        for (typed, expected) in
            [("42", "42"), ("a/b", "a/b"), ("/a/b/c.git", "a/b/c"), ("g/na.me", "g/na.me")]
        {
            assert_eq!(named(typed).unwrap(), ProjectName::Here(expected.to_owned()), "{typed}");
        }
        assert_eq!(named(" ").unwrap(), ProjectName::OfRemote);
        assert!(matches!(named("https://x.test/a/b").unwrap(), ProjectName::At(_)));
        assert!(matches!(named("http://127.0.0.1:80/a/b").unwrap(), ProjectName::At(_)));
        for bad in [
            "name",
            "a/../b",
            "a//b",
            "a/b?x",
            "a/b#c",
            "a/%2e%2e/b",
            "http://x.test/a/b",
            "file:///etc/passwd",
            "https://u:p@x.test/a/b",
            "https://",
        ] {
            let error = named(bad).unwrap_err();
            assert!(error.message.starts_with("project: "), "{bad}: {error}");
        }
    }

    #[test]
    fn an_address_is_split_at_its_server() {
        let base = |text: &str| Url::parse(text).unwrap();
        let below = |server: &str, page: &str| path_below(&base(server), &base(page));
        assert_eq!(below("https://x.test", "https://x.test/g/p.git").as_deref(), Some("g/p.git"));
        assert_eq!(below("https://x.test/git/", "https://x.test/git/g/p/-/issues/3").as_deref(), Some("g/p"));
        assert_eq!(below("https://x.test/git", "https://x.test/github/g/p"), None);
        assert_eq!(below("https://x.test", "http://x.test/g/p"), None);
        assert_eq!(below("https://x.test", "https://x.test:444/g/p"), None);
        assert_eq!(below("https://x.test:443", "https://X.test/g/p").as_deref(), Some("g/p"));
    }

    #[test]
    fn remotes_are_read_as_git_writes_them() {
        let other =
            |host: &str, path: &str| Some(Remote::Other { host: host.to_owned(), path: path.to_owned() });
        assert_eq!(remote("git@GitLab.test:g/sub/p.git"), other("gitlab.test", "g/sub/p.git"));
        assert_eq!(remote("ssh://git@gitlab.test:2222/g/p.git"), other("gitlab.test", "g/p.git"));
        let Some(Remote::Http(url)) = remote("https://ann:secret@gitlab.test/g/p.git") else { panic!() };
        assert_eq!(url.as_str(), "https://gitlab.test/g/p.git");
        for none in ["/srv/repo.git", "../repo", "file:///srv/repo", "./a:b", "", "ext::sh -c x"] {
            assert!(!matches!(remote(none), Some(Remote::Http(_))), "{none}");
        }
        assert_eq!(remote("/srv/repo.git"), None);
        assert_eq!(remote("file:///srv/repo"), None);
    }
}
