//! The store keeps what it said it kept.
