//! MCP from outside: what agents of the daemon get by themselves, what `obey mcp install` writes for clients of the
//! user's own, and published clients over standard streams and over HTTP.

pub(crate) mod agents;
mod install;
mod published;
