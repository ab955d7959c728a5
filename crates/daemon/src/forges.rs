//! The servers of GitLab and GitHub, made from the configuration and the daemon's environment.

use std::path::{Path, PathBuf};

use ::workbench::scrub::Scrubber;
use config::file::Config;
use domain::Error;
use forge::{ForgeKind, Forges, InstanceConfig, ProjectTokenConfig};

/// Reads which servers there are. The first of a kind is the one of projects that are named without a server.
pub(super) fn forges(config: &Config, scrubber: Scrubber) -> Result<Forges, Error> {
    Forges::new(configured(config, &|name| std::env::var(name).ok()), project_tokens(config), scrubber)
}

/// Checks the addresses, and which projects have tokens of their own, without making anything.
pub(super) fn check(config: &Config) -> Result<(), Error> {
    forge::check(configured(config, &|_| None), project_tokens(config))
}

fn configured(
    config: &Config,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Vec<(ForgeKind, InstanceConfig)> {
    let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let gitlab = &config.gitlab;
    let own = InstanceConfig {
        url: gitlab.url.clone(),
        token: gitlab.token.clone(),
        token_file: gitlab.token_file.as_deref().map(at_home),
        ca_file: gitlab.ca_file.as_deref().map(at_home),
    };
    let mut all: Vec<(ForgeKind, InstanceConfig)> =
        from_both(own, set("GITLAB_URL"), set("GITLAB_TOKEN"), "https://gitlab.com")
            .into_iter()
            .map(|instance| (ForgeKind::GitLab, instance))
            .collect();
    for (url, token_file) in gitlab.servers() {
        let token_file = token_file.as_deref().map(at_home);
        let ca_file = gitlab.ca_file.as_deref().map(at_home);
        all.push((ForgeKind::GitLab, InstanceConfig { url, token: None, token_file, ca_file }));
    }
    let github = &config.github;
    let own = InstanceConfig {
        url: github.url.clone(),
        token: github.token.clone(),
        token_file: github.token_file.as_deref().map(at_home),
        ca_file: github.ca_file.as_deref().map(at_home),
    };
    let github = from_both(own, None, set("GITHUB_TOKEN"), "https://github.com");
    all.extend(github.into_iter().map(|instance| (ForgeKind::GitHub, instance)));
    all
}

/// Returns the projects and groups that have tokens of their own.
fn project_tokens(config: &Config) -> Vec<ProjectTokenConfig> {
    let of = |kind: ForgeKind, entries: Vec<(String, PathBuf)>| {
        let token = move |(project, file): (String, PathBuf)| ProjectTokenConfig {
            kind,
            project,
            token_file: at_home(&file),
        };
        entries.into_iter().map(token)
    };
    let gitlab = of(ForgeKind::GitLab, config.gitlab.project_tokens());
    gitlab.chain(of(ForgeKind::GitHub, config.github.project_tokens())).collect()
}

/// Returns the server of the configuration and that of the environment. A token goes with the address of its own source
/// and is never given to another server.
fn from_both(
    mut own: InstanceConfig,
    url: Option<String>,
    token: Option<String>,
    known: &str,
) -> Vec<InstanceConfig> {
    let has_own_token = own.token.is_some() || own.token_file.is_some();
    let given =
        url.clone().unwrap_or_else(|| if own.url.is_empty() { known.to_owned() } else { own.url.clone() });
    if own.url.is_empty() {
        own.url = if has_own_token { known.to_owned() } else { given.clone() };
    }
    let is_same = own.url.trim_end_matches('/') == given.trim_end_matches('/');
    if is_same {
        if !has_own_token {
            own.token = token;
        }
        return vec![own];
    }
    let other = InstanceConfig { url: given, token, token_file: None, ca_file: own.ca_file.clone() };
    vec![own, other]
}

/// Resolves `~/`, as people write it in the configuration.
fn at_home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => Path::new(&home).join(rest),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(
        gitlab: (&str, Option<&str>),
        url: Option<&str>,
        token: Option<&str>,
    ) -> Vec<(String, Option<String>)> {
        let own = InstanceConfig {
            url: gitlab.0.to_owned(),
            token: gitlab.1.map(str::to_owned),
            ..Default::default()
        };
        let all = from_both(own, url.map(str::to_owned), token.map(str::to_owned), "https://gitlab.com");
        all.into_iter().map(|instance| (instance.url, instance.token)).collect()
    }

    #[test]
    fn a_token_stays_with_the_address_of_its_own_source() {
        let one = |url: &str, token: Option<&str>| (url.to_owned(), token.map(str::to_owned));
        assert_eq!(found(("", None), None, None), [one("https://gitlab.com", None)]);
        assert_eq!(found(("", None), None, Some("e")), [one("https://gitlab.com", Some("e"))]);
        assert_eq!(found(("", None), Some("https://e"), Some("e")), [one("https://e", Some("e"))]);
        assert_eq!(found(("https://c", None), None, Some("e")), [one("https://c", Some("e"))]);
        assert_eq!(found(("https://c/", None), Some("https://c"), Some("e")), [one("https://c/", Some("e"))]);
        assert_eq!(found(("https://c", Some("c")), None, Some("e")), [one("https://c", Some("c"))]);
        assert_eq!(
            found(("https://c", Some("c")), Some("https://e"), Some("e")),
            [one("https://c", Some("c")), one("https://e", Some("e"))]
        );
        assert_eq!(
            found(("", Some("c")), Some("https://e"), Some("e")),
            [one("https://gitlab.com", Some("c")), one("https://e", Some("e"))]
        );
    }
}
