//! How the enums and the JSON texts of an event's message are written in the JSON of the same event. Used by generated code
//! alone. A name this version does not know is read as the unspecified value.

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How the names of an enum are written.
#[derive(Clone, Copy)]
enum Style {
    /// `accept_edits`
    Snake,
    /// `claude-code`
    Kebab,
    /// `RUNNING`
    Upper,
}

/// Returns the name of an enum's value without its prefix.
fn written(style: Style, prefix: &str, name: &str) -> String {
    let name = name.strip_prefix(prefix).unwrap_or(name);
    match style {
        Style::Upper => name.to_owned(),
        Style::Snake => name.to_lowercase(),
        Style::Kebab => name.to_lowercase().replace('_', "-"),
    }
}

/// Returns the name in the protobuf of a written one.
fn declared(prefix: &str, name: &str) -> String {
    format!("{prefix}{}", name.to_uppercase().replace('-', "_"))
}

macro_rules! names {
    ($($module:ident: $kind:ident, $prefix:literal, $style:ident;)*) => {$(
        pub(crate) mod $module {
            use super::*;
            use crate::obey::v1::event::$kind;

            pub(crate) fn serialize<S: Serializer>(value: &i32, serializer: S) -> Result<S::Ok, S::Error> {
                let value = $kind::try_from(*value).map_err(S::Error::custom)?;
                written(Style::$style, $prefix, value.as_str_name()).serialize(serializer)
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
                let name = String::deserialize(deserializer)?;
                Ok($kind::from_str_name(&declared($prefix, &name)).unwrap_or_default().into())
            }

            #[allow(dead_code)]
            pub(crate) mod optional {
                use super::*;

                pub(crate) fn serialize<S: Serializer>(value: &Option<i32>, serializer: S) -> Result<S::Ok, S::Error> {
                    match value {
                        Some(value) => super::serialize(value, serializer),
                        None => serializer.serialize_none(),
                    }
                }

                pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                    deserializer: D,
                ) -> Result<Option<i32>, D::Error> {
                    super::deserialize(deserializer).map(Some)
                }
            }
        }
    )*};
}

names! {
    provider: Provider, "PROVIDER_", Kebab;
    mode: Mode, "MODE_", Snake;
    status: Status, "STATUS_", Upper;
    origin: Origin, "ORIGIN_", Snake;
    end_reason: EndReason, "END_REASON_", Snake;
    subject: Subject, "SUBJECT_", Snake;
    outcome: Outcome, "OUTCOME_", Snake;
    decision: Decision, "DECISION_", Snake;
    level: Level, "LEVEL_", Snake;
    todo_status: TodoStatus, "TODO_STATUS_", Snake;
    todo_priority: TodoPriority, "TODO_PRIORITY_", Snake;
    server_status: ServerStatus, "SERVER_STATUS_", Snake;
    change: Change, "CHANGE_", Snake;
}

/// JSON text in the message, a value in the JSON.
pub(crate) mod json_text {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
        let value: serde_json::Value = serde_json::from_str(text).map_err(S::Error::custom)?;
        value.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        serde_json::to_string(&value).map_err(D::Error::custom)
    }

    pub(crate) mod optional {
        use super::*;

        pub(crate) fn serialize<S: Serializer>(
            text: &Option<String>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            match text {
                Some(text) => super::serialize(text, serializer),
                None => serializer.serialize_none(),
            }
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<String>, D::Error> {
            super::deserialize(deserializer).map(Some)
        }
    }
}
