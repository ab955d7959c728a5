//! Ids as newtypes, so that a session can never be mistaken for a campaign. New ids are created in `host`,
//! which has the randomness; this file only parses and prints them.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Box<str>);

        impl $name {
            /// Wraps a text unchanged.
            pub fn new(text: impl Into<Box<str>>) -> Self {
                Self(text.into())
            }

            /// Returns the text of the id.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id! {
    /// A session: `sess_` and a ULID.
    SessionId
}
text_id! {
    /// A registered project root.
    CampaignId
}
text_id! {
    /// One tool use, named by the agent.
    CallId
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl $name {
            /// Parses the printed form; the bare number is accepted too.
            pub fn parse(text: &str) -> Option<Self> {
                text.strip_prefix($prefix).unwrap_or(text).parse().ok().map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                Self::parse(&text).ok_or_else(|| serde::de::Error::custom(concat!("not a ", $prefix, " id")))
            }
        }
    };
}

number_id! {
    /// A turn of a session, counted from 1.
    TurnId, "turn_"
}
number_id! {
    /// A request of a session that waits for an answer, counted from 1.
    RequestId, "req_"
}

number_id! {
    /// An entry of a session's prompt queue, counted from 1.
    QueueEntryId, "q_"
}

/// The prefix of every session id.
pub const SESSION_PREFIX: &str = "sess_";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_ids_read_what_they_print() {
        assert_eq!(RequestId::parse("req_7"), Some(RequestId(7)));
        assert_eq!(RequestId::parse("7"), Some(RequestId(7)));
        assert_eq!(RequestId::parse("turn_7"), None);
        assert_eq!(serde_json::to_string(&TurnId(3)).unwrap(), "\"turn_3\"");
        assert_eq!(serde_json::from_str::<TurnId>("\"turn_3\"").unwrap(), TurnId(3));
    }
}
