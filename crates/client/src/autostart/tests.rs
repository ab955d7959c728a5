//! Starts small scripts in place of the daemon.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use config::exit::Exit;
use config::vars::Vars;

/// A launch of a script in its own folder.
fn launch(folder: &Path, script: &str) -> Launch {
    let program = folder.join("daemon.sh");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let home = folder.to_str().unwrap();
    let paths = Paths::of(&Vars::of(&[("HOME", home), ("XDG_RUNTIME_DIR", home)]), 1);
    Launch {
        program,
        flags: Vec::new(),
        variables: Vec::new(),
        environment: None,
        socket: folder.join("d.sock"),
        paths,
        deadline: StartDeadline::Short,
    }
}

#[tokio::test]
async fn the_ready_line_ends_the_wait() {
    let temp = tempfile::tempdir().unwrap();
    let launch =
        launch(temp.path(), "echo starting\necho ready socket=x listen=127.0.0.1:7\necho \"$@\" >&2");
    let Started::Ready { listen, pid } = start(&launch).await.unwrap() else { panic!("not ready") };
    assert_eq!(listen, "127.0.0.1:7");
    assert!(pid > 0);
}

#[tokio::test]
async fn the_log_of_a_daemon_that_ends_at_once_is_quoted() {
    let temp = tempfile::tempdir().unwrap();
    let launch = launch(temp.path(), "echo \"args: $*\" >&2; exit 1");
    fs::create_dir_all(&launch.paths.state_dir).unwrap();
    fs::set_permissions(&launch.paths.state_dir, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(launch.paths.log_file(), "an older line\n").unwrap();

    let failure = start(&launch).await.unwrap_err();
    assert_eq!(failure.exit, Exit::UNREACHABLE);
    assert_eq!(failure.code.as_deref(), Some("OBEY-1015"));
    let socket = launch.socket.display();
    assert!(
        failure.message.contains(&format!("| args: serve --background --socket {socket}")),
        "{}",
        failure.message
    );
    assert!(!failure.message.contains("older"), "only this start's lines: {}", failure.message);
}

#[tokio::test]
async fn a_command_that_waited_for_the_lock_finds_the_daemon_of_the_other() {
    let temp = tempfile::tempdir().unwrap();
    let launch = launch(temp.path(), "echo must not run >&2; exit 9");
    paths::make_private(&launch.paths.state_dir).unwrap();
    let held = lock(&launch.paths.start_lock()).await.unwrap();
    let waiting = tokio::spawn({
        let launch = launch.clone();
        async move { start(&launch).await }
    });
    let _listener = tokio::net::UnixListener::bind(&launch.socket).unwrap();
    drop(held);
    assert_eq!(waiting.await.unwrap().unwrap(), Started::Already);
}

#[tokio::test]
async fn a_daemon_that_lost_to_one_that_still_starts_is_no_failure() {
    let temp = tempfile::tempdir().unwrap();
    let launch = launch(temp.path(), "touch \"$HOME/tried\"; exit 1");
    let launch = Launch { variables: vec![("HOME", temp.path().to_owned())], ..launch };
    // The other daemon has its lock and does not listen yet.
    let other = File::create(launch.socket.with_extension("lock")).unwrap();
    rustix::fs::flock(&other, FlockOperation::LockExclusive).unwrap();
    let starting = tokio::spawn({
        let launch = launch.clone();
        async move { start(&launch).await }
    });
    while !temp.path().join("tried").exists() {
        assert!(!starting.is_finished(), "{:?}", starting.await);
        tokio::time::sleep(limits::EXCHANGE_PAUSE).await;
    }
    let _listener = tokio::net::UnixListener::bind(&launch.socket).unwrap();
    assert_eq!(starting.await.unwrap().unwrap(), Started::Already);
}

#[tokio::test]
async fn a_large_log_is_set_aside() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("daemon.log");
    File::create(&path).unwrap().set_len(limits::LOG_MAX_BYTES + 1).unwrap();
    let (_file, begin) = open_log(&path).unwrap();
    assert_eq!(begin, 0);
    assert!(temp.path().join("daemon.log.1").exists());
}
