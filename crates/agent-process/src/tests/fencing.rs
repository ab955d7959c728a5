//! Several daemons with one agent, and broken connections: only one daemon is obeyed, and inputs arrive
//! exactly once.

use super::support::{Seen, Session, exited, shell, within};
use crate::{AgentLink, AgentOutput, AttachError, Delivery, Refusal};

#[tokio::test]
async fn only_the_newest_daemon_is_obeyed() {
    let session = Session::new();
    let mut first = session.spawn(&shell("cat")).await;
    let from = first.position();
    let mut second = session.attach(from, 7).await;
    let refused = within(async {
        loop {
            match first.next().await {
                AgentOutput::Records(_) => {}
                other => return other,
            }
        }
    })
    .await;
    assert!(matches!(refused, AgentOutput::Refused(Refusal::Replaced)), "{refused:?}");
    assert!(first.write(1, b"from the past").is_err());
    let older = AgentLink::attach(&session.dir(), from, 6).await.err().unwrap();
    assert!(matches!(older, AttachError::Refused(Refusal::OldEpoch)), "{older:?}");
    second.write(1, b"hello").unwrap();
    Seen::default().until(&mut second, |seen| seen.out == b"hello").await;
}

#[tokio::test]
async fn inputs_arrive_exactly_once_over_reconnects() {
    let session = Session::new();
    let mut link = session.spawn(&shell("cat")).await;
    let mut expected = Vec::new();
    let mut seen = Seen::default();
    let mut from = link.position();
    for epoch in 1..=40u64 {
        // Each daemon sends everything again that it has not seen confirmed, as after a crash, and one new
        // input.
        let confirmed = seen.inputs.last().map_or(0, |(id, _)| *id);
        for id in confirmed + 1..=epoch {
            link.write(id, format!("input {id}\n").as_bytes()).unwrap();
        }
        expected.extend_from_slice(format!("input {epoch}\n").as_bytes());
        if epoch % 3 == 0 {
            // This one lives long enough to see some of the output.
            seen.until(&mut link, |seen| seen.inputs.last().is_some_and(|(id, _)| *id + 2 > epoch)).await;
            from = link.position();
        } else if epoch % 3 == 1 {
            // This one dies before it has sent everything.
            tokio::task::yield_now().await;
        } else {
            link.signal(crate::Target::Agent, libc::SIGCONT).unwrap();
            link.close().await;
        }
        link = session.attach(from, epoch + 1).await;
        assert!(link.last_write_id() <= epoch);
    }
    let confirmed = seen.inputs.last().map_or(0, |(id, _)| *id);
    for id in confirmed + 1..=40 {
        link.write(id, format!("input {id}\n").as_bytes()).unwrap();
    }
    link.close_stdin(41).unwrap();
    assert_eq!(seen.until_end(&mut link).await, exited(0));
    assert_eq!(String::from_utf8_lossy(&seen.out), String::from_utf8_lossy(&expected));
    assert_eq!(seen.inputs, (1..=41).map(|id| (id, Delivery::Delivered)).collect::<Vec<_>>());
    session.acknowledge(link).await;
}

#[tokio::test]
async fn a_deleted_socket_is_bound_anew_for_whoever_attaches() {
    let session = Session::new();
    let mut link = session.spawn(&shell("cat")).await;
    let mut seen = Seen::default();
    link.write(1, b"a").unwrap();
    seen.until(&mut link, |seen| seen.out == b"a").await;
    let from = link.position();
    link.close().await;
    std::fs::remove_file(session.dir().join("sock")).unwrap();
    let mut link = session.attach(from, 1).await;
    link.write(2, b"b").unwrap();
    seen.until(&mut link, |seen| seen.out == b"ab").await;
}
