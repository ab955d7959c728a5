//! What every daemon scenario stands on: a world, a daemon in it, a campaign, a client, and the same few actions for
//! every agent. Knows which agents exist and how to wait for what they do; asserts nothing about any scenario.

use std::collections::HashMap;

use anyhow::{Context, Result};
use e2e::cli::Cli;
use e2e::clients::{Clients, collect, wait_event};
use e2e::daemon::Daemon;
use e2e::world::World;
use serde_json::{Value, json};
use tonic::{Status, Streaming};
use wire::obey::local::v1 as pb;
use wire::obey::v1 as own;

/// The campaign every stage has.
pub(crate) const CAMPAIGN: &str = "demo";

/// Who plays the agent. Scenarios are the same for all; what differs is said here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agent {
    Scripted,
    Claude,
    Codex,
    /// The agent inside the daemon, over the Responses API.
    Openai,
    /// The same over Chat Completions.
    OpenaiChat,
    /// `codex-acp`, as any agent that speaks the Agent Client Protocol.
    Acp,
}

impl Agent {
    pub(crate) fn provider(self) -> pb::SessionProvider {
        match self {
            Agent::Scripted => pb::SessionProvider::Scripted,
            Agent::Claude => pb::SessionProvider::ClaudeCode,
            Agent::Codex => pb::SessionProvider::Codex,
            Agent::Openai | Agent::OpenaiChat => pb::SessionProvider::OpenaiApi,
            Agent::Acp => pb::SessionProvider::Acp,
        }
    }

    /// As `--provider` takes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Agent::Scripted => "scripted",
            Agent::Claude => "claude-code",
            Agent::Codex => "codex",
            Agent::Openai | Agent::OpenaiChat => "openai-api",
            Agent::Acp => "acp",
        }
    }

    pub(crate) fn model(self) -> &'static str {
        match self {
            Agent::Scripted | Agent::Acp => "",
            Agent::Claude => "sonnet",
            Agent::Codex | Agent::Openai | Agent::OpenaiChat => "gpt-5.5",
        }
    }

    /// Whether a model stands behind it.
    pub(crate) fn is_real(self) -> bool {
        self != Agent::Scripted
    }

    /// Whether it is a process, which can be killed.
    pub(crate) fn is_process(self) -> bool {
        !matches!(self, Agent::Openai | Agent::OpenaiChat)
    }

    /// What a session of it must be configured with.
    pub(crate) fn config(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Agent::OpenaiChat => &[("wire_api", "chat")],
            Agent::Acp => &[("agent", "codex-acp")],
            _ => &[],
        }
    }

    /// Whether it tells tokens of input and output apart; some agents only say how full their window is.
    pub(crate) fn counts_tokens(self) -> bool {
        self != Agent::Acp
    }

    /// Whether it can ask its user something.
    pub(crate) fn asks_questions(self) -> bool {
        self != Agent::Acp
    }

    /// Whether its model hears of a denial within the same turn.
    pub(crate) fn goes_on_when_denied(self) -> bool {
        self != Agent::Acp
    }

    /// What it calls the tool that runs commands; scripts call it `Bash`.
    pub(crate) fn shell(self) -> &'static str {
        match self {
            Agent::Scripted | Agent::Claude | Agent::Openai | Agent::OpenaiChat | Agent::Acp => "Bash",
            Agent::Codex => "shell",
        }
    }

    /// A step that runs a command it must ask about.
    pub(crate) fn asking(self, command: &str) -> Value {
        let mut step = json!({"tool": "Bash", "input": {"command": command}, "ask": true, "result": "done"});
        if matches!(self, Agent::Codex | Agent::Acp) {
            // It reads without asking and asks about what leaves its sandbox.
            step["input"]["sandbox_permissions"] = "require_escalated".into();
            step["input"]["justification"] = "to try".into();
        }
        step
    }

    /// The conversation as its model was sent it.
    pub(crate) fn history(self, body: &Value) -> String {
        let field =
            if matches!(self, Agent::Codex | Agent::Openai | Agent::Acp) { "input" } else { "messages" };
        body[field].to_string()
    }

    fn world(self) -> Result<Option<World>> {
        match self {
            Agent::Scripted => World::new().map(Some),
            Agent::Claude => World::with_claude(),
            Agent::Codex => World::with_codex(),
            Agent::Openai | Agent::OpenaiChat => World::with_openai().map(Some),
            Agent::Acp => World::with_codex_acp(),
        }
    }
}

/// A module with one test per scenario, all with one agent.
macro_rules! scenarios_of {
    ($module:ident, $agent:ident, $($name:ident),*) => {
        mod $module {
            $(#[tokio::test] async fn $name() -> anyhow::Result<()> {
                let agent = crate::stage::Agent::$agent;
                let outcome = super::$name(agent).await;
                crate::suite::note(agent, stringify!($name), &outcome);
                outcome
            })*
        }
    };
}
pub(crate) use scenarios_of;

