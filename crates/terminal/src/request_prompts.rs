//! Asks a person about an agent's requests: the displayed text, and the meaning of a typed line. Pure: the
//! caller prints and sends.

use std::collections::{BTreeMap, VecDeque};

use domain::Decision;
use domain::permission::Proposal;
use domain::request::{Question, QuestionOption, RequestSubject};
use serde_json::Value;
use wire::obey::v1 as pb;

use crate::markdown::StyledLine;
use crate::request_detail;
use client::format;

/// Longest summary of a request; people do not read more.
const SUMMARY_MAX_CHARS: usize = 400;

/// A pending request.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenRequest {
    pub id: String,
    pub what: RequestContent,
}

/// The content of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestContent {
    Permission { tool: String, input: Value, title: String, proposals: Vec<Proposal> },
    Questions(Vec<Question>),
}

impl OpenRequest {
    /// Converts a request of an event; `None` for requests a person cannot answer.
    pub fn of_event(id: String, ask: &RequestSubject, proposals: &[Proposal]) -> Option<Self> {
        let what = match ask {
            RequestSubject::Permission(ask) => RequestContent::Permission {
                tool: ask.tool.clone(),
                input: ask.input.clone(),
                title: ask.title.clone(),
                proposals: proposals.to_vec(),
            },
            RequestSubject::Question { questions, .. } => RequestContent::Questions(questions.clone()),
            RequestSubject::ClientTool { .. } => return None,
        };
        Some(Self { id, what })
    }

    /// Converts a request of the daemon's list.
    pub fn of_request(request: &pb::Request) -> Self {
        let what = if request.kind == pb::RequestKind::Question as i32 {
            RequestContent::Questions(request.questions.iter().map(question).collect())
        } else {
            RequestContent::Permission {
                tool: request.tool_name.clone(),
                input: serde_json::from_str(&request.input_json).unwrap_or(Value::Null),
                title: request.title.clone(),
                proposals: request.proposals.iter().map(proposal).collect(),
            }
        };
        Self { id: request.id.clone(), what }
    }

    /// Returns what it is about, as far as that is more than its summary: the diff, the command, the plan.
    pub fn detail(&self, width: usize, all: bool) -> Vec<StyledLine> {
        match &self.what {
            RequestContent::Permission { tool, input, .. } => request_detail::lines(tool, input, width, all),
            RequestContent::Questions(_) => Vec::new(),
        }
    }

    /// Returns the text that a person edits to change the input, and its kind: the command alone, or all of it.
    pub fn editable(&self) -> Option<(String, &'static str)> {
        let RequestContent::Permission { input, .. } = &self.what else { return None };
        match input.get("command") {
            Some(Value::String(command)) => Some((command.clone(), ".sh")),
            _ => Some((serde_json::to_string_pretty(input).ok()?, ".json")),
        }
    }

    /// Returns the input that a person made of `editable`.
    pub fn edited(&self, text: &str) -> Result<String, String> {
        let RequestContent::Permission { input, .. } = &self.what else {
            return Err("it has no input".to_owned());
        };
        let edited = match input.get("command") {
            Some(Value::String(_)) => {
                let mut edited = input.clone();
                edited["command"] = Value::from(text.trim_end_matches('\n'));
                edited
            }
            _ => serde_json::from_str(text).map_err(|error| format!("it is not JSON any more: {error}"))?,
        };
        if !edited.is_object() {
            return Err("it must stay a JSON object".to_owned());
        }
        Ok(edited.to_string())
    }

    /// Returns a one-line summary.
    pub fn summary(&self) -> String {
        match &self.what {
            RequestContent::Permission { tool, input, title, .. } => {
                let text = view::call_text(tool, input, title);
                // The title is the agent's own word; the command is what is run.
                match request_detail::command_of(input).filter(|command| !text.contains(command.as_str())) {
                    Some(command) => format!("{} asks for permission: {text}: {command}", self.id),
                    None => format!("{} asks for permission: {text}", self.id),
                }
            }
            RequestContent::Questions(questions) => {
                let texts: Vec<&str> = questions.iter().map(|question| question.text.as_str()).collect();
                format!("{} asks: {}", self.id, texts.join(" / "))
            }
        }
    }

    /// Returns the commands that answer it from another terminal.
    pub fn commands(&self, session: &str) -> Vec<String> {
        let id = &self.id;
        match &self.what {
            RequestContent::Permission { .. } => {
                vec![
                    format!("obey session approve {session} {id}"),
                    format!("obey session deny {session} {id}"),
                ]
            }
            RequestContent::Questions(questions) if questions.len() > 1 => {
                let pairs: Vec<String> =
                    (1..=questions.len()).map(|number| format!("{number}=ANSWER")).collect();
                vec![format!("obey session answer {session} {id} {}", pairs.join(" "))]
            }
            RequestContent::Questions(_) => vec![format!("obey session answer {session} {id} ANSWER")],
        }
    }
}

