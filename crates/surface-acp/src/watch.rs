//! Ends turns that the agent does not end: after an idle timeout, or when the agent's own notification
//! reports the end. Runs for one turn of one prompt.

use std::sync::Arc;
use std::time::Duration;

use domain::TurnId;
use tokio::time::Instant;

use super::connection::ConnectionContext;
use super::notify::OpenNotificationSource;
use super::session_stream::SessionStreamState;
use super::{AcpSessionDefaults, NotificationSource};

/// What a turn is watched for.
pub(super) struct TurnWatch {
    idle_timeout: Option<Duration>,
    polling_interval: Duration,
    source: Option<OpenNotificationSource>,
    prompt: String,
}

impl TurnWatch {
    /// Prepares the watch before the prompt is sent, because the current content of the source belongs to
    /// earlier turns. `None` if neither a timeout nor a source is configured. A turn of a previous daemon is
    /// watched from the offset where its notifications began.
    pub(super) fn begin(defaults: &AcpSessionDefaults, prompt: &str, from: Option<u64>) -> Option<Self> {
        if defaults.idle_timeout.is_none() && defaults.notify.is_none() {
            return None;
        }
        let source = defaults
            .notify
            .as_ref()
            .map(|NotificationSource { path, kind }| OpenNotificationSource::begin(path, *kind, from));
        Some(Self {
            idle_timeout: defaults.idle_timeout,
            polling_interval: defaults.polling_interval,
            source,
            prompt: prompt.to_owned(),
        })
    }

    /// Returns the offset where the notifications of this turn begin, if it is known.
    pub(super) fn notify_from(&self) -> Option<u64> {
        self.source.as_ref()?.from()
    }

    /// Watches until the turn has ended, on its own or from here.
    pub(super) async fn run(
        mut self,
        core: Arc<ConnectionContext>,
        shared: Arc<SessionStreamState>,
        turn: TurnId,
    ) {
        let mut heard = shared.heard.subscribe();
        let mut since = Instant::now();
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.polling_interval) => {}
                () = ready(self.source.as_ref()) => {}
                () = core.out.hung_up() => return,
            }
            if shared.open.lock().await.as_ref().is_none_or(|open| open.turn != turn) {
                return;
            }
            if heard.has_changed().unwrap_or(false) {
                heard.mark_unchanged();
                since = Instant::now();
            }
            if self.is_told(&core, &shared).await {
                core.out.log("info", format!("{}: the agent's notification ends the turn", shared.id));
                return core.end_turn(&shared, turn, "end_turn").await;
            }
            if self.is_silent(since) {
                // While a person decides, the agent is silent; that is not idle time.
                let waits = core.supervisor.snapshot(&shared.id).await;
                if waits.is_ok_and(|snapshot| snapshot.state.requests.is_empty()) {
                    core.out.log("info", format!("{}: silence ends the turn", shared.id));
                    return core.end_turn(&shared, turn, "end_turn").await;
                }
                since = Instant::now();
            }
        }
    }

    fn is_silent(&self, since: Instant) -> bool {
        self.idle_timeout.is_some_and(|most| since.elapsed() >= most)
    }

    /// Whether a notification of the agent says that the turn has ended.
    async fn is_told(&mut self, core: &ConnectionContext, shared: &SessionStreamState) -> bool {
        let Some(source) = &mut self.source else { return false };
        let events = match source.read() {
            Ok(events) => events,
            Err(problem) => {
                core.out.log("warn", problem);
                return false;
            }
        };
        if events.is_empty() {
            return false;
        }
        let snapshot = core.supervisor.snapshot(&shared.id).await;
        let native = snapshot.map(|snapshot| snapshot.state.native_session.clone()).unwrap_or_default();
        events.iter().any(|event| event.ends(&native, &self.prompt))
    }
}

/// Waits for a source that supports waiting.
async fn ready(source: Option<&OpenNotificationSource>) {
    match source {
        Some(source) => source.ready().await,
        None => std::future::pending().await,
    }
}
