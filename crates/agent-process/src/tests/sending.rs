//! Sending without waiting: an agent that does not read, large inputs, signals that overtake them.

use super::support::{Seen, Session, exited, killed, python, shell};
use crate::limits::{INPUT_BYTES_MAX, INPUT_QUEUED_BYTES_MAX};
use crate::{Delivery, Target, WriteError};

#[tokio::test]
async fn a_signal_overtakes_input_that_nobody_reads() {
    let session = Session::new();
    let mut link = session.spawn(&shell("exec sleep 1000")).await;
    let large = vec![b'x'; 20 << 20];
    let mut written = 0;
    let refused = loop {
        match link.write(written + 1, &large) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written as usize * large.len() <= INPUT_QUEUED_BYTES_MAX);
    };
    assert_eq!(refused, WriteError::Full);
    assert_eq!(
        link.write(100, &vec![0; INPUT_BYTES_MAX + 1]),
        Err(WriteError::TooLarge(INPUT_BYTES_MAX + 1))
    );
    // The first ones are on their way before the signal is sent.
    tokio::task::yield_now().await;
    link.signal(Target::Agent, libc::SIGTERM).unwrap();
    let mut seen = Seen::default();
    assert_eq!(seen.until_end(&mut link).await, killed(libc::SIGTERM));
    assert!(
        seen.inputs.iter().all(|(_, delivery)| *delivery == Delivery::Undeliverable),
        "{:?}",
        seen.inputs
    );
    session.acknowledge(link).await;
}

#[tokio::test]
async fn a_large_input_arrives_whole() {
    let session = Session::new();
    let mut link = session.spawn(&python("import sys; print(sum(sys.stdin.buffer.read()))")).await;
    let bytes: Vec<u8> = (0..50_000_000u32).map(|number| (number % 251) as u8).collect();
    let sum: u64 = bytes.iter().map(|byte| u64::from(*byte)).sum();
    link.write(1, &bytes).unwrap();
    link.write(2, b"\x01").unwrap();
    link.close_stdin(3).unwrap();
    let mut seen = Seen::default();
    assert_eq!(seen.until_end(&mut link).await, exited(0));
    assert_eq!(seen.out_text(), format!("{}\n", sum + 1));
    assert_eq!(seen.inputs.len(), 3);
    session.acknowledge(link).await;
}

#[tokio::test]
async fn input_and_output_at_once_do_not_block_each_other() {
    let session = Session::new();
    let mut link = session.spawn(&shell("cat")).await;
    let line = vec![b'y'; 1 << 20];
    for id in 1..=30 {
        link.write(id, &line).unwrap();
    }
    link.close_stdin(31).unwrap();
    let mut seen = Seen::default();
    assert_eq!(seen.until_end(&mut link).await, exited(0));
    assert_eq!(seen.out.len(), 30 << 20);
    session.acknowledge(link).await;
}
