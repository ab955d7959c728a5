//! What all surfaces share: listening, who calls, the access table, the way from the journal to a client, and errors.
//! Knows no single protocol; each surface is a crate of its own.

pub mod access;
pub mod asking;
pub mod client_key;
pub mod follow;
pub mod limits;
pub mod peer;
pub mod pump;
pub mod query;
pub mod server;
pub mod shorten;
pub mod status;
pub mod structs;

pub use tonic::service::Routes;
