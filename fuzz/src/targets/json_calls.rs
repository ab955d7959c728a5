//! JSON bodies of every method: they are read or refused, an error is short, and what was read is written and read again
//! unchanged.

use anyhow::{Result, ensure};
use surface::server::json_calls;

use super::kind;
use crate::Target;

/// Longest error.
const REFUSAL_MAX_BYTES: usize = 4_096;

/// The messages of every method's requests. The first two bytes choose one.
pub(super) struct JsonCalls {
    methods: Vec<String>,
}

impl JsonCalls {
    pub(super) fn new() -> Self {
        let services = json_calls::descriptors().services();
        let methods = services
            .flat_map(|service| {
                service.methods().map(|method| method.input().full_name().to_owned()).collect::<Vec<_>>()
            })
            .collect();
        Self { methods }
    }
}

impl Target for JsonCalls {
    fn name(&self) -> &'static str {
        "json-calls"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let bodies = [
            "",
            "{}",
            r#"{"session_id":"sess_a","text":"t","client_key":"k","attachments":[{"name":"n","content":"aGk="}]}"#,
            r#"{"sessionId":"sess_a","limit":5,"after":"18446744073709551615","follow":true}"#,
            r#"{"campaign_id":"c","provider":"SESSION_PROVIDER_CLAUDE_CODE","timeout":"3.5s","environment":{"A":"b"}}"#,
            r#"{"from":"2026-01-01T00:00:00Z","group_by":["model"],"decision":1}"#,
        ];
        (0..self.methods.len().min(250))
            .flat_map(|at| bodies.map(|body| [&[at as u8, 0], body.as_bytes()].concat()))
            .collect()
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "\"session_id\":",
            "\"limit\":",
            "null",
            "-1",
            "1e400",
            "NaN",
            "\"\\ud800\"",
            "[",
            "{",
            "}",
            "\"3s\"",
            "\"2026-13-40T99:00:00Z\"",
            "true",
        ]
    }

    fn run(&mut self, input: &[u8]) -> Result<u64> {
        let [at, more, body @ ..] = input else { return Ok(0) };
        let at = (usize::from(*at) + 256 * usize::from(*more)) % self.methods.len();
        let Some(descriptor) = json_calls::descriptors().get_message_by_name(&self.methods[at]) else {
            return Ok(0);
        };
        match json_calls::read(&descriptor, body) {
            Ok(message) => {
                let written =
                    json_calls::written(&message).map_err(|error| anyhow::anyhow!("written: {error}"))?;
                let again = json_calls::read(&descriptor, written.to_string().as_bytes())
                    .map_err(|error| anyhow::anyhow!("{written} is not read again: {error}"))?;
                let again = json_calls::written(&again).map_err(|error| anyhow::anyhow!("again: {error}"))?;
                ensure!(again == written, "{written} became {again}");
                Ok(at as u64)
            }
            Err(error) => {
                ensure!(error.message.len() < REFUSAL_MAX_BYTES, "a long refusal: {}", error.message.len());
                Ok(kind(&error) ^ 1)
            }
        }
    }
}
