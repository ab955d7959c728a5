//! What may stand behind a keyword: one automaton for each keyword, over all rules that it calls, read from the keyword's end on. Most
//! keywords are ordinary words, and the next byte or two say that no rule can match there; only where one still can is its whole
//! expression searched. Over-approximates: it may call a rule in vain and never leaves one out. Knows no text that was let out.

use std::collections::BTreeSet;

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{self, Builder, NFA, State, Transition};
use regex_automata::util::look::Look;
use regex_automata::util::pool::Pool;
use regex_automata::util::primitives::StateID;
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::{Capture, Hir, HirKind, Repetition};

use super::rules::Rule;
use crate::limits;

/// Up to this number repetitions are counted.
const COUNTED_MAX: u32 = 6;

/// Whether more text could still make a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// Whatever comes, no further match contains this keyword.
    Settled,
    Open,
}

type Caches = Pool<Cache, Box<dyn Fn() -> Cache + Send + Sync>>;

/// The automaton of one keyword.
pub(crate) struct Follow {
    automaton: Option<(DFA, Caches)>,
    /// The rule of each pattern of the automaton.
    rules: Vec<u32>,
    /// Rules that are searched whatever follows: those of others, whose keyword may stand beside a match.
    always: Vec<u32>,
    /// The farthest any of the rules looks.
    reach: usize,
}

impl std::fmt::Debug for Follow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follow").field("rules", &self.rules).field("always", &self.always).finish()
    }
}

impl Follow {
    /// Makes the automaton of a keyword and the rules it calls.
    pub(crate) fn new(word: &[u8], called: &[(u32, &Rule)]) -> Self {
        let reach = called.iter().map(|(_, rule)| rule.after as usize).max().unwrap_or(0);
        let (inside, beside): (Vec<_>, Vec<_>) = called.iter().partition(|(_, rule)| rule.keyword_inside);
        let mut always: Vec<u32> = beside.into_iter().map(|(index, _)| index).collect();
        let mut rules: Vec<u32> = inside.iter().map(|(index, _)| *index).collect();
        let inside: Vec<&Rule> = inside.into_iter().map(|(_, rule)| rule).collect();
        let automaton = if inside.is_empty() { None } else { automaton(word, &inside) };
        if automaton.is_none() {
            always.append(&mut rules);
        }
        Self { automaton, rules, always, reach }
    }

    /// Returns all rules that the keyword calls.
    pub(crate) fn rules(&self) -> impl Iterator<Item = u32> + '_ {
        self.rules.iter().chain(&self.always).copied()
    }

    /// Returns how far behind the keyword any of its rules looks.
    pub(crate) fn reach(&self) -> usize {
        self.reach
    }

    /// Calls `found` with every rule that may match around the keyword that ends at `end`, as far as the text is there.
    pub(crate) fn look(&self, view: &[u8], end: usize, mut found: impl FnMut(u32)) -> Outlook {
        let to = (end + self.reach).min(view.len());
        self.always.iter().for_each(|rule| found(*rule));
        let mut outlook =
            if !self.always.is_empty() && to == view.len() { Outlook::Open } else { Outlook::Settled };
        if let Some((dfa, caches)) = &self.automaton {
            let ran = self.run(dfa, &mut caches.get(), view, end, to, &mut found);
            match ran {
                Some(Outlook::Open) if to == view.len() => outlook = Outlook::Open,
                // Behind what the rules look at nothing counts.
                Some(_) => {}
                // What cannot be read is left to the rules themselves.
                None => {
                    self.rules.iter().for_each(|rule| found(*rule));
                    if to == view.len() {
                        outlook = Outlook::Open;
                    }
                }
            }
        }
        outlook
    }

    fn run(
        &self,
        dfa: &DFA,
        cache: &mut Cache,
        view: &[u8],
        end: usize,
        to: usize,
        found: &mut impl FnMut(u32),
    ) -> Option<Outlook> {
        let input = Input::new(view).range(end..view.len()).anchored(Anchored::Yes);
        let mut state = dfa.start_state_forward(cache, &input).ok()?;
        let mut matched = |cache: &Cache, state| {
            for index in 0..dfa.match_len(cache, state) {
                found(self.rules[dfa.match_pattern(cache, state, index).as_usize()]);
            }
        };
        for &byte in &view[end..to] {
            state = dfa.next_state(cache, state, byte).ok()?;
            if state.is_tagged() {
                if state.is_match() {
                    matched(cache, state);
                } else if state.is_dead() {
                    return Some(Outlook::Settled);
                } else if state.is_quit() {
                    return None;
                }
            }
        }
        // Matches are told one byte late.
        let last = match view.get(to) {
            Some(byte) => dfa.next_state(cache, state, *byte).ok()?,
            None => dfa.next_eoi_state(cache, state).ok()?,
        };
        if last.is_match() {
            matched(cache, last);
        }
        Some(Outlook::Open)
    }
}

