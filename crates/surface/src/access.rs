//! What a caller may do: one table (`wire::access`), one decision function, and one layer in front of every
//! surface (`guard`). Calls that do not arrive over HTTP (tools, editors' stdio lines) use the same
//! functions. Knows no single surface, and not how a caller is identified.

mod audited;
mod document;
mod frames;
mod guard;
pub mod json;
mod malformed;

#[cfg(test)]
mod tests;

use domain::{Error, ErrorCode, SessionId};
use wire::access::{ACP, Effect, GRPC, Protocol, REST, Row, SessionIn, TOOLS, Who};

pub use audited::{OnlyRead, Recorder, Summary, origin_here, record, row_of, served_from};
pub use document::{cells, page};
pub use guard::{guard, not_json, read as read_body};

use crate::peer::{Caller, MayAnswer, Role};

/// The method name of the row for tools that clients of a session registered.
const CLIENT_TOOLS: &str = "*";

/// Marks a request that came through a relay. The code that forwards such requests inserts it.
#[derive(Clone, Copy, Debug)]
pub struct Tunnelled;

/// The table's decision about a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    /// Allowed if the request names this session.
    OwnSession(SessionId),
    Refused(Error),
}

/// Returns every row, grouped by protocol.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    [GRPC, REST, TOOLS, ACP].into_iter().flatten()
}

/// Returns the row of a gRPC method, `package.Service/Method`.
pub fn grpc(method: &str) -> Option<&'static Row> {
    by_name(GRPC, method)
}

/// Returns the row of a REST route. `{…}` in a path matches one segment of it.
pub fn rest(verb: &str, path: &str) -> Option<&'static Row> {
    let verb = if verb == "HEAD" { "GET" } else { verb };
    let of_verb = |row: &&Row| row.method.split_once(' ').is_some_and(|(known, _)| known == verb);
    #[cfg(test)]
    if let Some(row) = tests::ROUTES.iter().filter(of_verb).find(|row| pattern(row) == path) {
        return Some(row);
    }
    let found = |row: &&Row| pattern(row) == path;
    // Like the router: a literal path takes precedence over one with a placeholder.
    REST.iter()
        .filter(of_verb)
        .find(found)
        .or_else(|| REST.iter().filter(of_verb).find(|row| fits(pattern(row), path)))
}

/// Whether a path is served for another verb.
pub fn has_path(path: &str) -> bool {
    REST.iter().any(|row| fits(pattern(row), path))
}

/// Returns the row of a tool that the daemon itself provides.
pub fn tool(name: &str) -> Option<&'static Row> {
    by_name(TOOLS, name).filter(|row| row.method != CLIENT_TOOLS)
}

/// Returns the row of the tools that clients registered.
pub fn client_tool() -> Option<&'static Row> {
    by_name(TOOLS, CLIENT_TOOLS)
}

/// Returns the row of a method of the Agent Client Protocol.
pub fn acp(method: &str) -> Option<&'static Row> {
    by_name(ACP, method)
}

/// Finds a row by its method; the tables are sorted by method.
fn by_name(rows: &'static [Row], method: &str) -> Option<&'static Row> {
    rows.binary_search_by(|row| row.method.cmp(method)).ok().and_then(|at| rows.get(at))
}

fn pattern(row: &Row) -> &'static str {
    row.method.split_once(' ').map_or("", |(_, path)| path)
}

/// Whether a path matches a pattern, segment by segment.
fn fits(pattern: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (pattern.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(part), Some(name)) if part == name || (part.starts_with('{') && !name.is_empty()) => {}
            _ => return false,
        }
    }
}

