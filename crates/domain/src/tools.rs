//! Tools that clients run for an agent: which are offered, and in what order their calls are sent. Part of
//! the fold of a journal, shared by the rules and by surfaces that show a journal to the clients that run the
//! tools.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::event::ClientTool;
use crate::id::RequestId;
use crate::limits;
use crate::time::Timestamp;

/// The source of tools that are offered for one turn, in place of all others.
pub const TURN_SOURCE: &str = "turn";

/// Tools by the source that offers them.
pub type Sources = BTreeMap<String, Vec<ClientTool>>;

/// Stores what a source offers. An empty list is kept, since the source may offer something later.
pub fn register(sources: &mut Sources, source: &str, tools: &[ClientTool]) {
    if source == TURN_SOURCE && tools.is_empty() {
        sources.remove(source);
    } else {
        sources.insert(source.to_owned(), tools.to_vec());
    }
}

/// Returns the tools an agent may call now, each name once.
pub fn offered(sources: &Sources) -> Vec<&ClientTool> {
    let mut all: Vec<&ClientTool> = Vec::new();
    let offers: Vec<&Vec<ClientTool>> = match sources.get(TURN_SOURCE) {
        Some(turn) => vec![turn],
        None => sources.values().collect(),
    };
    for tool in offers.into_iter().flatten() {
        if !all.iter().any(|known| known.name == tool.name) {
            all.push(tool);
        }
    }
    all
}

/// Returns the tool of this name, if it is offered.
pub fn find<'a>(sources: &'a Sources, name: &str) -> Option<&'a ClientTool> {
    offered(sources).into_iter().find(|tool| tool.name == name)
}

/// Calls that wait for their clients. Calls of exclusive tools are sent one at a time, the others at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientToolQueue {
    waiting: BTreeMap<RequestId, QueuedToolCall>,
}

/// A waiting call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedToolCall {
    pub exclusive: bool,
    pub timeout_ms: u64,
    /// When it was sent; `None` if another one must return first.
    pub offered_at: Option<Timestamp>,
}

impl ClientToolQueue {
    /// Adds a call. Returns whether it is sent at once.
    pub fn open(&mut self, at: Timestamp, request: RequestId, tool: &ClientTool) -> bool {
        let most = limits::TOOL_WAIT_MAX.as_millis() as u64;
        let wait = tool.timeout_ms.filter(|wait| *wait > 0);
        let free = !tool.exclusive || !self.is_occupied();
        let call = QueuedToolCall {
            exclusive: tool.exclusive,
            timeout_ms: wait.unwrap_or(limits::TOOL_WAIT.as_millis() as u64).min(most),
            offered_at: free.then_some(at),
        };
        self.waiting.insert(request, call);
        free
    }

    /// Removes a finished call. Returns the call that is sent now because of it.
    pub fn settle(&mut self, at: Timestamp, request: RequestId) -> Option<RequestId> {
        self.waiting.remove(&request)?;
        if self.is_occupied() {
            return None;
        }
        let (next, call) = self.waiting.iter_mut().find(|(_, call)| call.offered_at.is_none())?;
        call.offered_at = Some(at);
        Some(*next)
    }

    /// Returns a waiting call.
    pub fn get(&self, request: RequestId) -> Option<&QueuedToolCall> {
        self.waiting.get(&request)
    }

    /// Returns the earliest deadline of the calls that were sent.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.waiting.values().filter_map(QueuedToolCall::deadline).min()
    }

    /// Returns the calls whose deadline has passed.
    pub fn late(&self, now: Timestamp) -> Vec<(RequestId, u64)> {
        let late = |(_, call): &(&RequestId, &QueuedToolCall)| call.deadline().is_some_and(|by| by <= now);
        self.waiting.iter().filter(late).map(|(request, call)| (*request, call.timeout_ms)).collect()
    }

    fn is_occupied(&self) -> bool {
        self.waiting.values().any(|call| call.exclusive && call.offered_at.is_some())
    }
}

impl QueuedToolCall {
    fn deadline(&self) -> Option<Timestamp> {
        Some(self.offered_at?.after(Duration::from_millis(self.timeout_ms)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, exclusive: bool, timeout_ms: Option<u64>) -> ClientTool {
        ClientTool {
            name: name.to_owned(),
            description: String::new(),
            input_schema: json!({}),
            exclusive,
            timeout_ms,
            asks: false,
        }
    }

    #[test]
    fn exclusive_calls_go_out_one_at_a_time_and_others_at_once() {
        let mut calls = ClientToolQueue::default();
        let (arm, read) = (tool("arm", true, Some(1_000)), tool("read", false, None));
        assert!(calls.open(Timestamp(0), RequestId(1), &arm));
        assert!(!calls.open(Timestamp(0), RequestId(2), &arm));
        assert!(calls.open(Timestamp(0), RequestId(3), &read));
        assert!(!calls.open(Timestamp(0), RequestId(4), &arm));
        assert_eq!(calls.settle(Timestamp(5), RequestId(3)), None);
        assert_eq!(calls.settle(Timestamp(6), RequestId(1)), Some(RequestId(2)));
        // A call that was never sent makes no room.
        assert_eq!(calls.settle(Timestamp(7), RequestId(4)), None);
        assert_eq!(calls.settle(Timestamp(8), RequestId(2)), None);
        assert_eq!(calls, ClientToolQueue::default());
    }

    #[test]
    fn the_wait_begins_when_a_call_goes_out() {
        let mut calls = ClientToolQueue::default();
        let arm = tool("arm", true, Some(1_000));
        calls.open(Timestamp(0), RequestId(1), &arm);
        calls.open(Timestamp(0), RequestId(2), &arm);
        assert_eq!(calls.deadline(), Some(Timestamp(1_000_000)));
        assert_eq!(calls.late(Timestamp(1_000_000)), [(RequestId(1), 1_000)]);
        calls.settle(Timestamp(900_000), RequestId(1));
        assert_eq!(calls.late(Timestamp(1_000_000)), []);
        assert_eq!(calls.deadline(), Some(Timestamp(1_900_000)));
    }

    #[test]
    fn tools_of_a_turn_stand_in_for_all_others() {
        let mut sources = Sources::new();
        register(&mut sources, "b", &[tool("x", true, None), tool("y", true, None)]);
        register(&mut sources, "a", &[tool("x", false, None)]);
        let names = |sources: &Sources| -> Vec<String> {
            offered(sources).into_iter().map(|tool| tool.name.clone()).collect()
        };
        assert_eq!(names(&sources), ["x", "y"]);
        register(&mut sources, TURN_SOURCE, &[tool("z", true, None)]);
        assert_eq!(names(&sources), ["z"]);
        register(&mut sources, TURN_SOURCE, &[]);
        register(&mut sources, "b", &[]);
        assert_eq!(names(&sources), ["x"]);
        assert!(sources.contains_key("b"));
    }
}
