//! The conversation as it is sent to a model. It grows with events and can be rebuilt from the journal: both
//! use the same few methods, so that a restarted daemon continues the same conversation. Pure; knows neither
//! of the two APIs.

use std::collections::BTreeSet;

use domain::event::Attachment;
use domain::turn::COMPACT;
use domain::{EventKind, any_event};
use provider_common::attachment;
use serde_json::Value;

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum HistoryItem {
    User {
        text: String,
        attachments: Vec<Attachment>,
    },
    /// Context from the program that drives the session; belongs to the prompt that follows it.
    System(String),
    Assistant(String),
    Call(HistoryCall),
    Result {
        id: String,
        output: String,
    },
    /// The model's reasoning, in a form only its endpoint reads; not in the journal.
    Reasoning(Value),
}

/// A call of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HistoryCall {
    pub(super) id: String,
    pub(super) name: String,
    /// JSON, as the model wrote it.
    pub(super) arguments: String,
}

/// A conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct History {
    items: Vec<HistoryItem>,
    /// Calls without a result.
    open: BTreeSet<String>,
    /// Messages that arrived during a reply or while calls were open: they are placed after them.
    held: Vec<HistoryItem>,
    /// The model is replying.
    in_reply: bool,
    /// During a replay: the model's text is complete, but calls of the same reply may still follow.
    has_replied: bool,
    /// A turn has started and not ended.
    in_turn: bool,
    /// The number of entries when the last turn started.
    before_turn: usize,
}

/// The introduction of a summary that replaces the conversation.
const SUMMARY: &str = "The conversation so far was summarised to save space. The summary:\n\n";

impl History {
    pub(super) fn items(&self) -> &[HistoryItem] {
        &self.items
    }

    pub(super) fn begin_turn(&mut self) {
        self.in_turn = true;
        self.before_turn = self.items.len();
    }

    /// Adds a message of the user, and before it what is a system message of its attachments; during a reply or open calls
    /// they are held back.
    pub(super) fn user(&mut self, text: &str, attachments: &[Attachment]) {
        let (system, files): (Vec<_>, Vec<_>) = attachments.iter().cloned().partition(Attachment::is_system);
        // One that is not text was refused with its prompt.
        let system = system.iter().filter_map(|file| attachment::text(file).ok()).map(HistoryItem::System);
        let items = system.chain([HistoryItem::User { text: text.to_owned(), attachments: files }]);
        let is_free = self.open.is_empty() && !self.in_reply;
        if is_free { self.items.extend(items) } else { self.held.extend(items) }
    }

    /// Starts an attempt at a reply; returns the position at which it started.
    pub(super) fn begin_reply(&mut self) -> usize {
        self.in_reply = true;
        self.items.len()
    }

    /// Ends a reply. Its calls, if it has any, come before messages that arrived meanwhile.
    pub(super) fn end_reply(&mut self, has_calls: bool) {
        self.in_reply = false;
        if !has_calls {
            self.items.append(&mut self.held);
        }
    }

    /// Removes what a failed attempt left.
    pub(super) fn undo_reply(&mut self, began: usize) {
        self.items.truncate(began);
        self.end_reply(false);
    }

    /// Appends to the model's text.
    pub(super) fn text(&mut self, text: &str) {
        match self.items.last_mut() {
            Some(HistoryItem::Assistant(said)) => said.push_str(text),
            _ => self.items.push(HistoryItem::Assistant(text.to_owned())),
        }
    }

    pub(super) fn call(&mut self, call: HistoryCall) {
        self.open.insert(call.id.clone());
        self.items.push(HistoryItem::Call(call));
    }

    /// Adds the result of an open call; the last one releases the messages that were held back.
    pub(super) fn result(&mut self, id: &str, output: &str) {
        if self.open.remove(id) {
            self.items.push(HistoryItem::Result { id: id.to_owned(), output: output.to_owned() });
        }
        if self.open.is_empty() {
            self.items.append(&mut self.held);
        }
    }

