//! Keeps the tunnel to the relay open: dials, registers, sends heartbeats, renews the certificate, and tries again, for
//! ever, after a while that grows and is never the same for two machines.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use domain::{Error, ErrorCode, Timestamp};
use host::{clock, machine};
use surface::server::TunnelEntry;
use tokio::time::{self, Instant};
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use tunnel::keys::{self, KeyRequest};
use tunnel::pinned::NextPin;
use tunnel::{CallFailure, FULL_FRAMES, FrameStream, Link, LinkEvent, LinkSide, dial};
use wire::betcode::v1 as pb;
use wire::betcode::v1::tunnel_service_client::TunnelServiceClient;
use wire::obey::v1 as obey;
use wire::obey::v1::relay_service_client::RelayServiceClient;

use crate::identity::RelayIdentity;
use crate::renewal::{self, follow, keep};
use crate::serving::Server;
use crate::wake::Wakeups;
use crate::{LinkState, RelayLinks, limits};

/// Why a connection to the relay ended.
pub(crate) enum Ended {
    /// The daemon ends.
    Leaving,
    /// The relay does not want this machine: it is not dialled again until it is joined again.
    Refused(String),
    Broken(String),
    /// This machine was asleep, and the connection from before is of no use.
    Slept(String),
    /// There is another certificate to connect with.
    Renewed,
}

