//! A second, independent client: Python with grpcio and stubs compiled from the published files.

use anyhow::Result;

#[tokio::test]
async fn python_streams_sessions_over_tcp_and_over_the_socket() -> Result<()> {
    crate::python_client::run("roz_v1.py", |daemon, world| {
        let tcp = daemon.listen().first().map(ToString::to_string).unwrap_or_default();
        vec![tcp.into(), format!("unix:{}", daemon.socket().display()).into(), world.project().into()]
    })
    .await
}
