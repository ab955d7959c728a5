//! What workers may do, and how their ends are told.

use std::time::Duration;

use super::*;
use crate::permission::{Coverage, Grant, GrantAction};

const NOW: Timestamp = Timestamp(1_000_000_000);

fn labels(grants: &[Grant]) -> Vec<String> {
    grants.iter().map(|grant| format!("{} {}", grant.action.name(), grant.label())).collect()
}

fn grants(parent: &[Grant], allowed: &[&str], auto: bool, authority: WorkerAuthority) -> Vec<String> {
    let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
    labels(&worker_grants(parent, &allowed, auto, authority, NOW).unwrap())
}

#[test]
fn a_worker_is_allowed_what_both_its_parent_and_its_spawn_allow() {
    let deny = |tool: &str| Grant { action: GrantAction::Deny, ..Grant::new(tool, Coverage::Tool) };
    let expired = Grant { expires_at: Some(NOW), ..Grant::new("WebFetch", Coverage::Tool) };
    let parent =
        [Grant::new("Bash", Coverage::Tool), Grant::new("Edit", Coverage::Tool), deny("Write"), expired];
    let by_agent = |allowed: &[&str], auto| grants(&parent, allowed, auto, WorkerAuthority::Agent);
    assert_eq!(by_agent(&[], false), ["deny Write", "allow Bash", "allow Edit"]);
    assert_eq!(by_agent(&["Bash(git *)", "Read"], false), ["deny Write", "allow Bash(git *)"]);
    assert_eq!(by_agent(&["Edit", "WebFetch"], true), ["deny Write", "allow Edit"]);
    // An agent that has nothing can give nothing.
    let nothing = worker_grants(&[], &["Bash".to_owned()], true, WorkerAuthority::Agent, NOW).unwrap();
    assert_eq!(labels(&nothing), Vec::<String>::new());
    // The user's word counts, but not against what the parent is denied.
    let by_user = grants(&parent, &["Bash(make *)", "Write"], true, WorkerAuthority::User);
    assert_eq!(by_user, ["deny Write", "allow Bash(make *)", "allow Write"]);
    let refused = worker_grants(&parent, &[], true, WorkerAuthority::User, NOW).unwrap_err();
    assert!(refused.message.starts_with("allowed_tools: is required"), "{refused}");
}

#[test]
fn automatic_approval_has_limits_by_class_by_minute_and_in_all() {
    let mut approved = AutoApproved::default();
    let second = |at: u64| NOW.after(Duration::from_secs(at));
    for at in 0..20 {
        assert!(approved.has_room(second(at), CallClass::Shell));
        approved.note(second(at), CallClass::Shell);
    }
    assert!(!approved.has_room(second(20), CallClass::Shell));
    assert!(approved.has_room(second(20), CallClass::Write));
    assert!(approved.has_room(second(60), CallClass::Shell), "a minute later the first one no longer counts");
    for at in 0..40 {
        approved.note(second(30 + at / 10), CallClass::Other);
    }
    assert!(!approved.has_room(second(35), CallClass::Other));
    while approved.total < limits::AUTO_APPROVE_CALLS_MAX {
        approved.note(second(100), CallClass::Other);
    }
    assert!(!approved.has_room(second(10_000), CallClass::Other));
}

#[test]
fn the_end_of_a_worker_is_its_last_turn_unless_it_was_cancelled() {
    let turn = |reason, text: &str, error: &str| WorkerTurn {
        reason,
        text: text.to_owned(),
        error: error.to_owned(),
    };
    let done = turn(EndReason::Completed, "all done", "");
    let end = |status, last: Option<&WorkerTurn>, cancelled| {
        let end = WorkerEnd::of(status, "OBEY-2004: broke", last, cancelled);
        (end.status, end.summary)
    };
    assert_eq!(end(Status::Stopped, Some(&done), None), (WorkerStatus::Completed, "all done".to_owned()));
    // It was done before the cancel reached it.
    assert_eq!(end(Status::Stopped, Some(&done), Some("late")).0, WorkerStatus::Completed);
    let cut = turn(EndReason::Interrupted, "", "the session was stopped");
    assert_eq!(end(Status::Stopped, Some(&cut), Some("why")), (WorkerStatus::Cancelled, "why".to_owned()));
    assert_eq!(end(Status::Stopped, Some(&cut), None).0, WorkerStatus::Cancelled);
    assert_eq!(end(Status::Stopped, None, Some("")), (WorkerStatus::Cancelled, "cancelled".to_owned()));
    assert_eq!(end(Status::Failed, Some(&cut), None), (WorkerStatus::Failed, "OBEY-2004: broke".to_owned()));
    let failed = turn(EndReason::Failed, "", "no model");
    assert_eq!(end(Status::Stopped, Some(&failed), None), (WorkerStatus::Failed, "no model".to_owned()));
}

#[test]
fn a_worker_gets_no_variables_that_change_its_agent() {
    let refused =
        ["ANTHROPIC_API_KEY", "claude_config_dir", "OBEY_SOCKET", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES"];
    for name in refused.map(str::to_owned) {
        assert!(check_environment([&name]).unwrap_err().message.starts_with("env: "), "{name}");
    }
    check_environment([&"RUST_LOG".to_owned()]).unwrap();
    assert_eq!(max_turns(0).unwrap(), 50);
    assert!(max_turns(201).is_err() && max_turns(-1).is_err());
}
