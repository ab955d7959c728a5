//! `obey doctor`: each fault is made, found, named, and its repair told.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::program::{Stopped, obey, run, serve, text};

/// Runs the doctor and returns its findings of one check: state, message, repair.
fn findings(home: &Path, check: &str) -> Vec<[String; 3]> {
    of_check(&run(home, &["doctor", "--json"]).stdout, check)
}

fn of_check(out: &[u8], check: &str) -> Vec<[String; 3]> {
    let all: Value = serde_json::from_slice(out).unwrap();
    let word = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let list = all["findings"].as_array().unwrap().iter().filter(|finding| finding["check"] == check);
    list.map(|finding| ["state", "message", "repair"].map(|key| word(finding, key))).collect()
}

/// A home with a daemon's data in it, and no daemon.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for folder in ["obey", ".local", ".local/share", ".local/share/obey", ".local/share/obey/agents"] {
        private(&home.path().join(folder));
    }
    home
}

fn private(folder: &Path) {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().mode(0o700).create(folder).unwrap();
}

fn daemon(home: &Path) {
    let started = run(home, &["serve", "--detach", "--listen", "none"]);
    assert_eq!(started.status.code(), Some(0), "{}", text(&started.stderr));
}

/// A file that is locked as a daemon or a shim locks it.
fn locked(path: &Path, pid: u32) -> File {
    fs::write(path, format!("{pid}\n")).unwrap();
    let file = File::open(path).unwrap();
    file.lock().unwrap();
    file
}

#[test]
fn a_lock_that_is_held_while_no_daemon_answers_is_named_with_its_holder() {
    let home = home();
    let path = home.path().join(".local/share/obey/daemon.lock");
    let held = locked(&path, 4711);
    let found = findings(home.path(), "lock");
    assert_eq!(found.len(), 1, "{found:?}");
    let [state, message, repair] = &found[0];
    assert_eq!(state, "broken");
    assert!(message.contains("daemon.lock is held by process 4711"), "{message}");
    assert!(repair.contains("kill 4711"), "{repair}");
    drop(held);
    let stale = findings(home.path(), "lock");
    assert_eq!(stale[0][0], "ok");
    assert!(stale[0][1].contains("left over from process 4711"), "{stale:?}");
}

#[test]
fn orphans_and_leftovers_are_told_from_agents_at_work() {
    let home = home();
    let agents = home.path().join(".local/share/obey/agents");
    let orphan = agents.join("sess_01BBBBBBBBBBBBBBBBBBBBBBBB.1");
    let _stopped = Stopped(home.path());
    daemon(home.path());
    let project = home.path().join("project");
    fs::create_dir(&project).unwrap();
    run(home.path(), &["campaign", "add", project.to_str().unwrap(), "--name", "p"]);
    let created = run(home.path(), &["session", "create", "-c", "p", "-p", "scripted"]);
    assert_eq!(created.status.code(), Some(0), "{}", text(&created.stderr));
    let well = findings(home.path(), "agents");
    assert_eq!((well.len(), &*well[0][0], &*well[0][1]), (1, "ok", "1 held, no orphans"), "{well:?}");

    private(&orphan);
    let held = locked(&orphan.join("lock"), 4711);
    let found = findings(home.path(), "agents");
    assert_eq!(found.len(), 1, "{found:?}");
    let [state, message, repair] = &found[0];
    assert_eq!(state, "broken");
    assert!(message.contains("pid 4711") && message.contains("sess_01BBBB"), "{message}");
    assert!(repair.contains("obey upgrade") && repair.contains("kill -9 4711"), "{repair}");

    drop(held);
    let found = findings(home.path(), "agents");
    assert_eq!((found.len(), &*found[0][0]), (1, "warning"), "{found:?}");
    assert!(found[0][2].contains("obey gc"), "{found:?}");
    run(home.path(), &["gc"]);
    assert!(!orphan.exists());
    assert_eq!(findings(home.path(), "agents")[0][0], "ok");
    run(home.path(), &["stop"]);
    let alone = findings(home.path(), "agents");
    assert_eq!(alone[0][1], "1 agent without a daemon; the next one finds them");
    // For the end of the test: agents are ended by a daemon.
    daemon(home.path());
}

