//! A daemon killed at any moment loses nothing, repeats nothing, and delivers every input once.
//! The daemon here is a second process of this test binary that copies an agent's output to a file and commits
//! its length together with the position, as the real one does with its journal.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command};

use super::reexec::shim_exe;
use super::support::{DEADLINE, Seen, Session, dead, exited, gone, python, until};
use crate::{AgentLink, AgentOutput, Delivery, Input, OutputEnd, Position, Stream};

const KILLS: u64 = 60;

/// Logs what it prints and what it reads to its own files; ends with its stdin.
const AGENT: &str = r#"
import os, select, sys
printed, read = open(sys.argv[1], "w"), open(sys.argv[2], "w")
number = 0
while True:
    text = "".join("line %d %s\n" % (number + i, "x" * ((number + i) % 300)) for i in range(20))
    number += 20
    printed.write(text)
    sys.stdout.write(text)
    sys.stdout.flush()
    if select.select([0], [], [], 0.0005)[0]:
        got = os.read(0, 65536)
        if not got:
            break
        read.write(got.decode())
printed.flush()
sys.stderr.write("the end\n")
sys.exit(11)
"#;

/// What a daemon has committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Committed {
    position: Position,
    copied: u64,
    confirmed: u64,
}

impl Committed {
    fn load(work: &Path) -> Committed {
        let text = fs::read_to_string(work.join("committed")).unwrap_or_else(|_| "1 0 0 0".into());
        let numbers: Vec<u64> = text.split(' ').map(|word| word.parse().unwrap()).collect();
        let position = Position { segment: numbers[0] as u32, offset: numbers[1] };
        Committed { position, copied: numbers[2], confirmed: numbers[3] }
    }

    /// Atomic, by renaming.
    fn store(&self, work: &Path) {
        let Committed { position, copied, confirmed } = self;
        let text = format!("{} {} {copied} {confirmed}", position.segment, position.offset);
        fs::write(work.join("next"), text).unwrap();
        fs::rename(work.join("next"), work.join("committed")).unwrap();
    }
}

/// The daemon: `ingest DIR WORK EPOCH LAST_INPUT [end]`.
pub(super) fn ingest(words: &[String]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (epoch, last_input) = (words[2].parse().unwrap(), words[3].parse().unwrap());
    runtime.block_on(run_daemon(words[0].as_ref(), words[1].as_ref(), epoch, last_input, words.len() > 4));
}

async fn run_daemon(dir: &Path, work: &Path, epoch: u64, last_input: u64, ends: bool) {
    let mut committed = Committed::load(work);
    let mut copy = OpenOptions::new().create(true).append(true).open(work.join("copy")).unwrap();
    // Bytes that were copied but not committed are read again.
    copy.set_len(committed.copied).unwrap();
    let mut link = AgentLink::attach(dir, committed.position, epoch).await.unwrap();
    for id in committed.confirmed + 1..=last_input {
        link.write(id, format!("input {id}\n").as_bytes()).unwrap();
    }
    if ends {
        link.close_stdin(last_input + 1).unwrap();
    }
    loop {
        let batch = match link.next().await {
            AgentOutput::Records(batch) => batch,
            AgentOutput::Ended(end) => {
                fs::write(work.join("end"), format!("{end:?}")).unwrap();
                link.ack_exit().unwrap();
                return link.close().await;
            }
            other => panic!("{other:?}"),
        };
        for record in batch.records() {
            match record.stream {
                Stream::Out => {
                    copy.write_all(record.payload).unwrap();
                    committed.copied += record.payload.len() as u64;
                }
                Stream::Input => {
                    let input = Input::decode(record.payload).unwrap();
                    assert_eq!(
                        (input.write_id, input.delivery),
                        (committed.confirmed + 1, Delivery::Delivered)
                    );
                    committed.confirmed = input.write_id;
                }
                _ => {}
            }
        }
        committed.position = batch.after;
        committed.store(work);
        link.discard_before(batch.after.segment).unwrap();
    }
}

fn start_daemon(dir: &Path, work: &Path, epoch: u64, last_input: u64, ends: bool) -> Child {
    let errors = OpenOptions::new().create(true).append(true).open(work.join("errors")).unwrap();
    let mut command = Command::new(shim_exe());
    command.arg("ingest").arg(dir).arg(work).arg(epoch.to_string()).arg(last_input.to_string());
    command.args(ends.then_some("end")).stderr(errors).spawn().unwrap()
}

/// A small generator, so that a failing run can be repeated from its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[tokio::test]
async fn a_daemon_killed_at_any_moment_loses_and_repeats_nothing() {
    let seed = u64::from(std::process::id()) << 20 | 1;
    println!("seed {seed}");
    let mut random = Random(seed);
    let session = Session::new();
    let work = session.root();
    let mut plan = python(AGENT);
    plan.args.extend([work.join("printed").into_os_string(), work.join("read").into_os_string()]);
    session.spawn(&plan).await.close().await;
    for epoch in 1..=KILLS {
        let before = Committed::load(work);
        let mut daemon = start_daemon(&session.dir(), work, epoch, epoch, false);
        // Some daemons die while still starting, the others somewhere in their work.
        let goal = random.below(4).min(1) * (1 + random.below(200_000));
        until(|| {
            Committed::load(work).copied >= before.copied + goal || daemon.try_wait().unwrap().is_some()
        })
        .await;
        daemon.kill().unwrap();
        let status = daemon.wait().unwrap();
        let errors = fs::read_to_string(work.join("errors")).unwrap();
        assert!(status.code().is_none(), "it ended by itself: {status:?} {errors}");
    }
    let mut daemon = start_daemon(&session.dir(), work, KILLS + 1, KILLS, true);
    let deadline = std::time::Instant::now() + DEADLINE;
    until(|| daemon.try_wait().unwrap().is_some() || std::time::Instant::now() > deadline).await;
    gone(&session.dir()).await;

    assert_eq!(fs::read_to_string(work.join("end")).unwrap(), format!("{:?}", exited(11)));
    let (copied, printed) = (fs::read(work.join("copy")).unwrap(), fs::read(work.join("printed")).unwrap());
    assert!(copied == printed, "{} bytes copied, {} printed", copied.len(), printed.len());
    let inputs: String = (1..=KILLS).map(|id| format!("input {id}\n")).collect();
    assert_eq!(fs::read_to_string(work.join("read")).unwrap(), inputs);
    println!("{KILLS} kills, {} bytes, {KILLS} inputs", copied.len());
}

#[tokio::test]
async fn what_a_killed_shim_had_written_is_a_prefix_of_what_its_agent_printed() {
    for round in 0..10u64 {
        let session = Session::new();
        let (printed, read) = (session.root().join("printed"), session.root().join("read"));
        let mut plan = python(&AGENT.replace("printed.write(text)", "printed.write(text); printed.flush()"));
        plan.args.extend([printed.clone().into_os_string(), read.into_os_string()]);
        let link = session.spawn(&plan).await;
        let agent = link.agent_pid().unwrap() as i32;
        let goal = 1 + round * 5_000;
        until(|| fs::metadata(&printed).is_ok_and(|found| found.len() > goal)).await;
        let shim = shim::proc_table::find(link.shim_pid().unwrap() as i32).unwrap();
        shim::proc_table::signal(&shim, libc::SIGKILL);
        dead(agent).await;
        gone(&session.dir()).await;
        let mut link = session.attach(Position::START, 2).await;
        let mut seen = Seen::default();
        assert_eq!(seen.until_end(&mut link).await, OutputEnd::ShimLost);
        assert!(fs::read(&printed).unwrap().starts_with(&seen.out));
    }
}