fn automaton(word: &[u8], rules: &[&Rule]) -> Option<(DFA, Caches)> {
    let nfa = behind(word, rules)?;
    let config = DFA::config()
        .match_kind(MatchKind::All)
        .cache_capacity(limits::RULE_CACHE_MAX)
        .skip_cache_capacity_check(true);
    let dfa = DFA::builder().configure(config).build_from_nfa(nfa).ok()?;
    let other = dfa.clone();
    let caches: Caches = Pool::new(Box::new(move || other.create_cache()));
    Some((dfa, caches))
}

/// Returns an automaton that begins where the keyword has just been read in each of the expressions, one pattern for each.
fn behind(word: &[u8], rules: &[&Rule]) -> Option<NFA> {
    let mut builder = Builder::new();
    let mut starts = Vec::new();
    for rule in rules {
        let nfa = rule.nfa()?;
        builder.start_pattern().ok()?;
        let first = copy(&mut builder, &nfa)?;
        let moved = |state: StateID| StateID::new(first + state.as_usize()).ok();
        let states: Option<Vec<StateID>> = after_word(rule, &nfa, word).into_iter().map(moved).collect();
        let start = builder.add_union(states?).ok()?;
        builder.finish_pattern(start).ok()?;
        starts.push(start);
    }
    let start = builder.add_union(starts).ok()?;
    builder.build(start, start).ok()
}

/// Adds the states of an automaton in their order; returns the number of the first.
fn copy(builder: &mut Builder, nfa: &NFA) -> Option<usize> {
    let first = builder.add_fail().ok()?.as_usize() + 1;
    let moved = |state: StateID| StateID::new(first + state.as_usize()).unwrap_or(StateID::ZERO);
    let shifted = |trans: &Transition| Transition { next: moved(trans.next), ..*trans };
    for state in nfa.states() {
        let added = match state {
            State::ByteRange { trans } => builder.add_range(shifted(trans)),
            State::Sparse(_) | State::Dense(_) => {
                builder.add_sparse(transitions(state).map(|trans| shifted(&trans)).collect())
            }
            State::Look { look, next } => builder.add_look(moved(*next), *look),
            State::Union { alternates } => {
                builder.add_union(alternates.iter().map(|state| moved(*state)).collect())
            }
            State::BinaryUnion { alt1, alt2 } => builder.add_union(vec![moved(*alt1), moved(*alt2)]),
            State::Capture { next, .. } => builder.add_union(vec![moved(*next)]),
            State::Fail => builder.add_fail(),
            State::Match { .. } => builder.add_match(),
        };
        added.ok()?;
    }
    Some(first)
}

