//! How agents end: on their own, by signals, with what they started, with their shim, and while no daemon is
//! attached.

use std::time::Duration;

use shim::proc_table;

use super::reexec::shim_exe;
use super::support::{Seen, Session, dead, exited, gone, is_alive, killed, shell, within};
use crate::{AgentLink, AgentOutput, AgentSpawner, HoldLimits, OutputEnd, Position, Target, scan};
use host::process_tree as tree;

/// Prints the pid of a process that has left the agent's session and ignores every signal it can.
const STRAY: &str = "setsid sh -c 'trap \"\" TERM INT HUP; echo $$; exec sleep 1000' &";

#[tokio::test]
async fn an_exit_is_kept_while_no_daemon_is_there() {
    let session = Session::new();
    let mut link = session.spawn(&shell("read line; echo last words; exit 42")).await;
    let agent = link.agent_pid().unwrap() as i32;
    link.write(1, b"go\n").unwrap();
    let mut seen = Seen::default();
    seen.until(&mut link, |seen| !seen.inputs.is_empty()).await;
    let from = link.position();
    link.close().await;
    dead(agent).await;
    let mut link = session.attach(from, 2).await;
    assert_eq!(seen.until_end(&mut link).await, exited(42));
    assert_eq!(seen.out, b"last words\n");
    drop(link);

    // The daemon committed the exit and died before acknowledging it.
    let mut behind = session.attach(session.head(), 3).await;
    assert_eq!(Seen::default().until_end(&mut behind).await, exited(42));
    session.acknowledge(behind).await;

    // Once the shim has exited, its output is still there.
    let mut link = session.attach(Position::START, 4).await;
    assert_eq!((link.shim_pid(), link.agent_pid()), (None, Some(agent as u32)));
    assert!(link.write(9, b"x").is_err());
    let mut seen = Seen::default();
    assert_eq!(seen.until_end(&mut link).await, exited(42));
    assert_eq!(seen.out, b"last words\n");
}

#[tokio::test]
async fn a_killed_shim_takes_its_agent_along_and_is_reported_lost() {
    let session = Session::new();
    let mut link = session.spawn(&shell("echo started; exec sleep 1000")).await;
    let mut seen = Seen::default();
    seen.until(&mut link, Seen::has_line).await;
    let shim = proc_table::find(link.shim_pid().unwrap() as i32).unwrap();
    assert!(proc_table::signal(&shim, libc::SIGKILL));
    assert_eq!(seen.until_end(&mut link).await, OutputEnd::ShimLost);
    dead(link.agent_pid().unwrap() as i32).await;
    assert!(link.write(1, b"x").is_err());
    assert!(!scan::is_held(&session.dir()).unwrap());

    let mut again = session.attach(Position::START, 2).await;
    let mut seen = Seen::default();
    assert_eq!(seen.until_end(&mut again).await, OutputEnd::ShimLost);
    assert_eq!(seen.out, b"started\n");
}

#[tokio::test]
async fn what_a_lost_agent_left_in_other_sessions_is_killed() {
    let session = Session::new();
    let mut link = session.spawn(&shell(&format!("{STRAY} exec sleep 1000"))).await;
    let mut seen = Seen::default();
    seen.until(&mut link, Seen::has_line).await;
    let stray = seen.number();
    let shim = proc_table::find(link.shim_pid().unwrap() as i32).unwrap();
    proc_table::signal(&shim, libc::SIGKILL);
    assert_eq!(seen.until_end(&mut link).await, OutputEnd::ShimLost);
    assert!(is_alive(stray), "it has left the tree, so nothing but its mark tells whose it is");
    let (meta, mark) = (link.meta().unwrap(), tree::mark_of(&session.dir()).unwrap());
    assert_eq!(within(tree::kill_tree(Some(&meta), &mark)).await.unwrap(), 0);
    dead(stray).await;
}

#[tokio::test]
async fn a_reused_number_is_never_signalled() {
    let session = Session::new();
    let link = session.spawn(&shell("exec cat")).await;
    let other = Session::new();
    let mark = tree::mark_of(other.root()).unwrap();
    let mut meta = link.meta().unwrap();
    // As if the agent's pid had been reused by another process: same pid, different start time.
    meta.start_ticks -= 1;
    assert_eq!(within(tree::kill_tree(Some(&meta), &mark)).await.unwrap(), 0);
    meta.start_ticks += 1;
    meta.boot_id[0] ^= 1;
    assert_eq!(within(tree::kill_tree(Some(&meta), &mark)).await.unwrap(), 0);
    assert!(is_alive(meta.agent_pid as i32));
    let mut process = proc_table::find(meta.agent_pid as i32).unwrap();
    process.start_ticks -= 1;
    assert!(!proc_table::signal(&process, libc::SIGKILL));
    meta.boot_id[0] ^= 1;
    assert_eq!(within(tree::kill_tree(Some(&meta), &mark)).await.unwrap(), 0);
    dead(meta.agent_pid as i32).await;
}

#[tokio::test]
async fn killing_the_tree_reaches_every_session_in_it() {
    let session = Session::new();
    let mut link = session.spawn(&shell(&format!("{STRAY} trap '' TERM; wait; wait; wait"))).await;
    let mut seen = Seen::default();
    seen.until(&mut link, Seen::has_line).await;
    let stray = seen.number();
    assert_ne!(proc_table::find(stray).unwrap().session, link.agent_pid().unwrap() as i32);
    link.signal(Target::Tree, libc::SIGKILL).unwrap();
    assert_eq!(seen.until_end(&mut link).await, killed(libc::SIGKILL));
    assert!(!is_alive(stray), "dead before the end is told");
    session.acknowledge(link).await;
}

