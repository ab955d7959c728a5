//! Starts and ends runs of an agent: launches it, reattaches to it after the daemon's death, terminates it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::{
    AgentEvent, AgentNetwork, Error, ErrorCode, Event, EventKind, Exit, Input, ProviderKind, SessionId,
    StopStep,
};
use tokio::sync::mpsc;

use super::actor::Actor;
use super::agent_handle::{AgentHandle, ProcessAgent};
use crate::campaign::Campaigns;
use crate::containment;
use crate::helper_process::SessionHelperPrograms;
use crate::limits;
use crate::process::{
    AgentLink, AgentSpawner, AttachError, Claim, HoldLimits, OutputEnd, Position, ProcessPlan, RunLimits,
    SpawnError, Target, run_limits,
};
use agent_port::environment;
use agent_port::{
    BridgeServer, ClientRequestHandler, Codec, LaunchPlan, LaunchRequest, PastEvents, ProcessLaunch,
};
use host::failpoint;
use storage::SpoolMark;

impl Actor {
    /// Returns the folder of the current run.
    pub(super) fn run_dir(&self) -> PathBuf {
        run_dir(&self.services.agents_dir, &self.state.machine.spec().id, self.state.run)
    }

    /// Sets the agent, and the codec of one that is a process. Returns the former agent.
    pub(super) fn set_agent(&mut self, agent: AgentHandle, codec: Option<Box<dyn Codec>>) -> AgentHandle {
        self.state.set_codec(codec);
        std::mem::replace(&mut self.agent, agent)
    }

    /// Starts the agent and returns the result as an input for the rules.
    pub(super) async fn launch(&mut self, resume: bool) -> Input {
        match self.try_launch(resume).await {
            Ok(pid) => Input::Launched { pid },
            Err(error) => Input::LaunchFailed(error),
        }
    }

    /// Checks the folders and starts the agent. Returns its pid; 0 if it runs inside the daemon.
    async fn try_launch(&mut self, resume: bool) -> Result<u32, Error> {
        Campaigns::new(self.services.store.clone()).check_folders(self.state.machine.spec()).await?;
        let given = read_given(self.given_past()).await;
        let provider = self.services.providers.get(self.state.machine.spec().provider)?;
        match provider.launch(&self.launch_request(resume, given))? {
            LaunchPlan::Process(launch) => self.spawn(*launch).await,
            LaunchPlan::InProcess(mut agent) => {
                self.check_inside()?;
                let (sender, events) = mpsc::channel::<AgentEvent>(limits::IN_PROCESS_EVENTS_MAX);
                agent.start(sender);
                self.set_agent(AgentHandle::InProcess { agent, events }, None);
                Ok(0)
            }
        }
    }

    /// Returns the journal for `read_given`. None for an agent that reads it itself, takes no turns or has begun its
    /// conversation, and for a fork, which is told its history in words.
    fn given_past(&self) -> Option<PastEvents> {
        let (spec, state) = (self.state.machine.spec(), self.state.machine.state());
        let can = self.services.providers.get(spec.provider).map(|provider| provider.capabilities());
        let takes_turns = can.is_ok_and(|can| can.history && can.process);
        let is_new = state.native_session.is_empty() && state.fork.is_none();
        (takes_turns && is_new && state.turns > 0).then(|| self.past())
    }

