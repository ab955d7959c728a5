//! A second, independent client: Python with grpcio and stubs compiled from the published file.

use anyhow::Result;

#[tokio::test]
async fn python_drives_every_call_of_the_subagent_service() -> Result<()> {
    crate::python_client::run("subagents_v1.py", |daemon, world| {
        vec![format!("unix:{}", daemon.socket().display()).into(), world.project().into()]
    })
    .await
}
