//! Calls between two relays: frames as in a tunnel, on subjects of NATS that nothing is stored for. Sequence numbers end a call
//! from which frames were lost, and credit bounds what is under way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::body::Body;
use axum::response::Response;
use host::clock;
use prost::Message as _;
use tokio::task::AbortHandle;
use tokio::time;
use tokio_stream::StreamExt as _;
use tonic::{Code, Status};
use tunnel::{CallFailure, CallOrigin, FrameStream, IncomingCall, Link, LinkEvent, LinkSide};
use wire::betcode::v1::TunnelFrame;

use super::Cluster;
use super::bus::Problem;
use crate::hub::{Hub, timestamp};
use crate::{limits, status};

/// Frames of calls, from the relay that makes them, and frames of answers.
const CALL: &str = "call";
const ANSWER: &str = "answer";

/// The ends of all links to other relays.
#[derive(Default)]
pub(super) struct Peers {
    /// Links through which this relay calls, by relay.
    calling: Mutex<HashMap<String, PeerLink>>,
    /// Links through which this relay is called, by relay and the name of the link.
    serving: Mutex<HashMap<(String, String), PeerLink>>,
}

struct PeerLink {
    link: Arc<Link>,
    /// Tells this link from an earlier one of the same two relays.
    name: String,
    heard: Instant,
    sending: AbortHandle,
}

impl Drop for PeerLink {
    fn drop(&mut self) {
        self.link.close(&CallFailure::new(Code::Unavailable, "OBEY-1051: the other relay is not there"));
        self.sending.abort();
    }
}

impl Peers {
    /// Returns the link through which a relay is called.
    pub(super) fn link_to(&self, cluster: &Arc<Cluster>, relay: &str) -> Arc<Link> {
        let mut calling = locked(&self.calling);
        let peer = calling.entry(relay.to_owned()).or_insert_with(|| {
            let name = host::ids::unique();
            let (link, frames) = Link::with_calls(LinkSide::Relay, name.clone(), limits::PEER_CALLS_MAX);
            let subject = cluster.bus.frames(relay, &format!("{CALL}.{}.{name}", cluster.relay));
            let sending = tokio::spawn(send(Arc::clone(cluster), subject, frames)).abort_handle();
            PeerLink { link, name, heard: Instant::now(), sending }
        });
        Arc::clone(&peer.link)
    }

    /// Returns the link through which another relay calls.
    fn link_from(&self, cluster: &Arc<Cluster>, relay: &str, name: &str) -> Arc<Link> {
        let mut serving = locked(&self.serving);
        let peer = serving.entry((relay.to_owned(), name.to_owned())).or_insert_with(|| {
            let (link, frames) = Link::with_calls(LinkSide::Machine, "", limits::PEER_CALLS_MAX);
            let subject = cluster.bus.frames(relay, &format!("{ANSWER}.{}.{name}", cluster.relay));
            let sending = tokio::spawn(send(Arc::clone(cluster), subject, frames)).abort_handle();
            PeerLink { link, name: name.to_owned(), heard: Instant::now(), sending }
        });
        peer.heard = Instant::now();
        Arc::clone(&peer.link)
    }

    /// Ends all calls between relays.
    pub(super) fn close_all(&self, why: &str) {
        let calling = std::mem::take(&mut *locked(&self.calling));
        let serving = std::mem::take(&mut *locked(&self.serving));
        let failure = CallFailure::new(Code::Unavailable, format!("OBEY-1051: {why}"));
        for peer in calling.values().chain(serving.values()) {
            peer.link.close(&failure);
        }
    }

