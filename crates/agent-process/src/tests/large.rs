//! Large output: lines that never end, a reader that lags behind, and the memory use of the shim.

use super::reexec::shim_exe;
use super::support::{Seen, Session, exited, private_anonymous_kib, python, shell, until, within};
use crate::lines::{LineAssembler, OutputLine};
use crate::{AgentOutput, AgentSpawner, HoldLimits, OutputEnd, Stream};

const MEGABYTES: usize = 200;

#[tokio::test]
async fn one_line_of_200_mb_costs_neither_side_memory() {
    let session = Session::new();
    let script = "read line; head -c 200000000 /dev/zero | tr '\\0' a; echo; echo after";
    let mut link = session.spawn(&shell(script)).await;
    let shim_pid = link.shim_pid().unwrap() as i32;
    let before = private_anonymous_kib(shim_pid);
    link.write(1, b"go\n").unwrap();
    let mut lines = LineAssembler::default();
    let mut found = Vec::new();
    let mut largest_carry = 0;
    let mut most = before;
    let end = within(async {
        loop {
            match link.next().await {
                AgentOutput::Records(batch) => {
                    for record in batch.records().filter(|record| record.stream == Stream::Out) {
                        lines.push(record.payload, &mut |line| {
                            found.push(match line {
                                OutputLine::Whole(line) => (line.len() as u64, 0),
                                OutputLine::Oversize { head, length } => (length, head.len()),
                            });
                        });
                        largest_carry = largest_carry.max(lines.carry().partial.capacity());
                    }
                    link.discard_before(batch.after.segment).unwrap();
                    most = most.max(private_anonymous_kib(shim_pid));
                }
                AgentOutput::Ended(end) => return end,
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
    assert_eq!(end, exited(0));
    assert_eq!(found, [(MEGABYTES as u64 * 1_000_000, 64 << 10), (5, 0)]);
    assert!(largest_carry <= 2 * crate::limits::LINE_MAX);
    println!(
        "private memory of the shim: {before:?} KiB idle, {most:?} KiB at most while holding {MEGABYTES} MB"
    );
    if let (Some(before), Some(most)) = (before, most) {
        assert!(most - before <= 1024, "the shim grew from {before} to {most} KiB");
    }
    session.acknowledge(link).await;
}

#[tokio::test]
async fn an_agent_waits_when_its_spool_is_full_and_goes_on_when_it_is_consumed() {
    let session = Session::new();
    let cap: u64 = 4 << 20;
    let limits = HoldLimits { spool_bytes_max: cap, ..HoldLimits::default() };
    let plan = shell("head -c 20000000 /dev/zero; exit 4");
    let mut link = AgentSpawner::spawn(&shim_exe(), &session.dir(), &plan, 1, &limits).await.unwrap();
    let on_disk = || {
        let entries = std::fs::read_dir(session.dir()).unwrap();
        let sizes = entries.filter_map(|entry| entry.ok()?.metadata().ok()).map(|found| found.len());
        sizes.sum::<u64>()
    };
    until(|| on_disk() > cap).await;
    // At most one read beyond the cap, plus the reserve.
    let most = cap + (1 << 20);
    let (mut bytes, mut highest) = (0, 0);
    let end = within(async {
        loop {
            match link.next().await {
                AgentOutput::Records(batch) => {
                    highest = highest.max(on_disk());
                    bytes += batch
                        .records()
                        .filter(|record| record.stream == Stream::Out)
                        .map(|record| record.payload.len())
                        .sum::<usize>();
                    link.discard_before(batch.after.segment).unwrap();
                }
                AgentOutput::Ended(end) => return end,
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
    assert_eq!((end, bytes), (exited(4), 20_000_000));
    assert!(highest <= most, "{highest} bytes on disk");
    session.acknowledge(link).await;
}

#[tokio::test]
async fn a_reader_far_behind_gets_everything_in_order() {
    let session = Session::new();
    let script = "import sys\nfor i in range(400000): print(i, 'x' * 100)\nprint('done', file=sys.stderr)";
    let mut link = session
        .spawn(&python(
            &script.replace("import sys", "import sys; sys.stdout.reconfigure(write_through=False)"),
        ))
        .await;
    let agent = link.agent_pid().unwrap() as i32;
    super::support::dead(agent).await;
    let mut lines = LineAssembler::default();
    let mut next_number = 0u32;
    let mut turns = 0;
    let end: OutputEnd = within(async {
        loop {
            // Cancelled now and then before it is done: nothing may be lost or repeated.
            turns += 1;
            let next = if turns % 2 == 0 {
                match tokio::time::timeout(std::time::Duration::ZERO, link.next()).await {
                    Ok(next) => next,
                    Err(_) => continue,
                }
            } else {
                link.next().await
            };
            match next {
                AgentOutput::Records(batch) => {
                    for record in batch.records().filter(|record| record.stream == Stream::Out) {
                        lines.push(record.payload, &mut |line| {
                            let OutputLine::Whole(line) = line else { panic!("no line is that long") };
                            let number = std::str::from_utf8(line).unwrap().split(' ').next().unwrap();
                            assert_eq!(number.parse(), Ok(next_number));
                            next_number += 1;
                        });
                    }
                }
                AgentOutput::Ended(end) => return end,
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
    assert_eq!((end, next_number), (exited(0), 400_000));
    session.acknowledge(link).await;
}

#[tokio::test]
async fn an_idle_shim_is_small() {
    let session = Session::new();
    let mut link = session.spawn(&shell("echo up; exec cat")).await;
    Seen::default().until(&mut link, Seen::has_line).await;
    match private_anonymous_kib(link.shim_pid().unwrap() as i32) {
        Some(kib) => {
            println!("private memory of an idle shim, files left out: {kib} KiB");
            assert!(kib <= 512, "{kib} KiB");
        }
        None => println!("skipped: the kernel does not tell the memory of a shim"),
    }
}
