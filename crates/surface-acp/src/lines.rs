//! Splits bytes into lines. A line that is too long is skipped without being buffered, and reported with the id of its
//! request.

mod id_finder;

use id_finder::IdFinder;
use serde_json::Value;

/// A line, or the report that one was too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClientLine {
    Whole(Vec<u8>),
    /// With the `id` of the message, as far as one was found.
    TooLong(Option<Value>),
}

/// Assembles lines from chunks of bytes.
pub(super) struct LineReader {
    most: usize,
    begun: Vec<u8>,
    /// Reads a line that is too long as it passes.
    skipping: Option<IdFinder>,
    /// The number of complete lines, including empty ones.
    ended: u64,
}

impl LineReader {
    pub(super) fn new(most: usize) -> Self {
        Self { most, begun: Vec::new(), skipping: None, ended: 0 }
    }

    /// Adds a chunk and returns the lines it completes, without line ends and without empty lines.
    pub(super) fn push(&mut self, piece: &[u8]) -> Vec<ClientLine> {
        self.push_counting(piece).into_iter().filter_map(|(_, line)| line).collect()
    }

    /// Like `push`, with the number of each line, starting at 0; `None` for an empty line.
    pub(super) fn push_counting(&mut self, mut piece: &[u8]) -> Vec<(u64, Option<ClientLine>)> {
        let mut lines = Vec::new();
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            self.add(&piece[..end]);
            lines.push((self.ended, self.finish()));
            self.ended += 1;
            piece = &piece[end + 1..];
        }
        self.add(piece);
        lines
    }

    /// Returns the number of complete lines so far.
    pub(super) fn ended(&self) -> u64 {
        self.ended
    }

    /// Returns what follows the last line end.
    pub(super) fn finish(&mut self) -> Option<ClientLine> {
        if let Some(finder) = self.skipping.take() {
            return Some(ClientLine::TooLong(finder.found()));
        }
        let line = std::mem::take(&mut self.begun);
        (!line.trim_ascii().is_empty()).then_some(ClientLine::Whole(line))
    }

    /// Adds bytes to the current line. A line that becomes too long is dropped and skipped to its end.
    fn add(&mut self, piece: &[u8]) {
        if let Some(finder) = &mut self.skipping {
            return finder.read(piece);
        }
        if self.begun.len() + piece.len() > self.most {
            let mut finder = IdFinder::default();
            finder.read(&std::mem::take(&mut self.begun));
            finder.read(piece);
            self.skipping = Some(finder);
            return;
        }
        self.begun.extend_from_slice(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> ClientLine {
        ClientLine::Whole(text.into())
    }

    #[test]
    fn lines_are_put_together_wherever_they_are_cut() {
        let text = b"one\n\r\n\ntwo\r\nthree";
        for cut in 0..text.len() {
            let mut lines = LineReader::new(100);
            let mut found = lines.push(&text[..cut]);
            found.extend(lines.push(&text[cut..]));
            found.extend(lines.finish());
            assert_eq!(found, [whole("one"), whole("two\r"), whole("three")], "cut at {cut}");
        }
    }

    #[test]
    fn every_line_has_its_number() {
        let mut lines = LineReader::new(5);
        let numbers: Vec<(u64, bool)> = [&b"a\n\nlong"[..], b"er than five\nb\nc"]
            .iter()
            .flat_map(|piece| lines.push_counting(piece))
            .map(|(number, line)| (number, line.is_some()))
            .collect();
        assert_eq!(numbers, [(0, true), (1, false), (2, true), (3, true)]);
        assert_eq!(lines.ended(), 4);
    }

    #[test]
    fn a_line_that_is_too_long_is_told_once_and_not_kept() {
        let mut lines = LineReader::new(5);
        let mut found = lines.push(b"ok\n1234");
        for _ in 0..1000 {
            found.extend(lines.push(b"5678"));
            assert!(lines.begun.len() <= 5);
        }
        found.extend(lines.push(b"\nfine\n"));
        assert_eq!(found, [whole("ok"), ClientLine::TooLong(None), whole("fine")]);
    }

    #[test]
    fn a_line_that_is_too_long_is_known_by_its_id() {
        let id_of = |line: &str, cut: usize| {
            let mut lines = LineReader::new(8);
            let mut found: Vec<ClientLine> =
                line.as_bytes().chunks(cut).flat_map(|piece| lines.push(piece)).collect();
            found.extend(lines.push(b"\n"));
            match found.as_slice() {
                [ClientLine::TooLong(id)] => id.clone(),
                other => panic!("{other:?}"),
            }
        };
        for cut in [1, 3, 7, 1000] {
            let first = r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"id":9,"text":"\"id\":8"}}"#;
            assert_eq!(id_of(first, cut), Some(7.into()));
            let last = r#"{"params":{"a":[{"id":1}],"t":"}\\"},"method":"x", "id" : "a\"b" }"#;
            assert_eq!(id_of(last, cut), Some("a\"b".into()));
            assert_eq!(id_of(r#"{"id":1.5,"method":"x","params":{}}"#, cut), Some(1.5.into()));
            assert_eq!(id_of(r#"{"method":"x","params":{"id":3}}"#, cut), None);
            assert_eq!(id_of("this is no message at all", cut), None);
            assert_eq!(id_of(r#"{"id":{"a":1},"method":"xxxxx"}"#, cut), None);
        }
    }
}
