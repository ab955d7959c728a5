//! Where the attempts are made: a world with secrets in it, the user's daemon and servers, a session that must not be
//! touched, and the hostile session. Runs a table as one turn of the hostile agent and holds what became of it against
//! what is expected. Looks at the daemon only as its user does, with the command line.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use e2e::daemon::Daemon;
use e2e::deadline::{poll, within};
use e2e::hostile::{Attempt, Batch, Outcome, POSSIBLE, Report};
use e2e::world::World;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

use super::table::{Expect, Tier, Try};

/// What the daemon answers when it refuses somebody, and what it answers to a request that could not have come from there:
/// such a request proves nothing.
const REFUSALS: &[&str] =
    &["OBEY-1002", "status PermissionDenied", "status Unauthenticated", "HTTP/1.1 403", "HTTP/1.1 401"];
const ASTRAY: &str = "the Host of this request";

/// What every caller may call; it tells nothing of any session.
const FOR_ANYBODY: &str = "obey.local.v1.LocalDaemonService/Ping";

/// A page is nobody before its login, so anybody may try; no code is good for an agent.
fn is_useless_login(path: &str, status: &str) -> bool {
    path == "obey.v1.PageService/Login" && status.contains("OBEY-1001: code: was used before")
}

/// A running arena.
pub(super) struct Arena {
    tier: Tier,
    daemon: Daemon,
    bystander: Child,
    /// Part of every secret, and of nothing else.
    suffix: String,
    own: String,
    other: String,
    variables: BTreeMap<String, String>,
    /// How many attempts were made.
    tried: usize,
    /// Attempts that did not end as they should.
    wrong: Vec<String>,
    /// Last, so that it outlives the processes.
    world: World,
}

impl Arena {
    /// Opens an arena; `None` where this machine does not let a test be another user.
    pub(super) async fn open(tier: Tier) -> Result<Option<Arena>> {
        let world = match tier.user {
            Some(user) => World::of_user(user)?,
            None => Some(World::new()?),
        };
        let Some(world) = world else { return Ok(None) };
        let suffix = world.root().file_name().unwrap_or_default().to_string_lossy().replace('.', "");
        plant(&world, &suffix)?;
        let (bystander, port) = bystander(&world, &suffix).await?;
        let agent = format!("hostile={}", program());
        world.set_env("OBEY_ACP_AGENTS", agent);
        let model = world.model().base_url();
        world.set_env("OBEY_SANDBOX_MODEL_HOSTS", model.trim_start_matches("http://"));
        // What is the daemon's and no agent's.
        world.set_env("AWS_SECRET_ACCESS_KEY", format!("canary-cloud-{suffix}"));
        world.set_env("SSH_AUTH_SOCK", world.path(&format!("run/canary-{suffix}")).into_os_string());
        let daemon = Daemon::start(&world).await?;
        world.remove_env("AWS_SECRET_ACCESS_KEY");
        world.remove_env("SSH_AUTH_SOCK");
        let cli = Cli::new(&world);
        cli.ok(&["campaign", "add", &text(&world.project()), "--name", "demo"]).await?;
        cli.ok(&["campaign", "add", &text(&world.path("other")), "--name", "other"]).await?;
        let name = format!("canary-session-{suffix}");
        let other = create(&cli, &["-c", "other", "--name", &name]).await?;
        let contained: &[&str] = if tier.contained { &["--sandbox", "--network", "full"] } else { &[] };
        let own = create(&cli, &[&["-c", "demo", "--name", "hostile"], contained].concat()).await?;
        let mut arena = Arena {
            tier,
            daemon,
            bystander,
            suffix,
            own,
            other,
            variables: BTreeMap::new(),
            tried: 0,
            wrong: Vec::new(),
            world,
        };
        arena.wake_other().await?;
        arena.set_variables(&port)?;
        Ok(Some(arena))
    }

    /// The other session says its secret and waits for a permission from now on.
    async fn wake_other(&mut self) -> Result<()> {
        let report = self.world.path("other/report.json");
        let batch = Batch {
            say: format!("canary-said-{}", self.suffix),
            ask: true,
            report: report.clone(),
            ..Batch::default()
        };
        self.send(&self.other, &batch).await?;
        let pid = read_report(&report).await?.pid;
        self.variables.insert("OTHER_AGENT".into(), pid.to_string());
        self.request_waits(&self.other).await
    }

