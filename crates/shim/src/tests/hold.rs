//! The shim's guarantees on its socket: who is obeyed, what is ignored, and that nothing there delays the
//! agent.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};

use super::raw::{Held, run_shim, until};
use crate::frame::{Refusal, Target, ToDaemon, ToShim};
use crate::proc_table;
use crate::record::{Delivery, Exit};

const EXIT_OK: Option<Exit> = Some(Exit { code: 0, signal: 0, lost_bytes: 0 });

#[test]
fn a_daemon_is_welcomed_pinged_and_woken() {
    let held = Held::shell("read line; echo got $line");
    let mut wire = held.connect(1);
    let welcome = wire.welcome();
    assert_eq!((welcome.shim_pid as i32, welcome.agent_pid as i32), (held.shim_pid, held.agent_pid));
    assert_eq!((welcome.last_write_id, welcome.exited), (0, false));
    wire.send(&ToShim::Ping(42));
    assert_eq!(wire.next_answer(), Some(ToDaemon::Pong(42)));
    wire.send(&ToShim::Input { write_id: 1, bytes: b"it\n" });
    assert!(matches!(wire.next(), Some(ToDaemon::Wake(head)) if head > welcome.head));
    let spooled = held.spool_until(|spooled| spooled.exit.is_some());
    assert_eq!((spooled.out.as_slice(), spooled.exit), (&b"got it\n"[..], EXIT_OK));
    wire.send(&ToShim::AckExit);
    assert_eq!(wire.next_answer(), None);
    until(|| !held.dir.join("sock").exists());
}

#[test]
fn a_seen_write_id_is_ignored_over_connections() {
    let held = Held::shell("cat");
    let mut first = held.connect(1);
    first.welcome();
    for (write_id, bytes) in [(1, b"a"), (1, b"b"), (5, b"c"), (3, b"d")] {
        first.send(&ToShim::Input { write_id, bytes });
    }
    first.send(&ToShim::Ping(0));
    first.next_answer();
    let mut second = held.connect(2);
    assert_eq!(second.welcome().last_write_id, 5);
    second.send(&ToShim::Input { write_id: 5, bytes: b"e" });
    second.send(&ToShim::Input { write_id: 6, bytes: b"f" });
    second.send(&ToShim::CloseStdin { write_id: 7 });
    let spooled = held.spool_until(|spooled| spooled.exit.is_some());
    assert_eq!(spooled.out, b"acf");
    let ids: Vec<u64> = spooled.inputs.iter().map(|input| input.write_id).collect();
    assert_eq!(ids, [1, 5, 6, 7]);
    assert!(spooled.inputs.iter().all(|input| input.delivery == Delivery::Delivered));
}

#[test]
fn half_an_input_is_not_delivered() {
    let held = Held::shell("cat");
    let mut first = held.connect(1);
    first.welcome();
    let mut bytes = Vec::new();
    ToShim::Input { write_id: 1, bytes: b"half of this" }.encode(&mut bytes);
    first.stream.write_all(&bytes[..bytes.len() - 4]).unwrap();
    drop(first);
    let mut second = held.connect(1);
    assert_eq!(second.welcome().last_write_id, 0);
    second.send(&ToShim::Input { write_id: 1, bytes: b"whole" });
    second.send(&ToShim::CloseStdin { write_id: 2 });
    assert_eq!(held.spool_until(|spooled| spooled.exit.is_some()).out, b"whole");
}

#[test]
fn input_for_a_closed_stdin_is_recorded_as_undeliverable() {
    let held = Held::shell("exec <&-; echo closed; read line < /proc/self/fd/9; exec sleep 1000");
    held.spool_until(|spooled| spooled.out == b"closed\n");
    let mut wire = held.connect(1);
    wire.welcome();
    wire.send(&ToShim::Input { write_id: 4, bytes: b"hello" });
    let spooled = held.spool_until(|spooled| !spooled.inputs.is_empty());
    assert_eq!(spooled.inputs[0].write_id, 4);
    assert_eq!(spooled.inputs[0].delivery, Delivery::Undeliverable);
}

