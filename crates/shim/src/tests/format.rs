//! The formats, byte by byte: a shim of any version must understand a daemon of any other.
//! A test that fails here means that running agents would be lost on upgrade.

use crate::args::Args;
use crate::frame::{Assembler, Malformed, Refusal, Target, ToDaemon, ToShim, TooLong, Welcome};
use crate::record::{Delivery, Exit, Fault, Header, Input, Meta, Parsed, Stream, parse};
use crate::spool::{Position, segment_name, segment_number};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

fn to_shim(frame: &ToShim<'_>) -> String {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    assert_eq!(ToShim::decode(bytes[4], &bytes[5..]), Ok(Some(*frame)));
    // Appended fields are ignored, except where the payload is the rest of the frame.
    if !matches!(frame, ToShim::Input { .. }) {
        let mut longer = bytes.clone();
        longer.push(0xff);
        assert_eq!(ToShim::decode(longer[4], &longer[5..]), Ok(Some(*frame)));
    }
    hex(&bytes)
}

fn to_daemon(frame: &ToDaemon) -> String {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    let mut longer = bytes.clone();
    longer.push(0xff);
    assert_eq!(ToDaemon::decode(bytes[4], &bytes[5..]), Ok(Some(*frame)));
    assert_eq!(ToDaemon::decode(longer[4], &longer[5..]), Ok(Some(*frame)));
    hex(&bytes)
}

#[test]
fn frames_to_the_shim_have_these_bytes() {
    let hello = ToShim::Hello { protocol: 1, epoch: 0x0102_0304_0506_0708 };
    assert_eq!(to_shim(&hello), "09 00 00 00 01 01 08 07 06 05 04 03 02 01");
    let input = ToShim::Input { write_id: 9, bytes: b"hi\n" };
    assert_eq!(to_shim(&input), "0b 00 00 00 02 09 00 00 00 00 00 00 00 68 69 0a");
    assert_eq!(to_shim(&ToShim::CloseStdin { write_id: 3 }), "08 00 00 00 03 03 00 00 00 00 00 00 00");
    let kill = ToShim::Signal { signo: 9, target: Target::Tree };
    assert_eq!(to_shim(&kill), "05 00 00 00 04 09 00 00 00 03");
    let term = ToShim::Signal { signo: 15, target: Target::Agent };
    assert_eq!(to_shim(&term), "05 00 00 00 04 0f 00 00 00 01");
    let interrupt = ToShim::Signal { signo: 2, target: Target::Group };
    assert_eq!(to_shim(&interrupt), "05 00 00 00 04 02 00 00 00 02");
    assert_eq!(to_shim(&ToShim::AckExit), "00 00 00 00 05");
    assert_eq!(to_shim(&ToShim::Ping(5)), "08 00 00 00 06 05 00 00 00 00 00 00 00");
}

#[test]
fn frames_to_the_daemon_have_these_bytes() {
    let welcome = ToDaemon::Welcome(Welcome {
        protocol: 1,
        shim_pid: 0x11,
        agent_pid: 0x12,
        last_write_id: 0x13,
        head: Position { segment: 2, offset: 0x1000 },
        exited: true,
    });
    let expected = "1e 00 00 00 81 01 11 00 00 00 12 00 00 00 13 00 00 00 00 00 00 00 \
                    02 00 00 00 00 10 00 00 00 00 00 00 01";
    assert_eq!(to_daemon(&welcome), expected);
    let wake = ToDaemon::Wake(Position { segment: 1, offset: 28 });
    assert_eq!(to_daemon(&wake), "0c 00 00 00 82 01 00 00 00 1c 00 00 00 00 00 00 00");
    assert_eq!(to_daemon(&ToDaemon::Refused(Refusal::OldEpoch)), "01 00 00 00 83 01");
    assert_eq!(to_daemon(&ToDaemon::Refused(Refusal::Replaced)), "01 00 00 00 83 02");
    assert_eq!(to_daemon(&ToDaemon::Refused(Refusal::NotAllowed)), "01 00 00 00 83 03");
    assert_eq!(to_daemon(&ToDaemon::Refused(Refusal::Busy)), "01 00 00 00 83 04");
    assert_eq!(to_daemon(&ToDaemon::Pong(7)), "08 00 00 00 84 07 00 00 00 00 00 00 00");
}

#[test]
fn unknown_frames_are_passed_over_and_short_ones_are_not() {
    assert_eq!(ToShim::decode(0x70, b"anything"), Ok(None));
    assert_eq!(ToDaemon::decode(0xf0, b""), Ok(None));
    assert_eq!(ToShim::decode(0x04, &[9, 0, 0, 0, 77]), Ok(None), "an unknown target");
    for (kind, len) in [(1, 8), (2, 7), (3, 7), (4, 4), (6, 7)] {
        assert_eq!(ToShim::decode(kind, &vec![0; len]), Err(Malformed(kind)));
    }
    for (kind, len) in [(0x81, 29), (0x82, 11), (0x83, 0), (0x84, 7)] {
        assert_eq!(ToDaemon::decode(kind, &vec![0; len]), Err(Malformed(kind)));
    }
}

