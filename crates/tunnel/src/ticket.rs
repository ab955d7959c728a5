//! What people copy from one machine to another: the code with which a machine joins a relay, and the line with which a
//! device pairs with a machine. Both hold a secret that works once, and the fingerprint of whom to expect.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::Error;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::limits;

const CODE_PREFIX: &str = "obey-machine.";
const RELAY_PREFIX: &str = "obey-relay.";
const LINE_PREFIX: &str = "obey-device.";

/// With this a machine joins a relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrolmentCode {
    pub url: String,
    /// The key of the relay's authority.
    pub pin: String,
    pub secret: String,
}

/// With this a relay becomes one with another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayCode {
    pub url: String,
    /// The key of the authority that both will have.
    pub pin: String,
    pub secret: String,
}

impl RelayCode {
    pub fn parse(text: &str) -> Result<Self, Error> {
        parse("code", RELAY_PREFIX, text)
    }
}

impl std::fmt::Display for RelayCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write(f, RELAY_PREFIX, self)
    }
}

/// With this a device pairs with a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairingLine {
    pub url: String,
    pub relay_pin: String,
    /// Lets the device reach this machine through the relay, and nothing else.
    pub token: String,
    pub machine: String,
    /// The key of the machine's own authority.
    pub machine_pin: String,
    pub secret: String,
}

impl EnrolmentCode {
    pub fn parse(text: &str) -> Result<Self, Error> {
        parse("code", CODE_PREFIX, text)
    }
}

impl PairingLine {
    pub fn parse(text: &str) -> Result<Self, Error> {
        parse("line", LINE_PREFIX, text)
    }
}

impl std::fmt::Display for EnrolmentCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write(f, CODE_PREFIX, self)
    }
}

impl std::fmt::Display for PairingLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write(f, LINE_PREFIX, self)
    }
}

fn write(f: &mut std::fmt::Formatter<'_>, prefix: &str, ticket: &impl Serialize) -> std::fmt::Result {
    let text = serde_json::to_vec(ticket).map_err(|_| std::fmt::Error)?;
    write!(f, "{prefix}{}", URL_SAFE_NO_PAD.encode(text))
}

fn parse<T: DeserializeOwned>(field: &str, prefix: &str, text: &str) -> Result<T, Error> {
    let text = text.trim();
    let wrong = |problem: &str| {
        Error::invalid(field, format!("{problem}; copy the whole text, which begins with {prefix:?}"))
    };
    let rest = text.strip_prefix(prefix).ok_or_else(|| wrong("is not such a text"))?;
    if rest.len() > limits::TICKET_MAX_BYTES {
        return Err(wrong("is too long"));
    }
    let bytes = URL_SAFE_NO_PAD.decode(rest).map_err(|_| wrong("is damaged"))?;
    serde_json::from_slice(&bytes).map_err(|_| wrong("is damaged or cut off"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_as_it_is_written_and_a_damaged_one_is_refused() {
        let code = EnrolmentCode {
            url: "https://relay.example:7443".to_owned(),
            pin: "ab".to_owned(),
            secret: "cd".to_owned(),
        };
        let text = code.to_string();
        assert_eq!(EnrolmentCode::parse(&format!(" {text}\n")).unwrap(), code);
        for wrong in ["", "x", &text[..text.len() - 3], &text[1..], &format!("{text}!"), "obey-machine.e30"] {
            assert!(EnrolmentCode::parse(wrong).is_err(), "{wrong}");
        }
        assert!(PairingLine::parse(&text).is_err());
    }
}
