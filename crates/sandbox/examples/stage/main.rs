//! Stands in for the binary in tests: becomes the stage of a sandbox; plays the daemon around a sandbox that is put to
//! the test (`suite`), or in whose surroundings something is mounted (`mounts`); or is what is locked in and tries to get out (`escape`).
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod files;
mod ground;
mod kernel;
mod mounts;
mod network;
mod probe;
mod processes;
mod suite;

use std::ffi::OsString;

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    let code = match words.as_slice() {
        ["sandbox-stage", ..] => sandbox::enter(&arguments[1..]),
        [sandbox::agent::WORD, ..] => sandbox::agent::enter(&arguments[1..]),
        ["suite", tier] => suite::run(tier),
        ["hold", tier, root, word] => suite::hold(tier, root.into(), word),
        ["mounts", root] => mounts::run(root.into()),
        ["escape", ground] => probe::run_all(ground),
        other => {
            eprintln!("not understood: {other:?}");
            2
        }
    };
    std::process::exit(code);
}
