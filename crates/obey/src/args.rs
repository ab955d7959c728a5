//! The command line: commands, arguments and their help texts. Knows nothing about what a command does.

pub(crate) mod acp;
pub(crate) mod grants;
pub(crate) mod mcp;
pub(crate) mod session;
pub(crate) mod values;
pub(crate) mod workbench;
pub(crate) mod worktree;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Runs your coding agents in a daemon and records everything they do.
#[derive(Debug, Parser)]
#[command(name = "obey", version, after_help = crate::exit::help(), arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command takes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Global {
    /// The daemon's socket [env: OBEY_SOCKET] [default: $XDG_RUNTIME_DIR/obey/daemon.sock]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Print JSON: one document, or one object per line for streams; errors are JSON too, on standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Fail if the daemon does not run, instead of starting it
    #[arg(long, global = true)]
    pub(crate) no_autostart: bool,
    /// Whether to use colours; NO_COLOR is respected
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: ColorWhen,
    /// Print results only
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the daemon
    Serve(ServeArgs),
    /// Stop the daemon; agents keep running unless --sessions is given
    Stop(StopArgs),
    /// Replace the running daemon with this program; agents keep running, clients reconnect
    Upgrade(UpgradeArgs),
    /// Manage the daemon as a service of systemd or launchd
    #[command(subcommand)]
    Service(ServiceCommand),
    /// Check that the daemon answers
    Ping,
    /// Show the daemon, its campaigns, its sessions and the requests that wait for an answer
    Status,
    /// Manage registered project folders (campaigns)
    #[command(subcommand)]
    Campaign(CampaignCommand),
    /// List the registered project folders
    Campaigns,
    /// Manage named folders for sessions of programs (roz.v1)
    #[command(subcommand, visible_alias = "env")]
    Environment(EnvironmentCommand),
    /// Devices on other machines that may call this daemon over TLS
    #[command(subcommand, visible_alias = "devices")]
    Device(DeviceCommand),
    /// Agents at work: create, talk, watch, answer, stop
    #[command(subcommand, visible_alias = "sessions")]
    Session(session::SessionCommand),
    /// Serve the daemon's sessions to an editor over the Agent Client Protocol
    Acp(acp::AcpArgs),
    /// Manage working trees of a git repository, so that agents can work side by side
    #[command(subcommand, visible_alias = "worktrees")]
    Worktree(worktree::WorktreeCommand),
    /// List the agents that can run on this machine, and test them
    #[command(subcommand)]
    Agents(AgentsCommand),
    /// Manage what agents may do without asking, and what they may never do
    #[command(subcommand)]
    Grants(grants::GrantsCommand),
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
    Doctor,
    /// Remove data that is older than the retention settings (also done at every start)
    Gc,
    /// Serve the workbench over MCP, and add it to agents and editors (mcp install)
    Mcp(mcp::McpArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the version of the command and of the daemon
    Version,
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServeArgs {
    /// An address to serve on besides the configured ones; repeat for more; tls://ADDR for other machines; `none`: only
    /// those given here, or the socket alone [env: OBEY_LISTEN] [default: 127.0.0.1:50051]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<String>,
    /// The certificate, with its chain, of addresses that other machines can reach [env: OBEY_TLS_CERT]
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key, in a file that nobody else can read [env: OBEY_TLS_KEY]
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Stay in the foreground (the default)
    #[arg(long, conflicts_with = "detach")]
    pub(crate) foreground: bool,
    /// Start in the background and return once the daemon is ready
    #[arg(long)]
    pub(crate) detach: bool,
    /// Log level: error, warn, info, debug, trace, or a filter such as info,runtime=debug [env: OBEY_LOG]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,
    /// The configuration file [env: OBEY_CONFIG] [default: $XDG_CONFIG_HOME/obey/config.toml]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The folder for the database and all other data [env: OBEY_DATA_DIR] [default: $XDG_DATA_HOME/obey]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// A setting of conversations, such as permissions.connected_timeout_secs=300; repeat for more
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) betcode: Vec<String>,
    /// Set by --detach and by automatic starts: standard output is a pipe that ends with the readiness line.
    #[arg(long, hide = true)]
    pub(crate) background: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// Stop every session's agent too
    #[arg(long)]
    pub(crate) sessions: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpgradeArgs {
    /// The program to run instead [default: this one]
    #[arg(long, value_name = "PATH")]
    pub(crate) binary: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Write the service's files, so that it starts with every login
    Install(InstallArgs),
    /// Remove what install wrote; agents keep running
    Uninstall(ServiceArgs),
    /// Show the service's files, whether it is enabled, and whether it runs
    Status(ServiceArgs),
}

#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
    /// Also start it now; it replaces a running daemon
    #[arg(long)]
    pub(crate) now: bool,
    /// Keep it running while you are not logged in (loginctl enable-linger)
    #[arg(long)]
    pub(crate) enable_linger: bool,
    /// Print the files and write nothing
    #[arg(long)]
    pub(crate) print: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ServiceArgs {
    /// The service manager [default: that of this system]
    #[arg(long = "for", value_enum, value_name = "MANAGER")]
    pub(crate) manager: Option<ServiceManager>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServiceManager {
    Systemd,
    Launchd,
}

impl ServiceManager {
    pub(crate) fn name(self) -> &'static str {
        match self {
            ServiceManager::Systemd => "systemd",
            ServiceManager::Launchd => "launchd",
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum CampaignCommand {
    /// Register a project folder
    Add(CampaignAddArgs),
    /// List the registered project folders
    #[command(visible_alias = "ls")]
    List,
    /// Unregister a project folder; nothing in it is changed
    #[command(visible_alias = "rm")]
    Remove {
        /// Id or name
        #[arg(value_name = "ID|NAME")]
        campaign: String,
    },
    /// Change a setting, for sessions created from now on
    Set {
        /// Id or name
        #[arg(value_name = "ID|NAME")]
        campaign: String,
        /// Take secrets out of its sessions' events
        #[arg(long, value_name = "on|off", value_parser = on_or_off, action = clap::ArgAction::Set, required = true)]
        scrub: bool,
    },
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(format!("{other:?} is neither on nor off")),
    }
}

#[derive(Debug, Args)]
pub(crate) struct CampaignAddArgs {
    /// The project's folder
    pub(crate) path: PathBuf,
    /// Its name [default: the folder's name]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// A description
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// Take secrets out of its sessions' events [default: as scrub.events says]
    #[arg(long, value_name = "on|off", value_parser = on_or_off)]
    pub(crate) scrub: Option<bool>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EnvironmentCommand {
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

#[derive(Debug, Subcommand)]
pub(crate) enum DeviceCommand {
    /// Make a device known and print its token, which is not shown again
    Add(DeviceAddArgs),
    /// List the devices
    #[command(visible_alias = "ls")]
    List,
    /// Forget a device: its next call is refused, and its connections end
    #[command(visible_alias = "rm")]
    Revoke {
        /// Its name or id
        device: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DeviceAddArgs {
    /// Its name: letters, digits, `.`, `_` and `-`
    pub(crate) name: String,
    /// What it may do: viewer reads, operator acts too, owner does what you may
    #[arg(long, value_parser = ["viewer", "operator", "owner"])]
    pub(crate) role: String,
    /// It ends after this long, such as 90d
    #[arg(long, value_parser = values::duration, value_name = "DURATION")]
    pub(crate) expires: Option<Duration>,
    /// Write a certificate and its key into this folder instead of printing a token
    #[arg(long, value_name = "DIR")]
    pub(crate) certificate: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct EnvironmentCreateArgs {
    /// Its name
    pub(crate) name: String,
    /// The folder in which its sessions run
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The provider of its sessions [default: sessions.default_provider of the daemon]
    #[arg(long, short, value_parser = values::provider)]
    pub(crate) provider: Option<domain::ProviderKind>,
    /// The model of sessions that name none
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// How much agents may do without asking: supervised, acceptEdits, plan or autonomous
    #[arg(long)]
    pub(crate) mode: Option<String>,
    /// Deny a permission request that is not answered within this time, such as 90s or 10m
    #[arg(long, value_parser = values::duration, value_name = "DURATION")]
    pub(crate) answer_wait: Option<Duration>,
    /// Settings for the provider, as a JSON object
    #[arg(long, value_parser = values::config, value_name = "JSON")]
    pub(crate) config: Option<std::collections::HashMap<String, String>>,
}

#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// Id or name of the campaign [default: the one the current folder belongs to]
    #[arg(long, short, value_name = "ID|NAME")]
    pub(crate) campaign: Option<String>,
    /// Kill the command after this time, such as 90s, 10m or 1h30m
    #[arg(long, value_parser = values::duration, value_name = "DURATION")]
    pub(crate) timeout: Option<Duration>,
    /// The folder to run in, below the campaign's root
    #[arg(long, value_name = "DIR")]
    pub(crate) workdir: Option<String>,
    /// An environment variable for the command; repeat for more
    #[arg(long = "env", value_parser = values::assignment, value_name = "K=V")]
    pub(crate) environment: Vec<(String, String)>,
    /// Run any command, in the workbench's sandbox; secrets are removed from its output
    #[arg(long)]
    pub(crate) sandbox: bool,
    /// With --sandbox: the session to run in, by id or name; also a session of the workbench
    #[arg(long, value_name = "SESSION", requires = "sandbox", conflicts_with = "campaign")]
    pub(crate) session: Option<String>,
    /// Accepted for older scripts; output always streams.
    #[arg(long, hide = true)]
    pub(crate) follow: bool,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Use this provider [default: claude-code if it is installed and logged in, else scripted]
    #[arg(long, value_parser = values::provider)]
    pub(crate) provider: Option<domain::ProviderKind>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentsCommand {
    /// List every agent with its version, whether it is installed, and what it can do
    List,
    /// Start an agent, send it one prompt and stop it
    Test(AgentTestArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AgentTestArgs {
    /// The agent, as `obey agents list` names it
    pub(crate) name: String,
    /// The model [default: the agent's own]
    #[arg(long, short)]
    pub(crate) model: Option<String>,
    /// Settings for the provider, as a JSON object
    #[arg(long, value_parser = values::config, value_name = "JSON")]
    pub(crate) config: Option<std::collections::HashMap<String, String>>,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
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
