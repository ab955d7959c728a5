//! Questions of one request as this surface's one message, and the answers to it. Pure. Where a request has several questions,
//! each choice names its own, because a client returns the values of what was chosen and nothing else.

use std::collections::BTreeMap;

use domain::request::{Question, QuestionOption};
use wire::betcode::v1 as pb;

/// The separator between several questions of one request.
const BETWEEN_QUESTIONS: &str = "\n\n";
/// The separator between several choices of one answer.
const BETWEEN_CHOICES: char = ',';

/// Returns the message for all questions of a request: one text, with the choices of all of them.
pub(super) fn user_question(question_id: String, questions: &[Question]) -> pb::UserQuestion {
    let options = questions.iter().enumerate().flat_map(|(at, question)| {
        question.options.iter().map(move |option| pb::QuestionOption {
            value: value(questions, at, option),
            label: label(questions, at, option),
            description: option.description.clone(),
        })
    });
    pb::UserQuestion {
        question_id,
        question: question_text(questions),
        options: options.collect(),
        multi_select: questions.len() > 1 || questions.iter().any(|question| question.multi_select),
        settled: String::new(),
    }
}

/// Returns the joined text of the questions, which is also the key of the answer.
pub(super) fn question_text(questions: &[Question]) -> String {
    let texts: Vec<&str> = questions.iter().map(|question| question.text.as_str()).collect();
    texts.join(BETWEEN_QUESTIONS)
}

/// Returns what a client sends back for a choice. It holds the number of the question where there are several.
fn value(questions: &[Question], at: usize, option: &QuestionOption) -> String {
    match questions.len() {
        1 => option.label.clone(),
        _ => format!("{}: {}", at + 1, option.label),
    }
}

/// Returns what a client shows for a choice.
fn label(questions: &[Question], at: usize, option: &QuestionOption) -> String {
    match questions.len() {
        1 => option.label.clone(),
        _ => format!("{} {}", questions[at].text, option.label),
    }
}

/// Assigns one answer to all questions: each choice to the question it names, else to the first one that offers it and has no
/// answer yet. Other text answers the first question without an answer.
pub(super) fn spread(questions: &[Question], answer: &str, answers: &mut BTreeMap<String, String>) {
    if let [only] = questions {
        answers.insert(only.text.clone(), answer.to_owned());
        return;
    }
    // Free text may hold the separator too: its parts belong together.
    let mut written = None;
    for choice in choices(questions, answer) {
        let is_open = |question: &&Question| question.multi_select || !answers.contains_key(&question.text);
        let offering = || questions.iter().filter(|question| offers(question, choice.text));
        let offered = || offering().find(is_open).or_else(|| offering().next());
        let question = match choice.question {
            Some(named) => questions.get(named),
            None if offering().next().is_some() => offered(),
            None => written.or_else(|| questions.iter().find(is_open)).or_else(|| questions.first()),
        };
        let Some(question) = question else { continue };
        written = (!offers(question, choice.text)).then_some(question);
        let said = answers.entry(question.text.clone()).or_default();
        if !said.is_empty() {
            said.push_str(", ");
        }
        said.push_str(choice.text);
    }
}

/// Returns an answer to one of the questions as its agent knows it: without the numbers that choices have here.
pub(super) fn plain(questions: &[Question], answer: String) -> String {
    let choices = choices(questions, &answer);
    if questions.len() < 2 || choices.iter().all(|choice| choice.question.is_none()) {
        return answer;
    }
    let texts: Vec<&str> = choices.iter().map(|choice| choice.text).collect();
    texts.join(", ")
}

fn offers(question: &Question, text: &str) -> bool {
    question.options.iter().any(|option| option.label == text)
}

/// A part of an answer.
struct Choice<'a> {
    /// The place of the question that it names.
    question: Option<usize>,
    /// What the agent is told.
    text: &'a str,
}

/// Splits an answer into choices. A choice that is offered may hold the separator itself.
fn choices<'a>(questions: &'a [Question], answer: &'a str) -> Vec<Choice<'a>> {
    let mut found = Vec::new();
    let mut rest = answer.trim();
    while !rest.is_empty() {
        let (choice, end) = offered_choice(questions, rest).unwrap_or_else(|| {
            let end = rest.find(BETWEEN_CHOICES).unwrap_or(rest.len());
            (Choice { question: None, text: rest[..end].trim() }, end)
        });
        if !choice.text.is_empty() {
            found.push(choice);
        }
        rest = rest[end..].trim_start().trim_start_matches(BETWEEN_CHOICES).trim_start();
    }
    found
}

/// Returns the longest offered choice that a text begins with, and its length.
fn offered_choice<'a>(questions: &'a [Question], text: &str) -> Option<(Choice<'a>, usize)> {
    let mut longest: Option<(Choice, usize)> = None;
    for (at, question) in questions.iter().enumerate() {
        for option in &question.options {
            let named = [value(questions, at, option), label(questions, at, option)];
            let spellings = named.iter().map(|spelling| (spelling.as_str(), Some(at)));
            for (spelling, named) in spellings.chain([(option.label.as_str(), None)]) {
                let is_whole = text.strip_prefix(spelling).is_some_and(|rest| {
                    let rest = rest.trim_start();
                    rest.is_empty() || rest.starts_with(BETWEEN_CHOICES)
                });
                let is_longer = longest.as_ref().is_none_or(|(_, length)| spelling.len() > *length);
                if is_whole && is_longer && !spelling.is_empty() {
                    longest = Some((Choice { question: named, text: &option.label }, spelling.len()));
                }
            }
        }
    }
    longest
}
