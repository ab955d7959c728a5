//! The tools as a session uses them: answers in tiers, everything scrubbed, no output of other sessions.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::{ErrorCode, SessionId};

use workbench::scrub::{Config, KnownSecret, Scrubber};
use workbench::{Exec, Project, ProjectRules, Read, Workbench, WorkbenchSetup, Write, refs};

const KNOWN: &str = "kn0wn-secret-of-the-daemon";

struct TestWorkbench {
    dir: tempfile::TempDir,
    bench: Arc<Workbench>,
    project: Project,
    session: SessionId,
}

/// A token that our rules detect; assembled here, so that no text of ours looks like a live one.
fn token() -> String {
    format!("ghp_{}", "aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ2kL4")
}

/// The example that runs as the stage, next to the tests in the build folder.
fn stage() -> PathBuf {
    let mut folder = std::env::current_exe().unwrap();
    folder.pop();
    folder.pop();
    folder.join("examples").join("tools_stage")
}

async fn workbench() -> TestWorkbench {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("project/src")).unwrap();
    let setup = WorkbenchSetup {
        sandbox: Arc::new(sandbox::Sandbox::probe(sandbox::Config::new(vec![stage().into()])).await),
        scrubber: Scrubber::new(&Config::new().with_known([KnownSecret::new("DAEMON_SECRET", KNOWN)]))
            .unwrap(),
        refs_folder: dir.path().join("refs"),
        refs: refs::RefLimits::default(),
        store: storage::Store::open(&dir.path().join("daemon.db")).unwrap(),
        ttl: workbench::sessions::SessionTtl::default(),
        policies: workbench::policy::UserPolicies::new(None).unwrap(),
        embedder: workbench::embed::Embedder::Words,
        qdrant: None,
    };
    let bench = Arc::new(Workbench::open(setup).await.unwrap());
    println!("sandbox tier: {} (level {})", bench.tier(), bench.tier().level());
    let project = bench.project(&dir.path().join("project"), ProjectRules::Ignored).unwrap();
    TestWorkbench { dir, bench, project, session: SessionId::new("sess_a") }
}

fn exec(command: &str) -> Exec {
    Exec { command: command.into(), working_dir: String::new(), timeout: None, env: Vec::new() }
}

impl TestWorkbench {
    async fn exec(&self, command: &str) -> workbench::ExecAnswer {
        self.bench.exec(&self.session, &self.project, exec(command)).await.unwrap()
    }

    async fn content(&self, id: &Option<String>) -> String {
        self.bench.content(Some(&self.session), id.as_deref().unwrap(), 0).await.unwrap().content
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.project.root().join(name)
    }
}

#[tokio::test]
async fn a_command_is_answered_in_tiers() {
    let workbench = workbench().await;
    let answer = workbench.exec("seq 1 1000; echo problem >&2").await;
    assert_eq!(
        answer.summary,
        "Executed: seq 1 1000; echo problem >&2 (exit 0, 1000 lines) [sandbox: namespaces]"
    );
    assert_eq!(answer.stdout.preview.chars().count(), 500);
    assert!(answer.stdout.preview.starts_with("1\n2\n3\n"));
    let expected: String = (1..=1000).map(|number| format!("{number}\n")).collect();
    assert_eq!(workbench.content(&answer.stdout.ref_id).await, expected);
    assert_eq!(answer.stderr.preview, "problem\n");
    assert_eq!((answer.exit_code, answer.timed_out, answer.tier.name()), (0, false, "namespaces"));
}

#[tokio::test]
async fn a_command_that_fails_is_an_answer() {
    let workbench = workbench().await;
    let answer = workbench.exec("cat /nonexistent").await;
    assert_eq!(answer.summary, "Executed: cat /nonexistent (exit 1) [sandbox: namespaces]");
    assert!(answer.stderr.preview.contains("No such file"), "{}", answer.stderr.preview);
    assert_eq!((answer.exit_code, answer.stdout.ref_id), (1, None));
    let mut slow = exec("echo begun; sleep 60");
    slow.timeout = Some(Duration::from_secs(1));
    let answer = workbench.bench.exec(&workbench.session, &workbench.project, slow).await.unwrap();
    assert_eq!((answer.exit_code, answer.timed_out), (124, true));
    assert!(answer.summary.contains("timed out after 1 s"), "{}", answer.summary);
    assert_eq!(answer.stdout.preview, "begun\n", "what came before the timeout is kept");
}

