//! What the program finds on this machine: variables, paths, the configuration file, the file and the lock of a running
//! daemon; and the failure of a command with its exit code. Shared by the daemon and its clients; knows neither.

pub mod exit;
pub mod failure;
pub mod file;
pub mod holder;
pub mod nearest;
pub mod paths;
pub mod ready;
pub mod running;
pub mod vars;
