//! `obey session watch`: live events of one session, or of all of them.

use std::collections::BTreeMap;

use domain::EventKind;
use tokio::sync::mpsc;
use tokio::time::Instant;
use wire::obey::local::v1 as local;

use super::log;
use crate::json;
use crate::limits;
use cli_args::session::WatchArgs;
use client::connection::Client;
use client::events::{self, LogEvent};
use client::feed::{Feed, FeedItem};
use client::format;
use client::names;
use client::resolve;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::render;

/// Columns for the name of a session.
const NAME_WIDTH: usize = 16;

pub(super) async fn run(console: &mut Console, args: &WatchArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let Some(typed) = &args.session else {
        return watch_all(console, client, args.campaign.as_deref()).await;
    };
    let id = resolve::session(&client, typed).await?;
    let tail = events::tail(&client, &id, 0, args.tail).await?;
    let mut rows = log::Rows::default();
    for event in tail.events {
        rows.print(console, event)?;
    }
    rows.flush(console)?;
    log::follow(console, &client, &id, tail.last, 0).await?;
    Ok(Exit::OK)
}

/// Prints the events of all sessions, including those created later.
async fn watch_all(console: &mut Console, client: Client, campaign: Option<&str>) -> Result<Exit> {
    let campaign_id = match campaign {
        Some(typed) => resolve::named_campaign(&client, typed).await?,
        None => String::new(),
    };
    // Statuses are watched before sessions are listed: one created in between is seen twice rather than
    // never.
    let request = local::WatchAllSessionsRequest { campaign_id: campaign_id.clone() };
    let mut statuses = client.daemon().watch_all_sessions(request).await?.into_inner();
    let request = local::ListSessionsRequest { campaign_id, ..Default::default() };
    let sessions = client.daemon().list_sessions(request).await?.into_inner().sessions;
    let (tx, mut activity) = mpsc::channel(client::limits::EVENTS_AHEAD);
    let mut watched = Watched { client, tx, names: BTreeMap::new() };
    for session in &sessions {
        let last = events::tail(&watched.client, &session.id, 0, 0).await?.last;
        watched.add(session.id.clone(), session.agent_name.clone(), last);
    }
    let count = format::plural(sessions.len(), "session");
    console.out.note(TextStyle::Dim, &format!("Watching {count}. Ctrl-C ends."))?;
    let mut texts = Texts::default();
    let outcome = loop {
        tokio::select! {
            // Available events are merged before a text counts as due.
            biased;
            event = statuses.message() => match event {
                Ok(Some(event)) => {
                    watched.meet(&event.session_id).await;
                    texts.flush(console, |id| id == event.session_id)?;
                    print_status(console, &watched, &event)?;
                }
                Ok(None) => break Ok(Exit::OK),
                Err(status) => break Err(status.into()),
            },
            Some(item) = activity.recv() => match item {
                Activity::Event(event) => texts.print(console, &watched, *event)?,
                Activity::Failed(failure) => break Err(failure),
            },
            () = texts.due() => texts.flush_due(console)?,
        }
    };
    texts.flush(console, |_| true)?;
    outcome
}

/// The rows of each session: consecutive text becomes one row, but is not held back for long.
#[derive(Default)]
struct Texts(BTreeMap<String, (log::Rows, Instant)>);

impl Texts {
    /// Prints an event; status changes come from the other stream.
    fn print(&mut self, console: &mut Console, watched: &Watched, event: LogEvent) -> Result<()> {
        if matches!(event.kind, Some(EventKind::StatusChanged { .. })) {
            return Ok(());
        }
        if console.out.json {
            return log::print_json(console, &event.json_line_with_session());
        }
        let fresh = || (log::Rows::of(watched.name(&event.session)), Instant::now());
        let (rows, last) = self.0.entry(event.session.clone()).or_insert_with(fresh);
        *last = Instant::now();
        rows.print(console, event)
    }

    /// Waits until a text has had no further delta for a while.
    async fn due(&self) {
        let waiting = self.0.values().filter(|(rows, _)| rows.is_waiting());
        match waiting.map(|(_, last)| *last).min() {
            Some(last) => tokio::time::sleep_until(last + limits::MERGE_WAIT).await,
            None => std::future::pending().await,
        }
    }

    fn flush_due(&mut self, console: &mut Console) -> Result<()> {
        let now = Instant::now();
        let all = self.0.values_mut().filter(|(_, last)| now >= *last + limits::MERGE_WAIT);
        all.into_iter().try_for_each(|(rows, _)| rows.flush(console))
    }

    fn flush(&mut self, console: &mut Console, which: impl Fn(&str) -> bool) -> Result<()> {
        let all = self.0.iter_mut().filter(|(id, _)| which(id));
        all.into_iter().try_for_each(|(_, (rows, _))| rows.flush(console))
    }
}

enum Activity {
    Event(Box<LogEvent>),
    Failed(Failure),
}

/// The watched sessions, with their names.
struct Watched {
    client: Client,
    tx: mpsc::Sender<Activity>,
    names: BTreeMap<String, String>,
}

impl Watched {
    /// Starts to watch a new session.
    async fn meet(&mut self, id: &str) {
        if self.names.contains_key(id) {
            return;
        }
        // A session without a name is still watched.
        let name = super::get(&self.client, id).await.map(|session| session.agent_name).unwrap_or_default();
        self.add(id.to_owned(), name, 0);
    }

    /// Follows a session in a separate task, which forwards its events.
    fn add(&mut self, id: String, name: String, after: u64) {
        let mut feed = Feed::follow(&self.client, &id, after);
        let tx = self.tx.clone();
        tokio::spawn(async move {
            while let Some(item) = feed.next().await {
                let sent = match item {
                    FeedItem::Event(event) => tx.send(Activity::Event(event)).await,
                    FeedItem::Failed(failure) => tx.send(Activity::Failed(failure)).await,
                    FeedItem::Lost | FeedItem::Back => Ok(()),
                };
                if sent.is_err() {
                    return;
                }
            }
        });
        self.names.insert(id, name);
    }

    fn name(&self, id: &str) -> String {
        let name = self.names.get(id).filter(|name| !name.is_empty()).map_or(id, String::as_str);
        format!("{:<NAME_WIDTH$}  ", format::shorten(name, NAME_WIDTH))
    }
}

fn print_status(console: &mut Console, watched: &Watched, event: &local::SessionStatusEvent) -> Result<()> {
    if console.out.json {
        return console.out.json(&json::status_event(event));
    }
    let at = event.timestamp.as_ref().and_then(format::timestamp);
    let clock = at.map_or_else(|| "--:--:--".to_owned(), |at| format::clock(at, &console.zone));
    let style = names::status(event.new_status).map_or(TextStyle::Plain, render::status_style);
    let because = if event.message.is_empty() { String::new() } else { format!(": {}", event.message) };
    let change =
        format!("{} → {}", names::status_name(event.previous_status), names::status_name(event.new_status));
    console.out.styled_line(&[
        (TextStyle::Dim, &format!("        {clock}  {}", watched.name(&event.session_id))),
        (style, "status    "),
        (TextStyle::Plain, &format!("{change}{because}")),
    ])
}
