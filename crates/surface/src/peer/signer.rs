//! How what a caller does is signed in the journal, and who may not sign answers. Knows no request and no surface.

use domain::{Error, ErrorCode, Mode};
use http::Extensions;

use super::{Caller, DeviceKind, MayAnswer, Peer, caller};

/// Why a device may not answer, and the remedy.
pub(crate) const KEPT_HERE: &str = "may not answer requests, because its key is kept on this machine, where agents may find it; \
                                    answer in a terminal here, or pair again with: obey device add --role ROLE --same-host";

/// Signs what a device does, for the journal: who it is and from where come first, what the client says of itself after.
/// A page signs with its own name alone. What others sign stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Signer {
    #[default]
    Claimed,
    Device(String),
    /// A device that may not answer requests ([`MayAnswer::KeyIsKeptHere`]).
    DeviceKeptHere(String),
    Page(String),
    /// A program with an API key.
    ApiKey(String),
}

impl Signer {
    /// Returns how whoever sent a request signs.
    pub fn of(extensions: &Extensions) -> Self {
        let device = match caller(extensions) {
            Caller::Device(device) => device,
            Caller::ApiKey(key) => return Self::ApiKey(format!("key {}", key.name)),
            _ => return Self::Claimed,
        };
        if device.kind == DeviceKind::Page {
            return Self::Page(format!("web/{}", device.name));
        }
        let from = extensions.get::<Peer>().and_then(|peer| peer.from);
        let from = from.map_or_else(String::new, |from| format!(" from {}", from.ip().to_canonical()));
        let signature = format!("device {}{from}", device.name);
        match device.answers {
            MayAnswer::Yes => Self::Device(signature),
            MayAnswer::KeyIsKeptHere => Self::DeviceKeptHere(signature),
        }
    }

    pub fn sign(&self, claimed: String) -> String {
        match self {
            Self::Claimed => claimed,
            Self::Page(page) => page.clone(),
            Self::ApiKey(key) if claimed.is_empty() => key.clone(),
            Self::ApiKey(key) => format!("{key} ({claimed})"),
            Self::Device(device) | Self::DeviceKeptHere(device) if claimed.is_empty() => device.clone(),
            Self::Device(device) | Self::DeviceKeptHere(device) => format!("{device} ({claimed})"),
        }
    }

    /// Signs the answer to a request, a grant or a change of the mode. Refuses devices that may give none (OBEY-1002).
    pub fn sign_answer(&self, claimed: String) -> Result<String, Error> {
        self.check_may_answer()?;
        Ok(self.sign(claimed))
    }

    /// Refuses such devices a configuration that says how requests are answered (OBEY-1002).
    pub fn check_configuration<V, S: std::hash::BuildHasher>(
        &self,
        provider_config: &std::collections::HashMap<String, V, S>,
    ) -> Result<(), Error> {
        match provider_config.contains_key(Mode::CONFIG_KEY) {
            true => self.check_may_answer(),
            false => Ok(()),
        }
    }

    /// Refuses devices that may not decide what an agent may do (OBEY-1002).
    pub fn check_may_answer(&self) -> Result<(), Error> {
        let Self::DeviceKeptHere(device) = self else { return Ok(()) };
        Err(Error::new(ErrorCode::NotAllowed, format!("{device} {KEPT_HERE}")))
    }
}
