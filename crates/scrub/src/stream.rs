//! Scrubs a text that comes in pieces. What is found depends on the text alone: each rule searches stretches around
//! its keywords, and a byte is let out when no stretch that covers it is left to search. So the result is the same
//! for every way of cutting the text up, and what is held back is bounded.

mod other;

use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use aho_corasick::automaton::StateID;

use super::ansi::{Cut, Stripper};
use super::engine::{self, Span, Stretch, Tail};
use super::gate::{GateTarget, PRIVATE_KEY_WORD};
use super::known::KnownSet;
use super::pem::{self, Verdict};
use super::rules::Rank;
use super::{Finding, Findings, Scrubber};
use crate::limits;
use other::{Call, Doubt};

/// A stretch of text that a rule will search.
#[derive(Debug)]
struct Open {
    rule: u32,
    start: u64,
    end: u64,
}

/// Where a rule's stretch is.
#[derive(Clone, Debug)]
enum Place {
    Closed,
    At(usize),
    /// The rule does not look at this file.
    Nowhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    Possible,
    Done,
}

/// A place where a known secret may stand.
#[derive(Debug)]
struct StreamCandidate {
    pattern: u32,
    anchor: u32,
    end: u64,
}

/// A place where a private key may start.
#[derive(Debug)]
struct PrivateKeyStart {
    start: u64,
    look_again_at: u64,
}

/// How much more of a key must have come before it is looked at again.
const KEY_STEP: u64 = 1024;

/// A scrubber at work on one text.
pub struct Stream {
    scrubber: Scrubber,
    path: Option<String>,
    stripper: Stripper,
    cuts: VecDeque<Cut>,
    /// The text without colour codes, from byte number `base` on.
    view: Vec<u8>,
    base: u64,
    state: StateID,
    scanned: u64,
    emitted: u64,
    /// Bytes of colour codes let out so far: the difference between a byte's number in `view` and in the input.
    codes: u64,
    open: Vec<Open>,
    open_of: Vec<Place>,
    /// Complete stretches behind which the text is not there yet.
    closed: Vec<Open>,
    suspects: Vec<StreamCandidate>,
    keys: VecDeque<PrivateKeyStart>,
    /// Codes that may be the beginning of something, and who wants to look at what they begin.
    doubts: Vec<Doubt>,
    calls: Vec<Call>,
    spans: BinaryHeap<Span>,
    redacted_to: u64,
    /// Secrets longer than what their rules look at: where each goes on, and how.
    tails: Vec<(u64, Tail)>,
    findings: Findings,
    ended: bool,
    keep_lines: bool,
}

impl Stream {
    /// Starts on a text; `path` is the file it comes from, if it is one.
    pub(crate) fn new(scrubber: Scrubber, path: Option<String>) -> Self {
        let mut open_of = Vec::with_capacity(scrubber.rules.rules.len());
        let mut open = Vec::new();
        for (index, rule) in (0..).zip(&scrubber.rules.rules) {
            open_of.push(if !rule.looks_at(path.as_deref()) {
                Place::Nowhere
            } else if rule.keywords.is_empty() {
                // Nothing says where to look, so that the rule looks everywhere.
                open.push(Open { rule: index, start: 0, end: u64::MAX });
                Place::At(open.len() - 1)
            } else {
                Place::Closed
            });
        }
        Self {
            state: scrubber.gate.start(),
            scrubber,
            path,
            stripper: Stripper::default(),
            cuts: VecDeque::new(),
            view: Vec::new(),
            base: 0,
            scanned: 0,
            emitted: 0,
            codes: 0,
            open,
            open_of,
            closed: Vec::new(),
            suspects: Vec::new(),
            keys: VecDeque::new(),
            doubts: Vec::new(),
            calls: Vec::new(),
            spans: BinaryHeap::new(),
            redacted_to: 0,
            tails: Vec::new(),
            findings: Findings::default(),
            ended: false,
            keep_lines: false,
        }
    }

    /// Keeps the line breaks of secrets that span lines, so that the lines of a file keep their numbers.
    pub fn keeping_lines(mut self) -> Self {
        self.keep_lines = true;
        self
    }

