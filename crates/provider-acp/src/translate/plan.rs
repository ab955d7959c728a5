//! How a session leaves plan mode with its agent: never by the agent's word alone. A person has approved the agent's own
//! request to leave, or is asked by us. Pure.

use agent_port::{Decoded, Revisioned};
use domain::request::{PermissionSubject, RequestSubject};
use domain::{AgentEvent, Decision, Mode};
use serde_json::{Value, json};

use super::super::state::AcpState;
use super::super::{encode, names};

/// Our own request. No id of an agent's request looks like it: those are JSON.
pub(crate) const NATIVE: &str = "leave-plan";

/// What is done once it was approved: the session learns its mode.
pub(crate) const LEFT: &str = "left_plan";

/// Handles that the agent says it has left plan mode.
pub(super) fn leaves(state: &mut Revisioned<AcpState>, out: &mut Decoded) {
    if std::mem::take(&mut state.may_leave_plan) {
        state.mode = Mode::Supervised;
        return left(state, out);
    }
    if std::mem::replace(&mut state.asks_to_leave_plan, true) {
        return;
    }
    let ask = PermissionSubject {
        call: None,
        tool: names::LEAVE_PLAN.to_owned(),
        input: json!({"mode": state.modes.current}),
        title: format!("{}: leave plan mode and begin", names::LEAVE_PLAN),
        parent: None,
    };
    out.events.push(AgentEvent::Asked { native: NATIVE.to_owned(), ask: RequestSubject::Permission(ask) });
}

/// Handles that the agent plans again before anybody has answered.
pub(super) fn stays(state: &mut Revisioned<AcpState>, out: &mut Decoded) {
    state.asks_to_leave_plan = false;
    out.events.push(AgentEvent::Withdrew { native: NATIVE.to_owned() });
}

/// Takes a person's answer: the session follows, or the agent is sent back.
pub(crate) fn decided(state: &mut Revisioned<AcpState>, decision: Decision, wire: &mut Vec<u8>) {
    // Meanwhile the user may have chosen another mode.
    if !std::mem::take(&mut state.asks_to_leave_plan) || state.mode != Mode::Plan {
        return;
    }
    if !decision.allows() {
        return encode::set_mode(state, wire);
    }
    state.mode = Mode::Supervised;
    // If too much is under way the session stays in plan mode, in which it is asked about everything.
    let _ = state.remember_client_request(&Value::Null, json!({"do": LEFT}));
    encode::set_mode(state, wire);
}

/// Tells the session that it is no longer in plan mode.
pub(super) fn left(state: &AcpState, out: &mut Decoded) {
    out.events.extend([AgentEvent::PlanMode(false), AgentEvent::Mode(state.mode)]);
}
