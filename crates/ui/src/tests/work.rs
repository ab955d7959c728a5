//! Prompts that wait, the search over all sessions, usage, budgets, names and merging.

use domain::budget::Budget;
use view::{SummaryBudget, SummaryState};

use super::stage::{NOW, Stage, summary};
use crate::app::{Dialog, Focus};
use crate::data::{QueueChange, QueuedPrompt, Request, SearchHit, Update, UsageBy, UsageRow, UsageSpan};

const SESSION: &str = "sess_cart";

fn prompt(id: &str, text: &str) -> QueuedPrompt {
    QueuedPrompt { id: id.to_owned(), text: text.to_owned(), attachments: 0 }
}

fn change(change: QueueChange) -> Request {
    Request::QueueChange { session: SESSION.to_owned(), change }
}

fn queue() -> Stage {
    let mut stage = Stage::with_journal(120, 32, "");
    stage.requests();
    stage.press("Q");
    assert_eq!(stage.requests(), [Request::Queue { session: SESSION.to_owned() }]);
    waits(&mut stage, &["first", "second", "third"], "");
    stage
}

fn waits(stage: &mut Stage, texts: &[&str], paused: &str) {
    let entries = texts.iter().map(|text| prompt(&format!("q_{text}"), text)).collect();
    stage.update(Update::Queue { session: SESSION.to_owned(), entries, paused: paused.to_owned() });
}

#[test]
fn prompts_that_wait_are_listed_moved_edited_dropped_and_paused() {
    let mut stage = queue();
    stage.shows("prompts of cart that wait");
    stage.shows(" 3 third");
    stage.press("j");
    stage.press("K");
    let second = || "q_second".to_owned();
    assert_eq!(stage.requests(), [change(QueueChange::Move { entry: second(), place: 1 })]);
    waits(&mut stage, &["second", "first", "third"], "");
    stage.press("e");
    stage.type_text(" of all");
    // Esc leaves the text as it was, and the dialog open.
    stage.press("esc");
    stage.shows(" 1 second");
    stage.press("e");
    stage.type_text("!");
    stage.press("enter");
    let text = "second!".to_owned();
    assert_eq!(stage.requests(), [change(QueueChange::Edit { entry: second(), text })]);
    stage.press("x");
    assert_eq!(stage.requests(), [change(QueueChange::Drop { entry: second() })]);
    stage.press("p");
    assert_eq!(stage.requests(), [change(QueueChange::Pause)]);
    waits(&mut stage, &["first"], "paused by anna");
    stage.shows("paused: paused by anna");
    stage.press("p");
    assert_eq!(stage.requests(), [change(QueueChange::Resume)]);
    waits(&mut stage, &[], "");
    stage.shows("Nothing waits.");
    stage.press("x");
    assert_eq!(stage.requests(), []);
}

#[test]
fn a_queue_that_changes_elsewhere_is_read_again_and_an_edited_prompt_that_was_sent_is_let_go() {
    let mut stage = queue();
    let mut cart = summary("cart", SummaryState::Working, 12);
    cart.queued = 3;
    stage.overview(vec![cart.clone()]);
    assert_eq!(stage.requests(), [], "as many as are shown");
    stage.press("e");
    cart.queued = 2;
    stage.overview(vec![cart]);
    assert_eq!(stage.requests(), [Request::Queue { session: SESSION.to_owned() }]);
    stage.press("x");
    waits(&mut stage, &["second", "third"], "");
    stage.press("x");
    assert_eq!(stage.requests(), [change(QueueChange::Drop { entry: "q_second".to_owned() })]);
    stage.shows("queue 2");
}

fn hit(session: &str, seq: u64, snippet: &str) -> SearchHit {
    let (session, name) = (format!("sess_{session}"), session.to_owned());
    SearchHit { session, name, seq, kind: "answer", snippet: snippet.to_owned(), at: NOW - 60_000 }
}

#[test]
fn a_search_finds_in_all_sessions_and_jumps_to_the_row() {
    let mut stage = Stage::with_sessions(120, 32);
    stage.requests();
    stage.press("/");
    stage.type_text("kum");
    let searched: Vec<Request> = stage.requests();
    assert_eq!(searched.last(), Some(&Request::Search { text: "kum".to_owned() }));
    stage.type_text("quat");
    // An answer to what was typed before is not shown.
    let found = Ok((vec![hit("cart", 3, "old \u{1}kum\u{2}")], false));
    stage.update(Update::Found { text: "kum".to_owned(), found });
    stage.shows("searching");
    let hits =
        vec![hit("lint", 7, "no \u{1}kumquat\u{2} here"), hit("cart", 40, "a \u{1}kumquat\u{2} \u{1b}[31m")];
    stage.update(Update::Found { text: "kumquat".to_owned(), found: Ok((hits, true)) });
    stage.shows("no kumquat here");
    stage.shows("there is more");
    stage.press("down");
    stage.requests();
    stage.press("enter");
    assert_eq!(stage.app.open.as_ref().unwrap().id, SESSION);
    assert_eq!((stage.app.focus, stage.app.find.as_str()), (Focus::Transcript, "kumquat"));
    assert_eq!(stage.app.open.as_ref().unwrap().wanted, Some(40));
    stage.press("/");
    stage.type_text("\"");
    let found = Err("text: a quote is not closed".to_owned());
    stage.update(Update::Found { text: "\"".to_owned(), found });
    stage.shows("a quote is not closed");
}

