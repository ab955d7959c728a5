//! Valid and invalid messages of clients.

use domain::request::{Question, QuestionOption};
use prost_types::Struct;

use super::*;

fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().message
}

fn with(metadata: &[(&str, &str)]) -> pb::StartConversation {
    let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    pb::StartConversation { metadata, ..pb::StartConversation::default() }
}

#[test]
fn a_start_is_read_with_its_metadata() {
    let read = start(with(&[
        ("provider", "scripted"),
        ("name", "scout"),
        ("client_id", "phone"),
        ("from_sequence", "7"),
        ("ticket", "X-1"),
    ]))
    .unwrap();
    assert_eq!((read.provider, read.name.as_str()), (ProviderKind::Scripted, "scout"));
    assert_eq!((read.client.as_deref(), read.from_sequence), (Some("phone"), 7));
    assert_eq!(read.metadata, BTreeMap::from([("ticket".to_owned(), "X-1".to_owned())]));
    let plain = start(pb::StartConversation::default()).unwrap();
    assert_eq!((plain.session, plain.provider), (None, ProviderKind::ClaudeCode));
}

#[test]
fn a_bad_start_names_its_field() {
    assert!(refused(start(with(&[("provider", "hal")]))).starts_with("metadata.provider: "));
    assert!(refused(start(with(&[("from_sequence", "-1")]))).starts_with("metadata.from_sequence: "));
    assert!(refused(start(with(&[("client_id", "a\nb")]))).starts_with("client_id: "));
    let long = "x".repeat(limits::METADATA_MAX_BYTES + 1);
    assert!(refused(start(with(&[("note", &long)]))).contains("4096 bytes"));
    let tools = vec!["Bash(git *".to_owned()];
    let bad = pb::StartConversation { allowed_tools: tools, ..Default::default() };
    assert!(refused(start(bad)).starts_with("allowed_tools: "));
    let tools = vec!["Read".to_owned(); limits::ALLOWED_TOOLS_MAX + 1];
    let many = pb::StartConversation { allowed_tools: tools, ..Default::default() };
    assert!(refused(start(many)).contains("200 entries"));
}

fn message(content: &str, files: &[(&str, &str, usize)]) -> pb::UserMessage {
    let file = |(name, kind, size): &(&str, &str, usize)| pb::Attachment {
        filename: (*name).to_owned(),
        mime_type: (*kind).to_owned(),
        data: vec![0; *size],
    };
    pb::UserMessage {
        content: content.to_owned(),
        attachments: files.iter().map(file).collect(),
        agent_id: String::new(),
    }
}

#[test]
fn a_message_needs_words_or_files() {
    assert!(refused(prompt(message(" ", &[]), "me")).starts_with("message.content: "));
    let Command::Prompt { attachments, by, .. } =
        prompt(message("", &[("a.png", "image/png", 3)]), "me").unwrap()
    else {
        panic!("no prompt")
    };
    assert_eq!((attachments[0].content.as_str(), by.as_str()), ("AAAA", "me"));
}

#[test]
fn large_attachments_are_refused_with_their_limit() {
    let huge =
        message("look", &[("a", "image/png", surface::limits::ATTACHMENTS_MAX_BYTES), ("b", "image/png", 1)]);
    let error = prompt(huge, "me").unwrap_err();
    assert_eq!(error.code, ErrorCode::LimitReached);
    assert_eq!(error.message, "message.attachments: 10485761 bytes; the limit is 10485760");
    let many: Vec<(&str, &str, usize)> = vec![("a", "image/png", 0); surface::limits::ATTACHMENTS_MAX + 1];
    assert!(refused(prompt(message("look", &many), "me")).contains("65 files; the limit is 64"));
    assert!(refused(prompt(message("x", &[("a", "png", 1)]), "me")).contains("attachments[0].mime_type"));
    assert!(refused(prompt(message("x", &[("a\0", "a/b", 1)]), "me")).contains("attachments[0].filename"));
}

fn response(decision: i32, input: Option<Struct>) -> pb::PermissionResponse {
    let request_id = "req_3".to_owned();
    pb::PermissionResponse { request_id, decision, updated_input: input, message: "so".to_owned() }
}