#[tokio::test]
async fn secrets_appear_nowhere() {
    let workbench = workbench().await;
    let token = token();
    // In the output, across two writes, encoded, in the command shown by the summary, and in errors.
    let half = token.len() / 2;
    let script = format!(
        "printf '%s' '{}'; sleep 0.05; echo '{}'; echo '{KNOWN}' >&2; echo '{KNOWN}' | base64 >&2",
        &token[..half],
        &token[half..]
    );
    let answer = workbench.exec(&script).await;
    let shown = format!(
        "{answer:?} {} {}",
        workbench.content(&answer.stdout.ref_id).await,
        workbench.content(&answer.stderr.ref_id).await
    );
    assert!(!shown.contains(&token[..12]) && !shown.contains("kn0wn"), "{shown}");
    assert_eq!(answer.stdout.preview, "[REDACTED:github-pat]\n");
    assert_eq!(answer.stdout.findings.total() + answer.stderr.findings.total(), 3, "{:?}", answer.stderr);
    let answer = workbench.exec(&format!("echo {token}")).await;
    assert_eq!(answer.summary, "Executed: echo [REDACTED:github-pat] (exit 0, 1 line) [sandbox: namespaces]");
    let error = workbench
        .bench
        .read(&workbench.session, &workbench.project, Read { path: token.clone(), ..Read::default() })
        .await
        .unwrap_err();
    assert!(!error.to_string().contains(&token) && error.message.contains("[REDACTED:"), "{error}");
    // A secret that the preview's end would cut must not be shown in part.
    let answer = workbench.exec(&format!("printf '%0490d' 0; echo {token}")).await;
    assert!(
        !answer.stdout.preview.contains("ghp_") && !answer.stdout.preview.contains("[RED"),
        "{}",
        answer.stdout.preview
    );
    let stored: Vec<_> = std::fs::read_dir(workbench.dir.path().join("refs")).unwrap().flatten().collect();
    for file in stored {
        let text = std::fs::read(file.path()).unwrap();
        assert!(memchr::memmem::find(&text, token.as_bytes()).is_none());
    }
}

#[tokio::test]
async fn secrets_given_to_a_command_do_not_come_back() {
    let workbench = workbench().await;
    let env = vec![("DEPLOY_TOKEN".to_owned(), "plain-words-but-secret".to_owned())];
    let with =
        Exec { env, ..exec("echo \"$DEPLOY_TOKEN\"; echo \"$DEPLOY_TOKEN\" | od -An -tx1 | tr -d ' \\n'") };
    let answer = workbench.bench.exec(&workbench.session, &workbench.project, with).await.unwrap();
    assert_eq!(answer.stdout.preview, "[REDACTED:env:DEPLOY_TOKEN]\n[REDACTED:env:DEPLOY_TOKEN]0a");
}

#[tokio::test]
async fn output_of_any_size_comes_in_bounded_memory() {
    let workbench = workbench().await;
    let before = resident();
    let answer = workbench.exec("yes 'a line of ordinary output' | head -c 200000000").await;
    assert_eq!(answer.stdout.lines, 200_000_000_u64.div_ceil(26));
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{} MB more than before", grown >> 20);
    let content = workbench
        .bench
        .content(Some(&workbench.session), answer.stdout.ref_id.as_deref().unwrap(), 0)
        .await
        .unwrap();
    assert!(content.total_bytes <= (64 << 20) + 100, "{}", content.total_bytes);
}

/// Resident memory of this process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

#[tokio::test]
async fn files_are_read_by_lines_and_keep_their_numbers() {
    let workbench = workbench().await;
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCq7Hh2jK0pLmN8vBxZsWqErTyUiOpAsDf\n".repeat(4);
    let text =
        format!("one\n-----BEGIN PRIVATE KEY-----\n{body}-----END PRIVATE KEY-----\nlast = {}\n", token());
    std::fs::write(workbench.path("src/a.txt"), &text).unwrap();
    let all = workbench
        .bench
        .read(&workbench.session, &workbench.project, Read { path: "src/a.txt".into(), ..Read::default() })
        .await
        .unwrap();
    assert_eq!(all.total_lines, 8);
    assert_eq!(
        all.content.preview,
        format!("one\n[REDACTED:private-key]{}last = [REDACTED:github-pat]\n", "\n".repeat(6))
    );
    assert_eq!(all.summary, format!("Read: src/a.txt (8 lines, {} bytes)", text.len()));
    // The middle of the key, without its first line, is still detected.
    let middle = Read { path: "src/a.txt".into(), offset: 4, limit: 2 };
    let middle = workbench.bench.read(&workbench.session, &workbench.project, middle).await.unwrap();
    assert_eq!((middle.content.preview.as_str(), middle.total_lines), ("\n\n", 8));
    let last = Read { path: workbench.path("src/a.txt").to_str().unwrap().into(), offset: 8, limit: 0 };
    let last = workbench.bench.read(&workbench.session, &workbench.project, last).await.unwrap();
    assert_eq!(last.content.preview, "last = [REDACTED:github-pat]\n");
    let beyond = Read { path: "src/a.txt".into(), offset: 100, limit: 1 };
    let beyond = workbench.bench.read(&workbench.session, &workbench.project, beyond).await.unwrap();
    assert_eq!((beyond.content.preview.as_str(), beyond.content.ref_id), ("", None));
}