/// One test per scenario and agent: `scripted::<name>`, `real_claude::<name>`, `real_codex::<name>` and, with the agent
/// inside the daemon, `openai::<name>` and `openai_chat::<name>`, and `real_acp::<name>`.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        crate::stage::scenarios_of!(scripted, Scripted, $($name),*);
        crate::stage::scenarios_of!(real_claude, Claude, $($name),*);
        crate::stage::scenarios_of!(real_codex, Codex, $($name),*);
        crate::stage::scenarios_of!(openai, Openai, $($name),*);
        crate::stage::scenarios_of!(openai_chat, OpenaiChat, $($name),*);
        crate::stage::scenarios_of!(real_acp, Acp, $($name),*);
    };
}
pub(crate) use scenarios;

/// Like `scenarios!`, for agents that are processes: they can be killed, and outlive the daemon.
macro_rules! process_scenarios {
    ($($name:ident),* $(,)?) => {
        crate::stage::scenarios_of!(scripted, Scripted, $($name),*);
        crate::stage::scenarios_of!(real_claude, Claude, $($name),*);
        crate::stage::scenarios_of!(real_codex, Codex, $($name),*);
    };
}
pub(crate) use process_scenarios;

/// Opens a stage, or ends the test where the agent is absent and skipping is allowed.
macro_rules! stage {
    ($agent:expr) => {
        match crate::stage::Stage::open($agent).await? {
            Some(stage) => stage,
            None => return Ok(()),
        }
    };
}
pub(crate) use stage;

/// A running daemon with one campaign.
pub(crate) struct Stage {
    pub(crate) agent: Agent,
    pub(crate) daemon: Daemon,
    pub(crate) clients: Clients,
    /// Last, so that it outlives the daemon.
    pub(crate) world: World,
}

impl Stage {
    pub(crate) async fn open(agent: Agent) -> Result<Option<Stage>> {
        Stage::open_with(agent, |_| Ok(())).await
    }

    /// Opens a stage whose world is changed before the daemon starts.
    pub(crate) async fn open_with(
        agent: Agent,
        change: impl FnOnce(&World) -> Result<()>,
    ) -> Result<Option<Stage>> {
        let Some(world) = agent.world()? else { return Ok(None) };
        change(&world)?;
        let daemon = Daemon::start(&world).await?;
        let mut clients = daemon.clients().await?;
        let path = world.project().display().to_string();
        let campaign = own::AddCampaignRequest { path, name: CAMPAIGN.into(), ..Default::default() };
        clients.campaigns.add_campaign(campaign).await?;
        Ok(Some(Stage { agent, daemon, clients, world }))
    }

    pub(crate) fn cli(&self) -> Cli {
        Cli::new(&self.world)
    }

    /// A request for a session of this stage's agent that asks before it acts.
    pub(crate) fn new_session(&self) -> pb::CreateSessionRequest {
        let mut provider_config = HashMap::from([("permission_mode".into(), "supervised".into())]);
        for (key, value) in self.agent.config() {
            provider_config.insert((*key).into(), (*value).into());
        }
        pb::CreateSessionRequest {
            campaign_id: CAMPAIGN.into(),
            provider: self.agent.provider().into(),
            model: self.agent.model().into(),
            provider_config,
            ..Default::default()
        }
    }

    /// Creates a session that asks before it acts; returns its id.
    pub(crate) async fn create(&self) -> Result<String> {
        Ok(self.create_as(self.new_session()).await?.id)
    }

    /// Creates a session from a request.
    pub(crate) async fn create_as(&self, request: pb::CreateSessionRequest) -> Result<pb::SessionInfo> {
        let created = self.clients.local.clone().create_session(request).await;
        let created = created.with_context(|| format!("the daemon's log:\n{}", self.daemon.log()))?;
        created.into_inner().session.context("the answer names no session")
    }

    pub(crate) async fn info(&self, id: &str) -> Result<pb::SessionInfo> {
        let request = pb::GetSessionRequest { session_id: id.into() };
        Ok(self.clients.local.clone().get_session(request).await?.into_inner())
    }

    /// Sends a message and returns the stream of its turn.
    pub(crate) async fn send(
        &self,
        id: &str,
        message: &str,
    ) -> Result<Streaming<pb::SessionActivityEvent>, Status> {
        let request = pb::SendMessageRequest { session_id: id.into(), message: message.into() };
        Ok(self.clients.local.clone().send_message(request).await?.into_inner())
    }

    /// Sends a message and returns everything its turn streamed.
    pub(crate) async fn turn(&self, id: &str, message: &str) -> Result<Vec<pb::SessionActivityEvent>> {
        collect(self.send(id, message).await?).await
    }

    /// Follows the journal from its beginning.
    pub(crate) async fn follow(&self, id: &str) -> Result<Streaming<own::Event>> {
        let request = own::ReadEventsRequest { session_id: id.into(), follow: true, ..Default::default() };
        Ok(self.clients.events.clone().read_events(request).await?.into_inner())
    }

