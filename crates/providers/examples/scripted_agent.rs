//! The scripted agent as a separate program, for tests that need a process.

use std::process::ExitCode;

fn main() -> ExitCode {
    let code = providers::scripted::run_agent(std::io::stdin(), std::io::stdout());
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
