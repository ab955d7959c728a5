//! Decodes server-sent events from the bytes of a stream, regardless of its chunks. Returns the data of each
//! event; the names of events are repeated in their data. Pure; memory is bounded.

use crate::limits::SSE_EVENT_MAX_BYTES;

/// Assembles events.
#[derive(Debug, Default)]
pub(super) struct SseDecoder {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    overlong: bool,
}

/// An event was too large to be kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EventTooLong;

impl SseDecoder {
    /// Adds bytes and returns the data of the events that they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, EventTooLong> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            self.keep(&rest[..at])?;
            rest = &rest[at + 1..];
            self.end_line(&mut events)?;
        }
        self.keep(rest)?;
        Ok(events)
    }

    /// Ends the stream: an event that lacks its empty line still counts.
    pub(super) fn finish(&mut self) -> Result<Vec<String>, EventTooLong> {
        let mut events = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&mut events)?;
        }
        self.end_event(&mut events);
        Ok(events)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), EventTooLong> {
        if self.overlong || self.line.len() + self.data.len() + bytes.len() > SSE_EVENT_MAX_BYTES {
            self.overlong = true;
            return Err(EventTooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// Handles one complete line: data is collected, an empty line ends the event.
    fn end_line(&mut self, events: &mut Vec<String>) -> Result<(), EventTooLong> {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        if line.is_empty() {
            self.end_event(events);
            return Ok(());
        }
        // Comments, event names and event ids add nothing to the data.
        let Some(value) = line.strip_prefix(b"data:") else { return Ok(()) };
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
        Ok(())
    }

    fn end_event(&mut self, events: &mut Vec<String>) {
        let data = std::mem::take(&mut self.data);
        if std::mem::take(&mut self.has_data) {
            events.push(String::from_utf8_lossy(&data).into_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: &str = ": hello\r\n\r\nevent: a\ndata: {\"x\":1}\n\ndata:one\ndata: two\n\nid: 3\ndata: é🐎\r\n\r\ndata: last";

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let mut sse = SseDecoder::default();
        let mut events = Vec::new();
        for piece in pieces {
            events.extend(sse.push(piece).unwrap());
        }
        events.extend(sse.finish().unwrap());
        events
    }

    #[test]
    fn a_stream_is_divided_into_events() {
        assert_eq!(read(&[STREAM.as_bytes()]), ["{\"x\":1}", "one\ntwo", "é🐎", "last"]);
        assert!(read(&[b": ping\n\n"]).is_empty());
    }

    #[test]
    fn an_event_without_an_end_is_given_up() {
        let mut sse = SseDecoder::default();
        let megabyte = vec![b'x'; 1 << 20];
        let result = (0..=SSE_EVENT_MAX_BYTES >> 20).try_for_each(|_| sse.push(&megabyte).map(drop));
        assert_eq!(result, Err(EventTooLong));
        assert_eq!(sse.push(b"\n\n"), Err(EventTooLong));
    }

    proptest! {
        #[test]
        fn where_a_stream_is_cut_does_not_matter(cuts in proptest::collection::vec(0..STREAM.len(), 0..6)) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&STREAM.as_bytes()[from..cut]);
                from = cut;
            }
            pieces.push(&STREAM.as_bytes()[from..]);
            prop_assert_eq!(read(&pieces), read(&[STREAM.as_bytes()]));
        }
    }
}
