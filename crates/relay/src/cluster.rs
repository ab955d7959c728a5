//! Several relays that are one to their machines and clients, over NATS. Who exists, and which relay holds a machine's tunnel,
//! is kept in buckets; calls between relays travel as frames on plain subjects, which NATS never stores. A relay that is
//! alone knows nothing of this.

mod bus;
mod peers;
mod replica;
mod routes;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use domain::Error;
use prost::Message as _;
use tunnel::Link;
use wire::betcode::v1::RegisterRequest;
use wire::obey::v1::MachineRoute;

use crate::hub::Hub;
use crate::limits;
use bus::Bus;
use peers::Peers;

/// This relay among the others.
pub(crate) struct Cluster {
    bus: Bus,
    /// Names this process: another run of the same relay has another name, and what was meant for this one never reaches it.
    relay: String,
    /// The tunnels that this relay holds, by machine.
    held: Mutex<HashMap<String, HeldRoute>>,
    /// Where machines are that other relays hold.
    elsewhere: Mutex<HashMap<String, NotedRoute>>,
    /// When each other relay was heard last.
    relays: Mutex<HashMap<String, Instant>>,
    peers: Peers,
}

/// The claim on a machine whose tunnel is here.
#[derive(Clone, Debug)]
struct HeldRoute {
    /// Which opening of the tunnel the claim is for.
    tunnel: u64,
    /// The number of the claim: calls that were sent by an older one have no effect.
    epoch: u64,
    /// What the bucket's entry was when it was written.
    revision: u64,
    /// What was written last, to notice changes.
    written: MachineRoute,
}

/// What another relay says of a machine.
#[derive(Clone, Debug)]
struct NotedRoute {
    route: MachineRoute,
    /// By this relay's own clock: those of two machines differ.
    noted: Instant,
}

/// The way to a machine at another relay.
pub(crate) struct RemoteRoute {
    pub(crate) link: Arc<Link>,
    pub(crate) epoch: u64,
}

/// Whether several relays can work together in this build.
pub(crate) fn check() -> Result<(), Error> {
    Ok(())
}

impl Cluster {
    /// Connects, and works with the others from then on. A bus that is away is waited for: machines of this relay are served.
    pub(crate) async fn start(url: &str, cluster: &str, hub: &Arc<Hub>) -> Result<Arc<Self>, Error> {
        let (bus, mut events) = Bus::connect(url, cluster).await?;
        let this = Arc::new(Self {
            bus,
            relay: host::ids::unique(),
            held: Mutex::default(),
            elsewhere: Mutex::default(),
            relays: Mutex::default(),
            peers: Peers::default(),
        });
        hub.join(&this);
        tokio::spawn(routes::hold(Arc::clone(&this), Arc::clone(hub)));
        tokio::spawn(routes::follow(Arc::clone(&this), Arc::clone(hub)));
        tokio::spawn(replica::run(Arc::clone(&this), Arc::clone(hub)));
        tokio::spawn(peers::receive(Arc::clone(&this), Arc::clone(hub)));
        tokio::spawn(peers::beat(Arc::clone(&this)));
        let of_events = Arc::clone(&this);
        tokio::spawn(async move {
            // What was under way may be lost, also the credit of calls: they end, and their clients know it at once.
            while events.recv().await.is_some() {
                of_events.peers.close_all("the connection between the relays broke");
            }
        });
        Ok(this)
    }

    /// Returns the way to a machine whose tunnel another relay holds, if that relay is there.
    pub(crate) fn route(self: &Arc<Self>, machine_id: &str) -> Option<RemoteRoute> {
        let noted = self.noted(machine_id)?;
        // What is sent now would wait for the bus, and be executed when nobody waits for it any more.
        if noted.route.is_draining || noted.route.registered.is_empty() || !self.bus.is_connected() {
            return None;
        }
        let link = self.peers.link_to(self, &noted.route.relay);
        Some(RemoteRoute { link, epoch: noted.route.epoch })
    }

    /// Whether a machine is at another relay that cannot be reached just now, because the bus is away.
    pub(crate) fn is_cut_off(&self, machine_id: &str) -> bool {
        !self.bus.is_connected() && self.elsewhere().contains_key(machine_id)
    }

    /// Returns what a machine at another relay said of itself; nothing where no relay holds it.
    pub(crate) fn registered(&self, machine_id: &str) -> Option<RegisterRequest> {
        let noted = self.noted(machine_id)?;
        RegisterRequest::decode(noted.route.registered.as_slice()).ok()
    }

    /// Returns how many machines other relays hold, and how many relays were heard.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let machines: Vec<String> = self.elsewhere().keys().cloned().collect();
        let machines = machines.iter().filter(|id| self.noted(id).is_some()).count();
        let relays =
            self.relays().values().filter(|heard| heard.elapsed() < limits::RELAY_SILENCE_MAX).count();
        (machines, relays)
    }

    /// Says how the bus is, for people.
    pub(crate) fn state(&self) -> String {
        self.bus.state()
    }

    /// Whether this relay holds a machine by this very claim.
    fn holds(&self, machine_id: &str, epoch: u64) -> bool {
        self.held().get(machine_id).is_some_and(|held| held.epoch == epoch)
    }

    /// Whether a relay was heard lately.
    fn is_there(&self, relay: &str) -> bool {
        self.relays().get(relay).is_some_and(|heard| heard.elapsed() < limits::RELAY_SILENCE_MAX)
    }

    fn noted(&self, machine_id: &str) -> Option<NotedRoute> {
        let noted = self.elsewhere().get(machine_id).cloned()?;
        let is_fresh = noted.noted.elapsed() < limits::SILENCE_MAX;
        (is_fresh && self.is_there(&noted.route.relay)).then_some(noted)
    }

    fn held(&self) -> MutexGuard<'_, HashMap<String, HeldRoute>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn elsewhere(&self) -> MutexGuard<'_, HashMap<String, NotedRoute>> {
        self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn relays(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.relays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
