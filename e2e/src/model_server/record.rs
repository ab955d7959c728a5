//! What the server saw and did: requests, the text sent for each, pauses and their release. Shared by the server's
//! thread and the test's handle. Knows no HTTP framing and no script.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

/// One request as it arrived, and what became of it.
#[derive(Debug, Clone, Serialize)]
pub struct Request {
    /// Position in arrival order, from 0.
    pub index: usize,
    pub method: String,
    /// Path without the query.
    pub path: String,
    pub query: String,
    /// Names in lower case, in arrival order.
    pub headers: Vec<(String, String)>,
    /// The JSON body; a text where it was not JSON, null where there was none.
    pub body: Value,
    /// Why the agent asked.
    pub purpose: Purpose,
    /// The prompt's text before its script, for requests of purpose `Turn`.
    pub key: String,
    /// Which step of the script was played.
    pub step: usize,
    /// Visible text handed to the connection so far, byte for byte.
    pub sent_text: String,
    pub outcome: Outcome,
}

impl Request {
    /// The first value of a header, by lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// What a request is for. Only turns follow scripts; everything else gets a fixed reply, so that a title or a summary
/// never uses up a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The conversation itself, main agent or sub-agent.
    Turn,
    /// A name for the session.
    Title,
    /// A guess at what the user might type next.
    Suggestion,
    /// A summary of a conversation that became too long.
    Compaction,
    /// Counting tokens, greeting, asking whether a model exists.
    Other,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The reply is still being sent, or waits.
    Open,
    /// The whole reply was sent.
    Finished,
    /// The client closed the connection first.
    ClientGone,
    /// The script cut the connection.
    Cut,
    /// Answered with this HTTP error.
    Refused(u16),
}

/// The shared record. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Ledger {
    inner: Arc<Mutex<Inner>>,
    /// Counts changes; every waiter looks again when it moves.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
pub(crate) struct Inner {
    requests: Vec<Request>,
    /// How many of them no longer count.
    forgotten: usize,
    /// Names that tests released. Never forgotten: a release that comes before the wait counts too.
    released: HashSet<String>,
    /// Names on which some stream has paused, ever.
    pub(crate) reached: HashSet<String>,
    /// Attempts per step of a conversation, for faults that happen only the first few times.
    attempts: HashMap<String, u64>,
    log: Option<File>,
}

impl Inner {
    /// The requests that count, in order of arrival.
    pub(crate) fn requests(&self) -> &[Request] {
        self.requests.get(self.forgotten..).unwrap_or_default()
    }
}

impl Ledger {
    pub(crate) fn new(log: Option<File>) -> Ledger {
        let inner = Inner { log, ..Inner::default() };
        Ledger { inner: Arc::new(Mutex::new(inner)), changes: watch::Sender::new(0) }
    }

    /// Has no request so far count any more.
    pub(crate) fn forget(&self) {
        self.change(|inner| inner.forgotten = inner.requests.len());
    }

    /// Looks at the record.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Inner) -> T) -> T {
        look(&self.lock())
    }

    /// Waits until `look` finds something. Has no deadline; callers put one around it.
    pub(crate) async fn until<T>(&self, mut look: impl FnMut(&Inner) -> Option<T>) -> T {
        let mut changes = self.changes.subscribe();
        loop {
            changes.borrow_and_update();
            if let Some(found) = self.read(&mut look) {
                return found;
            }
            // The sender lives in `self`, so this cannot fail while we wait.
            let _ = changes.changed().await;
        }
    }

    /// Records an arrival; `index` is set here.
    pub(crate) fn arrived(&self, mut request: Request) -> usize {
        let index = self.change(|inner| {
            request.index = inner.requests.len();
            inner.requests.push(request);
            inner.requests.len() - 1
        });
        self.write_log(index, "arrived");
        index
    }

    pub(crate) fn sent(&self, index: usize, text: &str) {
        self.change(|inner| {
            if let Some(request) = inner.requests.get_mut(index) {
                request.sent_text.push_str(text);
            }
        });
    }

    pub(crate) fn ended(&self, index: usize, outcome: Outcome) {
        self.change(|inner| {
            if let Some(request) = inner.requests.get_mut(index) {
                request.outcome = outcome;
            }
        });
        self.write_log(index, "ended");
    }

    pub(crate) fn release(&self, name: &str) {
        self.change(|inner| inner.released.insert(name.to_owned()));
    }

    /// Pauses until the name is released.
    pub(crate) async fn pause(&self, name: &str) {
        self.change(|inner| inner.reached.insert(name.to_owned()));
        self.until(|inner| inner.released.contains(name).then_some(())).await;
    }

    /// Counts an attempt at one step of one conversation: 1 for the first.
    pub(crate) fn attempt(&self, step: String) -> u64 {
        let mut inner = self.lock();
        let count = inner.attempts.entry(step).or_insert(0);
        *count += 1;
        *count
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panicking test must not hide its own message behind a poisoned lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let changed = change(&mut self.lock());
        self.changes.send_modify(|count| *count += 1);
        changed
    }

    fn write_log(&self, index: usize, what: &str) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        if let (Some(log), Some(request)) = (&mut inner.log, inner.requests.get(index)) {
            let line = serde_json::json!({"what": what, "request": request});
            // The log only serves people who watch; a full disk must not fail the reply.
            let _ = writeln!(log, "{line}");
        }
    }
}
