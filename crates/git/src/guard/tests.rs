//! A repository that names a program wherever git allows it, and commands that people run in it. Each program
//! leaves a mark file.

use std::path::Path;
use std::process::Command;

use super::*;

struct Hostile {
    folder: tempfile::TempDir,
}

impl Hostile {
    /// A repository with two branches, a submodule and a remote, and then a configuration full of programs.
    fn new() -> Self {
        let hostile = Self { folder: tempfile::tempdir().unwrap() };
        let repository = hostile.repository();
        std::fs::create_dir(&repository).unwrap();
        std::fs::create_dir(hostile.path("home")).unwrap();
        let identity = "[user]\n\tname = me\n\temail = me@here\n[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n";
        std::fs::write(hostile.path("home/.gitconfig"), identity).unwrap();
        hostile.plain("init -q");
        std::fs::write(repository.join("file"), "one\n").unwrap();
        hostile.plain("add file");
        hostile.plain("commit -qm one");
        hostile.add_submodule();
        hostile.plain("checkout -qb other");
        std::fs::write(repository.join("file"), "other\n").unwrap();
        hostile.plain("commit -qam other");
        hostile.plain("checkout -q main");
        std::fs::write(repository.join("file"), "main\n").unwrap();
        hostile.plain("commit -qam main");
        hostile.poison(&repository.join(".git"));
        std::fs::write(repository.join(".gitattributes"), "* filter=evil diff=evil merge=evil\n").unwrap();
        hostile
    }

    fn add_submodule(&self) {
        let inner = self.path("repo/sub");
        std::fs::create_dir(&inner).unwrap();
        for line in ["init -q", "commit -q --allow-empty -m inner"] {
            assert!(self.command(line, &inner).status().unwrap().success());
        }
        std::fs::write(inner.join("a"), "a\n").unwrap();
        assert!(self.command("add a", &inner).status().unwrap().success());
        assert!(self.command("commit -qm a", &inner).status().unwrap().success());
        self.plain("add sub");
        std::fs::write(
            self.path("repo/.gitmodules"),
            "[submodule \"sub\"]\n\tpath = sub\n\turl = ./sub\n\tignore = none\n",
        )
        .unwrap();
        self.plain("add .gitmodules");
        self.plain("commit -qm sub");
        self.poison(&inner.join(".git"));
        std::fs::write(inner.join(".gitattributes"), "* filter=evil\n").unwrap();
        std::fs::write(inner.join("a"), "b\n").unwrap();
    }

