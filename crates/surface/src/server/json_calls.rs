//! Methods with JSON messages: `POST /package.Service/Method` with `Content-Type: application/json`. The message is
//! translated by its descriptor and goes the same way as a gRPC call, through the access table and the audit to the same
//! handler. A method that streams its answer is served to whoever accepts `application/x-ndjson`, one message a line.
//! Knows no single method. Names of fields are those of the `.proto` files; both spellings are read.

mod lines;

use std::pin::Pin;
use std::sync::LazyLock;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::response::{IntoResponse as _, Response};
use domain::{Error, ErrorCode};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TE};
use http::{Extensions, HeaderMap, HeaderValue, Method, Request, StatusCode};
use prost::Message as _;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, Kind, MessageDescriptor, MethodDescriptor,
    SerializeOptions,
};
use serde_json::{Map, Value};
use tonic::{Code, Status};
use tower::ServiceExt as _;

use crate::{access, limits, status};

/// The media type of streams: one JSON object a line.
const LINES: &str = "application/x-ndjson";

/// The length of a gRPC message's prefix: a compression flag and the message length.
const PREFIX_BYTES: usize = 5;

/// Every published message and method. Read with the first call: it takes memory that other daemons do not need.
static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(wire::DESCRIPTORS).unwrap_or_default());

/// Returns the descriptors of every published interface.
pub fn descriptors() -> &'static DescriptorPool {
    &POOL
}

/// Lets a handler call methods for whoever sent its own request; an extension of requests below `/api/`.
#[derive(Clone)]
pub struct Methods(pub(super) axum::Router);

impl Methods {
    /// Calls a method that streams, as the caller that the extensions name; the answer is one message a line.
    pub async fn stream(&self, method: &str, message: &Value, extensions: &Extensions) -> Response {
        let mut request = Request::new(Body::from(message.to_string()));
        *request.method_mut() = Method::POST;
        *request.extensions_mut() = extensions.clone();
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(LINES));
        match format!("/{method}").parse() {
            Ok(uri) => *request.uri_mut() = uri,
            Err(_) => return failure(&Status::unimplemented("there is no such method")),
        }
        call(self.0.clone(), request).await
    }
}

/// Answers a JSON call of a method.
pub(super) async fn call(router: axum::Router, request: Request<Body>) -> Response {
    let Some(method) = method(request.uri().path()) else {
        let error = Error::new(ErrorCode::InvalidArgument, "there is no such method");
        return status::rest_as(&error, StatusCode::NOT_FOUND);
    };
    let takes_lines =
        request.headers().get_all(ACCEPT).iter().any(|kind| kind.as_bytes() == LINES.as_bytes());
    if method.is_client_streaming() || (method.is_server_streaming() && !takes_lines) {
        let remedy = match method.is_client_streaming() {
            true => "call it with gRPC".to_owned(),
            false => format!("send `Accept: {LINES}` to get one message a line"),
        };
        let error =
            Error::new(ErrorCode::InvalidArgument, format!("{} is a stream; {remedy}", method.full_name()));
        return status::rest_as(&error, StatusCode::NOT_ACCEPTABLE);
    }
    let request = match translated(&method, request).await {
        Ok(request) => request,
        Err(error) => return status::rest(&error),
    };
    match router.oneshot(request).await {
        Ok(response) if method.is_server_streaming() => streamed(method.output(), response),
        Ok(response) => answer(&method.output(), response).await,
        Err(never) => match never {},
    }
}

/// Returns the method at a path, `/package.Service/Method`.
fn method(path: &str) -> Option<MethodDescriptor> {
    let (service, name) = path.strip_prefix('/')?.split_once('/')?;
    let service = POOL.get_service_by_name(service)?;
    service.methods().find(|method| method.name() == name)
}

/// Turns a JSON request into the gRPC request of the same method. What identifies the caller stays.
async fn translated(method: &MethodDescriptor, request: Request<Body>) -> Result<Request<Body>, Error> {
    let (mut parts, body) = request.into_parts();
    let bytes = access::read_body(body).await?;
    let message = read(&method.input(), &bytes)?;
    for name in [CONTENT_LENGTH, CONTENT_ENCODING, ACCEPT_ENCODING] {
        parts.headers.remove(name);
    }
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    parts.headers.insert(TE, HeaderValue::from_static("trailers"));
    Ok(Request::from_parts(parts, Body::from(framed(&message)?)))
}

