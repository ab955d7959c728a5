//! Sessions running: supervisor, session actors, the journal and its store, agent processes, campaigns.
//! Everything stateful lives here. Knows no protocol and no single agent; those plug into `provider`.

pub mod provider;
