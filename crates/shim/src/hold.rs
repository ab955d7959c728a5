//! The loop: one thread, one poll(2), one agent. Moves output to the spool and input to the agent, and
//! carries out commands. Never blocks on anything but the disk, never drops output, never ends an agent
//! because of a full disk. Must not parse what flows through it.

mod ending;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::process;
use std::time::Duration;

use crate::agent::Agent;
use crate::control::{Command, Control};
use crate::frame::{Target, Welcome};
use crate::home::Home;
use crate::input::{InputQueue, InputWork};
use crate::limits::{HOME_CHECK_INTERVAL, PROTOCOL, READ_BYTES_MAX, STALL_RETRY};
use crate::record::{Exit, Stream};
use crate::spool::Writer;
use crate::sys;
use ending::{Killing, signal_tree};

/// Everything the shim holds.
pub(crate) struct Shim {
    home: Home,
    spool: Writer,
    control: Control,
    agent: Agent,
    input: InputQueue,
    signals: File,
    /// Output between the pipe and the disk. Its pages are touched only as far as reads fill them.
    buffer: Vec<u8>,
    phase: Phase,
    /// A record the disk did not accept; nothing else is read or written until it does.
    stalled: Option<Stalled>,
    retry_at_ns: u64,
    killing: Option<Killing>,
    home_check_at_ns: u64,
    linger_ns: u64,
    daemon_seen_ns: u64,
    /// No daemon will ask for the result: exit as soon as it is on disk.
    is_abandoned: bool,
    /// The directory was removed: nothing can be stored any more.
    is_homeless: bool,
    waits: Vec<libc::pollfd>,
}

/// The phase of the agent's life.
#[derive(Clone, Copy)]
enum Phase {
    Running,
    /// Reaped. Its descendants are being killed and its pipes drained until the deadline, when the exit
    /// record is written regardless.
    Ending {
        exit: Exit,
        deadline_ns: u64,
    },
    /// The exit record is on disk.
    Exited {
        since_ns: u64,
    },
}

/// A record that waits for the disk.
#[derive(Clone, Copy)]
enum Stalled {
    /// The first `len` bytes of the buffer.
    Output { stream: Stream, len: usize },
    /// A small record of the shim itself.
    Note { stream: Stream, bytes: [u8; 16], len: usize },
}

/// The indices in the poll set before the connections.
const SIGNALS: usize = 0;
const LISTENER: usize = 1;
const STDOUT: usize = 2;
const STDERR: usize = 3;
const STDIN: usize = 4;
const CONNECTIONS: usize = 5;

impl Shim {
    pub(crate) fn new(
        home: Home,
        spool: Writer,
        control: Control,
        agent: Agent,
        linger: Duration,
    ) -> io::Result<Shim> {
        let now = sys::monotonic_ns();
        Ok(Shim {
            home,
            spool,
            control,
            agent,
            input: InputQueue::default(),
            signals: sys::signal_fd(&[libc::SIGCHLD, libc::SIGUSR1, libc::SIGTERM])?,
            buffer: vec![0; READ_BYTES_MAX],
            phase: Phase::Running,
            stalled: None,
            retry_at_ns: 0,
            killing: None,
            home_check_at_ns: now + ns(HOME_CHECK_INTERVAL),
            linger_ns: ns(linger),
            daemon_seen_ns: now,
            is_abandoned: false,
            is_homeless: false,
            waits: Vec::with_capacity(CONNECTIONS + 4),
        })
    }

    pub(crate) fn agent_pid(&self) -> i32 {
        self.agent.pid
    }
}

/// Holds the agent until its end is acknowledged, no daemon comes for it, or its directory is removed.
pub(crate) fn run(mut hold: Shim) -> i32 {
    // The agent may have ended before the signal descriptor existed.
    hold.reap(sys::monotonic_ns());
    let mut announced = hold.spool.head();
    loop {
        let now = sys::monotonic_ns();
        let leaves = hold.on_timers(now).is_break();
        if announced != hold.spool.head() {
            announced = hold.spool.head();
            hold.control.wake(announced);
        }
        hold.control.flush(now);
        if leaves || hold.wait_and_serve().is_break() {
            hold.home.tidy();
            return 0;
        }
    }
}

type Flow = std::ops::ControlFlow<()>;

impl Shim {
    /// Handles everything that is due by the clock.
    fn on_timers(&mut self, now: u64) -> Flow {
        if now >= self.home_check_at_ns {
            self.check_home(now);
        }
        if self.control.has_daemon() {
            self.daemon_seen_ns = now;
        } else if now.saturating_sub(self.daemon_seen_ns) >= self.linger_ns && !self.is_abandoned {
            self.is_abandoned = true;
            self.kill_tree(now);
        }
        self.pass_over_tree(now);
        if self.is_homeless && self.killing.is_none() {
            return Flow::Break(());
        }
        if self.stalled.is_some() && now >= self.retry_at_ns {
            self.retry(now);
        }
        if self.spool.flush_due_ns(now).is_some_and(|due| now >= due) && self.spool.sync_aside().is_err() {
            self.check_home(now);
        }
        self.finish_if_ended(now);
        match self.phase {
            // A connected daemon that never acknowledges does not keep the shim alive forever either.
            Phase::Exited { since_ns }
                if self.is_abandoned || now >= since_ns.saturating_add(self.linger_ns) =>
            {
                Flow::Break(())
            }
            _ => Flow::Continue(()),
        }
    }

