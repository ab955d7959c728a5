//! One trace for each turn: from a client's call to the agent's first output and the turn's end, as spans of `tracing`. Where
//! they go is the daemon's concern; without a receiver none is made. Spans have ids and names only, never what was said.

use std::sync::OnceLock;

use domain::turn::EndReason;
use domain::{SessionSpec, TurnId};
use tracing::Span;
use tracing::field::Empty;

/// The target of these spans, and of nothing else: receivers take only them, and the log shows none.
pub const TARGET: &str = "obey_trace";

/// A place in somebody's trace: the headers `traceparent` and `tracestate` of W3C Trace Context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceParent {
    pub parent: String,
    pub state: String,
}

/// What connects spans to the traces of others.
#[derive(Clone, Copy)]
pub struct TraceReceiver {
    /// Makes a span that was not entered yet a part of a trace; an invalid place is ignored.
    pub adopt: fn(&Span, &TraceParent),
    /// Returns the place of a span.
    pub place_of: fn(&Span) -> Option<TraceParent>,
}

static RECEIVER: OnceLock<TraceReceiver> = OnceLock::new();

/// Begins to make spans; once for a process.
pub fn enable(receiver: TraceReceiver) {
    // A second receiver would get the spans of the first subscriber.
    let _first_wins = RECEIVER.set(receiver);
}

/// Returns whether spans are made.
pub fn is_enabled() -> bool {
    RECEIVER.get().is_some()
}

/// Returns the span of a client's call of a method; none if no spans are made.
pub fn call_span(method: &'static str, protocol: &'static str, caller: &TraceParent) -> Span {
    let Some(receiver) = RECEIVER.get() else { return Span::none() };
    let span = tracing::info_span!(
        target: TARGET, parent: None, "call",
        otel.name = method, otel.kind = "server", otel.status_code = Empty, rpc.system = protocol, rpc.method = method
    );
    (receiver.adopt)(&span, caller);
    span
}

/// Returns the place of the call that is being served by this task.
pub fn current_place() -> Option<TraceParent> {
    RECEIVER.get().and_then(|receiver| (receiver.place_of)(&Span::current()))
}

/// The spans of a session's open turn.
#[derive(Default)]
pub struct TurnTrace {
    /// The call whose prompt starts the next turn.
    caller: Option<TraceParent>,
    turn: Option<Span>,
    /// Ends with the first output.
    first_output: Option<Span>,
}

impl TurnTrace {
    /// Remembers who asked for the next turn; `None` forgets it.
    pub fn set_caller(&mut self, caller: Option<TraceParent>) {
        self.caller = caller;
    }

    /// Begins the turn's spans.
    pub fn turn_started(&mut self, spec: &SessionSpec, turn: TurnId) {
        let Some(receiver) = RECEIVER.get() else { return };
        // Not a child for `tracing`, which would keep the call's span open as long as the turn.
        let span = tracing::info_span!(
            target: TARGET, parent: None, "turn",
            session.id = %spec.id, turn = %turn, provider = spec.provider.name(), end_reason = Empty
        );
        if let Some(caller) = self.caller.take() {
            (receiver.adopt)(&span, &caller);
        }
        self.first_output = Some(tracing::info_span!(
            target: TARGET, parent: &span, "first_output", session.id = %spec.id, provider = spec.provider.name()
        ));
        self.turn = Some(span);
    }

    /// Ends the span that waits for the first output.
    pub fn output_began(&mut self) {
        self.first_output = None;
    }

    /// Ends the turn's spans.
    pub fn turn_ended(&mut self, reason: EndReason) {
        self.first_output = None;
        if let Some(turn) = self.turn.take() {
            turn.record("end_reason", reason.name());
        }
    }
}
