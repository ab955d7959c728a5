//! Faults planted on purpose: `obey doctor` names each of them and how it is repaired, in words and in JSON. Faults that can
//! be there at the same time share one home and one run.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::program::{Stopped, run, text};

/// A planted fault: the check that finds it, how bad it is, a part of the message, a part of the remedy.
type Fault = (&'static str, &'static str, &'static str, &'static str);

/// Everything that can be wrong at once while no daemon runs.
const AT_ONCE: [Fault; 23] = [
    ("socket folder", "broken", "/obey", "chmod 700"),
    ("socket", "warning", "left over from a daemon", "obey serve --detach"),
    ("lock", "broken", "held by process 4711", "kill 4711"),
    ("ports", "broken", "cannot be used", "obey config edit"),
    ("certificate", "broken", "others can read the key", "chmod 600"),
    ("data folder", "broken", ".local/share/obey", "chmod 700"),
    ("rules", "broken", "rules.toml", "mend the file"),
    ("settings", "broken", "settings.json", "mend the file"),
    ("policies", "broken", "policies.toml", "mend the file"),
    ("secret files", "broken", "obey/token (mode 644)", "chmod 600"),
    ("open files", "warning", "may open 512 files only", "raise the hard limit"),
    ("clock", "warning", "the last event was written at", "timedatectl"),
    (
        "claude",
        "warning",
        "older than any that obey was tried with",
        "npm install -g @anthropic-ai/claude-code@latest",
    ),
    ("codex", "warning", "no login", "codex login"),
    ("git", "warning", "too old to merge", "2.38 or newer"),
    ("secrets", "warning", "scrub.events is false", "scrub.events = true"),
    ("memory", "broken", "model", "[memory]"),
    ("hook", "broken", "No such file", "notices.hook"),
    ("webhook", "warning", "cannot be reached", "notices.webhook"),
    ("telemetry", "warning", "cannot be reached", "telemetry.endpoint"),
    ("relay", "warning", "cannot be reached", "obey machine"),
    ("machine certificate", "broken", "has expired", "obey machine join"),
    ("providers", "ok", "claude-code, codex", ""),
];

/// A home folder with everything that tests need in it.
struct Home {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bin");
        let home = Self { folder, path };
        for name in ["obey", "bin", "data", ".config", ".config/obey", ".local/share/obey/agents"] {
            fs::create_dir_all(home.at(name)).unwrap();
        }
        for name in ["obey", ".local/share/obey", ".local/share/obey/agents"] {
            home.set_mode(name, 0o700);
        }
        home
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn set_mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.at(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Puts a program on the PATH that prints one line.
    fn program(&self, name: &str, prints: &str) {
        self.write(&format!("bin/{name}"), &format!("#!/bin/sh\necho '{prints}'\n"));
        self.set_mode(&format!("bin/{name}"), 0o755);
    }

    fn config(&self, text: &str) {
        self.write(".config/obey/config.toml", text);
    }

    /// Runs a script in which `$OBEY` is the program.
    fn script(&self, script: &str, program: &str, before: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.args(before).args(["/bin/sh", "-c", script]);
        command.env_clear().env("HOME", self.folder.path()).env("XDG_RUNTIME_DIR", self.folder.path());
        command.env("PATH", &self.path).env("OBEY", env!("CARGO_BIN_EXE_obey"));
        command.stdin(Stdio::null()).current_dir(self.folder.path()).output().unwrap()
    }

    fn doctor(&self, flags: &str) -> Output {
        self.script(&format!("exec \"$OBEY\" doctor {flags}"), "/usr/bin/env", &[])
    }

    /// Checks that each fault is found.
    fn finds(&self, faults: &[Fault]) {
        finds(&self.doctor("--json"), faults);
    }
}

fn finds(ran: &Output, faults: &[Fault]) {
    let report: Value =
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{}", text(&ran.stderr)));
    let missed: Vec<_> = faults.iter().filter(|fault| !is_in(&report, fault)).collect();
    assert!(missed.is_empty(), "not found: {missed:#?}\nin {report:#}");
    let is_broken = faults.iter().any(|(_, state, ..)| *state == "broken");
    assert!(!is_broken || ran.status.code() == Some(1), "{:?}", ran.status);
}

fn is_in(report: &Value, (check, state, message, repair): &Fault) -> bool {
    report["findings"].as_array().unwrap().iter().any(|finding| {
        let has = |key: &str, part: &str| finding[key].as_str().unwrap().contains(part);
        finding["check"] == *check
            && finding["state"] == *state
            && has("message", message)
            && has("repair", repair)
            && (repair.is_empty() == finding["repair"].as_str().unwrap().is_empty())
    })
}

/// A port at which nobody listens.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A certificate and its key, valid between two years.
fn certificate(home: &Home, from: i32, until: i32) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(from, 1, 1);
    params.not_after = rcgen::date_time_ymd(until, 1, 1);
    home.write("cert.pem", &params.self_signed(&key).unwrap().pem());
    home.write("key.pem", &key.serialize_pem());
    home.set_mode("key.pem", 0o600);
}

