//! The session beside the list, other programs in a session's folder, what is done with a session as a whole, and new sessions.

use super::stage::{Stage, summary};
use crate::app::{Effect, Focus, LentProgram};
use crate::data::{Campaign, Request, Update};
use view::{SummaryState, Transcript};

fn opened(stage: &mut Stage, session: &str) {
    stage.update(Update::Opened { session: session.to_owned(), transcript: Box::new(Transcript::default()) });
}

fn seen(requests: &[Request]) -> bool {
    requests.iter().any(|request| matches!(request, Request::MarkSeen { .. }))
}

#[test]
fn a_session_one_rests_on_is_shown_beside_the_list_and_is_looked_at_when_it_gets_the_keys() {
    let mut stage = Stage::with_sessions(120, 32);
    stage.screen();
    stage.requests();
    stage.press("G");
    stage.press("k");
    stage.press("k");
    // Moving on reads nothing.
    stage.wait(50);
    assert!(stage.app.open.is_none());
    stage.wait(200);
    let shown = stage.app.open.as_ref().map(|open| open.id.clone()).expect("nothing is shown");
    assert_eq!(Some(shown.clone()), stage.app.current_session());
    assert_eq!(stage.app.focus, Focus::List);
    opened(&mut stage, &shown);
    assert!(!seen(&stage.requests()));
    stage.press("enter");
    assert!(seen(&stage.requests()));
}

#[test]
fn where_there_is_one_pane_only_the_list_is_shown() {
    let mut stage = Stage::with_sessions(80, 24);
    stage.screen();
    stage.press("j");
    stage.wait(1_000);
    assert!(stage.app.open.is_none());
}

#[test]
fn the_editor_and_a_shell_get_the_folder_of_a_session_of_this_machine() {
    let mut stage = Stage::with_journal(120, 32, "");
    for (key, program) in [("o", LentProgram::Editor), ("!", LentProgram::Shell)] {
        stage.effects.clear();
        stage.press(key);
        let folder = "/home/anna/shop".to_owned();
        assert!(stage.effects.contains(&Effect::Lend { program, folder }), "{:?}", stage.effects);
    }
    let mut far = summary("cart", SummaryState::Working, 12);
    far.machine = "laptop".to_owned();
    stage.overview(vec![far]);
    stage.effects.clear();
    stage.press("o");
    assert!(!stage.effects.iter().any(|effect| matches!(effect, Effect::Lend { .. })));
    stage.shows("cart is on laptop");
}

#[test]
fn a_session_is_forked_archived_and_removed() {
    let mut stage = Stage::with_journal(120, 32, "");
    let session = || "sess_cart".to_owned();
    stage.requests();
    stage.press("F");
    assert_eq!(stage.requests(), [Request::Fork { session: session() }]);
    stage.press("A");
    stage.shows("Archive cart?");
    stage.press("y");
    assert_eq!(stage.requests(), [Request::Archive { session: session() }]);
    stage.press("X");
    stage.shows("Remove cart for good?");
    stage.press("n");
    assert!(stage.requests().is_empty());
    stage.press("X");
    stage.press("y");
    assert_eq!(stage.requests(), [Request::Remove { session: session() }]);
}

fn campaign(id: &str, name: &str) -> Campaign {
    Campaign { id: id.to_owned(), name: name.to_owned(), path: format!("/src/{name}") }
}

fn choices(machine: &str, agents: &[&str], current: Option<Campaign>) -> Update {
    let mut campaigns = vec![campaign("camp_blog", "blog")];
    campaigns.extend(current.clone().filter(|current| current.id.is_empty()));
    let agents = agents.iter().map(|name| (*name).to_owned()).collect();
    Update::Choices { machine: machine.to_owned(), campaigns, agents, current }
}

#[test]
fn the_folder_of_the_caller_becomes_a_campaign_and_the_agent_is_the_one_that_worked_last() {
    let mut stage = Stage::with_sessions(120, 40);
    let mut last = summary("api-types", SummaryState::Working, 1);
    last.provider = "codex".to_owned();
    stage.overview(vec![last]);
    stage.requests();
    stage.press("N");
    stage.shows_not("machine ");
    stage.update(choices("", &["openai-api", "claude-code", "codex", "gemini"], Some(campaign("", "shop"))));
    for text in ["< shop >", "< codex >", "/src/shop becomes a campaign"] {
        stage.shows(text);
    }
    stage.type_text("fix it");
    stage.press("enter");
    let sent = stage.requests();
    let Some(Request::Create(new)) = sent.last() else { panic!("{sent:?}") };
    assert_eq!((new.campaign.clone(), new.agent.as_str()), (campaign("", "shop"), "codex"));
}

#[test]
fn a_new_session_is_made_on_the_machine_that_is_chosen() {
    let mut stage = Stage::with_sessions(120, 40);
    stage.update(Update::Machine { name: "laptop".to_owned(), problem: String::new() });
    stage.requests();
    stage.press("N");
    stage.update(choices("", &["codex"], Some(campaign("camp_blog", "blog"))));
    stage.shows("< this one >");
    stage.press("tab");
    stage.press("right");
    let machine = "laptop".to_owned();
    assert_eq!(stage.requests().last(), Some(&Request::Choices { machine: machine.clone() }));
    // What this machine offers means nothing there.
    stage.update(choices("", &["codex"], None));
    stage.shows_not("< codex >");
    stage.update(choices("laptop", &["gemini"], None));
    for text in ["< laptop >", "< blog >", "< gemini >"] {
        stage.shows(text);
    }
    stage.press("up");
    stage.type_text("go");
    stage.press("enter");
    let sent = stage.requests();
    let Some(Request::Create(new)) = sent.last() else { panic!("{sent:?}") };
    assert_eq!((new.machine.clone(), new.agent.as_str()), (machine, "gemini"));
}