/// Returns the states in which the word has just been read, wherever in the expression it may stand, and the first state: a match may
/// begin inside the word or right behind it.
fn after_word(rule: &Rule, nfa: &NFA, word: &[u8]) -> BTreeSet<StateID> {
    let has_group = nfa.states().iter().any(|state| begins_secret(rule, state));
    let start = nfa.start_anchored();
    let mut states = BTreeSet::new();
    if rule.announced_before && has_group {
        // The word stands before the secret, and no part of it in the secret.
        let goes_on = |state: &State| !begins_secret(rule, state);
        states = read(nfa, reachable(nfa, goes_on), word, goes_on);
    } else if !rule.unannounced {
        let from = if has_group {
            reachable(nfa, |state| !begins_secret(rule, state))
        } else {
            BTreeSet::from([start])
        };
        states = read(nfa, from, word, |_| true);
    }
    if states.is_empty() {
        states = read(nfa, reachable(nfa, |_| true), word, |_| true);
    }
    let begun = (1..=word.len()).flat_map(|from| read(nfa, BTreeSet::from([start]), &word[from..], |_| true));
    states.extend(begun);
    states
}

fn begins_secret(rule: &Rule, state: &State) -> bool {
    match state {
        State::Capture { group_index, slot, .. } => {
            let group = group_index.as_usize();
            group > 0
                && slot.as_usize() == 2 * group
                && (rule.secret_group == 0 || rule.secret_group == group)
        }
        _ => false,
    }
}

/// Returns the states behind a word that is read from any of `states` on.
fn read(
    nfa: &NFA,
    states: BTreeSet<StateID>,
    word: &[u8],
    goes_on: impl Fn(&State) -> bool,
) -> BTreeSet<StateID> {
    word.iter().fold(states, |states, byte| step(nfa, &closure(nfa, states, &goes_on), *byte))
}

/// Returns the states that a match can come to, not looking behind those that `goes_on` refuses.
fn reachable(nfa: &NFA, goes_on: impl Fn(&State) -> bool) -> BTreeSet<StateID> {
    let mut seen = BTreeSet::new();
    let mut open = vec![nfa.start_anchored()];
    while let Some(id) = open.pop() {
        let state = nfa.state(id);
        if seen.insert(id) && goes_on(state) {
            open.extend(empty_steps(state));
            open.extend(transitions(state).map(|trans| trans.next));
        }
    }
    seen
}

fn closure(nfa: &NFA, states: BTreeSet<StateID>, goes_on: impl Fn(&State) -> bool) -> BTreeSet<StateID> {
    let mut open: Vec<StateID> = states.into_iter().collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        let state = nfa.state(id);
        // More bytes follow, so that the end of the text is not here; every other edge may be.
        let at_end = matches!(state, State::Look { look: Look::End, .. });
        if seen.insert(id) && !at_end && goes_on(state) {
            open.extend(empty_steps(state));
        }
    }
    seen
}

fn empty_steps(state: &State) -> Vec<StateID> {
    match state {
        State::Look { next, .. } | State::Capture { next, .. } => vec![*next],
        State::Union { alternates } => alternates.to_vec(),
        State::BinaryUnion { alt1, alt2 } => vec![*alt1, *alt2],
        State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) | State::Fail | State::Match { .. } => {
            Vec::new()
        }
    }
}

fn transitions(state: &State) -> impl Iterator<Item = Transition> {
    let list: Vec<Transition> = match state {
        State::ByteRange { trans } => vec![*trans],
        State::Sparse(sparse) => sparse.transitions.to_vec(),
        State::Dense(dense) => (0..=u8::MAX)
            .zip(&dense.transitions)
            .filter(|(_, next)| **next != StateID::ZERO)
            .map(|(byte, next)| Transition { start: byte, end: byte, next: *next })
            .collect(),
        _ => Vec::new(),
    };
    list.into_iter()
}

/// The states behind a byte in either case: keywords are found in both.
fn step(nfa: &NFA, states: &BTreeSet<StateID>, byte: u8) -> BTreeSet<StateID> {
    let (small, large) = (byte.to_ascii_lowercase(), byte.to_ascii_uppercase());
    let takes = |trans: &Transition| trans.matches_byte(small) || trans.matches_byte(large);
    let next = states.iter().flat_map(|state| transitions(nfa.state(*state)));
    next.filter(takes).map(|trans| trans.next).collect()
}

