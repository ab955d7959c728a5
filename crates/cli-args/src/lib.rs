//! The command line: commands, arguments and their help texts. Knows nothing about what a command does.

pub mod acp;
pub mod budget;
pub mod campaign;
pub mod changes;
pub mod conformance;
pub mod device;
pub mod doctor;
pub mod everyday;
pub mod forge;
pub mod grants;
pub mod key;
pub mod machine;
pub mod mcp;
pub mod operations;
pub mod overview;
pub mod plan;
pub mod queue;
pub mod relay;
pub mod schema;
pub mod session;
pub mod ui;
pub mod values;
pub mod web;
pub mod workbench;
pub mod worktree;

use std::path::PathBuf;
use std::time::Duration;

use campaign::CampaignCommand;
pub use device::{DeviceAddArgs, DeviceCommand};

use clap::{Args, Parser, Subcommand, ValueEnum};

/// The heading of the flags that every command takes.
pub const EVERY_COMMAND: &str = "Options of every command";

/// Runs your coding agents in a daemon and records everything they do.
#[derive(Debug, Parser)]
#[command(name = "obey", version, after_help = config::exit::help(), arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that every command takes.
#[derive(Clone, Debug, Default, Args)]
pub struct Global {
    /// The daemon's socket [env: OBEY_SOCKET] [default: $XDG_RUNTIME_DIR/obey/daemon.sock]
    #[arg(long, global = true, help_heading = EVERY_COMMAND, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Print JSON: one document, or one object per line for streams; errors are JSON too, on standard error
    #[arg(long, global = true, help_heading = EVERY_COMMAND)]
    pub json: bool,
    /// Fail if the daemon does not run, instead of starting it
    #[arg(long, global = true, help_heading = EVERY_COMMAND)]
    pub no_autostart: bool,
    /// Use the daemon of another machine, sealed, through its relay; `this` is the own one [env: OBEY_MACHINE]
    #[arg(long, global = true, help_heading = EVERY_COMMAND, value_name = "NAME")]
    pub machine: Option<String>,
    /// The relay through which that machine is reached, where there are several
    #[arg(long, global = true, help_heading = EVERY_COMMAND, value_name = "URL", num_args = 0..=1, default_missing_value = "")]
    pub relay: Option<String>,
    /// Whether to use colours; NO_COLOR is respected
    #[arg(long, global = true, help_heading = EVERY_COMMAND, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorWhen,
    /// Print results only
    #[arg(long, short, global = true, help_heading = EVERY_COMMAND)]
    pub quiet: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon
    Serve(ServeArgs),
    /// Start an agent in this folder, send it a prompt and follow it
    Run(everyday::RunArgs),
    /// Open a conversation: see what the agent did, send messages, answer its requests
    Attach(session::AttachArgs),
    /// Send a message to an agent and watch it work on it
    Send(session::SendArgs),
    /// Stop sessions, or without a name the daemon; its agents keep running unless --sessions is given
    Stop(everyday::StopArgs),
    /// Replace the running daemon with this program; agents keep running, clients reconnect
    Upgrade(UpgradeArgs),
    /// Manage the daemon as a service of systemd or launchd
    #[command(subcommand)]
    Service(ServiceCommand),
    /// Check that the daemon answers
    Ping,
    /// Show the daemon, its campaigns, its sessions and the requests that wait for an answer
    Status,
    /// Manage campaigns: the project folders in which agents may work
    #[command(subcommand)]
    Campaign(CampaignCommand),
    /// List the campaigns
    Campaigns,
    /// Show the budgets that sessions share, or change what all of them may spend in one day
    Budget(budget::DayBudgetArgs),
    /// Manage named folders for sessions of programs (roz.v1)
    #[command(subcommand, visible_alias = "env")]
    Environment(EnvironmentCommand),
    /// Devices on other machines that may call this daemon over TLS
    #[command(subcommand, visible_alias = "devices")]
    Device(DeviceCommand),
    /// Keys with which programs call roz.v1, each with its scopes
    #[command(subcommand, visible_alias = "keys")]
    Key(key::KeyCommand),
    /// Open the page on which all sessions are shown, in the browser
    Web(web::WebArgs),
    /// Open the terminal UI: who needs you, conversations, requests; `obey` alone does the same
    Ui(ui::UiArgs),
    /// Machines that are reached through a relay, and the relay of this one
    #[command(subcommand, visible_alias = "machines")]
    Machine(machine::MachineCommand),
    /// Make another machine's daemon reachable here, sealed, for clients that know no relay
    Connect(machine::ConnectArgs),
    /// Run a relay, through which machines and clients find each other
    #[command(subcommand)]
    Relay(relay::RelayCommand),
    /// Agents at work: create, talk, watch, answer, stop
    #[command(subcommand, visible_alias = "sessions")]
    Session(session::SessionCommand),
    /// List sessions by need: who waits for you, who failed and why, who works, who is done
    Ps(overview::PsArgs),
    /// Print what happened in a session, or follow it
    Logs(session::LogArgs),
    /// Wait until sessions have finished their turns
    Wait(session::WaitArgs),
    /// Find prompts, answers, commands and outputs in all sessions
    Search(overview::SearchArgs),
    /// Show tokens and money by time, campaign, provider, model or session
    Usage(overview::UsageArgs),
    /// Write a session as Markdown or JSON
    Export(overview::ExportArgs),
    #[command(flatten)]
    Operation(operations::OperationCommand),
    /// Serve the daemon's sessions to an editor over the Agent Client Protocol
    Acp(acp::AcpArgs),
    /// Manage working trees of a git repository, so that agents can work side by side
    #[command(subcommand, visible_alias = "worktrees")]
    Worktree(worktree::WorktreeCommand),
    /// Show what changed in the working tree of a session or of the current folder
    Diff(changes::DiffArgs),
    /// Merge a working tree into the branch it was made from; on a conflict nothing is changed
    Merge(changes::MergeArgs),
    #[command(flatten)]
    Forge(forge::ForgeCommand),
    /// List conversations that Claude Code and Codex had without obey, or make a session of one
    Import(changes::ImportArgs),
    /// List the agents that can run on this machine, and test them
    #[command(subcommand)]
    Agents(AgentsCommand),
    /// Manage what agents may do without asking, and what they may never do; without a subcommand lists it
    Grants(grants::GrantsArgs),
    /// Run an allowed command in a campaign's folder, or any command in the sandbox
    Exec(ExecArgs),
    /// Search, store and rate memories of what was learnt
    #[command(subcommand)]
    Memory(workbench::MemoryCommand),
    /// Save where a session stands, and show what is needed to continue
    #[command(subcommand)]
    Checkpoint(workbench::CheckpointCommand),
    /// Search and record errors and their solutions
    #[command(subcommand)]
    Remediation(workbench::RemediationCommand),
    /// Show and check the policies: what must not be done, and why
    #[command(subcommand)]
    Policy(workbench::PolicyCommand),
    /// Manage skills: instructions for recurring work
    #[command(subcommand)]
    Skill(workbench::SkillCommand),
    /// Manage named agents with a system prompt, for `obey session create --agent NAME`
    #[command(subcommand)]
    Agent(workbench::AgentCommand),
    /// Show, verify and export the audit: what was done and refused, and by whom
    #[command(subcommand)]
    Audit(workbench::AuditCommand),
    /// Print who may call each method, route and tool
    Access,
    /// Show what this program does, with one turn of an agent
    Demo(DemoArgs),
    /// Find problems and say how to repair them
    Doctor(doctor::DoctorArgs),
    /// Print the JSON schema of what a command prints with --json, or of the configuration
    Schema(schema::SchemaArgs),
    /// Check a running daemon against the published interfaces, clause by clause
    Conformance(conformance::ConformanceArgs),
    /// Remove data that is older than the retention settings (also done at every start)
    Gc,
    /// Serve the workbench over MCP, and add it to agents and editors (mcp install)
    Mcp(mcp::McpArgs),
    /// Show what an error means and what to do about it
    Explain(everyday::ExplainArgs),
    /// Show, edit and check the configuration
    #[command(subcommand)]
    Config(everyday::ConfigCommand),
    /// Print a manual page
    Man(everyday::ManArgs),
    /// Print a completion script for a shell; it completes names of sessions, campaigns, agents and models too
    Completions(CompletionsArgs),
    /// Print the version of the command and of the daemon
    Version,
}

