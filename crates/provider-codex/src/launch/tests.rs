//! Where the program is found and what it is started with.

use std::os::unix::fs::PermissionsExt;

use agent_port::{LaunchPlan, ProcessLaunch, Provider};
use domain::{ProviderKind, SessionId, SessionSpec, State};

use super::super::Codex;
use super::*;

struct Place {
    temp: tempfile::TempDir,
    spec: SessionSpec,
    environment: Vec<(OsString, OsString)>,
}

impl Place {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        for folder in ["bin", "home", "repo"] {
            std::fs::create_dir(temp.path().join(folder)).unwrap();
        }
        let program = temp.path().join("bin/codex");
        std::fs::write(&program, "").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let spec = SessionSpec::new(
            SessionId::new("sess_01JC0000000000000000000001"),
            ProviderKind::Codex,
            temp.path().join("repo"),
        );
        let environment = vec![
            ("PATH".into(), temp.path().join("bin").into_os_string()),
            ("HOME".into(), temp.path().join("home").into_os_string()),
        ];
        Self { temp, spec, environment }
    }

    fn set(&mut self, key: &str, value: &str) {
        self.spec.provider_config.insert(key.to_owned(), value.to_owned());
    }

    fn launch(&self) -> Result<ProcessLaunch, Error> {
        let (state, environment) = (State::new(&self.spec), self.environment.clone());
        let request = LaunchRequest {
            spec: &self.spec,
            state: &state,
            resume: false,
            environment,
            bridge: None,
            past: None,
            given: Vec::new(),
            programs: None,
        };
        match Codex::new(None).launch(&request)? {
            LaunchPlan::Process(process) => Ok(*process),
            LaunchPlan::InProcess(_) => panic!("expected a process"),
        }
    }

    fn args(&self) -> Vec<String> {
        self.launch().unwrap().args.into_iter().map(|arg| arg.into_string().unwrap()).collect()
    }
}

#[test]
fn a_plain_session_is_started_plainly() {
    let place = Place::new();
    let launch = place.launch().unwrap();
    assert_eq!(launch.program, place.temp.path().join("bin/codex"));
    assert_eq!(launch.args, ["app-server"]);
}

#[test]
fn an_endpoint_becomes_a_model_provider() {
    let mut place = Place::new();
    place.set("base_url", "http://127.0.0.1:8000/v1");
    let without_key =
        r#"model_providers.obey={name="obey",base_url="http://127.0.0.1:8000/v1",wire_api="responses"}"#;
    assert_eq!(place.args(), ["app-server", "-c", without_key, "-c", r#"model_provider="obey""#]);
    place.environment.push(("OPENAI_API_KEY".into(), "sk-hush".into()));
    assert!(place.args()[2].ends_with(r#",wire_api="responses",env_key="OPENAI_API_KEY"}"#));
    assert!(!place.args().concat().contains("hush"), "any user can read a command line");
    place.set("api_key_env", "OWN_KEY");
    let error = place.launch().err().unwrap();
    assert_eq!(error.message, "provider_config.api_key_env: OWN_KEY is not set in the agent's environment");
    place.environment.push(("OWN_KEY".into(), "x".into()));
    assert!(place.args()[2].ends_with(r#",env_key="OWN_KEY"}"#));
    place.set("model_provider", "azure");
    assert_eq!(
        place.args()[1..],
        [
            "-c",
            r#"model_providers.azure.base_url="http://127.0.0.1:8000/v1""#,
            "-c",
            r#"model_providers.azure.env_key="OWN_KEY""#,
            "-c",
            r#"model_provider="azure""#,
        ]
    );
    place.spec.provider_config.retain(|key, _| key == "model_provider");
    assert_eq!(place.args(), ["app-server", "-c", r#"model_provider="azure""#]);
}

#[test]
fn nothing_secret_is_on_the_command_line() {
    let mut place = Place::new();
    place.set("mcp_servers", r#"{"a":{"command":"x","env":{"KEY":"hush"}}}"#);
    place.set("append_system_prompt", "hush");
    assert_eq!(place.args(), ["app-server"]);
}

#[test]
fn marks_of_another_agent_do_not_reach_this_one() {
    let mut place = Place::new();
    for mark in PARENT_MARKS {
        place.environment.push((mark.into(), "x".into()));
    }
    place.environment.push(("CODEX_HOME".into(), place.temp.path().into()));
    place.environment.push(("NO_COLOR".into(), "0".into()));
    place.environment.push(("RUST_LIB_BACKTRACE".into(), "full".into()));
    place.spec.environment.insert("CODEX_THREAD_ID".into(), "x".into());
    place.spec.environment.insert("NO_COLOR".into(), "0".into());
    let environment = place.launch().unwrap().environment;
    let names: Vec<&str> = environment.iter().map(|(name, _)| name.to_str().unwrap()).collect();
    assert_eq!(names, ["PATH", "HOME", "CODEX_THREAD_ID", "CODEX_HOME", "NO_COLOR", "RUST_LIB_BACKTRACE"]);
    assert_eq!(variable(&environment, "RUST_LIB_BACKTRACE").unwrap(), "0");
    assert_eq!(variable(&environment, "NO_COLOR").unwrap(), "0");
}

#[test]
fn what_is_missing_is_said_before_anything_starts() {
    let mut place = Place::new();
    place.environment.push(("CODEX_HOME".into(), place.temp.path().join("absent").into()));
    let error = place.launch().err().unwrap();
    assert_eq!(error.code, ErrorCode::CreateFailed);
    assert!(error.message.contains("absent, which is not a folder; create it or leave CODEX_HOME unset"));
    place.environment.pop();
    std::fs::remove_file(place.temp.path().join("bin/codex")).unwrap();
    let error = place.launch().err().unwrap();
    assert_eq!(error.code, ErrorCode::CreateFailed);
    assert!(error.message.contains("npm install -g @openai/codex"), "{error}");
    place.set("sandbox", "none");
    assert!(place.launch().err().unwrap().message.starts_with("provider_config.sandbox:"));
}

#[test]
fn only_a_model_that_somebody_asked_for_is_insisted_on() {
    let mut place = Place::new();
    let mut state = State::new(&place.spec);
    let known = |place: &Place, state: &State| {
        let request = LaunchRequest {
            spec: &place.spec,
            state,
            resume: true,
            environment: Vec::new(),
            bridge: None,
            past: None,
            given: Vec::new(),
            programs: None,
        };
        codec_state(&request)
    };
    // The model the agent reported last time.
    state.model = "gpt-5.5".into();
    let codec_state = known(&place, &state);
    assert_eq!((codec_state.asked_model.as_str(), codec_state.model_is_wanted), ("gpt-5.5", false));
    place.spec.model = "gpt-5.5".into();
    assert!(known(&place, &state).model_is_wanted);
}