    fn launch_request(&self, resume: bool, given: Vec<Arc<Event>>) -> LaunchRequest<'_> {
        let (spec, state) = (self.state.machine.spec(), self.state.machine.state());
        let environment = environment::of_agent(spec, &self.services.socket);
        let (bridge, past) = (self.bridge(), Some(self.past()));
        let free = spec.containment.sandbox.is_none();
        let programs = free.then(|| -> Arc<dyn agent_port::HelperPrograms> {
            Arc::new(SessionHelperPrograms::new(&self.services, &spec.id, spec.working_dir.clone()))
        });
        LaunchRequest { spec, state, resume, environment, bridge, past, given, programs }
    }

    /// Returns the server through which the agent reaches the tools of clients. A session without such tools
    /// gets none, since the bridge is a separate process.
    fn bridge(&self) -> Option<BridgeServer> {
        if self.state.machine.state().tools.is_empty() && !self.services.offers_tools {
            return None;
        }
        let session = self.state.machine.spec().id.to_string();
        let socket = match self.state.machine.spec().containment.sandbox {
            Some(_) => sandbox::agent::SOCKET_INSIDE.to_owned(),
            None => self.services.socket.display().to_string(),
        };
        let args =
            ["mcp", "--session", &session, "--socket", &socket, "--no-autostart"].map(str::to_owned).to_vec();
        Some(BridgeServer { command: self.services.shim_program.clone(), args })
    }

    /// Checks that an agent without a process need not run in the sandbox. The agent inside the daemon runs
    /// its commands there anyway; an external gateway does not.
    fn check_inside(&self) -> Result<(), Error> {
        let spec = self.state.machine.spec();
        let message = match (spec.containment.sandbox, spec.provider) {
            (Some(AgentNetwork::None), ProviderKind::OpenaiApi) => {
                "openai-api cannot do without its model, which the daemon calls; choose the network model"
                    .to_owned()
            }
            (None, _) => return Ok(()),
            (_, ProviderKind::OpenaiApi) => {
                let root = containment::root_of_tools(spec);
                return self.services.containment.withheld.check_project(root);
            }
            (Some(_), provider) => {
                format!("{} has no process of its own that the sandbox could hold", provider.name())
            }
        };
        Err(Error::new(ErrorCode::SandboxFailed, message))
    }

    /// Starts a process below a shim, in the sandbox if the session demands it. Returns the agent's pid.
    async fn spawn(&mut self, mut launch: ProcessLaunch) -> Result<u32, Error> {
        let dir = self.run_dir();
        let program = launch.program.display().to_string();
        let bell = match self.state.machine.spec().containment.sandbox {
            Some(network) => Some(self.wall_in(network, &mut launch)?),
            None => None,
        };
        let run = self.limit_run()?;
        let plan = ProcessPlan {
            program: launch.program,
            args: launch.args,
            env: launch.environment,
            cwd: self.state.machine.spec().working_dir.clone(),
            limits: Some(run.clone()),
        };
        let limits = HoldLimits { spool_bytes_max: self.services.spool_max_bytes, ..HoldLimits::default() };
        let spawned =
            AgentSpawner::spawn(&self.services.shim_program, &dir, &plan, self.services.epoch, &limits).await;
        let link = match spawned {
            Ok(link) => link,
            Err(error) => {
                if let Some(group) = &run.group {
                    group.remove().await;
                }
                return Err(spawn_error(&program, &error));
            }
        };
        if let Some(bell) = bell
            && let Err(error) = bell.wait(&dir, &self.services.shim_program).await
        {
            link.outside().kill_left_behind().await;
            link.close().await;
            run_limits::remove_group(&dir).await;
            remove_dir(&dir).await;
            return Err(error);
        }
        self.memory.begin(Some(run));
        let pid = link.agent_pid().unwrap_or(0);
        self.holder.set(link.shim_pid());
        let agent = ProcessAgent::new(link, dir).helped_by(self.helper());
        self.set_agent(AgentHandle::Process(Box::new(agent)), Some(launch.codec));
        Ok(pid)
    }

    /// Makes the control group of the run that begins, as the session's limits say.
    fn limit_run(&self) -> Result<RunLimits, Error> {
        let spec = self.state.machine.spec();
        let run = format!("{}.{}", spec.id, self.state.run);
        self.services.groups.limit(&run, spec.containment.limits).map_err(|error| {
            let message =
                format!("the agent cannot be kept within its limits, and nothing was started: {error}");
            Error::new(ErrorCode::SandboxFailed, message)
        })
    }

    /// Finds the agent again that a former daemon left running.
    pub(super) async fn reattach(&mut self, mark: &SpoolMark, codec: &str) -> Reattached {
        let provider = match self.services.providers.get(self.state.machine.spec().provider) {
            Ok(provider) => provider,
            Err(error) => return Reattached::Lost(error.message),
        };
        if !provider.capabilities().process {
            return Reattached::Revive;
        }
        // Without a recorded pid the earlier daemon died before it greeted the agent, so nothing was sent
        // yet.
        if self.state.machine.state().pid != 0 {
            let codec = provider.codec(self.state.machine.spec(), codec);
            return match self.attach(mark, codec).await {
                Ok(_) => Reattached::Held,
                Err(lost) => lost,
            };
        }
        match clear_unstarted(&self.run_dir()).await {
            Ok(true) => return Reattached::NeverStarted,
            Ok(false) => {}
            Err(error) => return Reattached::Lost(error.to_string()),
        }
        let given = read_given(self.given_past()).await;
        match self.attach(mark, self.fresh_codec(given)).await {
            Ok(0) => {
                // There was a shim, but it ended without having started anything.
                self.set_agent(AgentHandle::None, None);
                match clear_unstarted(&self.run_dir()).await {
                    Ok(true) => Reattached::NeverStarted,
                    Ok(false) | Err(_) => Reattached::Lost("the agent could not be started".to_owned()),
                }
            }
            Ok(pid) => Reattached::Ungreeted { pid },
            Err(lost) => lost,
        }
    }

    /// Attaches to the agent in the folder of the current run. Returns its pid; 0 if it was never started.
    async fn attach(
        &mut self,
        mark: &SpoolMark,
        codec: Result<Box<dyn Codec>, Error>,
    ) -> Result<u32, Reattached> {
        let codec = codec.map_err(|error| Reattached::Lost(error.message))?;
        let from = match mark.segment {
            0 => Position::START,
            segment => Position { segment, offset: mark.offset },
        };
        let dir = self.run_dir();
        let mut link = attach_in_time(&dir, from, self.services.epoch).await;
        let is_lost = match &link {
            Ok(_) => false,
            Err(AttachError::Unreachable(_)) => true,
            // The shim obeys a program that is not a daemon: a later daemon would have raised the epoch in
            // the store.
            Err(AttachError::Refused(_)) => !self.services.is_succeeded().await,
        };
        if let Err(error) = &link
            && is_lost
            && Claim::end_holder(&dir).await.is_ok_and(|was_held| was_held)
        {
            // The shim did not respond, so it was killed, and its agent with it. Their output is still to be
            // read.
            tracing::warn!(%error, dir = %dir.display(), "a shim that does not answer or obey was ended");
            link = attach_in_time(&dir, from, self.services.epoch).await;
        }
        match link {
            Ok(link) => {
                self.memory.begin(run_limits::load(&dir));
                let agent = ProcessAgent::resumed(link, dir, &mark.carry).helped_by(self.helper());
                let pid = agent.link.agent_pid().unwrap_or(0);
                self.holder.set(agent.link.shim_pid());
                self.set_agent(AgentHandle::Process(Box::new(agent)), Some(codec));
                Ok(pid)
            }
            Err(error) => Err(Reattached::Lost(error.to_string())),
        }
    }

    fn helper(&self) -> Option<Arc<dyn ClientRequestHandler>> {
        let spec = self.state.machine.spec();
        self.services.providers.get(spec.provider).ok().and_then(|provider| provider.helper(spec))
    }

    fn fresh_codec(&self, given: Vec<Arc<Event>>) -> Result<Box<dyn Codec>, Error> {
        let (spec, state) = (self.state.machine.spec(), self.state.machine.state());
        let request = self.launch_request(!state.native_session.is_empty(), given);
        match self.services.providers.get(spec.provider)?.launch(&request)? {
            LaunchPlan::Process(launch) => Ok(launch.codec),
            LaunchPlan::InProcess(_) => {
                Err(Error::new(ErrorCode::ProviderNotReady, "the agent is no process any more"))
            }
        }
    }

    /// Carries out one step of ending the agent. Its result comes back as output.
    pub(super) fn terminate(&mut self, step: StopStep) {
        failpoint!("stop.step");
        let write_id = self.state.next_write_id();
        let sent = match (&mut self.agent, step) {
            (AgentHandle::None, _) => Ok(()),
            // The message to leave is already in the outbox. Closing stdin says the same to agents that do
            // not read it.
            (AgentHandle::Process(process), StopStep::Ask) => process.link.close_stdin(write_id),
            (AgentHandle::Process(process), StopStep::Term) => {
                process.link.signal(Target::Group, libc::SIGTERM)
            }
            (AgentHandle::Process(process), StopStep::Kill) => {
                self.killed_by = Some(tokio::time::Instant::now() + limits::KILL_WAIT);
                process.link.signal(Target::Tree, libc::SIGKILL)
            }
            (AgentHandle::InProcess { agent, .. }, _) => {
                agent.stop();
                Ok(())
            }
        };
        if let Err(error) = sent {
            // The shim has exited, which its link reports as the agent's end.
            tracing::debug!(session = %self.state.machine.spec().id, %error, "cannot reach the shim to end its agent");
        }
    }

    /// Kills a shim that does not carry out a kill, perhaps because it is stopped, and its agent with it. The
    /// result also comes back as output.
    pub(super) async fn kill_from_outside(&mut self) {
        self.killed_by = None;
        let AgentHandle::Process(process) = &self.agent else { return };
        tracing::warn!(session = %self.state.machine.spec().id, "the shim does not kill its agent; killing both");
        process.link.outside().kill_left_behind().await;
    }

    /// Releases an agent whose end is committed, and removes everything of it.
    pub(super) async fn release_agent(&mut self, end: OutputEnd) {
        let AgentHandle::Process(process) = self.set_agent(AgentHandle::None, None) else { return };
        let ProcessAgent { link, dir, .. } = *process;
        self.holder.set(None);
        self.killed_by = None;
        failpoint!("exit.committed");
        match end {
            // A shim that cannot be reached has exited and needs no acknowledgement.
            OutputEnd::Exited(_) => {
                let _ = link.ack_exit();
            }
            OutputEnd::ShimLost => link.outside().kill_left_behind().await,
        }
        link.close().await;
        failpoint!("exit.acknowledged");
        self.memory.begin(None);
        run_limits::remove_group(&dir).await;
        remove_dir(&dir).await;
        self.forget_sealed();
        failpoint!("exit.removed");
    }
}