#[test]
fn usage_is_split_and_drawn_over_time_and_says_what_is_not_reported() {
    let mut stage = Stage::with_sessions(120, 32);
    let mut limited = summary("cart", SummaryState::Working, 12);
    limited.budget = SummaryBudget {
        limit: Budget { cost_micro_usd: Some(5_000_000), ..Budget::default() },
        left: Budget { cost_micro_usd: Some(500_000), ..Budget::default() },
    };
    stage.overview(vec![limited]);
    stage.requests();
    stage.press("u");
    let (by, span) = (UsageBy::Campaign, UsageSpan::Day);
    assert_eq!(stage.requests(), [Request::Usage { by, span }]);
    let row = |name: &str, tokens: u64, cost: Option<u64>, last: u64| {
        let mut buckets = vec![0; 24];
        buckets[22] = last / 4;
        buckets[23] = last;
        UsageRow { name: name.to_owned(), tokens, cost_micro_usd: cost, buckets }
    };
    let rows = vec![row("shop", 1_400_000, Some(20_240_000), 800), row("silent", 1_000, None, 0)];
    let limit = Budget { calls: Some(10), ..Budget::default() };
    let left = Budget { calls: Some(3), ..Budget::default() };
    let shared = vec![("shop, today".to_owned(), SummaryBudget { limit, left })];
    stage.update(Update::Usage { by, span, rows, shared, uncounted: Vec::new() });
    stage.shows("shop, today");
    for text in ["by campaign, 24 hours", "1.4M", "$20.24", "not reported", "▂█", "$4.50 of $5.00"] {
        stage.shows(text);
    }
    stage.press("tab");
    assert_eq!(stage.requests(), [Request::Usage { by: UsageBy::Provider, span }]);
    stage.press("t");
    let span = UsageSpan::Month;
    assert_eq!(stage.requests(), [Request::Usage { by: UsageBy::Provider, span }]);
    // What was asked for before is not shown under another heading.
    let (rows, shared, uncounted) = (Vec::new(), Vec::new(), Vec::new());
    stage.update(Update::Usage { by, span: UsageSpan::Day, rows, shared, uncounted });
    stage.shows("reading");
}

#[test]
fn a_budget_is_shown_changed_and_checked() {
    let mut stage = Stage::with_journal(120, 32, "");
    let mut cart = summary("cart", SummaryState::Working, 12);
    cart.budget = SummaryBudget {
        limit: Budget { tokens: Some(200_000), ..Budget::default() },
        left: Budget { tokens: Some(76_000), ..Budget::default() },
    };
    stage.overview(vec![cart]);
    stage.shows("124k of 200k tokens");
    stage.requests();
    stage.press("$");
    stage.shows("budget of cart");
    stage.type_text("much");
    stage.press("enter");
    stage.shows("is no amount");
    assert_eq!(stage.requests(), []);
    stage.press("ctrl+u");
    stage.type_text("2.5");
    stage.press("enter");
    let change =
        Budget { cost_micro_usd: Some(2_500_000), tokens: Some(200_000), work_ms: Some(0), calls: Some(0) };
    assert_eq!(stage.requests(), [Request::SetBudget { session: SESSION.to_owned(), change }]);
}

#[test]
fn a_session_is_renamed_and_its_tree_merged_with_the_reason_if_it_is_refused() {
    let mut stage = Stage::with_journal(120, 32, "");
    stage.requests();
    stage.press("r");
    stage.type_text("-2");
    stage.press("enter");
    let name = "cart-2".to_owned();
    assert_eq!(stage.requests(), [Request::Rename { session: SESSION.to_owned(), name }]);
    stage.press("M");
    stage.shows("fix/cart is merged into the branch it was made from");
    stage.press("ctrl+u");
    stage.type_text("done");
    stage.press("enter");
    let commit = "done".to_owned();
    assert_eq!(stage.requests(), [Request::Merge { session: SESSION.to_owned(), commit }]);
    let result = Err("README.md is in conflict; nothing was changed".to_owned());
    stage.update(Update::Merged { session: SESSION.to_owned(), result });
    stage.shows("nothing was changed");
    assert!(matches!(stage.app.dialog, Some(Dialog::Merge { .. })), "it can be tried again");
    stage.update(Update::Merged { session: SESSION.to_owned(), result: Ok("merged into main".to_owned()) });
    stage.shows("merged into main");
    assert!(stage.app.dialog.is_none());
}

#[test]
fn who_may_not_act_is_told_so_and_still_sees_everything() {
    let mut stage = Stage::with_journal(120, 32, "");
    stage.press("i");
    stage.type_text("hello");
    stage.press("enter");
    let why = "OBEY-1002: this device may read only".to_owned();
    stage.update(Update::Failed { why, forbidden: true });
    stage.shows("read-only");
    stage.shows("may read only");
    stage.press("esc");
    stage.press("1");
    stage.shows("NEEDS YOU 2");
}
