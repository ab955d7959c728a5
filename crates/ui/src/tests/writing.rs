//! The message field: nothing typed is lost, nothing is sent but by the key that sends.

use std::sync::Arc;

use domain::EventKind;
use domain::event::AgentCommand;
use domain::turn::TurnOrigin;

use super::stage::Stage;
use crate::app::{Effect, Focus};
use crate::data::{AttachedFile, PromptDelivery, Request, Update};

fn prompts(stage: &mut Stage) -> Vec<(String, PromptDelivery)> {
    let prompts = stage.requests().into_iter().filter_map(|request| match request {
        Request::Prompt { text, delivery, .. } => Some((text, delivery)),
        _ => None,
    });
    prompts.collect()
}

fn writing() -> Stage {
    let mut stage = Stage::with_journal(120, 40, "");
    stage.press("i");
    assert_eq!(stage.app.focus, Focus::Message);
    stage.requests();
    stage
}

#[test]
fn enter_sends_and_other_keys_begin_a_line() {
    let mut stage = writing();
    stage.type_text("one");
    stage.press("alt+enter");
    stage.type_text("two");
    stage.press("ctrl+j");
    stage.type_text("three");
    stage.press("shift+enter");
    stage.type_text("日本語 👍");
    assert_eq!(prompts(&mut stage), []);
    stage.press("enter");
    assert_eq!(prompts(&mut stage), [("one\ntwo\nthree\n日本語 👍".to_owned(), PromptDelivery::Now)]);
    stage.shows("(sending)");
    stage.update(Update::PromptSent {
        session: "sess_cart".to_owned(),
        text: "one\ntwo\nthree\n日本語 👍".to_owned(),
    });
    stage.shows_not("(sending)");
}

#[test]
fn a_message_during_a_turn_waits_for_its_end_or_is_added_to_it() {
    let mut stage = writing();
    stage.events(vec![EventKind::TurnStarted {
        turn: domain::TurnId(1),
        origin: TurnOrigin::Client,
        prompt: "go".to_owned(),
        attachments: Vec::new(),
        by: String::new(),
    }]);
    stage.type_text("and this");
    stage.press("enter");
    assert_eq!(prompts(&mut stage), [("and this".to_owned(), PromptDelivery::Queue)]);
    stage.type_text("at once");
    stage.press("ctrl+t");
    assert_eq!(prompts(&mut stage), [("at once".to_owned(), PromptDelivery::Steer)]);
}

#[test]
fn a_message_that_was_refused_comes_back() {
    let mut stage = writing();
    stage.type_text("hello");
    stage.press("enter");
    let why = "OBEY-2011: a turn is running".to_owned();
    stage.update(Update::PromptFailed { session: "sess_cart".to_owned(), text: "hello".to_owned(), why });
    stage.shows("› hello");
    stage.shows("OBEY-2011");
}

#[test]
fn a_pasted_picture_goes_with_the_message_and_comes_back_when_it_is_refused() {
    let mut stage = writing();
    stage.app.paste("'/tmp/a shot.png'\n");
    stage.effects.extend(stage.app.take_effects());
    let asked = stage.requests();
    let path = "/tmp/a shot.png".to_owned();
    let session = "sess_cart".to_owned();
    let text = "'/tmp/a shot.png'\n".to_owned();
    assert_eq!(asked, [Request::Attach { session: session.clone(), path, text }]);
    let file = AttachedFile {
        name: "a shot.png".to_owned(),
        media_type: "image/png".to_owned(),
        content: Arc::new(vec![1; 2_000]),
    };
    stage.update(Update::Attached { session: session.clone(), file: file.clone() });
    stage.shows("+ a shot.png (image/png");
    stage.press("enter");
    assert_eq!(prompts(&mut stage), []);
    stage.shows("write what the attached files are for");
    stage.type_text("what is this?");
    stage.press("enter");
    let sent = stage.requests();
    let [Request::Prompt { text, attachments, .. }] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!((text.as_str(), attachments.as_slice()), ("what is this?", [file].as_slice()));
    stage.shows_not("a shot.png (image");
    let why = "OBEY-1009: too large".to_owned();
    stage.update(Update::PromptFailed { session, text: "what is this?".to_owned(), why });
    stage.shows("+ a shot.png (image/png");
    stage.press("home");
    stage.press("backspace");
    stage.shows_not("a shot.png (image");
    stage.shows("what is this?");
}

#[test]
fn a_path_without_a_file_is_text_and_a_file_is_attached_by_its_path() {
    let mut stage = writing();
    let session = "sess_cart".to_owned();
    stage.app.paste("/tmp/gone.png");
    let why = "/tmp/gone.png cannot be read: no such file".to_owned();
    stage.update(Update::NotAttached { session: session.clone(), text: "/tmp/gone.png".to_owned(), why });
    stage.shows("› /tmp/gone.png");
    stage.requests();
    stage.press("ctrl+o");
    stage.shows("attach a file");
    stage.type_text("~/notes.txt");
    stage.press("enter");
    let path = "/home/anna/notes.txt".to_owned();
    assert_eq!(stage.requests(), [Request::Attach { session: session.clone(), path, text: String::new() }]);
    let why = "/home/anna/notes.txt cannot be read: it is no file".to_owned();
    stage.update(Update::NotAttached { session, text: String::new(), why });
    stage.shows("cannot be read: it is no file");
}

