//! Lines do not depend on how their bytes were split, nor on a restart between two chunks.

use proptest::prelude::*;

use crate::lines::{LineAssembler, OutputLine, PartialLine};

const LINE_MAX: usize = 12;
const HEAD_MAX: usize = 4;

#[derive(Debug, PartialEq, Eq)]
enum Owned {
    Whole(Vec<u8>),
    Oversize(Vec<u8>, u64),
}

fn owned(line: OutputLine<'_>) -> Owned {
    match line {
        OutputLine::Whole(line) => Owned::Whole(line.to_vec()),
        OutputLine::Oversize { head, length } => Owned::Oversize(head.to_vec(), length),
    }
}

/// Splits in the simplest possible way.
fn expected(bytes: &[u8]) -> Vec<Owned> {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    let whole = |line: &[u8]| line.strip_suffix(b"\r").unwrap_or(line).to_vec();
    lines
        .into_iter()
        .map(|line| match line.len() > LINE_MAX {
            true => Owned::Oversize(line[..HEAD_MAX].to_vec(), whole(line).len() as u64),
            false => Owned::Whole(whole(line)),
        })
        .collect()
}

fn assembled<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Vec<Owned> {
    let mut found = Vec::new();
    let mut carry = PartialLine::default();
    for chunk in chunks {
        // A new assembler each time, as after a restart.
        let mut lines = LineAssembler::with_limits(carry, LINE_MAX, HEAD_MAX);
        lines.push(chunk, &mut |line| found.push(owned(line)));
        carry = lines.carry().clone();
        assert!(carry.partial.len() <= LINE_MAX);
    }
    let mut lines = LineAssembler::with_limits(carry, LINE_MAX, HEAD_MAX);
    lines.finish(&mut |line| found.push(owned(line)));
    lines.finish(&mut |line| panic!("told twice: {line:?}"));
    found
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_lines(
        bytes in prop::collection::vec(prop_oneof![3 => Just(b'a'), 1 => Just(b'\r'), 1 => Just(b'\n'), 1 => any::<u8>()], 0..120),
        cuts in prop::collection::vec(0usize..120, 0..12),
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let chunks = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
        prop_assert_eq!(assembled(chunks), expected(&bytes));
    }
}

#[test]
fn carriage_returns_are_stripped_only_before_the_end() {
    let found = assembled([&b"a\r\n\r\nb\rc\n\r\r\nlast\r"[..]].into_iter());
    let whole = |text: &str| Owned::Whole(text.as_bytes().to_vec());
    assert_eq!(found, [whole("a"), whole(""), whole("b\rc"), whole("\r"), whole("last")]);
}

#[test]
fn a_line_of_the_largest_size_is_whole_and_one_more_byte_is_not() {
    assert_eq!(assembled([&[b'x'; LINE_MAX][..], b"\n"].into_iter()), [Owned::Whole(vec![b'x'; LINE_MAX])]);
    let found = assembled([&[b'x'; LINE_MAX][..], b"\r", b"\n", b"next\n"].into_iter());
    let next = Owned::Whole(b"next".to_vec());
    assert_eq!(found, [Owned::Oversize(vec![b'x'; HEAD_MAX], LINE_MAX as u64), next]);
}
