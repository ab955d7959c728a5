//! An [`AgentLink`]: the daemon's connection to one agent. Reads the spool from its files, is woken by the
//! connection, sends input and signals without waiting. Dropping it leaves the agent as it is. Must not
//! interpret output, and keeps no position that its caller has not been given.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use shim::frame::{Refusal, Target, ToShim, Welcome};
use shim::record::{Exit, Fault, HEADER_LEN, Input, Meta, Parsed, Stream, parse};
use shim::spool::{Batch, Reader, Step, read_meta, segment_name, segment_number};
use shim::{Position, proc_table};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time;

use super::connection::{self, Greeting, ShimReachability, ShimState};
use super::limits::{LOOK_INTERVAL, READ_RETRY};
use super::outbox::{Outbox, WriteError};
use super::spool::{self, Spool};
use super::{run_limits, scan};
use host::clock;
use host::process_tree as tree;

/// Why attaching to an agent failed.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The shim obeys another daemon, or does not trust this one.
    #[error("the shim refused: {0:?}")]
    Refused(Refusal),
    /// The directory cannot be used, or a living shim did not answer in time.
    #[error("the shim cannot be reached: {0}")]
    Unreachable(#[from] io::Error),
}

/// The next item from an agent.
#[derive(Debug)]
pub enum AgentOutput {
    /// New records. Commit [`Batch::after`] together with the events made of them.
    Records(Batch),
    /// Everything was read and nothing more will come. Repeated on further calls.
    Ended(OutputEnd),
    /// The spool is damaged at this position and cannot be read past it. Repeated on further calls.
    Corrupt { at: Position, fault: Fault },
    /// Another daemon has taken over; this one must not touch the agent any more.
    Refused(Refusal),
    /// The spool's files cannot be read. The next call retries after a pause.
    Unreadable(io::Error),
}

/// How an agent's output ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputEnd {
    /// The agent ended and its shim recorded how. Answer with [`AgentLink::ack_exit`] once that is committed.
    Exited(Exit),
    /// The shim was killed, and the agent with it. Use `tree::kill_tree` for what the agent left running.
    ShimLost,
}

/// The daemon's connection to one agent.
pub struct AgentLink {
    dir: PathBuf,
    spool: Spool,
    welcome: Option<Welcome>,
    meta: Option<Meta>,
    exit: Option<Exit>,
    last_write_id: u64,
    /// Records were returned, so the spool exists and this link is not behind its end.
    has_read: bool,
    /// Segments before this one are already deleted.
    discarded_before: u32,
    controls: AgentControls,
    state: watch::Receiver<ShimState>,
    keeper: Option<JoinHandle<()>>,
}

/// Sends to an agent. Can be cloned and used from anywhere. No method waits.
#[derive(Clone, Debug)]
pub struct AgentControls {
    outbox: Arc<Outbox>,
}

impl AgentControls {
    /// Queues `bytes` for the agent's stdin. Ids must increase; an id that was used before is ignored.
    ///
    /// Delivery is confirmed by a [`Stream::Input`] record with this id.
    pub fn write(&self, write_id: u64, bytes: &[u8]) -> Result<(), WriteError> {
        self.outbox.push_input(write_id, &ToShim::Input { write_id, bytes })
    }

    /// Closes the agent's stdin after all earlier input. Confirmed by an input record, as for
    /// [`AgentControls::write`].
    pub fn close_stdin(&self, write_id: u64) -> Result<(), WriteError> {
        self.outbox.push_input(write_id, &ToShim::CloseStdin { write_id })
    }

    /// Sends a signal ahead of all pending input. `SIGKILL` to the tree is repeated until nothing is left.
    pub fn signal(&self, target: Target, signo: i32) -> Result<(), WriteError> {
        self.outbox.push_urgent(&ToShim::Signal { signo, target })
    }

    /// Tells the shim that the exit is committed, so that it exits. Has no effect while the agent runs.
    pub fn ack_exit(&self) -> Result<(), WriteError> {
        self.outbox.push_urgent(&ToShim::AckExit)
    }
}

