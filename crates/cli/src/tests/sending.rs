//! `send` and `attach`: live output, endings, Ctrl-C.

use serde_json::json;
use wire::obey::local::v1::SessionStatus;

use super::fake::Step;
use super::world::World;

const ID: &str = "sess_01AAAAAAAAAAAAAAAAAAAAAAAA";

fn world(turn: Vec<Step>) -> World {
    let world = World::new();
    world.daemon.add_session(ID, "n", SessionStatus::Running);
    world.daemon.state().turns.push_back(turn);
    world
}

fn text(text: &str) -> Step {
    Step::Event("text_delta", json!({"text": text}))
}

#[tokio::test]
async fn a_turn_streams_and_ends_with_its_code() {
    let world = world(vec![text("Hello "), text("there.")]);
    let ran = world.run(&["session", "send", "n", "hi"]).await;
    assert_eq!((ran.exit, ran.out.as_str()), (0, "Hello there.\n"), "{ran:?}");
    assert_eq!(world.daemon.state().seen.prompts[0].text, "hi");

    let failing = json!({"turn": "turn_2", "reason": "failed", "error": "no credit"});
    world.daemon.state().turns.push_back(vec![Step::Event("turn_ended", failing)]);
    let failed = world.run(&["session", "send", "n", "again", "--quiet"]).await;
    assert_eq!((failed.exit, failed.out.as_str()), (7, ""));
    assert!(failed.err.contains("no credit"), "{}", failed.err);
}