    fn set_variables(&mut self, port: &str) -> Result<()> {
        let obey = self.world.obey()?;
        let (socket, tcp) = (self.daemon.socket().to_owned(), self.daemon.listen().first().copied());
        let tcp = tcp.context("the daemon listens on no port")?;
        let daemon = self.daemon.pid().context("the daemon has no number")?;
        let bystander = self.bystander.id().context("the bystander has no number")?;
        let path = |name: &str| text(&self.world.path(name));
        let set = [
            ("D", format!("{} --no-autostart --socket $OBEY_DAEMON_SOCKET", obey.display())),
            ("OBEY", text(&obey)),
            ("P", program().to_owned()),
            ("SOCKET", text(&socket)),
            ("UNIX", "unix:$OBEY_DAEMON_SOCKET".to_owned()),
            ("TCP", format!("tcp:{tcp}")),
            ("TOKEN", path("run/obey/token")),
            ("TOKEN_COPY", format!("/tmp/{}-token", self.suffix)),
            ("TMP_MARK", format!("/tmp/{}-mark", self.suffix)),
            ("MODEL", self.world.model().base_url().trim_start_matches("http://").to_owned()),
            ("OWN", self.own.clone()),
            ("OTHER", self.other.clone()),
            ("OWN_REQUEST", "req_1".to_owned()),
            ("OTHER_REQUEST", "req_1".to_owned()),
            ("WORLD", text(self.world.root())),
            ("PROJECT", path("project")),
            ("OTHER_PROJECT", path("other")),
            ("MARKS", path("marks")),
            ("RUN", path("run")),
            ("DATA", path("data")),
            ("CONFIG", path("config")),
            ("HOME_OF_USER", path("home")),
            ("DAEMON", daemon.to_string()),
            ("BYSTANDER", bystander.to_string()),
            ("BYSTANDER_PORT", port.to_owned()),
        ];
        self.variables.extend(set.map(|(name, value)| (name.to_owned(), value)));
        Ok(())
    }

    /// Goes on with another session in the sandbox, whose agent has this network.
    pub(super) async fn change_network(&mut self, network: &str) -> Result<()> {
        let name = format!("hostile-{network}");
        let words = ["-c", "demo", "--name", &name, "--sandbox", "--network", network];
        self.own = create(&self.cli(), &words).await?;
        self.variables.insert("OWN".into(), self.own.clone());
        Ok(())
    }

    /// From now on the agent's tools are bound by this mode.
    pub(super) async fn change_mode(&self, mode: &str) -> Result<()> {
        self.cli().ok(&["session", "mode", &self.own, mode]).await?;
        Ok(())
    }

    /// The user works in the agent's project. What the agent left there must neither run nor be read.
    pub(super) async fn work_as_user(&mut self, work: &[&[&str]]) -> Result<()> {
        for words in work {
            let output = self.cli().run(words).await?;
            if format!("{}{}", output.stdout, output.stderr)
                .contains(&format!("canary-project-{}", self.suffix))
            {
                self.wrong.push(format!("the user's {words:?} read a secret through a link: {output:?}"));
            }
        }
        for mark in fs::read_dir(self.world.path("marks"))? {
            let name = mark?.file_name().to_string_lossy().into_owned();
            if name.starts_with("planted-") {
                self.wrong.push(format!("{name}: the daemon ran it when the user worked in the project"));
            }
        }
        self.tried += work.len();
        Ok(())
    }

    /// Makes every attempt of a table and returns how many there were. With `ask` a permission of the agent's own waits
    /// meanwhile.
    pub(super) async fn run(&mut self, family: &str, ask: bool, table: &[Try]) -> Result<()> {
        let table: Vec<&Try> = table.iter().filter(|one| one.is_tried(self.tier)).collect();
        let attempts: Vec<Attempt> =
            table.iter().map(|one| Attempt { name: one.name.into(), run: one.run.into() }).collect();
        let outcomes = self.make(family, ask, attempts).await?;
        for (one, outcome) in table.iter().zip(&outcomes) {
            ensure!(one.name == outcome.name, "{} came where {} was expected", outcome.name, one.name);
            if let Some(why) = self.judge(one, outcome) {
                let output = indented(&outcome.output);
                self.wrong.push(format!("{}: {why}\n  $ {}\n{output}", one.name, one.run));
            }
        }
        self.tried += table.len();
        Ok(())
    }

