//! Clauses of the gRPC interfaces that need no agent and change nothing: answers to what is unknown, wrong or only asks.

use std::time::Duration;

use client::connection::Client;
use tokio_stream::StreamExt as _;
use tonic::{Code, Status};
use wire::betcode::v1 as betcode;
use wire::betcode::v1::agent_event::Event as BetcodeEvent;
use wire::betcode::v1::agent_request::Request as BetcodeRequest;
use wire::betcode::v1::agent_service_client::AgentServiceClient as BetcodeClient;
use wire::obey::local::v1 as local;
use wire::roz::v1 as roz;
use wire::roz::v1::agent_service_client::AgentServiceClient as RozClient;
use wire::roz::v1::session_request::Request as RozRequest;
use wire::roz::v1::session_response::Response as RozResponse;
use wire::roz::v1::task_service_client::TaskServiceClient;

use super::clauses::Verdict;

/// An id that no session has.
const UNKNOWN_SESSION: &str = "sess_01AAAAAAAAAAAAAAAAAAAAAAAA";
/// An id that no task and no environment has.
const UNKNOWN_UUID: &str = "00000000-0000-4000-8000-000000000000";

/// How long a daemon may take for one clause.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

/// Why a clause does not hold.
pub(super) enum Failing {
    Status(Status),
    Seen(String),
}

