//! The ordinary life of a held agent: output, input, exit, and the ways a start can fail.

use super::support::{Seen, command, exited, gone, shell, spawn};
use crate::process::Delivery;

#[tokio::test]
async fn input_is_echoed_and_the_exit_code_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let session = dir.path().join("s");
    let mut link = spawn(&session, &shell("cat; echo bye >&2; exit 7")).await.unwrap();
    link.write(1, b"hello\n").unwrap();
    let mut seen = Seen::default();
    seen.until(&mut link, |seen| seen.out == b"hello\n").await;
    link.close_stdin(2).unwrap();
    assert_eq!(seen.until_end(&mut link).await, exited(7));
    assert_eq!(seen.err, b"bye\n");
    assert_eq!(seen.inputs, [(1, Delivery::Delivered), (2, Delivery::Delivered)]);
    assert_eq!(seen.metas, 1);
    link.ack_exit().unwrap();
    link.close().await;
    gone(&session).await;
}

#[tokio::test]
async fn a_missing_program_is_told_from_other_failures() {
    let dir = tempfile::tempdir().unwrap();
    let error = spawn(&dir.path().join("s"), &command("no-such-program", &[])).await.err().unwrap();
    assert!(error.is_program_missing(), "{error:?}");
}