    pub(super) fn reasoning(&mut self, item: Value) {
        self.items.push(HistoryItem::Reasoning(item));
    }

    /// Closes open calls and removes reasoning, which is only valid within the turn.
    pub(super) fn end_turn(&mut self) {
        for id in std::mem::take(&mut self.open) {
            self.items
                .push(HistoryItem::Result { id, output: "not finished when the turn ended".to_owned() });
        }
        self.items.append(&mut self.held);
        self.items.retain(|item| !matches!(item, HistoryItem::Reasoning(_)));
        (self.in_turn, self.in_reply, self.has_replied) = (false, false, false);
    }

    /// Replaces everything that was answered with a summary.
    pub(super) fn compacted(&mut self, summary: &str) {
        let unanswered = self.unanswered();
        let kept = self.items.split_off(self.items.len() - unanswered);
        self.items = vec![HistoryItem::User { text: format!("{SUMMARY}{summary}"), attachments: Vec::new() }];
        self.before_turn = self.items.len();
        self.items.extend(kept);
    }

    /// Returns the conversation without messages that are not answered yet. Unanswered messages of an earlier
    /// turn count as answered.
    pub(super) fn answered(&self) -> &[HistoryItem] {
        &self.items[..self.items.len() - self.unanswered()]
    }

    fn unanswered(&self) -> usize {
        let of_turn = self.items.get(self.before_turn..).unwrap_or_default();
        let is_prompt =
            |item: &&HistoryItem| matches!(item, HistoryItem::User { .. } | HistoryItem::System(_));
        of_turn.iter().rev().take_while(is_prompt).count()
    }

    /// Applies an event of the journal.
    pub(super) fn replay(&mut self, event: &EventKind) {
        match event {
            EventKind::TurnStarted { prompt, attachments, .. } => {
                self.begin_turn();
                if prompt != COMPACT && (!prompt.is_empty() || !attachments.is_empty()) {
                    self.user(prompt, attachments);
                }
            }
            EventKind::MessageAdded { text, .. } => self.user(text, &[]),
            EventKind::TextDelta { text, parent: None } => {
                self.replay_reply();
                self.text(text);
            }
            EventKind::ThinkingDelta { parent: None, .. } => self.replay_reply(),
            EventKind::UsageReported { .. } => self.has_replied = true,
            EventKind::ToolStarted { call, tool, input, parent: None, .. } => {
                let arguments = match input {
                    // Arguments that were not JSON are kept as received.
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                (self.in_reply, self.has_replied) = (false, false);
                self.call(HistoryCall { id: call.as_str().to_owned(), name: tool.clone(), arguments });
            }
            EventKind::ToolFinished { call, output, .. } => self.result(call.as_str(), output),
            EventKind::Compacted { summary, .. } if !summary.is_empty() => self.compacted(summary),
            EventKind::TurnEnded { .. } => self.end_turn(),
            any_event!(
                life InterruptRequested TextDelta ThinkingDelta ToolStarted ToolProgress request settings plan
                Compacted worker report
            ) => {}
        }
    }

    /// Handles output of the model: it belongs to a new reply if the previous one has ended.
    fn replay_reply(&mut self) {
        if std::mem::take(&mut self.has_replied) {
            self.end_reply(false);
        }
        self.begin_reply();
    }

    /// Ends the replay. The prompt of an open turn is removed, since it is sent to the agent again.
    pub(super) fn end_replay(&mut self) {
        if std::mem::take(&mut self.in_turn) && matches!(self.items.last(), Some(HistoryItem::User { .. })) {
            self.items.pop();
            while matches!(self.items.last(), Some(HistoryItem::System(_))) {
                self.items.pop();
            }
        }
    }

    /// Returns roughly how many tokens it has: about four bytes each.
    pub(super) fn tokens(&self) -> u64 {
        self.items.iter().map(tokens).sum()
    }
}

/// Returns roughly how many tokens an entry has.
pub(super) fn tokens(item: &HistoryItem) -> u64 {
    let bytes = match item {
        HistoryItem::User { text, attachments } => {
            text.len() + attachments.iter().map(|file| file.content.len()).sum::<usize>()
        }
        HistoryItem::Assistant(text) | HistoryItem::System(text) => text.len(),
        HistoryItem::Call(call) => call.name.len() + call.arguments.len(),
        HistoryItem::Result { output, .. } => output.len(),
        HistoryItem::Reasoning(_) => 0,
    };
    bytes as u64 / 4 + 4
}

#[cfg(test)]
mod tests {
    use domain::turn::{EndReason, TurnOrigin};
    use domain::{CallId, TurnId};
    use serde_json::json;

