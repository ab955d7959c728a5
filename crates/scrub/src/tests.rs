//! That the scrubber finds the same whatever way a text is cut up, and the same as a plain search that sees all of it
//! at once; that what it holds back stays small; that rule files of others count.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::allow::Allow;
use super::ansi::{Cut, Stripper};
use super::engine::{Span, Stretch, Tail};
use super::pem::{self, Verdict};
use super::rules::Rank;
use super::*;

const SECRET: &str = "kN0wn-5ecret/of+the=env";

/// Our rules, known secrets, and a user's file with the kinds of rules ours do not have: no keyword, no longest match,
/// an allow-list that looks at lines.
fn scrubber() -> Scrubber {
    static SCRUBBER: std::sync::OnceLock<Scrubber> = std::sync::OnceLock::new();
    SCRUBBER
        .get_or_init(|| {
            let file = "[[rules]]\nid='everywhere'\nregex='zq[0-9]{4,}'\n\
                [[rules]]\nid='endless'\nregex='begin[a-z0-9]+'\nkeywords=['begin']\n\
                [[rules]]\nid='value'\nregex='house=([0-9A-Z]{8})\\b'\nkeywords=['house']\n\
                [[rules]]\nid='lines'\nregex='ln[0-9]{3}'\nkeywords=['ln']\n\
                [[rules.allowlists]]\nregexTarget='line'\nregexes=['harmless']";
            let known = [
                KnownSecret::new("ONE", SECRET),
                KnownSecret::new("TWO", "line one of two\nline two of two"),
            ];
            Scrubber::new(&Config::new().with_file("test.toml", file).with_known(known)).unwrap()
        })
        .clone()
}

fn in_pieces(scrubber: &Scrubber, text: &[u8], cuts: &[usize]) -> Scrubbed {
    let mut stream = scrubber.stream();
    let (mut bytes, mut from) = (Vec::new(), 0);
    for &cut in cuts {
        bytes.extend(stream.push(&text[from..cut]));
        from = cut;
    }
    bytes.extend(stream.push(&text[from..]));
    let (rest, findings) = stream.finish();
    bytes.extend(rest);
    Scrubbed { bytes, findings }
}

/// The plain way: strip colour codes, look for every keyword with a loop, join stretches, search them all, and write
/// the text out in one go.
fn plainly(scrubber: &Scrubber, text: &[u8]) -> Vec<u8> {
    let (mut view, mut cuts, mut stripper) = (Vec::new(), Default::default(), Stripper::default());
    stripper.take(text, 0, &mut view, &mut cuts);
    stripper.finish(&mut view);
    let mut spans = Vec::new();
    let lower = view.to_ascii_lowercase();
    for rule in &scrubber.rules.rules {
        let overlap = rule.before + rule.after;
        for (mut start, end) in stretches(rule, &lower) {
            while start + limits::SCRUB_PIECE_MAX + overlap <= end {
                let to = start + limits::SCRUB_PIECE_MAX + overlap;
                search(scrubber, rule, &view, start, to, &mut spans);
                search_otherwise(scrubber, rule, &view, &cuts, start, to, &mut spans);
                start += limits::SCRUB_PIECE_MAX;
            }
            search(scrubber, rule, &view, start, end, &mut spans);
            search_otherwise(scrubber, rule, &view, &cuts, start, end, &mut spans);
        }
    }
    for at in memchr::memmem::find_iter(&lower, b"-----begin") {
        if let Verdict::Key { len, open } = pem::judge(&view[at..], true) {
            let tail = if open { Tail::Key } else { Tail::Closed };
            spans.push(span(at, at + len, tail, Rank::Specific, "private-key"));
        }
    }
    for (index, anchor, word) in scrubber.known.anchors() {
        let pattern = scrubber.known.pattern(index);
        for end in (0..view.len()).filter(|&at| view[at..].starts_with(word)).map(|at| at + word.len()) {
            if let Some((start, end)) = pattern.verify(&view, end, anchor) {
                spans.push(span(start, end, Tail::Closed, Rank::Known, &pattern.name));
            }
        }
    }
    begun_in_codes(scrubber, &view, &cuts, &mut spans);
    spans.sort_by(|one, other| other.cmp(one));
    write_out(
        &view,
        &cuts.into_iter().map(|cut| (cut.at as usize, cut.bytes().to_vec())).collect::<Vec<_>>(),
        &spans,
    )
}