#[test]
fn faults_that_come_together_are_each_found_with_a_remedy() {
    let home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, closed) = (taken.local_addr().unwrap().port(), closed_port());
    certificate(&home, 2020, 2999);
    let folder = home.folder.path().display().to_string();
    home.config(&format!(
        "listen = [\"127.0.0.1:{port}\"]\n[tls]\ncert = \"{folder}/cert.pem\"\nkey = \"{folder}/key.pem\"\n\
         [scrub]\nevents = false\n[memory]\nmodel_folder = \"{folder}/data\"\n\
         [notices]\nhook = \"{folder}/no-such-hook\"\nwebhook = \"http://127.0.0.1:{closed}/x\"\n\
         [telemetry]\nendpoint = \"http://127.0.0.1:{closed}\"\n"
    ));
    home.set_mode("key.pem", 0o644);
    home.write(".config/obey/rules.toml", "[[rule]\n");
    home.write(".config/obey/policies.toml", "[[policy]\n");
    home.write(".config/betcode/settings.json", "{\"sessions\": ");
    home.program("claude", "1.0.9 (Claude Code)");
    home.program("codex", "codex-cli 0.170.0");
    home.program("git", "git version 2.20.1");
    home.write("obey/token", &"0".repeat(64));
    let relay = format!(
        "{{\"url\": \"https://127.0.0.1:{closed}\", \"pin\": \"p\", \"machine_id\": \"m\", \"name\": \"n\", \
         \"certificate_pem\": \"c\", \"key_pem\": \"k\", \"expires_at\": 1600000000000000}}"
    );
    home.write(".local/share/obey/relay.json", &relay);
    home.set_mode(".local/share/obey/relay.json", 0o600);
    let database = File::create(home.at(".local/share/obey/daemon.db")).unwrap();
    database.set_modified(SystemTime::now() + Duration::from_secs(2 * 3600)).unwrap();
    drop(UnixListener::bind(home.at("obey/daemon.sock")).unwrap());
    home.set_mode("obey/daemon.sock", 0o600);
    home.set_mode("obey", 0o777);
    home.set_mode(".local/share/obey", 0o755);
    let lock = File::create(home.write(".local/share/obey/daemon.lock", "4711\n")).unwrap();
    fs::write(home.at(".local/share/obey/daemon.lock"), "4711\n").unwrap();
    lock.lock().unwrap();

    let limited = |flags: &str| {
        home.script(&format!("ulimit -n 512; exec \"$OBEY\" doctor {flags}"), "/usr/bin/env", &[])
    };
    finds(&limited("--json"), &AT_ONCE);
    let words = limited("");
    let words = text(&words.stdout);
    for (check, _, message, repair) in AT_ONCE {
        let is_told = words.contains(check) && words.contains(message) && words.contains(repair);
        assert!(is_told, "{check}: {message}: {repair}\n{words}");
    }
}

#[test]
fn a_configuration_that_cannot_be_used_is_found() {
    let home = Home::new();
    let wrong: [(&str, &str); 5] = [
        ("sokcet = \"/x\"\n", "did you mean socket?"),
        ("listen = 50051\n", "listen"),
        ("[tls]\ncert = \"/etc/cert.pem\"\n", "cert and key must both be set"),
        ("log_level = \"loud=very\"\n", "log_level"),
        ("[telemetry]\nendpoint = \"localhost:4318\"\n", "telemetry.endpoint"),
    ];
    for (config, message) in wrong {
        home.config(config);
        home.finds(&[("config", "broken", message, "obey config edit")]);
    }
}

