//! A stream whose lines appear above the prompt line. A line without its end waits for it.

use std::io::{self, Write};

use super::PromptHandle;

pub struct LineWriter {
    handle: PromptHandle,
    partial: Vec<u8>,
    /// Where lines go once the prompt line is gone.
    otherwise: Box<dyn Write + Send + Sync>,
}

impl LineWriter {
    pub fn new(handle: PromptHandle, otherwise: Box<dyn Write + Send + Sync>) -> Self {
        Self { handle, partial: Vec::new(), otherwise }
    }

    fn print_lines(&mut self) -> io::Result<()> {
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let rest = self.partial.split_off(end + 1);
            let line = std::mem::replace(&mut self.partial, rest);
            let text = String::from_utf8_lossy(&line);
            if !self.handle.print(text.trim_end_matches('\n')) {
                self.otherwise.write_all(&line)?;
                self.otherwise.flush()?;
            }
        }
        Ok(())
    }
}

impl Write for LineWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.partial.extend_from_slice(bytes);
        self.print_lines()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