/// Reads the conversation that a session was created with: the events before its first start.
async fn read_given(past: Option<PastEvents>) -> Vec<Arc<Event>> {
    let Some(mut past) = past else { return Vec::new() };
    let mut given = Vec::new();
    while past.events.seq() < past.last_seq {
        let events = match past.events.available().await {
            Ok(events) if !events.is_empty() => events,
            // Events of the beginning that are no longer kept: the agent has had them for long.
            Ok(_) | Err(_) => return given,
        };
        for event in events {
            if matches!(event.kind, EventKind::StatusChanged { .. }) {
                return given;
            }
            given.push(event);
        }
    }
    given
}

/// Attaches to an agent; a shim that exceeds the timeout counts as unreachable.
async fn attach_in_time(dir: &Path, from: Position, epoch: u64) -> Result<AgentLink, AttachError> {
    let attached = tokio::time::timeout(limits::REATTACH_WAIT, AgentLink::attach(dir, from, epoch)).await;
    attached.unwrap_or_else(|_| Err(AttachError::Unreachable(io::ErrorKind::TimedOut.into())))
}

/// Removes the folder of a run whose agent was never started. A shim of the earlier daemon may still be about
/// to use it and will find nothing. Returns true if the run has no agent.
async fn clear_unstarted(dir: &Path) -> io::Result<bool> {
    match Claim::take(dir) {
        Ok(Some(claim)) if claim.meta().is_none() => claim.clear().await.map(|()| true),
        Ok(_) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// What was found of an agent that an earlier daemon ran.
pub(super) enum Reattached {
    Held,
    /// It runs, but was never greeted.
    Ungreeted {
        pid: u32,
    },
    /// The earlier daemon died before it started the agent.
    NeverStarted,
    /// The agent ran inside the earlier daemon.
    Revive,
    /// The agent has ended, or obeys another daemon.
    Lost(String),
}

impl Reattached {
    /// Returns the loss of an agent as an input for the rules.
    pub(super) fn exit(message: &str) -> Input {
        Input::AgentExited(Exit { message: message.to_owned(), ..Exit::default() })
    }
}

/// Returns the folder of one run of a session's agent.
pub(crate) fn run_dir(agents_dir: &Path, id: &SessionId, run: u64) -> PathBuf {
    agents_dir.join(format!("{id}.{run}"))
}

async fn remove_dir(dir: &Path) {
    super::clear_placeholders(dir).await;
    if let Err(error) = tokio::fs::remove_dir_all(dir).await
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(dir = %dir.display(), %error, "cannot remove an agent's folder");
    }
}

fn spawn_error(program: &str, error: &SpawnError) -> Error {
    let code = if error.is_unlimited() { ErrorCode::SandboxFailed } else { ErrorCode::CreateFailed };
    Error::new(code, format!("the agent {program} could not be started: {error}"))
}
