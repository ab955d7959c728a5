//! The steps around every operation, whatever protocol it came by: validates the fields, identifies the
//! caller and the session, removes secrets from the result, and writes an audit entry.

use std::sync::Arc;
use std::time::Instant;

use domain::{Error, ErrorCode};
use host::clock;
use serde_json::{Map, Value};
use workbench::answer::estimate;
use workbench::audit::{AuditEntry, AuditOutcome, input_text};
use workbench::scrub::Scrubber;
use workbench::sessions::Session;

use super::operations::{HandledOperation, Operation, operation};
use super::{ContextdHandler, fields};
use surface::access;
use surface::asking::Asking;
use surface::peer::{self, Caller};

/// One operation in progress.
pub(super) struct OperationCall {
    pub(super) operation: &'static Operation,
    pub(super) caller: Caller,
    pub(super) asking: Asking,
    /// Set if the operation works in a session.
    session: Option<Arc<Session>>,
    /// The result, for the audit.
    pub(super) summary: String,
    pub(super) tier: &'static str,
    pub(super) secrets: u64,
}

impl OperationCall {
    /// Returns the session the operation works in.
    pub(super) fn session(&self) -> Result<&Arc<Session>, Error> {
        self.session.as_ref().ok_or_else(|| Error::invalid("session_id", "is required"))
    }

    /// Removes secrets from a text before it is stored or shown.
    pub(super) fn clean(&mut self, text: &str) -> Result<String, Error> {
        let scrubbed = self.session()?.project.scrubber().scrub(text.as_bytes());
        self.secrets += scrubbed.findings.total();
        Ok(String::from_utf8_lossy(&scrubbed.bytes).into_owned())
    }

    /// Removes secrets from texts.
    pub(super) fn clean_all(&mut self, texts: &[String]) -> Result<Vec<String>, Error> {
        texts.iter().map(|text| self.clean(text)).collect()
    }
}

impl ContextdHandler {
    /// Executes an operation. `given` is the request as JSON, if it came in that form.
    pub(super) async fn run<R: HandledOperation>(
        &self,
        caller: Caller,
        request: R,
        given: Option<Map<String, Value>>,
        asking: Asking,
    ) -> Result<R::Answer, Error> {
        let began = Instant::now();
        let input = match given {
            Some(given) => given,
            None => map_of(&request)?,
        };
        let operation = operation(R::KEY).ok_or_else(|| Error::invalid("operation", "is unknown"))?;
        let mut call = OperationCall {
            operation,
            caller,
            asking,
            session: None,
            summary: String::new(),
            tier: "",
            secrets: 0,
        };
        let result = self.carry_out(&mut call, request, &input).await;
        let result = result.map_err(|error| scrubbed(self.scrubber_of(&call), error));
        self.record(call, &input, result.as_ref().err(), began).await?;
        result
    }

    /// Executes an operation with JSON input and output.
    pub(super) async fn run_json<R: HandledOperation>(
        &self,
        caller: Caller,
        input: Map<String, Value>,
        asking: Asking,
    ) -> Result<Value, Error> {
        let input = fields::as_meant(input)?;
        // The error must not quote the request: it may contain a secret.
        let request: R = serde_json::from_value(Value::Object(input.clone()))
            .map_err(|error| scrubbed(self.workbench.scrubber(), fields::not_a_request(&error)))?;
        let answer = self.run(caller, request, Some(input), asking).await?;
        as_json(&answer)
    }

    /// Checks and authorizes a call, opens its session, and runs the handler.
    async fn carry_out<R: HandledOperation>(
        &self,
        call: &mut OperationCall,
        request: R,
        input: &Map<String, Value>,
    ) -> Result<R::Answer, Error> {
        fields::check(call.operation.fields, input)?;
        let text = |name: &str| input.get(name).and_then(Value::as_str).unwrap_or_default();
        self.admit(call, text("session_id"))?;
        self.consent(call, input).await?;
        if !text("session_id").is_empty() {
            call.session = Some(self.session(call, text("session_id"), text("working_dir")).await?);
        }
        let mut answer = request.handle(self, call).await?;
        R::set_tokens_used(&mut answer, USUAL_COUNT);
        let tokens_used = tokens_of(&answer)?;
        R::set_tokens_used(&mut answer, tokens_used);
        Ok(answer)
    }

