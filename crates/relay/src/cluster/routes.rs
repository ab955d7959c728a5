//! Which relay holds a machine's tunnel: claimed by compare-and-set, kept with every beat, and read by all. A relay that has lost
//! its claim ends the tunnel, so that two never believe to hold one for longer than a beat.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::kv::{Operation, Store, UpdateErrorKind};
use host::clock;
use prost::Message as _;
use tokio::time;
use tokio_stream::StreamExt as _;
use wire::obey::v1::MachineRoute;

use super::bus::Problem;
use super::{Cluster, HeldRoute, NotedRoute};
use crate::hub::{Hub, LiveTunnel};
use crate::{buffer, limits};

const BUCKET: &str = "routes";

/// Claims the machines whose tunnels end here, and releases the others.
pub(super) async fn hold(cluster: Arc<Cluster>, hub: Arc<Hub>) {
    let (mut changes, mut connections) = (hub.subscribe(), cluster.bus.connections());
    let mut beat = time::interval(limits::ROUTE_INTERVAL);
    beat.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    loop {
        let is_beat = tokio::select! {
            _ = beat.tick() => true,
            connected = connections.changed() => connected.is_ok(),
            changed = changes.changed() => match changed {
                Ok(()) => false,
                Err(_) => return,
            },
        };
        if let Err(problem) = write_all(&cluster, &hub, is_beat).await {
            tracing::warn!(%problem, "the routes to machines cannot be written; machines of this relay are served on");
            // A bus that is away is not asked with every change.
            time::sleep(limits::BUS_PAUSE).await;
        }
    }
}

