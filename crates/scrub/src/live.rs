//! Scrubs a text that somebody watches while it comes in: what an agent says. Unlike [`crate::Stream`], whose result never depends on
//! how a text was cut, this lets everything out at once but the end of the text that may still become a secret: a rule's expression
//! says what can. Bytes that were let out stay known for a while, so that a secret is recognised by the words before it. Must
//! not know clocks: what may become a secret waits until more comes or the text ends, however long that takes.

use std::ops::Range;

use aho_corasick::automaton::StateID;

use super::Scrubber;
use super::engine::{self, Span, Stretch, Tail};
use super::gate::{GateTarget, PRIVATE_KEY_WORD};
use super::pem::{self, Verdict};
use super::rules::Rank;
use crate::limits;

/// What was let out of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    pub text: String,
    /// The same with its secrets, where there were any.
    pub original: Option<String>,
}

/// A keyword that was seen.
#[derive(Clone, Copy, Debug)]
struct Hit {
    rule: u32,
    end: usize,
}

/// Where a private key begins, and where it ends once that is known.
#[derive(Clone, Copy, Debug)]
struct OpenPrivateKey {
    start: usize,
    end: Option<usize>,
}

/// A known secret that may stand here.
#[derive(Clone, Copy, Debug)]
struct LiveCandidate {
    pattern: u32,
    anchor: u32,
    end: usize,
}

/// What a text needs to go on elsewhere. Holds secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    pub view: Vec<u8>,
    pub shown: usize,
    pub redacted: bool,
}

/// A text that is watched while it comes in.
#[derive(Debug)]
pub struct Live {
    scrubber: Scrubber,
    /// The end of what was let out, then what is held back.
    view: Vec<u8>,
    shown: usize,
    state: StateID,
    hits: Vec<Hit>,
    suspects: Vec<LiveCandidate>,
    keys: Vec<OpenPrivateKey>,
    /// The last thing shown stands for a secret that ends at `shown`, and may go on.
    redacted: bool,
    /// A secret too long to be held goes on as long as its bytes do.
    tail: Tail,
}

impl Live {
    /// Starts on a text.
    pub fn new(scrubber: &Scrubber) -> Self {
        Self {
            view: Vec::new(),
            shown: 0,
            state: scrubber.gate.start(),
            scrubber: scrubber.clone(),
            hits: Vec::new(),
            suspects: Vec::new(),
            keys: Vec::new(),
            redacted: false,
            tail: Tail::Closed,
        }
    }

    /// Goes on where another left off.
    pub fn restore(scrubber: &Scrubber, saved: Saved) -> Self {
        let mut live = Self::new(scrubber);
        live.shown = saved.shown.min(saved.view.len());
        live.redacted = saved.redacted;
        live.view = saved.view;
        live.scan(0);
        live
    }

    /// Returns what is needed to go on; nothing where a fresh start does as well.
    pub fn save(&self) -> Option<Saved> {
        let is_plain = self.shown == self.view.len()
            && self.hits.is_empty()
            && self.keys.is_empty()
            && self.suspects.is_empty();
        if is_plain && !self.scrubber.gate.ends_inside_word(&self.view) {
            return None;
        }
        let from = if is_plain { self.view.len().saturating_sub(limits::LIVE_WORD) } else { 0 };
        let (view, shown) = (self.view[from..].to_vec(), self.shown - from);
        Some(Saved { view, shown, redacted: self.redacted })
    }

    /// Takes a piece of the text and returns what can be shown by now.
    pub fn push(&mut self, text: &str) -> Piece {
        let from = self.view.len();
        self.view.extend_from_slice(text.as_bytes());
        self.scan(from);
        self.drop_old_hits();
        if self.tail == Tail::Closed && self.is_quiet() && !self.ends_in_token() {
            return self.show_plainly();
        }
        let spans = self.spans(false);
        let hold = self.hold(&spans);
        if self.view.len() - hold > limits::LIVE_HELD_MAX {
            let spans = self.spans(true);
            return self.show(self.view.len(), spans, true);
        }
        self.show(hold, spans, false)
    }

    /// Returns how many bytes wait for more text, because they may become a secret.
    pub fn held(&self) -> usize {
        self.view.len() - self.shown
    }

    /// Ends the text and lets the rest out; what is pushed next is another text.
    pub fn finish(&mut self) -> Piece {
        let spans = self.spans(true);
        let piece = self.show(self.view.len(), spans, false);
        *self = Self::new(&self.scrubber);
        piece
    }

    fn scan(&mut self, from: usize) {
        let (hits, suspects, keys) = (&mut self.hits, &mut self.suspects, &mut self.keys);
        self.state = self.scrubber.gate.walk(self.state, &self.view[from..], |at, targets| {
            let end = from + at;
            for target in targets {
                match *target {
                    GateTarget::Rule(rule) => hits.push(Hit { rule, end }),
                    GateTarget::Known { pattern, anchor } => {
                        suspects.push(LiveCandidate { pattern, anchor, end })
                    }
                    GateTarget::PrivateKey => {
                        keys.push(OpenPrivateKey { start: end - PRIVATE_KEY_WORD.len(), end: None })
                    }
                }
            }
        });
    }

