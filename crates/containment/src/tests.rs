//! What an agent in the sandbox sees, by what its provider and the configuration say.

use super::*;
use domain::{ProviderKind, SessionId};

fn at(mounts: &[Mount], path: &Path) -> Option<bool> {
    mounts.iter().find(|mount| mount.at == path).map(|mount| mount.writable)
}

#[test]
fn a_campaign_wins_over_a_provider_and_both_over_the_rest() {
    let policy = Policy {
        everywhere: Some(AgentNetwork::Full),
        providers: BTreeMap::from([(ProviderKind::Codex, Some(AgentNetwork::Model))]),
        campaigns: BTreeMap::from([
            ("open".to_owned(), None),
            ("closed".to_owned(), Some(AgentNetwork::None)),
        ]),
        ..Policy::default()
    };
    let demands = |kind, names: &[&str]| policy.demands(kind, names).sandbox;
    assert_eq!(demands(ProviderKind::ClaudeCode, &[]), Some(AgentNetwork::Full));
    assert_eq!(demands(ProviderKind::Codex, &["other"]), Some(AgentNetwork::Model));
    assert_eq!(demands(ProviderKind::Codex, &["id", "closed"]), Some(AgentNetwork::None));
    assert_eq!(demands(ProviderKind::ClaudeCode, &["open"]), None);
    assert_eq!(Policy::default().demands(ProviderKind::Codex, &[]).sandbox, None);
}

#[test]
fn addresses_of_models_are_read() {
    let read = |text: &str| endpoint(text).map(|endpoint| format!("{} {}", endpoint.host, endpoint.port));
    assert_eq!(read("https://api.example.com/v1?x=1").as_deref(), Some("api.example.com 443"));
    assert_eq!(read("http://127.0.0.1:8080/v1").as_deref(), Some("127.0.0.1 8080"));
    assert_eq!(read("http://user:pw@Host").as_deref(), Some("host 80"));
    assert_eq!(read("http://[::1]:9").as_deref(), Some("::1 9"));
    assert_eq!(read("host:1234").as_deref(), Some("host 1234"));
    for bad in ["", "ftp://x", "host:port", "a b", "http://\n"] {
        assert_eq!(read(bad), None, "{bad:?}");
    }
}

fn protected_in(project: &Project, folder: &Path) -> Vec<String> {
    let found = project.protected.iter().find(|place| place.folder == folder);
    found.map(|place| place.names.clone()).unwrap_or_default()
}

fn session() -> SessionSpec {
    SessionSpec::new(SessionId::new("sess_1"), ProviderKind::Scripted, "/w".into())
}

fn project_at(root: &Path) -> Project {
    let spec = SessionSpec { root: root.to_owned(), working_dir: root.to_owned(), ..session() };
    project(&spec).unwrap()
}

#[test]
fn the_ways_by_which_git_runs_code_are_protected_there_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let bare = project_at(&root);
    assert!(protected_in(&bare, &root).contains(&".git".to_owned()), "{:?}", bare.protected);
    std::fs::create_dir_all(root.join(".git")).unwrap();
    std::fs::write(root.join(".git/config"), "").unwrap();
    let project = project_at(&root);
    assert_eq!(at(&project.mounts, &root), Some(true));
    assert_eq!(at(&project.mounts, &root.join(".git")), Some(true));
    let names = protected_in(&project, &root);
    assert!(!names.contains(&".git".to_owned()), "{names:?}");
    for name in [".obey", ".claude", ".mcp.json", ".envrc"] {
        assert!(names.contains(&name.to_owned()), "{name}: {names:?}");
    }
    assert_eq!(
        protected_in(&project, &root.join(".git")),
        ["config", "config.worktree", "hooks", "commondir", "worktrees"]
    );
}

#[test]
fn submodules_are_protected_as_the_repository_is() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let module = root.join(".git/modules/libs/a");
    std::fs::create_dir_all(&module).unwrap();
    std::fs::write(root.join(".git/config"), "").unwrap();
    std::fs::write(module.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(module.join("config"), "[core]\n\tworktree = ../../../../libs/a\n").unwrap();
    std::fs::create_dir_all(root.join("libs/a")).unwrap();
    let project = project_at(&root);
    assert_eq!(
        protected_in(&project, &module),
        ["config", "config.worktree", "hooks", "commondir", "worktrees"]
    );
    assert_eq!(protected_in(&project, &root.join("libs/a")), [".git"]);
    for folder in [".git/modules", ".git/modules/libs", ".git/modules/libs/a", "libs", "libs/a"] {
        assert_eq!(at(&project.mounts, &root.join(folder)), Some(true), "{folder}");
    }
}

