//! Calls for a machine that is away: kept on disk if they take and give one message and change something, and delivered in
//! order when it is back. A call is forgotten when the machine has answered it, so a machine may get one twice if the
//! tunnel breaks in between; it knows it by its name, and executes it once.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use http::Request;
use prost::Message as _;
use tokio::time;
use tonic::{Code, Status};
use tunnel::{CallOrigin, fields, grpc, keys};
use wire::access::{Effect, GRPC};
use wire::betcode::v1::CallHead;

use crate::forward::offline;
use crate::hub::Hub;
use crate::limits;
use crate::store::{Kept, MachineRecord, WaitingCall};

/// The capability of machines that take calls which the relay can read.
const TAKES_PLAIN: &str = "obey.plain/full";

/// By this a client says that two calls are the same one.
const CLIENT_KEY: &str = "x-idempotency-key";

/// Keeps a call if it can wait. Returns what its client is told.
pub(crate) async fn keep(hub: &Hub, machine: &MachineRecord, request: Request<Body>, user: &str) -> Status {
    let path = request.uri().path().to_owned();
    let can_wait = grpc::shape(&path).is_some_and(|shape| !shape.client_streams && !shape.server_streams);
    let is_basic = !machine.capabilities.iter().any(|capability| capability == tunnel::FULL_FRAMES);
    let is_taken = is_basic || machine.capabilities.iter().any(|capability| capability == TAKES_PLAIN);
    if !can_wait || !is_taken || !changes_something(&path) {
        return offline(machine, "");
    }
    // A client that sends the same call again, by its own key, is kept once.
    let client_key = request.headers().get(CLIENT_KEY).map(|key| key.as_bytes().to_vec());
    let delivery_id = match client_key {
        Some(key) => keys::hash(&[user.as_bytes(), b"\0", path.as_bytes(), b"\0", key.as_slice()].concat()),
        None => host::ids::unique(),
    };
    let Ok(travelling) = fields::to_fields(request.headers()) else { return offline(machine, "") };
    let head = CallHead { fields: travelling, ..CallHead::default() }.encode_to_vec();
    let Ok(body) = axum::body::to_bytes(request.into_body(), limits::BUFFERED_BODY_MAX_BYTES).await else {
        return Status::resource_exhausted(
            "OBEY-1003: the machine is offline, and the request is too large to wait for it",
        );
    };
    let call = WaitingCall { id: 0, delivery_id, path, head, body: body.to_vec(), user: user.to_owned() };
    match hub.store.keep_call(&machine.id, priority(&call.path), &call) {
        Ok(Kept::New | Kept::Before) => offline(machine, ", request buffered"),
        Ok(Kept::Full) => Status::resource_exhausted(format!(
            "OBEY-1003: the machine is offline, and {} requests wait for it already",
            limits::BUFFERED_MAX
        )),
        Ok(Kept::TooMuch) => Status::resource_exhausted(
            "OBEY-1003: the machine is offline, and what waits for it, or in this relay, takes too much room already",
        ),
        Err(error) => {
            tracing::warn!(%error, detail = error.detail, "a call for a machine that is away cannot be kept");
            Status::resource_exhausted("OBEY-1010: the machine is offline, and the request cannot be kept")
        }
    }
}

/// Whether a method has an effect; one that only reads is worth nothing later.
fn changes_something(path: &str) -> bool {
    let method = path.strip_prefix('/').unwrap_or(path);
    GRPC.iter().find(|row| row.method == method).is_none_or(|row| row.effect != Effect::Reads)
}

/// Returns the order in which calls are delivered: answers to requests first, then what stops something, then the rest.
fn priority(path: &str) -> i64 {
    let method = path.rsplit('/').next().unwrap_or_default();
    match method {
        _ if method.starts_with("Answer") || method.starts_with("Approve") => 0,
        _ if method.starts_with("Cancel") || method.starts_with("Stop") => 1,
        _ if method.starts_with("Send") || method.starts_with("Prompt") => 2,
        _ if method.contains("Session") => 3,
        _ => 4,
    }
}

/// Delivers what waits for a machine whose tunnel was opened.
pub(crate) async fn deliver(hub: Arc<Hub>, machine_id: String, epoch: u64) {
    let Some(route) = hub.route_within(&machine_id, limits::RETURN_WAIT).await else { return };
    loop {
        let call = match hub.store.next_call(&machine_id) {
            Ok((call, expired)) => {
                if expired > 0 {
                    hub.calls_expired.fetch_add(expired as u64, Ordering::Relaxed);
                    tracing::warn!(expired, "calls waited too long for their machine and were dropped");
                }
                match call {
                    Some(call) => call,
                    None => break,
                }
            }
            Err(error) => {
                tracing::warn!(%error, detail = error.detail, "waiting calls cannot be read");
                break;
            }
        };
        let Some(request) = request_of(&call) else {
            forget(&hub, call.id);
            continue;
        };
        let answering = async {
            let origin = CallOrigin { delivery_id: call.delivery_id.clone(), ..route.origin(&call.user) };
            let response = route.link.forward(request, &origin, route.is_basic).await?;
            // Only a complete answer shows that the machine has done it.
            let body = Body::new(response.into_body());
            let whole = axum::body::to_bytes(body, tunnel::limits::BASIC_MESSAGE_MAX_BYTES).await;
            whole.map(drop).map_err(|error| tunnel::CallFailure::new(Code::Unavailable, error.to_string()))
        };
        match time::timeout(limits::DELIVERY_WAIT, answering).await {
            Ok(Ok(())) => forget(&hub, call.id),
            // A refusal is an answer; a tunnel that broke is none.
            Ok(Err(failure)) if failure.code != Code::Unavailable => forget(&hub, call.id),
            Ok(Err(_)) | Err(_) => return,
        }
    }
    hub.delivered(&machine_id, epoch);
}

fn forget(hub: &Hub, id: i64) {
    if let Err(error) = hub.store.drop_call(id) {
        tracing::warn!(%error, detail = error.detail, "a call that was delivered cannot be forgotten");
    }
}

fn request_of(call: &WaitingCall) -> Option<Request<Body>> {
    let head = CallHead::decode(call.head.as_slice()).ok()?;
    let mut request = Request::post(call.path.as_str()).body(Body::from(call.body.clone())).ok()?;
    *request.headers_mut() = fields::to_headers(head.fields).ok()?;
    Some(request)
}
