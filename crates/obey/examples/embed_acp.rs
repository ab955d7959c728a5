//! A program of one's own that serves the Agent Client Protocol: a store, a supervisor, and the server of one
//! connection on standard input and output.
//!
//! ```sh
//! cargo run -p obey --example embed_acp -- /path/to/data /path/to/obey
//! ```

use std::path::PathBuf;

use anyhow::Context as _;
use domain::ProviderKind;
use runtime::Supervisor;
use runtime::settings::{Settings, SettingsSources};
use runtime::supervisor::SupervisorOptions;
use storage::Store;
use surface_acp::{AcpSessionDefaults, RuntimeConfig};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut words = std::env::args_os().skip(1).map(PathBuf::from);
    let data = words.next().context("the first argument is a folder for the sessions")?;
    // Agents are held by a small process of their own, which is a mode of `obey`.
    let obey = words.next().context("the second argument is the obey program")?;
    let agents_dir = data.join("agents");
    std::fs::create_dir_all(&agents_dir)?;
    let store = Store::open(&data.join("sessions.db"))?;
    let providers =
        providers::all(&providers::ProviderOptions { obey_exe: obey.clone(), ..Default::default() });
    let supervisor = Supervisor::new(SupervisorOptions {
        store: store.clone(),
        providers,
        agents_dir,
        worktrees_dir: data.join("worktrees"),
        offers_tools: false,
        scrubber: None,
        containment: runtime::containment::Policy::default(),
        scrub_events: false,
        shim_program: obey,
        socket: data.join("none.sock"),
        spool_max_bytes: 1 << 30,
        active_sessions_max: 64,
        default_mode: domain::Mode::default(),
        settings: Settings::new(SettingsSources::default()),
    })
    .await?;
    let mut server = surface_acp::start(RuntimeConfig {
        supervisor: supervisor.clone(),
        defaults: AcpSessionDefaults { provider: ProviderKind::Scripted, ..AcpSessionDefaults::default() },
        input: Box::new(tokio::io::stdin()),
        output: Box::new(tokio::io::stdout()),
    })
    .await?;
    tokio::select! {
        // The editor has left.
        () = server.ended() => {}
        _ = tokio::signal::ctrl_c() => server.stop().await?,
    }
    supervisor.stop_all().await;
    store.close();
    // A thread may still wait for standard input.
    std::process::exit(0)
}
