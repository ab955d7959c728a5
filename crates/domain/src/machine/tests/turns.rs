//! Turns: prompts, their streamed output, steering, cancelling, and turns the agent starts itself.

use super::script::{after, check};

#[test]
fn a_prompt_opens_a_turn_and_its_end_makes_the_session_idle() {
    check(
        r#"given running
           prompt fix it by anna
           agent turn
           agent thinking hm
           agent tool c1 Bash {"command":"ls"}
           agent progress c1 a
           agent result c1 ok a b
           agent text fixed
           agent done fixed
           prompt more"#,
        r#"turn 1 by anna "fix it"; RUNNING→WORKING; tell prompt "fix it"
           nothing
           thinking "hm"
           call c1 Bash
           tool_progress {"call":"c1","output":"a"}
           call c1 Bash ok "a b"
           text "fixed"
           disarm interrupt; turn 1 completed "fixed"; WORKING→RUNNING
           turn 2 "more"; RUNNING→WORKING; tell prompt "more""#,
    );
}

#[test]
fn a_prompt_needs_an_idle_session() {
    for status in ["working", "stopping", "grace", "stopped", "failed"] {
        let name = after(&format!("given {status}")).state().status.name();
        check(
            &format!("given {status}\nprompt hi"),
            &format!("refused OBEY-2011: session sess_1 is {name}, a prompt needs a RUNNING one"),
        );
    }
}

#[test]
fn a_prompt_that_is_too_long_is_refused() {
    check(
        "given running\nprompt_of 3584001",
        "refused OBEY-1001: message: is 3584001 bytes long; the limit is 3584000",
    );
}

#[test]
fn a_turn_that_fails_leaves_the_session_idle() {
    check(
        "given working
         agent fails API error 529
         prompt again
         agent refuses not that",
        r#"disarm interrupt; turn 1 failed error "API error 529"; WORKING→RUNNING
           turn 2 "again"; RUNNING→WORKING; tell prompt "again"
           disarm interrupt; turn 2 refused error "not that"; WORKING→RUNNING"#,
    );
}

#[test]
fn a_message_can_be_added_to_the_running_turn() {
    check(
        "given working
         steer not that file by anna
         agent done",
        r#"added by anna "not that file"; tell steer "not that file"
           disarm interrupt; turn 1 completed; WORKING→RUNNING"#,
    );
}

#[test]
fn a_message_said_before_the_agent_is_ready_is_told_with_the_prompt() {
    check(
        "spec launch=on_prompt
         prompt go
         launched 42
         steer and quickly by anna
         agent ready",
        r#"turn 1 "go"; CREATED→STARTING; launch; arm start 60s
           agent started 42
           added by anna "and quickly"
           disarm start; agent ready; STARTING→WORKING; tell prompt "go\n\nand quickly""#,
    );
}

#[test]
fn nothing_is_added_to_a_turn_that_is_being_ended() {
    check(
        "given working
         cancel
         steer wait",
        "interrupt 1 cancelled; tell interrupt; arm interrupt 10s
         refused OBEY-2011: session sess_1 is WORKING, but its turn is being ended; send the message when it is RUNNING",
    );
}

#[test]
fn a_file_cannot_be_added_to_a_running_turn() {
    check(
        "given working\nsteer_with a.txt look",
        "refused OBEY-1001: attachments: cannot be added to a running turn; wait for its end",
    );
}

