//! The first look at every byte: one automaton that knows all keywords and the anchors of all known secrets, and
//! remembers where it stands between chunks. Must not decide anything; it only says who should look closer.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::{Anchored, dfa};

use super::follow::Follow;
use super::known::KnownSet;
use super::rules::RuleSet;

/// Who wants to look closer at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GateTarget {
    Rule(u32),
    /// A pattern of a known secret, seen at one of its anchors.
    Known {
        pattern: u32,
        anchor: u32,
    },
    PrivateKey,
}

/// The automaton and whom its patterns call.
#[derive(Debug)]
pub(crate) struct Gate {
    dfa: dfa::DFA,
    start: StateID,
    targets: Vec<Vec<GateTarget>>,
    /// What may stand behind each word; made when the word is first seen.
    follows: Vec<OnceLock<Follow>>,
    /// The words again, in small letters and in order, for those that begin at a known place.
    words: Vec<Vec<u8>>,
    /// What words begin with: a bit for each two bytes, whatever their case.
    pairs: Box<[u64; 1024]>,
}

/// The text every armoured key starts with.
pub(crate) const PRIVATE_KEY_WORD: &str = "-----begin";

impl Gate {
    /// Builds the automaton over rules and known secrets.
    pub(crate) fn new(rules: &RuleSet, known: &KnownSet) -> Result<Self, String> {
        let mut words: BTreeMap<Vec<u8>, Vec<GateTarget>> = BTreeMap::new();
        let mut call = |word: &[u8], target| {
            let targets = words.entry(word.to_ascii_lowercase()).or_default();
            if !targets.contains(&target) {
                targets.push(target);
            }
        };
        for (index, rule) in (0..).zip(&rules.rules) {
            for word in &rule.keywords {
                call(word.as_bytes(), GateTarget::Rule(index));
            }
        }
        if rules.private_key.is_some() {
            call(PRIVATE_KEY_WORD.as_bytes(), GateTarget::PrivateKey);
        }
        for (pattern, anchor, word) in known.anchors() {
            call(word, GateTarget::Known { pattern, anchor });
        }
        let (words, targets): (Vec<Vec<u8>>, Vec<_>) = words.into_iter().unzip();
        let dfa = dfa::Builder::new().ascii_case_insensitive(true).build(&words);
        let dfa = dfa.map_err(|error| format!("keywords: {error}"))?;
        let start = dfa.start_state(Anchored::No).map_err(|error| format!("keywords: {error}"))?;
        let follows = words.iter().map(|_| OnceLock::new()).collect();
        let mut gate = Self { dfa, start, targets, follows, words: Vec::new(), pairs: Box::new([0; 1024]) };
        for word in &words {
            let all: Vec<u8> = (0..=u8::MAX).collect();
            let (one, two) = (word.first().map(std::slice::from_ref), word.get(1).map(std::slice::from_ref));
            for one in one.unwrap_or(&all) {
                two.unwrap_or(&all).iter().for_each(|two| gate.note_pair(*one, *two));
            }
        }
        gate.words = words;
        Ok(gate)
    }

    fn note_pair(&mut self, one: u8, two: u8) {
        for one in [one, one.to_ascii_uppercase()] {
            for two in [two, two.to_ascii_uppercase()] {
                let pair = usize::from(one) << 8 | usize::from(two);
                self.pairs[pair / 64] |= 1 << (pair % 64);
            }
        }
    }

    /// Whether a word can begin inside `end`, which this byte follows; asked of every code.
    pub(crate) fn may_begin(&self, end: &[u8], next: Option<u8>) -> bool {
        let Some(next) = next else { return true };
        let mut behind = next;
        end.iter().rev().any(|&byte| {
            let pair = usize::from(byte) << 8 | usize::from(behind);
            behind = byte;
            self.pairs[pair / 64] & (1 << (pair % 64)) != 0
        })
    }

    /// Returns the words that `end` and the text behind it begin with, and whom they call.
    pub(crate) fn words<'g>(
        &'g self,
        end: &'g [u8],
        text: &'g [u8],
    ) -> impl Iterator<Item = (usize, GateTarget)> + 'g {
        let fits = self.alike(end).filter(move |at| {
            let word = &self.words[*at];
            word.len() <= end.len() + text.len() && begins(end, text, word)
        });
        fits.flat_map(move |at| self.targets[at].iter().map(move |target| (self.words[at].len(), *target)))
    }

    /// Whether more text could make a word of `end` and the text behind it.
    pub(crate) fn is_open(&self, end: &[u8], text: &[u8]) -> bool {
        let mut longer = self.alike(end).filter(|at| self.words[*at].len() > end.len() + text.len());
        longer.any(|at| begins(end, text, &self.words[at]))
    }

    /// Whether a text ends inside a word, be it after its first letter.
    pub(crate) fn ends_inside_word(&self, text: &[u8]) -> bool {
        let longest = self.words.iter().map(Vec::len).max().unwrap_or(0).min(text.len());
        (1..=longest).any(|length| self.is_open(&text[text.len() - length..], &[]))
    }

    /// Returns the words with the same first letter.
    fn alike(&self, end: &[u8]) -> std::ops::Range<usize> {
        let Some(letter) = end.first().map(u8::to_ascii_lowercase) else { return 0..0 };
        let from = self.words.partition_point(|word| word.first().is_none_or(|first| *first < letter));
        let to = self.words.partition_point(|word| word.first().is_none_or(|first| *first <= letter));
        from..to
    }

    /// Returns the state before the first byte.
    pub(crate) fn start(&self) -> StateID {
        self.start
    }

    /// Returns the bytes the automaton takes.
    pub(crate) fn memory(&self) -> usize {
        self.dfa.memory_usage()
    }

    /// Returns what may stand behind a word, for the rules that it calls.
    pub(crate) fn follow(&self, word: u32, rules: &RuleSet) -> &Follow {
        self.follows[word as usize].get_or_init(|| {
            let called = self.targets[word as usize].iter().filter_map(|target| match target {
                GateTarget::Rule(rule) => Some((*rule, &rules.rules[*rule as usize])),
                GateTarget::Known { .. } | GateTarget::PrivateKey => None,
            });
            // The judge has no expression; whoever follows keywords knows how far it looks.
            let called = called.filter(|(_, rule)| !rule.judged);
            Follow::new(&self.words[word as usize], &called.collect::<Vec<_>>())
        })
    }

    /// Walks over bytes and calls `hit` with the number of bytes up to the end of a word, the word, and who is called.
    #[inline]
    pub(crate) fn walk(
        &self,
        mut state: StateID,
        bytes: &[u8],
        mut hit: impl FnMut(usize, u32, &[GateTarget]),
    ) -> StateID {
        for (at, &byte) in bytes.iter().enumerate() {
            state = self.dfa.next_state(Anchored::No, state, byte);
            if self.dfa.is_special(state) && self.dfa.is_match(state) {
                for index in 0..self.dfa.match_len(state) {
                    let word = self.dfa.match_pattern(state, index);
                    hit(at + 1, word.as_u32(), &self.targets[word.as_usize()]);
                }
            }
        }
        state
    }
}

/// Whether a word, or what there is of it, stands at the beginning of one text and its continuation.
fn begins(end: &[u8], text: &[u8], word: &[u8]) -> bool {
    let stands = end.iter().chain(text).map(u8::to_ascii_lowercase);
    stands.zip(word).all(|(stands, wanted)| stands == *wanted)
}