#[tokio::test]
async fn a_signal_reaches_exactly_its_target() {
    let session = Session::new();
    let script = "trap 'echo agent' USR1; (trap 'echo group' USR1; echo up; while :; do sleep 0.01; done) &
                  setsid sh -c 'trap \"echo stray\" USR1; echo up; while :; do sleep 0.01; done' &
                  while :; do sleep 0.01; done";
    let mut link = session.spawn(&shell(script)).await;
    let mut seen = Seen::default();
    let count = |seen: &Seen, word: &str| seen.out_text().lines().filter(|line| *line == word).count();
    seen.until(&mut link, |seen| count(seen, "up") == 2).await;
    link.signal(Target::Agent, libc::SIGUSR1).unwrap();
    seen.until(&mut link, |seen| count(seen, "agent") == 1).await;
    link.signal(Target::Tree, libc::SIGUSR1).unwrap();
    seen.until(&mut link, |seen| {
        (count(seen, "agent"), count(seen, "group"), count(seen, "stray")) == (2, 1, 1)
    })
    .await;
    link.signal(Target::Group, libc::SIGUSR1).unwrap();
    seen.until(&mut link, |seen| (count(seen, "agent"), count(seen, "group")) == (3, 2)).await;
    assert_eq!(count(&seen, "stray"), 1);
    link.signal(Target::Tree, libc::SIGKILL).unwrap();
    assert_eq!(seen.until_end(&mut link).await, killed(libc::SIGKILL));
    session.acknowledge(link).await;
}

#[tokio::test]
async fn an_agent_that_ignores_sigterm_is_killed() {
    let session = Session::new();
    let mut link = session.spawn(&shell("trap 'echo no' TERM; echo up; while :; do sleep 0.01; done")).await;
    let mut seen = Seen::default();
    seen.until(&mut link, Seen::has_line).await;
    link.signal(Target::Group, libc::SIGTERM).unwrap();
    seen.until(&mut link, |seen| seen.out_text() == "up\nno\n").await;
    link.signal(Target::Agent, libc::SIGKILL).unwrap();
    assert_eq!(seen.until_end(&mut link).await, killed(libc::SIGKILL));
    session.acknowledge(link).await;
}

#[tokio::test]
async fn a_daemonised_grandchild_that_holds_the_pipe_does_not_delay_the_end() {
    let session = Session::new();
    let mut link = session.spawn(&shell(&format!("{STRAY} read line; exit 3"))).await;
    let mut seen = Seen::default();
    seen.until(&mut link, Seen::has_line).await;
    link.write(1, b"end\n").unwrap();
    assert_eq!(seen.until_end(&mut link).await, exited(3));
    assert!(!is_alive(seen.number()));
    session.acknowledge(link).await;
}

#[tokio::test]
async fn an_agent_that_closes_its_output_lives_on() {
    let session = Session::new();
    let mut link = session.spawn(&shell("exec >&- 2>&-; read line; exit 5")).await;
    link.write(1, b"go\n").unwrap();
    assert_eq!(Seen::default().until_end(&mut link).await, exited(5));
    session.acknowledge(link).await;
}

#[tokio::test]
async fn a_shim_that_is_asked_to_terminate_ends_its_agent_first() {
    let session = Session::new();
    let mut link = session.spawn(&shell("trap 'exit 9' TERM; echo up; while :; do sleep 0.01; done")).await;
    let mut seen = Seen::default();
    seen.until(&mut link, Seen::has_line).await;
    let shim = proc_table::find(link.shim_pid().unwrap() as i32).unwrap();
    proc_table::signal(&shim, libc::SIGTERM);
    assert_eq!(seen.until_end(&mut link).await, exited(9));
    proc_table::signal(&shim, libc::SIGTERM);
    gone(&session.dir()).await;
}

#[tokio::test]
async fn a_shim_nobody_comes_back_to_ends_its_agent_and_leaves() {
    let session = Session::new();
    let limits = HoldLimits { linger: Duration::from_secs(1), ..HoldLimits::default() };
    let plan = shell("exec sleep 1000");
    let link = AgentSpawner::spawn(&shim_exe(), &session.dir(), &plan, 1, &limits).await.unwrap();
    let agent = link.agent_pid().unwrap() as i32;
    link.close().await;
    gone(&session.dir()).await;
    assert!(!is_alive(agent));
    let mut link = session.attach(Position::START, 2).await;
    assert_eq!(Seen::default().until_end(&mut link).await, killed(libc::SIGKILL));
}

#[tokio::test]
async fn a_shim_without_its_directory_ends_its_agent_and_leaves() {
    let session = Session::new();
    let limits = HoldLimits { spool_bytes_max: 4 << 20, ..HoldLimits::default() };
    let plan = shell("read line; exec yes");
    let link = AgentSpawner::spawn(&shim_exe(), &session.dir(), &plan, 1, &limits).await.unwrap();
    let (shim, agent) = (link.shim_pid().unwrap() as i32, link.agent_pid().unwrap() as i32);
    std::fs::remove_dir_all(session.dir()).unwrap();
    // It notices when it opens the next segment, or within a minute.
    link.write(1, b"go\n").unwrap();
    dead(agent).await;
    dead(shim).await;
    let mut link = link;
    assert!(matches!(
        within(link.next()).await,
        AgentOutput::Unreadable(_) | AgentOutput::Ended(OutputEnd::ShimLost)
    ));
    assert!(AgentLink::attach(&session.dir(), Position::START, 2).await.is_err());
}
