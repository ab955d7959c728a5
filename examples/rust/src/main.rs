//! Starts an agent, follows it, answers one permission request, and goes on after a cut.
//!
//! Run it in a folder that is registered (`obey campaign add .`). It needs no key: the agent is the built-in scripted one,
//! which does what its prompt says. For a real one, use the provider `ClaudeCode` and a prompt of your own.
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use wire::obey::local::v1::local_daemon_service_client::LocalDaemonServiceClient;
use wire::obey::local::v1::{CreateSessionRequest, SessionProvider, StopSessionRequest};
use wire::obey::v1::campaign_service_client::CampaignServiceClient;
use wire::obey::v1::event_service_client::EventServiceClient;
use wire::obey::v1::request_service_client::RequestServiceClient;
use wire::obey::v1::turn_service_client::TurnServiceClient;
use wire::obey::v1::{
    AnswerPermissionRequest, Decision, ListCampaignsRequest, ListRequestsRequest, PromptRequest,
    ReadEventsRequest,
};

const PROMPT: &str = r#"List the folder. SCRIPT: [{"text":"I will list the folder. "},
    {"tool":"Bash","input":{"command":"ls"},"ask":true,"result":"README.md"},{"text":"Done: one file."}]"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let channel = connect().await?;
    let campaign_id = campaign_of_folder(channel.clone()).await?;
    let request = CreateSessionRequest {
        campaign_id,
        provider: SessionProvider::Scripted.into(),
        provider_config: [("permission_mode".to_owned(), "supervised".to_owned())].into(),
        ..Default::default()
    };
    let created = LocalDaemonServiceClient::new(channel.clone()).create_session(request).await?.into_inner();
    let session_id = created.session.context("no session")?.id;
    println!("created   {session_id}");
    let prompt = PromptRequest {
        session_id: session_id.clone(),
        text: PROMPT.to_owned(),
        // The same key with the same prompt is one prompt, however often it is sent.
        client_key: format!("example-{}", std::process::id()),
        ..Default::default()
    };
    let sent = TurnServiceClient::new(channel.clone()).prompt(prompt).await?.into_inner();
    let last = follow(channel, &session_id, sent.seq - 1, "request_opened").await?;

    // The connection is gone; the agent waits. Another process could go on from here: all it needs is the number.
    let channel = connect().await?;
    let mut requests = RequestServiceClient::new(channel.clone());
    let wanted = ListRequestsRequest { session_id: session_id.clone(), include_settled: false };
    let waiting = requests.list_requests(wanted).await?.into_inner().requests;
    let asked = waiting.first().context("nothing waits for an answer")?;
    println!("allowed   {} {}", asked.tool_name, asked.input_json);
    let answer = AnswerPermissionRequest {
        session_id: session_id.clone(),
        request_id: asked.id.clone(),
        decision: Decision::AllowOnce.into(),
        ..Default::default()
    };
    requests.answer_permission(answer).await?;
    let last = follow(channel.clone(), &session_id, last, "turn_ended").await?;
    let request = StopSessionRequest { session_id, graceful: true };
    LocalDaemonServiceClient::new(channel).stop_session(request).await?;
    println!("stopped   after event {last}");
    Ok(())
}

/// Connects to the socket of this user's daemon.
async fn connect() -> Result<Channel> {
    let socket = match (std::env::var_os("OBEY_SOCKET"), std::env::var_os("XDG_RUNTIME_DIR")) {
        (Some(socket), _) => PathBuf::from(socket),
        (None, Some(runtime)) => PathBuf::from(runtime).join("obey/daemon.sock"),
        (None, None) => bail!("set XDG_RUNTIME_DIR or OBEY_SOCKET"),
    };
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    // The address is not used; the connector decides.
    Ok(Endpoint::from_static("http://localhost").connect_with_connector(connector).await?)
}

/// Returns the id of the registered folder that contains the current one.
async fn campaign_of_folder(channel: Channel) -> Result<String> {
    let folder = std::env::current_dir()?.canonicalize()?;
    let known =
        CampaignServiceClient::new(channel).list_campaigns(ListCampaignsRequest {}).await?.into_inner();
    let found = known.campaigns.into_iter().find(|campaign| folder.starts_with(&campaign.path));
    let campaign =
        found.with_context(|| format!("register the folder: obey campaign add {}", folder.display()))?;
    Ok(campaign.id)
}

/// Follows a session after a number until an event of a type; returns the last number.
async fn follow(channel: Channel, session: &str, mut last: u64, until: &str) -> Result<u64> {
    let request = ReadEventsRequest {
        session_id: session.to_owned(),
        after_seq: last,
        follow: true,
        ..Default::default()
    };
    let mut events = EventServiceClient::new(channel).read_events(request).await?.into_inner();
    while let Some(event) = events.message().await? {
        ensure!(event.seq == last + 1, "numbers have no gaps");
        last = event.seq;
        println!("event {:3} {} {}", event.seq, event.r#type, event.json);
        if event.r#type == until {
            return Ok(last);
        }
    }
    bail!("the session ended before {until}")
}
