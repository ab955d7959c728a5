//! Sessions with real shims and small agents: shell scripts that speak one word per line.

mod reexec;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::turn::EndReason;
use domain::{
    AgentEvent, AgentInput, Command, Error, ErrorCode, EventKind, LaunchPolicy, ProviderKind, SessionSpec,
    Status, StopMode, WhenBusy,
};

use crate::campaign::NewCampaign;
use crate::process::{AgentLink, Position};
use crate::supervisor::SupervisorOptions;
use crate::{NewSession, Snapshot, Supervisor};
use agent_port::{
    Availability, Capabilities, Codec, Decoded, LaunchPlan, LaunchRequest, ProcessLaunch, Provider,
    Providers, Revisioned,
};
use reexec::shim_exe;
use storage::Store;

/// Runs `sh -c` with the script in `provider_config.script`.
struct Shell;

/// Lines out: `ready`, `text …`, `done`, `panic`, `broken`, `until FILE`. Lines in: the prompt's text, or how often that was asked
/// for and how many lines were heard; `leave`.
#[derive(Clone, Default)]
struct Words {
    told: Revisioned<u64>,
    /// Not saved.
    heard: u64,
}

/// Number of lines read from agents.
static LINES: AtomicU64 = AtomicU64::new(0);

impl Provider for Shell {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Scripted
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { process: true, ..Capabilities::default() }
    }

    fn check(&self, _spec: &SessionSpec) -> Result<(), Error> {
        Ok(())
    }

    fn launch(&self, request: &LaunchRequest<'_>) -> Result<LaunchPlan, Error> {
        let script = request.spec.provider_config.get("script").cloned().unwrap_or_default();
        Ok(LaunchPlan::Process(Box::new(ProcessLaunch {
            program: PathBuf::from("/bin/sh"),
            args: vec![OsString::from("-c"), OsString::from(script)],
            environment: request.environment.clone(),
            codec: Box::new(Words::default()),
            places: agent_port::Places::default(),
        })))
    }

    fn codec(&self, _spec: &SessionSpec, _saved: &str) -> Result<Box<dyn Codec>, Error> {
        Ok(Box::new(Words::default()))
    }

    fn availability(&self, _path: Option<&std::ffi::OsStr>) -> Availability {
        Availability::BuiltIn
    }
}

impl Codec for Words {
    fn open(&mut self, _wire: &mut Vec<u8>) {}

    fn decode(&mut self, line: &[u8], out: &mut Decoded) {
        LINES.fetch_add(1, Ordering::Relaxed);
        self.heard += 1;
        let line = String::from_utf8_lossy(line);
        if let Some(file) = line.strip_prefix("until ") {
            // Simulates a reader that falls behind its agent.
            let late = std::time::Instant::now() + Duration::from_secs(30);
            while !std::path::Path::new(file).exists() && std::time::Instant::now() < late {
                std::thread::sleep(Duration::from_millis(5));
            }
            return;
        }
        out.events.push(match line.as_ref() {
            "ready" => AgentEvent::Ready {
                native_session: "n".to_owned(),
                model: String::new(),
                version: String::new(),
                resolved_model: String::new(),
            },
            "done" => AgentEvent::TurnEnded {
                reason: EndReason::Completed,
                text: String::new(),
                error: String::new(),
            },
            "panic" => panic!("a codec breaks down"),
            "broken" => AgentEvent::Broken { code: None, message: "it speaks in tongues".to_owned() },
            text => AgentEvent::Text { text: text.to_owned(), parent: None },
        });
    }

    fn encode(&mut self, input: &AgentInput, wire: &mut Vec<u8>) -> Result<(), Error> {
        match input {
            AgentInput::Prompt { text, .. } if text == "unspeakable" => {
                return Err(Error::new(ErrorCode::DeliveryFailed, "the agent has no word for it"));
            }
            AgentInput::Prompt { text, .. } if text == "numbers" => {
                *self.told += 1;
                wire.extend_from_slice(format!("{}-{}", *self.told, self.heard).as_bytes());
            }
            AgentInput::Prompt { text, .. } => wire.extend_from_slice(text.as_bytes()),
            AgentInput::Leave => wire.extend_from_slice(b"leave"),
            _ => return Ok(()),
        }
        wire.push(b'\n');
        Ok(())
    }

    fn save(&self) -> String {
        self.told.to_string()
    }

