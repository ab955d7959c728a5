//! A full disk pauses an agent and never ends it; its end is recorded even then. Needs a small file system,
//! so these tests report that they were skipped where mounting is not permitted.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::reexec::shim_exe;
use super::support::{Seen, exited, gone, is_alive, shell, until, within};
use crate::{
    AgentLink, AgentOutput, AgentSpawner, Exit, HoldLimits, OutputEnd, Position, ProcessPlan, Stream, Target,
};

/// A file system of a few megabytes.
struct SmallDisk {
    root: tempfile::TempDir,
}

impl SmallDisk {
    fn mount(megabytes: u32) -> Option<SmallDisk> {
        let root = tempfile::tempdir().unwrap();
        let option = format!("size={megabytes}m,mode=0700");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &option, "tmpfs"]).arg(root.path()).output();
        match mounted {
            Ok(output) if output.status.success() => Some(SmallDisk { root }),
            _ => {
                println!("skipped: mounting a small file system is not permitted here");
                None
            }
        }
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("s")
    }

    /// Uses segments of 1 MiB, so that consuming them frees space soon; the cap itself is out of reach.
    async fn hold(&self, plan: &ProcessPlan) -> AgentLink {
        let limits = HoldLimits { spool_bytes_max: 4 << 20, ..HoldLimits::default() };
        within(AgentSpawner::spawn(&shim_exe(), &self.dir(), plan, 1, &limits)).await.unwrap()
    }

    /// Waits until there is no room for a record of the largest size.
    async fn is_full(&self) {
        let probe = self.root.path().join("probe");
        let record = vec![0; shim::limits::READ_BYTES_MAX];
        until(|| {
            let full = std::fs::write(&probe, &record).is_err();
            let _ = std::fs::remove_file(&probe);
            full
        })
        .await;
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.root.path()).status();
    }
}

fn payload_bytes(next: &AgentOutput) -> usize {
    let AgentOutput::Records(batch) = next else { return 0 };
    batch.records().filter(|record| record.stream == Stream::Out).map(|record| record.payload.len()).sum()
}

#[tokio::test]
async fn a_full_disk_pauses_the_agent_and_space_resumes_it() {
    let Some(disk) = SmallDisk::mount(3) else { return };
    let mut link = disk.hold(&shell("seq 1 2000000; exit 6")).await;
    disk.is_full().await;
    assert!(is_alive(link.agent_pid().unwrap() as i32));
    let mut lines = crate::lines::LineAssembler::default();
    let mut number = 0u32;
    let end = within(async {
        loop {
            match link.next().await {
                AgentOutput::Records(batch) => {
                    for record in batch.records().filter(|record| record.stream == Stream::Out) {
                        lines.push(record.payload, &mut |line| {
                            number += 1;
                            let text = number.to_string();
                            assert_eq!(line, crate::lines::OutputLine::Whole(text.as_bytes()));
                        });
                    }
                    link.discard_before(batch.after.segment).unwrap();
                }
                AgentOutput::Ended(end) => return end,
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
    assert_eq!((end, number), (exited(6), 2_000_000));
    link.ack_exit().unwrap();
    link.close().await;
    gone(&disk.dir()).await;
}

#[tokio::test]
async fn an_end_on_a_full_disk_is_recorded_and_says_what_was_lost() {
    let Some(disk) = SmallDisk::mount(3) else { return };
    let mut link = disk.hold(&shell("exec yes")).await;
    disk.is_full().await;
    link.signal(Target::Tree, libc::SIGKILL).unwrap();
    let mut bytes = 0;
    let end = within(async {
        loop {
            match link.next().await {
                AgentOutput::Ended(end) => return end,
                next => bytes += payload_bytes(&next),
            }
        }
    })
    .await;
    let OutputEnd::Exited(Exit { signal: libc::SIGKILL, lost_bytes, .. }) = end else { panic!("{end:?}") };
    assert!(lost_bytes > 0 && bytes > 1 << 20, "{lost_bytes} of {bytes} lost");
    // The same for a daemon that attaches later.
    let mut later = AgentLink::attach(&disk.dir(), Position::START, 2).await.unwrap();
    assert_eq!(Seen::default().until_end(&mut later).await, end);
    later.ack_exit().unwrap();
    later.close().await;
    gone(&disk.dir()).await;
}

#[tokio::test]
async fn input_and_signals_get_through_while_the_disk_is_full() {
    let Some(disk) = SmallDisk::mount(3) else { return };
    let fill = |path: &Path| {
        let mut file = std::fs::File::create(path).unwrap();
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
    };
    let mut link = disk.hold(&shell("while read line; do echo got $line; done; exit 8")).await;
    let filler = disk.root.path().join("filler");
    fill(&filler);
    disk.is_full().await;
    for id in 1..=2000 {
        link.write(id, format!("{id}\n").as_bytes()).unwrap();
    }
    link.close_stdin(2001).unwrap();
    let mut seen = Seen::default();
    seen.until(&mut link, |seen| !seen.inputs.is_empty() || seen.metas > 0).await;
    std::fs::remove_file(&filler).unwrap();
    assert_eq!(seen.until_end(&mut link).await, exited(8));
    let expected: String = (1..=2000).map(|id| format!("got {id}\n")).collect();
    assert_eq!(seen.out_text(), expected);
    assert_eq!(seen.inputs.len(), 2001);
    link.ack_exit().unwrap();
    link.close().await;
    gone(&disk.dir()).await;
}
