//! Starts an agent in the sandbox. The description of its walls is written to the folder of its run, the shim
//! holds the process that builds them, and nothing counts as started before that process reports that the
//! agent runs.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use domain::containment::AgentNetwork;
use domain::{Error, ErrorCode};
use sandbox::agent::{READY, READY_NAME, UNPROTECTED_NAME, WORD, Walls};
use tokio::io::AsyncReadExt;
use tokio::net::UnixListener;

use super::actor::Actor;
use crate::containment::{self, Preparation, Surroundings};
use crate::limits;
use agent_port::ProcessLaunch;

/// The file with the description of the walls, in the folder of a run.
const WALLS_NAME: &str = "walls.json";

/// Longest message about a failure.
const WORD_MAX_BYTES: u64 = 4096;

/// The socket on which the outer process reports its result.
pub(super) struct Doorbell {
    listener: UnixListener,
    /// What would let the next agent of this kind start sooner.
    preparation: Option<Preparation>,
}

impl Actor {
    /// Changes a launch into one inside the sandbox. The doorbell reports when the agent runs.
    pub(super) fn wall_in(
        &self,
        network: AgentNetwork,
        launch: &mut ProcessLaunch,
    ) -> Result<Doorbell, Error> {
        let dir = self.run_dir();
        let around = Surroundings {
            policy: &self.services.containment,
            socket: &self.services.socket,
            own_program: &self.services.shim_program,
        };
        let (walls, preparation) = containment::walls(self.state.machine.spec(), network, launch, &around)?;
        let listener = write(&dir, &walls).map_err(|error| failed(&format!("{}: {error}", dir.display())))?;
        let mut args = vec![WORD.into(), dir.join(WALLS_NAME).into_os_string(), "--".into()];
        args.push(std::mem::take(&mut launch.program).into_os_string());
        args.append(&mut launch.args);
        launch.program.clone_from(&self.services.shim_program);
        launch.args = args;
        Ok(Doorbell { listener, preparation })
    }
}

/// Takes away what an agent in the sandbox left in its project, in case the process that should have done it was killed.
pub(crate) async fn clear_placeholders(dir: &Path) {
    let file = dir.join(WALLS_NAME);
    let cleared = tokio::task::spawn_blocking(move || sandbox::agent::clear_placeholders(&file)).await;
    if let Err(error) = cleared {
        tracing::warn!(dir = %dir.display(), %error, "placeholders may be left in the project");
    }
}

/// Returns why an agent was ended by its own walls, if it was.
pub(super) fn unprotected(dir: &Path) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    File::open(dir.join(UNPROTECTED_NAME)).ok()?.take(WORD_MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text).filter(|text| !text.is_empty())
}

fn write(dir: &Path, walls: &Walls) -> io::Result<UnixListener> {
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(dir.join(WALLS_NAME))?;
    serde_json::to_writer(file, walls)?;
    // Through the folder's descriptor: a socket's path may not be longer than 107 bytes.
    let handle = File::open(dir)?;
    let _ = std::fs::remove_file(dir.join(READY_NAME));
    UnixListener::bind(format!("/proc/self/fd/{}/{READY_NAME}", handle.as_raw_fd()))
}

impl Doorbell {
    /// Waits until the agent runs, or returns why it does not. What is to be prepared for the next one is prepared after that.
    pub(super) async fn wait(self, dir: &Path, own_program: &Path) -> Result<(), Error> {
        let heard = async {
            let (stream, _) = self.listener.accept().await?;
            let mut word = String::new();
            stream.take(WORD_MAX_BYTES).read_to_string(&mut word).await?;
            Ok::<String, io::Error>(word)
        };
        let heard = tokio::time::timeout(limits::WALLS_WAIT, heard).await;
        let _ = std::fs::remove_file(dir.join(READY_NAME));
        match heard {
            Ok(Ok(word)) if word == READY => {
                if let Some(preparation) = self.preparation {
                    tokio::spawn(preparation.make(own_program.to_owned()));
                }
                Ok(())
            }
            Ok(Ok(word)) if word.is_empty() => Err(failed("it ended without a word")),
            Ok(Ok(word)) => Err(failed(&word)),
            Ok(Err(error)) => Err(failed(&error.to_string())),
            Err(_) => Err(failed("it was not ready in time")),
        }
    }
}

fn failed(why: &str) -> Error {
    Error::new(
        ErrorCode::SandboxFailed,
        format!(
            "the agent's sandbox cannot be built, and nothing was started: {why}; `obey doctor` says what is missing"
        ),
    )
}