#[test]
fn the_highest_epoch_is_obeyed() {
    let held = Held::shell("cat");
    let mut first = held.connect(5);
    first.welcome();
    let mut older = held.connect(4);
    assert_eq!(older.next(), Some(ToDaemon::Refused(Refusal::OldEpoch)));
    assert_eq!(older.next(), None);
    let mut equal = held.connect(5);
    equal.welcome();
    assert_eq!(first.next_answer(), Some(ToDaemon::Refused(Refusal::Replaced)));
    assert_eq!(first.next(), None);
    let mut newer = held.connect(6);
    newer.welcome();
    assert_eq!(equal.next_answer(), Some(ToDaemon::Refused(Refusal::Replaced)));
    newer.send(&ToShim::Ping(1));
    assert_eq!(newer.next_answer(), Some(ToDaemon::Pong(1)));
}

#[test]
fn nothing_is_obeyed_before_a_greeting() {
    let held = Held::shell("cat");
    let mut wire = held.connect_silently();
    wire.send(&ToShim::Signal { signo: libc::SIGKILL, target: Target::Tree });
    assert_eq!(wire.next(), None);
    assert!(proc_table::find(held.agent_pid).is_some_and(|agent| !agent.is_zombie));
}

#[test]
fn unknown_frames_are_ignored_and_malformed_ones_end_the_connection() {
    let held = Held::shell("cat");
    let mut wire = held.connect(1);
    wire.welcome();
    wire.stream.write_all(&[3, 0, 0, 0, 0x77, 1, 2, 3]).unwrap();
    wire.send(&ToShim::Signal { signo: 77, target: Target::Agent });
    wire.send(&ToShim::Signal { signo: -1, target: Target::Agent });
    wire.send(&ToShim::Ping(1));
    assert_eq!(wire.next_answer(), Some(ToDaemon::Pong(1)));
    wire.stream.write_all(&[1, 0, 0, 0, 0x04, 9]).unwrap();
    assert_eq!(wire.next_answer(), None);
    held.connect(1).welcome();
}

#[test]
fn a_daemon_that_never_reads_delays_nothing_and_still_gets_the_last_wake_up() {
    let held = Held::shell("i=0; while [ $i -lt 20000 ]; do echo line; i=$((i+1)); done");
    let mut wire = held.connect(1);
    let spooled = held.spool_until(|spooled| spooled.exit.is_some());
    assert_eq!(spooled.out.len(), 20_000 * 5);
    let last = ToDaemon::Wake(spooled.head.unwrap());
    while wire.next() != Some(last) {}
}

#[test]
fn a_flood_of_silent_connections_leaves_room_for_the_daemon() {
    let held = Held::shell("cat");
    let mut daemon = held.connect(1);
    daemon.welcome();
    let silent: Vec<_> = (0..crate::limits::CONNECTIONS_MAX).map(|_| held.connect_silently()).collect();
    let mut one_more = held.connect_silently();
    assert_eq!(one_more.next(), Some(ToDaemon::Refused(Refusal::Busy)));
    daemon.send(&ToShim::Ping(1));
    assert_eq!(daemon.next_answer(), Some(ToDaemon::Pong(1)));
    drop(silent);
}

#[test]
fn an_agent_cannot_command_its_own_shim() {
    let script = r#"exec python3 -c '
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1] + "/sock")
print(s.recv(100).hex())
' "$1""#;
    let held = Held::shell(script);
    let spooled = held.spool_until(|spooled| spooled.exit.is_some());
    assert_eq!(String::from_utf8(spooled.out).unwrap(), "010000008303\n", "refused as not allowed");
    held.connect(1).welcome();
}

