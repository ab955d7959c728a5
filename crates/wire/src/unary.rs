//! The code that all unary methods share. tonic's own is generic over the two messages of a method, so that framing, bodies
//! and trailers would be compiled once for each method, for the client and for the server. Here a method adds a decoding
//! and an encoding; what lies between deals in bytes. Generated code calls this (`build/unary.rs`); methods with streams
//! use tonic's own path. Knows no service and no message.

use prost::Message;
use prost::bytes::{Buf, BufMut, Bytes};
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{BoxFuture, StdError};
use tonic::server::UnaryService;
use tonic::{Request, Response, Status};

/// Passes messages on as the bytes that they are on the wire.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Vec<u8>;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for BytesCodec {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buf.put_slice(&item);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buf.copy_to_bytes(buf.remaining())))
    }
}

/// One method of a service, from the bytes of its request to those of its response.
pub(crate) struct BytesMethod(Box<dyn FnMut(Request<Bytes>) -> BytesFuture + Send>);

type BytesFuture = BoxFuture<Response<Vec<u8>>, Status>;

impl UnaryService<Bytes> for BytesMethod {
    type Response = Vec<u8>;
    type Future = BytesFuture;

    fn call(&mut self, request: Request<Bytes>) -> BytesFuture {
        (self.0)(request)
    }
}

/// Wraps a method of a generated server.
pub(crate) fn bytes_method<S, Req>(mut method: S) -> BytesMethod
where
    S: UnaryService<Req> + Send + 'static,
    S::Response: Message,
    S::Future: Send + 'static,
    Req: Message + Default + 'static,
{
    BytesMethod(Box::new(move |request| {
        let (metadata, extensions, bytes) = request.into_parts();
        match decode(&bytes) {
            Ok(message) => {
                let answer = method.call(Request::from_parts(metadata, extensions, message));
                Box::pin(async move { Ok(answer.await?.map(|message| message.encode_to_vec())) })
            }
            Err(status) => Box::pin(std::future::ready(Err(status))),
        }
    }))
}

/// Calls a unary method: what `tonic::client::Grpc::unary` does with a codec of the messages.
pub(crate) async fn call<T, Req, Res>(
    grpc: &mut tonic::client::Grpc<T>,
    request: Request<Req>,
    path: PathAndQuery,
) -> Result<Response<Res>, Status>
where
    T: GrpcService<Body>,
    T::ResponseBody: Send + 'static,
    <T::ResponseBody as tonic::codegen::Body>::Error: Into<StdError>,
    Req: Message,
    Res: Message + Default,
{
    let request = request.map(|message| message.encode_to_vec());
    let (metadata, bytes, extensions) = grpc.unary(request, path, BytesCodec).await?.into_parts();
    match decode(&bytes) {
        Ok(message) => Ok(Response::from_parts(metadata, message, extensions)),
        Err(mut status) => {
            *status.metadata_mut() = metadata;
            Err(status)
        }
    }
}

/// The status is that of tonic's own codec.
fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M, Status> {
    M::decode(bytes).map_err(|error| Status::internal(error.to_string()))
}
