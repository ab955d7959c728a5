//! Files that go with a message: by a path that is typed, or by one that is pasted, as terminals do with a file that is dropped on
//! them. Reads nothing: the file is read where calls are made.

use crossterm::event::KeyEvent;

use super::dialogs::type_into;
use super::{App, Dialog};
use crate::data::{AttachedFile, Request};
use crate::{limits, sanitize};

/// How the names of files end that are attached when their path is pasted. Other paths are text, as people write about them.
const PASTED_ENDINGS: &[&str] = &["png", "jpg", "jpeg", "gif", "webp", "pdf"];

impl App {
    /// Asks for the path of a file.
    pub(super) fn open_attach(&mut self) {
        match &self.open {
            Some(open) => {
                self.dialog = Some(Dialog::Attach { session: open.id.clone(), field: String::new() });
            }
            None => self.say("open a session first; files go with a message", true),
        }
    }

    /// Handles a key while a path is typed. Returns whether the dialog stays.
    pub(super) fn attach_key(&mut self, session: &str, field: &mut String, event: &KeyEvent) -> bool {
        let stays = type_into(field, event);
        if !stays {
            self.attach_typed(session.to_owned(), field);
        }
        stays
    }

    /// Attaches the file at a path that was typed.
    fn attach_typed(&mut self, session: String, typed: &str) {
        let path = self.path_of(typed.trim());
        if !path.is_empty() {
            self.send(Request::Attach { session, path, text: String::new() });
        }
    }

    /// Takes a pasted path of a picture as the picture. Returns whether it is one.
    pub(super) fn attach_pasted(&mut self, text: &str) -> bool {
        let Some(path) = pasted_path(text) else { return false };
        let Some(session) = self.open.as_ref().map(|open| open.id.clone()) else { return false };
        self.focus = super::Focus::Message;
        let path = self.path_of(&path);
        self.send(Request::Attach { session, path, text: text.to_owned() });
        true
    }

    fn path_of(&self, typed: &str) -> String {
        match typed.strip_prefix("~/") {
            Some(rest) => format!("{}/{rest}", self.options.home),
            None => typed.to_owned(),
        }
    }

    /// Adds a file that was read to the message.
    pub(super) fn attached(&mut self, session: &str, file: AttachedFile) {
        let Some(open) = self.open.as_mut().filter(|open| open.id == session) else {
            return self.say("the file was not attached: another session is open", true);
        };
        let all = open.attachments.iter().map(|one| one.content.len() as u64).sum::<u64>();
        if all + file.content.len() as u64 > limits::ATTACHED_MAX_BYTES {
            return self.say("not attached: all files of a message may have 10 MB together", true);
        }
        open.attachments.push(file);
    }

    /// Puts pasted text that names no file into the message, or says why a file was not attached.
    pub(super) fn not_attached(&mut self, session: &str, text: &str, why: String) {
        match self.open.as_mut().filter(|open| open.id == session) {
            Some(open) if !text.is_empty() => {
                open.message.insert_str(sanitize::clean(text));
            }
            _ => self.say(why, true),
        }
    }

    /// Gives back the files of a message that was refused.
    pub(super) fn attach_again(&mut self, session: &str, text: &str) {
        let Some(open) = self.open.as_mut().filter(|open| open.id == session) else { return };
        if let Some(at) = open.sent_attachments.iter().position(|(sent, _)| sent == text) {
            let (_, files) = open.sent_attachments.remove(at);
            open.attachments.splice(0..0, files);
        }
    }

    /// Whether the cursor is before the message, behind the files.
    pub(super) fn is_before_everything(&self) -> bool {
        self.open.as_ref().is_some_and(|open| {
            let cursor = open.message.cursor();
            !open.attachments.is_empty() && cursor.0 == 0 && cursor.1 == 0
        })
    }

    pub(super) fn drop_last_attachment(&mut self) {
        if let Some(open) = &mut self.open {
            open.attachments.pop();
        }
    }
}

/// Returns the path in a pasted text that is one: alone, absolute or of the home folder, quoted, escaped or as an address, as
/// terminals and file managers give it.
fn pasted_path(text: &str) -> Option<String> {
    let text = text.trim();
    if text.contains('\n') {
        return None;
    }
    let quoted = [('\'', '\''), ('"', '"')]
        .iter()
        .find_map(|(first, last)| text.strip_prefix(*first).and_then(|rest| rest.strip_suffix(*last)));
    let path = match (quoted, text.strip_prefix("file://")) {
        (Some(quoted), _) => quoted.to_owned(),
        (None, Some(address)) => from_address(address)?,
        (None, None) => unescaped(text)?,
    };
    let ending = path.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase())?;
    let is_path = path.starts_with('/') || path.starts_with("~/");
    (is_path && PASTED_ENDINGS.contains(&ending.as_str())).then_some(path)
}

/// Takes the escapes of a shell out; nothing if a space is not escaped: then it is not one path.
fn unescaped(text: &str) -> Option<String> {
    let mut path = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => path.push(letters.next()?),
            ' ' => return None,
            letter => path.push(letter),
        }
    }
    Some(path)
}

/// Takes the percent signs out of an address.
fn from_address(address: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = address.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            let digits = std::str::from_utf8(&digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::pasted_path;

    #[test]
    fn a_pasted_path_of_a_picture_is_found_however_it_is_written() {
        for (text, path) in [
            ("/tmp/shot.png", "/tmp/shot.png"),
            (" '/tmp/a shot.PNG'\n", "/tmp/a shot.PNG"),
            ("\"/tmp/a.jpg\"", "/tmp/a.jpg"),
            ("/tmp/a\\ shot.webp", "/tmp/a shot.webp"),
            ("file:///tmp/a%20shot.gif", "/tmp/a shot.gif"),
            ("~/paper.pdf", "~/paper.pdf"),
        ] {
            assert_eq!(pasted_path(text).as_deref(), Some(path), "{text}");
        }
        for text in [
            "look at /tmp/shot.png",
            "shot.png",
            "/tmp/shot.png\n/tmp/b.png",
            "/src/main.rs",
            "file:///%zz.png",
            "/a b.png",
        ] {
            assert_eq!(pasted_path(text), None, "{text}");
        }
    }
}
