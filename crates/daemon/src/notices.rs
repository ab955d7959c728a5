//! Tells the person what sessions need while they look elsewhere: through the desktop, a program of theirs, a webhook.
//! What is told is decided in `domain`. Nothing here can delay a session: each way has a queue and a time limit.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use config::file::notices::Notices;
use domain::notice::{Notice, NoticeBoard, NoticeChange, NoticeFacts, NoticeKind};
use runtime::Supervisor;
use runtime::overview::{OverviewFilter, SessionGlance};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::sync::{mpsc, watch};

use crate::limits;
use push::BrowserPush;
use surface_web::push::Push;

mod plain;
mod push;
mod rules;

/// Starts to follow all sessions, until the daemon ends.
pub(crate) fn follow(supervisor: &Supervisor, config: Notices, subscriptions: Arc<Push>) {
    let rule_changes = supervisor.settings().watch_rules();
    tokio::spawn(run(supervisor.clone(), config, subscriptions, rule_changes));
}

async fn run(
    supervisor: Supervisor,
    config: Notices,
    subscriptions: Arc<Push>,
    mut rule_changes: watch::Receiver<u64>,
) {
    let ways = Ways::open(&config, subscriptions);
    let is_told = config.rules().kinds.contains(&NoticeKind::NeedsYou);
    let mut board = NoticeBoard::new(config.rules());
    let filter = OverviewFilter { include_ended: true, include_archived: true, ..OverviewFilter::default() };
    let mut watch = match supervisor.overview().watch_states(filter).await {
        Ok(watch) => watch,
        Err(error) => {
            tracing::warn!(%error, "there are no notices: sessions cannot be watched");
            return;
        }
    };
    loop {
        let change = tokio::select! {
            change = watch.next() => change,
            Ok(()) = rule_changes.changed() => {
                let count = *rule_changes.borrow_and_update();
                rules::record(&supervisor).await;
                if is_told {
                    ways.tell(NoticeChange::Raise(rules::notice(count)));
                }
                continue;
            }
        };
        let change = match change {
            Ok(change) => change,
            Err(error) => {
                tracing::warn!(%error, "there are no more notices: sessions cannot be watched");
                return;
            }
        };
        for glance in &change.sessions {
            let facts = facts_of(glance);
            if change.is_snapshot {
                board.begin(&facts);
                continue;
            }
            board.update(&facts).into_iter().for_each(|change| ways.tell(change));
        }
        for session in &change.removed {
            board.remove(session).into_iter().for_each(|change| ways.tell(change));
        }
    }
}

fn facts_of(glance: &SessionGlance) -> NoticeFacts {
    let facts = &glance.facts;
    NoticeFacts {
        session: facts.id.clone(),
        name: facts.name.clone(),
        folder: facts.folder.to_string_lossy().into_owned(),
        state: glance.assessment.state,
        reason: glance.assessment.reason.clone(),
        since: glance.assessment.since,
        request: facts.requests.first().map(|request| request.id.to_string()),
        turn_began: facts.turn.as_ref().and_then(|turn| turn.started_at),
    }
}

/// The ways by which a person is told, each with a queue of its own.
struct Ways(Vec<mpsc::Sender<Arc<NoticeChange>>>);

impl Ways {
    fn open(config: &Notices, subscriptions: Arc<Push>) -> Self {
        let mut ways = vec![start(BrowserPush::new(subscriptions))];
        if let Some(desktop) = config.desktop.then(Desktop::find).flatten() {
            ways.push(start(desktop));
        }
        if let Some(program) = &config.hook {
            ways.push(start(Hook { program: program.clone() }));
        }
        if let Some(webhook) = Webhook::of(config) {
            ways.push(start(webhook));
        }
        Self(ways)
    }

    fn tell(&self, change: NoticeChange) {
        let change = Arc::new(plain::without_tricks(change));
        for way in &self.0 {
            if way.try_send(Arc::clone(&change)).is_err() {
                tracing::warn!("a notice is dropped: too many wait for their way");
            }
        }
    }
}

/// One way by which a person is told.
trait NoticeWay: Send + 'static {
    fn name(&self) -> &'static str;
    fn tell(&mut self, change: &NoticeChange) -> impl Future<Output = Result<(), String>> + Send;
}

fn start(mut way: impl NoticeWay) -> mpsc::Sender<Arc<NoticeChange>> {
    let (queue, mut changes) = mpsc::channel::<Arc<NoticeChange>>(limits::NOTICES_AHEAD);
    tokio::spawn(async move {
        while let Some(change) = changes.recv().await {
            let told = tokio::time::timeout(limits::NOTICE_WAIT, way.tell(&change)).await;
            let problem = match told {
                Ok(Ok(())) => continue,
                Ok(Err(problem)) => problem,
                Err(_) => format!("it took longer than {} s", limits::NOTICE_WAIT.as_secs()),
            };
            tracing::warn!(way = way.name(), problem, "a notice was not delivered");
        }
    });
    queue
}

