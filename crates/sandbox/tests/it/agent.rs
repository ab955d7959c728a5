//! Programs that live long behind the walls of an agent: what they see, reach, and how they end.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sandbox::agent::{CopiedFile, Endpoint, Mount, ProtectedNames, Reach, WORD, Walls};

use crate::stage;

/// A project beside another one, a home with a secret in it, and a folder for the run.
pub(crate) struct Ground {
    dir: tempfile::TempDir,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["project", "other", "home/.ssh", "home/.agent", "run"] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        for secret in ["other/secret", "home/.ssh/key", "home/.agent/state", "home/.agent.json"] {
            std::fs::write(dir.path().join(secret), "canary").unwrap();
        }
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn walls(&self, reach: Reach) -> Walls {
        Walls {
            working_dir: self.path("project"),
            home: self.path("home"),
            private: Vec::new(),
            mounts: vec![
                Mount::same(self.path("project"), true),
                Mount::same(self.path("home/.agent"), true),
            ],
            copies: vec![CopiedFile { path: self.path("home/.agent.json"), only: None, from: None }],
            protected: Vec::new(),
            reach,
            endpoints: Vec::new(),
            daemon: None,
        }
    }

    pub(crate) fn command(&self, walls: &Walls, script: &str) -> Command {
        let file = self.path("run/walls.json");
        std::fs::write(&file, serde_json::to_vec(walls).unwrap()).unwrap();
        let mut command = Command::new(stage());
        command.arg(WORD).arg(file).args(["--", "/bin/sh", "-c", script]);
        command.env("HOME", self.path("home")).env("BASE", self.path("")).env("TMPDIR", "/tmp");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, walls: &Walls, script: &str) -> Output {
        self.command(walls, script).spawn().unwrap().wait_with_output().unwrap()
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const REACHES: [Reach; 3] = [Reach::Full, Reach::Endpoints, Reach::Nothing];

#[test]
fn streams_and_exits_pass_through_unchanged() {
    let ground = Ground::new();
    for reach in REACHES {
        let walls = ground.walls(reach);
        let mut child = ground.command(&walls, "cat; echo err >&2; pwd; exit 7").spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"in\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let expected = format!("in\n{}\n", ground.path("project").display());
        assert_eq!((text(&output.stdout), text(&output.stderr)), (expected, "err\n".to_owned()), "{reach:?}");
        assert_eq!(output.status.code(), Some(7));
        let killed = ground.run(&walls, "kill -9 $$");
        assert_eq!(killed.status.signal(), Some(9), "{reach:?}");
    }
}

#[test]
fn signals_for_the_outer_process_reach_the_agent() {
    let ground = Ground::new();
    let script = "trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = ground.command(&ground.walls(Reach::Nothing), script).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut said = [0; 6];
    stdout.read_exact(&mut said).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!((rest.as_str(), child.wait().unwrap().code()), ("told\n", Some(3)));
}

#[test]
fn everything_inside_dies_with_the_outer_process() {
    let ground = Ground::new();
    let script = "setsid sh -c 'echo $PPID; exec sleep 1000' & echo ready; wait; sleep 1000";
    let mut child = ground.command(&ground.walls(Reach::Nothing), script).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut said = [0; 6];
    stdout.read_exact(&mut said).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // Ends when the last process that holds the stream is gone.
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
}

#[test]
fn the_project_is_writable_and_nothing_else_of_the_machine_is_seen() {
    let ground = Ground::new();
    let script = "echo x > made; cat ~/.agent.json; echo; echo y > ~/.agent/state; echo z > ~/.agent.json; \
        cat $BASE/other/secret ~/.ssh/key 2>/dev/null; ls -A $BASE ~; ls /proc | grep -c '^[0-9]'; \
        touch /usr/x $BASE/x /x 2>/dev/null; ls -A /tmp /run; id -u";
    for reach in REACHES {
        let output = ground.run(&ground.walls(reach), script);
        let said = text(&output.stdout);
        assert!(!said.contains("secret") && !said.contains("key") && !said.contains("other"), "{said}");
        assert!(said.starts_with("canary\n"), "{said} {}", text(&output.stderr));
        assert_eq!(std::fs::read_to_string(ground.path("project/made")).unwrap(), "x\n");
        assert_eq!(std::fs::read_to_string(ground.path("home/.agent/state")).unwrap(), "y\n");
        assert_eq!(std::fs::read_to_string(ground.path("home/.agent.json")).unwrap(), "canary", "a copy");
        assert!(!ground.path("x").exists());
        assert_ne!(said.lines().last(), Some("0"), "nobody inside takes itself for root");
        std::fs::remove_file(ground.path("project/made")).unwrap();
    }
}

#[test]
fn what_is_shown_read_only_inside_the_project_cannot_be_changed_or_moved() {
    let ground = Ground::new();
    std::fs::create_dir_all(ground.path("project/.git/hooks")).unwrap();
    std::fs::write(ground.path("project/.git/config"), "mine").unwrap();
    let mut walls = ground.walls(Reach::Nothing);
    walls.mounts.extend([
        Mount::same(ground.path("project/.git"), true),
        Mount::same(ground.path("project/.git/config"), false),
        Mount::same(ground.path("project/.git/hooks"), false),
    ]);
    let script = "echo theirs > .git/config; echo > .git/hooks/pre-commit; mv .git gone; rm -rf .git; \
        mv .git/config .git/old; echo fine > .git/HEAD";
    ground.run(&walls, script);
    assert_eq!(std::fs::read_to_string(ground.path("project/.git/config")).unwrap(), "mine");
    assert!(!ground.path("project/.git/hooks/pre-commit").exists());
    assert_eq!(std::fs::read_to_string(ground.path("project/.git/HEAD")).unwrap(), "fine\n");
}

#[test]
fn of_a_copied_file_only_the_named_entries_are_seen() {
    let ground = Ground::new();
    let (file, bad) = (ground.path("home/.agent.json"), ground.path("home/.bad.json"));
    std::fs::write(&file, r#"{"a":1,"projects":{"/mine":{"x":1},"/theirs":{"x":"canary"}}}"#).unwrap();
    std::fs::write(&bad, "canary").unwrap();
    let mut walls = ground.walls(Reach::Nothing);
    let only = Some(("projects".to_owned(), vec!["/mine".to_owned()]));
    walls.copies = [file, bad].map(|path| CopiedFile { path, only: only.clone(), from: None }).to_vec();
    let output = ground.run(&walls, "cat ~/.agent.json ~/.bad.json");
    assert_eq!(text(&output.stdout), r#"{"a":1,"projects":{"/mine":{"x":1}}}"#);
}

impl Ground {
    /// Walls around a project with a repository, of which some names are protected, there or not.
    pub(crate) fn protecting(&self) -> Walls {
        std::fs::create_dir_all(self.path("project/.git")).unwrap();
        std::fs::write(self.path("project/.git/config"), "mine").unwrap();
        std::fs::write(self.path("project/.there.json"), "mine").unwrap();
        let place = |folder: &str, names: &[&str]| ProtectedNames {
            folder: self.path(folder),
            names: names.iter().map(ToString::to_string).collect(),
        };
        let mut walls = self.walls(Reach::Nothing);
        walls.mounts.push(Mount::same(self.path("project/.git"), true));
        walls.protected = vec![
            place("project", &[".there.json", ".absent", ".absent.json"]),
            place("project/.git", &["config", "hooks"]),
        ];
        walls
    }

    pub(crate) fn left_in(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn protected_names_are_neither_changed_nor_made_and_nothing_of_it_is_left() {
    let ground = Ground::new();
    let walls = ground.protecting();
    let script = "for name in .there.json .absent .absent.json .git/config .git/hooks; do \
        echo theirs > $name; mkdir $name; echo theirs > $name/x; rm -rf $name; mv $name was; ln -sfn /tmp $name/y; ln -sTf /tmp $name; \
        cp /bin/true new; mv -T new $name; mkdir folder; mv -T folder $name; rm -rf new folder was; chmod 777 $name; done; \
        mv .git gone; echo fine > .git/HEAD; cat .there.json";
    let output = ground.run(&walls, script);
    assert_eq!(text(&output.stdout), "mine", "{}", text(&output.stderr));
    assert_eq!(ground.left_in("project"), [".git", ".there.json"]);
    assert_eq!(ground.left_in("project/.git"), ["HEAD", "config"]);
    for file in ["project/.git/config", "project/.there.json"] {
        assert_eq!(std::fs::read_to_string(ground.path(file)).unwrap(), "mine");
    }
}

#[test]
fn what_a_killed_agent_left_at_protected_names_is_cleared_unless_another_needs_it() {
    let ground = Ground::new();
    let walls = ground.protecting();
    let start = || {
        let mut child = ground.command(&walls, "echo ready; cat").spawn().unwrap();
        let mut said = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        child
    };
    let (mut first, second) = (start(), start());
    first.kill().unwrap();
    first.wait().unwrap();
    let file = ground.path("run/walls.json");
    sandbox::agent::clear_placeholders(&file);
    assert!(ground.path("project/.absent").is_dir(), "the second needs it");
    let mut second = second;
    second.kill().unwrap();
    second.wait().unwrap();
    assert!(ground.path("project/.absent").is_dir(), "nobody was there to take it away");
    sandbox::agent::clear_placeholders(&file);
    assert_eq!(ground.left_in("project"), [".git", ".there.json"]);
    assert_eq!(ground.left_in("project/.git"), ["config"]);
}

#[test]
fn a_link_at_a_protected_name_is_refused() {
    let ground = Ground::new();
    let walls = ground.protecting();
    std::os::unix::fs::symlink("elsewhere", ground.path("project/.absent")).unwrap();
    let ready = UnixListener::bind(ground.path("run/walls.ready")).unwrap();
    let child = ground.command(&walls, "echo ran").spawn().unwrap();
    let mut why = String::new();
    ready.accept().unwrap().0.read_to_string(&mut why).unwrap();
    assert!(why.starts_with(".absent is a symbolic link"), "{why}");
    assert_eq!(text(&child.wait_with_output().unwrap().stdout), "");
}

/// A server that answers every connection with one word.
fn answering() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let _ = (&client).write_all(b"model\n");
        }
    });
    port
}

#[test]
fn only_the_endpoints_are_reached() {
    let ground = Ground::new();
    let (model, other) = (answering(), answering());
    let script =
        |host: &str, port: u16| format!("exec 3<>/dev/tcp/{host}/{port} && head -n 1 <&3 || echo refused");
    let bash = |walls: &Walls, script: &str| {
        let quoted = script.replace('\'', "'\\''");
        text(&ground.run(walls, &format!("bash -c '{quoted}' 2>/dev/null")).stdout)
    };
    let mut walls = ground.walls(Reach::Endpoints);
    walls.endpoints = vec![
        Endpoint { host: "127.0.0.1".to_owned(), port: model },
        Endpoint { host: "model.invalid".to_owned(), port: 443 },
    ];
    assert_eq!(bash(&walls, &script("127.0.0.1", model)), "model\n");
    assert_eq!(bash(&walls, &script("127.0.0.1", other)), "refused\n");
    // It is reached inside and leads nowhere outside; its name is known without a resolver.
    let known = text(&ground.run(&walls, "getent hosts model.invalid").stdout);
    assert!(known.starts_with("127.77.0."), "{known}");
    assert_eq!(bash(&ground.walls(Reach::Nothing), &script("127.0.0.1", model)), "refused\n");
    assert_eq!(bash(&ground.walls(Reach::Full), &script("127.0.0.1", model)), "model\n");
}

#[test]
fn sockets_of_other_programs_are_out_of_reach() {
    use std::os::linux::net::SocketAddrExt;
    let ground = Ground::new();
    let _path = UnixListener::bind(ground.path("other/socket")).unwrap();
    let name = format!("obey-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract = UnixListener::bind_addr(&address).unwrap();
    let script = format!(
        "python3 - <<'P'\nimport socket,os\nfor a in [os.environ['BASE']+'/other/socket', '\\0{name}']:\n  s=socket.socket(socket.AF_UNIX)\n  \
         try:\n    s.connect(a); print('reached')\n  except OSError as e: print('refused')\nP"
    );
    for reach in REACHES {
        let output = ground.run(&ground.walls(reach), &script);
        assert_eq!(text(&output.stdout), "refused\nrefused\n", "{reach:?}: {}", text(&output.stderr));
    }
}

/// Landlock 9 refuses it by itself; before, what is there at the start is covered.
#[test]
fn sockets_of_other_programs_in_the_project_are_out_of_reach() {
    let ground = Ground::new();
    std::fs::create_dir(ground.path("project/run")).unwrap();
    let _absolute = UnixListener::bind(ground.path("project/run/dev.sock")).unwrap();
    // A program that binds by a relative name: nobody is told from where.
    let script = "import socket,time\ns=socket.socket(socket.AF_UNIX)\ns.bind('relative.sock')\ns.listen()\nprint('bound',flush=True)\ntime.sleep(1000)";
    let mut other = Command::new("python3");
    other.args(["-c", script]).current_dir(ground.path("project/run")).stdout(Stdio::piped());
    let mut other = other.spawn().unwrap();
    other.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    let script = "python3 - <<'P'\nimport socket\nfor a in ['run/dev.sock', 'run/relative.sock']:\n  s=socket.socket(socket.AF_UNIX)\n  \
                  try:\n    s.connect(a); print('reached')\n  except OSError as e: print('refused')\n\
                  l=socket.socket(socket.AF_UNIX); l.bind('run/own.sock'); l.listen()\ns=socket.socket(socket.AF_UNIX)\ns.connect('run/own.sock'); print('own')\nP";
    for reach in REACHES {
        let output = ground.run(&ground.walls(reach), script);
        assert_eq!(text(&output.stdout), "refused\nrefused\nown\n", "{reach:?}: {}", text(&output.stderr));
        std::fs::remove_file(ground.path("project/run/own.sock")).unwrap();
    }
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn connections_to_the_daemon_are_passed_on_by_the_outer_process() {
    let ground = Ground::new();
    let daemon = UnixListener::bind(ground.path("other/daemon")).unwrap();
    let mut walls = ground.walls(Reach::Nothing);
    walls.daemon = Some(ground.path("other/daemon"));
    let script = format!(
        "python3 - <<'P'\nimport socket\ns=socket.socket(socket.AF_UNIX); s.connect('{}'); print(s.recv(9))\nP",
        sandbox::agent::SOCKET_INSIDE
    );
    let child = ground.command(&walls, &script).spawn().unwrap();
    let (mut client, _) = daemon.accept().unwrap();
    let peer = rustix::net::sockopt::socket_peercred(&client).unwrap();
    assert_eq!(peer.pid.as_raw_nonzero().get().cast_unsigned(), child.id(), "known by the outer process");
    client.write_all(b"hello").unwrap();
    drop(client);
    assert_eq!(text(&child.wait_with_output().unwrap().stdout), "b'hello'\n");
}

#[test]
fn what_cannot_be_built_is_said_and_nothing_runs() {
    let ground = Ground::new();
    let ready = UnixListener::bind(ground.path("run/walls.ready")).unwrap();
    let mut walls = ground.walls(Reach::Nothing);
    walls.working_dir = Path::new("/nowhere").to_owned();
    let child = ground.command(&walls, "echo ran").spawn().unwrap();
    let mut why = String::new();
    ready.accept().unwrap().0.read_to_string(&mut why).unwrap();
    assert_eq!(why, "working directory: No such file or directory (os error 2)");
    let output = child.wait_with_output().unwrap();
    assert_eq!((text(&output.stdout), output.status.code()), (String::new(), Some(125)));
}
