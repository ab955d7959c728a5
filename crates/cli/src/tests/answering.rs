//! Requests: asked about inline, explained if no person can be asked, and answered by commands.

use serde_json::json;
use wire::obey::local::v1::SessionStatus;
use wire::obey::v1 as pb;

use super::fake::Step;
use super::world::World;

const ID: &str = "sess_01AAAAAAAAAAAAAAAAAAAAAAAA";

pub(super) fn permission(id: &str) -> Step {
    let input = json!({"command": "rm x"});
    let request = pb::Request {
        id: id.to_owned(),
        kind: pb::RequestKind::Permission.into(),
        tool_name: "Bash".to_owned(),
        input_json: input.to_string(),
        ..Default::default()
    };
    let proposals = json!([{"id": "command", "text": "the command `rm x` (Bash), in this session"}]);
    let event = json!({"request": id, "native": "x", "kind": "permission", "tool": "Bash", "input": input,
                       "proposals": proposals});
    Step::Ask(Box::new(request), event)
}

fn question(id: &str) -> Step {
    let options = [("Red", "warm"), ("Blue", "cold")];
    let request = pb::Request {
        id: id.to_owned(),
        kind: pb::RequestKind::Question.into(),
        questions: vec![pb::Question {
            id: "q1".to_owned(),
            text: "Which colour?".to_owned(),
            options: options
                .map(|(label, about)| pb::QuestionOption { label: label.into(), description: about.into() })
                .to_vec(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let options = options.map(|(label, about)| json!({"label": label, "description": about}));
    let questions = json!([{"id": "q1", "text": "Which colour?", "options": options}]);
    let event =
        json!({"request": id, "native": "x", "kind": "question", "questions": questions, "call": null});
    Step::Ask(Box::new(request), event)
}

fn world(turn: Vec<Step>) -> World {
    let world = World::new();
    world.daemon.add_session(ID, "n", SessionStatus::Running);
    world.daemon.state().turns.push_back(turn);
    world
}

async fn opened(world: &World, count: usize) {
    world.daemon.until(|state| state.requests.len() >= count).await;
}

#[tokio::test]
async fn on_a_terminal_permissions_and_questions_are_asked_inline() {
    let world = world(vec![permission("req_1"), question("req_2")]);
    let running = world.on_terminal(&["session", "send", "n", "hi"]);
    running.answer("show input > ", "?").await;
    running.answer("\"command\": \"rm x\"", "a").await;
    running.answer("number, or your own answer > ", "2").await;
    let ran = running.end().await;
    assert_eq!(ran.exit, 0, "{ran:?}");
    for part in [
        "req_1 asks for permission: Bash: rm x",
        "[a] allow the command `rm x` (Bash), in this session",
        "\"command\": \"rm x\"",
        "Which colour?",
        "2. Blue (cold)",
    ] {
        assert!(ran.err.contains(part), "{part} is missing in {}", ran.err);
    }
    let state = world.daemon.state();
    assert_eq!(state.seen.decisions[0].decision, pb::Decision::AllowSession as i32);
    assert_eq!(state.seen.answers[0].answers["q1"], "Blue");
}

#[tokio::test]
async fn without_a_terminal_the_command_that_answers_is_told() {
    let world = world(vec![permission("req_1")]);
    let answerer = async {
        opened(&world, 1).await;
        world.run(&["session", "approve", "n", "--input", r#"{"command": "ls"}"#]).await
    };
    // In quiet mode too: an unannounced request could not be answered.
    let (ran, approved) = tokio::join!(world.run(&["session", "send", "n", "hi", "--quiet"]), answerer);
    assert_eq!((approved.exit, approved.out.as_str()), (0, "req_1 allowed once\n"));
    assert_eq!(ran.exit, 0);
    assert!(ran.err.contains(&format!("answer with: obey session approve {ID} req_1")), "{}", ran.err);
    let state = world.daemon.state();
    let decision = &state.seen.decisions[0];
    assert_eq!(decision.decision, pb::Decision::AllowOnce as i32);
    assert_eq!(decision.updated_input_json, r#"{"command":"ls"}"#);
}

#[tokio::test]
async fn a_request_settled_elsewhere_is_no_longer_asked_about() {
    let world = world(vec![permission("req_1")]);
    let running = world.on_terminal(&["session", "send", "n", "hi"]);
    running.err.until("show input > ").await;
    let denied = world.run(&["session", "deny", "n", "1", "--message", "no", "--stop"]).await;
    assert_eq!(denied.out, "req_1 denied and stopped\n");
    let ran = running.end().await;
    assert!(ran.err.contains("req_1 denied and stopped by cli"), "{}", ran.err);
    let state = world.daemon.state();
    assert_eq!(state.seen.decisions.len(), 1);
    assert_eq!(state.seen.decisions[0].message, "no");
}

#[tokio::test]
async fn requests_are_listed_and_must_be_told_apart() {
    let world = world(Vec::new());
    for id in ["req_1", "req_2"] {
        let Step::Ask(request, _) = permission(id) else { panic!("not a request") };
        world.daemon.state().requests.push(pb::Request { session_id: ID.to_owned(), ..*request });
    }
    let listed = world.run(&["session", "requests", "n"]).await;
    assert!(listed.out.contains("req_1") && listed.out.contains("Bash: rm x"), "{}", listed.out);
    let ambiguous = world.run(&["session", "approve", "n"]).await;
    assert_eq!(ambiguous.exit, 2);
    assert!(ambiguous.err.contains("2 permissions wait"), "{}", ambiguous.err);
    let session = world.run(&["session", "approve", "n", "req_2", "--session"]).await;
    assert_eq!((session.exit, session.out.as_str()), (0, "req_2 allowed for the session\n"));
    let late = world.run(&["session", "deny", "n", "req_2"]).await;
    assert_eq!(
        (late.exit, late.out.as_str()),
        (5, "req_2 was settled before, by cli: allowed for the session\n")
    );
    assert_eq!(world.run(&["session", "approve", "n"]).await.exit, 0, "only req_1 is left");
    let none = world.run(&["session", "approve", "n"]).await;
    assert_eq!(none.exit, 4);
    assert!(none.err.contains("[OBEY-2015]"), "{}", none.err);
}

#[tokio::test]
async fn questions_are_answered_by_command() {
    let world = world(vec![question("req_1")]);
    let answerer = async {
        opened(&world, 1).await;
        let wrong = world.run(&["session", "approve", "n"]).await;
        assert_eq!(wrong.exit, 4, "a question is not approved");
        world.run(&["session", "answer", "n", "req_1", "blue"]).await
    };
    let (ran, answered) = tokio::join!(world.run(&["session", "send", "n", "hi"]), answerer);
    assert_eq!((answered.exit, answered.out.as_str()), (0, "req_1 answered\n"));
    assert_eq!(ran.exit, 0);
    assert_eq!(world.daemon.state().seen.answers[0].answers["q1"], "Blue");
}

#[tokio::test]
async fn attach_takes_up_what_waited_before() {
    let world = world(vec![permission("req_1")]);
    assert_eq!(world.run(&["session", "send", "n", "hi", "--no-wait"]).await.exit, 0);
    opened(&world, 1).await;
    let running = world.on_terminal(&["session", "attach", "n"]);
    running.answer("show input > ", "n use git").await;
    running.answer("✓", "/detach").await;
    assert_eq!(running.end().await.exit, 0);
    let decision = world.daemon.state().seen.decisions[0].clone();
    assert_eq!((decision.decision, decision.message.as_str()), (pb::Decision::Deny as i32, "use git"));
}
