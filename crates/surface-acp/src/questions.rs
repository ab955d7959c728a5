//! Sends requests that wait for a person to the editor: permissions and questions. The first answer, from
//! here or from another client, settles a request; it is then cancelled at the other clients.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::permission::{Choice, Proposal};
use domain::request::{PermissionSubject, Question, RequestSubject};
use domain::{Command, Decision, RequestId};
use serde_json::{Map, Value, json};

use super::client_requests::{PendingClientRequest, Reply};
use super::connection::ConnectionContext;
use super::editor_tools::{self, EditorClient};
use super::feed::AcpFeed;
use super::resume_state::{NoteWriter as _, NotedQuestions};
use super::rpc::RpcId;
use super::session_stream::SessionStreamState;
use crate::limits;

/// A question sent to the client; the id is set once it is on its way.
#[derive(Debug, Default)]
pub(super) struct SentQuestion {
    client_request: Option<RpcId>,
}

type Table = Arc<Mutex<HashMap<RequestId, SentQuestion>>>;

fn locked(table: &Table) -> MutexGuard<'_, HashMap<RequestId, SentQuestion>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AcpFeed {
    /// Sends a request to the client in a separate task, because a person may take long to answer. A question
    /// that a previous daemon already sent is not sent again; only its answer is awaited.
    pub(super) fn ask_client(&mut self, request: RequestId, ask: &RequestSubject, proposals: &[Proposal]) {
        let mut asking = ClientQuestions {
            core: Arc::clone(&self.core),
            shared: Arc::clone(&self.shared),
            table: Arc::clone(&self.asked),
            request,
            known: VecDeque::new(),
            open: None,
            replies: Vec::new(),
            lines: Vec::new(),
        };
        if let Some(trail) = self.trails.remove(&request) {
            asking.open = Some(trail.open);
            asking.known = trail.replies.into();
        }
        let asked = || SentQuestion {
            client_request: asking.open.as_ref().map(|client_request| client_request.id.clone()),
        };
        match ask {
            RequestSubject::Permission(permission) => {
                let call = permission.call.as_ref().map_or_else(|| request.to_string(), ToString::to_string);
                let call =
                    self.projector.asked_call(&call, &permission.tool, &permission.input, &permission.title);
                locked(&self.asked).insert(request, asked());
                let options = options(proposals, self.core.client().names_options);
                tokio::spawn(asking.permission(permission.clone(), call, options));
            }
            RequestSubject::Question { questions, .. } => {
                locked(&self.asked).insert(request, asked());
                tokio::spawn(asking.questions(questions.clone()));
            }
            RequestSubject::ClientTool { tool, input, .. } if editor_tools::is_ours(tool) => {
                locked(&self.asked).insert(request, asked());
                tokio::spawn(asking.client_tool(tool.clone(), input.clone()));
            }
            // Another client registered this tool and executes it.
            RequestSubject::ClientTool { .. } => {}
        }
    }

    /// Called when a request is settled; cancels it in the editor if it is still shown there.
    pub(super) async fn call_off(&self, request: RequestId) {
        let asked = locked(&self.asked).remove(&request);
        if let Some(client_request) = asked.and_then(|asked| asked.client_request) {
            self.core.client_requests.call_off(&client_request).await;
            self.core.out.note(|notes| notes.trail(&self.shared.id, request, None));
        }
    }
}

/// One request and its questions to the client, asked one after the other. After a restart of the daemon the
/// same sequence runs again, with the answers that were given before.
struct ClientQuestions {
    core: Arc<ConnectionContext>,
    shared: Arc<SessionStreamState>,
    table: Table,
    request: RequestId,
    /// The answers that a previous daemon received, and the question that was pending then.
    known: VecDeque<Reply>,
    open: Option<PendingClientRequest>,
    /// The answers received here, and the lines they came in.
    replies: Vec<Reply>,
    lines: Vec<u64>,
}

