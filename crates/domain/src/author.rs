//! Who wrote a prompt, as `by` tells, and which message of theirs it was. The text is stored with events, so it stays as
//! it is. Other parts of the tree neither put such a text together nor take it apart.

use std::fmt;

/// The author of a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Author<'a> {
    /// What people are shown: a name, or the surface and what its client says of itself.
    pub client: &'a str,
    /// How a surface finds the prompt again.
    pub correlation: Option<Correlation<'a>>,
}

/// What the prompt was in the client's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correlation<'a> {
    /// A message, by its id.
    Message(&'a str),
    /// A request of a connection that may be resumed, by its id in JSON.
    Request { connection: &'a str, id: &'a str },
}

/// The stored text.
impl fmt::Display for Author<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let client = self.client;
        match self.correlation {
            None => f.write_str(client),
            Some(Correlation::Message(id)) => write!(f, "{client}:{id}"),
            Some(Correlation::Request { connection, id }) => write!(f, "{client}#{connection}:{id}"),
        }
    }
}

/// Returns the part of a stored text that people are shown.
pub fn shown(by: &str) -> &str {
    by.split('#').next().unwrap_or_default()
}

/// Returns the id of the message that a client wrote; none if somebody else did.
pub fn message_of<'a>(by: &'a str, client: &str) -> Option<&'a str> {
    by.strip_prefix(client)?.strip_prefix(':')
}

/// Returns the id of the request that came by a connection; none if it came by another one.
pub fn request_of<'a>(by: &'a str, connection: &str) -> Option<&'a str> {
    // A client's name may contain the mark too, so the connection is looked for.
    by.split_once(&format!("#{connection}:")).map(|(_, id)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_text_is_read_and_written_unchanged() {
        let text = |client, correlation| Author { client, correlation }.to_string();
        assert_eq!(text("anna", None), "anna");
        let message = text("roz", Some(Correlation::Message("m-1")));
        assert_eq!(message, "roz:m-1");
        assert_eq!((shown(&message), message_of(&message, "roz")), ("roz:m-1", Some("m-1")));
        assert_eq!((message_of("anna", "roz"), message_of("rozalia", "roz")), (None, None));
        let request = Correlation::Request { connection: "c1", id: "\"a#b:c\"" };
        let request = text("acp:my#editor", Some(request));
        assert_eq!(request, "acp:my#editor#c1:\"a#b:c\"");
        assert_eq!((shown(&request), request_of(&request, "c1")), ("acp:my", Some("\"a#b:c\"")));
        assert_eq!(request_of(&request, "c2"), None);
    }
}