    /// Calls every method of every interface about the other session, over the socket and over TCP. What is let in must be
    /// what agents may use for themselves.
    pub(super) async fn walk_every_method(&mut self) -> Result<()> {
        let walk = |name: &str, run: &str| Attempt { name: name.into(), run: run.into() };
        let attempts =
            vec![walk("walk-unix", "$P walk $UNIX $OTHER"), walk("walk-tcp", "$P walk $TCP $OTHER")];
        for outcome in self.make("walk", false, attempts).await? {
            for line in outcome.output.lines() {
                let mut parts = line.split('\t');
                let (Some(path), Some(status)) = (parts.next(), parts.next()) else {
                    if !self.tier.contained {
                        self.wrong.push(format!("{}: {line}", outcome.name));
                    }
                    continue;
                };
                self.tried += 1;
                let refusals = ["PermissionDenied", "Unauthenticated"];
                let refused =
                    refusals.iter().any(|refusal| status.contains(refusal)) && !status.contains(ASTRAY);
                if line.contains(&self.suffix_of_secrets())
                    || !(refused || path == FOR_ANYBODY || is_useless_login(path, status))
                {
                    self.wrong.push(format!("{}: {line}", outcome.name));
                }
            }
        }
        Ok(())
    }

    /// Makes attempts in one turn, and holds that nothing changed that the user can see.
    pub(super) async fn make(&self, family: &str, ask: bool, attempts: Vec<Attempt>) -> Result<Vec<Outcome>> {
        let report = self.world.path(&format!("project/{family}.json"));
        let release = self.world.path(&format!("project/{family}.go"));
        let batch = Batch {
            ask,
            release: text(&release),
            report: report.clone(),
            variables: self.variables.clone(),
            attempts,
            ..Batch::default()
        };
        self.send(&self.own, &batch).await?;
        if ask {
            self.request_waits(&self.own).await?;
        }
        let before = self.snapshot(ask).await?;
        fs::write(&release, "")?;
        let outcomes = read_report(&report).await?.outcomes;
        self.keep(family, &outcomes)?;
        let after = self.snapshot(ask).await.with_context(|| format!("after {family}"))?;
        ensure!(
            before == after,
            "{family} changed what is the user's:\n{before:#?}\n{after:#?}\n{outcomes:#?}"
        );
        if ask {
            self.cli().ok(&["session", "deny", &self.own, "req_1"]).await?;
        }
        self.cli().ok(&["session", "wait", &self.own, "--timeout", "30s"]).await?;
        Ok(outcomes)
    }

    /// Leaves what was printed for people to read, where `OBEY_TEST_ESCAPE_DIR` names a folder.
    fn keep(&self, family: &str, outcomes: &[Outcome]) -> Result<()> {
        let Some(folder) = std::env::var_os("OBEY_TEST_ESCAPE_DIR").map(PathBuf::from) else { return Ok(()) };
        let user = if self.tier.user.is_some() { "user" } else { "root" };
        let place = if self.tier.contained { "contained" } else { "open" };
        let text: String = outcomes
            .iter()
            .map(|one| format!("== {} ({:?})\n{}\n", one.name, one.code, one.output))
            .collect();
        fs::create_dir_all(&folder)?;
        Ok(fs::write(folder.join(format!("{user}-{place}-{family}.txt")), text)?)
    }

    /// Why an outcome is not what is expected, if it is not.
    fn judge(&self, one: &Try, outcome: &Outcome) -> Option<String> {
        let escaped = self.escaped(outcome);
        let says = |word: &&str| outcome.output.contains(*word);
        let refused = || REFUSALS.iter().any(says) && !says(&ASTRAY);
        match one.expected(self.tier) {
            Expect::Refused if escaped => Some("must be refused, and succeeded".into()),
            Expect::Refused if !refused() => {
                Some("must be refused by the daemon, and failed otherwise".into())
            }
            Expect::Impossible if escaped => Some("must be impossible, and succeeded".into()),
            Expect::Possible if !escaped => {
                Some("is said to be possible, and is not: the table and the documents are wrong".into())
            }
            Expect::Depends(why) => {
                println!("{} ({why}): {}", one.name, if escaped { "possible" } else { "not possible" });
                None
            }
            _ => None,
        }
    }

