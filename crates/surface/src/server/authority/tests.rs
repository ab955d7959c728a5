//! The rewriter changes the value of `:authority` and no other byte, however the bytes are split.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Bytes as a client sends them and as `h2` should see them.
#[derive(Clone, Debug, Default)]
struct Wire {
    sent: Vec<u8>,
    seen: Vec<u8>,
}

impl Wire {
    fn both(&mut self, bytes: &[u8]) {
        self.sent.extend_from_slice(bytes);
        self.seen.extend_from_slice(bytes);
    }

    fn extend(&mut self, other: &Wire) {
        self.sent.extend_from_slice(&other.sent);
        self.seen.extend_from_slice(&other.seen);
    }
}

/// An HPACK integer with a prefix of `bits` bits (RFC 7541 §5.1), written independently of the code under
/// test.
fn number(pattern: u8, bits: u32, mut value: usize) -> Vec<u8> {
    let most = (1 << bits) - 1;
    if value < most {
        return vec![pattern | value as u8];
    }
    let mut bytes = vec![pattern | most as u8];
    value -= most;
    while value >= 128 {
        bytes.push((value % 128 + 128) as u8);
        value /= 128;
    }
    bytes.push(value as u8);
    bytes
}

fn raw(text: &[u8]) -> Vec<u8> {
    let mut bytes = number(0, 7, text.len());
    bytes.extend_from_slice(text);
    bytes
}

/// The expected result for an authority: an encoded path keeps no character that has a meaning in a URI.
fn tolerated(value: &[u8]) -> Vec<u8> {
    let Some(first) = value.iter().position(|byte| *byte == b'%') else { return value.to_vec() };
    let mut value = value.to_vec();
    for byte in &mut value[first..] {
        if b"%:@[]".contains(byte) {
            *byte = b'-';
        }
    }
    value
}

fn any_text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(prop_oneof![Just(b'%'), Just(b':'), any::<u8>()], 0..40), vec(any::<u8>(), 100..400)]
}

/// The form of a literal: its bit pattern and the width of its index.
fn literal_form() -> impl Strategy<Value = (u8, u32)> {
    prop_oneof![Just((0x40, 6)), Just((0x00, 4)), Just((0x10, 4))]
}

/// One field of a header block.
fn field() -> impl Strategy<Value = Wire> {
    let same = |bytes: Vec<u8>| Wire { sent: bytes.clone(), seen: bytes };
    let authority =
        (literal_form(), any::<bool>(), any_text()).prop_map(|((pattern, bits), by_index, value)| {
            let mut wire = Wire::default();
            if by_index {
                wire.both(&number(pattern, bits, 1));
            } else {
                wire.both(&number(pattern, bits, 0));
                wire.both(&raw(b":authority"));
            }
            wire.sent.extend(raw(&value));
            wire.seen.extend(raw(&tolerated(&value)));
            wire
        });
    let name = prop_oneof![
        any_text(),
        Just(b":authorit".to_vec()),
        Just(b":authority2".to_vec()),
        Just(b":Authority".to_vec())
    ];
    let named = (literal_form(), name, any_text()).prop_map(move |((pattern, bits), name, value)| {
        let name = if name == b":authority" { b"x".to_vec() } else { name };
        same([number(pattern, bits, 0), raw(&name), raw(&value)].concat())
    });
    let indexed_name =
        (literal_form(), 2..5_000usize, any_text()).prop_map(move |((pattern, bits), index, value)| {
            same([number(pattern, bits, index), raw(&value)].concat())
        });
    let coded = (literal_form(), any_text()).prop_map(move |((pattern, bits), value)| {
        same([number(pattern, bits, 1), number(0x80, 7, value.len()), value].concat())
    });
    let indexed = (1..5_000usize).prop_map(move |index| same(number(0x80, 7, index)));
    let resize = (0..10_000usize).prop_map(move |size| same(number(0x20, 5, size)));
    prop_oneof![3 => authority, 2 => named, 2 => indexed_name, 1 => coded, 2 => indexed, 1 => resize]
}

fn frame(kind: u8, flags: u8, payload: &Wire) -> Wire {
    let mut wire = Wire::default();
    wire.both(&(payload.sent.len() as u32).to_be_bytes()[1..]);
    wire.both(&[kind, flags, 0, 0, 0, 1]);
    wire.extend(payload);
    wire
}

