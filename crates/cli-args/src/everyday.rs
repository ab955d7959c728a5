//! The command lines of the short words: run, stop, explain, config, man.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use domain::{AgentNetwork, Mode};

use super::values;

#[derive(Debug, Default, Args)]
pub struct RunArgs {
    /// What the agent is to do; `-`: read it from standard input [default: the agent waits for you]
    #[arg(value_name = "PROMPT")]
    pub prompt: Option<String>,
    /// Work in a tree and on a branch of its own; an existing tree is used again [default name: made from the prompt]
    #[arg(long, short, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    pub worktree: Option<String>,
    /// The agent: a provider, or an ACP agent such as gemini [default: sessions.default_provider, else one that is
    /// installed]
    #[arg(long, short, value_name = "AGENT")]
    pub provider: Option<String>,
    /// The model [default: the agent's own]
    #[arg(long, short, value_name = "MODEL")]
    pub model: Option<String>,
    /// How much the agent may do without asking: supervised, autonomous, plan or acceptEdits
    #[arg(long, value_parser = values::mode)]
    pub mode: Option<Mode>,
    /// A name for the session [default: the first words of the prompt]
    #[arg(long, short)]
    pub name: Option<String>,
    /// Money that the session may spend, in US dollars; `obey session budget` changes it
    #[arg(long, value_name = "USD", value_parser = values::dollars, allow_negative_numbers = true)]
    pub budget: Option<f64>,
    /// Start the agent in the sandbox: it sees only its project and its own configuration
    #[arg(long)]
    pub sandbox: bool,
    /// What the sandboxed agent can reach: full, model (its model's endpoint only) or none [default: full]
    #[arg(long, requires = "sandbox", value_parser = values::network, value_name = "NETWORK")]
    pub network: Option<AgentNetwork>,
    /// An image or another file to send with the prompt; repeat for more
    #[arg(long, value_name = "FILE", requires = "prompt")]
    pub image: Vec<PathBuf>,
    /// Return when the agent has the prompt, instead of following it
    #[arg(long, short)]
    pub detach: bool,
    /// Register the folder as a campaign without asking
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Debug, Default, Args)]
pub struct StopArgs {
    /// The sessions to stop: id, an end of an id, or name [default: the daemon itself]
    #[arg(value_name = "SESSION")]
    pub names: Vec<String>,
    /// Stop the daemon and every session's agent
    #[arg(long, conflicts_with = "names")]
    pub sessions: bool,
    /// Do not wait for the running turns of these sessions
    #[arg(long, short, requires = "names")]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The code of an error, such as OBEY-2001 or 2001 [default: list all]
    #[arg(value_name = "CODE")]
    pub code: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print every setting, its value and where that comes from
    Show,
    /// Open the configuration file in $VISUAL or $EDITOR, and check it before it is kept
    Edit,
    /// Check the configuration file and the OBEY_… variables
    Check {
        /// The file [default: the one that the daemon uses]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// The command, such as `session create` [default: obey itself]
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
    /// Write the pages of all commands into this folder instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub dir: Option<PathBuf>,
}
