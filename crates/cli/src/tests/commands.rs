//! Commands that send one request and print: campaigns, sessions, logs, exec, and errors of the daemon.

use serde_json::{Value, json};
use wire::obey::local::v1::{SessionProvider, SessionStatus};

use super::world::World;

const ID: &str = "sess_01AAAAAAAAAAAAAAAAAAAAAAAA";

async fn with_campaign() -> World {
    let world = World::new();
    let folder = world.folder.path().to_str().unwrap().to_owned();
    let ran = world.run(&["campaign", "add", &folder, "--name", "proj"]).await;
    assert_eq!(ran.exit, 0, "{ran:?}");
    world
}

#[tokio::test]
async fn a_campaign_is_added_listed_and_removed() {
    let world = with_campaign().await;
    let ran = world.run(&["campaigns"]).await;
    let mut lines = ran.out.lines();
    assert!(lines.next().unwrap().starts_with("ID"));
    assert!(lines.next().unwrap().starts_with("camp_proj  proj  0         /"), "{}", ran.out);
    assert_eq!(world.run(&["campaign", "remove", "proj"]).await.exit, 0);
    let again = world.run(&["campaign", "remove", "proj"]).await;
    assert_eq!(again.exit, 4);
    assert!(
        again.err.contains("[OBEY-2001]") && again.err.contains("obey explain OBEY-2001"),
        "{}",
        again.err
    );
}

#[tokio::test]
async fn a_session_is_created_with_everything_that_was_asked() {
    let world = with_campaign().await;
    world.daemon.add_session(ID, "parent", SessionStatus::Running);
    let ran = world
        .run(&[
            "session",
            "create",
            "--campaign",
            "proj",
            "--provider",
            "claude-code",
            "--model",
            "opus",
            "--agent",
            "worker",
            "--festival",
            "F1",
            "--task",
            "T1",
            "--mode",
            "plan",
            "--config",
            r#"{"a":"x","b":3}"#,
            "--env",
            "K=V=W",
            "--max-tokens",
            "1000",
            "--timeout",
            "10m",
            "--initial-message",
            "go",
            "--parent",
            "parent",
        ])
        .await;
    assert_eq!(ran.exit, 0, "{ran:?}");
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines[0], "Session: sess_01000000000000000000000000");
    assert_eq!(&lines[1..3], ["Name:    worker", "Status:  RUNNING"]);
    assert!(lines[3].starts_with("Folder:  /"), "{}", ran.out);

    let state = world.daemon.state();
    let (request, parent) = &state.seen.created[0];
    assert_eq!(parent.as_deref(), Some(ID));
    assert_eq!(request.campaign_id, "camp_proj");
    assert_eq!(request.provider, SessionProvider::ClaudeCode as i32);
    assert_eq!((request.model.as_str(), request.agent_name.as_str()), ("opus", "worker"));
    assert_eq!((request.festival_id.as_str(), request.task_id.as_str()), ("F1", "T1"));
    let config: Value = json!(request.provider_config);
    assert_eq!(config, json!({"a": "x", "b": "3", "permission_mode": "plan"}));
    assert_eq!(request.environment["K"], "V=W");
    assert_eq!((request.max_tokens, request.timeout.unwrap().seconds), (1000, 600));
    assert_eq!(request.initial_message, "go");
}

#[tokio::test]
async fn without_a_campaign_the_current_folder_decides() {
    let world = World::new();
    let refused = world.run(&["session", "create", "--provider", "scripted"]).await;
    assert_eq!(refused.exit, 4);
    assert!(refused.err.contains("belongs to no registered campaign"), "{}", refused.err);
    assert!(refused.err.contains("obey campaign add ."), "{}", refused.err);
    // The command runs in the world's folder.
    let folder = world.folder.path().to_str().unwrap().to_owned();
    world.run(&["campaign", "add", &folder]).await;
    assert_eq!(world.run(&["session", "create", "--provider", "scripted"]).await.exit, 0);
}

