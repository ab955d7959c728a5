//! A client's call on its way to a machine: who calls, which machine is meant, and the way there. No method is known here;
//! what the relay does not serve itself goes through.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::Response;
use domain::{Error, ErrorCode};
use http::{HeaderMap, HeaderValue, Request, header};
use tokio::time;
use tonic::{Code, Status};
use tunnel::CallBody;

use crate::addresses::ClientAddress;
use crate::hub::Hub;
use crate::quota::Place;
use crate::store::{MachineRecord, Principal};
use crate::{buffer, limits, status};

/// The only call that a device's token allows: a connection that the relay cannot read.
const SEALED: &str = "/obey.v1.PipeService/Open";

/// Says in an answer who could read the call and the answer.
const CLEAR: &str = "obey-clear";

/// Returns who calls, by the token, and counts the call. An address that has presented many wrong ones waits; right ones work from
/// everywhere.
pub(crate) fn principal_of(
    hub: &Hub,
    headers: &HeaderMap,
    address: ClientAddress,
) -> Result<Principal, Status> {
    let token = token_of(headers).ok_or_else(status::unauthenticated)?;
    let known = || hub.store.directory().by_token(token);
    let principal = match known() {
        Some(principal) => principal,
        None => {
            hub.addresses.may_try(address)?;
            // Another process may have made the account a moment ago.
            let found = hub.store.refresh().is_ok_and(|changed| changed).then(known).flatten();
            found.ok_or_else(|| {
                hub.addresses.note_refusal(address);
                status::unauthenticated()
            })?
        }
    };
    if let Err(wait) = hub.quotas.take(caller_of(&principal), Instant::now()) {
        hub.calls_limited.fetch_add(1, Ordering::Relaxed);
        let message = format!("OBEY-1003: too many calls at once; come back in {} ms", wait.as_millis() + 1);
        return Err(Status::resource_exhausted(message));
    }
    Ok(principal)
}

/// Returns the token that a request presents.
fn token_of(headers: &HeaderMap) -> Option<&str> {
    let mut claims = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(claim), None) = (claims.next(), claims.next()) else { return None };
    let (scheme, token) = claim.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Returns whose calls are counted together.
fn caller_of(principal: &Principal) -> &str {
    match principal {
        Principal::User(user) => &user.id,
        Principal::Device { machine_id } => machine_id,
    }
}

/// Returns which client of a user calls, by its own word.
pub(crate) fn client_of(headers: &HeaderMap) -> Result<String, Status> {
    let client = headers.get("x-client-id").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if client.len() > limits::CLIENT_NAME_MAX_BYTES {
        return Err(Status::invalid_argument("OBEY-1001: x-client-id: is longer than 128 bytes"));
    }
    Ok(client.to_owned())
}

/// The body of an answer, with the place of its call among those of its caller.
struct CountedBody {
    body: CallBody,
    _place: Place,
}

