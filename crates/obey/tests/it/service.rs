//! `obey service` with a service manager that plays along, and without one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::program::{Stopped, obey, text};

/// A home in which `systemctl` is a script that writes down how it was called.
struct Place {
    home: tempfile::TempDir,
}

impl Place {
    fn new(systemctl: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("bin")).unwrap();
        let place = Self { home };
        place.program("systemctl", systemctl);
        place
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.path(&format!("bin/{name}"));
        fs::write(&path, format!("#!/bin/sh\necho \"{name} $*\" >>\"$HOME/calls\"\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = obey(self.home.path(), words);
        command.env("PATH", format!("{}:/usr/bin:/bin", self.path("bin").display()));
        command.output().unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        let words: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
        let ran = self.run(&words);
        assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
        serde_json::from_slice(&ran.stdout).unwrap()
    }

    /// Returns how the programs were called since the last time, without questions.
    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("calls")).unwrap_or_default();
        let _absent = fs::remove_file(self.path("calls"));
        let is_work = |call: &&str| !call.contains(" show") && !call.contains(" is-");
        text.lines().filter(is_work).map(str::to_owned).collect()
    }

    fn units(&self) -> [PathBuf; 2] {
        ["obey.service", "obey.socket"].map(|name| self.path(".config/systemd/user").join(name))
    }
}

/// Does not answer, as in a container.
const ABSENT: &str = "echo 'Failed to connect to bus' >&2; exit 1";

/// Answers everything.
const PRESENT: &str = "case \"$*\" in *MainPID*) echo 0;; *is-enabled*) echo enabled;; *is-active*) echo inactive; exit 3;; esac";

