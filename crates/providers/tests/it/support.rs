//! Sessions to launch agents for, and helpers shared by the tests.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use agent_port::{Decoded, LaunchPlan, LaunchRequest, ProcessLaunch, Provider};
use domain::{AgentEvent, LaunchPolicy, Mode, ProviderKind, SessionId, SessionSpec, State, Timestamp};

/// A session of a provider, in a directory.
pub(crate) fn spec(provider: ProviderKind, working_dir: &Path) -> SessionSpec {
    SessionSpec {
        id: SessionId::new("sess_01JC0000000000000000000001"),
        campaign_id: None,
        provider,
        model: String::new(),
        name: "test".to_owned(),
        festival_id: String::new(),
        task_id: String::new(),
        parent: None,
        root: working_dir.to_owned(),
        working_dir: working_dir.to_owned(),
        provider_config: BTreeMap::new(),
        environment: BTreeMap::new(),
        max_tokens: 0,
        timeout: None,
        mode: Mode::Supervised,
        launch: LaunchPolicy::Now,
        upkeep: domain::Timeouts::default(),
        containment: domain::Containment::default(),
        scrub: None,
        created_at: Timestamp(0),
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
        .launch(&LaunchRequest { spec, state, resume, environment, bridge: None, past: None, programs: None })
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
