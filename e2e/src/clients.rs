//! gRPC clients of the daemon for tests: connection over the Unix socket, awaiting events of a stream, reading errors.
//! Knows the generated messages and nothing of the daemon's code.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio_stream::StreamExt;
use tonic::metadata::KeyAndValueRef;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status, Streaming};
use wire::obey::local::v1::local_daemon_service_client::LocalDaemonServiceClient;
use wire::obey::v1::campaign_service_client::CampaignServiceClient;
use wire::obey::v1::event_service_client::EventServiceClient;
use wire::obey::v1::request_service_client::RequestServiceClient;
use wire::obey::v1::turn_service_client::TurnServiceClient;

use crate::deadline::within;

/// How long a call may take to be answered. Creating a session and a graceful stop wait for the agent, each up to
/// their own limits, which must not be cut short here. Streams may stay open longer.
const CALL_TIME: Duration = Duration::from_secs(90);

/// One client of every service, on one connection. Make a second one to be a second person.
#[derive(Clone)]
pub struct Clients {
    /// The connection, for services that have no field here.
    pub channel: Channel,
    pub local: LocalDaemonServiceClient<Channel>,
    pub events: EventServiceClient<Channel>,
    pub turns: TurnServiceClient<Channel>,
    pub requests: RequestServiceClient<Channel>,
    pub campaigns: CampaignServiceClient<Channel>,
}

impl Clients {
    /// Connects to the daemon behind this socket.
    pub async fn connect(socket: &Path) -> Result<Clients> {
        let path = socket.to_owned();
        // The address is never resolved; it only fills the HTTP/2 authority.
        let endpoint = Endpoint::from_static("http://localhost").timeout(CALL_TIME);
        let connect = tower::service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let channel = within("a connection", endpoint.connect_with_connector(connect))
            .await?
            .with_context(|| format!("connecting to {}", socket.display()))?;
        Ok(Clients {
            local: LocalDaemonServiceClient::new(channel.clone()),
            events: EventServiceClient::new(channel.clone()),
            turns: TurnServiceClient::new(channel.clone()),
            requests: RequestServiceClient::new(channel.clone()),
            campaigns: CampaignServiceClient::new(channel.clone()),
            channel,
        })
    }
}

/// Waits for the next event of the stream that fulfils the condition. Events before it are taken from the stream.
pub async fn wait_event<T: Debug>(
    stream: &mut Streaming<T>,
    what: &str,
    mut wanted: impl FnMut(&T) -> bool,
) -> Result<T> {
    let mut seen = Vec::new();
    let found = within(what, async {
        while let Some(event) = stream.next().await {
            let event = event.with_context(|| format!("the stream failed before {what}"))?;
            if wanted(&event) {
                return Ok(event);
            }
            seen.push(event);
        }
        bail!("the stream ended before {what}")
    })
    .await
    .flatten();
    found.with_context(|| format!("events before that: {seen:#?}"))
}

/// Reads a stream to its end; an error of the stream is an error here.
pub async fn collect<T: Debug>(stream: Streaming<T>) -> Result<Vec<T>> {
    let (events, end) = collect_all(stream).await?;
    match end {
        None => Ok(events),
        Some(status) => bail!("the stream failed with {status:?} after {events:#?}"),
    }
}

/// Reads a stream to its end and returns what came, and the error it ended with, if any.
pub async fn collect_all<T: Debug>(mut stream: Streaming<T>) -> Result<(Vec<T>, Option<Status>)> {
    let mut events = Vec::new();
    let end = within("the end of the stream", async {
        while let Some(event) = stream.next().await {
            match event {
                Ok(event) => events.push(event),
                Err(status) => return Some(status),
            }
        }
        None
    })
    .await;
    let end = end.with_context(|| format!("events so far: {events:#?}"))?;
    Ok((events, end))
}

/// Asserts that a call was refused with this gRPC code and this OBEY code; returns the status for a closer look.
pub fn refused<T: Debug>(result: Result<Response<T>, Status>, code: Code, obey: &str) -> Result<Status> {
    match result {
        Ok(response) => bail!("expected {obey}, got {:#?}", response.into_inner()),
        Err(status) => {
            ensure!(status.code() == code, "expected {code:?}, got {status:?}");
            ensure!(mentions(&status, obey), "expected {obey}, got {status:?}");
            Ok(status)
        }
    }
}

