//! What the end-to-end tests are made of: a scripted model server, and worlds in which the `obey` binary runs cut off
//! from everything else. Drives the binary only from outside and imports none of its code.

pub mod acp;
pub mod cli;
pub mod clients;
pub mod daemon;
pub mod deadline;
pub mod faults;
pub mod files;
pub mod forge_server;
pub mod hostile;
pub mod http;
pub mod model_server;
pub mod processes;
pub mod tmux;
pub mod tools;
pub mod world;
