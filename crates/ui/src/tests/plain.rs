//! The UI for screen readers.

use domain::Decision;

use super::stage::{EDGES, NOW, events, sessions};
use crate::data::{Request, Update};
use crate::plain::{PlainStep, PlainView};

fn view() -> (PlainView, String) {
    let mut view = PlainView::default();
    view.tick(NOW);
    let update = Update::Overview {
        revision: 1,
        snapshot: true,
        sessions: sessions(),
        removed: Vec::new(),
        machine: "box1".to_owned(),
    };
    let text = view.update(update);
    (view, text)
}

#[test]
fn plain_output_is_linear_and_without_boxes() {
    let (mut view, mut text) = view();
    assert!(text.starts_with("NEEDS YOU, 2 sessions.\ndocs-pass, for 6m"), "{text}");
    assert!(text.contains("fixer needs you: git push. Type: open fixer"), "{text}");
    let PlainStep::Send(Request::Open { session, .. }) = view.line("open cart") else { panic!("not opened") };
    text.push_str(&view.update(Update::Opened { session: session.clone(), transcript: Box::default() }));
    for event in events(EDGES) {
        text.push_str(&view.update(Update::Events { session: session.clone(), events: vec![event] }));
    }
    assert!(text.contains("You: Fix the cart") && text.contains("50 calls: read 50, 1 failed."), "{text}");
    assert!(text.contains("Changed src/cart.rs, 2 lines added, 2 removed."), "{text}");
    assert!(text.contains("To-dos: 1 of 3 done, now: Pushing."), "{text}");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
    assert!(!text.contains(['│', '─', '▸', '┌', '●']), "{text}");
}

#[test]
fn plain_requests_are_read_and_answered_in_order() {
    let (mut view, _) = view();
    assert_eq!(view.line("y"), PlainStep::Say("No request is open here.\n".to_owned()));
    let PlainStep::Send(Request::Open { session, .. }) = view.line("open fixer") else {
        panic!("not opened")
    };
    let until_asked: Vec<_> =
        events(EDGES).into_iter().take_while(|event| event.name != "request_settled").collect();
    let text = view.update(Update::Opened { session: session.clone(), transcript: Box::default() })
        + &view.update(Update::Events { session, events: until_asked });
    assert!(
        text.contains(
            "It wants: Bash: git push --set-upstream origin fix/cart. It removes files. You are asked because"
        ),
        "{text}"
    );
    assert!(text.contains(". For the session it would allow git push"), "{text}");
    let PlainStep::Send(Request::Decide(answer)) = view.line("n not to main") else { panic!("not sent") };
    assert_eq!((answer.decision, answer.message.as_str()), (Decision::Deny, "not to main"));
    assert!(matches!(view.line("fly"), PlainStep::Say(text) if text.contains("help")));
    assert_eq!(view.line("quit"), PlainStep::Quit);
}