#[test]
fn a_message_for_the_running_turn_opens_one_where_none_is() {
    check("given running\nsteer hi", r#"turn 1 "hi"; RUNNING→WORKING; tell prompt "hi""#);
}

#[test]
fn a_turn_can_be_cancelled_once() {
    check(
        "given working
         cancel
         cancel
         agent fails aborted",
        r#"interrupt 1 cancelled; tell interrupt; arm interrupt 10s
           nothing
           disarm interrupt; turn 1 cancelled error "aborted"; WORKING→RUNNING"#,
    );
}

#[test]
fn a_turn_that_ended_well_before_it_heard_of_the_cancel_did_end_well() {
    check(
        "given working\ncancel\nagent done all of it",
        r#"interrupt 1 cancelled; tell interrupt; arm interrupt 10s
           disarm interrupt; turn 1 completed "all of it"; WORKING→RUNNING"#,
    );
}

#[test]
fn a_cancel_without_a_turn_changes_nothing() {
    for status in ["created", "starting", "running", "stopping", "stopped", "failed"] {
        check(&format!("given {status}\ncancel"), "nothing");
    }
}

#[test]
fn a_turn_that_is_waited_for_can_be_cancelled() {
    check(
        "given grace
         cancel
         agent fails aborted",
        r#"interrupt 1 cancelled; tell interrupt; arm interrupt 10s
           disarm interrupt; turn 1 cancelled error "aborted"; disarm grace; ask to leave; arm ask 1.3s"#,
    );
}

#[test]
fn an_agent_that_leaves_already_is_not_interrupted() {
    check(
        "given working\nstop now\ncancel",
        "disarm start; disarm deadline; WORKING→STOPPING; ask to leave; arm ask 1.3s
         nothing",
    );
    check("given grace\nreattached\ncancel", "kill\nnothing");
}

#[test]
fn a_turn_can_be_cancelled_before_the_agent_is_ready() {
    check(
        "spec launch=on_prompt
         prompt hi
         cancel
         agent ready
         prompt ho",
        r#"turn 1 "hi"; CREATED→STARTING; launch; arm start 60s
           turn 1 cancelled error "cancelled before the agent was ready"
           disarm start; agent ready; STARTING→RUNNING
           turn 2 "ho"; RUNNING→WORKING; tell prompt "ho""#,
    );
}

#[test]
fn a_turn_is_not_ended_before_its_agent_heard_of_it() {
    check(
        "spec launch=on_prompt
         given stopped
         prompt hi
         agent done of another time
         agent ready",
        r#"turn 1 "hi"; STOPPED→STARTING; launch and resume; arm start 60s
           nothing
           disarm start; agent ready; STARTING→WORKING; tell prompt "hi""#,
    );
}

#[test]
fn an_agent_that_does_not_heed_a_cancel_is_killed() {
    check(
        "given working
         cancel
         timer interrupt
         exit signal 9",
        r#"interrupt 1 cancelled; tell interrupt; arm interrupt 10s
           WORKING→STOPPING; kill
           disarm all; agent killed 9
           ; turn 1 interrupted error "OBEY-2031: the agent did not end its turn within 10 s of being interrupted"
           ; error OBEY-2031 "the agent did not end its turn within 10 s of being interrupted"
           ; STOPPING→FAILED "OBEY-2031: the agent did not end its turn within 10 s of being interrupted""#,
    );
}

#[test]
fn the_interrupt_timer_means_nothing_without_an_interrupted_turn() {
    check("given running\ntimer interrupt", "nothing");
    check("given working\ntimer interrupt", "nothing");
}

#[test]
fn what_is_open_in_a_turn_ends_with_it() {
    check(
        "given working
         agent tool c1 Bash
         agent tool c2 Read
         agent ask n1 Bash
         agent result c2 ok text
         agent done",
        r#"call c1 Bash
           call c2 Read
           request 1 permission Bash
           call c2 Read ok "text"
           disarm interrupt; request 1 withdrawn by agent
           ; call c1 Bash failed "not finished when the turn ended"; turn 1 completed; WORKING→RUNNING"#,
    );
}

#[test]
fn a_call_starts_once_and_finishes_once() {
    check(
        "given working
         agent tool c1 Bash
         agent tool c1 Bash
         agent result c1 ok a
         agent result c1 ok a
         agent result c2 ok never started
         agent tool c1 Bash",
        r#"call c1 Bash
           unparsed {"raw":"{\"report\":\"tool_started\",\"call\":\"c1\",\"tool\":\"Bash\",\"input\":{}}"}
           call c1 Bash ok "a"
           unparsed {"raw":"{\"report\":\"tool_finished\",\"call\":\"c1\",\"ok\":true,\"output\":\"a\"}"}
           unparsed {"raw":"{\"report\":\"tool_finished\",\"call\":\"c2\",\"ok\":true,\"output\":\"never started\"}"}
           call c1 Bash"#,
    );
}

#[test]
fn a_call_of_the_agent_ends_with_its_turn() {
    check(
        "given working
         agent tool c1 Bash
         agent done
         agent result c1 ok late",
        r#"call c1 Bash
           disarm interrupt; call c1 Bash failed "not finished when the turn ended"; turn 1 completed
           ; WORKING→RUNNING
           unparsed {"raw":"{\"report\":\"tool_finished\",\"call\":\"c1\",\"ok\":true,\"output\":\"late\"}"}"#,
    );
}

#[test]
fn a_call_between_turns_is_a_call() {
    check(
        "given running
         agent tool c1 Bash
         agent result c1 ok a",
        r#"call c1 Bash
           call c1 Bash ok "a""#,
    );
}

#[test]
fn a_call_of_a_worker_outlives_the_turn() {
    check(
        "given working
         agent sub_tool c1 Bash
         agent done
         agent result c1 ok a",
        r#"call c1 Bash
           disarm interrupt; turn 1 completed; WORKING→RUNNING
           call c1 Bash ok "a""#,
    );
}

#[test]
fn a_request_of_a_worker_outlives_the_turn_and_reaches_it() {
    check(
        "given working
         agent sub_ask n1 Bash
         agent ask n2 Edit
         agent done
         prompt go on
         agent done
         decide 1 allow_once",
        r#"request 1 permission Bash
           request 2 permission Edit
           disarm interrupt; request 2 withdrawn by agent; turn 1 completed; WORKING→RUNNING
           turn 2 "go on"; RUNNING→WORKING; tell prompt "go on"
           disarm interrupt; turn 2 completed; WORKING→RUNNING
           request 1 allowed once by ; tell n1 allowed once"#,
    );
}

#[test]
fn a_prompt_that_comes_while_the_agent_starts_waits_for_it() {
    check(
        "given starting
         prompt hi
         agent ready",
        r#"turn 1 "hi"
           disarm start; agent ready; STARTING→WORKING; tell prompt "hi""#,
    );
    check(
        "spec launch=on_prompt
         prompt one
         cancel
         prompt two
         launched 42
         agent ready",
        r#"turn 1 "one"; CREATED→STARTING; launch; arm start 60s
           turn 1 cancelled error "cancelled before the agent was ready"
           turn 2 "two"
           agent started 42
           disarm start; agent ready; STARTING→WORKING; tell prompt "two""#,
    );
}

#[test]
fn workers_end_with_their_agent() {
    check(
        "given running
         agent worker w1
         agent sub_tool c1 Bash
         agent sub_ask n1 Bash
         exit 0",
        r#"worker_started {"call":null,"title":"","worker":"w1"}
           call c1 Bash
           request 1 permission Bash
           disarm all; agent exited 0; request 1 withdrawn by agent; call c1 Bash failed "not finished when the agent ended"
           ; worker_finished {"ok":false,"summary":"ended with its agent","worker":"w1"}; RUNNING→STOPPED"#,
    );
}

#[test]
fn a_session_with_a_busy_worker_is_not_ended_for_idleness() {
    check(
        "spec launch=on_prompt idle=900
         prompt hi
         launched 42
         agent ready
         agent worker w1
         agent done
         timer idle
         agent worker_done w1
         timer idle",
        r#"turn 1 "hi"; CREATED→STARTING; launch; arm start 60s
           agent started 42
           disarm start; agent ready; STARTING→WORKING; tell prompt "hi"
           worker_started {"call":null,"title":"","worker":"w1"}
           disarm interrupt; turn 1 completed; WORKING→RUNNING; arm idle 900s
           arm idle 900s
           worker_finished {"ok":true,"summary":"","worker":"w1"}
           disarm start; disarm deadline; RUNNING→STOPPING; disarm idle; ask to leave; arm ask 1.3s"#,
    );
}

#[test]
fn what_fits_nowhere_is_kept_in_part() {
    let output = "ä".repeat(crate::limits::UNPARSED_MAX_BYTES);
    let mut session = after("given running");
    let finished = crate::AgentEvent::ToolFinished { call: crate::CallId::new("c1"), ok: true, output };
    let effects = session.apply(crate::Timestamp(0), crate::Input::Agent(finished)).unwrap();
    let [crate::Effect::Record(crate::EventKind::Unparsed { raw, length })] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert!(raw.len() <= crate::limits::UNPARSED_MAX_BYTES);
    assert!(length.unwrap() > raw.len() as u64);
}

#[test]
fn an_agent_may_begin_a_turn_by_itself() {
    check(
        "given running
         agent turn
         agent turn
         agent text the build is done
         agent done",
        r#"turn 1 ""; RUNNING→WORKING
           nothing
           text "the build is done"
           disarm interrupt; turn 1 completed "the build is done"; WORKING→RUNNING"#,
    );
}

#[test]
fn a_turn_of_the_agent_keeps_prompts_out_like_any_other() {
    check(
        "given running\nagent turn\nprompt hi",
        r#"turn 1 ""; RUNNING→WORKING
           refused OBEY-2011: session sess_1 is WORKING, a prompt needs a RUNNING one"#,
    );
}

#[test]
fn an_agent_that_is_stopping_begins_no_turns() {
    check("given stopping\nagent turn\nagent done", "nothing\nnothing");
}

#[test]
fn the_end_of_a_turn_that_nobody_knows_changes_nothing() {
    check("given running\nagent done", "nothing");
}

#[test]
fn compaction_is_a_turn() {
    check(
        "given running
         compact
         agent compacted short
         agent done",
        r#"turn 1 "/compact"; RUNNING→WORKING; tell compact
           compacted {"summary":"short"}
           disarm interrupt; turn 1 completed; WORKING→RUNNING"#,
    );
    check(
        "given working\ncompact",
        "refused OBEY-2011: session sess_1 is WORKING, compaction needs a RUNNING one",
    );
}

#[test]
fn what_an_agent_reports_is_recorded_as_it_is() {
    check(
        "given working
         agent todo write tests
         agent plan on
         agent model opus
         agent model opus
         agent commands review
         agent server lab
         agent server lab
         agent worker w1
         agent worker_says w1 halfway
         agent worker_done w1
         agent notice retrying
         agent unparsed ???",
        r#"todos_changed {"todos":[{"id":"1","status":"pending","text":"write tests"}]}
           plan_mode_changed {"on":true}
           model_changed {"model":"opus"}
           nothing
           commands_changed {"commands":[{"description":"","name":"review"}]}
           servers_changed {"servers":[{"name":"lab","status":"running","tools":["ping"]}]}
           nothing
           worker_started {"call":null,"title":"","worker":"w1"}
           worker_progressed {"summary":"halfway","worker":"w1"}
           worker_finished {"ok":true,"summary":"","worker":"w1"}
           warning "retrying"
           unparsed {"raw":"???"}"#,
    );
}

#[test]
fn the_model_can_be_changed_unless_an_agent_comes_or_goes() {
    check("given running\nmodel opus", r#"model_changed {"model":"opus"}; tell model opus"#);
    check("given working\nmodel opus", r#"model_changed {"model":"opus"}; tell model opus"#);
    check("given stopped\nmodel opus", r#"model_changed {"model":"opus"}"#);
    check(
        "given starting\nmodel opus",
        "refused OBEY-2011: session sess_1 is STARTING, the model can be changed once it is RUNNING or STOPPED",
    );
}

#[test]
fn names_tools_and_the_input_holder_are_kept() {
    check(
        "given running
         rename scout
         tools editor open save
         tools browser look
         hold anna
         hold anna
         release
         release",
        r#"renamed {"name":"scout"}
           tools_registered {"source":"editor","tools":[{"description":"","exclusive":false,"input_schema":{},"name":"open"},{"description":"","exclusive":false,"input_schema":{},"name":"save"}]}; tell tools open save
           tools_registered {"source":"browser","tools":[{"description":"","exclusive":false,"input_schema":{},"name":"look"}]}; tell tools look open save
           input_holder_changed {"holder":"anna"}
           nothing
           input_holder_changed {}
           nothing"#,
    );
    assert_eq!(after("rename scout").state().name, "scout");
}

#[test]
fn a_failed_session_that_starts_with_a_prompt_starts_again_with_the_next() {
    check(
        r#"spec launch=on_prompt
           prompt hi
           launched 42
           agent ready
           exit 1
           prompt again by anna"#,
        r#"turn 1 "hi"; CREATED→STARTING; launch; arm start 60s
           agent started 42
           disarm start; agent ready; STARTING→WORKING; tell prompt "hi"
           disarm all; agent exited 1
           ; turn 1 interrupted error "OBEY-2031: the agent's process ended: exited with code 1"
           ; error OBEY-2031 "the agent's process ended: exited with code 1"
           ; WORKING→FAILED "OBEY-2031: the agent's process ended: exited with code 1"
           turn 2 by anna "again"; FAILED→STARTING; launch and resume; arm start 60s"#,
    );
}

#[test]
fn a_stopped_conversation_is_started_to_be_compacted() {
    check(
        r#"spec launch=on_prompt
           compact
           prompt hi
           launched 42
           agent ready
           agent done
           stop now
           exit 0
           compact
           launched 43
           agent ready"#,
        r#"refused OBEY-2011: session sess_1 is CREATED, compaction needs a RUNNING one
           turn 1 "hi"; CREATED→STARTING; launch; arm start 60s
           agent started 42
           disarm start; agent ready; STARTING→WORKING; tell prompt "hi"
           disarm interrupt; turn 1 completed; WORKING→RUNNING
           disarm start; disarm deadline; RUNNING→STOPPING; ask to leave; arm ask 1.3s
           disarm all; agent exited 0; STOPPING→STOPPED
           turn 2 "/compact"; STOPPED→STARTING; launch and resume; arm start 60s
           agent started 43
           disarm start; agent ready; STARTING→WORKING; tell compact"#,
    );
}

#[test]
fn a_large_conversation_is_compacted_between_turns() {
    check(
        r#"spec compact_above=400
           given working
           agent context 400
           agent done
           prompt more
           agent context 401
           agent done
           agent context 401
           agent done"#,
        r#"usage_reported {"context_tokens":400,"input_tokens":0,"output_tokens":0}
           disarm interrupt; turn 1 completed; WORKING→RUNNING
           turn 2 "more"; RUNNING→WORKING; tell prompt "more"
           usage_reported {"context_tokens":401,"input_tokens":0,"output_tokens":0}
           disarm interrupt; turn 2 completed; WORKING→RUNNING; turn 3 "/compact"; RUNNING→WORKING; tell compact
           usage_reported {"context_tokens":401,"input_tokens":0,"output_tokens":0}
           disarm interrupt; turn 3 completed; WORKING→RUNNING"#,
    );
}
