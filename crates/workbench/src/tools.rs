//! The tools: run a command, read a file, write one, fetch stored output. Everything they return is scrubbed:
//! output, previews, summaries (which show commands and paths) and errors.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use domain::{Error, ErrorCode, SessionId};
use tokio::sync::mpsc;

use crate::answer::{Capture, Captured, OutputWatcher, command_shown};
use crate::files::{OpenedFile, ProjectRoot};
use crate::policy::{PolicyAction, Violation};
use crate::refs::{ContentKind, Refs};
use crate::scrub::{KnownSecret, Scrubber};
use crate::{Project, Workbench, limits};
use sandbox::{Command, CommandEnd, Limits, Network, Output, Running, Tier};

/// A shell command.
#[derive(Clone, Debug)]
pub struct Exec {
    pub command: String,
    /// Relative to the project's root, or absolute inside it; empty: the root.
    pub working_dir: String,
    /// `None`: 30 seconds.
    pub timeout: Option<Duration>,
    pub env: Vec<(String, String)>,
}

/// The result of a command.
#[derive(Clone, Debug)]
pub struct ExecAnswer {
    pub summary: String,
    pub stdout: Captured,
    pub stderr: Captured,
    pub exit_code: i32,
    pub timed_out: bool,
    pub tier: Tier,
    pub duration: Duration,
}

/// A file to read.
#[derive(Clone, Debug, Default)]
pub struct Read {
    pub path: String,
    /// The first line, counted from 1; 0: from the start.
    pub offset: u64,
    /// The number of lines; 0: all.
    pub limit: u64,
}

/// The content of a file.
#[derive(Clone, Debug)]
pub struct ReadAnswer {
    pub summary: String,
    pub content: Captured,
    pub total_lines: u64,
    /// Not text: only its size is returned.
    pub binary: bool,
}

/// A file to write.
#[derive(Clone, Debug, Default)]
pub struct Write {
    pub path: String,
    pub content: String,
    pub append: bool,
}

/// The result of a write.
#[derive(Clone, Debug)]
pub struct WriteAnswer {
    pub summary: String,
    pub bytes_written: u64,
}

/// Stored output.
#[derive(Clone, Debug)]
pub struct ContentAnswer {
    pub content: String,
    pub kind: ContentKind,
    /// The total size; more than is returned if it is too long for one answer.
    pub total_bytes: u64,
}

/// A chunk of raw output for the scrubber.
enum Chunk {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
}

impl Workbench {
    /// Runs a command in the sandbox. A failing command is an answer, not an error.
    pub async fn exec(
        &self,
        session: &SessionId,
        project: &Project,
        exec: Exec,
    ) -> Result<ExecAnswer, Error> {
        self.exec_until(session, project, exec, std::future::pending()).await
    }