    fn revision(&self) -> u64 {
        self.told.revision()
    }

    fn boxed_clone(&self) -> Box<dyn Codec> {
        Box::new(self.clone())
    }
}

/// A supervisor with one campaign in a temporary folder.
struct Bench {
    supervisor: Supervisor,
    folder: tempfile::TempDir,
}

impl Bench {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        std::fs::create_dir(&project).unwrap();
        std::fs::create_dir(folder.path().join("agents")).unwrap();
        let supervisor = Supervisor::new(SupervisorOptions {
            store: Store::open(&folder.path().join("daemon.db")).unwrap(),
            providers: Providers::new(vec![Arc::new(Shell)]),
            agents_dir: folder.path().join("agents"),
            shim_program: shim_exe(),
            socket: folder.path().join("sock"),
            spool_max_bytes: 1 << 30,
            active_sessions_max: 100,
            default_mode: domain::Mode::default(),
            settings: crate::settings::Settings::default(),
            worktrees_dir: folder.path().join("worktrees"),
            offers_tools: false,
            scrubber: None,
            containment: crate::containment::Policy::default(),
            scrub_events: false,
        })
        .await
        .unwrap();
        let path = project.display().to_string();
        let campaign = NewCampaign { name: "c".to_owned(), path, ..NewCampaign::default() };
        supervisor.campaigns().add(campaign).await.unwrap();
        Self { supervisor, folder }
    }

    async fn create(&self, script: &str) -> Result<Arc<Snapshot>, Error> {
        self.create_to(script, LaunchPolicy::Now).await
    }

    async fn create_to(&self, script: &str, launch: LaunchPolicy) -> Result<Arc<Snapshot>, Error> {
        self.supervisor
            .create(NewSession {
                campaign: "c".to_owned(),
                provider_config: BTreeMap::from([("script".to_owned(), script.to_owned())]),
                launch,
                ..NewSession::new(ProviderKind::Scripted, "test".to_owned())
            })
            .await
    }

    async fn prompt(&self, session: &Snapshot, text: &str) -> Result<(), Error> {
        let command = Command::Prompt {
            text: text.to_owned(),
            attachments: Vec::new(),
            when_busy: WhenBusy::Refuse,
            by: "test".to_owned(),
        };
        self.supervisor.command(&session.spec.id, command).await.map(|_| ())
    }

    async fn wait(&self, session: &Snapshot, status: Status) -> Arc<Snapshot> {
        let waiting = async {
            loop {
                let handle = self.supervisor.session(&session.spec.id).await.unwrap();
                if let Ok(found) = handle.wait_until(|now| now.state.status == status).await {
                    return found;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("a status in time")
    }

    async fn text(&self, session: &Snapshot) -> String {
        let mut cursor = self.supervisor.events_after(&session.spec.id, 0).await.unwrap();
        let mut text = String::new();
        loop {
            let events = cursor.available().await.unwrap();
            if events.is_empty() {
                return text;
            }
            for event in events {
                if let EventKind::TextDelta { text: said, .. } = &event.kind {
                    text.push_str(said);
                }
            }
        }
    }
}

const ECHO: &str =
    "echo ready; while read line; do [ $line = leave ] && exit 0; echo got $line; echo done; done";

#[tokio::test]
async fn a_session_runs_turns_and_leaves_nothing_behind() {
    let bench = Bench::new().await;
    let session = bench.create(ECHO).await.unwrap();
    bench.prompt(&session, "one").await.unwrap();
    bench.wait(&session, Status::Running).await;
    bench.prompt(&session, "two").await.unwrap();
    bench.wait(&session, Status::Running).await;
    assert_eq!(bench.text(&session).await, "got onegot two");
    bench.supervisor.stop(&session.spec.id, StopMode::Graceful).await.unwrap();
    let left = std::fs::read_dir(bench.folder.path().join("agents")).unwrap().count();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn a_shim_is_known_for_its_session_even_before_anybody_was_told() {
    let bench = Bench::new().await;
    let session = bench.create(ECHO).await.unwrap();
    let id = session.spec.id.as_str();
    let status = std::fs::read_to_string(format!("/proc/{}/status", session.state.pid)).unwrap();
    let shim = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().parse().unwrap();
    let agents = bench.folder.path().join("agents");
    assert_eq!(crate::process::scan::session_held_by(&agents, shim).as_deref(), Some(id));
    assert_eq!(crate::process::scan::session_held_by(&agents, session.state.pid), None);
    assert_eq!(bench.supervisor.session_of_process(shim).as_ref(), Some(&session.spec.id));
    // The bridge of a gateway's session names its session itself; for a session with a shim such a claim has
    // no effect.
    std::fs::write(bench.folder.path().join("mcp"), "echo ready; read line").unwrap();
    let mut bridge = tokio::process::Command::new("sh")
        .args(["mcp", "--session", id])
        .current_dir(bench.folder.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let pid = bridge.id().unwrap();
    // The kernel returns from spawn before it has set the new arguments; a program that prints has them.
    let mut ready = [0; 6];
    tokio::io::AsyncReadExt::read_exact(bridge.stdout.as_mut().unwrap(), &mut ready).await.unwrap();
    assert_eq!(crate::process::scan::session_bridged_by(pid).as_deref(), Some(id));
    assert_eq!(bench.supervisor.session_of_process(pid), None);
    bridge.kill().await.unwrap();
    bench.supervisor.stop(&session.spec.id, StopMode::Now).await.unwrap();
}

#[tokio::test]
async fn input_that_cannot_be_delivered_fails_the_session() {
    let bench = Bench::new().await;
    let session = bench.create("echo ready; exec 0<&-; while :; do sleep 1; done").await.unwrap();
    // The first write may still fit into the pipe; the agent closes its end some time later.
    bench.prompt(&session, "anybody?").await.unwrap();
    let failed = bench.wait(&session, Status::Failed).await;
    assert_eq!(failed.state.error_code, Some(ErrorCode::DeliveryFailed), "{}", failed.state.error);
}

#[tokio::test]
async fn what_an_agent_cannot_be_told_is_refused_and_changes_nothing() {
    let bench = Bench::new().await;
    let session = bench.create(ECHO).await.unwrap();
    let before = bench.supervisor.snapshot(&session.spec.id).await.unwrap();
    let error = bench.prompt(&session, "unspeakable").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::DeliveryFailed);
    let after = bench.supervisor.snapshot(&session.spec.id).await.unwrap();
    assert_eq!((after.last_seq, &after.state), (before.last_seq, &before.state));
    bench.prompt(&session, "hello").await.unwrap();
    bench.wait(&session, Status::Running).await;
    assert_eq!(bench.text(&session).await, "got hello");
    bench.supervisor.stop(&session.spec.id, StopMode::Now).await.unwrap();
}

#[tokio::test]
async fn a_command_that_cannot_be_stored_changes_nothing() {
    let bench = Bench::new().await;
    let session = bench.create(ECHO).await.unwrap();
    bench.prompt(&session, "numbers").await.unwrap();
    let before = bench.wait(&session, Status::Running).await;
    let change = async |sql: &'static str| {
        let write = move |connection: &rusqlite::Connection| connection.execute_batch(sql);
        bench.supervisor.store().write(storage::Durability::Synced, write).await.unwrap();
    };
    change("CREATE TRIGGER full BEFORE INSERT ON journal BEGIN SELECT RAISE(ABORT, 'full'); END").await;
    let error = bench.prompt(&session, "numbers").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::StorageFailed);
    let after = bench.supervisor.snapshot(&session.spec.id).await.unwrap();
    assert_eq!((after.last_seq, &after.state), (before.last_seq, &before.state));
    change("DROP TRIGGER full").await;
    bench.prompt(&session, "numbers").await.unwrap();
    bench.wait(&session, Status::Running).await;
    // The codec goes on as it was, with what it does not save.
    assert_eq!(bench.text(&session).await, "got 1-1got 2-3");
    bench.supervisor.stop(&session.spec.id, StopMode::Now).await.unwrap();
}

#[tokio::test]
async fn a_first_prompt_that_the_agent_cannot_be_told_ends_its_turn() {
    let bench = Bench::new().await;
    let session = bench.create_to(ECHO, LaunchPolicy::OnPrompt).await.unwrap();
    // The prompt is accepted before there is an agent that could refuse it.
    bench.prompt(&session, "unspeakable").await.unwrap();
    let after = bench.wait(&session, Status::Running).await;
    assert!(after.state.turn.is_none(), "{:?}", after.state.turn);
    let mut cursor = bench.supervisor.events_after(&session.spec.id, 0).await.unwrap();
    let events = cursor.available().await.unwrap();
    let errors: Vec<&str> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::TurnEnded { reason: EndReason::Failed, error, .. } => Some(error.as_str()),
            _ => None,
        })
        .collect();
    assert!(matches!(&errors[..], [error] if error.contains("no word for it")), "{events:#?}");
    bench.prompt(&session, "hello").await.unwrap();
    bench.wait(&session, Status::Running).await;
    assert_eq!(bench.text(&session).await, "got hello");
    bench.supervisor.stop(&session.spec.id, StopMode::Now).await.unwrap();
}

