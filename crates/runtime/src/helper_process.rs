//! Helper processes: programs that a part of the daemon talks to over their standard streams, such as the MCP
//! servers of an agent that runs inside the daemon. Each is held by its own shim. Its whole process tree can
//! therefore be killed, it ends soon after a killed daemon, and calls it makes to the daemon are attributed
//! to its session. Knows nothing of the protocol spoken.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use agent_port::toolbox::Work;
use agent_port::{HelperCommand, HelperProcess, HelperPrograms};
use domain::{Error, ErrorCode, ResourceLimits, SessionId};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::oneshot;

use crate::process::{
    AgentControls, AgentLink, AgentOutput, AgentSpawner, Batch, HoldLimits, OutputEnd, ProcessPlan, Stream,
};
use crate::session::SharedServices;
use crate::{execute, limits};
use host::ids;

/// Starts helper processes for one session.
#[derive(Clone)]
pub(crate) struct SessionHelperPrograms {
    services: SharedServices,
    session: SessionId,
    working_dir: PathBuf,
}

/// A helper process below its own shim.
struct ShimHelperProcess {
    /// Dropping it is the signal to end the process.
    _ending: oneshot::Sender<()>,
    words: StderrTail,
}

impl SessionHelperPrograms {
    pub(crate) fn new(services: &SharedServices, session: &SessionId, working_dir: PathBuf) -> Self {
        Self { services: Arc::clone(services), session: session.clone(), working_dir }
    }

    /// Starts the program below a new shim and connects its streams to a duplex pipe.
    async fn hold(self, program: HelperCommand) -> Result<(Box<dyn HelperProcess>, DuplexStream), Error> {
        let shown = program.command.display().to_string();
        // Named like a run, so that processes below it are recognised as belonging to the session, by the folder and by
        // the group.
        let run = format!("{}.held-{}", self.session, ids::unique());
        let failed =
            |error: &dyn std::fmt::Display| Error::new(ErrorCode::CommandFailed, format!("{shown}: {error}"));
        let run_limits =
            self.services.groups.limit(&run, ResourceLimits::default()).map_err(|error| failed(&error))?;
        let plan = ProcessPlan {
            program: program.command,
            args: program.args,
            env: program.environment,
            cwd: self.working_dir.clone(),
            limits: Some(run_limits.clone()),
        };
        let dir = self.services.agents_dir.join(&run);
        let hold = HoldLimits { linger: limits::HELD_LINGER, spool_bytes_max: self.services.spool_max_bytes };
        let spawned =
            AgentSpawner::spawn(&self.services.shim_program, &dir, &plan, self.services.epoch, &hold).await;
        let link = match spawned {
            Ok(link) => link,
            Err(error) => {
                if let Some(group) = &run_limits.group {
                    group.remove().await;
                }
                return Err(failed(&error));
            }
        };
        let (near, far) = tokio::io::duplex(limits::HELD_PIPE_BYTES);
        let (input, output) = tokio::io::split(far);
        let (ending, ended) = oneshot::channel();
        let words = StderrTail::default();
        let leaving = tokio::spawn(pass_input(input, link.controls()));
        tokio::spawn(attend(link, dir, output, words.clone(), leaving, ended));
        Ok((Box::new(ShimHelperProcess { _ending: ending, words }), near))
    }
}

impl HelperPrograms for SessionHelperPrograms {
    fn start(&self, program: HelperCommand) -> Work<(Box<dyn HelperProcess>, DuplexStream)> {
        Box::pin(self.clone().hold(program))
    }
}

impl HelperProcess for ShimHelperProcess {
    fn last_words(&self) -> String {
        let words = self.words.0.lock().unwrap_or_else(PoisonError::into_inner);
        let complaint = String::from_utf8_lossy(words.errors.as_slices().0).trim().to_owned();
        let last = complaint.lines().last().unwrap_or_default();
        [words.end.as_str(), last].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ")
    }
}

/// The end of a program's standard error, and how the program ended.
#[derive(Clone, Default)]
struct StderrTail(Arc<Mutex<StderrBuffer>>);

#[derive(Default)]
struct StderrBuffer {
    errors: VecDeque<u8>,
    end: String,
}

impl StderrTail {
    fn complain(&self, bytes: &[u8]) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.errors.extend(bytes);
        let beyond = said.errors.len().saturating_sub(limits::HELD_ERRORS_MAX_BYTES);
        said.errors.drain(..beyond);
        said.errors.make_contiguous();
    }

    fn end(&self, end: &AgentOutput) {
        let text = match end {
            AgentOutput::Ended(OutputEnd::Exited(exit)) if exit.signal != 0 => {
                format!("killed by signal {}", exit.signal)
            }
            AgentOutput::Ended(OutputEnd::Exited(exit)) => format!("exit code {}", exit.code),
            _ => "lost".to_owned(),
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).end = text;
    }
}

/// Forwards input until it ends, then closes the program's stdin.
async fn pass_input(mut input: ReadHalf<DuplexStream>, controls: AgentControls) {
    let mut buffer = vec![0; limits::HELD_PIPE_BYTES];
    let mut write_id = 0;
    loop {
        write_id += 1;
        match input.read(&mut buffer).await {
            Ok(0) | Err(_) => {
                // A shim that cannot be reached has exited, and its program with it.
                let _ = controls.close_stdin(write_id);
                return;
            }
            // A program that accepts no input for so long is useless. The caller sees the end of its output.
            Ok(count) if controls.write(write_id, &buffer[..count]).is_err() => return,
            Ok(_) => {}
        }
    }
}

/// Forwards output until the program ends or its handle is dropped, then cleans up.
async fn attend(
    mut link: AgentLink,
    dir: PathBuf,
    mut output: WriteHalf<DuplexStream>,
    words: StderrTail,
    leaving: tokio::task::JoinHandle<()>,
    mut unwanted: oneshot::Receiver<()>,
) {
    loop {
        let next = tokio::select! {
            biased;
            _ = &mut unwanted => break,
            next = link.next() => next,
        };
        let AgentOutput::Records(batch) = next else {
            words.end(&next);
            break;
        };
        let passed = tokio::select! {
            biased;
            _ = &mut unwanted => break,
            passed = pass_output(&batch, &mut output, &words) => passed,
        };
        if passed.is_err() {
            break;
        }
        if let Err(error) = link.discard_before(batch.after.segment) {
            tracing::warn!(%error, "cannot delete output that was read");
        }
    }
    // The reader sees the end of the stream.
    let _ = output.shutdown().await;
    leaving.abort();
    drop((output, leaving.await));
    execute::end_and_remove(link, dir).await;
}

/// Forwards stdout to the pipe and keeps the tail of stderr.
async fn pass_output(
    batch: &Batch,
    output: &mut WriteHalf<DuplexStream>,
    words: &StderrTail,
) -> std::io::Result<()> {
    for record in batch.records() {
        match record.stream {
            Stream::Out => output.write_all(record.payload).await?,
            Stream::Err => words.complain(record.payload),
            Stream::Meta | Stream::Exit | Stream::Input | Stream::Other(_) => {}
        }
    }
    Ok(())
}
