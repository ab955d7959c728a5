//! The other reading of terminal codes. A code that was cut off (`ESC [` and nothing more) takes the first letters behind
//! it for its end: `ESC [ AKIA…` reads as "cursor up" and `KIA…`. Nobody can tell which was meant, so that a text is
//! searched both ways wherever that matters: where a word of the gate begins inside a code, and where a code stands
//! inside a stretch that a rule looks at. What is found is redacted; the code itself stays.

use std::sync::Arc;

use super::{Cut, Place, Stream};
use crate::engine::{self, Span, Stretch, Tail};
use crate::gate::GateTarget;
use crate::rules::Rank;

/// The end of a code, until it is known whether a word begins there.
#[derive(Debug)]
pub(super) struct Doubt {
    /// The byte behind the code.
    pub(super) at: u64,
    end: Vec<u8>,
}

/// Somebody who wants to look at a text that begins with the end of a code.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) at: u64,
    end: Vec<u8>,
    /// How long the word is that called.
    word: usize,
    target: GateTarget,
}

/// A stretch with the ends of its codes put back.
struct Reading {
    bytes: Vec<u8>,
    /// The number of its first byte.
    first: u64,
    /// Where ends were put in, and how long they are.
    ends: Vec<(usize, usize)>,
}

impl Stream {
    /// Notes codes that came with the last bytes.
    pub(super) fn doubt(&mut self, known: usize) {
        for cut in self.cuts.range(known..) {
            let next = self.view.get((cut.at - self.base) as usize).copied();
            if self.scrubber.gate.may_begin(cut.end(), next) {
                self.doubts.push(Doubt { at: cut.at, end: cut.end().to_vec() });
            }
        }
    }

    /// Finds out where a word begins inside a code.
    pub(super) fn settle_doubts(&mut self) {
        let gate = Arc::clone(&self.scrubber.gate);
        let mut doubts = std::mem::take(&mut self.doubts);
        doubts.retain(|doubt| {
            let text = &self.view[(doubt.at - self.base) as usize..];
            let begin = 0..doubt.end.len();
            if !self.ended && begin.clone().any(|from| gate.is_open(&doubt.end[from..], text)) {
                return true;
            }
            for from in begin {
                let end = &doubt.end[from..];
                for (word, target) in gate.words(end, text) {
                    self.calls.push(Call { at: doubt.at, end: end.to_vec(), word, target });
                }
            }
            false
        });
        self.doubts = doubts;
    }

    /// Lets everybody look who was called and whose text is there.
    pub(super) fn answer_calls(&mut self) {
        let mut calls = std::mem::take(&mut self.calls);
        calls.retain(|call| !self.answer(call));
        self.calls = calls;
    }

    fn answer(&mut self, call: &Call) -> bool {
        let rules = &self.scrubber.rules;
        let known = &self.scrubber.known;
        let reach = match call.target {
            GateTarget::Rule(rule) => rules.rules[rule as usize].after,
            GateTarget::Known { pattern, anchor } => known.pattern(pattern).reach(anchor),
            GateTarget::PrivateKey => 0,
        };
        let (length, behind) = (call.word as u64 + reach, call.end.len() as u64);
        let to = call.at + length.saturating_sub(behind);
        if !self.is_there(to) {
            return false;
        }
        let shown = to.saturating_add(self.lookahead()).min(self.available());
        let mut bytes = call.end.clone();
        bytes.extend_from_slice(self.bytes(call.at, shown));
        let back = |at: u64| call.at + at.saturating_sub(behind);
        let spans = &mut self.spans;
        let mut found = |span: Span| {
            if back(span.end) > back(span.start) {
                spans.push(Span { start: back(span.start), end: back(span.end), ..span });
            }
        };
        match call.target {
            GateTarget::Rule(rule) if !matches!(self.open_of[rule as usize], Place::Nowhere) => {
                let path = self.path.as_deref();
                let stretch = Stretch { view: &bytes, base: 0, from: 0, to: length, path };
                engine::search(rules, &rules.rules[rule as usize], stretch, found);
            }
            GateTarget::Known { pattern, anchor } => {
                let pattern = known.pattern(pattern);
                if let Some((start, end)) = pattern.verify(&bytes, call.word, anchor) {
                    let (start, end, tail) = (start as u64, end as u64, Tail::Closed);
                    found(Span { start, end, tail, rank: Rank::Known, id: pattern.name.clone() });
                }
            }
            GateTarget::Rule(_) | GateTarget::PrivateKey => {}
        }
        true
    }

    /// Searches a stretch again with the ends of doubtful codes in it as text.
    pub(super) fn search_otherwise(&mut self, rule: u32, from: u64, to: u64) {
        let Some(reading) = self.reading(from, to) else { return };
        let rules = &self.scrubber.rules;
        let (low, high) = (from - reading.first, reading.bytes.len() as u64);
        let end = (high - low).min(to - from + reading.added()) + low;
        let stretch =
            Stretch { view: &reading.bytes, base: 0, from: low, to: end, path: self.path.as_deref() };
        let spans = &mut self.spans;
        engine::search(rules, &rules.rules[rule as usize], stretch, |span| {
            let (start, end) = (reading.back(span.start), reading.back(span.end));
            if reading.touches(&span) && end > start {
                spans.push(Span { start, end, ..span });
            }
        });
    }

    /// Puts the ends of doubtful codes inside a stretch back; none if there are none.
    fn reading(&self, from: u64, to: u64) -> Option<Reading> {
        let first = self.cuts.partition_point(|cut| cut.at <= from);
        let last = self.cuts.partition_point(|cut| cut.at < to.min(self.available()));
        let mut doubtful = self.cuts.range(first..last.max(first)).filter(|cut| cut.is_doubtful()).peekable();
        doubtful.peek()?;
        // Some bytes before and behind, so that the edges look like what they are.
        let start = from.saturating_sub(self.lookahead()).max(self.base);
        let stop = to.saturating_add(self.lookahead()).min(self.available());
        let mut reading = Reading { bytes: Vec::new(), first: start, ends: Vec::new() };
        let mut at = start;
        for cut in doubtful {
            reading.bytes.extend_from_slice(self.bytes(at, cut.at));
            reading.ends.push((reading.bytes.len(), cut.end().len()));
            reading.bytes.extend_from_slice(cut.end());
            at = cut.at;
        }
        reading.bytes.extend_from_slice(self.bytes(at, stop));
        Some(reading)
    }
}

impl Reading {
    fn added(&self) -> u64 {
        self.ends.iter().map(|(_, len)| *len as u64).sum()
    }

    /// Returns the number in the text of a byte of the reading.
    fn back(&self, at: u64) -> u64 {
        let at = at as usize;
        let before = self.ends.iter().map(|(from, len)| at.saturating_sub(*from).min(*len)).sum::<usize>();
        self.first + (at - before) as u64
    }

    fn touches(&self, span: &Span) -> bool {
        let (start, end) = (span.start as usize, span.end as usize);
        self.ends.iter().any(|(from, len)| start < from + len && end > *from)
    }
}

impl Cut {
    /// Whether its end may be text inside a secret: colours with numbers are what they look like.
    fn is_doubtful(&self) -> bool {
        !matches!(self.end(), [b'0'..=b'?', .., b'm' | b'K'])
    }
}
