//! `obey session log`: all events, as JSON lines or as aligned rows.

use domain::EventKind;
use serde_json::value::RawValue;
use wire::obey::v1 as pb;

use crate::limits;
use cli_args::session::{LogArgs, RevealArgs};
use client::connection::Client;
use client::events::{self, LogEvent};
use client::feed::{Feed, FeedItem};
use client::format;
use client::resolve;
use client::seen;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::render;

/// Widths of the columns before the text.
const SEQ_WIDTH: usize = 6;
const WORD_WIDTH: usize = 8;

pub(super) async fn run(console: &mut Console, args: &LogArgs) -> Result<Exit> {
    if args.from == 0 {
        return Err(Failure::usage("--from counts from 1"));
    }
    let client = console.connect().await?;
    let id = resolve::session(&client, &args.session).await?;
    let after = args.from - 1;
    let mut rows = Rows::default();
    let mut shown = 0;
    if let Some(keep) = args.tail {
        let tail = events::tail(&client, &id, after, keep).await?;
        for event in tail.events {
            shown = event.seq;
            rows.print(console, event)?;
        }
        rows.flush(console)?;
        seen::mark(&client, &id, shown).await;
        if args.follow {
            follow(console, &client, &id, tail.last, 0).await?;
        }
    } else if args.follow {
        follow(console, &client, &id, after, args.limit).await?;
    } else {
        let mut stream = events::read(&client, &id, after, args.limit).await?;
        while let Some(event) = stream.message().await? {
            shown = event.seq;
            rows.print(console, LogEvent::read(event))?;
        }
        rows.flush(console)?;
        seen::mark(&client, &id, shown).await;
    }
    Ok(Exit::OK)
}

/// `obey session reveal`: one event with its secrets, as a JSON line.
pub(super) async fn reveal(console: &mut Console, args: &RevealArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let id = resolve::session(&client, &args.session).await?;
    let request = pb::RevealRequest { session_id: id, seq: args.seq };
    let revealed = client.events().reveal(request).await?.into_inner();
    console.out.line(&revealed.json)?;
    Ok(Exit::OK)
}

/// Prints events until the session ends, or until `limit` of them were printed (0: all).
pub(super) async fn follow(
    console: &mut Console,
    client: &Client,
    id: &str,
    after: u64,
    limit: u64,
) -> Result<()> {
    let mut feed = Feed::follow(client, id, after);
    let mut rows = Rows::default();
    let mut printed = 0;
    while limit == 0 || printed < limit {
        let item = match rows.waiting {
            // Consecutive text is merged, but not held back for long.
            Some(_) => match tokio::time::timeout(limits::MERGE_WAIT, feed.next()).await {
                Ok(item) => item,
                Err(_) => {
                    rows.flush(console)?;
                    continue;
                }
            },
            None => feed.next().await,
        };
        match item {
            None => break,
            Some(FeedItem::Event(event)) => {
                printed += 1;
                let ended = matches!(event.kind, Some(EventKind::TurnEnded { .. })).then_some(event.seq);
                rows.print(console, *event)?;
                if let Some(seq) = ended {
                    seen::mark(client, id, seq).await;
                }
            }
            Some(FeedItem::Lost) => console.out.note(TextStyle::Warn, "connection lost, trying again…")?,
            Some(FeedItem::Back) => {
                console.out.note(TextStyle::Dim, "connected again; nothing was missed")?
            }
            Some(FeedItem::Failed(failure)) => {
                rows.flush(console)?;
                return Err(failure);
            }
        }
    }
    rows.flush(console)
}

/// Prints events; consecutive deltas of one text become one row.
#[derive(Default)]
pub(super) struct Rows {
    waiting: Option<LogEvent>,
    /// A prefix of the kind, such as the session's name.
    whose: String,
}

impl Rows {
    pub(super) fn of(whose: String) -> Self {
        Self { waiting: None, whose }
    }

    /// Returns whether a text waits for its next delta.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Prints an event. Consecutive text deltas are combined into one row.
    pub(super) fn print(&mut self, console: &mut Console, event: LogEvent) -> Result<()> {
        if console.out.json {
            return print_json(console, &event.json_line());
        }
        if let Some(waiting) = &mut self.waiting
            && append(waiting, &event)
        {
            return Ok(());
        }
        self.flush(console)?;
        if let Some(EventKind::TextDelta { .. } | EventKind::ThinkingDelta { .. }) = event.kind {
            self.waiting = Some(event);
            return Ok(());
        }
        print_row_of(console, &event, &self.whose)
    }

    pub(super) fn flush(&mut self, console: &mut Console) -> Result<()> {
        self.waiting.take().map_or(Ok(()), |event| print_row_of(console, &event, &self.whose))
    }
}

/// Appends a text delta to the previous one. Returns whether they belong together.
fn append(before: &mut LogEvent, event: &LogEvent) -> bool {
    let (Some(before), Some(event)) = (&mut before.kind, &event.kind) else { return false };
    let Some((text, more)) = before.continued_by(event) else { return false };
    text.push_str(more);
    true
}

/// Prints a prepared line of JSON.
pub(super) fn print_json(console: &mut Console, line: &str) -> Result<()> {
    let raw = RawValue::from_string(line.to_owned()).map_err(|error| Failure::failed(error.to_string()))?;
    console.out.json(&raw)
}

/// Prints an event as a row: number, time, kind, text.
pub(in crate::commands) fn print_row(console: &mut Console, event: &LogEvent) -> Result<()> {
    print_row_of(console, event, "")
}

/// Prints a row with a prefix before the kind, such as the session's name.
fn print_row_of(console: &mut Console, event: &LogEvent, whose: &str) -> Result<()> {
    let row = render::row(event);
    let clock = event.at.map_or_else(|| "--:--:--".to_owned(), |at| format::clock(at, &console.zone));
    let head = format!("{:>SEQ_WIDTH$}  {clock}  {whose}", event.seq);
    let word = format!("{:<WORD_WIDTH$}  ", row.word);
    let room = console
        .out
        .columns()
        .map(|columns| columns.saturating_sub(head.chars().count() + word.chars().count()));
    let text = format::one_line(&row.text);
    let text = room.map_or_else(|| text.clone(), |room| format::shorten(&text, room.max(WORD_WIDTH)));
    console.out.styled_line(&[(TextStyle::Dim, &head), (row.style, &word), (TextStyle::Plain, &text)])
}
