//! The command line of the workbench: memories, checkpoints, remediations, policies, skills, agents, audit.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The session or project in which a command of the workbench works.
#[derive(Clone, Debug, Default, Args)]
pub struct WorkbenchSessionArgs {
    /// The session, by id or name; also a session of the workbench [default: a new one for this command]
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,
    /// The project's folder [default: the campaign of the current folder, else the current folder]
    #[arg(long, value_name = "DIR", conflicts_with = "session")]
    pub project: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum MemoryCommand {
    /// Find memories by meaning and by words
    Search {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// The text to search for
        query: String,
        /// project, team, org or all
        #[arg(long, default_value = "project")]
        scope: String,
        /// success, failure or all
        #[arg(long, default_value = "all")]
        outcome: String,
        /// Maximum number of results
        #[arg(long, default_value_t = 10, value_name = "N")]
        limit: i32,
        /// Leave out memories with a lower confidence
        #[arg(long, default_value_t = 0.7, value_name = "0..1")]
        min_confidence: f32,
    },
    /// Store something that was learnt
    Store {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// What it is about, in a few words
        title: String,
        /// What to know or do
        content: String,
        /// When it is relevant
        #[arg(long, default_value = "", value_name = "TEXT")]
        description: String,
        /// success, failure, mixed or neutral
        #[arg(long, default_value = "neutral")]
        outcome: String,
        /// A tag to find it by; repeat for more
        #[arg(long = "tag", value_name = "WORD")]
        tags: Vec<String>,
    },
    /// Show a memory
    Get {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        id: String,
    },
    /// Fetch a small sentence model, so that more memories are found by meaning
    Setup {
        /// A folder that has the model's files, one of these files, or the address of a mirror [default: huggingface.co]
        #[arg(long, value_name = "FILE|URL")]
        from: Option<String>,
    },
    /// Say whether a memory helped
    Feedback {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        id: String,
        /// It helped
        #[arg(long, conflicts_with = "unhelpful", required_unless_present = "unhelpful")]
        helpful: bool,
        /// It did not help
        #[arg(long)]
        unhelpful: bool,
        /// The reason; `outdated` removes it from searches
        #[arg(long, default_value = "", value_name = "TEXT")]
        comment: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum CheckpointCommand {
    /// Save where a session stands
    Save {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// What was done and what is next
        summary: String,
        /// A tag for the checkpoint; repeat for more
        #[arg(long = "tag", value_name = "WORD")]
        tags: Vec<String>,
    },
    /// List the project's checkpoints, newest first
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// Maximum number of results
        #[arg(long, default_value_t = 10, value_name = "N")]
        limit: i32,
    },
    /// Show what is needed to continue from a checkpoint
    Resume {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        id: String,
        /// summary, context or full
        #[arg(long, default_value = "context")]
        level: String,
    },
    /// Bring the files of the project back to a checkpoint; branches stay as they are
    Restore {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum RemediationCommand {
    /// Search for solutions of an error
    Search {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// The error as it was printed
        error: String,
        /// What was being done
        #[arg(long, default_value = "", value_name = "TEXT")]
        context: String,
        /// Maximum number of results
        #[arg(long, default_value_t = 5, value_name = "N")]
        limit: i32,
    },
    /// Record an error and its solution
    Record {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// What it is about, in a few words
        title: String,
        /// The error as it was printed
        #[arg(long, value_name = "TEXT")]
        problem: String,
        /// What solved it
        #[arg(long, value_name = "TEXT")]
        solution: String,
        /// Why it happened
        #[arg(long, default_value = "", value_name = "TEXT")]
        root_cause: String,
    },
}

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Check a command, `read PATH` or `write PATH` against the policies
    Check {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        action: String,
        /// Its context, such as a file's content
        #[arg(long, default_value = "", value_name = "TEXT")]
        context: String,
    },
    /// List the policies in force
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
pub enum SkillCommand {
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
    /// Create a skill
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
    /// Change a skill; what is not given stays unchanged
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
    /// Delete a skill
    #[command(visible_alias = "rm")]
    Delete {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// Id or name
        id: String,
    },
}

#[derive(Debug, Default, Args)]
pub struct SkillText {
    /// What it is for
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub description: String,
    /// When to use it
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub trigger: String,
    /// A step of it; repeat for more
    #[arg(long = "step", value_name = "TEXT")]
    pub steps: Vec<String>,
    /// A prompt to start from
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub prompt: String,
}

#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// List named agents
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// project, team or org
        #[arg(long, default_value = "")]
        scope: String,
    },
    /// Show a named agent
    Get {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// Id or name
        id: String,
    },
    /// Create a named agent, for `obey session create --agent NAME`
    Create {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        name: String,
        #[command(flatten)]
        text: NamedAgentText,
        /// project, team or org
        #[arg(long, default_value = "project")]
        scope: String,
    },
    /// Delete a named agent
    #[command(visible_alias = "rm")]
    Delete {
        #[command(flatten)]
        session_args: WorkbenchSessionArgs,
        /// Id or name
        id: String,
    },
}

#[derive(Debug, Default, Args)]
pub struct NamedAgentText {
    /// Its system prompt
    #[arg(long, value_name = "TEXT")]
    pub system_prompt: String,
    /// What it is for
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub description: String,
    /// A skill that it has; repeat for more
    #[arg(long = "skill", value_name = "NAME")]
    pub skills: Vec<String>,
    /// A collection of the workbench that it may use: memories, checkpoints, policies, skills, agents or remediations, with
    /// :read only to read; repeat for more [default: all]
    #[arg(long = "collection", value_name = "NAME")]
    pub collections: Vec<String>,
    /// Its preferred model
    #[arg(long, default_value = "")]
    pub model: String,
    /// Its preferred temperature, from 0 to 2, for providers that have one [default: the model's]
    #[arg(long, default_value_t = 0.0, hide_default_value = true, value_name = "T")]
    pub temperature: f32,
}

#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Recompute every hash and seal of the audit, or check an export
    Verify {
        /// An export to check, also of another machine; needs no daemon
        #[arg(long, value_name = "EXPORT")]
        file: Option<PathBuf>,
        /// The public key that must have signed the export, in hexadecimal
        #[arg(long, value_name = "PUB", requires = "file")]
        key: Option<String>,
    },
    /// Write the audit as JSON lines with a proof that another machine can check
    Export {
        /// The file to write, which must not exist yet [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Only entries after this number
        #[arg(long, default_value_t = 0, value_name = "SEQ")]
        after: u64,
    },
    /// Show the newest entries: what was done and what was refused
    Tail {
        /// How many of the last entries to show; 0: all
        #[arg(long, short = 'n', default_value_t = 20, value_name = "N")]
        lines: u64,
        /// Keep showing new entries
        #[arg(long, short)]
        follow: bool,
        /// Only entries of this session
        #[arg(long, default_value = "", value_name = "ID")]
        session: String,
    },
}