    /// Runs a command that is killed when `stop` completes; its output up to then is returned.
    pub async fn exec_until(
        &self,
        session: &SessionId,
        project: &Project,
        exec: Exec,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<ExecAnswer, Error> {
        self.exec_watched(session, project, exec, stop, None).await
    }

    /// Runs a command as `exec_until` does, and shows its output while it runs.
    pub async fn exec_watched(
        &self,
        session: &SessionId,
        project: &Project,
        exec: Exec,
        stop: impl Future<Output = ()> + Send,
        watcher: Option<OutputWatcher>,
    ) -> Result<ExecAnswer, Error> {
        let scrubber = scrubber_for(project, &exec)?;
        let shown = scrubber.scrub_text(&command_shown(&exec.command));
        let warnings = project
            .policies()
            .and_then(|policies| policies.enforce(PolicyAction::Command(&exec.command)))
            .map_err(|error| scrubbed(&scrubber, error))?;
        let stop = std::pin::pin!(stop);
        let result = self.exec_raw(session, &project.root, &scrubber, exec, (stop, watcher)).await;
        let (end, stdout, stderr) = result.map_err(|error| scrubbed(&scrubber, error))?;
        let summary = exec_summary(&shown, &end, &stdout) + &warned(&warnings);
        Ok(ExecAnswer {
            summary,
            stdout,
            stderr,
            exit_code: end.exit_code,
            timed_out: end.timed_out,
            tier: end.tier,
            duration: end.duration,
        })
    }

    /// Runs a command and captures its output, until it ends, times out or is stopped.
    async fn exec_raw(
        &self,
        session: &SessionId,
        root: &ProjectRoot,
        scrubber: &Scrubber,
        exec: Exec,
        (mut stop, watcher): (Pin<&mut (impl Future<Output = ()> + Send)>, Option<OutputWatcher>),
    ) -> Result<(CommandEnd, Captured, Captured), Error> {
        let command = command(root, &exec)?;
        let permit = tokio::select! {
            biased;
            () = &mut stop => return Err(Error::new(ErrorCode::CommandFailed, "it was ended before it began")),
            permit = self.commands.acquire() => permit,
        };
        let _permit = permit.map_err(|_| Error::new(ErrorCode::SandboxFailed, "the workbench is closing"))?;
        let capture = || -> Result<Capture, Error> {
            Ok(capture(&self.refs, session, scrubber.stream())?.watched_by(watcher.clone()))
        };
        let (stdout, stderr) = (capture()?, capture()?);
        let running = self.sandbox.run_within(command, self.run_limits(session)).await?;
        let mut running = Stoppable { running, stop: Some(stop) };
        let first = match running.next().await {
            // Without output there is nothing to scrub and no need for another thread.
            Some(Output::Ended(end)) => return Ok((end, silent(stdout)?, silent(stderr)?)),
            first => first,
        };
        let (chunks, waiting) = mpsc::channel(limits::CHUNKS_WAITING_MAX);
        // Scrubbing is CPU work and the disk may be slow, so both run on a blocking thread.
        let captured = tokio::task::spawn_blocking(move || take_all(waiting, stdout, stderr));
        let end = hand_on(running, first, chunks).await;
        let captured = captured.await.map_err(|error| storage(&error.to_string()))?;
        let (stdout, stderr) = captured.map_err(|error| storage(&error.to_string()))?;
        let end =
            end.ok_or_else(|| Error::new(ErrorCode::CommandFailed, "the command ended without a word"))?;
        Ok((end, stdout, stderr))
    }

    /// Reads a file of the project.
    pub async fn read(
        &self,
        session: &SessionId,
        project: &Project,
        read: Read,
    ) -> Result<ReadAnswer, Error> {
        let (refs, session, project) = (Arc::clone(&self.refs), session.clone(), project.clone());
        let done = tokio::task::spawn_blocking(move || {
            read_file(&refs, &session, &project, &read).map_err(|error| scrubbed(&project.scrubber, error))
        });
        done.await.map_err(|error| storage(&error.to_string()))?
    }

    /// Writes a file of the project, or appends to it.
    pub async fn write(&self, project: &Project, write: Write) -> Result<WriteAnswer, Error> {
        let project = project.clone();
        let done = tokio::task::spawn_blocking(move || {
            write_file(&project, &write).map_err(|error| scrubbed(&project.scrubber, error))
        });
        done.await.map_err(|error| storage(&error.to_string()))?
    }

    /// Stores text that is already scrubbed and returns its ref; `None` if it is empty.
    pub async fn store_text(&self, session: &SessionId, text: String) -> Result<Option<String>, Error> {
        let (refs, session) = (Arc::clone(&self.refs), session.clone());
        let stored = tokio::task::spawn_blocking(move || {
            let mut writer = refs.writer(&session)?;
            writer.write(text.as_bytes())?;
            writer.finish(ContentKind::Text)
        });
        let stored = stored.await.map_err(|error| storage(&error.to_string()))?;
        stored.map_err(|error| storage(&error.to_string()))
    }

    /// Returns stored output from `offset` on, as much as one answer holds. With a session, only output of
    /// that session.
    pub async fn content(
        &self,
        session: Option<&SessionId>,
        ref_id: &str,
        offset: u64,
    ) -> Result<ContentAnswer, Error> {
        let (refs, session, id) = (Arc::clone(&self.refs), session.cloned(), ref_id.to_owned());
        let read = tokio::task::spawn_blocking(move || {
            refs.read(session.as_ref(), &id, offset, limits::REF_READ_MAX)
        });
        let content = read.await.map_err(|error| storage(&error.to_string()))?;
        let content = content.map_err(|error| scrubbed(&self.scrubber, error))?;
        let text = String::from_utf8_lossy(&content.bytes).into_owned();
        Ok(ContentAnswer { content: text, kind: content.kind, total_bytes: content.total_bytes })
    }
}

/// Secrets in a command's environment must not appear in its output.
fn scrubber_for(project: &Project, exec: &Exec) -> Result<Scrubber, Error> {
    let given = KnownSecret::from_env(exec.env.iter().map(|(name, value)| (name, value)));
    if given.is_empty() { Ok(project.scrubber.clone()) } else { project.scrubber.adding_known(&given) }
}

/// Validates a request and builds its command.
fn command(root: &ProjectRoot, exec: &Exec) -> Result<Command, Error> {
    if exec.command.trim().is_empty() {
        return Err(Error::invalid("cmd", "is empty"));
    }
    if exec.command.len() > limits::EXEC_COMMAND_MAX {
        return Err(Error::invalid(
            "cmd",
            format_args!("is longer than {} bytes; write it to a file first", limits::EXEC_COMMAND_MAX),
        ));
    }
    let timeout = exec.timeout.unwrap_or(limits::EXEC_WAIT);
    if timeout.is_zero() || timeout > limits::EXEC_WAIT_MAX {
        let most = limits::EXEC_WAIT_MAX.as_secs();
        return Err(Error::invalid("timeout", format_args!("must be between 1 and {most} seconds")));
    }
    let cwd = if exec.working_dir.is_empty() { PathBuf::new() } else { root.below(&exec.working_dir)? };
    let shell = if std::path::Path::new("/bin/bash").exists() { "/bin/bash" } else { "/bin/sh" };
    Ok(Command {
        root: root.path().to_owned(),
        cwd,
        argv: [shell, "-c", &exec.command].map(OsString::from).to_vec(),
        env: exec.env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        limits: Limits::default(),
        network: Network::default(),
        timeout,
    })
}

fn capture(refs: &Arc<Refs>, session: &SessionId, stream: crate::scrub::Stream) -> Result<Capture, Error> {
    let writer = refs.writer(session).map_err(|error| storage(&error.to_string()))?;
    Ok(Capture::new(stream, writer))
}

/// A command that is killed when a future completes.
struct Stoppable<'a, F> {
    running: Running,
    /// `None` after the future has completed.
    stop: Option<Pin<&'a mut F>>,
}

