//! The machines that are connected now, and what is known of each. One per relay process; what other relays hold, a
//! [`Cluster`] says.

mod listing;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use domain::{Error, ErrorCode, Timestamp};
use host::clock;
use prost::Message as _;
use tokio::sync::watch;
use tokio::time;
use tonic::{Code, Status};
use tunnel::{CallFailure, CallOrigin, FULL_FRAMES, Link};
use wire::betcode::v1 as pb;

use crate::addresses::Addresses;
use crate::authority::Authority;
use crate::cluster::Cluster;
use crate::limits;
use crate::quota::{Places, Quotas};
use crate::store::{MachineRecord, Store};
use crate::traffic::Traffic;

/// What all parts of a relay share.
pub(crate) struct Hub {
    pub(crate) store: Store,
    authority: RwLock<Arc<Authority>>,
    pub(crate) started_at: Timestamp,
    started: Instant,
    state: Mutex<State>,
    /// The other relays, where there are any.
    cluster: OnceLock<Arc<Cluster>>,
    /// Told whenever a machine comes, goes or registers.
    changes: watch::Sender<u64>,
    next_epoch: AtomicU64,
    pub(crate) calls_refused: AtomicU64,
    /// What tunnels that have ended carried.
    pub(crate) past_calls: AtomicU64,
    pub(crate) past_sent: AtomicU64,
    pub(crate) past_received: AtomicU64,
    pub(crate) past_ignored: AtomicU64,
    pub(crate) tunnels_opened: AtomicU64,
    pub(crate) calls_expired: AtomicU64,
    pub(crate) calls_limited: AtomicU64,
    pub(crate) calls_over_quota: AtomicU64,
    pub(crate) quotas: Quotas,
    pub(crate) machine_quotas: Quotas,
    /// Calls that go on, by who makes them.
    pub(crate) calls_open: Arc<Places>,
    pub(crate) addresses: Addresses,
    pub(crate) traffic: Traffic,
}

#[derive(Default)]
struct State {
    live: HashMap<String, LiveMachine>,
    /// What machines said of themselves, also before their tunnel is open.
    registered: HashMap<String, pb::RegisterRequest>,
    /// Which machine a client chose, by user and then by client.
    switched: HashMap<String, HashMap<String, String>>,
    /// When a machine's tunnel ended.
    gone: HashMap<String, Instant>,
}

/// A machine whose tunnel is open.
struct LiveMachine {
    link: Arc<Link>,
    /// Which opening of the tunnel this is: what an older one does has no effect.
    epoch: u64,
    instance: String,
    opened: Instant,
    heard: Instant,
    seen_at: Timestamp,
    is_delivering: bool,
    is_draining: bool,
}

/// A tunnel that a call can go through.
pub(crate) struct Route {
    pub(crate) link: Arc<Link>,
    /// The machine knows the published frames only.
    pub(crate) is_basic: bool,
    /// Where another relay holds the tunnel: which machine is meant, and by which claim.
    elsewhere: Option<(String, u64)>,
}

impl Route {
    /// Says who calls, and what else the other end must know.
    pub(crate) fn origin(&self, user: &str) -> CallOrigin {
        let (machine_id, epoch) = self.elsewhere.clone().unwrap_or_default();
        CallOrigin { machine_id, epoch, ..CallOrigin::of(user) }
    }
}

/// A tunnel that is open, as other relays are told.
pub(crate) struct LiveTunnel {
    pub(crate) machine_id: String,
    pub(crate) epoch: u64,
    pub(crate) instance: String,
    pub(crate) registered: Option<pb::RegisterRequest>,
    pub(crate) is_draining: bool,
}

impl Hub {
    pub(crate) fn new(store: Store, authority: Authority) -> Arc<Self> {
        Arc::new(Self {
            store,
            authority: RwLock::new(Arc::new(authority)),
            started_at: clock::now(),
            started: Instant::now(),
            state: Mutex::default(),
            cluster: OnceLock::new(),
            changes: watch::Sender::new(0),
            next_epoch: AtomicU64::new(1),
            calls_refused: AtomicU64::new(0),
            past_calls: AtomicU64::new(0),
            past_sent: AtomicU64::new(0),
            past_received: AtomicU64::new(0),
            past_ignored: AtomicU64::new(0),
            tunnels_opened: AtomicU64::new(0),
            calls_expired: AtomicU64::new(0),
            calls_limited: AtomicU64::new(0),
            calls_over_quota: AtomicU64::new(0),
            quotas: Quotas::new(limits::CALLS_PER_CALLER),
            machine_quotas: Quotas::new(limits::MACHINE_CALLS),
            calls_open: Places::new(limits::CALLS_AT_ONCE_MAX),
            addresses: Addresses::default(),
            traffic: Traffic::default(),
        })
    }

