//! The agent's own notifications, which a small program writes to a file or a FIFO, one JSON object per line.
//! Symbolic links and files of other users are refused. Knows nothing of sessions.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use serde_json::Value;
use tokio::net::unix::pipe::Receiver;
use tokio::time::Instant;

use super::lines::{ClientLine, LineReader};
use crate::limits;

/// The kind of a notification source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NotificationSourceKind {
    #[default]
    File,
    Fifo,
}

impl NotificationSourceKind {
    /// Parses the name of a kind.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "file" => Some(Self::File),
            "fifo" => Some(Self::Fifo),
            _ => None,
        }
    }
}

/// One notification.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Notification(Value);

impl Notification {
    /// Returns whether it reports the end of a turn: of this conversation if it names one, else of this
    /// prompt.
    pub(super) fn ends(&self, native: &str, prompt: &str) -> bool {
        let Self(event) = self;
        if event["type"] != "agent-turn-complete" {
            return false;
        }
        if let Some(thread) = event["thread-id"].as_str()
            && !native.is_empty()
        {
            return thread == native;
        }
        let messages: Vec<&str> =
            event["input-messages"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        messages.is_empty() || prompt.is_empty() || messages.contains(&prompt)
    }
}

/// A source that is read during one turn.
pub(super) struct OpenNotificationSource {
    path: PathBuf,
    kind: NotificationSourceKind,
    file: Option<Opened>,
    lines: LineReader,
    heard: Instant,
    /// The last error, so that it is reported only once.
    problem: String,
}

struct Opened {
    reader: Reader,
    /// Device and inode: identifies the file.
    identity: (u64, u64),
}

enum Reader {
    File(File),
    Fifo(Receiver),
}

impl Reader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Fifo(pipe) => pipe.try_read(buffer),
        }
    }
}

impl OpenNotificationSource {
    /// Opens a source and skips its content, or only its first `from` bytes if its size at the start of the
    /// turn is known. A source that does not exist yet is opened when it appears.
    pub(super) fn begin(path: &Path, kind: NotificationSourceKind, from: Option<u64>) -> Self {
        let mut source = Self {
            path: path.to_owned(),
            kind,
            file: None,
            lines: LineReader::new(limits::ACP_NOTIFY_LINE_MAX_BYTES),
            heard: Instant::now(),
            problem: String::new(),
        };
        // An error is reported by the first `read`.
        let _later = source.reopen();
        source.skip(from);
        source
    }

    /// Returns how many bytes of a file are skipped.
    pub(super) fn from(&self) -> Option<u64> {
        match (&self.file, self.kind) {
            (Some(Opened { reader: Reader::File(file), .. }), _) => {
                let mut file: &File = file;
                file.stream_position().ok()
            }
            (None, NotificationSourceKind::File) => Some(0),
            _ => None,
        }
    }

    /// Waits until a FIFO is readable. Never returns for a file, which is polled instead.
    pub(super) async fn ready(&self) {
        if let Some(Opened { reader: Reader::Fifo(pipe), .. }) = &self.file
            && pipe.readable().await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }

    /// Returns the new notifications; an error is reported once.
    pub(super) fn read(&mut self) -> Result<Vec<Notification>, String> {
        let found = self.reopen().and_then(|()| self.take());
        match found {
            Ok(events) => {
                self.problem.clear();
                if !events.is_empty() {
                    self.heard = Instant::now();
                }
                Ok(events)
            }
            Err(problem) if problem == self.problem => Ok(Vec::new()),
            Err(problem) => {
                self.problem.clone_from(&problem);
                Err(problem)
            }
        }
    }

    /// Opens the source; reopens it if it was replaced, or if a FIFO was silent for too long.
    fn reopen(&mut self) -> Result<(), String> {
        let overdue =
            self.kind == NotificationSourceKind::Fifo && self.heard.elapsed() >= limits::ACP_FIFO_WAIT;
        let there = std::fs::symlink_metadata(&self.path).ok().map(|meta| (meta.dev(), meta.ino()));
        let same = self.file.as_ref().is_some_and(|opened| Some(opened.identity) == there);
        if same && !overdue {
            return Ok(());
        }
        self.heard = Instant::now();
        if there.is_none() {
            self.file = None;
            return Ok(());
        }
        let opened = open(&self.path, self.kind)?;
        // A FIFO keeps its content only while it is open, so the new one is opened before the old one is
        // closed.
        self.file = Some(opened);
        if !same {
            self.lines = LineReader::new(limits::ACP_NOTIFY_LINE_MAX_BYTES);
        }
        Ok(())
    }

