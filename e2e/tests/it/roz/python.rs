//! A second, independent client: Python with grpcio and stubs compiled from the published files.

use anyhow::Result;
use e2e::world::World;

async fn stream(world: Option<World>, provider: &str) -> Result<()> {
    let Some(world) = world else { return Ok(()) };
    crate::python_client::run_in(world, "roz_v1.py", |daemon, world| {
        let tcp = daemon.listen().first().map(ToString::to_string).unwrap_or_default();
        let socket = format!("unix:{}", daemon.socket().display());
        vec![tcp.into(), socket.into(), world.project().into(), provider.into()]
    })
    .await
}

#[tokio::test]
async fn python_streams_sessions_over_tcp_and_over_the_socket() -> Result<()> {
    stream(World::new().map(Some)?, "scripted").await
}

#[tokio::test]
async fn real_claude_python_streams_sessions() -> Result<()> {
    stream(World::with_claude()?, "claude-code").await
}

#[tokio::test]
async fn real_codex_python_streams_sessions() -> Result<()> {
    stream(World::with_codex()?, "codex").await
}

#[tokio::test]
async fn openai_python_streams_sessions() -> Result<()> {
    stream(World::with_openai().map(Some)?, "openai-api").await
}