    pub(crate) fn authority(&self) -> Arc<Authority> {
        Arc::clone(&self.authority.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Uses another authority, or another phase of an exchange, from now on. Connections that are open stay.
    pub(crate) fn use_authority(&self, authority: Authority) {
        *self.authority.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(authority);
    }

    /// Returns the machine of a certificate, if it may connect. A certificate that a newer one has replaced means that two
    /// have the identity: it is locked, and nobody has it.
    pub(crate) fn machine_of(&self, fingerprint: Option<&str>) -> Result<Arc<MachineRecord>, Error> {
        let unknown = || {
            let message =
                "this certificate is not that of a machine of this relay; join again: obey machine join CODE";
            Error::new(ErrorCode::RelayRefused, message)
        };
        let known = || fingerprint.and_then(|fingerprint| self.store.directory().by_certificate(fingerprint));
        // Another process may have issued it a moment ago.
        let found =
            known().or_else(|| self.store.refresh().is_ok_and(|changed| changed).then(known).flatten());
        let (machine, generation) = found.ok_or_else(unknown)?;
        if machine.is_locked {
            let message =
                "this machine is locked, because its certificate was used by two; remove it and join again";
            return Err(Error::new(ErrorCode::RelayRefused, message));
        }
        if generation < machine.generation {
            tracing::warn!(machine = machine.name, "an old certificate was presented; the machine is locked");
            self.store.lock_machine(&machine.id)?;
            self.store.note("machine_locked", &machine.name, "an old certificate was presented");
            self.cut(&machine.id, "the machine is locked");
            return Err(Error::new(
                ErrorCode::RelayRefused,
                "this certificate was replaced; the machine is locked",
            ));
        }
        if generation > machine.generation {
            self.store.use_generation(&machine.id, generation)?;
        }
        Ok(machine)
    }

    /// Counts a call of a machine to the relay itself.
    pub(crate) fn count_call_of(&self, machine: &MachineRecord) -> Result<(), Status> {
        self.machine_quotas.take(&machine.id, Instant::now()).map_err(|wait| {
            self.calls_limited.fetch_add(1, Ordering::Relaxed);
            let wait = wait.as_millis() + 1;
            Status::resource_exhausted(format!(
                "OBEY-1003: this machine calls the relay too often; come back in {wait} ms"
            ))
        })
    }

    /// Takes what a machine says of itself. Another daemon with the same certificate is refused while the first is there.
    pub(crate) fn register(
        &self,
        machine: &MachineRecord,
        request: pb::RegisterRequest,
    ) -> Result<(), String> {
        if request.encoded_len() > limits::REGISTER_MAX_BYTES {
            return Err("what this machine says of itself is larger than 16 KiB".to_owned());
        }
        let mut state = self.locked();
        if let Some(live) = state.live.get_mut(&machine.id) {
            let is_other = !live.instance.is_empty() && live.instance != request.instance_id;
            if is_other && live.heard.elapsed() < limits::SILENCE_MAX {
                return Err(
                    "another daemon with this certificate is connected; try again in a minute".to_owned()
                );
            }
            live.instance.clone_from(&request.instance_id);
            live.heard = Instant::now();
        }
        let capabilities = request.capabilities.clone();
        state.registered.insert(machine.id.clone(), request);
        drop(state);
        if let Err(error) = self.store.note_seen(&machine.id, &capabilities) {
            tracing::warn!(%error, detail = error.detail, "cannot note that a machine was seen");
        }
        self.changed();
        Ok(())
    }

    /// Notes an open tunnel in the place of an earlier one of the same daemon. Returns its epoch.
    pub(crate) fn open(&self, machine: &MachineRecord, link: &Arc<Link>) -> Result<u64, String> {
        let epoch = self.next_epoch.fetch_add(1, Ordering::Relaxed);
        let mut state = self.locked();
        let instance =
            state.registered.get(&machine.id).map(|request| request.instance_id.clone()).unwrap_or_default();
        if let Some(live) = state.live.get(&machine.id)
            && live.instance != instance
            && live.heard.elapsed() < limits::SILENCE_MAX
        {
            return Err("another daemon with this certificate is connected; try again in a minute".to_owned());
        }
        let now = Instant::now();
        let live = LiveMachine {
            link: Arc::clone(link),
            epoch,
            instance,
            opened: now,
            heard: now,
            seen_at: clock::now(),
            is_delivering: true,
            is_draining: false,
        };
        let replaced = state.live.insert(machine.id.clone(), live);
        drop(state);
        if let Some(replaced) = replaced {
            self.end(&machine.id, &replaced, "the machine has connected again");
        }
        self.tunnels_opened.fetch_add(1, Ordering::Relaxed);
        self.changed();
        Ok(epoch)
    }

    /// Notes that a tunnel has ended, unless another one has taken its place.
    pub(crate) fn close(&self, machine_id: &str, epoch: u64, why: &str) {
        let mut state = self.locked();
        if state.live.get(machine_id).is_none_or(|live| live.epoch != epoch) {
            return;
        }
        let live = state.live.remove(machine_id);
        state.registered.remove(machine_id);
        state.gone.insert(machine_id.to_owned(), Instant::now());
        drop(state);
        if let Some(live) = live {
            self.end(machine_id, &live, why);
        }
        if let Some(machine) = self.store.directory().machines.get(machine_id)
            && let Err(error) = self.store.note_seen(machine_id, &machine.capabilities)
        {
            tracing::warn!(%error, detail = error.detail, "cannot note that a machine was seen");
        }
        self.changed();
    }

    fn end(&self, machine_id: &str, live: &LiveMachine, why: &str) {
        live.link.close(&CallFailure::new(Code::Unavailable, format!("OBEY-1051: {why}")));
        let counts = live.link.counts();
        self.past_calls.fetch_add(counts.opened, Ordering::Relaxed);
        self.past_sent.fetch_add(counts.bytes_sent, Ordering::Relaxed);
        self.past_received.fetch_add(counts.bytes_received, Ordering::Relaxed);
        self.past_ignored.fetch_add(counts.ignored, Ordering::Relaxed);
        let carried = counts.bytes_sent + counts.bytes_received;
        self.traffic.count(machine_id, live.epoch, carried, clock::now());
        self.traffic.forget(live.epoch);
    }

    /// Ends a machine's tunnel.
    pub(crate) fn cut(&self, machine_id: &str, why: &str) {
        let epoch = self.locked().live.get(machine_id).map(|live| live.epoch);
        if let Some(epoch) = epoch {
            self.close(machine_id, epoch, why);
        }
    }

    /// Ends the tunnels of machines that were removed or locked.
    pub(crate) fn cut_removed(&self) {
        let directory = self.store.directory();
        let is_over = |id: &String| directory.machines.get(id).is_none_or(|machine| machine.is_locked);
        let over: Vec<String> = self.locked().live.keys().filter(|id| is_over(id)).cloned().collect();
        for machine in over {
            self.cut(&machine, "the machine was removed");
        }
        self.changed();
    }

    /// Notes a sign of life. Returns false for a tunnel that another one has replaced.
    pub(crate) fn note_sign(&self, machine_id: &str, epoch: Option<u64>) -> bool {
        let mut state = self.locked();
        match state.live.get_mut(machine_id) {
            Some(live) if epoch.is_none_or(|epoch| epoch == live.epoch) => {
                live.heard = Instant::now();
                live.seen_at = clock::now();
                true
            }
            _ => false,
        }
    }

    /// Whether a tunnel has been silent for too long.
    pub(crate) fn is_silent(&self, machine_id: &str, epoch: u64) -> bool {
        let state = self.locked();
        state
            .live
            .get(machine_id)
            .is_none_or(|live| live.epoch != epoch || live.heard.elapsed() > limits::SILENCE_MAX)
    }

    /// Notes that a machine takes no new calls.
    pub(crate) fn drain(&self, machine_id: &str, epoch: u64) {
        if let Some(live) = self.locked().live.get_mut(machine_id).filter(|live| live.epoch == epoch) {
            live.is_draining = true;
        }
        self.changed();
    }

    /// Tells every machine that this relay ends. Calls that go on may end by themselves.
    pub(crate) fn drain_all(&self) {
        for live in self.locked().live.values_mut() {
            live.is_draining = true;
            live.link.drain();
        }
        self.changed();
    }

    /// Ends every tunnel and its calls.
    pub(crate) fn cut_all(&self, why: &str) {
        let machines: Vec<String> = self.locked().live.keys().cloned().collect();
        for machine in machines {
            self.cut(&machine, why);
        }
    }

    /// Notes that nothing waits for a machine any more.
    pub(crate) fn delivered(&self, machine_id: &str, epoch: u64) {
        if let Some(live) = self.locked().live.get_mut(machine_id).filter(|live| live.epoch == epoch) {
            live.is_delivering = false;
        }
        self.changed();
    }

    /// Works with other relays from now on.
    pub(crate) fn join(&self, cluster: &Arc<Cluster>) {
        // It is joined once, when it begins to serve.
        let _ = self.cluster.set(Arc::clone(cluster));
    }

    pub(crate) fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.cluster.get()
    }

    /// Returns a channel that is notified whenever a machine connects, disconnects or registers.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns the tunnels that are open here.
    pub(crate) fn live_tunnels(&self) -> Vec<LiveTunnel> {
        let state = self.locked();
        let tunnel = |(id, live): (&String, &LiveMachine)| LiveTunnel {
            machine_id: id.clone(),
            epoch: live.epoch,
            instance: live.instance.clone(),
            registered: state.registered.get(id).cloned(),
            is_draining: live.is_draining,
        };
        state.live.iter().map(tunnel).collect()
    }

    /// Returns the way to a machine, here or at another relay.
    pub(crate) fn route(&self, machine_id: &str) -> Option<Route> {
        if let Some((link, is_basic)) = self.route_here(machine_id) {
            return Some(Route { link, is_basic, elsewhere: None });
        }
        let remote = self.cluster()?.route(machine_id)?;
        let elsewhere = Some((machine_id.to_owned(), remote.epoch));
        Some(Route { link: remote.link, is_basic: false, elsewhere })
    }

    /// Whether a machine is at another relay that cannot be reached just now.
    pub(crate) fn is_cut_off(&self, machine_id: &str) -> bool {
        !self.locked().live.contains_key(machine_id)
            && self.cluster().is_some_and(|cluster| cluster.is_cut_off(machine_id))
    }

    /// Returns the tunnel of a machine that is connected here, and whether it knows the published frames only; so does one
    /// that never registers.
    pub(crate) fn route_here(&self, machine_id: &str) -> Option<(Arc<Link>, bool)> {
        let state = self.locked();
        let live = state.live.get(machine_id).filter(|live| !live.is_draining)?;
        let capabilities = state.registered.get(machine_id).map(|request| &request.capabilities);
        let is_basic = match capabilities {
            Some(capabilities) => !capabilities.iter().any(|capability| capability == FULL_FRAMES),
            None if live.opened.elapsed() < limits::REGISTER_WAIT => return None,
            None => true,
        };
        Some((Arc::clone(&live.link), is_basic))
    }

    /// Waits for a machine that is there, or was a moment ago.
    pub(crate) async fn route_within(&self, machine_id: &str, most: Duration) -> Option<Route> {
        let mut changes = self.changes.subscribe();
        let deadline = time::Instant::now() + most.min(limits::RETURN_WAIT);
        loop {
            changes.borrow_and_update();
            if let Some(route) = self.route(machine_id) {
                return Some(route);
            }
            if !self.may_return(machine_id) || self.is_cut_off(machine_id) {
                return None;
            }
            // A tunnel that is open but not registered becomes usable without a change.
            let look = (time::Instant::now() + Duration::from_millis(250)).min(deadline);
            // Both a change and the time to look again lead on.
            let _ = time::timeout_at(look, changes.changed()).await;
            if time::Instant::now() >= deadline {
                return self.route(machine_id);
            }
        }
    }

    /// Whether a machine that is away may be about to return.
    fn may_return(&self, machine_id: &str) -> bool {
        let state = self.locked();
        state.live.contains_key(machine_id)
            || state.gone.get(machine_id).is_some_and(|gone| gone.elapsed() < limits::RECENTLY)
            || self.started.elapsed() < limits::RECENTLY && self.was_ever_seen(machine_id)
    }

    fn was_ever_seen(&self, machine_id: &str) -> bool {
        self.store.directory().machines.get(machine_id).is_some_and(|machine| machine.seen_at.is_some())
    }

    /// Remembers which machine a client chose. Returns the one before.
    pub(crate) fn switch(&self, user: &str, client: &str, machine_id: &str) -> String {
        let mut state = self.locked();
        let chosen = state.switched.entry(user.to_owned()).or_default();
        if chosen.len() >= limits::SWITCHED_PER_USER_MAX && !chosen.contains_key(client) {
            // Of this user only: nobody forgets what others chose.
            chosen.clear();
        }
        chosen.insert(client.to_owned(), machine_id.to_owned()).unwrap_or_default()
    }

    pub(crate) fn switched(&self, user: &str, client: &str) -> Option<String> {
        self.locked().switched.get(user)?.get(client).cloned()
    }

    /// Returns the tunnels that are open.
    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        self.live_links().into_iter().map(|(_, _, link)| link).collect()
    }

    /// The same with their machines and epochs.
    pub(crate) fn live_links(&self) -> Vec<(String, u64, Arc<Link>)> {
        let of = |(id, live): (&String, &LiveMachine)| (id.clone(), live.epoch, Arc::clone(&live.link));
        self.locked().live.iter().map(of).collect()
    }

    pub(crate) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a time as protobuf has it.
pub(crate) fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    let (seconds, nanos) = time.seconds_and_nanos();
    prost_types::Timestamp { seconds, nanos }
}

#[cfg(test)]
mod tests;
