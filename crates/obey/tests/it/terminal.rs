//! The program on a terminal: it asks, takes Ctrl-C, and shows no control characters of agents.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;
use wire::obey::v1 as pb;

use crate::fake::{DEADLINE, Step};
use crate::program::{ID, obey, serve};

/// The program with a person in front of it.
struct Terminal {
    child: Child,
    keyboard: File,
    screen: mpsc::Receiver<Vec<u8>>,
    shown: String,
}

impl Terminal {
    fn start(home: &std::path::Path, words: &[&str]) -> Self {
        let keyboard = File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap());
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let line = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let stdio = || Stdio::from(line.try_clone().unwrap());
        let child = obey(home, words).stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap();
        drop(line);
        let mut reader = keyboard.try_clone().unwrap();
        let (tx, screen) = mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = reader.read(&mut bytes) {
                if count == 0 || tx.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keyboard, screen, shown: String::new() }
    }

    fn until(&mut self, part: &str) {
        let end = Instant::now() + DEADLINE;
        while !self.shown.contains(part) {
            let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let bytes = self.screen.recv_timeout(left);
            let bytes = bytes.unwrap_or_else(|_| panic!("{part:?} is missing in {:?}", self.shown));
            self.shown.push_str(&String::from_utf8_lossy(&bytes));
        }
    }

    fn type_line(&mut self, line: &str) {
        self.keyboard.write_all(line.as_bytes()).unwrap();
        self.keyboard.write_all(b"\r").unwrap();
    }

    fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        while let Ok(bytes) = self.screen.recv_timeout(Duration::from_millis(50)) {
            self.shown.push_str(&String::from_utf8_lossy(&bytes));
        }
        (code, self.shown)
    }
}

fn permission() -> Step {
    let input = json!({"command": "rm x"});
    let request = pb::Request {
        id: "req_1".to_owned(),
        kind: pb::RequestKind::Permission.into(),
        tool_name: "Bash".to_owned(),
        input_json: input.to_string(),
        ..Default::default()
    };
    let event =
        json!({"request": "req_1", "native": "x", "kind": "permission", "tool": "Bash", "input": input});
    Step::Ask(Box::new(request), event)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permission_is_asked_and_answered() {
    let home = tempfile::tempdir().unwrap();
    let fake = serve(home.path());
    let hostile = Step::Event("text_delta", json!({"text": "\u{1b}]0;owned\u{7}Done."}));
    fake.state().turns.push_back(vec![permission(), hostile]);
    let path = home.path().to_owned();
    let ended = tokio::task::spawn_blocking(move || {
        let mut terminal = Terminal::start(&path, &["session", "send", "n", "hi", "--color", "never"]);
        terminal.until("asks for permission: Bash: rm x");
        terminal.until("? \u{1b}7[y] once [n] deny [s] deny and stop [e] edit [?] show input");
        terminal.type_line("y");
        terminal.end()
    });
    let (code, shown) = ended.await.unwrap();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("]0;ownedDone."), "{shown:?}");
    // The notice that it asks is the program's own; nothing else may speak to the terminal.
    let notice = "\u{1b}]9;req_1 asks for permission: Bash: rm x\u{7}";
    assert!(!shown.replace(notice, "").contains("\u{1b}]"), "the title must not change: {shown:?}");
    assert_eq!(fake.state().seen.decisions[0].decision, pb::Decision::AllowOnce as i32);
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_cancels_the_turn_and_the_status_line_goes() {
    let home = tempfile::tempdir().unwrap();
    let fake = serve(home.path());
    fake.state().turns.push_back(vec![Step::Hang]);
    let path = home.path().to_owned();
    let ended = tokio::task::spawn_blocking(move || {
        let mut terminal = Terminal::start(&path, &["session", "send", "n", "hi"]);
        terminal.until("working");
        terminal.interrupt();
        terminal.end()
    });
    let (code, shown) = ended.await.unwrap();
    assert_eq!(code, Some(130), "{shown:?}");
    assert!(shown.contains("Cancelling the turn") && shown.contains("was cancelled"), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_commands_that_only_watch() {
    let home = tempfile::tempdir().unwrap();
    let fake = serve(home.path());
    fake.append(ID, "notice", &json!({"level": "info", "message": "seen"}));
    let path = home.path().to_owned();
    let ended = tokio::task::spawn_blocking(move || {
        let mut terminal = Terminal::start(&path, &["session", "watch", "n"]);
        terminal.until("seen");
        terminal.interrupt();
        terminal.end().0
    });
    assert_eq!(ended.await.unwrap(), Some(130));
    drop(fake);
}