    /// Skips to an offset, or past everything that is already there.
    fn skip(&mut self, from: Option<u64>) {
        let Some(opened) = &mut self.file else { return };
        if let Reader::File(file) = &mut opened.reader {
            let to = from.map_or(SeekFrom::End(0), SeekFrom::Start);
            // If seeking fails, the file is read from its start; its old lines name the turn they belong to.
            let _unseekable = file.seek(to);
            return;
        }
        let mut buffer = vec![0; limits::ACP_NOTIFY_READ_BYTES];
        while matches!(opened.reader.read(&mut buffer), Ok(count) if count > 0) {}
    }

    /// Reads the new lines and parses them.
    fn take(&mut self) -> Result<Vec<Notification>, String> {
        let Some(opened) = &mut self.file else { return Ok(Vec::new()) };
        let unreadable = |error: std::io::Error| format!("the notify source cannot be read: {error}");
        if let Reader::File(file) = &mut opened.reader {
            let length = file.metadata().map_err(unreadable)?.len();
            let at = file.stream_position().map_err(unreadable)?;
            // The file was truncated; everything from here on is new.
            if length < at {
                file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
                self.lines = LineReader::new(limits::ACP_NOTIFY_LINE_MAX_BYTES);
            }
        }
        let mut events = Vec::new();
        let mut buffer = vec![0; limits::ACP_NOTIFY_READ_BYTES];
        loop {
            let count = match opened.reader.read(&mut buffer) {
                Ok(0) => return Ok(events),
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(events),
                Err(error) => return Err(unreadable(error)),
            };
            for line in self.lines.push(&buffer[..count]) {
                // Lines that are not JSON are ignored.
                if let ClientLine::Whole(line) = line
                    && let Ok(event) = serde_json::from_slice(&line)
                {
                    events.push(Notification(event));
                }
            }
        }
    }
}

/// Opens a file or FIFO that belongs to our user, without following links and without blocking.
fn open(path: &Path, kind: NotificationSourceKind) -> Result<Opened, String> {
    let shown = path.display();
    // With a FIFO open for both ends, there is no end of file when the last writer closes it.
    let access = if kind == NotificationSourceKind::Fifo { OFlags::RDWR } else { OFlags::RDONLY };
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|error| format!("the notify source {shown} cannot be opened: {error}"))?;
    let stat = rustix::fs::fstat(&fd).map_err(|error| format!("the notify source {shown}: {error}"))?;
    let wanted = if kind == NotificationSourceKind::Fifo { FileType::Fifo } else { FileType::RegularFile };
    if FileType::from_raw_mode(stat.st_mode) != wanted {
        return Err(format!(
            "the notify source {shown} is not a {}",
            if kind == NotificationSourceKind::Fifo { "FIFO" } else { "file" }
        ));
    }
    if stat.st_uid != host::own_uid() {
        return Err(format!("the notify source {shown} belongs to another user"));
    }
    let file = File::from(fd);
    let meta = file.metadata().map_err(|error| format!("the notify source {shown}: {error}"))?;
    let reader = match kind {
        NotificationSourceKind::File => Reader::File(file),
        NotificationSourceKind::Fifo => {
            let pipe = Receiver::from_file(file);
            Reader::Fifo(pipe.map_err(|error| format!("the notify source {shown}: {error}"))?)
        }
    };
    Ok(Opened { identity: (meta.dev(), meta.ino()), reader })
}