    /// Forgets keywords that nothing not shown yet can stand behind.
    fn drop_old_hits(&mut self) {
        let (rules, shown) = (&self.scrubber.rules.rules, self.shown);
        self.hits.retain(|hit| hit.end + reach(&rules[hit.rule as usize]) > shown);
        let known = &self.scrubber.known;
        let reach = |suspect: &LiveCandidate| known.pattern(suspect.pattern).reach(suspect.anchor) as usize;
        self.suspects.retain(|suspect| suspect.end + reach(suspect) > shown);
    }

    /// The first private key whose end has not come.
    fn open_key(&self) -> Option<usize> {
        self.keys.iter().find(|key| key.end.is_none()).map(|key| key.start)
    }

    fn is_quiet(&self) -> bool {
        self.hits.is_empty()
            && self.suspects.is_empty()
            && self.keys.is_empty()
            && self.scrubber.rules.uncalled.is_empty()
    }

    /// Whether the text ends in something long without a gap, in which a keyword may come last.
    fn ends_in_token(&self) -> bool {
        let token = &self.view[self.token_start()..];
        token.len() >= limits::LIVE_TOKEN_MIN
            && token.iter().any(u8::is_ascii_digit)
            && token.iter().any(u8::is_ascii_alphabetic)
    }

    /// Where what stands at the end without a gap begins; what was shown of it counts: it may come letter by letter.
    fn token_start(&self) -> usize {
        self.view.iter().rposition(|byte| is_gap(*byte)).map_or(0, |at| at + 1)
    }

    fn show_plainly(&mut self) -> Piece {
        let text = String::from_utf8_lossy(&self.view[self.shown..]).into_owned();
        if !text.is_empty() {
            self.redacted = false;
        }
        self.shown = self.view.len();
        self.forget();
        Piece { text, original: None }
    }

    /// Finds every secret in what is there.
    fn spans(&mut self, ended: bool) -> Vec<Span> {
        let set = &self.scrubber.rules;
        let mut spans = Vec::new();
        for (rule, stretch) in self.stretches() {
            let (from, to) = (stretch.start as u64, stretch.end as u64);
            let stretch = Stretch { view: &self.view, base: 0, from, to, path: None };
            engine::search(set, &set.rules[rule as usize], stretch, |span| spans.push(span));
        }
        for suspect in &self.suspects {
            let pattern = self.scrubber.known.pattern(suspect.pattern);
            if let Some((start, end)) = pattern.verify(&self.view, suspect.end, suspect.anchor) {
                let (start, end) = (start as u64, end as u64);
                let (tail, rank, id) = (Tail::Closed, Rank::Known, pattern.name.clone());
                spans.push(Span { start, end, tail, rank, id });
            }
        }
        if let Some(id) = &set.private_key {
            let view = &self.view;
            self.keys.retain_mut(|key| match pem::judge(&view[key.start..], ended) {
                Verdict::Wait => true,
                Verdict::NotAKey => false,
                Verdict::Key { len, open } => {
                    key.end = Some(key.start + len);
                    let (start, end) = (key.start as u64, (key.start + len) as u64);
                    let tail = if open { Tail::Key } else { Tail::Closed };
                    spans.push(Span { start, end, tail, rank: Rank::Specific, id: id.clone() });
                    true
                }
            });
        } else {
            self.keys.clear();
        }
        spans.sort_by(|one, other| other.cmp(one));
        spans
    }

    /// Returns which rules look closer, and where: around their keywords, once each.
    fn stretches(&self) -> Vec<(u32, Range<usize>)> {
        let rules = &self.scrubber.rules;
        let mut stretches: Vec<(u32, Range<usize>)> = Vec::new();
        for hit in &self.hits {
            let rule = &rules.rules[hit.rule as usize];
            let end = (hit.end + reach(rule)).min(self.view.len());
            match stretches.iter_mut().find(|(index, _)| *index == hit.rule) {
                Some((_, stretch)) => stretch.end = end,
                None => stretches.push((hit.rule, hit.end.saturating_sub(rule.before as usize)..end)),
            }
        }
        for index in &rules.uncalled {
            let from = self.shown.saturating_sub(rules.rules[*index as usize].before as usize);
            stretches.push((*index, from..self.view.len()));
        }
        stretches
    }

