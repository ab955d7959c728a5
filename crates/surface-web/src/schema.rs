//! JSON schemas of messages, from their descriptors and the comments beside them.

use prost_reflect::{Cardinality, EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use crate::limits;

/// The schemas of all messages that were referred to.
#[derive(Default)]
pub(super) struct Schemas {
    all: Map<String, Value>,
    depth: usize,
}

impl Schemas {
    /// Returns a reference to the schema of a message, which is described with all that it contains.
    pub(super) fn reference(&mut self, message: &MessageDescriptor) -> Value {
        if let Some(known) = well_known(message.full_name()) {
            return known;
        }
        let name = message.full_name().to_owned();
        if !self.all.contains_key(&name) && self.depth < limits::SCHEMA_DEPTH_MAX {
            // Noted first: a message may contain itself.
            self.all.insert(name.clone(), Value::Null);
            self.depth += 1;
            let described = self.describe(message);
            self.depth -= 1;
            self.all.insert(name.clone(), described);
        }
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }

    /// Returns a reference to the schema of errors.
    pub(super) fn error(&mut self) -> Value {
        let schema = json!({ "type": "object", "properties": {
            "error": { "type": "string", "description": "What is wrong and what to do." },
            "code": { "type": "string", "description": "Such as OBEY-2010." },
            "status": { "type": "integer" },
            "retryable": { "type": "boolean" },
        } });
        self.all.insert("Error".to_owned(), schema);
        json!({ "$ref": "#/components/schemas/Error" })
    }

    /// Returns every schema by its name.
    pub(super) fn all(self) -> Value {
        let mut named: Vec<(String, Value)> = self.all.into_iter().collect();
        named.sort_by(|one, other| one.0.cmp(&other.0));
        Value::Object(named.into_iter().collect())
    }

    fn describe(&mut self, message: &MessageDescriptor) -> Value {
        let mut properties = Map::new();
        for field in message.fields() {
            let mut schema = self.field(&field);
            let text = comment(&field.parent_message().parent_file(), field.path());
            if let (Some(object), false) = (schema.as_object_mut(), text.is_empty()) {
                object.insert("description".to_owned(), text.into());
            }
            properties.insert(field.name().to_owned(), schema);
        }
        let mut schema = json!({ "type": "object", "properties": properties });
        let text = comment(&message.parent_file(), message.path());
        if let (Some(object), false) = (schema.as_object_mut(), text.is_empty()) {
            object.insert("description".to_owned(), text.into());
        }
        schema
    }

    fn field(&mut self, field: &FieldDescriptor) -> Value {
        if field.is_map() {
            let kind = field.kind();
            let value = kind.as_message().map(MessageDescriptor::map_entry_value_field);
            let value = value.map_or(json!({}), |value| self.value(&value.kind()));
            return json!({ "type": "object", "additionalProperties": value });
        }
        let value = self.value(&field.kind());
        match field.cardinality() {
            Cardinality::Repeated => json!({ "type": "array", "items": value }),
            _ => value,
        }
    }

    fn value(&mut self, kind: &Kind) -> Value {
        match kind {
            Kind::Double | Kind::Float => json!({ "type": "number" }),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 | Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
                json!({ "type": "integer" })
            }
            Kind::Uint32 | Kind::Fixed32 | Kind::Uint64 | Kind::Fixed64 => {
                json!({ "type": "integer", "minimum": 0 })
            }
            Kind::Bool => json!({ "type": "boolean" }),
            Kind::String => json!({ "type": "string" }),
            Kind::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
            Kind::Enum(names) => json!({ "type": "string", "enum": names_of(names) }),
            Kind::Message(message) => self.reference(message),
        }
    }
}

fn names_of(names: &EnumDescriptor) -> Vec<String> {
    names.values().map(|value| value.name().to_owned()).collect()
}

/// Returns the schema of a message that JSON writes in a way of its own.
fn well_known(name: &str) -> Option<Value> {
    match name {
        "google.protobuf.Timestamp" => Some(json!({ "type": "string", "format": "date-time" })),
        "google.protobuf.Duration" => Some(json!({ "type": "string", "examples": ["3.5s"] })),
        "google.protobuf.Struct" => Some(json!({ "type": "object" })),
        "google.protobuf.Value" => Some(json!({})),
        _ => None,
    }
}

/// Returns the comment in front of something, in one line.
pub(super) fn comment(file: &FileDescriptor, path: &[i32]) -> String {
    let info = file.file_descriptor_proto().source_code_info.as_ref();
    let location = info.and_then(|info| info.location.iter().find(|location| location.path == path));
    let text = location.map(|location| location.leading_comments()).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
