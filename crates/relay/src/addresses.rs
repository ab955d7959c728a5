//! What one address may do before anybody is proved to be there: connect, present wrong tokens and codes, begin late renewals. Who has
//! proved who they are is counted by that and not by the address, because many may be behind one.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tonic::Status;

use crate::limits;
use crate::quota::{Place, Places, Quotas};

/// Where a request came from; an extension of every request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

impl ClientAddress {
    /// Returns the address of a request; none is as good as every other one that is not known.
    pub(crate) fn of(extensions: &http::Extensions) -> Self {
        let unknown = Self(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED));
        extensions.get::<Self>().copied().unwrap_or(unknown)
    }

    /// Returns what is counted as one: of version 6 a whole network, since everybody has one.
    fn key(self) -> String {
        match self.0.to_canonical() {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => {
                let [first, second, third, fourth, ..] = address.segments();
                format!("{first:x}:{second:x}:{third:x}:{fourth:x}")
            }
        }
    }
}

/// What is counted of all addresses.
pub(crate) struct Addresses {
    connections: Arc<Places>,
    handshakes: Quotas,
    refusals: Quotas,
    renewals: Quotas,
    /// What was refused because of its address.
    pub(crate) limited: AtomicU64,
}

impl Default for Addresses {
    fn default() -> Self {
        Self {
            connections: Places::new(limits::CONNECTIONS_PER_ADDRESS_MAX),
            handshakes: Quotas::new(limits::HANDSHAKES_PER_ADDRESS),
            refusals: Quotas::new(limits::REFUSALS_PER_ADDRESS),
            renewals: Quotas::new(limits::LATE_RENEWALS_PER_ADDRESS),
            limited: AtomicU64::new(0),
        }
    }
}

impl Addresses {
    /// Takes a connection, unless its address has too many, or makes too many.
    pub(crate) fn connect(&self, address: ClientAddress) -> Option<Place> {
        let key = address.key();
        let may = self.handshakes.take(&key, Instant::now()).is_ok();
        let place = may.then(|| self.connections.take(&key)).flatten();
        if place.is_none() {
            self.limited.fetch_add(1, Ordering::Relaxed);
        }
        place
    }

    /// Whether an address that has presented what is wrong may present something else.
    pub(crate) fn may_try(&self, address: ClientAddress) -> Result<(), Status> {
        self.told(self.refusals.look(&address.key(), Instant::now()))
    }

    /// Notes that an address has presented a token or a code that is wrong.
    pub(crate) fn note_refusal(&self, address: ClientAddress) {
        // Whether that was the last one is asked before the next.
        let _ = self.refusals.take(&address.key(), Instant::now());
    }

    /// Whether an address may begin another late renewal.
    pub(crate) fn may_renew(&self, address: ClientAddress) -> Result<(), Status> {
        self.told(self.renewals.take(&address.key(), Instant::now()))
    }

    fn told(&self, taken: Result<(), std::time::Duration>) -> Result<(), Status> {
        taken.map_err(|wait| {
            self.limited.fetch_add(1, Ordering::Relaxed);
            Status::resource_exhausted(format!(
                "OBEY-1003: this address was refused too often; come back in {} ms",
                wait.as_millis() + 1
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> ClientAddress {
        ClientAddress(text.parse().unwrap())
    }

    #[test]
    fn a_network_of_version_six_counts_as_one_and_so_does_an_address_of_version_four_in_both_forms() {
        assert_eq!(address("2001:db8:1:2::7").key(), address("2001:db8:1:2:ffff::1").key());
        assert_ne!(address("2001:db8:1:2::7").key(), address("2001:db8:1:3::7").key());
        assert_eq!(address("192.0.2.1").key(), address("::ffff:192.0.2.1").key());
    }

    #[test]
    fn an_address_that_is_refused_often_waits_and_others_do_not() {
        let addresses = Addresses::default();
        let (bad, good) = (address("192.0.2.1"), address("192.0.2.2"));
        let mut tries = 0;
        while addresses.may_try(bad).is_ok() {
            addresses.note_refusal(bad);
            tries += 1;
            assert!(tries <= 1_000, "it is never refused");
        }
        assert!(addresses.may_try(bad).unwrap_err().message().contains("come back in"));
        assert!(addresses.may_try(good).is_ok());
        assert!(addresses.limited.load(Ordering::Relaxed) > 0);
    }

    #[test]
    fn one_address_never_has_all_connections() {
        let addresses = Addresses::default();
        let held: Vec<_> = std::iter::from_fn(|| addresses.connect(address("192.0.2.1"))).collect();
        assert!(held.len() < limits::CONNECTIONS_MAX, "{} connections", held.len());
        assert!(addresses.connect(address("192.0.2.2")).is_some());
    }

    #[test]
    fn one_address_cannot_use_up_all_nonces_of_late_renewals() {
        let addresses = Addresses::default();
        let begun = std::iter::from_fn(|| addresses.may_renew(address("192.0.2.1")).ok()).count();
        let life = limits::NONCE_LIFE.as_secs_f64() * limits::LATE_RENEWALS_PER_ADDRESS.per_second;
        assert!(begun as f64 + life < limits::NONCES_MAX as f64 * 0.6, "{begun}");
    }
}
