//! Tokens of single projects and groups: which one belongs to a project. Must not read a token; that is `instance.rs`'s.

use std::path::PathBuf;
use std::sync::Arc;

use domain::{Error, ErrorCode};

use crate::instance::{Instance, Instances, TokenSource};
use crate::project::{self, ProjectName};
use crate::types::ForgeKind;

/// A token as the configuration gives it to a project, or to a group for all its projects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectTokenConfig {
    pub kind: ForgeKind,
    /// A path on the first server of the kind, GitLab's number of a project, or an address on a configured server.
    pub project: String,
    /// A file with the token, which nobody but its owner can read.
    pub token_file: PathBuf,
}

/// The same with the server it is for.
pub(crate) struct ProjectToken {
    instance: Arc<Instance>,
    /// A project or a group, as its segments.
    path: Vec<String>,
    token_file: PathBuf,
}

impl ProjectToken {
    /// Checks what the configuration says.
    pub(crate) fn new(instances: &Instances, config: ProjectTokenConfig) -> Result<Self, Error> {
        let ProjectTokenConfig { kind, project: name, token_file } = config;
        let wrong = |problem: &str| {
            let message = format!("{}.projects: {name:?}: {problem}", kind.name());
            Err(Error::new(ErrorCode::ConfigInvalid, message))
        };
        let (instance, path) = if name.contains("://") {
            let found = match project::named(&name) {
                Ok(ProjectName::At(url)) => instances.below(Some(kind), &url),
                Ok(_) => None,
                Err(error) => return wrong(error.message.trim_start_matches("project: ")),
            };
            match found {
                Some(located) => (located.instance, located.project),
                None => return wrong("is on no server that is configured; add the server first"),
            }
        } else {
            match instances.default_of(kind) {
                Some(instance) => (Arc::clone(instance), name.clone()),
                None => return wrong("there is no server of this kind"),
            }
        };
        let path = segments(&path);
        if path.is_empty() || path.iter().any(|segment| matches!(segment.as_str(), "" | "." | "..")) {
            return wrong("is no project or group; write group/name=FILE, or an address=FILE");
        }
        if token_file.as_os_str().is_empty() {
            return wrong("needs the file of its token: group/name=FILE");
        }
        Ok(Self { instance, path, token_file })
    }

    /// How many segments of a project's path this token is for; `None`: it is another project's.
    fn covers(&self, instance: &Instance, project: &[String]) -> Option<usize> {
        let is_same = self.instance.kind == instance.kind && self.instance.base == instance.base;
        (is_same && project.starts_with(&self.path)).then_some(self.path.len())
    }
}

/// Returns a project's server with the token for this project: its own, else that of the nearest group, else the server's.
pub(crate) fn instance_for(tokens: &[ProjectToken], instance: Arc<Instance>, project: &str) -> Arc<Instance> {
    let project = segments(project);
    let nearest = tokens.iter().filter_map(|token| Some((token.covers(&instance, &project)?, token)));
    match nearest.max_by_key(|(length, _)| *length) {
        None => instance,
        Some((_, token)) => Arc::new(Instance {
            kind: instance.kind,
            base: instance.base.clone(),
            api: instance.api.clone(),
            token: TokenSource::File(token.token_file.clone()),
            ca_file: instance.ca_file.clone(),
        }),
    }
}

/// Splits a path; servers do not tell the case of its letters apart.
fn segments(path: &str) -> Vec<String> {
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    path.split('/').map(|segment| segment.trim().to_lowercase()).filter(|_| !path.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InstanceConfig;

    fn servers() -> Vec<(ForgeKind, InstanceConfig)> {
        let server = |url: &str| InstanceConfig {
            url: url.to_owned(),
            token: Some("of-the-server".to_owned()),
            ..InstanceConfig::default()
        };
        vec![
            (ForgeKind::GitLab, server("https://git.example/sub")),
            (ForgeKind::GitLab, server("https://other.example")),
        ]
    }

    fn token(kind: ForgeKind, project: &str, file: &str) -> ProjectTokenConfig {
        ProjectTokenConfig { kind, project: project.to_owned(), token_file: file.into() }
    }

    /// The file of the token with which a project is asked; empty: the server's own.
    fn file_for(instances: &Instances, project: &str) -> String {
        let located =
            instances.locate(Some(ForgeKind::GitLab), &project::named(project).unwrap(), None).unwrap();
        match &located.instance.token {
            TokenSource::File(file) => file.display().to_string(),
            TokenSource::Value(_) => String::new(),
            TokenSource::None => "no token".to_owned(),
        }
    }

    #[test]
    fn a_project_is_asked_with_its_own_token_else_its_groups_else_the_servers() {
        let tokens = vec![
            token(ForgeKind::GitLab, "group", "/t/group"),
            token(ForgeKind::GitLab, "group/deep/Name", "/t/name"),
            token(ForgeKind::GitLab, "https://other.example/group/name", "/t/other"),
            token(ForgeKind::GitLab, "42", "/t/number"),
            token(ForgeKind::GitHub, "me/tool", "/t/hub"),
        ];
        let instances = Instances::new(servers(), tokens).unwrap();
        for (project, file) in [
            ("group/deep/name", "/t/name"),
            ("group/deep/name.git", "/t/name"),
            ("group/deep/names", "/t/group"),
            ("group/x", "/t/group"),
            ("groups/x", ""),
            ("42", "/t/number"),
            ("43", ""),
            ("https://git.example/sub/group/deep/name/-/issues/3", "/t/name"),
            ("https://other.example/group/name", "/t/other"),
            ("https://other.example/group/else", ""),
            // Nobody configured this server, and no token is for it.
            ("https://evil.example/group/name", "no token"),
            ("https://git.example:8443/sub/group/name", "no token"),
        ] {
            assert_eq!(file_for(&instances, project), file, "{project}");
        }
        let hub =
            instances.locate(Some(ForgeKind::GitHub), &project::named("Me/Tool").unwrap(), None).unwrap();
        assert!(matches!(&hub.instance.token, TokenSource::File(file) if file.ends_with("hub")));
    }

    #[test]
    fn a_remote_is_asked_with_the_token_of_its_project() {
        let tokens = vec![token(ForgeKind::GitLab, "group/name", "/t/name")];
        let instances = Instances::new(servers(), tokens).unwrap();
        for remote in ["git@git.example:group/name.git", "https://git.example/sub/group/name.git"] {
            let located = instances.locate(None, &ProjectName::OfRemote, Some(remote)).unwrap();
            assert!(matches!(&located.instance.token, TokenSource::File(_)), "{remote}");
        }
    }

    #[test]
    fn what_names_no_project_is_refused() {
        for (project, file) in [
            ("", "/t"),
            ("a/../b", "/t"),
            ("a//b", "/t"),
            ("a/b", ""),
            ("https://evil.example/a/b", "/t"),
            ("https://u:p@git.example/sub/a/b", "/t"),
        ] {
            let refused = Instances::new(servers(), vec![token(ForgeKind::GitLab, project, file)]);
            let error = refused.err().unwrap_or_else(|| panic!("{project}"));
            assert!(error.message.starts_with("gitlab.projects: "), "{error}");
        }
    }
}
