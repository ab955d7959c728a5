//! One-shot commands in a campaign's folder. They are allowed by name, held by a shim so that the whole
//! process tree can be killed, and their output is streamed with bounded memory. The allow-list prevents
//! mistakes; it is not a sandbox.

mod allowed;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use domain::{Error, ErrorCode};

use crate::git::guard;
use crate::process::{
    AgentLink, AgentOutput, AgentSpawner, Batch, HoldLimits, OutputEnd, ProcessPlan, Stream, Target,
    run_limits,
};
use crate::session::SharedServices;
use crate::{campaign, limits};
use agent_port::environment;
use host::{failpoint, ids};

/// Prefix of the folders of commands, which lie beside those of agents. No session id starts with it.
const DIR_PREFIX: &str = "exec_";

/// A command to run.
#[derive(Clone, Debug)]
pub struct Execution {
    pub root: PathBuf,
    /// Folder below the root; empty for the root itself.
    pub below: String,
    pub command: String,
    pub args: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub timeout: Duration,
    pub allowed: Vec<String>,
}

/// One piece of output, or the end of the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    /// Always the last item.
    Ended {
        exit_code: i32,
        signal: i32,
        duration: Duration,
        timed_out: bool,
    },
}

/// A running command. Dropping it kills the whole process tree.
pub struct Running {
    link: Option<AgentLink>,
    dir: PathBuf,
    ready: std::collections::VecDeque<Output>,
    started: Instant,
    deadline: tokio::time::Instant,
    timed_out: bool,
}

impl Execution {
    /// Checks the command and starts it.
    pub(crate) async fn start(self, services: &SharedServices) -> Result<Running, Error> {
        let root = campaign::resolve_root(&self.root)?;
        let cwd = below(&root, &root.join(&self.below))?;
        environment::check(&self.environment)?;
        allowed::check(&root, &self.allowed, &self.command, &self.args)?;
        if self.timeout > limits::EXECUTE_WAIT_MAX {
            let most = limits::EXECUTE_WAIT_MAX.as_secs();
            return Err(Error::invalid("timeout", format_args!("is longer than {most} s")));
        }
        let env = environment::inherited(&self.environment);
        let program = find_program(&self.command, &env)?;
        let (args, env, cwd) = if self.command == "git" {
            let command = guard::check(&self.args)?;
            let cwd = match &command.folder {
                Some(folder) => below(&root, &cwd.join(folder))?,
                None => cwd,
            };
            let guarded = guard::guarded(command, &root, cwd, env).await?;
            (guarded.args, guarded.env, guarded.cwd)
        } else {
            (self.args, env, cwd)
        };
        let args = args.into_iter().map(OsString::from).collect();
        let plan = ProcessPlan { program, args, env, cwd, limits: None };
        let dir = services.agents_dir.join(format!("{DIR_PREFIX}{}", ids::unique()));
        let hold = HoldLimits { spool_bytes_max: services.spool_max_bytes, ..HoldLimits::default() };
        let link = AgentSpawner::spawn(&services.shim_program, &dir, &plan, services.epoch, &hold)
            .await
            .map_err(|error| Error::new(ErrorCode::CommandFailed, format!("{}: {error}", self.command)))?;
        failpoint!("execute.started");
        // A command gets no input. One that reads stdin must see its end.
        let _ = link.close_stdin(1);
        Ok(Running {
            link: Some(link),
            dir,
            ready: std::collections::VecDeque::new(),
            started: Instant::now(),
            deadline: tokio::time::Instant::now() + self.timeout,
            timed_out: false,
        })
    }
}

