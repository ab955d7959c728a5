//! Limits the connections of each other user or address on a listener, so that one of them cannot use up all connections.
//! The daemon's own user and root are not limited. Decides only; knows no sockets.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::limits;

/// The places of one listener.
pub(super) struct Places {
    shared: Arc<Mutex<Taken>>,
    most: usize,
}

/// The places in use: in total, and per user. The key `None` stands for connections whose user is unknown.
#[derive(Default)]
struct Taken {
    all: usize,
    by: HashMap<StrangerId, Stranger>,
}

/// One other user: a token bucket and a count of open connections.
struct Stranger {
    open: usize,
    /// How many connections it may open now.
    allowance: f64,
    counted: Instant,
}

/// A place, held as long as the connection it was taken for.
pub(super) struct Place {
    shared: Arc<Mutex<Taken>>,
    by: StrangerId,
}

/// Whose connections are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum StrangerId {
    /// A user of this machine.
    User(u32),
    /// All users of this machine of whom it cannot be told who they are.
    Untold,
    /// Another machine.
    Address(IpAddr),
}

impl StrangerId {
    /// Of IPv6 the network counts: whoever has one address there has all of them.
    pub(super) fn of_address(address: IpAddr) -> Self {
        StrangerId::Address(match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                IpAddr::from([a, b, c, d, 0, 0, 0, 0])
            }
            address @ IpAddr::V4(_) => address,
        })
    }
}

/// The user has too many connections, or opens them too fast.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany;

impl Places {
    /// `most` is the limit for all other users together.
    pub(super) fn new(most: usize) -> Self {
        Self { shared: Arc::default(), most: most.max(1) }
    }

    /// Takes a place for a connection; the daemon's own user and root need none.
    pub(super) fn take(&self, by: StrangerId, now: Instant) -> Result<Option<Place>, TooMany> {
        if matches!(by, StrangerId::User(uid) if uid == host::own_uid() || uid == 0) {
            return Ok(None);
        }
        let mut taken = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = &mut *taken;
        if taken.by.len() >= limits::STRANGERS_TOLD_APART_MAX {
            taken.by.retain(|_, stranger| !stranger.is_forgotten(now));
        }
        if taken.by.len() >= limits::STRANGERS_TOLD_APART_MAX && !taken.by.contains_key(&by) {
            return Err(TooMany);
        }
        let stranger = taken.by.entry(by).or_insert(Stranger {
            open: 0,
            allowance: f64::from(limits::STRANGER_BURST),
            counted: now,
        });
        stranger.allowance = stranger.allowance_at(now);
        stranger.counted = now;
        if taken.all >= self.most
            || stranger.open >= limits::STRANGER_CONNECTIONS_MAX
            || stranger.allowance < 1.0
        {
            return Err(TooMany);
        }
        stranger.allowance -= 1.0;
        stranger.open += 1;
        taken.all += 1;
        Ok(Some(Place { shared: Arc::clone(&self.shared), by }))
    }
}

impl Stranger {
    /// Returns the allowance at this time: it refills at a constant rate up to the burst size.
    fn allowance_at(&self, now: Instant) -> f64 {
        let earned = now.saturating_duration_since(self.counted).as_secs_f64()
            * f64::from(limits::STRANGER_RATE_PER_SEC);
        (self.allowance + earned).min(f64::from(limits::STRANGER_BURST))
    }

    /// Whether the entry equals a new one and can be removed.
    fn is_forgotten(&self, now: Instant) -> bool {
        self.open == 0 && self.allowance_at(now) >= f64::from(limits::STRANGER_BURST)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all = taken.all.saturating_sub(1);
        if let Some(stranger) = taken.by.get_mut(&self.by) {
            stranger.open = stranger.open.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SOMEBODY: StrangerId = StrangerId::User(4_000_001);
    const ANOTHER: StrangerId = StrangerId::User(4_000_002);

    #[test]
    fn a_user_has_only_so_many_connections_at_once() {
        let (places, now) = (Places::new(1_000), Instant::now());
        let mut held: Vec<_> =
            (0..limits::STRANGER_CONNECTIONS_MAX).map(|_| places.take(SOMEBODY, now).unwrap()).collect();
        assert_eq!(places.take(SOMEBODY, now).err(), Some(TooMany));
        assert!(places.take(ANOTHER, now).is_ok(), "another user is not affected");
        assert!(places.take(StrangerId::User(host::own_uid()), now).unwrap().is_none(), "nor is our own");
        assert!(places.take(StrangerId::User(0), now).unwrap().is_none());
        held.pop();
        assert!(places.take(SOMEBODY, now).is_ok(), "one that ends makes room");
    }

    #[test]
    fn a_user_makes_only_so_many_connections_in_a_row() {
        let (places, now) = (Places::new(1_000), Instant::now());
        for _ in 0..limits::STRANGER_BURST {
            drop(places.take(SOMEBODY, now).unwrap());
        }
        assert_eq!(places.take(SOMEBODY, now).err(), Some(TooMany));
        assert!(places.take(ANOTHER, now).is_ok());
        let later = now + Duration::from_secs(1);
        for _ in 0..limits::STRANGER_RATE_PER_SEC {
            drop(places.take(SOMEBODY, later).unwrap());
        }
        assert_eq!(places.take(SOMEBODY, later).err(), Some(TooMany));
    }

    #[test]
    fn all_strangers_together_leave_room() {
        let (places, now) = (Places::new(10), Instant::now());
        let held: Vec<_> =
            (0..10).map(|uid| places.take(StrangerId::User(4_000_000 + uid), now).unwrap()).collect();
        assert_eq!(places.take(StrangerId::User(4_000_102), now).err(), Some(TooMany));
        drop(held);
        assert!(places.take(ANOTHER, now).is_ok());
    }

    #[test]
    fn whoever_can_be_many_users_gains_nothing() {
        let (places, now) = (Places::new(100_000), Instant::now());
        let most = limits::STRANGERS_TOLD_APART_MAX as u32;
        for uid in 0..most {
            drop(places.take(StrangerId::User(4_000_000 + uid), now).unwrap());
        }
        assert_eq!(places.take(StrangerId::User(5_000_000), now).err(), Some(TooMany));
        let later = now + Duration::from_secs(60);
        assert!(places.take(StrangerId::User(5_000_000), later).is_ok(), "who came once is forgotten");
    }

    #[test]
    fn machines_are_told_apart_by_address_and_networks_of_ipv6_by_their_prefix() {
        let id = |text: &str| StrangerId::of_address(text.parse().unwrap());
        assert_ne!(id("10.0.0.1"), id("10.0.0.2"));
        assert_eq!(id("10.0.0.1"), id("::ffff:10.0.0.1"));
        assert_eq!(id("2001:db8::1"), id("2001:db8::ffff:2"));
        assert_ne!(id("2001:db8::1"), id("2001:db8:0:1::1"));
    }
}