/// A header block in one HEADERS frame, with or without padding and priority, and any number of CONTINUATION
/// frames.
fn headers() -> impl Strategy<Value = Wire> {
    let padding = proptest::option::of(vec(Just(b'%'), 0..20));
    (vec(field(), 0..6), padding, any::<bool>(), vec(any::<prop::sample::Index>(), 0..3)).prop_map(
        |(fields, padding, has_priority, cuts)| {
            let mut block = Wire::default();
            fields.iter().for_each(|field| block.extend(field));
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(block.sent.len() + 1)).collect();
            cuts.sort_unstable();
            let ends: Vec<usize> = cuts.iter().copied().chain([block.sent.len()]).collect();
            let (mut wire, mut from) = (Wire::default(), 0);
            for (nth, end) in ends.iter().enumerate() {
                let last = if nth + 1 == ends.len() { FLAG_END_HEADERS } else { 0 };
                let part =
                    Wire { sent: block.sent[from..*end].to_vec(), seen: block.seen[from..*end].to_vec() };
                from = *end;
                if nth > 0 {
                    wire.extend(&frame(TYPE_CONTINUATION, last, &part));
                    continue;
                }
                let (mut payload, mut flags) = (Wire::default(), last);
                if let Some(padding) = &padding {
                    payload.both(&[padding.len() as u8]);
                    flags |= FLAG_PADDED;
                }
                if has_priority {
                    payload.both(b"%%%%%");
                    flags |= FLAG_PRIORITY;
                }
                payload.extend(&part);
                payload.both(padding.as_deref().unwrap_or_default());
                wire.extend(&frame(TYPE_HEADERS, flags, &payload));
            }
            wire
        },
    )
}

fn other_frame() -> impl Strategy<Value = Wire> {
    let kind = prop_oneof![Just(0u8), 2..9u8, 10..20u8];
    (kind, any::<u8>(), prop_oneof![vec(any::<u8>(), 0..64), vec(Just(0x41), 1_000..1_100)])
        .prop_map(|(kind, flags, payload)| frame(kind, flags, &Wire { sent: payload.clone(), seen: payload }))
}

fn conversation() -> impl Strategy<Value = Wire> {
    vec(prop_oneof![headers(), other_frame()], 0..8).prop_map(|frames| {
        let mut wire = Wire::default();
        wire.both(PREFACE);
        frames.iter().for_each(|frame| wire.extend(frame));
        wire
    })
}

/// Passes bytes in chunks of the given sizes; the last size repeats.
fn pass(bytes: &[u8], pieces: &[usize]) -> Vec<u8> {
    let (mut rewriter, mut bytes, mut from) = (Rewriter::default(), bytes.to_vec(), 0);
    let mut sizes = pieces.iter().copied().chain(std::iter::repeat(pieces.last().copied().unwrap_or(1)));
    while from < bytes.len() {
        let end = bytes.len().min(from + sizes.next().unwrap().max(1));
        rewriter.pass(&mut bytes[from..end]);
        from = end;
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn only_authorities_change_however_the_bytes_are_cut(
        wire in conversation(), pieces in vec(1..50usize, 1..20)
    ) {
        prop_assert_eq!(pass(&wire.sent, &pieces), wire.seen.clone());
        prop_assert_eq!(pass(&wire.sent, &[1]), wire.seen.clone());
        prop_assert_eq!(pass(&wire.sent, &[usize::MAX / 2]), wire.seen);
    }

    #[test]
    fn garbage_is_never_lengthened_and_comes_out_the_same_for_every_cut(
        garbage in vec(any::<u8>(), 0..600), pieces in vec(1..50usize, 1..20), is_http2 in any::<bool>()
    ) {
        let mut bytes = if is_http2 { PREFACE.to_vec() } else { Vec::new() };
        bytes.extend(garbage);
        let whole = pass(&bytes, &[usize::MAX / 2]);
        prop_assert_eq!(&pass(&bytes, &pieces), &whole);
        for (before, after) in bytes.iter().zip(&whole) {
            prop_assert!(before == after || (b"%:@[]".contains(before) && *after == b'-'));
        }
        if !is_http2 {
            prop_assert_eq!(bytes, whole);
        }
    }
}

#[test]
fn what_python_sends_becomes_an_authority_that_http_accepts() {
    // Captured from grpcio 1.85.1: the name is a literal, not an index into the static table.
    let mut payload = Wire::default();
    payload.both(b"@\x05:path\x06/a.B/C@\n:authority\x14");
    payload.sent.extend_from_slice(b"tmp%2Fcap%2Fx_1.sock");
    payload.seen.extend_from_slice(b"tmp-2Fcap-2Fx_1.sock");
    payload.both(b"\x83\x86@\x0ccontent-type\x10application/grpc@\x02te\x08trailers");
    let mut wire = Wire::default();
    wire.both(PREFACE);
    wire.extend(&frame(TYPE_HEADERS, FLAG_END_HEADERS, &payload));
    assert_eq!(pass(&wire.sent, &[7, 3, 1]), wire.seen);
    assert!("tmp-2Fcap-2Fx_1.sock".parse::<http::uri::Authority>().is_ok());
    assert!("tmp%2Fcap%2Fx_1.sock".parse::<http::uri::Authority>().is_err());
}