#[test]
fn frames_are_found_in_any_chunks() {
    let mut stream = Vec::new();
    ToShim::Ping(1).encode(&mut stream);
    ToShim::Input { write_id: 2, bytes: &[7; 100_000] }.encode(&mut stream);
    ToShim::AckExit.encode(&mut stream);
    for chunk in [1, 3, 4096, stream.len()] {
        let mut assembler = Assembler::default();
        let mut kinds = Vec::new();
        for bytes in stream.chunks(chunk) {
            assembler.push(bytes);
            while let Some((kind, payload)) = assembler.next_frame().unwrap() {
                kinds.push((kind, payload.len()));
            }
        }
        assert_eq!(kinds, [(6, 8), (2, 100_008), (5, 0)]);
    }
}

#[test]
fn an_absurd_frame_length_is_refused_before_it_is_stored() {
    let mut assembler = Assembler::default();
    assembler.push(&[0xff, 0xff, 0xff, 0x7f, 2]);
    assert_eq!(assembler.next_frame(), Err(TooLong(0x7fff_ffff)));
}

#[test]
fn a_record_has_these_bytes() {
    let header = Header { stream: Stream::Out, len: 3, seq: 2, t_mono_ns: 0x0a };
    let mut bytes = header.encode(b"abc").to_vec();
    bytes.extend_from_slice(b"abc");
    let expected = "e1 0b 01 01 03 00 00 00 02 00 00 00 00 00 00 00 0a 00 00 00 00 00 00 00 \
                    7a 86 38 b0 61 62 63";
    assert_eq!(hex(&bytes), expected);
    assert_eq!(parse(&bytes), Parsed::Whole(header));
    assert_eq!(parse(&bytes[..bytes.len() - 1]), Parsed::Partial);
    assert_eq!(parse(&[]), Parsed::Partial);
    assert_eq!(parse(&[0xe1]), Parsed::Partial);
    assert_eq!(parse(&[0xe2]), Parsed::Bad(Fault::Magic));
}

#[test]
fn the_shims_own_records_have_these_payloads() {
    let meta = Meta { protocol: 1, agent_pid: 2, started_ns: 3, start_ticks: 4, boot_id: [5; 16] };
    let expected = "01 02 00 00 00 03 00 00 00 00 00 00 00 04 00 00 00 00 00 00 00 \
                    05 05 05 05 05 05 05 05 05 05 05 05 05 05 05 05";
    assert_eq!(hex(&meta.encode()), expected);
    assert_eq!(Meta::decode(&meta.encode()), Some(meta));
    let exit = Exit { code: -1, signal: 9, lost_bytes: 6 };
    assert_eq!(hex(&exit.encode()), "ff ff ff ff 09 00 00 00 06 00 00 00 00 00 00 00");
    assert_eq!(Exit::decode(&exit.encode()), Some(exit));
    assert_eq!(Exit::decode(&exit.encode()[..8]), Some(Exit { lost_bytes: 0, ..exit }));
    let input = Input { write_id: 8, delivery: Delivery::Undeliverable };
    assert_eq!(hex(&input.encode()), "08 00 00 00 00 00 00 00 01");
    assert_eq!(Input::decode(&input.encode()), Some(input));
    assert_eq!((Meta::decode(b""), Exit::decode(b""), Input::decode(b"")), (None, None, None));
}

#[test]
fn segment_names_are_read_back_and_nothing_else_is() {
    assert_eq!(segment_name(1), "out.000001");
    assert_eq!(segment_number("out.000042".as_ref()), Some(42));
    assert_eq!(segment_number("out.1234567".as_ref()), Some(1_234_567));
    for other in ["out.1", "out.", "out.00000x", "lock", "out.+00001", "out.0000012"] {
        assert_eq!(segment_number(other.as_ref()), None, "{other}");
    }
}

#[test]
fn arguments_are_strict() {
    let parse = |words: &[&str]| Args::parse(words.iter().map(|word| word.into()));
    let args =
        parse(&["--dir", "/d", "--cwd", "/c", "--linger-secs", "5", "--", "prog", "--dir"]).ok().unwrap();
    assert_eq!(args.linger.as_secs(), 5);
    assert_eq!(args.command, [c"prog".to_owned(), c"--dir".to_owned()]);
    for (words, complaint) in [
        (&["--dir", "/d", "--cwd", "/c"][..], "no program given after --"),
        (&["--dir", "/d", "--cwd", "/c", "--"], "no program given after --"),
        (&["--dir", "/d", "--", "p"], "--cwd is missing"),
        (&["--cwd", "/c", "--", "p"], "--dir is missing"),
        (&["--dir"], "--dir needs a value"),
        (&["--spool-max", "much"], "much is not a number"),
        (&["-v"], "unknown option -v"),
    ] {
        assert_eq!(parse(words).err().as_deref(), Some(complaint));
    }
}