impl EditorClient for ClientQuestions {
    /// Sends a question and waits for its answer; `None` if the request was settled meanwhile or the client
    /// is gone.
    async fn send_request(&mut self, method: &str, params: &Value) -> Option<Reply> {
        if let Some(reply) = self.known.pop_front() {
            self.replies.push(reply.clone());
            return Some(reply);
        }
        let client_request = match self.open.take() {
            Some(client_request) => client_request,
            None => self.send(method, params).await?,
        };
        let known = match locked(&self.table).get_mut(&self.request) {
            Some(asked) => {
                asked.client_request = Some(client_request.id.clone());
                true
            }
            None => false,
        };
        if !known {
            self.core.client_requests.call_off(&client_request.id).await;
            self.forget();
            return None;
        }
        let replied = client_request.answer().await?;
        self.replies.push(replied.reply.clone());
        self.lines.push(replied.line);
        Some(replied.reply)
    }
}

impl ClientQuestions {
    /// Asks the editor for a permission and passes its decision on.
    async fn permission(mut self, ask: PermissionSubject, mut call: Value, options: Vec<Value>) {
        if ask.tool == "Write" && self.open.is_none() {
            self.compare(&mut call).await;
        }
        let params = json!({
            "sessionId": self.shared.id.as_str(),
            "toolCall": call,
            "options": options,
        });
        let Some(reply) = self.send_request("session/request_permission", &params).await else { return };
        let (decision, message) = decision(&reply);
        self.decide(decision, message, chosen_grant(&reply)).await;
    }

    /// Adds to a file write the text the editor has in that file, saved or not, for comparison.
    async fn compare(&self, call: &mut Value) {
        if !self.core.client().reads_files {
            return;
        }
        let Some(path) = call["content"][0]["path"].as_str() else { return };
        let params = json!({"sessionId": self.shared.id.as_str(), "path": path});
        let reply = self.core.client_requests.send_request("fs/read_text_file", &params).await;
        // A file that does not exist yet has no old text.
        if let Some(Ok(read)) = reply
            && let Some(text) = read["content"].as_str()
        {
            call["content"][0]["oldText"] = text.into();
        }
    }

    /// Runs an editor tool and returns its result to the agent.
    async fn client_tool(mut self, tool: String, input: Value) {
        let session = self.shared.id.to_string();
        let done = editor_tools::run(&mut self, &session, &tool, &input).await;
        let Some((ok, output)) = done else { return };
        let by = self.core.by();
        self.command(Command::ReturnTool { request: self.request, ok, output, by }).await;
    }

    /// Asks the questions, as a form if the editor supports forms, otherwise one by one.
    async fn questions(mut self, questions: Vec<Question>) {
        let answers = if self.core.client().takes_forms {
            self.form(&questions).await
        } else {
            self.choices(&questions).await
        };
        match answers {
            QuestionOutcome::Given(answers) => {
                let by = self.core.by();
                self.command(Command::Answer { request: self.request, answers, by }).await;
            }
            QuestionOutcome::Refused => self.decide(Decision::Deny, "not answered".to_owned(), None).await,
            QuestionOutcome::None => self.forget(),
        }
    }

    /// Sends all questions in one form.
    async fn form(&mut self, questions: &[Question]) -> QuestionOutcome {
        let params = json!({
            "sessionId": self.shared.id.as_str(),
            "mode": "form",
            "message": questions.iter().map(|question| question.text.as_str()).collect::<Vec<_>>().join("\n"),
            "requestedSchema": schema(questions),
        });
        match self.send_request("elicitation/create", &params).await {
            Some(Ok(reply)) if reply["action"] == "accept" => {
                QuestionOutcome::Given(form_answers(&reply["content"]))
            }
            Some(_) => QuestionOutcome::Refused,
            None => QuestionOutcome::None,
        }
    }

    /// Asks one question at a time, for editors that support only permissions.
    async fn choices(&mut self, questions: &[Question]) -> QuestionOutcome {
        let mut answers = BTreeMap::new();
        for question in questions {
            if question.options.is_empty() {
                let message =
                    "a question waits that this editor cannot show; answer it with `obey session answer`";
                self.core.out.log("warn", message);
                return QuestionOutcome::None;
            }
            match self.choose(question).await {
                Ok(answer) => answers.insert(question.id.clone(), answer),
                Err(outcome) => return outcome,
            };
        }
        QuestionOutcome::Given(answers)
    }

