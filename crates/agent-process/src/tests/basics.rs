//! The ordinary life of a held agent: output, input, exit, and the ways a start can fail.

use std::fs;

use super::reexec::shim_exe;
use super::support::{Seen, Session, command, exited, python, shell, spawn};
use crate::scan::{HeldDir, find_held};
use crate::{AgentSpawner, Delivery, HoldLimits, SpawnError, SpawnStage};
use host::process_tree as tree;

#[tokio::test]
async fn input_is_echoed_and_the_exit_code_is_kept() {
    let session = Session::new();
    let mut link = session.spawn(&shell("cat; echo bye >&2; exit 7")).await;
    link.write(1, b"hello\n").unwrap();
    let mut seen = Seen::default();
    seen.until(&mut link, |seen| seen.out == b"hello\n").await;
    link.close_stdin(2).unwrap();
    assert_eq!(seen.until_end(&mut link).await, exited(7));
    assert_eq!(seen.until_end(&mut link).await, exited(7), "the end is repeated");
    assert_eq!(seen.err, b"bye\n");
    assert_eq!(seen.inputs, [(1, Delivery::Delivered), (2, Delivery::Delivered)]);
    assert_eq!((seen.metas, seen.exits.len(), link.last_write_id()), (1, 1, 2));
    session.acknowledge(link).await;
    assert!(!session.dir().join("sock").exists());
    assert!(!session.dir().join("reserve").exists());
}

#[tokio::test]
async fn a_hundred_thousand_lines_arrive_byte_exact() {
    let session = Session::new();
    let mut link = session.spawn(&shell("seq 1 100000")).await;
    let mut seen = Seen::default();
    assert_eq!(seen.until_end(&mut link).await, exited(0));
    let expected: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert!(seen.out == expected.as_bytes(), "{} bytes differ", seen.out.len());
    session.acknowledge(link).await;
}

#[tokio::test]
async fn an_agent_starts_as_a_program_expects_to() {
    let session = Session::new();
    let script = r#"
import os, re, signal, sys
status = open("/proc/self/status").read()
field = lambda name: re.search(name + r":\s+(\S+)", status).group(1)
print("cwd", os.getcwd())
print("session leader", os.getsid(0) == os.getpid())
print("descriptors", sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:3], len(os.listdir("/proc/self/fd")))
print("blocked", field("SigBlk").strip("0"))
print("hangup", signal.getsignal(signal.SIGHUP) == signal.SIG_DFL)
print("umask", field("Umask"))
print("environment", sorted(name for name in os.environ if name != "LC_CTYPE"))
"#;
    let mut plan = python(script);
    plan.env.push(("GIVEN".into(), "yes".into()));
    plan.cwd = session.root().canonicalize().unwrap();
    let mut link = session.spawn(&plan).await;
    let mut seen = Seen::default();
    assert_eq!(seen.until_end(&mut link).await, exited(0), "{}", seen.err_text());
    let umask = fs::read_to_string("/proc/self/status").unwrap();
    let umask = umask.lines().find_map(|line| line.strip_prefix("Umask:\t")).unwrap();
    // The fourth descriptor is the one used to list the descriptors.
    let expected = format!(
        "cwd {}\nsession leader True\ndescriptors [0, 1, 2] 4\nblocked \nhangup True\numask {umask}\n\
         environment ['GIVEN', 'OBEY_TREE', 'PATH']\n",
        plan.cwd.display()
    );
    assert_eq!(seen.out_text(), expected);
    session.acknowledge(link).await;
}