#[test]
fn a_repository_under_another_name_is_protected_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("a/store")).unwrap();
    std::fs::write(root.join("a/store/HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(root.join(".git"), "gitdir: a/store\n").unwrap();
    let project = project_at(&root);
    assert!(protected_in(&project, &root).contains(&".git".to_owned()), "{:?}", project.protected);
    assert_eq!(protected_in(&project, &root.join("a/store")), PROTECTED_GIT);
    for folder in ["a", "a/store"] {
        assert_eq!(at(&project.mounts, &root.join(folder)), Some(true), "{folder} stays where it is");
    }
}

#[test]
fn the_folder_an_agent_starts_in_is_protected_and_stays_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("a/b")).unwrap();
    let spec = SessionSpec { root: root.clone(), working_dir: root.join("a/b"), ..session() };
    let project = project(&spec).unwrap();
    assert!(protected_in(&project, &root.join("a/b")).contains(&".mcp.json".to_owned()));
    for folder in ["a", "a/b"] {
        assert_eq!(at(&project.mounts, &root.join(folder)), Some(true), "{folder}");
    }
}

/// Git fails on a folder where it reads a file.
#[test]
fn a_configuration_for_each_working_tree_is_a_file_where_git_reads_one() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join(".git")).unwrap();
    project_at(&root);
    assert!(!root.join(".git/config.worktree").exists());
    std::fs::write(root.join(".git/config"), "[extensions]\n\tworktreeConfig = true\n").unwrap();
    project_at(&root);
    assert!(root.join(".git/config.worktree").is_file());
}

/// A file in the project must not name any folder of the machine to be opened to the agent.
#[test]
fn a_working_tree_is_believed_only_by_its_repository() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let (tree, own) = (base.join("tree"), base.join("repo/.git/worktrees/tree"));
    std::fs::create_dir_all(&tree).unwrap();
    for folder in ["objects", "hooks", "worktrees/tree"] {
        std::fs::create_dir_all(base.join("repo/.git").join(folder)).unwrap();
    }
    std::fs::write(base.join("repo/.git/HEAD"), "").unwrap();
    std::fs::write(tree.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
    std::fs::write(own.join("commondir"), "../..\n").unwrap();
    assert_eq!(LinkedTree::of(&tree), None, "the repository does not know it");
    std::fs::write(own.join("gitdir"), format!("{}\n", tree.join(".git").display())).unwrap();
    let linked = LinkedTree { common: base.join("repo/.git"), own: own.clone() };
    assert_eq!(LinkedTree::of(&tree), Some(linked));
    let spec = SessionSpec {
        root: base.clone(),
        working_dir: tree.clone(),
        containment: Containment { sandbox: Some(AgentNetwork::None), ..Containment::default() },
        ..session()
    };
    assert_eq!(root_of_tools(&spec), tree, "no more than what the agent sees");
    let free = SessionSpec { containment: Containment::default(), ..spec.clone() };
    assert_eq!(root_of_tools(&free), base);
    let project = project(&spec).unwrap();
    assert_eq!(at(&project.mounts, &base), None);
    let common = base.join("repo/.git");
    assert_eq!(at(&project.mounts, &common), Some(false), "whatever the user replaces in it");
    for (folder, expected) in [
        ("objects", Some(true)),
        ("logs", Some(true)),
        ("worktrees/tree", Some(true)),
        ("worktrees", None),
        ("hooks", None),
    ] {
        assert_eq!(at(&project.mounts, &common.join(folder)), expected, "{folder}");
    }
    assert_eq!(protected_in(&project, &own), ["commondir", "config.worktree", "gitdir"]);
    assert!(project.protected.iter().all(|place| place.folder != common), "nothing needs to stand there");
    std::fs::write(own.join("commondir"), "../../../..\n").unwrap();
    assert_eq!(LinkedTree::of(&tree), None, "that is no repository");
}

#[test]
fn a_script_brings_its_package_and_its_interpreter() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let script = base.join("lib/node_modules/@x/agent/cli.js");
    std::fs::create_dir_all(script.parent().unwrap()).unwrap();
    std::fs::write(&script, "#!/usr/bin/env -S node --flag\n").unwrap();
    std::fs::create_dir(base.join("bin")).unwrap();
    std::fs::write(base.join("bin/node"), "").unwrap();
    std::os::unix::fs::symlink(&script, base.join("bin/agent")).unwrap();
    let (program, mounts) = install::of(&base.join("bin/agent"), base.join("bin").as_os_str()).unwrap();
    assert_eq!(program, script);
    assert_eq!(at(&mounts, &base.join("lib/node_modules")), Some(false));
    assert_eq!(at(&mounts, &base.join("bin/node")), Some(false));
    assert_eq!(mounts.len(), 2, "{mounts:?}");
}

#[test]
fn variables_that_lead_out_are_gone_inside() {
    let mut environment: Vec<(OsString, OsString)> =
        ["TMUX", "XDG_RUNTIME_DIR", "HTTPS_PROXY", "KEPT"].map(|name| (name.into(), "x".into())).to_vec();
    ready(&mut environment, AgentNetwork::Model);
    let names: Vec<&str> = environment.iter().filter_map(|(name, _)| name.to_str()).collect();
    assert_eq!(names, ["KEPT", "TMPDIR", "OBEY_DAEMON_SOCKET", "OBEY_SANDBOX"]);
}
