//! What the daemon's and the relay's HTTP/2 servers share: answers that reach a client whose request was not read to
//! its end, connections that are closed only when the client has read the last answer, and gRPC reflection. Knows no
//! router and no caller.

mod drain;
pub mod limits;
mod linger;
mod reflection;

pub use drain::{DrainedBody, UnreadBody};
pub use linger::{LingeringClose, LingeringIo};
pub use reflection::{Reflection, ReflectionV1, ReflectionV1Alpha};
