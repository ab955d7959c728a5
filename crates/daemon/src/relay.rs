//! The daemon's end of a relay, made from the configuration.

use std::sync::Arc;

use domain::Error;
use runtime::Supervisor;
use surface::peer::Devices;

use crate::options::ServeOptions;

pub use surface_tunnel::{JoinedRelay, joined};

/// Reads which relay this machine has joined.
pub(super) fn links(
    options: &ServeOptions,
    supervisor: &Supervisor,
    devices: Arc<Devices>,
) -> Result<surface_tunnel::RelayLinks, Error> {
    let supervisor = supervisor.clone();
    surface_tunnel::RelayLinks::load(surface_tunnel::RelayOptions {
        data_dir: options.data_dir.clone(),
        // The configuration was validated when it was loaded; what is unknown is served to nobody.
        plain: surface_tunnel::PlainCalls::parse(&options.config.relay.plain).unwrap_or_default(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        devices,
        active_sessions: Arc::new(move || u32::try_from(supervisor.active_count()).unwrap_or(u32::MAX)),
    })
}
