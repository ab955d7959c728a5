//! Commands that will not end, or take all they can get: everything is dead after the timeout, and nothing is left.

use std::time::Duration;

use sandbox::{Limits, Sandbox, Tier};

use crate::{DEADLINE, command, run, sandbox, stage};

const SHORT: Duration = Duration::from_millis(700);

/// Whether a process with this word in its command line is alive anywhere.
fn alive(word: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let own = entry.file_name().to_str() == Some(&std::process::id().to_string());
        !own && std::fs::read(entry.path().join("cmdline"))
            .is_ok_and(|line| memchr::memmem::find(&line, word.as_bytes()).is_some())
    })
}

/// Waits for a condition, looking again and again until the deadline.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    let waiting = async {
        while !condition() {
            ticks.tick().await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

async fn tiers() -> Vec<Sandbox> {
    vec![sandbox(Tier::Namespaces).await, sandbox(Tier::Landlock).await]
}

/// A word that stands in no other command line.
fn word(name: &str) -> String {
    format!("obey-{name}-{}-{}", std::process::id(), std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos())
}

/// Runs a script that must be ended by the timeout, and checks that nothing with `word` in its name survives.
async fn ends(sandbox: &Sandbox, script: &str, word: &str) {
    let dir = tempfile::tempdir().unwrap();
    let mut command = command(dir.path(), script);
    command.timeout = SHORT;
    let outcome = run(sandbox, command).await;
    let told = format!("{script}: {} {} {:?}", outcome.stdout, outcome.stderr, outcome.end);
    assert!(outcome.end.timed_out, "{told}");
    assert_eq!(outcome.end.exit_code, 124, "{told}");
    assert!(!alive(word), "{script}: something is left at {}", sandbox.tier());
    until("placeholders are gone", || std::fs::read_dir(dir.path()).unwrap().count() == 0).await;
}

#[tokio::test]
async fn a_sleeper_and_one_that_ignores_signals_end() {
    for sandbox in tiers().await {
        let word = word("sleep");
        ends(&sandbox, &format!("sh -c 'sleep 600; : {word}'"), &word).await;
        let script =
            format!("trap '' TERM INT HUP QUIT; sh -c 'trap \"\" TERM; while :; do sleep 1; done; : {word}'");
        ends(&sandbox, &script, &word).await;
    }
}

#[tokio::test]
async fn a_daemon_that_forks_twice_ends_with_its_command() {
    for sandbox in tiers().await {
        let word = word("daemon");
        let dir = tempfile::tempdir().unwrap();
        // It leaves the session, lets its outputs go, and its parent ends at once.
        let script = format!(
            "setsid sh -c '(setsid sh -c \"sleep 600; : {word}\" >/dev/null 2>&1 </dev/null &)'; echo started"
        );
        let outcome = run(&sandbox, command(dir.path(), &script)).await;
        assert_eq!((outcome.stdout.as_str(), outcome.end.exit_code), ("started\n", 0), "{}", outcome.stderr);
        assert!(!alive(&word), "left at {}", sandbox.tier());
        // And one that keeps them, and outlives the timeout.
        ends(&sandbox, &format!("setsid sh -c 'sleep 600; : {word}' & sleep 600"), &word).await;
    }
}

#[tokio::test]
async fn a_fork_bomb_is_held_and_ends() {
    for sandbox in tiers().await {
        // Root's processes are not counted without control groups; then there is nothing to hold a bomb back with.
        if rustix::process::geteuid().is_root() && !sandbox.findings().cgroups {
            continue;
        }
        let word = word("bomb");
        // Once it has gone off nothing can be started any more, so what must be there is there before, and the script
        // itself only becomes something else: it starts one process for the whole bomb and none after.
        let script =
            format!("sh -c 'sleep 600; : {word}' & (b() {{ b | b & }}; b) 2>/dev/null & exec sleep 600");
        ends(&sandbox, &script, &word).await;
    }
}

#[tokio::test]
async fn processes_are_counted() {
    for sandbox in tiers().await {
        if rustix::process::geteuid().is_root() && !sandbox.findings().cgroups {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let mut command =
            command(dir.path(), "i=0; while [ $i -lt 100 ]; do sleep 30 & i=$((i+1)); done; echo all");
        command.limits = Limits { processes: 30, ..Limits::default() };
        let outcome = run(&sandbox, command).await;
        assert!(!outcome.stdout.contains("all"), "{}", outcome.stdout);
        assert!(outcome.stderr.to_lowercase().contains("fork"), "{}", outcome.stderr);
    }
}

#[tokio::test]
async fn memory_is_limited() {
    for sandbox in tiers().await {
        let dir = tempfile::tempdir().unwrap();
        let mut command =
            command(dir.path(), "perl -e '$x = \"x\" x (512 << 20); print length $x' || echo refused");
        command.limits = Limits { memory_bytes: 128 << 20, ..Limits::default() };
        let outcome = run(&sandbox, command).await;
        assert!(outcome.stdout.contains("refused") || outcome.end.exit_code != 0, "{}", outcome.stdout);
        assert!(!outcome.stdout.starts_with("536870912"), "{}", outcome.stdout);
    }
}

#[tokio::test]
async fn files_and_descriptors_are_limited() {
    for sandbox in tiers().await {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("d")).unwrap();
        let mut command = command(
            dir.path(),
            "head -c 100000000 /dev/zero > d/big; ulimit -n; ulimit -c; stat -c %s d/big",
        );
        command.limits = Limits { file_bytes: 1 << 20, open_files: 64, ..Limits::default() };
        let outcome = run(&sandbox, command).await;
        assert_eq!(outcome.stdout, "64\n0\n1048576\n", "{}", outcome.stderr);
    }
}

#[tokio::test]
async fn endless_output_is_read_in_bounded_memory_and_ends() {
    for sandbox in tiers().await {
        let dir = tempfile::tempdir().unwrap();
        let mut command = command(dir.path(), "yes; : obey-yes");
        command.timeout = SHORT;
        let mut running = sandbox.run(command).await.unwrap();
        let (mut bytes, mut largest, mut end) = (0u64, 0, None);
        while let Some(output) = running.next().await {
            match output {
                sandbox::Output::Stdout(chunk) => {
                    bytes += chunk.len() as u64;
                    largest = largest.max(chunk.len());
                }
                sandbox::Output::Stderr(_) => {}
                sandbox::Output::Ended(ended) => end = Some(ended),
            }
        }
        assert!(
            end.unwrap().timed_out && bytes > 0 && largest <= sandbox::limits::OUTPUT_CHUNK_MAX,
            "{bytes} {largest}"
        );
    }
}

#[tokio::test]
async fn a_reader_that_stops_holds_the_command_not_the_memory() {
    let sandbox = sandbox(Tier::Namespaces).await;
    let dir = tempfile::tempdir().unwrap();
    let mut running = sandbox.run(command(dir.path(), "yes")).await.unwrap();
    // Nobody reads: the command waits in its pipe. Dropping ends it.
    running.next().await.unwrap();
    drop(running);
    let root = dir.path().to_owned();
    until("placeholders of a dropped command go", move || std::fs::read_dir(&root).unwrap().count() == 0)
        .await;
}

#[tokio::test]
async fn the_timeout_holds_even_if_nobody_reads() {
    for sandbox in tiers().await {
        let word = word("unread");
        let dir = tempfile::tempdir().unwrap();
        let mut command = command(dir.path(), &format!("sh -c 'sleep 600; : {word}' & echo ready; yes"));
        command.timeout = SHORT;
        let mut running = sandbox.run(command).await.unwrap();
        running.next().await.unwrap();
        until("the command is gone", || !alive(&word)).await;
        let mut end = None;
        while let Some(output) = running.next().await {
            if let sandbox::Output::Ended(ended) = output {
                end = Some(ended);
            }
        }
        assert!(end.unwrap().timed_out);
    }
}

#[tokio::test]
async fn dropping_a_command_kills_all_of_it() {
    for sandbox in tiers().await {
        let word = word("drop");
        let dir = tempfile::tempdir().unwrap();
        let script = format!("sh -c 'sleep 600; : {word}' & echo ready; wait");
        let mut running = sandbox.run(command(dir.path(), &script)).await.unwrap();
        running.next().await.unwrap();
        until("the command runs", || alive(&word)).await;
        drop(running);
        until("the command is gone", || !alive(&word)).await;
    }
}

#[tokio::test]
async fn a_killed_daemon_takes_its_commands_with_it() {
    for tier in ["namespaces", "landlock"] {
        let word = word("orphan");
        let dir = tempfile::tempdir().unwrap();
        let temporary = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let mut daemon = tokio::process::Command::new(stage())
            .args(["hold", tier, root.to_str().unwrap(), &word])
            .env("TMPDIR", temporary.path())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = tokio::io::BufReader::new(daemon.stdout.take().unwrap());
        tokio::io::AsyncBufReadExt::read_line(&mut stdout, &mut line).await.unwrap();
        assert_eq!(line, "running\n");
        let inner = format!(": {word}");
        until("the command runs", || alive(&inner)).await;
        daemon.kill().await.unwrap();
        until("the command is gone", || !alive(&inner)).await;
        // Also what stood at protected names goes, though no daemon is left to take it away.
        until("nothing stays in the project", || std::fs::read_dir(&root).unwrap().count() == 0).await;
    }
}