fn proposal(proposal: &pb::GrantProposal) -> Proposal {
    Proposal { id: proposal.id.clone(), text: proposal.text.clone() }
}

fn question(question: &pb::Question) -> Question {
    let option = |option: &pb::QuestionOption| QuestionOption {
        label: option.label.clone(),
        description: option.description.clone(),
    };
    Question {
        id: question.id.clone(),
        header: question.header.clone(),
        text: question.text.clone(),
        options: question.options.iter().map(option).collect(),
        multi_select: question.multi_select,
    }
}

/// The meaning of a typed line.
#[derive(Clone, Debug, PartialEq)]
pub enum TypedReply {
    Decide {
        request: String,
        decision: Decision,
        message: String,
        /// The chosen proposal; empty: the decision's default.
        grant: String,
    },
    Answer {
        request: String,
        answers: BTreeMap<String, String>,
    },
    /// Show these lines, then ask again.
    Show(Vec<String>),
    /// Show the input of the request, all of it.
    ShowInput,
    /// Let the person edit the input, then allow it with what they made of it.
    Edit {
        request: String,
    },
    /// Continue with the next question of the same request.
    Next,
}

/// The pending requests; the first one is being asked about.
#[derive(Debug, Default)]
pub struct RequestPrompts {
    queue: VecDeque<OpenRequest>,
    /// The answers so far to the questions of the first request.
    answers: Vec<(String, String)>,
}

impl RequestPrompts {
    /// Adds a request unless it is already pending. Returns whether it is the one to ask about now.
    pub fn add(&mut self, open: OpenRequest) -> bool {
        if self.queue.iter().any(|waiting| waiting.id == open.id) {
            return false;
        }
        self.queue.push_back(open);
        self.queue.len() == 1
    }

    /// Removes a settled request. Returns whether it was the one being asked about.
    pub fn remove(&mut self, id: &str) -> bool {
        let first = self.queue.front().is_some_and(|open| open.id == id);
        self.queue.retain(|open| open.id != id);
        if first {
            self.answers.clear();
        }
        first
    }

    /// Returns the request being asked about.
    pub fn current(&self) -> Option<&OpenRequest> {
        self.queue.front()
    }

    /// Returns every pending request.
    pub fn all(&self) -> impl Iterator<Item = &OpenRequest> {
        self.queue.iter()
    }

    /// Returns the lines that describe the request, and the prompt.
    pub fn prompt(&self) -> Option<(Vec<String>, String)> {
        let open = self.queue.front()?;
        match &open.what {
            RequestContent::Permission { proposals, .. } => {
                let mut lines = vec![format!("? {}", brief(&open.summary()))];
                lines.extend(proposals.iter().enumerate().map(|(at, proposal)| {
                    format!("  [{}] allow {}", letter(at), format::one_line(&proposal.text))
                }));
                let remembered = match proposals.len() {
                    0 => String::new(),
                    1 => "  [a] as above".to_owned(),
                    2 => "  [a], [2] as above".to_owned(),
                    several => format!("  [a], [2]…[{several}] as above"),
                };
                let prompt = format!(
                    "  [y] once{remembered}  [n] deny  [s] deny and stop  [e] edit  [?] show input > "
                );
                Some((lines, prompt))
            }
            RequestContent::Questions(questions) => {
                let question = questions.get(self.answers.len())?;
                let mut lines = vec![format!("? {} {}", question.header, question.text).replace("  ", " ")];
                for (number, option) in (1..).zip(&question.options) {
                    let about = if option.description.is_empty() {
                        String::new()
                    } else {
                        format!(" ({})", option.description)
                    };
                    lines.push(format!("  {number}. {}{about}", option.label));
                }
                let prompt = match (question.options.is_empty(), question.multi_select) {
                    (true, _) => "  answer > ",
                    (false, true) => "  numbers with commas, or your own answer > ",
                    (false, false) => "  number, or your own answer > ",
                };
                Some((lines, prompt.to_owned()))
            }
        }
    }

    /// Parses a typed line as the answer to the current request.
    pub fn take(&mut self, line: &str) -> Option<TypedReply> {
        let open = self.queue.front()?;
        match &open.what {
            RequestContent::Permission { proposals, .. } => Some(permission_reply(open, proposals, line)),
            RequestContent::Questions(questions) => {
                let question = questions.get(self.answers.len())?;
                if line.trim().is_empty() {
                    return Some(TypedReply::Show(vec!["  an answer is needed".to_owned()]));
                }
                self.answers.push((key(question).to_owned(), choose(question, line)));
                if self.answers.len() < questions.len() {
                    return Some(TypedReply::Next);
                }
                Some(TypedReply::Answer {
                    request: open.id.clone(),
                    answers: self.answers.drain(..).collect(),
                })
            }
        }
    }
}