    /// Sends a keep-alive to the other end of every link, and drops links that have been silent too long.
    fn beat(&self) {
        let is_there = |peer: &PeerLink| {
            // An end that does not read will be silent, too.
            let _ = peer.link.heartbeat(timestamp(clock::now()));
            peer.heard.elapsed() < limits::RELAY_SILENCE_MAX
        };
        locked(&self.calling).retain(|_, peer| is_there(peer));
        locked(&self.serving).retain(|_, peer| is_there(peer));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends the frames of a link.
async fn send(cluster: Arc<Cluster>, subject: String, mut frames: FrameStream) {
    while let Some(frame) = frames.next().await {
        if !cluster.bus.is_connected() {
            // It would be kept and sent late; all links are closed when the loss is noticed.
            return;
        }
        let sent = cluster.bus.client().publish(subject.clone(), frame.encode_to_vec().into()).await;
        if let Err(error) = sent {
            return tracing::warn!(%error, "a frame for another relay cannot be sent");
        }
    }
}

/// Says again and again that this relay is there.
pub(super) async fn beat(cluster: Arc<Cluster>) {
    let mut beat = time::interval(limits::RELAY_BEAT);
    beat.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    loop {
        beat.tick().await;
        let name = cluster.relay.clone().into_bytes();
        // Whoever does not hear it notices.
        let _ = cluster.bus.client().publish(cluster.bus.alive(), name.into()).await;
        cluster.peers.beat();
        cluster.relays().retain(|_, heard| heard.elapsed() < limits::RELAY_FORGOTTEN_AFTER);
    }
}

/// Takes what other relays send, for ever.
pub(super) async fn receive(cluster: Arc<Cluster>, hub: Arc<Hub>) {
    loop {
        if let Err(problem) = receive_once(&cluster, &hub).await {
            tracing::warn!(%problem, "what other relays send cannot be read");
        }
        time::sleep(limits::BUS_PAUSE).await;
    }
}

async fn receive_once(cluster: &Arc<Cluster>, hub: &Arc<Hub>) -> Result<(), Problem> {
    let client = cluster.bus.client();
    let mut alive = client.subscribe(cluster.bus.alive()).await?;
    let mut frames = client.subscribe(cluster.bus.frames(&cluster.relay, ">")).await?;
    loop {
        tokio::select! {
            message = alive.next() => {
                let Some(message) = message else { return Ok(()) };
                let relay = String::from_utf8_lossy(&message.payload).into_owned();
                if relay != cluster.relay && cluster.relays().insert(relay, Instant::now()).is_none() {
                    hub.changed();
                }
            }
            message = frames.next() => {
                let Some(message) = message else { return Ok(()) };
                let mut names = message.subject.rsplit('.');
                let (Some(name), Some(relay), Some(kind)) = (names.next(), names.next(), names.next()) else {
                    continue;
                };
                let Ok(frame) = TunnelFrame::decode(message.payload.clone()) else { continue };
                take(cluster, hub, (kind, relay, name), frame);
            }
        }
    }
}

/// Takes one frame. Never waits.
fn take(cluster: &Arc<Cluster>, hub: &Arc<Hub>, (kind, relay, name): (&str, &str, &str), frame: TunnelFrame) {
    if kind == ANSWER {
        let link = {
            let mut calling = locked(&cluster.peers.calling);
            let Some(peer) = calling.get_mut(relay).filter(|peer| peer.name == name) else { return };
            peer.heard = Instant::now();
            Arc::clone(&peer.link)
        };
        // Answers begin no calls.
        let _ = link.receive(frame);
        return;
    }
    let link = cluster.peers.link_from(cluster, relay, name);
    if let LinkEvent::Call(call) = link.receive(frame) {
        let id = call.responder.id().to_owned();
        let serving = tokio::spawn(serve(Arc::clone(cluster), Arc::clone(hub), *call));
        link.attach(&id, serving.abort_handle());
    }
}

/// Sends another relay's call through the tunnel of its machine, if this relay holds it by the claim that the other one knows.
async fn serve(cluster: Arc<Cluster>, hub: Arc<Hub>, call: IncomingCall) {
    let IncomingCall { request, origin, responder } = call;
    let is_grpc = status::is_grpc(request.headers());
    let route = match cluster.holds(&origin.machine_id, origin.epoch) {
        true => hub.route_here(&origin.machine_id),
        false => None,
    };
    let answered = match (route, hub.check_traffic(&origin.machine_id)) {
        (Some(_), Err(status)) => Err(status),
        (Some((link, is_basic)), Ok(())) => {
            let origin = CallOrigin { machine_id: String::new(), epoch: 0, ..origin };
            let answered = link.forward(request, &origin, is_basic).await;
            answered.map_err(|failure| Status::new(failure.code, failure.message))
        }
        (None, _) => {
            Err(Status::unavailable("OBEY-1051: the machine is not at this relay any more; try again"))
        }
    };
    let response: Response = match answered {
        Ok(response) => response.map(Body::new),
        Err(status) => status::answer(&status, is_grpc),
    };
    responder.send(response).await;
}
