//! `roz.v1` from outside: sessions of programs that bring their own tools. `talk` is such a program; the other files are
//! what sessions promise it.

mod approvals;
mod bad_input;
mod bridge;
pub(crate) mod client_tools;
mod history;
mod keys;
mod node;
mod python;
mod records;
mod safety;
mod several;
mod strangers;
pub(crate) mod talk;
mod tasks;
mod turns;
mod workers;
