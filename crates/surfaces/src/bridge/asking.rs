//! Waiting behind the journal: for the answer to a permission, and for what an agent itself says about its call.

use domain::request::{Outcome, PermissionAsk, bridged};
use domain::{CallId, Command, Error, ErrorCode, EventKind, RequestId, SessionId};
use runtime::Supervisor;

use super::Call;
use crate::limits;

/// How a request ended.
pub(super) struct Answer {
    pub(super) outcome: Outcome,
    pub(super) message: String,
}

/// Asks whoever watches the session whether a call may run. An error says why it may not.
pub async fn permission(supervisor: &Supervisor, call: &Call, title: String) -> Result<(), String> {
    let ask = PermissionAsk {
        call: Some(call.call.clone()),
        tool: call.tool.clone(),
        input: call.arguments.clone(),
        title,
        parent: None,
    };
    let native = bridged(&format!("{}/permission", call.id));
    let command = Command::AskPermission { native: native.clone(), ask };
    let answer = request(supervisor, &call.session.spec.id, command, &native).await;
    match answer.map_err(|error| error.to_string())? {
        Answer { outcome: Outcome::Decided { decision }, .. } if decision.allows() => Ok(()),
        Answer { outcome: Outcome::Withdrawn { reason }, .. } => Err(reason),
        Answer { message, .. } if message.is_empty() => {
            Err(format!("Permission denied by user for: {}", call.tool))
        }
        Answer { message, .. } => Err(format!("Permission denied by user for: {}: {message}", call.tool)),
    }
}

/// Opens a request and waits for its end. Dropped, it takes the request back.
pub(super) async fn request(
    supervisor: &Supervisor,
    session: &SessionId,
    command: Command,
    native: &str,
) -> Result<Answer, Error> {
    let applied = supervisor.command(session, command).await?;
    let opened = applied.events.iter().find_map(|event| match &event.kind {
        EventKind::RequestOpened { request, .. } => Some((*request, event.seq - 1)),
        _ => None,
    });
    let (request, after) = match opened {
        Some(opened) => opened,
        // Made before, perhaps through a daemon that is gone.
        None => (known(supervisor, session, native).await?, 0),
    };
    let mut waiting = Waiting { supervisor, session, request, done: false };
    let answer = settled(supervisor, session, request, after).await;
    waiting.done = true;
    answer
}

async fn known(supervisor: &Supervisor, session: &SessionId, native: &str) -> Result<RequestId, Error> {
    let snapshot = supervisor.snapshot(session).await?;
    let pending = snapshot.state.requests.values().find(|pending| pending.native == native);
    let settled = snapshot.state.settled.iter().find(|settled| settled.request.native == native);
    pending.map(|pending| pending.id).or_else(|| settled.map(|settled| settled.request.id)).ok_or_else(|| {
        Error::new(ErrorCode::RequestNotFound, "the call is not remembered any more; make another")
    })
}

async fn settled(
    supervisor: &Supervisor,
    session: &SessionId,
    request: RequestId,
    after: u64,
) -> Result<Answer, Error> {
    let mut cursor = supervisor.events_after(session, after).await?;
    loop {
        let events = match cursor.next().await {
            Err(error) if error.code == ErrorCode::EventsExpired => {
                cursor.skip_removed().await?;
                continue;
            }
            events => events?,
        };
        for event in events {
            if let EventKind::RequestSettled { request: settled, outcome, message, .. } = &event.kind
                && *settled == request
            {
                return Ok(Answer { outcome: outcome.clone(), message: message.clone() });
            }
        }
    }
}

/// A request that somebody waits for. Whoever stops waiting leaves no question behind that nobody hears the answer to.
struct Waiting<'a> {
    supervisor: &'a Supervisor,
    session: &'a SessionId,
    request: RequestId,
    done: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let (supervisor, session, request) = (self.supervisor.clone(), self.session.clone(), self.request);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let command = Command::Decide {
                    request,
                    decision: domain::Decision::Deny,
                    message: "the agent no longer waits for it".to_owned(),
                    updated_input: None,
                    by: "agent".to_owned(),
                };
                if let Err(error) = supervisor.command(&session, command).await {
                    tracing::debug!(%session, %request, %error, "a call that nobody waits for cannot be taken back");
                }
            });
        }
    }
}

/// Finds the call that an agent has reported for a tool and that no request speaks of yet. An agent reports in its own
/// time, so this waits a little.
pub(super) async fn agents_call(
    supervisor: &Supervisor,
    session: &SessionId,
    tool: &str,
) -> Result<Option<CallId>, Error> {
    let mut cursor = supervisor.events_after(session, 0).await?;
    cursor = supervisor.events_after(session, cursor.newest()).await?;
    let until = tokio::time::Instant::now() + limits::CALL_SEEN_WAIT;
    loop {
        if let Some(call) = open_call(supervisor, session, tool).await? {
            return Ok(Some(call));
        }
        match tokio::time::timeout_at(until, cursor.next()).await {
            Ok(events) => drop(events?),
            Err(_) => return Ok(None),
        }
    }
}

async fn open_call(
    supervisor: &Supervisor,
    session: &SessionId,
    tool: &str,
) -> Result<Option<CallId>, Error> {
    use domain::request::Ask;
    let snapshot = supervisor.snapshot(session).await?;
    let state = &snapshot.state;
    let Some(turn) = &state.turn else { return Ok(None) };
    let asks = state.requests.values().map(|pending| &pending.ask);
    let all: Vec<&Ask> = asks.chain(state.settled.iter().map(|settled| &settled.request.ask)).collect();
    let claimed = |call: &CallId| {
        all.iter().any(|ask| match ask {
            Ask::Permission(permission) => permission.call.as_ref() == Some(call),
            Ask::ClientTool { call: other, .. } => other == call,
            Ask::Question { .. } => false,
        })
    };
    let found = turn.calls.iter().find(|(call, name)| name.as_str() == tool && !claimed(call));
    Ok(found.map(|(call, _)| call.clone()))
}