    fn scrubber_of<'a>(&'a self, call: &'a OperationCall) -> &'a Scrubber {
        call.session.as_ref().map_or_else(|| self.workbench.scrubber(), |session| session.project.scrubber())
    }

    /// Writes the audit entry of a call. A result that cannot be recorded is not returned.
    async fn record(
        &self,
        call: OperationCall,
        input: &Map<String, Value>,
        error: Option<&Error>,
        began: Instant,
    ) -> Result<(), Error> {
        let scrubber = self.scrubber_of(&call);
        let session = match &call.session {
            Some(session) => session.id.to_string(),
            None => scrubber.scrub_text(input.get("session_id").and_then(Value::as_str).unwrap_or_default()),
        };
        let entry = AuditEntry {
            at: clock::now(),
            session,
            caller: peer::named(&call.caller),
            operation: call.operation.key.to_owned(),
            input: input_text(scrubber, input),
            outcome: AuditOutcome::of(error.map(|error| error.code)),
            summary: error.map_or_else(|| call.summary.clone(), |error| error.message.clone()),
            duration_us: u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
            tier: call.tier.to_owned(),
            secrets: call.secrets,
            origin: access::origin_here(),
        };
        self.workbench.audit().append(entry).await.map(|_| ())
    }
}

/// Returns a request as JSON, without absent fields.
pub(super) fn map_of<R: HandledOperation>(request: &R) -> Result<Map<String, Value>, Error> {
    match serde_json::to_value(request).map_err(|error| unreadable(&error))? {
        Value::Object(map) => Ok(map),
        _ => Err(Error::new(ErrorCode::InvalidArgument, "the request is no message")),
    }
}

/// Removes secrets from an error.
fn scrubbed(scrubber: &Scrubber, mut error: Error) -> Error {
    error.message = scrubber.scrub_text(&error.message);
    error.detail = error.detail.map(|detail| scrubber.scrub_text(&detail));
    error
}

fn unreadable(error: &serde_json::Error) -> Error {
    Error::new(ErrorCode::InvalidArgument, "the message cannot be written as JSON")
        .with_detail(error.to_string())
}

/// Stands for the count while the answer that will hold it is counted.
const USUAL_COUNT: i32 = 100;

/// Counts the tokens of a whole answer, as a caller reads it: its JSON.
fn tokens_of(answer: &impl serde::Serialize) -> Result<i32, Error> {
    let text = as_json(answer)?.to_string();
    Ok(i32::try_from(estimate(&text)).unwrap_or(i32::MAX))
}

/// Returns an answer as JSON.
fn as_json(answer: &impl serde::Serialize) -> Result<Value, Error> {
    let mut value = serde_json::to_value(answer).map_err(|error| unreadable(&error))?;
    shorten_floats(&mut value);
    Ok(value)
}

/// Writes numbers of 32 bits with the digits they have: 0.8, not 0.800000011920929.
fn shorten_floats(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            #[allow(clippy::cast_possible_truncation, reason = "the messages have no wider fractions")]
            let short = number.as_f64().map(|wide| wide as f32);
            if let Some(short) =
                short.and_then(|short| short.to_string().parse().ok()).and_then(serde_json::Number::from_f64)
            {
                *number = short;
            }
        }
        Value::Array(list) => list.iter_mut().for_each(shorten_floats),
        Value::Object(map) => map.values_mut().for_each(shorten_floats),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_with_the_digits_they_have() {
        let mut value = serde_json::json!({"a": [0.8f32, {"b": 0.7f32}], "c": 2, "d": "0.1", "e": 1.0f32});
        shorten_floats(&mut value);
        assert_eq!(value.to_string(), r#"{"a":[0.8,{"b":0.7}],"c":2,"d":"0.1","e":1.0}"#);
    }
}
