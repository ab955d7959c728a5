//! Damaged spools: cut anywhere, any bit flipped, segments missing. The reader never panics, never returns a
//! record that was not written, and distinguishes a torn end from damage in the middle.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use crate::record::{Fault, HEADER_LEN, Header, Stream};
use crate::spool::{Position, Reader, Step, segment_name};

/// Returns the bytes of records numbered from `seq`, with these payloads.
fn records(seq: u64, payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, payload) in payloads.iter().enumerate() {
        let seq = seq + number as u64;
        let header = Header { stream: Stream::Out, len: payload.len() as u32, seq, t_mono_ns: seq };
        bytes.extend_from_slice(&header.encode(payload));
        bytes.extend_from_slice(payload);
    }
    bytes
}

fn write(dir: &Path, segment: u32, bytes: &[u8]) {
    fs::write(dir.join(segment_name(segment)), bytes).unwrap();
}

/// How reading ended, when nothing more will be written.
#[derive(Debug, PartialEq)]
enum Ending {
    Clean,
    Torn,
    Corrupt(Position, Fault),
}

fn read_all(dir: &Path) -> (Vec<Vec<u8>>, Ending) {
    let mut reader = Reader::new(dir, Position::START);
    let mut payloads = Vec::new();
    loop {
        let step = match reader.step().unwrap() {
            Step::Torn(fault) => reader.verdict(fault).unwrap(),
            step => step,
        };
        match step {
            Step::Records(batch) => {
                assert!(!batch.is_empty());
                assert_eq!(batch.len(), batch.records().count());
                payloads.extend(batch.records().map(|record| record.payload.to_vec()));
                assert_eq!(batch.after, reader.position());
            }
            Step::Dry => return (payloads, Ending::Clean),
            Step::Torn(_) => return (payloads, Ending::Torn),
            Step::Corrupt { at, fault } => {
                assert_eq!(at, reader.position());
                return (payloads, Ending::Corrupt(at, fault));
            }
        }
    }
}

fn sample() -> Vec<Vec<u8>> {
    vec![b"first line\n".to_vec(), Vec::new(), vec![0; 40], b"x".to_vec(), vec![0xe1, 0x0b, 0x01, 0x01, 0xff]]
}

#[test]
fn a_spool_cut_at_any_byte_yields_the_whole_records_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let payloads = sample();
    let bytes = records(1, &payloads);
    let ends: Vec<usize> = (0..=payloads.len()).map(|count| records(1, &payloads[..count]).len()).collect();
    for cut in 0..=bytes.len() {
        write(dir.path(), 1, &bytes[..cut]);
        let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
        let ending = if ends.contains(&cut) { Ending::Clean } else { Ending::Torn };
        assert_eq!(read_all(dir.path()), (payloads[..whole].to_vec(), ending), "cut at {cut}");
    }
}

#[test]
fn a_tail_of_zeros_or_rubbish_is_torn() {
    let dir = tempfile::tempdir().unwrap();
    let whole = records(1, &sample());
    for tail in [vec![0; 1], vec![0; 5000], vec![0xff; 300]] {
        let mut bytes = whole.clone();
        bytes.extend_from_slice(&tail);
        write(dir.path(), 1, &bytes);
        assert_eq!(read_all(dir.path()), (sample(), Ending::Torn));
    }
}

#[test]
fn a_quoted_earlier_record_in_a_torn_payload_is_not_taken_for_damage() {
    let dir = tempfile::tempdir().unwrap();
    let quoted = records(1, &[b"an agent may print its own spool".to_vec()]);
    let mut bytes = records(1, &[b"a".to_vec(), b"b".to_vec()]);
    let kept = bytes.len();
    bytes.extend_from_slice(&records(3, &[[quoted, vec![b'.'; 50]].concat()]));
    write(dir.path(), 1, &bytes[..bytes.len() - 1]);
    assert_eq!(read_all(dir.path()), (vec![b"a".to_vec(), b"b".to_vec()], Ending::Torn));
    assert!(kept < bytes.len());
}

