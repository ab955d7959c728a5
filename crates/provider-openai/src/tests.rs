//! What is refused before anything is sent.

use std::path::PathBuf;

use agent_port::InProcessAgent;
use agent_port::toolbox::{SessionTools, ToolOutput, ToolTask, Work};
use domain::event::Attachment;
use domain::{AgentInput, SessionId, State};

use super::*;

struct NoTools;

impl SessionTools for NoTools {
    fn perform(&self, _task: ToolTask) -> Work<ToolOutput> {
        Box::pin(async { Ok(ToolOutput::default()) })
    }
}

impl SessionToolbox for NoTools {
    fn open(&self, _spec: &SessionSpec) -> Arc<dyn SessionTools> {
        Arc::new(NoTools)
    }
}

fn spec(config: &[(&str, &str)]) -> SessionSpec {
    SessionSpec {
        name: "test".to_owned(),
        provider_config: config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        ..SessionSpec::new(SessionId::new("sess_1"), ProviderKind::OpenaiApi, PathBuf::from("/repo"))
    }
}

fn launch(config: &[(&str, &str)], environment: &[(&str, &str)]) -> Result<Box<dyn InProcessAgent>, Error> {
    let spec = spec(config);
    let state = State::new(&spec);
    let environment = environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let request = LaunchRequest {
        spec: &spec,
        state: &state,
        resume: false,
        environment,
        bridge: None,
        past: None,
        given: Vec::new(),
        programs: None,
    };
    match OpenaiApi::new(Some(Arc::new(NoTools))).launch(&request)? {
        LaunchPlan::InProcess(agent) => Ok(agent),
        LaunchPlan::Process(_) => panic!("expected an agent inside the daemon"),
    }
}

#[test]
fn a_missing_key_is_named_unless_the_endpoint_is_ones_own() {
    let error = launch(&[], &[]).err().unwrap();
    assert_eq!(error.code, ErrorCode::ProviderNotReady);
    assert!(error.message.starts_with("OPENAI_API_KEY is not set"), "{error}");
    let error = launch(&[("api_key_env", "MINE")], &[("OPENAI_API_KEY", "x")]).err().unwrap();
    assert_eq!(error.message, "provider_config.api_key_env: MINE is not set");
    assert!(launch(&[("base_url", "http://127.0.0.1:1/v1")], &[]).is_ok());
    assert!(launch(&[], &[("OPENAI_API_KEY", "x")]).is_ok());
    let error = launch(&[], &[("OPENAI_API_KEY", "two\nlines")]).err().unwrap();
    assert!(
        error.message.contains("characters that no key has") && !error.message.contains("two"),
        "{error}"
    );
    let error = launch(&[], &[("OPENAI_BASE_URL", "nowhere"), ("OPENAI_API_KEY", "x")]).err().unwrap();
    assert!(error.message.starts_with("OPENAI_BASE_URL is not an address"), "{error}");
}

#[test]
fn what_cannot_be_sent_is_refused_before_it_is_recorded() {
    let agent = launch(&[], &[("OPENAI_API_KEY", "x")]).unwrap();
    let prompt = |media_type: &str, content: &str| AgentInput::Prompt {
        text: "look".to_owned(),
        attachments: vec![Attachment {
            name: "f".to_owned(),
            media_type: media_type.to_owned(),
            content: content.to_owned(),
        }],
    };
    assert_eq!(agent.check(&prompt("image/png", "aGVsbG8=")), Ok(()));
    assert!(agent.check(&prompt("image/png", "***")).unwrap_err().message.starts_with("attachments: "));
    assert!(agent.check(&prompt("application/zip", "/+8A")).unwrap_err().message.contains("can be sent"));
    assert!(agent.check(&AgentInput::SetModel("a b".to_owned())).is_err());
    let error = agent.check(&AgentInput::SetModel(String::new())).unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidArgument);
    assert!(error.message.starts_with("model: name the model"), "{error}");
    assert_eq!(agent.check(&AgentInput::SetModel("other".to_owned())), Ok(()));
}