#[test]
fn every_decision_is_read_and_an_unknown_one_denies() {
    for (number, expected) in [
        (0, Decision::Deny),
        (1, Decision::AllowOnce),
        (2, Decision::AllowSession),
        (3, Decision::Deny),
        (5, Decision::Deny),
        (6, Decision::DenyAndStop),
        (99, Decision::Deny),
    ] {
        let (request, command) = decision(response(number, None), "me").unwrap();
        let Command::Decide { decision, .. } = command else { panic!("no decision") };
        assert_eq!((request, decision), (RequestId(3), expected), "{number}");
    }
    assert!(refused(decision(response(4, None), "me")).starts_with("permission.updated_input: "));
    let edit = structs::from_json(&serde_json::json!({"command": "ls"}));
    let (_, command) = decision(response(4, Some(edit.clone())), "me").unwrap();
    let Command::Decide { decision: decided, updated_input, .. } = command else { panic!("no decision") };
    assert_eq!((decided, updated_input), (Decision::AllowOnce, Some(serde_json::json!({"command": "ls"}))));
    let (_, command) = decision(response(3, Some(edit)), "me").unwrap();
    assert!(matches!(command, Command::Decide { updated_input: None, .. }), "a denial changes nothing");
    let nameless = pb::PermissionResponse::default();
    assert!(refused(decision(nameless, "me")).starts_with("permission.request_id: "));
}

fn question(text: &str, options: &[&str]) -> Question {
    let option = |label: &&str| QuestionOption { label: (*label).to_owned(), description: String::new() };
    Question {
        id: format!("id-{text}"),
        text: text.to_owned(),
        options: options.iter().map(option).collect(),
        ..Question::default()
    }
}

fn answered(ask: &RequestSubject, pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let response = pb::UserQuestionResponse {
        question_id: "req_1".to_owned(),
        answers: pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
    };
    let Command::Answer { answers, .. } = answers(response, Some(ask), "me").unwrap().1 else {
        panic!("no answer")
    };
    answers
}

#[test]
fn answers_find_their_questions() {
    let one = RequestSubject::Question { questions: vec![question("Which?", &["A", "B"])], call: None };
    let expected = BTreeMap::from([("Which?".to_owned(), "A".to_owned())]);
    assert_eq!(answered(&one, &[("Which?", "A")]), expected);
    assert_eq!(answered(&one, &[("req_1", "A")]), expected);
    let two = RequestSubject::Question {
        questions: vec![question("Which?", &["A", "B"]), question("When?", &["now", "later"])],
        call: None,
    };
    let both = BTreeMap::from([
        ("Which?".to_owned(), "B".to_owned()),
        ("When?".to_owned(), "now, later".to_owned()),
    ]);
    assert_eq!(answered(&two, &[("Which?\n\nWhen?", "now, B, later")]), both);
    assert_eq!(answered(&two, &[("Which?", "B"), ("When?", "now, later")]), both);
    assert!(refused(answers(pb::UserQuestionResponse::default(), None, "me")).contains("question_id"));
}

#[test]
fn choices_that_several_questions_offer_name_theirs() {
    let questions = vec![question("Tests?", &["Yes", "No"]), question("Docs?", &["Yes", "No", "Yes, later"])];
    let shown = crate::questions::user_question("req_1".to_owned(), &questions);
    let options: Vec<_> = shown.options.iter().map(|o| (o.value.as_str(), o.label.as_str())).collect();
    assert_eq!(options[1], ("1: No", "Tests? No"));
    assert_eq!(options[4], ("2: Yes, later", "Docs? Yes, later"));
    let ask = RequestSubject::Question { questions, call: None };
    let told = |tests: &str, docs: &str| {
        BTreeMap::from([("Tests?".to_owned(), tests.to_owned()), ("Docs?".to_owned(), docs.to_owned())])
    };
    let all = "Tests?\n\nDocs?";
    for (answer, expected) in [
        ("1: No, 2: Yes", told("No", "Yes")),
        ("2: Yes,1: No", told("No", "Yes")),
        ("Docs? Yes, later, Tests? No", told("No", "Yes, later")),
        ("Yes, No", told("Yes", "No")),
        ("Yes, later, No", told("No", "Yes, later")),
        ("1: No, ask me, please", told("No", "ask me, please")),
    ] {
        assert_eq!(answered(&ask, &[(all, answer)]), expected, "{answer}");
    }
    assert_eq!(answered(&ask, &[("Tests?", "1: No"), ("Docs?", "Yes")]), told("No", "Yes"));
    assert_eq!(answered(&ask, &[("Tests?", "a, b"), ("Docs?", "2: Yes")]), told("a, b", "Yes"));
}

#[test]
fn the_size_of_a_page_has_a_default_and_a_limit() {
    assert_eq!(page(0, 3), (50, 3));
    assert_eq!(page(7, 0), (7, 0));
    assert_eq!(page(u32::MAX, 0), (500, 0));
}

#[test]
fn names_are_checked() {
    assert_eq!(name("scout".to_owned()).unwrap(), "scout");
    for wrong in [" ", "a\nb", &"x".repeat(NAME_MAX_CHARS + 1)] {
        assert!(refused(name(wrong.to_owned())).starts_with("name: "));
    }
}