impl<F: Future<Output = ()>> Stoppable<'_, F> {
    /// Returns the next output, as [`Running::next`] does.
    async fn next(&mut self) -> Option<Output> {
        if let Some(stop) = &mut self.stop {
            tokio::select! {
                biased;
                () = stop => {}
                output = self.running.next() => return output,
            }
            self.stop = None;
            self.running.kill();
        }
        self.running.next().await
    }
}

/// Forwards a command's output until its end. If the receiver is gone, the command is killed by being
/// dropped.
async fn hand_on<F: Future<Output = ()>>(
    mut running: Stoppable<'_, F>,
    first: Option<Output>,
    chunks: mpsc::Sender<Chunk>,
) -> Option<CommandEnd> {
    let mut next = first;
    while let Some(output) = next {
        let chunk = match output {
            Output::Stdout(bytes) => Chunk::Stdout(bytes),
            Output::Stderr(bytes) => Chunk::Stderr(bytes),
            Output::Ended(end) => return Some(end),
        };
        if chunks.send(chunk).await.is_err() {
            return None;
        }
        next = running.next().await;
    }
    None
}

/// Ends the capture of an empty output.
fn silent(capture: Capture) -> Result<Captured, Error> {
    capture.finish(ContentKind::Text).map_err(|error| storage(&error.to_string()))
}

/// Captures both outputs until the command closes them. Blocks, so it runs on a blocking thread.
fn take_all(
    mut chunks: mpsc::Receiver<Chunk>,
    mut stdout: Capture,
    mut stderr: Capture,
) -> std::io::Result<(Captured, Captured)> {
    while let Some(chunk) = chunks.blocking_recv() {
        match chunk {
            Chunk::Stdout(bytes) => stdout.push(&bytes)?,
            Chunk::Stderr(bytes) => stderr.push(&bytes)?,
        }
    }
    Ok((stdout.finish(ContentKind::Text)?, stderr.finish(ContentKind::Text)?))
}

