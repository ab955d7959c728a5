//! The library form of the ACP surface: started and stopped by a program of one's own, over a pipe in memory.

use std::path::Path;
use std::time::Duration;

use agent_port::Providers;
use domain::{ErrorCode, ProviderKind};
use runtime::Supervisor;
use runtime::settings::{Settings, SettingsSources};
use runtime::supervisor::SupervisorOptions;
use serde_json::{Value, json};
use storage::Store;
use surface_acp::{AcpSessionDefaults, RuntimeConfig, RuntimeServer};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

const OBEY: &str = env!("CARGO_BIN_EXE_obey");

async fn supervisor(folder: &Path) -> Supervisor {
    Supervisor::new(options(folder)).await.unwrap()
}

fn options(folder: &Path) -> SupervisorOptions {
    let agents_dir = folder.join("agents");
    std::fs::create_dir_all(&agents_dir).unwrap();
    SupervisorOptions {
        store: Store::open(&folder.join("sessions.db")).unwrap(),
        providers: providers::all(&providers::ProviderOptions {
            obey_exe: OBEY.into(),
            ..Default::default()
        }),
        agents_dir,
        worktrees_dir: folder.join("worktrees"),
        offers_tools: false,
        scrubber: None,
        containment: runtime::containment::Policy::default(),
        scrub_events: false,
        shim_program: OBEY.into(),
        socket: folder.join("none.sock"),
        spool_max_bytes: 1 << 30,
        active_sessions_max: 64,
        default_mode: domain::Mode::default(),
        settings: Settings::new(SettingsSources::default()),
    }
}

struct Pipe {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    input: WriteHalf<DuplexStream>,
}

impl Pipe {
    async fn send(&mut self, message: Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn wait(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let found = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                let message: Value = serde_json::from_str(&line).unwrap();
                if wanted(&message) {
                    return message;
                }
            }
            panic!("the output has ended")
        };
        tokio::time::timeout(Duration::from_secs(30), found).await.unwrap()
    }
}

async fn serve(supervisor: &Supervisor) -> (RuntimeServer, Pipe) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (input, output) = tokio::io::split(theirs);
    let config = RuntimeConfig {
        supervisor: supervisor.clone(),
        defaults: AcpSessionDefaults { provider: ProviderKind::Scripted, ..AcpSessionDefaults::default() },
        input: Box::new(input),
        output: Box::new(output),
    };
    let server = surface_acp::start(config).await.unwrap();
    let (read, write) = tokio::io::split(ours);
    (server, Pipe { lines: BufReader::new(read).lines(), input: write })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_ready_when_it_is_started_and_stops_with_its_agents() {
    let folder = tempfile::tempdir().unwrap();
    let supervisor = supervisor(folder.path()).await;
    let (mut server, mut pipe) = serve(&supervisor).await;
    let initialize = json!({"protocolVersion": 1});
    pipe.send(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize})).await;
    pipe.wait(|message| message["result"]["protocolVersion"] == 1).await;
    let project = folder.path().join("project");
    std::fs::create_dir(&project).unwrap();
    let new = json!({"cwd": project, "mcpServers": []});
    pipe.send(json!({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": new})).await;
    let session = pipe.wait(|message| message["id"] == 2).await["result"]["sessionId"].clone();
    let text = r#"x SCRIPT: [{"ignore_term":true},{"text":"begun"},{"hang":true}]"#;
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
    pipe.send(json!({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt})).await;
    pipe.wait(|message| message["params"]["update"]["content"]["text"] == "begun").await;
    assert_eq!(supervisor.active_count(), 1);
    // Fails by itself when it takes more than the contract's 5 s.
    let stopping = tokio::spawn(async move { server.stop().await });
    let answer = pipe.wait(|message| message["id"] == 3).await;
    assert_eq!(answer["result"]["stopReason"], "cancelled");
    stopping.await.unwrap().unwrap();
    assert_eq!(supervisor.active_count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_its_provider_is_not_started() {
    let folder = tempfile::tempdir().unwrap();
    let supervisor = Supervisor::new(SupervisorOptions {
        providers: Providers::new(Vec::new()),
        ..options(folder.path())
    });
    let config = RuntimeConfig {
        supervisor: supervisor.await.unwrap(),
        defaults: AcpSessionDefaults { provider: ProviderKind::Openclaw, ..AcpSessionDefaults::default() },
        input: Box::new(tokio::io::empty()),
        output: Box::new(tokio::io::sink()),
    };
    let refused = surface_acp::start(config).await.err().unwrap();
    assert_eq!(refused.code, ErrorCode::ProviderUnsupported);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_ends_when_its_client_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let supervisor = supervisor(folder.path()).await;
    let (mut server, pipe) = serve(&supervisor).await;
    drop(pipe);
    tokio::time::timeout(Duration::from_secs(30), server.ended()).await.unwrap();
    server.stop().await.unwrap();
}
