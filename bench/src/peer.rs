//! The client side of a connection over a Unix socket, to the daemon or to the floor: both serve the same
//! calls.

use std::path::Path;

use anyhow::{Context, Result};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};
use wire::betcode::v1::agent_service_client::AgentServiceClient;
use wire::obey::local::v1::local_daemon_service_client::LocalDaemonServiceClient;
use wire::obey::v1 as pb;
use wire::obey::v1::campaign_service_client::CampaignServiceClient;
use wire::obey::v1::event_service_client::EventServiceClient;
use wire::obey::v1::request_service_client::RequestServiceClient;
use wire::obey::v1::turn_service_client::TurnServiceClient;

/// The receive window per stream. HTTP/2's default of 64 KiB would measure round trips.
const WINDOW_BYTES: u32 = 1 << 20;

#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) daemon: LocalDaemonServiceClient<Channel>,
    pub(crate) campaigns: CampaignServiceClient<Channel>,
    pub(crate) agents: AgentServiceClient<Channel>,
    pub(crate) requests: RequestServiceClient<Channel>,
    /// For services that a single section calls.
    pub(crate) channel: Channel,
    events: EventServiceClient<Channel>,
    turns: TurnServiceClient<Channel>,
}

impl Peer {
    pub(crate) async fn connect(socket: &Path) -> Result<Self> {
        let path = socket.to_owned();
        let connect = tower::service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://localhost")
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(4 * WINDOW_BYTES);
        let channel = endpoint
            .connect_with_connector(connect)
            .await
            .with_context(|| format!("connecting to {}", socket.display()))?;
        Ok(Self {
            daemon: LocalDaemonServiceClient::new(channel.clone()),
            campaigns: CampaignServiceClient::new(channel.clone()),
            agents: AgentServiceClient::new(channel.clone()),
            requests: RequestServiceClient::new(channel.clone()),
            events: EventServiceClient::new(channel.clone()),
            turns: TurnServiceClient::new(channel.clone()),
            channel,
        })
    }

    /// Follows a session after a sequence number.
    pub(crate) async fn follow(&self, session: &str, after_seq: u64) -> Result<Streaming<pb::Event>> {
        let request = pb::ReadEventsRequest { after_seq, follow: true, ..read(session) };
        Ok(self.events.clone().read_events(request).await?.into_inner())
    }

    /// Reads a part of a session's history.
    pub(crate) async fn replay(
        &self,
        session: &str,
        after_seq: u64,
        limit: u64,
    ) -> Result<Streaming<pb::Event>> {
        let request = pb::ReadEventsRequest { after_seq, limit, ..read(session) };
        Ok(self.events.clone().read_events(request).await?.into_inner())
    }

    pub(crate) async fn prompt(&self, session: &str, text: String) -> Result<()> {
        let request =
            pb::PromptRequest { session_id: session.to_owned(), text, steer: false, ..Default::default() };
        self.turns.clone().prompt(request).await?;
        Ok(())
    }
}

fn read(session: &str) -> pb::ReadEventsRequest {
    pb::ReadEventsRequest { session_id: session.to_owned(), ..pb::ReadEventsRequest::default() }
}