/// Reads a message. An empty body is an empty message.
pub fn read(descriptor: &MessageDescriptor, bytes: &[u8]) -> Result<DynamicMessage, Error> {
    let members = match bytes.trim_ascii().is_empty() {
        true => Map::new(),
        false => access::json::object(bytes).map_err(|error| access::not_json(&error))?,
    };
    if let Ok(message) = message_of(descriptor, Value::Object(members.clone())) {
        return Ok(message);
    }
    // Only now, to name the member that is wrong. The reader's own words may quote a secret.
    for (name, value) in members {
        let is_known = descriptor.fields().any(|field| field.name() == name || field.json_name() == name);
        if !is_known {
            let known: Vec<String> = descriptor.fields().map(|field| field.name().to_owned()).collect();
            return Err(Error::invalid(
                &name_shown(&name),
                format_args!("is no field of {}; it has {}", descriptor.full_name(), listed(&known)),
            ));
        }
        let one = Map::from_iter([(name.clone(), value)]);
        if let Err(error) = message_of(descriptor, Value::Object(one)) {
            let text = error.to_string();
            let field = descriptor.fields().find(|field| field.name() == name || field.json_name() == name);
            let expected = match field.map(|field| field.kind()) {
                Some(Kind::Enum(kind)) => {
                    let known: Vec<String> = kind.values().map(|value| value.name().to_owned()).collect();
                    format!("one of {}", listed(&known))
                }
                _ => {
                    text.rsplit_once("expected ").map_or("another type", |(_, expected)| expected).to_owned()
                }
            };
            return Err(Error::invalid(
                &name,
                format_args!("has a value of the wrong type; expected {expected}"),
            ));
        }
    }
    Err(Error::new(ErrorCode::InvalidArgument, format!("the body is no {}", descriptor.full_name())))
}

fn message_of(descriptor: &MessageDescriptor, value: Value) -> Result<DynamicMessage, serde_json::Error> {
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    DynamicMessage::deserialize_with_options(descriptor.clone(), value, &options)
}

/// A member's name as an error shows it: it is the caller's text.
fn name_shown(name: &str) -> String {
    name.chars().filter(|letter| letter.is_ascii_graphic()).take(limits::JSON_NAME_MAX_LETTERS).collect()
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "no fields".to_owned() } else { names.join(", ") }
}

/// Writes a message as JSON: everything it has, numbers as numbers.
pub fn written(message: &DynamicMessage) -> Result<Value, Error> {
    let options = SerializeOptions::new()
        .stringify_64_bit_integers(false)
        .use_proto_field_name(true)
        .skip_default_fields(false);
    message.serialize_with_options(serde_json::value::Serializer, &options).map_err(|error| {
        Error::new(ErrorCode::SessionError, "the answer cannot be written as JSON")
            .with_detail(error.to_string())
    })
}

fn framed(message: &DynamicMessage) -> Result<Vec<u8>, Error> {
    let length = message.encoded_len();
    let Some(prefix) = u32::try_from(length).ok().filter(|_| length <= limits::MESSAGE_MAX_BYTES) else {
        return Err(Error::new(
            ErrorCode::LimitReached,
            "the message is larger than this method reads; send less",
        ));
    };
    let mut frame = Vec::with_capacity(PREFIX_BYTES + length);
    frame.push(0);
    frame.extend_from_slice(&prefix.to_be_bytes());
    // A vector has room for everything.
    let _full = message.encode(&mut frame);
    Ok(frame)
}

/// Turns the response of a gRPC call into JSON.
async fn answer(output: &MessageDescriptor, response: Response) -> Response {
    let (parts, body) = response.into_parts();
    // What is refused in front of a service is answered without gRPC.
    if !is_grpc(&parts.headers) {
        return Response::from_parts(parts, body);
    }
    if let Some(failed) = Status::from_header_map(&parts.headers).filter(|status| status.code() != Code::Ok) {
        return failure(&failed);
    }
    match collected(body).await {
        Ok(bytes) => match decoded(output, &bytes).and_then(|message| written(&message)) {
            Ok(value) => {
                let mut answered = axum::Json(value).into_response();
                let own = parts.headers.iter().filter(|(name, _)| name.as_str().starts_with("obey-"));
                answered.headers_mut().extend(own.map(|(name, value)| (name.clone(), value.clone())));
                answered
            }
            Err(error) => status::rest(&error),
        },
        Err(failed) => failure(&failed),
    }
}