    /// Returns when the loop must run next, even without an event.
    fn next_deadline_ns(&mut self, now: u64) -> u64 {
        let mut next = self.home_check_at_ns;
        let mut consider = |at: Option<u64>| next = next.min(at.unwrap_or(u64::MAX));
        consider(self.control.deadline_ns(now));
        consider(self.killing.as_ref().map(Killing::next_pass_ns));
        consider(self.spool.flush_due_ns(now));
        consider(self.stalled.map(|_| self.retry_at_ns));
        if !self.control.has_daemon() && !self.is_abandoned {
            consider(Some(self.daemon_seen_ns.saturating_add(self.linger_ns)));
        }
        match self.phase {
            Phase::Ending { deadline_ns, .. } => consider(Some(deadline_ns)),
            // Consumed segments disappear without an event.
            Phase::Running if self.spool.is_over_cap() => consider(Some(now + ns(STALL_RETRY))),
            Phase::Exited { since_ns } => consider(Some(since_ns.saturating_add(self.linger_ns))),
            Phase::Running => {}
        }
        next
    }

    /// Waits for events and handles them: signals, commands, new connections, then input and output.
    fn wait_and_serve(&mut self) -> Flow {
        let now = sys::monotonic_ns();
        self.fill_waits(now);
        let wait_ns = self.next_deadline_ns(now).saturating_sub(now);
        // Rounded up, or the last millisecond would be spent spinning.
        let timeout_ms = i32::try_from(wait_ns.div_ceil(1_000_000)).unwrap_or(i32::MAX);
        if sys::poll(&mut self.waits, timeout_ms).is_err() {
            // Interrupted; whatever is ready will be ready the next time.
            return Flow::Continue(());
        }
        let now = sys::monotonic_ns();
        if self.is_ready(SIGNALS) {
            self.on_signals(now)?;
        }
        for index in 0..self.waits.len() - CONNECTIONS {
            if self.is_ready(CONNECTIONS + index) {
                self.control.receive(index);
                self.handle_command(index, now)?;
            }
        }
        if self.is_ready(LISTENER) {
            self.control.accept(now);
        }
        if self.is_ready(STDIN) {
            self.pump_input(now);
        }
        if self.is_ready(STDOUT) {
            self.take_output(Stream::Out, now);
        }
        if self.is_ready(STDERR) {
            self.take_output(Stream::Err, now);
        }
        Flow::Continue(())
    }

    fn is_ready(&self, index: usize) -> bool {
        self.waits.get(index).is_some_and(|wait| wait.revents != 0)
    }

    /// Fills the poll set of this round. Poll skips a descriptor of -1.
    fn fill_waits(&mut self, now: u64) {
        let takes_output = self.stalled.is_none()
            && match self.phase {
                Phase::Running => !self.spool.is_over_cap(),
                // What is left in the pipes is bounded, and it is the last output.
                Phase::Ending { .. } => true,
                Phase::Exited { .. } => false,
            };
        let takes_input = self.stalled.is_none() && matches!(self.phase, Phase::Running);
        let gives_input = takes_input && !self.input.is_empty();
        let only = |condition: bool, fd: Option<RawFd>| fd.filter(|_| condition).unwrap_or(-1);
        let wait = |fd, events| libc::pollfd { fd, events, revents: 0 };
        self.waits.clear();
        self.waits.push(wait(self.signals.as_raw_fd(), libc::POLLIN));
        self.waits.push(wait(only(true, self.control.listener_fd(now)), libc::POLLIN));
        self.waits
            .push(wait(only(takes_output, self.agent.stdout.as_ref().map(AsRawFd::as_raw_fd)), libc::POLLIN));
        self.waits
            .push(wait(only(takes_output, self.agent.stderr.as_ref().map(AsRawFd::as_raw_fd)), libc::POLLIN));
        self.waits
            .push(wait(only(gives_input, self.agent.stdin.as_ref().map(AsRawFd::as_raw_fd)), libc::POLLOUT));
        let read_allowed = !self.input.is_full();
        self.waits.extend(self.control.interests(read_allowed).map(|(fd, events)| wait(fd, events)));
    }