#[derive(Clone, Debug, Default, Args)]
pub struct ServeArgs {
    /// An address to serve on besides the configured ones; repeat for more; tls://ADDR for other machines; `none`: only
    /// those given here, or the socket alone [env: OBEY_LISTEN] [default: 127.0.0.1:50051]
    #[arg(long, value_name = "ADDR")]
    pub listen: Vec<String>,
    /// The certificate, with its chain, of addresses that other machines can reach [env: OBEY_TLS_CERT]
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Its key, in a file that nobody else can read [env: OBEY_TLS_KEY]
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Stay in the foreground (the default)
    #[arg(long, conflicts_with = "detach")]
    pub foreground: bool,
    /// Start in the background and return once the daemon is ready
    #[arg(long)]
    pub detach: bool,
    /// Log level: error, warn, info, debug, trace, or a filter such as info,runtime=debug [env: OBEY_LOG]
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// The configuration file [env: OBEY_CONFIG] [default: $XDG_CONFIG_HOME/obey/config.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The folder for the database and all other data [env: OBEY_DATA_DIR] [default: $XDG_DATA_HOME/obey]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// A setting of conversations, such as permissions.connected_timeout_secs=300; repeat for more
    #[arg(long, value_name = "KEY=VALUE")]
    pub betcode: Vec<String>,
    /// Set by --detach and by automatic starts: standard output is a pipe that ends with the readiness line.
    #[arg(long, hide = true)]
    pub background: bool,
}