impl Running {
    /// Returns the next output; `None` after the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<Output> {
        loop {
            if let Some(output) = self.ready.pop_front() {
                return Some(output);
            }
            let (deadline, expired) = (self.deadline, self.timed_out);
            let link = self.link.as_mut()?;
            let next = tokio::select! {
                next = link.next() => next,
                () = tokio::time::sleep_until(deadline), if !expired => {
                    self.timed_out = true;
                    // A shim that cannot be reached has exited, and its process tree with it.
                    let _ = link.signal(Target::Tree, libc::SIGKILL);
                    continue;
                }
            };
            match next {
                AgentOutput::Records(batch) => self.take(&batch),
                AgentOutput::Ended(end) => self.finish(Some(end)).await,
                AgentOutput::Corrupt { .. } | AgentOutput::Refused(_) | AgentOutput::Unreadable(_) => {
                    self.finish(None).await
                }
            }
        }
    }

    /// Queues the output of a batch in chunks of limited size and deletes consumed segments.
    fn take(&mut self, batch: &Batch) {
        for record in batch.records() {
            for piece in record.payload.chunks(limits::EXECUTE_CHUNK_MAX) {
                match record.stream {
                    Stream::Out => self.ready.push_back(Output::Stdout(piece.to_vec())),
                    Stream::Err => self.ready.push_back(Output::Stderr(piece.to_vec())),
                    Stream::Meta | Stream::Exit | Stream::Input | Stream::Other(_) => {}
                }
            }
        }
        if let Some(link) = &mut self.link
            && let Err(error) = link.discard_before(batch.after.segment)
        {
            tracing::warn!(%error, "cannot delete output that was read");
        }
    }

    /// Queues the end of the command and cleans up. `None`: how it ended is unknown.
    async fn finish(&mut self, end: Option<OutputEnd>) {
        let (exit_code, signal) = match end {
            Some(OutputEnd::Exited(exit)) if exit.signal != 0 => (128 + exit.signal, exit.signal),
            Some(OutputEnd::Exited(exit)) => (exit.code, 0),
            Some(OutputEnd::ShimLost) | None => (128 + libc::SIGKILL, libc::SIGKILL),
        };
        self.ready.push_back(Output::Ended {
            exit_code,
            signal,
            duration: self.started.elapsed(),
            timed_out: self.timed_out,
        });
        match (self.link.take(), end) {
            (Some(link), Some(_)) => {
                let _ = link.ack_exit();
                link.close().await;
                remove(&self.dir);
            }
            // The shim does not obey us or its output cannot be read, so the command may still run.
            (Some(link), None) => end_and_remove(link, self.dir.clone()).await,
            (None, _) => {}
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(link) = self.link.take() else { return };
        let dir = self.dir.clone();
        // The caller dropped the command, but it must still be ended and its folder removed.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(end_and_remove(link, dir));
        }
    }
}

/// Kills everything a shim holds, lets the shim exit and removes its folder.
pub(crate) async fn end_and_remove(mut link: AgentLink, dir: PathBuf) {
    // A shim that cannot be reached has exited; what it left running is killed below.
    let _ = link.signal(Target::Tree, libc::SIGKILL);
    let last = loop {
        match link.next().await {
            AgentOutput::Records(_) => {}
            last => break last,
        }
    };
    match last {
        AgentOutput::Ended(OutputEnd::Exited(_)) => drop(link.ack_exit()),
        // Commands are never resumed, so another holder of this shim would only end it as well.
        AgentOutput::Records(_)
        | AgentOutput::Refused(_)
        | AgentOutput::Ended(OutputEnd::ShimLost)
        | AgentOutput::Corrupt { .. }
        | AgentOutput::Unreadable(_) => {
            link.outside().kill_left_behind().await;
        }
    }
    link.close().await;
    failpoint!("orphan.ended");
    run_limits::remove_group(&dir).await;
    remove(&dir);
}

fn remove(dir: &Path) {
    if let Err(error) = std::fs::remove_dir_all(dir)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(%error, dir = %dir.display(), "cannot remove a command's folder");
    }
}

fn below(root: &Path, below: &Path) -> Result<PathBuf, Error> {
    let cwd = below
        .canonicalize()
        .map_err(|error| Error::invalid("working_dir", format_args!("{below:?} cannot be used: {error}")))?;
    if !cwd.starts_with(root) || !cwd.is_dir() {
        return Err(Error::invalid(
            "working_dir",
            format_args!("{below:?} is not a folder inside the campaign"),
        ));
    }
    Ok(cwd)
}

/// Finds a program by name in the absolute folders of `PATH`, never in the campaign itself.
fn find_program(command: &str, env: &[(OsString, OsString)]) -> Result<PathBuf, Error> {
    let path =
        env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone()).unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(command))
        .find(|program| program.is_file())
        .ok_or_else(|| {
            Error::new(
                ErrorCode::CommandFailed,
                format!("command: {command} is not installed (not found in PATH)"),
            )
        })
}
