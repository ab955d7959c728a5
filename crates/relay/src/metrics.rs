//! What a relay counts, as numbers and as Prometheus reads them.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use crate::hub::Hub;

/// All counts at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) machines: usize,
    pub(crate) online: usize,
    pub(crate) calls_active: usize,
    pub(crate) calls: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) ignored: u64,
    pub(crate) waiting: usize,
    tunnels: u64,
    refused: u64,
    expired: u64,
    limited: u64,
    addresses_limited: u64,
    pub(crate) over_quota: u64,
    pub(crate) relays: usize,
    pub(crate) elsewhere: usize,
}

impl Totals {
    pub(crate) fn of(hub: &Hub) -> Self {
        let directory = hub.store.directory();
        let links = hub.links();
        let mut totals = Self {
            machines: directory.machines.len(),
            online: links.len(),
            calls: hub.past_calls.load(Ordering::Relaxed),
            bytes_sent: hub.past_sent.load(Ordering::Relaxed),
            bytes_received: hub.past_received.load(Ordering::Relaxed),
            ignored: hub.past_ignored.load(Ordering::Relaxed),
            waiting: directory.machines.keys().map(|id| hub.store.waiting(id).unwrap_or(0)).sum(),
            tunnels: hub.tunnels_opened.load(Ordering::Relaxed),
            refused: hub.calls_refused.load(Ordering::Relaxed),
            expired: hub.calls_expired.load(Ordering::Relaxed),
            limited: hub.calls_limited.load(Ordering::Relaxed),
            addresses_limited: hub.addresses.limited.load(Ordering::Relaxed),
            over_quota: hub.calls_over_quota.load(Ordering::Relaxed),
            ..Self::default()
        };
        if let Some(cluster) = hub.cluster() {
            (totals.elsewhere, totals.relays) = cluster.counts();
        }
        for link in links {
            let counts = link.counts();
            totals.calls_active += counts.active;
            totals.calls += counts.opened;
            totals.bytes_sent += counts.bytes_sent;
            totals.bytes_received += counts.bytes_received;
            totals.ignored += counts.ignored;
        }
        totals
    }

    /// Returns the text that Prometheus reads.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut add = |name: &str, kind: &str, help: &str, value: u64| {
            // Writing to a text does not fail.
            let _ = writeln!(
                text,
                "# HELP obey_relay_{name} {help}\n# TYPE obey_relay_{name} {kind}\nobey_relay_{name} {value}"
            );
        };
        add("machines", "gauge", "Machines that joined.", self.machines as u64);
        add("tunnels_active", "gauge", "Machines that are connected.", self.online as u64);
        add("tunnels_opened_total", "counter", "Tunnels that were opened.", self.tunnels);
        add("calls_active", "gauge", "Calls that go on.", self.calls_active as u64);
        add("calls_total", "counter", "Calls that went to machines.", self.calls);
        add("calls_refused_total", "counter", "Calls that nobody was proved to have made.", self.refused);
        add("bytes_to_machines_total", "counter", "Bytes of calls to machines.", self.bytes_sent);
        add("bytes_from_machines_total", "counter", "Bytes of answers from machines.", self.bytes_received);
        add(
            "frames_ignored_total",
            "counter",
            "Frames of calls that had ended or nobody made.",
            self.ignored,
        );
        add("calls_limited_total", "counter", "Calls of somebody who made too many.", self.limited);
        add(
            "addresses_limited_total",
            "counter",
            "Connections and calls of addresses that came or were refused too often.",
            self.addresses_limited,
        );
        add(
            "calls_over_quota_total",
            "counter",
            "Calls of machines without bytes left today.",
            self.over_quota,
        );
        add("calls_expired_total", "counter", "Calls that waited too long for their machine.", self.expired);
        add("relays", "gauge", "Other relays that were heard of lately.", self.relays as u64);
        add(
            "machines_elsewhere",
            "gauge",
            "Machines that are connected to other relays.",
            self.elsewhere as u64,
        );
        add("calls_waiting", "gauge", "Calls that wait for a machine.", self.waiting as u64);
        text
    }
}