fn span(start: usize, end: usize, tail: Tail, rank: Rank, id: &str) -> Span {
    Span { start: start as u64, end: end as u64, tail, rank, id: id.into() }
}

fn stretches(rule: &rules::Rule, lower: &[u8]) -> Vec<(u64, u64)> {
    let len = lower.len() as u64;
    if rule.keywords.is_empty() {
        return vec![(0, len)];
    }
    let mut ends: Vec<u64> = Vec::new();
    for word in &rule.keywords {
        let word = word.to_ascii_lowercase();
        let at = (0..lower.len()).filter(|&at| lower[at..].starts_with(word.as_bytes()));
        ends.extend(at.map(|at| (at + word.len()) as u64));
    }
    ends.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for end in ends {
        let (low, high) = (end.saturating_sub(rule.before), end + rule.after);
        match joined.last_mut() {
            Some(last) if low <= last.1 => last.1 = last.1.max(high),
            _ => joined.push((low, high)),
        }
    }
    joined.into_iter().map(|(low, high)| (low, high.min(len))).collect()
}

fn search(scrubber: &Scrubber, rule: &rules::Rule, view: &[u8], from: u64, to: u64, spans: &mut Vec<Span>) {
    let stretch = Stretch { view, base: 0, from, to, path: None };
    engine::search(&scrubber.rules, rule, stretch, |span| spans.push(span));
}

/// Puts the ends of codes inside a stretch back that may be text, and searches it again.
fn search_otherwise(
    scrubber: &Scrubber,
    rule: &rules::Rule,
    view: &[u8],
    cuts: &VecDeque<Cut>,
    from: u64,
    to: u64,
    spans: &mut Vec<Span>,
) {
    let colour = |end: &[u8]| end.len() > 1 && (end.ends_with(b"m") || end.ends_with(b"K"));
    let within = cuts.iter().filter(|cut| from < cut.at && cut.at < to && !colour(cut.end()));
    let mut other: Vec<(u8, usize, bool)> = Vec::new();
    let as_is = |from: usize, to: usize| (from..to).map(|at| (view[at], at, false));
    let mut done = 0;
    for cut in within {
        let at = cut.at as usize;
        other.extend(as_is(done, at));
        other.extend(cut.end().iter().map(|byte| (*byte, at, true)));
        done = at;
    }
    if other.is_empty() {
        return;
    }
    other.extend(as_is(done, view.len()));
    let added = (other.len() - view.len()) as u64;
    let bytes: Vec<u8> = other.iter().map(|(byte, _, _)| *byte).collect();
    let back = |at: u64| other.get(at as usize).map_or(view.len(), |(_, at, _)| *at) as u64;
    let stretch = Stretch { view: &bytes, base: 0, from, to: to + added, path: None };
    engine::search(&scrubber.rules, rule, stretch, |span| {
        let added = other[span.start as usize..span.end as usize].iter().any(|(_, _, added)| *added);
        let (start, end) = (back(span.start), back(span.end));
        if added && end > start {
            spans.push(Span { start, end, ..span });
        }
    });
}

/// Looks for words that begin inside a code and searches what they begin.
fn begun_in_codes(scrubber: &Scrubber, view: &[u8], cuts: &VecDeque<Cut>, spans: &mut Vec<Span>) {
    for cut in cuts {
        for from in 0..cut.end().len() {
            let (at, end) = (cut.at, &cut.end()[from..]);
            // More than any rule looks at.
            let behind = &view[at as usize..];
            let text = [end, &behind[..behind.len().min(16 * 1024)]].concat();
            let lower = text.to_ascii_lowercase();
            let back = |place: u64| at + place.saturating_sub(end.len() as u64);
            let mut keep = |span: Span| {
                let (start, end) = (back(span.start), back(span.end));
                if end > start {
                    spans.push(Span { start, end, ..span });
                }
            };
            for rule in &scrubber.rules.rules {
                for word in rule.keywords.iter().map(|word| word.to_ascii_lowercase()) {
                    if lower.starts_with(word.as_bytes()) {
                        let to = word.len() as u64 + rule.after;
                        let stretch = Stretch { view: &text, base: 0, from: 0, to, path: None };
                        engine::search(&scrubber.rules, rule, stretch, &mut keep);
                    }
                }
            }
            for (index, anchor, word) in scrubber.known.anchors() {
                let pattern = scrubber.known.pattern(index);
                if text.starts_with(word)
                    && let Some((start, end)) = pattern.verify(&text, word.len(), anchor)
                {
                    keep(span(start, end, Tail::Closed, Rank::Known, &pattern.name));
                }
            }
        }
    }
}

