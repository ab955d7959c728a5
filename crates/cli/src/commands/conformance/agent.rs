//! Clauses that need an agent. They are checked with the scripted one, which plays what its prompt says and needs neither a
//! model nor a key, where the daemon offers it. What is made for them (a campaign, sessions) is removed by [`AgentProbe::end`].

use std::path::Path;
use std::time::Duration;

use client::connection::Client;
use tokio_stream::StreamExt as _;
use tonic::Status;
use wire::betcode::v1 as betcode;
use wire::betcode::v1::agent_event::Event as BetcodeEvent;
use wire::betcode::v1::agent_request::Request as BetcodeRequest;
use wire::betcode::v1::agent_service_client::AgentServiceClient as BetcodeClient;
use wire::obey::local::v1 as local;

use super::clauses::Verdict;
use super::grpc::{Failing, Outcome, refused};

pub(super) const NO_AGENT: &str = "the daemon offers no scripted agent";

/// What the agent plays: words before a call, the call, and an answer of two parts with what it cost.
pub(super) const SCRIPT: &str = r#"SCRIPT: [{"text": "I look. "}, {"tool": "Bash", "input": {"command": "ls"}, "result": "a.txt"},
    {"usage": {"input_tokens": 30, "output_tokens": 12}}, {"text": "There is "}, {"text": "one file."}]"#;
const WORDS: &str = "I look. ";
pub(super) const ANSWER: &str = "There is one file.";

/// How long a daemon may take for one clause; some start an agent.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// The session that the clauses are checked with.
#[derive(Default)]
pub(super) struct AgentProbe {
    campaign: String,
    session: String,
    /// The turn that was heard.
    heard: Vec<local::SessionActivityEvent>,
    /// Conversations of `betcode.v1`.
    conversations: Vec<String>,
    is_missing: bool,
}

fn seen(what: impl std::fmt::Debug) -> Failing {
    Failing::Seen(format!("{what:?}").chars().take(300).collect())
}

fn require(condition: bool, what: impl std::fmt::Debug) -> Outcome {
    if condition { Ok(()) } else { Err(seen(what)) }
}

impl AgentProbe {
    /// Checks a clause; none if it is not one of these.
    pub(super) async fn check(&mut self, id: &str, client: &Client, project: &Path) -> Option<Verdict> {
        let outcome = tokio::time::timeout(ANSWER_WAIT, self.outcome(id, client, project)).await;
        let silent = || Some(Err(Failing::Seen(format!("no answer within {} s", ANSWER_WAIT.as_secs()))));
        let outcome = outcome.unwrap_or_else(|_| silent())?;
        if self.is_missing {
            return Some(Verdict::Skipped(NO_AGENT));
        }
        Some(Verdict::of(outcome))
    }

    async fn outcome(&mut self, id: &str, client: &Client, project: &Path) -> Option<Outcome> {
        Some(match id {
            "L-07" => self.report_campaign(client, project).await,
            "L-34" => self.create(client).await,
            _ if self.is_missing => Ok(()),
            "L-53" => self.listen(client).await,
            "L-55" => self.completion(),
            "L-56" => self.calls(),
            "L-41" => self.numbers(client).await,
            "L-64" => {
                let request =
                    local::SendMessageRequest { session_id: self.session.clone(), message: String::new() };
                refused(client.daemon().send_message(request).await, "OBEY-1001")
            }
            "L-77" => self.stop(client).await,
            "L-51" => {
                let request = local::SendMessageRequest {
                    session_id: self.session.clone(),
                    message: "hello".to_owned(),
                };
                refused(client.daemon().send_message(request).await, "OBEY-2011")
            }
            "L-79" => {
                let request = local::StopSessionRequest { session_id: self.session.clone(), graceful: false };
                refused(client.daemon().stop_session(request).await, "OBEY-2020")
            }
            "B-13" | "B-16" => self.converse(id, client, project).await,
            _ => return None,
        })
    }

    /// Whether the daemon has no scripted agent.
    pub(super) fn is_missing(&self) -> bool {
        self.is_missing
    }

    async fn report(
        &self,
        client: &Client,
        kind: local::CampaignEventType,
        path: String,
    ) -> Result<local::EventResponse, Status> {
        let request = local::CampaignEventRequest {
            campaign_id: self.campaign.clone(),
            r#type: kind.into(),
            path,
            source: "conformance".to_owned(),
            ..Default::default()
        };
        Ok(client.daemon().report_campaign_event(request).await?.into_inner())
    }

    async fn report_campaign(&mut self, client: &Client, project: &Path) -> Outcome {
        self.campaign = format!("conformance-{}", host::new_session_id());
        self.report(client, local::CampaignEventType::Created, project.display().to_string()).await?;
        Ok(())
    }

