//! Replaces the binary in tests of the tools: runs as the stage of their sandbox.

fn main() {
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    std::process::exit(sandbox::enter(&arguments));
}
