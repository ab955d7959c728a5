//! The servers there are, and which of them is meant. A token belongs to one server, or to a project or group on one, and
//! is never sent to another server. Reads
//! files of tokens and certificates; makes no request.

use std::cmp::Reverse;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::{Error, ErrorCode};
use reqwest::Url;
use reqwest::header::HeaderValue;

use crate::limits::TOKEN_MAX_BYTES;
use crate::project::{self, ProjectName, Remote};
use crate::project_token::{self, ProjectToken, ProjectTokenConfig};
use crate::types::ForgeKind;

/// A server as the configuration names it.
#[derive(Clone, Default)]
pub struct InstanceConfig {
    /// The address, with the path below which the server is if it has one.
    pub url: String,
    pub token: Option<String>,
    /// A file with the token, which nobody but its owner can read.
    pub token_file: Option<PathBuf>,
    /// Certificates that are trusted beside the machine's.
    pub ca_file: Option<PathBuf>,
}

impl fmt::Debug for InstanceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstanceConfig").field("url", &self.url).finish_non_exhaustive()
    }
}

/// One server.
pub(crate) struct Instance {
    pub(crate) kind: ForgeKind,
    pub(crate) base: Url,
    /// The address of its API.
    pub(crate) api: Url,
    /// Where the token comes from is read once, at the first request.
    pub(crate) token: TokenSource,
    pub(crate) ca_file: Option<PathBuf>,
}

/// Where a token is.
pub(crate) enum TokenSource {
    None,
    Value(String),
    File(PathBuf),
}

/// A project and its server.
pub(crate) struct Located {
    pub(crate) instance: Arc<Instance>,
    /// A path, or GitLab's number of it.
    pub(crate) project: String,
}

impl Instance {
    /// Checks the address of a server.
    pub(crate) fn new(kind: ForgeKind, config: InstanceConfig) -> Result<Self, Error> {
        let mut base = project::address(&config.url).map_err(|error| wrong(kind, "url", &error))?;
        base.set_query(None);
        base.set_fragment(None);
        let api = api(kind, &base)?;
        let token = match (config.token.filter(|token| !token.trim().is_empty()), config.token_file) {
            (Some(token), _) => TokenSource::Value(token),
            (None, Some(file)) => TokenSource::File(file),
            (None, None) => TokenSource::None,
        };
        Ok(Self { kind, base, api, token, ca_file: config.ca_file })
    }

    /// Returns the header that proves who calls; `None`: only what is public is seen.
    pub(crate) fn token(&self) -> Result<Option<String>, Error> {
        let text = match &self.token {
            TokenSource::None => return Ok(None),
            TokenSource::Value(text) => text.clone(),
            TokenSource::File(file) => read_private(self.kind, file)?,
        };
        let token = text.trim().to_owned();
        let is_fine = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_fine || token.len() as u64 > TOKEN_MAX_BYTES {
            let problem = format!("the token of {} has characters that no token has", self.base);
            return Err(Error::new(ErrorCode::ConfigInvalid, problem));
        }
        Ok(Some(token))
    }

    fn host(&self) -> &str {
        self.base.host_str().unwrap_or_default()
    }
}