impl AgentLink {
    /// Attaches to the agent in `dir`, reading from `from`. If its shim is dead, the link reads the rest of
    /// the spool and then reports the end.
    ///
    /// `epoch` must not be lower than that of any daemon before; an equal one takes over.
    pub async fn attach(dir: &Path, from: Position, epoch: u64) -> Result<AgentLink, AttachError> {
        let dir = std::path::absolute(dir)?;
        std::fs::metadata(&dir)?;
        let greeting = match scan::is_held(&dir)? {
            true => connection::greet(&dir, epoch).await?,
            false => Greeting::Gone,
        };
        let outbox = Arc::new(Outbox::default());
        let controls = AgentControls { outbox: outbox.clone() };
        let reach =
            if matches!(greeting, Greeting::Gone) { ShimReachability::Gone } else { ShimReachability::Alive };
        let (state_tx, state) = watch::channel(ShimState { head: Position::START, reach });
        let (welcome, keeper) = match greeting {
            Greeting::Refused(refusal) => return Err(AttachError::Refused(refusal)),
            Greeting::Gone => {
                outbox.close();
                (None, None)
            }
            Greeting::Welcomed(connection, welcome) => {
                state_tx.send_modify(|state| state.head = welcome.head);
                outbox.rewind(welcome.last_write_id);
                let keeper = tokio::spawn(connection::keep(dir.clone(), epoch, connection, outbox, state_tx));
                (Some(welcome), Some(keeper))
            }
        };
        let last_write_id = welcome.map_or(0, |welcome| welcome.last_write_id);
        // Only a hint, refreshed by the records themselves. An unreadable spool is reported when it is read.
        let meta = read_meta(&dir, from.segment).unwrap_or_default();
        let spool = Spool::new(Reader::new(&dir, from));
        Ok(AgentLink {
            dir,
            spool,
            welcome,
            meta,
            exit: None,
            last_write_id,
            has_read: false,
            discarded_before: 0,
            controls,
            state,
            keeper,
        })
    }

    /// Waits for the next item. Cancel-safe: an item that was not returned is returned by the next call.
    pub async fn next(&mut self) -> AgentOutput {
        loop {
            // Taken before reading: a later announcement wakes us again.
            let newest = *self.state.borrow_and_update();
            if self.is_read_to(newest) && self.is_announced().await {
                continue;
            }
            let (state, step) = self.spool.step(newest).await;
            let at = self.spool.position();
            let is_gone = state.reach == ShimReachability::Gone;
            match step {
                Ok(Step::Records(batch)) => {
                    self.observe(&batch);
                    return AgentOutput::Records(batch);
                }
                Ok(Step::Corrupt { at, fault }) => return AgentOutput::Corrupt { at, fault },
                // The shim announced complete records here.
                Ok(Step::Torn(fault)) if state.head > at => return AgentOutput::Corrupt { at, fault },
                Ok(Step::Dry) if state.head > at => {
                    return AgentOutput::Corrupt { at, fault: Fault::MissingSegment };
                }
                Ok(Step::Dry | Step::Torn(_)) if is_gone || self.exit.is_some() => {
                    return AgentOutput::Ended(self.end());
                }
                Ok(Step::Dry) if self.welcome.is_some_and(|welcome| welcome.exited) => {
                    // Attached after the exit record: it was committed but not acknowledged.
                    if let OutputEnd::Exited(exit) = self.end() {
                        return AgentOutput::Ended(OutputEnd::Exited(exit));
                    }
                }
                Ok(Step::Dry | Step::Torn(_)) => {}
                Err(error) => return AgentOutput::Unreadable(error),
            }
            if let ShimReachability::Refused(refusal) = state.reach {
                return AgentOutput::Refused(refusal);
            }
            if state == newest {
                self.is_announced().await;
            }
        }
    }

    /// Returns whether everything announced has been returned; then there is no need to read the disk.
    fn is_read_to(&self, newest: ShimState) -> bool {
        self.has_read
            && newest.reach == ShimReachability::Alive
            && self.exit.is_none()
            && self.spool.position() >= newest.head
    }

    /// Waits for an announcement. Returns false if there was none for so long that the spool should be read
    /// anyway.
    async fn is_announced(&mut self) -> bool {
        match time::timeout(LOOK_INTERVAL, self.state.changed()).await {
            Ok(Ok(())) => true,
            Ok(Err(_)) => {
                // There is no sender of announcements left (the runtime is shutting down): do not spin.
                time::sleep(READ_RETRY).await;
                false
            }
            Err(_) => false,
        }
    }

    /// Returns a handle for sending to the agent from elsewhere.
    pub fn controls(&self) -> AgentControls {
        self.controls.clone()
    }

