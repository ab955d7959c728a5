//! The agent's answer in a turn: what it said since its last call. Agents report the last part of an answer of several
//! parts as its whole, so the answer is taken from what they streamed.

use crate::any_event;
use crate::event::EventKind;

/// Collects the answer of a turn from its events.
#[derive(Clone, Debug, Default)]
pub struct AnswerText {
    streamed: String,
}

impl AnswerText {
    /// Takes an event of the turn into account.
    pub fn take(&mut self, kind: &EventKind) {
        match kind {
            EventKind::TextDelta { text, parent: None } => self.streamed.push_str(text),
            // Text before a call is part of the work, not of the answer.
            EventKind::TurnStarted { .. } | EventKind::ToolStarted { parent: None, .. } => {
                self.streamed.clear()
            }
            any_event!(
                life InterruptRequested MessageAdded TurnEnded TextDelta ThinkingDelta ToolStarted
                ToolProgress ToolFinished request settings plan usage worker report
            ) => {}
        }
    }

    /// Returns the whole answer, given what the agent reports as its end.
    pub fn answer<'a>(&'a self, reported: &'a str) -> &'a str {
        // An agent that streams nothing reports its answer only.
        if self.streamed.contains(reported.trim()) { &self.streamed } else { reported }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_was_not_streamed_is_taken_as_reported() {
        let mut answer = AnswerText::default();
        assert_eq!(answer.answer("done"), "done");
        answer.take(&text("something else"));
        assert_eq!(answer.answer("done"), "done");
    }
}
