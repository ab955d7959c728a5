//! One rule against one stretch of text: match, secret within the match, entropy, allow-lists. Sees bytes around the
//! stretch, so that its edges look like what they are. Must not keep anything between calls.

use std::cmp::Ordering;
use std::sync::Arc;

use regex_automata::{Input, Match};

use super::allow::Candidate;
use super::entropy;
use super::judge;
use super::pem;
use super::rules::{Rank, Rule, RuleSet};
use crate::limits;

/// How a redaction goes on behind its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tail {
    Closed,
    /// As long as the bytes belong to a token.
    Token,
    /// As long as the bytes belong to a key's body, over lines.
    Key,
}

impl Tail {
    /// Tells whether a byte still belongs to the secret.
    pub(crate) fn goes_on(self, byte: u8) -> bool {
        match self {
            Self::Closed => false,
            Self::Token => {
                byte.is_ascii_alphanumeric()
                    || matches!(byte, b'+' | b'/' | b'=' | b'_' | b'-' | b'.' | b'~' | b'%')
            }
            Self::Key => pem::is_body(byte) || matches!(byte, b'\n' | b'\r' | b'\\'),
        }
    }
}

/// Bytes to be redacted, by their number in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) tail: Tail,
    pub(crate) rank: Rank,
    pub(crate) id: Arc<str>,
}

impl Ord for Span {
    /// The first to be written is the greatest: earliest start, then the rule that knows best, then the longest.
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .start
            .cmp(&self.start)
            .then(self.rank.cmp(&other.rank))
            .then(self.end.cmp(&other.end))
            .then(self.tail.cmp(&other.tail))
            .then_with(|| other.id.cmp(&self.id))
    }
}

impl PartialOrd for Span {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A stretch of a text: `from..to` of `view`, whose first byte is number `base`.
#[derive(Clone, Copy)]
pub(crate) struct Stretch<'t> {
    pub(crate) view: &'t [u8],
    pub(crate) base: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) path: Option<&'t str>,
}

/// Calls `found` with every secret the rule finds.
pub(crate) fn search(set: &RuleSet, rule: &Rule, stretch: Stretch<'_>, mut found: impl FnMut(Span)) {
    if rule.judged {
        return search_judged(set, rule, stretch, found);
    }
    let Some(regex) = rule.regex() else { return };
    let (from, to) = (stretch.at(stretch.from), stretch.at(stretch.to));
    let mut input = Input::new(stretch.view).span(from..to);
    let mut captures = None;
    while let Some(whole) = regex.search(&input) {
        let secret = if regex.captures_len() > 1 {
            let captures = captures.get_or_insert_with(|| regex.create_captures());
            input.set_start(whole.start());
            regex.search_captures(&input, captures);
            secret_of(rule, whole, |group| captures.get_group(group).map(|span| (span.start, span.end)))
        } else {
            (whole.start(), whole.end())
        };
        if is_secret(set, rule, &stretch, whole, secret) {
            let cut = rule.unbounded && secret.1 == to && to < stretch.view.len();
            found(Span {
                start: stretch.base + secret.0 as u64,
                end: stretch.base + secret.1 as u64,
                tail: if cut { Tail::Token } else { Tail::Closed },
                rank: rule.rank,
                id: rule.id.clone(),
            });
        }
        let next = whole.end().max(whole.start() + 1);
        if next > to {
            break;
        }
        input.set_start(next);
    }
}

fn search_judged(set: &RuleSet, rule: &Rule, stretch: Stretch<'_>, mut found: impl FnMut(Span)) {
    let (from, to) = (stretch.at(stretch.from), stretch.at(stretch.to));
    judge::search(stretch.view, from, to, |value| {
        let whole = Match::must(0, value.start..value.end);
        if is_secret(set, rule, &stretch, whole, (value.start, value.end)) {
            found(Span {
                start: stretch.base + value.start as u64,
                end: stretch.base + value.end as u64,
                tail: if value.cut { Tail::Token } else { Tail::Closed },
                rank: rule.rank,
                id: rule.id.clone(),
            });
        }
    });
}

impl Stretch<'_> {
    fn at(&self, position: u64) -> usize {
        (position.saturating_sub(self.base) as usize).min(self.view.len())
    }

    /// The line a match stands in, as far as it may be looked at.
    fn line(&self, whole: Match) -> &[u8] {
        let low = whole.start().saturating_sub(limits::SCRUB_LINE_MAX);
        let high = (whole.end() + limits::SCRUB_LINE_MAX).min(self.view.len());
        let start = memchr::memrchr(b'\n', &self.view[low..whole.start()]).map_or(low, |at| low + at + 1);
        let end = memchr::memchr(b'\n', &self.view[whole.end()..high]).map_or(high, |at| whole.end() + at);
        &self.view[start..end]
    }
}

/// The group a rule names; without a name the first group that took part, as gitleaks does it.
fn secret_of(rule: &Rule, whole: Match, group: impl Fn(usize) -> Option<(usize, usize)>) -> (usize, usize) {
    let all = (whole.start(), whole.end());
    if rule.secret_group > 0 {
        return group(rule.secret_group).unwrap_or(all);
    }
    let groups = rule.regex().map_or(1, |regex| regex.captures_len());
    (1..groups).filter_map(group).find(|(start, end)| end > start).unwrap_or(all)
}

fn is_secret(
    set: &RuleSet,
    rule: &Rule,
    stretch: &Stretch<'_>,
    whole: Match,
    (start, end): (usize, usize),
) -> bool {
    let secret = &stretch.view[start..end];
    if secret.is_empty() || (rule.entropy > 0.0 && entropy::shannon(secret) <= rule.entropy) {
        return false;
    }
    if rule.allow.is_empty() && set.allow.is_empty() {
        return true;
    }
    let candidate = Candidate {
        rule: &rule.id,
        secret,
        matched: &stretch.view[whole.range()],
        line: if set.needs_line { stretch.line(whole) } else { &[] },
        path: stretch.path,
    };
    !rule.allow.iter().chain(&set.allow).any(|allow| allow.allows(&candidate))
}
