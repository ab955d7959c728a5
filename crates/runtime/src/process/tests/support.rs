//! What the tests of agent processes share: starting shells, collecting output, waiting with a deadline.

use std::ffi::OsString;
use std::future::Future;
use std::path::Path;
use std::time::Duration;

use super::reexec::shim_exe;
use crate::process::scan::is_held;
use crate::process::{
    Delivery, End, Exit, HoldLimits, Holder, Input, Link, Next, ProcessPlan, SpawnError, Stream,
};

/// Everything a test waits for happens within this time or the test fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A plan to run `script` in a shell.
pub(crate) fn shell(script: &str) -> ProcessPlan {
    command("sh", &["-c", script])
}

pub(crate) fn command(program: &str, args: &[&str]) -> ProcessPlan {
    let path = std::env::var_os("PATH").unwrap_or_default();
    ProcessPlan {
        program: program.into(),
        args: args.iter().map(OsString::from).collect(),
        env: vec![("PATH".into(), path)],
        cwd: "/".into(),
    }
}

pub(crate) async fn spawn(dir: &Path, plan: &ProcessPlan) -> Result<Link, SpawnError> {
    within(Holder::spawn(&shim_exe(), dir, plan, 1, &HoldLimits::default())).await
}

pub(crate) async fn within<T>(waiting: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, waiting).await.expect("nothing happened in time")
}

/// What an agent did until some point.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
    pub(crate) inputs: Vec<(u64, Delivery)>,
    pub(crate) metas: usize,
    pub(crate) exits: Vec<Exit>,
}

impl Seen {
    pub(crate) fn add(&mut self, batch: &crate::process::Batch) {
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

    /// Reads on until `done`.
    pub(crate) async fn until(&mut self, link: &mut Link, done: impl Fn(&Seen) -> bool) {
        within(async {
            while !done(self) {
                match link.next().await {
                    Next::Records(batch) => self.add(&batch),
                    other => panic!("ended early: {other:?} after {self:?}"),
                }
            }
        })
        .await;
    }

    /// Reads on until the end.
    pub(crate) async fn until_end(&mut self, link: &mut Link) -> End {
        within(async {
            loop {
                match link.next().await {
                    Next::Records(batch) => self.add(&batch),
                    Next::Ended(end) => return end,
                    other => panic!("unexpected {other:?}"),
                }
            }
        })
        .await
    }
}

pub(crate) fn exited(code: i32) -> End {
    End::Exited(Exit { code, signal: 0, lost_bytes: 0 })
}

/// Waits until no shim holds `dir`.
pub(crate) async fn gone(dir: &Path) {
    until(|| !is_held(dir).unwrap()).await;
}

/// Waits for something that has no event of its own.
pub(crate) async fn until(mut happened: impl FnMut() -> bool) {
    within(async {
        while !happened() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}