async fn write_all(cluster: &Cluster, hub: &Hub, is_beat: bool) -> Result<(), Problem> {
    let live = hub.live_tunnels();
    let ids: HashSet<&str> = live.iter().map(|tunnel| tunnel.machine_id.as_str()).collect();
    let gone: Vec<(String, HeldRoute)> = {
        let held = cluster.held();
        let is_gone = |id: &&String| !ids.contains(id.as_str());
        held.keys().filter(is_gone).filter_map(|id| Some((id.clone(), held.get(id)?.clone()))).collect()
    };
    if live.is_empty() && gone.is_empty() {
        return Ok(());
    }
    let bucket = cluster.bus.bucket(BUCKET, limits::ROUTE_LIFE).await?;
    for (id, held) in gone {
        cluster.held().remove(&id);
        // Somebody else may have claimed it since; then it is not ours to delete.
        let _ = bucket.delete_expect_revision(&id, Some(held.revision)).await;
    }
    let mut failed = None;
    for tunnel in live {
        // One that cannot be written keeps no other from it.
        if let Err(problem) = write(cluster, hub, &bucket, &tunnel, is_beat).await {
            failed = Some(problem);
            if !cluster.bus.is_connected() {
                break;
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Writes the claim on one machine again, or claims it.
async fn write(
    cluster: &Cluster,
    hub: &Hub,
    bucket: &Store,
    tunnel: &LiveTunnel,
    is_beat: bool,
) -> Result<(), Problem> {
    let held = cluster.held().get(&tunnel.machine_id).cloned();
    let Some(held) = held.filter(|held| held.tunnel == tunnel.epoch) else {
        return claim(cluster, hub, bucket, tunnel).await;
    };
    let route = record(cluster, tunnel, held.epoch);
    if !is_beat && route == held.written {
        return Ok(());
    }
    match bucket.update(&tunnel.machine_id, route.encode_to_vec().into(), held.revision).await {
        Ok(revision) => {
            let next = HeldRoute { revision, written: route, ..held };
            cluster.held().insert(tunnel.machine_id.clone(), next);
            Ok(())
        }
        Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => {
            cluster.held().remove(&tunnel.machine_id);
            let current = read(bucket, &tunnel.machine_id).await?;
            match current {
                Some((route, _)) if route.relay != cluster.relay => {
                    hub.cut(&tunnel.machine_id, "the machine has connected to another relay");
                    Ok(())
                }
                _ => claim(cluster, hub, bucket, tunnel).await,
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Claims a machine. Another daemon with its certificate that is connected elsewhere keeps it.
async fn claim(cluster: &Cluster, hub: &Hub, bucket: &Store, tunnel: &LiveTunnel) -> Result<(), Problem> {
    let id = &tunnel.machine_id;
    let current = read(bucket, id).await?;
    if let Some((route, _)) = &current
        && route.relay != cluster.relay
        && route.instance != tunnel.instance
        && cluster.is_there(&route.relay)
    {
        hub.cut(
            id,
            "another daemon with this certificate is connected to another relay; try again in a minute",
        );
        return Ok(());
    }
    let before = current.as_ref().map_or(0, |(route, _)| route.epoch);
    // By the clock too, in case the bucket was lost.
    let epoch = (before + 1).max(u64::try_from(clock::now().0).unwrap_or(0));
    let route = record(cluster, tunnel, epoch);
    let bytes = route.encode_to_vec().into();
    let written = match current {
        Some((_, revision)) => bucket.update(id, bytes, revision).await.ok(),
        None => bucket.create(id, bytes).await.ok(),
    };
    // Who lost the race looks again with the next beat.
    if let Some(revision) = written {
        let held = HeldRoute { tunnel: tunnel.epoch, epoch, revision, written: route };
        cluster.held().insert(id.clone(), held);
    }
    Ok(())
}

/// Returns what is written of a machine, and the revision of its entry.
async fn read(bucket: &Store, id: &str) -> Result<Option<(MachineRoute, u64)>, Problem> {
    let entry = bucket.entry(id).await?;
    let put = entry.filter(|entry| entry.operation == Operation::Put);
    Ok(put.map(|entry| (MachineRoute::decode(entry.value).unwrap_or_default(), entry.revision)))
}

fn record(cluster: &Cluster, tunnel: &LiveTunnel, epoch: u64) -> MachineRoute {
    MachineRoute {
        relay: cluster.relay.clone(),
        epoch,
        instance: tunnel.instance.clone(),
        registered: tunnel.registered.as_ref().map(prost::Message::encode_to_vec).unwrap_or_default(),
        is_draining: tunnel.is_draining,
    }
}

/// Notes where machines are that other relays hold, for ever.
pub(super) async fn follow(cluster: Arc<Cluster>, hub: Arc<Hub>) {
    loop {
        if let Err(problem) = follow_once(&cluster, &hub).await {
            tracing::debug!(%problem, "the routes to machines cannot be read");
        }
        time::sleep(limits::BUS_PAUSE).await;
    }
}

async fn follow_once(cluster: &Arc<Cluster>, hub: &Arc<Hub>) -> Result<(), Problem> {
    let mut connections = cluster.bus.connections();
    let bucket = cluster.bus.bucket(BUCKET, limits::ROUTE_LIFE).await?;
    cluster.bus.replicate(BUCKET).await;
    let mut watch = bucket.watch_with_history(">").await?;
    // A watch that was lost with the bus may be silent for ever.
    let idle: Duration = limits::WATCH_IDLE_MAX;
    loop {
        let entry = tokio::select! {
            entry = time::timeout(idle, watch.next()) => entry,
            _ = connections.changed() => return Ok(()),
        };
        let Ok(Some(entry)) = entry else { return Ok(()) };
        let entry = entry?;
        if entry.operation != Operation::Put {
            if cluster.elsewhere().remove(&entry.key).is_some() {
                hub.changed();
            }
            continue;
        }
        let route = MachineRoute::decode(entry.value).unwrap_or_default();
        if route.relay == cluster.relay {
            cluster.elsewhere().remove(&entry.key);
            continue;
        }
        let noted = NotedRoute { route: route.clone(), noted: Instant::now() };
        let before = cluster.elsewhere().insert(entry.key.clone(), noted);
        if before.is_none_or(|before| before.route != route) {
            hub.changed();
            // What waits here for this machine goes the same way as every call.
            if hub.store.waiting(&entry.key).unwrap_or(0) > 0 {
                tokio::spawn(buffer::deliver(Arc::clone(hub), entry.key, 0));
            }
        }
    }
}