    /// See [`AgentControls::write`].
    pub fn write(&self, write_id: u64, bytes: &[u8]) -> Result<(), WriteError> {
        self.controls.write(write_id, bytes)
    }

    /// See [`AgentControls::close_stdin`].
    pub fn close_stdin(&self, write_id: u64) -> Result<(), WriteError> {
        self.controls.close_stdin(write_id)
    }

    /// See [`AgentControls::signal`].
    pub fn signal(&self, target: Target, signo: i32) -> Result<(), WriteError> {
        self.controls.signal(target, signo)
    }

    /// See [`AgentControls::ack_exit`].
    pub fn ack_exit(&self) -> Result<(), WriteError> {
        self.controls.ack_exit()
    }

    /// Returns the agent's pid; unknown only if the shim is dead and the spool unreadable.
    pub fn agent_pid(&self) -> Option<u32> {
        self.welcome.map(|welcome| welcome.agent_pid).or(self.meta.map(|meta| meta.agent_pid))
    }

    /// Returns the shim's pid, if it was alive when attaching.
    pub fn shim_pid(&self) -> Option<u32> {
        self.welcome.map(|welcome| welcome.shim_pid)
    }

    /// Returns the means to reach the agent without its shim.
    pub fn outside(&self) -> UnlinkedAgent {
        UnlinkedAgent { dir: self.dir.clone(), meta: self.meta }
    }

    /// Returns how long the agent has been running, independent of the wall clock; `None` if that is unknown.
    pub fn agent_age(&self) -> Option<Duration> {
        let meta = self.meta.filter(|meta| meta.start_ticks != 0 && meta.boot_id == proc_table::boot_id())?;
        Some(clock::since_ticks(meta.start_ticks))
    }

    /// Returns the identity of the agent, for `tree::kill_tree`.
    pub fn meta(&self) -> Option<Meta> {
        self.meta
    }

    /// Returns the highest input id that the shim is known to have accepted; ids above it must be sent again.
    pub fn last_write_id(&self) -> u64 {
        self.last_write_id
    }

    /// Returns whether there is more to read than the next batch.
    pub fn is_far_behind(&self) -> bool {
        !spool::is_near(self.spool.position(), self.state.borrow().head)
    }

    /// Returns the position before the next record.
    pub fn position(&self) -> Position {
        self.spool.position()
    }

    /// Deletes the segments before `segment`. Call it only when their content is committed. Touches the disk
    /// only if there may be something to delete.
    pub fn discard_before(&mut self, segment: u32) -> io::Result<()> {
        let segment = segment.min(self.spool.position().segment);
        if segment > self.discarded_before {
            discard_before(&self.dir, segment)?;
            self.discarded_before = segment;
        }
        Ok(())
    }

    /// Erases what was read before `at` in its segment, except for the first record, which identifies the
    /// agent. Call it only when what was read is committed.
    pub fn erase_before(&mut self, at: Position) -> io::Result<()> {
        let at = at.min(self.spool.position());
        erase_before(&self.dir, at)
    }

    /// Releases the agent once everything urgent is sent (an acknowledgement, a signal). Dropping the link
    /// does the same but does not tell when it is done.
    pub async fn close(mut self) {
        self.controls.outbox.finish();
        if let Some(keeper) = self.keeper.take() {
            // The task ends within a bounded time; its result does not matter.
            let _ = keeper.await;
        }
    }

    /// Updates what is known about the agent from records, and confirms delivered inputs.
    fn observe(&mut self, batch: &Batch) {
        self.has_read = true;
        for record in batch.records() {
            match record.stream {
                Stream::Meta => self.meta = Meta::decode(record.payload).or(self.meta),
                Stream::Exit => self.exit = Exit::decode(record.payload).or(self.exit),
                Stream::Input => {
                    if let Some(input) = Input::decode(record.payload) {
                        self.last_write_id = self.last_write_id.max(input.write_id);
                        self.controls.outbox.confirm(input.write_id);
                    }
                }
                Stream::Out | Stream::Err | Stream::Other(_) => {}
            }
        }
    }

    /// Returns how the agent ended: the exit record, even if it lies before the position this link was
    /// attached at.
    fn end(&mut self) -> OutputEnd {
        if self.exit.is_none() {
            self.exit = find_exit(&self.dir, self.spool.position());
        }
        self.exit.map_or(OutputEnd::ShimLost, OutputEnd::Exited)
    }
}

