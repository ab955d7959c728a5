//! The scripted agent as a process: what only a process can do.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use agent_port::Codec;
use domain::{AgentEvent, AgentInput, ProviderKind};
use providers::{ProviderOptions, all};
use serde_json::{Value, json};

use crate::support::{decode, launch, spec, starting};

/// The example of that name, which is built with the tests.
fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.ancestors().nth(2).unwrap().join("examples/scripted_agent");
    assert!(program.exists(), "{} is not built; run the tests of the whole crate", program.display());
    program
}

struct Process {
    child: Child,
    stdout: BufReader<ChildStdout>,
    codec: Box<dyn Codec>,
}

impl Process {
    fn start(config: &[(&str, &str)]) -> Self {
        let temp = std::env::temp_dir();
        let providers = all(&ProviderOptions { obey_exe: program(), ..ProviderOptions::default() });
        let mut spec = spec(ProviderKind::Scripted, &temp);
        for (key, value) in config {
            spec.provider_config.insert((*key).to_owned(), (*value).to_owned());
        }
        let provider = providers.get(ProviderKind::Scripted).unwrap();
        let mut plan = launch(&**provider, &spec, &starting(&spec), Vec::new());
        let mut child = Command::new(&plan.program)
            .args(&plan.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut wire = Vec::new();
        plan.codec.open(&mut wire);
        child.stdin.as_mut().unwrap().write_all(&wire).unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout, codec: plan.codec }
    }

    fn prompt(&mut self, script: Value) {
        let mut wire = Vec::new();
        let text = format!("SCRIPT: {script}");
        self.codec.encode(&AgentInput::Prompt { text, attachments: Vec::new() }, &mut wire).unwrap();
        self.child.stdin.as_mut().unwrap().write_all(&wire).unwrap();
    }

    fn text(&mut self) -> String {
        loop {
            let mut line = Vec::new();
            assert!(self.stdout.read_until(b'\n', &mut line).unwrap() > 0, "the agent ended");
            let (events, _) = decode(&mut *self.codec, &line);
            if let Some(AgentEvent::Text { text, .. }) = events.into_iter().next() {
                return text;
            }
        }
    }

    fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    fn end(mut self) -> (ExitStatus, String) {
        let mut stderr = String::new();
        std::io::Read::read_to_string(&mut self.child.stderr.take().unwrap(), &mut stderr).unwrap();
        (self.child.wait().unwrap(), stderr)
    }
}

fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn it_crashes_with_a_code_or_by_a_signal() {
    let mut agent = Process::start(&[]);
    agent.prompt(json!([{"stderr": "oh no"}, {"crash": 3}]));
    let (status, stderr) = agent.end();
    assert_eq!((status.code(), stderr.as_str()), (Some(3), "oh no\n"));
    let mut agent = Process::start(&[]);
    agent.prompt(json!([{"crash_signal": 9}]));
    assert_eq!(agent.end().0.signal(), Some(9));
}

#[test]
fn the_scripted_agent_fails_to_start_where_its_script_says_so() {
    let (status, stderr) = Process::start(&[("startup_fail", "no licence")]).end();
    assert_eq!((status.code(), stderr.as_str()), (Some(1), "no licence\n"));
}

#[test]
fn it_ends_on_term_unless_it_is_told_not_to() {
    let mut agent = Process::start(&[]);
    agent.prompt(json!([{"text": "here"}, {"hang": true}]));
    agent.text();
    agent.signal("TERM");
    assert_eq!(agent.end().0.signal(), Some(15));

    let go_on = tempfile::tempdir().unwrap();
    let file = go_on.path().join("go-on");
    let mut agent = Process::start(&[]);
    agent.prompt(json!([{"ignore_term": true}, {"text": "here"}, {"wait_file": file}, {"text": "alive"}, {"crash": 7}]));
    assert_eq!(agent.text(), "here");
    agent.signal("TERM");
    std::fs::write(&file, "").unwrap();
    assert_eq!(agent.text(), "alive");
    assert_eq!(agent.end().0.code(), Some(7));
}

#[test]
fn it_can_leave_a_child_behind() {
    let mut agent = Process::start(&[]);
    agent.prompt(json!([{"spawn_child": true}, {"hang": true}]));
    let child: u32 = agent.text().parse().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
    // Session id: the fourth field after the name in parentheses.
    let session = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(3).unwrap().to_owned();
    assert_eq!(session, child.to_string());
    agent.signal("KILL");
    assert!(std::fs::metadata(format!("/proc/{child}")).is_ok());
    signal(child, "KILL");
    agent.end();
}