    /// Handles pending signals.
    fn on_signals(&mut self, now: u64) -> Flow {
        let mut record = [0; sys::SIGNAL_INFO_LEN];
        while let Ok(sys::SIGNAL_INFO_LEN) = self.signals.read(&mut record) {
            match i32::from_ne_bytes([record[0], record[1], record[2], record[3]]) {
                libc::SIGCHLD => self.reap(now),
                libc::SIGUSR1 => {
                    self.check_home(now);
                    // If it fails, the old listener still serves callers that hold its name.
                    if let Ok(listener) = self.home.bind() {
                        self.control.rebind(listener);
                    }
                }
                // The machine is shutting down. The agent ends first, so that its end is recorded.
                libc::SIGTERM if matches!(self.phase, Phase::Exited { .. }) => return Flow::Break(()),
                libc::SIGTERM => self.signal(libc::SIGTERM, Target::Group, now),
                _ => {}
            }
        }
        Flow::Continue(())
    }

    /// Carries out the commands received on a connection, until the input queue is full.
    fn handle_command(&mut self, index: usize, now: u64) -> Flow {
        while !self.input.is_full() {
            let welcome = self.welcome();
            let Some(command) = self.control.next_command(index, &welcome) else { break };
            match command {
                Command::Input { write_id, bytes } => self.take_input(write_id, InputWork::Write(bytes), now),
                Command::CloseStdin { write_id } => self.take_input(write_id, InputWork::Close, now),
                Command::Signal { signo, target } => self.signal(signo, target, now),
                Command::AckExit if matches!(self.phase, Phase::Exited { .. }) => return Flow::Break(()),
                Command::AckExit => {}
            }
        }
        Flow::Continue(())
    }

    fn welcome(&self) -> Welcome {
        Welcome {
            protocol: PROTOCOL,
            shim_pid: process::id(),
            agent_pid: self.agent.pid as u32,
            last_write_id: self.input.last_id(),
            head: self.spool.head(),
            exited: matches!(self.phase, Phase::Exited { .. }),
        }
    }

    /// Sends a signal to the agent, its group or its tree.
    fn signal(&mut self, signo: i32, target: Target, now: u64) {
        if !(1..=64).contains(&signo) {
            return;
        }
        // Once the agent is reaped, its pid may be reused by another process.
        let runs = matches!(self.phase, Phase::Running);
        match target {
            Target::Agent if runs => sys::kill(self.agent.pid, signo),
            Target::Group if runs => sys::kill(-self.agent.pid, signo),
            Target::Agent | Target::Group => {}
            Target::Tree if signo == libc::SIGKILL => self.kill_tree(now),
            Target::Tree => signal_tree(signo),
        }
    }

    fn take_input(&mut self, write_id: u64, work: InputWork, now: u64) {
        // Nothing may follow the exit record; the daemon learns from it that the input was not delivered.
        if matches!(self.phase, Phase::Running) {
            self.input.accept(write_id, work);
            self.pump_input(now);
        }
    }

    fn pump_input(&mut self, now: u64) {
        while self.stalled.is_none() {
            let Some(done) = self.input.pump(&mut self.agent.stdin) else { return };
            self.note(Stream::Input, &done.encode(), now);
        }
    }

    /// Moves output from a pipe to the spool.
    fn take_output(&mut self, stream: Stream, now: u64) {
        // An earlier step of this round may have met a full disk; the buffer is then in use.
        if self.stalled.is_some() {
            return;
        }
        let pipe = if stream == Stream::Out { &mut self.agent.stdout } else { &mut self.agent.stderr };
        let Some(open) = pipe else { return };
        match open.read(&mut self.buffer) {
            Ok(0) => *pipe = None,
            Ok(len) => {
                if self.spool.append(stream, &self.buffer[..len], now).is_err() {
                    self.stall(Stalled::Output { stream, len }, now);
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => *pipe = None,
        }
    }

    /// Appends a record of the shim itself.
    fn note(&mut self, stream: Stream, payload: &[u8], now: u64) {
        if self.spool.append(stream, payload, now).is_err() {
            let mut bytes = [0; 16];
            let len = payload.len().min(bytes.len());
            bytes[..len].copy_from_slice(&payload[..len]);
            self.stall(Stalled::Note { stream, bytes, len }, now);
        }
    }

    fn stall(&mut self, stalled: Stalled, now: u64) {
        self.stalled = Some(stalled);
        self.retry_at_ns = now + ns(STALL_RETRY);
        self.check_home(now);
    }

    fn retry(&mut self, now: u64) {
        let Some(stalled) = self.stalled.take() else { return };
        let written = match &stalled {
            Stalled::Output { stream, len } => self.spool.append(*stream, &self.buffer[..*len], now),
            Stalled::Note { stream, bytes, len } => self.spool.append(*stream, &bytes[..*len], now),
        };
        if written.is_err() {
            self.stalled = Some(stalled);
            self.retry_at_ns = now + ns(STALL_RETRY);
        }
    }

    /// Ends the agent if the directory was removed: the shim could not be found, read or stopped any more.
    fn check_home(&mut self, now: u64) {
        self.home_check_at_ns = now + ns(HOME_CHECK_INTERVAL);
        if !self.is_homeless && !self.home.is_there() {
            self.is_homeless = true;
            self.kill_tree(now);
        }
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
