//! Unary calls through the generated client and server, without a network: what the shared code of all unary methods
//! passes on, and the statuses it makes itself.

#![allow(clippy::unwrap_used, reason = "it is a test as a whole")]

use prost::Message;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::{Code, Request, Response, Status};
use wire::obey::v1::search_service_client::SearchServiceClient;
use wire::obey::v1::search_service_server::{SearchService, SearchServiceServer};
use wire::obey::v1::{SearchHit, SearchRequest, SearchResponse};

struct Echo;

#[tonic::async_trait]
impl SearchService for Echo {
    async fn search(&self, request: Request<SearchRequest>) -> Result<Response<SearchResponse>, Status> {
        if request.get_ref().text.is_empty() {
            let mut status = Status::invalid_argument("text is empty");
            status.metadata_mut().insert("obey-code", "OBEY-1".parse().unwrap());
            return Err(status);
        }
        let name = request.metadata().get("name").map(|name| name.to_str().unwrap().to_owned());
        let hit = SearchHit {
            snippet: request.get_ref().text.clone(),
            session_name: name.unwrap_or_default(),
            ..SearchHit::default()
        };
        let mut response = Response::new(SearchResponse { hits: vec![hit], ..SearchResponse::default() });
        response.metadata_mut().insert("answered", "yes".parse().unwrap());
        Ok(response)
    }
}

fn request(text: &str) -> Request<SearchRequest> {
    Request::new(SearchRequest { text: text.to_owned(), ..SearchRequest::default() })
}

/// Sends `message` as the one message of a request, framed, and returns the status in the answer's headers.
async fn status_of(mut server: SearchServiceServer<Echo>, message: &[u8]) -> Option<Status> {
    let mut framed = vec![0];
    framed.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    framed.extend(message);
    // A text is a body; every byte of these messages is one of ASCII.
    let framed = String::from_utf8(framed).unwrap();
    let request = http::Request::post("/obey.v1.SearchService/Search")
        .header("content-type", "application/grpc")
        .body(Body::new(framed))
        .unwrap();
    Status::from_header_map(server.call(request).await.unwrap().headers())
}

#[tokio::test]
async fn messages_and_metadata_pass_both_ways() {
    let mut client = SearchServiceClient::new(SearchServiceServer::new(Echo));
    let mut request = request("needle");
    request.metadata_mut().insert("name", "first".parse().unwrap());
    let response = client.search(request).await.unwrap();
    assert_eq!(response.metadata().get("answered").unwrap(), "yes");
    let hits = response.into_inner().hits;
    assert_eq!((hits[0].snippet.as_str(), hits[0].session_name.as_str()), ("needle", "first"));
}

#[tokio::test]
async fn a_status_of_the_handler_keeps_its_metadata() {
    let mut client = SearchServiceClient::new(SearchServiceServer::new(Echo));
    let status = client.search(request("")).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "text is empty"));
    assert_eq!(status.metadata().get("obey-code").unwrap(), "OBEY-1");
}

#[tokio::test]
async fn bytes_that_are_no_message_are_an_internal_error() {
    let status = status_of(SearchServiceServer::new(Echo), &[0x0a, 0x7f, b'x']).await.unwrap();
    assert_eq!(status.code(), Code::Internal);
    assert!(status.message().contains("failed to decode Protobuf message"), "{}", status.message());
}

#[tokio::test]
async fn a_message_beyond_the_limit_is_refused() {
    let message = request("a text of many letters").into_inner().encode_to_vec();
    let server = SearchServiceServer::new(Echo).max_decoding_message_size(message.len() - 1);
    assert_eq!(status_of(server, &message).await.unwrap().code(), Code::OutOfRange);
    let server = SearchServiceServer::new(Echo).max_decoding_message_size(message.len());
    assert!(status_of(server, &message).await.is_none());
}