/// What programs and addresses are told.
fn document(change: &NoticeChange) -> String {
    let (event, notice) = match change {
        NoticeChange::Raise(notice) => ("raised", notice),
        NoticeChange::Withdraw(notice) => ("withdrawn", notice),
    };
    let mut document = json!(notice);
    document["event"] = event.into();
    document.to_string()
}

/// One line for a person.
fn title(notice: &Notice) -> String {
    let what = match notice.kind {
        NoticeKind::NeedsYou => "needs you",
        NoticeKind::Failed => "failed",
        NoticeKind::Done => "is done",
    };
    format!("{} {what}", notice.name)
}

/// A program of the user's own.
struct Hook {
    program: PathBuf,
}

impl NoticeWay for Hook {
    fn name(&self) -> &'static str {
        "notices.hook"
    }

    async fn tell(&mut self, change: &NoticeChange) -> Result<(), String> {
        let mut child = Command::new(&self.program)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{}: {error}", self.program.display()))?;
        if let Some(mut input) = child.stdin.take() {
            // A program may not read what it is told.
            let _not_read = input.write_all(format!("{}\n", document(change)).as_bytes()).await;
        }
        let status = child.wait().await.map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", self.program.display())) }
    }
}

/// An address.
struct Webhook {
    address: String,
    token: Option<String>,
    client: reqwest::Client,
}

impl Webhook {
    fn of(config: &Notices) -> Option<Self> {
        if config.webhook.is_empty() {
            return None;
        }
        // An error means that a provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .timeout(limits::NOTICE_WAIT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("obey/", env!("CARGO_PKG_VERSION")))
            .build();
        let client = match client {
            Ok(client) => client,
            Err(error) => {
                tracing::warn!(%error, "notices.webhook cannot be used");
                return None;
            }
        };
        let token = std::env::var(&config.webhook_token_env).ok().filter(|token| !token.is_empty());
        Some(Self { address: config.webhook.clone(), token, client })
    }
}

impl NoticeWay for Webhook {
    fn name(&self) -> &'static str {
        "notices.webhook"
    }

    async fn tell(&mut self, change: &NoticeChange) -> Result<(), String> {
        let mut request = self.client.post(&self.address).header("content-type", "application/json");
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        // The address may contain a secret.
        let answer = request.body(document(change)).send().await;
        let answer = answer.map_err(|error| error.without_url().to_string())?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(format!("the address answered {status}")) }
    }
}

/// The desktop's own notifications.
struct Desktop {
    program: PathBuf,
    kind: DesktopKind,
    /// What notices are called by the desktop.
    shown: HashMap<String, String>,
}

enum DesktopKind {
    /// freedesktop's, through `notify-send`.
    Freedesktop,
    /// macOS', which cannot be withdrawn.
    AppleScript,
}

impl Desktop {
    /// Returns `None` where there is no desktop to notify.
    fn find() -> Option<Self> {
        let of = |name: &str, kind| Some(Self { program: program(name)?, kind, shown: HashMap::new() });
        of("notify-send", DesktopKind::Freedesktop).or_else(|| of("osascript", DesktopKind::AppleScript))
    }

    async fn show(&mut self, notice: &Notice) -> Result<(), String> {
        let output = match self.kind {
            DesktopKind::Freedesktop => {
                let urgency = if notice.kind == NoticeKind::Done { "low" } else { "normal" };
                let flags = ["--print-id", "--app-name=obey", "--urgency", urgency, "--"];
                asked(&self.program, &[&flags[..], &[&title(notice), &plain::escaped(&notice.text)]].concat())
                    .await?
            }
            DesktopKind::AppleScript => {
                // The texts are arguments, never part of the script.
                let script =
                    "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run";
                asked(&self.program, &["-e", script, &title(notice), &notice.text]).await?
            }
        };
        let id = output.trim();
        if !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()) {
            self.shown.insert(notice.id.clone(), id.to_owned());
        }
        Ok(())
    }

    async fn close(&mut self, notice: &Notice) -> Result<(), String> {
        let Some(id) = self.shown.remove(&notice.id) else { return Ok(()) };
        let Some(gdbus) = program("gdbus") else { return Ok(()) };
        let service = "org.freedesktop.Notifications";
        let method = "org.freedesktop.Notifications.CloseNotification";
        let args = [
            "call",
            "--session",
            "--dest",
            service,
            "--object-path",
            "/org/freedesktop/Notifications",
            "--method",
            method,
        ];
        asked(&gdbus, &[&args[..], &[&id]].concat()).await.map(drop)
    }
}

impl NoticeWay for Desktop {
    fn name(&self) -> &'static str {
        "notices.desktop"
    }

    async fn tell(&mut self, change: &NoticeChange) -> Result<(), String> {
        match change {
            NoticeChange::Raise(notice) => self.show(notice).await,
            NoticeChange::Withdraw(notice) => self.close(notice).await,
        }
    }
}

/// Runs a program and returns what it printed.
async fn asked(program: &Path, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(format!("{} ended with {}", program.display(), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Finds a program on the daemon's `PATH`.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}
