//! Parses JSON and rejects objects with duplicate members: two parsers of the same text could each use a
//! different one.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads an object. The error says where the text is wrong and never quotes it, except the place.
pub fn object(bytes: &[u8]) -> Result<Map<String, Value>, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let members = (&mut reader).deserialize_map(Members)?;
    reader.end()?;
    Ok(members)
}

/// Reads any JSON. The error is as that of [`object`].
pub fn value(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Strict.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Whether an error is about a member that comes twice.
pub fn is_twice(error: &serde_json::Error) -> bool {
    error.to_string().starts_with(TWICE)
}

const TWICE: &str = "a member is there twice";

/// Reads an object and rejects duplicate members.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(Strict)?;
            if map.insert(name, value).is_some() {
                return Err(A::Error::custom(TWICE));
            }
        }
        Ok(map)
    }
}

/// Reads any value with the same rule for the objects in it.
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Strict)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Value, A::Error> {
        Members.visit_map(members).map(Value::Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_comes_twice_is_refused_at_every_depth() {
        for text in [r#"{"a":1,"a":2}"#, r#"{"a":{"b":1,"b":1}}"#, r#"{"a":[{"b":1,"c":2,"b":1}]}"#] {
            let error = object(text.as_bytes()).unwrap_err();
            assert!(is_twice(&error), "{error}");
        }
        let text = r#"{"a":{"a":[1,-2,3.5,null,true,"x\n"]},"b":{}}"#;
        let plain: Value = serde_json::from_str(text).unwrap();
        assert_eq!(Value::Object(object(text.as_bytes()).unwrap()), plain);
        assert!(is_twice(&value(br#"[{"a":1,"a":2}]"#).unwrap_err()));
        assert_eq!(value(b"[1]").unwrap(), serde_json::json!([1]));
        assert!(value(b"[1]x").is_err() && value(b"").is_err());
        for text in ["[1]", "{", "{}x", "\"ghp_secret\""] {
            assert!(!is_twice(&object(text.as_bytes()).unwrap_err()), "{text}");
        }
    }
}
