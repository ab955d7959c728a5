//! Starts an agent under a new shim, and reports precisely at which stage that failed. Must not keep any
//! state: the [`AgentLink`] it returns is all there is.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use shim::{Position, proc_table};
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time;

use super::ProcessPlan;
use super::limits::{ANSWER_BYTES_MAX, SPAWN_TIMEOUT};
use super::link::{AgentLink, AttachError};
use super::run_limits;
use host::failpoint;
use host::process_tree as tree;

/// Starts agents.
pub struct AgentSpawner;

/// How long and how much a shim holds without a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldLimits {
    /// After this long without any daemon, the shim ends its agent and exits.
    pub linger: Duration,
    /// Unconsumed output on disk; beyond this the agent waits.
    pub spool_bytes_max: u64,
}

impl Default for HoldLimits {
    fn default() -> Self {
        HoldLimits {
            linger: shim::limits::LINGER_DEFAULT,
            spool_bytes_max: shim::limits::SPOOL_BYTES_DEFAULT,
        }
    }
}

/// The stage at which the shim failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnStage {
    /// Its arguments (an error of the daemon).
    Args,
    /// Detaching from the daemon.
    Fork,
    /// The session's directory: missing, a link, owned by another user, or open to others.
    Dir,
    /// Another shim holds the directory.
    Lock,
    /// The spool: no space, or one already exists.
    Spool,
    /// The control socket.
    Socket,
    /// The agent's working directory.
    Cwd,
    /// What holds the agent within its limits.
    Limits,
    /// The program itself.
    Exec,
    /// A stage of a newer shim.
    Other,
}

/// Why no agent was started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The session's directory could not be created.
    #[error("the session's directory cannot be made: {0}")]
    Dir(io::Error),
    /// The shim itself could not be run.
    #[error("the shim cannot be run: {0}")]
    Shim(io::Error),
    /// The shim ran and failed at a stage.
    #[error("{stage:?}: {text}")]
    Stage { stage: SpawnStage, errno: i32, text: String },
    /// The shim did not answer, or not in time.
    #[error("the shim gave no answer: {0}")]
    Silent(String),
    /// The agent runs but could not be reached; it was ended again.
    #[error(transparent)]
    Attach(#[from] AttachError),
}

impl SpawnError {
    /// Returns whether there is no such program.
    pub fn is_program_missing(&self) -> bool {
        matches!(self, SpawnError::Stage { stage: SpawnStage::Exec, errno: libc::ENOENT | libc::ENOTDIR, .. })
    }

    /// Whether the agent could not be put within its limits.
    pub fn is_unlimited(&self) -> bool {
        matches!(self, SpawnError::Stage { stage: SpawnStage::Limits, .. })
    }

    /// Whether a living shim has the directory already.
    pub fn is_held(&self) -> bool {
        matches!(self, SpawnError::Stage { stage: SpawnStage::Lock, .. })
    }
}

impl AgentSpawner {
    /// Starts `plan` under a new shim in `dir`, which must not contain a spool yet, and attaches to it.
    ///
    /// The directory is created if it is missing. The agent gets the plan's environment and one more
    /// variable, by which its descendants can be found if the shim is killed (see [`tree::mark_of`]).
    pub async fn spawn(
        shim_exe: &Path,
        dir: &Path,
        plan: &ProcessPlan,
        epoch: u64,
        limits: &HoldLimits,
    ) -> Result<AgentLink, SpawnError> {
        make_dir(dir).map_err(SpawnError::Dir)?;
        if let Some(limits) = &plan.limits {
            run_limits::store(dir, limits).map_err(SpawnError::Dir)?;
        }
        failpoint!("launch.folder_made");
        let mark = tree::mark_of(dir).map_err(SpawnError::Dir)?;
        let answer = time::timeout(SPAWN_TIMEOUT, run_shim(shim_exe, dir, plan, &mark, limits))
            .await
            .map_err(|_| SpawnError::Silent(format!("none within {} s", SPAWN_TIMEOUT.as_secs())))?
            .map_err(SpawnError::Shim)?;
        let shim_pid = read_answer(&answer)?;
        failpoint!("launch.shim_ready");
        let attached = AgentLink::attach(dir, Position::START, epoch).await;
        if attached.is_err()
            && let Some(shim) = proc_table::find(shim_pid)
        {
            // An agent that cannot be reached must not run. It dies with its shim.
            proc_table::signal(&shim, libc::SIGKILL);
        }
        Ok(attached?)
    }
}

fn make_dir(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Runs the shim's first process to its end and returns its output.
async fn run_shim(
    shim_exe: &Path,
    dir: &Path,
    plan: &ProcessPlan,
    mark: &tree::TreeMark,
    limits: &HoldLimits,
) -> io::Result<String> {
    let mut command = Command::new(shim_exe);
    command.arg("shim").arg("--dir").arg(std::path::absolute(dir)?).arg("--cwd").arg(&plan.cwd);
    // Never zero: between its start and our connection the shim has no daemon.
    command.arg("--linger-secs").arg(limits.linger.as_secs().max(1).to_string());
    command.arg("--spool-max").arg(limits.spool_bytes_max.to_string());
    command.args(plan.limits.iter().flat_map(run_limits::shim_words));
    command.arg("--").arg(&plan.program).args(&plan.args);
    command.env_clear().envs(plan.env.iter().map(|(name, value)| (name, value)));
    command.env(tree::MARK_VARIABLE, mark.value());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.process_group(0).kill_on_drop(true);
    let mut child = command.spawn()?;
    failpoint!("launch.shim_running");
    let mut answer = String::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).await?;
    }
    child.wait().await?;
    Ok(answer)
}

/// Returns the shim's pid, or the stage at which it failed.
fn read_answer(answer: &str) -> Result<i32, SpawnError> {
    let line = answer.trim_end_matches('\n');
    let mut words = line.splitn(4, ' ');
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some("ready"), Some(pid), ..) => {
            pid.parse().map_err(|_| SpawnError::Silent(format!("unexpected answer {line:?}")))
        }
        (Some("error"), Some(stage), Some(errno), text) => Err(SpawnError::Stage {
            stage: stage_named(stage),
            errno: errno.parse().unwrap_or(0),
            text: text.unwrap_or_default().to_owned(),
        }),
        _ => Err(SpawnError::Silent(format!("unexpected answer {line:?}"))),
    }
}

fn stage_named(word: &str) -> SpawnStage {
    match word {
        "args" => SpawnStage::Args,
        "fork" => SpawnStage::Fork,
        "dir" => SpawnStage::Dir,
        "lock" => SpawnStage::Lock,
        "spool" => SpawnStage::Spool,
        "socket" => SpawnStage::Socket,
        "cwd" => SpawnStage::Cwd,
        "limits" => SpawnStage::Limits,
        "exec" => SpawnStage::Exec,
        _ => SpawnStage::Other,
    }
}
