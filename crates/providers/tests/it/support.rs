//! Sessions to launch agents for, and helpers shared by the tests.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use agent_port::{Decoded, LaunchPlan, LaunchRequest, ProcessLaunch, Provider};
use domain::{AgentEvent, ProviderKind, SessionId, SessionSpec, State, Timestamp};

/// A session of a provider, in a directory.
pub(crate) fn spec(provider: ProviderKind, working_dir: &Path) -> SessionSpec {
    SessionSpec {
        name: "test".to_owned(),
        ..SessionSpec::new(
            SessionId::new("sess_01JC0000000000000000000001"),
            provider,
            working_dir.to_owned(),
        )
    }
}

/// The state of a session whose agent is being started.
pub(crate) fn starting(spec: &SessionSpec) -> State {
    State { started_at: Some(Timestamp(1_700_000_000_000_000)), ..State::new(spec) }
}

/// Launches, and expects a process.
pub(crate) fn launch(
    provider: &dyn Provider,
    spec: &SessionSpec,
    state: &State,
    environment: Vec<(OsString, OsString)>,
) -> ProcessLaunch {
    let resume = !state.native_session.is_empty();
    match provider
        .launch(&LaunchRequest {
            spec,
            state,
            resume,
            environment,
            bridge: None,
            past: None,
            given: Vec::new(),
            programs: None,
        })
        .unwrap()
    {
        LaunchPlan::Process(process) => *process,
        LaunchPlan::InProcess(_) => panic!("expected a process"),
    }
}

/// Decodes one line.
pub(crate) fn decode(codec: &mut dyn agent_port::Codec, line: &[u8]) -> (Vec<AgentEvent>, Vec<u8>) {
    let mut out = Decoded::default();
    codec.decode(line, &mut out);
    (out.events, out.replies)
}

/// A program that exists, for tests that start none.
pub(crate) fn some_program() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// A folder of recordings that are too large to be kept here, below the one that `OBEY_TEST_RECORDINGS` names.
pub(crate) fn recordings_of(agent: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("OBEY_TEST_RECORDINGS").map(|folder| Path::new(&folder).join(agent));
    let found = folder.filter(|folder| folder.is_dir());
    if found.is_none() {
        eprintln!("SKIPPED: OBEY_TEST_RECORDINGS names no folder with recordings of {agent}");
    }
    found
}
