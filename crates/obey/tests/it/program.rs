//! The program without a terminal: what scripts see.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use wire::obey::local::v1::SessionStatus;

use crate::fake::Fake;

pub(crate) const ID: &str = "sess_01AAAAAAAAAAAAAAAAAAAAAAAA";

/// The program in a world of its own: nothing of the developer's environment reaches it.
pub(crate) fn obey(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_obey"));
    command
        .args(words)
        .env_clear()
        .env("HOME", home)
        .env("XDG_RUNTIME_DIR", home)
        .env("PATH", "/usr/bin:/bin");
    command.stdin(Stdio::null()).current_dir(home);
    command
}

pub(crate) fn run(home: &Path, words: &[&str]) -> Output {
    obey(home, words).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A small daemon at the place the program looks first.
pub(crate) fn serve(home: &Path) -> Fake {
    std::fs::create_dir(home.join("obey")).unwrap();
    let fake = Fake::serve(&home.join("obey/daemon.sock"));
    fake.add_session(ID, "n", SessionStatus::Running);
    fake
}

#[test]
fn help_lists_the_exit_codes_and_mistakes_end_with_two() {
    let home = tempfile::tempdir().unwrap();
    let help = run(home.path(), &["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stdout).contains("  3  the daemon is not reachable"), "{}", text(&help.stdout));
    let wrong = run(home.path(), &["session", "lits"]);
    assert_eq!((wrong.status.code(), wrong.stdout.as_slice()), (Some(2), &b""[..]));
    let wrong = run(home.path(), &["session", "create", "--provider", "nobody", "--json"]);
    assert_eq!(wrong.status.code(), Some(2));
    let error: Value = serde_json::from_slice(&wrong.stderr).unwrap();
    assert_eq!((&error["error"]["code"], &error["error"]["grpc"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_daemon_that_does_not_start_is_code_three_with_its_last_words() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join(".config/obey")).unwrap();
    let file = home.path().join(".config/obey/config.toml");
    let socket = home.path().join("my.sock");
    // No folder can be made below a device, not even by root.
    let config = format!("socket = {socket:?}\ndata_dir = \"/dev/null/data\"\nlisten = []\n");
    std::fs::write(&file, config).unwrap();
    let refused = run(home.path(), &["ping", "--no-autostart"]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(text(&refused.stderr).contains("my.sock"), "{}", text(&refused.stderr));
    let failed = run(home.path(), &["ping"]);
    assert_eq!(failed.status.code(), Some(3), "{}", text(&failed.stderr));
    let said = text(&failed.stderr);
    assert!(said.contains("[OBEY-1015]") && said.contains("/dev/null/data cannot be made"), "{said}");
    assert!(home.path().join(".local/state/obey/daemon.log").exists());

    std::fs::write(&file, "sokcet = \"/x\"\n").unwrap();
    let wrong = run(home.path(), &["ping"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("did you mean socket?"), "{}", text(&wrong.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn words_and_notes_go_to_their_own_streams() {
    let home = tempfile::tempdir().unwrap();
    let fake = serve(home.path());
    fake.state().turns.push_back(vec![
        crate::fake::Step::Event("thinking_delta", json!({"text": "hm"})),
        crate::fake::Step::Event("text_delta", json!({"text": "Hello."})),
    ]);
    let path = home.path().to_owned();
    let ran = tokio::task::spawn_blocking(move || {
        let mut command = obey(&path, &["session", "send", "n", "-"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"from a pipe\n").unwrap();
        child.wait_with_output().unwrap()
    });
    let ran = ran.await.unwrap();
    assert_eq!((ran.status.code(), text(&ran.stdout)), (Some(0), "Hello.\n"));
    assert!(text(&ran.stderr).starts_with("thinking: hm\n"), "{}", text(&ran.stderr));
    assert_eq!(fake.state().seen.prompts[0].text, "from a pipe");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_goes_away_ends_the_program_quietly() {
    let home = tempfile::tempdir().unwrap();
    let fake = serve(home.path());
    for number in 0..5_000 {
        fake.append(ID, "text_delta", &json!({"text": format!("{number} {}", "x".repeat(200))}));
    }
    let path = home.path().to_owned();
    let ran = tokio::task::spawn_blocking(move || {
        let mut command = obey(&path, &["session", "log", "n", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_exact(&mut [0; 10]).unwrap();
        drop(stdout);
        child.wait_with_output().unwrap()
    });
    let ran = ran.await.unwrap();
    assert_eq!((ran.status.code(), text(&ran.stderr)), (Some(141), ""));
}

/// Ends the daemon and its agents when a test ends, however it ends.
pub(crate) struct Stopped<'a>(pub(crate) &'a Path);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        let _gone_already = run(self.0, &["stop", "--sessions"]);
    }
}

#[test]
fn commands_that_come_at_once_start_one_daemon() {
    let home = tempfile::tempdir().unwrap();
    // A relative path, to be found although the daemon leaves this folder.
    std::fs::write(home.path().join("mine.toml"), "listen = []\n").unwrap();
    let obey = |home: &Path, words: &[&str]| {
        let mut command = obey(home, words);
        command.env("OBEY_CONFIG", "mine.toml").env("OBEY_DATA_DIR", "kept");
        command
    };
    let _stopped = Stopped(home.path());
    let children: Vec<_> = (0..4)
        .map(|_| {
            let mut command = obey(home.path(), &["ping", "--json"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut pids = std::collections::BTreeSet::new();
    for child in children {
        let ran = child.wait_with_output().unwrap();
        assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
        let pong: Value = serde_json::from_slice(&ran.stdout).unwrap();
        pids.insert(pong["pid"].as_i64().unwrap());
    }
    assert_eq!(pids.len(), 1, "{pids:?}");
    assert!(home.path().join("kept/daemon.db").exists());
    let removed = run(home.path(), &["gc"]);
    assert_eq!(text(&removed.stdout), "Removed: 0 sessions, 0 events of sessions, 0 reports, 0 folders\n");
    let again = run(home.path(), &["serve", "--detach"]);
    assert!(text(&again.stdout).contains("runs already"), "{}", text(&again.stdout));
    let stopped = run(home.path(), &["stop"]);
    assert!(text(&stopped.stdout).starts_with("The daemon has ended"), "{}", text(&stopped.stdout));
    assert_eq!(run(home.path(), &["ping", "--no-autostart"]).status.code(), Some(3));
}

#[test]
fn the_demo_runs_without_any_agent_installed() {
    let home = tempfile::tempdir().unwrap();
    let _stopped = Stopped(home.path());
    let ran =
        obey(home.path(), &["demo"]).env("TMPDIR", home.path()).env("OBEY_LISTEN", "none").output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert!(text(&ran.stdout).starts_with("Session: sess_"), "{}", text(&ran.stdout));
    for part in ["claude is not installed", "asks for permission", "Allowed by the demo", "Now try:"] {
        assert!(text(&ran.stderr).contains(part), "{part} is missing in {}", text(&ran.stderr));
    }
    // It is not on the PATH here, so the lines to paste have its path.
    let pasted = format!("  {} ps ", env!("CARGO_BIN_EXE_obey"));
    assert!(text(&ran.stderr).contains(&pasted), "{}", text(&ran.stderr));
    let log = run(home.path(), &["session", "log", "sess_", "--json"]);
    assert_eq!(log.status.code(), Some(4), "the bare prefix names no session");
    let listed = run(home.path(), &["session", "list", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let id = listed["sessions"][0]["id"].as_str().unwrap();
    let log = run(home.path(), &["session", "log", &id[..14], "--json"]);
    for (number, line) in (1..).zip(text(&log.stdout).lines()) {
        let event: Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["seq"], number);
        assert!(line.starts_with(&format!("{{\"seq\":{number},\"at\":\"20")), "{line}");
    }
}

#[test]
fn the_demo_runs_again_after_the_temporary_folder_was_emptied() {
    let home = tempfile::tempdir().unwrap();
    let temp = home.path().join("temp");
    std::fs::create_dir(&temp).unwrap();
    let _stopped = Stopped(home.path());
    let demo =
        || obey(home.path(), &["demo"]).env("TMPDIR", &temp).env("OBEY_LISTEN", "none").output().unwrap();
    assert_eq!(demo().status.code(), Some(0));
    // Away, and not deleted: a new folder could have the old one's number.
    std::fs::rename(&temp, home.path().join("before")).unwrap();
    std::fs::create_dir(&temp).unwrap();
    let again = demo();
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
}
