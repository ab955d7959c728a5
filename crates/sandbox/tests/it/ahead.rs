//! Sandboxes that are made before their command: each serves one, none is used that has grown old, and what makes them may
//! die at any time.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use sandbox::{Sandbox, Tier};

use crate::bombs::until;
use crate::{command, config, run, sandbox};

/// The keepers of this process: children that are stages by their command line.
fn keepers() -> Vec<Pid> {
    let own = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let ours = numbers.filter(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let mut rest = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        let (state, parent) = (rest.next(), rest.next());
        let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        parent == Some(&own) && state != Some("Z") && words.contains("sandbox-stage")
    });
    ours.filter_map(Pid::from_raw).collect()
}

/// Control groups that this process made and that are still there.
fn groups() -> usize {
    let prefix = format!("obey-exec-{}-", std::process::id());
    let mut found = 0;
    let mut folders = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                found += 1;
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
    found
}

#[tokio::test]
async fn each_sandbox_serves_one_command() {
    let dir = tempfile::tempdir().unwrap();
    let sandbox = sandbox(Tier::Namespaces).await;
    for _ in 0..12 {
        let script = "ls -A /tmp /run /dev/shm /home/user; ls /proc | grep -c '^[0-9]'; ls -l /proc/self/fd | wc -l; \
                      hostname mine 2>/dev/null; touch /tmp/mark /run/mark /dev/shm/mark /home/user/mark; sleep 600 &";
        let outcome = run(&sandbox, command(dir.path(), script)).await;
        let lines: Vec<&str> = outcome.stdout.lines().filter(|line| !line.is_empty()).collect();
        let folders = ["/dev/shm:", "/home/user:", "/run:", "/tmp:"];
        assert_eq!(lines[..4], folders, "{} {}", outcome.stdout, outcome.stderr);
        assert_eq!(outcome.end.exit_code, 0);
    }
}

#[tokio::test]
async fn what_was_replaced_meanwhile_is_seen_as_it_is_now() {
    for tier in [Tier::Namespaces, Tier::Landlock] {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let tool = outside.path().canonicalize().unwrap().join("tool");
        let replace = |text: &str| {
            std::fs::write(tool.with_extension("new"), text).unwrap();
            std::fs::rename(tool.with_extension("new"), &tool).unwrap();
        };
        replace("0");
        let mut config = config(tier);
        config.read_only = vec![tool.clone()];
        let sandbox = Sandbox::probe(config).await;
        for number in 0..8 {
            let text = number.to_string();
            replace(&text);
            let outcome = run(&sandbox, command(dir.path(), &format!("cat {}", tool.display()))).await;
            assert_eq!(outcome.stdout, text, "{}", outcome.stderr);
        }
    }
}

#[tokio::test]
async fn folders_that_were_replaced_meanwhile_are_seen_as_they_are_now() {
    for tier in [Tier::Namespaces, Tier::Landlock] {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let project = dir.path().canonicalize().unwrap().join("project");
        let tools = outside.path().canonicalize().unwrap().join("tools");
        let replace = |folder: &Path, text: &str| {
            // The old one stays, so that its number is not used again.
            let old = folder.with_file_name(format!("before-{text}"));
            let _ = std::fs::rename(folder, old);
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("mark"), text).unwrap();
        };
        replace(&project, "first");
        replace(&tools, "first");
        let mut config = config(tier);
        config.read_only = vec![tools.clone()];
        let sandbox = Sandbox::probe(config).await;
        for number in 0..8 {
            let folder = if number % 2 == 0 { &project } else { &tools };
            replace(folder, &number.to_string());
            let script = format!("cat {}", folder.join("mark").display());
            for _ in 0..2 {
                let outcome = run(&sandbox, command(&project, &script)).await;
                assert_eq!(outcome.stdout, number.to_string(), "{tier}: {}", outcome.stderr);
            }
        }
    }
}

