//! The rows of requests, and the words of their ends.

use domain::permission::{PermissionAdvice, Proposal};
use domain::request::{Question, RequestOutcome, RequestSubject};
use serde_json::Value;

use crate::call::call_text;
use crate::change::file_changes;
use crate::row::{OptionRow, ProposalRow, QuestionRow, RequestRow};
use crate::text;

/// Returns the row of an open request that is known from elsewhere than the journal.
pub fn request_row(
    request: &str,
    subject: &RequestSubject,
    proposals: &[Proposal],
    advice: &PermissionAdvice,
) -> RequestRow {
    opened(request.to_owned(), subject, proposals, advice)
}

/// Returns the row of a request that was opened.
pub(crate) fn opened(
    request: String,
    subject: &RequestSubject,
    proposals: &[Proposal],
    advice: &PermissionAdvice,
) -> RequestRow {
    let mut row = RequestRow {
        request,
        subject: "permission",
        call: None,
        tool: String::new(),
        text: String::new(),
        input: Value::Null,
        files: Vec::new(),
        questions: Vec::new(),
        proposals: proposals.iter().map(proposal_row).collect(),
        destructive: advice.destructive.clone(),
        not_covered: advice.not_covered.clone(),
        open: true,
        outcome: String::new(),
        by: String::new(),
        message: String::new(),
        settled_at: None,
    };
    match subject {
        RequestSubject::Permission(permission) => {
            row.call = permission.call.as_ref().map(ToString::to_string);
            row.tool.clone_from(&permission.tool);
            row.text = call_text(&permission.tool, &permission.input, &permission.title);
            row.files = file_changes(&permission.tool, &permission.input);
            row.input = permission.input.clone();
        }
        RequestSubject::Question { questions, call } => {
            row.subject = "question";
            row.call = call.as_ref().map(ToString::to_string);
            let texts: Vec<String> =
                questions.iter().map(|question| text::one_line(&question.text)).collect();
            row.text = texts.join(" / ");
            row.questions = questions.iter().map(question_row).collect();
        }
        RequestSubject::ClientTool { call, tool, input } => {
            row.subject = "client_tool";
            row.call = Some(call.to_string());
            row.tool.clone_from(tool);
            row.text = call_text(tool, input, "");
            row.input = input.clone();
        }
    }
    row
}

/// Returns the sub-agent's call that a request belongs to.
pub(crate) fn parent(subject: &RequestSubject) -> Option<String> {
    match subject {
        RequestSubject::Permission(permission) => permission.parent.as_ref().map(ToString::to_string),
        RequestSubject::Question { .. } | RequestSubject::ClientTool { .. } => None,
    }
}

/// Returns how a request ended, in words: the answers to questions, or the decision.
pub(crate) fn outcome_text(outcome: &RequestOutcome) -> String {
    match outcome {
        RequestOutcome::Answered { answers } => {
            let all: Vec<&str> = answers.values().map(String::as_str).collect();
            if all.is_empty() { outcome.word().to_owned() } else { format!("answered: {}", all.join(", ")) }
        }
        RequestOutcome::Withdrawn { reason } if !reason.is_empty() => format!("withdrawn: {reason}"),
        _ => outcome.word().to_owned(),
    }
}

/// Returns how a call was permitted, for the call's own row.
pub(crate) fn permission_text(outcome: &str, by: &str) -> String {
    if by.is_empty() { outcome.to_owned() } else { format!("{outcome} by {by}") }
}

fn proposal_row(proposal: &Proposal) -> ProposalRow {
    ProposalRow { id: proposal.id.clone(), text: proposal.text.clone() }
}

fn question_row(question: &Question) -> QuestionRow {
    let option = |option: &domain::request::QuestionOption| OptionRow {
        label: option.label.clone(),
        description: option.description.clone(),
    };
    QuestionRow {
        id: question.id.clone(),
        header: question.header.clone(),
        text: question.text.clone(),
        options: question.options.iter().map(option).collect(),
        multi_select: question.multi_select,
    }
}
