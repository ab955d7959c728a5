//! Real requests through the guard: what reaches a service, and what a rejected caller receives.

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use domain::SessionId;
use http::{Request, StatusCode};
use prost::Message as _;
use tonic::{Code, Status};
use tower::ServiceExt as _;
use wire::obey::local::v1 as pb;
use wire::obey::v1::ReadEventsRequest;

use super::super::frames::text_at;
use super::super::guard::guarded;
use super::OWN;
use crate::peer::Caller;

const READ_EVENTS: &str = "/obey.v1.EventService/ReadEvents";
const REPORT: &str = "/obey.local.v1.LocalDaemonService/StreamAgentActivity";
const WRITE: &str = "/api/v1/safeexec/write";

fn agent() -> Caller {
    Caller::Agent(SessionId::new(OWN))
}

/// A service that reads its request to the end and echoes it; a gRPC status on the way becomes its answer.
async fn repeat(request: Request<Body>) -> Response {
    match axum::body::to_bytes(request.into_body(), 1 << 24).await {
        Ok(bytes) => Response::new(Body::from(bytes)),
        Err(error) => Status::from_error(error.into()).into_http(),
    }
}

async fn ask(caller: Caller, request: Request<Body>) -> Response {
    let guard = move |request, next| {
        let caller = caller.clone();
        async move { guarded(&caller, request, next).await }
    };
    let router = Router::new().fallback(repeat).layer(axum::middleware::from_fn(guard));
    router.oneshot(request).await.unwrap()
}

fn grpc(path: &str, chunks: Vec<Vec<u8>>) -> Request<Body> {
    let chunks = tokio_stream::iter(chunks.into_iter().map(Ok::<_, std::io::Error>));
    let request = Request::post(path).header("content-type", "application/grpc");
    request.body(Body::from_stream(chunks)).unwrap()
}

fn frame(message: &[u8]) -> Vec<u8> {
    let mut frame = vec![0];
    frame.extend_from_slice(&(message.len() as u32).to_be_bytes());
    frame.extend_from_slice(message);
    frame
}

fn named(session: &str) -> Vec<u8> {
    frame(
        &ReadEventsRequest { session_id: session.to_owned(), after_seq: 7, ..Default::default() }
            .encode_to_vec(),
    )
}

fn report(session: &str) -> Vec<u8> {
    frame(&pb::AgentActivityEvent { session_id: session.to_owned(), ..Default::default() }.encode_to_vec())
}

async fn code(caller: Caller, request: Request<Body>) -> Code {
    let response = ask(caller, request).await;
    Status::from_header_map(response.headers()).map_or(Code::Ok, |status| status.code())
}

async fn body(response: Response) -> Vec<u8> {
    axum::body::to_bytes(response.into_body(), 1 << 24).await.unwrap().to_vec()
}

#[tokio::test]
async fn an_agent_reads_its_own_session_and_no_other() {
    assert_eq!(code(agent(), grpc(READ_EVENTS, vec![named(OWN)])).await, Code::Ok);
    for session in ["sess_other", "", "sess_own2", "sess_ow"] {
        let response = ask(agent(), grpc(READ_EVENTS, vec![named(session)])).await;
        let status = Status::from_header_map(response.headers()).unwrap();
        assert_eq!(status.code(), Code::PermissionDenied, "{session}");
        assert!(status.message().contains("OBEY-1002"), "{status}");
    }
    assert_eq!(code(Caller::User, grpc(READ_EVENTS, vec![named("sess_other")])).await, Code::Ok);
    assert_eq!(code(Caller::Unknown, grpc(READ_EVENTS, vec![named(OWN)])).await, Code::PermissionDenied);
    assert_eq!(code(Caller::Token, grpc(READ_EVENTS, vec![named(OWN)])).await, Code::PermissionDenied);
}

#[tokio::test]
async fn the_last_value_of_a_field_counts_as_it_does_for_the_service() {
    let twice = |first: &str, second: &str| {
        let message =
            |id: &str| ReadEventsRequest { session_id: id.to_owned(), ..Default::default() }.encode_to_vec();
        frame(&[message(first), message(second)].concat())
    };
    assert_eq!(
        code(agent(), grpc(READ_EVENTS, vec![twice(OWN, "sess_other")])).await,
        Code::PermissionDenied
    );
    assert_eq!(code(agent(), grpc(READ_EVENTS, vec![twice("sess_other", OWN)])).await, Code::Ok);
}

#[tokio::test]
async fn every_message_of_a_stream_is_looked_at_wherever_it_is_cut() {
    let good = [report(OWN), report(OWN)].concat();
    let bad = [report(OWN), report(OWN), report("sess_other"), report(OWN)].concat();
    for at in 0..bad.len() {
        let pieces = |bytes: &[u8]| {
            let at = at.min(bytes.len());
            vec![bytes[..at].to_vec(), bytes[at..].to_vec()]
        };
        let response = ask(agent(), grpc(REPORT, pieces(&good))).await;
        assert_eq!(body(response).await, good, "cut at {at}");
        assert_eq!(code(agent(), grpc(REPORT, pieces(&bad))).await, Code::PermissionDenied, "cut at {at}");
    }
}

#[tokio::test]
async fn what_an_agent_sends_is_bounded_and_must_be_readable() {
    let mut long = frame(b"x");
    long[1..5].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(code(agent(), grpc(READ_EVENTS, vec![long])).await, Code::ResourceExhausted);
    let mut compressed = named(OWN);
    compressed[0] = 1;
    assert_eq!(code(agent(), grpc(READ_EVENTS, vec![compressed])).await, Code::Unimplemented);
    for bytes in [&b"\xff\xff\xff"[..], b"\x0a\xff", b"\x08\x01", b"\x0a\x02\xff\xfe"] {
        assert_eq!(
            code(agent(), grpc(READ_EVENTS, vec![frame(bytes)])).await,
            Code::InvalidArgument,
            "{bytes:?}"
        );
    }
}