fn write_out(view: &[u8], cuts: &[(usize, Vec<u8>)], spans: &[Span]) -> Vec<u8> {
    let (mut out, mut cuts, mut spans) = (Vec::new(), cuts.iter().peekable(), spans.iter().peekable());
    let (mut to, mut tails) = (0, Vec::<(usize, Tail)>::new());
    for at in 0..=view.len() {
        while let Some(cut) = cuts.next_if(|cut| cut.0 == at) {
            out.extend(&cut.1);
        }
        let Some(&byte) = view.get(at) else { break };
        tails.retain(|(from, tail)| at < *from || tail.goes_on(byte));
        let mut covered = at < to || tails.iter().any(|(from, _)| at >= *from);
        while let Some(span) = spans.next_if(|span| span.start as usize <= at) {
            if !covered {
                out.extend(format!("[REDACTED:{}]", span.id).bytes());
                covered = true;
            }
            to = to.max(span.end as usize);
            tails.push((span.end as usize, span.tail));
        }
        if !covered {
            out.push(byte);
        }
    }
    out
}

/// Pieces texts are made of: secrets, halves of secrets, keywords, keys, colour codes, known secrets, noise.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let key = format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n{}\n-----END PRIVATE KEY-----",
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC".repeat(2),
        "q7Hh2jK0pLmN8vBxZsWqErTyUiOpAsDf".repeat(2)
    );
    let token = format!("ghp_{}", "aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ2kL4");
    let fixed: Vec<Vec<u8>> = vec![
        token.clone().into_bytes(),
        token.as_bytes()[..20].to_vec(),
        format!("password = \"{}\"\n", "h7Kq!92xLpW3").into_bytes(),
        format!("api_key={}\n", "Zx81Kq0pLm27Vb93Nc64Ty55").into_bytes(),
        key.clone().into_bytes(),
        key.as_bytes()[..90].to_vec(),
        b"-----END PRIVATE KEY-----".to_vec(),
        SECRET.into(),
        SECRET.as_bytes()[..12].to_vec(),
        b"line two of two".to_vec(),
        b"zq1234567".to_vec(),
        b"ln123".to_vec(),
        b" harmless ln456 \n".to_vec(),
        b"\x1b[01;31m\x1b[K".to_vec(),
        b"\x1b[m".to_vec(),
        b"\x1b[".to_vec(),
        b"\x1b[1".to_vec(),
        format!("{}Z7QHL3X5VN2RJ4TD", "AKIA").into_bytes(),
        b" house=".to_vec(),
        b"\x1b[A1B2C3D4".to_vec(),
        b"begin".to_vec(),
        "begin0a".repeat(300).into_bytes(),
        "begin0a".repeat(2600).into_bytes(),
        format!("{}-{}", "abc".repeat(900), "password=".repeat(60)).into_bytes(),
        "keytokensecret".repeat(40).into_bytes(),
        "eyJ".repeat(30).into_bytes(),
        "Compiling serde v1.0.229 (registry)\n".repeat(20).into_bytes(),
        "é\u{1f600}\n".into(),
        b"\n".to_vec(),
    ];
    prop_oneof![
        6 => prop::sample::select(fixed),
        1 => prop::collection::vec(any::<u8>(), 0..80),
        1 => "[a-z =:\"\n]{0,60}".prop_map(String::into_bytes),
    ]
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(piece(), 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn a_text_in_pieces_is_scrubbed_as_a_whole_one(text in text(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..24)) {
        let scrubber = scrubber();
        let whole = scrubber.scrub(&text);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.sort_unstable();
        prop_assert_eq!(in_pieces(&scrubber, &text, &cuts), whole.clone());
        let every_byte: Vec<usize> = (0..text.len()).collect();
        prop_assert_eq!(in_pieces(&scrubber, &text, &every_byte), whole);
    }

    #[test]
    fn a_plain_search_of_the_whole_text_finds_the_same(text in text()) {
        let scrubber = scrubber();
        let found = String::from_utf8_lossy(&scrubber.scrub(&text).bytes).into_owned();
        prop_assert_eq!(found, String::from_utf8_lossy(&plainly(&scrubber, &text)).into_owned());
    }
}