#[tokio::test]
async fn json_is_the_turns_events() {
    let world = world(vec![text("x")]);
    let ran = world.run(&["session", "send", "n", "hi", "--json"]).await;
    let kinds: Vec<String> = ran
        .out
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["type"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(kinds, ["turn_started", "text_delta", "turn_ended"]);
    assert_eq!(ran.err, "");
}

#[tokio::test]
async fn no_wait_returns_after_acceptance() {
    let world = world(vec![Step::Hang]);
    let ran = world.run(&["session", "send", "n", "hi", "--no-wait"]).await;
    assert_eq!((ran.exit, ran.out), (0, format!("Accepted: turn_1 of {ID}\n")));
    let busy = world.run(&["session", "send", "n", "more"]).await;
    assert_eq!(busy.exit, 5);
    assert!(busy.err.contains("[OBEY-2011]"), "{}", busy.err);
}

#[tokio::test]
async fn ctrl_c_cancels_the_turn() {
    let world = world(vec![text("working"), Step::Hang]);
    let running = world.on_terminal(&["session", "send", "n", "hi"]);
    world.daemon.until(|state| !state.seen.prompts.is_empty()).await;
    running.presses.send(()).await.unwrap();
    let ran = running.end().await;
    assert_eq!(ran.exit, 130);
    assert!(ran.err.contains("Cancelling the turn"), "{}", ran.err);
    assert!(ran.err.contains("was cancelled"), "{}", ran.err);
}

#[tokio::test]
async fn a_second_ctrl_c_leaves_and_says_that_the_session_goes_on() {
    // This turn does not end when it is cancelled.
    let asked =
        (Default::default(), json!({"request": "req_9", "native": "", "kind": "question", "questions": []}));
    let world = world(vec![Step::Ask(asked.0, asked.1)]);
    let running = world.on_terminal(&["session", "send", "n", "hi"]);
    world.daemon.until(|state| !state.seen.prompts.is_empty()).await;
    running.presses.send(()).await.unwrap();
    running.err.until("Cancelling the turn").await;
    running.presses.send(()).await.unwrap();
    let ran = running.end().await;
    assert_eq!(ran.exit, 130);
    assert!(ran.err.contains(&format!("The session goes on: obey session attach {ID}")), "{}", ran.err);
}

#[tokio::test]
async fn a_session_that_ends_ends_the_command() {
    let world = world(vec![Step::Hang]);
    let running = world.on_terminal(&["session", "send", "n", "hi"]);
    world.daemon.until(|state| !state.seen.prompts.is_empty()).await;
    assert_eq!(world.run(&["session", "stop", "n"]).await.exit, 0);
    let ran = running.end().await;
    assert_eq!(ran.exit, 7);
    assert!(ran.err.contains("ended before the turn did"), "{}", ran.err);
}

#[tokio::test]
async fn a_daemon_that_is_replaced_is_waited_for_and_nothing_is_missed() {
    let world = world(vec![text("before "), Step::Hang]);
    let running = world.on_terminal(&["session", "send", "n", "hi"]);
    world.daemon.until(|state| state.events.get(ID).is_some_and(|events| events.len() == 2)).await;
    world.daemon.close().await;
    running.err.until("connection lost").await;
    world.daemon.append(ID, "text_delta", &json!({"text": "while away"}));
    world.daemon.open(&world.socket());
    running.err.until("nothing was missed").await;
    assert_eq!(world.run(&["session", "cancel", "n"]).await.out, "Cancelling the turn.\n");
    let ran = running.end().await;
    assert_eq!((ran.exit, ran.out.as_str()), (7, "before while away\n"), "{ran:?}");
}

#[tokio::test]
async fn the_demo_shows_a_whole_turn() {
    let world = world(vec![super::answering::permission("req_1"), text("Hello from the demo.")]);
    let ran = world.run(&["demo", "--provider", "scripted"]).await;
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert!(ran.out.contains("Session: sess_01") && ran.out.contains("Hello from the demo."), "{}", ran.out);
    assert!(ran.out.contains("prompt    turn_1"), "the log's end: {}", ran.out);
    for part in ["Registered", "Allowed by the demo", "obey session approve", "Now try:"] {
        assert!(ran.err.contains(part), "{part} is missing in {}", ran.err);
    }
    assert_eq!(world.daemon.state().campaigns[0].name, "demo");
    assert_eq!(world.daemon.state().seen.decisions.len(), 1);
}

#[tokio::test]
async fn every_session_can_be_watched_at_once() {
    use wire::obey::local::v1::SessionStatusEvent;
    let world = world(Vec::new());
    world.daemon.append(ID, "notice", &json!({"level": "info", "message": "from the past"}));
    let running = world.on_terminal(&["session", "watch", "--all"]);
    running.err.until("Watching 1 session.").await;
    let other = "sess_01BBBBBBBBBBBBBBBBBBBBBBBB";
    world.daemon.add_session(other, "second", SessionStatus::Starting);
    world.daemon.append(other, "notice", &json!({"level": "info", "message": "began"}));
    let watcher = world.daemon.state().watchers[0].clone();
    let change = SessionStatusEvent {
        session_id: other.to_owned(),
        previous_status: SessionStatus::Created.into(),
        new_status: SessionStatus::Starting.into(),
        ..Default::default()
    };
    watcher.send(Ok(change)).await.unwrap();
    running.out.until("CREATED → STARTING").await;
    running.out.until("began").await;
    world.daemon.append(ID, "notice", &json!({"level": "info", "message": "goes on"}));
    running.out.until("goes on").await;
    // A text without a following delta is still shown.
    for piece in ["one ", "two"] {
        world.daemon.append(ID, "text_delta", &json!({"text": piece}));
    }
    running.out.until("two").await;
    world.daemon.state().watchers.clear();
    drop(watcher);
    let ran = running.end().await;
    assert_eq!(ran.exit, 0);
    assert!(!ran.out.contains("from the past"), "{}", ran.out);
    assert!(ran.out.contains("second"), "{}", ran.out);
}

#[tokio::test]
async fn attach_shows_the_past_and_sends_what_is_typed() {
    let world = world(vec![text("Answer.")]);
    world.daemon.append(ID, "notice", &json!({"level": "info", "message": "from the past"}));
    let running = world.on_terminal(&["session", "attach", "n"]);
    running.answer("> ", "/mode plan").await;
    running.answer("> > ", "hello").await;
    running.answer("✓", "/nonsense").await;
    running.answer("/nonsense is unknown here", "/detach").await;
    let ran = running.end().await;
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert!(ran.err.contains("from the past"), "{}", ran.err);
    assert!(ran.err.contains("/nonsense is unknown here") && ran.err.contains("Detached."), "{}", ran.err);
    let state = world.daemon.state();
    assert_eq!(state.seen.prompts[0].text, "hello");
    assert_eq!(state.seen.modes[0].mode, "plan");
}