/// Reads a file if the policies allow it. Of a binary file only a summary is returned.
fn read_file(
    refs: &Arc<Refs>,
    session: &SessionId,
    project: &Project,
    read: &Read,
) -> Result<ReadAnswer, Error> {
    let failed = |error: std::io::Error| Error::invalid("path", format_args!("{}: {error}", read.path));
    let warnings = project.policies()?.enforce(PolicyAction::Read(&read.path))?;
    let mut opened = project.root.open_file(&read.path)?;
    let (binary, head) = opened.is_binary().map_err(failed)?;
    let shown = project.scrubber.scrub_text(&read.path);
    let path = opened.path.to_string_lossy().into_owned();
    let stream = project.scrubber.stream_of(&path).keeping_lines();
    let limit = (read.limit > 0).then_some(read.limit);
    let mut capture = capture(refs, session, stream)?.only_lines(read.offset.saturating_sub(1), limit);
    if !binary {
        fill(&mut capture, &head, &mut opened).map_err(failed)?;
    }
    let kind = if path.ends_with(".json") { ContentKind::Json } else { ContentKind::Text };
    let content = capture.finish(kind).map_err(|error| storage(&error.to_string()))?;
    let summary = if binary {
        format!("Read: {shown} (binary, {} bytes; not shown)", opened.bytes)
    } else {
        format!("Read: {shown} ({} lines, {} bytes)", content.lines, opened.bytes)
    } + &warned(&warnings);
    Ok(ReadAnswer { summary, total_lines: content.lines, content, binary })
}

/// Reads the rest of a file into the capture, up to the size limit.
fn fill(capture: &mut Capture, head: &[u8], opened: &mut OpenedFile) -> std::io::Result<()> {
    capture.push(head)?;
    let mut buffer = vec![0; sandbox::limits::OUTPUT_CHUNK_MAX];
    // A file may grow while it is read; the size limit still applies.
    let mut left = limits::READ_FILE_MAX.saturating_sub(head.len() as u64);
    loop {
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match opened.file.read(&mut buffer[..most])? {
            0 => return Ok(()),
            len => {
                capture.push(&buffer[..len])?;
                left -= len as u64;
            }
        }
    }
}

/// Writes a file if the policies allow it.
fn write_file(project: &Project, write: &Write) -> Result<WriteAnswer, Error> {
    let action = PolicyAction::Write { path: &write.path, content: &write.content };
    let warnings = project.policies()?.enforce(action)?;
    let content = write.content.as_bytes();
    let written = if write.append {
        project.root.append(&write.path, content)
    } else {
        project.root.write(&write.path, content)
    }?;
    let what = match (write.append, written.created) {
        (_, true) => "Created",
        (true, false) => "Appended to",
        (false, false) => "Wrote",
    };
    let shown = project.scrubber.scrub_text(&write.path);
    let summary = format!("{what}: {shown} ({} bytes)", written.bytes) + &warned(&warnings);
    Ok(WriteAnswer { summary, bytes_written: written.bytes })
}

/// Returns one line about how a command ended.
fn exec_summary(shown: &str, end: &CommandEnd, stdout: &Captured) -> String {
    let mut facts = if end.timed_out {
        format!("timed out after {} s", end.duration.as_secs())
    } else {
        format!("exit {}", end.exit_code)
    };
    if stdout.lines > 0 {
        facts.push_str(&format!(", {} line{}", stdout.lines, if stdout.lines == 1 { "" } else { "s" }));
    }
    format!("Executed: {shown} ({facts}) [sandbox: {}]", end.tier)
}

/// Returns the policy warnings for a summary.
fn warned(warnings: &[Violation]) -> String {
    let titles: Vec<&str> = warnings.iter().map(|warning| warning.title.as_str()).collect();
    if titles.is_empty() { String::new() } else { format!(" [policy: {}]", titles.join("; ")) }
}

/// Scrubs an error, which may quote its input.
fn scrubbed(scrubber: &Scrubber, mut error: Error) -> Error {
    error.message = scrubber.scrub_text(&error.message);
    error.detail = error.detail.map(|detail| scrubber.scrub_text(&detail));
    error
}

fn storage(detail: &str) -> Error {
    Error::new(ErrorCode::StorageFailed, "output cannot be stored").with_detail(detail)
}
