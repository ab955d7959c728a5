//! Devices whose keys are kept on this machine, where agents may find them.

use client::connection::Client;
use wire::obey::v1 as pb;

use super::Finding;

/// Names every device whose key is kept here; nothing where there is none.
pub(super) async fn examine(client: &Client) -> Option<Finding> {
    let listed = client.devices().list_devices(pb::ListDevicesRequest {}).await.ok()?.into_inner();
    let here: Vec<&pb::Device> = listed.devices.iter().filter(|device| device.key_is_kept_here).collect();
    if here.is_empty() {
        return None;
    }
    let named = |may_answer: bool| {
        let names: Vec<&str> =
            here.iter().filter(|one| one.may_answer == may_answer).map(|one| one.name.as_str()).collect();
        names.join(", ")
    };
    let (answering, silent) = (named(true), named(false));
    if answering.is_empty() {
        let message = format!("kept on this machine, answer no requests: {silent}");
        return Some(Finding::ok("devices", message));
    }
    let message = format!(
        "kept on this machine and may answer requests (--same-host): {answering}; an agent that finds such a key can answer \
         its own requests"
    );
    Some(Finding::warning(
        "devices",
        message,
        "revoke it: obey device revoke NAME; or start agents with --sandbox",
    ))
}
