//! HTTP headers as the fields of a frame, and which of them never travel.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use wire::betcode::v1::CallField;

use crate::limits;

/// Headers of one hop, proofs that are the relay's own business, and what only a relay may say.
const KEPT_BACK: [&str; 15] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
    "host",
    "authorization",
    "cookie",
    "set-cookie",
    "x-machine-id",
    "forwarded",
    "x-real-ip",
];

/// The headers are larger than a call may have.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLarge;

/// Returns the headers that travel.
pub fn to_fields(headers: &HeaderMap) -> Result<Vec<CallField>, TooLarge> {
    let mut total = 0_usize;
    let mut fields = Vec::with_capacity(headers.len());
    for (name, value) in headers {
        if !travels(name.as_str()) {
            continue;
        }
        total += name.as_str().len() + value.len();
        if total > limits::FIELDS_MAX_BYTES {
            return Err(TooLarge);
        }
        fields.push(CallField { name: name.as_str().to_owned(), value: value.as_bytes().to_vec() });
    }
    Ok(fields)
}

/// Returns the headers of a frame; none that must not travel, and none that HTTP does not know.
pub fn to_headers(fields: Vec<CallField>) -> Result<HeaderMap, TooLarge> {
    let mut headers = HeaderMap::with_capacity(fields.len());
    let mut total = 0_usize;
    for CallField { name, value } in fields {
        total += name.len() + value.len();
        if total > limits::FIELDS_MAX_BYTES {
            return Err(TooLarge);
        }
        let (Ok(name), Ok(value)) = (
            HeaderName::from_bytes(name.as_bytes()),
            HeaderValue::from_maybe_shared(bytes::Bytes::from(value)),
        ) else {
            continue;
        };
        if travels(name.as_str()) {
            headers.append(name, value);
        }
    }
    Ok(headers)
}

fn travels(name: &str) -> bool {
    !KEPT_BACK.contains(&name) && !name.starts_with("x-forwarded-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_travels_and_proofs_do_not() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-client-id", "a"),
            ("x-client-id", "b"),
            ("grpc-timeout", "1S"),
            ("authorization", "Bearer secret"),
            ("x-machine-id", "m"),
            ("cookie", "c"),
            ("x-forwarded-user", "root"),
            ("te", "trailers"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let back = to_headers(to_fields(&headers).unwrap()).unwrap();
        let mut names: Vec<_> =
            back.iter().map(|(name, value)| format!("{name}={}", value.to_str().unwrap())).collect();
        names.sort();
        assert_eq!(names, ["grpc-timeout=1S", "x-client-id=a", "x-client-id=b"]);
    }

    #[test]
    fn a_frame_cannot_bring_what_must_not_travel() {
        let field = |name: &str| CallField { name: name.to_owned(), value: b"v".to_vec() };
        let headers =
            to_headers(vec![field("x-forwarded-user"), field("bad name"), field("authorization")]).unwrap();
        assert!(headers.is_empty());
    }

    #[test]
    fn headers_are_bounded() {
        let big = CallField { name: "x".to_owned(), value: vec![b'a'; limits::FIELDS_MAX_BYTES] };
        assert_eq!(to_headers(vec![big]), Err(TooLarge));
    }
}
