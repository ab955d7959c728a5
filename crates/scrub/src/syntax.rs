//! Expressions as gitleaks writes them (Go's RE2 syntax) in the words of our engine. The two differ in a few places
//! where Go reads a character literally; nothing else may be changed here.

use regex_automata::meta::Regex;
use regex_automata::nfa::thompson::NFA;
use regex_automata::util::syntax;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::Hir;
use regex_syntax::hir::literal::Extractor;

use super::{begun, follow};
use crate::limits;

/// An expression's syntax. It takes many times the memory of the expression, so it is dropped as soon as an automaton is built.
#[derive(Clone, Debug)]
pub(crate) struct Parsed {
    hir: Hir,
}

impl Parsed {
    /// Reads an expression. Classes such as `\w` mean ASCII, as in Go; an expression that needs Unicode gets it.
    pub(crate) fn new(go: &str) -> Result<Self, String> {
        let text = from_go(go);
        let parse = |unicode: bool| {
            let parsed = ParserBuilder::new().unicode(unicode).utf8(false).build().parse(&text);
            parsed.map_err(|error| error.to_string())
        };
        parse(false).or_else(|_| parse(true)).map(|hir| Self { hir })
    }

    /// Returns the length of the longest match, if there is one.
    pub(crate) fn longest(&self) -> Option<usize> {
        self.hir.properties().maximum_len()
    }

    /// Returns how many groups the expression has, the whole match not counted.
    pub(crate) fn groups(&self) -> usize {
        self.hir.properties().explicit_captures_len()
    }

    /// Whether a rule's words stand before its secrets, where more than an edge stands there.
    pub(crate) fn is_announced_before(&self, group: usize) -> bool {
        begun::secret(&self.hir, group).0 > 2
    }

    /// Whether every secret begins with one of the words.
    pub(crate) fn begins_with(&self, group: usize, words: &[String]) -> bool {
        let first = Extractor::new().extract(begun::secret(&self.hir, group).1);
        let is_word = |bytes: &[u8]| {
            words.iter().map(|word| word.as_bytes()).any(|word| {
                let shared = word.len().min(bytes.len());
                shared > 0 && word[..shared].eq_ignore_ascii_case(&bytes[..shared])
            })
        };
        first.literals().is_some_and(|literals| literals.iter().all(|literal| is_word(literal.as_bytes())))
    }

    /// Builds the automaton.
    pub(crate) fn build(&self) -> Result<Regex, String> {
        build(&self.hir)
    }

    /// Builds the states of the expression, without an automaton over them.
    pub(crate) fn nfa(&self) -> Option<NFA> {
        follow::nfa(&self.hir)
    }

    /// Builds the automaton that finds a secret which has begun at the end of a text, as its first group.
    pub(crate) fn build_begun(&self, group: usize) -> Result<Option<Regex>, String> {
        begun::begun(&self.hir, group).map(|hir| build(&hir)).transpose()
    }
}

fn build(hir: &Hir) -> Result<Regex, String> {
    let config = Regex::config()
        .utf8_empty(false)
        .nfa_size_limit(Some(limits::RULE_AUTOMATON_MAX))
        .hybrid_cache_capacity(limits::RULE_CACHE_MAX);
    let built =
        Regex::builder().configure(config).syntax(syntax::Config::new().utf8(false)).build_from_hir(hir);
    built.map_err(|error| match error.size_limit() {
        Some(limit) => format!("needs an automaton of more than {limit} bytes"),
        None => error.to_string(),
    })
}

/// Rewrites what Go takes literally and our engine would not: `[` and doubled operators inside a class, braces that
/// are no repetition, `\<` and `\>`.
fn from_go(go: &str) -> String {
    let chars: Vec<char> = go.chars().collect();
    let mut out = String::with_capacity(go.len() + 8);
    let mut in_class = false;
    let mut at = 0;
    while at < chars.len() {
        let letter = chars[at];
        let next = chars.get(at + 1).copied();
        match letter {
            '\\' => {
                match next {
                    Some(angle @ ('<' | '>')) => out.push(angle),
                    Some(other) => out.extend(['\\', other]),
                    None => out.push('\\'),
                }
                at += 2;
                continue;
            }
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                at += 1;
                if chars.get(at) == Some(&'^') {
                    out.push('^');
                    at += 1;
                }
                // A bracket right at the start of a class is a member of it.
                if chars.get(at) == Some(&']') {
                    out.push_str("\\]");
                    at += 1;
                }
                continue;
            }
            '[' if next == Some(':') => {
                let end = (at..chars.len().saturating_sub(1))
                    .find(|&i| chars[i] == ':' && chars[i + 1] == ']' && i > at + 1);
                match end {
                    Some(end) => {
                        out.extend(&chars[at..end + 2]);
                        at = end + 2;
                        continue;
                    }
                    None => out.push_str("\\["),
                }
            }
            '[' => out.push_str("\\["),
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class && next == Some(letter) => out.extend(['\\', letter]),
            '-' if in_class && next == Some('-') => {
                // A range up to the dash, or a dash that begins one.
                if out.ends_with(['[', '^']) {
                    out.push_str("\\-");
                } else {
                    out.push_str("-\\-");
                    at += 1;
                }
            }
            '{' if !in_class && !is_repetition(&chars[at..]) => out.push_str("\\{"),
            other => out.push(other),
        }
        at += 1;
    }
    out
}

/// Tells whether a text starts with `{n}`, `{n,}` or `{n,m}`.
fn is_repetition(text: &[char]) -> bool {
    let Some(end) = text.iter().position(|&letter| letter == '}') else { return false };
    let inside: String = text[1..end].iter().collect();
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    match inside.split_once(',') {
        None => number(&inside),
        Some((low, high)) => number(low) && (high.is_empty() || number(high)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(go: &str, text: &str) -> bool {
        Parsed::new(go).unwrap().build().unwrap().is_match(text.as_bytes())
    }

    #[test]
    fn go_literals_stay_literals() {
        assert!(matches(r"^[[a]+$", "[a"));
        assert!(matches(r"^[a&&b]+$", "a&b"));
        assert!(matches(r"^{name}$", "{name}"));
        assert!(matches(r"^a{,3}$", "a{,3}"));
        assert!(matches(r"^\<b\>$", "<b>"));
        assert!(matches(r"^[[:alnum:]-]+$", "a-1"));
        assert!(matches(r"^[]a]+$", "]a"));
        assert!(matches(r"^[+--]+$", "+,-"));
        assert!(matches(r"^x{2}$", "xx"));
    }

    #[test]
    fn classes_are_ascii_and_lengths_are_known() {
        assert!(!matches(r"^\w$", "é"));
        assert_eq!(Parsed::new(r"ab[0-9]{3,5}").unwrap().longest(), Some(7));
        assert_eq!(Parsed::new(r"ab[0-9]+").unwrap().longest(), None);
        assert_eq!(Parsed::new(r"(a)(?:b)(?P<n>c)").unwrap().groups(), 2);
        assert!(Parsed::new(r"(a").is_err());
    }
}
