//! The escape suite: every attempt of the example's `escape`, at every tier that can be had here, as the own user and,
//! if that is root, as nobody. Expected ends are in `escapes.txt`; afterwards nothing outside may have changed.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::stage;

const TABLE: &str = include_str!("escapes.txt");
const NOBODY: u32 = 65_534;

fn expected(column: usize) -> BTreeMap<&'static str, Vec<&'static str>> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(fields.len(), 3, "{line}");
            (fields[0], fields[column].split('|').collect())
        })
        .collect()
}

/// Runs the suite; none if the tier cannot be had here.
fn run(program: &Path, tier: &str, user: Option<u32>) -> Option<String> {
    let mut command = Command::new(program);
    command.args(["suite", tier]).stdin(Stdio::null()).current_dir("/").env("TMPDIR", "/tmp");
    if let Some(user) = user {
        // Without a list of groups of its own, the child of root gives up root's.
        command.uid(user).gid(user);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.code() {
        Some(0) => Some(text),
        Some(3) => {
            println!("{tier} cannot be had here:\n{text}");
            None
        }
        other => panic!("suite ended with {other:?}:\n{text}\n{}", String::from_utf8_lossy(&output.stderr)),
    }
}

fn judge(text: &str, column: usize, who: &str) {
    let expected = expected(column);
    let mut seen = BTreeMap::new();
    let mut wrong = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("probe ") {
            let (name, end) = rest.split_once(' ').unwrap();
            seen.insert(name, end);
            match expected.get(name) {
                Some(ends) if ends.contains(&end) => {}
                Some(ends) => wrong.push(format!("{name} ended with {end}, not {}", ends.join(" or "))),
                None => wrong.push(format!("{name} is not in the table (it ended with {end})")),
            }
        } else if let Some(change) = line.strip_prefix("changed ") {
            wrong.push(format!("changed: {change}"));
        }
    }
    for name in expected.keys().filter(|name| !seen.contains_key(*name)) {
        wrong.push(format!("{name} did not run"));
    }
    assert!(seen.len() >= 60, "only {} attempts", seen.len());
    assert!(wrong.is_empty(), "{who}:\n{}\n{text}", wrong.join("\n"));
    let first = text.lines().take(2).collect::<Vec<_>>().join(", ");
    println!("sandbox {first}: {} attempts by {who}, all ended as expected", seen.len());
}

/// Copies of the stage and of these tests that every user may run, beside each other as in the build folder.
struct Public {
    dir: tempfile::TempDir,
}

impl Public {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let open =
            |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        open(dir.path());
        for (from, to) in [(stage(), "examples/stage"), (std::env::current_exe().unwrap(), "deps/it")] {
            let to = dir.path().join(to);
            std::fs::create_dir(to.parent().unwrap()).unwrap();
            std::fs::copy(from, &to).unwrap();
            open(to.parent().unwrap());
            open(&to);
        }
        Self { dir }
    }

    fn stage(&self) -> std::path::PathBuf {
        self.dir.path().join("examples/stage")
    }

    fn tests(&self) -> std::path::PathBuf {
        self.dir.path().join("deps/it")
    }
}

fn at_tier(tier: &str, column: usize) {
    let public = Public::new();
    let program = public.stage();
    let root = rustix::process::geteuid().is_root();
    if let Some(text) = run(&program, tier, None) {
        judge(&text, column, if root { "root" } else { "an ordinary user" });
    }
    if root && let Some(text) = run(&program, tier, Some(NOBODY)) {
        judge(&text, column, "nobody");
    }
}

#[test]
fn nothing_gets_out_of_namespaces() {
    at_tier("namespaces", 1);
}

#[test]
fn nothing_gets_out_of_landlock() {
    at_tier("landlock", 2);
}

/// Root is exempt from some of the kernel's checks, so that what holds for it may hold for it alone.
#[test]
fn what_holds_for_root_holds_for_nobody() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let public = Public::new();
    let output = Command::new(public.tests())
        .args(["agent::", "bombs::", "running::", "--test-threads=2", "--nocapture"])
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir("/")
        .env_clear()
        .env("TMPDIR", "/tmp")
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let tiers = text.lines().filter(|line| line.starts_with("sandbox tier: namespaces")).count();
    println!("as nobody: {}", text.lines().rfind(|line| line.starts_with("test result")).unwrap_or_default());
    assert!(tiers > 0, "the tests of nobody said nothing of a tier:\n{text}");
}
