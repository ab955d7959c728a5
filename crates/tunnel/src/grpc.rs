//! gRPC on top of HTTP, as far as a tunnel needs it: message prefixes, names of status codes, and which methods take or give
//! one message.

use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use prost::Message as _;
use tonic::Code;

use crate::limits;

/// The bytes before each message: a flag and a length.
const PREFIX_BYTES: usize = 5;

/// The package of services that are named without one.
const BARE_PACKAGE: &str = "betcode.v1";

/// Whether a method takes and gives a stream. What is not known is taken for streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodShape {
    pub client_streams: bool,
    pub server_streams: bool,
}

/// Returns the shape of a method, by its path `/package.Service/Method`.
pub fn shape(path: &str) -> Option<MethodShape> {
    static SHAPES: LazyLock<HashMap<String, MethodShape>> = LazyLock::new(|| {
        let set = prost_types::FileDescriptorSet::decode(wire::DESCRIPTORS).unwrap_or_default();
        let mut shapes = HashMap::new();
        for file in &set.file {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    let shape = MethodShape {
                        client_streams: method.client_streaming(),
                        server_streams: method.server_streaming(),
                    };
                    shapes.insert(path, shape);
                }
            }
        }
        shapes
    });
    SHAPES.get(path).copied()
}

/// Returns the path of a method as a frame names it.
pub fn path_of(service: &str, method: &str) -> String {
    match service.contains('.') {
        true => format!("/{service}/{method}"),
        false => format!("/{BARE_PACKAGE}.{service}/{method}"),
    }
}

/// Returns service and method of a path, the service bare where it can be.
pub fn names_of(path: &str) -> Option<(&str, &str)> {
    let (service, method) = path.strip_prefix('/')?.split_once('/')?;
    let bare = service.strip_prefix(BARE_PACKAGE).and_then(|rest| rest.strip_prefix('.'));
    Some((bare.unwrap_or(service), method))
}

/// Puts the prefix before a message.
pub fn prefixed(message: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    out.put_u8(0);
    out.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    out.put_slice(message);
    out.freeze()
}

/// Takes messages from the bytes of a body.
#[derive(Debug, Default)]
pub struct Deframer {
    waiting: BytesMut,
}

/// Why a body cannot be cut into messages.
#[derive(Debug, PartialEq, Eq)]
pub enum BadMessage {
    Compressed,
    TooLarge,
}

impl Deframer {
    pub fn push(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    /// Returns the next whole message.
    pub fn message(&mut self) -> Result<Option<Bytes>, BadMessage> {
        let Some((head, _)) = self.waiting.split_at_checked(PREFIX_BYTES) else { return Ok(None) };
        let mut head = head;
        if head.get_u8() != 0 {
            return Err(BadMessage::Compressed);
        }
        let length = head.get_u32() as usize;
        if length > limits::BASIC_MESSAGE_MAX_BYTES {
            return Err(BadMessage::TooLarge);
        }
        if self.waiting.len() < PREFIX_BYTES + length {
            return Ok(None);
        }
        self.waiting.advance(PREFIX_BYTES);
        Ok(Some(self.waiting.split_to(length).freeze()))
    }
}

const NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Returns the name of a status code.
pub fn name(code: Code) -> &'static str {
    NAMES.get(usize::try_from(code as i32).unwrap_or(2)).copied().unwrap_or("UNKNOWN")
}

/// Returns the status code with a name, or with a number as text.
pub fn code(name: &str) -> Code {
    let at = NAMES.iter().position(|known| known.eq_ignore_ascii_case(name));
    at.and_then(|at| i32::try_from(at).ok())
        .or_else(|| name.parse().ok())
        .map_or(Code::Unknown, Code::from_i32)
}

/// Returns the status that trailers, or the head of an answer without a body, tell.
pub fn status_in(headers: &HeaderMap) -> Option<(Code, String)> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok().map_or(Code::Unknown, Code::from_i32);
    let status = tonic::Status::from_header_map(headers)?;
    Some((code, status.message().to_owned()))
}

/// Returns the trailers of a status.
pub fn trailers(code: Code, message: &str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    if tonic::Status::new(code, message).add_header(&mut trailers).is_err() {
        trailers.insert("grpc-status", HeaderValue::from(code as i32));
    }
    trailers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bare_for_the_published_package_and_full_for_others() {
        assert_eq!(names_of("/betcode.v1.AgentService/Converse"), Some(("AgentService", "Converse")));
        assert_eq!(names_of("/roz.v1.AgentService/X"), Some(("roz.v1.AgentService", "X")));
        assert_eq!(path_of("AgentService", "Converse"), "/betcode.v1.AgentService/Converse");
        assert_eq!(path_of("obey.v1.EventService", "ReadEvents"), "/obey.v1.EventService/ReadEvents");
        assert_eq!(names_of("/health"), None);
    }

    #[test]
    fn shapes_come_from_the_descriptors() {
        let shape_of = |path| shape(path).map(|shape| (shape.client_streams, shape.server_streams));
        assert_eq!(shape_of("/betcode.v1.AgentService/Converse"), Some((true, true)));
        assert_eq!(shape_of("/betcode.v1.AgentService/ListSessions"), Some((false, false)));
        assert_eq!(shape_of("/betcode.v1.AgentService/ResumeSession"), Some((false, true)));
        assert_eq!(shape_of("/nothing.v1.X/Y"), None);
    }

    #[test]
    fn messages_are_cut_wherever_bytes_are_split() {
        let body = [prefixed(b"one"), prefixed(b""), prefixed(b"three")].concat();
        for at in 0..body.len() {
            let mut deframer = Deframer::default();
            let mut found = Vec::new();
            for part in [&body[..at], &body[at..]] {
                deframer.push(part);
                while let Some(message) = deframer.message().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, [&b"one"[..], b"", b"three"]);
        }
        let mut deframer = Deframer::default();
        deframer.push(&[1, 0, 0, 0, 0]);
        assert_eq!(deframer.message(), Err(BadMessage::Compressed));
    }

    #[test]
    fn status_codes_have_names_both_ways() {
        for number in 0..17 {
            let known = Code::from_i32(number);
            assert_eq!(code(name(known)), known);
        }
        assert_eq!((code("14"), code("nonsense")), (Code::Unavailable, Code::Unknown));
    }
}
