//! Of an expression, one that matches the end of a text in which a secret has begun and may still become a match. Made from
//! the expression's syntax, so that whoever waits for more text knows exactly what to wait for. Knows no text and no rule.

use regex_syntax::hir::{Capture, Hir, HirKind, Look, Repetition};

/// Returns an expression whose first group is the beginning of a secret at the end of a text: what could become a match of `hir` with
/// its group `group` (0: the first that takes part, or everything). Nothing where no text could.
pub(crate) fn begun(hir: &Hir, group: usize) -> Option<Hir> {
    let begun = if hir.properties().explicit_captures_len() == 0 {
        marked(beginning(hir)?)
    } else {
        entered(hir, group)?
    };
    Some(Hir::concat(vec![begun, Hir::look(Look::End)]))
}

/// Returns how short the text before a secret can be, and the secret's own expression.
pub(crate) fn secret(hir: &Hir, group: usize) -> (usize, &Hir) {
    if hir.properties().explicit_captures_len() == 0 {
        return (0, hir);
    }
    match hir.kind() {
        HirKind::Capture(capture) if is_secret(capture, group) => (0, &capture.sub),
        HirKind::Capture(Capture { sub, .. }) | HirKind::Repetition(Repetition { sub, .. }) => {
            secret(sub, group)
        }
        HirKind::Alternation(ways) => {
            let holders = ways.iter().filter(|way| way.properties().explicit_captures_len() > 0);
            holders.map(|way| secret(way, group)).min_by_key(|(before, _)| *before).unwrap_or((0, hir))
        }
        HirKind::Concat(parts) => {
            let holder = parts.iter().position(|part| part.properties().explicit_captures_len() > 0);
            let (before, rest) = parts.split_at(holder.unwrap_or(0));
            let length: usize = before.iter().filter_map(|part| part.properties().minimum_len()).sum();
            let (inside, sub) = rest.first().map_or((0, hir), |part| secret(part, group));
            (length + inside, sub)
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => (0, hir),
    }
}

fn is_secret(capture: &Capture, group: usize) -> bool {
    group == 0 || capture.index as usize == group
}

fn marked(hir: Hir) -> Hir {
    Hir::capture(Capture { index: 1, name: None, sub: Box::new(hir) })
}

fn repeated(sub: Hir, min: u32, max: Option<u32>, greedy: bool) -> Hir {
    Hir::repetition(Repetition { min, max, greedy, sub: Box::new(sub) })
}

fn any_of(ways: Vec<Hir>) -> Option<Hir> {
    (!ways.is_empty()).then(|| Hir::alternation(ways))
}

/// What has come into the secret, however far.
fn entered(hir: &Hir, group: usize) -> Option<Hir> {
    match hir.kind() {
        HirKind::Capture(capture) if is_secret(capture, group) => beginning(&capture.sub).map(marked),
        HirKind::Capture(capture) => entered(&capture.sub, group),
        HirKind::Repetition(one) => {
            let inside = entered(&one.sub, group)?;
            let before = repeated(plain(&one.sub), 0, one.max.map(|max| max.saturating_sub(1)), one.greedy);
            Some(Hir::concat(vec![before, inside]))
        }
        HirKind::Alternation(ways) => any_of(ways.iter().filter_map(|way| entered(way, group)).collect()),
        HirKind::Concat(parts) => {
            let ways = parts.iter().enumerate().filter_map(|(at, part)| {
                let inside = entered(part, group)?;
                let behind = unfinished(&parts[at + 1..])
                    .map(|behind| Hir::concat(vec![with_secret_marked(part, group), behind]));
                let mut way: Vec<Hir> = parts[..at].iter().map(plain).collect();
                way.push(Hir::alternation([Some(inside), behind].into_iter().flatten().collect()));
                Some(Hir::concat(way))
            });
            any_of(ways.collect())
        }
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => None,
    }
}

/// Everything that such a text may begin with, the whole included, nothing not.
fn beginning(hir: &Hir) -> Option<Hir> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => None,
        HirKind::Class(_) => Some(hir.clone()),
        HirKind::Literal(literal) => beginning_of_bytes(&literal.0),
        HirKind::Repetition(one) if one.max == Some(0) => None,
        HirKind::Repetition(one) => {
            if matches!(one.sub.kind(), HirKind::Class(_)) {
                return Some(repeated((*one.sub).clone(), 1, one.max, one.greedy));
            }
            let last = beginning(&one.sub)?;
            let before = repeated(plain(&one.sub), 0, one.max.map(|max| max - 1), one.greedy);
            Some(Hir::concat(vec![before, last]))
        }
        HirKind::Capture(capture) => beginning(&capture.sub),
        HirKind::Alternation(ways) => any_of(ways.iter().filter_map(beginning).collect()),
        HirKind::Concat(parts) => beginning_of_all(parts),
    }
}

fn beginning_of_bytes(bytes: &[u8]) -> Option<Hir> {
    let mut rest: Option<Hir> = None;
    for byte in bytes.iter().rev() {
        let letter = Hir::literal([*byte]);
        rest = Some(match rest {
            Some(rest) => Hir::concat(vec![letter, repeated(rest, 0, Some(1), true)]),
            None => letter,
        });
    }
    rest
}

