//! Grants: given with an answer or directly, used, used up, expired, revoked; and what overrides them.

use super::script::check;

#[test]
fn a_permission_for_the_session_is_remembered() {
    check(
        r#"given working
           agent ask n1 Bash {"command":"git log"}
           decide 1 allow_session by anna
           agent ask n2 Bash {"command":"git log","timeout":5}
           agent ask n3 Bash {"command":"git log; rm -rf ."}
           agent ask n4 Edit {"file_path":"a"}"#,
        "request 1 permission Bash
         request 1 allowed for the session by anna granting g1 the command `git log` (Bash)
         ; tell n1 allowed for the session
         request 2 permission Bash; request 2 allowed once by grant g1; tell n2 allowed once
         request 3 permission Bash
         request 4 permission Edit",
    );
}

#[test]
fn a_grant_covers_what_was_allowed_not_what_was_asked() {
    check(
        r#"given working
           agent ask n1 Bash {"command":"rm -rf build"}
           decide 1 allow_session {"command":"ls build"} by anna
           agent ask n2 Bash {"command":"rm -rf build"}
           agent ask n3 Bash {"command":"ls build"}"#,
        r#"request 1 permission Bash
           request 1 allowed for the session by anna granting g1 the command `ls build` (Bash)
           ; tell n1 allowed for the session as {"command":"ls build"}
           request 2 permission Bash
           request 3 permission Bash; request 3 allowed once by grant g1; tell n3 allowed once"#,
    );
}

#[test]
fn a_permission_for_a_file_is_none_for_another() {
    check(
        r#"given working
           judged unsaid n1 Write {"file_path":"w1.txt"}
           decide 1 allow_session by anna
           judged unsaid n2 Write {"file_path":"w1.txt"}
           judged unsaid n3 Write {"file_path":"w2.txt"}
           decide 3 allow_once tool by anna
           judged unsaid n4 Write {"file_path":"w3.txt"}"#,
        "request 1 permission Write
         request 1 allowed for the session by anna granting g1 Write of the file `w1.txt`
         ; tell n1 allowed for the session
         request 2 permission Write; request 2 allowed once by grant g1; tell n2 allowed once
         request 3 permission Write
         request 3 allowed once by anna granting g2 every call of Write; tell n3 allowed once
         request 4 permission Write; request 4 allowed once by grant g2; tell n4 allowed once",
    );
}

#[test]
fn a_grant_ends_with_its_uses_and_its_time() {
    check(
        r#"given working
           agent ask n1 Bash {"command":"npm test"}
           decide 1 allow_once prefix uses=1 by anna
           agent ask n2 Bash {"command":"npm test -- a"}
           agent ask n3 Bash {"command":"npm test -- b"}
           decide 3 allow_once prefix seconds=60 by anna
           after 59
           agent ask n4 Bash {"command":"npm test -- c"}
           after 1
           agent ask n5 Bash {"command":"npm test -- d"}"#,
        "request 1 permission Bash
         request 1 allowed once by anna granting g1 commands that begin with `npm test` (Bash); tell n1 allowed once
         request 2 permission Bash; request 2 allowed once by grant g1; tell n2 allowed once
         request 3 permission Bash
         request 3 allowed once by anna granting g2 commands that begin with `npm test` (Bash); tell n3 allowed once
         request 4 permission Bash; request 4 allowed once by grant g2; tell n4 allowed once
         request 5 permission Bash",
    );
}

#[test]
fn a_sub_agent_does_not_use_the_agent_s_grant() {
    check(
        r#"given working
           agent ask n1 Bash {"command":"ls"}
           decide 1 allow_session by anna
           agent sub_ask n2 Bash {"command":"ls"}
           decide 2 allow_once command all by anna
           agent sub_ask n3 Bash {"command":"ls"}"#,
        "request 1 permission Bash
         request 1 allowed for the session by anna granting g1 the command `ls` (Bash); tell n1 allowed for the session
         request 2 permission Bash
         request 2 allowed once by anna granting g2 the command `ls` (Bash); tell n2 allowed once
         request 3 permission Bash; request 3 allowed once by grant g2; tell n3 allowed once",
    );
}

#[test]
fn a_grant_beyond_the_session_is_on_record_and_not_the_session_s() {
    check(
        r#"given working
           agent ask n1 Bash {"command":"npm test"}
           decide 1 allow_once nonsense by anna
           decide 1 deny prefix by anna
           decide 1 allow_once prefix.project by anna
           agent ask n2 Bash {"command":"npm test"}"#,
        r#"request 1 permission Bash
           refused OBEY-1001: grant: "nonsense" is not offered for this request; there is command, prefix, prefix.project
           refused OBEY-1001: grant: only an allowance can be remembered; see `obey grants add --deny`
           request 1 allowed once by anna granting g1 commands that begin with `npm test` (Bash); tell n1 allowed once
           request 2 permission Bash"#,
    );
}

