//! The addresses the daemon listens on: how they are written, the one nobody has to ask for, and what flags add to those
//! of the configuration. Binds nothing.

use std::net::SocketAddr;

use toml::Value;

use super::{invalid, split_list};
use crate::failure::Result;

/// Where the daemon listens unless it is told otherwise.
pub(super) const DEFAULT: &str = "127.0.0.1:50051";

/// Reads an address to listen on.
pub(crate) fn address(text: &str) -> Result<SocketAddr> {
    let numeric =
        text.strip_prefix("localhost:").map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    numeric.parse().map_err(|_| {
        invalid(format!("listen: {text:?} is no address; write it like 127.0.0.1:50051 or [::1]:50051"))
    })
}

/// Returns the addresses of flags, then the others; `none` is how to have only those given.
pub(super) fn with_flags(others: Option<&Value>, flags: &[String]) -> Value {
    let mut entries: Vec<Value> = flags.iter().flat_map(|entry| split_list(entry)).collect();
    let is_alone = flags.iter().flat_map(|entry| entry.split(',')).any(|entry| entry.trim() == "none");
    let others = match others {
        _ if is_alone => Vec::new(),
        Some(Value::Array(others)) => others.clone(),
        Some(_) => Vec::new(),
        None => vec![Value::String(DEFAULT.to_owned())],
    };
    for other in others {
        if !entries.iter().any(|entry| is_same(entry.as_str(), other.as_str())) {
            entries.push(other);
        }
    }
    Value::Array(entries)
}

/// Whether the last address is the default, and no flag asks for it.
pub(super) fn ends_with_default(listen: &[String], flags: &[String]) -> bool {
    let mut asked = flags.iter().flat_map(|entry| entry.split(','));
    listen.last().is_some_and(|last| last == DEFAULT)
        && !asked.any(|entry| is_same(Some(entry.trim()), Some(DEFAULT)))
}

/// Whether two texts are one address, which can be listened on only once.
fn is_same(one: Option<&str>, other: Option<&str>) -> bool {
    let read = |text: Option<&str>| text.and_then(|text| address(text).ok());
    one == other || read(one).is_some_and(|address| address.port() != 0 && read(other) == Some(address))
}
