//! The addresses the daemon listens on: their syntax, the default one, and how flags add to those of the
//! configuration. Binds nothing.

use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Value;

use super::{invalid, split_list};
use crate::failure::Result;
use crate::paths::Paths;

/// The default address.
pub(super) const DEFAULT: &str = "127.0.0.1:50051";

/// Who may call besides the daemon's own user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Access {
    /// Other users of this machine, by name or number, who have all the user's rights when they present the token.
    pub token_users: Vec<String>,
}

/// What listeners that other machines can reach need. Files are PEM; absolute, or starting with `~/`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// The daemon's certificate and those that vouch for it.
    pub cert: Option<PathBuf>,
    /// Its key, readable by nobody else.
    pub key: Option<PathBuf>,
}

impl Tls {
    pub(super) fn check(&self) -> Result<()> {
        if self.cert.is_some() != self.key.is_some() {
            return Err(invalid("tls: cert and key must both be set, or none".to_owned()));
        }
        for (key, path) in [("cert", &self.cert), ("key", &self.key)] {
            if path.as_ref().is_some_and(|path| !path.is_absolute() && !path.starts_with("~")) {
                return Err(invalid(format!("tls.{key}: must be an absolute path or start with ~/")));
            }
        }
        Ok(())
    }

    /// Returns the same with the home folder in the place of `~`.
    pub fn expanded(&self, paths: &Paths) -> Self {
        let expanded = |path: &Option<PathBuf>| path.as_deref().map(|path| paths.expand(path));
        Self { cert: expanded(&self.cert), key: expanded(&self.key) }
    }
}

/// An address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub at: SocketAddr,
    /// Whether it is served with TLS: asked for, or because other machines can reach it.
    pub tls: bool,
}

/// Reads an address to listen on.
pub fn address(text: &str) -> Result<Address> {
    let (text_at, asked) = text.strip_prefix("tls://").map_or((text, false), |rest| (rest, true));
    let numeric = text_at
        .strip_prefix("localhost:")
        .map_or_else(|| text_at.to_owned(), |port| format!("127.0.0.1:{port}"));
    let at: SocketAddr = numeric.parse().map_err(|_| {
        invalid(format!(
            "listen: {text:?} is no address; write it like 127.0.0.1:50051, [::1]:50051 or tls://0.0.0.0:8443"
        ))
    })?;
    Ok(Address { at, tls: asked || !at.ip().is_loopback() })
}

/// Returns the addresses of flags, then the others; `none` means only the given ones.
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

/// Whether the last address is the default, and no flag names it.
pub(super) fn ends_with_default(listen: &[String], flags: &[String]) -> bool {
    let mut asked = flags.iter().flat_map(|entry| entry.split(','));
    listen.last().is_some_and(|last| last == DEFAULT)
        && !asked.any(|entry| is_same(Some(entry.trim()), Some(DEFAULT)))
}

/// Whether two texts are the same address, which can be bound only once.
fn is_same(one: Option<&str>, other: Option<&str>) -> bool {
    let read = |text: Option<&str>| text.and_then(|text| address(text).ok());
    one == other || read(one).is_some_and(|address| address.at.port() != 0 && read(other) == Some(address))
}