impl From<Status> for Failing {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

pub(super) type Outcome = Result<(), Failing>;

/// Checks a clause; none if it is not one of these.
pub(super) async fn check(id: &str, client: &Client) -> Option<Verdict> {
    let outcome = tokio::time::timeout(ANSWER_WAIT, outcome(id, client)).await;
    let silent = || Some(Err(Failing::Seen(format!("no answer within {} s", ANSWER_WAIT.as_secs()))));
    Some(Verdict::of(outcome.unwrap_or_else(|_| silent())?))
}

impl Verdict {
    pub(super) fn of(outcome: Outcome) -> Self {
        match outcome {
            Ok(()) => Self::Held,
            Err(Failing::Status(status)) if status.code() == Code::Unimplemented => {
                Self::Skipped("the daemon does not serve this interface")
            }
            Err(Failing::Status(status)) => Self::Failed(status.to_string()),
            Err(Failing::Seen(seen)) => Self::Failed(seen),
        }
    }
}

async fn outcome(id: &str, client: &Client) -> Option<Outcome> {
    Some(match id {
        "L-10" => client.daemon().ping(local::PingRequest::default()).await.map(drop).map_err(Failing::from),
        "L-11" => {
            client.daemon().get_state(local::StateRequest::default()).await.map(drop).map_err(Failing::from)
        }
        "L-20" => campaign_is_needed(client).await,
        "L-40" => {
            let request = local::GetSessionRequest { session_id: UNKNOWN_SESSION.to_owned() };
            refused(client.daemon().get_session(request).await, "OBEY-2010")
        }
        "L-43" => {
            let request = local::ListSessionsRequest::default();
            client.daemon().list_sessions(request).await.map(drop).map_err(Failing::from)
        }
        "L-50" => {
            let (session_id, message) = (UNKNOWN_SESSION.to_owned(), "hello".to_owned());
            let request = local::SendMessageRequest { session_id, message };
            refused(client.daemon().send_message(request).await, "OBEY-2010")
        }
        "L-78" => {
            let session_id = UNKNOWN_SESSION.to_owned();
            let request = local::StopSessionRequest { session_id, ..Default::default() };
            refused(client.daemon().stop_session(request).await, "OBEY-2010")
        }
        "B-10" => conversation_begins_with_a_start(client).await,
        "B-30" => pages(client).await,
        "B-41" => conversation_is_unknown(client).await,
        "Z-01" | "Z-15" => before_a_start(client, id).await,
        "Z-03" => environment_is_unknown(client).await,
        "Z-54" => task_is_unknown(client).await,
        _ => return None,
    })
}

/// Requires a refusal with a code.
pub(super) fn refused<T>(answer: Result<T, Status>, code: &str) -> Outcome {
    match answer {
        Err(status) if status.message().contains(code) => Ok(()),
        Err(status) => Err(status.into()),
        Ok(_) => Err(Failing::Seen(format!("it was answered, not refused with {code}"))),
    }
}

/// Requires a refusal with a status.
fn refused_as<T>(answer: Result<T, Status>, code: Code) -> Outcome {
    match answer {
        Err(status) if status.code() == code => Ok(()),
        Err(status) => Err(status.into()),
        Ok(_) => Err(Failing::Seen(format!("it was answered, not refused as {code:?}"))),
    }
}

async fn campaign_is_needed(client: &Client) -> Outcome {
    for (campaign, code) in [("", "OBEY-1001"), ("conformance-unknown", "OBEY-2001")] {
        let request = local::CreateSessionRequest {
            campaign_id: campaign.to_owned(),
            provider: local::SessionProvider::ClaudeCode.into(),
            ..Default::default()
        };
        refused(client.daemon().create_session(request).await, code)?;
    }
    Ok(())
}

async fn conversation_begins_with_a_start(client: &Client) -> Outcome {
    let message = betcode::UserMessage { content: "hello".to_owned(), ..Default::default() };
    let request = betcode::AgentRequest { request: Some(BetcodeRequest::Message(message)) };
    let mut events =
        BetcodeClient::new(client.channel()).converse(tokio_stream::once(request)).await?.into_inner();
    let first = events.next().await.ok_or_else(|| Failing::Seen("the stream ended".to_owned()))??;
    match first.event {
        Some(BetcodeEvent::Error(error)) if error.is_fatal => Ok(()),
        other => Err(Failing::Seen(format!("not a fatal error: {other:?}"))),
    }
}

async fn pages(client: &Client) -> Outcome {
    let request = betcode::ListSessionsRequest { limit: 1, ..Default::default() };
    let page = BetcodeClient::new(client.channel()).list_sessions(request).await?.into_inner();
    let (listed, total) = (page.sessions.len(), page.total);
    if listed > 1 || (listed == 0) != (total == 0) {
        return Err(Failing::Seen(format!("a page of one has {listed} of {total} sessions")));
    }
    Ok(())
}

async fn conversation_is_unknown(client: &Client) -> Outcome {
    let session_id = || UNKNOWN_SESSION.to_owned();
    let mut agent = BetcodeClient::new(client.channel());
    refused_as(
        agent.cancel_turn(betcode::CancelTurnRequest { session_id: session_id() }).await,
        Code::NotFound,
    )?;
    let request = betcode::ResumeSessionRequest { session_id: session_id(), from_sequence: 0 };
    refused_as(agent.resume_session(request).await, Code::NotFound)
}

/// Sends one message to a new stream and returns its first answer.
async fn first_answer(client: &Client, request: RozRequest) -> Result<RozResponse, Failing> {
    let request = roz::SessionRequest { request: Some(request) };
    // The sending half stays open: its end would be the end of the session.
    let requests = tokio_stream::once(request).chain(tokio_stream::pending());
    let mut answers = RozClient::new(client.channel()).stream_session(requests).await?.into_inner();
    let answer = answers.next().await.ok_or_else(|| Failing::Seen("the stream ended".to_owned()))??;
    answer.response.ok_or_else(|| Failing::Seen("an empty answer".to_owned()))
}

async fn before_a_start(client: &Client, id: &str) -> Outcome {
    let message = roz::UserMessage { content: "hello".to_owned(), ..Default::default() };
    let request =
        if id == "Z-15" { RozRequest::Ping(roz::Ping {}) } else { RozRequest::UserMessage(message) };
    match first_answer(client, request).await? {
        RozResponse::Pong(_) if id == "Z-15" => Ok(()),
        RozResponse::Error(error) if id == "Z-01" && error.code == "no_session" => Ok(()),
        other => Err(Failing::Seen(format!("{other:?}"))),
    }
}

async fn environment_is_unknown(client: &Client) -> Outcome {
    let environment_id = UNKNOWN_UUID.to_owned();
    let start = roz::StartSession { environment_id, ..Default::default() };
    match first_answer(client, RozRequest::Start(start)).await? {
        RozResponse::Error(error) if error.code == "invalid_argument" => Ok(()),
        other => Err(Failing::Seen(format!("{other:?}"))),
    }
}

async fn task_is_unknown(client: &Client) -> Outcome {
    let mut tasks = TaskServiceClient::new(client.channel());
    for (id, code) in [("no-uuid", Code::InvalidArgument), (UNKNOWN_UUID, Code::NotFound)] {
        refused_as(tasks.get_task(roz::GetTaskRequest { id: id.to_owned() }).await, code)?;
    }
    Ok(())
}
