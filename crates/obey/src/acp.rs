//! `obey acp`: connects an editor's pipes with sessions. With a daemon it only relays bytes; standalone it is
//! the server itself. Standard output belongs to the protocol; everything else goes to standard error.

mod chosen;
mod playback;
mod relay;
mod standalone;

use std::ffi::OsString;
use std::path::Path;

use tokio::io::{AsyncRead, AsyncWrite};

use chosen::Chosen;
use cli_args::acp::AcpArgs;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;

/// The two ends of a client's pipe.
struct Pipes {
    input: Box<dyn AsyncRead + Send + Unpin>,
    output: Box<dyn AsyncWrite + Send + Unpin>,
}

/// Serves an editor on standard input and output, or plays a transcript.
pub(super) async fn run(console: &mut Console, args: &AcpArgs) -> Result<Exit> {
    start_log(console);
    // From here on Ctrl-C ends the connection, as SIGTERM does.
    console.interrupts.listen();
    let config = console.config()?;
    let chosen = Chosen::of(args, &config.acp, &console.vars)?;
    for problem in &chosen.problems {
        tracing::warn!("{problem}");
    }
    let Some(file) = &args.playback else {
        let pipes = Pipes { input: Box::new(tokio::io::stdin()), output: Box::new(tokio::io::stdout()) };
        return serve(console, chosen, pipes).await;
    };
    let transcript = playback::Transcript::read(file)?;
    let (ours, theirs) = tokio::io::duplex(playback::PIPE_BYTES);
    let (input, output) = tokio::io::split(theirs);
    let playing = tokio::spawn(transcript.play(ours));
    serve(console, chosen, Pipes { input: Box::new(input), output: Box::new(output) }).await?;
    let report = playing.await.map_err(|error| Failure::failed(format!("the playback broke: {error}")))?;
    report.tell(console)
}

async fn serve(console: &mut Console, chosen: Chosen, pipes: Pipes) -> Result<Exit> {
    if chosen.standalone {
        return standalone::run(console, chosen, pipes).await;
    }
    relay::run(console, chosen.open(), pipes, end_signal()).await
}

/// Waits for a signal that ends the process.
async fn end_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let [Ok(mut term), Ok(mut int), Ok(mut hup)] = kinds.map(signal) else {
        tracing::error!("cannot listen for signals");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
        _ = hup.recv() => {}
    }
}

/// Logs to standard error at the level of `RUST_LOG`.
fn start_log(console: &Console) {
    let wanted = console.vars.get("RUST_LOG").and_then(|level| level.to_str()).unwrap_or("warn");
    let filter = tracing_subscriber::EnvFilter::try_new(wanted)
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    // Fails only if a log was already started, which then continues.
    let _started = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
}

/// `obey acp-notify JSON`: run by an agent at the end of a turn. Appends the JSON to the sink that the
/// environment names; prints nothing on success.
pub(crate) fn forward_notification(words: &[OsString]) -> i32 {
    use std::io::Write as _;
    let [event] = words else {
        let _closed = writeln!(std::io::stderr(), "acp-notify takes one JSON argument");
        return Exit::FAILED.0;
    };
    let path = std::env::var_os("ACPLB_NOTIFY_PATH").filter(|path| !path.is_empty());
    let kind = std::env::var("ACPLB_NOTIFY_KIND").unwrap_or_default();
    let forwarded = match (path, surface_acp::NotifyKind::parse(&kind)) {
        (Some(path), Some(kind)) => surface_acp::forward(Path::new(&path), kind, &event.to_string_lossy()),
        _ => Err("ACPLB_NOTIFY_PATH and ACPLB_NOTIFY_KIND must name a sink".to_owned()),
    };
    match forwarded {
        Ok(()) => Exit::OK.0,
        Err(problem) => {
            let _closed = writeln!(std::io::stderr(), "acp-notify: {problem}");
            Exit::FAILED.0
        }
    }
}
