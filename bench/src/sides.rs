//! The sides of a comparison: each runs the same stub agent and lets a client read what it says. Ours through gRPC and through
//! `obey acp`, a rival through its own interface, and the agent alone at a pipe.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::model_server::stamp;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tonic::Streaming;
use wire::obey::local::v1 as local;
use wire::obey::v1 as pb;

use crate::daemon::Home;
use crate::emitter::Script;
use crate::peer::Peer;
use crate::rivals::AcpSession;
use crate::tokens::{Tokens, read_until};

/// The line that ends a turn of the Agent Client Protocol.
pub(crate) const ACP_END: &[u8] = b"\"stopReason\"";

/// A client that runs turns of one session and reads them.
pub(crate) trait Side {
    fn turn(&mut self, script: &Script) -> Result<Tokens>;
}

/// The configuration by which a session runs the stub agent.
fn stub_config() -> Result<Value> {
    Ok(json!({"command": format!("{} acp-agent", std::env::current_exe()?.display())}))
}

/// A client of `ReadEvents` with a connection of its own.
pub(crate) struct GrpcSide {
    runtime: Runtime,
    peer: Peer,
    session: String,
    events: Streaming<pb::Event>,
}

impl GrpcSide {
    /// Creates a session with the stub agent and follows it.
    pub(crate) fn open(home: &Home, campaign: &str) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let config = stub_config()?;
        let command = config["command"].as_str().unwrap_or_default().to_owned();
        let (peer, session, events) = runtime.block_on(async {
            let peer = home.peer().await?;
            let request = local::CreateSessionRequest {
                campaign_id: campaign.to_owned(),
                provider: local::SessionProvider::Acp.into(),
                provider_config: [("command".to_owned(), command)].into(),
                ..local::CreateSessionRequest::default()
            };
            let created = peer.daemon.clone().create_session(request).await?.into_inner();
            let session = created.session.context("no session")?.id;
            let events = peer.follow(&session, 0).await?;
            anyhow::Ok((peer, session, events))
        })?;
        Ok(Self { runtime, peer, session, events })
    }

    /// Another reader of the same session, with a connection of its own.
    pub(crate) fn beside(&self, home: &Home) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let session = self.session.clone();
        let (peer, events) = runtime.block_on(async {
            let peer = home.peer().await?;
            let events = peer.follow(&session, 0).await?;
            anyhow::Ok((peer, events))
        })?;
        Ok(Self { runtime, peer, session, events })
    }

    pub(crate) fn prompt(&mut self, script: &Script) -> Result<()> {
        self.runtime.block_on(self.peer.prompt(&self.session, script.prompt()))
    }

    /// Reads to the end of the running turn.
    pub(crate) fn read(&mut self) -> Result<Tokens> {
        let events = &mut self.events;
        self.runtime.block_on(async {
            let mut tokens = Tokens::default();
            loop {
                let event = events.message().await?.context("the stream ended")?;
                match event.r#type.as_str() {
                    "text_delta" => tokens.take(event.json.as_bytes(), stamp::now_ns()),
                    "turn_ended" => return Ok(tokens),
                    _ => {}
                }
            }
        })
    }

    /// Ends the session and its agent.
    pub(crate) fn stop(mut self) -> Result<()> {
        let request = local::StopSessionRequest { session_id: self.session.clone(), graceful: false };
        self.runtime.block_on(self.peer.daemon.stop_session(request))?;
        Ok(())
    }
}

impl Side for GrpcSide {
    fn turn(&mut self, script: &Script) -> Result<Tokens> {
        self.prompt(script)?;
        self.read()
    }
}

/// A program that speaks the Agent Client Protocol at a pipe: `obey acp`, or the stub agent alone.
pub(crate) struct PipeSide {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    asked: u64,
    session: String,
}

impl PipeSide {
    pub(crate) fn alone(folder: &Path) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("acp-agent");
        Self::open(command, folder)
    }

    pub(crate) fn obey_acp(home: &Home) -> Result<Self> {
        Self::open(home.acp_with(&stub_config()?), &home.project())
    }

    fn open(mut command: Command, folder: &Path) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let stdin = child.stdin.take().context("no stdin")?;
        let stdout = BufReader::with_capacity(1 << 18, child.stdout.take().context("no stdout")?);
        let mut side = Self { child, stdin, stdout, asked: 0, session: String::new() };
        side.call("initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}}))?;
        let opened = side.call("session/new", &json!({"cwd": folder, "mcpServers": []}))?;
        side.session = opened["sessionId"].as_str().context("no session")?.to_owned();
        Ok(side)
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<u64> {
        self.asked += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params});
        self.stdin.write_all(format!("{message}\n").as_bytes())?;
        Ok(self.asked)
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        let id = self.ask(method, params)?;
        loop {
            let mut line = String::new();
            ensure!(self.stdout.read_line(&mut line)? > 0, "{method}: the output has ended");
            let message: Value = serde_json::from_str(&line)?;
            if message["id"] == id && message.get("method").is_none() {
                ensure!(message.get("error").is_none(), "{method}: {message}");
                return Ok(message["result"].clone());
            }
        }
    }
}

impl Side for PipeSide {
    fn turn(&mut self, script: &Script) -> Result<Tokens> {
        let prompt = json!([{"type": "text", "text": script.prompt()}]);
        self.ask("session/prompt", &json!({"sessionId": self.session, "prompt": prompt}))?;
        read_until(&mut self.stdout, ACP_END)
    }
}

impl Drop for PipeSide {
    fn drop(&mut self) {
        // An error means that it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A reader of a rival's stream of events.
pub(crate) struct RivalSide {
    session: AcpSession,
    stream: TcpStream,
}

impl RivalSide {
    pub(crate) fn open(session: AcpSession) -> Result<Self> {
        let stream = session.follow()?;
        Ok(Self { session, stream })
    }

    pub(crate) fn prompt(&mut self, script: &Script) {
        // Its answer is in the stream as well.
        drop(self.session.prompt(script.prompt()));
    }

    pub(crate) fn read(&mut self) -> Result<Tokens> {
        read_until(&mut self.stream, ACP_END)
    }

    pub(crate) fn session(&self) -> &AcpSession {
        &self.session
    }
}

impl Side for RivalSide {
    fn turn(&mut self, script: &Script) -> Result<Tokens> {
        self.prompt(script);
        self.read()
    }
}
