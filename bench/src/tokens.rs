//! Finds stamped chunks in the bytes of any protocol, as they are read: which came, how old each was, and what is missing.
//! Knows no protocol, so that every peer is read by the same code.

use std::io::Read;

use anyhow::Result;
use e2e::model_server::stamp;

/// `000007@0000000000000042; `: the number of a chunk, and when it was written.
const NUMBER: usize = 6;
const TIME: usize = 16;
const LENGTH: usize = NUMBER + 1 + TIME + 1;

/// What was found in a stream.
#[derive(Default)]
pub(crate) struct Tokens {
    /// Bytes that may hold the beginning of a chunk's stamp.
    rest: Vec<u8>,
    seen: Vec<bool>,
    /// The age of each chunk when it was read first, in microseconds.
    pub(crate) ages: Vec<f64>,
    pub(crate) out_of_order: u64,
    newest: u64,
    pub(crate) first_written_ns: u64,
    pub(crate) first_read_ns: u64,
    pub(crate) last_read_ns: u64,
}

impl Tokens {
    /// Takes bytes that were read at a time. A chunk that comes again, as in the summary of an answer, does not count.
    pub(crate) fn take(&mut self, bytes: &[u8], read_ns: u64) {
        self.rest.extend_from_slice(bytes);
        let rest = std::mem::take(&mut self.rest);
        let mut done = 0;
        let mut at = 0;
        while let Some(found) = rest[at..].iter().position(|byte| *byte == b'@') {
            let sign = at + found;
            at = sign + 1;
            if sign + 1 + TIME + 1 > rest.len() {
                break;
            }
            if let Some((number, written)) = token_around(&rest, sign) {
                self.note(number, written, read_ns);
            }
            done = sign + 1;
        }
        let keep = rest.len().saturating_sub(LENGTH).max(done).min(rest.len());
        self.rest = rest[keep..].to_vec();
    }

    fn note(&mut self, number: u64, written_ns: u64, read_ns: u64) {
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        if at >= self.seen.len() {
            self.seen.resize(at + 1, false);
        }
        if std::mem::replace(&mut self.seen[at], true) {
            return;
        }
        if self.ages.is_empty() {
            (self.first_written_ns, self.first_read_ns) = (written_ns, read_ns);
        } else if number < self.newest {
            self.out_of_order += 1;
        }
        self.newest = self.newest.max(number);
        self.last_read_ns = read_ns;
        self.ages.push(read_ns.saturating_sub(written_ns) as f64 / 1e3);
    }

    /// How many of the chunks that were sent are missing.
    pub(crate) fn lost(&self, sent: u64) -> u64 {
        sent.saturating_sub(self.ages.len() as u64)
    }

    /// Chunks per second, from the writing of the first to the reading of the last.
    pub(crate) fn rate(&self) -> f64 {
        self.ages.len() as f64 / (self.last_read_ns.saturating_sub(self.first_written_ns) as f64 / 1e9)
    }
}

/// Returns the chunk whose stamp has its sign at this place.
fn token_around(bytes: &[u8], sign: usize) -> Option<(u64, u64)> {
    let number = digits(bytes.get(sign.checked_sub(NUMBER)?..sign)?)?;
    let behind = bytes.get(sign + 1..sign + 1 + TIME + 1)?;
    let (time, end) = behind.split_at(TIME);
    (end == b";").then(|| Some((number, digits(time)?)))?
}

fn digits(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Reads until a mark was seen, the end, or a pause as long as the source's own timeout.
pub(crate) fn read_until(source: &mut impl Read, mark: &[u8]) -> Result<Tokens> {
    let mut tokens = Tokens::default();
    let mut buffer = vec![0; 1 << 18];
    let mut tail: Vec<u8> = Vec::new();
    loop {
        let got = match source.read(&mut buffer) {
            Ok(0) => return Ok(tokens),
            Ok(got) => got,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            // What was lost is counted by whoever asked.
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
            {
                return Ok(tokens);
            }
            Err(error) => return Err(error.into()),
        };
        tokens.take(&buffer[..got], stamp::now_ns());
        tail.extend_from_slice(&buffer[..got]);
        if tail.windows(mark.len()).any(|window| window == mark) {
            return Ok(tokens);
        }
        let keep = tail.len().saturating_sub(mark.len());
        tail.drain(..keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_found_wherever_reads_cut_them() {
        let text = "x 000000@0000000000001000; b 000001@0000000000002000; 000001@0000000000002000; 000003@0000000000003000; end";
        for step in 1..=text.len() {
            let mut tokens = Tokens::default();
            for part in text.as_bytes().chunks(step) {
                tokens.take(part, 10_000);
            }
            assert_eq!(tokens.ages, [9.0, 8.0, 7.0], "in steps of {step}");
            assert_eq!((tokens.lost(4), tokens.out_of_order), (1, 0));
        }
    }

    #[test]
    fn reading_ends_at_the_mark() {
        let mut bytes: &[u8] = b"000000@0000000000001000; \"stopReason\" more";
        assert_eq!(read_until(&mut bytes, b"\"stopReason\"").unwrap().ages.len(), 1);
    }
}