    /// The journal as it is now.
    pub(crate) async fn journal(&self, id: &str) -> Result<Vec<own::Event>> {
        let request = own::ReadEventsRequest { session_id: id.into(), ..Default::default() };
        collect(self.clients.events.clone().read_events(request).await?.into_inner()).await
    }

    /// Waits until the journal has an event of this kind whose fields fulfil the condition.
    pub(crate) async fn wait_for(
        &self,
        id: &str,
        kind: &str,
        mut wanted: impl FnMut(&Value) -> bool,
    ) -> Result<Value> {
        let mut events = self.follow(id).await?;
        let found =
            wait_event(&mut events, kind, |event| event.r#type == kind && wanted(&fields(event))).await;
        Ok(fields(&found.with_context(|| format!("the daemon's log:\n{}", self.daemon.log()))?))
    }

    /// Waits until the agent has said this much, over all its deltas.
    pub(crate) async fn wait_for_text(&self, id: &str, text: &str) -> Result<()> {
        let mut said = String::new();
        self.wait_for(id, "text_delta", |event| {
            said.push_str(event["text"].as_str().unwrap_or_default());
            said.contains(text)
        })
        .await?;
        Ok(())
    }

    /// Waits until the session had this status, such as `FAILED`.
    pub(crate) async fn wait_for_status(&self, id: &str, status: &str) -> Result<Value> {
        let is = |event: &Value| event["to"].as_str().is_some_and(|to| to.eq_ignore_ascii_case(status));
        self.wait_for(id, "status_changed", is).await
    }

    /// Waits until something waits for an answer, and returns it.
    pub(crate) async fn wait_for_request(&self, id: &str) -> Result<own::Request> {
        self.wait_for(id, "request_opened", |_| true).await?;
        let pending = self.requests(id, false).await?;
        pending.into_iter().next().context("a request was opened, but none is listed")
    }

    pub(crate) async fn requests(&self, id: &str, include_settled: bool) -> Result<Vec<own::Request>> {
        let request = own::ListRequestsRequest { session_id: id.into(), include_settled };
        Ok(self.clients.requests.clone().list_requests(request).await?.into_inner().requests)
    }

    /// Interrupts the running turn.
    pub(crate) async fn cancel(&self, id: &str) -> Result<bool> {
        let request = own::CancelTurnRequest { session_id: id.into() };
        Ok(self.clients.turns.clone().cancel_turn(request).await?.into_inner().cancelled)
    }

    pub(crate) async fn stop(&self, id: &str, graceful: bool) -> Result<pb::SessionInfo, Status> {
        let request = pb::StopSessionRequest { session_id: id.into(), graceful };
        let stopped = self.clients.local.clone().stop_session(request).await?.into_inner();
        Ok(stopped.session.unwrap_or_default())
    }

    pub(crate) async fn restart(&self, id: &str) -> Result<pb::SessionInfo> {
        let request = pb::RestartSessionRequest { session_id: id.into(), ..Default::default() };
        let restarted = self.clients.local.clone().restart_session(request).await?.into_inner();
        restarted.session.context("the answer names no session")
    }

    /// Ends everything and asserts that nothing was left behind. Every scenario ends with it.
    pub(crate) async fn close(mut self) -> Result<()> {
        let request = pb::ShutdownRequest { stop_sessions: true };
        self.clients.local.shutdown(request).await?;
        self.daemon.wait().await?;
        self.daemon.assert_no_descendants().await
    }
}

/// A prompt with a script, named by its key. A list inside the list is one reply of a model; the scripted agent has no
/// model and takes its steps one by one. Clients' tools reach the agent inside the daemon without a server between
/// them, so that they have their plain names there.
pub(crate) fn script(agent: Agent, key: &str, steps: &Value) -> String {
    let flat = |steps: &Value| -> Vec<Value> {
        let steps = steps.as_array().into_iter().flatten();
        steps.flat_map(|step| step.as_array().cloned().unwrap_or_else(|| vec![step.clone()])).collect()
    };
    match agent {
        Agent::Scripted => format!("{key} SCRIPT: {}", Value::Array(flat(steps))),
        Agent::Openai | Agent::OpenaiChat => format!("{key} SCRIPT: {steps}").replace("mcp__obey__", ""),
        _ => format!("{key} SCRIPT: {steps}"),
    }
}

/// The fields of a journal event.
pub(crate) fn fields(event: &own::Event) -> Value {
    serde_json::from_str(&event.json).unwrap_or_default()
}

/// The contents of all activities of one type, one after the other.
pub(crate) fn contents(events: &[pb::SessionActivityEvent], kind: pb::ActivityType) -> String {
    of_type(events, kind).iter().map(|event| event.content.as_str()).collect()
}

/// The activities of one type.
pub(crate) fn of_type(
    events: &[pb::SessionActivityEvent],
    kind: pb::ActivityType,
) -> Vec<&pb::SessionActivityEvent> {
    events.iter().filter(|event| event.r#type() == kind).collect()
}