#[test]
fn without_a_manager_the_files_are_written_and_the_commands_told() {
    let place = Place::new(ABSENT);
    let ran = place.run(&["service", "install", "--now"]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let told = text(&ran.stdout);
    assert!(told.contains("systemd does not answer here"), "{told}");
    assert!(told.contains("  systemctl --user daemon-reload\n"), "{told}");
    assert!(told.contains("  systemctl --user enable --now obey.socket obey.service\n"), "{told}");
    assert!(place.calls().is_empty());
    let unit = fs::read_to_string(&place.units()[0]).unwrap();
    let program =
        format!("ExecStart=\"{}\" serve --socket %t/obey/daemon.sock\n", env!("CARGO_BIN_EXE_obey"));
    assert!(unit.contains(&program), "{unit}");
    assert!(unit.contains(&format!("Environment=\"PATH={}:", place.path("bin").display())), "{unit}");

    let again = place.json(&["service", "install"]);
    assert_eq!(again["written"], serde_json::json!([]), "what is there already is not written again");
    let status = place.json(&["service", "status"]);
    assert_eq!(
        (&status["answers"], &status["files"][0]["state"]),
        (&Value::Bool(false), &"installed".into())
    );
    let removed = place.json(&["service", "uninstall"]);
    assert_eq!(removed["removed"].as_array().unwrap().len(), 2);
    assert!(place.units().iter().all(|unit| !unit.exists()));
    assert!(text(&place.run(&["service", "uninstall"]).stdout).contains("No service is installed"));
}

#[test]
fn a_manager_is_told_what_was_installed_and_removed() {
    let place = Place::new(PRESENT);
    place.program("loginctl", "case \"$*\" in *Linger*) echo no;; *) echo denied >&2; exit 1;; esac");
    let ran = place.run(&["service", "install", "--enable-linger"]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert!(text(&ran.stderr).contains("(denied); an administrator can run: loginctl enable-linger"));
    let calls = place.calls();
    assert_eq!(
        calls,
        [
            "systemctl --user daemon-reload",
            "systemctl --user enable obey.socket obey.service",
            "loginctl enable-linger"
        ]
    );
    let status = place.json(&["service", "status"]);
    assert_eq!(status["units"][0]["unit"], "obey.socket");
    assert_eq!(
        (&status["units"][1]["enabled"], &status["units"][1]["active"]),
        (&"enabled".into(), &"inactive".into())
    );
    assert_eq!((&status["pid"], &status["linger"]), (&Value::Null, &Value::Bool(false)));
    place.calls();
    place.json(&["service", "install", "--now"]);
    assert_eq!(place.calls().last().unwrap(), "systemctl --user start obey.socket obey.service");
    place.json(&["service", "uninstall"]);
    assert_eq!(
        place.calls(),
        ["systemctl --user disable --now obey.socket obey.service", "systemctl --user daemon-reload"]
    );
}

#[test]
fn what_somebody_else_wrote_is_neither_overwritten_nor_removed() {
    let place = Place::new(PRESENT);
    let [service, socket] = place.units();
    fs::create_dir_all(service.parent().unwrap()).unwrap();
    fs::write(&socket, "[Socket]\nListenStream=/mine\n").unwrap();
    for words in [&["service", "install"][..], &["service", "uninstall"]] {
        let refused = place.run(words);
        assert_eq!(refused.status.code(), Some(1));
        assert!(text(&refused.stderr).contains("was not written by obey"), "{}", text(&refused.stderr));
    }
    assert!(!service.exists());
    assert_eq!(fs::read_to_string(&socket).unwrap(), "[Socket]\nListenStream=/mine\n");
    assert!(place.calls().is_empty());
    assert_eq!(place.json(&["service", "status"])["files"][1]["state"], "written by somebody else");
}

#[test]
fn either_kind_is_printed_anywhere_and_nothing_is_written() {
    let place = Place::new(ABSENT);
    let list = place.run(&["service", "install", "--print", "--for", "launchd"]);
    let list = text(&list.stdout);
    assert!(list.starts_with("<?xml") && list.contains("<key>AbandonProcessGroup</key>"), "{list}");
    let units = place.run(&["service", "install", "--print", "--for", "systemd"]);
    let units = text(&units.stdout);
    assert!(units.contains("KillMode=process\n") && units.contains("\n[Socket]\n"), "{units}");
    assert!(!place.path(".config").exists() && !place.path("Library").exists());
    place.json(&["service", "install", "--for", "launchd"]);
    assert!(place.path("Library/LaunchAgents/dev.obey.daemon.plist").exists());
    place.json(&["service", "uninstall", "--for", "launchd"]);
    assert!(!place.path("Library/LaunchAgents/dev.obey.daemon.plist").exists());
}

#[test]
#[allow(clippy::print_stderr, reason = "a skipped test must say so where people look")]
fn systemd_finds_no_fault_in_the_units() {
    let place = Place::new(ABSENT);
    let socket = place.path("other place/daemon.sock");
    for extra in [&[][..], &["--socket", socket.to_str().unwrap()]] {
        let words: Vec<&str> = ["service", "install"].iter().chain(extra).copied().collect();
        place.json(&words);
        fs::create_dir_all(place.path("run")).unwrap();
        let mut verify = Command::new("systemd-analyze");
        verify.args(["--user", "verify"]).args(place.units());
        verify.env("XDG_RUNTIME_DIR", place.path("run")).env("HOME", place.home.path());
        let Ok(verified) = verify.output() else {
            eprintln!("SKIPPED: systemd-analyze is not installed");
            return;
        };
        let said = text(&verified.stderr);
        // Before systemd 254 there is no such key; it is passed over, and agents get no control groups there.
        let is_newer = |line: &&str| !line.contains("Unknown key 'DelegateSubgroup'");
        let said: String = said.lines().filter(is_newer).collect();
        if said.contains("Failed to initialize manager") {
            eprintln!("SKIPPED: systemd-analyze does not work here: {said}");
            return;
        }
        assert!(verified.status.success() && said.is_empty(), "{said}");
    }
}

/// A manager with one daemon, which it really runs: as little of systemd as an exchange needs.
const RUNS: &str = r#"
start() {
    setsid "$OBEY" serve --listen none >>"$HOME/service.log" 2>&1 </dev/null &
    echo $! >"$HOME/main.pid"
    until "$OBEY" ping --no-autostart >/dev/null 2>&1; do sleep 0.05; done
}
stop() {
    kill "$(cat "$HOME/main.pid")"
    while kill -0 "$(cat "$HOME/main.pid")" 2>/dev/null; do sleep 0.02; done
}
case "$*" in
    *MainPID*) cat "$HOME/main.pid" 2>/dev/null || echo 0 ;;
    *restart*) stop; start ;;
    *start*) start ;;
esac"#;

#[test]
fn a_daemon_becomes_a_service_and_is_exchanged_by_its_manager() {
    let place = Place::new(&format!("OBEY={}\n{RUNS}", env!("CARGO_BIN_EXE_obey")));
    let _stopped = Stopped(place.home.path());
    let pid = || place.json(&["ping", "--no-autostart"])["pid"].as_i64().unwrap();
    place.run(&["serve", "--detach", "--listen", "none"]);
    let alone = pid();
    let upgraded = place.json(&["upgrade"]);
    assert_eq!(upgraded["manager"], Value::Null, "nobody manages it yet");
    assert_ne!(pid(), alone);

    let unmanaged = pid();
    assert_eq!(place.json(&["service", "install", "--now"])["started"], true);
    let managed = pid();
    assert_ne!(managed, unmanaged, "the service took its place");
    assert_eq!(place.json(&["service", "status"])["pid"], managed);

    let other = place.run(&["upgrade", "--binary", env!("CARGO_BIN_EXE_obey")]);
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("service install --now"), "{}", text(&other.stderr));
    place.calls();
    let upgraded = place.json(&["upgrade"]);
    assert_eq!(upgraded["manager"], "systemd", "{upgraded}");
    assert_eq!(place.calls(), ["systemctl --user restart obey.service"]);
    assert_ne!(pid(), managed);
    assert_eq!(place.json(&["service", "status"])["pid"], pid());
    assert!(Path::new(&format!("/proc/{}", pid())).exists());
}
