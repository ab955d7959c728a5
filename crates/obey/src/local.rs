//! Joins the command line to the daemon's own code: the commands that need both.

use std::path::Path;

use cli::local::{LocalCommands, RunningCommand, ServeLaunch};
use cli_args::ServeArgs;
use cli_args::acp::AcpArgs;
use cli_args::doctor::DoctorArgs;
use cli_args::relay::RelayCommand;
use config::exit::Exit;
use config::failure::Result;
use terminal::console::Console;

use crate::{acp, audit_file, doctor, memory_setup, relay_commands, serve};

/// This program, which has the daemon's code.
pub(crate) struct Local;

impl LocalCommands for Local {
    fn serve(&self, console: &Console, args: &ServeArgs) -> Result<Exit> {
        serve::run(console, args)
    }

    fn serve_launch(&self, console: &Console, args: &ServeArgs) -> Result<ServeLaunch> {
        let options = serve::options(args, console.global.socket.as_deref(), &console.vars, &console.paths)?;
        Ok(ServeLaunch { socket: options.socket, flags: options.flags })
    }

    fn acp<'a>(&'a self, console: &'a mut Console, args: &'a AcpArgs) -> RunningCommand<'a> {
        Box::pin(acp::run(console, args))
    }

    fn check_config(&self, config: &config::file::Config) -> Result<()> {
        daemon::check(config)
    }

    fn access_rows(&self) -> Vec<Vec<(&'static str, String)>> {
        surface::access::rows().map(|row| surface::access::cells(row).into_iter().collect()).collect()
    }

    fn verify_audit_file(&self, console: &mut Console, file: &Path, key: Option<&str>) -> Result<Exit> {
        audit_file::verify(console, file, key)
    }

    fn relay<'a>(&'a self, console: &'a mut Console, command: RelayCommand) -> RunningCommand<'a> {
        Box::pin(relay_commands::run(console, command))
    }

    fn remove_machine(&self, console: &Console, machine: &str) -> Result<Option<String>> {
        relay_commands::remove_machine(console, machine)
    }

    fn memory_setup<'a>(&'a self, console: &'a mut Console, from: Option<String>) -> RunningCommand<'a> {
        Box::pin(memory_setup::run(console, from))
    }

    fn doctor<'a>(&'a self, console: &'a mut Console, args: &'a DoctorArgs) -> RunningCommand<'a> {
        Box::pin(doctor::run(console, args))
    }
}