/// Dials until the daemon ends.
pub(crate) async fn run(links: RelayLinks) {
    let Some(entry) = links.0.entry.get().cloned() else { return };
    let mut identities = links.0.identity.subscribe();
    let wakeups = Wakeups::watch();
    let mut failures = 0;
    loop {
        let identity = identities.borrow_and_update().clone();
        let Some(identity) = identity else {
            tokio::select! {
                changed = identities.changed() => if changed.is_err() { return },
                () = entry.ended() => return,
            }
            failures = 0;
            continue;
        };
        set(&links, LinkState::Connecting, "");
        let began = Instant::now();
        let ended = tokio::select! {
            ended = connect(&links, &identity, &entry, &wakeups) => ended,
            // Another relay, or none: this connection is dropped.
            _ = identities.changed() => { failures = 0; continue }
        };
        let wait = match ended {
            Ended::Leaving => return,
            Ended::Renewed => {
                failures = if began.elapsed() > limits::STABLE_AFTER { 0 } else { failures + 1 };
                // A certificate that does not help either is not replaced by the next one at once.
                if failures <= 1 {
                    continue;
                }
                Some(backoff(failures, keys::jitter()))
            }
            Ended::Refused(problem) => {
                tracing::warn!(relay = identity.url, problem, "the relay refuses this machine");
                set(&links, LinkState::Offline, &problem);
                None
            }
            Ended::Broken(problem) => {
                failures = if began.elapsed() > limits::STABLE_AFTER { 0 } else { failures + 1 };
                tracing::info!(relay = identity.url, problem, "the relay is not connected");
                set(&links, LinkState::Offline, &problem);
                Some(backoff(failures, keys::jitter()))
            }
            Ended::Slept(problem) => {
                failures = 0;
                tracing::info!(relay = identity.url, problem, "this machine was asleep; dialling again");
                set(&links, LinkState::Offline, &problem);
                continue;
            }
        };
        let waiting = async {
            match wait {
                Some(wait) => time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        let mut sleeping = wakeups.upcoming();
        tokio::select! {
            () = waiting => {}
            // The network may be another one now: what failed before says nothing. A refusal still holds.
            () = sleeping.next(), if wait.is_some() => failures = 0,
            changed = identities.changed() => if changed.is_err() { return },
            () = entry.ended() => return,
        }
    }
}

/// Returns how long to wait after some failures in a row.
fn backoff(failures: u32, jitter: f64) -> Duration {
    let most = limits::BACKOFF_FIRST
        .saturating_mul(1 << failures.saturating_sub(1).min(16))
        .min(limits::BACKOFF_MAX);
    most.mul_f64(jitter.clamp(0.0, 1.0))
}

fn set(links: &RelayLinks, state: LinkState, problem: &str) {
    let mut status = links.status();
    if state != LinkState::Online {
        (status.connected_at, status.channel) = (None, None);
    }
    status.state = state;
    // What went wrong last is worth knowing while it is tried again.
    if state != LinkState::Connecting {
        problem.clone_into(&mut status.problem);
    }
}

/// Connects once, and serves until that ends.
async fn connect(
    links: &RelayLinks,
    identity: &Arc<RelayIdentity>,
    entry: &TunnelEntry,
    wakeups: &Wakeups,
) -> Ended {
    let mut sleeping = wakeups.upcoming();
    let dialled = tokio::select! {
        dialled = dial(links, identity) => dialled,
        () = sleeping.next() => Err(Ended::Slept("asleep while dialling".to_owned())),
    };
    let server = Server::new(links, entry.clone());
    let (dialled, server) = match (dialled, server) {
        (Ok(dialled), Ok(server)) => (dialled, Arc::new(server)),
        (Err(ended), _) => return ended,
        (_, Err(error)) => return Ended::Broken(error.message),
    };
    let (link, frames) = Link::new(LinkSide::Machine, "");
    let closing = Closing(Arc::clone(&link));
    let tunnel = Tunnel { links, identity, entry, server, link, dialled };
    let ended = tunnel.serve(frames, sleeping).await;
    drop(closing);
    ended
}

/// A connection to a relay that has accepted this machine.
struct DialledRelay {
    relay: TunnelServiceClient<Channel>,
    channel: Channel,
    interval: Duration,
}

/// Dials the relay and registers there.
async fn dial(links: &RelayLinks, identity: &Arc<RelayIdentity>) -> Result<DialledRelay, Ended> {
    if identity.expires_at <= clock::now() {
        return Err(renewal::by_proof(links, identity).await);
    }
    let (next, tls) = (NextPin::default(), identity.tls());
    let dialling = dial::connect_following(&identity.url, &identity.pin, Some(&tls), &next);
    let channel = match dialling.await {
        Ok(channel) => channel,
        // The relay may have refused this machine's certificate: the key proves who this is.
        Err(failure) if failure.is_after_handshake => {
            return Err(renewal::by_proof(links, identity).await);
        }
        Err(failure) => return Err(Ended::Broken(failure.error.message)),
    };
    follow(links, &next);
    let most = tunnel::limits::FRAME_MAX_BYTES;
    let mut relay = TunnelServiceClient::new(channel.clone())
        .max_decoding_message_size(most)
        .max_encoding_message_size(most);
    let registering = time::timeout(limits::RELAY_CALL_WAIT, relay.register(registration(links, identity)));
    let registered = match registering.await {
        Ok(Ok(response)) => response.into_inner(),
        // An authority that the relay has given up signed it, or the clocks differ: the key proves who this is.
        Ok(Err(status)) if is_unanswered(&status) => {
            return Err(renewal::by_proof(links, identity).await);
        }
        Ok(Err(status)) => return Err(refused(&status)),
        Err(_) => return Err(Ended::Broken("the relay does not answer in time".to_owned())),
    };
    if !registered.accepted {
        return Err(Ended::Broken(registered.message));
    }
    let interval = match u64::from(registered.heartbeat_interval_secs) {
        0 => limits::HEARTBEAT_INTERVAL,
        named => Duration::from_secs(named).min(limits::HEARTBEAT_INTERVAL_MAX),
    };
    Ok(DialledRelay { relay, channel, interval })
}

/// Ends the calls of a tunnel when it is dropped, for whatever reason.
struct Closing(Arc<Link>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close(&CallFailure::new(Code::Unavailable, "the tunnel ended"));
    }
}

/// An open tunnel.
struct Tunnel<'a> {
    links: &'a RelayLinks,
    identity: &'a Arc<RelayIdentity>,
    entry: &'a TunnelEntry,
    server: Arc<Server>,
    link: Arc<Link>,
    dialled: DialledRelay,
}