    fn poison(&self, git_dir: &Path) {
        let evil = |what: &str| format!("sh -c 'touch {}/mark-{what}; cat'", self.folder.path().display());
        let mut config = std::fs::read_to_string(git_dir.join("config")).unwrap();
        config.push_str("[include]\n\tpath = more\n");
        for (section, key) in [
            ("core", "sshCommand"),
            ("core", "pager"),
            ("core", "editor"),
            ("core", "askPass"),
            ("core", "alternateRefsCommand"),
            ("credential", "helper"),
            ("diff", "external"),
            ("diff \"evil\"", "textconv"),
            ("diff \"evil\"", "command"),
            ("merge \"evil\"", "driver"),
            ("filter \"evil\"", "clean"),
            ("filter \"evil\"", "smudge"),
            ("gpg", "program"),
            ("pager", "log"),
            ("sequence", "editor"),
            ("interactive", "diffFilter"),
        ] {
            config.push_str(&format!(
                "[{section}]\n\t{key} = \"{}\"\n",
                evil(&format!("{}-{key}", section.replace([' ', '"'], "")))
            ));
        }
        config
            .push_str("[commit]\n\tgpgSign = true\n[tag]\n\tgpgSign = true\n[log]\n\tshowSignature = true\n");
        config.push_str(&format!(
            "[remote \"origin\"]\n\turl = {}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
            self.path("remote").display()
        ));
        config.push_str("[remote \"far\"]\n\turl = ssh://host.invalid/x\n[remote \"helper\"]\n\turl = ext::sh -c date\n[protocol \"ext\"]\n\tallow = always\n");
        std::fs::write(git_dir.join("config"), config).unwrap();
        let more = format!(
            "[core]\n\tfsmonitor = \"{}\"\n[filter \"evil\"]\n\tprocess = \"{}\"\n",
            evil("fsmonitor"),
            evil("process")
        );
        std::fs::write(git_dir.join("more"), more).unwrap();
        let hooks = git_dir.join("hooks");
        std::fs::create_dir_all(&hooks).unwrap();
        for hook in [
            "pre-commit",
            "post-checkout",
            "post-commit",
            "pre-push",
            "reference-transaction",
            "post-index-change",
            "prepare-commit-msg",
            "pre-merge-commit",
            "post-merge",
            "pre-rebase",
        ] {
            let path = hooks.join(hook);
            std::fs::write(
                &path,
                format!("#!/bin/sh\ntouch {}/mark-hook-{hook}\n", self.folder.path().display()),
            )
            .unwrap();
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn repository(&self) -> PathBuf {
        self.path("repo")
    }

    fn env(&self) -> Vec<(OsString, OsString)> {
        let path = std::env::var_os("PATH").unwrap();
        vec![
            ("PATH".into(), path),
            ("HOME".into(), self.path("home").into()),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
            ("GIT_EXTERNAL_DIFF".into(), "touch".into()),
        ]
    }

    fn command(&self, line: &str, folder: &Path) -> Command {
        let mut command = Command::new("git");
        command
            .args(line.split(' '))
            .env_clear()
            .envs(self.env())
            .env_remove("GIT_EXTERNAL_DIFF")
            .current_dir(folder);
        command.stdin(std::process::Stdio::null());
        command
    }

    fn plain(&self, line: &str) {
        assert!(self.command(line, &self.repository()).status().unwrap().success(), "{line}");
    }

    async fn guarded(&self, line: &str) -> Result<std::process::Output, Error> {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let guarded = guarded(check(&args)?, &self.repository(), self.repository(), self.env()).await?;
        let mut command = Command::new("git");
        command.args(&guarded.args).env_clear().envs(guarded.env).current_dir(guarded.cwd);
        Ok(command.stdin(std::process::Stdio::null()).output().unwrap())
    }

    /// Returns the marks and removes them.
    fn marks(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let marks: Vec<String> = names.filter(|name| name.starts_with("mark-")).collect();
        for mark in &marks {
            std::fs::remove_file(self.folder.path().join(mark)).unwrap();
        }
        marks
    }
}

/// Changes files so that git reads them again.
fn touch_files(hostile: &Hostile, text: &str) {
    std::fs::write(hostile.repository().join("file"), text).unwrap();
    std::fs::write(hostile.repository().join("sub/a"), text).unwrap();
}

#[tokio::test]
async fn the_hostile_repository_bites_without_the_guard() {
    let hostile = Hostile::new();
    touch_files(&hostile, "changed\n");
    let _ = hostile.command("status", &hostile.repository()).output().unwrap();
    let marks = hostile.marks();
    for expected in ["fsmonitor", "process"] {
        assert!(marks.contains(&format!("mark-{expected}")), "{expected}: {marks:?}");
    }
    let _ = hostile.command("diff", &hostile.repository()).output().unwrap();
    assert!(!hostile.marks().is_empty());
}

/// Commands people run, with changes in between.
const LINES: &[&str] = &[
    "status",
    "status --short",
    "diff",
    "diff HEAD~1",
    "log -p -3 --all",
    "show HEAD",
    "blame file",
    "grep -n one",
    "ls-files",
    "branch -a",
    "config --list",
    "describe --always",
    "check-attr -a file",
    "shortlog HEAD",
    "stash list",
    "reflog show",
    "worktree list",
    "add file",
    "commit -m guarded",
    "commit -am guarded",
    "commit --allow-empty -m empty",
    "tag -a v1 -m tagged",
    "stash push",
    "stash pop",
    "checkout other",
    "checkout -b third",
    "switch main",
    "merge other",
    "merge --abort",
    "rebase other",
    "rebase --abort",
    "cherry-pick other",
    "cherry-pick --abort",
    "revert --no-edit HEAD",
    "reset --soft HEAD~1",
    "restore --staged file",
    "rm --cached file",
    "fetch origin",
    "fetch far",
    "fetch helper",
    "ls-remote far",
    "ls-remote helper",
    "push far main",
    "pull far main",
    "clone . copy",
];

#[tokio::test]
async fn no_program_of_a_hostile_repository_runs() {
    let hostile = Hostile::new();
    hostile.marks();
    for (number, line) in LINES.iter().enumerate() {
        if number % 3 == 0 {
            touch_files(&hostile, &format!("{number}\n"));
        }
        let output = hostile.guarded(line).await.unwrap_or_else(|error| panic!("{line}: {error}"));
        let marks = hostile.marks();
        assert!(marks.is_empty(), "{line}: {marks:?} {output:?}");
    }
}

#[tokio::test]
async fn ordinary_work_goes_on_where_the_repository_names_no_program() {
    let folder = tempfile::tempdir().unwrap();
    let hostile = Hostile { folder };
    std::fs::create_dir(hostile.repository()).unwrap();
    std::fs::create_dir(hostile.path("home")).unwrap();
    let own = "[user]\n\tname = me\n\temail = me@here\n[filter \"up\"]\n\tclean = tr a-z A-Z\n";
    std::fs::write(hostile.path("home/.gitconfig"), own).unwrap();
    std::fs::write(hostile.repository().join("file"), "text\n").unwrap();
    std::fs::write(hostile.repository().join(".gitattributes"), "file filter=up\n").unwrap();
    for line in ["init -q -b main", "add .", "commit -m first", "checkout -b next", "switch main"] {
        let output = hostile.guarded(line).await.unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
    }
    // The user's own filter still runs.
    assert_eq!(hostile.guarded("show HEAD:file").await.unwrap().stdout, b"TEXT\n");
    let status = hostile.guarded("status --short").await.unwrap();
    assert_eq!(String::from_utf8_lossy(&status.stdout), "");
}

#[tokio::test]
async fn what_cannot_be_made_sure_of_is_not_run() {
    let hostile = Hostile::new();
    let config = hostile.repository().join(".git/config");
    let before = std::fs::read_to_string(&config).unwrap();
    let refusal = async |line: &str| hostile.guarded(line).await.unwrap_err().message;
    std::fs::write(&config, format!("{before}[includeIf \"onbranch:other\"]\n\tpath = more\n")).unwrap();
    assert!(refusal("switch other").await.contains("includeIf"));
    hostile.guarded("log -1").await.unwrap();
    std::fs::write(&config, format!("{before}[core]\n\tworktree = {}\n", hostile.path("home").display()))
        .unwrap();
    assert!(refusal("status").await.contains("core.worktree"));
    std::fs::write(&config, format!("{before}[remote \"origin\"]\n\tuploadpack = evil\n")).unwrap();
    for line in ["fetch origin", "pull", "ls-remote origin", "push origin main", "remote show origin"] {
        assert!(refusal(line).await.contains("remote.origin.uploadpack"), "{line}");
    }
    std::fs::write(&config, &before).unwrap();
    std::fs::remove_file(hostile.repository().join(".gitmodules")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", hostile.repository().join(".gitmodules")).unwrap();
    assert!(refusal("status").await.contains(".gitmodules"));
}
