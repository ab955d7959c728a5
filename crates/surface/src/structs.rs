//! Converts between JSON and protobuf's `Struct`. Pure. Values that JSON cannot represent are rejected by
//! field name.

use domain::Error;
use prost::Message as _;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value as PbValue};
use serde_json::{Map, Number, Value};

use crate::{limits, shorten};

/// The largest integer a double represents exactly.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Returns a JSON value as a struct; what is no object stands under `value`. Beyond a depth the rest is JSON text:
/// clients refuse messages that are nested deeper than a hundred levels, and a struct takes three for each of ours. What
/// is larger than clients take has its texts cut; the journal has the whole.
pub fn from_json(value: &Value) -> Struct {
    let whole = struct_of(value);
    if whole.encoded_len() <= limits::ACTIVITY_TEXT_MAX_BYTES {
        return whole;
    }
    let short = shorten::json(value, limits::STRUCT_CUT_BYTES);
    let cut = struct_of(&serde_json::from_str(&short).unwrap_or_default());
    if cut.encoded_len() <= limits::ACTIVITY_TEXT_MAX_BYTES {
        return cut;
    }
    // Too many small values: only the beginning is sent, as text.
    struct_of(&Value::String(shorten::text(&value.to_string(), limits::STRUCT_CUT_BYTES)))
}

fn struct_of(value: &Value) -> Struct {
    match value {
        Value::Object(map) => fields(map, 0),
        Value::Null => Struct::default(),
        other => Struct { fields: [("value".to_owned(), pb_value(other, 0))].into() },
    }
}

fn fields(map: &Map<String, Value>, depth: usize) -> Struct {
    Struct { fields: map.iter().map(|(key, value)| (key.clone(), pb_value(value, depth + 1))).collect() }
}

fn pb_value(value: &Value, depth: usize) -> PbValue {
    let kind = match value {
        Value::Array(_) | Value::Object(_) if depth >= limits::STRUCT_SENT_DEPTH_MAX => {
            Kind::StringValue(value.to_string())
        }
        Value::Null => Kind::NullValue(0),
        Value::Bool(on) => Kind::BoolValue(*on),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(items) => Kind::ListValue(ListValue {
            values: items.iter().map(|item| pb_value(item, depth + 1)).collect(),
        }),
        Value::Object(map) => Kind::StructValue(fields(map, depth)),
    };
    PbValue { kind: Some(kind) }
}

/// Returns a struct as JSON, or says what in it cannot be.
pub fn to_json(field: &str, value: &Struct) -> Result<Value, Error> {
    object(field, value, 0)
}

fn object(field: &str, value: &Struct, depth: usize) -> Result<Value, Error> {
    if depth > limits::STRUCT_DEPTH_MAX {
        return Err(Error::invalid(
            field,
            format_args!("is nested deeper than {} levels", limits::STRUCT_DEPTH_MAX),
        ));
    }
    let mut map = Map::new();
    for (key, value) in &value.fields {
        map.insert(key.clone(), json_value(&format!("{field}.{key}"), value, depth)?);
    }
    Ok(Value::Object(map))
}

fn json_value(field: &str, value: &PbValue, depth: usize) -> Result<Value, Error> {
    Ok(match &value.kind {
        None => return Err(Error::invalid(field, "has no value")),
        Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(on)) => Value::Bool(*on),
        Some(Kind::NumberValue(number)) => Value::Number(json_number(field, *number)?),
        Some(Kind::StringValue(text)) => Value::String(text.clone()),
        Some(Kind::ListValue(list)) => {
            // A list counts as a level: lists in lists nest as deeply as objects do.
            if depth >= limits::STRUCT_DEPTH_MAX {
                return Err(Error::invalid(
                    field,
                    format_args!("is nested deeper than {} levels", limits::STRUCT_DEPTH_MAX),
                ));
            }
            let items = list.values.iter().enumerate();
            let items = items.map(|(at, value)| json_value(&format!("{field}[{at}]"), value, depth + 1));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        Some(Kind::StructValue(value)) => object(field, value, depth + 1)?,
    })
}

/// Integers stay integers: a tool that expects `5` does not accept `5.0`.
fn json_number(field: &str, number: f64) -> Result<Number, Error> {
    if number.fract() == 0.0 && number.abs() <= WHOLE_MAX {
        return Ok(Number::from(number as i64));
    }
    Number::from_f64(number).ok_or_else(|| Error::invalid(field, "is no number JSON has"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_comes_back_as_it_went() {
        let value = json!({"a": 1, "b": [true, null, {"c": "x"}], "d": 1.5, "e": -3, "f": {}});
        assert_eq!(to_json("input", &from_json(&value)).unwrap(), value);
    }

    #[test]
    fn what_is_no_object_is_wrapped() {
        assert_eq!(to_json("input", &from_json(&json!("x"))).unwrap(), json!({"value": "x"}));
        assert_eq!(from_json(&Value::Null), Struct::default());
    }

    #[test]
    fn what_is_nested_too_deeply_for_readers_ends_in_text() {
        let mut value = json!({"end": 1});
        for level in 0..80 {
            value = if level % 2 == 0 { json!({ "in": value }) } else { json!([value]) };
        }
        let sent = from_json(&json!({ "input": value })).encode_to_vec();
        let read = Struct::decode(sent.as_slice()).unwrap();
        let text = to_json("input", &read).unwrap().to_string();
        assert!(text.contains("end"), "{text}");
    }

    #[test]
    fn what_is_too_large_for_clients_is_cut() {
        let value = json!({"file_path": "a", "content": "x".repeat(5 << 20)});
        let sent = from_json(&value);
        assert!(sent.encoded_len() < limits::CLIENT_MESSAGE_BYTES, "{}", sent.encoded_len());
        let read = to_json("input", &sent).unwrap();
        assert_eq!(read["file_path"], "a");
        assert!(read["content"].as_str().unwrap().ends_with("of 5242880 bytes]"));
        let many = from_json(&json!({"list": vec![1; 1 << 20]}));
        assert!(many.encoded_len() < limits::CLIENT_MESSAGE_BYTES, "{}", many.encoded_len());
    }

    #[test]
    fn garbage_is_refused_by_name() {
        let with = |kind| Struct { fields: [("x".to_owned(), PbValue { kind })].into() };
        for (kind, what) in [
            (None, "updated_input.x: has no value"),
            (Some(Kind::NumberValue(f64::NAN)), "updated_input.x: is no number JSON has"),
            (Some(Kind::NumberValue(f64::INFINITY)), "updated_input.x: is no number JSON has"),
        ] {
            assert_eq!(to_json("updated_input", &with(kind)).unwrap_err().message, what);
        }
        let mut deep = Struct::default();
        for _ in 0..100 {
            deep = with(Some(Kind::StructValue(deep)));
        }
        assert!(to_json("updated_input", &deep).unwrap_err().message.contains("64 levels"));
        let mut list = PbValue { kind: Some(Kind::NullValue(0)) };
        for _ in 0..100 {
            list = PbValue { kind: Some(Kind::ListValue(ListValue { values: vec![list] })) };
        }
        assert!(to_json("updated_input", &with(list.kind)).unwrap_err().message.contains("64 levels"));
    }
}
