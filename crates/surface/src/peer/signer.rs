//! How what a caller does is signed in the journal, and who may not sign answers. Knows no request and no surface.

use domain::{Error, ErrorCode, Mode};
use http::Extensions;

use super::{Caller, DeviceKind, MayAnswer, Peer, caller};

/// Why a device may not answer, and the remedy.
pub(crate) const KEPT_HERE: &str = "may neither answer requests nor change what others may do, because its key is kept on this \
                                    machine, where agents may find it; do it in a terminal here, or pair again with: obey device add --role ROLE --same-host";

/// Signs what a device does, for the journal: who it is and from where come first, what the client says of itself after.
/// A page signs with its own name alone. What others sign stays as it is; where they name nobody, it is who calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Signer {
    #[default]
    Unknown,
    /// The daemon's own user.
    User,
    /// Another user of this machine, with the daemon's token.
    Token,
    Agent(String),
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
            Caller::User => return Self::User,
            Caller::Token => return Self::Token,
            Caller::Agent(session) => return Self::Agent(format!("agent of {session}")),
            Caller::Unknown | Caller::Page => return Self::Unknown,
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

    /// Signs with what the client says of itself.
    pub fn sign(&self, claimed: String) -> String {
        match self {
            _ if claimed.is_empty() => self.name(),
            Self::Unknown | Self::User | Self::Token | Self::Agent(_) => claimed,
            Self::Page(page) => page.clone(),
            Self::ApiKey(name) | Self::Device(name) | Self::DeviceKeptHere(name) => {
                format!("{name} ({claimed})")
            }
        }
    }

    /// Signs where the client says nothing of itself: people read who wrote a prompt, not by which interface.
    pub fn name(&self) -> String {
        match self {
            Self::Unknown => "unknown".to_owned(),
            Self::User => host::own_user_name().to_owned(),
            Self::Token => "another user".to_owned(),
            Self::Agent(name)
            | Self::Page(name)
            | Self::ApiKey(name)
            | Self::Device(name)
            | Self::DeviceKeptHere(name) => name.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_calls_is_named_for_people_and_a_page_by_its_device_alone() {
        let person = host::own_user_name();
        for (signer, alone, with_a_name) in [
            (Signer::User, person, "ada"),
            (Signer::Agent("agent of sess_1".to_owned()), "agent of sess_1", "ada"),
            (Signer::Page("web/chrome-linux".to_owned()), "web/chrome-linux", "web/chrome-linux"),
            (Signer::Device("device laptop".to_owned()), "device laptop", "device laptop (ada)"),
            (Signer::ApiKey("key ci".to_owned()), "key ci", "key ci (ada)"),
        ] {
            assert_eq!(signer.name(), alone);
            assert_eq!(signer.sign(String::new()), alone);
            assert_eq!(signer.sign("ada".to_owned()), with_a_name);
        }
    }
}
