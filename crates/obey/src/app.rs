//! From the command line to an exit code: parses it, runs the command, and prints errors. The only place that
//! creates a tokio runtime; `serve` creates its own.

use std::ffi::OsString;

use clap::Parser as _;
use clap::error::ErrorKind;

use crate::args::{Cli, Command, ServeArgs};
use crate::commands;
use crate::console::Console;
use crate::daemon;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::inherited::Inherited;
use crate::input::{Interrupts, SignalListener};
use crate::output::Output;
use crate::serve;
use crate::vars::Vars;

/// Runs the command line and returns the exit code.
pub(crate) fn run(words: impl IntoIterator<Item = OsString>) -> i32 {
    let words: Vec<OsString> = words.into_iter().collect();
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return explain(&error, words.iter().any(|word| word == "--json")),
    };
    let (interrupts, signals) = Interrupts::of_process();
    let mut console = Console::of_process(cli.global, interrupts);
    let done = match cli.command {
        Command::Serve(args) if !args.detach => become_daemon(&console, &args),
        command => run_command(&mut console, command, signals),
    };
    finish(&mut console, done)
}

/// Prints an error, if there is one, and returns the exit code.
fn finish(console: &mut Console, done: Result<Exit>) -> i32 {
    // An error here concerns a stream that is about to close.
    let _closed = console.out.hide_status();
    match done {
        Ok(exit) => exit.0,
        Err(failure) => {
            console.out.failure(&failure);
            failure.exit.0
        }
    }
}

/// Runs a command on a tokio runtime.
fn run_command(console: &mut Console, command: Command, signals: SignalListener) -> Result<Exit> {
    // One worker besides this thread: it handles Ctrl-C even while output blocks on a pipe.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    runtime.spawn(signals.forward());
    let done = runtime.block_on(commands::run(console, command));
    // A thread may still wait for standard input; it ends with the process.
    runtime.shutdown_background();
    done
}

/// Runs the daemon in this process until it ends.
fn become_daemon(console: &Console, args: &ServeArgs) -> Result<Exit> {
    if args.background {
        serve::leave_terminal();
    }
    let mut options = serve::options(args, console.global.socket.as_deref(), &console.vars, &console.paths)?;
    // No other thread exists yet.
    options.inherited = Inherited::take(&console.vars)?;
    daemon::serve(options).map(Exit).map_err(of_daemon)
}

/// Keeps the code of a daemon error, and the chain of causes of any other error.
fn of_daemon(error: anyhow::Error) -> Failure {
    match error.downcast::<domain::Error>() {
        Ok(error) => Failure::coded(error.code, error.message),
        Err(error) => Failure::failed(format!("{error:#}")),
    }
}

/// Prints help, the version, or the error in the command line.
fn explain(error: &clap::Error, json: bool) -> i32 {
    let wanted = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if json && !wanted {
        let message = error.render().to_string();
        let message = message.trim().trim_start_matches("error: ");
        let global = crate::args::Global { json: true, ..Default::default() };
        Output::of_process(&global, &Vars::of_process()).failure(&Failure::usage(message));
        return Exit::USAGE.0;
    }
    // If the stream is closed, there is no place left to report that.
    let _closed = error.print();
    if wanted { Exit::OK.0 } else { Exit::USAGE.0 }
}