#[test]
fn what_is_held_back_and_remembered_is_bounded() {
    let scrubber = scrubber();
    let key_without_end = format!("-----BEGIN PRIVATE KEY-----\n{}", "QUJD".repeat(100));
    let hostile: Vec<Vec<u8>> = vec![
        b"keytokensecretpassword".repeat(20_000),
        b"-----BEGIN PRIVATE KEY-----".repeat(20_000),
        key_without_end.repeat(1_000).into_bytes(),
        b"\x1b[m".repeat(100_000),
        b"begin".repeat(50_000),
        b"kN0wn-5ecret/of+the=en".repeat(20_000),
        vec![b'a'; 400_000],
        b"\n".repeat(400_000),
    ];
    for text in hostile {
        let mut stream = scrubber.stream();
        for chunk in text.chunks(10_000) {
            stream.push(chunk);
            assert!(stream.held() <= 64 * 1024, "{} bytes held", stream.held());
            assert!(stream.memory() <= 4 * 1024 * 1024, "{} bytes of memory", stream.memory());
        }
    }
}

#[test]
fn long_tokens_are_redacted_to_their_end() {
    let body = "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9";
    let claims: String = (0..2_000).map(|number| format!("{number:x}Qz")).collect();
    let token = format!("{body}.eyJ{claims}.{}", "sIgNaTuRe0".repeat(30));
    let out = scrubber().scrub(format!("token {token}\nafter").as_bytes());
    let out = String::from_utf8(out.bytes).unwrap();
    assert!(out.starts_with("token [REDACTED:jw") && out.ends_with("]\nafter"), "{out}");
}

#[test]
fn lines_can_keep_their_numbers() {
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCq7Hh2jK0pLmN8vBxZsWqErTyUiOpAsDf\n".repeat(5);
    let text = format!("one\n-----BEGIN PRIVATE KEY-----\n{body}-----END PRIVATE KEY-----\nlast\n");
    let mut stream = scrubber().stream().keeping_lines();
    let mut out = stream.push(text.as_bytes());
    out.extend(stream.finish().0);
    let out = String::from_utf8(out).unwrap();
    assert_eq!(out, format!("one\n[REDACTED:private-key]{}\nlast\n", "\n".repeat(6)));
}

#[test]
fn rule_files_of_others_count_but_not_for_known_secrets() {
    let file = format!(
        "[extend]\nuseDefault = true\ndisabledRules = ['github-pat']\n\
        [[allowlists]]\nregexes = ['^harmless-']\n[[allowlists]]\npaths = ['\\.md$']\n\
        [[rules]]\nid = 'house-token'\nregex = 'house_[a-z0-9]{{8}}'\nkeywords = ['house_']\n\
        [[rules]]\nid = 'known'\nregex = 'x'\n[rules.allowlist]\nregexes = ['{SECRET}']"
    );
    let config = Config::new().with_file(".gitleaks.toml", file).with_known([KnownSecret::new("K", SECRET)]);
    let scrubber = Scrubber::new(&config).unwrap();
    let token = format!("ghp_{}", "aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ2kL4");
    assert_eq!(scrubber.scrub_text(&token), token);
    assert_eq!(scrubber.scrub_text("house_ab12cd34"), "[REDACTED:house-token]");
    assert_eq!(
        scrubber.scrub_text("api_key=harmless-8Kq0pLm27Vb93Nc64"),
        "api_key=harmless-8Kq0pLm27Vb93Nc64"
    );
    let mut stream = scrubber.stream_of("docs/a.md");
    let mut out = stream.push(format!("house_ab12cd34 {SECRET}").as_bytes());
    out.extend(stream.finish().0);
    assert_eq!(String::from_utf8(out).unwrap(), "house_ab12cd34 [REDACTED:env:K]");
}

#[test]
fn a_rule_file_that_cannot_be_used_is_refused_by_name() {
    let error =
        Scrubber::new(&Config::new().with_file("a.toml", "[[rules]]\nid='b'\nregex='('")).unwrap_err();
    assert_eq!(error.code, ErrorCode::ConfigInvalid);
    assert!(error.message.contains("a.toml") && error.message.contains("rule b"), "{error}");
    let error =
        Scrubber::new(&Config::new().with_file("a.toml", "x".repeat(limits::RULE_FILE_MAX + 1))).unwrap_err();
    assert!(error.message.contains("larger"), "{error}");
}

