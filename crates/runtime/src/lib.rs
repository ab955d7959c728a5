//! To be filled.

pub mod process;