/// Returns a token as the value of `Authorization`. That header is the one which HTTP clients know to be secret.
pub(crate) fn bearer(token: &str) -> Result<HeaderValue, Error> {
    let made = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut value =
        made.map_err(|_| Error::new(ErrorCode::ConfigInvalid, "the token has characters that no token has"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns the address of the API.
fn api(kind: ForgeKind, base: &Url) -> Result<Url, Error> {
    let bad = || Error::new(ErrorCode::ConfigInvalid, format!("{}.url: {base} has no path", kind.name()));
    let mut api = base.clone();
    let version = match kind {
        ForgeKind::GitLab => "v4",
        ForgeKind::GitHub if base.host_str() == Some(GITHUB_HOST) => {
            return Url::parse("https://api.github.com").map_err(|_| bad());
        }
        ForgeKind::GitHub => "v3",
    };
    api.path_segments_mut().map_err(|()| bad())?.pop_if_empty().extend(["api", version]);
    Ok(api)
}

/// Reads a token from a file that nobody else can read.
fn read_private(kind: ForgeKind, file: &Path) -> Result<String, Error> {
    use std::io::Read as _;
    use std::os::unix::fs::MetadataExt as _;
    let refused = |problem: String| {
        Error::new(
            ErrorCode::ConfigInvalid,
            format!("{}.token_file: {}: {problem}", kind.name(), file.display()),
        )
    };
    let opened = std::fs::File::open(file).map_err(|error| refused(error.to_string()))?;
    let found = opened.metadata().map_err(|error| refused(error.to_string()))?;
    let own = rustix::process::getuid().as_raw();
    if !found.is_file() {
        return Err(refused("is no file".to_owned()));
    }
    if found.uid() != own && found.uid() != 0 {
        return Err(refused("belongs to another user".to_owned()));
    }
    if found.mode() & 0o077 != 0 {
        return Err(refused("others can read it; run chmod 600 on it".to_owned()));
    }
    let mut text = String::new();
    let mut limited = opened.take(TOKEN_MAX_BYTES + 1);
    limited.read_to_string(&mut text).map_err(|error| refused(error.to_string()))?;
    if text.len() as u64 > TOKEN_MAX_BYTES {
        return Err(refused(format!("is longer than {TOKEN_MAX_BYTES} bytes")));
    }
    Ok(text)
}

const GITHUB_HOST: &str = "github.com";

/// The servers that everybody knows; they come after the configured ones.
const KNOWN: [(ForgeKind, &str); 2] =
    [(ForgeKind::GitLab, "https://gitlab.com"), (ForgeKind::GitHub, "https://github.com")];

/// All servers, those that the configuration names first.
pub(crate) struct Instances {
    all: Vec<Arc<Instance>>,
    tokens: Vec<ProjectToken>,
}

impl Instances {
    pub(crate) fn new(
        configured: Vec<(ForgeKind, InstanceConfig)>,
        tokens: Vec<ProjectTokenConfig>,
    ) -> Result<Self, Error> {
        let mut all: Vec<Arc<Instance>> = Vec::new();
        for (kind, config) in configured {
            all.push(Arc::new(Instance::new(kind, config)?));
        }
        for (kind, url) in KNOWN {
            let known = Instance::new(kind, InstanceConfig { url: url.to_owned(), ..Default::default() })?;
            if !all.iter().any(|other| other.base == known.base) {
                all.push(Arc::new(known));
            }
        }
        let mut instances = Self { all, tokens: Vec::new() };
        for token in tokens {
            let token = ProjectToken::new(&instances, token)?;
            instances.tokens.push(token);
        }
        Ok(instances)
    }

    /// Whether a server is a configured or known one.
    pub(crate) fn contains(&self, instance: &Instance) -> bool {
        self.all.iter().any(|own| own.kind == instance.kind && own.base == instance.base)
    }

    /// Returns the server that a path without an address is on.
    pub(crate) fn default_of(&self, kind: ForgeKind) -> Option<&Arc<Instance>> {
        self.all.iter().find(|instance| instance.kind == kind)
    }

    fn of_kind(&self, kind: Option<ForgeKind>) -> impl Iterator<Item = &Arc<Instance>> {
        self.all.iter().filter(move |instance| kind.is_none_or(|kind| kind == instance.kind))
    }

    /// Finds the project that a caller names. `remote` is the address of the repository's remote, if that is needed.
    pub(crate) fn locate(
        &self,
        kind: Option<ForgeKind>,
        name: &ProjectName,
        remote: Option<&str>,
    ) -> Result<Located, Error> {
        let located = match name {
            ProjectName::Here(path) => {
                let kind = kind.ok_or_else(|| {
                    Error::invalid(
                        "forge",
                        "is required with a path: gitlab or github, or give a full address",
                    )
                })?;
                let instance = self.default_of(kind).cloned();
                let instance = instance.ok_or_else(|| Error::invalid("forge", "is not configured"))?;
                Located { instance, project: path.clone() }
            }
            ProjectName::At(url) => self.at(kind, url)?,
            ProjectName::OfRemote => self.of_remote(kind, remote)?,
        };
        let Located { instance, project } = checked(located)?;
        let instance = project_token::instance_for(&self.tokens, instance, &project);
        Ok(Located { instance, project })
    }

    /// Finds the server of an address. One that is not configured is asked without a token.
    fn at(&self, kind: Option<ForgeKind>, url: &Url) -> Result<Located, Error> {
        if let Some(found) = self.below(kind, url) {
            return Ok(found);
        }
        let Some(kind) = kind else {
            let problem = format!("{url} is on no server that is configured; add it to [gitlab] or [github]");
            return Err(Error::invalid("project", problem));
        };
        let mut base = url.clone();
        base.set_path("");
        base.set_query(None);
        base.set_fragment(None);
        let project = project::path_below(&base, url).unwrap_or_default();
        let config = InstanceConfig { url: base.to_string(), ..Default::default() };
        Ok(Located { instance: Arc::new(Instance::new(kind, config)?), project })
    }

    /// Finds the configured server below which an address is; the longest path counts.
    pub(crate) fn below(&self, kind: Option<ForgeKind>, url: &Url) -> Option<Located> {
        let found = self
            .of_kind(kind)
            .filter_map(|instance| Some((instance, project::path_below(&instance.base, url)?)));
        // Of two that are equally long the first one counts.
        let (instance, project) = found.min_by_key(|(instance, _)| Reverse(instance.base.path().len()))?;
        Some(Located { instance: Arc::clone(instance), project })
    }

    /// Finds the server of a remote. A repository's configuration is not trusted to name new ones.
    fn of_remote(&self, kind: Option<ForgeKind>, remote: Option<&str>) -> Result<Located, Error> {
        let Some(text) = remote else {
            return Err(Error::invalid(
                "project",
                "the folder is in no git repository with a remote named origin; give the project",
            ));
        };
        let named = kind.map_or("GitLab or GitHub", ForgeKind::title);
        let Some(remote) = project::remote(text) else {
            let problem = format!("the remote origin is no address of a {named}; give the project");
            return Err(Error::invalid("project", problem));
        };
        let found = match &remote {
            Remote::Http(url) => self.below(kind, url),
            Remote::Other { host, path } => {
                let found = self.of_kind(kind).find(|instance| instance.host() == host);
                found.map(|instance| Located { instance: Arc::clone(instance), project: path.clone() })
            }
        };
        found.ok_or_else(|| {
            let host = match &remote {
                Remote::Http(url) => url.host_str().unwrap_or_default().to_owned(),
                Remote::Other { host, .. } => host.clone(),
            };
            let other = self.of_kind(None).find(|instance| instance.host() == host);
            let remedy = match other {
                Some(other) => format!("use obey {}", other.kind.name()),
                None => format!(
                    "give the project, or set {}.url to its server",
                    kind.unwrap_or(ForgeKind::GitLab).name()
                ),
            };
            Error::invalid(
                "project",
                format!("the remote origin is at {host}, which is no {named} that is configured; {remedy}"),
            )
        })
    }
}

/// Checks the path of a project that was found.
fn checked(located: Located) -> Result<Located, Error> {
    let Located { instance, project } = located;
    let mut project = project::path(&project)?;
    if instance.kind == ForgeKind::GitHub {
        let mut parts = project.split('/');
        project = match (parts.next(), parts.next()) {
            (Some(owner), Some(name)) => format!("{owner}/{}", name.strip_suffix(".git").unwrap_or(name)),
            _ => return Err(Error::invalid("project", "GitHub names repositories as owner/name")),
        };
    }
    Ok(Located { instance, project })
}

fn wrong(kind: ForgeKind, key: &str, error: &Error) -> Error {
    let problem = error.message.trim_start_matches("project: ");
    Error::new(ErrorCode::ConfigInvalid, format!("{}.{key}: {problem}", kind.name()))
}

#[cfg(test)]
mod tests;
