//! From words to an exit code: parses the command line, runs the command, says why it failed.
//! The only place that makes a runtime, and none for `serve`, which makes its own.

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
    let (interrupts, ears) = Interrupts::of_process();
    let mut console = Console::of_process(cli.global, interrupts);
    let done = match cli.command {
        Command::Serve(args) if !args.detach => become_daemon(&console, &args),
        command => run_command(&mut console, command, ears),
    };
    finish(&mut console, done)
}

fn finish(console: &mut Console, done: Result<Exit>) -> i32 {
    // An error here is one of the streams that are about to close.
    let _closed = console.out.hide_status();
    match done {
        Ok(exit) => exit.0,
        Err(failure) => {
            console.out.failure(&failure);
            failure.exit.0
        }
    }
}

fn run_command(console: &mut Console, command: Command, ears: SignalListener) -> Result<Exit> {
    // One worker beside this thread: it hears Ctrl-C even while output is stuck in a pipe.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    runtime.spawn(ears.hear());
    let done = runtime.block_on(commands::run(console, command));
    // A thread may still wait for standard input; it ends with the process.
    runtime.shutdown_background();
    done
}

fn become_daemon(console: &Console, args: &ServeArgs) -> Result<Exit> {
    if args.background {
        serve::leave_terminal();
    }
    let mut options = serve::options(args, console.global.socket.as_deref(), &console.vars, &console.paths)?;
    // No thread exists yet.
    options.inherited = Inherited::take(&console.vars)?;
    daemon::serve(options).map(Exit).map_err(of_daemon)
}

/// Keeps the code of an error the daemon names, and the chain of causes of any other.
fn of_daemon(error: anyhow::Error) -> Failure {
    match error.downcast::<domain::Error>() {
        Ok(error) => Failure::coded(error.code, error.message),
        Err(error) => Failure::failed(format!("{error:#}")),
    }
}

/// Prints help, the version, or what is wrong with the command line.
fn explain(error: &clap::Error, json: bool) -> i32 {
    let wanted = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if json && !wanted {
        let message = error.render().to_string();
        let message = message.trim().trim_start_matches("error: ");
        let global = crate::args::Global { json: true, ..Default::default() };
        Output::of_process(&global, &Vars::of_process()).failure(&Failure::usage(message));
        return Exit::USAGE.0;
    }
    // A closed stream leaves nobody to tell.
    let _closed = error.print();
    if wanted { Exit::OK.0 } else { Exit::USAGE.0 }
}