#[test]
fn what_was_mounted_or_unmounted_meanwhile_is_seen_as_it_is_now() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("project");
    let marked = [root.join("inside"), root.with_file_name("beside")];
    for folder in &marked {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("mark"), "bare\n").unwrap();
    }
    let ran = Command::new(crate::stage()).arg("mounts").arg(&root).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    if ran.status.code() == Some(3) {
        println!("mounts cannot be tried here: {said}");
        return;
    }
    assert!(ran.status.success(), "{said} {}", String::from_utf8_lossy(&ran.stderr));
    let (bare, beside, inside) = ("bare\nbare\n", "mounted\nbare\n", "bare\nmounted\n");
    let round = |mounted: &str| [bare, mounted, bare].map(|seen| seen.repeat(2)).concat();
    assert_eq!(said, [beside, inside].map(round).concat().repeat(4));
}

#[tokio::test]
async fn a_command_never_gets_a_sandbox_of_another_project_or_with_other_settings() {
    for tier in [Tier::Namespaces, Tier::Landlock] {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for dir in [&one, &other] {
            std::fs::write(dir.path().join("mark"), "").unwrap();
        }
        let sandbox = sandbox(tier).await;
        let look = |dir: &tempfile::TempDir, foreign: &tempfile::TempDir| {
            let (own, foreign) = (dir.path().display(), foreign.path().display());
            command(
                dir.path(),
                &format!("ls {own}; cat {foreign}/mark 2>/dev/null && echo foreign; ulimit -n"),
            )
        };
        for _ in 0..4 {
            for (own, foreign) in [(&one, &other), (&other, &one)] {
                let outcome = run(&sandbox, look(own, foreign)).await;
                let seen: Vec<&str> = outcome.stdout.lines().collect();
                assert_eq!((seen.len(), seen[0]), (2, "mark"), "{tier}: {seen:?} {}", outcome.stderr);
                assert_ne!(seen[1], "99", "{tier}");
            }
            let mut limited = look(&one, &other);
            limited.limits.open_files = 99;
            let outcome = run(&sandbox, limited).await;
            assert_eq!(outcome.stdout, "mark\n99\n", "{tier}: {}", outcome.stderr);
        }
    }
}

#[tokio::test]
async fn the_keeper_may_die_at_any_time() {
    let dir = tempfile::tempdir().unwrap();
    for tier in [Tier::Namespaces, Tier::Landlock] {
        let sandbox = sandbox(tier).await;
        for number in 0..6 {
            let go = dir.path().join(format!("go-{tier}-{number}"));
            let script =
                format!("echo begun; while [ ! -e {} ]; do sleep 0.01; done; echo ended", go.display());
            let mut under_way = sandbox.run(command(dir.path(), &script)).await.unwrap();
            let begun = under_way.next().await;
            for keeper in keepers() {
                kill_process(keeper, Signal::KILL).unwrap();
            }
            std::fs::write(&go, "").unwrap();
            let mut rest = format!("{begun:?}");
            while let Some(output) = under_way.next().await {
                rest.push_str(&format!("{output:?}"));
            }
            assert!(rest.contains("exit_code: 0"), "a command under way goes on: {rest}");
            let outcome = run(&sandbox, command(dir.path(), &format!("echo {number}"))).await;
            assert_eq!(outcome.stdout, format!("{number}\n"), "{}", outcome.stderr);
        }
    }
}

#[tokio::test]
async fn nothing_is_left_of_sandboxes_that_were_never_used() {
    let dir = tempfile::tempdir().unwrap();
    for tier in [Tier::Namespaces, Tier::Landlock] {
        let sandbox = sandbox(tier).await;
        for _ in 0..3 {
            assert_eq!(run(&sandbox, command(dir.path(), "true")).await.end.exit_code, 0);
        }
        drop(sandbox);
        until("the keeper is gone", || keepers().is_empty()).await;
        until("the control groups are gone", || groups() == 0).await;
    }
}
