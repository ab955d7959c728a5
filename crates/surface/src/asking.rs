//! Decides whether an agent's tool call may run. This is the single decision point for every way such a call
//! arrives. It also waits, through the journal, for the user's answer. Knows no tool and no protocol.

use std::sync::Arc;

use domain::request::{PermissionSubject, RequestOrigin, RequestOutcome, Settler};
use domain::{CallId, Command, Error, ErrorCode, EventKind, Mode, RequestId, SessionId};
use runtime::{Snapshot, Supervisor};
use serde_json::Value;
use wire::access::Needs;

use crate::limits;

/// A tool call that an agent wants to run.
#[derive(Clone, Debug)]
pub struct Call {
    pub session: Arc<Snapshot>,
    pub tool: String,
    /// Always a JSON object.
    pub arguments: Value,
    /// Identifies the call permanently. A second call with the same id is the same call.
    pub id: String,
    /// The id under which the agent and its clients know the call.
    pub call: CallId,
}

/// How the user of an agent's session is asked about a call.
#[derive(Clone, Debug)]
pub enum Asking {
    /// Under the id that the agent and its clients already use for the call.
    Named { id: String, call: CallId },
    /// Under a generated id.
    Unnamed,
    /// Not at all: the agent runs inside the daemon and has already asked for every permission it needs.
    Done,
}

/// How a request ended.
pub struct RequestAnswer {
    pub outcome: RequestOutcome,
    pub message: String,
    pub by: String,
}

/// Decides whether an agent's call may run: by the session's mode, its rules and grants, and its user's answer. An error
/// says why it may not.
pub async fn consent(
    supervisor: &Supervisor,
    needs: Needs,
    call: &Call,
    title: String,
) -> Result<(), String> {
    let asks = match (needs, call.session.state.mode) {
        (Needs::Nothing, _) => false,
        (Needs::EditPermission, Mode::AcceptEdits) => false,
        (Needs::Permission | Needs::EditPermission | Needs::Declared, _) => true,
    };
    // What rules or plan mode deny is asked for, too: then it is answered and recorded like everything else.
    if asks || supervisor.denies(&call.session, &call.tool, &call.arguments) {
        return permission(supervisor, call, title).await;
    }
    Ok(())
}

/// Asks the clients that watch the session whether a call may run.
async fn permission(supervisor: &Supervisor, call: &Call, title: String) -> Result<(), String> {
    let ask = PermissionSubject {
        call: Some(call.call.clone()),
        tool: call.tool.clone(),
        input: call.arguments.clone(),
        title,
        parent: None,
    };
    let native = RequestOrigin::Bridge(&format!("{}/permission", call.id)).to_string();
    let command = Command::AskPermission { native: native.clone(), ask };
    let answer = request(supervisor, &call.session.spec.id, command, &native).await;
    match answer.map_err(|error| error.to_string())? {
        RequestAnswer { outcome: RequestOutcome::Decided { decision }, .. } if decision.allows() => Ok(()),
        RequestAnswer { outcome: RequestOutcome::Withdrawn { reason }, .. } => Err(reason),
        RequestAnswer { message, by, .. } => Err(Settler::parse(&by).denial(&call.tool, &message)),
    }
}

/// Opens a request and waits for its end. Dropped, it takes the request back.
pub async fn request(
    supervisor: &Supervisor,
    session: &SessionId,
    command: Command,
    native: &str,
) -> Result<RequestAnswer, Error> {
    let applied = supervisor.command(session, command).await?;
    let opened = applied.events.iter().find_map(|event| {
        let EventKind::RequestOpened { request, .. } = &event.kind else { return None };
        Some((*request, event.seq - 1))
    });
    let (request, after) = match opened {
        Some(opened) => opened,
        // The request was opened earlier, perhaps through a previous daemon.
        None => (known(supervisor, session, native).await?, 0),
    };
    let mut waiting = Waiting { supervisor, session, request, done: false };
    let answer = settled(supervisor, session, request, after).await;
    waiting.done = true;
    answer
}

/// Finds the request that was opened earlier under this native id, whether pending or settled.
async fn known(supervisor: &Supervisor, session: &SessionId, native: &str) -> Result<RequestId, Error> {
    let snapshot = supervisor.snapshot(session).await?;
    let pending = snapshot.state.requests.values().find(|pending| pending.native == native);
    let settled = snapshot.state.settled.iter().find(|settled| settled.request.native == native);
    pending.map(|pending| pending.id).or_else(|| settled.map(|settled| settled.request.id)).ok_or_else(|| {
        Error::new(ErrorCode::RequestNotFound, "the call is not remembered any more; make another")
    })
}

/// Follows the session's events after `after` until the request is settled.
async fn settled(
    supervisor: &Supervisor,
    session: &SessionId,
    request: RequestId,
    after: u64,
) -> Result<RequestAnswer, Error> {
    let mut cursor = supervisor.events_after(session, after).await?;
    loop {
        for event in cursor.next_kept().await? {
            if let EventKind::RequestSettled { request: settled, outcome, message, by, .. } = &event.kind
                && *settled == request
            {
                // The agent gets the answer exactly as it was given. The journal may hold a copy with the
                // secrets removed.
                let by = by.clone();
                if let Some(EventKind::RequestSettled { outcome, message, .. }) =
                    supervisor.original(session, event.seq)
                {
                    return Ok(RequestAnswer { outcome, message, by });
                }
                return Ok(RequestAnswer { outcome: outcome.clone(), message: message.clone(), by });
            }
        }
    }
}

/// A request that a task waits for. When the task stops waiting, the request is denied, so that no question
/// stays open whose answer would reach no one.
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
                    grant: None,
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
pub async fn agents_call(
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

/// Returns the first call of this tool in the current turn that no pending or settled request refers to.
async fn open_call(
    supervisor: &Supervisor,
    session: &SessionId,
    tool: &str,
) -> Result<Option<CallId>, Error> {
    use domain::request::RequestSubject;
    let snapshot = supervisor.snapshot(session).await?;
    let state = &snapshot.state;
    let Some(turn) = &state.turn else { return Ok(None) };
    let asks = state.requests.values().map(|pending| &pending.ask);
    let all: Vec<&RequestSubject> =
        asks.chain(state.settled.iter().map(|settled| &settled.request.ask)).collect();
    let claimed = |call: &CallId| {
        all.iter().any(|ask| match ask {
            RequestSubject::Permission(permission) => permission.call.as_ref() == Some(call),
            RequestSubject::ClientTool { call: other, .. } => other == call,
            RequestSubject::Question { .. } => false,
        })
    };
    let found = turn.calls.iter().find(|(call, name)| name.as_str() == tool && !claimed(call));
    Ok(found.map(|(call, _)| call.clone()))
}
