//! A spool that was damaged on disk: reported with its position, with a living and with a dead shim, never
//! passed on.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::support::{Seen, Session, exited, gone, shell, within};
use crate::{AgentLink, AgentOutput, Fault, Position};

/// Prints two records and waits.
const SCRIPT: &str = "echo first; read line; echo second; read line; echo third; exec cat";

fn flip(dir: &Path, offset: u64) {
    let file = OpenOptions::new().read(true).write(true).open(dir.join("out.000001")).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
}

async fn first_trouble(link: &mut AgentLink) -> (Seen, AgentOutput) {
    let mut seen = Seen::default();
    let next = within(async {
        loop {
            match link.next().await {
                AgentOutput::Records(batch) => seen.add(&batch),
                other => return other,
            }
        }
    })
    .await;
    (seen, next)
}

#[tokio::test]
async fn damage_is_reported_with_its_place_whether_or_not_the_shim_lives() {
    let session = Session::new();
    let mut link = session.spawn(&shell(SCRIPT)).await;
    let mut seen = Seen::default();
    seen.until(&mut link, |seen| seen.out == b"first\n").await;
    let at = link.position();
    link.write(1, b"\n").unwrap();
    link.write(2, b"\n").unwrap();
    seen.until(&mut link, |seen| seen.out == b"first\nsecond\nthird\n" && seen.inputs.len() == 2).await;
    // The length of the first record after `at` now reaches beyond the end of the file.
    flip(&session.dir(), at.offset + 5);

    let mut alive = session.attach(Position::START, 2).await;
    let (seen, next) = first_trouble(&mut alive).await;
    assert_eq!(seen.out, b"first\n");
    assert!(
        matches!(next, AgentOutput::Corrupt { at: found, fault: Fault::CutShort } if found == at),
        "{next:?}"
    );
    let (_, again) = first_trouble(&mut alive).await;
    assert!(matches!(again, AgentOutput::Corrupt { .. }), "{again:?}");

    let shim = shim::proc_table::find(alive.shim_pid().unwrap() as i32).unwrap();
    shim::proc_table::signal(&shim, libc::SIGKILL);
    gone(&session.dir()).await;
    let mut dead = session.attach(Position::START, 3).await;
    let (seen, next) = first_trouble(&mut dead).await;
    assert_eq!(seen.out, b"first\n");
    assert!(matches!(next, AgentOutput::Corrupt { at: found, .. } if found == at), "{next:?}");
}

#[tokio::test]
async fn a_torn_end_of_a_dead_shim_is_the_end() {
    let session = Session::new();
    let mut link = session.spawn(&shell("echo one; exit 3")).await;
    assert_eq!(Seen::default().until_end(&mut link).await, exited(3));
    session.acknowledge(link).await;
    let file = session.dir().join("out.000001");
    let whole = fs::read(&file).unwrap();
    for cut in 0..whole.len() {
        fs::write(&file, &whole[..cut]).unwrap();
        let mut link = session.attach(Position::START, 2).await;
        let (seen, next) = first_trouble(&mut link).await;
        assert!(matches!(next, AgentOutput::Ended(crate::OutputEnd::ShimLost)), "cut at {cut}: {next:?}");
        assert!(b"one\n".starts_with(&seen.out[..]) && seen.exits.is_empty());
    }
}
