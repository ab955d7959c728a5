//! The meaning of typed lines for permissions and questions.

use serde_json::json;

use super::*;

fn permission(id: &str) -> OpenRequest {
    let proposal = |id: &str| Proposal { id: id.to_owned(), text: format!("{id}, in this session") };
    let what = RequestContent::Permission {
        tool: "Bash".to_owned(),
        input: json!({"command": "rm x"}),
        title: String::new(),
        proposals: vec![proposal("command"), proposal("prefix"), proposal("prefix.project")],
    };
    OpenRequest { id: id.to_owned(), what }
}

fn colour() -> Question {
    let option = |label: &str| QuestionOption { label: label.to_owned(), description: String::new() };
    Question {
        id: "q_colour".to_owned(),
        header: "Colour".to_owned(),
        text: "Which colour?".to_owned(),
        options: vec![option("Red"), option("Green"), option("7")],
        multi_select: false,
    }
}

fn size() -> Question {
    Question { id: "q_size".to_owned(), text: "How large?".to_owned(), ..Question::default() }
}

fn asking(open: OpenRequest) -> RequestPrompts {
    let mut asking = RequestPrompts::default();
    assert!(asking.add(open));
    asking
}

#[test]
fn a_permission_is_decided_with_one_letter() {
    for (line, decision, message, grant) in [
        ("y", Decision::AllowOnce, "", ""),
        (" YES ", Decision::AllowOnce, "", ""),
        ("a", Decision::AllowSession, "", ""),
        ("2", Decision::AllowOnce, "", "prefix"),
        ("3", Decision::AllowOnce, "", "prefix.project"),
        ("n", Decision::Deny, "", ""),
        ("n use git mv", Decision::Deny, "use git mv", ""),
        ("s enough", Decision::DenyAndStop, "enough", ""),
    ] {
        let reply = asking(permission("req_1")).take(line).unwrap();
        let (message, grant) = (message.to_owned(), grant.to_owned());
        let expected = TypedReply::Decide { request: "req_1".to_owned(), decision, message, grant };
        assert_eq!(reply, expected, "{line}");
    }
}

#[test]
fn what_would_be_remembered_is_said_before_it_is_allowed() {
    let (lines, prompt) = asking(permission("req_1")).prompt().unwrap();
    assert_eq!(
        lines[1..],
        [
            "  [a] allow command, in this session",
            "  [2] allow prefix, in this session",
            "  [3] allow prefix.project, in this session",
        ]
    );
    assert!(!prompt.contains("whole session"), "{prompt}");
    let mut plain = permission("req_2");
    if let RequestContent::Permission { proposals, .. } = &mut plain.what {
        proposals.clear();
    }
    assert!(matches!(asking(plain).take("a"), Some(TypedReply::Show(_))), "there is nothing to remember");
}

#[test]
fn nothing_else_allows_anything() {
    for line in ["", "yep", "y please", "always do it", "1", "4", "2 please", "ok"] {
        let reply = asking(permission("req_1")).take(line).unwrap();
        assert!(matches!(reply, TypedReply::Show(_)), "{line}: {reply:?}");
    }
}

#[test]
fn the_input_is_shown_on_demand() {
    let mut asking = asking(permission("req_1"));
    assert_eq!(asking.take("?"), Some(TypedReply::ShowInput));
    let lines = asking.current().unwrap().detail(80, true);
    let lines: Vec<&str> = lines.iter().map(|line| line[0].1.as_str()).collect();
    assert_eq!(lines, ["  {", "    \"command\": \"rm x\"", "  }"]);
}

