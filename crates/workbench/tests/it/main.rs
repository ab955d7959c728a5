//! The workbench from outside: its rules against the corpus, its scrubber against any chunking, its sandbox against
//! probes that try to get out of it.

mod scrub;
