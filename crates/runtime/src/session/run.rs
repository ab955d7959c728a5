//! Beginning and ending runs of an agent: launching it, finding it again after the daemon's death, ending it.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use domain::{AgentEvent, Error, ErrorCode, Exit, Input, SessionId, StopStep};
use tokio::sync::mpsc;

use super::actor::Actor;
use super::link::{Agent, ProcessAgent};
use crate::environment;
use crate::limits;
use crate::process::{End, HoldLimits, Holder, Link, Position, ProcessPlan, SpawnError, Target, tree};
use crate::provider::{Codec, LaunchPlan, LaunchRequest, ProcessLaunch};
use crate::store::SpoolMark;

/// Events an agent inside the daemon may have under way; it waits beyond that.
const IN_PROCESS_EVENTS_MAX: usize = 256;

impl Actor {
    /// Returns the folder of the current run.
    fn run_dir(&self) -> PathBuf {
        run_dir(&self.services.agents_dir, &self.machine.spec().id, self.run)
    }

    /// Starts the agent and says how it went.
    pub(super) async fn launch(&mut self, resume: bool) -> Input {
        match self.try_launch(resume).await {
            Ok(pid) => Input::Launched { pid },
            Err(error) => Input::LaunchFailed(error),
        }
    }

    async fn try_launch(&mut self, resume: bool) -> Result<u32, Error> {
        let (spec, state) = (self.machine.spec(), self.machine.state());
        let provider = self.services.providers.get(spec.provider)?;
        let environment = environment::of_agent(spec, &self.services.socket);
        let request = LaunchRequest { spec, state, resume, environment };
        match provider.launch(&request)? {
            LaunchPlan::Process(launch) => self.spawn(launch).await,
            LaunchPlan::InProcess(mut agent) => {
                let (sender, events) = mpsc::channel::<AgentEvent>(IN_PROCESS_EVENTS_MAX);
                agent.start(sender);
                self.agent = Agent::InProcess { agent, events };
                Ok(0)
            }
        }
    }

    async fn spawn(&mut self, launch: ProcessLaunch) -> Result<u32, Error> {
        let dir = self.run_dir();
        let program = launch.program.display().to_string();
        let plan = ProcessPlan {
            program: launch.program,
            args: launch.args,
            env: launch.environment,
            cwd: self.machine.spec().working_dir.clone(),
        };
        let limits = HoldLimits { spool_bytes_max: self.services.spool_max_bytes, ..HoldLimits::default() };
        let link = Holder::spawn(&self.services.shim_program, &dir, &plan, self.services.epoch, &limits)
            .await
            .map_err(|error| spawn_error(&program, &error))?;
        let pid = link.agent_pid().unwrap_or(0);
        self.holder_pid.store(link.shim_pid().unwrap_or(0), Ordering::Relaxed);
        self.agent = Agent::Process(Box::new(ProcessAgent::new(link, launch.codec, dir)));
        Ok(pid)
    }

    /// Finds the agent again that a former daemon left running.
    pub(super) async fn reattach(&mut self, mark: &SpoolMark, codec: &str) -> Reattached {
        let provider = match self.services.providers.get(self.machine.spec().provider) {
            Ok(provider) => provider,
            Err(error) => return Reattached::Lost(error.message),
        };
        if !provider.capabilities().process {
            return Reattached::Revive;
        }
        let dir = self.run_dir();
        // Without a recorded start the former daemon died before it greeted the agent, so nothing was said yet.
        let greeted = self.machine.state().pid != 0;
        if !greeted && !dir.exists() {
            return Reattached::NeverStarted;
        }
        let codec = if greeted { provider.codec(self.machine.spec(), codec) } else { self.fresh_codec() };
        let codec = match codec {
            Ok(codec) => codec,
            Err(error) => return Reattached::Lost(error.message),
        };
        let from = match mark.segment {
            0 => Position::START,
            segment => Position { segment, offset: mark.offset },
        };
        let attach = Link::attach(&dir, from, self.services.epoch);
        match tokio::time::timeout(limits::REATTACH_WAIT, attach).await {
            Ok(Ok(link)) => {
                let agent = ProcessAgent::resumed(link, codec, dir, &mark.carry);
                let pid = agent.link.agent_pid().unwrap_or(0);
                self.holder_pid.store(agent.link.shim_pid().unwrap_or(0), Ordering::Relaxed);
                self.agent = Agent::Process(Box::new(agent));
                if greeted { Reattached::Held } else { Reattached::Ungreeted { pid } }
            }
            Ok(Err(error)) => Reattached::Lost(error.to_string()),
            Err(_) => Reattached::Lost("its holder did not answer".to_owned()),
        }
    }