    /// Asks one question. Where several options may be chosen, it is asked until the person is done, and shows what is
    /// chosen so far.
    async fn choose(&mut self, question: &Question) -> Result<String, QuestionOutcome> {
        let mut chosen_so_far: Vec<usize> = Vec::new();
        for _ in 0..limits::ACP_CHOICE_ROUNDS_MAX {
            let params = choice(self.shared.id.as_str(), self.request, question, &chosen_so_far);
            let Some(reply) = self.send_request("session/request_permission", &params).await else {
                return Err(QuestionOutcome::None);
            };
            match chosen(&reply, question) {
                None => return Err(QuestionOutcome::Refused),
                Some(Chosen::Done) => break,
                Some(Chosen::Option(at)) if question.multi_select => toggle(&mut chosen_so_far, at),
                Some(Chosen::Option(at)) => return Ok(question.options[at].label.clone()),
            }
        }
        Ok(labels(question, &chosen_so_far))
    }

    /// Sends the next question and notes the answers received so far.
    async fn send(&mut self, method: &str, params: &Value) -> Option<PendingClientRequest> {
        let (id, request) = (&self.shared.id, self.request);
        let replies = self.replies.clone();
        let note = |client_request| NotedQuestions { replies, client_request };
        let sent = self.core.client_requests.send(method, params, |notes, client_request| {
            notes.trail(id, request, Some(&note(client_request)));
        });
        let client_request = sent.await?;
        self.core.out.done(std::mem::take(&mut self.lines));
        Some(client_request)
    }

    async fn decide(&mut self, decision: Decision, message: String, grant: Option<Choice>) {
        let by = self.core.by();
        let request = self.request;
        self.command(Command::Decide { request, decision, message, updated_input: None, grant, by }).await;
    }

    /// Settles the request with a command.
    async fn command(&mut self, command: Command) {
        // The request is answered; there is nothing to cancel any more.
        locked(&self.table).remove(&self.request);
        let settled = match self.core.check_may_answer() {
            Ok(()) => self.core.supervisor.command(&self.shared.id, command).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = settled {
            if self.core.is_leaving() {
                // The next daemon receives the client's answer again.
                return;
            }
            self.core.out.log("warn", format!("{} cannot be settled: {error}", self.request));
        }
        self.forget();
    }

    /// The request is finished: removes its note and acknowledges its lines.
    fn forget(&mut self) {
        self.core.out.note(|notes| notes.trail(&self.shared.id, self.request, None));
        self.core.out.done(std::mem::take(&mut self.lines));
    }
}

/// The result of asking questions.
enum QuestionOutcome {
    Given(BTreeMap<String, String>),
    Refused,
    None,
}

/// The prefix of option ids that grant more than the first proposal.
const ALLOW_MORE: &str = "allow-always:";

/// Returns the options of a permission. The name of an option says what will be remembered; a client that does not show names gets
/// the narrowest alone.
fn options(proposals: &[Proposal], names_options: bool) -> Vec<Value> {
    let mut options = vec![json!({"optionId": "allow-once", "name": "Allow", "kind": "allow_once"})];
    let most = if names_options { usize::MAX } else { 1 };
    options.extend(proposals.iter().take(most).enumerate().map(|(at, proposal)| {
        let id = if at == 0 { "allow-always".to_owned() } else { format!("{ALLOW_MORE}{}", proposal.id) };
        json!({"optionId": id, "name": format!("Allow {}", proposal.text), "kind": "allow_always"})
    }));
    options.push(json!({"optionId": "reject-once", "name": "Reject", "kind": "reject_once"}));
    options
}

/// Returns the grant that the client chose.
fn chosen_grant(reply: &Reply) -> Option<Choice> {
    let option = reply.as_ref().ok()?["outcome"]["optionId"].as_str()?;
    let proposal = option.strip_prefix(ALLOW_MORE)?.to_owned();
    Some(Choice { proposal, ..Choice::default() })
}

/// Maps the client's choice to a decision. A cancelled choice also ends the turn.
fn decision(reply: &Reply) -> (Decision, String) {
    let chosen = reply.as_ref().ok().map(|reply| &reply["outcome"]);
    let option = chosen.and_then(|chosen| chosen["optionId"].as_str());
    match (chosen.and_then(|chosen| chosen["outcome"].as_str()), option) {
        (Some("selected"), Some("allow-once")) => (Decision::AllowOnce, String::new()),
        (Some("selected"), Some("allow-always")) => (Decision::AllowSession, String::new()),
        (Some("selected"), Some(option)) if option.starts_with(ALLOW_MORE) => {
            (Decision::AllowOnce, String::new())
        }
        (Some("selected"), _) => (Decision::Deny, "rejected in the editor".to_owned()),
        (Some("cancelled"), _) => (Decision::DenyAndStop, "cancelled in the editor".to_owned()),
        _ => (Decision::Deny, "the editor could not ask".to_owned()),
    }
}

/// The option that ends a question of which several options may be chosen.
const DONE: &str = "done";

/// What a person chose of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chosen {
    Option(usize),
    Done,
}

