//! What the providers share: settings of a session that all know, finding programs, attachments, conversations on disk,
//! pieces of their wire formats, and the scenarios that each must pass (`suite`). Knows no particular agent.

pub mod attachment;
pub mod codec_state;
pub mod config;
pub mod conversation_file;
pub mod json_fields;
pub mod json_rpc;
pub mod limits;
pub mod mcp_spec;
pub mod places;
pub mod program;
pub mod secrets;
pub mod suggestion;
pub mod suite;
pub mod text;
pub mod tls;