#[test]
fn a_clock_behind_the_journal_is_found() {
    let home = home();
    let database = home.path().join(".local/share/obey/daemon.db");
    let file = File::create(&database).unwrap();
    assert_eq!(findings(home.path(), "clock")[0][0], "ok");
    file.set_modified(SystemTime::now() + Duration::from_secs(2 * 3600)).unwrap();
    let [state, message, repair] = &findings(home.path(), "clock")[0];
    assert_eq!(state, "warning");
    assert!(message.contains("but the last event was written at 20"), "{message}");
    assert!(repair.contains("timedatectl"), "{repair}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_behind_what_sessions_did_is_found() {
    let home = home();
    fs::remove_dir(home.path().join("obey")).unwrap();
    let fake = serve(home.path());
    let later = SystemTime::now() + Duration::from_secs(2 * 3600);
    fake.state().sessions[0].last_activity_at = Some(later.into());
    let path = home.path().to_owned();
    let found = tokio::task::spawn_blocking(move || findings(&path, "clock")).await.unwrap();
    assert_eq!(found[0][0], "warning", "{found:?}");
}

#[test]
fn a_claude_that_is_missing_or_broken_is_found() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = home();
    let doctor = || {
        let mut command = obey(home.path(), &["doctor", "--json"]);
        command.env("PATH", home.path());
        of_check(&command.output().unwrap().stdout, "claude").remove(0)
    };
    let [state, message, repair] = doctor();
    assert_eq!(state, "warning");
    assert!(message.starts_with("claude is not on the agent's PATH"), "{message}");
    assert!(repair.contains("npm install"), "{repair}");
    let claude = home.path().join("claude");
    fs::write(&claude, "#!/bin/sh\nexit 3\n").unwrap();
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(doctor()[0], "broken");
    fs::write(&claude, "#!/bin/sh\necho 2.1.0\n").unwrap();
    assert_eq!(doctor()[0], "ok");
}

#[test]
fn a_disk_that_is_nearly_full_is_found() {
    let home = home();
    let data = home.path().join(".local/share/obey");
    // A small file system of our own, seen by nobody else.
    let script = "mount -t tmpfs -o size=8m,mode=700 none \"$DATA\" && exec \"$OBEY\" doctor --json";
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", script]);
    command
        .env_clear()
        .env("HOME", home.path())
        .env("XDG_RUNTIME_DIR", home.path())
        .env("PATH", "/usr/bin:/bin");
    command.env("DATA", &data).env("OBEY", env!("CARGO_BIN_EXE_obey"));
    let Ok(ran) = command.stdin(Stdio::null()).output() else { return skipped("unshare is not installed") };
    if ran.stdout.is_empty() {
        return skipped(text(&ran.stderr));
    }
    let [state, message, repair] = of_check(&ran.stdout, "disk space").remove(0);
    assert_eq!(state, "warning");
    assert!(message.contains("KiB free at") && message.ends_with(".local/share/obey"), "{message}");
    assert!(repair.contains("make room"), "{repair}");
}

#[allow(clippy::print_stderr, reason = "a skipped test must say so where people look")]
pub(crate) fn skipped(why: &str) {
    eprintln!("SKIPPED: no file system of our own: {why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_what_is_wrong_and_says_how_to_mend_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let fake = serve(home.path());
    let open = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap()
    };
    let (folder, socket) = (home.path().join("obey"), home.path().join("obey/daemon.sock"));
    let doctor = |words: &'static [&'static str]| {
        let path = home.path().to_owned();
        tokio::task::spawn_blocking(move || run(&path, words))
    };
    open(&folder, 0o700);
    open(&socket, 0o600);
    let well = doctor(&["doctor"]).await.unwrap();
    assert_eq!(well.status.code(), Some(0), "{}", text(&well.stdout));
    assert!(text(&well.stdout).contains("daemon"), "{}", text(&well.stdout));

    open(&folder, 0o777);
    open(&socket, 0o666);
    let ill = doctor(&["doctor", "--json"]).await.unwrap();
    assert_eq!(ill.status.code(), Some(1));
    let findings: Value = serde_json::from_slice(&ill.stdout).unwrap();
    let broken: Vec<&str> = findings["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["state"] == "broken")
        .map(|finding| finding["repair"].as_str().unwrap())
        .collect();
    assert_eq!(broken.len(), 2, "{broken:?}");
    assert!(broken.iter().all(|repair| repair.starts_with("chmod ")), "{broken:?}");
    drop(fake);
}
