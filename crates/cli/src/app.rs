//! From the command line to an exit code: parses it, runs the command, and prints errors. The only place that
//! creates a tokio runtime; the daemon creates its own.

use std::ffi::OsString;

use clap::FromArgMatches as _;
use clap::error::ErrorKind;

use crate::commands;
use crate::help;
use crate::local::LocalCommands;
use cli_args::{Cli, Command};
use config::exit::Exit;
use config::failure::{Failure, Result};
use config::vars::Vars;
use terminal::console::Console;
use terminal::input::{Interrupts, SignalListener};
use terminal::output::Output;

/// Runs the command line and returns the exit code.
pub fn run(words: impl IntoIterator<Item = OsString>, local: &dyn LocalCommands) -> i32 {
    let words: Vec<OsString> = words.into_iter().collect();
    let asked = clap_complete::CompleteEnv::with_factory(help::command).var(commands::COMPLETE_VARIABLE);
    match asked.try_complete(words.iter().cloned(), std::env::current_dir().ok().as_deref()) {
        Ok(true) => return Exit::OK.0,
        Ok(false) => {}
        Err(error) => return explain(&error, false),
    }
    let parse = |words: &[OsString]| {
        help::command().try_get_matches_from(words).and_then(|found| Cli::from_arg_matches(&found))
    };
    let parsed = match parse(&words) {
        Err(error) if is_alone(&error, &words) => {
            // `obey` alone on a terminal opens the UI; elsewhere it prints its help.
            let with_ui: Vec<OsString> = words.iter().cloned().chain(["ui".into()]).collect();
            parse(&with_ui).map_err(|_| error)
        }
        parsed => parsed,
    };
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return explain(&error, words.iter().any(|word| word == "--json")),
    };
    let (interrupts, signals) = Interrupts::of_process();
    let mut console = Console::of_process(cli.global, interrupts);
    let done = match cli.command {
        Command::Serve(args) if !args.detach => local.serve(&console, &args),
        command => run_command(&mut console, command, signals, local),
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
fn run_command(
    console: &mut Console,
    command: Command,
    signals: SignalListener,
    local: &dyn LocalCommands,
) -> Result<Exit> {
    // One worker besides this thread: it handles Ctrl-C even while output blocks on a pipe.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    runtime.spawn(signals.forward());
    let done = runtime.block_on(commands::run(console, command, local));
    // A thread may still wait for standard input; it ends with the process.
    runtime.shutdown_background();
    done
}

/// Whether no command was given, on a terminal and by a person.
fn is_alone(error: &clap::Error, words: &[OsString]) -> bool {
    use std::io::IsTerminal as _;
    let missing = [ErrorKind::MissingSubcommand, ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand];
    missing.contains(&error.kind())
        && !words.iter().any(|word| word == "--json")
        && std::io::stdin().is_terminal()
        && std::io::stdout().is_terminal()
}

/// Prints help, the version, or the error in the command line.
fn explain(error: &clap::Error, json: bool) -> i32 {
    let wanted = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if json && !wanted {
        let message = error.render().to_string();
        let message = message.trim().trim_start_matches("error: ");
        let global = cli_args::Global { json: true, ..Default::default() };
        Output::of_process(&global, &Vars::of_process()).failure(&Failure::usage(message));
        return Exit::USAGE.0;
    }
    // If the stream is closed, there is no place left to report that.
    let _closed = error.print();
    if wanted { Exit::OK.0 } else { Exit::USAGE.0 }
}
