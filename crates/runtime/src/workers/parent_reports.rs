//! Tells parents about their workers. Reports that come while others are being stored are stored together: a session with a
//! hundred workers would otherwise wait for the disk once for each of them. In memory only.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::{Command, Error, ErrorCode, EventKind, SessionId};
use tokio::sync::oneshot;

use super::Workers;

/// The reports that wait, by parent. A parent that has an entry has a task that stores them.
#[derive(Default)]
pub(super) struct ParentReports(Mutex<HashMap<SessionId, Vec<WaitingReport>>>);

struct WaitingReport {
    event: EventKind,
    reply: oneshot::Sender<Result<(), Error>>,
}

impl ParentReports {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Vec<WaitingReport>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a report; returns whether nobody stores those of its parent yet.
    fn add(&self, parent: &SessionId, report: WaitingReport) -> bool {
        let mut all = self.lock();
        let is_first = !all.contains_key(parent);
        all.entry(parent.clone()).or_default().push(report);
        is_first
    }

    /// Returns what waits; none: there is nothing, and the next report begins anew.
    fn take(&self, parent: &SessionId) -> Option<Vec<WaitingReport>> {
        let mut all = self.lock();
        let waiting = all.get_mut(parent).map(std::mem::take).filter(|waiting| !waiting.is_empty());
        if waiting.is_none() {
            all.remove(parent);
        }
        waiting
    }

    /// Gives up what waits: nobody stores it any more. The next report begins anew.
    fn abandon(&self, parent: &SessionId) {
        self.lock().remove(parent);
    }
}

/// Abandons the reports of a parent whose storing task ends before it has stored them all, as a panic ends it: without that, nobody
/// would ever store the next ones.
struct StoringTask<'a> {
    reports: &'a ParentReports,
    parent: &'a SessionId,
    is_done: bool,
}

impl StoringTask<'_> {
    fn next(&mut self) -> Option<Vec<WaitingReport>> {
        let waiting = self.reports.take(self.parent);
        self.is_done = waiting.is_none();
        waiting
    }
}

impl Drop for StoringTask<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.reports.abandon(self.parent);
        }
    }
}

impl Workers {
    /// Records the end or the progress of a worker in its parent's journal. When this returns, it is on disk.
    pub(super) async fn report(&self, parent: &SessionId, event: EventKind) -> Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        if self.context().reports().add(parent, WaitingReport { event, reply }) {
            let (workers, parent) = (self.clone(), parent.clone());
            // In a task of its own: whoever came first may go away while others wait.
            tokio::spawn(async move { workers.store_reports(&parent).await });
        }
        answer.await.unwrap_or_else(|_| Err(Error::new(ErrorCode::SessionError, "an internal error")))
    }

    async fn store_reports(&self, parent: &SessionId) {
        let mut task = StoringTask { reports: self.context().reports(), parent, is_done: false };
        while let Some(waiting) = task.next() {
            let (events, replies): (Vec<_>, Vec<_>) =
                waiting.into_iter().map(|report| (report.event, report.reply)).unzip();
            let stored = self.supervisor.command(parent, Command::ReportWorkers { events }).await.map(drop);
            for reply in replies {
                // Whoever went away needs no answer.
                let _ = reply.send(stored.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::event::Level;

    use super::*;

    fn report(message: &str) -> WaitingReport {
        let event = EventKind::Notice { level: Level::Info, code: None, message: message.to_owned() };
        WaitingReport { event, reply: oneshot::channel().0 }
    }

    #[test]
    fn what_comes_meanwhile_is_stored_together() {
        let (reports, parent) = (ParentReports::default(), SessionId::new("sess_a"));
        assert!(reports.add(&parent, report("1")));
        assert_eq!(reports.take(&parent).map(|waiting| waiting.len()), Some(1));
        // Being stored: whoever comes now waits for the next time.
        assert!(!reports.add(&parent, report("2")) && !reports.add(&parent, report("3")));
        assert!(reports.add(&SessionId::new("sess_b"), report("4")));
        assert_eq!(reports.take(&parent).map(|waiting| waiting.len()), Some(2));
        assert!(reports.take(&parent).is_none());
        assert!(reports.add(&parent, report("5")));
    }

    #[test]
    fn reports_go_on_after_a_panic_of_the_task_that_stores_them() {
        let (reports, parent) = (ParentReports::default(), SessionId::new("sess_a"));
        assert!(reports.add(&parent, report("1")));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut task = StoringTask { reports: &reports, parent: &parent, is_done: false };
            let _taken = task.next();
            assert!(!reports.add(&parent, report("2")));
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert!(reports.add(&parent, report("3")), "the next report begins anew");
        let mut task = StoringTask { reports: &reports, parent: &parent, is_done: false };
        assert_eq!(task.next().map(|waiting| waiting.len()), Some(1));
        assert!(task.next().is_none());
        assert!(reports.add(&parent, report("4")), "nobody stores");
        drop(task);
        assert!(!reports.add(&parent, report("5")), "the end of a task that was done takes nothing along");
    }
}