/// An agent that is reached without its shim.
pub struct UnlinkedAgent {
    dir: PathBuf,
    meta: Option<Meta>,
}

impl UnlinkedAgent {
    /// Kills what the agent left running when its shim was killed. A living shim is killed first: call this
    /// only if it is no longer needed, because how its agent ended will not be known.
    pub async fn kill_left_behind(&self) {
        scan::kill_holder(&self.dir);
        run_limits::kill_group(&self.dir).await;
        let Ok(mark) = tree::mark_of(&self.dir) else { return };
        match tree::kill_tree(self.meta.as_ref(), &mark).await {
            Ok(0) => {}
            Ok(left) => {
                tracing::warn!(left, dir = %self.dir.display(), "processes of an agent resist being killed");
            }
            Err(error) => {
                tracing::warn!(%error, dir = %self.dir.display(), "cannot look for an agent's processes");
            }
        }
    }
}

impl Drop for AgentLink {
    fn drop(&mut self) {
        // The connection task sends everything urgent and then ends.
        self.controls.outbox.finish();
    }
}

/// Overwrites a segment's records before `at`, except for the first: with a hole, otherwise with zeros.
fn erase_before(dir: &Path, at: Position) -> io::Result<()> {
    let file =
        match std::fs::OpenOptions::new().read(true).write(true).open(dir.join(segment_name(at.segment))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
    let from = first_record_len(&file)?;
    let Some(length) = at.offset.checked_sub(from).filter(|length| *length > 0) else { return Ok(()) };
    match punch(&file, from, length) {
        // Not every file system supports holes.
        Err(_) => {
            let zeros = [0; 64 << 10];
            let mut at = from;
            while at < from + length {
                let count = (from + length - at).min(zeros.len() as u64) as usize;
                file.write_all_at(&zeros[..count], at)?;
                at += count as u64;
            }
            Ok(())
        }
        done => done,
    }
}

/// Frees the disk blocks of a part of a file; that part reads as zeros from then on.
#[cfg(target_os = "linux")]
fn punch(file: &std::fs::File, from: u64, length: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    Ok(fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, from, length)?)
}

#[cfg(not(target_os = "linux"))]
fn punch(_file: &std::fs::File, _from: u64, _length: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the length of the first record, which is never erased.
fn first_record_len(file: &std::fs::File) -> io::Result<u64> {
    let mut bytes = [0; 512];
    let got = file.read_at(&mut bytes, 0)?;
    Ok(match parse(&bytes[..got]) {
        Parsed::Whole(header) => HEADER_LEN as u64 + u64::from(header.len),
        // Its end is unknown, so nothing is erased.
        Parsed::Partial | Parsed::Bad(_) => u64::MAX,
    })
}

/// Returns the exit record before `end`, which can only be in the last segment. Tries the last record first,
/// since everything before it may be erased.
fn find_exit(dir: &Path, end: Position) -> Option<Exit> {
    last_record(dir, end).or_else(|| read_exit(dir, end))
}

fn last_record(dir: &Path, end: Position) -> Option<Exit> {
    let file = std::fs::File::open(dir.join(segment_name(end.segment))).ok()?;
    let offset = end.offset.checked_sub((HEADER_LEN + Exit::LEN) as u64)?;
    let mut bytes = [0; HEADER_LEN + Exit::LEN];
    file.read_exact_at(&mut bytes, offset).ok()?;
    match parse(&bytes) {
        Parsed::Whole(header) if header.stream == Stream::Exit => Exit::decode(&bytes[HEADER_LEN..]),
        _ => None,
    }
}

fn read_exit(dir: &Path, end: Position) -> Option<Exit> {
    let mut reader = Reader::new(dir, Position { segment: end.segment, offset: 0 });
    let mut exit = None;
    while let Ok(Step::Records(batch)) = reader.step() {
        let last = batch.records().filter(|record| record.stream == Stream::Exit).last();
        exit = last.and_then(|record| Exit::decode(record.payload)).or(exit);
    }
    exit
}

fn discard_before(dir: &Path, segment: u32) -> io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        if let Some(number) = segment_number(&entry?.file_name()).filter(|number| *number < segment) {
            match std::fs::remove_file(dir.join(segment_name(number))) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}