#[test]
fn the_socket_is_bound_anew_when_asked() {
    let held = Held::shell("cat");
    let mut old = held.connect(1);
    old.welcome();
    fs::remove_file(held.dir.join("sock")).unwrap();
    proc_table::signal(&proc_table::find(held.shim_pid).unwrap(), libc::SIGUSR1);
    until(|| held.dir.join("sock").exists());
    old.send(&ToShim::Ping(1));
    assert_eq!(old.next_answer(), Some(ToDaemon::Pong(1)));
    held.connect(1).welcome();
}

#[test]
fn a_shim_that_cannot_be_found_any_more_ends_its_agent_and_leaves() {
    for lost in ["lock", ""] {
        let held = Held::shell("exec cat");
        let shim = proc_table::find(held.shim_pid).unwrap();
        match lost {
            "" => fs::rename(&held.dir, held.dir.with_extension("moved")).unwrap(),
            name => fs::remove_file(held.dir.join(name)).unwrap(),
        }
        // It checks once a minute, and when asked.
        proc_table::signal(&shim, libc::SIGUSR1);
        until(|| proc_table::find(held.agent_pid).is_none_or(|agent| agent.is_zombie));
        until(|| proc_table::find(held.shim_pid).is_none_or(|shim| shim.is_zombie));
    }
}

#[test]
fn an_exit_nobody_acknowledges_is_not_kept_for_ever() {
    let held = Held::with(&["--linger-secs", "1"], "exit 0");
    let mut wire = held.connect(1);
    wire.welcome();
    assert_eq!(wire.next_answer(), None, "the shim has left");
    assert_eq!(held.spool_until(|spooled| spooled.exit.is_some()).exit, EXIT_OK);
}

#[test]
fn nothing_in_the_directory_is_for_others() {
    let held = Held::shell("cat");
    for entry in fs::read_dir(&held.dir).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().mode() & 0o777, 0o600, "{:?}", entry.file_name());
    }
    assert_eq!(fs::metadata(held.dir.join("reserve")).unwrap().blocks() * 512, crate::limits::RESERVE_BYTES);
    let lock = fs::read_to_string(held.dir.join("lock")).unwrap();
    assert_eq!(lock.trim().parse(), Ok(held.shim_pid));
}

#[test]
fn a_directory_that_is_not_private_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("s");
    fs::DirBuilder::new().mode(0o700).create(&dir).unwrap();
    let link = root.path().join("link");
    std::os::unix::fs::symlink(&dir, &link).unwrap();
    let cat = [OsStr::new("cat")];
    let failed_at =
        |dir: &std::path::Path| run_shim(dir, &[], &cat).split(' ').take(3).collect::<Vec<_>>().join(" ");
    assert_eq!(failed_at(&root.path().join("missing")), "error dir 2");
    assert!(["error dir 40", "error dir 20"].contains(&failed_at(&link).as_str()), "a link");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o750)).unwrap();
    assert_eq!(failed_at(&dir), "error dir 1");
}

#[test]
fn a_failed_start_leaves_the_directory_usable_and_a_spool_is_never_overwritten() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("s");
    fs::DirBuilder::new().mode(0o700).create(&dir).unwrap();
    let missing = run_shim(&dir, &[], &[OsStr::new("/no/such/program")]);
    assert!(missing.starts_with("error exec 2 "), "{missing}");
    let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["lock"]);
    until(|| run_shim(&dir, &["--linger-secs", "0"], &[OsStr::new("true")]).starts_with("ready "));
    let mut again = String::new();
    until(|| {
        again = run_shim(&dir, &[], &[OsStr::new("true")]);
        !again.starts_with("error lock ")
    });
    assert!(again.starts_with("error spool 17 "), "{again}");
}

#[test]
fn wrong_arguments_are_reported_on_the_same_line() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["shim", "--what"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "error args 22 unknown option --what\n");
    assert_eq!(output.status.code(), Some(1));
}