#[test]
fn certificates_databases_and_agents_that_do_not_work_are_found() {
    let home = Home::new();
    home.program("claude", "x");
    home.write("bin/claude", "#!/bin/sh\nexit 3\n");
    home.config("listen = [\"tls://0.0.0.0:0\"]\n");
    home.write(".local/share/obey/daemon.db", &"this is no database ".repeat(500));
    home.set_mode(".local/share/obey/daemon.db", 0o600);
    home.write("obey/daemon.sock", "");
    home.finds(&[
        ("certificate", "broken", "needs a certificate, and none is configured", "tls.cert"),
        ("database", "broken", "is damaged", "backup"),
        ("socket", "broken", "is no socket", "rm "),
        ("claude", "broken", "--version failed", "install it again"),
        ("codex", "warning", "codex is not on the agent's PATH", "npm install -g @openai/codex"),
        ("git", "warning", "git is not on the PATH", "apt install git"),
    ]);

    certificate(&home, 2019, 2020);
    let folder = home.folder.path().display();
    home.config(&format!(
        "listen = []\n[tls]\ncert = \"{folder}/cert.pem\"\nkey = \"{folder}/key.pem\"\n\
         [memory]\nqdrant_url = \"http://127.0.0.1:{}\"\n",
        closed_port()
    ));
    fs::remove_file(home.at("bin/claude")).unwrap();
    fs::remove_file(home.at(".local/share/obey/daemon.db")).unwrap();
    fs::write(home.at(".local/share/obey/daemon.db"), newer_database()).unwrap();
    home.finds(&[
        ("certificate", "broken", "expired on", "renew it"),
        ("database", "broken", "was written by a newer obey", "install the newer version"),
        ("secret files", "broken", "daemon.db", "chmod 600"),
        ("qdrant", "warning", "memories are searched in the daemon's own file", "memory.qdrant_url"),
        ("providers", "warning", "no agent is installed", "npm install"),
        ("claude", "warning", "claude is not on the agent's PATH", "npm install"),
    ]);
}

/// The smallest file of SQLite: one empty page, with a format that no version of obey has yet.
fn newer_database() -> Vec<u8> {
    let mut page = vec![0; 4096];
    page[..16].copy_from_slice(b"SQLite format 3\0");
    page[16..24].copy_from_slice(&[0x10, 0, 1, 1, 0, 64, 32, 32]);
    page[28..32].copy_from_slice(&1_u32.to_be_bytes());
    page[44..48].copy_from_slice(&4_u32.to_be_bytes());
    page[56..60].copy_from_slice(&1_u32.to_be_bytes());
    page[60..64].copy_from_slice(&9_999_u32.to_be_bytes());
    page[100] = 13;
    page[105..107].copy_from_slice(&[0x10, 0]);
    page
}

#[test]
fn a_machine_without_room_and_namespaces_is_found() {
    let home = Home::new();
    home.config("listen = []\n");
    let data = home.at(".local/share/obey").display().to_string();
    // A small file system of our own and no more namespaces, seen by nobody else.
    let script = format!(
        "/bin/mount -t tmpfs -o size=8m,mode=700 none '{data}' && echo 0 > /proc/sys/user/max_user_namespaces && \
         exec \"$OBEY\" doctor --json"
    );
    let ran = home.script(&script, "/usr/bin/unshare", &["--map-root-user", "--mount"]);
    if ran.stdout.is_empty() {
        return crate::doctor::skipped(text(&ran.stderr));
    }
    finds(
        &ran,
        &[
            ("disk space", "warning", "free at", "make room"),
            ("sandbox", "warning", "agents cannot be put in it", "namespaces"),
        ],
    );
}

#[test]
fn what_is_wrong_with_a_running_daemon_is_found() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let _stopped = Stopped(home.path());
    let started = run(home.path(), &["serve", "--detach", "--listen", "none"]);
    assert_eq!(started.status.code(), Some(0), "{}", text(&started.stderr));
    for name in ["gone", "hostile", "open"] {
        fs::create_dir(at(name)).unwrap();
        run(home.path(), &["campaign", "add", at(name).to_str().unwrap(), "--name", name]);
    }
    fs::remove_dir(at("gone")).unwrap();
    run(home.path(), &["campaign", "set", "open", "--scrub", "off"]);
    let repository = at("hostile/inner/.git");
    fs::create_dir_all(repository.join("objects")).unwrap();
    fs::create_dir_all(repository.join("refs")).unwrap();
    fs::write(repository.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(repository.join("config"), "[core]\n\tfsmonitor = touch /tmp/x\n").unwrap();
    let agents = at(".local/share/obey/agents");
    let orphan = agents.join("sess_01BBBBBBBBBBBBBBBBBBBBBBBB.1");
    for folder in [&orphan, &agents.join("sess_01CCCCCCCCCCCCCCCCCCCCCCCC.1")] {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("lock"), "4711\n").unwrap();
    }
    let held = File::open(orphan.join("lock")).unwrap();
    held.lock().unwrap();
    finds(
        &run(home.path(), &["doctor", "--json"]),
        &[
            ("agents", "broken", "pid 4711", "kill -9 4711"),
            ("agents", "warning", "1 folder of agents that are gone", "obey gc"),
            ("projects", "warning", "the folder of gone is gone", "obey campaign remove gone"),
            ("repositories", "warning", "core.fsmonitor", "remove those that you did not write"),
            (
                "secrets",
                "warning",
                "kept in the events of sessions of open",
                "obey campaign set open --scrub on",
            ),
        ],
    );
    drop(held);
}