/// Decides what a row means for a caller. This is the only place where rights are computed.
pub fn decide(row: &Row, caller: &Caller, tunnelled: bool) -> Verdict {
    if tunnelled && !row.tunnel {
        return Verdict::Refused(not_allowed(format!(
            "{} is not served through a relay; call it on the daemon's own machine",
            shown(row)
        )));
    }
    match (row.who, caller) {
        (Who::Anyone, _) | (_, Caller::User) => Verdict::Allowed,
        // Only what its scopes name: a key is never the user, and what has no scope is not for keys.
        (Who::User | Who::Agent | Who::Bridge, Caller::ApiKey(key)) => match row.scope {
            Some(scope) if key.has(scope) => Verdict::Allowed,
            _ => Verdict::Refused(refusal(row, caller)),
        },
        (Who::Agent | Who::Bridge, Caller::Agent(own)) => match row.session {
            SessionIn::Caller => Verdict::Allowed,
            SessionIn::Field { .. } => Verdict::OwnSession(own.clone()),
            SessionIn::None => Verdict::Refused(refusal(row, caller)),
        },
        // Whoever changes what others may do answers their requests, too.
        (Who::User | Who::Agent | Who::Bridge, Caller::Device(device))
            if device.answers == MayAnswer::KeyIsKeptHere
                && (row.effect == Effect::Administers || row.who == Who::Bridge) =>
        {
            Verdict::Refused(not_allowed(format!("device {} {}", device.name, crate::peer::KEPT_HERE)))
        }
        (Who::User | Who::Agent, Caller::Device(device)) if device.role >= role(row.effect) => {
            Verdict::Allowed
        }
        (Who::Bridge, Caller::Device(device)) if device.role == Role::Owner => Verdict::Allowed,
        (Who::User | Who::Agent, Caller::Page) if row.effect == Effect::Reads => Verdict::Allowed,
        (Who::User | Who::Agent | Who::Bridge, _) => Verdict::Refused(refusal(row, caller)),
    }
}

/// Rejects a caller that may not make a call about this session (OBEY-1002). For calls that do not arrive
/// over HTTP.
pub fn check(row: Option<&Row>, caller: &Caller, session: &str) -> Result<(), Error> {
    let row = row.ok_or_else(|| not_allowed("this call is not in the access table".to_owned()))?;
    match decide(row, caller, false) {
        Verdict::Allowed => Ok(()),
        Verdict::OwnSession(own) if own.as_str() == session => Ok(()),
        Verdict::OwnSession(own) => Err(other_session(row, &own)),
        Verdict::Refused(error) => Err(error),
    }
}

/// Returns the lowest role with which a device may make calls of an effect.
fn role(effect: Effect) -> Role {
    match effect {
        Effect::Reads => Role::Viewer,
        Effect::Acts => Role::Operator,
        Effect::Administers => Role::Owner,
    }
}

/// Says that an agent named another session than its own.
pub fn other_session(row: &Row, own: &SessionId) -> Error {
    let field = match row.session {
        SessionIn::Field { name, .. } => name,
        SessionIn::None | SessionIn::Caller => "session_id",
    };
    not_allowed(format!("{field}: agents may only use their own session; set {field} to {own}"))
}

/// Returns the error for a caller that a row excludes, with the reason and a way out.
fn refusal(row: &Row, caller: &Caller) -> Error {
    let method = shown(row);
    not_allowed(match caller {
        Caller::User => format!("{method} is not for its user"),
        Caller::Agent(session) => format!(
            "agents may not call {method}; this call comes from an agent of {session}; its user can make it from a \
             terminal of their own"
        ),
        Caller::Unknown => format!(
            "agents may not call {method}, and it cannot be told whether this call comes from one, because the process \
             that connected is gone or hides; connect again"
        ),
        Caller::Token => format!(
            "only the daemon's own user may call {method}; the token lets other users ask for health, reflection and \
             documents"
        ),
        Caller::Page => format!(
            "a page without a key may only look, and {method} does more; open the page with obey web, or send \
             `Authorization: Bearer KEY` of a device (obey device add)"
        ),
        Caller::ApiKey(key) => match row.scope {
            Some(scope) => {
                format!("the key {} may not call {method}; that takes the scope {}", key.name, scope.name())
            }
            None => format!("keys may not call {method}, whatever their scopes; its user can"),
        },
        Caller::Device(device) => format!(
            "the device {} has the role {}, which may not call {method}; that takes the role {}",
            device.name,
            device.role.name(),
            if row.who == Who::Bridge { Role::Owner } else { role(row.effect) }.name(),
        ),
    })
}

/// A method as people read it.
fn shown(row: &Row) -> String {
    match row.protocol {
        Protocol::Grpc | Protocol::Rest => row.method.to_owned(),
        Protocol::Tool => format!("the tool {}", row.method),
        Protocol::Acp => format!("ACP's {}", row.method),
    }
}

fn not_allowed(message: String) -> Error {
    Error::new(ErrorCode::NotAllowed, message)
}
