//! Breaking things on purpose, many times over: what the fault tests and the long run (`make faults`) are made of.
//! Every run is told a seed and repeats with it. What agents said is judged by the script they were given, never by
//! the daemon's own records alone.

pub mod crew;
pub mod disk;
pub mod figures;
pub mod input;
pub mod kills;
pub mod memory;
pub mod output;
pub mod random;
pub mod readers;
pub mod scenarios;
pub mod stops;
pub mod story;
pub mod view;
