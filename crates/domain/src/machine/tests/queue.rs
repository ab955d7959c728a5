//! The prompt queue: order, changes, pauses, and that every entry is sent once whatever happens in between.

use proptest::prelude::*;

use super::script::{Play, after, check};
use crate::agent::AgentInput;
use crate::machine::Effect;
use crate::session::Status;

#[test]
fn a_queued_prompt_is_sent_when_the_turn_ends() {
    check(
        "given working
         or_queue second by anna
         queue add third
         agent done
         agent done
         agent done",
        r#"queue_changed {"by":"anna","change":"added","entry":"q_1","prompt":"second"}
           queue_changed {"change":"added","entry":"q_2","prompt":"third"}
           disarm interrupt; turn 1 completed; WORKING→RUNNING
           ; queue_changed {"change":"sent","entry":"q_1","turn":"turn_2"}
           ; turn 2 by anna "second"; RUNNING→WORKING; tell prompt "second"
           disarm interrupt; turn 2 completed; WORKING→RUNNING
           ; queue_changed {"change":"sent","entry":"q_2","turn":"turn_3"}
           ; turn 3 "third"; RUNNING→WORKING; tell prompt "third"
           disarm interrupt; turn 3 completed; WORKING→RUNNING"#,
    );
}

#[test]
fn a_prompt_that_may_wait_is_sent_at_once_to_an_idle_session() {
    check("given running\nor_queue now", r#"turn 1 "now"; RUNNING→WORKING; tell prompt "now""#);
    check(
        "given running\nqueue add now",
        r#"queue_changed {"change":"added","entry":"q_1","prompt":"now"}
           ; queue_changed {"change":"sent","entry":"q_1","turn":"turn_1"}
           ; turn 1 "now"; RUNNING→WORKING; tell prompt "now""#,
    );
}

#[test]
fn a_prompt_that_was_queued_before_the_daemon_ended_is_sent_to_the_reattached_agent() {
    check(
        "given running
         stop now
         exit 0
         restart
         or_queue next
         revived
         reattached",
        r#"disarm start; disarm deadline; RUNNING→STOPPING; ask to leave; arm ask 1.3s
           disarm all; agent exited 0; STOPPING→STOPPED
           restarted 1; STOPPED→STARTING; launch and resume; arm start 60s
           queue_changed {"change":"added","entry":"q_1","prompt":"next"}
           STARTING→RUNNING
           queue_changed {"change":"sent","entry":"q_1","turn":"turn_1"}
           ; turn 1 "next"; RUNNING→WORKING; tell prompt "next""#,
    );
}

#[test]
fn entries_are_edited_moved_and_dropped() {
    check(
        "given working
         queue add a
         queue add b
         queue add c
         queue move 3 1 by ben
         queue edit 1 A
         queue drop 2
         queue move 3 3
         queue edit 2 gone
         queue drop 9
         agent done",
        r#"queue_changed {"change":"added","entry":"q_1","prompt":"a"}
           queue_changed {"change":"added","entry":"q_2","prompt":"b"}
           queue_changed {"change":"added","entry":"q_3","prompt":"c"}
           queue_changed {"by":"ben","change":"moved","entry":"q_3","position":1}
           queue_changed {"change":"edited","entry":"q_1","prompt":"A"}
           queue_changed {"change":"dropped","entry":"q_2"}
           refused OBEY-1001: position: 3 is no place in the queue; use 1 to 2
           refused OBEY-1040: entry: q_2 does not wait in the queue of sess_1; it was sent or dropped, or never there
           refused OBEY-1040: entry: q_9 does not wait in the queue of sess_1; it was sent or dropped, or never there
           disarm interrupt; turn 1 completed; WORKING→RUNNING
           ; queue_changed {"change":"sent","entry":"q_3","turn":"turn_2"}
           ; turn 2 "c"; RUNNING→WORKING; tell prompt "c""#,
    );
}

#[test]
fn a_failed_turn_pauses_the_queue_and_a_completed_one_resumes_it() {
    check(
        "given working
         queue add later
         agent fails overloaded
         prompt again
         agent done",
        r#"queue_changed {"change":"added","entry":"q_1","prompt":"later"}
           disarm interrupt; turn 1 failed error "overloaded"
           ; queue_changed {"change":"paused","reason":"the turn before failed"}; WORKING→RUNNING
           turn 2 "again"; RUNNING→WORKING; tell prompt "again"
           disarm interrupt; turn 2 completed; queue_changed {"change":"resumed"}; WORKING→RUNNING
           ; queue_changed {"change":"sent","entry":"q_1","turn":"turn_3"}
           ; turn 3 "later"; RUNNING→WORKING; tell prompt "later""#,
    );
}

#[test]
fn a_paused_queue_is_resumed_by_a_client() {
    check(
        "given working
         queue pause by anna
         queue add later
         agent done
         queue resume by anna",
        r#"queue_changed {"by":"anna","change":"paused","reason":"paused by anna"}
           queue_changed {"change":"added","entry":"q_1","prompt":"later"}
           disarm interrupt; turn 1 completed; WORKING→RUNNING
           queue_changed {"by":"anna","change":"resumed"}
           ; queue_changed {"change":"sent","entry":"q_1","turn":"turn_2"}
           ; turn 2 "later"; RUNNING→WORKING; tell prompt "later""#,
    );
}

#[test]
fn a_stop_keeps_the_queue_and_a_restart_does_not_send_it_unasked() {
    let session = after("given working\nqueue add later\nstop now\nexit 0\nrestart\nlaunched 7\nagent ready");
    assert_eq!(session.state().status, Status::Running);
    assert_eq!(session.state().queue.entries.len(), 1);
    let pause = session.state().queue.paused.clone().unwrap();
    assert_eq!(pause.reason, "the turn before was interrupted");
}

#[test]
fn an_ended_session_takes_nothing_into_its_queue() {
    check(
        "given stopped\nqueue add later",
        "refused OBEY-2011: session sess_1 is STOPPED, restart it before something is queued for it",
    );
    let session = after("spec launch=on_prompt\ngiven stopped\nqueue add later");
    assert_eq!(session.state().status, Status::Starting);
}

#[test]
fn a_full_queue_refuses_more() {
    let mut play = Play::new();
    play.line("given working");
    for _ in 0..crate::limits::QUEUE_ENTRIES_MAX {
        play.line("queue add x").unwrap().unwrap();
    }
    let error = play.line("queue add x").unwrap().unwrap_err();
    assert_eq!(error.code, crate::ErrorCode::LimitReached);
}

#[derive(Clone, Debug)]
enum Step {
    Add,
    Drop(usize),
    Move(usize, usize),
    Done,
    Fail,
    /// The daemon was killed, and its successor knows only what was stored.
    Killed,
    Resume,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Add),
        1 => (0..6_usize).prop_map(Step::Drop),
        1 => (0..6_usize, 0..6_usize).prop_map(|(from, to)| Step::Move(from, to)),
        3 => Just(Step::Done),
        1 => Just(Step::Fail),
        2 => Just(Step::Killed),
        1 => Just(Step::Resume),
    ];
    prop::collection::vec(step, 0..60)
}

