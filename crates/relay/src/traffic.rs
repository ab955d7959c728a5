//! How many bytes each machine has exchanged with its clients today (UTC), and the bound that the owner of the relay may set. Bodies
//! count, in both directions, where the machine's tunnel is; heartbeats do not.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use domain::{Error, Timestamp};
use host::clock;
use tonic::{Code, Status};
use tunnel::CallFailure;

use crate::hub::Hub;
use crate::limits;

const MICROS_PER_DAY: i64 = 24 * 3600 * 1_000_000;

/// The bytes of all machines.
#[derive(Default)]
pub(crate) struct Traffic {
    /// Per machine and day; 0: there is no bound.
    limit: AtomicU64,
    today: Mutex<DayTraffic>,
}

/// What was counted in one day.
#[derive(Debug, Default)]
struct DayTraffic {
    /// Days since 1970.
    day: i64,
    bytes: HashMap<String, u64>,
    /// What of each open tunnel is counted already.
    counted: HashMap<u64, u64>,
    /// Machines whose bytes are not in the file yet, and when it was written last.
    unsaved: HashSet<String>,
    saved: Option<Instant>,
}

/// Returns the day of a time.
pub(crate) fn day_of(time: Timestamp) -> i64 {
    time.0.div_euclid(MICROS_PER_DAY)
}

impl Traffic {
    /// Goes on with what the file has of today.
    pub(crate) fn restore(&self, limit: u64, day: i64, bytes: HashMap<String, u64>) {
        self.set_limit(limit);
        let mut today = self.locked();
        (today.day, today.bytes) = (day, bytes);
    }

    pub(crate) fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Counts what a tunnel has carried since it was opened.
    pub(crate) fn count(&self, machine_id: &str, tunnel: u64, carried: u64, now: Timestamp) {
        let mut today = self.locked();
        today.begin(day_of(now));
        let before = today.counted.insert(tunnel, carried).unwrap_or(0);
        let more = carried.saturating_sub(before);
        if more > 0 {
            *today.bytes.entry(machine_id.to_owned()).or_default() += more;
            today.unsaved.insert(machine_id.to_owned());
        }
    }

    /// Forgets a tunnel that has ended.
    pub(crate) fn forget(&self, tunnel: u64) {
        self.locked().counted.remove(&tunnel);
    }

    /// Whether a machine has used all of today's bytes.
    pub(crate) fn is_over(&self, machine_id: &str, now: Timestamp) -> bool {
        let limit = self.limit();
        let today = self.locked();
        limit > 0
            && today.day == day_of(now)
            && today.bytes.get(machine_id).is_some_and(|bytes| *bytes >= limit)
    }

    /// Whether it is time to write; without a bound nobody asks what was used.
    fn is_due(&self) -> bool {
        let is_late = |saved: Instant| saved.elapsed() >= limits::TRAFFIC_SAVE_INTERVAL;
        self.limit() > 0 && self.locked().saved.is_none_or(is_late)
    }

    /// Returns the day, and its traffic that is not in the file yet.
    fn take_unsaved(&self) -> (i64, Vec<(String, u64)>) {
        let mut today = self.locked();
        today.saved = Some(Instant::now());
        let unsaved = std::mem::take(&mut today.unsaved);
        let of = |id: String| today.bytes.get(&id).map(|bytes| (id, *bytes));
        (today.day, unsaved.into_iter().filter_map(of).collect())
    }

    fn locked(&self) -> MutexGuard<'_, DayTraffic> {
        self.today.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DayTraffic {
    /// Begins another day: nothing was used of it.
    fn begin(&mut self, day: i64) {
        if self.day != day {
            self.day = day;
            self.bytes.clear();
            self.unsaved.clear();
        }
    }
}

impl Hub {
    /// Counts what all tunnels have carried, ends the calls of machines that have used up their bytes, and writes it down.
    pub(crate) fn count_traffic(&self) -> Result<(), Error> {
        let now = clock::now();
        for (machine_id, epoch, link) in self.live_links() {
            let counts = link.counts();
            self.traffic.count(&machine_id, epoch, counts.bytes_sent + counts.bytes_received, now);
            if self.traffic.is_over(&machine_id, now) && counts.active > 0 {
                let ended =
                    link.end_calls(&CallFailure::new(Code::ResourceExhausted, over(self.traffic.limit())));
                self.calls_over_quota.fetch_add(ended as u64, Ordering::Relaxed);
            }
        }
        match self.traffic.is_due() {
            true => {
                let (day, unsaved) = self.traffic.take_unsaved();
                self.store.save_traffic(day, &unsaved)
            }
            false => Ok(()),
        }
    }

    /// Refuses a call to a machine that has used up its bytes.
    pub(crate) fn check_traffic(&self, machine_id: &str) -> Result<(), Status> {
        if !self.traffic.is_over(machine_id, clock::now()) {
            return Ok(());
        }
        self.calls_over_quota.fetch_add(1, Ordering::Relaxed);
        Err(Status::resource_exhausted(over(self.traffic.limit())))
    }
}

fn over(limit: u64) -> String {
    format!(
        "OBEY-1003: the machine has used the {limit} bytes that this relay carries for it in a day; come back after 00:00 UTC"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp(MICROS_PER_DAY * 20_000 + MICROS_PER_DAY / 2);

    #[test]
    fn a_machine_has_its_bytes_of_each_day_whatever_tunnels_it_opens() {
        let traffic = Traffic::default();
        traffic.count("box", 1, 900, NOON);
        assert!(!traffic.is_over("box", NOON), "without a bound nobody is over it");
        traffic.set_limit(1_000);
        assert!(!traffic.is_over("box", NOON));
        traffic.count("box", 1, 950, NOON);
        traffic.count("box", 2, 50, NOON);
        traffic.count("other", 3, 999, NOON);
        assert!(traffic.is_over("box", NOON) && !traffic.is_over("other", NOON));
        let (day, unsaved) = traffic.take_unsaved();
        assert_eq!((day, unsaved.len()), (20_000, 2));
        assert!(traffic.take_unsaved().1.is_empty(), "it is written once");
        let tomorrow = Timestamp(NOON.0 + MICROS_PER_DAY);
        assert!(!traffic.is_over("box", tomorrow));
        traffic.count("box", 2, 60, tomorrow);
        assert_eq!(traffic.take_unsaved().1, [("box".to_owned(), 10)]);
    }

    #[test]
    fn a_relay_that_is_served_again_goes_on_counting() {
        let traffic = Traffic::default();
        traffic.restore(100, 20_000, HashMap::from([("box".to_owned(), 99)]));
        assert!(!traffic.is_over("box", NOON));
        traffic.count("box", 1, 1, NOON);
        assert!(traffic.is_over("box", NOON));
    }
}
