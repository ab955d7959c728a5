//! The connection to NATS: its buckets, its subjects and what is known of its state. Knows no machine.

use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::{self, kv, stream};
use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use domain::{Error, ErrorCode};
use tokio::sync::{mpsc, watch};

use crate::limits;

/// Why something could not be done; only ever logged or shown.
pub(super) type Problem = Box<dyn std::error::Error + Send + Sync>;

/// What the relays of one cluster share.
pub(super) struct Bus {
    client: Client,
    cluster: String,
    /// Counts how often it was connected.
    connections: Arc<watch::Sender<u64>>,
}

impl Bus {
    /// Connects in the background, for ever. The receiver is told whenever frames may have been lost.
    pub(super) async fn connect(url: &str, cluster: &str) -> Result<(Self, mpsc::Receiver<()>), Error> {
        let (lost, is_lost) = mpsc::channel(1);
        let connections = Arc::new(watch::Sender::new(0));
        let counted = Arc::clone(&connections);
        let options = ConnectOptions::new()
            .name("obey relay")
            .retry_on_initial_connect()
            .ping_interval(limits::BUS_PING)
            .connection_timeout(limits::BUS_WAIT)
            .request_timeout(Some(limits::BUS_WAIT))
            .subscription_capacity(limits::BUS_FRAMES_MAX)
            // Without the jitter all relays would come back at once.
            .reconnect_delay_callback(|tries| {
                let most = limits::BUS_RETRY_MAX.min(Duration::from_millis(1 << tries.min(12)));
                most.mul_f64(0.5 + tunnel::keys::jitter() / 2.0)
            })
            .event_callback(move |event| {
                let (lost, counted) = (lost.clone(), Arc::clone(&counted));
                async move {
                    match event {
                        Event::Connected => counted.send_modify(|count| *count += 1),
                        Event::Disconnected | Event::SlowConsumer(_) => {
                            tracing::warn!(%event, "the bus between the relays");
                            // One that waits says it already.
                            let _ = lost.try_send(());
                        }
                        event => tracing::info!(%event, "the bus between the relays"),
                    }
                }
            });
        let unusable = |error: &dyn std::fmt::Display| {
            let message = format!("--nats: {url} cannot be used: {error}");
            Error::new(ErrorCode::RelayUnreachable, message)
        };
        // Any of several servers will do; the others are tried when one is away.
        let servers = url.split(',').map(|one| one.trim().parse::<ServerAddr>());
        let servers: Vec<ServerAddr> = servers.collect::<Result<_, _>>().map_err(|error| unusable(&error))?;
        let client = options.connect(servers).await.map_err(|error| unusable(&error))?;
        Ok((Self { client, cluster: cluster.to_owned(), connections }, is_lost))
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns a channel that is notified after each reconnect: what was watched before may have stopped without a notice.
    pub(super) fn connections(&self) -> watch::Receiver<u64> {
        self.connections.subscribe()
    }

    pub(super) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    pub(super) fn state(&self) -> String {
        match self.client.connection_state() {
            State::Connected => "connected".to_owned(),
            State::Pending => "not connected yet".to_owned(),
            State::Disconnected => "disconnected".to_owned(),
        }
    }

    /// The subject on which every relay says that it is there.
    pub(super) fn alive(&self) -> String {
        format!("obey.{}.alive", self.cluster)
    }

    /// The subject of frames for a relay. `rest` says what they are and from whom.
    pub(super) fn frames(&self, relay: &str, rest: &str) -> String {
        format!("obey.{}.relay.{relay}.{rest}", self.cluster)
    }

    /// Returns a bucket, and makes it where it is not there. Made as a stream: the library's own way does not work with the
    /// servers of Debian 12.
    pub(super) async fn bucket(&self, name: &str, max_age: Duration) -> Result<kv::Store, Problem> {
        let bucket = format!("obey_{}_{name}", self.cluster);
        let jetstream = jetstream::new(self.client.clone());
        if let Ok(store) = jetstream.get_key_value(&bucket).await {
            return Ok(store);
        }
        let mut config = stream::Config {
            name: format!("KV_{bucket}"),
            subjects: vec![format!("$KV.{bucket}.>")],
            max_messages_per_subject: 1,
            max_age,
            duplicate_window: if max_age.is_zero() {
                limits::BUS_DUPLICATES
            } else {
                max_age.min(limits::BUS_DUPLICATES)
            },
            discard: stream::DiscardPolicy::New,
            allow_rollup: true,
            deny_delete: true,
            allow_direct: true,
            num_replicas: limits::BUS_REPLICAS,
            ..Default::default()
        };
        // A server that is alone, or has one other, keeps what there is once.
        if jetstream.get_or_create_stream(config.clone()).await.is_err() {
            config.num_replicas = 1;
            jetstream.get_or_create_stream(config).await?;
        }
        Ok(jetstream.get_key_value(&bucket).await?)
    }

    /// Has more servers keep a bucket that was made when there were fewer of them.
    pub(super) async fn replicate(&self, name: &str) {
        let jetstream = jetstream::new(self.client.clone());
        let stream = format!("KV_obey_{}_{name}", self.cluster);
        let Ok(stream) = jetstream.get_stream(&stream).await else { return };
        let config = &stream.cached_info().config;
        if config.num_replicas >= limits::BUS_REPLICAS {
            return;
        }
        let config = stream::Config { num_replicas: limits::BUS_REPLICAS, ..config.clone() };
        // Where there are not as many servers, it stays as it is.
        if let Err(error) = jetstream.update_stream(config).await {
            tracing::debug!(%error, name, "this bucket is kept by one server");
        }
    }
}
