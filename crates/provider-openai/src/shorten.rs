//! Shortens a conversation for a summary if the endpoint does not accept all of it: first the outputs of
//! calls, then the oldest entries. No call is left without its result and no result without its call. Pure.

use std::collections::BTreeSet;

use super::history::{HistoryItem, tokens};
use crate::limits::SHORTER_OUTPUT_MAX_BYTES;

/// Bytes of a token, roughly.
const TOKEN_BYTES: u64 = 4;

/// The share of the result that one entry may take: a longer one must not displace all others.
const SHARE: u64 = 4;

/// Returns the conversation shortened for the `round`th time, from 1, and how many of its oldest entries are
/// left out.
pub(super) fn shorter(items: &[HistoryItem], round: u32) -> (Vec<HistoryItem>, usize) {
    let mut items: Vec<HistoryItem> = items.to_vec();
    for item in &mut items {
        if let HistoryItem::Result { output, .. } = item {
            *output = ends(output, SHORTER_OUTPUT_MAX_BYTES);
        }
    }
    let halves = round.saturating_sub(1);
    if halves == 0 {
        return (items, 0);
    }
    let room = items.iter().map(tokens).sum::<u64>() >> halves.min(63);
    let longest = usize::try_from(room * TOKEN_BYTES / SHARE).unwrap_or(usize::MAX);
    items.iter_mut().for_each(|item| cut(item, longest));
    let mut used = 0;
    let kept = items.iter().rev().take_while(|item| {
        used += tokens(item);
        used <= room
    });
    let left_out = items.len() - kept.count();
    let kept = whole_calls(items.split_off(left_out));
    (kept, left_out)
}

/// Shortens the texts of an entry; files that are too long are dropped.
fn cut(item: &mut HistoryItem, longest: usize) {
    match item {
        HistoryItem::User { text, attachments } => {
            *text = ends(text, longest);
            attachments.retain(|file| file.content.len() <= longest);
        }
        HistoryItem::Assistant(text) | HistoryItem::System(text) => *text = ends(text, longest),
        // Some endpoints parse them: the rest must be JSON.
        HistoryItem::Call(call) if call.arguments.len() > longest => call.arguments = "{}".to_owned(),
        HistoryItem::Result { output, .. } => *output = ends(output, longest),
        HistoryItem::Call(_) | HistoryItem::Reasoning(_) => {}
    }
}

/// Drops calls and results whose counterpart is missing, and reasoning, which belongs to what came before it.
fn whole_calls(items: Vec<HistoryItem>) -> Vec<HistoryItem> {
    let (mut made, mut answered) = (BTreeSet::new(), BTreeSet::new());
    for item in &items {
        match item {
            HistoryItem::Call(call) => made.insert(call.id.clone()),
            HistoryItem::Result { id, .. } => answered.insert(id.clone()),
            _ => false,
        };
    }
    let is_whole = |item: &HistoryItem| match item {
        HistoryItem::Call(call) => answered.contains(&call.id),
        HistoryItem::Result { id, .. } => made.contains(id),
        HistoryItem::Reasoning(_) => false,
        HistoryItem::User { .. } | HistoryItem::Assistant(_) | HistoryItem::System(_) => true,
    };
    items.into_iter().filter(is_whole).collect()
}

/// Drops the middle of a text: the important parts are at its ends.
pub(super) fn ends(text: &str, longest: usize) -> String {
    if text.len() <= longest {
        return text.to_owned();
    }
    let half = longest / 2;
    let (head, tail) = (text.floor_char_boundary(half), text.ceil_char_boundary(text.len() - half));
    format!("{}\n… {} bytes left out …\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::super::history::HistoryCall;
    use super::*;
    use crate::limits::SHORTER_MAX;

    fn user(text: &str) -> HistoryItem {
        HistoryItem::User { text: text.to_owned(), attachments: Vec::new() }
    }

    fn call(id: &str) -> HistoryItem {
        HistoryItem::Call(HistoryCall {
            id: id.to_owned(),
            name: "Read".to_owned(),
            arguments: "{}".to_owned(),
        })
    }

    fn result(id: &str, length: usize) -> HistoryItem {
        HistoryItem::Result { id: id.to_owned(), output: "x".repeat(length) }
    }

    fn size(items: &[HistoryItem]) -> u64 {
        items.iter().map(tokens).sum()
    }

    #[test]
    fn outputs_go_first_and_then_what_is_oldest() {
        let mut items = vec![user("begin")];
        for number in 0..40 {
            let id = format!("c{number}");
            items.extend([call(&id), result(&id, 30_000), HistoryItem::Assistant("seen ".repeat(80))]);
        }
        let (first, left_out) = shorter(&items, 1);
        assert_eq!((first.len(), left_out), (items.len(), 0));
        assert!(size(&first) < size(&items) / 10);
        let mut before = size(&first);
        for round in 2..=SHORTER_MAX {
            let (kept, left_out) = shorter(&items, round);
            assert!(size(&kept) <= size(&first) >> (round - 1) && left_out > 0, "{round}");
            assert!(size(&kept) < before, "{round}");
            before = size(&kept);
            assert_eq!(kept.last(), items.last(), "{round}: the newest stay");
            let calls = kept.iter().filter(|item| matches!(item, HistoryItem::Call(_))).count();
            let results = kept.iter().filter(|item| matches!(item, HistoryItem::Result { .. })).count();
            assert_eq!(calls, results, "{round}");
        }
    }

    #[test]
    fn one_entry_that_is_too_long_is_cut() {
        let items = [user("begin"), HistoryItem::Assistant("long ".repeat(50_000)), user("and then")];
        let (kept, _) = shorter(&items, 3);
        assert!(size(&kept) <= size(&items) / 4, "{}", size(&kept));
        assert!(
            kept.iter().any(|item| matches!(item, HistoryItem::Assistant(text) if text.contains("left out")))
        );
        assert_eq!(kept.last(), items.last());
    }

    #[test]
    fn no_call_is_parted_from_its_result() {
        let wide = "x".repeat(2_000);
        let items =
            [call("a"), call("b"), user(&wide), result("b", 10), user(&wide), result("a", 10), user(&wide)];
        for round in 1..=SHORTER_MAX {
            let (kept, _) = shorter(&items, round);
            let ids = |calls: bool| -> BTreeSet<&str> {
                kept.iter()
                    .filter_map(|item| match item {
                        HistoryItem::Call(call) if calls => Some(call.id.as_str()),
                        HistoryItem::Result { id, .. } if !calls => Some(id.as_str()),
                        _ => None,
                    })
                    .collect()
            };
            assert_eq!(ids(true), ids(false), "{round}");
        }
    }
}