#[tokio::test]
async fn binary_files_are_named_not_shown() {
    let workbench = workbench().await;
    std::fs::write(workbench.path("a.bin"), [0u8, 1, 2, 255]).unwrap();
    let answer = workbench
        .bench
        .read(&workbench.session, &workbench.project, Read { path: "a.bin".into(), ..Read::default() })
        .await
        .unwrap();
    assert!(answer.binary && answer.content.ref_id.is_none());
    assert_eq!(answer.summary, "Read: a.bin (binary, 4 bytes; not shown)");
}

#[tokio::test]
async fn files_are_written_appended_and_protected() {
    let workbench = workbench().await;
    let write =
        |path: &str, content: &str, append| Write { path: path.into(), content: content.into(), append };
    let made =
        workbench.bench.write(&workbench.project, write("new/deep/a.txt", "one\n", false)).await.unwrap();
    assert_eq!((made.summary.as_str(), made.bytes_written), ("Created: new/deep/a.txt (4 bytes)", 4));
    workbench.bench.write(&workbench.project, write("new/deep/a.txt", "two\n", true)).await.unwrap();
    assert_eq!(std::fs::read_to_string(workbench.path("new/deep/a.txt")).unwrap(), "one\ntwo\n");
    for path in
        [".git/hooks/post-checkout", ".claude/settings.json", ".gitleaks.toml", "../outside", "/etc/passwd"]
    {
        let error = workbench.bench.write(&workbench.project, write(path, "x", false)).await.unwrap_err();
        // A policy may reject it before the sandbox does.
        assert!(matches!(error.code, ErrorCode::NotAllowed | ErrorCode::PolicyRefused), "{path}: {error}");
    }
}

#[tokio::test]
async fn stored_output_belongs_to_its_session() {
    let workbench = workbench().await;
    let answer = workbench.exec("echo mine").await;
    let id = answer.stdout.ref_id.unwrap();
    let other = SessionId::new("sess_b");
    assert!(workbench.bench.content(Some(&other), &id, 0).await.is_err());
    assert_eq!(workbench.bench.content(Some(&workbench.session), &id, 2).await.unwrap().content, "ne\n");
    workbench.bench.end_session(&workbench.session);
    assert!(workbench.bench.content(Some(&workbench.session), &id, 0).await.is_err());
}

#[tokio::test]
async fn a_command_may_be_as_long_as_the_system_takes_it() {
    let workbench = workbench().await;
    let long = format!("echo {} | wc -c", "x".repeat(128 * 1024 - 14));
    let answer = workbench.bench.exec(&workbench.session, &workbench.project, exec(&long)).await.unwrap();
    assert_eq!((answer.exit_code, answer.stdout.preview.trim()), (0, "131059"));
}

