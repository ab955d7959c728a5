//! Which server is meant, and whose token goes there.

use super::*;

fn instances() -> Instances {
    let one = |url: &str, token: &str| InstanceConfig {
        url: url.to_owned(),
        token: Some(token.to_owned()),
        ..Default::default()
    };
    let servers = vec![
        (ForgeKind::GitLab, one("https://git.test/gitlab/", "first")),
        (ForgeKind::GitLab, one("http://127.0.0.1:4000", "second")),
        (ForgeKind::GitHub, one("https://hub.test", "third")),
    ];
    Instances::new(servers, Vec::new()).unwrap()
}

fn locate(
    kind: Option<ForgeKind>,
    name: &str,
    remote: Option<&str>,
) -> Result<(String, String, String), Error> {
    let located = instances().locate(kind, &project::named(name)?, remote)?;
    let token = located.instance.token()?.unwrap_or_default();
    Ok((located.instance.api.to_string(), located.project, token))
}

fn found(kind: Option<ForgeKind>, name: &str, remote: Option<&str>) -> [String; 3] {
    let (api, project, token) = locate(kind, name, remote).unwrap();
    [api, project, token]
}

const GITLAB: Option<ForgeKind> = Some(ForgeKind::GitLab);
const GITHUB: Option<ForgeKind> = Some(ForgeKind::GitHub);

#[test]
fn a_project_is_found_on_its_server_and_has_that_servers_token_only() {
    let first = ["https://git.test/gitlab/api/v4", "g/p", "first"];
    assert_eq!(found(GITLAB, "g/p", None), first);
    assert_eq!(found(GITLAB, "https://git.test/gitlab/g/p/-/merge_requests/4", None), first);
    assert_eq!(found(GITLAB, "", Some("git@git.test:g/p.git")), first);
    assert_eq!(found(None, "", Some("https://git.test/gitlab/g/p.git")), first);
    assert_eq!(found(GITLAB, "7", None)[1], "7");
    let second = ["http://127.0.0.1:4000/api/v4", "a/b/c", "second"];
    assert_eq!(found(GITLAB, "http://127.0.0.1:4000/a/b/c", None), second);
    let third = ["https://hub.test/api/v3", "o/n", "third"];
    assert_eq!(found(GITHUB, "https://hub.test/o/n/pull/3", None), third);
    assert_eq!(found(None, "", Some("ssh://git@hub.test/o/n.git")), third);
    // A server that is not configured is asked as a stranger.
    assert_eq!(found(GITLAB, "http://127.0.0.1:4001/a/b", None), ["http://127.0.0.1:4001/api/v4", "a/b", ""]);
    assert_eq!(found(GITLAB, "https://gitlab.com/a/b", None), ["https://gitlab.com/api/v4", "a/b", ""]);
    assert_eq!(found(None, "", Some("git@github.com:o/n")), ["https://api.github.com/", "o/n", ""]);
}

#[test]
fn a_remote_that_is_no_forge_is_refused_with_what_to_do() {
    for (kind, remote, words) in [
        (GITLAB, Some("git@github.com:o/n.git"), "use obey github"),
        (GITLAB, Some("https://elsewhere.test/g/p.git"), "elsewhere.test, which is no GitLab"),
        (GITLAB, Some("https://git.test:8443/gitlab/g/p.git"), "no GitLab"),
        (GITHUB, Some("/srv/git/p.git"), "no address of a GitHub"),
        (None, None, "no git repository"),
    ] {
        let error = locate(kind, "", remote).unwrap_err();
        assert!(error.code == ErrorCode::InvalidArgument && error.message.contains(words), "{error}");
    }
    assert!(locate(GITHUB, "", Some("git@hub.test:only")).is_err());
    assert!(locate(None, "g/p", None).is_err());
}

#[test]
fn a_file_with_a_token_must_be_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "glpat-abc\n").unwrap();
    let config = |url: &str| InstanceConfig {
        url: url.to_owned(),
        token_file: Some(file.clone()),
        ..Default::default()
    };
    let instance = Instance::new(ForgeKind::GitLab, config("https://x.test")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let error = instance.token().unwrap_err();
    assert!(error.message.contains("chmod 600"), "{error}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(instance.token().unwrap().as_deref(), Some("glpat-abc"));
    assert!(!format!("{:?}", config("https://x.test")).contains("token"));
    for bad in ["http://x.test", "x.test", "https://u:p@x.test", "ftp://x.test"] {
        let error = Instance::new(ForgeKind::GitLab, config(bad)).err().unwrap();
        assert!(
            error.code == ErrorCode::ConfigInvalid && error.message.starts_with("gitlab.url: "),
            "{error}"
        );
    }
}
