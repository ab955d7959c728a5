//! Requests in their wire formats, for every operation: JSON, protobuf, queries. They are accepted or
//! rejected, and an error is short however long the invalid input is.

use anyhow::{Result, ensure};
use surface_contextd::operations::OPERATIONS;
use surface_contextd::reading;

use super::kind;
use crate::Target;

/// Longest error.
const REFUSAL_MAX_BYTES: usize = 4_096;

pub(super) struct Requests;

impl Target for Requests {
    fn name(&self) -> &'static str {
        "requests"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let bodies = [
            r#"{"cmd":"ls","session_id":"sess_a","timeout":5,"working_dir":"/p"}"#,
            r#"{"path":"a","offset":1,"limit":2,"session_id":"sess_a"}"#,
            r#"{"title":"t","content":"c","tags":["x","y"],"outcome":"success","session_id":"sess_a"}"#,
            r#"{"query":"q","scope":"all","min_confidence":0.5,"limit":3,"session_id":"sess_a"}"#,
            r#"{"name":"n","system_prompt":"p","temperature":1.5,"skills":[],"session_id":"sess_a"}"#,
            r#"{"id":"x","session_id":null}"#,
            "{}",
        ];
        for at in 0..OPERATIONS.len() {
            for body in bodies {
                all.push([&[at as u8, 0], body.as_bytes()].concat());
            }
            all.push(vec![at as u8, 1, 0x0a, 2, b'l', b's', 0x1a, 6, b's', b'e', b's', b's', b'_', b'a']);
            all.push([&[at as u8, 2], &b"session_id=sess_a&id=%41+b&x"[..]].concat());
        }
        all
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "\"cmd\":",
            "\"session_id\":",
            "\"timeout\":",
            "\"tags\":",
            "null",
            "true",
            "-1",
            "1e308",
            "18446744073709551616",
            "0.1",
            "[",
            "]",
            "{",
            "}",
            "\"\\u0000\"",
            "\"\\ud800\"",
            ",",
            ":",
            "\"__proto__\":",
            "sess_",
            "&",
            "=",
            "%",
            "%00",
            "%zz",
            "\u{feff}",
        ]
    }

    fn run(&mut self, input: &[u8]) -> Result<u64> {
        let [at, form, body @ ..] = input else { return Ok(0) };
        let operation = &OPERATIONS[usize::from(*at) % OPERATIONS.len()];
        let outcome = match form % 3 {
            0 => reading::json(operation, body),
            1 => reading::protobuf(operation, body),
            _ => reading::query(operation, &String::from_utf8_lossy(body)),
        };
        Ok(match outcome {
            Ok(()) => u64::from(*at) << 2 | u64::from(form % 3),
            Err(error) => {
                let length = error.message.len();
                ensure!(length <= REFUSAL_MAX_BYTES, "a refusal is {length} bytes long");
                kind(&error) ^ u64::from(form % 3)
            }
        })
    }
}
