//! The commands of the command line. A client of the daemon; what needs the daemon's own code it
//! asks of [`local::LocalCommands`].

pub mod app;
pub mod commands;
mod completion;
mod help;
pub mod json;
pub mod json_types;
pub mod limits;
pub mod local;
pub mod programs;

#[cfg(test)]
mod tests;