#[tokio::test]
async fn a_command_that_is_stopped_has_said_what_it_has_said() {
    let workbench = workbench().await;
    let pipe = workbench.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // The read blocks until the command writes there, which it does after its output.
    let stop = async { drop(tokio::task::spawn_blocking(move || std::fs::read(pipe)).await) };
    let forever = exec("echo so far; echo now > pipe; sleep 1000");
    let answer =
        workbench.bench.exec_until(&workbench.session, &workbench.project, forever, stop).await.unwrap();
    assert_eq!((answer.exit_code, answer.stdout.preview.trim()), (137, "so far"));
    // A command that is stopped before its start never starts.
    let never = exec("touch made");
    let error = workbench
        .bench
        .exec_until(&workbench.session, &workbench.project, never, async {})
        .await
        .unwrap_err();
    assert_eq!(error.code, ErrorCode::CommandFailed);
    assert!(!workbench.path("made").exists());
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused_by_field() {
    let workbench = workbench().await;
    let refused = async |exec: Exec| {
        workbench.bench.exec(&workbench.session, &workbench.project, exec).await.unwrap_err()
    };
    assert!(refused(exec("  ")).await.message.starts_with("cmd:"));
    assert!(refused(exec(&"x".repeat(128 * 1024))).await.message.starts_with("cmd:"));
    let long = Exec { timeout: Some(Duration::from_secs(301)), ..exec("true") };
    assert!(refused(long).await.message.starts_with("timeout:"));
    for outside in ["/etc", "..", "src/../.."] {
        let error = refused(Exec { working_dir: outside.into(), ..exec("true") }).await;
        assert_eq!(error.code, ErrorCode::NotAllowed, "{outside}: {error}");
    }
    let inside = Exec { working_dir: workbench.path("src").to_str().unwrap().into(), ..exec("pwd") };
    let answer = workbench.bench.exec(&workbench.session, &workbench.project, inside).await.unwrap();
    assert_eq!(Path::new(answer.stdout.preview.trim()), workbench.path("src"));
}

#[tokio::test]
async fn a_projects_own_rules_count_when_they_are_trusted() {
    let workbench = workbench().await;
    let rules = "[[allowlists]]\nregexes = ['^ghp_']\n[[rules]]\nid = 'house'\nregex = 'house-[0-9]{4}'\nkeywords = ['house-']\n";
    std::fs::write(workbench.path(".gitleaks.toml"), rules).unwrap();
    let text = format!("echo {} house-1234 {KNOWN}", token());
    let trusted = workbench.bench.project(workbench.project.root(), ProjectRules::Trusted).unwrap();
    let answer = workbench.bench.exec(&workbench.session, &trusted, exec(&text)).await.unwrap();
    assert_eq!(answer.stdout.preview, format!("{} [REDACTED:house] [REDACTED:env:DAEMON_SECRET]\n", token()));
    let ignored = workbench.bench.project(workbench.project.root(), ProjectRules::Ignored).unwrap();
    let answer = workbench.bench.exec(&workbench.session, &ignored, exec(&text)).await.unwrap();
    assert_eq!(answer.stdout.preview, "[REDACTED:github-pat] house-1234 [REDACTED:env:DAEMON_SECRET]\n");
    // And no command can write them.
    let answer = workbench.exec("echo '[[allowlists]]' > .gitleaks.toml; echo $?").await;
    assert_eq!(answer.stdout.preview, "1\n", "{}", answer.stderr.preview);
    assert_eq!(std::fs::read_to_string(workbench.path(".gitleaks.toml")).unwrap(), rules);
    std::fs::write(workbench.path(".gitleaks.toml"), "[[rules]]\nid = 'x'\nregex = '('").unwrap();
    let error = workbench.bench.project(workbench.project.root(), ProjectRules::Trusted).unwrap_err();
    assert_eq!(error.code, ErrorCode::ConfigInvalid);
}

#[tokio::test]
async fn sessions_expire_and_open_again_on_the_same_project() {
    use domain::Timestamp;
    use workbench::sessions::{SessionLookup, SessionOutcome, StoredSession};
    let workbench = workbench().await;
    let sessions = workbench.bench.sessions();
    let at = |minutes: i64| Timestamp(minutes * 60 * 1_000_000);
    let with = StoredSession {
        root: workbench.project.root().to_owned(),
        task: "t".into(),
        ..StoredSession::default()
    };
    let project = workbench.project.clone();
    sessions.open_as(workbench.session.clone(), project.clone(), with, false, at(0)).await.unwrap();
    let find = async |minutes| sessions.find(&workbench.session, at(minutes)).await.unwrap();
    // Each use keeps it open, but only up to its maximum lifetime.
    for minutes in [10, 30, 55, 80, 105, 130, 155, 180, 205, 230] {
        assert!(matches!(find(minutes).await, SessionLookup::Open(_)), "{minutes}");
    }
    let SessionLookup::Expired(with) = find(241).await else { panic!("older than four hours and open") };
    assert_eq!((with.root.as_path(), with.task.as_str()), (workbench.project.root(), "t"));
    sessions.open_as(workbench.session.clone(), project, with, false, at(241)).await.unwrap();
    assert!(matches!(find(242).await, SessionLookup::Open(_)));
    let answer = workbench.exec("echo kept").await;
    assert_eq!(workbench.bench.sweep(at(273)), 1);
    assert!(workbench.bench.content(None, answer.stdout.ref_id.as_deref().unwrap(), 0).await.is_err());
    assert!(matches!(find(273).await, SessionLookup::Expired(_)));
    sessions.end(&workbench.session, SessionOutcome::Success, at(274)).await.unwrap();
    assert!(matches!(find(275).await, SessionLookup::Ended));
}

/// Root is exempt from some kernel checks, so the tests also run as another user.
#[test]
fn what_holds_for_root_holds_for_nobody() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    open(dir.path());
    let tests = dir.path().join("deps/it");
    for (from, to) in [
        (stage(), dir.path().join("examples/tools_stage")),
        (std::env::current_exe().unwrap(), tests.clone()),
    ] {
        std::fs::create_dir(to.parent().unwrap()).unwrap();
        std::fs::copy(from, &to).unwrap();
        open(to.parent().unwrap());
        open(&to);
    }
    let output = std::process::Command::new(tests)
        .args(["tools::", "--skip", "what_holds_for_root", "--test-threads=2", "--nocapture"])
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir("/")
        .env_clear()
        .env("TMPDIR", "/tmp")
        .env("PATH", "/usr/bin:/bin")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("sandbox tier: namespaces"), "the tests of nobody said nothing of a tier:\n{text}");
}