#[test]
fn pasted_text_is_text_however_long_and_whatever_is_in_it() {
    let mut stage = writing();
    let long = "line\r\n\u{1b}[31mred\u{7}\n".repeat(50_000);
    stage.app.paste(&long);
    assert_eq!(prompts(&mut stage), []);
    stage.screen();
    stage.press("enter");
    let sent = prompts(&mut stage);
    assert_eq!(sent.len(), 1);
    assert!(sent[0].0.len() >= 500_000 && !sent[0].0.contains('\u{1b}'));
    assert!(sent[0].0.starts_with("line\nred\u{2407}\nline"));
}

#[test]
fn a_draft_is_kept_while_another_session_is_shown() {
    let mut stage = writing();
    stage.type_text("half a thought");
    stage.press("esc");
    stage.app.open_session("sess_fixer", None);
    stage.shows_not("half a thought");
    stage.app.open_session("sess_cart", None);
    stage.shows("half a thought");
}

#[test]
fn own_messages_come_back_with_the_arrow() {
    let mut stage = writing();
    let prompt = |text: &str| EventKind::TurnStarted {
        turn: domain::TurnId(1),
        origin: TurnOrigin::Client,
        prompt: text.to_owned(),
        attachments: Vec::new(),
        by: String::new(),
    };
    stage.events(vec![prompt("the first"), prompt("the second")]);
    stage.press("up");
    assert_eq!(stage.app.open.as_ref().unwrap().message.lines(), ["the second"]);
    stage.press("up");
    assert_eq!(stage.app.open.as_ref().unwrap().message.lines(), ["the first"]);
    stage.press("down");
    assert_eq!(stage.app.open.as_ref().unwrap().message.lines(), ["the second"]);
}

#[test]
fn words_are_deleted_and_undone() {
    let mut stage = writing();
    stage.type_text("one two");
    stage.press("ctrl+w");
    assert_eq!(stage.app.open.as_ref().unwrap().message.lines(), ["one "]);
    stage.press("ctrl+u");
    assert_eq!(stage.app.open.as_ref().unwrap().message.lines(), ["one two"], "the change is undone");
}

#[test]
fn files_and_commands_are_completed() {
    let mut stage = writing();
    stage.type_text("look at @car");
    assert_eq!(stage.requests(), [Request::Files { folder: "/home/anna/shop".to_owned() }]);
    let paths = vec!["src/cart.rs".to_owned(), "README.md".to_owned()];
    stage.update(Update::Files { folder: "/home/anna/shop".to_owned(), paths });
    stage.shows("@src/cart.rs");
    stage.press("tab");
    assert_eq!(stage.app.open.as_ref().unwrap().message.lines(), ["look at @src/cart.rs "]);

    let mut stage = writing();
    let command =
        AgentCommand { name: "compact".to_owned(), description: String::new(), hint: String::new() };
    stage.events(vec![EventKind::CommandsChanged { commands: vec![command] }]);
    stage.type_text("/com");
    stage.shows("/compact");
    stage.press("enter");
    assert_eq!(stage.app.open.as_ref().unwrap().message.lines(), ["/compact "]);
    assert_eq!(prompts(&mut stage), []);
    stage.press("enter");
    assert_eq!(prompts(&mut stage).len(), 1);
}

#[test]
fn the_editor_gets_the_message_and_gives_it_back() {
    let mut stage = writing();
    stage.type_text("draft");
    stage.press("ctrl+g");
    assert!(stage.effects.contains(&Effect::Editor("draft".to_owned())));
    stage.app.set_message("written\nelsewhere\n");
    assert_eq!(stage.app.open.as_ref().unwrap().message.lines(), ["written", "elsewhere"]);
}

#[test]
fn a_new_session_is_made_of_what_the_form_says_and_errors_stand_in_it() {
    let mut stage = Stage::with_sessions(120, 40);
    stage.press("N");
    let machine = String::new();
    assert_eq!(stage.requests(), [Request::Choices { machine: machine.clone() }]);
    let campaign = |name: &str| crate::data::Campaign {
        id: format!("camp_{name}"),
        name: name.to_owned(),
        path: format!("/{name}"),
    };
    stage.update(Update::Choices {
        machine: machine.clone(),
        campaigns: vec![campaign("shop"), campaign("blog")],
        agents: vec!["claude-code".to_owned(), "codex".to_owned()],
        current: Some(campaign("blog")),
    });
    stage.shows("< blog >");
    stage.type_text("fix it");
    stage.press("up");
    stage.type_text("many");
    stage.press("down");
    stage.press("enter");
    stage.shows("budget: \"many\" is no amount");
    stage.press("ctrl+u");
    stage.type_text("5000 tokens");
    stage.press("down");
    stage.press("enter");
    let sent = stage.requests();
    let [Request::Create(new)] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!((new.campaign.id.as_str(), new.agent.as_str()), ("camp_blog", "claude-code"));
    assert_eq!((new.budget.tokens, new.message.as_str()), (Some(5_000), "fix it"));
    stage.update(Update::CreateFailed { why: "claude is not installed".to_owned() });
    stage.shows("claude is not installed");
    stage.shows("fix it");
    stage.press("enter");
    stage.update(Update::Created { session: "sess_new".to_owned() });
    assert_eq!(stage.app.open.as_ref().unwrap().id, "sess_new");
    // The same again takes three keys.
    stage.press("esc");
    stage.press("N");
    stage.update(Update::Choices {
        machine,
        campaigns: vec![campaign("shop"), campaign("blog")],
        agents: vec!["claude-code".to_owned(), "codex".to_owned()],
        current: None,
    });
    stage.shows("< blog >");
}