/// Plays one line and returns the prompts that the agent was sent.
fn sent(play: &mut Play, line: &str) -> Vec<String> {
    let effects = play.line(line).expect("an input").expect("accepted");
    effects
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Tell(AgentInput::Prompt { text, .. }) => Some(text),
            _ => None,
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn every_entry_is_sent_once_and_in_order_whenever_the_daemon_is_killed(steps in steps()) {
        let mut play = Play::new();
        play.line("given working");
        let (mut model, mut added) = (Vec::<u64>::new(), 0_u64);
        for step in steps {
            let line = match step {
                Step::Add => {
                    added += 1;
                    model.push(added);
                    format!("queue add entry {added}")
                }
                Step::Drop(at) if at < model.len() => format!("queue drop {}", model.remove(at)),
                Step::Move(from, to) if from.max(to) < model.len() => {
                    let entry = model.remove(from);
                    model.insert(to, entry);
                    format!("queue move {entry} {}", to + 1)
                }
                Step::Drop(_) | Step::Move(..) => continue,
                Step::Done => "agent done".to_owned(),
                Step::Fail => "agent fails".to_owned(),
                Step::Killed => "reattached".to_owned(),
                Step::Resume => "queue resume".to_owned(),
            };
            for prompt in sent(&mut play, &line) {
                let expected = format!("entry {}", model.remove(0));
                prop_assert_eq!(prompt, expected);
            }
            let waiting: Vec<u64> = play.machine.state().queue.entries.iter().map(|entry| entry.id.0).collect();
            prop_assert_eq!(&waiting, &model);
        }
    }
}
