//! A second, independent client: Python with grpcio and stubs compiled from our files, and from those as published.

use std::ffi::OsString;

use anyhow::Result;
use e2e::daemon::Daemon;
use e2e::tools;
use e2e::world::World;

fn arguments(daemon: &Daemon, world: &World) -> Vec<OsString> {
    let tcp = daemon.listen().first().map(ToString::to_string).unwrap_or_default();
    vec![tcp.into(), format!("unix:{}", daemon.socket().display()).into(), world.project().into()]
}

#[tokio::test]
async fn python_converses_over_tcp_and_over_the_socket() -> Result<()> {
    crate::python_client::run("betcode_v1.py", arguments).await
}

#[tokio::test]
async fn python_converses_as_it_was_published() -> Result<()> {
    crate::python_client::run("betcode_v1.py", |daemon, world| {
        let published = tools::repository().join("e2e/tests/published/betcode_v1.proto");
        let mut all = arguments(daemon, world);
        all.push(published.into());
        all
    })
    .await
}
