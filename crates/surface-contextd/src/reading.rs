//! Parses and validates requests without executing them: the first step of REST, gRPC and queries. Public for
//! fuzzing.

use domain::Error;
use serde_json::{Map, Value};

use super::operations::{HandledOperation, Operation};
use super::{call, fields, rest};
use surface::query;

/// Parses and validates the body of a REST call.
pub fn json(operation: &'static Operation, body: &[u8]) -> Result<(), Error> {
    operation.check_json(rest::object(body)?)
}

/// Parses and validates the query of a REST call.
pub fn query(operation: &'static Operation, text: &str) -> Result<(), Error> {
    let pairs = query::pairs(text).into_iter().map(|(name, value)| (name, Value::String(value)));
    operation.check_json(pairs.collect())
}

/// Parses and validates the message of a gRPC call.
pub fn protobuf(operation: &'static Operation, bytes: &[u8]) -> Result<(), Error> {
    operation.check_protobuf(bytes)
}

/// Parses a JSON request of type `R` and validates its fields.
pub(super) fn check_json<R: HandledOperation>(
    operation: &Operation,
    input: Map<String, Value>,
) -> Result<(), Error> {
    let input = fields::as_meant(input)?;
    let read: Result<R, _> = serde_json::from_value(Value::Object(input.clone()));
    read.map_err(|error| fields::not_a_request(&error))?;
    fields::check(operation.fields, &input)
}

/// Decodes a protobuf request of type `R` and validates its fields.
pub(super) fn check_protobuf<R>(operation: &Operation, bytes: &[u8]) -> Result<(), Error>
where
    R: HandledOperation + prost::Message + Default,
{
    let request = R::decode(bytes)
        .map_err(|error| Error::invalid("message", format_args!("cannot be read: {error}")))?;
    fields::check(operation.fields, &call::map_of(&request)?)
}