/// Returns the key to type for a proposal.
fn letter(at: usize) -> String {
    if at == 0 { "a".to_owned() } else { (at + 1).to_string() }
}

/// Parses a typed answer to a permission request.
fn permission_reply(open: &OpenRequest, proposals: &[Proposal], line: &str) -> TypedReply {
    let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let word = word.to_lowercase();
    let chosen = (1..proposals.len()).find(|at| letter(*at) == word);
    let grant = chosen.map(|at| proposals[at].id.clone()).unwrap_or_default();
    let decision = match word.as_str() {
        "y" | "yes" => Decision::AllowOnce,
        _ if chosen.is_some() => Decision::AllowOnce,
        "a" | "always" if proposals.is_empty() => {
            return TypedReply::Show(vec!["  this can only be allowed once: type y, n, s or ?".to_owned()]);
        }
        "a" | "always" => Decision::AllowSession,
        "n" | "no" => Decision::Deny,
        "s" | "stop" => Decision::DenyAndStop,
        "?" => return TypedReply::ShowInput,
        "e" | "edit" => return TypedReply::Edit { request: open.id.clone() },
        _ => {
            return TypedReply::Show(vec![
                "  type y, a, n, s, e, ? or a number shown above; n and s may be followed by a reason"
                    .to_owned(),
            ]);
        }
    };
    // An approval followed by words is probably a message to the agent typed here by mistake.
    if decision.allows() && !rest.is_empty() {
        return TypedReply::Show(vec!["  to allow it, type y or a alone".to_owned()]);
    }
    TypedReply::Decide { request: open.id.clone(), decision, message: rest.trim().to_owned(), grant }
}

/// Puts text on one line, so that no part of a command can look like our prompt, and marks where it was cut.
fn brief(text: &str) -> String {
    let line = format::one_line(text);
    match line.char_indices().nth(SUMMARY_MAX_CHARS) {
        Some((at, _)) => format!("{}… (type ? to see all of it)", &line[..at]),
        None => line,
    }
}

/// Returns the key of a question's answer.
fn key(question: &Question) -> &str {
    if question.id.is_empty() { &question.text } else { &question.id }
}

/// Converts input to an answer: numbers and labels select options, other text is taken literally.
pub fn choose(question: &Question, typed: &str) -> String {
    let typed = typed.trim();
    let pick = |word: &str| {
        let word = word.trim();
        let by_label = question.options.iter().find(|option| option.label.eq_ignore_ascii_case(word));
        let by_number =
            word.parse::<usize>().ok().and_then(|number| question.options.get(number.checked_sub(1)?));
        by_label.or(by_number).map(|option| option.label.clone())
    };
    if question.multi_select
        && let Some(labels) = typed.split(',').map(pick).collect::<Option<Vec<_>>>()
    {
        return labels.join(", ");
    }
    pick(typed).unwrap_or_else(|| typed.to_owned())
}

/// Parses the answers of the command line: one plain answer, or `QUESTION=ANSWER` for each. A question is
/// named by its number, id, heading or text.
pub fn read_answers(questions: &[Question], words: &[String]) -> Result<BTreeMap<String, String>, String> {
    let mut answers = BTreeMap::new();
    for word in words {
        match (named(questions, word), questions) {
            (Some((question, value)), _) => answers.insert(key(question).to_owned(), choose(question, value)),
            (None, [question]) if words.len() == 1 => {
                answers.insert(key(question).to_owned(), choose(question, word))
            }
            (None, _) => return Err(format!("{word:?} names none of the questions; write QUESTION=ANSWER")),
        };
    }
    match questions.iter().position(|question| !answers.contains_key(key(question))) {
        None => Ok(answers),
        Some(missing) => Err(format!(
            "question {} has no answer: {}",
            missing + 1,
            format::one_line(&questions[missing].text)
        )),
    }
}

/// Splits `QUESTION=ANSWER`; the question is given by id, header, text or number.
fn named<'a>(questions: &'a [Question], word: &'a str) -> Option<(&'a Question, &'a str)> {
    let (name, value) = word.split_once('=')?;
    let by_number = name.parse::<usize>().ok().and_then(|number| questions.get(number.checked_sub(1)?));
    let by_name = questions.iter().find(|question| {
        [&question.id, &question.header, &question.text]
            .into_iter()
            .any(|known| known.eq_ignore_ascii_case(name))
    });
    by_name.or(by_number).map(|question| (question, value))
}

#[cfg(test)]
mod tests;
