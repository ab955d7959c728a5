//! Goldens and laws of the fold.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on says so by failing")]

mod goldens;
mod journal;
mod laws;
