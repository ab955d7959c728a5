//! The relay: machines dial it, clients call it, and it moves calls between them. It keeps accounts, machines and
//! certificates in one SQLite file, and reads nothing of a sealed connection. Several relays are one over NATS. Runs no session
//! and imports nothing that does.

#![cfg_attr(not(feature = "nats"), allow(dead_code, reason = "what only several relays need"))]

mod addresses;
mod admin;
mod authority;
mod buffer;
#[cfg(feature = "nats")]
mod cluster;
#[cfg(not(feature = "nats"))]
#[path = "no_cluster.rs"]
mod cluster;
mod forward;
mod hub;
pub mod limits;
mod machine_service;
mod metrics;
mod quota;
mod relay_service;
mod server;
mod status;
mod store;
mod traffic;
mod tunnel_service;

pub use admin::{AuthorityPhase, Created, Relay, RelayCounts};
pub use store::{MachineRecord, RelayAuditEntry, UserRecord};
