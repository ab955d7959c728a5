//! The newest events of one session in memory, and the signal that wakes its readers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use domain::request::{PermissionSubject, RequestOutcome, RequestSubject};
use domain::{Event, EventKind, any_event};
use tokio::sync::watch;

use super::JournalBounds;

/// The newest events of one session; readers are woken through `last_seq`.
pub(super) struct Tail {
    kept: Mutex<CachedEvents>,
    bounds: JournalBounds,
    last_seq: watch::Sender<u64>,
}

#[derive(Default)]
struct CachedEvents {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
}

impl Tail {
    pub(super) fn new(last_seq: u64, bounds: JournalBounds) -> Self {
        Self { kept: Mutex::new(CachedEvents::default()), bounds, last_seq: watch::Sender::new(last_seq) }
    }

    pub(super) fn last_seq(&self) -> u64 {
        *self.last_seq.borrow()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.last_seq.subscribe()
    }

    /// Appends events that follow the last one and wakes the readers.
    pub(super) fn extend(&self, events: Vec<Arc<Event>>) {
        let Some(last) = events.last().map(|event| event.seq) else { return };
        {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            for event in events {
                kept.bytes += weight(&event);
                kept.events.push_back(event);
            }
            kept.trim(self.bounds);
        }
        self.last_seq.send_replace(last);
    }

    /// Returns events after a sequence number, or `None` if some of them are no longer in memory.
    pub(super) fn after(&self, seq: u64, most: usize) -> Option<Vec<Arc<Event>>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let first = kept.events.front()?.seq;
        if seq + 1 < first {
            return None;
        }
        let skip = usize::try_from(seq + 1 - first).unwrap_or(usize::MAX);
        Some(kept.events.iter().skip(skip).take(most).cloned().collect())
    }
}

impl CachedEvents {
    fn trim(&mut self, bounds: JournalBounds) {
        while self.events.len() > bounds.tail_events || self.bytes > bounds.tail_bytes {
            // The newest event stays, however large it is: a reader must not find an empty tail.
            if self.events.len() == 1 {
                break;
            }
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= weight(&oldest);
        }
    }
}

/// Returns roughly how much memory an event occupies. Only texts can be large.
fn weight(event: &Event) -> usize {
    const BARE: usize = 256;
    BARE + match &event.kind {
        EventKind::TextDelta { text, .. } | EventKind::ThinkingDelta { text, .. } => text.len(),
        EventKind::ToolFinished { output, .. } | EventKind::ToolProgress { output, .. } => output.len(),
        EventKind::ToolStarted { input, .. } => json_weight(input),
        EventKind::TurnStarted { prompt, attachments, .. } => {
            prompt.len() + attachments.iter().map(|attachment| attachment.content.len()).sum::<usize>()
        }
        EventKind::TurnEnded { text, .. } | EventKind::MessageAdded { text, .. } => text.len(),
        EventKind::ActivityReported { content, extra, .. } => {
            content.len() + extra.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>()
        }
        EventKind::RequestOpened { ask, proposals, advice, .. } => {
            let offered: usize = proposals.iter().map(|proposal| proposal.text.len()).sum();
            ask_weight(ask) + offered + advice.not_covered.len()
        }
        EventKind::RequestSettled {
            message, outcome: RequestOutcome::ToolReturned { output, .. }, ..
        } => message.len() + output.len(),
        EventKind::RequestSettled { message, grant, .. } => {
            message.len() + grant.as_ref().map_or(0, |grant| grant.label().len())
        }
        EventKind::ToolsRegistered { tools, .. } => tools
            .iter()
            .map(|tool| tool.name.len() + tool.description.len() + json_weight(&tool.input_schema))
            .sum::<usize>(),
        EventKind::Compacted { summary, .. } => summary.len(),
        EventKind::AgentLogged { line } => line.len(),
        EventKind::Unparsed { raw, .. } => raw.len(),
        any_event!(
            SessionCreated StatusChanged AgentStarted AgentReady AgentExited Restarted InterruptRequested
            GrantsChanged Renamed TodosChanged ModeChanged PlanModeChanged ModelChanged CommandsChanged
            ServersChanged InputHolderChanged plan UsageReported worker Notice
        ) => BARE,
    }
}

fn ask_weight(ask: &RequestSubject) -> usize {
    match ask {
        RequestSubject::Permission(PermissionSubject { input, .. })
        | RequestSubject::ClientTool { input, .. } => json_weight(input),
        RequestSubject::Question { questions, .. } => {
            questions.iter().map(|question| question.text.len() + 256).sum()
        }
    }
}

fn json_weight(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::String(text) => text.len() + 32,
        serde_json::Value::Array(items) => items.iter().map(json_weight).sum::<usize>() + 32,
        serde_json::Value::Object(fields) => {
            fields.iter().map(|(key, value)| key.len() + json_weight(value)).sum::<usize>() + 32
        }
        _ => 32,
    }
}