#[test]
fn segments_follow_each_other() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1, &records(1, &[b"a".to_vec()]));
    write(dir.path(), 2, &records(2, &[b"b".to_vec(), b"c".to_vec()]));
    write(dir.path(), 3, &[]);
    let expected = vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec()];
    assert_eq!(read_all(dir.path()), (expected, Ending::Clean));
}

#[test]
fn a_cut_or_missing_segment_with_a_later_one_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let first = records(1, &[b"a".to_vec(), b"b".to_vec()]);
    let half = records(1, &[b"a".to_vec()]).len();
    write(dir.path(), 1, &first[..first.len() - 1]);
    write(dir.path(), 2, &records(3, &[b"c".to_vec()]));
    let at = Position { segment: 1, offset: half as u64 };
    assert_eq!(read_all(dir.path()), (vec![b"a".to_vec()], Ending::Corrupt(at, Fault::CutShort)));

    // Cut exactly between two records, only the sequence shows that some are missing.
    write(dir.path(), 1, &first[..half]);
    let at = Position { segment: 2, offset: 0 };
    let fault = Fault::Sequence { expected: 2, found: 3 };
    assert_eq!(read_all(dir.path()), (vec![b"a".to_vec()], Ending::Corrupt(at, fault)));

    fs::remove_file(dir.path().join(segment_name(1))).unwrap();
    assert_eq!(read_all(dir.path()), (vec![], Ending::Corrupt(Position::START, Fault::MissingSegment)));
}

#[test]
fn an_empty_directory_has_nothing_yet() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(read_all(dir.path()), (vec![], Ending::Clean));
}

#[test]
fn batches_are_bounded_and_resume_at_their_end() {
    let dir = tempfile::tempdir().unwrap();
    let payloads: Vec<Vec<u8>> = (0..10_000u32).map(|number| number.to_le_bytes().to_vec()).collect();
    write(dir.path(), 1, &records(1, &payloads));
    let mut reader = Reader::new(dir.path(), Position::START);
    let mut seen = Vec::new();
    while let Step::Records(batch) = reader.step().unwrap() {
        assert!(batch.len() <= crate::limits::BATCH_RECORDS_MAX);
        seen.extend(batch.records().map(|record| record.payload.to_vec()));
        reader = Reader::new(dir.path(), batch.after);
    }
    assert_eq!(seen, payloads);
}

#[test]
fn records_larger_than_a_batch_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let payloads = vec![vec![7; crate::limits::RECORD_BYTES_MAX], vec![8; 3]];
    write(dir.path(), 1, &records(1, &payloads));
    assert_eq!(read_all(dir.path()), (payloads, Ending::Clean));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_flipped_bit_is_detected(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..8),
        place in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = records(1, &payloads);
        let place = place.index(bytes.len());
        bytes[place] ^= 1 << bit;
        write(dir.path(), 1, &bytes);
        let mut offset = 0;
        let hit = payloads.iter().position(|payload| {
            offset += HEADER_LEN + payload.len();
            place < offset
        }).unwrap();
        let (read, ending) = read_all(dir.path());
        prop_assert_eq!(&read, &payloads[..hit]);
        // After the last record nothing distinguishes damage from a torn end.
        match ending {
            Ending::Corrupt(..) => prop_assert!(hit < payloads.len() - 1),
            Ending::Torn => prop_assert_eq!(hit, payloads.len() - 1),
            Ending::Clean => prop_assert!(false, "the flip went unnoticed"),
        }
    }

    #[test]
    fn rubbish_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..400), lead in any::<bool>()) {
        let dir = tempfile::tempdir().unwrap();
        let mut file = if lead { vec![0xe1, 0x0b, 1] } else { Vec::new() };
        file.extend_from_slice(&bytes);
        write(dir.path(), 1, &file);
        let (read, _) = read_all(dir.path());
        prop_assert!(read.is_empty());
    }
}