    /// Whether an attempt had its effect.
    pub(super) fn escaped(&self, outcome: &Outcome) -> bool {
        outcome.output.contains(&self.suffix_of_secrets())
            || outcome.output.lines().any(|line| line == POSSIBLE)
            || self.token_is_in(&outcome.output)
            || self.world.path("marks").join(&outcome.name).exists()
            || self.world.project().join(&outcome.name).exists()
    }

    fn suffix_of_secrets(&self) -> String {
        format!("-{}", self.suffix)
    }

    fn token_is_in(&self, output: &str) -> bool {
        let token = fs::read_to_string(self.world.path("run/obey/token")).unwrap_or_default();
        !token.trim().is_empty() && output.contains(token.trim())
    }

    /// What an attempt must not change: sessions, campaigns, environments, requests, and the other session's journal.
    async fn snapshot(&self, own_waits: bool) -> Result<BTreeMap<String, String>> {
        let cli = self.cli();
        let mut all = BTreeMap::new();
        let sessions = cli.json(&["session", "list", "--all"]).await?;
        for session in sessions["sessions"].as_array().into_iter().flatten() {
            let id = session["id"].as_str().unwrap_or_default();
            let what = if id == self.own { "its own".into() } else { session["status"].to_string() };
            all.insert(format!("session {id}"), format!("{what} {}", session["restart_count"]));
        }
        let requests = cli.json(&["session", "requests", "--all"]).await?;
        let requests = requests["requests"].as_array().into_iter().flatten();
        // Where none of its own waits, those are allowed or denied by the mode, on record.
        let requests: Vec<&Value> =
            requests.filter(|one| own_waits || one["session_id"] != self.own.as_str()).collect();
        all.insert("requests".into(), format!("{requests:#?}"));
        let campaigns = cli.json(&["campaign", "list"]).await?;
        all.insert("campaigns".into(), campaigns["campaigns"].to_string());
        let environments = cli.json(&["environment", "list"]).await?;
        all.insert("environments".into(), environments["environments"].to_string());
        let log = cli.ok(&["session", "log", &self.other, "--json"]).await?;
        all.insert("the other's journal".into(), log.stdout);
        Ok(all)
    }

    async fn send(&self, session: &str, batch: &Batch) -> Result<()> {
        let prompt = serde_json::to_string(batch)?;
        self.cli().ok(&["session", "send", session, &prompt, "--no-wait"]).await?;
        Ok(())
    }

    /// Waits until a permission of this session waits for an answer.
    async fn request_waits(&self, session: &str) -> Result<()> {
        within("a permission that waits", async {
            loop {
                let requests = self.cli().json(&["session", "requests", session]).await?;
                if requests["requests"].as_array().is_some_and(|all| !all.is_empty()) {
                    return Ok(());
                }
                tokio::task::yield_now().await;
            }
        })
        .await?
    }

    fn cli(&self) -> Cli {
        Cli::new(&self.world)
    }