#[test]
fn fields_inside_messages_are_found_across_pieces() {
    // Field 1 is a message whose field 2 is the string; it is split over two fields.
    let message = b"\x0a\x03\x12\x01a\x1a\x01z\x0a\x03\x12\x01b";
    assert_eq!(text_at(message, &[1, 2]).unwrap().as_deref(), Some("b"));
    assert_eq!(text_at(message, &[1, 3]).unwrap(), None);
    assert_eq!(text_at(message, &[3]).unwrap().as_deref(), Some("z"));
    assert!(text_at(message, &[]).is_err());
}

fn post(path: &str, kind: &str, body: &str) -> Request<Body> {
    Request::post(path).header("content-type", kind).body(Body::from(body.to_owned())).unwrap()
}

#[tokio::test]
async fn an_agent_uses_rest_in_its_own_session_only() {
    let json = "application/json";
    let own = format!(r#"{{"path":"a","session_id":"{OWN}"}}"#);
    let response = ask(agent(), post(WRITE, json, &own)).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(body(response).await, own.as_bytes(), "the service reads what the agent wrote");
    let in_query = format!("{WRITE}?session_id={OWN}");
    assert_eq!(ask(agent(), post(&in_query, json, "{}")).await.status(), StatusCode::OK);
    let twice = format!(r#"{{"session_id":"{OWN}","session_id":"sess_other"}}"#);
    for (path, text, wanted) in [
        (WRITE, r#"{"session_id":"sess_other"}"#, StatusCode::FORBIDDEN),
        (WRITE, r#"{"session_id":null}"#, StatusCode::FORBIDDEN),
        (WRITE, "{}", StatusCode::FORBIDDEN),
        (WRITE, "", StatusCode::FORBIDDEN),
        // The body takes precedence where both name a session.
        (&in_query, r#"{"session_id":"sess_other"}"#, StatusCode::FORBIDDEN),
        (WRITE, twice.as_str(), StatusCode::BAD_REQUEST),
        ("/api/v1/session/start", "{}", StatusCode::FORBIDDEN),
    ] {
        let response = ask(agent(), post(path, json, text)).await;
        assert_eq!(response.status(), wanted, "{path} {text}");
    }
    let get = |query: &str| Request::get(format!("/api/v1/memory/mem_1{query}")).body(Body::empty()).unwrap();
    assert_eq!(ask(agent(), get(&format!("?session_id={OWN}"))).await.status(), StatusCode::OK);
    assert_eq!(ask(agent(), get("?session_id=sess_other")).await.status(), StatusCode::FORBIDDEN);
    let twice = format!("?session_id=sess_other&session_id={OWN}");
    assert_eq!(ask(agent(), get(&twice)).await.status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn protocols_keep_to_their_own_content_types() {
    let wanted = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    for kind in ["application/grpc", "application/grpc-web-text", "application/grpc+proto"] {
        assert_eq!(ask(Caller::User, post(WRITE, kind, "{}")).await.status(), wanted, "{kind}");
    }
    for kind in
        ["application/json", "application/grpc-web", "application/grpc-web+proto", "application/grpcx"]
    {
        assert_eq!(ask(Caller::User, post(READ_EVENTS, kind, "")).await.status(), wanted, "{kind}");
    }
    let json = "application/json; charset=utf-8";
    assert_eq!(ask(Caller::User, post(WRITE, json, "{}")).await.status(), StatusCode::OK);
    assert_eq!(code(Caller::User, grpc(READ_EVENTS, vec![named(OWN)])).await, Code::Ok);
}

#[tokio::test]
async fn what_has_no_row_reaches_no_service_and_is_not_repeated() {
    let response = ask(Caller::User, Request::get("/ghp_secret").body(Body::empty()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    let text = String::from_utf8(body(response).await).unwrap();
    assert!(!text.contains("ghp_") && text.contains("nothing is served"), "{text}");
    let response = ask(Caller::User, Request::delete("/health").body(Body::empty()).unwrap()).await;
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    for path in
        ["/obey.v1.EventService/Nothing", "/nobody.v1.Service/Method", "/obey.v1.EventService/ReadEvents/"]
    {
        assert_eq!(code(Caller::User, grpc(path, vec![named(OWN)])).await, Code::Unimplemented, "{path}");
    }
}

#[tokio::test]
async fn the_token_reads_documents_and_health() {
    for (path, wanted) in [
        ("/health", StatusCode::OK),
        ("/openapi.json", StatusCode::OK),
        ("/api/v1/memory/x?session_id=sess_own", StatusCode::FORBIDDEN),
    ] {
        let response = ask(Caller::Token, Request::get(path).body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), wanted, "{path}");
    }
}

#[tokio::test]
async fn messages_that_cannot_be_read_are_the_clients_fault() {
    use super::super::malformed::named;
    let response = |status: Status| status.into_http::<Body>();
    let code = |response: Response| Status::from_header_map(response.headers()).unwrap().code();
    let library = [
        (Status::internal("failed to decode Protobuf message: x"), Code::InvalidArgument),
        (Status::internal("Unexpected EOF decoding stream."), Code::InvalidArgument),
        (
            Status::out_of_range("Error, decoded message length too large: found 9 bytes"),
            Code::ResourceExhausted,
        ),
        (Status::internal("the disk is full"), Code::Internal),
        (Status::not_found("failed to decode Protobuf message"), Code::NotFound),
    ];
    for (status, wanted) in library {
        let message = status.message().to_owned();
        assert_eq!(code(named(response(status), false)), wanted, "{message}");
    }
}
