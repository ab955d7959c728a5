//! Work on the source tree itself: the rules that no compiler checks. Knows files and text; knows nothing of
//! how obey runs.

pub mod capabilities;
pub mod tidy;
pub mod web;
