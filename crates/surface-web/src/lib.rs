//! The page that people open in a browser: its files, its login, the live stream that it reads and the description of the
//! methods that it calls as JSON. The calls themselves are those of `obey.v1`; nothing is decided here that another client
//! could not have. Must not know other surfaces.

mod assets;
mod codes;
mod documents;
mod event_json;
mod events;
pub mod limits;
mod live;
mod login;
mod machine_calls;
pub mod machines;
mod open_api;
pub mod push;
mod schema;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use runtime::Supervisor;
use surface::peer::Devices;
use tonic::service::Routes;
use wire::obey::v1::page_service_server::PageServiceServer;
use wire::obey::v1::push_service_server::PushServiceServer;

use codes::Codes;
use machines::OtherMachines;
use push::Push;

/// What the surface needs to know about the daemon.
pub struct WebConfig {
    pub version: String,
    /// The name of this machine, for people.
    pub machine: String,
    /// Where pages of this machine find the daemon.
    pub tcp: Vec<SocketAddr>,
    /// Where others find it, over TLS.
    pub tls: Vec<String>,
    pub devices: Arc<Devices>,
    /// Browsers that are told while no page is open.
    pub push: Arc<Push>,
    /// The machines that this one's user paired it with.
    pub machines: Arc<dyn OtherMachines>,
}

/// The services of this surface.
#[derive(Clone)]
pub struct Web {
    supervisor: Supervisor,
    about: Arc<WebConfig>,
    codes: Arc<Codes>,
    push: Arc<Push>,
}

/// Adds the page, its login and its streams to a router.
pub fn routes(routes: Routes, supervisor: Supervisor, about: WebConfig) -> Routes {
    let push = Arc::clone(&about.push);
    let web = Web { supervisor, about: Arc::new(about), codes: Arc::default(), push };
    let routes = routes.add_service(PageServiceServer::new(web.clone()));
    let routes = routes.add_service(PushServiceServer::new(web.clone()));
    let mut pages = Router::new();
    for path in assets::PAGES {
        pages = pages.route(path, get(assets::shell));
    }
    for path in assets::NAMED {
        pages = pages.route(path, get(assets::named));
    }
    let pages = pages
        .route("/assets/{file}", get(assets::hashed))
        .route("/docs/{page}", get(documents::serve))
        .route("/docs/{folder}/{page}", get(documents::serve_below))
        .route("/api/openapi.json", get(open_api::serve))
        .route("/api/live", post(live::serve))
        .route("/api/sessions/{id}/events", get(events::serve))
        .route("/api/machines/{machine}/{service}/{method}", post(machine_calls::call))
        .route("/api/machines/{machine}/sessions/{id}/events", get(machine_calls::events))
        .with_state(web);
    // Pages and gRPC share the port; their paths never overlap.
    Routes::from(routes.into_axum_router().merge(pages))
}
