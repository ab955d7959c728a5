//! Several machines: one machine has no column, several have one; a gone machine holds up none of the others; what is done
//! to a session is done on its machine.

use view::SummaryState;

use super::stage::{Stage, summary};
use crate::data::{Request, Update};

fn machine(
    stage: &mut Stage,
    revision: u64,
    snapshot: bool,
    sessions: Vec<view::SessionSummary>,
    removed: &[&str],
) {
    let removed = removed.iter().map(|id| (*id).to_owned()).collect();
    let machine = "laptop".to_owned();
    stage.update(Update::MachineOverview { machine, revision, snapshot, sessions, removed });
}

fn reached(stage: &mut Stage, problem: &str) {
    stage.update(Update::Machine { name: "laptop".to_owned(), problem: problem.to_owned() });
}

#[test]
fn a_machine_column_appears_when_there_are_several() {
    let mut stage = Stage::with_sessions(120, 32);
    stage.shows_not("box1     ");
    stage.shows_not("machines");
    reached(&mut stage, "");
    machine(&mut stage, 7, true, vec![summary("far", SummaryState::Working, 5)], &[]);
    stage.shows("box1     cart");
    stage.shows("laptop   far");
    stage.shows("2 machines");
    stage.press("f");
    stage.type_text("laptop");
    stage.press("enter");
    stage.shows("laptop   far");
    stage.shows_not("box1     cart");
}

#[test]
fn a_machine_that_is_gone_is_named_and_keeps_its_sessions_listed() {
    let mut stage = Stage::with_sessions(120, 32);
    reached(&mut stage, "");
    machine(&mut stage, 7, true, vec![summary("far", SummaryState::Working, 5)], &[]);
    reached(&mut stage, "it does not answer");
    stage.shows("laptop not reached");
    stage.shows("laptop   far");
    stage.overview(vec![summary("cart", SummaryState::Done, 1)]);
    stage.shows("DONE 3");
    reached(&mut stage, "");
    stage.shows_not("not reached,");
    machine(&mut stage, 9, false, Vec::new(), &["sess_far", "sess_cart"]);
    stage.shows_not("laptop   far");
    stage.shows("box1     cart");
}

#[test]
fn a_machine_that_is_paired_with_itself_is_not_listed_twice() {
    let mut stage = Stage::with_sessions(120, 32);
    reached(&mut stage, "");
    machine(&mut stage, 3, true, vec![summary("cart", SummaryState::Failed, 5)], &[]);
    stage.shows("box1     cart");
    stage.shows_not("laptop   cart");
}

#[test]
fn requests_name_the_session_whose_machine_they_go_to() {
    let about = Request::Cancel { session: "sess_far".to_owned() };
    assert_eq!(about.session(), Some("sess_far"));
    assert_eq!(Request::Choices { machine: String::new() }.session(), None);
}
