//! The first look at every byte: one automaton that knows all keywords and the anchors of all known secrets, and
//! remembers where it stands between chunks. Must not decide anything; it only says who should look closer.

use std::collections::BTreeMap;

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::{Anchored, dfa};

use super::known::KnownSet;
use super::rules::RuleSet;

/// Who wants to look closer at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
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
    targets: Vec<Vec<Target>>,
}

/// The text every armoured key starts with.
pub(crate) const PRIVATE_KEY_WORD: &str = "-----begin";

impl Gate {
    /// Builds the automaton over rules and known secrets.
    pub(crate) fn new(rules: &RuleSet, known: &KnownSet) -> Result<Self, String> {
        let mut words: BTreeMap<Vec<u8>, Vec<Target>> = BTreeMap::new();
        let mut call = |word: &[u8], target| {
            let targets = words.entry(word.to_ascii_lowercase()).or_default();
            if !targets.contains(&target) {
                targets.push(target);
            }
        };
        for (index, rule) in (0..).zip(&rules.rules) {
            for word in &rule.keywords {
                call(word.as_bytes(), Target::Rule(index));
            }
        }
        if rules.private_key.is_some() {
            call(PRIVATE_KEY_WORD.as_bytes(), Target::PrivateKey);
        }
        for (pattern, anchor, word) in known.anchors() {
            call(word, Target::Known { pattern, anchor });
        }
        let (words, targets): (Vec<_>, Vec<_>) = words.into_iter().unzip();
        let dfa = dfa::Builder::new().ascii_case_insensitive(true).build(&words);
        let dfa = dfa.map_err(|error| format!("keywords: {error}"))?;
        let start = dfa.start_state(Anchored::No).map_err(|error| format!("keywords: {error}"))?;
        Ok(Self { dfa, start, targets })
    }

    /// Returns the state before the first byte.
    pub(crate) fn start(&self) -> StateID {
        self.start
    }

    /// Returns the bytes the automaton takes.
    pub(crate) fn memory(&self) -> usize {
        self.dfa.memory_usage()
    }

    /// Walks over bytes and calls `hit` with the number of bytes up to the end of a word and who is called.
    #[inline]
    pub(crate) fn walk(
        &self,
        mut state: StateID,
        bytes: &[u8],
        mut hit: impl FnMut(usize, &[Target]),
    ) -> StateID {
        for (at, &byte) in bytes.iter().enumerate() {
            state = self.dfa.next_state(Anchored::No, state, byte);
            if self.dfa.is_special(state) && self.dfa.is_match(state) {
                for index in 0..self.dfa.match_len(state) {
                    hit(at + 1, &self.targets[self.dfa.match_pattern(state, index).as_usize()]);
                }
            }
        }
        state
    }
}