/// Chooses an option, or takes the choice back.
fn toggle(chosen: &mut Vec<usize>, at: usize) {
    match chosen.iter().position(|known| *known == at) {
        Some(known) => drop(chosen.remove(known)),
        None => chosen.push(at),
    }
    chosen.sort_unstable();
}

/// Returns chosen options as an answer: joined with commas.
fn labels(question: &Question, chosen: &[usize]) -> String {
    let labels: Vec<&str> = chosen.iter().map(|at| question.options[*at].label.as_str()).collect();
    labels.join(", ")
}

/// Returns the request for one question as a choice between its options.
fn choice(session: &str, request: RequestId, question: &Question, chosen: &[usize]) -> Value {
    let mut options: Vec<Value> = question
        .options
        .iter()
        .enumerate()
        .map(|(at, option)| {
            let mark = if chosen.contains(&at) { "✓ " } else { "" };
            json!({"optionId": format!("choice-{at}"), "name": format!("{mark}{}", option.label), "kind": "allow_once"})
        })
        .collect();
    if !chosen.is_empty() {
        let name = format!("Done: {}", labels(question, chosen));
        options.push(json!({"optionId": DONE, "name": name, "kind": "allow_once"}));
    }
    options.push(json!({"optionId": "skip", "name": "Skip", "kind": "reject_once"}));
    json!({
        "sessionId": session,
        "toolCall": {
            "toolCallId": format!("{request}:{}", question.id),
            "title": question.text,
            "kind": "think",
            "status": "pending",
        },
        "options": options,
    })
}

fn chosen(reply: &Reply, question: &Question) -> Option<Chosen> {
    let id = reply.as_ref().ok()?["outcome"]["optionId"].as_str()?;
    if id == DONE {
        return question.multi_select.then_some(Chosen::Done);
    }
    let at: usize = id.strip_prefix("choice-")?.parse().ok()?;
    (at < question.options.len()).then_some(Chosen::Option(at))
}

/// Returns questions as the JSON schema of a form.
fn schema(questions: &[Question]) -> Value {
    let field = |question: &Question| {
        let labels: Vec<&str> = question.options.iter().map(|option| option.label.as_str()).collect();
        let title = if question.header.is_empty() { &question.text } else { &question.header };
        let mut field = json!({"title": title, "description": question.text});
        if question.multi_select && !labels.is_empty() {
            field["type"] = "array".into();
            field["items"] = json!({"type": "string", "enum": labels});
        } else {
            field["type"] = "string".into();
            if !labels.is_empty() {
                field["enum"] = json!(labels);
            }
        }
        (question.id.clone(), field)
    };
    let fields: Map<String, Value> = questions.iter().map(field).collect();
    let required: Vec<&str> = questions.iter().map(|question| question.id.as_str()).collect();
    json!({"type": "object", "properties": fields, "required": required})
}

/// Converts the content of a form to answers; several choices are joined with commas.
fn form_answers(content: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    let fields = content.as_object().into_iter().flatten();
    fields.map(|(id, value)| (id.clone(), text(value))).collect()
}

#[cfg(test)]
mod tests;