/// Makes an automaton of states, with groups, from an expression's syntax. Counts are not kept: with them, automata would need a state for
/// each number that a count can have reached, for each rule at once.
pub(crate) fn nfa(hir: &Hir) -> Option<NFA> {
    let config = NFA::config().utf8(false).nfa_size_limit(Some(limits::RULE_AUTOMATON_MAX));
    thompson::Compiler::new().configure(config).build_from_hir(&uncounted(hir)).ok()
}

/// The same expression, and more: what may be repeated many times may be repeated for ever.
fn uncounted(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Repetition(one) => {
            let is_long = one.max.is_none_or(|max| max > COUNTED_MAX);
            let (min, max) = (one.min.min(COUNTED_MAX), if is_long { None } else { one.max });
            let sub = Box::new(uncounted(&one.sub));
            Hir::repetition(Repetition { min, max, greedy: one.greedy, sub })
        }
        HirKind::Capture(one) => {
            let sub = Box::new(uncounted(&one.sub));
            Hir::capture(Capture { index: one.index, name: one.name.clone(), sub })
        }
        HirKind::Alternation(ways) => Hir::alternation(ways.iter().map(uncounted).collect()),
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(uncounted).collect()),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => hir.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::{File, Merged};
    use super::super::rules::RuleSet;
    use super::*;

    fn look(regex: &str, word: &str, before: &str, after: &str) -> (bool, Outlook) {
        let mut merged = Merged::default();
        let rule = format!("[[rules]]\nid='r'\nregex='''{regex}'''\nkeywords=['{word}']");
        merged.lay(File::parse(&rule).unwrap(), false);
        let set = RuleSet::new(&merged).unwrap();
        let follow = Follow::new(word.as_bytes(), &[(0, &set.rules[0])]);
        let mut found = false;
        let text = format!("{before}{word}{after}");
        let outlook = follow.look(text.as_bytes(), before.len() + word.len(), |_| found = true);
        (found, outlook)
    }

    #[test]
    fn what_follows_a_keyword_tells_whether_its_rule_can_match() {
        let rule = r#"(?i:[\w]{0,9}password)[ ]{0,2}[=:][ ]{0,2}([a-z0-9]{4,8})(?:\s|$)"#;
        assert_eq!(look(rule, "password", "the ", " reset"), (false, Outlook::Settled));
        assert_eq!(look(rule, "password", "the ", ""), (false, Outlook::Open));
        assert_eq!(look(rule, "password", "the ", " "), (false, Outlook::Open));
        assert_eq!(look(rule, "password", "my_", " = ab1"), (false, Outlook::Open));
        assert_eq!(look(rule, "password", "my_", " = ab1 "), (false, Outlook::Settled));
        assert_eq!(look(rule, "password", "my_", " = ab12"), (true, Outlook::Open));
        assert_eq!(look(rule, "password", "my_", " = ab12 xy"), (true, Outlook::Settled));
        assert_eq!(look(rule, "password", "my_", "=ab12ab12-"), (false, Outlook::Settled));
    }

    #[test]
    fn a_keyword_that_begins_a_secret_or_stands_before_a_match_is_followed() {
        assert_eq!(look(r"\b(ghp_[a-z]{4})\b", "ghp_", "", "ab cd"), (false, Outlook::Settled));
        assert_eq!(look(r"\b(ghp_[a-z]{4})\b", "ghp_", "", "abcd e"), (true, Outlook::Settled));
        assert_eq!(look(r"[a-z]{4}xy[a-z]{4}", "xy", "abcd", "efgh  "), (true, Outlook::Settled));
        assert_eq!(look(r":[0-9]{3}", "code", "", ":123  "), (true, Outlook::Settled));
        assert_eq!(look(r"e:[0-9]{3}", "code", "", ":123  "), (true, Outlook::Settled));
    }
}