/// Turns the messages of a gRPC stream into lines of JSON, as they come.
fn streamed(output: MessageDescriptor, response: Response) -> Response {
    let (parts, body) = response.into_parts();
    if !is_grpc(&parts.headers) {
        return Response::from_parts(parts, body);
    }
    if let Some(failed) = Status::from_header_map(&parts.headers).filter(|status| status.code() != Code::Ok) {
        return failure(&failed);
    }
    let mut answered = Body::new(lines::JsonLines::new(body, output)).into_response();
    answered.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(LINES));
    answered
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// Reads a whole answer: its message, or the status in its trailers.
async fn collected(mut body: Body) -> Result<Bytes, Status> {
    let mut bytes = Vec::new();
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|error| Status::from_error(error.into()))?;
        if let Some(trailers) = frame.trailers_ref()
            && let Some(status) = Status::from_header_map(trailers)
            && status.code() != Code::Ok
        {
            return Err(status);
        }
        if let Some(data) = frame.data_ref() {
            if bytes.len() + data.len() > limits::JSON_ANSWER_MAX_BYTES {
                return Err(Status::resource_exhausted(
                    "the answer is too large for JSON; ask for less at once",
                ));
            }
            bytes.extend_from_slice(data);
        }
    }
    Ok(bytes.into())
}

fn decoded(output: &MessageDescriptor, frame: &[u8]) -> Result<DynamicMessage, Error> {
    let message = frame.get(PREFIX_BYTES..).unwrap_or_default();
    DynamicMessage::decode(output.clone(), message).map_err(|error| {
        Error::new(ErrorCode::SessionError, "the answer cannot be read").with_detail(error.to_string())
    })
}

/// Answers with the error of a gRPC status.
fn failure(failed: &Status) -> Response {
    let (error, http) = error_of(failed);
    match http {
        Some(http) => status::rest_as(&error, http),
        None => status::rest(&error),
    }
}

/// Returns the error of a gRPC status: its OBEY code where it has one, else the HTTP status that comes closest.
fn error_of(failed: &Status) -> (Error, Option<StatusCode>) {
    let code = failed.metadata().get(status::CODE_KEY).and_then(|code| code.to_str().ok());
    let code = code.and_then(ErrorCode::parse);
    let text = failed.message();
    if let Some(code) = code {
        return (Error::new(code, code.sentence(text)), None);
    }
    let (code, http) = match failed.code() {
        Code::NotFound | Code::Unimplemented => (ErrorCode::InvalidArgument, StatusCode::NOT_FOUND),
        Code::ResourceExhausted => (ErrorCode::LimitReached, StatusCode::TOO_MANY_REQUESTS),
        Code::InvalidArgument => (ErrorCode::InvalidArgument, StatusCode::BAD_REQUEST),
        Code::PermissionDenied | Code::Unauthenticated => (ErrorCode::NotAllowed, StatusCode::FORBIDDEN),
        _ => (ErrorCode::SessionError, StatusCode::INTERNAL_SERVER_ERROR),
    };
    (Error::new(code, text), Some(http))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(path: &str) -> MessageDescriptor {
        method(path).unwrap().input()
    }

    #[test]
    fn a_message_is_read_in_both_spellings_and_written_as_the_proto_spells_it() {
        let prompt = input("/obey.v1.TurnService/Prompt");
        for body in [r#"{"session_id":"sess_1","text":"a"}"#, r#"{"sessionId":"sess_1","text":"a"}"#] {
            let message = read(&prompt, body.as_bytes()).unwrap();
            let value = written(&message).unwrap();
            assert_eq!((&value["session_id"], &value["text"]), (&"sess_1".into(), &"a".into()), "{value}");
        }
        let read_events = input("/obey.v1.EventService/ReadEvents");
        let message = read(&read_events, br#"{"after_seq":"9007199254740993"}"#).unwrap();
        assert_eq!(written(&message).unwrap()["after_seq"], 9_007_199_254_740_993_u64);
        assert!(read(&prompt, b"").is_ok() && read(&prompt, b" {} ").is_ok());
    }

    #[test]
    fn a_wrong_member_is_named_and_its_value_is_not_quoted() {
        let prompt = input("/obey.v1.TurnService/Prompt");
        let error = read(&prompt, br#"{"txet":"a"}"#).unwrap_err();
        assert!(error.message.starts_with("txet: ") && error.message.contains("session_id"), "{error}");
        let error = read(&prompt, br#"{"session_id":"s","steer":"ghp_secret"}"#).unwrap_err();
        assert!(error.message.starts_with("steer: ") && !error.message.contains("ghp_"), "{error}");
        let error = read(&prompt, br#"{"text":"a","text":"b"}"#).unwrap_err();
        assert!(error.message.contains("twice"), "{error}");
    }

    #[test]
    fn every_unary_method_that_has_a_row_is_found_by_its_path() {
        for row in wire::access::GRPC.iter().filter(|row| !row.method.starts_with("grpc.")) {
            assert!(method(&format!("/{}", row.method)).is_some(), "{}", row.method);
        }
        assert!(method("/obey.v1.TurnService").is_none() && method("/obey.v1.None/Prompt").is_none());
    }
}
