//! Web Push: which browsers get notices while no page is open. A subscription belongs to the key of a page and is removed
//! with it. Does not decide what a notice says, and does not send it.

pub mod message;
mod service;

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use domain::{Error, ErrorCode};
use serde::{Deserialize, Serialize};
use surface::peer::Devices;

use crate::limits;
use message::SigningKey;

/// Hosts of the push services of browsers, to which anybody may subscribe; a dot stands for every name below.
const SERVICES: &[&str] =
    &["fcm.googleapis.com", "updates.push.services.mozilla.com", ".push.apple.com", ".notify.windows.com"];

/// Where one browser takes messages, and how they are sealed for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscription {
    pub endpoint: String,
    /// In base64url, as the browser gave them.
    pub p256dh: String,
    pub auth: String,
}

/// The subscriptions, in one file that only the daemon reads.
pub struct Push {
    path: PathBuf,
    devices: Arc<Devices>,
    /// Addresses that may be subscribed to beside those of the known services.
    services: Vec<String>,
    kept: Mutex<Kept>,
}

/// The file.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Kept {
    /// The daemon's own key, PKCS#8 in base64url; made with the first use.
    key: String,
    /// By the id of the page's key.
    subscriptions: BTreeMap<String, Subscription>,
}

impl Push {
    /// Reads the file; one that is missing or cannot be read is begun anew, and browsers subscribe again.
    pub fn load(path: PathBuf, devices: Arc<Devices>, services: Vec<String>) -> Self {
        let kept = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                tracing::warn!(%error, path = %path.display(), "the push subscriptions cannot be read");
                Kept::default()
            }),
            Err(_) => Kept::default(),
        };
        Self { path, devices, services, kept: Mutex::new(kept) }
    }

    /// Returns the key that signs what is pushed. Made once and kept.
    pub fn signing_key(&self) -> Result<SigningKey, Error> {
        let mut kept = self.locked();
        if let Ok(pkcs8) = BASE64_URL_SAFE_NO_PAD.decode(&kept.key)
            && let Ok(key) = SigningKey::parse(&pkcs8)
        {
            return Ok(key);
        }
        let pkcs8 = SigningKey::generate()?;
        kept.key = BASE64_URL_SAFE_NO_PAD.encode(&pkcs8);
        // Subscriptions were made for the other key.
        kept.subscriptions.clear();
        self.write(&kept)?;
        SigningKey::parse(&pkcs8)
    }

    /// Returns who is told: subscriptions whose key still works.
    pub fn subscriptions(&self) -> Vec<(String, Subscription)> {
        let all = self.locked();
        let is_known = |id: &str| self.devices.list().iter().any(|device| device.id == id);
        all.subscriptions
            .iter()
            .filter(|(id, _)| is_known(id))
            .map(|(id, one)| (id.clone(), one.clone()))
            .collect()
    }

    fn subscribe(&self, device: &str, subscription: Subscription) -> Result<(), Error> {
        self.check(&subscription)?;
        let mut kept = self.locked();
        let devices = self.devices.list();
        kept.subscriptions.retain(|id, _| devices.iter().any(|known| known.id == *id));
        kept.subscriptions.insert(device.to_owned(), subscription);
        self.devices.keep_unused_page(device);
        self.write(&kept)
    }

    /// Forgets a subscription: its browser, or the push service, wants no more. Returns whether there was one.
    pub fn unsubscribe(&self, device: &str) -> Result<bool, Error> {
        let mut kept = self.locked();
        let removed = kept.subscriptions.remove(device).is_some();
        if removed {
            self.write(&kept)?;
        }
        Ok(removed)
    }

    fn check(&self, subscription: &Subscription) -> Result<(), Error> {
        if subscription.endpoint.len() > limits::PUSH_ENDPOINT_MAX {
            return Err(Error::invalid("endpoint", "is too long"));
        }
        if !self.accepts(&subscription.endpoint) {
            return Err(Error::invalid(
                "endpoint",
                "is of no push service that is known; notices.push_services in the configuration allows others",
            ));
        }
        message::check_keys(subscription)
    }

    /// Whether the daemon may be made to send to an address: the services of browsers, and what the user allows.
    fn accepts(&self, endpoint: &str) -> bool {
        if self.services.iter().any(|service| endpoint.starts_with(service.as_str())) {
            return true;
        }
        let Ok(uri) = endpoint.parse::<http::Uri>() else { return false };
        let host = uri.host().unwrap_or_default();
        uri.scheme_str() == Some("https")
            && uri.port().is_none()
            && !endpoint.contains('@')
            && SERVICES.iter().any(|service| match service.strip_prefix('.') {
                Some(_) => host.ends_with(service),
                None => host == *service,
            })
    }

    fn write(&self, kept: &Kept) -> Result<(), Error> {
        let written = serde_json::to_vec(kept).map_err(io::Error::other).and_then(|bytes| {
            let draft = self.path.with_extension("new");
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            std::fs::rename(&draft, &self.path)
        });
        written.map_err(|error| {
            Error::new(ErrorCode::StorageFailed, "the push subscriptions cannot be written")
                .with_detail(error.to_string())
        })
    }

    fn locked(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(folder: &tempfile::TempDir) -> Push {
        let devices = Arc::new(Devices::load(folder.path().join("devices.json")).unwrap());
        Push::load(folder.path().join("push.json"), devices, vec!["http://127.0.0.1:9/".to_owned()])
    }

    #[test]
    fn only_known_services_and_those_of_the_configuration_are_sent_to() {
        let folder = tempfile::tempdir().unwrap();
        let push = push(&folder);
        for good in [
            "https://fcm.googleapis.com/fcm/send/x",
            "https://web.push.apple.com/x",
            "https://wns2-am3p.notify.windows.com/w/?token=x",
            "https://updates.push.services.mozilla.com/wpush/v2/x",
            "http://127.0.0.1:9/x",
        ] {
            assert!(push.accepts(good), "{good}");
        }
        for bad in [
            "http://fcm.googleapis.com/x",
            "https://fcm.googleapis.com:8443/x",
            "https://fcm.googleapis.com@evil.example/x",
            "https://evil.example/fcm.googleapis.com",
            "https://xpush.apple.com.evil.example/",
            "http://127.0.0.1:50051/x",
            "http://169.254.169.254/",
            "",
        ] {
            assert!(!push.accepts(bad), "{bad}");
        }
    }

    #[test]
    fn a_subscription_is_kept_and_dies_with_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let push = push(&folder);
        let (page, _) = push
            .devices
            .add_page("phone", surface::peer::Role::Operator, surface::peer::KeyPlace::HereAllowed)
            .unwrap();
        let key = push.signing_key().unwrap().public_key();
        let subscription = Subscription {
            endpoint: "http://127.0.0.1:9/x".to_owned(),
            p256dh: key.clone(),
            auth: "AAAAAAAAAAAAAAAAAAAAAA".to_owned(),
        };
        push.subscribe(&page.id, subscription.clone()).unwrap();
        let ends_at = push.devices.list()[0].expires_at;
        let weeks = std::time::Duration::from_secs(14 * 24 * 3600);
        assert!(
            ends_at > Some(page.added_at.after(weeks)),
            "it is told of sessions while nobody has it open"
        );
        let again = Push::load(folder.path().join("push.json"), Arc::clone(&push.devices), Vec::new());
        assert_eq!(again.subscriptions(), [(page.id.clone(), subscription)]);
        assert_eq!(again.signing_key().unwrap().public_key(), key);
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(folder.path().join("push.json")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        push.devices.revoke(&page.id).unwrap();
        assert!(again.subscriptions().is_empty());
        assert!(again.unsubscribe(&page.id).unwrap() && !again.unsubscribe(&page.id).unwrap());
    }
}
