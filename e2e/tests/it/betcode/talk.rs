//! A client of `Converse` for tests: opens a conversation, says things, and waits for what it hears.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use e2e::clients::Clients;
use e2e::deadline::within;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;
use wire::betcode::v1 as pb;
use wire::betcode::v1::agent_event::Event as Body;
use wire::betcode::v1::agent_request::Request as Said;
use wire::betcode::v1::agent_service_client::AgentServiceClient;

use crate::stage::{Agent, Stage};

pub(crate) fn agents(clients: &Clients) -> AgentServiceClient<Channel> {
    AgentServiceClient::new(clients.channel.clone()).max_decoding_message_size(64 << 20)
}

/// A start of a new session in the stage's project.
pub(crate) fn new_start(stage: &Stage) -> pb::StartConversation {
    pb::StartConversation {
        working_directory: stage.world.project().display().to_string(),
        model: if stage.agent == Agent::Claude { "sonnet".into() } else { String::new() },
        metadata: HashMap::from([("provider".into(), stage.agent.name().into())]),
        ..Default::default()
    }
}

/// A start of a session that is there, from a number on.
pub(crate) fn again(session: &str, from: u64) -> pb::StartConversation {
    let metadata = HashMap::from([("from_sequence".into(), from.to_string())]);
    pb::StartConversation { session_id: session.into(), metadata, ..Default::default() }
}

/// One side of a conversation.
pub(crate) struct Talk {
    said: Option<mpsc::Sender<pb::AgentRequest>>,
    events: Streaming<pb::AgentEvent>,
    /// Everything heard so far.
    pub(crate) heard: Vec<pb::AgentEvent>,
    pub(crate) info: pb::SessionInfo,
}

impl Talk {
    /// Opens a new session in the stage's project.
    pub(crate) async fn new(stage: &Stage) -> Result<Talk> {
        Talk::start(&stage.clients, new_start(stage)).await
    }

    /// Opens a conversation and waits for the answer to its start.
    pub(crate) async fn start(clients: &Clients, start: pb::StartConversation) -> Result<Talk> {
        let mut talk = Talk::raw(&mut agents(clients), vec![Said::Start(start)]).await?;
        let first = talk.next().await?.context("the stream ended before it answered")?;
        let Some(Body::SessionInfo(info)) = first.event.clone() else {
            bail!("a start was answered with {first:?}");
        };
        ensure!(first.sequence == 0, "the answer to a start has a number: {first:?}");
        talk.info = info;
        Ok(talk)
    }

    /// Opens a stream and says these things first.
    pub(crate) async fn raw(agents: &mut AgentServiceClient<Channel>, first: Vec<Said>) -> Result<Talk> {
        let (said, stream) = mpsc::channel(64);
        for request in first {
            said.send(pb::AgentRequest { request: Some(request) }).await?;
        }
        let events = agents.converse(ReceiverStream::new(stream)).await?.into_inner();
        Ok(Talk { said: Some(said), events, heard: Vec::new(), info: pb::SessionInfo::default() })
    }

    pub(crate) fn session(&self) -> &str {
        &self.info.session_id
    }

    pub(crate) async fn say(&self, request: Said) -> Result<()> {
        let said = self.said.as_ref().context("this client says no more")?;
        Ok(said.send(pb::AgentRequest { request: Some(request) }).await?)
    }

    pub(crate) async fn prompt(&self, text: &str) -> Result<()> {
        self.say(Said::Message(pb::UserMessage { content: text.into(), ..Default::default() })).await
    }

    pub(crate) async fn decide(&self, request: &str, decision: pb::PermissionDecision) -> Result<()> {
        let response = pb::PermissionResponse {
            request_id: request.into(),
            decision: decision.into(),
            ..Default::default()
        };
        self.say(Said::Permission(response)).await
    }

    /// Says no more.
    pub(crate) fn hush(&mut self) {
        self.said = None;
    }

    /// Returns the next event; nothing when the stream has ended.
    pub(crate) async fn next(&mut self) -> Result<Option<pb::AgentEvent>> {
        let next = within("an event", self.events.next()).await;
        let event = next.with_context(|| format!("heard so far: {:#?}", self.heard))?.transpose()?;
        self.heard.extend(event.clone());
        Ok(event)
    }

    /// Waits for an event; returns it.
    pub(crate) async fn until(
        &mut self,
        what: &str,
        wanted: impl Fn(&Body) -> bool,
    ) -> Result<pb::AgentEvent> {
        while let Some(event) = self.next().await? {
            if event.event.as_ref().is_some_and(&wanted) {
                return Ok(event);
            }
        }
        bail!("the stream ended before {what}: {:#?}", self.heard)
    }

