//! `obey search`: what was said and done, in all sessions.

use jiff::Timestamp;
use serde_json::json;
use wire::obey::v1 as pb;

use cli_args::overview::{SearchArgs, SearchKindArg};
use client::format::{self, rfc3339};
use client::resolve;
use config::exit::Exit;
use config::failure::Result;
use terminal::console::Console;
use terminal::output::TextStyle;

/// What surrounds a hit in a snippet.
const MARKS: [char; 2] = ['\u{1}', '\u{2}'];
/// Columns of a session's name.
const NAME_MAX: usize = 18;

pub(in crate::commands) async fn run(console: &mut Console, args: &SearchArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let session_id = match &args.session {
        Some(typed) => resolve::session(&client, typed).await?,
        None => String::new(),
    };
    let now = Timestamp::now();
    let request = pb::SearchRequest {
        text: args.words.join(" "),
        session_id,
        kinds: args.kind.iter().map(|kind| wire_kind(*kind).into()).collect(),
        limit: args.limit,
        since: args.since.and_then(|age| super::usage::before(now, age)),
    };
    let found = client.search().search(request).await?.into_inner();
    if !found.complete {
        console
            .out
            .note(TextStyle::Warn, "The index is still being built: older sessions may be missing.")?;
    }
    for hit in &found.hits {
        print(console, hit, now)?;
    }
    if found.hits.is_empty() {
        console.out.note(TextStyle::Dim, "Nothing was found.")?;
    } else if found.more {
        console
            .out
            .note(TextStyle::Dim, &format!("There is more: -n {}", args.limit.saturating_mul(2).min(500)))?;
    }
    Ok(Exit::OK)
}

fn wire_kind(kind: SearchKindArg) -> pb::SearchKind {
    match kind {
        SearchKindArg::Prompt => pb::SearchKind::Prompt,
        SearchKindArg::Answer => pb::SearchKind::Answer,
        SearchKindArg::Command => pb::SearchKind::Command,
        SearchKindArg::Output => pb::SearchKind::Output,
    }
}

fn kind_name(kind: pb::SearchKind) -> &'static str {
    match kind {
        pb::SearchKind::Unspecified => "",
        pb::SearchKind::Prompt => "prompt",
        pb::SearchKind::Answer => "answer",
        pb::SearchKind::Command => "command",
        pb::SearchKind::Output => "output",
    }
}

fn print(console: &mut Console, hit: &pb::SearchHit, now: Timestamp) -> Result<()> {
    if console.out.json {
        return console.out.json(&json!({
            "session_id": hit.session_id,
            "session_name": hit.session_name,
            "seq": hit.seq,
            "kind": kind_name(hit.kind()),
            "at": rfc3339(hit.at.as_ref()),
            "snippet": hit.snippet.replace(MARKS, ""),
        }));
    }
    let name = format::shorten(&hit.session_name, NAME_MAX);
    let age = format::age(hit.at.as_ref(), now);
    let head = format!("{name:<NAME_MAX$}  {:>6}  {:<7}  {age:>4}  ", hit.seq, kind_name(hit.kind()));
    let columns = console.out.columns();
    let room = columns.map(|columns| columns.saturating_sub(head.chars().count()).max(NAME_MAX));
    let mut pieces = vec![(TextStyle::Dim, head)];
    pieces.extend(snippet(&format::one_line(&hit.snippet), room));
    let pieces: Vec<(TextStyle, &str)> = pieces.iter().map(|(style, text)| (*style, text.as_str())).collect();
    console.out.styled_line(&pieces)
}

/// Splits a snippet into what was found and what surrounds it, cut to the room there is.
fn snippet(text: &str, room: Option<usize>) -> Vec<(TextStyle, String)> {
    let mut pieces = Vec::new();
    let mut left = room.unwrap_or(usize::MAX);
    for (index, piece) in text.split(MARKS).enumerate() {
        let style = if index % 2 == 1 { TextStyle::Bold } else { TextStyle::Plain };
        let piece = format::shorten(piece, left);
        left = left.saturating_sub(piece.chars().count());
        pieces.push((style, piece));
        if left == 0 {
            break;
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_shows_what_was_found_and_fits_its_room() {
        let pieces = snippet("the \u{1}cart\u{2} total", None);
        let texts: Vec<(TextStyle, &str)> =
            pieces.iter().map(|(style, text)| (*style, text.as_str())).collect();
        assert_eq!(
            texts,
            [(TextStyle::Plain, "the "), (TextStyle::Bold, "cart"), (TextStyle::Plain, " total")]
        );
        let cut: String =
            snippet("the \u{1}cart\u{2} total", Some(10)).into_iter().map(|(_, text)| text).collect();
        assert_eq!(cut, "the cart …");
    }
}
