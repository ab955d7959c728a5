//! gRPC calls with any method of any interface, and with the walk over all of them. Prints what came back, messages as the
//! text that is in them, and the status at the end.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::{Buf, BufMut};
use hyper_util::rt::TokioIo;
use tokio_stream::StreamExt as _;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use super::connection::{self, Stream};
use super::message::Descriptors;
use super::say;

/// How long a call may take. A stream that stays open has been let in by then, and what it sent is printed.
const CALL_TIME: Duration = Duration::from_secs(3);
/// The same for each call of the walk, which meets streams that are silent by nature.
const STEP_TIME: Duration = Duration::from_millis(500);
/// How many messages of a stream are printed.
const MESSAGES_MAX: usize = 200;

/// Calls a method. `token=FILE` among the fields sends that file's content as the bearer's token.
pub(super) fn call(address: &str, method: &str, fields: &[&str]) -> Result<()> {
    call_over(address, connection::connect(address)?, method, fields)
}

/// Calls a method over a connection that a process made which is dead by then.
pub(super) fn over_passed_connection(address: &str, method: &str, fields: &[&str]) -> Result<()> {
    call_over(address, connection::take_from_dead(address)?, method, fields)
}

fn call_over(address: &str, stream: Stream, method: &str, fields: &[&str]) -> Result<()> {
    let (token, fields): (Vec<&str>, Vec<&str>) =
        fields.iter().partition(|field| field.starts_with("token="));
    let descriptors = Descriptors::read()?;
    let method = descriptors.method(method)?;
    let message = descriptors.encode(&method.input, &fields)?;
    let token = token.first().and_then(|word| word.strip_prefix("token="));
    let token = token.map(|file| std::fs::read_to_string(file).context("reading the token")).transpose()?;
    runtime()?.block_on(async {
        let channel = channel(address, stream).await?;
        let (messages, status) = exchange(channel, &method.path, message, token.as_deref(), CALL_TIME).await;
        messages.iter().for_each(|message| say(&String::from_utf8_lossy(message)));
        say(&status);
        Ok(())
    })
}

/// Calls every method there is, about one session, and prints a line for each: the path, the status, and what came back.
pub(super) fn walk(address: &str, session: &str) -> Result<()> {
    let descriptors = Descriptors::read()?;
    runtime()?.block_on(async {
        for method in descriptors.methods() {
            let fields = descriptors.session_fields(&method.input);
            let fields: Vec<String> = fields.iter().map(|field| format!("{field}={session}")).collect();
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            let message = descriptors.encode(&method.input, &fields)?;
            // A connection each: a refused call may end the connection it came by.
            let channel = channel(address, connection::connect(address)?).await?;
            let (messages, status) = exchange(channel, &method.path, message, None, STEP_TIME).await;
            let messages: String = messages.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect();
            let messages = messages.replace(|c: char| c.is_control(), " ");
            say(&format!("{}\t{}\t{messages}", method.path, status.replace(['\t', '\n'], " ")));
        }
        Ok(())
    })
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

async fn channel(address: &str, stream: Stream) -> Result<Channel> {
    let mut stream = Some(stream);
    let connect = tower::service_fn(move |_: http::Uri| {
        let stream = stream.take();
        async move {
            let stream = stream.ok_or_else(|| std::io::Error::other("the connection was used"))?;
            stream.into_async().map(TokioIo::new)
        }
    });
    // The daemon looks at the host that a request names.
    let endpoint = Endpoint::from_shared(format!("http://{}", connection::host(address)))?;
    Ok(tokio::time::timeout(CALL_TIME, endpoint.connect_with_connector(connect)).await??)
}

async fn exchange(
    channel: Channel,
    path: &str,
    message: Vec<u8>,
    token: Option<&str>,
    time: Duration,
) -> (Vec<Vec<u8>>, String) {
    let mut messages = Vec::new();
    let talk = async {
        let mut grpc = tonic::client::Grpc::new(channel);
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let path = format!("/{path}").parse().map_err(|_| Status::internal("no path"))?;
        let mut request = Request::new(message);
        if let Some(token) = token {
            let bearer = format!("Bearer {}", token.trim()).parse();
            request.metadata_mut().insert("authorization", bearer.map_err(|_| Status::internal("no token"))?);
        }
        let mut stream = grpc.server_streaming(request, path, Bytes).await?.into_inner();
        while let Some(message) = stream.next().await {
            messages.push(message?);
            if messages.len() >= MESSAGES_MAX {
                break;
            }
        }
        Ok::<(), Status>(())
    };
    let status = match tokio::time::timeout(time, talk).await {
        Ok(Ok(())) => "status OK".to_owned(),
        Ok(Err(status)) => format!("status {:?}: {}", status.code(), status.message()),
        Err(_) => "status OPEN: the call was let in and goes on".to_owned(),
    };
    (messages, status)
}

/// Messages as their bytes.
#[derive(Clone, Copy, Default)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Bytes;
    type Decoder = Bytes;

    fn encoder(&mut self) -> Bytes {
        Bytes
    }

    fn decoder(&mut self) -> Bytes {
        Bytes
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(message.copy_to_bytes(message.remaining()).to_vec()))
    }
}
