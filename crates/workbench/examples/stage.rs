//! Stands in for the binary in tests: becomes the stage of a sandbox, or something that tries to get out of one.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::ffi::OsString;

fn main() {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let code = match arguments.first().and_then(|first| first.to_str()) {
        Some("sandbox-stage") => workbench::sandbox::enter(&arguments[1..]),
        _ => {
            eprintln!("usage: stage sandbox-stage");
            2
        }
    };
    std::process::exit(code);
}
