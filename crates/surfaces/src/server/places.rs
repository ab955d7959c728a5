//! How many connections others may have on a listener, told apart by user, so that nobody's flood is anybody else's
//! affair. The daemon's own user and root need no place. Decides only; knows no sockets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::limits;

/// The places of one listener.
pub(super) struct Places {
    shared: Arc<Mutex<Taken>>,
    most: usize,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by: HashMap<Option<u32>, Stranger>,
}

struct Stranger {
    open: usize,
    /// Connections it may make now.
    allowance: f64,
    counted: Instant,
}

/// Kept as long as the connection it was given for.
pub(super) struct Place {
    shared: Arc<Mutex<Taken>>,
    uid: Option<u32>,
}

/// Somebody has too many connections, or makes them too fast.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany;

impl Places {
    /// `most` is for all strangers together.
    pub(super) fn new(most: usize) -> Self {
        Self { shared: Arc::default(), most: most.max(1) }
    }

    /// Takes a place for a connection; the daemon's own user and root need none. Without a user it is one of those who
    /// cannot be told, who are counted together.
    pub(super) fn take(&self, uid: Option<u32>, now: Instant) -> Result<Option<Place>, TooMany> {
        if uid.is_some_and(|uid| uid == host::own_uid() || uid == 0) {
            return Ok(None);
        }
        let mut taken = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = &mut *taken;
        if taken.by.len() >= limits::STRANGERS_TOLD_APART_MAX {
            taken.by.retain(|_, stranger| !stranger.is_forgotten(now));
        }
        if taken.by.len() >= limits::STRANGERS_TOLD_APART_MAX && !taken.by.contains_key(&uid) {
            return Err(TooMany);
        }
        let stranger = taken.by.entry(uid).or_insert(Stranger {
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
        Ok(Some(Place { shared: Arc::clone(&self.shared), uid }))
    }
}

impl Stranger {
    fn allowance_at(&self, now: Instant) -> f64 {
        let earned = now.saturating_duration_since(self.counted).as_secs_f64()
            * f64::from(limits::STRANGER_RATE_PER_SEC);
        (self.allowance + earned).min(f64::from(limits::STRANGER_BURST))
    }

    /// Whether it is as if it had never been there.
    fn is_forgotten(&self, now: Instant) -> bool {
        self.open == 0 && self.allowance_at(now) >= f64::from(limits::STRANGER_BURST)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all = taken.all.saturating_sub(1);
        if let Some(stranger) = taken.by.get_mut(&self.uid) {
            stranger.open = stranger.open.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SOMEBODY: Option<u32> = Some(4_000_001);
    const ANOTHER: Option<u32> = Some(4_000_002);

    #[test]
    fn a_user_has_only_so_many_connections_at_once() {
        let (places, now) = (Places::new(1_000), Instant::now());
        let mut held: Vec<_> =
            (0..limits::STRANGER_CONNECTIONS_MAX).map(|_| places.take(SOMEBODY, now).unwrap()).collect();
        assert_eq!(places.take(SOMEBODY, now).err(), Some(TooMany));
        assert!(places.take(ANOTHER, now).is_ok(), "another user is not affected");
        assert!(places.take(Some(host::own_uid()), now).unwrap().is_none(), "nor is our own");
        assert!(places.take(Some(0), now).unwrap().is_none());
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
        let held: Vec<_> = (0..10).map(|uid| places.take(Some(4_000_000 + uid), now).unwrap()).collect();
        assert_eq!(places.take(ANOTHER.map(|uid| uid + 100), now).err(), Some(TooMany));
        drop(held);
        assert!(places.take(ANOTHER, now).is_ok());
    }

    #[test]
    fn whoever_can_be_many_users_gains_nothing() {
        let (places, now) = (Places::new(100_000), Instant::now());
        let most = limits::STRANGERS_TOLD_APART_MAX as u32;
        for uid in 0..most {
            drop(places.take(Some(4_000_000 + uid), now).unwrap());
        }
        assert_eq!(places.take(Some(5_000_000), now).err(), Some(TooMany));
        let later = now + Duration::from_secs(60);
        assert!(places.take(Some(5_000_000), later).is_ok(), "who came once is forgotten");
    }
}
