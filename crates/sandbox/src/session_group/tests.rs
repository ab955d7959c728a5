//! Groups as the kernel of this machine gives them, and as files where it gives none.

use std::process::{Child, Command};

use super::*;

/// What the machine gives to whoever runs the tests; says so where it gives nothing.
fn home() -> Option<GroupHome> {
    let tag = format!("test{}-{}", std::process::id(), crate::random::name().ok()?);
    let home = GroupHome::find(&tag);
    if home.found == Hierarchies::default() {
        println!("SKIPPED: no control groups are to be had here");
        return None;
    }
    Some(home)
}

/// Starts a shell inside of a group, as the shim does.
fn inside(group: &SessionGroup, script: &str) -> Child {
    let mut files = group.thread_files();
    files.extend(group.unified_folder().map(|folder| folder.join("cgroup.procs")));
    let join = "for file in \"$@\"; do echo 0 > $file; done";
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{join}; {script}"), "sh"]).args(files);
    command.spawn().unwrap()
}

#[tokio::test]
async fn what_is_in_a_group_dies_with_it_however_it_hides() {
    let Some(home) = home() else { return };
    let with_kill = home.limit("a.1", ResourceLimits::default()).unwrap().group.unwrap();
    let mut without = home.clone();
    // As on a machine that has version 1 only.
    without.found.unified = None;
    let frozen = without.limit("b.1", ResourceLimits::default()).unwrap().group;
    for group in [Some(with_kill), frozen].into_iter().flatten() {
        let mut child =
            inside(&group, "(setsid env -i sh -c 'while :; do sleep 1000 & sleep 1000; done' &) ; exit 0");
        child.wait().unwrap();
        assert!(!group.members().is_empty());
        group.remove().await;
        assert!(group.members().is_empty() && group.folders().iter().all(|folder| !folder.exists()));
    }
    assert!(home.existing().is_empty());
}

#[tokio::test]
async fn the_limits_of_a_group_are_set_and_its_use_is_measured() {
    let Some(home) = home() else { return };
    let most = ResourceLimits { memory_bytes: Some(64 << 20), cpu_millis: Some(1_500), processes: Some(20) };
    let limited = home.limit("a.1", most).unwrap();
    let group = limited.group.clone().unwrap();
    assert_eq!(home.existing().keys().collect::<Vec<_>>(), ["a.1"]);
    for resource in Resource::ALL {
        let by_group = group.enforcement_of(resource) != Enforcement::None;
        let elsewhere =
            limited.per_process.get(resource).is_some() || limited.not_enforced.contains(&resource);
        assert!(by_group != elsewhere, "{resource:?} {limited:?}");
    }
    let stored: RunLimits = serde_json::from_str(&serde_json::to_string(&limited).unwrap()).unwrap();
    assert_eq!(stored, limited);
    if group.enforcement_of(Resource::Memory) != Enforcement::None {
        let status = inside(&group, "head -c 200M /dev/zero | tail -n 1 > /dev/null").wait().unwrap();
        assert!(!status.success());
        let report = limited.report();
        assert!(report.oom_kills > 0, "{report:?}");
        assert!(
            report.peak_memory_bytes.is_some_and(|peak| peak > 32 << 20 && peak <= 64 << 20),
            "{report:?}"
        );
        assert!(report.cpu_ms.is_some(), "{report:?}");
    }
    if group.enforcement_of(Resource::Processes) != Enforcement::None {
        let mut child = inside(&group, "for i in $(seq 100); do sleep 1000 & done 2>/dev/null");
        let _ = child.wait();
        assert!(group.members().len() <= 20);
    }
    group.remove().await;
}

/// Version 2 with its controllers, as files.
#[tokio::test]
async fn a_group_of_version_two_is_written_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let controllers = BTreeSet::from([Controller::Memory, Controller::Pids, Controller::Cpu]);
    let unified = Some((dir.path().to_owned(), controllers));
    let home = GroupHome { tag: "t".to_owned(), found: Hierarchies { unified, legacy: BTreeMap::new() } };
    assert_eq!(home.enforcement(), Enforcement::CgroupV2);
    let most = ResourceLimits { memory_bytes: Some(4 << 30), cpu_millis: Some(500), processes: Some(9) };
    let limited = home.limit("s.1", most).unwrap();
    assert_eq!((limited.enforcement, limited.per_process.is_empty()), (Enforcement::CgroupV2, true));
    let folder = dir.path().join("obey-agent-t-s.1");
    let text = |file: &str| fs::read_to_string(folder.join(file)).unwrap();
    assert_eq!((text("memory.max"), text("pids.max")), ("4294967296".to_owned(), "9".to_owned()));
    assert_eq!((text("cpu.max"), text("memory.swap.max")), ("50000 100000".to_owned(), "0".to_owned()));
    for (file, value) in [
        ("memory.peak", "1048576\n"),
        ("memory.events", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 2\noom_group_kill 0\n"),
        ("cpu.stat", "usage_usec 1500999\nuser_usec 1\n"),
    ] {
        fs::write(folder.join(file), value).unwrap();
    }
    let report = limited.report();
    assert_eq!((report.peak_memory_bytes, report.cpu_ms, report.oom_kills), (Some(1 << 20), Some(1_500), 2));
    assert_eq!(home.run_of("obey-agent-t-s.1"), Some("s.1"));
    assert_eq!(home.run_of("obey-agent-u-s.1"), None);
}

#[test]
fn without_groups_every_process_is_limited_for_itself() {
    let home = GroupHome::default();
    let most = ResourceLimits { memory_bytes: Some(4 << 30), cpu_millis: None, processes: None };
    let limited = home.limit("s.1", most).unwrap();
    assert_eq!((limited.group, limited.enforcement, limited.per_process), (None, Enforcement::Rlimits, most));
    let nothing = home.limit("s.1", ResourceLimits::default()).unwrap();
    assert_eq!(nothing.enforcement, Enforcement::None);
}