#[test]
fn what_a_rule_denies_no_grant_allows() {
    check(
        r#"given working
           grant Bash by anna
           judged deny n1 Bash {"command":"rm x"}
           forbid Bash(rm *) by anna
           grant Bash(rm x) by anna
           judged allow n2 Bash {"command":"rm x"}"#,
        r#"grants_changed {"by":"anna","grants":[{"id":"g1","is_pattern":true,"tool":"Bash"}]}
           request 1 permission Bash; request 1 denied by rule x; tell n1 denied
           grants_changed {"by":"anna","grants":[{"id":"g1","is_pattern":true,"tool":"Bash"},{"denied":true,"id":"g2","is_pattern":true,"tool":"Bash(rm *)"}]}
           grants_changed {"by":"anna","grants":[{"id":"g1","is_pattern":true,"tool":"Bash"},{"denied":true,"id":"g2","is_pattern":true,"tool":"Bash(rm *)"},{"id":"g3","is_pattern":true,"tool":"Bash(rm x)"}]}
           request 2 permission Bash; request 2 denied by grant g2; tell n2 denied"#,
    );
}

#[test]
fn in_plan_mode_what_was_allowed_before_is_asked_again() {
    check(
        r#"given working
           grant Bash by anna
           mode plan
           judged allow n1 Bash {"command":"touch x"}
           judged allow n2 Read {"file_path":"x"}"#,
        r#"grants_changed {"by":"anna","grants":[{"id":"g1","is_pattern":true,"tool":"Bash"}]}
           mode_changed {"mode":"plan"}; tell mode plan
           request 1 permission Bash
           request 2 permission Read; request 2 allowed once by rule x; tell n2 allowed once"#,
    );
}

#[test]
fn in_plan_mode_no_client_runs_a_tool_that_acts() {
    check(
        "given working
         tools arm lift? look
         mode plan
         agent client_tool n1 lift
         call c2 lift
         agent client_tool n3 look",
        r#"tools_registered {"source":"arm","tools":[{"asks":true,"description":"","exclusive":false,"input_schema":{},"name":"lift"},{"description":"","exclusive":false,"input_schema":{},"name":"look"}]}; tell tools lift look
         mode_changed {"mode":"plan"}; tell mode plan
         request 1 client tool lift; request 1 failed by mode plan; tell n1 failed "plan mode: observation only"
         request 2 client tool lift; request 2 failed by mode plan
         request 3 client tool look; arm tool 120s"#,
    );
}

#[test]
fn a_grant_outlives_the_turn_and_a_restart() {
    check(
        r#"given working
           judged unsaid n1 Edit {"file_path":"a"}
           decide 1 allow_session by anna
           agent done
           restart
           exit 0
           agent ready
           judged unsaid n2 Edit {"file_path":"a"}"#,
        "request 1 permission Edit
         request 1 allowed for the session by anna granting g1 Edit of the file `a`; tell n1 allowed for the session
         disarm interrupt; turn 1 completed; WORKING→RUNNING
         disarm start; disarm deadline; RUNNING→STOPPING; ask to leave; arm ask 1.3s
         disarm all; agent exited 0; STOPPING→STOPPED; restarted 1; STOPPED→STARTING; launch and resume
         ; arm start 60s
         disarm start; agent ready; STARTING→RUNNING
         request 2 permission Edit; request 2 allowed once by grant g1; tell n2 allowed once",
    );
}

#[test]
fn the_session_s_own_refusals_win_and_what_is_cleared_is_forgotten() {
    check(
        r#"given working
           grant Bash(git *) by anna
           judged ask n1 Bash {"command":"git log"}
           judged deny n2 Bash {"command":"git log"}
           forbid Bash(git push *) by ben
           judged allow n3 Bash {"command":"git push"}
           judged allow n4 Bash {"command":"git push -f"}
           clear g1 by anna
           judged ask n5 Bash {"command":"git log"}
           clear all by anna
           clear all by anna"#,
        r#"grants_changed {"by":"anna","grants":[{"id":"g1","is_pattern":true,"tool":"Bash(git *)"}]}
           request 1 permission Bash; request 1 allowed once by grant g1; tell n1 allowed once
           request 2 permission Bash; request 2 denied by rule x; tell n2 denied
           grants_changed {"by":"ben","grants":[{"id":"g1","is_pattern":true,"tool":"Bash(git *)"},{"denied":true,"id":"g2","is_pattern":true,"tool":"Bash(git push *)"}]}
           request 3 permission Bash; request 3 allowed once by grant g1; tell n3 allowed once
           request 4 permission Bash; request 4 denied by grant g2; tell n4 denied
           grants_changed {"by":"anna","grants":[{"denied":true,"id":"g2","is_pattern":true,"tool":"Bash(git push *)"}]}
           request 5 permission Bash
           grants_changed {"by":"anna","grants":[]}
           nothing"#,
    );
}
