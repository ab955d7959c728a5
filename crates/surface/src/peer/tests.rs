//! Callers without access are rejected, and all others are identified correctly.

mod callers;
mod pages;
mod users;