/// Returns whether a process runs, and is not merely waiting to be reaped.
fn runs(pid: u32) -> bool {
    shim::proc_table::find(pid as i32).is_some_and(|process| !process.is_zombie)
}

async fn until_gone(pid: u32) {
    let waiting = async {
        while runs(pid) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("it ends in time");
}

#[tokio::test]
async fn an_agent_whose_shim_was_taken_over_is_ended() {
    let bench = Bench::new().await;
    let session = bench.create(ECHO).await.unwrap();
    let dir = bench.folder.path().join("agents").join(format!("{}.1", session.spec.id));
    let _thief = AgentLink::attach(&dir, Position::START, 0x7000_0000_0000_0000).await.unwrap();
    let failed = bench.wait(&session, Status::Failed).await;
    assert!(failed.state.error.contains("took control"), "{}", failed.state.error);
    until_gone(session.state.pid).await;
    assert_eq!(std::fs::read_dir(bench.folder.path().join("agents")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_stop_of_everything_ends_what_was_taken_from_the_daemon() {
    let bench = Bench::new().await;
    let session = bench.create(ECHO).await.unwrap();
    let pid = session.state.pid;
    // As if a later daemon had started: this one detaches from the session.
    let write = |connection: &rusqlite::Connection| {
        connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'epoch'", []).map(drop)
    };
    bench.supervisor.store().write(storage::Durability::Synced, write).await.unwrap();
    let dir = bench.folder.path().join("agents").join(format!("{}.1", session.spec.id));
    let thief = AgentLink::attach(&dir, Position::START, 0x7000_0000_0000_0000).await.unwrap();
    assert!(runs(pid));
    bench.supervisor.stop_all().await;
    until_gone(pid).await;
    drop(thief);
}

#[tokio::test]
async fn a_panic_ends_one_session_and_no_other() {
    let bench = Bench::new().await;
    let healthy = bench.create(ECHO).await.unwrap();
    let broken = bench.create("echo ready; read line; echo panic; read line").await.unwrap();
    bench.prompt(&broken, "go").await.unwrap();
    let failed = bench.wait(&broken, Status::Failed).await;
    assert_eq!(failed.state.error_code, Some(ErrorCode::ProviderCrashed), "{}", failed.state.error);
    bench.prompt(&healthy, "still here").await.unwrap();
    bench.wait(&healthy, Status::Running).await;
    assert_eq!(bench.text(&healthy).await, "got still here");
    bench.supervisor.stop_all().await;
}

/// Thirty megabytes are unread when the session is given up; they need not be read for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_given_up_ends_without_reading_what_its_agent_still_said() {
    const UNREAD: u64 = 300_000;
    let bench = Bench::new().await;
    let written = bench.folder.path().join("written").display().to_string();
    let line = "x".repeat(99);
    let script = format!(
        "echo ready; read line; echo 'until {written}'; echo broken; yes {line} | head -n {UNREAD}; touch {written}; \
         sleep 1000"
    );
    let session = bench.create(&script).await.unwrap();
    bench.prompt(&session, "go").await.unwrap();
    let failed = bench.wait(&session, Status::Failed).await;
    assert_eq!(failed.state.error, "OBEY-2031: it speaks in tongues");
    assert!(std::path::Path::new(&written).exists(), "not everything was written");
    let read = LINES.load(Ordering::Relaxed);
    assert!(read < UNREAD / 2, "{read} lines were read");
    // Nothing of it is left, and the session can be restarted.
    assert_eq!(std::fs::read_dir(bench.folder.path().join("agents")).unwrap().count(), 0);
}

#[tokio::test]
async fn an_agent_that_says_nothing_and_leaves_fails_the_creation_with_its_last_words() {
    let bench = Bench::new().await;
    let error = bench.create("echo no licence >&2; exit 7").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::CreateFailed);
    assert!(error.message.contains("code 7") && error.message.contains("no licence"), "{error}");
}
