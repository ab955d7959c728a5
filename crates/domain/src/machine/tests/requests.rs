//! Requests: permissions, questions and client tools; answered once, withdrawn, or settled by a grant or the mode.

use super::script::{after, check};
use crate::limits;

#[test]
fn a_permission_waits_until_somebody_decides() {
    check(
        r#"given working
           agent ask n1 Bash {"command":"ls"}
           decide 1 allow_once by anna"#,
        "request 1 permission Bash
         request 1 allowed once by anna; tell n1 allowed once",
    );
    check(
        "given working
         agent ask n1 Bash
         decide 1 deny by anna",
        "request 1 permission Bash
         request 1 denied by anna; tell n1 denied",
    );
}

#[test]
fn a_denial_can_end_the_turn() {
    check(
        "given working
         agent ask n1 Bash
         agent ask n2 Bash
         decide 1 deny_and_stop by anna
         decide 2 deny_and_stop by anna
         agent fails aborted",
        r#"request 1 permission Bash
           request 2 permission Bash
           request 1 denied and stopped by anna; tell n1 denied and stopped
           ; interrupt 1 cancelled; tell interrupt; arm interrupt 10s
           request 2 denied and stopped by anna; tell n2 denied and stopped
           disarm interrupt; turn 1 cancelled error "aborted"; WORKING→RUNNING"#,
    );
}

#[test]
fn a_decision_may_change_the_input() {
    check(
        r#"given working
           agent ask n1 Bash {"command":"rm -rf build"}
           decide 1 allow_once {"command":"ls build"} by anna"#,
        r#"request 1 permission Bash
           request 1 allowed once by anna; tell n1 allowed once as {"command":"ls build"}"#,
    );
}

#[test]
fn the_second_answer_changes_nothing() {
    check(
        "given working
         agent ask n1 Bash
         decide 1 deny by anna
         decide 1 allow_once by ben
         decide 1 deny by anna",
        "request 1 permission Bash
         request 1 denied by anna; tell n1 denied
         nothing
         nothing",
    );
    let session =
        after("given working\nagent ask n1 Bash\ndecide 1 deny by anna\ndecide 1 allow_once by ben");
    let settled = session.state().settled_request(crate::RequestId(1)).unwrap();
    assert_eq!((settled.by.as_str(), settled.outcome.word()), ("anna", "denied"));
}

#[test]
fn a_request_that_never_was_is_not_found() {
    for line in ["decide 7 allow_once", "answer 7 q1=yes", "return 7 ok x"] {
        check(&format!("given working\n{line}"), "refused OBEY-2015: session sess_1 has no request req_7");
    }
}

#[test]
fn an_autonomous_session_allows_what_is_asked_and_records_it() {
    check(
        "spec mode=autonomous
         given working
         tools editor open
         agent ask n1 Bash
         agent question n2 q1
         agent client_tool n3 open",
        r#"tools_registered {"source":"editor","tools":[{"description":"","exclusive":false,"input_schema":{},"name":"open"}]}; tell tools open
         request 1 permission Bash; request 1 allowed once by mode autonomous; tell n1 allowed once
         request 2 question q1
         request 3 client tool open; arm tool 120s"#,
    );
}