#[test]
fn every_automaton_of_ours_can_be_built() {
    let scrubber = Scrubber::new(&Config::new()).unwrap();
    for rule in &scrubber.rules.rules {
        assert!(rule.regex().is_some(), "{}", rule.id);
        assert_eq!(rule.begun(b"", 0), None);
        assert!(rule.is_waited_for(), "{}", rule.id);
        assert!(!rule.keywords.is_empty(), "{} has no keyword", rule.id);
        assert!(rule.allow.iter().all(Allow::is_usable), "{}", rule.id);
    }
    assert!(scrubber.rules.allow.iter().all(Allow::is_usable));
}

#[test]
fn findings_say_where_and_never_what() {
    let text = format!("\x1b[1mab\x1b[m {SECRET} {SECRET}");
    let scrubbed = scrubber().scrub(text.as_bytes());
    let offsets: Vec<u64> = scrubbed.findings.list().iter().map(|finding| finding.offset).collect();
    let first = text.find(SECRET).unwrap() as u64;
    assert_eq!(offsets, [first, first + SECRET.len() as u64 + 1]);
    assert_eq!((scrubbed.findings.total(), scrubbed.findings.counts().len()), (2, 1));
    assert!(!format!("{:?}", scrubbed.findings).contains("kN0wn"));
}

#[test]
fn a_secret_behind_a_code_that_was_cut_off_is_found() {
    let aws = format!("{}Z7QHL3X5VN2RJ4TD", "AKIA");
    for (text, shown) in [
        (format!("x \x1b[{aws} y"), "x \x1b[A[REDACTED:aws-access-key-id] y"),
        (format!("x \x1b[31{aws} y"), "x \x1b[31A[REDACTED:aws-access-key-id] y"),
        (format!("x \x1b[1{SECRET} y"), "x \x1b[1k[REDACTED:env:ONE] y"),
        ("house=\x1b[A1B2C3D4 y".to_owned(), "house=\x1b[A[REDACTED:value] y"),
        ("house=\x1b[12C4D5E6 y".to_owned(), "house=\x1b[12C[REDACTED:value] y"),
        // And where the letter belongs to the code.
        (format!("x \x1b[A{aws} y"), "x \x1b[A[REDACTED:aws-access-key-id] y"),
        (
            format!("x \x1b[01;31m\x1b[K{aws}\x1b[m y"),
            "x \x1b[01;31m\x1b[K[REDACTED:aws-access-key-id]\x1b[m y",
        ),
        ("house=\x1b[AA1B2C3D4 y".to_owned(), "house=\x1b[A[REDACTED:value] y"),
        (
            "only \x1b[1mcolours\x1b[m and \x1b[2Jmoves".to_owned(),
            "only \x1b[1mcolours\x1b[m and \x1b[2Jmoves",
        ),
    ] {
        let scrubbed = scrubber().scrub(text.as_bytes());
        assert_eq!(String::from_utf8_lossy(&scrubbed.bytes), shown, "{text:?}");
        for cut in 0..=text.len() {
            assert_eq!(in_pieces(&scrubber(), text.as_bytes(), &[cut]), scrubbed, "{text:?} cut at {cut}");
        }
    }
}

/// Secrets of other rules are known by their first bytes or the words before them.
#[test]
fn few_secrets_are_known_only_by_what_stands_in_them() {
    let rules = scrubber().rules;
    let ids: Vec<&str> = rules.unannounced.iter().map(|rule| &*rules.rules[*rule as usize].id).collect();
    let known = [
        "azure-client-secret",
        "figma-token",
        "firebase-messaging-key",
        "generic-cut-off-jwt",
        "generic-cut-off-token",
        "mailchimp-api-key",
        "newrelic-license-key",
        "telegram-bot-token",
        "terraform-cloud-token",
    ];
    assert_eq!(ids, known);
}

#[test]
fn scrubbers_without_rule_files_share_the_built_in_rules() {
    let known = Config::new().with_known([KnownSecret::new("TOKEN", "a-secret-of-the-environment")]);
    let (one, other) = (Scrubber::new(&Config::new()).unwrap(), Scrubber::new(&known).unwrap());
    assert!(Arc::ptr_eq(&one.rules, &other.rules));
    let with_file = Scrubber::new(&known.with_file("own", "[[rules]]\nid='own'\nregex='zzz[0-9]+'")).unwrap();
    assert!(!Arc::ptr_eq(&one.rules, &with_file.rules));
}
