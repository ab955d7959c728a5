//! Dispatches a parsed command line. Each command has its own file.

mod access;
mod agent_choice;
mod agents;
mod budget;
mod campaign;
mod changes;
mod configuration;
mod conformance;
mod connect;
pub mod daemon;
mod demo;
mod device;
mod environment;
mod exec;
mod explain;
mod forge;
mod grants;
mod import;
mod key;
mod machine;
mod man;
mod mcp;
mod overview;
mod plan;
mod queue;
mod run;
mod schema;
mod service;
pub mod session;
mod tree_folder;
mod ui;
mod upgrade;
mod web;
mod workbench;
mod worker;
mod worktree;

use crate::local::LocalCommands;
use cli_args::campaign::CampaignCommand;
use cli_args::machine::MachineCommand;
use cli_args::session::SessionCommand;
use cli_args::{AgentsCommand, Command, DeviceCommand, EnvironmentCommand, Global};
use client::machines::THIS_MACHINE;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;

/// The variable by which a shell asks for completions.
pub(crate) const COMPLETE_VARIABLE: &str = "COMPLETE";

/// Runs a command that talks to the daemon. `serve` is not among them: it becomes the daemon.
pub async fn run(console: &mut Console, command: Command, local: &dyn LocalCommands) -> Result<Exit> {
    check_machine(&console.global, &command)?;
    match command {
        Command::Serve(args) => daemon::detach(console, &args, local).await,
        Command::Run(args) => run::run(console, args).await,
        Command::Attach(args) => session::attach(console, &args).await,
        Command::Send(args) => session::send(console, args).await,
        Command::Stop(args) if args.names.is_empty() => daemon::stop(console, &args).await,
        Command::Stop(args) => session::stop_all(console, &args).await,
        Command::Explain(args) => explain::run(console, &args),
        Command::Config(command) => configuration::run(console, command, local).await,
        Command::Man(args) => man::run(console, &args),
        Command::Upgrade(args) => upgrade::run(console, &args).await,
        Command::Service(command) => service::run(console, command).await,
        Command::Ping => daemon::ping(console).await,
        Command::Status => daemon::status(console).await,
        Command::Campaign(CampaignCommand::Add(args)) => campaign::add(console, &args).await,
        Command::Campaign(CampaignCommand::List) | Command::Campaigns => campaign::list(console).await,
        Command::Campaign(CampaignCommand::Remove { campaign }) => campaign::remove(console, &campaign).await,
        Command::Campaign(CampaignCommand::Set { campaign, settings }) => {
            campaign::set(console, &campaign, &settings).await
        }
        Command::Campaign(CampaignCommand::Budget(args)) => budget::of_campaign(console, &args).await,
        Command::Budget(args) => budget::of_day(console, &args).await,
        Command::Environment(command) => environment_command(console, command).await,
        Command::Device(command) => device_command(console, command).await,
        Command::Key(command) => key::run(console, command).await,
        Command::Machine(command) => machine::run(console, command, local).await,
        Command::Connect(args) => connect::run(console, &args).await,
        Command::Relay(command) => local.relay(console, command).await,
        Command::Web(args) => web::run(console, &args).await,
        Command::Mcp(args) => mcp::run(console, &args).await,
        Command::Ui(args) => ui::run(console, args).await,
        Command::Session(command) => session::run(console, command).await,
        Command::Ps(args) => overview::ps(console, &args).await,
        Command::Logs(args) => session::run(console, SessionCommand::Log(args)).await,
        Command::Wait(args) => overview::wait(console, &args).await,
        Command::Search(args) => overview::search(console, &args).await,
        Command::Usage(args) => overview::usage(console, &args).await,
        Command::Export(args) => overview::export(console, &args).await,
        Command::Operation(command) => session::operations::run(console, command).await,
        Command::Acp(args) => local.acp(console, &args).await,
        Command::Worktree(command) => worktree::run(console, command).await,
        Command::Diff(args) => changes::diff(console, args).await,
        Command::Merge(args) => changes::merge(console, args).await,
        Command::Forge(command) => forge::run(console, command).await,
        Command::Import(args) => import::run(console, args).await,
        Command::Agents(AgentsCommand::List) => agents::list(console).await,
        Command::Agents(AgentsCommand::Test(args)) => agents::test(console, &args).await,
        Command::Grants(args) => grants::run(console, args).await,
        Command::Exec(args) if args.sandbox => workbench::exec(console, args).await,
        Command::Exec(args) => exec::run(console, args).await,
        Command::Memory(command) => workbench::memories(console, command, local).await,
        Command::Checkpoint(command) => workbench::checkpoints(console, command).await,
        Command::Remediation(command) => workbench::remediations(console, command).await,
        Command::Policy(command) => workbench::policies(console, command).await,
        Command::Skill(command) => workbench::skills(console, command).await,
        Command::Agent(command) => workbench::agents(console, command).await,
        Command::Audit(command) => workbench::audit(console, command, local).await,
        Command::Access => access::run(console, local),
        Command::Demo(args) => demo::run(console, &args).await,
        Command::Doctor(args) => local.doctor(console, &args).await,
        Command::Schema(args) => schema::run(console, &args),
        Command::Conformance(args) => conformance::run(console, &args).await,
        Command::Gc => daemon::collect_garbage(console).await,
        Command::Completions(args) => completions(console, args.shell),
        Command::Version => daemon::version(console).await,
    }
}