    async fn create(&mut self, client: &Client) -> Outcome {
        let request = local::CreateSessionRequest {
            campaign_id: self.campaign.clone(),
            provider: local::SessionProvider::Scripted.into(),
            ..Default::default()
        };
        let made = match client.daemon().create_session(request).await {
            Ok(made) => made.into_inner().session.unwrap_or_default(),
            Err(status) if ["OBEY-2002", "OBEY-2004"].iter().any(|code| status.message().contains(code)) => {
                self.is_missing = true;
                return Ok(());
            }
            Err(status) => return Err(status.into()),
        };
        self.session.clone_from(&made.id);
        let is_running = made.status() == local::SessionStatus::Running && made.started_at.is_some();
        require(is_running && made.campaign_id == self.campaign && made.id.starts_with("sess_"), &made)
    }

    /// Hears a turn to its end.
    async fn listen(&mut self, client: &Client) -> Outcome {
        let (session_id, message) = (self.session.clone(), SCRIPT.to_owned());
        let request = local::SendMessageRequest { session_id, message };
        let mut events = client.daemon().send_message(request).await?.into_inner();
        while let Some(event) = events.next().await {
            self.heard.push(event?);
        }
        require(self.heard.len() > 3, &self.heard)
    }

    fn completion(&self) -> Outcome {
        let kinds = self.heard.iter().filter(|event| event.r#type() == local::ActivityType::Completion);
        let last = self.heard.last().cloned().unwrap_or_default();
        let tokens = (last.tokens_input, last.tokens_output);
        require(kinds.count() == 1 && last.content == ANSWER && tokens == (30, 12), &last)
    }

    fn calls(&self) -> Outcome {
        let of = |kind| self.heard.iter().find(|event| event.r#type() == kind);
        let (call, result) = (of(local::ActivityType::ToolCall), of(local::ActivityType::ToolResult));
        let (Some(call), Some(result)) = (call, result) else { return Err(seen(&self.heard)) };
        let is_same = !call.tool_call_id.is_empty() && call.tool_call_id == result.tool_call_id;
        require(
            is_same && call.tool_name == "Bash" && result.tool_success && result.content == "a.txt",
            result,
        )
    }

    async fn numbers(&self, client: &Client) -> Outcome {
        let request = local::GetSessionRequest { session_id: self.session.clone() };
        let found = client.daemon().get_session(request).await?.into_inner();
        let tokens = (found.tokens_input, found.tokens_output);
        require(tokens == (30, 12) && found.status() == local::SessionStatus::Running, &found)
    }

    async fn stop(&self, client: &Client) -> Outcome {
        let request = local::StopSessionRequest { session_id: self.session.clone(), graceful: true };
        let found = client.daemon().stop_session(request).await?.into_inner().session.unwrap_or_default();
        require(found.status() == local::SessionStatus::Stopped && found.ended_at.is_some(), &found)
    }

    /// A conversation: its start is answered, and a message is a turn.
    async fn converse(&mut self, id: &str, client: &Client, project: &Path) -> Outcome {
        let start = betcode::StartConversation {
            working_directory: project.display().to_string(),
            metadata: [("provider".to_owned(), "scripted".to_owned())].into(),
            ..Default::default()
        };
        let message = betcode::UserMessage { content: SCRIPT.to_owned(), ..Default::default() };
        let mut said = vec![BetcodeRequest::Start(start)];
        said.extend((id == "B-16").then_some(BetcodeRequest::Message(message)));
        let said = said.into_iter().map(|request| betcode::AgentRequest { request: Some(request) });
        // The sending half stays open: its end would be that of the conversation.
        let said = tokio_stream::iter(said.collect::<Vec<_>>()).chain(tokio_stream::pending());
        let mut events = BetcodeClient::new(client.channel()).converse(said).await?.into_inner();
        let first = events.next().await.ok_or_else(|| seen("the stream ended"))??;
        let Some(BetcodeEvent::SessionInfo(info)) = first.event else { return Err(seen(first)) };
        require(!info.session_id.is_empty(), &info)?;
        self.conversations.push(info.session_id);
        let mut text = String::new();
        let mut is_over = id != "B-16";
        while !is_over {
            match events.next().await.ok_or_else(|| seen("the stream ended"))??.event {
                Some(BetcodeEvent::TextDelta(delta)) => text.push_str(&delta.text),
                other => is_over = matches!(other, Some(BetcodeEvent::TurnComplete(_))),
            }
        }
        require(id != "B-16" || text == format!("{WORDS}{ANSWER}"), &text)
    }

    /// Removes what was made, and sessions that others made.
    pub(super) async fn end(&mut self, client: &Client, others: &[String]) {
        let own = self.conversations.iter().chain(others);
        let own = own.chain([&self.session]).filter(|session| !session.is_empty());
        for session_id in own {
            let request = local::StopSessionRequest { session_id: session_id.clone(), graceful: false };
            // Most have ended, or never had an agent.
            let _ended = client.daemon().stop_session(request).await;
            // Where the daemon can forget a session, it does.
            let request = wire::obey::v1::RemoveSessionRequest { session_id: session_id.clone() };
            let _kept = client.session_operations().remove(request).await;
        }
        if !self.campaign.is_empty() {
            let _gone = self.report(client, local::CampaignEventType::Deleted, String::new()).await;
        }
    }
}