    /// Returns where that begins which may still become a secret.
    fn hold(&self, spans: &[Span]) -> usize {
        let end = self.view.len();
        let mut hold = end;
        let rules = &self.scrubber.rules;
        for (index, stretch) in self.stretches() {
            // What a keyword cannot stand for any more is not waited for.
            if stretch.end != end {
                continue;
            }
            let rule = &rules.rules[index as usize];
            let is_called = |start: usize| {
                rule.announced_before || self.hits.iter().any(|hit| hit.rule == index && hit.end > start)
            };
            hold = rule
                .begun(&self.view, stretch.start)
                .filter(|start| is_called(*start))
                .unwrap_or(end)
                .min(hold);
        }
        if self.ends_in_token() {
            let from = self.token_start().saturating_sub(1);
            let begun = rules
                .unannounced
                .iter()
                .filter_map(|rule| rules.rules[*rule as usize].begun(&self.view, from));
            hold = hold.min(begun.filter(|start| end - start >= limits::LIVE_TOKEN_MIN).min().unwrap_or(end));
        }
        for suspect in &self.suspects {
            let pattern = self.scrubber.known.pattern(suspect.pattern);
            if suspect.end + pattern.reach(suspect.anchor) as usize > end {
                hold = hold.min(suspect.end.saturating_sub(limits::KNOWN_ANCHOR));
            }
        }
        hold = hold.min(self.open_key().unwrap_or(end));
        // A secret is shown as a whole or not at all.
        for span in spans.iter().rev() {
            if (span.start as usize) < hold && span.end as usize > hold {
                hold = span.start as usize;
            }
        }
        while hold > self.shown && is_inside_letter(&self.view, hold) {
            hold -= 1;
        }
        hold.max(self.shown)
    }

    /// Lets everything before `to` out, secrets as their names.
    fn show(&mut self, to: usize, spans: Vec<Span>, cut: bool) -> Piece {
        let (from, mut out, mut at) = (self.shown, Vec::new(), self.shown);
        let mut changed = false;
        if self.tail != Tail::Closed {
            let rest = &self.view[at..to];
            let length = rest.iter().position(|byte| !self.tail.goes_on(*byte));
            if length.is_some() {
                self.tail = Tail::Closed;
            }
            at += length.unwrap_or(rest.len());
            changed |= at > from;
        }
        for span in spans {
            let (mut start, mut end) = (span.start as usize, (span.end as usize).min(to));
            // Rules count bytes; letters are shown whole or not at all.
            while is_inside_letter(&self.view, start) {
                start -= 1;
            }
            while is_inside_letter(&self.view, end) {
                end += 1;
            }
            if end <= at || start >= to {
                continue;
            }
            if start > at {
                out.extend_from_slice(&self.view[at..start]);
                self.redacted = false;
            }
            // What was shown before as the same secret has only grown.
            if !(self.redacted && start.max(at) == at && (start < at || at == from)) {
                out.extend_from_slice(b"[REDACTED:");
                out.extend_from_slice(span.id.as_bytes());
                out.push(b']');
            }
            (at, changed, self.redacted) = (end, true, true);
            let tail = if span.tail == Tail::Closed && cut && end == to { Tail::Token } else { span.tail };
            at += self.view[at..to].iter().position(|byte| !tail.goes_on(*byte)).unwrap_or(to - at);
            if at == to && tail != Tail::Closed {
                self.tail = tail;
            }
        }
        if at < to {
            out.extend_from_slice(&self.view[at..to]);
            self.redacted = false;
        }
        let original = changed.then(|| String::from_utf8_lossy(&self.view[from..to]).into_owned());
        self.shown = to;
        self.keys.retain(|key| key.end.is_none_or(|end| end > to));
        self.forget();
        Piece { text: String::from_utf8_lossy(&out).into_owned(), original }
    }

    /// Drops the beginning of what was shown.
    fn forget(&mut self) {
        if self.shown <= 2 * limits::LIVE_CONTEXT {
            return;
        }
        let mut drop = self.shown - limits::LIVE_CONTEXT;
        // What a keyword still stands for is kept with it.
        if let Some(first) = self.hits.first() {
            drop = drop.min(first.end.saturating_sub(limits::SCRUB_WINDOW_BEFORE));
        }
        if let Some(first) = self.suspects.first() {
            drop = drop.min(first.end.saturating_sub(limits::LIVE_CONTEXT));
        }
        if let Some(first) = self.keys.first() {
            drop = drop.min(first.start);
        }
        if drop < limits::LIVE_CONTEXT {
            return;
        }
        self.view.drain(..drop);
        self.shown -= drop;
        self.hits.iter_mut().for_each(|hit| hit.end -= drop);
        self.suspects.iter_mut().for_each(|suspect| suspect.end -= drop);
        for key in &mut self.keys {
            key.start -= drop;
            key.end = key.end.map(|end| end - drop);
        }
    }
}

/// How far behind a keyword a secret may stand in what people and programs say.
fn reach(rule: &super::rules::Rule) -> usize {
    rule.after as usize
}

/// Whether a position is between two bytes of one letter.
fn is_inside_letter(view: &[u8], at: usize) -> bool {
    at > 0 && view.get(at).is_some_and(|byte| byte & 0xc0 == 0x80)
}

/// Whether a byte stands in no secret but between quotes.
fn is_gap(byte: u8) -> bool {
    byte.is_ascii_whitespace()
        || matches!(
            byte,
            b'"' | b'\'' | b'`' | b',' | b';' | b'(' | b')' | b'<' | b'>' | b'[' | b']' | b'{' | b'}' | b'|'
        )
}

#[cfg(test)]
mod tests;
