//! Pieces of text that say which they are and when they were sent, on the clock that all processes of a machine share.
//! An agent may join or divide them; put together again they still tell.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the monotonic clock.
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// A piece that is sent now.
pub fn of(number: u64) -> String {
    format!("{number:06}@{:016}; ", now_ns())
}

/// Reads pieces out of a text that comes in parts.
#[derive(Debug, Default)]
pub struct Reader {
    rest: String,
    next: u64,
}

impl Reader {
    /// Takes a part and returns when each piece was sent that is whole now; `None` if one is missing, doubled or harmed.
    pub fn take(&mut self, part: &str) -> Option<Vec<u64>> {
        self.rest.push_str(part);
        let mut sent = Vec::new();
        while let Some((piece, rest)) = self.rest.split_once("; ") {
            let (number, at) = piece.split_once('@')?;
            if number.parse() != Ok(self.next) {
                return None;
            }
            sent.push(at.parse().ok()?);
            self.next += 1;
            self.rest = rest.to_owned();
        }
        Some(sent)
    }

    /// How many pieces came.
    pub fn count(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_read_however_they_are_cut() {
        let all = format!("{}{}{}", of(0), of(1), of(2));
        let mut reader = Reader::default();
        let (head, tail) = all.split_at(13);
        assert_eq!(reader.take(head), Some(Vec::new()));
        assert_eq!(reader.take(tail).map(|sent| sent.len()), Some(3));
        assert_eq!(reader.count(), 3);
        assert_eq!(Reader::default().take(&of(1)), None, "one is missing");
    }
}
