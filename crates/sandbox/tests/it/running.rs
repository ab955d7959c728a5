//! Commands that behave: outputs, exits, folders, environments; and what is refused before anything runs.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use domain::ErrorCode;
use sandbox::{Limits, Sandbox, Tier};

use crate::bombs::until;
use crate::{command, config, run, sandbox};

#[tokio::test]
async fn outputs_and_exit_codes_come_back() {
    let dir = tempfile::tempdir().unwrap();
    for tier in [Tier::Namespaces, Tier::Landlock] {
        let sandbox = sandbox(tier).await;
        let outcome = run(&sandbox, command(dir.path(), "echo out; echo err >&2; exit 3")).await;
        assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!((outcome.end.exit_code, outcome.end.signal, outcome.end.timed_out), (3, 0, false));
        assert_eq!(outcome.end.tier, sandbox.tier());
        let killed = run(&sandbox, command(dir.path(), "kill -9 $$")).await;
        assert_eq!((killed.end.exit_code, killed.end.signal), (137, 9));
        let read = run(&sandbox, command(dir.path(), "cat; echo done")).await;
        assert_eq!(read.stdout, "done\n", "input is empty, not waited for");
    }
}

#[tokio::test]
async fn a_megabyte_of_output_arrives_whole_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let sandbox = sandbox(Tier::Namespaces).await;
    let outcome = run(&sandbox, command(dir.path(), "seq 1 200000; seq 1 1000 >&2")).await;
    let expected: String = (1..=200_000).map(|number| format!("{number}\n")).collect();
    assert!(outcome.stdout == expected, "{} bytes of {}", outcome.stdout.len(), expected.len());
    assert_eq!(outcome.stderr.lines().count(), 1000);
}

#[tokio::test]
async fn the_project_is_where_it_is_outside_and_writable() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("a/b")).unwrap();
    for tier in [Tier::Namespaces, Tier::Landlock] {
        let sandbox = sandbox(tier).await;
        let mut inside = command(&root, "pwd; echo x > new; cat new");
        inside.cwd = PathBuf::from("a/b");
        let outcome = run(&sandbox, inside).await;
        assert_eq!(outcome.stdout, format!("{}\nx\n", root.join("a/b").display()), "{}", outcome.stderr);
        assert_eq!(std::fs::read_to_string(root.join("a/b/new")).unwrap(), "x\n");
        std::fs::remove_file(root.join("a/b/new")).unwrap();
    }
}

#[tokio::test]
async fn a_working_directory_outside_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("project");
    std::fs::create_dir(&root).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("/usr", root.join("usr")).unwrap();
    std::fs::write(root.join("file"), "").unwrap();
    for tier in [Tier::Namespaces, Tier::Landlock] {
        let sandbox = sandbox(tier).await;
        for cwd in ["..", "up", "usr", "/usr", "/", "file", "missing", "a/../..", "up/project"] {
            let mut outside = command(&root, "pwd");
            outside.cwd = PathBuf::from(cwd);
            let error = sandbox.run(outside).await.err().unwrap_or_else(|| panic!("{cwd} was accepted"));
            assert_eq!(error.code, ErrorCode::InvalidArgument, "{cwd}: {error}");
        }
    }
}

#[tokio::test]
async fn commands_get_the_variables_they_were_given_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let sandbox = sandbox(Tier::Namespaces).await;
    let mut with = command(dir.path(), "env | sort");
    with.env = vec![("MY_VARIABLE".into(), "mine".into()), ("LANG".into(), "de_DE.UTF-8".into())];
    let outcome = run(&sandbox, with).await;
    let names: Vec<&str> = outcome.stdout.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let own = [
        "HOME",
        "LANG",
        "LOGNAME",
        "MY_VARIABLE",
        "OBEY_SANDBOX",
        "PATH",
        "PWD",
        "SHELL",
        "TERM",
        "TMPDIR",
        "USER",
    ];
    // Settings of git's come as variables, which win over every file.
    let others = names.iter().filter(|name| !own.contains(name) && !name.starts_with("GIT_"));
    assert_eq!(others.collect::<Vec<_>>(), Vec::<&&str>::new());
    assert!(outcome.stdout.contains("LANG=de_DE.UTF-8") && outcome.stdout.contains("MY_VARIABLE=mine"));
}

#[tokio::test]
async fn letters_beyond_ascii_are_letters() {
    let dir = tempfile::tempdir().unwrap();
    let sandbox = sandbox(Tier::Namespaces).await;
    let outcome = run(&sandbox, command(dir.path(), "printf 'äöü' | wc -m; locale charmap")).await;
    assert_eq!(outcome.stdout, "3\nUTF-8\n", "{}", outcome.stderr);
}