    /// Waits for the end of the turn; returns everything heard since the call, the end included.
    pub(crate) async fn turn(&mut self) -> Result<Vec<pb::AgentEvent>> {
        let from = self.heard.len();
        self.until("the end of the turn", |body| matches!(body, Body::TurnComplete(_))).await?;
        Ok(self.heard[from..].to_vec())
    }

    /// Waits for a permission to be asked.
    pub(crate) async fn permission(&mut self) -> Result<pb::PermissionRequest> {
        let asked = self.until("a permission", |body| matches!(body, Body::PermissionRequest(_))).await?;
        match asked.event {
            Some(Body::PermissionRequest(request)) => Ok(request),
            other => bail!("{other:?} is no permission"),
        }
    }

    /// Waits for an error.
    pub(crate) async fn error(&mut self) -> Result<pb::ErrorEvent> {
        let event = self.until("an error", |body| matches!(body, Body::Error(_))).await?;
        match event.event {
            Some(Body::Error(error)) => {
                ensure!(event.sequence == 0, "an answer to this client alone has a number: {error:?}");
                Ok(error)
            }
            other => bail!("{other:?} is no error"),
        }
    }

    /// Reads to the end of the stream.
    pub(crate) async fn rest(&mut self) -> Result<()> {
        while self.next().await?.is_some() {}
        Ok(())
    }

    /// The largest number heard.
    pub(crate) fn last(&self) -> u64 {
        self.heard.iter().map(|event| event.sequence).max().unwrap_or(0)
    }
}

/// All text among the events.
pub(crate) fn text(events: &[pb::AgentEvent]) -> String {
    let delta = |event: &pb::AgentEvent| match &event.event {
        Some(Body::TextDelta(delta)) => Some(delta.text.clone()),
        _ => None,
    };
    events.iter().filter_map(delta).collect()
}

/// The prompts among the events.
pub(crate) fn prompts(events: &[pb::AgentEvent]) -> Vec<String> {
    let prompt = |event: &pb::AgentEvent| match &event.event {
        Some(Body::UserInput(input)) => Some(input.content.clone()),
        _ => None,
    };
    events.iter().filter_map(prompt).collect()
}

pub(crate) fn results(events: &[pb::AgentEvent]) -> Vec<pb::ToolCallResult> {
    let result = |event: &pb::AgentEvent| match &event.event {
        Some(Body::ToolCallResult(result)) => Some(result.clone()),
        _ => None,
    };
    events.iter().filter_map(result).collect()
}

/// Why the last turn among the events ended.
pub(crate) fn stop_reason(events: &[pb::AgentEvent]) -> String {
    let end = |event: &pb::AgentEvent| match &event.event {
        Some(Body::TurnComplete(end)) => Some(end.stop_reason.clone()),
        _ => None,
    };
    events.iter().rev().find_map(end).unwrap_or_default()
}

/// The events that have a number, as they would be stored.
pub(crate) fn numbered(events: &[pb::AgentEvent]) -> Vec<pb::AgentEvent> {
    events.iter().filter(|event| event.sequence > 0).cloned().collect()
}

/// Everything after a number as `ResumeSession` replays it.
pub(crate) async fn replayed(clients: &Clients, session: &str, from: u64) -> Result<Vec<pb::AgentEvent>> {
    let request = pb::ResumeSessionRequest { session_id: session.into(), from_sequence: from };
    e2e::clients::collect(agents(clients).resume_session(request).await?.into_inner()).await
}

/// Everything stored after a number: what is replayed, without what it says of requests that were settled since.
pub(crate) async fn stored(clients: &Clients, session: &str, from: u64) -> Result<Vec<pb::AgentEvent>> {
    let mut events = replayed(clients, session, from).await?;
    for event in &mut events {
        let (text, settled) = match &mut event.event {
            Some(Body::PermissionRequest(request)) => (&mut request.description, &mut request.settled),
            Some(Body::UserQuestion(question)) => (&mut question.question, &mut question.settled),
            _ => continue,
        };
        let mark = format!(" [settled: {settled}]");
        *text = text.strip_suffix(mark.as_str()).unwrap_or(text).to_owned();
        settled.clear();
    }
    Ok(events)
}

pub(crate) fn assert_increasing(events: &[pb::AgentEvent]) {
    let numbers: Vec<u64> = numbered(events).iter().map(|event| event.sequence).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "numbers go back or repeat: {numbers:?}");
}

/// What the agent sent to the model for a prompt, all requests together.
pub(crate) fn asked_model(stage: &Stage, key: &str) -> String {
    stage.world.model().requests_for(key).iter().map(|request| request.body.to_string()).collect()
}
