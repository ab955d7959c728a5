//! Scrubs a text that somebody watches while it comes in: what an agent says. Unlike [`crate::Stream`], whose result never depends on
//! how a text was cut, this lets everything out at once but the end of the text that may still become a secret: a rule's expression
//! says what can. Bytes that were let out stay known for a while, so that a secret is recognised by the words before it. Must
//! not know clocks: what may become a secret waits until more comes or the text ends, however long that takes.

use aho_corasick::automaton::StateID;

use super::Scrubber;
use super::engine::{self, Span, Stretch, Tail};
use super::follow::Outlook;
use super::gate::{GateTarget, PRIVATE_KEY_WORD};
use super::judge;
use super::pem::{self, Verdict};
use super::rules::{Rank, RuleSet};
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
    word: u32,
    end: usize,
    outlook: Outlook,
}

/// Where a rule looks closer, because of its keywords.
#[derive(Clone, Debug)]
struct RuleStretch {
    rule: u32,
    from: usize,
    to: usize,
    /// Where the last of the keywords ends.
    called_at: usize,
    /// More text may make a match of what is there.
    outlook: Outlook,
    /// What is there may be a match.
    found: bool,
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
    /// Where rules look closer at the moment; kept for its memory alone.
    stretches: Vec<RuleStretch>,
    suspects: Vec<LiveCandidate>,
    keys: Vec<OpenPrivateKey>,
    /// The judge looks at what begins before here, because of its keywords.
    judged_to: usize,
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
            stretches: Vec::new(),
            suspects: Vec::new(),
            keys: Vec::new(),
            judged_to: 0,
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
            && self.suspects.is_empty()
            && self.judged_to <= self.view.len();
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
        self.look();
        if self.tail == Tail::Closed && self.is_quiet() && !self.ends_in_token() {
            return self.show_plainly(text, from);
        }
        let spans = self.spans(false);
        let hold = self.hold(&spans);
        if spans.is_empty() && hold == self.view.len() && self.tail == Tail::Closed {
            let piece = self.show_plainly(text, from);
            self.hits.retain(|hit| hit.outlook == Outlook::Open);
            return piece;
        }
        let piece = if self.view.len() - hold > limits::LIVE_HELD_MAX {
            let spans = self.spans(true);
            self.show(self.view.len(), spans, true)
        } else {
            self.show(hold, spans, false)
        };
        if self.shown == self.view.len() {
            // What was found is shown by its name, and nothing more can come of it.
            self.hits.retain(|hit| hit.outlook == Outlook::Open);
        }
        piece
    }

    /// Returns how many bytes wait for more text, because they may become a secret.
    pub fn held(&self) -> usize {
        self.view.len() - self.shown
    }

    /// Ends the text and lets the rest out; what is pushed next is another text.
    pub fn finish(&mut self) -> Piece {
        self.look();
        let spans = self.spans(true);
        let piece = self.show(self.view.len(), spans, false);
        *self = Self::new(&self.scrubber);
        piece
    }

    fn scan(&mut self, from: usize) {
        let (hits, suspects, keys) = (&mut self.hits, &mut self.suspects, &mut self.keys);
        let (judged, judged_to) = (self.scrubber.rules.judged, &mut self.judged_to);
        self.state = self.scrubber.gate.walk(self.state, &self.view[from..], |at, word, targets| {
            let end = from + at;
            let mut calls_rules = false;
            for target in targets {
                match *target {
                    GateTarget::Rule(rule) if Some(rule) == judged => *judged_to = end + judge::REACH,
                    GateTarget::Rule(_) => calls_rules = true,
                    GateTarget::Known { pattern, anchor } => {
                        suspects.push(LiveCandidate { pattern, anchor, end })
                    }
                    GateTarget::PrivateKey => {
                        keys.push(OpenPrivateKey { start: end - PRIVATE_KEY_WORD.len(), end: None })
                    }
                }
            }
            if calls_rules {
                hits.push(Hit { word, end, outlook: Outlook::Open });
            }
        });
    }

    /// Finds out where rules have to look closer, and forgets keywords that nothing not shown yet can stand behind.
    fn look(&mut self) {
        let Self { scrubber, view, shown, hits, stretches, suspects, judged_to, .. } = self;
        let (set, end) = (&*scrubber.rules, view.len());
        stretches.clear();
        hits.retain_mut(|hit| {
            let follow = scrubber.gate.follow(hit.word, set);
            if hit.end + follow.reach() <= *shown {
                return false;
            }
            let mut is_called = false;
            hit.outlook = follow.look(view, hit.end, |rule| {
                is_called = true;
                note(stretches, set, rule, hit.end, end).found = true;
            });
            if hit.outlook == Outlook::Open {
                for rule in follow.rules() {
                    let stretch = note(stretches, set, rule, hit.end, end);
                    // What a keyword cannot stand for any more is not waited for.
                    if stretch.to == end {
                        stretch.outlook = Outlook::Open;
                    }
                }
            }
            is_called || hit.outlook == Outlook::Open
        });
        if let Some(rule) = set.judged
            && *judged_to > *shown
        {
            // What was shown is decided; a value that goes on is looked at from its beginning all the same.
            let (from, to) = (judge::value_around(view, *shown), (*judged_to).min(end));
            let outlook = if to == end { Outlook::Open } else { Outlook::Settled };
            stretches.push(RuleStretch { rule, from, to, called_at: from, outlook, found: true });
        }
        for rule in &set.uncalled {
            let from = shown.saturating_sub(set.rules[*rule as usize].before as usize);
            let (called_at, outlook) = (from, Outlook::Open);
            stretches.push(RuleStretch { rule: *rule, from, to: end, called_at, outlook, found: true });
        }
        let reach = |suspect: &LiveCandidate| scrubber.known.pattern(suspect.pattern).reach(suspect.anchor);
        suspects.retain(|suspect| suspect.end + reach(suspect) as usize > *shown);
    }

    /// The first private key whose end has not come.
    fn open_key(&self) -> Option<usize> {
        self.keys.iter().find(|key| key.end.is_none()).map(|key| key.start)
    }

    fn is_quiet(&self) -> bool {
        self.stretches.is_empty() && self.suspects.is_empty() && self.keys.is_empty()
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

    /// Lets everything out as it is; `pushed` is what came last, at `from`.
    fn show_plainly(&mut self, pushed: &str, from: usize) -> Piece {
        let text = if self.shown == from {
            pushed.to_owned()
        } else {
            String::from_utf8_lossy(&self.view[self.shown..]).into_owned()
        };
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
        for stretch in self.stretches.iter().filter(|stretch| stretch.found) {
            let (from, to) = (stretch.from as u64, stretch.to as u64);
            let rule = &set.rules[stretch.rule as usize];
            let stretch = Stretch { view: &self.view, base: 0, from, to, path: None };
            engine::search(set, rule, stretch, |span| spans.push(span));
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

    /// Returns where that begins which may still become a secret.
    fn hold(&self, spans: &[Span]) -> usize {
        let end = self.view.len();
        let mut hold = end;
        let rules = &self.scrubber.rules;
        for stretch in self.stretches.iter().filter(|stretch| stretch.outlook == Outlook::Open) {
            let rule = &rules.rules[stretch.rule as usize];
            let is_called = |start: usize| rule.announced_before || stretch.called_at > start;
            let begun = rule.begun(&self.view, stretch.from).filter(|start| is_called(*start));
            hold = begun.unwrap_or(end).min(hold);
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
        self.judged_to = self.judged_to.saturating_sub(drop);
        self.hits.iter_mut().for_each(|hit| hit.end -= drop);
        self.suspects.iter_mut().for_each(|suspect| suspect.end -= drop);
        for key in &mut self.keys {
            key.start -= drop;
            key.end = key.end.map(|end| end - drop);
        }
    }
}

/// Lets a rule's stretch reach around a keyword that ends at `at`.
fn note<'s>(
    stretches: &'s mut Vec<RuleStretch>,
    set: &RuleSet,
    index: u32,
    at: usize,
    end: usize,
) -> &'s mut RuleStretch {
    let rule = &set.rules[index as usize];
    let to = (at + rule.after as usize).min(end);
    let slot = match stretches.iter().position(|stretch| stretch.rule == index) {
        Some(slot) => slot,
        None => {
            let (from, outlook) = (at.saturating_sub(rule.before as usize), Outlook::Settled);
            stretches.push(RuleStretch { rule: index, from, to, called_at: at, outlook, found: false });
            stretches.len() - 1
        }
    };
    let stretch = &mut stretches[slot];
    (stretch.to, stretch.called_at) = (stretch.to.max(to), stretch.called_at.max(at));
    stretch
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