    use super::*;

    fn began(prompt: &str) -> EventKind {
        EventKind::TurnStarted {
            turn: TurnId(1),
            origin: TurnOrigin::Client,
            prompt: prompt.to_owned(),
            attachments: Vec::new(),
            by: String::new(),
        }
    }

    fn ended() -> EventKind {
        EventKind::TurnEnded {
            turn: TurnId(1),
            reason: EndReason::Completed,
            text: String::new(),
            error: String::new(),
        }
    }

    fn text_delta(text: &str) -> EventKind {
        EventKind::TextDelta { text: text.to_owned(), parent: None }
    }

    fn called(id: &str) -> EventKind {
        let (call, tool) = (CallId::new(id), "Bash".to_owned());
        EventKind::ToolStarted {
            call,
            tool,
            input: json!({"command": "ls"}),
            title: String::new(),
            parent: None,
        }
    }

    fn finished(id: &str) -> EventKind {
        let (call, tool) = (CallId::new(id), "Bash".to_owned());
        EventKind::ToolFinished { call, tool, ok: true, output: format!("{id} done") }
    }

    fn added(text: &str) -> EventKind {
        EventKind::MessageAdded { turn: TurnId(1), text: text.to_owned(), by: String::new() }
    }

    fn replayed(events: &[EventKind]) -> History {
        let mut history = History::default();
        for event in events {
            history.replay(event);
        }
        history.end_replay();
        history
    }

    fn user(text: &str) -> HistoryItem {
        HistoryItem::User { text: text.to_owned(), attachments: Vec::new() }
    }

    #[test]
    fn a_conversation_is_rebuilt_from_its_journal() {
        let history = replayed(&[
            began("look"),
            text_delta("I "),
            text_delta("look"),
            called("c1"),
            called("c2"),
            added("hurry"),
            finished("c2"),
            finished("c1"),
            text_delta("done"),
            ended(),
            began("/compact"),
            ended(),
        ]);
        let call = |id: &str| {
            HistoryItem::Call(HistoryCall {
                id: id.to_owned(),
                name: "Bash".to_owned(),
                arguments: r#"{"command":"ls"}"#.to_owned(),
            })
        };
        let result = |id: &str| HistoryItem::Result { id: id.to_owned(), output: format!("{id} done") };
        let expected = [
            user("look"),
            HistoryItem::Assistant("I look".to_owned()),
            call("c1"),
            call("c2"),
            result("c2"),
            result("c1"),
            // Messages that arrived while calls were open come after their results.
            user("hurry"),
            HistoryItem::Assistant("done".to_owned()),
        ];
        assert_eq!(history.items(), expected);
    }

