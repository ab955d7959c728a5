//! The terminal UI: a client of the daemon over its Unix socket, like any other. `app` holds the state and its rules, `draw`
//! shows it, `daemon` talks to the daemon, `terminal` owns the terminal. Imports nothing of the daemon; what a transcript
//! means is decided in `view`.

mod app;
mod cells;
mod daemon;
mod data;
mod draw;
mod format;
mod highlight;
mod keys;
mod limits;
mod markdown;
mod plain;
mod rows;
mod run;
mod sanitize;
mod terminal;
mod theme;
mod transcript_pane;

pub use run::{UiSettings, print_keys, run, run_plain};

#[cfg(test)]
mod tests;
