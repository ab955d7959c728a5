//! The hostile agent of the escape suite, and its probes: see `e2e::hostile`.

fn main() -> std::process::ExitCode {
    e2e::hostile::play(std::env::args_os().skip(1).collect())
}
