//! What an agent is told to do in one turn, and so what its session must show, piece by piece. The story is the only
//! witness: what the daemon recorded is compared with it and never the other way round.

use serde_json::{Value, json};

use super::random::Random;

/// One piece of a turn, as a reader of the journal sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Beat {
    Text(String),
    Thinking(String),
    Call(String),
    Result(String),
}

/// One turn: the prompt that causes it, and its pieces in order.
#[derive(Clone, Debug)]
pub struct Story {
    key: String,
    steps: Vec<Value>,
    beats: Vec<Beat>,
}

/// Characters of one line of text. All lines are equally long, so that cutting a text into as many pieces as it has
/// lines cuts it between them.
const LINE_CHARS: usize = 40;

impl Story {
    /// A turn of about `lines` pieces, `gap_ms` apart, that no other turn shares. `key` names it.
    pub fn new(key: &str, lines: usize, gap_ms: u64, random: &mut Random) -> Story {
        let mut story = Story { key: key.to_owned(), steps: Vec::new(), beats: Vec::new() };
        let first = lines / 2;
        story.say(first, gap_ms, random);
        story.think(random);
        story.call(random);
        story.say(lines - first, gap_ms, random);
        story
    }

    /// A turn that says this, in one piece.
    pub fn of_text(key: &str, text: &str) -> Story {
        let steps = vec![json!({"text": text})];
        Story { key: key.to_owned(), steps, beats: vec![Beat::Text(text.to_owned())] }
    }

    /// A turn that says every line on its own, as fast as it can.
    pub fn of_lines(key: &str, count: usize) -> Story {
        let lines: Vec<String> = (0..count).map(|at| format!("{key} {at:07}\n")).collect();
        let steps = lines.iter().map(|line| json!({"text": line})).collect();
        Story { key: key.to_owned(), steps, beats: lines.into_iter().map(Beat::Text).collect() }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    /// The prompt; the words before the script are the key.
    pub fn prompt(&self) -> String {
        format!("{} SCRIPT: {}", self.key, Value::Array(self.steps.clone()))
    }

    /// The same prompt for an agent with a model: all blocks but the call, which only the scripted agent can be told,
    /// in one reply.
    pub fn model_prompt(&self) -> String {
        let blocks: Vec<Value> =
            self.steps.iter().filter(|step| step.get("text").is_some()).cloned().collect();
        format!("{} SCRIPT: {}", self.key, json!([blocks]))
    }

    pub fn beats(&self) -> &[Beat] {
        &self.beats
    }

    /// Everything it says, joined.
    pub fn text(&self) -> String {
        self.beats.iter().filter_map(Beat::text).collect()
    }

    /// What it says after its last call.
    pub fn answer(&self) -> String {
        let last_call = self.beats.iter().rposition(|beat| matches!(beat, Beat::Call(_)));
        self.beats[last_call.unwrap_or(0)..].iter().filter_map(Beat::text).collect()
    }

    /// Adds a step that waits for a file, before everything else.
    pub fn after_file(mut self, path: &std::path::Path) -> Story {
        self.steps.insert(0, json!({"wait_file": path}));
        self
    }

    fn say(&mut self, lines: usize, gap_ms: u64, random: &mut Random) {
        if lines == 0 {
            return;
        }
        let from = self.beats.len();
        let lines: Vec<String> = (0..lines).map(|at| line(&self.key, from + at, random)).collect();
        self.steps.push(json!({"text": lines.concat(), "chunks": lines.len(), "gap_ms": gap_ms}));
        self.beats.extend(lines.into_iter().map(Beat::Text));
    }

    fn think(&mut self, random: &mut Random) {
        let thought = format!("{} thinks {}", self.key, random.number());
        self.steps.push(json!({"thinking": thought}));
        self.beats.push(Beat::Thinking(thought));
    }

    fn call(&mut self, random: &mut Random) {
        let result = format!("{} made {}", self.key, random.number());
        self.steps.push(json!({"tool": "Bash", "input": {"command": "make"}, "result": result}));
        self.beats.push(Beat::Call("Bash".to_owned()));
        self.beats.push(Beat::Result(result));
    }
}

impl Beat {
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Beat::Text(text) => Some(text),
            Beat::Thinking(_) | Beat::Call(_) | Beat::Result(_) => None,
        }
    }
}

/// A line nobody else says, with characters of every width in UTF-8.
fn line(key: &str, at: usize, random: &mut Random) -> String {
    const FILLERS: &[char] = &['a', 'ß', '→', '🐎', '.'];
    let filler = random.pick(FILLERS).copied().unwrap_or('.');
    let mut line = format!("{key} {at:05} {:08x} ", random.number() as u32);
    let used = line.chars().count();
    line.extend(std::iter::repeat_n(filler, LINE_CHARS.saturating_sub(used + 1)));
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_piece_of_its_own() {
        let story = Story::new("s01t002", 9, 3, &mut Random::new(1));
        let texts: Vec<&str> = story.beats().iter().filter_map(Beat::text).collect();
        assert_eq!((texts.len(), story.beats().len()), (9, 12));
        assert!(texts.iter().all(|text| text.chars().count() == LINE_CHARS && text.ends_with('\n')));
        assert!(story.prompt().starts_with("s01t002 SCRIPT: ["));
        assert_eq!(story.steps[0]["chunks"], 4);
    }
}
