//! Waits for a signal by which the system or a person ends a program.

use tokio::signal::unix::{SignalKind, signal};

/// Returns the name of the signal once there is one.
pub async fn end_requested() -> &'static str {
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("cannot listen for signals; only a client can end this program");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => "SIGTERM",
        _ = int.recv() => "SIGINT",
    }
}
