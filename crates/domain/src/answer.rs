//! The agent's answer in a turn: what it said since its last call. Some agents report the last part of an answer of several
//! parts as its whole, others everything they said in the turn, so the answer is taken from what they streamed.

use crate::any_event;
use crate::event::EventKind;
use crate::limits::EVENT_TEXT_MAX_BYTES;
use crate::turn::EndReason;

/// Collects the answer of a turn from its events, as much of it as an event can hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnswerText {
    streamed: String,
    is_cut: bool,
}

impl AnswerText {
    /// Takes an event of the turn into account.
    pub fn take(&mut self, kind: &EventKind) {
        match kind {
            EventKind::TextDelta { text, parent: None } => {
                let room = EVENT_TEXT_MAX_BYTES.saturating_sub(self.streamed.len());
                self.is_cut |= text.len() > room;
                self.streamed.push_str(&text[..text.floor_char_boundary(room)]);
            }
            // Text before a call is part of the work, not of the answer.
            EventKind::TurnStarted { .. } | EventKind::ToolStarted { parent: None, .. } => {
                *self = Self::default();
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
    pub(crate) fn complete(&mut self, kind: &mut EventKind) {
        let EventKind::TurnEnded { reason, text, .. } = kind else { return };
        let answer = std::mem::take(self);
        // The beginning of a long answer would stand in place of its end, which readers have already seen.
        if matches!(reason, EndReason::Completed | EndReason::LimitReached | EndReason::Refused)
            && !answer.is_cut
            && answer.answer(text) != text
        {
            *text = answer.streamed;
        }
    }
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
