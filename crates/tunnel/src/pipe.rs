//! A connection inside of one call: `obey.v1.PipeService/Open` as something that is read and written. What travels in it
//! is TLS, so that the relay in between moves bytes that it cannot read.

use std::io;
use std::sync::Arc;

use futures_core::Stream;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc;
use tokio::time;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Status};
use wire::obey::v1::PipeChunk;
use wire::obey::v1::pipe_service_client::PipeServiceClient;

use crate::limits;

/// The name in the certificate of every daemon; which one it is, its authority's key says.
pub const DAEMON_NAME: &str = "daemon.obey";

/// A sealed connection, as a client has it.
pub type SealedStream = TlsStream<DuplexStream>;

/// Makes a connection of the two directions of a call. It ends with either of them.
pub fn join(
    incoming: impl Stream<Item = Result<PipeChunk, Status>> + Send + Unpin + 'static,
    outgoing: mpsc::Sender<PipeChunk>,
) -> DuplexStream {
    let (near, far) = tokio::io::duplex(limits::PIPE_CHUNK_BYTES * limits::PIPE_CHUNKS_MAX);
    let (mut reading, mut writing) = tokio::io::split(far);
    tokio::spawn(async move {
        let mut incoming = incoming;
        while let Some(Ok(chunk)) = incoming.next().await {
            if writing.write_all(&chunk.bytes).await.is_err() {
                return;
            }
        }
        // Nobody reads any more; then there is nothing to end.
        let _ = writing.shutdown().await;
    });
    tokio::spawn(async move {
        let mut buffer = vec![0; limits::PIPE_CHUNK_BYTES];
        while let Ok(count) = reading.read(&mut buffer).await
            && count > 0
        {
            let bytes = buffer.get(..count).unwrap_or_default().to_vec();
            if outgoing.send(PipeChunk { bytes }).await.is_err() {
                return;
            }
        }
    });
    near
}

/// Opens a connection to a machine through a relay. `token` says who may knock at the relay.
pub async fn open(relay: Channel, token: &str, machine: &str) -> Result<DuplexStream, Status> {
    let (outgoing, chunks) = mpsc::channel(limits::PIPE_CHUNKS_MAX);
    let mut request = Request::new(ReceiverStream::new(chunks));
    let unusable =
        |_| Status::invalid_argument("the token or the machine's id has characters that cannot be sent");
    let bearer: MetadataValue<_> = format!("Bearer {token}").parse().map_err(unusable)?;
    request.metadata_mut().insert("authorization", bearer);
    request.metadata_mut().insert("x-machine-id", machine.parse().map_err(unusable)?);
    let incoming = PipeServiceClient::new(relay).open(request).await?.into_inner();
    Ok(join(incoming, outgoing))
}

/// Shakes hands with the daemon at the other end of a connection.
pub async fn seal(io: DuplexStream, config: ClientConfig) -> io::Result<SealedStream> {
    let name = ServerName::try_from(DAEMON_NAME).map_err(io::Error::other)?;
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, io);
    time::timeout(limits::DIAL_WAIT, connecting)
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}
