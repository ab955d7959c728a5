//! What the page needs to know about the daemon: its addresses, the keys of its pages, and the browsers that get notices.

use std::sync::Arc;

use surface::peer::Devices;
use surface::server::{Bound, Listen};
use surface_web::machines::OtherMachines;
use surface_web::push::Push;

use crate::options::ServeOptions;

/// The browsers that are told while no page is open.
pub(crate) fn push(options: &ServeOptions, devices: &Arc<Devices>) -> Arc<Push> {
    let services = options.config.notices.push_services.clone();
    Arc::new(Push::load(options.data_dir.join("push.json"), Arc::clone(devices), services))
}

/// What the page needs to know about this daemon.
pub(crate) fn about(
    bound: &Bound,
    devices: &Arc<Devices>,
    push: &Arc<Push>,
    machines: Arc<dyn OtherMachines>,
) -> surface_web::WebConfig {
    let machine = host::machine::hostname();
    let (mut tcp, mut tls) = (Vec::new(), Vec::new());
    for listen in bound.addresses() {
        match listen {
            Listen::Tcp(address) | Listen::TcpOrNext(address) => tcp.push(address),
            // An address that stands for all of the machine's is reached by its name.
            Listen::Tls(address) if address.ip().is_unspecified() => {
                tls.push(format!("https://{machine}:{}", address.port()));
            }
            Listen::Tls(address) => tls.push(format!("https://{address}")),
            Listen::Unix(_) => {}
        }
    }
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let (devices, push) = (Arc::clone(devices), Arc::clone(push));
    surface_web::WebConfig { version, machine, tcp, tls, devices, push, machines }
}
