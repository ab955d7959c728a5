//! Protected files that the user replaces while an agent or a command runs: they stay protected, and what cannot be told from
//! tampering ends who could have done it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout};

use sandbox::{Output, Tier};

use crate::agent::{Ground, text};
use crate::{command, sandbox};

/// Waits until a name is covered, tries to write to it and to replace it, and says what came of it; for every name it reads.
const ATTACKER: &str = r#"
echo ready
while read name; do
  n=0
  until grep -q " $PWD/$name ro," /proc/self/mountinfo || [ $n = 1000 ]; do n=$((n+1)); sleep 0.01; done
  said=refused
  (echo theirs >> $name) 2>/dev/null && said=written
  (echo theirs > $name/x) 2>/dev/null && said=written
  (echo theirs > new && mv -T new $name) 2>/dev/null && said=replaced
  rm -rf new $name 2>/dev/null && said=removed
  echo $name $said
done
"#;

struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Agent {
    fn start(ground: &Ground, script: &str) -> Self {
        let mut child = ground.command(&ground.protecting(), script).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut agent = Self { child, stdin, stdout };
        assert_eq!(agent.line(), "ready");
        agent
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, name: &str) -> String {
        writeln!(self.stdin.as_mut().unwrap(), "{name}").unwrap();
        self.line()
    }

    /// Waits until it was ended by its walls; returns why.
    fn why_ended(mut self, ground: &Ground) -> String {
        let status = self.child.wait().unwrap();
        assert_eq!(status.signal(), Some(9), "{status:?}");
        std::fs::read_to_string(ground.path("run").join(sandbox::agent::UNPROTECTED_NAME)).unwrap()
    }

    fn end(mut self) {
        self.stdin = None;
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        let output = self.child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

/// Saves as git and many editors do.
fn replace(path: &Path, draft: &str, content: &str) {
    let draft = path.with_file_name(draft);
    std::fs::write(&draft, content).unwrap();
    std::fs::rename(&draft, path).unwrap();
}

const CONFIG: &str = "[branch \"x\"]\n\tremote = origin\n";

#[test]
fn what_the_user_replaces_stays_protected() {
    let ground = Ground::new();
    let mut agent = Agent::start(&ground, ATTACKER);
    for round in 0..3 {
        let config = format!("{CONFIG}# {round}\n");
        replace(&ground.path("project/.git/config"), "config.lock", &config);
        assert_eq!(agent.ask(".git/config"), ".git/config refused");
        replace(&ground.path("project/.there.json"), ".there.json.tmp", "mine again");
        assert_eq!(agent.ask(".there.json"), ".there.json refused");
        assert_eq!(std::fs::read_to_string(ground.path("project/.git/config")).unwrap(), config);
    }
    // Under a name that says nothing, and from another folder.
    std::fs::write(ground.path("project/elsewhere"), "moved").unwrap();
    std::fs::rename(ground.path("project/elsewhere"), ground.path("project/.there.json")).unwrap();
    assert_eq!(agent.ask(".there.json"), ".there.json refused");
    std::fs::write(ground.path("other/file"), "moved").unwrap();
    std::fs::rename(ground.path("other/file"), ground.path("project/.there.json")).unwrap();
    assert_eq!(agent.ask(".there.json"), ".there.json refused");
    agent.end();
    assert_eq!(std::fs::read_to_string(ground.path("project/.there.json")).unwrap(), "moved");
}

#[test]
fn git_outside_can_set_branches_and_remotes_while_an_agent_runs() {
    let ground = Ground::new();
    let init = std::process::Command::new("git").args(["init", "-q"]).arg(ground.path("project")).status();
    assert!(init.unwrap().success());
    let walls = ground.protecting();
    // What `protecting` writes is no configuration.
    std::fs::write(ground.path("project/.git/config"), "[core]\n\trepositoryformatversion = 0\n").unwrap();
    let mut child = ground.command(&walls, ATTACKER).spawn().unwrap();
    let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
    let mut agent = Agent { child, stdin, stdout };
    assert_eq!(agent.line(), "ready");
    for number in 0..10 {
        let mut git = std::process::Command::new("git");
        git.arg("-C").arg(ground.path("project")).args(["remote", "add", &format!("r{number}"), "/nowhere"]);
        assert!(git.status().unwrap().success());
        assert_eq!(agent.ask(".git/config"), ".git/config refused");
    }
    agent.end();
    let config = std::fs::read_to_string(ground.path("project/.git/config")).unwrap();
    assert!(config.contains("[remote \"r9\"]") && !config.contains("theirs"), "{config}");
}

#[test]
fn a_folder_that_the_user_replaces_and_a_name_that_becomes_absent_stay_protected() {
    let ground = Ground::new();
    std::fs::create_dir_all(ground.path("project/.git/hooks")).unwrap();
    let mut agent = Agent::start(&ground, ATTACKER);
    let hooks = ground.path("project/.git/hooks");
    std::fs::create_dir_all(ground.path("other/new/sub")).unwrap();
    std::fs::rename(ground.path("other/new"), &hooks).unwrap();
    assert_eq!(agent.ask(".git/hooks"), ".git/hooks refused");
    assert!(hooks.join("sub").is_dir());
    std::fs::remove_dir(ground.path("project/.absent")).unwrap();
    std::fs::remove_file(ground.path("project/.there.json")).unwrap();
    assert_eq!(agent.ask(".absent"), ".absent refused");
    assert_eq!(agent.ask(".there.json"), ".there.json refused");
    agent.end();
    assert_eq!(ground.left_in("project"), [".git"], "what was put there goes with the agent");
}

#[test]
fn a_file_that_a_process_inside_can_still_write_to_ends_the_agent() {
    let ground = Ground::new();
    // An editor that writes to a name beside the file, which the agent made first and holds open.
    let agent = Agent::start(&ground, "exec 3> .there.json.tmp; echo ready; cat");
    replace(&ground.path("project/.there.json"), ".there.json.tmp", "mine again");
    let why = agent.why_ended(&ground);
    assert!(
        why.contains("project/.there.json was replaced, and some process can still write to it"),
        "{why}"
    );
}

#[test]
fn a_file_with_a_second_name_ends_the_agent() {
    let ground = Ground::new();
    let agent = Agent::start(&ground, "echo > .there.json.tmp; ln .there.json.tmp own; echo ready; cat");
    replace(&ground.path("project/.there.json"), ".there.json.tmp", "mine again");
    let why = agent.why_ended(&ground);
    assert!(why.contains(".there.json was replaced by a file that has a second name"), "{why}");
}

#[test]
fn settings_by_which_git_runs_programs_end_the_agent_and_are_put_aside() {
    let ground = Ground::new();
    let agent = Agent::start(&ground, "echo ready; cat");
    let config = ground.path("project/.git/config");
    replace(&config, "config.lock", "mine\n[core]\n\tfsmonitor = evil\n");
    let why = agent.why_ended(&ground);
    assert!(why.contains(".git/config got settings by which git runs programs (core.fsmonitor)"), "{why}");
    assert_eq!(std::fs::read_to_string(&config).unwrap(), "mine");
    let aside = ground.left_in("project/.git").into_iter().find(|name| name.starts_with("config.refused-"));
    let aside = std::fs::read_to_string(ground.path("project/.git").join(aside.unwrap())).unwrap();
    assert!(aside.contains("evil"), "{aside}");
}

#[test]
fn a_link_in_place_of_a_protected_file_and_a_repository_that_is_moved_end_the_agent() {
    let ground = Ground::new();
    let agent = Agent::start(&ground, "echo ready; cat");
    std::os::unix::fs::symlink("elsewhere", ground.path("project/new")).unwrap();
    std::fs::rename(ground.path("project/new"), ground.path("project/.there.json")).unwrap();
    assert!(agent.why_ended(&ground).contains("symbolic link"));
    std::fs::remove_file(ground.path("project/.there.json")).unwrap();
    let agent = Agent::start(&ground, "echo ready; cat");
    std::fs::rename(ground.path("project/.git"), ground.path("project/.was")).unwrap();
    assert!(agent.why_ended(&ground).contains("project/.git was moved or removed"));
}

#[test]
fn processes_that_were_stopped_before_stay_stopped_and_the_others_go_on() {
    let ground = Ground::new();
    let script = "sleep 1000 & stopped=$!; kill -STOP $stopped; sleep 1000 & other=$!; \
        until grep -q 'State:.T' /proc/$stopped/status; do sleep 0.01; done; echo ready; read line; \
        sleeps() { n=0; until grep -q 'State:.S' /proc/$1/status || [ $n = 1000 ]; do n=$((n+1)); sleep 0.01; done; [ $n != 1000 ]; }; \
        n=0; until grep -q ' '$PWD'/.there.json ro,' /proc/self/mountinfo || [ $n = 1000 ]; do n=$((n+1)); sleep 0.01; done; \
        sleeps $other && grep -q 'State:.T' /proc/$stopped/status && echo still; \
        kill -CONT $stopped; sleeps $stopped && echo continued; kill -9 $stopped $other";
    let mut agent = Agent::start(&ground, script);
    replace(&ground.path("project/.there.json"), ".there.json.tmp", "mine again");
    assert_eq!(agent.ask(""), "still");
    assert_eq!(agent.line(), "continued");
    agent.end();
}

/// The same for commands that live long enough to be watched.
#[tokio::test]
async fn a_command_cannot_write_what_the_user_replaces() {
    let sandbox = sandbox(Tier::Namespaces).await;
    if sandbox.tier() != Tier::Namespaces {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join(".git")).unwrap();
    let config = dir.path().join(".git/config");
    std::fs::write(&config, "[core]\n\tbare = false\n").unwrap();
    std::fs::write(dir.path().join(".mcp.json"), "{}").unwrap();
    let script = r#"echo ready
        until [ -e go ]; do sleep 0.01; done
        for name in .git/config .mcp.json; do
          n=0; until grep -q " $PWD/$name ro," /proc/self/mountinfo || [ $n = 1000 ]; do n=$((n+1)); sleep 0.01; done
          (echo theirs > $name) 2>/dev/null && echo written
        done; echo done"#;
    let mut running = sandbox.run(command(dir.path(), script)).await.unwrap();
    let mut said = String::new();
    let mut is_told = false;
    loop {
        match running.next().await.unwrap() {
            Output::Stdout(chunk) => said.push_str(&text(&chunk)),
            Output::Stderr(chunk) => panic!("{}", text(&chunk)),
            Output::Ended(end) => {
                assert_eq!(end.exit_code, 0);
                break;
            }
        }
        if said.starts_with("ready\n") && !is_told {
            is_told = true;
            replace(&config, "config.lock", CONFIG);
            replace(&dir.path().join(".mcp.json"), ".mcp.json.tmp", "{\"a\":1}");
            std::fs::write(dir.path().join("go"), "").unwrap();
        }
    }
    assert_eq!(said, "ready\ndone\n");
    assert_eq!(std::fs::read_to_string(&config).unwrap(), CONFIG);
}

#[tokio::test]
async fn a_command_that_ends_while_a_file_lies_open_is_looked_at() {
    let sandbox = sandbox(Tier::Namespaces).await;
    if sandbox.tier() != Tier::Namespaces {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join(".git")).unwrap();
    let config = dir.path().join(".git/config");
    std::fs::write(&config, "[core]\n\tbare = false\n").unwrap();
    let script = "echo ready; until [ -e go ]; do :; done";
    let mut running = sandbox.run(command(dir.path(), script)).await.unwrap();
    let mut said = String::new();
    let end = loop {
        match running.next().await.unwrap() {
            Output::Stdout(chunk) => {
                assert_eq!(text(&chunk), "ready\n");
                replace(&config, "config.lock", "[core]\n\tbare = false\n\tfsmonitor = evil\n");
                std::fs::write(dir.path().join("go"), "").unwrap();
            }
            Output::Stderr(chunk) => said.push_str(&text(&chunk)),
            Output::Ended(end) => break end,
        }
    };
    assert_eq!(end.signal, 9);
    assert!(said.contains(".git/config got settings by which git runs programs (core.fsmonitor)"), "{said}");
    assert_eq!(std::fs::read_to_string(&config).unwrap(), "[core]\n\tbare = false\n");
}
