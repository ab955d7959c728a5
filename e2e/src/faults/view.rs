//! What one reader saw of a session, held against the stories its agent was told. Counts what was lost, doubled,
//! reordered or never told. Must not read anything itself: it is given events in the order they arrived.

use std::collections::BTreeMap;

use serde_json::Value;
use wire::obey::v1::Event;

use super::story::{Beat, Story};

/// What is wrong with what a reader saw. All zero: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub lost: u64,
    pub duplicated: u64,
    pub reordered: u64,
    /// Nobody told the agent to do this.
    pub foreign: u64,
}

impl Faults {
    pub fn any(&self) -> bool {
        *self != Faults::default()
    }

    pub fn add(&mut self, more: Faults) {
        self.lost += more.lost;
        self.duplicated += more.duplicated;
        self.reordered += more.reordered;
        self.foreign += more.foreign;
    }
}

/// A reader's view of one session.
#[derive(Debug, Default)]
pub struct View {
    last_seq: u64,
    events: u64,
    faults: Faults,
    /// The first thing that was wrong, for people.
    first_fault: Option<String>,
    told: BTreeMap<String, Story>,
    open: Option<Turn>,
    /// Keys of turns that ended, in order.
    ended: Vec<String>,
    /// Only what was said is judged, joined: a real agent cuts its texts as it likes.
    only_text: bool,
}

#[derive(Debug)]
struct Turn {
    key: String,
    seen: Vec<Beat>,
}

impl View {
    /// A view that judges only what was said, joined.
    pub fn of_text() -> View {
        View { only_text: true, ..View::default() }
    }

    /// Notes what the agent is about to be told.
    pub fn expect(&mut self, story: Story) {
        self.told.insert(story.key().to_owned(), story);
    }

    /// The number of the newest event seen; read on after it.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    pub fn events(&self) -> u64 {
        self.events
    }

    pub fn faults(&self) -> Faults {
        self.faults
    }

    pub fn first_fault(&self) -> Option<&str> {
        self.first_fault.as_deref()
    }

    /// The key of the turn that runs.
    pub fn running(&self) -> Option<&str> {
        self.open.as_ref().map(|turn| turn.key.as_str())
    }

    /// Keys of the turns that ended, in order.
    pub fn ended(&self) -> &[String] {
        &self.ended
    }

    /// Whether the prompt of this turn is in the journal.
    pub fn has_begun(&self, key: &str) -> bool {
        self.running() == Some(key) || self.ended.iter().any(|ended| ended == key)
    }

    /// Takes the next event that arrived.
    pub fn take(&mut self, event: &Event) {
        self.events += 1;
        let expected = self.last_seq + 1;
        if event.seq > expected {
            let lost = event.seq - expected;
            self.blame(Faults { lost, ..Faults::default() }, || {
                format!("{expected} was followed by {}", event.seq)
            });
        } else if event.seq < expected {
            self.blame(Faults { duplicated: 1, ..Faults::default() }, || {
                format!("{} came again after {}", event.seq, expected - 1)
            });
        }
        self.last_seq = self.last_seq.max(event.seq);
        let fields: Value = serde_json::from_str(&event.json).unwrap_or_default();
        let text = |name: &str| fields[name].as_str().unwrap_or_default().to_owned();
        match event.r#type.as_str() {
            "turn_started" => self.begin(&text("prompt")),
            "turn_ended" => self.end(&text("reason"), &text("text")),
            "text_delta" => self.beat(Beat::Text(text("text"))),
            "thinking_delta" => self.beat(Beat::Thinking(text("text"))),
            "tool_started" => self.beat(Beat::Call(text("tool"))),
            "tool_finished" => self.beat(Beat::Result(text("output"))),
            _ => {}
        }
    }

    fn begin(&mut self, prompt: &str) {
        let key = prompt.split_once(" SCRIPT:").map_or(prompt, |(key, _)| key).to_owned();
        if !self.told.contains_key(&key) {
            self.blame(Faults { foreign: 1, ..Faults::default() }, || {
                format!("nobody sent the prompt {key:?}")
            });
        }
        if self.has_begun(&key) {
            self.blame(Faults { duplicated: 1, ..Faults::default() }, || {
                format!("the prompt {key:?} came twice")
            });
        }
        if let Some(open) = self.open.replace(Turn { key, seen: Vec::new() }) {
            self.blame(Faults { lost: 1, ..Faults::default() }, || {
                format!("the turn {:?} has no end", open.key)
            });
        }
    }

    fn beat(&mut self, beat: Beat) {
        match &mut self.open {
            Some(turn) => turn.seen.push(beat),
            None => self.blame(Faults { foreign: 1, ..Faults::default() }, || {
                format!("{beat:?} came outside of a turn")
            }),
        }
    }

    fn end(&mut self, reason: &str, said: &str) {
        let Some(turn) = self.open.take() else {
            self.blame(Faults { foreign: 1, ..Faults::default() }, || {
                "a turn ended that had not begun".into()
            });
            return;
        };
        if let Some(story) = self.told.get(&turn.key) {
            let faults = if self.only_text {
                let text: String = turn.seen.iter().filter_map(Beat::text).collect();
                Faults { lost: u64::from(text != story.text()), ..Faults::default() }
            } else {
                compare(story.beats(), &turn.seen)
            };
            let answer = story.answer();
            let repeats = !self.only_text && answer.len() < ANSWER_KEPT_BYTES;
            let broken = reason != "completed" || (repeats && said != answer);
            if faults.any() {
                let key = turn.key.clone();
                self.blame(faults, || format!("the turn {key:?}: {faults:?}"));
            } else if broken {
                let key = turn.key.clone();
                self.blame(Faults { foreign: 1, ..Faults::default() }, || {
                    format!("the turn {key:?} ended as {reason:?} with another answer")
                });
            }
        }
        self.ended.push(turn.key);
    }

    fn blame(&mut self, faults: Faults, why: impl FnOnce() -> String) {
        self.faults.add(faults);
        self.first_fault.get_or_insert_with(why);
    }
}

