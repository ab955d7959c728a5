//! What was taken out of a session's events, for those who may have it: a client that must run a call as the agent made it, and a
//! user who looks at one event for a while. In memory only, bounded in bytes and time. Must not decide who may.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use domain::request::RequestSubject;
use domain::{EventKind, RequestId, any_event};
use tokio::time::Instant;

use crate::limits;

/// The originals of one session.
#[derive(Default)]
pub(crate) struct KeptOriginals {
    inner: Mutex<OriginalsState>,
}

#[derive(Default)]
struct OriginalsState {
    events: VecDeque<Original>,
    bytes: usize,
    asks: BTreeMap<RequestId, RequestSubject>,
}

struct Original {
    seq: u64,
    until: Instant,
    kind: EventKind,
    bytes: usize,
}

impl KeptOriginals {
    /// Keeps events as they were, and the requests that wait as they were asked.
    pub(super) fn keep(&self, events: Vec<(u64, EventKind)>, asks: &BTreeMap<RequestId, RequestSubject>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.asks != *asks {
            inner.asks.clone_from(asks);
        }
        for (seq, kind) in events {
            let (until, bytes) = (Instant::now() + limits::REVEAL_WAIT, storage::sessions::json(&kind).len());
            if bytes <= limits::REVEAL_MAX_BYTES {
                inner.bytes += bytes;
                inner.events.push_back(Original { seq, until, kind, bytes });
            }
        }
        inner.drop_old();
    }

    /// Returns an event as it was, while it is kept.
    pub(crate) fn event(&self, seq: u64) -> Option<EventKind> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.drop_old();
        inner.events.iter().find(|original| original.seq == seq).map(|original| original.kind.clone())
    }

    /// Returns when the oldest event must be forgotten.
    pub(super) fn expires_at(&self) -> Option<Instant> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.events.front().map(|original| original.until)
    }

    /// Forgets what was kept long enough.
    pub(super) fn forget_expired(&self) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).drop_old();
    }

    /// Returns a request that waits as it was asked, if something was taken out of it.
    pub(crate) fn request_subject(&self, request: RequestId) -> Option<RequestSubject> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).asks.get(&request).cloned()
    }
}

impl OriginalsState {
    fn drop_old(&mut self) {
        let now = Instant::now();
        while let Some(first) = self.events.front()
            && (first.until <= now || self.bytes > limits::REVEAL_MAX_BYTES)
        {
            self.bytes -= first.bytes;
            self.events.pop_front();
        }
    }
}

/// Returns an event of a text that came in pieces with the text as it was.
pub(super) fn with_text(kind: &EventKind, original: String) -> EventKind {
    let mut kind = kind.clone();
    match &mut kind {
        EventKind::TextDelta { text, .. } | EventKind::ThinkingDelta { text, .. } => *text = original,
        EventKind::ToolProgress { output, .. } => *output = original,
        EventKind::AgentLogged { line } => *line = original,
        any_event!(
            SessionCreated StatusChanged AgentStarted AgentReady AgentExited Restarted turn ToolStarted
            ToolFinished request settings plan usage worker report
        ) => {}
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_delta(text: &str) -> EventKind {
        EventKind::TextDelta { text: text.to_owned(), parent: None }
    }

    #[tokio::test(start_paused = true)]
    async fn an_original_is_kept_for_ten_minutes() {
        let kept = KeptOriginals::default();
        kept.keep(vec![(3, text_delta("a"))], &BTreeMap::new());
        tokio::time::advance(limits::REVEAL_WAIT - std::time::Duration::from_secs(1)).await;
        assert_eq!(kept.event(3), Some(text_delta("a")));
        let end = kept.expires_at().unwrap();
        tokio::time::sleep_until(end).await;
        kept.forget_expired();
        assert_eq!(kept.expires_at(), None, "nothing is left in memory");
        assert_eq!(kept.event(3), None);
    }

    #[tokio::test]
    async fn originals_are_bounded_in_bytes() {
        let kept = KeptOriginals::default();
        let long = "x".repeat(limits::REVEAL_MAX_BYTES / 3);
        (1..=10).for_each(|seq| kept.keep(vec![(seq, text_delta(&long))], &BTreeMap::new()));
        assert_eq!(kept.event(1), None);
        assert_eq!(kept.event(10), Some(text_delta(&long)));
        kept.keep(vec![(11, text_delta(&"x".repeat(limits::REVEAL_MAX_BYTES)))], &BTreeMap::new());
        assert_eq!(kept.event(11), None, "too large to be kept");
    }
}
