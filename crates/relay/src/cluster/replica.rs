//! Users, machines and their certificates, the same at every relay: what is changed here is written to a bucket, and what others
//! write there is changed here. Each relay keeps all of it in its own file, so that it works while the bus is away.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::kv::{Operation, Store, Watch};
use tokio::time;
use tokio_stream::StreamExt as _;

use super::Cluster;
use super::bus::Problem;
use crate::hub::Hub;
use crate::limits;

const BUCKET: &str = "directory";

/// Keys that relays write to know that they have read everything before it.
const MARK: &str = "mark.";

/// What the bucket has, by key; nothing for what was deleted.
type Known = HashMap<String, Option<Vec<u8>>>;

/// Keeps this relay and the bucket the same, for ever.
pub(super) async fn run(cluster: Arc<Cluster>, hub: Arc<Hub>) {
    loop {
        if let Err(problem) = run_once(&cluster, &hub).await {
            tracing::warn!(%problem, "what relays share cannot be read or written; trying again");
        }
        time::sleep(limits::BUS_PAUSE).await;
    }
}

async fn run_once(cluster: &Cluster, hub: &Hub) -> Result<(), Problem> {
    let mut connections = cluster.bus.connections();
    let bucket = cluster.bus.bucket(BUCKET, Duration::ZERO).await?;
    cluster.bus.replicate(BUCKET).await;
    let mut watch = bucket.watch_with_history(">").await?;
    let mut known = Known::new();
    read_history(cluster, hub, &bucket, &mut watch, &mut known).await?;
    let mut changes = hub.subscribe();
    let mut look = time::interval(limits::REPLICA_INTERVAL);
    let mut check = time::interval(limits::WATCH_IDLE_MAX);
    check.reset();
    let mut written = None;
    loop {
        let directory = hub.store.directory();
        if written.as_ref().is_none_or(|before| !Arc::ptr_eq(before, &directory)) {
            write(hub, &bucket, &mut known).await?;
            written = Some(directory);
        }
        tokio::select! {
            entry = watch.next() => {
                let Some(entry) = entry else { return Ok(()) };
                let entry = entry?;
                let value = (entry.operation == Operation::Put).then(|| entry.value.to_vec());
                if take(hub, &entry.key, value, &mut known) {
                    // What is known here may be more than what came.
                    written = None;
                }
            }
            changed = changes.changed() => if changed.is_err() { return Ok(()) },
            _ = look.tick() => {}
            _ = connections.changed() => return Ok(()),
            // The library does not notice every loss: begin anew now and then.
            _ = check.tick() => return Ok(()),
        }
    }
}

/// Reads all that is there, so that nothing is written back that others have deleted.
async fn read_history(
    cluster: &Cluster,
    hub: &Hub,
    bucket: &Store,
    watch: &mut Watch,
    known: &mut Known,
) -> Result<(), Problem> {
    let mark = format!("{MARK}{}", host::ids::unique());
    bucket.put(&mark, cluster.relay.clone().into_bytes().into()).await?;
    loop {
        let entry = time::timeout(limits::BUS_WAIT, watch.next()).await?.ok_or("the watch ended")??;
        if entry.key == mark {
            break;
        }
        let value = (entry.operation == Operation::Put).then(|| entry.value.to_vec());
        take(hub, &entry.key, value, known);
    }
    // It has done its work; one that stays costs a few bytes.
    let _ = bucket.purge(&mark).await;
    Ok(())
}

/// Changes what this relay knows as another one has. Returns whether anything new came.
fn take(hub: &Hub, key: &str, value: Option<Vec<u8>>, known: &mut Known) -> bool {
    if key.starts_with(MARK) || known.get(key) == Some(&value) {
        return false;
    }
    let taken = match &value {
        Some(value) => hub.store.take_shared(key, value),
        None => hub.store.remove_shared(key),
    };
    match taken {
        Ok(true) => hub.cut_removed(),
        Ok(false) => {}
        Err(error) => {
            tracing::warn!(%error, detail = error.detail, key, "what another relay shares cannot be kept")
        }
    }
    known.insert(key.to_owned(), value);
    true
}

/// Writes what is new here, and deletes what was removed here.
async fn write(hub: &Hub, bucket: &Store, known: &mut Known) -> Result<(), Problem> {
    let own = hub.store.shared().map_err(|error| error.message)?;
    for (key, value) in &own {
        let is_deleted = matches!(known.get(key), Some(None));
        if is_deleted || known.get(key).and_then(Option::as_ref) == Some(value) {
            continue;
        }
        if value.len() > limits::SHARED_RECORD_MAX_BYTES {
            // It would keep all others from being written.
            tracing::warn!(key, bytes = value.len(), "a record is too large to be shared with other relays");
            continue;
        }
        bucket.put(key, value.clone().into()).await?;
        known.insert(key.clone(), Some(value.clone()));
    }
    for key in hub.store.removed().map_err(|error| error.message)? {
        if known.get(&key).is_none_or(Option::is_none) {
            continue;
        }
        bucket.delete(&key).await?;
        known.insert(key, None);
    }
    Ok(())
}
