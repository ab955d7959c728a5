//! A client of `StreamSession` for tests: starts a session, says things, and waits for what it hears.

use std::collections::HashMap;

use anyhow::{Context, Result, bail};
use e2e::clients::Clients;
use e2e::deadline::within;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;
use wire::roz::v1 as pb;
use wire::roz::v1::agent_service_client::AgentServiceClient;
use wire::roz::v1::session_request::Request as Said;
use wire::roz::v1::session_response::Response as Body;

use crate::stage::{Agent, Stage};

/// A client as most are: it takes no message above gRPC's own 4 MiB.
pub(crate) fn agents(clients: &Clients) -> AgentServiceClient<Channel> {
    AgentServiceClient::new(clients.channel.clone())
}

/// Makes an environment of the stage's project for its agent; returns its id.
pub(crate) async fn environment(stage: &Stage) -> Result<String> {
    environment_with(stage, "lab", &[]).await
}

/// The same, with further flags.
pub(crate) async fn environment_with(stage: &Stage, name: &str, flags: &[&str]) -> Result<String> {
    let project = stage.world.project().display().to_string();
    let mut args = vec!["environment", "create", name, "--dir", &project, "--provider", stage.agent.name()];
    let config = serde_json::to_string(&stage.agent.config().iter().copied().collect::<HashMap<_, _>>())?;
    args.extend(["--config", &config]);
    args.extend(flags);
    let made = stage.cli().json(&args).await?;
    Ok(made["id"].as_str().context("no id was printed")?.to_owned())
}

/// A tool that only looks.
pub(crate) fn pure(name: &str) -> pb::ToolSchema {
    tool(name, pb::ToolCategoryHint::ToolCategoryPure)
}

/// A tool that moves something.
pub(crate) fn physical(name: &str) -> pb::ToolSchema {
    tool(name, pb::ToolCategoryHint::ToolCategoryPhysical)
}

fn tool(name: &str, category: pb::ToolCategoryHint) -> pb::ToolSchema {
    pb::ToolSchema {
        name: name.into(),
        description: format!("the tool {name}"),
        category: category.into(),
        ..Default::default()
    }
}

/// A step that calls a client's tool.
pub(crate) fn call(tool: &str, input: Value) -> Value {
    json!({"tool": format!("mcp__obey__{tool}"), "input": input})
}

pub(crate) fn start(environment_id: &str) -> pb::StartSession {
    pb::StartSession { environment_id: environment_id.into(), ..Default::default() }
}

/// One side of a session.
pub(crate) struct Talk {
    said: Option<mpsc::Sender<pb::SessionRequest>>,
    responses: Streaming<pb::SessionResponse>,
    /// Everything heard so far.
    pub(crate) heard: Vec<Body>,
    pub(crate) started: pb::SessionStarted,
}

impl Talk {
    /// Starts a session with these tools in an environment of its own.
    pub(crate) async fn new(stage: &Stage, tools: Vec<pb::ToolSchema>) -> Result<Talk> {
        let environment_id = environment(stage).await?;
        Talk::start(stage, pb::StartSession { tools, ..start(&environment_id) }).await
    }

    /// Starts a session and waits for the answer.
    pub(crate) async fn start(stage: &Stage, start: pb::StartSession) -> Result<Talk> {
        let mut talk = Talk::raw(&stage.clients, vec![Said::Start(start)]).await?;
        match talk.next().await.with_context(|| stage.daemon.log())? {
            Some(Body::SessionStarted(started)) => talk.started = started,
            other => bail!("a start was answered with {other:?}\n{}", stage.daemon.log()),
        }
        Ok(talk)
    }

    /// Opens a stream and says these things first.
    pub(crate) async fn raw(clients: &Clients, first: Vec<Said>) -> Result<Talk> {
        Self::raw_once(clients, first, "").await
    }

    /// The same with a key, by which the session is created once.
    pub(crate) async fn raw_once(clients: &Clients, first: Vec<Said>, key: &str) -> Result<Talk> {
        let (said, stream) = mpsc::channel(64);
        for request in first {
            said.send(pb::SessionRequest { request: Some(request) }).await?;
        }
        let mut request = tonic::Request::new(ReceiverStream::new(stream));
        if !key.is_empty() {
            request.metadata_mut().insert("x-obey-client-key", key.parse()?);
        }
        let responses = agents(clients).stream_session(request).await?.into_inner();
        Ok(Talk { said: Some(said), responses, heard: Vec::new(), started: Default::default() })
    }

    pub(crate) fn session(&self) -> &str {
        &self.started.session_id
    }

    pub(crate) async fn say(&self, request: Said) -> Result<()> {
        let said = self.said.as_ref().context("this client says no more")?;
        Ok(said.send(pb::SessionRequest { request: Some(request) }).await?)
    }

