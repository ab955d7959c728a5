//! The workbench: tools every agent gets alike, with secrets taken out of whatever they show. Knows no protocol.

pub mod files;
pub mod limits;
mod random;
pub mod sandbox;
pub mod scrub;