impl hyper::body::Body for CountedBody {
    type Data = bytes::Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<bytes::Bytes>, std::io::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

/// Sends a call to the machine it names.
pub(crate) async fn forward(hub: Arc<Hub>, request: Request<Body>) -> Response {
    let is_grpc = status::is_grpc(request.headers());
    let limit = timeout_of(request.headers());
    let work = forward_within(&hub, request, limit);
    let answered = match limit {
        None => work.await,
        Some(limit) => match time::timeout(limit, work).await {
            Ok(answered) => answered,
            Err(_) => Err(Status::deadline_exceeded("the machine did not answer before the deadline")),
        },
    };
    answered.unwrap_or_else(|status| status::answer(&status, is_grpc))
}

async fn forward_within(
    hub: &Arc<Hub>,
    request: Request<Body>,
    limit: Option<Duration>,
) -> Result<Response, Status> {
    let address = ClientAddress::of(request.extensions());
    let principal = principal_of(hub, request.headers(), address).inspect_err(|status| {
        if status.code() == Code::Unauthenticated {
            hub.calls_refused.fetch_add(1, Ordering::Relaxed);
        }
    })?;
    let Some(place) = hub.calls_open.take(caller_of(&principal)) else {
        hub.calls_limited.fetch_add(1, Ordering::Relaxed);
        let message = format!(
            "OBEY-1003: {} calls of yours go on at this relay already; end some of them",
            hub.calls_open.most()
        );
        return Err(Status::resource_exhausted(message));
    };
    let machine = chosen(hub, &principal, request.headers())?;
    let user = match &principal {
        Principal::User(user) => user.name.clone(),
        Principal::Device { .. } if request.uri().path() == SEALED => "device".to_owned(),
        Principal::Device { .. } => {
            let message = "OBEY-1053: a device's token opens sealed connections only: obey --machine NAME, obey connect";
            return Err(Status::permission_denied(message));
        }
    };
    hub.check_traffic(&machine.id)?;
    // The other half is for the answer.
    let most = limit.map_or(limits::RETURN_WAIT, |limit| limit / 2);
    let Some(route) = hub.route_within(&machine.id, most).await else {
        if hub.is_cut_off(&machine.id) {
            return Err(cut_off(&machine));
        }
        return Err(buffer::keep(hub, &machine, request, &user).await);
    };
    let is_sealed = request.uri().path() == SEALED;
    let answered = route.link.forward(request, &route.origin(&user), route.is_basic).await;
    let mut response = answered
        .map(|response| response.map(|body| Body::new(CountedBody { body, _place: place })))
        .map_err(|failure| Status::new(failure.code, failure.message))?;
    if !is_sealed {
        response.headers_mut().insert(CLEAR, HeaderValue::from_static("relay"));
    }
    Ok(response)
}

/// Returns the machine that a request names, or that its client chose before.
fn chosen(hub: &Hub, principal: &Principal, headers: &HeaderMap) -> Result<Arc<MachineRecord>, Status> {
    let named = headers.get("x-machine-id").map(|value| value.to_str().unwrap_or_default().to_owned());
    let named = match (named, principal) {
        (Some(named), _) => named,
        (None, Principal::Device { machine_id }) => machine_id.clone(),
        (None, Principal::User(user)) => hub.switched(&user.id, &client_of(headers)?).ok_or_else(|| {
            status::grpc(&Error::new(
                ErrorCode::InvalidArgument,
                "x-machine-id: is required, or choose a machine with SwitchMachine; ListMachines names those there are",
            ))
        })?,
    };
    let found = hub.store.directory().machine(principal, &named);
    found.ok_or_else(|| status::grpc(&status::no_machine()))
}

/// Returns how long a client waits, by gRPC's header.
fn timeout_of(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number.saturating_mul(3_600)),
        "M" => Duration::from_secs(number.saturating_mul(60)),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// Says that a machine is at another relay, and that relays do not reach each other.
fn cut_off(machine: &MachineRecord) -> Status {
    let message = format!(
        "the machine {} is at another relay, and NATS, over which the relays reach each other, is not connected; try again",
        machine.name
    );
    status::grpc(&Error::new(ErrorCode::MachineOffline, message))
}

/// Says that a machine is away.
pub(crate) fn offline(machine: &MachineRecord, more: &str) -> Status {
    let message = format!("the machine {} is offline{more}", machine.name);
    let mut status = status::grpc(&Error::new(ErrorCode::MachineOffline, message));
    if status.code() != Code::Unavailable {
        status = Status::unavailable(status.message());
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_read_in_every_unit() {
        let read = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", HeaderValue::from_static(text));
            timeout_of(&headers)
        };
        assert_eq!(read("100m"), Some(Duration::from_millis(100)));
        assert_eq!(read("2S"), Some(Duration::from_secs(2)));
        assert_eq!(read("1H"), Some(Duration::from_secs(3_600)));
        assert_eq!((read(""), read("S"), read("9x")), (None, None, None));
    }
}
