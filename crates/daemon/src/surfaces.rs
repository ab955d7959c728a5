//! What each surface must know of the daemon's configuration. Converts; serves nothing.

use std::sync::Arc;

use host::clock;
use surface::peer::Devices;
use surface::server::{Bound, Listen};

use crate::options::ServeOptions;

pub(super) fn about_betcode(
    options: &ServeOptions,
    bound: &Bound,
    forges: forge::Forges,
    leaving: tokio::sync::watch::Receiver<bool>,
) -> surface_betcode::BetcodeConfig {
    // A daemon that was started in no folder in particular has no default; one that may not be used is refused by name.
    let folder = std::env::current_dir().ok().filter(|folder| folder.parent().is_some());
    let port = |listen: &Listen| match listen {
        Listen::Tcp(address) => Some(address.port()),
        Listen::TcpOrNext(_) | Listen::Tls(_) | Listen::Unix(_) => None,
    };
    surface_betcode::BetcodeConfig {
        default_folder: folder,
        forges,
        daemon: surface_betcode::DaemonInfo {
            max_subprocesses: options.config.sessions.max_active,
            socket: options.socket.clone(),
            port: bound.addresses().iter().find_map(port),
            database: options.data_dir.join("daemon.db"),
            log_level: options.config.log_level.clone(),
        },
        leaving,
    }
}

pub(super) fn about_roz(options: &ServeOptions, devices: &Arc<Devices>) -> surface_roz::RozConfig {
    // Empty, or a name that was checked when the configuration was read.
    let default_provider = domain::ProviderKind::parse(&options.config.sessions.default_provider);
    surface_roz::RozConfig { default_provider, started_at: clock::now(), devices: Arc::clone(devices) }
}
