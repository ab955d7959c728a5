//! Where the program is found, what it is started with and which conversation it resumes.

use std::os::unix::fs::PermissionsExt;

use agent_port::{LaunchPlan, ProcessLaunch, Provider};
use domain::{Error, ErrorCode, Mode, ProviderKind, SessionId, SessionSpec, Timestamp};

use super::super::ClaudeCode;
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
        let program = temp.path().join("bin/claude");
        std::fs::write(&program, "").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let spec = SessionSpec::new(
            SessionId::new("sess_01JC0000000000000000000001"),
            ProviderKind::ClaudeCode,
            temp.path().join("repo"),
        );
        let environment = vec![
            ("PATH".into(), temp.path().join("bin").into_os_string()),
            ("HOME".into(), temp.path().join("home").into_os_string()),
        ];
        Self { temp, spec, environment }
    }

    fn state(&self) -> State {
        State::new(&self.spec)
    }

    fn launch(&self, state: &State) -> Result<ProcessLaunch, Error> {
        let resume = !state.native_session.is_empty();
        let environment = self.environment.clone();
        let request = LaunchRequest {
            spec: &self.spec,
            state,
            resume,
            environment,
            bridge: None,
            past: None,
            given: Vec::new(),
            programs: None,
        };
        match ClaudeCode::new(None).launch(&request)? {
            LaunchPlan::Process(launch) => Ok(*launch),
            LaunchPlan::InProcess(_) => panic!("expected a process"),
        }
    }

    fn args(&self, state: &State) -> Vec<String> {
        let args = self.launch(state).unwrap().args;
        args.into_iter().map(|arg| arg.into_string().unwrap()).collect()
    }

    fn keep_conversation(&self, config_dir: &str, name: &str) {
        let project = self.temp.path().join(config_dir).join("projects/-some-where");
        std::fs::create_dir_all(&project).unwrap();
        std::fs::write(project.join(format!("{name}.jsonl")), "").unwrap();
    }
}

const OURS: &str = "01930000-0000-8000-8000-000000000001";