    #[test]
    fn a_prompt_during_a_reply_comes_after_it() {
        let used = || EventKind::UsageReported {
            usage: domain::Usage::default(),
            context_tokens: None,
            context_window: None,
            parent: None,
        };
        let expected = [
            user("go"),
            HistoryItem::Assistant("part one part two".to_owned()),
            user("salt"),
            HistoryItem::Assistant("salted".to_owned()),
        ];
        let told = [
            began("go"),
            text_delta("part one "),
            added("salt"),
            text_delta("part two"),
            used(),
            text_delta("salted"),
            ended(),
        ];
        assert_eq!(replayed(&told).items(), expected);
        let mut history = History::default();
        history.begin_turn();
        history.user("go", &[]);
        history.begin_reply();
        history.text("part one ");
        history.user("salt", &[]);
        history.text("part two");
        history.end_reply(false);
        history.begin_reply();
        history.text("salted");
        history.end_reply(false);
        history.end_turn();
        assert_eq!(history.items(), expected);
        // Calls belong to the reply.
        let told = [
            began("go"),
            text_delta("I look"),
            added("salt"),
            used(),
            called("c1"),
            finished("c1"),
            text_delta("ok"),
            ended(),
        ];
        let history = replayed(&told);
        assert_eq!(history.items()[1], HistoryItem::Assistant("I look".to_owned()));
        assert!(
            matches!(&history.items()[2..4], [HistoryItem::Call(_), HistoryItem::Result { .. }]),
            "{history:?}"
        );
        assert_eq!(history.items()[4..], [user("salt"), HistoryItem::Assistant("ok".to_owned())]);
    }

    #[test]
    fn system_context_stands_before_its_prompt() {
        let file = |name: &str, media_type: &str| Attachment {
            name: name.to_owned(),
            media_type: media_type.to_owned(),
            content: "aGVsbG8=".to_owned(),
        };
        let note = file("note", "text/plain");
        let attachments = vec![file("system_context", Attachment::SYSTEM_MEDIA_TYPE), note.clone()];
        let began = EventKind::TurnStarted {
            turn: TurnId(1),
            origin: TurnOrigin::Client,
            prompt: "go".to_owned(),
            attachments,
            by: String::new(),
        };
        let prompt = HistoryItem::User { text: "go".to_owned(), attachments: vec![note] };
        let answered = replayed(&[began.clone(), text_delta("ok"), ended()]);
        let system = HistoryItem::System("hello".to_owned());
        assert_eq!(answered.items(), [system, prompt, HistoryItem::Assistant("ok".to_owned())]);
        // Both are sent again with a prompt that waits for its agent.
        assert!(replayed(std::slice::from_ref(&began)).items().is_empty());
        let mut history = replayed(&[began.clone(), text_delta("ok"), ended()]);
        history.replay(&began);
        assert_eq!(history.answered().len(), 3);
    }

    #[test]
    fn an_attempt_that_failed_leaves_nothing() {
        let mut history = History::default();
        history.begin_turn();
        history.user("go", &[]);
        let began = history.begin_reply();
        history.reasoning(json!({"type": "reasoning"}));
        history.user("hurry", &[]);
        history.undo_reply(began);
        assert_eq!(history.items(), [user("go"), user("hurry")]);
    }

    #[test]
    fn a_prompt_that_waits_for_its_agent_is_not_part_of_the_past() {
        assert_eq!(replayed(&[began("a"), text_delta("b"), ended(), began("c")]).items().len(), 2);
        assert!(replayed(&[began("a")]).items().is_empty());
    }

    #[test]
    fn a_summary_takes_the_place_of_what_was_answered() {
        let mut history = replayed(&[began("a"), text_delta("b"), ended()]);
        history.begin_turn();
        history.user("next", &[]);
        assert_eq!(history.answered().len(), 2);
        history.compacted("we said a and b");
        assert_eq!(history.items(), [user(&format!("{SUMMARY}we said a and b")), user("next")]);
    }

    #[test]
    fn a_prompt_that_was_never_answered_is_part_of_the_summary() {
        let mut history = replayed(&[began("a"), text_delta("b"), ended(), began("too long"), ended()]);
        history.begin_turn();
        history.user("next", &[]);
        assert_eq!(history.answered().len(), 3);
        history.compacted("all of it");
        assert_eq!(history.items(), [user(&format!("{SUMMARY}all of it")), user("next")]);
        assert_eq!(history.answered().len(), 1);
    }

    #[test]
    fn no_call_stays_without_a_result() {
        let history = replayed(&[began("a"), called("c1"), added("x"), ended()]);
        assert!(matches!(&history.items()[2], HistoryItem::Result { id, .. } if id == "c1"));
        assert_eq!(history.items()[3], user("x"));
    }
}