#[test]
fn an_input_is_edited_as_what_it_is() {
    let mut asking = asking(permission("req_1"));
    assert_eq!(asking.take("e"), Some(TypedReply::Edit { request: "req_1".to_owned() }));
    let open = asking.current().unwrap();
    assert_eq!(open.editable(), Some(("rm x".to_owned(), ".sh")));
    assert_eq!(open.edited("ls x\n").unwrap(), r#"{"command":"ls x"}"#);
    let other = OpenRequest {
        id: "req_2".to_owned(),
        what: RequestContent::Permission {
            tool: "Edit".to_owned(),
            input: serde_json::json!({"file_path": "a"}),
            title: String::new(),
            proposals: Vec::new(),
        },
    };
    assert!(other.editable().unwrap().0.contains("file_path"));
    assert!(other.edited("not json").is_err() && other.edited("[1]").is_err());
    assert_eq!(other.edited("{\"file_path\": \"b\"}").unwrap(), r#"{"file_path":"b"}"#);
}

#[test]
fn questions_are_asked_one_after_the_other() {
    let mut asking = asking(OpenRequest {
        id: "req_2".to_owned(),
        what: RequestContent::Questions(vec![colour(), size()]),
    });
    let (lines, _) = asking.prompt().unwrap();
    assert_eq!(lines, ["? Colour Which colour?", "  1. Red", "  2. Green", "  3. 7"]);
    assert_eq!(asking.take("2"), Some(TypedReply::Next));
    assert_eq!(asking.prompt().unwrap().0, ["? How large?"]);
    assert!(matches!(asking.take(""), Some(TypedReply::Show(_))));
    let Some(TypedReply::Answer { request, answers }) = asking.take("very") else { panic!("no answer") };
    assert_eq!(request, "req_2");
    assert_eq!(answers["q_colour"], "Green");
    assert_eq!(answers["q_size"], "very");
}

#[test]
fn options_are_chosen_by_label_before_number() {
    assert_eq!(choose(&colour(), "green"), "Green");
    assert_eq!(choose(&colour(), "1"), "Red");
    assert_eq!(choose(&colour(), "7"), "7");
    assert_eq!(choose(&colour(), "0"), "0");
    assert_eq!(choose(&colour(), "Blue"), "Blue");
    let several = Question { multi_select: true, ..colour() };
    assert_eq!(choose(&several, "1, green"), "Red, Green");
    assert_eq!(choose(&several, "1, blue"), "1, blue");
}

#[test]
fn a_request_settled_elsewhere_leaves_the_queue() {
    let mut asking = asking(permission("req_1"));
    assert!(!asking.add(permission("req_2")), "the first is still being asked about");
    assert!(!asking.add(permission("req_1")), "known already");
    assert!(!asking.remove("req_2"));
    assert!(asking.remove("req_1"));
    assert!(asking.current().is_none());
}

#[test]
fn answers_of_the_command_line_are_matched_to_questions() {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let one = [colour()];
    assert_eq!(read_answers(&one, &words(&["2"])).unwrap()["q_colour"], "Green");
    assert_eq!(read_answers(&one, &words(&["a=b"])).unwrap()["q_colour"], "a=b");
    let two = [colour(), size()];
    let both = read_answers(&two, &words(&["colour=1", "2=x=y"])).unwrap();
    assert_eq!((both["q_colour"].as_str(), both["q_size"].as_str()), ("Red", "x=y"));
    assert!(read_answers(&two, &words(&["colour=1"])).unwrap_err().contains("question 2"));
    assert!(read_answers(&two, &words(&["Red"])).unwrap_err().contains("QUESTION=ANSWER"));
}

#[test]
fn the_commands_that_answer_are_complete() {
    assert_eq!(
        permission("req_1").commands("sess_9"),
        ["obey session approve sess_9 req_1", "obey session deny sess_9 req_1"]
    );
    let both =
        OpenRequest { id: "req_2".to_owned(), what: RequestContent::Questions(vec![colour(), size()]) };
    assert_eq!(both.commands("sess_9"), ["obey session answer sess_9 req_2 1=ANSWER 2=ANSWER"]);
}

#[test]
fn a_command_cannot_pretend_to_be_the_prompt() {
    let input = json!({"command": format!("true\n  [y] once > y\n{}", "x".repeat(500))});
    let what = RequestContent::Permission {
        tool: "Bash".to_owned(),
        input,
        title: String::new(),
        proposals: Vec::new(),
    };
    let (lines, _) = asking(OpenRequest { id: "req_1".to_owned(), what }).prompt().unwrap();
    assert_eq!(lines.len(), 1);
    assert!(!lines[0].contains('\n') && lines[0].ends_with("… (type ? to see all of it)"), "{lines:?}");
}

#[test]
fn a_request_is_listed_by_what_it_runs_and_not_by_the_title_of_its_agent() {
    let request = pb::Request {
        tool_name: "Bash".to_owned(),
        title: "All fine".to_owned(),
        input_json: r#"{"command":"rm -rf ~"}"#.to_owned(),
        ..Default::default()
    };
    let summary = OpenRequest::of_request(&request).summary();
    assert!(summary.contains("rm -rf ~"), "{summary}");
}
