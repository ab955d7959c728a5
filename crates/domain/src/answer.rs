//! The agent's answer in a turn: its text since its last call of a tool. Of an answer in several parts, some agents report only
//! the last part at the end of the turn, and others report all text of the turn; so the answer is taken from the streamed text.

use crate::any_event;
use crate::event::EventKind;
use crate::limits::EVENT_TEXT_MAX_BYTES;
use crate::turn::EndReason;

/// Collects the answer of a turn from its events, by default as much of it as an event can hold.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerText {
    streamed: String,
    is_cut: bool,
    max_bytes: usize,
}

impl Default for AnswerText {
    fn default() -> Self {
        Self { streamed: String::new(), is_cut: false, max_bytes: EVENT_TEXT_MAX_BYTES }
    }
}

impl AnswerText {
    /// Collects all of an answer, for a reader that shows it.
    pub fn whole() -> Self {
        Self { max_bytes: usize::MAX, ..Self::default() }
    }

    /// Takes an event of the turn into account.
    pub fn take(&mut self, kind: &EventKind) {
        match kind {
            EventKind::TextDelta { text, parent: None } => {
                let room = self.max_bytes.saturating_sub(self.streamed.len());
                self.is_cut |= text.len() > room;
                self.streamed.push_str(&text[..text.floor_char_boundary(room)]);
            }
            // Text before a call is part of the work, not of the answer.
            EventKind::TurnStarted { .. } | EventKind::ToolStarted { parent: None, .. } => {
                *self = Self { max_bytes: self.max_bytes, ..Self::default() };
            }
            any_event!(
                life InterruptRequested MessageAdded TurnEnded TextDelta ThinkingDelta ToolStarted
                ToolProgress ToolFinished request settings plan usage worker report
            ) => {}
        }
    }

    /// Returns the whole answer, given what the agent reports as its end.
    pub fn answer<'a>(&'a self, reported: &'a str) -> &'a str {
        let streamed = self.streamed.trim();
        let is_more = !streamed.is_empty() && reported.trim_end().ends_with(streamed);
        // An agent that streams nothing reports its answer only.
        if is_more || self.is_cut || streamed.contains(reported.trim()) { &self.streamed } else { reported }
    }

    /// Gives the end of a turn that the agent has answered its whole answer, so that every reader of it has the same one.
    /// Returns whether that changed it.
    pub(crate) fn complete(&mut self, kind: &mut EventKind) -> bool {
        let EventKind::TurnEnded { reason, text, .. } = kind else { return false };
        let answer = std::mem::take(self);
        // The beginning of a long answer would stand in place of its end, which readers have already seen.
        let is_changed = is_answered(*reason) && !answer.is_cut && answer.answer(text) != text;
        if is_changed {
            *text = answer.streamed;
        }
        is_changed
    }
}

/// Whether a turn that ends for this reason has an answer.
pub fn is_answered(reason: EndReason) -> bool {
    matches!(reason, EndReason::Completed | EndReason::LimitReached | EndReason::Refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_is_cut_to_what_an_event_can_hold() {
        let mut answer = AnswerText::default();
        answer.take(&text(&"é".repeat(EVENT_TEXT_MAX_BYTES / 2)));
        answer.take(&text("and more"));
        assert_eq!(answer.answer("and more").len(), EVENT_TEXT_MAX_BYTES);
    }

    #[test]
    fn a_reader_that_shows_it_has_all_of_a_long_answer() {
        let mut answer = AnswerText::whole();
        answer.take(&text("of the call before"));
        answer.take(&EventKind::TurnStarted {
            turn: crate::id::TurnId(1),
            origin: crate::turn::TurnOrigin::Client,
            prompt: String::new(),
            attachments: Vec::new(),
            by: String::new(),
        });
        answer.take(&text(&"é".repeat(EVENT_TEXT_MAX_BYTES / 2)));
        answer.take(&text("and more"));
        assert_eq!(answer.answer("and more").len(), EVENT_TEXT_MAX_BYTES + "and more".len());
    }

    fn text(text: &str) -> EventKind {
        EventKind::TextDelta { text: text.to_owned(), parent: None }
    }

    #[test]
    fn an_answer_of_several_parts_is_whole() {
        let mut answer = AnswerText::default();
        answer.take(&text("Part one. "));
        answer.take(&text("Part two."));
        assert_eq!(answer.answer("Part two."), "Part one. Part two.");
        assert_eq!(answer.answer(""), "Part one. Part two.");
    }

    #[test]
    fn text_before_the_last_call_is_not_part_of_the_answer() {
        let mut answer = AnswerText::default();
        answer.take(&text("I look. "));
        answer.take(&EventKind::ToolStarted {
            call: crate::id::CallId::new("c1"),
            tool: "Bash".to_owned(),
            input: serde_json::Value::Null,
            title: String::new(),
            parent: None,
        });
        answer.take(&text("One file."));
        assert_eq!(answer.answer("I look. One file.\n"), "One file.");
        assert_eq!(answer.answer("file."), "One file.");
    }

    #[test]
    fn what_was_not_streamed_is_taken_as_reported() {
        let mut answer = AnswerText::default();
        assert_eq!(answer.answer("done"), "done");
        answer.take(&text("something else"));
        assert_eq!(answer.answer("done"), "done");
    }
}
