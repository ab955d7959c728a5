//! Machines, clients and the relay between them, from outside: each in a world of its own on one machine.

mod certificates;
mod cut;
mod ending;
mod fault_proxy;
mod hairpin;
mod kills;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "nats")]
mod nats_cluster;
mod network;
mod page;
mod partition;
mod plain;
mod reset;
mod scene;
mod sealed;
mod secrecy;
mod soak;
mod strangers;
mod terminal_ui;