    /// Ends everything. Before that the user does what the agent could not, which proves that it can be done.
    pub(super) async fn close(mut self) -> Result<()> {
        println!("{} attempts as {:?}", self.tried, self.tier);
        ensure!(
            self.wrong.is_empty(),
            "{} wrong as {:?}:\n{}",
            self.wrong.len(),
            self.tier,
            self.wrong.join("\n")
        );
        let cli = self.cli();
        let read = format!(r#"{{"session_id":"{}","path":"secret.txt"}}"#, self.other);
        let socket = format!("unix:{}", self.daemon.socket().display());
        let mut control = self.world.command(program());
        control.args(["http", &socket, "POST", "/api/v1/safeexec/read", &read]);
        let control = tokio::process::Command::from(control).output().await?;
        let control = String::from_utf8_lossy(&control.stdout).into_owned();
        ensure!(control.contains(&self.suffix_of_secrets()), "the user cannot read it either: {control}");
        cli.ok(&["session", "approve", &self.other, "req_1"]).await?;
        cli.ok(&["session", "wait", &self.other, "--timeout", "30s"]).await?;
        let log = cli.ok(&["session", "log", &self.other]).await?.stdout;
        ensure!(
            log.contains(&format!("canary-said-{}", self.suffix)),
            "the other session said nothing: {log}"
        );
        ensure!(log.contains("\"optionId\":\"allow\""), "the user's answer did not arrive: {log}");
        // What an attempt left where others can read it.
        let _ = fs::remove_file(format!("/tmp/{}-token", self.suffix));
        cli.ok(&["stop", "--sessions"]).await?;
        self.daemon.wait().await?;
        self.bystander.kill().await?;
        self.daemon.assert_no_descendants().await?;
        if self.tier.contained { self.nothing_is_left() } else { Ok(()) }
    }

    /// Nothing outside the project is there that attempts would have made, and of the sandbox nothing in the project.
    fn nothing_is_left(&self) -> Result<()> {
        let made = [
            "home/.profile",
            "home/bin",
            "home/.claude",
            "run/obey/planted",
            "data/obey/planted",
            "other/.git/hooks/pre-commit",
            "project/.obey",
            "project/.claude",
            "project/.codex",
            "project/.cursor",
            "project/.gemini",
            "project/.envrc",
            "project/.mcp.json",
            "project/.gitleaks.toml",
            "project/.git/config.worktree",
        ];
        let left: Vec<&str> =
            made.into_iter().filter(|name| self.world.path(name).symlink_metadata().is_ok()).collect();
        ensure!(left.is_empty(), "left behind: {left:?}");
        let settings = fs::read_to_string(self.world.path("config/obey/config.toml"))?;
        ensure!(settings.is_empty(), "the user's settings were changed: {settings}");
        Ok(())
    }
}

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_hostile-agent")
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn indented(output: &str) -> String {
    const SHOWN_MAX: usize = 1500;
    let shown: String = output.chars().take(SHOWN_MAX).collect();
    shown.lines().map(|line| format!("    {line}\n")).collect()
}

async fn create(cli: &Cli, words: &[&str]) -> Result<String> {
    let session: &[&str] = &["session", "create", "-p", "acp", "--config", "{\"agent\":\"hostile\"}"];
    let created: Value = cli.json(&[session, words].concat()).await?;
    Ok(created["id"].as_str().context("no id")?.to_owned())
}

async fn read_report(path: &PathBuf) -> Result<Report> {
    let bytes = poll("the agent's report", || fs::read(path).ok()).await?;
    serde_json::from_slice(&bytes).context("the agent's report")
}

/// Puts secrets where users have them.
fn plant(world: &World, suffix: &str) -> Result<()> {
    for folder in ["marks", "other", "home/.ssh", "home/.codex", "config/obey", "project/.vscode"] {
        fs::create_dir_all(world.path(folder))?;
    }
    for (file, secret) in [
        ("home/secret.txt", "canary-home"),
        ("home/.ssh/id_test", "canary-key"),
        ("home/.codex/auth.json", "canary-credentials"),
        ("other/secret.txt", "canary-project"),
    ] {
        fs::write(world.path(file), format!("{secret}-{suffix}\n"))?;
    }
    fs::write(world.path("config/obey/config.toml"), "")?;
    world.hand_over()?;
    let made = world.command("git").args(["init", "--quiet"]).current_dir(world.path("other")).status()?;
    ensure!(made.success(), "git init: {made}");
    Ok(())
}

/// Starts what the user has running beside the agents; returns it and its port.
async fn bystander(world: &World, suffix: &str) -> Result<(Child, String)> {
    let mut command = world.command(program());
    command
        .arg("bystander")
        .arg(world.path("run"))
        .env("BYSTANDER_SECRET", format!("canary-bystander-{suffix}"));
    let mut child = tokio::process::Command::from(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("starting the bystander")?;
    let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
    let line = within("the bystander's port", lines.next_line()).await??.context("the bystander ended")?;
    let port = line.strip_prefix("ready ").context(line.clone())?.to_owned();
    Ok((child, port))
}