#[tokio::test]
async fn a_program_that_is_not_there_is_not_the_sandbox_fault() {
    let dir = tempfile::tempdir().unwrap();
    for tier in [Tier::Namespaces, Tier::Landlock] {
        let sandbox = sandbox(tier).await;
        let mut missing = command(dir.path(), "");
        missing.argv = vec![OsString::from("no-such-program")];
        let error = sandbox.run(missing).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::CommandFailed, "{error}");
    }
}

#[tokio::test]
async fn without_a_sandbox_that_holds_commands_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    // A stage that builds nothing, one that is not there, one that never answers properly.
    for stage in ["/bin/false", "/no/such/stage", "/bin/true"] {
        let mut broken = config(Tier::Namespaces);
        broken.stage = vec![stage.into()];
        let sandbox = Sandbox::probe(broken.clone()).await;
        assert_eq!(sandbox.tier(), Tier::Refused);
        println!("sandbox tier: {} ({:?})", sandbox.tier(), sandbox.findings().notes);
        let error = sandbox.run(command(dir.path(), "echo escaped")).await.unwrap_err();
        assert_eq!((error.code, error.code.number()), (ErrorCode::SandboxFailed, 2005));
    }
}

#[tokio::test]
async fn only_the_configuration_lets_commands_run_without_a_sandbox_and_they_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut open = config(Tier::None);
    open.required = false;
    let sandbox = Sandbox::probe(open).await;
    assert_eq!(sandbox.tier(), Tier::None);
    let outcome = run(&sandbox, command(dir.path(), "echo $OBEY_SANDBOX")).await;
    assert_eq!((outcome.stdout.as_str(), outcome.end.tier.name()), ("none\n", "none"));
    let required = Sandbox::probe(config(Tier::None)).await;
    assert_eq!(required.tier(), Tier::Refused);
}

#[tokio::test]
async fn a_protected_name_that_is_a_link_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("elsewhere")).unwrap();
    symlink("elsewhere", dir.path().join(".claude")).unwrap();
    let sandbox = sandbox(Tier::Namespaces).await;
    let error = sandbox.run(command(dir.path(), "echo x")).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::SandboxFailed);
    assert!(error.message.contains(".claude"), "{error}");
}

#[tokio::test]
async fn many_commands_share_a_project() {
    let dir = tempfile::tempdir().unwrap();
    let sandbox = std::sync::Arc::new(sandbox(Tier::Namespaces).await);
    let mut all = tokio::task::JoinSet::new();
    for number in 0..12 {
        let (sandbox, root) = (sandbox.clone(), dir.path().to_owned());
        all.spawn(async move {
            let script = format!(
                "echo {number} > out-{number}; mkdir .claude/x 2>/dev/null && echo escaped; exit {number}"
            );
            let outcome = run(&sandbox, command(&root, &script)).await;
            assert_eq!((outcome.stdout.as_str(), outcome.end.exit_code), ("", number));
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
    let left = || {
        let names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| !name.to_string_lossy().starts_with("out-")).count()
    };
    until("no placeholder is left", || left() == 0).await;
}

#[tokio::test]
async fn tools_of_the_trade_run() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.c"), "int main(void) { return 0; }\n").unwrap();
    let sandbox = sandbox(Tier::Namespaces).await;
    let mut build = command(
        dir.path(),
        "set -e; for tool in perl python3 git node cc; do command -v /usr/bin/$tool >/dev/null || continue; \
         case $tool in perl) perl -e 'print 1';; python3) /usr/bin/python3 -c 'import subprocess,socket; print(subprocess.run([\"true\"]).returncode)';; \
         git) /usr/bin/git --version;; node) /usr/bin/node -e 'console.log(1)';; cc) cc -o a.out a.c && ./a.out;; esac; done; echo fine",
    );
    build.limits = Limits { memory_bytes: 2 << 30, ..Limits::default() };
    let outcome = run(&sandbox, build).await;
    assert!(outcome.stdout.ends_with("fine\n"), "{}\n{}", outcome.stdout, outcome.stderr);
}

/// A program that runs as its owner, made inside, would give every user outside what its owner may do.
#[tokio::test]
async fn no_program_that_runs_as_its_owner_leaves_the_sandbox() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let inside = dir.path().join("a");
    std::fs::create_dir(&inside).unwrap();
    for tier in [Tier::Namespaces, Tier::Landlock] {
        let sandbox = sandbox(tier).await;
        let script = "cd a; cp /bin/sh sb; chmod 4755 sb && echo made; chmod 2755 sb && echo made; chmod u+s sb && echo made; \
                      install -m 4755 /bin/sh si && echo made; chmod 755 sb && echo plain";
        let outcome = run(&sandbox, command(dir.path(), script)).await;
        assert_eq!(outcome.stdout, "plain\n", "{tier}: {}", outcome.stderr);
        for entry in std::fs::read_dir(&inside).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o6000, 0, "{tier}: {} has mode {mode:o}", entry.path().display());
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
}