/// Appends one notification to a source. The agent's notify program calls this.
pub fn forward(path: &Path, kind: NotificationSourceKind, event: &str) -> Result<(), String> {
    let shown = path.display();
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let flags =
        if kind == NotificationSourceKind::File { flags | OFlags::CREATE } else { flags | OFlags::NONBLOCK };
    let fd = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH)
        .map_err(|error| format!("{shown} cannot be opened: {error}"))?;
    let stat = rustix::fs::fstat(&fd).map_err(|error| format!("{shown}: {error}"))?;
    if stat.st_uid != host::own_uid() {
        return Err(format!("{shown} belongs to another user"));
    }
    let line = format!("{}\n", event.replace('\n', " "));
    File::from(fd).write_all(line.as_bytes()).map_err(|error| format!("{shown}: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const DONE: &str = r#"{"type":"agent-turn-complete","turn-id":"1"}"#;

    fn ends(source: &mut OpenNotificationSource) -> bool {
        source.read().unwrap().iter().any(|event| event.ends("", ""))
    }

    #[tokio::test]
    async fn old_lines_end_no_new_turn_and_new_ones_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        forward(&path, NotificationSourceKind::File, DONE).unwrap();
        let mut source = OpenNotificationSource::begin(&path, NotificationSourceKind::File, None);
        assert!(!ends(&mut source), "of an earlier run");
        std::fs::write(&path, "").unwrap();
        assert!(!ends(&mut source));
        forward(&path, NotificationSourceKind::File, "garbage {").unwrap();
        forward(&path, NotificationSourceKind::File, r#"{"type":"other"}"#).unwrap();
        assert!(!ends(&mut source));
        forward(&path, NotificationSourceKind::File, DONE).unwrap();
        assert!(ends(&mut source));
    }

    #[tokio::test]
    async fn a_source_may_come_later_and_in_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let mut source = OpenNotificationSource::begin(&path, NotificationSourceKind::File, None);
        assert!(!ends(&mut source));
        std::fs::write(&path, &DONE[..10]).unwrap();
        assert!(!ends(&mut source));
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        writeln!(file, "{}", &DONE[10..]).unwrap();
        assert!(ends(&mut source));
    }

    #[tokio::test]
    async fn links_and_other_things_are_refused_once() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::write(&real, "").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let mut source = OpenNotificationSource::begin(&link, NotificationSourceKind::File, None);
        forward(&real, NotificationSourceKind::File, DONE).unwrap();
        assert!(source.read().unwrap_err().contains("cannot be opened"));
        assert!(source.read().unwrap().is_empty(), "said once");
        assert!(forward(&link, NotificationSourceKind::File, DONE).is_err());
        let mut source = OpenNotificationSource::begin(&real, NotificationSourceKind::Fifo, None);
        assert!(source.read().unwrap_err().contains("is not a FIFO"));
        let mut source = OpenNotificationSource::begin(folder.path(), NotificationSourceKind::File, None);
        assert!(source.read().unwrap_err().contains("is not a file"));
    }

    #[test]
    fn a_source_of_somebody_else_is_not_read() {
        if host::own_uid() != 0 {
            // Only root can change the owner of a file.
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        std::fs::write(&path, "").unwrap();
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        let mut source = OpenNotificationSource::begin(&path, NotificationSourceKind::File, None);
        assert!(source.read().unwrap_err().contains("belongs to another user"));
        assert!(
            forward(&path, NotificationSourceKind::File, DONE)
                .unwrap_err()
                .contains("belongs to another user")
        );
    }

    async fn comes(source: &mut OpenNotificationSource) -> bool {
        let ready = tokio::time::timeout(limits::ACP_FIFO_WAIT, source.ready()).await;
        ready.is_ok() && ends(source)
    }

    #[tokio::test]
    async fn a_fifo_is_read_by_line_and_found_again_when_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        let make = || {
            rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        };
        make();
        let mut source = OpenNotificationSource::begin(&path, NotificationSourceKind::Fifo, None);
        assert!(!ends(&mut source));
        forward(&path, NotificationSourceKind::Fifo, DONE).unwrap();
        assert!(comes(&mut source).await);
        forward(&path, NotificationSourceKind::Fifo, DONE).unwrap();
        assert!(comes(&mut source).await, "the first writer has gone");
        std::fs::remove_file(&path).unwrap();
        assert!(!ends(&mut source));
        make();
        assert!(!ends(&mut source));
        forward(&path, NotificationSourceKind::Fifo, DONE).unwrap();
        assert!(comes(&mut source).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_fifo_is_opened_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let mut source = OpenNotificationSource::begin(&path, NotificationSourceKind::Fifo, None);
        let heard = source.heard;
        tokio::time::advance(limits::ACP_FIFO_WAIT / 2).await;
        assert!(!ends(&mut source));
        assert_eq!(source.heard, heard);
        tokio::time::advance(limits::ACP_FIFO_WAIT / 2).await;
        assert!(!ends(&mut source));
        assert!(source.heard > heard, "opened anew");
    }

    #[test]
    fn a_notification_of_another_conversation_ends_nothing() {
        let event =
            Notification(json!({"type": "agent-turn-complete", "thread-id": "a", "input-messages": ["x"]}));
        assert!(event.ends("a", "y") && !event.ends("b", "x"));
        let old = Notification(json!({"type": "agent-turn-complete", "input-messages": ["x"]}));
        assert!(old.ends("a", "x") && !old.ends("a", "y"));
    }
}
