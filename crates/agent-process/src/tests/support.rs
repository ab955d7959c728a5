//! Shared by the tests of agent processes: starting shells, collecting output, waiting with a deadline.

use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use shim::proc_table;
use shim::spool::{Reader, Step};

use super::reexec::shim_exe;
use crate::scan::is_held;
use crate::{
    AgentLink, AgentOutput, AgentSpawner, Batch, Delivery, Exit, HoldLimits, Input, OutputEnd, Position,
    ProcessPlan, SpawnError, Stream, Target,
};

/// Everything a test waits for happens within this time, or the test fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A directory for one agent. Whatever still runs in it ends with the test.
pub(crate) struct Session {
    root: tempfile::TempDir,
}

impl Session {
    pub(crate) fn new() -> Session {
        Session { root: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.root.path().join("s")
    }

    pub(crate) async fn spawn(&self, plan: &ProcessPlan) -> AgentLink {
        spawn(&self.dir(), plan).await.unwrap()
    }

    pub(crate) async fn attach(&self, from: Position, epoch: u64) -> AgentLink {
        within(AgentLink::attach(&self.dir(), from, epoch)).await.unwrap()
    }

    /// Returns the position after the last record in the spool.
    pub(crate) fn head(&self) -> Position {
        let mut reader = Reader::new(&self.dir(), Position::START);
        while let Step::Records(_) = reader.step().unwrap() {}
        reader.position()
    }

    /// Acknowledges the agent's end and waits for the shim to exit.
    pub(crate) async fn acknowledge(&self, link: AgentLink) {
        link.ack_exit().unwrap();
        link.close().await;
        gone(&self.dir()).await;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let pid =
            std::fs::read_to_string(self.dir().join("lock")).ok().and_then(|text| text.trim().parse().ok());
        if is_held(&self.dir()).unwrap_or(false)
            && let Some(shim) = pid.and_then(proc_table::find)
        {
            // Processes that have left the agent's session would survive its shim.
            while let Ok(left) = proc_table::below(shim.pid)
                && left.iter().any(|process| proc_table::signal(process, libc::SIGKILL))
            {}
            proc_table::signal(&shim, libc::SIGKILL);
        }
    }
}

/// Returns a plan to run `script` in a shell.
pub(crate) fn shell(script: &str) -> ProcessPlan {
    command("sh", &["-c", script])
}

/// Returns a plan to run `script` in Python, unbuffered.
pub(crate) fn python(script: &str) -> ProcessPlan {
    // The interpreter itself: `python3` may be a script that starts it.
    let asked =
        std::process::Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let path = String::from_utf8(asked.unwrap().stdout).unwrap();
    command(path.trim(), &["-u", "-c", script])
}

pub(crate) fn command(program: &str, args: &[&str]) -> ProcessPlan {
    let path = std::env::var_os("PATH").unwrap_or_default();
    ProcessPlan {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        env: vec![("PATH".into(), path)],
        cwd: "/".into(),
        limits: None,
    }
}

pub(crate) async fn spawn(dir: &Path, plan: &ProcessPlan) -> Result<AgentLink, SpawnError> {
    within(AgentSpawner::spawn(&shim_exe(), dir, plan, 1, &HoldLimits::default())).await
}

pub(crate) async fn within<T>(waiting: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, waiting).await.expect("nothing happened in time")
}

/// Ends an agent and waits for its shim to exit.
pub(crate) async fn end(dir: &Path, mut link: AgentLink) {
    link.signal(Target::Tree, libc::SIGKILL).unwrap();
    assert_eq!(Seen::default().until_end(&mut link).await, killed(libc::SIGKILL));
    link.ack_exit().unwrap();
    link.close().await;
    gone(dir).await;
}

/// Waits until no shim holds `dir`.
pub(crate) async fn gone(dir: &Path) {
    until(|| !is_held(dir).unwrap()).await;
}

/// Polls for a condition that has no event.
pub(crate) async fn until(mut happened: impl FnMut() -> bool) {
    within(async {
        while !happened() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Waits until `pid` no longer runs. A zombie counts as not running, since reaping it is up to its parent.
pub(crate) async fn dead(pid: i32) {
    until(|| proc_table::find(pid).is_none_or(|process| process.is_zombie)).await;
}

pub(crate) fn is_alive(pid: i32) -> bool {
    proc_table::find(pid).is_some_and(|process| !process.is_zombie)
}

/// Private memory of a process without what is mapped from files: the relocated data of the test binary alone is almost
/// a megabyte, and says nothing about the shim.
pub(crate) fn private_anonymous_kib(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps")).ok()?;
    let (mut anonymous, mut total) = (false, 0);
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words.as_slice() {
            [range, _permissions, _offset, _device, _inode, path @ ..] if range.contains('-') => {
                anonymous = path.first().is_none_or(|path| path.starts_with('['));
            }
            [field, size, "kB"] if anonymous && field.starts_with("Private_") => {
                total += size.parse::<u64>().ok()?;
            }
            _ => {}
        }
    }
    Some(total)
}

/// What an agent did up to some point.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
    pub(crate) inputs: Vec<(u64, Delivery)>,
    pub(crate) metas: usize,
    pub(crate) exits: Vec<Exit>,
}

impl Seen {
    pub(crate) fn add(&mut self, batch: &Batch) {
        for record in batch.records() {
            match record.stream {
                Stream::Out => self.out.extend_from_slice(record.payload),
                Stream::Err => self.err.extend_from_slice(record.payload),
                Stream::Meta => self.metas += 1,
                Stream::Exit => self.exits.push(Exit::decode(record.payload).unwrap()),
                Stream::Input => {
                    let input = Input::decode(record.payload).unwrap();
                    self.inputs.push((input.write_id, input.delivery));
                }
                Stream::Other(byte) => panic!("unexpected stream {byte}"),
            }
        }
    }

    /// Reads until `done`.
    pub(crate) async fn until(&mut self, link: &mut AgentLink, done: impl Fn(&Seen) -> bool) {
        within(async {
            while !done(self) {
                match link.next().await {
                    AgentOutput::Records(batch) => self.add(&batch),
                    other => panic!("ended early: {other:?} after {self:?}"),
                }
            }
        })
        .await;
    }

    /// Reads until the end.
    pub(crate) async fn until_end(&mut self, link: &mut AgentLink) -> OutputEnd {
        within(async {
            loop {
                match link.next().await {
                    AgentOutput::Records(batch) => self.add(&batch),
                    AgentOutput::Ended(end) => return end,
                    other => panic!("unexpected {other:?}"),
                }
            }
        })
        .await
    }

    pub(crate) fn out_text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    pub(crate) fn err_text(&self) -> String {
        String::from_utf8_lossy(&self.err).into_owned()
    }

    /// Returns the number an agent printed first.
    pub(crate) fn number(&self) -> i32 {
        self.out_text().lines().next().unwrap().trim().parse().unwrap()
    }

    pub(crate) fn has_line(&self) -> bool {
        self.out.contains(&b'\n')
    }
}

pub(crate) fn exited(code: i32) -> OutputEnd {
    OutputEnd::Exited(Exit { code, signal: 0, lost_bytes: 0 })
}

pub(crate) fn killed(signal: i32) -> OutputEnd {
    OutputEnd::Exited(Exit { code: -1, signal, lost_bytes: 0 })
}