    fn fresh_codec(&self) -> Result<Box<dyn Codec>, Error> {
        let (spec, state) = (self.machine.spec(), self.machine.state());
        let environment = environment::of_agent(spec, &self.services.socket);
        let resume = !state.native_session.is_empty();
        let request = LaunchRequest { spec, state, resume, environment };
        match self.services.providers.get(spec.provider)?.launch(&request)? {
            LaunchPlan::Process(launch) => Ok(launch.codec),
            LaunchPlan::InProcess(_) => {
                Err(Error::new(ErrorCode::ProviderNotReady, "the agent is no process any more"))
            }
        }
    }

    /// One step of ending the agent. What it leads to comes back as output.
    pub(super) fn terminate(&mut self, step: StopStep) {
        let write_id = self.next_write_id();
        let sent = match (&mut self.agent, step) {
            (Agent::None, _) => Ok(()),
            // The farewell is in the outbox already; closing the input says the same to those who do not read it.
            (Agent::Process(process), StopStep::Ask) => process.link.close_stdin(write_id),
            (Agent::Process(process), StopStep::Term) => process.link.signal(Target::Group, libc::SIGTERM),
            (Agent::Process(process), StopStep::Kill) => process.link.signal(Target::Tree, libc::SIGKILL),
            (Agent::InProcess { agent, .. }, _) => {
                agent.stop();
                Ok(())
            }
        };
        if let Err(error) = sent {
            // The shim is gone, which its link reports as the agent's end.
            tracing::debug!(session = %self.machine.spec().id, %error, "cannot reach the shim to end its agent");
        }
    }

    /// Lets go of an agent that has ended and whose end is committed; nothing of it stays behind.
    pub(super) async fn release_agent(&mut self, end: End) {
        let Agent::Process(process) = std::mem::replace(&mut self.agent, Agent::None) else { return };
        let ProcessAgent { link, dir, .. } = *process;
        self.holder_pid.store(0, Ordering::Relaxed);
        match end {
            // Unreachable means gone, and then there is nobody to tell.
            End::Exited(_) => {
                let _ = link.ack_exit();
            }
            End::ShimLost => kill_left_behind(&link, &dir).await,
        }
        link.close().await;
        remove_dir(&dir).await;
    }
}

/// Kills what an agent left running when its shim was killed, or cannot be heard any more: that one goes first.
async fn kill_left_behind(link: &Link, dir: &std::path::Path) {
    link.kill_shim();
    let Ok(mark) = tree::mark_of(dir) else { return };
    match tree::kill_tree(link.meta().as_ref(), &mark).await {
        Ok(0) => {}
        Ok(left) => tracing::warn!(left, dir = %dir.display(), "processes of an agent resist being killed"),
        Err(error) => tracing::warn!(%error, dir = %dir.display(), "cannot look for an agent's processes"),
    }
}

/// What was found of an agent that a former daemon had.
pub(super) enum Reattached {
    Held,
    /// It runs, but was never told anything.
    Ungreeted {
        pid: u32,
    },
    /// The former daemon died before it started the agent.
    NeverStarted,
    /// The agent lived in the former daemon.
    Revive,
    Lost(String),
}

impl Reattached {
    /// Returns how the loss of an agent is told to the rules.
    pub(super) fn exit(message: &str) -> Input {
        Input::AgentExited(Exit { message: message.to_owned(), ..Exit::default() })
    }
}

/// Returns the folder of one run of a session's agent.
pub(crate) fn run_dir(agents_dir: &std::path::Path, id: &SessionId, run: u64) -> PathBuf {
    agents_dir.join(format!("{id}.{run}"))
}

async fn remove_dir(dir: &std::path::Path) {
    if let Err(error) = tokio::fs::remove_dir_all(dir).await
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(dir = %dir.display(), %error, "cannot remove an agent's folder");
    }
}

fn spawn_error(program: &str, error: &SpawnError) -> Error {
    Error::new(ErrorCode::CreateFailed, format!("the agent {program} could not be started: {error}"))
}
