//! Notices to browsers in which no page is open: a message for each subscription, through the push service of the browser's
//! maker. It has the name of the session and what is the matter, never a command or a text.

use std::sync::Arc;

use domain::notice::NoticeChange;
use host::clock;
use serde_json::json;
use surface_web::push::{Push, Subscription, message};

use super::{NoticeWay, title};
use crate::limits;

/// The browsers that have subscribed.
pub(super) struct BrowserPush {
    subscriptions: Arc<Push>,
    /// Made with the first push: most people have no subscription.
    client: Option<reqwest::Client>,
}

impl BrowserPush {
    pub(super) fn new(subscriptions: Arc<Push>) -> Self {
        Self { subscriptions, client: None }
    }

    fn client(&mut self) -> Result<reqwest::Client, String> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        // An error means that a provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .timeout(limits::PUSH_WAIT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("obey/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| error.to_string())?;
        Ok(self.client.insert(client).clone())
    }

    async fn send(&mut self, to: &Subscription, text: &str) -> Result<reqwest::StatusCode, String> {
        let key = self.subscriptions.signing_key().map_err(|error| error.to_string())?;
        let authorization =
            key.authorization(&to.endpoint, clock::now()).map_err(|error| error.to_string())?;
        let body = message::seal(to, text.as_bytes()).map_err(|error| error.to_string())?;
        let request = self
            .client()?
            .post(&to.endpoint)
            .header("authorization", authorization)
            .header("content-encoding", "aes128gcm")
            .header("content-type", "application/octet-stream")
            .header("ttl", limits::PUSH_TTL.as_secs().to_string())
            .header("urgency", "high")
            .body(body);
        // The address is a secret of the browser's.
        request.send().await.map(|answer| answer.status()).map_err(|error| error.without_url().to_string())
    }
}

impl NoticeWay for BrowserPush {
    fn name(&self) -> &'static str {
        "push"
    }

    async fn tell(&mut self, change: &NoticeChange) -> Result<(), String> {
        let (notice, is_withdrawn) = match change {
            NoticeChange::Raise(notice) => (notice, false),
            NoticeChange::Withdraw(notice) => (notice, true),
        };
        let text = json!({ "tag": notice.id, "title": title(notice), "session": notice.session_id, "withdrawn": is_withdrawn });
        let text = text.to_string();
        let mut problems = Vec::new();
        for (device, subscription) in self.subscriptions.subscriptions() {
            match self.send(&subscription, &text).await {
                Ok(status) if status.is_success() => {}
                // The browser does not want it any more.
                Ok(status) if [404, 410].contains(&status.as_u16()) => {
                    if let Err(error) = self.subscriptions.unsubscribe(&device) {
                        problems.push(error.to_string());
                    }
                }
                Ok(status) => problems.push(format!("a push service answered {status}")),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
    }
}
