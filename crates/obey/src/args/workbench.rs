//! The command line of the workbench: memories, checkpoints, cures, policies, skills, agents, audit.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Where a command of the workbench works.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WorkbenchSessionArgs {
    /// A session, by its id or name, or one of the workbench [default: one for this command alone]
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// The project's folder [default: the campaign of the current folder, else that folder]
    #[arg(long, value_name = "DIR", conflicts_with = "session")]
    pub(crate) project: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MemoryCommand {
    /// Find memories by meaning and by words
    Search {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// What is looked for
        query: String,
        /// project, team, org or all
        #[arg(long, default_value = "project")]
        scope: String,
        /// success, failure or all
        #[arg(long, default_value = "all")]
        outcome: String,
        /// At most so many
        #[arg(long, default_value_t = 10, value_name = "N")]
        limit: i32,
        /// Leave out memories with less confidence
        #[arg(long, default_value_t = 0.7, value_name = "0..1")]
        min_confidence: f32,
    },
    /// Keep something that was learnt
    Store {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// What it is about, in a few words
        title: String,
        /// What to know or do
        content: String,
        /// When it matters
        #[arg(long, default_value = "", value_name = "TEXT")]
        description: String,
        /// success, failure, mixed or neutral
        #[arg(long, default_value = "neutral")]
        outcome: String,
        /// A word to find it by; repeat for more
        #[arg(long = "tag", value_name = "WORD")]
        tags: Vec<String>,
    },
    /// Show a memory
    Get {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        id: String,
    },
    /// Say whether a memory helped
    Feedback {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        id: String,
        /// It helped
        #[arg(long, conflicts_with = "unhelpful", required_unless_present = "unhelpful")]
        helpful: bool,
        /// It did not
        #[arg(long)]
        unhelpful: bool,
        /// Why; `outdated` takes it out of searches
        #[arg(long, default_value = "", value_name = "TEXT")]
        comment: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointCommand {
    /// Keep where a session stands
    Save {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// What was done and what is next
        summary: String,
        /// A word to tell it by; repeat for more
        #[arg(long = "tag", value_name = "WORD")]
        tags: Vec<String>,
    },
    /// List the project's checkpoints, newest first
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// At most so many
        #[arg(long, default_value_t = 10, value_name = "N")]
        limit: i32,
    },
    /// Show what to know to go on
    Resume {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        id: String,
        /// summary, context or full
        #[arg(long, default_value = "context")]
        level: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum RemediationCommand {
    /// Find cures for an error
    Search {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// The error as it was printed
        error: String,
        /// What was being done
        #[arg(long, default_value = "", value_name = "TEXT")]
        context: String,
        /// At most so many
        #[arg(long, default_value_t = 5, value_name = "N")]
        limit: i32,
    },
    /// Record an error and its cure
    Record {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// What it is about, in a few words
        title: String,
        /// The error as it was printed
        #[arg(long, value_name = "TEXT")]
        problem: String,
        /// What cured it
        #[arg(long, value_name = "TEXT")]
        solution: String,
        /// Why it happened
        #[arg(long, default_value = "", value_name = "TEXT")]
        root_cause: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Say whether a command, `read PATH` or `write PATH` keeps the policies
    Check {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        action: String,
        /// What belongs to it, such as a file's content
        #[arg(long, default_value = "", value_name = "TEXT")]
        context: String,
    },
    /// List the policies that hold
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// project, team (yours) or org (built in)
        #[arg(long, default_value = "")]
        scope: String,
        /// security, coding or repo
        #[arg(long, default_value = "")]
        category: String,
    },
    /// Show a policy
    Get {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SkillCommand {
    /// List skills
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// project, team or org
        #[arg(long, default_value = "")]
        scope: String,
    },
    /// Show a skill
    Get {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// Id or name
        id: String,
    },
    /// Write down a skill
    Create {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        name: String,
        #[command(flatten)]
        text: SkillText,
        /// project, team or org
        #[arg(long, default_value = "project")]
        scope: String,
    },
    /// Change a skill; what is left out stays
    Update {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// Id or name
        id: String,
        /// A new name
        #[arg(long, default_value = "")]
        name: String,
        #[command(flatten)]
        text: SkillText,
    },
    /// Forget a skill
    #[command(visible_alias = "rm")]
    Delete {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// Id or name
        id: String,
    },
}

#[derive(Debug, Default, Args)]
pub(crate) struct SkillText {
    /// What it is good for
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub(crate) description: String,
    /// When to use it
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub(crate) trigger: String,
    /// What to do; repeat for more
    #[arg(long = "step", value_name = "TEXT")]
    pub(crate) steps: Vec<String>,
    /// A prompt to start from
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub(crate) prompt: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// List agents
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// project, team or org
        #[arg(long, default_value = "")]
        scope: String,
    },
    /// Show an agent
    Get {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// Id or name
        id: String,
    },
    /// Write down an agent, for `obey session create --agent NAME`
    Create {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        name: String,
        /// What it is told before everything else
        #[arg(long, value_name = "TEXT")]
        system_prompt: String,
        /// What it is good for
        #[arg(long, default_value = "", value_name = "TEXT")]
        description: String,
        /// A skill it has; repeat for more
        #[arg(long = "skill", value_name = "NAME")]
        skills: Vec<String>,
        /// The model it prefers
        #[arg(long, default_value = "")]
        model: String,
        /// project, team or org
        #[arg(long, default_value = "project")]
        scope: String,
    },
    /// Forget an agent
    #[command(visible_alias = "rm")]
    Delete {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// Id or name
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Compute every hash and seal of the audit again, or check an export
    Verify {
        /// An export, which may be of another machine; needs no daemon
        #[arg(long, value_name = "EXPORT")]
        file: Option<PathBuf>,
        /// The public key that must have signed the export, in hexadecimal
        #[arg(long, value_name = "PUB", requires = "file")]
        key: Option<String>,
    },
    /// Write the audit as JSON lines with a proof that another machine can check
    Export {
        /// The file to write, which must not be there yet [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Only entries after this number
        #[arg(long, default_value_t = 0, value_name = "SEQ")]
        after: u64,
    },
    /// Show what was done and refused
    Tail {
        /// The last so many; 0: all
        #[arg(long, short = 'n', default_value_t = 20, value_name = "N")]
        lines: u64,
        /// Stay and show new entries
        #[arg(long, short)]
        follow: bool,
        /// Only of this session
        #[arg(long, default_value = "", value_name = "ID")]
        session: String,
    },
}