    /// Takes a piece of the text and returns what can be shown by now.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(chunk.len() + 64);
        self.push_into(chunk, &mut out);
        out
    }

    /// Takes a piece of the text and adds what can be shown by now to `out`.
    pub fn push_into(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        for slice in chunk.chunks(limits::SCRUB_SLICE_MAX) {
            let known = self.cuts.len();
            self.stripper.take(slice, self.base, &mut self.view, &mut self.cuts);
            self.doubt(known);
            self.advance(out);
        }
    }

    /// Ends the text: returns the rest of it and all findings.
    pub fn finish(mut self) -> (Vec<u8>, Findings) {
        self.end()
    }

    /// As [`Stream::finish`], for owners who cannot part with it.
    pub fn end(&mut self) -> (Vec<u8>, Findings) {
        let mut out = Vec::new();
        self.stripper.finish(&mut self.view);
        self.ended = true;
        self.advance(&mut out);
        (out, std::mem::take(&mut self.findings))
    }

    /// Returns what was found up to now.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Returns how many bytes wait for more text.
    pub fn held(&self) -> usize {
        (self.available() - self.emitted) as usize
    }

    /// Returns how many bytes of memory the text takes at the moment.
    pub fn memory(&self) -> usize {
        self.view.capacity()
            + self.cuts.capacity() * size_of::<Cut>()
            + (self.open.capacity() + self.closed.capacity()) * size_of::<Open>()
            + self.suspects.capacity() * size_of::<StreamCandidate>()
            + self.keys.capacity() * size_of::<PrivateKeyStart>()
            + self.spans.capacity() * size_of::<Span>()
            + self.doubts.capacity() * size_of::<Doubt>()
            + self.calls.capacity() * size_of::<Call>()
    }

    fn available(&self) -> u64 {
        self.base + self.view.len() as u64
    }

    fn advance(&mut self, out: &mut Vec<u8>) {
        self.scan();
        self.search_ready();
        self.verify_suspects();
        self.judge_keys();
        self.settle_doubts();
        self.answer_calls();
        let safe = self.safe();
        self.emit(safe, out);
        self.forget();
    }

    /// Shows new bytes to the gate and notes who wants to look closer.
    fn scan(&mut self) {
        let gate = Arc::clone(&self.scrubber.gate);
        let from = self.scanned;
        // The gate reads the view while notes are taken elsewhere in `self`.
        let view = std::mem::take(&mut self.view);
        self.state = gate.walk(self.state, &view[(from - self.base) as usize..], |at, _, targets| {
            let end = from + at as u64;
            for target in targets {
                match *target {
                    GateTarget::Rule(rule) => self.touch(rule, end),
                    GateTarget::Known { pattern, anchor } => {
                        self.suspects.push(StreamCandidate { pattern, anchor, end })
                    }
                    GateTarget::PrivateKey => {
                        let start = end - PRIVATE_KEY_WORD.len() as u64;
                        self.keys.push_back(PrivateKeyStart { start, look_again_at: 0 });
                    }
                }
            }
        });
        self.view = view;
        self.scanned = self.available();
    }

    /// Lets a rule's stretch grow around a keyword that ends at `end`, or opens one.
    fn touch(&mut self, index: u32, end: u64) {
        let rule = &self.scrubber.rules.rules[index as usize];
        let fresh = Open { rule: index, start: end.saturating_sub(rule.before), end: end + rule.after };
        match &mut self.open_of[index as usize] {
            Place::Nowhere => {}
            Place::At(slot) => {
                let open = &mut self.open[*slot];
                if fresh.start <= open.end {
                    open.end = open.end.max(fresh.end);
                } else {
                    self.closed.push(std::mem::replace(open, fresh));
                }
            }
            place @ Place::Closed => {
                *place = Place::At(self.open.len());
                self.open.push(fresh);
            }
        }
    }

    /// What must be there behind a stretch before it may be searched: its edge has to look like what it is.
    fn lookahead(&self) -> u64 {
        if self.scrubber.rules.needs_line { limits::SCRUB_LINE_MAX as u64 + 1 } else { 1 }
    }

    fn is_there(&self, end: u64) -> bool {
        self.ended || end.saturating_add(self.lookahead()) <= self.available()
    }

    /// Searches every stretch that is complete, and the front of those that grew long.
    fn search_ready(&mut self) {
        let mut waiting = std::mem::take(&mut self.closed);
        waiting.retain_mut(|closed| !self.search_front(closed, Growth::Done));
        self.closed = waiting;
        let mut slot = 0;
        let mut open = std::mem::take(&mut self.open);
        while let Some(one) = open.get_mut(slot) {
            let before = self.scrubber.rules.rules[one.rule as usize].before;
            // Keywords still to come end behind what was scanned.
            let done = self.ended || self.scanned >= one.end.saturating_add(before);
            if self.search_front(one, if done { Growth::Done } else { Growth::Possible }) {
                self.open_of[one.rule as usize] = Place::Closed;
                open.swap_remove(slot);
                if let Some(moved) = open.get(slot) {
                    self.open_of[moved.rule as usize] = Place::At(slot);
                }
            } else {
                slot += 1;
            }
        }
        self.open = open;
    }

    /// Searches a stretch piece by piece as far as the text is there; tells whether nothing of it is left. Where the
    /// pieces lie depends only on where the stretch starts.
    fn search_front(&mut self, open: &mut Open, growth: Growth) -> bool {
        let rule = &self.scrubber.rules.rules[open.rule as usize];
        let overlap = rule.before + rule.after;
        let end = if self.ended { open.end.min(self.available()) } else { open.end };
        loop {
            let piece = open.start + limits::SCRUB_PIECE_MAX + overlap;
            if piece > end || !self.is_there(piece) {
                break;
            }
            self.search(open.rule, open.start, piece);
            open.start += limits::SCRUB_PIECE_MAX;
        }
        let last = end.saturating_sub(open.start) < limits::SCRUB_PIECE_MAX + overlap;
        if growth == Growth::Possible || !last || !self.is_there(end) {
            return false;
        }
        self.search(open.rule, open.start, end);
        true
    }

    fn search(&mut self, rule: u32, from: u64, to: u64) {
        let rules = &self.scrubber.rules;
        let path = self.path.as_deref();
        let stretch = Stretch { view: &self.view, base: self.base, from, to, path };
        engine::search(rules, &rules.rules[rule as usize], stretch, |span| self.spans.push(span));
        if !self.cuts.is_empty() {
            self.search_otherwise(rule, from, to);
        }
    }

    /// Compares where a known secret may stand.
    fn verify_suspects(&mut self) {
        let (available, base, ended) = (self.available(), self.base, self.ended);
        let known = &self.scrubber.known;
        let (view, spans) = (&self.view, &mut self.spans);
        self.suspects.retain(|suspect| {
            let pattern = known.pattern(suspect.pattern);
            if !ended && available < suspect.end + pattern.reach(suspect.anchor) {
                return true;
            }
            if let Some((start, end)) = pattern.verify(view, (suspect.end - base) as usize, suspect.anchor) {
                let (start, end) = (base + start as u64, base + end as u64);
                spans.push(Span {
                    start,
                    end,
                    tail: Tail::Closed,
                    rank: Rank::Known,
                    id: pattern.name.clone(),
                });
            }
            false
        });
    }

    /// Follows private keys to their end.
    fn judge_keys(&mut self) {
        let (available, base, ended) = (self.available(), self.base, self.ended);
        let Some(id) = &self.scrubber.rules.private_key else { return };
        let (view, spans) = (&self.view, &mut self.spans);
        self.keys.retain_mut(|key| {
            if !ended && available < key.look_again_at {
                return true;
            }
            match pem::judge(&view[(key.start - base) as usize..], ended) {
                Verdict::Wait => {
                    // A key that comes byte by byte must not be read again for each of them.
                    key.look_again_at = available + KEY_STEP;
                    return true;
                }
                Verdict::NotAKey => {}
                Verdict::Key { len, open } => spans.push(Span {
                    start: key.start,
                    end: key.start + len as u64,
                    tail: if open { Tail::Key } else { Tail::Closed },
                    rank: Rank::Specific,
                    id: id.clone(),
                }),
            }
            false
        });
    }

    /// Returns the number of the first byte that a secret not found yet may begin at.
    fn safe(&self) -> u64 {
        if self.ended {
            return self.available();
        }
        let back = self.scrubber.rules.before_max.max(KnownSet::BEFORE).max(PRIVATE_KEY_WORD.len() as u64);
        let coming = (self.scanned + 1).saturating_sub(back);
        let open = self.open.iter().chain(&self.closed).map(|open| open.start);
        let suspects = self.suspects.iter().map(|suspect| suspect.end.saturating_sub(KnownSet::BEFORE));
        let keys = self.keys.iter().map(|key| key.start);
        let others = self.doubts.iter().map(|doubt| doubt.at).chain(self.calls.iter().map(|call| call.at));
        open.chain(suspects).chain(keys).chain(others).fold(coming, u64::min).max(self.emitted)
    }

    /// Lets everything before `safe` out, secrets as their names.
    fn emit(&mut self, safe: u64, out: &mut Vec<u8>) {
        loop {
            self.emit_codes(out);
            if self.emitted >= safe {
                return;
            }
            self.take_spans(out);
            let next = self.spans.peek().map_or(safe, |span| span.start.min(safe));
            if self.emitted < self.redacted_to {
                self.pass_over(self.redacted_to.min(next), out);
                continue;
            }
            let followed = self.tails_reach(next);
            if followed > self.emitted {
                self.pass_over(followed, out);
                continue;
            }
            self.tails.clear();
            let next = self.cuts.front().map_or(next, |cut| cut.at.min(next));
            out.extend_from_slice(self.bytes(self.emitted, next));
            self.emitted = next;
        }
    }

    fn bytes(&self, from: u64, to: u64) -> &[u8] {
        &self.view[(from - self.base) as usize..(to - self.base) as usize]
    }

    fn emit_codes(&mut self, out: &mut Vec<u8>) {
        while let Some(cut) = self.cuts.pop_front_if(|cut| cut.at <= self.emitted) {
            self.codes += cut.bytes().len() as u64;
            out.extend_from_slice(cut.bytes());
        }
    }

    /// Takes up the spans that start here; those that start inside another one make it longer.
    fn take_spans(&mut self, out: &mut Vec<u8>) {
        while self.spans.peek().is_some_and(|span| span.start <= self.emitted) {
            let Some(span) = self.spans.pop() else { return };
            if self.emitted >= self.redacted_to && self.tails_reach(self.emitted + 1) == self.emitted {
                out.extend_from_slice(b"[REDACTED:");
                out.extend_from_slice(span.id.as_bytes());
                out.push(b']');
                self.findings.add(Finding { rule: span.id.clone(), offset: span.start + self.codes });
            }
            self.redacted_to = self.redacted_to.max(span.end);
            if span.tail != Tail::Closed {
                self.tails.push((span.end, span.tail));
            }
        }
    }

    /// Returns how far tails that have begun go on from here, at most up to `to`.
    fn tails_reach(&self, to: u64) -> u64 {
        let rest = self.bytes(self.emitted, to);
        let begun = self.tails.iter().filter(|(from, _)| *from <= self.emitted);
        let reach =
            begun.map(|(_, tail)| rest.iter().position(|byte| !tail.goes_on(*byte)).unwrap_or(rest.len()));
        self.emitted + reach.max().unwrap_or(0) as u64
    }

    /// Leaves bytes out up to `to`, and tails that end on the way.
    fn pass_over(&mut self, to: u64, out: &mut Vec<u8>) {
        let base = self.base;
        let left_out = &self.view[(self.emitted - base) as usize..(to - base) as usize];
        let emitted = self.emitted;
        self.tails.retain(|(from, tail)| {
            let since = from.saturating_sub(emitted).min(left_out.len() as u64) as usize;
            left_out[since..].iter().all(|byte| tail.goes_on(*byte))
        });
        if self.keep_lines {
            out.extend(memchr::memchr_iter(b'\n', left_out).map(|_| b'\n'));
        }
        self.emitted = to;
    }

    /// Drops what nobody will look at again.
    fn forget(&mut self) {
        let keep = self.emitted.saturating_sub(self.lookahead()).max(self.base);
        let done = (keep - self.base) as usize;
        if done >= 2 * limits::SCRUB_SLICE_MAX {
            self.view.drain(..done);
            self.base = keep;
        }
    }
}