/// Refuses `--machine` for a command that works on this machine only: it would act here although another machine was named.
/// A machine that was chosen for all commands (`OBEY_MACHINE`, `machine switch`) is no mistake.
fn check_machine(global: &Global, command: &Command) -> Result<()> {
    let Some(machine) = global.machine.as_deref().filter(|name| *name != THIS_MACHINE) else { return Ok(()) };
    let name = match command {
        Command::Serve(_) => "serve",
        Command::Config(_) => "config",
        Command::Upgrade(_) => "upgrade",
        Command::Service(_) => "service",
        Command::Device(_) => "device",
        Command::Key(_) => "key",
        Command::Machine(MachineCommand::Join(_) | MachineCommand::Leave | MachineCommand::Status) => {
            "machine"
        }
        Command::Relay(_) => "relay",
        Command::Doctor(_) => "doctor",
        Command::Conformance(_) => "conformance",
        _ => return Ok(()),
    };
    Err(Failure::usage(format!("--machine: `obey {name}` works on this machine only"))
        .with_hint(format!("run it on {machine} itself; the way to it: obey machine doctor {machine}")))
}

async fn device_command(console: &mut Console, command: DeviceCommand) -> Result<Exit> {
    match command {
        DeviceCommand::Add(args) => device::add(console, args).await,
        DeviceCommand::Join(args) => machine::join_device(console, &args).await,
        DeviceCommand::List => device::list(console).await,
        DeviceCommand::Revoke { device } => device::revoke(console, &device).await,
    }
}

async fn environment_command(console: &mut Console, command: EnvironmentCommand) -> Result<Exit> {
    match command {
        EnvironmentCommand::Create(args) => environment::create(console, &args).await,
        EnvironmentCommand::List => environment::list(console).await,
        EnvironmentCommand::Remove { environment } => environment::remove(console, &environment).await,
    }
}

/// Prints the script that makes a shell ask this program for completions.
fn completions(console: &mut Console, shell: clap_complete::Shell) -> Result<Exit> {
    let shells = clap_complete::env::Shells::builtins();
    let name = shell.to_string();
    let Some(completer) = shells.completer(&name) else {
        return Err(Failure::usage(format!(
            "{name} is not supported; use one of bash, zsh, fish, elvish, powershell"
        )));
    };
    let mut script = Vec::new();
    completer.write_registration(COMPLETE_VARIABLE, "obey", "obey", "obey", &mut script)?;
    console.out.bytes(&script)?;
    Ok(Exit::OK)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use cli_args::Cli;

    use super::*;

    #[test]
    fn a_command_of_this_machine_refuses_another_one() {
        let check = |words: &str| {
            let cli = Cli::try_parse_from(words.split(' ')).unwrap();
            check_machine(&cli.global, &cli.command)
        };
        for words in [
            "obey --machine box device list",
            "obey --machine box key list",
            "obey --machine box doctor",
            "obey --machine box machine leave",
            "obey --machine box config show",
        ] {
            let failure = check(words).unwrap_err();
            assert!(failure.message.contains("works on this machine only"), "{words}: {}", failure.message);
            assert_eq!(failure.exit, Exit::USAGE);
        }
        for words in [
            "obey --machine box ps",
            "obey --machine box stop",
            "obey --machine box machine list",
            "obey --machine this device list",
            "obey device list",
        ] {
            assert!(check(words).is_ok(), "{words}");
        }
    }
}
