//! The protocols the daemon speaks: thin translators over one session core. A surface keeps no state that the journal
//! cannot rebuild, and never sees another surface.

pub mod access;
pub mod acp;
pub mod asking;
pub mod betcode;
pub mod bridge;
pub mod contextd;
pub mod limits;
pub mod obey;
pub mod peer;
pub mod pump;
mod query;
pub mod roz;
pub mod server;
mod shorten;
pub mod status;
mod structs;
#[cfg(test)]
mod transcript;

pub use tonic::service::Routes;
