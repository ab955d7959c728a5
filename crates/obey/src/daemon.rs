//! The composition root: puts stores, providers and surfaces together and serves them.
//! Must not know the command line; everything it needs is in `ServeOptions`.

use std::net::SocketAddr;
use std::path::Path;

use crate::serve::{Announcer, ServeOptions};

/// Serves until it is told to stop and returns the exit code. Builds its own async runtime: it is called from a
/// plain thread. Calls `options.ready.announce(…)` once every listener accepts connections.
pub(crate) fn serve(options: ServeOptions) -> anyhow::Result<i32> {
    // Names everything the real daemon will use, so that nothing of the seam counts as dead until then.
    let _announce: fn(Announcer, &Path, &[SocketAddr]) -> std::io::Result<()> = Announcer::announce;
    let ServeOptions { config, socket, listen, listen_chosen, data_dir, ready } = options;
    drop((config, listen, listen_chosen, data_dir, ready));
    anyhow::bail!("the daemon is not built in yet (it would listen on {})", socket.display())
}