    /// Says a message with this id.
    pub(crate) async fn prompt(&self, id: &str, text: &str) -> Result<()> {
        let message_id = Some(id.into());
        self.say(Said::UserMessage(pb::UserMessage {
            content: text.into(),
            message_id,
            ..Default::default()
        }))
        .await
    }

    /// Returns a tool's result.
    pub(crate) async fn result(&self, id: &str, success: bool, text: &str) -> Result<()> {
        let result =
            pb::ToolResult { tool_call_id: id.into(), success, result: text.into(), ..Default::default() };
        self.say(Said::ToolResult(result)).await
    }

    pub(crate) async fn decide(&self, id: &str, approved: bool) -> Result<()> {
        self.say(Said::PermissionDecision(pb::PermissionDecision { tool_call_id: id.into(), approved })).await
    }

    /// Says no more.
    pub(crate) fn hush(&mut self) {
        self.said = None;
    }

    /// Returns the next message; nothing when the stream has ended.
    pub(crate) async fn next(&mut self) -> Result<Option<Body>> {
        let next = within("a message", self.responses.next()).await;
        let message = next.with_context(|| format!("heard so far: {:#?}", self.heard))?.transpose()?;
        let body = message.and_then(|message| message.response);
        self.heard.extend(body.clone());
        Ok(body)
    }

    /// Waits for a message and returns what it holds.
    pub(crate) async fn until<T>(&mut self, what: &str, wanted: impl Fn(&Body) -> Option<T>) -> Result<T> {
        while let Some(body) = self.next().await? {
            if let Some(found) = wanted(&body) {
                return Ok(found);
            }
        }
        bail!("the stream ended before {what}: {:#?}", self.heard)
    }

    /// Waits for the end of the turn; returns it and everything heard since the call.
    pub(crate) async fn turn(&mut self) -> Result<(pb::TurnComplete, Vec<Body>)> {
        let from = self.heard.len();
        let end = self
            .until("the end of the turn", |body| match body {
                Body::TurnComplete(end) => Some(end.clone()),
                _ => None,
            })
            .await?;
        Ok((end, self.heard[from..].to_vec()))
    }

    pub(crate) async fn tool_request(&mut self) -> Result<pb::ToolRequest> {
        self.until("a tool request", |body| match body {
            Body::ToolRequest(request) => Some(request.clone()),
            _ => None,
        })
        .await
    }

    pub(crate) async fn error(&mut self) -> Result<pb::SessionError> {
        self.until("an error", |body| match body {
            Body::Error(error) => Some(error.clone()),
            _ => None,
        })
        .await
    }

    /// Waits until an approval is awaited; returns the id of its call.
    pub(crate) async fn approval(&mut self) -> Result<String> {
        self.until("an approval", |body| match body {
            Body::ActivityUpdate(update) if update.state == "waiting_approval" => Some(update.detail.clone()),
            _ => None,
        })
        .await
    }

    pub(crate) async fn pong(&mut self) -> Result<()> {
        self.say(Said::Ping(pb::Ping {})).await?;
        self.until("a pong", |body| matches!(body, Body::Pong(_)).then_some(())).await
    }

    /// Reads to the end of the stream.
    pub(crate) async fn rest(&mut self) -> Result<()> {
        while self.next().await?.is_some() {}
        Ok(())
    }
}

/// All text among the messages.
pub(crate) fn text(heard: &[Body]) -> String {
    let delta = |body: &Body| match body {
        Body::TextDelta(delta) => Some(delta.content.clone()),
        _ => None,
    };
    heard.iter().filter_map(delta).collect()
}

/// What the agent was seen doing, one word each.
pub(crate) fn activities(heard: &[Body]) -> Vec<String> {
    let activity = |body: &Body| match body {
        Body::ActivityUpdate(update) => Some(update.state.clone()),
        _ => None,
    };
    heard.iter().filter_map(activity).collect()
}

/// Waits until the journal says that a call of this tool has finished; returns whether it went well, and its output.
pub(crate) async fn finished(stage: &Stage, session: &str, tool: &str) -> Result<(bool, String)> {
    let event = stage.wait_for(session, "tool_finished", |event| event["tool"] == tool).await?;
    Ok((event["ok"] == true, event["output"].as_str().unwrap_or_default().to_owned()))
}

/// Whether this agent's model searches for tools instead of being sent all of them.
pub(crate) fn searches_tools(agent: Agent) -> bool {
    agent == Agent::Codex
}

/// Whether this agent reads its tools again when they change; `codex-acp` keeps those it began with.
pub(crate) fn heeds_changes(agent: Agent) -> bool {
    agent != Agent::Acp
}

/// Has the user's own settings deny these tools.
pub(crate) fn deny(stage: &Stage, tools: &[&str]) -> Result<()> {
    let folder = stage.world.path("config/betcode");
    std::fs::create_dir_all(&folder)?;
    let settings = json!({"permissions": {"deny": tools}});
    Ok(std::fs::write(folder.join("settings.json"), settings.to_string())?)
}