fn beginning_of_all(parts: &[Hir]) -> Option<Hir> {
    let (first, rest) = parts.split_first()?;
    let through = beginning_of_all(rest).map(|rest| Hir::concat(vec![plain(first), rest]));
    any_of(through.into_iter().chain(beginning(first)).collect())
}

/// Beginnings of what stands behind a secret that are not all of it: with all of it, nothing is waited for.
fn unfinished(parts: &[Hir]) -> Option<Hir> {
    let (first, rest) = parts.split_first()?;
    if rest.is_empty() {
        return unfinished_part(first);
    }
    let through = unfinished(rest).map(|rest| Hir::concat(vec![plain(first), rest]));
    any_of(through.into_iter().chain(beginning(first)).collect())
}

fn unfinished_part(hir: &Hir) -> Option<Hir> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Class(_) => None,
        HirKind::Literal(literal) => beginning_of_bytes(&literal.0[..literal.0.len().saturating_sub(1)]),
        HirKind::Repetition(one) if one.max == Some(1) => unfinished_part(&one.sub),
        HirKind::Repetition(_) => beginning(hir),
        HirKind::Capture(capture) => unfinished_part(&capture.sub),
        HirKind::Alternation(ways) => any_of(ways.iter().filter_map(unfinished_part).collect()),
        HirKind::Concat(parts) => unfinished(parts),
    }
}

/// The same expression without groups.
fn plain(hir: &Hir) -> Hir {
    regrouped(hir, &|_| false)
}

/// The same expression with the secret as its only group.
fn with_secret_marked(hir: &Hir, group: usize) -> Hir {
    regrouped(hir, &|capture| is_secret(capture, group))
}

fn regrouped(hir: &Hir, keeps: &dyn Fn(&Capture) -> bool) -> Hir {
    if hir.properties().explicit_captures_len() == 0 {
        return hir.clone();
    }
    match hir.kind() {
        HirKind::Capture(capture) if keeps(capture) => marked(plain(&capture.sub)),
        HirKind::Capture(capture) => regrouped(&capture.sub, keeps),
        HirKind::Repetition(one) => repeated(regrouped(&one.sub, keeps), one.min, one.max, one.greedy),
        HirKind::Alternation(ways) => {
            Hir::alternation(ways.iter().map(|way| regrouped(way, keeps)).collect())
        }
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(|part| regrouped(part, keeps)).collect()),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => hir.clone(),
    }
}

#[cfg(test)]
mod tests {
    use regex_automata::meta::Regex;

    use super::*;

    /// What of a text waits, by an expression.
    fn waits(expression: &str, text: &'static str) -> Option<&'static str> {
        let hir = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(expression);
        let hir = begun(&hir.unwrap(), 0).unwrap();
        let regex = Regex::builder()
            .syntax(regex_automata::util::syntax::Config::new().utf8(false))
            .build_from_hir(&hir)
            .unwrap();
        let mut captures = regex.create_captures();
        regex.captures(text, &mut captures);
        captures.get_group(1).map(|span| &text[span.start..span.end])
    }

    #[test]
    fn every_beginning_of_a_secret_waits_and_what_stands_before_it_does_not() {
        let rule = r#"(?i:password)\s{0,2}[=:]\s{0,2}["']?([a-z0-9]{8,12})(?:["'\s]|$)"#;
        assert_eq!(waits(rule, "the password"), None);
        assert_eq!(waits(rule, "the password: "), None);
        assert_eq!(waits(rule, "the password: '"), None);
        assert_eq!(waits(rule, "the password: 'h"), Some("h"));
        assert_eq!(waits(rule, "the PASSWORD=hunter22abcd"), Some("hunter22abcd"));
        assert_eq!(waits(rule, "the password=hunter22abcde"), None, "too long to be one");
        assert_eq!(waits(rule, "the password=hunter22abcd "), None, "it is one already");
        assert_eq!(waits(rule, "the password=hunt "), None, "too short to be one");
    }

    #[test]
    fn a_secret_with_a_form_of_its_own_waits_from_its_first_letter() {
        let rule = r"\b(?:gh[pousr]_[A-Za-z0-9]{6})\b";
        assert_eq!(waits(rule, "a g"), Some("g"));
        assert_eq!(waits(rule, "a ghp_a1B2c3"), Some("ghp_a1B2c3"));
        assert_eq!(waits(rule, "a ghp_a1B2c3d"), None);
        assert_eq!(waits(rule, "a ghx"), None);
        assert_eq!(waits(r"x((?:ab){2}c)", "xabac"), None);
        assert_eq!(waits(r"x((?:ab){2}c)", "xaba"), Some("aba"));
    }

    #[test]
    fn what_must_follow_a_secret_is_waited_for() {
        let rule = r"://u:([a-z]{3,9})@[a-z]";
        assert_eq!(waits(rule, "://u:abc"), Some("abc"));
        assert_eq!(waits(rule, "://u:abc@"), Some("abc"));
        assert_eq!(waits(rule, "://u:abc@h"), None);
        assert_eq!(waits(r"(?:a=([0-9]{2})|b:([0-9]{3}));", "b:12"), Some("12"));
    }
}