/// Whether a status names this word, in its message, its metadata or its details. Texts inside encoded details are
/// plain bytes, so a test can look for a field's name without decoding them.
pub fn mentions(status: &Status, word: &str) -> bool {
    let contains = |bytes: &[u8]| bytes.windows(word.len()).any(|window| window == word.as_bytes());
    let metadata = status.metadata().iter().any(|entry| match entry {
        KeyAndValueRef::Ascii(_, value) => contains(value.as_encoded_bytes()),
        KeyAndValueRef::Binary(_, value) => value.to_bytes().is_ok_and(|bytes| contains(&bytes)),
    });
    contains(status.message().as_bytes()) || contains(status.details()) || metadata
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;
    use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
    use tonic::Request;
    use tonic::transport::Server;
    use wire::obey::v1::event_service_server::{EventService, EventServiceServer};
    use wire::obey::v1::{
        Event, GetScrubbingRequest, GetScrubbingResponse, ReadEventsRequest, RevealRequest, RevealResponse,
    };

    use super::*;

    /// Streams as many events as it is asked for, then fails as the daemon would.
    struct Numbers;

    #[tonic::async_trait]
    impl EventService for Numbers {
        type ReadEventsStream = ReceiverStream<Result<Event, Status>>;

        async fn read_events(
            &self,
            request: Request<ReadEventsRequest>,
        ) -> Result<Response<Self::ReadEventsStream>, Status> {
            let request = request.into_inner();
            if request.session_id.is_empty() {
                let mut status = Status::invalid_argument("session_id: is required");
                status.metadata_mut().insert("obey-code", "OBEY-1001".parse().unwrap());
                return Err(status);
            }
            let (events, stream) = tokio::sync::mpsc::channel(100);
            for seq in 1..=request.limit {
                events.send(Ok(Event { seq, ..Event::default() })).await.unwrap();
            }
            if request.follow {
                events.send(Err(Status::internal("OBEY-2031: gone"))).await.unwrap();
            }
            Ok(Response::new(ReceiverStream::new(stream)))
        }

        async fn reveal(&self, _: Request<RevealRequest>) -> Result<Response<RevealResponse>, Status> {
            Err(Status::unimplemented("reveal"))
        }

        async fn get_scrubbing(
            &self,
            _: Request<GetScrubbingRequest>,
        ) -> Result<Response<GetScrubbingResponse>, Status> {
            Err(Status::unimplemented("get_scrubbing"))
        }
    }

    async fn clients() -> Result<(tempfile::TempDir, Clients)> {
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("s");
        let listener = UnixListenerStream::new(UnixListener::bind(&socket)?);
        let server = Server::builder().add_service(EventServiceServer::new(Numbers));
        tokio::spawn(server.serve_with_incoming(listener));
        Ok((folder, Clients::connect(&socket).await?))
    }

    fn read(limit: u64, follow: bool) -> ReadEventsRequest {
        ReadEventsRequest { session_id: "x".into(), limit, follow, ..Default::default() }
    }

    #[tokio::test]
    async fn streams_are_awaited_and_collected() -> Result<()> {
        let (_folder, mut clients) = clients().await?;
        let mut stream = clients.events.read_events(read(5, false)).await?.into_inner();
        assert_eq!(wait_event(&mut stream, "the third", |event| event.seq == 3).await?.seq, 3);
        assert_eq!(collect(stream).await?.len(), 2);
        let mut short = clients.events.read_events(read(2, false)).await?.into_inner();
        let error = wait_event(&mut short, "the third", |event| event.seq == 3).await.unwrap_err();
        assert!(format!("{error:#}").contains("ended before the third"), "{error:#}");
        let failing = clients.events.read_events(read(2, true)).await?.into_inner();
        let (events, end) = collect_all(failing).await?;
        assert_eq!(events.len(), 2);
        assert!(mentions(&end.context("no error")?, "OBEY-2031"));
        Ok(())
    }

    #[tokio::test]
    async fn a_refusal_is_read_from_wherever_the_code_is() -> Result<()> {
        let (_folder, mut clients) = clients().await?;
        let result = clients.events.read_events(ReadEventsRequest::default()).await;
        let status = refused(result, Code::InvalidArgument, "OBEY-1001")?;
        assert!(mentions(&status, "session_id") && !mentions(&status, "OBEY-1002"));
        let fine = clients.events.read_events(read(1, false)).await;
        assert!(refused(fine, Code::InvalidArgument, "OBEY-1001").is_err());
        Ok(())
    }
}