#[test]
fn the_command_line_is_exact() {
    let mut place = Place::new();
    for (key, value) in [
        ("allowed_tools", "--settings={}"),
        ("disallowed_tools", "Bash(rm:*)"),
        ("max_turns", "7"),
        ("add_dirs", r#"["/a b", "/c"]"#),
        ("strict_mcp", "true"),
        ("mcp_servers", r#"{"s":{"command":"x","env":{"KEY":"hidden"}}}"#),
        ("append_system_prompt", "--print"),
    ] {
        place.spec.provider_config.insert(key.into(), value.into());
    }
    place.spec.model = "opus".into();
    place.spec.mode = Mode::Plan;
    assert_eq!(
        place.args(&place.state()),
        [
            "-p",
            "--input-format=stream-json",
            "--output-format=stream-json",
            "--verbose",
            "--permission-prompt-tool=stdio",
            "--include-partial-messages",
            &format!("--session-id={OURS}"),
            "--permission-mode=plan",
            "--model=opus",
            "--allowedTools=--settings={}",
            "--disallowedTools=Bash(rm:*)",
            "--max-turns=7",
            "--add-dir=/a b",
            "--add-dir=/c",
            "--strict-mcp-config",
        ]
    );
    let mut wire = Vec::new();
    place.launch(&place.state()).unwrap().codec.open(&mut wire);
    let wire = String::from_utf8(wire).unwrap();
    assert!(wire.contains("hidden") && wire.contains("\"--print\""));
}

#[test]
fn a_conversation_is_resumed_only_where_it_exists() {
    let mut place = Place::new();
    let mut state = place.state();
    OURS.clone_into(&mut state.native_session);
    // The agent died before it wrote anything.
    assert!(place.args(&state).contains(&format!("--session-id={OURS}")));
    place.keep_conversation("home/.claude", OURS);
    assert!(place.args(&state).contains(&format!("--resume={OURS}")));
    // Even for a session that does not know it: starting it again would be refused.
    assert!(place.args(&place.state()).contains(&format!("--resume={OURS}")));
    // After the conversation was cleared it has another id.
    let other = "91f77d7c-73cb-4384-ba24-ef23007b83d1";
    other.clone_into(&mut state.native_session);
    place.environment.push(("CLAUDE_CONFIG_DIR".into(), place.temp.path().join("config").into_os_string()));
    assert!(place.args(&state).contains(&format!("--session-id={other}")));
    place.keep_conversation("config", other);
    assert!(place.args(&state).contains(&format!("--resume={other}")));
    "../../etc/passwd".clone_into(&mut state.native_session);
    assert!(place.args(&state).contains(&format!("--session-id={OURS}")));
}

#[test]
fn modes_and_models_of_the_running_session_count() {
    let place = Place::new();
    let mut state = place.state();
    state.mode = Mode::Autonomous;
    "claude-opus-4-5".clone_into(&mut state.model);
    let args = place.args(&state);
    assert!(
        args.contains(&"--permission-mode=default".into())
            && args.contains(&"--model=claude-opus-4-5".into())
    );
    "my gateway's model".clone_into(&mut state.model);
    assert!(!place.args(&state).iter().any(|arg| arg.starts_with("--model")));
}

#[test]
fn marks_of_another_agent_do_not_reach_this_one() {
    let mut place = Place::new();
    for mark in PARENT_MARKS {
        place.environment.push((mark.into(), "x".into()));
    }
    place.environment.push(("ANTHROPIC_API_KEY".into(), "k".into()));
    place.spec.environment.insert("CLAUDE_EFFORT".into(), "x".into());
    let environment = place.launch(&place.state()).unwrap().environment;
    let names: Vec<&str> = environment.iter().map(|(name, _)| name.to_str().unwrap()).collect();
    let defaults = DEFAULT_VARIABLES.map(|(name, _)| name);
    assert_eq!(
        names,
        [&["PATH", "HOME", "CLAUDE_EFFORT", "ANTHROPIC_API_KEY"], defaults.as_slice()].concat()
    );
}

#[test]
fn to_do_tools_are_enabled_unless_the_environment_says_otherwise() {
    let mut place = Place::new();
    let values = |place: &Place| -> Vec<String> {
        let environment = place.launch(&place.state()).unwrap().environment;
        let of_tools = environment.into_iter().filter(|(name, _)| name == "CLAUDE_CODE_ENABLE_TODO_TOOLS");
        of_tools.map(|(_, value)| value.into_string().unwrap()).collect()
    };
    assert_eq!(values(&place), ["1"]);
    place.environment.push(("CLAUDE_CODE_ENABLE_TODO_TOOLS".into(), "0".into()));
    assert_eq!(values(&place), ["0"]);
}

#[test]
fn a_missing_program_says_what_to_install() {
    let mut place = Place::new();
    std::fs::rename(place.temp.path().join("bin"), place.temp.path().join("repo/bin")).unwrap();
    place.environment[0].1 = place.temp.path().join("repo/bin").into_os_string();
    let error = place.launch(&place.state()).err().unwrap();
    assert_eq!(error.code, ErrorCode::CreateFailed);
    assert!(error.message.contains("npm install -g @anthropic-ai/claude-code"), "{error}");
    // A working directory that contains the home folder is no repository.
    place.spec.working_dir = place.temp.path().to_owned();
    assert!(place.launch(&place.state()).is_ok());
}

#[test]
fn no_two_runs_name_a_message_alike() {
    let place = Place::new();
    let name = |state: &State| {
        let request = LaunchRequest {
            spec: &place.spec,
            state,
            resume: false,
            environment: Vec::new(),
            bridge: None,
            past: None,
            given: Vec::new(),
            programs: None,
        };
        codec_state(&request, OURS).expect_end()
    };
    let first = place.state();
    let later = State { started_at: Some(Timestamp(5)), ..first.clone() };
    let restarted = State { restart_count: 1, ..first.clone() };
    let prompted = State { turns: 1, ..first.clone() };
    let names: std::collections::BTreeSet<String> =
        [&first, &later, &restarted, &prompted].map(name).into_iter().collect();
    assert_eq!(names.len(), 4);
}

#[test]
fn the_daemons_own_tools_are_allowed_beside_those_of_the_session() {
    let mut settings = ClaudeSettings::default();
    allow_bridge(&mut settings);
    assert_eq!(settings.allowed_tools, "mcp__obey");
    settings.allowed_tools = "Read,Bash(git log:*)".to_owned();
    allow_bridge(&mut settings);
    assert_eq!(settings.allowed_tools, "Read,Bash(git log:*),mcp__obey");
}
