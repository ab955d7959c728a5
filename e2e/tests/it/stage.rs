//! What every daemon scenario stands on: a world, a daemon in it, a campaign, a client, and the same few actions for
//! every agent. Knows which agents exist and how to wait for what they do; asserts nothing about any scenario.

use std::collections::HashMap;

use anyhow::{Context, Result};
use e2e::cli::Cli;
use e2e::clients::{Clients, collect, wait_event};
use e2e::daemon::Daemon;
use e2e::world::World;
use serde_json::Value;
use tonic::{Status, Streaming};
use wire::obey::local::v1 as pb;
use wire::obey::v1 as own;

mod agent;

pub(crate) use agent::{Agent, server_at_gateway};

/// The campaign every stage has.
pub(crate) const CAMPAIGN: &str = "demo";

/// A module with one test per scenario, all with one agent.
macro_rules! scenarios_of {
    ($module:ident, $agent:ident, $($name:ident),*) => {
        mod $module {
            $(#[tokio::test] async fn $name() -> anyhow::Result<()> {
                super::$name(crate::stage::Agent::$agent).await
            })*
        }
    };
}
pub(crate) use scenarios_of;

/// The same with an agent that only `make test-all` fetches.
macro_rules! large_scenarios_of {
    ($module:ident, $agent:ident, $($name:ident),*) => {
        mod $module {
            $(#[tokio::test] #[ignore = "large: make test-all"] async fn $name() -> anyhow::Result<()> {
                super::$name(crate::stage::Agent::$agent).await
            })*
        }
    };
}
pub(crate) use large_scenarios_of;

/// A scenario by its name.
pub(crate) type Scenario =
    (&'static str, fn(Agent) -> std::pin::Pin<Box<dyn Future<Output = Result<()>> + Send>>);

/// A test per scenario and agent of the ordinary run.
macro_rules! usual_scenarios {
    ($($name:ident),* $(,)?) => {
        crate::stage::all_but_acp!($($name),*);
        crate::stage::scenarios_of!(real_acp, Acp, $($name),*);
    };
}
pub(crate) use usual_scenarios;

/// The same for what an ACP agent has no word for: its tests are not there, rather than passing without a look.
macro_rules! all_but_acp {
    ($($name:ident),* $(,)?) => {
        crate::stage::scenarios_of!(scripted, Scripted, $($name),*);
        crate::stage::with_models!($($name),*);
    };
}
pub(crate) use all_but_acp;

/// The same for what needs a model besides.
macro_rules! with_models {
    ($($name:ident),* $(,)?) => {
        crate::stage::scenarios_of!(real_claude, Claude, $($name),*);
        crate::stage::scenarios_of!(real_codex, Codex, $($name),*);
        crate::stage::scenarios_of!(openai, Openai, $($name),*);
        crate::stage::scenarios_of!(openai_chat, OpenaiChat, $($name),*);
    };
}
pub(crate) use with_models;

/// One test per scenario and agent: `scripted::<name>`, `real_claude::<name>`, `real_codex::<name>` and, with the agent
/// inside the daemon, `openai::<name>` and `openai_chat::<name>`, and `real_acp::<name>`. Those of `make test-all`:
/// `real_opencode`, `real_goose`, `real_gemini`, `real_claude_acp`, `real_codex_acp`.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        crate::stage::scenarios_of!(scripted, Scripted, $($name),*);
        crate::stage::served_scenarios!($($name),*);
    };
}
pub(crate) use scenarios;

/// The same without the scripted agent, for what needs a model.
macro_rules! served_scenarios {
    ($($name:ident),* $(,)?) => {
        crate::stage::with_models!($($name),*);
        crate::stage::scenarios_of!(real_acp, Acp, $($name),*);
        crate::stage::large_scenarios_of!(real_opencode, Opencode, $($name),*);
        crate::stage::large_scenarios_of!(real_goose, Goose, $($name),*);
        crate::stage::large_scenarios_of!(real_gemini, Gemini, $($name),*);
        crate::stage::large_scenarios_of!(real_claude_acp, ClaudeAcp, $($name),*);
        crate::stage::large_scenarios_of!(real_codex_acp, CodexAcp, $($name),*);

        /// The scenarios of this module, for agents that are too slow to be started for each.
        pub(super) const ALL: &[crate::stage::Scenario] = &[$((stringify!($name), |agent| Box::pin($name(agent)))),*];
    };
}
pub(crate) use served_scenarios;

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

    /// A prompt with a script that calls tools of servers, for one session.
    pub(crate) fn script(&self, session: &str, key: &str, steps: &Value) -> String {
        script(self.agent, key, &self.agent.steps(session, steps))
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
        let request = own::CancelTurnRequest { session_id: id.into(), ..Default::default() };
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

    /// Answers a permission request.
    pub(crate) async fn decide(&self, session: &str, request: &str, decision: own::Decision) -> Result<()> {
        let answer = own::AnswerPermissionRequest {
            session_id: session.to_owned(),
            request_id: request.to_owned(),
            decision: decision.into(),
            ..Default::default()
        };
        self.clients.requests.clone().answer_permission(answer).await?;
        Ok(())
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