#[derive(Debug, Args)]
pub struct UpgradeArgs {
    /// The program to run instead [default: this one]
    #[arg(long, value_name = "PATH")]
    pub binary: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum ServiceCommand {
    /// Write the service's files, so that it starts with every login
    Install(InstallArgs),
    /// Remove what install wrote; agents keep running
    Uninstall(ServiceArgs),
    /// Show the service's files, whether it is enabled, and whether it runs
    Status(ServiceArgs),
}

#[derive(Debug, Args)]
pub struct InstallArgs {
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Also start it now; it replaces a running daemon
    #[arg(long)]
    pub now: bool,
    /// Keep it running while you are not logged in (loginctl enable-linger)
    #[arg(long)]
    pub enable_linger: bool,
    /// Print the files and write nothing
    #[arg(long)]
    pub print: bool,
}

#[derive(Debug, Args)]
pub struct ServiceArgs {
    /// The service manager [default: that of this system]
    #[arg(long = "for", value_enum, value_name = "MANAGER")]
    pub manager: Option<ServiceManager>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ServiceManager {
    Systemd,
    Launchd,
}

impl ServiceManager {
    pub fn name(self) -> &'static str {
        match self {
            ServiceManager::Systemd => "systemd",
            ServiceManager::Launchd => "launchd",
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum EnvironmentCommand {
    /// Create an environment and print its id
    Create(EnvironmentCreateArgs),
    /// List the environments
    #[command(visible_alias = "ls")]
    List,
    /// Remove an environment; nothing in its folder is changed
    #[command(visible_alias = "rm")]
    Remove {
        /// Id or name
        #[arg(value_name = "ID|NAME")]
        environment: String,
    },
}

#[derive(Debug, Args)]
pub struct EnvironmentCreateArgs {
    /// Its name
    pub name: String,
    /// The folder in which its sessions run
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// The provider of its sessions [default: sessions.default_provider of the daemon]
    #[arg(long, short, value_parser = values::provider)]
    pub provider: Option<domain::ProviderKind>,
    /// The model of sessions that name none
    #[arg(long)]
    pub model: Option<String>,
    /// How much agents may do without asking: supervised, acceptEdits, plan or autonomous
    #[arg(long)]
    pub mode: Option<String>,
    /// Deny a permission request that is not answered within this time, such as 90s or 10m
    #[arg(long, value_parser = values::duration, value_name = "DURATION")]
    pub answer_wait: Option<Duration>,
    /// Settings for the provider, as a JSON object
    #[arg(long, value_parser = values::config, value_name = "JSON")]
    pub config: Option<std::collections::HashMap<String, String>>,
}

#[derive(Debug, Args)]
pub struct ExecArgs {
    /// Id or name of the campaign [default: the one the current folder belongs to]
    #[arg(long, short, value_name = "ID|NAME")]
    pub campaign: Option<String>,
    /// Kill the command after this time, such as 90s, 10m or 1h30m
    #[arg(long, value_parser = values::duration, value_name = "DURATION")]
    pub timeout: Option<Duration>,
    /// The folder to run in, below the campaign's root
    #[arg(long, value_name = "DIR")]
    pub workdir: Option<String>,
    /// An environment variable for the command; repeat for more
    #[arg(long = "env", value_parser = values::assignment, value_name = "K=V")]
    pub environment: Vec<(String, String)>,
    /// Run any command, in the workbench's sandbox; secrets are removed from its output
    #[arg(long)]
    pub sandbox: bool,
    /// With --sandbox: the session to run in, by id or name; also a session of the workbench
    #[arg(long, value_name = "SESSION", requires = "sandbox", conflicts_with = "campaign")]
    pub session: Option<String>,
    /// Accepted for older scripts; output always streams.
    #[arg(long, hide = true)]
    pub follow: bool,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Use this provider [default: claude-code if it is installed and logged in, else scripted]
    #[arg(long, value_parser = values::provider)]
    pub provider: Option<domain::ProviderKind>,
}

#[derive(Debug, Subcommand)]
pub enum AgentsCommand {
    /// List every agent with its version, whether it is installed, and what it can do
    List,
    /// Start an agent, send it one prompt and stop it
    Test(AgentTestArgs),
}

#[derive(Debug, Args)]
pub struct AgentTestArgs {
    /// The agent, as `obey agents list` names it
    pub name: String,
    /// The model [default: the agent's own]
    #[arg(long, short)]
    pub model: Option<String>,
    /// Settings for the provider, as a JSON object
    #[arg(long, value_parser = values::config, value_name = "JSON")]
    pub config: Option<std::collections::HashMap<String, String>>,
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn run_takes_the_sandbox_and_its_network() {
        let parsed =
            Cli::try_parse_from(["obey", "run", "--sandbox", "--network", "none", "fix it"]).unwrap();
        let Command::Run(args) = parsed.command else { panic!("not run") };
        assert!(args.sandbox && args.network == Some(domain::containment::AgentNetwork::None));
        assert!(Cli::try_parse_from(["obey", "run", "--network", "none", "x"]).is_err(), "of nothing");
    }

    #[test]
    fn the_manual_names_every_command() {
        let page = include_str!("../../../docs/cli.md");
        let root = Cli::command();
        let mut missing = Vec::new();
        for command in root.get_subcommands() {
            let mut names: Vec<String> = command
                .get_subcommands()
                .map(|sub| format!("obey {} {}", command.get_name(), sub.get_name()))
                .collect();
            if names.is_empty() {
                names.push(format!("obey {}", command.get_name()));
            }
            missing.extend(names.into_iter().filter(|name| !page.contains(name.as_str())));
        }
        assert!(missing.is_empty(), "docs/cli.md lacks {missing:?}");
    }

    #[test]
    fn the_manual_names_every_flag() {
        fn walk(command: &clap::Command, page: &str, missing: &mut Vec<String>) {
            let flags =
                command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(|arg| arg.get_long());
            for flag in flags.filter(|flag| !["help", "version"].contains(flag)) {
                if !page.contains(&format!("--{flag}")) {
                    missing.push(format!("{} --{flag}", command.get_name()));
                }
            }
            command.get_subcommands().for_each(|sub| walk(sub, page, missing));
        }
        let mut missing = Vec::new();
        walk(&Cli::command(), include_str!("../../../docs/cli.md"), &mut missing);
        assert!(missing.is_empty(), "docs/cli.md lacks {missing:?}");
    }

    #[test]
    fn global_flags_are_taken_anywhere() {
        let cli = Cli::try_parse_from(["obey", "session", "list", "--json", "--socket", "/s"]).unwrap();
        assert!(cli.global.json);
        assert_eq!(cli.global.socket.unwrap(), PathBuf::from("/s"));
    }

    #[test]
    fn a_command_to_run_stands_after_two_dashes() {
        let cli = Cli::try_parse_from(["obey", "exec", "-c", "x", "--", "git", "log", "--oneline"]).unwrap();
        let Command::Exec(args) = cli.command else { panic!("not exec") };
        assert_eq!(args.command, ["git", "log", "--oneline"]);
        assert!(Cli::try_parse_from(["obey", "exec", "-c", "x"]).is_err());
    }
}
