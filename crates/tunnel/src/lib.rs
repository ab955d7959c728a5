//! What both ends of a tunnel share: frames, calls and their credit, the sealed connection inside of one, and how a relay
//! is dialled and recognized. Knows no daemon, no relay and no store.

pub mod basic;
mod body;
mod credit;
pub mod dial;
pub mod fields;
pub mod grpc;
pub mod keys;
pub mod limits;
mod link;
mod outbox;
pub mod pairing;
mod parts;
pub mod pinned;
pub mod pipe;
pub mod renewal;
mod responder;
pub mod ticket;

pub use body::CallBody;
pub use link::{CallFailure, CallOrigin, IncomingCall, Link, LinkEvent, LinkSide};
pub use outbox::FrameStream;

/// The capability of ends that take frames with a head, credit and trailers.
pub const FULL_FRAMES: &str = "obey.frames/1";
