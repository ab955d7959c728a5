//! The plans of a session: a tree with live states, from which one goes to the session of a step.

use view::{PlanStepSummary, PlanSummary};

use super::stage::Stage;
use crate::data::{Request, Update};

const SESSION: &str = "sess_cart";

fn plan(states: [&str; 3]) -> Update {
    let step = |id: &str, on: &[&str], state: &str| PlanStepSummary {
        id: id.to_owned(),
        state: state.to_owned(),
        session: if state == "waiting" { String::new() } else { format!("sess_{id}") },
        attempts: 1,
        depends_on: on.iter().map(|id| (*id).to_owned()).collect(),
        ..PlanStepSummary::default()
    };
    let plan = PlanSummary {
        id: "orch_1".to_owned(),
        state: "running".to_owned(),
        strategy: "dag".to_owned(),
        steps: vec![
            step("build", &[], states[0]),
            step("test", &["build"], states[1]),
            step("docs", &[], states[2]),
        ],
    };
    Update::Plan { session: SESSION.to_owned(), plan }
}

#[test]
fn a_plan_is_a_tree_whose_states_are_live_and_whose_steps_are_opened() {
    let mut stage = Stage::with_journal(120, 32, "");
    stage.requests();
    stage.press("P");
    assert_eq!(stage.requests(), [Request::Plans { session: Some(SESSION.to_owned()) }]);
    stage.shows("reading");
    stage.update(plan(["running", "waiting", "waiting"]));
    stage.shows("orch_1  running (dag), 0 of 3 steps");
    stage.shows("├─ build running");
    stage.shows("│  └─ test waiting");
    stage.shows("└─ docs waiting");
    stage.update(plan(["succeeded", "running", "failed"]));
    stage.shows("2 of 3 steps");
    stage.shows("│  └─ test running");
    // A step that has no session yet opens nothing; one that has, opens it.
    stage.press("j");
    stage.press("enter");
    let requests = stage.requests();
    assert!(requests.contains(&Request::Plans { session: None }), "{requests:?}");
    let opens =
        |request: &Request| matches!(request, Request::Open { session, .. } if session == "sess_test");
    assert!(requests.iter().any(opens), "{requests:?}");
}

#[test]
fn a_session_without_plans_says_so_and_a_refusal_is_shown() {
    let mut stage = Stage::with_journal(120, 32, "");
    stage.press("P");
    stage.update(Update::PlansRead { session: SESSION.to_owned(), problem: String::new() });
    stage.shows("No plan works for this session");
    stage.update(Update::PlansRead { session: SESSION.to_owned(), problem: "not allowed".to_owned() });
    stage.shows("not allowed");
    stage.requests();
    stage.press("esc");
    assert_eq!(stage.requests(), [Request::Plans { session: None }]);
}
