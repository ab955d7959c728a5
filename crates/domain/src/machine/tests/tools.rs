//! Tools that clients run: offered for a session or a turn, called through the daemon, returned, late or abandoned.

use super::script::{after, check};
use crate::limits;

#[test]
fn a_call_through_the_daemon_is_answered_in_the_journal_alone() {
    check(
        r#"given running
           tools arm move
           prompt go
           call c1 move {"x":1}
           return 1 ok moved by arm
           return 1 ok twice by arm"#,
        r#"tools_registered {"source":"arm","tools":[{"description":"","exclusive":false,"input_schema":{},"name":"move"}]}; tell tools move
           turn 1 "go"; RUNNING→WORKING; tell prompt "go"
           request 1 client tool move; arm tool 120s
           request 1 returned by arm; disarm tool
           nothing"#,
    );
}

#[test]
fn a_call_of_the_agents_own_protocol_is_told() {
    check(
        r#"given working
           tools arm move
           agent client_tool n1 move
           return 1 failed stuck by arm"#,
        r#"tools_registered {"source":"arm","tools":[{"description":"","exclusive":false,"input_schema":{},"name":"move"}]}; tell tools move
           request 1 client tool move; arm tool 120s
           request 1 failed by arm; tell n1 failed "stuck"; disarm tool"#,
    );
}

#[test]
fn a_call_of_the_agents_own_protocol_that_nobody_offers_fails_at_once() {
    check(
        r#"given working
           agent client_tool n1 move"#,
        r#"request 1 client tool move; request 1 failed by obey; tell n1 failed "no client offers \"move\" any more""#,
    );
}

#[test]
fn in_plan_mode_a_tool_that_asks_is_refused_and_nobody_is_asked() {
    check(
        r#"spec mode=plan
           given working
           tools arm move?
           agent ask n1 move
           agent ask n2 Bash"#,
        r#"tools_registered {"source":"arm","tools":[{"asks":true,"description":"","exclusive":false,"input_schema":{},"name":"move"}]}; tell tools move
           request 1 permission move; request 1 denied by mode plan; tell n1 denied
           request 2 permission Bash"#,
    );
}

#[test]
fn the_same_call_is_made_once() {
    check(
        "given working
         tools arm move
         call c1 move
         call c1 move
         return 1 ok done by arm
         call c1 move",
        r#"tools_registered {"source":"arm","tools":[{"description":"","exclusive":false,"input_schema":{},"name":"move"}]}; tell tools move
           request 1 client tool move; arm tool 120s
           nothing
           request 1 returned by arm; disarm tool
           nothing"#,
    );
}

#[test]
fn what_nobody_offers_cannot_be_called() {
    check(
        "given working
         call c1 move
         tools arm move
         tools arm look
         call c2 move",
        r#"refused OBEY-1001: tool: no client offers "move"
           tools_registered {"source":"arm","tools":[{"description":"","exclusive":false,"input_schema":{},"name":"move"}]}; tell tools move
           tools_registered {"source":"arm","tools":[{"description":"","exclusive":false,"input_schema":{},"name":"look"}]}; tell tools look
           refused OBEY-1001: tool: no client offers "move""#,
    );
    check(
        "given stopped\ntools arm move\ncall c1 move",
        r#"tools_registered {"source":"arm","tools":[{"description":"","exclusive":false,"input_schema":{},"name":"move"}]}
           refused OBEY-2011: session sess_1 is STOPPED, so that its agent calls nothing"#,
    );
}

#[test]
fn a_call_that_takes_too_long_fails_and_its_result_is_too_late() {
    check(
        "given working
         tools arm move:5
         call c1 move
         after 5
         timer tool
         return 1 ok late by arm",
        r#"tools_registered {"source":"arm","tools":[{"description":"","exclusive":false,"input_schema":{},"name":"move","timeout_ms":5000}]}; tell tools move
           request 1 client tool move; arm tool 5s
           request 1 failed by timeout
           nothing"#,
    );
}

#[test]
fn exclusive_calls_wait_for_each_other_and_so_do_their_clocks() {
    check(
        "given working
         tools arm move!:5
         call c1 move
         call c2 move
         after 4
         return 1 ok done by arm
         after 4
         timer tool
         after 1
         timer tool",
        r#"tools_registered {"source":"arm","tools":[{"description":"","exclusive":true,"input_schema":{},"name":"move","timeout_ms":5000}]}; tell tools move
           request 1 client tool move; arm tool 5s
           request 2 client tool move
           request 1 returned by arm; arm tool 5s
           arm tool 1s
           request 2 failed by timeout"#,
    );
}

#[test]
fn tools_of_a_turn_go_with_it() {
    check(
        "given running
         tools arm move
         tools turn look
         prompt hi
         call c1 move
         agent done",
        r#"tools_registered {"source":"arm","tools":[{"description":"","exclusive":false,"input_schema":{},"name":"move"}]}; tell tools move
           tools_registered {"source":"turn","tools":[{"description":"","exclusive":false,"input_schema":{},"name":"look"}]}; tell tools look
           turn 1 "hi"; RUNNING→WORKING; tell prompt "hi"
           refused OBEY-1001: tool: no client offers "move"
           disarm interrupt; turn 1 completed; tools_registered {"source":"turn","tools":[]}; tell tools move; WORKING→RUNNING"#,
    );
}

#[test]
fn a_new_daemon_fails_what_its_clients_were_doing() {
    check(
        "given working
         tools arm move
         call c1 move
         reattached",
        r#"tools_registered {"source":"arm","tools":[{"description":"","exclusive":false,"input_schema":{},"name":"move"}]}; tell tools move
           request 1 client tool move; arm tool 120s
           request 1 failed by obey"#,
    );
}

#[test]
fn a_permission_asked_through_the_daemon_is_told_to_nobody() {
    check(
        "given working
         ask c1 move
         ask c1 move
         decide 1 allow_once by anna
         ask c2 move
         agent done",
        "request 1 permission move
         nothing
         request 1 allowed once by anna
         request 2 permission move
         disarm interrupt; request 2 withdrawn by agent; turn 1 completed; WORKING→RUNNING",
    );
    check(
        "spec mode=autonomous
         given working
         ask c1 move",
        "request 1 permission move; request 1 allowed once by mode autonomous",
    );
}

#[test]
fn plan_mode_refuses_what_is_asked_through_the_daemon_and_records_it() {
    check(
        "spec mode=plan
         given working
         ask c1 move
         grant move by anna
         ask c2 move
         mode supervised
         ask c3 lift",
        r#"request 1 permission move; request 1 denied by mode plan
         grants_changed {"by":"anna","grants":[{"id":"g1","is_pattern":true,"tool":"move"}]}
         request 2 permission move; request 2 denied by mode plan
         mode_changed {"mode":"supervised"}; tell mode supervised
         request 3 permission lift"#,
    );
}

#[test]
fn results_are_not_carried_along() {
    let session = after("given working\ntools arm move\ncall c1 move\nreturn 1 ok long by arm");
    let settled = session.state().settled_request(crate::RequestId(1)).unwrap();
    let forgotten = crate::request::RequestOutcome::ToolReturned { ok: true, output: String::new() };
    assert_eq!(settled.outcome, forgotten);
}

#[test]
fn there_are_not_too_many_tools() {
    let names: Vec<String> = (0..=limits::TOOLS_MAX).map(|at| format!("t{at}")).collect();
    check(
        &format!("given created\ntools arm {}", names.join(" ")),
        "refused OBEY-1003: tools: 513; the limit is 512",
    );
}