/// The scripted agent repeats its answer at the end of its turn up to a limit; no story but a flood reaches it.
const ANSWER_KEPT_BYTES: usize = 1 << 20;

/// Holds what was seen against what was told.
pub fn compare(told: &[Beat], seen: &[Beat]) -> Faults {
    if told == seen {
        return Faults::default();
    }
    let count = |beats: &[Beat]| {
        let mut counts: BTreeMap<Beat, u64> = BTreeMap::new();
        for beat in beats {
            *counts.entry(beat.clone()).or_default() += 1;
        }
        counts
    };
    let (wanted, found) = (count(told), count(seen));
    let mut faults = Faults::default();
    for (beat, wanted) in &wanted {
        let found = found.get(beat).copied().unwrap_or(0);
        faults.lost += wanted.saturating_sub(found);
        faults.duplicated += found.saturating_sub(*wanted);
    }
    faults.foreign =
        found.iter().filter(|(beat, _)| !wanted.contains_key(beat)).map(|(_, count)| count).sum();
    if !faults.any() {
        faults.reordered = told.iter().zip(seen).filter(|(told, seen)| told != seen).count() as u64;
    }
    faults
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::faults::random::Random;

    fn events(story: &Story) -> Vec<Event> {
        let mut events = vec![json!({"type": "turn_started", "prompt": story.prompt()})];
        for beat in story.beats() {
            events.push(match beat {
                Beat::Text(text) => json!({"type": "text_delta", "text": text}),
                Beat::Thinking(text) => json!({"type": "thinking_delta", "text": text}),
                Beat::Call(tool) => json!({"type": "tool_started", "tool": tool}),
                Beat::Result(output) => json!({"type": "tool_finished", "output": output}),
            });
        }
        events.push(json!({"type": "turn_ended", "reason": "completed", "text": story.answer()}));
        let event = |(at, fields): (usize, &Value)| Event {
            seq: at as u64 + 1,
            r#type: fields["type"].as_str().unwrap().to_owned(),
            json: fields.to_string(),
            ..Event::default()
        };
        events.iter().enumerate().map(event).collect()
    }

    fn look(story: &Story, events: &[Event]) -> View {
        let mut view = View::default();
        view.expect(story.clone());
        events.iter().for_each(|event| view.take(event));
        view
    }

    #[test]
    fn a_view_that_shows_the_story_is_clean() {
        let story = Story::new("s1", 6, 0, &mut Random::new(3));
        let view = look(&story, &events(&story));
        assert_eq!((view.faults(), view.ended().len()), (Faults::default(), 1), "{:?}", view.first_fault());
        assert_eq!(view.events(), 11);
    }

    #[test]
    fn everything_that_is_wrong_is_found() {
        let story = Story::new("s1", 6, 0, &mut Random::new(3));
        let whole = events(&story);
        let mut lost = whole.clone();
        lost.remove(2);
        assert_eq!(look(&story, &lost).faults(), Faults { lost: 2, ..Faults::default() }, "number and text");
        let mut twice = whole.clone();
        twice.insert(3, whole[2].clone());
        assert_eq!(look(&story, &twice).faults(), Faults { duplicated: 2, ..Faults::default() });
        let mut swapped = whole.clone();
        (swapped[2].json, swapped[3].json) = (whole[3].json.clone(), whole[2].json.clone());
        assert_eq!(look(&story, &swapped).faults(), Faults { reordered: 2, ..Faults::default() });
        let other = Story::new("s2", 6, 0, &mut Random::new(4));
        assert!(look(&other, &whole).faults().foreign > 0);
        let mut cut = whole.clone();
        cut.last_mut().unwrap().json = json!({"reason": "interrupted"}).to_string();
        assert!(look(&story, &cut).first_fault().unwrap().contains("interrupted"));
    }
}