impl Tunnel<'_> {
    async fn serve(self, frames: FrameStream, mut wakeups: Wakeups) -> Ended {
        let began = Instant::now();
        // Some relays answer with the first frame that they have to send, which may be much later.
        let mut opener = self.dialled.relay.clone();
        let opening = async move { opener.open_tunnel(frames).await.map(tonic::Response::into_inner) };
        tokio::pin!(opening);
        let mut incoming: Option<Streaming<pb::TunnelFrame>> = None;
        let mut meter = machine::CpuMeter::default();
        let mut beat = time::interval(self.dialled.interval);
        beat.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        let mut check = time::interval(limits::RENEWAL_CHECK);
        loop {
            tokio::select! {
                opened = &mut opening, if incoming.is_none() => match opened {
                    Ok(stream) => {
                        incoming = Some(stream);
                        self.note_online();
                    }
                    Err(status) => return refused(&status),
                },
                frame = next_frame(&mut incoming), if incoming.is_some() => match frame {
                    Ok(Some(frame)) => match self.link.receive(frame) {
                        LinkEvent::Call(call) => self.server.spawn(&self.link, *call),
                        LinkEvent::Drain => return self.leave(&mut incoming).await,
                        LinkEvent::Heartbeat | LinkEvent::Handled => {}
                    },
                    Ok(None) => return Ended::Broken("the relay has closed the tunnel".to_owned()),
                    Err(status) => return refused(&status),
                },
                _ = beat.tick() => {
                    // In a task of its own it could overtake; here a slow relay delays frames no longer than it may.
                    let percent = meter.percent();
                    let beaten = tokio::select! {
                        beaten = self.heartbeat(percent, limits::HEARTBEAT_WAIT) => beaten,
                        // One that was sent before a sleep is not waited for.
                        () = wakeups.next() => self.probe(percent).await,
                    };
                    if let Err(ended) = beaten {
                        return ended;
                    }
                    if began.elapsed() > limits::OPENING_WAIT {
                        self.note_online();
                    }
                }
                _ = check.tick() => {
                    if let Err(error) = self.renew_if_due().await {
                        tracing::warn!(%error, "the certificate for the relay cannot be renewed; trying on");
                    }
                    // Calls go on with the certificate that they began with.
                    if self.is_renewed() && self.link.counts().active == 0 {
                        return Ended::Renewed;
                    }
                }
                () = wakeups.next() => if let Err(ended) = self.probe(meter.percent()).await {
                    return ended;
                },
                () = self.entry.ended() => {
                    self.link.drain();
                    time::sleep(limits::DRAIN_WAIT).await;
                    return Ended::Leaving;
                }
            }
        }
    }

    /// Serves the calls that go on until they end, because the relay makes no new ones. The relay bounds how long that
    /// takes; one that does not is left.
    async fn leave(&self, incoming: &mut Option<Streaming<pb::TunnelFrame>>) -> Ended {
        let mut look = time::interval(limits::CALLS_LOOK);
        let last_calls = async {
            while self.link.counts().active > 0 {
                tokio::select! {
                    frame = next_frame(incoming) => match frame {
                        Ok(Some(frame)) => if let LinkEvent::Call(call) = self.link.receive(frame) {
                            self.server.spawn(&self.link, *call);
                        },
                        Ok(None) | Err(_) => return,
                    },
                    _ = look.tick() => {}
                }
            }
            // The last answers may wait to be sent; the relay ends the tunnel when it has them.
            self.link.close(&CallFailure::new(Code::Unavailable, "the relay ends"));
            while let Ok(Some(_)) = next_frame(incoming).await {}
        };
        tokio::select! {
            // Whether they ended or took too long: this relay is left.
            _ = time::timeout(limits::RELAY_DRAIN_WAIT, last_calls) => {
                Ended::Broken("the relay ends".to_owned())
            }
            () = self.entry.ended() => Ended::Leaving,
        }
    }

    /// Notes that the relay is connected.
    fn note_online(&self) {
        let mut status = self.links.status();
        if status.state == LinkState::Online {
            return;
        }
        (status.state, status.connected_at) = (LinkState::Online, Some(clock::now()));
        status.channel = Some(self.dialled.channel.clone());
        status.problem.clear();
        tracing::info!(relay = self.identity.url, machine = self.identity.name, "connected to the relay");
    }

    /// Looks whether the relay is there after a sleep: it may have given up, and nothing would say so.
    async fn probe(&self, cpu_usage_percent: f32) -> Result<(), Ended> {
        let silent = |_| Ended::Slept("the relay does not answer after this machine was asleep".to_owned());
        self.heartbeat(cpu_usage_percent, limits::AWAKE_WAIT).await.map_err(silent)
    }

    async fn heartbeat(&self, cpu_usage_percent: f32, wait: Duration) -> Result<(), Ended> {
        let request = pb::HeartbeatRequest {
            machine_id: self.identity.machine_id.clone(),
            sent_at: Some(timestamp(clock::now())),
            metrics: Some(pb::MachineMetrics {
                cpu_usage_percent,
                memory_used_bytes: machine::memory_used_bytes(),
                active_sessions: (self.links.0.options.active_sessions)(),
            }),
        };
        let began = Instant::now();
        let mut relay = self.dialled.relay.clone();
        match time::timeout(wait, relay.heartbeat(request)).await {
            Ok(Ok(_)) => {
                self.links.status().heartbeat = began.elapsed();
                Ok(())
            }
            Ok(Err(status)) => Err(refused(&status)),
            Err(_) => Err(Ended::Broken("the relay does not answer heartbeats".to_owned())),
        }
    }

    /// Whether there is a newer certificate than that of this connection.
    fn is_renewed(&self) -> bool {
        let current = self.links.0.identity.borrow();
        current.as_ref().is_some_and(|current| current.certificate_pem != self.identity.certificate_pem)
    }

    /// Gets the next certificate, with a new key, if the one that is kept ends soon.
    async fn renew_if_due(&self) -> Result<(), Error> {
        let kept = self.links.joined()?;
        if !renewal::is_due(kept.expires_at, clock::now()) {
            return Ok(());
        }
        let request = KeyRequest::new(&self.identity.machine_id)?;
        let renewing = obey::RenewCertificateRequest { csr_pem: request.csr_pem };
        let renewed =
            call(RelayServiceClient::new(self.dialled.channel.clone()).renew_certificate(renewing)).await?;
        keep(self.links, &kept, (request.key_pem, renewed))
    }
}