#[tokio::test]
async fn an_unknown_campaign_is_the_daemons_error() {
    let world = World::new();
    let ran = world.run(&["session", "create", "-c", "x", "-p", "codex", "--json"]).await;
    assert_eq!(ran.exit, 4);
    let error: Value = serde_json::from_str(&ran.err).unwrap();
    let message = "campaign \"x\" is not registered";
    assert_eq!(error, json!({"error": {"code": "OBEY-2001", "grpc": "NOT_FOUND", "message": message}}));
    assert_eq!(ran.out, "");
}

#[tokio::test]
async fn sessions_are_listed_with_filters() {
    let world = World::new();
    world.daemon.add_session(ID, "alive", SessionStatus::Running);
    world.daemon.add_session("sess_01BBBBBBBBBBBBBBBBBBBBBBBB", "gone", SessionStatus::Stopped);
    let ids = |ran: &super::world::Ran| {
        let value: Value = serde_json::from_str(&ran.out).unwrap();
        value["sessions"].as_array().unwrap().iter().map(|s| s["agent_name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&world.run(&["session", "list", "--json"]).await), ["alive"]);
    assert_eq!(ids(&world.run(&["session", "list", "--json", "--all"]).await), ["alive", "gone"]);
    assert_eq!(ids(&world.run(&["session", "list", "--json", "--status", "stopped"]).await), ["gone"]);
    assert!(ids(&world.run(&["session", "list", "--json", "--provider", "codex"]).await).is_empty());
    let table = world.run(&["session", "list"]).await.out;
    assert!(table.contains("alive") && table.contains("RUNNING") && !table.contains("gone"), "{table}");
    let info = world.run(&["session", "info", "alive"]).await;
    assert!(
        info.out.starts_with(&format!("Session:   {ID}\nName:      alive\nStatus:    RUNNING\n")),
        "{}",
        info.out
    );
}

#[tokio::test]
async fn the_log_is_exact_in_json_and_aligned_for_people() {
    let world = World::new();
    world.daemon.add_session(ID, "n", SessionStatus::Running);
    world.daemon.append(ID, "turn_started", &json!({"turn": "turn_1", "origin": "client", "prompt": "hi"}));
    for piece in ["one ", "two ", "three"] {
        world.daemon.append(ID, "text_delta", &json!({"text": piece}));
    }
    world.daemon.append(ID, "turn_ended", &json!({"turn": "turn_1", "reason": "completed"}));

    let all = world.run(&["session", "log", "n", "--json"]).await.out;
    assert_eq!(
        all.lines().nth(1).unwrap(),
        r#"{"seq":2,"at":"2026-02-18T14:30:00Z","type":"text_delta","text":"one "}"#
    );
    assert_eq!(all.lines().count(), 5);
    let some = world.run(&["session", "log", "n", "--json", "--from", "3", "--limit", "2"]).await.out;
    assert_eq!(some.lines().map(|line| &line[..8]).collect::<Vec<_>>(), ["{\"seq\":3", "{\"seq\":4"]);
    let last = world.run(&["session", "log", "n", "--json", "--tail", "1"]).await.out;
    assert!(last.starts_with("{\"seq\":5"), "{last}");

    let rows = world.run(&["session", "log", "n"]).await.out;
    let expected = [
        "     1  14:30:00  prompt    turn_1: hi",
        "     2  14:30:00  text      one two three",
        "     5  14:30:00  end       turn_1 completed",
    ];
    assert_eq!(rows.lines().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_followed_log_ends_with_its_session() {
    let world = World::new();
    world.daemon.add_session(ID, "n", SessionStatus::Running);
    world.daemon.append(ID, "notice", &json!({"level": "info", "message": "first"}));
    let running = world.on_terminal(&["session", "log", "n", "--follow", "--json"]);
    world.daemon.append(ID, "notice", &json!({"level": "info", "message": "second"}));
    assert_eq!(world.run(&["session", "stop", "n"]).await.exit, 0);
    let ran = running.end().await;
    assert_eq!((ran.exit, ran.out.lines().count()), (0, 2), "{ran:?}");
    assert!(!world.daemon.state().seen.stops[0].session_id.is_empty());
    assert!(world.daemon.state().seen.stops[0].graceful);
    let again = world.run(&["session", "stop", "n", "--force"]).await;
    assert_eq!(again.exit, 5);
    assert!(again.err.contains("obey session restart"), "{}", again.err);
}

/// As with `obey stop --sessions`: the daemon ends right after the session.
#[tokio::test]
async fn a_followed_log_ends_with_its_session_though_the_daemon_ends_too() {
    let world = World::new();
    world.daemon.add_session(ID, "n", SessionStatus::Running);
    let running = world.on_terminal(&["session", "log", "n", "--follow", "--json"]);
    world.daemon.append(ID, "status_changed", &json!({"from": "RUNNING", "to": "STOPPED"}));
    running.out.until("STOPPED").await;
    world.daemon.close().await;
    std::fs::remove_file(world.socket()).unwrap();
    let ran = running.end().await;
    assert_eq!((ran.exit, ran.out.lines().count()), (0, 1), "{ran:?}");
}

#[tokio::test]
async fn exec_passes_output_and_code_through() {
    let world = with_campaign().await;
    let ran = world.run(&["exec", "--workdir", "sub", "--timeout", "5s", "--", "git", "log", "-1"]).await;
    assert_eq!((ran.exit, ran.out.as_str(), ran.err.as_str()), (3, "out\n", "err\n"));
    let request = world.daemon.state().seen.executed[0].clone();
    assert_eq!((request.command.as_str(), request.campaign_id.as_str()), ("git", "camp_proj"));
    assert_eq!(
        (request.args, request.working_dir),
        (vec!["log".to_owned(), "-1".to_owned()], "sub".to_owned())
    );
    let refused = world.run(&["exec", "--", "sh"]).await;
    assert_eq!(refused.exit, 6);
    assert!(refused.err.contains("[execute]"), "{}", refused.err);
}

#[tokio::test]
async fn status_and_ping_show_the_daemon() {
    let world = with_campaign().await;
    world.daemon.add_session(ID, "alive", SessionStatus::Working);
    let ping = world.run(&["ping"]).await;
    assert!(ping.out.starts_with("obey 0.1.0 on here, pid 7, up - in "), "{}", ping.out);
    let status = world.run(&["status"]).await;
    assert_eq!(status.exit, 0);
    for part in ["Campaigns (1)", "proj", "Sessions (1)", "alive", "WORKING", "Requests (0)"] {
        assert!(status.out.contains(part), "{part} is missing in {}", status.out);
    }
    let json: Value = serde_json::from_str(&world.run(&["status", "--json"]).await.out).unwrap();
    assert_eq!(json["sessions"][0]["status"], "WORKING");
}

#[tokio::test]
async fn a_session_that_is_idle_is_not_waited_for() {
    let world = World::new();
    world.daemon.add_session(ID, "n", SessionStatus::Running);
    assert_eq!(world.run(&["session", "wait", "n"]).await.exit, 0);
    world.daemon.state().sessions[0].status = SessionStatus::Working.into();
    let late = world.run(&["session", "wait", "n", "--timeout", "50ms"]).await;
    assert_eq!(late.exit, 1);
    assert!(late.err.contains("still busy"), "{}", late.err);
}

#[tokio::test]
async fn a_daemon_that_does_not_run_is_explained() {
    let world = World::new();
    let missing = world.folder.path().join("other.sock");
    let ran = world.run(&["ping", "--no-autostart", "--socket", missing.to_str().unwrap()]).await;
    assert_eq!(ran.exit, 3);
    assert!(ran.err.contains("[OBEY-1015]") && ran.err.contains("obey serve --detach"), "{}", ran.err);
}

#[tokio::test]
async fn stop_ends_the_daemon_and_starts_none() {
    let world = World::new();
    let ran = world.run(&["stop", "--sessions"]).await;
    assert_eq!((ran.exit, ran.out.as_str()), (0, "The daemon was told to end; 2 sessions ended.\n"));
    let missing = world.folder.path().join("other.sock");
    let none = world.run(&["stop", "--socket", missing.to_str().unwrap()]).await;
    assert_eq!(none.exit, 3, "{none:?}");
}

#[tokio::test]
async fn completions_ask_this_program() {
    let ran = World::new().run(&["completions", "bash"]).await;
    assert!(ran.out.contains("COMPLETE") && ran.out.contains("obey"), "{}", ran.out);
}
