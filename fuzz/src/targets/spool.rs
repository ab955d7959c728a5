//! Files of a spool: whatever bytes a disk returns, reading ends, and returns only records whose checksum holds, in order.

use std::fs;

use anyhow::{Result, ensure};
use shim::record::{Header, Stream};
use shim::spool::{Position, Reader, Step, segment_name};

use crate::Target;

/// More steps than any input has records: reading must end before.
const STEPS_MAX: usize = 20_000;

pub(super) struct SpoolFiles {
    folder: tempfile::TempDir,
}

impl SpoolFiles {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { folder: tempfile::tempdir()? })
    }
}

impl Target for SpoolFiles {
    fn name(&self) -> &'static str {
        "spool"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let mut segment = Vec::new();
        for seq in 1..=6_u64 {
            let payload = "x".repeat(usize::try_from(seq * 37).unwrap_or(0)) + "\n";
            let len = u32::try_from(payload.len()).unwrap_or(0);
            let header = Header { stream: Stream::Out, len, seq, t_mono_ns: seq * 1_000 };
            segment.extend_from_slice(&header.encode(payload.as_bytes()));
            segment.extend_from_slice(payload.as_bytes());
        }
        vec![
            segment.clone(),
            segment[..segment.len() - 5].to_vec(),
            [segment.as_slice(), &[0; 64]].concat(),
            Vec::new(),
        ]
    }

    fn words(&self) -> &'static [&'static str] {
        &["\0\0\0\0", "\u{1}\0\0\0", "x\n"]
    }

    fn run(&mut self, input: &[u8]) -> Result<u64> {
        fs::write(self.folder.path().join(segment_name(1)), input)?;
        let mut reader = Reader::new(self.folder.path(), Position::START);
        let (mut records, mut last) = (0_u64, 0);
        for _ in 0..STEPS_MAX {
            match reader.step()? {
                Step::Records(batch) => {
                    for record in batch.records() {
                        ensure!(records == 0 || record.seq == last + 1, "{} follows {last}", record.seq);
                        last = record.seq;
                        records += 1;
                    }
                }
                Step::Dry => return Ok(records << 8),
                Step::Torn(fault) => {
                    let verdict = reader.verdict(fault)?;
                    return Ok(records << 8 | u64::from(matches!(verdict, Step::Corrupt { .. })) << 1 | 1);
                }
                Step::Corrupt { .. } => return Ok(records << 8 | 4),
            }
        }
        anyhow::bail!("reading does not end")
    }
}