/// Waits for the next frame of a tunnel that is open.
async fn next_frame(
    incoming: &mut Option<Streaming<pb::TunnelFrame>>,
) -> Result<Option<pb::TunnelFrame>, Status> {
    match incoming {
        Some(incoming) => incoming.message().await,
        None => std::future::pending().await,
    }
}

/// Makes a call to the relay itself, and returns its errors as ours.
pub(crate) async fn call<T>(
    calling: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, Error> {
    match time::timeout(limits::RELAY_CALL_WAIT, calling).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => {
            let code = match status.code() {
                _ if is_unanswered(&status) => ErrorCode::RelayUnreachable,
                Code::Unavailable | Code::Unknown => ErrorCode::RelayUnreachable,
                Code::InvalidArgument => ErrorCode::InvalidArgument,
                Code::ResourceExhausted => ErrorCode::LimitReached,
                _ => ErrorCode::RelayRefused,
            };
            // The relay's message begins with its own code.
            let message = status.message().split_once(": ").map_or(status.message(), |(_, message)| message);
            Err(Error::new(code, message))
        }
        Err(_) => Err(Error::new(ErrorCode::RelayUnreachable, "the relay does not answer in time")),
    }
}

/// Whether a call has failed on this side, without an answer of the relay. On a new connection that is also what is left of a refused
/// certificate: in TLS 1.3 the refusal follows the handshake, and its alert can be lost with the connection.
fn is_unanswered(status: &Status) -> bool {
    status.source().is_some()
}

/// Says what a refusal means: whether it is worth trying again.
fn refused(status: &Status) -> Ended {
    match status.code() {
        Code::PermissionDenied => Ended::Refused(status.message().to_owned()),
        _ => Ended::Broken(status.message().to_owned()),
    }
}

fn registration(links: &RelayLinks, identity: &RelayIdentity) -> pb::RegisterRequest {
    let options = &links.0.options;
    pb::RegisterRequest {
        machine_id: identity.machine_id.clone(),
        machine_name: identity.name.clone(),
        capabilities: vec![
            FULL_FRAMES.to_owned(),
            "obey.sealed/1".to_owned(),
            format!("obey.plain/{}", options.plain.name()),
        ],
        info: Some(pb::MachineInfo {
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            version: options.version.clone(),
            cpu_cores: machine::cpu_cores(),
            memory_bytes: machine::memory_bytes(),
        }),
        hostname: machine::hostname(),
        disk_free_bytes: machine::disk_free_bytes(&options.data_dir),
        instance_id: links.0.instance.clone(),
    }
}

pub(crate) fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    let (seconds, nanos) = time.seconds_and_nanos();
    prost_types::Timestamp { seconds, nanos }
}

pub(crate) fn from_wire(time: prost_types::Timestamp) -> Timestamp {
    Timestamp(time.seconds.saturating_mul(1_000_000).saturating_add(i64::from(time.nanos) / 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_grows_to_a_minute_and_is_never_the_same_for_two() {
        assert_eq!(backoff(1, 1.0), Duration::from_secs(1));
        assert_eq!(backoff(4, 1.0), Duration::from_secs(8));
        assert_eq!(backoff(60, 1.0), Duration::from_secs(60));
        assert_eq!(backoff(4, 0.25), Duration::from_secs(2));
        assert_eq!(backoff(0, 0.5), Duration::from_millis(500));
    }
}
