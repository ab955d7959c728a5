//! Commands of a session that has control groups: they are in them, are held to their limits and end with them.

use std::time::Duration;

use domain::ResourceLimits;
use sandbox::session_group::{GroupHome, RunLimits};
use sandbox::{Output, Tier};

use super::{DEADLINE, command, run, sandbox};

/// A session's groups with these limits; says so where the machine gives none.
fn session(limits: ResourceLimits) -> Option<RunLimits> {
    let home = GroupHome::find(&format!("within{}", std::process::id()));
    let session = home.limit("sess_within.1", limits).unwrap();
    if session.group.is_none() {
        println!("SKIPPED: no control groups are to be had here");
        return None;
    }
    Some(session)
}

#[tokio::test]
async fn commands_of_a_session_are_killed_with_its_groups() {
    let Some(session) = session(ResourceLimits::default()) else { return };
    let group = session.group.clone().unwrap();
    let sandbox = sandbox(Tier::Namespaces).await;
    let project = tempfile::tempdir().unwrap();
    let start = |script| sandbox.run_within(command(project.path(), script), Some(session.clone()));
    // The first sandbox is made for its command, the next was made ahead.
    let mut running = start("echo first").await.unwrap();
    while tokio::time::timeout(DEADLINE, running.next()).await.unwrap().is_some() {}
    let mut running = start("echo begun; sleep 1000").await.unwrap();
    let first = tokio::time::timeout(DEADLINE, running.next()).await.unwrap();
    assert_eq!(first, Some(Output::Stdout(b"begun\n".to_vec())));
    assert!(group.members().len() >= 2, "the command and its shell: {:?}", group.members());
    assert!(group.kill().await);
    let ended = tokio::time::timeout(DEADLINE, running.next()).await.unwrap();
    assert!(matches!(ended, Some(Output::Ended(end)) if end.exit_code != 0), "{ended:?}");
    let after = run(&sandbox, command(project.path(), "echo others go on")).await;
    assert_eq!(after.stdout, "others go on\n");
    group.remove().await;
}

#[tokio::test]
async fn commands_of_a_session_are_held_to_its_limits() {
    let limits = ResourceLimits { memory_bytes: Some(64 << 20), cpu_millis: None, processes: Some(20) };
    let Some(session) = session(limits) else { return };
    let group = session.group.clone().unwrap();
    let sandbox = sandbox(Tier::Namespaces).await;
    let project = tempfile::tempdir().unwrap();
    let hog = "head -c 200M /dev/zero | tail -n 1 > /dev/null && echo all of it";
    if session.per_process.is_empty() {
        let mut command = command(project.path(), hog);
        command.timeout = Duration::from_secs(60);
        let mut running = sandbox.run_within(command, Some(session.clone())).await.unwrap();
        let mut said = Vec::new();
        while let Some(output) = tokio::time::timeout(2 * DEADLINE, running.next()).await.unwrap() {
            if let Output::Stdout(bytes) = output {
                said.extend(bytes);
            }
        }
        assert_eq!(String::from_utf8_lossy(&said), "");
        assert!(session.report().oom_kills > 0, "{:?}", session.report());
    }
    group.remove().await;
}