#[tokio::test]
async fn a_failed_start_names_its_stage() {
    let session = Session::new();
    let missing = spawn(&session.dir(), &command("no-such-program", &[])).await.err().unwrap();
    assert!(missing.is_program_missing(), "{missing:?}");

    let file = session.root().join("not-executable");
    fs::write(&file, "#!/bin/sh\n").unwrap();
    let error = spawn(&session.dir(), &command(file.to_str().unwrap(), &[])).await.err().unwrap();
    assert!(!error.is_program_missing());
    assert!(
        matches!(error, SpawnError::Stage { stage: SpawnStage::Exec, errno: libc::EACCES, .. }),
        "{error:?}"
    );

    for (cwd, errno) in [(session.root().join("gone"), libc::ENOENT), (file, libc::ENOTDIR)] {
        let mut plan = shell("true");
        plan.cwd = cwd;
        let error = spawn(&session.dir(), &plan).await.err().unwrap();
        assert!(
            matches!(error, SpawnError::Stage { stage: SpawnStage::Cwd, errno: e, .. } if e == errno),
            "{error:?}"
        );
    }

    let mut plan = shell("touch ran");
    plan.cwd = session.root().to_owned();
    let nowhere = serde_json::json!({"group": {"legacy": {"pids": session.root().join("gone")}}});
    plan.limits = Some(serde_json::from_value(nowhere).unwrap());
    let error = spawn(&session.dir(), &plan).await.err().unwrap();
    assert!(error.is_unlimited(), "{error:?}");
    assert!(!session.root().join("ran").exists(), "nothing runs outside of its limits");

    let exe = session.root().join("no-shim");
    let limits = HoldLimits::default();
    let error = AgentSpawner::spawn(&exe, &session.dir(), &shell("true"), 1, &limits).await.err().unwrap();
    assert!(matches!(error, SpawnError::Shim(_)), "{error:?}");
    let error = AgentSpawner::spawn("/bin/true".as_ref(), &session.dir(), &shell("true"), 1, &limits)
        .await
        .err()
        .unwrap();
    assert!(matches!(error, SpawnError::Silent(_)), "{error:?}");
    let nowhere = session.root().join("a/b/c");
    let error = AgentSpawner::spawn(&shim_exe(), &nowhere, &shell("true"), 1, &limits).await.err().unwrap();
    assert!(matches!(error, SpawnError::Dir(_)), "{error:?}");
}

#[tokio::test]
async fn a_second_shim_for_the_same_directory_is_refused() {
    let session = Session::new();
    let mut link = session.spawn(&shell("cat")).await;
    let error = spawn(&session.dir(), &shell("echo never")).await.err().unwrap();
    assert!(error.is_held(), "{error:?}");
    link.write(1, b"still here").unwrap();
    Seen::default().until(&mut link, |seen| seen.out == b"still here").await;
}

#[tokio::test]
async fn held_directories_are_found() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(find_held(&root.path().join("none")).unwrap(), []);
    let (a, b) = (root.path().join("a"), root.path().join("b"));
    let mut ended = spawn(&a, &shell("exit 0")).await.unwrap();
    let held = spawn(&b, &shell("cat")).await.unwrap();
    assert_eq!(Seen::default().until_end(&mut ended).await, exited(0));
    ended.ack_exit().unwrap();
    ended.close().await;
    super::support::gone(&a).await;
    fs::create_dir(root.path().join("unused")).unwrap();
    std::os::unix::fs::symlink(&b, root.path().join("link")).unwrap();
    let expected = [HeldDir { dir: a, is_held: false }, HeldDir { dir: b.clone(), is_held: true }];
    assert_eq!(find_held(root.path()).unwrap(), expected);
    super::support::end(&b, held).await;
}

#[tokio::test]
async fn an_agent_is_described_well_enough_to_be_found_again() {
    let session = Session::new();
    let link = session.spawn(&shell("cat")).await;
    let agent = shim::proc_table::find(link.agent_pid().unwrap() as i32).unwrap();
    let meta = link.meta().unwrap();
    assert_eq!((meta.agent_pid as i32, meta.start_ticks), (agent.pid, agent.start_ticks));
    assert_eq!(meta.boot_id, shim::proc_table::boot_id());
    assert_ne!(meta.boot_id, [0; 16]);
    assert_eq!(agent.parent, link.shim_pid().unwrap() as i32);
    let shim = shim::proc_table::find(link.shim_pid().unwrap() as i32).unwrap();
    assert_eq!((shim.name.as_str(), shim.session), ("obey-shim", shim.pid));
    assert_eq!(tree::mark_of(&session.dir()).unwrap(), tree::mark_of(&session.dir()).unwrap());
}