#[test]
fn a_mode_holds_from_the_next_request_on() {
    check(
        r#"given working
           mode autonomous
           mode autonomous
           agent ask n1 Bash
           mode supervised
           agent ask n2 Bash"#,
        r#"mode_changed {"mode":"autonomous"}; tell mode autonomous
           nothing
           request 1 permission Bash; request 1 allowed once by mode autonomous; tell n1 allowed once
           mode_changed {"mode":"supervised"}; tell mode supervised
           request 2 permission Bash"#,
    );
    check("given stopped\nmode plan", r#"mode_changed {"mode":"plan"}"#);
}

#[test]
fn an_agent_can_change_its_mode_but_not_its_autonomy() {
    check(
        r#"given working
           agent mode autonomous
           agent ask n1 Bash
           agent mode plan
           agent mode plan
           mode autonomous
           agent mode supervised
           agent ask n2 Bash"#,
        r#"nothing
           request 1 permission Bash
           mode_changed {"mode":"plan"}
           nothing
           mode_changed {"mode":"autonomous"}; tell mode autonomous
           nothing
           request 2 permission Bash; request 2 allowed once by mode autonomous; tell n2 allowed once"#,
    );
}

#[test]
fn a_report_from_outside_moves_nothing() {
    check(
        "given working\nreport mode autonomous",
        "refused OBEY-1001: report: mode_changed cannot be reported",
    );
}

#[test]
fn a_question_is_answered_by_its_own_keys() {
    check(
        "given working
         agent question n1 q1 q2
         answer 1 q3=yes by anna
         decide 1 allow_once by anna
         answer 1 q1=yes q2?=no by anna
         answer 1 q1=no by ben",
        r#"request 1 question q1 q2
           refused OBEY-1001: answers: the request has no question "q3"
           refused OBEY-1001: decision: a question is answered, not allowed; deny it to skip it
           request 1 answered by anna; tell n1 answers {"q1": "yes", "q2?": "no"}
           nothing"#,
    );
}

#[test]
fn a_question_can_be_skipped() {
    check(
        "given working\nagent question n1 q1\ndecide 1 deny by anna",
        "request 1 question q1\nrequest 1 denied by anna; tell n1 denied",
    );
}

#[test]
fn only_a_question_is_answered() {
    check(
        "given working\nagent ask n1 Bash\nanswer 1 q1=yes",
        "request 1 permission Bash\nrefused OBEY-1001: request_id: req_1 is not a question",
    );
}

#[test]
fn a_client_tool_returns_once() {
    check(
        r#"given working
           tools editor open
           agent client_tool n1 open {"file":"a"}
           return 1 ok opened by editor
           return 1 failed late by editor
           agent ask n2 Bash
           return 2 ok x"#,
        r#"tools_registered {"source":"editor","tools":[{"description":"","exclusive":false,"input_schema":{},"name":"open"}]}; tell tools open
           request 1 client tool open; arm tool 120s
           request 1 returned by editor; tell n1 returned "opened"; disarm tool
           nothing
           request 2 permission Bash
           refused OBEY-1001: request_id: req_2 is not a tool call"#,
    );
}

#[test]
fn a_client_tool_is_returned_or_refused_not_allowed() {
    check(
        "given working
         tools editor open
         agent client_tool n1 open
         decide 1 allow_once by anna
         decide 1 deny by anna",
        r#"tools_registered {"source":"editor","tools":[{"description":"","exclusive":false,"input_schema":{},"name":"open"}]}; tell tools open
         request 1 client tool open; arm tool 120s
         refused OBEY-1001: decision: a tool call is returned, not allowed; deny it to refuse it
         request 1 denied by anna; tell n1 denied; disarm tool"#,
    );
}

#[test]
fn an_agent_may_withdraw_what_it_asked() {
    check(
        "given working
         agent ask n1 Bash
         agent withdraw n1
         agent withdraw n1
         agent withdraw n9
         decide 1 allow_once by anna",
        "request 1 permission Bash
         request 1 withdrawn by agent
         nothing
         nothing
         nothing",
    );
}

#[test]
fn requests_that_wait_are_bounded() {
    let mut script = String::from("given working\n");
    for _ in 0..limits::REQUESTS_PENDING_MAX {
        script.push_str("agent ask n Bash\n");
    }
    let session = after(&format!("{script}agent ask last Bash\nagent question last q1"));
    assert_eq!(session.state().requests.len(), limits::REQUESTS_PENDING_MAX);
    let settled: Vec<&str> = session.state().settled.iter().map(|settled| settled.by.as_str()).collect();
    assert_eq!(settled, ["limit", "limit"]);
}

#[test]
fn settled_requests_do_not_weigh_on_the_state() {
    let large = format!(r#"{{"content":"{}"}}"#, "x".repeat(20_000));
    let mut script = String::from("spec mode=autonomous\ngiven working\n");
    for _ in 0..200 {
        script.push_str(&format!("agent ask n Write {large}\nagent ask m Bash {{\"command\":\"ls\"}}\n"));
    }
    let session = after(&script);
    let settled = &session.state().settled;
    assert_eq!(settled.len(), limits::REQUESTS_SETTLED_KEPT);
    assert!(serde_json::to_string(session.state()).unwrap().len() < 32 * 1024);
    let inputs: Vec<String> = settled
        .iter()
        .rev()
        .take(2)
        .map(|settled| match &settled.request.ask {
            crate::request::RequestSubject::Permission(permission) => permission.input.to_string(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(inputs, [r#"{"command":"ls"}"#, "null"]);
}

#[test]
fn rules_answer_before_anybody_is_asked() {
    check(
        r#"given working
           judged allow n1 Bash {"command":"git log"}
           judged deny n2 Bash {"command":"rm x"}
           judged ask n3 Edit"#,
        "request 1 permission Bash; request 1 allowed once by rule x; tell n1 allowed once
         request 2 permission Bash; request 2 denied by rule x; tell n2 denied
         request 3 permission Edit",
    );
}

#[test]
fn what_is_harmless_goes_on_unless_a_rule_or_a_grant_is_against_it() {
    check(
        r#"given working
           checked unsaid n1 Read {"file_path":"a"}
           checked allow n2 Read {"file_path":"a"}
           checked deny n3 Read {"file_path":".env"}
           checked ask n4 Read {"file_path":"b"}
           forbid Read by anna
           checked allow n5 Read {"file_path":"a"}"#,
        r#"tell n1 allowed once
           tell n2 allowed once
           request 1 permission Read; request 1 denied by rule x; tell n3 denied
           request 2 permission Read
           grants_changed {"by":"anna","grants":[{"denied":true,"id":"g1","is_pattern":true,"tool":"Read"}]}
           request 3 permission Read; request 3 denied by grant g1; tell n5 denied"#,
    );
    check(
        r#"spec mode=autonomous
           given working
           checked ask n1 Read {"file_path":"a"}
           checked deny n2 Read {"file_path":".env"}"#,
        "tell n1 allowed once
         request 1 permission Read; request 1 denied by rule x; tell n2 denied",
    );
}

#[test]
fn a_rule_that_denies_binds_an_autonomous_session() {
    check(
        r#"spec mode=autonomous
           given working
           judged deny n1 Bash {"command":"rm x"}
           judged ask n2 Bash {"command":"ls"}"#,
        "request 1 permission Bash; request 1 denied by rule x; tell n1 denied
         request 2 permission Bash; request 2 allowed once by mode autonomous; tell n2 allowed once",
    );
}

#[test]
fn a_request_waits_as_long_as_its_session_unless_the_session_says_otherwise() {
    check(
        "given working
         agent ask n1 Bash
         after 999999999
         timer answer",
        "request 1 permission Bash
         nothing",
    );
}

#[test]
fn a_permission_nobody_answers_is_denied_in_time() {
    check(
        "spec attended=60 unattended=3600
         given working
         hold anna
         agent ask n1 Bash
         after 59
         timer answer
         agent ask n2 Edit
         after 1
         timer answer
         decide 2 allow_once by anna",
        "input_holder_changed {\"holder\":\"anna\"}; disarm answer
         request 1 permission Bash; arm answer 60s
         arm answer 1s
         request 2 permission Edit; arm answer 1s
         request 1 denied by timeout; tell n1 denied; arm answer 59s; arm answer 59s
         request 2 allowed once by anna; tell n2 allowed once; disarm answer",
    );
}

#[test]
fn a_permission_waits_longer_while_nobody_is_there() {
    check(
        "spec attended=60 unattended=3600
         given working
         agent ask n1 Bash
         after 1000
         hold anna
         after 30
         hold ben
         release
         after 2569
         timer answer
         after 1
         timer answer",
        "request 1 permission Bash; arm answer 3600s
         input_holder_changed {\"holder\":\"anna\"}; arm answer 60s
         input_holder_changed {\"holder\":\"ben\"}; arm answer 30s
         input_holder_changed {}; arm answer 2570s
         arm answer 1s
         request 1 denied by timeout; tell n1 denied; disarm answer; disarm answer",
    );
}

#[test]
fn a_question_waits_for_a_person_however_long() {
    check(
        "spec attended=60
         given working
         hold anna
         agent question n1 q1
         after 100
         timer answer",
        "input_holder_changed {\"holder\":\"anna\"}; disarm answer
         request 1 question q1; disarm answer
         disarm answer",
    );
}

#[test]
fn a_daemon_that_comes_back_knows_that_nobody_is_there() {
    check(
        "spec attended=60 unattended=3600
         given working
         hold anna
         agent ask n1 Bash
         after 1000
         reattached",
        "input_holder_changed {\"holder\":\"anna\"}; disarm answer
         request 1 permission Bash; arm answer 60s
         input_holder_changed {}; arm answer 2600s; arm answer 2600s",
    );
}
