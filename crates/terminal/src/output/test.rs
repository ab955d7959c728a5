//! Streams that tests can read, and what both streams look like on a terminal and in a pipe.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on says so by failing")]

use tokio::sync::watch;

use super::*;

/// A stream that tests can read and wait for.
#[derive(Clone)]
pub struct Buffer(watch::Sender<Vec<u8>>);

impl Default for Buffer {
    fn default() -> Self {
        Self(watch::channel(Vec::new()).0)
    }
}

impl Buffer {
    pub fn text(&self) -> String {
        String::from_utf8(self.0.borrow().clone()).unwrap()
    }

    /// Waits until a text was written.
    pub async fn until(&self, part: &str) {
        let has_it = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).contains(part);
        let waiting = tokio::time::timeout(std::time::Duration::from_secs(20), async {
            self.0.subscribe().wait_for(has_it).await.map(drop)
        });
        waiting.await.unwrap_or_else(|_| panic!("{part:?} is missing in {}", self.text())).unwrap();
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send_modify(|all| all.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
fn on_terminal() -> (Output, Buffer) {
    let both = Buffer::default();
    (Output::to_buffers(both.clone(), both.clone(), &Global::default(), true), both)
}

#[test]
fn text_and_notes_do_not_share_a_line_on_a_terminal() {
    let (mut output, both) = on_terminal();
    output.text("half").unwrap();
    output.note(TextStyle::Dim, "note").unwrap();
    output.text("more").unwrap();
    output.end_text().unwrap();
    assert_eq!(both.text(), "half\nnote\nmore\n");
}

#[test]
fn in_a_pipe_notes_do_not_break_the_text() {
    let (out, err) = (Buffer::default(), Buffer::default());
    let mut output = Output::to_buffers(out.clone(), err.clone(), &Global::default(), false);
    output.text("half ").unwrap();
    output.note(TextStyle::Dim, "note").unwrap();
    output.text("and half").unwrap();
    output.end_text().unwrap();
    assert_eq!((out.text().as_str(), err.text().as_str()), ("half and half\n", "note\n"));
}

#[test]
fn the_status_line_gives_way() {
    let (mut output, both) = on_terminal();
    output.status("working").unwrap();
    output.line("result").unwrap();
    output.text("half").unwrap();
    output.status("never shown over a begun line").unwrap();
    assert_eq!(both.text(), "\r\x1b[2Kworking\r\x1b[2Kresult\nhalf");
}

#[test]
fn neither_a_terminal_nor_a_pipe_gets_control_characters() {
    let (mut output, both) = on_terminal();
    output.line("a\x1b]0;title\x07b\tc").unwrap();
    assert_eq!(both.text(), "a]0;titleb\tc\n");
    let out = Buffer::default();
    let mut output = Output::to_buffers(out.clone(), Buffer::default(), &Global::default(), false);
    output.text("a\x1b[1mb\u{202e}\r\u{9b}c\n").unwrap();
    // A file with such lines is shown as a patch, which must fit the file.
    output.line("a\x1b]52;c;eA==\x07\rb\r").unwrap();
    output.json(&"a\x1b").unwrap();
    output.bytes(b"\x1b[1m").unwrap();
    assert_eq!(out.text(), "a[1mbc\na]52;c;eA==b\r\n\"a\\u001b\"\n\x1b[1m");
}

#[test]
fn quiet_keeps_results_and_errors() {
    let (out, err) = (Buffer::default(), Buffer::default());
    let global = Global { quiet: true, ..Global::default() };
    let mut output = Output::to_buffers(out.clone(), err.clone(), &global, true);
    output.note(TextStyle::Plain, "note").unwrap();
    output.status("working").unwrap();
    output.line("result").unwrap();
    output.failure(&Failure::failed("broken"));
    assert_eq!((out.text().as_str(), err.text().as_str()), ("result\n", "error: broken\n"));
}
