//! Dispatches a parsed command line. Each command has its own file.

mod access;
mod acp;
mod agents;
mod campaign;
mod daemon;
mod demo;
mod device;
mod doctor;
mod environment;
mod exec;
mod grants;
mod mcp;
mod service;
mod session;
mod upgrade;
mod workbench;
mod worktree;

pub(crate) use acp::forward_notification;

use crate::args::{AgentsCommand, CampaignCommand, Command, DeviceCommand, EnvironmentCommand};
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Result;

/// Runs a command that talks to the daemon. `serve` is not among them: it becomes the daemon.
pub(crate) async fn run(console: &mut Console, command: Command) -> Result<Exit> {
    match command {
        Command::Serve(args) => daemon::detach(console, &args).await,
        Command::Stop(args) => daemon::stop(console, &args).await,
        Command::Upgrade(args) => upgrade::run(console, &args).await,
        Command::Service(command) => service::run(console, command).await,
        Command::Ping => daemon::ping(console).await,
        Command::Status => daemon::status(console).await,
        Command::Campaign(CampaignCommand::Add(args)) => campaign::add(console, &args).await,
        Command::Campaign(CampaignCommand::List) | Command::Campaigns => campaign::list(console).await,
        Command::Campaign(CampaignCommand::Remove { campaign }) => campaign::remove(console, &campaign).await,
        Command::Campaign(CampaignCommand::Set { campaign, scrub }) => {
            campaign::set(console, &campaign, scrub).await
        }
        Command::Environment(EnvironmentCommand::Create(args)) => environment::create(console, &args).await,
        Command::Environment(EnvironmentCommand::List) => environment::list(console).await,
        Command::Environment(EnvironmentCommand::Remove { environment }) => {
            environment::remove(console, &environment).await
        }
        Command::Device(DeviceCommand::Add(args)) => device::add(console, args).await,
        Command::Device(DeviceCommand::List) => device::list(console).await,
        Command::Device(DeviceCommand::Revoke { device }) => device::revoke(console, &device).await,
        Command::Mcp(args) => mcp::run(console, &args).await,
        Command::Session(command) => session::run(console, command).await,
        Command::Acp(args) => acp::run(console, &args).await,
        Command::Worktree(command) => worktree::run(console, command).await,
        Command::Agents(AgentsCommand::List) => agents::list(console),
        Command::Agents(AgentsCommand::Test(args)) => agents::test(console, &args).await,
        Command::Grants(command) => grants::run(console, command).await,
        Command::Exec(args) if args.sandbox => workbench::exec(console, args).await,
        Command::Exec(args) => exec::run(console, args).await,
        Command::Memory(command) => workbench::memories(console, command).await,
        Command::Checkpoint(command) => workbench::checkpoints(console, command).await,
        Command::Remediation(command) => workbench::remediations(console, command).await,
        Command::Policy(command) => workbench::policies(console, command).await,
        Command::Skill(command) => workbench::skills(console, command).await,
        Command::Agent(command) => workbench::agents(console, command).await,
        Command::Audit(command) => workbench::audit(console, command).await,
        Command::Access => access::run(console),
        Command::Demo(args) => demo::run(console, &args).await,
        Command::Doctor => doctor::run(console).await,
        Command::Gc => daemon::collect_garbage(console).await,
        Command::Completions(args) => completions(console, args.shell),
        Command::Version => daemon::version(console).await,
    }
}

fn completions(console: &mut Console, shell: clap_complete::Shell) -> Result<Exit> {
    let mut script = Vec::new();
    let mut command = <crate::args::Cli as clap::CommandFactory>::command();
    clap_complete::generate(shell, &mut command, "obey", &mut script);
    console.out.bytes(&script)?;
    Ok(Exit::OK)
}
